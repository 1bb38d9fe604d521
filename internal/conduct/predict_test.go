package conduct

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/detail"
	"plimsoll/internal/record"
	"plimsoll/internal/run"
	"plimsoll/internal/stats"
	"plimsoll/internal/twin"
	"plimsoll/internal/workload"
)

func predictConfig(t *testing.T, root string, sets ...string) *PredictConfig {
	t.Helper()
	return &PredictConfig{
		Scenario: plan(t, append([]string{"target.url=" + SimulatedURL, "seed=3"}, sets...)...),
		Root:     root, Version: "test", Cluster: twin.ClusterConfig{Replicas: 2},
	}
}

// everything is a scenario in which most things happen: several steps, chat, cuts,
// answers that end by themselves, limits, a cap.
var everything = []string{
	"load.rate=5,60", "load.duration=20s", "load.warmup=2s", "load.drain=1s", "load.max-in-flight=200",
	"users.prompt-tokens=lognormal:p50=300,p99=3000", "users.output-tokens=uniform:1..600", "guards.slo=ttft.p95=500ms,itl.p99=30ms",
}

// The figures with and without records, and those made again from the records on
// disk, are the same to the byte.
func TestPredictionsFiguresDoNotDependOnRecords(t *testing.T) {
	for name, sets := range map[string][]string{
		"rates":          everything,
		"users":          {"load.users=40", "load.requests=300", "users.output-tokens=uniform:1..80", "target.ignore-eos=true"},
		"whole answers":  {"load.users=4", "load.duration=10s", "target.no-stream=true"},
		"several steps":  {"load.users=1,8,32", "load.requests=50"},
		"refused":        {"load.users=3", "load.requests=40", "users.prompt-tokens=lognormal:p50=60000,p99=400000", "guards.max-error-share=1"},
		"a token limit":  {"load.users=5", "load.duration=1m", "guards.max-total-tokens=100000"},
		"buffered":       {"load.users=60", "load.requests=400", "users.output-tokens=3", "target.ignore-eos=true"},
		"a window ended": {"load.users=5", "load.duration=30s", "guards.max-total-tokens=30000"},
	} {
		t.Run(name, func(t *testing.T) {
			without, with := predictConfig(t, "", sets...), predictConfig(t, t.TempDir(), sets...)
			if name == "buffered" {
				// A long queue, and then all tokens at once.
				with.Cluster = twin.ClusterConfig{Step: 50 * time.Microsecond, MaxNumSeqs: 1}
				without.Cluster = with.Cluster
			}
			bare, err := Predict(t.Context(), without)
			if err != nil {
				t.Fatal(err)
			}
			kept, err := Predict(t.Context(), with)
			if err != nil {
				t.Fatal(err)
			}
			want, err := bare.Summary.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(kept.Folder, "summary.json"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("summary (-without records +with):\n%s", diff)
			}
			saved, err := run.Open(kept.Folder)
			if err != nil {
				t.Fatal(err)
			}
			again := stats.Summarize(*saved.Info().Input, saved.Requests())
			// run.json holds the folder's name.
			again.Run.ID = kept.Summary.Run.ID
			b, err := again.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(got), string(b)); diff != "" {
				t.Errorf("summary (-kept +made again):\n%s", diff)
			}
			if n := kept.Summary.Requests.Scheduled; n < 20 {
				t.Errorf("only %d requests", n)
			}
			if name == "buffered" && !slices.ContainsFunc(kept.Summary.Run.Reasons, func(r stats.Reason) bool { return r.Check == "buffered_stream" }) {
				t.Errorf("nothing was buffered: %+v", kept.Summary.Run.Reasons)
			}
			if kept.Summary.Client.SendLag.Count != 0 || kept.Summary.Client.Timestamps != nil {
				t.Errorf("something is said of a client: %+v", kept.Summary.Client)
			}
		})
	}
}

// Equal seeds make equal bytes, however many processors there are; another seed
// makes others.
func TestPredictionsAreEqualToTheByte(t *testing.T) {
	predict := func(procs int, sets ...string) []byte {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		r, err := Predict(t.Context(), predictConfig(t, t.TempDir(), append(append([]string(nil), everything...), sets...)...))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(r.Folder, "summary.json"))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	one, two := predict(1), predict(2)
	if !bytes.Equal(one, two) {
		t.Errorf("summaries differ:\n%s", cmp.Diff(string(one), string(two)))
	}
	if other := predict(1, "seed=4"); bytes.Equal(one, other) {
		t.Error("another seed gives the same summary")
	}
}

