package probe

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/conduct"
	"plimsoll/internal/record"
	"plimsoll/internal/run"
	"plimsoll/internal/scenario"
	"plimsoll/internal/twin"
)

// scene is the scenario that a probe alone makes.
func scene(t testing.TB, name string, sets ...string) *scenario.Scenario {
	t.Helper()
	src := scenario.Source{URL: conduct.SimulatedURL, Complete: Complete(nil), Seed: func() uint64 { return 1 }}
	for _, text := range append([]string{"users.workload=" + name, "target.api=openai.completions", "load.drain=24h"}, sets...) {
		s, err := scenario.ParseSet(text)
		if err != nil {
			t.Fatal(err)
		}
		src.Settings = append(src.Settings, s)
	}
	s, err := scenario.Read(src)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// simulated is what a probe comes to on a twin, with what the twin says of itself.
func simulated(t testing.TB, cluster twin.ClusterConfig, name string, sets ...string) (*run.Probe, *conduct.PredictResult) {
	t.Helper()
	s := scene(t, name, sets...)
	var last *Steering
	res, err := conduct.Predict(t.Context(), &conduct.PredictConfig{
		Scenario: s, Cluster: cluster, Steer: func() conduct.Steering {
			last = NewSteering(s)
			return last
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return last.Fit(), res
}

// find returns a figure of a probe.
func find(t testing.TB, p *run.Probe, name string) run.ProbeFit {
	t.Helper()
	for _, f := range p.Fits {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("%s has no figure %q", p.Probe, name)
	return run.ProbeFit{}
}

// Every probe of the library makes steps that carry out, and ends in a result with
// points, figures and texts; from the records on disk it is the same as from the
// run that goes on. What the twin has no truth for (tiers of a cache, speculation, what
// a text says to experts, and what is sent where nothing is) is only run here for its
// form; for the rest there is a test beside this one.
func TestEveryProbeEndsInAResult(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		t.Run(name, func(t *testing.T) {
			var sets []string
			switch name {
			case "kv/growth":
				sets = []string{"load.duration=2m"}
			case "kv/capacity", "kv/eviction":
				sets = []string{"seed=2"}
			}
			s := scene(t, name, sets...)
			if len(s.Load.Steps) == 0 || len(s.Load.Users) > 0 {
				t.Fatalf("no steps: %+v", s.Load)
			}
			var last *Steering
			cfg := &conduct.PredictConfig{
				Scenario: s, Root: t.TempDir(), Cluster: twin.ClusterConfig{GPU: "l4"},
				Steer: func() conduct.Steering {
					last = NewSteering(s)
					return last
				},
			}
			res, err := conduct.Predict(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if v := res.Summary.Run; v.Verdict != "valid" {
				t.Errorf("the run is %v: %v", v.Verdict, v.Reasons)
			}
			saved, err := run.Open(res.Folder)
			if err != nil {
				t.Fatal(err)
			}
			p, err := OfRun(saved)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(last.Fit(), p); diff != "" {
				t.Errorf("the result (-of the run +from its records):\n%s", diff)
			}
			if err := saved.WriteProbe(p); err != nil {
				t.Fatal(err)
			}
			again, err := saved.Probe()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(p, again); diff != "" {
				t.Errorf("probe.json (-written +read):\n%s", diff)
			}
			wellFormed(t, p)
			if form[name] {
				return
			}
			for _, f := range p.Fits {
				if f.Value != nil && f.Lo != nil && f.OK {
					return
				}
			}
			t.Errorf("no clean figure with an interval: %+v", p.Fits)
		})
	}
}

// form are the probes that a twin in virtual time can only be asked for their form:
// nothing is sent there, on no connection.
var form = map[string]bool{"fabric/payload": true, "fabric/churn": true}

func wellFormed(t *testing.T, p *run.Probe) {
	t.Helper()
	if p.Schema != "plimsoll.probe/1" || p.Question == "" || p.X.Name == "" || p.Y.Name == "" || len(p.Fits) == 0 {
		t.Errorf("%+v", p)
	}
	if len(p.Points) == 0 && !form[p.Probe] {
		t.Error("no points")
	}
	for _, q := range p.Points {
		if q.Series == "" || q.N < 1 || q.Lo != nil && (*q.Lo > q.Y || *q.Hi < q.Y) {
			t.Errorf("point %+v", q)
		}
	}
	names := map[string]bool{}
	for _, f := range p.Fits {
		if names[f.Name] || f.Name == "" || len(f.Text) < 10 || f.OK && f.Value == nil || (f.Lo == nil) != (f.Hi == nil) {
			t.Errorf("figure %+v", f)
		}
		if f.Lo != nil && (*f.Lo > *f.Value || *f.Hi < *f.Value) {
			t.Errorf("%s: %v lies outside of %v to %v", f.Name, *f.Value, *f.Lo, *f.Hi)
		}
		names[f.Name] = true
		for _, text := range []string{f.Name, f.Text, f.Unit} {
			if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || strings.Contains(text, "%!") {
				t.Errorf("%s: %q", f.Name, text)
			}
		}
	}
	for _, n := range p.Notes {
		if strings.Contains(n, "NaN") || strings.Contains(n, "%!") {
			t.Errorf("note %q", n)
		}
	}
}

// Nothing that a run can come to stops a fit: no request, none that ended well, one
// each, and steps that were never begun.
// A ladder that ends at a rung without an answer has not shown what limits the server.
func TestKneeOfARungThatWasCut(t *testing.T) {
	s := scene(t, "gpu-hbm/decode-ladder")
	f := func(answered int, want string) {
		t.Helper()
		p, err := fit(s, func(yield func(*record.Request) bool) {
			for i := range s.Load.Steps[:answered+1] {
				for k := range s.Load.Steps[i].Users {
					var r record.Request
					r.Reset()
					r.Step, r.Phase, r.Status, r.User = uint32(i), record.Steady, record.OK, uint32(k)
					r.Scheduled, r.Output = int64(i)*10e9, 101
					r.Start, r.End = r.Scheduled, r.Scheduled+5e9
					r.Streamed, r.FirstToken, r.LastToken = true, r.Start+1e8, r.Start+11e8
					r.StreamedTokens, r.Events = 101, []record.Event{{At: r.FirstToken}, {At: r.LastToken}}
					if i == answered {
						r.Status, r.LastToken = record.Incomplete, record.Unset
					}
					if !yield(&r) {
						return
					}
				}
			}
		}, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range p.Fits {
			if x.Name == "knee" && (x.Value != nil || x.OK || !strings.HasPrefix(x.Text, want)) {
				t.Errorf("knee %+v, want %q", x, want)
			}
		}
	}
	f(7, "Not known: up to 64 users more of them bring more tokens almost in proportion, and of 128 users nobody was answered")
	f(2, "Four rungs are needed")
}

func TestFitsOfNearlyNothing(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		s := scene(t, name)
		for what, per := range map[string]int{"no request": 0, "one request a step": 1, "two": 2} {
			for _, status := range []record.Status{record.OK, record.Failed, record.Incomplete} {
				var all []record.Request
				for i := range s.Load.Steps {
					for k := range per {
						var r record.Request
						r.Reset()
						r.Step, r.Phase, r.Status, r.User = uint32(i), record.Steady, status, uint32(k)
						r.Scheduled = int64(i*10+k) * 1e9
						r.Start, r.End = r.Scheduled, r.Scheduled+5e8
						if status == record.OK {
							r.Streamed, r.FirstToken, r.LastToken = true, r.Start+1e8, r.Start+4e8
						}
						all = append(all, r)
					}
				}
				p, err := fit(s, func(yield func(*record.Request) bool) {
					for i := range all {
						if !yield(&all[i]) {
							return
						}
					}
				}, nil, false)
				if err != nil {
					t.Fatal(err)
				}
				if len(p.Fits) == 0 {
					t.Errorf("%s: %s: nothing is said", name, what)
				}
				for _, f := range p.Fits {
					if strings.Contains(f.Text, "NaN") || strings.Contains(f.Text, "%!") || len(f.Text) < 10 {
						t.Errorf("%s: %s: %+v", name, what, f)
					}
				}
				if status == record.Failed && per > 0 && !strings.Contains(strings.Join(p.Notes, " "), "failed, and in no figure") {
					t.Errorf("%s: failures are not told: %q", name, p.Notes)
				}
				if _, err := p.Marshal(); err != nil {
					t.Errorf("%s: %s: %v", name, what, err)
				}
			}
		}
	}
}

// Users and rungs multiply; a length that is asked for holds for each step; what is
// no probe and has no ladder is left alone.
func TestComplete(t *testing.T) {
	read := func(sets ...string) *scenario.Scenario { return scene(t, sets[0], sets[1:]...) }
	s := read("gpu-hbm/prefill-ladder", "load.users=1,2,3")
	if n := len(s.Load.Steps); n != 24 {
		t.Fatalf("%d steps of 8 rungs and 3 numbers of users", n)
	}
	if a, b := s.Load.Steps[0], s.Load.Steps[23]; a.Users != 1 || b.Users != 3 || a.Set["prompt.turn"] != "512" || b.Set["prompt.turn"] != "65536" {
		t.Errorf("%+v to %+v", a, b)
	}
	s = read("kv/growth", "load.duration=5m")
	if len(s.Load.Steps) != 1 || s.Load.Steps[0].Duration != 0 || s.Load.Duration != 5*time.Minute {
		t.Errorf("%+v", s.Load)
	}
	s = read("gpu-hbm/decode-ladder", "load.users=1,8,64", "load.requests=64")
	if len(s.Load.Steps) != 0 || len(s.Load.Users) != 3 || Of(s) == "" {
		t.Errorf("users without rungs: %+v", s.Load)
	}
	s = read("gpu-hbm/prefill-ladder", "load.rate=2", "load.requests=20")
	if len(s.Load.Steps) != 8 || s.Load.Steps[7].Rate != 2 || s.Load.Steps[7].Requests != 0 || !s.Load.RateDriven() || s.Load.Arrival == "" {
		t.Errorf("rungs at a rate: %+v", s.Load)
	}
	if s = read("fabric/churn"); !s.Target.NewConnection {
		t.Error("churn reuses connections")
	}
	for _, f := range s.Plan() {
		if f.Path == "load.steps" && f.Origin != "the ladder of fabric/churn" {
			t.Errorf("steps from %q", f.Origin)
		}
	}
	s = read("legal/contract-review", "load.users=4")
	if len(s.Load.Steps) != 0 || Of(s) != "" || NewSteering(s) != nil {
		t.Errorf("no probe: %+v", s.Load)
	}
	if p, err := fit(s, nil, nil, false); p != nil || err != nil {
		t.Errorf("%v %v", p, err)
	}
	// What is saved reads back to the same steps.
	s = read("kv/capacity")
	text, err := s.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	back, err := scenario.Read(scenario.Source{Name: "saved", Data: text, Complete: Complete(nil)})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.Load, back.Load); diff != "" || s.Hash() != back.Hash() {
		t.Errorf("saved steps (-want +got):\n%s", diff)
	}
}

// A ladder of the user's own makes steps too.
func TestLadderOfAFile(t *testing.T) {
	file := "name: mine\nprompt: {turn: 100}\noutput: 4\nvary:\n- prompt.turn: 50\n- prompt.turn: 80\n"
	read := func(string) ([]byte, error) { return []byte(file), nil }
	src := scenario.Source{URL: conduct.SimulatedURL, Complete: Complete(read)}
	for _, text := range []string{"users.workload=mine.yaml", "load.users=1,4", "load.requests=8"} {
		set, err := scenario.ParseSet(text)
		if err != nil {
			t.Fatal(err)
		}
		src.Settings = append(src.Settings, set)
	}
	s, err := scenario.Read(src)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Load.Steps) != 4 || Of(s) != "" {
		t.Errorf("%+v", s.Load.Steps)
	}
	res, err := conduct.Predict(t.Context(), &conduct.PredictConfig{Scenario: s, ReadFile: read})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Summary.Steps) != 4 || res.Summary.Requests.OK != 32 {
		t.Errorf("%d steps, %d ok", len(res.Summary.Steps), res.Summary.Requests.OK)
	}
}

// What the servers say is used, and said to be: of all sources together alone.
func TestTelemetryIsEvidence(t *testing.T) {
	s := scene(t, "kv/prefix-reuse")
	var all []record.Request
	var rows []run.TimelineRow
	for i := range s.Load.Steps {
		for k := range 10 {
			var r record.Request
			r.Reset()
			r.Step, r.Phase, r.AskedPrompt = uint32(i), record.Steady, 4096
			r.Start = int64(i*100+k*10) * 1e9
			r.Scheduled, r.End, r.Streamed, r.FirstToken, r.LastToken = r.Start, r.Start+5e9, true, r.Start+1e9-int64(i)*1e8, r.Start+4e9
			all = append(all, r)
		}
		for k := range 90 {
			t := int64(i*100+k) * 1e9
			rows = append(rows, run.TimelineRow{T: t, Signal: "prefix_cache_hit_ratio", Stat: "value", Value: 0.25 * float64(i)},
				run.TimelineRow{T: t, Signal: "prefix_cache_hit_ratio", Stat: "value", Source: "one", Value: 0.99})
		}
	}
	p, err := fit(s, func(yield func(*record.Request) bool) {
		for i := range all {
			if !yield(&all[i]) {
				return
			}
		}
	}, func(yield func([]run.TimelineRow, error) bool) { yield(rows, nil) }, false)
	if err != nil {
		t.Fatal(err)
	}
	if f := find(t, p, "hit rate at 50 %"); *f.Value != 50 {
		t.Errorf("%+v", f)
	}
	if !strings.Contains(strings.Join(p.Notes, " "), "the server's telemetry") {
		t.Errorf("notes %q", p.Notes)
	}
}
