package conduct

import (
	"fmt"
	"path"

	"plimsoll/internal/scenario"
	"plimsoll/internal/twin"
)

// precisionBytes are the bytes of one weight, scales left out: a floor needs no more.
var precisionBytes = map[string]float64{"": 2, "bf16": 2, "fp8": 1, "fp4": 0.5}

// checkHardware looks up the declared GPU.
func checkHardware(s *scenario.Scenario) (*twin.GPU, error) {
	h := &s.Target.Hardware
	if h.GPU == "" {
		return nil, nil
	}
	g, err := twin.Builtin().GPU(h.GPU)
	if err != nil {
		return nil, fmt.Errorf("target.hardware: %w", err)
	}
	return g, nil
}

// TPOTFloor returns the time in ms that the declared GPUs need to read the weights
// that one token is multiplied with, each its own part: no step is shorter. Nil when
// nothing is declared or the served model is not in the catalogue.
func TPOTFloor(s *scenario.Scenario) *float64 {
	g, err := checkHardware(s)
	if g == nil || err != nil || g.Bandwidth.V <= 0 {
		return nil
	}
	// The name is the server's, which often is a path of its own: no file is opened for it.
	name := path.Base(s.Target.Model)
	if ext := path.Ext(name); ext == ".json" || ext == ".yaml" || ext == ".yml" {
		return nil
	}
	m, err := twin.Builtin().Model(name)
	if err != nil {
		return nil
	}
	bytes := m.ActiveParams() * precisionBytes[s.Target.Hardware.Precision]
	ms := 1e3 * bytes / float64(s.Target.Hardware.GPUs) / (g.Bandwidth.V * 1e12)
	return &ms
}

// DeclareTwin says in a scenario what a simulated replica runs on, as a user would of a
// server, where the scenario does not and the catalogue has it. The devices are those that
// share each layer: those of a pipeline work one after another. The error is that of the
// cluster.
func DeclareTwin(s *scenario.Scenario, cfg twin.ClusterConfig) error {
	c, err := twin.NewCluster(cfg)
	if err != nil {
		return err
	}
	s.Target.Model = c.Model.Name
	if s.Target.Hardware.GPU != "" || c.Layout == nil {
		return nil // of fixed steps nothing is read
	}
	h := scenario.Hardware{GPU: c.Config.GPU, GPUs: max(1, c.Config.TP), Precision: string(c.Config.Precision)}
	if _, known := precisionBytes[h.Precision]; !known {
		return nil
	}
	own := *s
	own.Target.Hardware = h
	if _, err := checkHardware(&own); err == nil {
		s.Target.Hardware = h
	}
	return nil
}

// intendedReuse is the share of prompt tokens that the users mean to be found in
// a prefix cache; nil when nobody knows. Synthetic prompts have nothing in common.
func intendedReuse(s *scenario.Scenario, r *replay) *float64 {
	if r != nil {
		return r.reuse(s)
	}
	if len(s.Users.Workload) > 0 {
		return nil
	}
	none := 0.0
	return &none
}