// What cannot be is said before anything runs, with numbers and nearest names.
func TestPredictRefuses(t *testing.T) {
	f := func(c twin.ClusterConfig, router string, sets []string, want ...string) {
		t.Helper()
		root := filepath.Join(t.TempDir(), "runs")
		cfg := predictConfig(t, root, append([]string{"load.users=1"}, sets...)...)
		cfg.Cluster, cfg.Router = c, router
		_, err := Predict(t.Context(), cfg)
		var usage *UsageError
		if !errors.As(err, &usage) {
			t.Fatalf("error is %v", err)
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("error %q does not say %q", err, w)
			}
		}
		if _, err := os.Stat(root); err == nil {
			t.Error("something was written")
		}
	}
	f(twin.ClusterConfig{Model: "llama-3.1-70b"}, "", nil, "does not fit 1 x h100", "131.4 GiB", "tp 2 would fit")
	f(twin.ClusterConfig{TP: 3}, "", nil, "tp 3 does not divide the 32 attention heads")
	f(twin.ClusterConfig{}, "", []string{"users.prompt-tokens=131000"}, "131128 tokens", "context of llama-3.1-8b is 131072")
	f(twin.ClusterConfig{}, "", []string{"users.prompt-tokens=uniform:1..200000"}, "200128 tokens")
	f(twin.ClusterConfig{Model: "lama-3.1-8b"}, "", nil, "llama-3.1-8b")
	f(twin.ClusterConfig{GPU: "h1000"}, "", nil, "h100")
	f(twin.ClusterConfig{Engine: "vlm"}, "", nil, "vllm")
	f(twin.ClusterConfig{}, "last-loaded", nil, "least-loaded")
	f(twin.ClusterConfig{}, "", []string{`target.extra-body={"max_tokens": 7}`}, "max_tokens 7 is not simulated", "users.output-tokens")
	f(twin.ClusterConfig{}, "", []string{`target.extra-body={"n": 2}`}, "n 2 is not simulated")
}

// A prediction that is interrupted leaves a folder that says so, with the window as
// far as it went and what was answered by then.
func TestInterruptedPrediction(t *testing.T) {
	for _, after := range []int{0, 100} {
		root := filepath.Join(t.TempDir(), "runs")
		cfg := predictConfig(t, root, "load.users=8", "load.requests=2000", "users.output-tokens=20")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := 0
		if after == 0 {
			cancel()
		}
		cfg.Each = func(*record.Request, *twin.Stages, int) {
			if n++; n == after {
				cancel()
			}
		}
		if _, err := Predict(ctx, cfg); !errors.Is(err, context.Canceled) {
			t.Fatalf("error is %v", err)
		}
		dirs, err := filepath.Glob(filepath.Join(root, "*-predict"))
		if err != nil || len(dirs) != 1 {
			t.Fatalf("folders: %v, %v", dirs, err)
		}
		r, err := run.Open(dirs[0])
		if err != nil {
			t.Fatal(err)
		}
		in := r.Info().Input
		if r.Info().State != run.Interrupted || !strings.Contains(r.Info().Message, "interrupted") {
			t.Errorf("after %d: state %q, %q", after, r.Info().State, r.Info().Message)
		}
		if len(in.Steps) > 0 && in.Steps[0].Complete {
			t.Errorf("after %d: windows %+v", after, in.Steps)
		}
	}
}

