package cli

import (
	"fmt"
	"time"

	"plimsoll/internal/twin"
)

// stageFlags say what the way around each engine of the twin takes, where that is
// not what the engine's profile says.
type stageFlags struct {
	NoStages       bool           `name:"no-stages" group:"cluster" help:"The way around the engine takes no time, but for what the next flags say."`
	Tokenization   *time.Duration `name:"tokenization" placeholder:"D" group:"cluster" help:"What each token of a prompt takes to be made, as 1us; the engine's default."`
	Tokenizers     int            `name:"tokenizers" placeholder:"N" group:"cluster" help:"Tokenizers beside the API process of each replica (default 0: it does that itself)."`
	Detokenization *time.Duration `name:"detokenization" placeholder:"D" group:"cluster" help:"What each token of an answer takes to be sent, as 46us; the engine's default."`
	Guardrail      time.Duration  `name:"guardrail" placeholder:"D" group:"cluster" help:"What a look at a whole answer takes before its end is sent, as 50ms (default none)."`
	Guards         int            `name:"guards" placeholder:"N" group:"cluster" help:"Workers of the guardrail of each replica, one answer at a time each (default 1)."`
}

// costs returns what the flags say of a named engine, whose steps are fixed when
// step is above 0; nil leaves it to the engine's profile.
func (f *stageFlags) costs(engine string, step time.Duration) (*twin.StageCosts, error) {
	if *f == (stageFlags{}) {
		return nil, nil
	}
	for _, d := range []struct {
		name string
		d    *time.Duration
	}{{"tokenization", f.Tokenization}, {"detokenization", f.Detokenization}, {"guardrail", &f.Guardrail}} {
		if d.d != nil && (*d.d < 0 || *d.d > maxStage) {
			return nil, fmt.Errorf("--%s %v: want 0 to %v", d.name, *d.d, maxStage)
		}
	}
	if f.Guards < 0 {
		return nil, fmt.Errorf("--guards %d: want at least 1", f.Guards)
	}
	if f.Guards > 0 && f.Guardrail == 0 {
		return nil, fmt.Errorf("--guards %d: want --guardrail, too: without it there is nothing to do", f.Guards)
	}
	var c twin.StageCosts
	if !f.NoStages && step == 0 {
		e, err := twin.Builtin().Engine(engine)
		if err != nil {
			return nil, err
		}
		c = e.Stages()
	}
	if f.Tokenization != nil {
		c.PromptToken = float64(*f.Tokenization)
	}
	c.Tokenizers = f.Tokenizers
	if f.Detokenization != nil {
		c.OutputToken = float64(*f.Detokenization)
	}
	if f.Guardrail > 0 {
		c.Guards, c.GuardRequest = max(f.Guards, 1), float64(f.Guardrail)
	}
	return &c, nil
}

// maxStage bounds what one look of a stage takes.
const maxStage = time.Hour
