package conduct

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"plimsoll/internal/load"
	"plimsoll/internal/message"
	"plimsoll/internal/record"
	"plimsoll/internal/run"
	"plimsoll/internal/scenario"
	"plimsoll/internal/stats"
	"plimsoll/internal/workload"
	"plimsoll/internal/workload/content"
	"plimsoll/internal/workload/trace"
)

// crowd is who the users of a run are, and what makes the text of what they say.
type crowd struct {
	workload.Population
	renderer message.Renderer
	text     *content.Renderer
	replay   *replay // nil when nothing is replayed
}

// newCrowd makes the users that a scenario describes; counter is the model's
// tokenizer, nil without one.
func newCrowd(s *scenario.Scenario, src *sources, counter record.Counter) (*crowd, error) {
	text := new(content.Renderer)
	if t, ok := counter.(content.Tokenizer); ok {
		text.Tokenizer = t
	}
	c, err := gather(s, src, text, counter)
	text.Files = src.files
	return c, err
}

// gather makes the users, whose text is made by text.
func gather(s *scenario.Scenario, src *sources, text *content.Renderer, counter record.Counter) (*crowd, error) {
	c := &crowd{renderer: text, text: text}
	var err error
	if c.replay, err = newReplay(s, src, counter); err != nil {
		return nil, err
	}
	if c.replay != nil {
		r := &trace.Renderer{Inner: text}
		if text.Tokenizer != nil {
			r.Cut = text.Tokenizer.Cut
		}
		c.Population, c.renderer = c.replay, r
		return c, nil
	}
	synthetic, err := workload.NewSynthetic(s.Seed, &s.Users, s.Target.IgnoreEOS)
	if err != nil {
		return nil, fmt.Errorf("users.%w", err)
	}
	if len(s.Users.Workload) == 0 {
		c.Population = synthetic
		if text.Tokenizer == nil && s.Users.Lengths != scenario.LengthsExact {
			c.renderer = workload.Words{}
		}
		return c, nil
	}
	if len(s.Load.Steps) > 0 && len(s.Users.Workload) == 1 && s.Users.Workload[0].Name != scenario.Synthetic {
		l, err := newLadder(s, src)
		if err != nil {
			return nil, err
		}
		c.Population = l
		return c, nil
	}
	var parts []workload.Population
	var weights []float64
	for _, w := range s.Users.Workload {
		weights = append(weights, w.Weight)
		if w.Name == scenario.Synthetic {
			parts = append(parts, synthetic)
			continue
		}
		f, err := openWorkload(w.Name, src)
		if err != nil {
			return nil, fmt.Errorf("users.workload: %w", err)
		}
		parts = append(parts, workload.NewSessions(s.Seed, f))
	}
	if len(s.Load.Workloads) > 0 {
		users := make([]int, 0, len(parts))
		for _, w := range s.Load.Workloads {
			users = append(users, w.Users)
		}
		if c.Population, err = workload.NewParallel(parts, users); err != nil {
			return nil, fmt.Errorf("load.workloads: %w", err)
		}
		return c, nil
	}
	if len(parts) == 1 {
		c.Population = parts[0]
		return c, nil
	}
	if c.Population, err = workload.NewMix(s.Seed, parts, weights); err != nil {
		return nil, fmt.Errorf("users.workload: %w", err)
	}
	return c, nil
}

// openWorkload returns a workload of the library, or of a file, with settings.
func openWorkload(name string, src *sources, settings ...scenario.Setting) (*workload.File, error) {
	var f *workload.File
	var err error
	if src.readFile == nil || !workload.IsFile(name) {
		f, err = workload.Lookup(name, settings...)
	} else {
		f, err = workload.Open(name, src.readFile, func(generator string) error { return src.check(generator, filepath.Dir(name)) }, settings...)
	}
	if err != nil {
		return nil, err
	}
	if q := f.Retrieval; q != nil && q.URL != "" && !slices.Contains(src.searches, q.URL) {
		src.searches = append(src.searches, q.URL)
	}
	return f, nil
}