// The stages of each request sum to its latency, and so do their means.
func TestExplanationSums(t *testing.T) {
	cfg := predictConfig(t, "", everything...)
	cfg.Explain = true
	var total int64
	n := 0
	cfg.Each = func(r *record.Request, s *twin.Stages, replica int) {
		if s.Sum() != r.End-r.Start {
			t.Fatalf("request %d took %d, its stages %d", r.ID, r.End-r.Start, s.Sum())
		}
		if r.Status == record.OK && r.Phase == record.Steady {
			total += s.Sum()
			n++
		}
		if replica < 0 || replica > 1 {
			t.Fatalf("replica %d", replica)
		}
	}
	r, err := Predict(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	e := r.Explanation
	if int(e.Requests) != n || e.total != total || n == 0 {
		t.Fatalf("%d requests of %d ns, explained %d of %d", n, total, e.Requests, e.total)
	}
	var mean, share float64
	for _, s := range e.Stages {
		mean += *s.MeanMS
		share += *s.Share
	}
	if d := mean / *e.MeanMS; d < 0.999999999 || d > 1.000000001 || share < 0.999999 || share > 1.000001 {
		t.Errorf("means sum to %v of %v, shares to %v", mean, *e.MeanMS, share)
	}
}

// The share of a prediction that is done grows over its passes, by requests or by
// time, whichever the plan has.
func TestPredictionTellsOfItsProgress(t *testing.T) {
	f := func(sets ...string) {
		t.Helper()
		var shares []float64
		cfg := predictConfig(t, "", append(sets, "users.output-tokens=1", "load.max-in-flight=50")...)
		cfg.Progress = func(c Progress) {
			shares = append(shares, c.Share)
			if c.Steps != 2 || c.Left < 0 || c.Counts.OK == 0 || c.EndedPerS <= 0 || c.TokensPerS <= 0 {
				t.Errorf("progress is %+v", c)
			}
		}
		users, err := workload.NewSynthetic(cfg.Scenario.Seed, &cfg.Scenario.Users, true)
		if err != nil {
			t.Fatal(err)
		}
		p := &predictor{cfg: cfg, scenario: cfg.Scenario, plan: steps(cfg.Scenario), users: new(crowd)}
		if p.twin.Cluster, err = twin.NewCluster(twin.ClusterConfig{Step: time.Microsecond}); err != nil {
			t.Fatal(err)
		}
		p.twin.Population, p.twin.Stream, p.twin.Exact = users, true, true
		for _, st := range p.plan {
			p.twin.Steps = append(p.twin.Steps, twin.Step(st))
		}
		p.meter = newMeter(p)
		p.meter.passes, p.meter.interval = 2, 0
		for range 2 {
			if _, _, err := p.pass(t.Context(), quiet{}); err != nil {
				t.Fatal(err)
			}
		}
		if len(shares) < 4 || !slices.IsSorted(shares) || shares[0] > 0.5 || shares[len(shares)-1] > 1 || shares[len(shares)-1] < 0.7 {
			t.Errorf("shares are %v", shares)
		}
	}
	f("load.users=3,5", "load.requests=3000")
	f("load.rate=1000,2000", "load.duration=1500ms")
}

// A prediction that is kept leaves what the panel draws beside its records, so that
// nothing is made again when it is opened.
func TestPredictionsAreReadyForThePanel(t *testing.T) {
	res, err := Predict(t.Context(), predictConfig(t, t.TempDir(), "load.users=4", "load.requests=60"))
	if err != nil {
		t.Fatal(err)
	}
	saved, err := run.Open(res.Folder)
	if err != nil {
		t.Fatal(err)
	}
	timeline := func(func([]run.TimelineRow, error) bool) { t.Error("the timeline was read: it was made again") }
	s, err := detail.Open(saved, timeline, detail.Progress(func(float64) { t.Error("it was made again") }))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	series := 0
	for rows, err := range Timeline(saved) {
		if err != nil {
			t.Fatal(err)
		}
		series += len(rows)
	}
	if s.Len() != 60 || series == 0 || len(s.Series()) == 0 {
		t.Errorf("%d requests and %d series of a timeline with %d rows", s.Len(), len(s.Series()), series)
	}
}

// How much of it is made is told in shares that grow, and not at all when nobody listens.
func TestMakingIsTold(t *testing.T) {
	var shares []float64
	tell := making(func(p Progress) {
		if !p.Over || p.Share != -1 {
			t.Errorf("progress is %+v", p)
		}
		shares = append(shares, p.Making)
	}, 0)
	for _, share := range []float64{0, 0.25, 0.5} {
		tell(share)
		making(nil, 0)(share)
	}
	if !slices.Equal(shares, []float64{0.25, 0.5}) {
		t.Errorf("shares are %v", shares)
	}
	making(func(Progress) { t.Error("told before the first interval") }, time.Hour)(0.5)
}
