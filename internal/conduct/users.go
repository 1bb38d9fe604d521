package conduct

import (
	"fmt"
	"strings"

	"plimsoll/internal/message"
	"plimsoll/internal/record"
	"plimsoll/internal/scenario"
	"plimsoll/internal/stats"
	"plimsoll/internal/workload"
	"plimsoll/internal/workload/content"
)

// crowd is who the users of a run are, and what makes the text of what they say.
type crowd struct {
	workload.Population
	renderer message.Renderer
}

// newCrowd makes the users that a scenario describes. ReadFile reads the workloads
// that are files, nil when there can be none; counter is the model's tokenizer, nil
// without one.
func newCrowd(s *scenario.Scenario, readFile func(string) ([]byte, error), counter record.Counter) (*crowd, error) {
	synthetic, err := workload.NewSynthetic(s.Seed, &s.Users, s.Target.IgnoreEOS)
	if err != nil {
		return nil, fmt.Errorf("make the users: %w", err)
	}
	c := &crowd{Population: synthetic, renderer: workload.Words{}}
	if len(s.Users.Workload) == 0 {
		return c, nil
	}
	text := new(content.Renderer)
	if t, ok := counter.(content.Tokenizer); ok {
		text.Tokenizer = t
	}
	c.renderer = text
	if len(s.Load.Steps) > 0 && len(s.Users.Workload) == 1 && s.Users.Workload[0].Name != scenario.Synthetic {
		l, err := newLadder(s, readFile)
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
		f, err := openWorkload(w.Name, readFile)
		if err != nil {
			return nil, fmt.Errorf("users.workload: %w", err)
		}
		parts = append(parts, workload.NewSessions(s.Seed, f))
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
func openWorkload(name string, readFile func(string) ([]byte, error), settings ...scenario.Setting) (*workload.File, error) {
	if readFile == nil || !strings.HasSuffix(name, ".yaml") && !strings.HasSuffix(name, ".yml") {
		return workload.Lookup(name, settings...)
	}
	data, err := readFile(name)
	if err != nil {
		return nil, fmt.Errorf("read workload: %w", err)
	}
	return workload.Read(name, data, &workload.Around{ReadFile: readFile}, settings...)
}

// serviceLevels adds the limits of a scenario and of its workloads.
func serviceLevels(in *stats.Input, s *scenario.Scenario, readFile func(string) ([]byte, error)) error {
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
	for _, name := range names {
		if name == "" || name == scenario.Synthetic {
			continue
		}
		f, err := openWorkload(name, readFile)
		if err != nil {
			return err
		}
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

// sessions says whether the users of a scenario have sessions of several requests,
// so that how many requests there will be depends on what the seed draws.
func sessions(s *scenario.Scenario) bool { return len(s.Users.Workload) > 0 }