// serviceLevels adds the workloads of a scenario, its limits and theirs.
func serviceLevels(in *stats.Input, s *scenario.Scenario, src *sources) error {
	in.Limits, in.WorkloadsCount = s.Guards.Limits()
	in.Workloads = map[string]stats.WorkloadLimits{}
	names := make([]string, 0, len(s.Users.Workload))
	for _, w := range s.Users.Workload {
		names = append(names, w.Name)
	}
	for _, st := range s.Load.Steps {
		for _, p := range st.Parts {
			names = append(names, p.Workload)
		}
	}
	named := func(name string) {
		if !slices.Contains(in.Named, name) {
			in.Named = append(in.Named, name)
		}
	}
	for _, name := range names {
		if name == "" {
			continue
		}
		if name == scenario.Synthetic {
			named(name)
			continue
		}
		f, err := openWorkload(name, src)
		if err != nil {
			return err
		}
		named(f.Name)
		w := stats.WorkloadLimits{All: f.SLO.All, First: f.SLO.First, Later: f.SLO.Later, WithRetrieval: f.SLO.WithRetrieval}
		if len(w.All)+len(w.First)+len(w.Later) > 0 {
			in.Workloads[f.Name] = w
		}
	}
	if in.WorkloadsCount && len(in.Workloads) == 0 {
		return fmt.Errorf("guards.slo: %s stands for the limits that come with the workloads, and none of this run has any: give limits, as in ttft.p95=500ms", scenario.OfWorkloads)
	}
	return nil
}

// steps are the levels of load of a scenario, in order.
func (c *crowd) steps(s *scenario.Scenario) []load.Step {
	if c.replay != nil && c.replay.times != nil {
		return []load.Step{c.replay.step(load.Step{Warmup: s.Load.Warmup, Drain: s.Load.Drain})}
	}
	return steps(s)
}

// first returns what makes the i-th of the machines that a plan looks at: of workloads
// with users or rates of their own, one of each in turn.
func (c *crowd) first(s *scenario.Scenario) func(i uint64) workload.Machine {
	parts := s.Load.Workloads
	if len(parts) == 0 {
		return func(i uint64) workload.Machine { return c.Session(0, i) }
	}
	// Of each part: its first user, or which of the streams it is.
	at := make([]int, len(parts))
	users, streams := 0, 0
	for i, w := range parts {
		if w.Users > 0 {
			at[i], users = users, users+w.Users
		} else {
			at[i], streams = streams, streams+1
		}
	}
	return func(i uint64) workload.Machine {
		j, n := i%uint64(len(parts)), i/uint64(len(parts))
		if u := parts[j].Users; u > 0 {
			return c.User(0, uint32(at[j])+uint32(n%uint64(u)))
		}
		return c.Session(0, workload.StreamNumber(at[j], n))
	}
}

// planned is what run.json says of what is replayed before it is; nil for nothing.
func (c *crowd) planned() *run.Replay {
	if c.replay == nil {
		return nil
	}
	return &c.replay.info
}

// scenarioError makes an error of a scenario a UsageError, unless the user ended the reading
// of its files.
func scenarioError(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return &UsageError{Err: err}
}

// fits holds what users send against the context that the server states of the model, as
// far as that is known: it refuses a trace with a request that is longer, or leaves it
// out, and a workload of which nothing fits, and returns notes of what may be too long.
func (c *crowd) fits(s *scenario.Scenario, steps int, f *Facts) ([]string, error) {
	for _, m := range f.Models {
		if m.ID != s.Target.Model || m.MaxContext == nil || *m.MaxContext <= 0 {
			continue
		}
		if c.replay != nil {
			return nil, c.replay.fit(s, int(*m.MaxContext), false)
		}
		return c.room(s, steps, int(*m.MaxContext), fmt.Sprintf("the context of %s is %d tokens, as its server says", m.ID, *m.MaxContext))
	}
	return nil, nil
}
