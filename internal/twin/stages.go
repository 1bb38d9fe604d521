package twin

import "fmt"

// StageCosts is what a request's way around one engine takes, in ns. The zero
// value takes no time and keeps nobody busy.
//
// A request is taken in and its prompt turned into tokens, then the engine works
// on it; what a step makes is turned into text and sent; when its answer is whole,
// a guardrail may look at it before its end is sent. The API process does the
// first and the third, one thing at a time and in order of arrival, as vLLM's
// does, unless there are tokenizers beside it.
type StageCosts struct {
	// Request and PromptToken are what taking in a request keeps its tokenizer busy.
	Request, PromptToken float64
	// Tokenizers is the number of tokenizers beside the API process; 0 leaves the
	// work to the API process.
	Tokenizers int
	// Latency is what the way in takes besides, keeping nobody busy.
	Latency float64
	// OutputToken is what each token that a step made keeps the API process busy. The
	// tokens of a step are sent together.
	OutputToken float64
	// Guards is the number of guardrail workers, 0 for no guardrail. GuardRequest and
	// GuardToken (of the answer) are what an answer keeps one busy.
	Guards                   int
	GuardRequest, GuardToken float64
}

// Stages returns what the way around the engine takes by its profile. There is no
// guardrail.
func (e *EngineProfile) Stages() StageCosts {
	const us = 1e3
	return StageCosts{
		Request: e.APIRequestUS.V * us, PromptToken: e.TokenizeUS.V * us, Latency: e.APILatencyUS.V * us, OutputToken: e.DetokenizeUS.V * us,
	}
}

// check refuses costs that make no sense.
func (c *StageCosts) check() error {
	for _, f := range []struct {
		name string
		v    float64
	}{
		{"request", c.Request},
		{"prompt token", c.PromptToken},
		{"latency", c.Latency},
		{"output token", c.OutputToken},
		{"guard request", c.GuardRequest},
		{"guard token", c.GuardToken},
	} {
		if !(f.v >= 0 && f.v <= 1e15) {
			return fmt.Errorf("cost of a stage: %s %v ns: want 0 to 1e15", f.name, f.v)
		}
	}
	if c.Tokenizers < 0 || c.Tokenizers > maxWorkers || c.Guards < 0 || c.Guards > maxWorkers {
		return fmt.Errorf("tokenizers %d and guards %d: want 0 to %d", c.Tokenizers, c.Guards, maxWorkers)
	}
	return nil
}

// maxWorkers bounds the workers of a stage.
const maxWorkers = 4096

// station is a row of equal workers with one queue, first come, first served. It
// has no clock: who asks says when, in order of time.
type station struct {
	free []float64 // when each worker is free, a heap
}

func newStation(workers int) station { return station{make([]float64, workers)} }

// arrive queues a job that keeps a worker busy for cost, and returns when it is
// done.
func (s *station) arrive(now, cost float64) (done float64) {
	done = max(now, s.free[0]) + cost
	i := 0
	for {
		c := 2*i + 1
		if c >= len(s.free) {
			break
		}
		if c+1 < len(s.free) && s.free[c+1] < s.free[c] {
			c++
		}
		if s.free[c] >= done {
			break
		}
		s.free[i] = s.free[c]
		i = c
	}
	s.free[i] = done
	return done
}

// desk is the way around one engine: everything of its replica that is not the
// engine.
type desk struct {
	costs      StageCosts
	api        float64 // when the API process is free
	tokenizers station
	guards     station
}

func newDesk(c StageCosts) desk {
	return desk{costs: c, tokenizers: newStation(c.Tokenizers), guards: newStation(c.Guards)}
}

// none is true when the way around the engine takes no time.
func (d *desk) none() bool { return d.costs == StageCosts{} }

// enter takes a request in at an instant and returns when the engine gets it.
func (d *desk) enter(now float64, prompt int) float64 {
	cost := d.costs.Request + d.costs.PromptToken*float64(prompt)
	if d.costs.Tokenizers > 0 {
		return d.tokenizers.arrive(now, cost) + d.costs.Latency
	}
	d.api = max(d.api, now) + cost
	return d.api + d.costs.Latency
}

// step takes the tokens of a step that ended at an instant and returns when they
// are sent.
func (d *desk) step(end float64, tokens int) float64 {
	if d.costs.OutputToken == 0 || tokens == 0 {
		return end
	}
	d.api = max(d.api, end) + d.costs.OutputToken*float64(tokens)
	return d.api
}

// leave takes an answer whose last token was sent at an instant and returns when
// its end is sent.
func (d *desk) leave(now float64, output int) float64 {
	if d.costs.Guards == 0 {
		return now
	}
	return d.guards.arrive(now, d.costs.GuardRequest+d.costs.GuardToken*float64(output))
}
