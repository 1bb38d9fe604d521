package conduct

import (
	"math"
	"strings"
	"testing"

	"plimsoll/internal/scenario"
)

func TestTPOTFloor(t *testing.T) {
	f := func(model, hardware string, want float64) {
		t.Helper()
		s := scenario.Default()
		s.Target.Model = model
		if hardware != "" {
			if err := s.Target.Hardware.UnmarshalText([]byte(hardware)); err != nil {
				t.Fatal(err)
			}
		}
		got := TPOTFloor(s)
		switch {
		case got == nil && want == 0:
		case got == nil || want == 0 || math.Abs(*got/want-1) > 0.01:
			t.Errorf("%s on %q: %v, want %v", model, hardware, got, want)
		}
	}
	// 7.50 GB of parameters without the embedding, twice as many bytes, 3.35 TB/s.
	f("llama-3.1-8b", "h100", 4.48)
	f("meta-llama/Llama-3.1-8B-Instruct", "2xH100", 2.24)
	f("/models/Llama-3.1-8B-Instruct", "h100,fp8", 2.24)
	f("llama-3.1-8b", "", 0)
	f("somebody/else", "h100", 0)
	f("./config.json", "h100", 0)

	s := scenario.Default()
	s.Target.URL, s.Load.Users, s.Load.Requests = []string{"http://127.0.0.1:1"}, []int{1}, 1
	s.Target.Hardware = scenario.Hardware{GPUs: 1, GPU: "h1oo"}
	if _, err := NewPlan(s, nil, ""); err == nil || !strings.Contains(err.Error(), "target.hardware") || !strings.Contains(err.Error(), "h100") {
		t.Errorf("error %v names neither the field nor the nearest", err)
	}
}
