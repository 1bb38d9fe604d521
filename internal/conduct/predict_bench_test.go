package conduct

import (
	"strconv"
	"testing"

	"plimsoll/internal/twin"
)

// BenchmarkPredictRecords is the same with the folder of the run.
func BenchmarkPredictRecords(b *testing.B) {
	b.ReportAllocs()
	cfg := &PredictConfig{
		Scenario: plan(b, "target.url="+SimulatedURL, "seed=1", "load.users=64", "load.requests="+strconv.Itoa(max(b.N, 2)), "load.drain=24h",
			"target.api=openai.completions", "target.ignore-eos=true", "users.prompt-tokens=512", "users.output-tokens=256"),
		Root: b.TempDir(),
	}
	if _, err := Predict(b.Context(), cfg); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPredict is the whole cost of a request of 512 and 256 tokens without
// records: users, engines, figures.
func BenchmarkPredict(b *testing.B) {
	for _, bm := range []struct{ name, load, n, replicas string }{
		{"1 instance", "load.users", "64", "1"}, {"1000 instances", "load.users", "8000", "1000"}, {"1000 instances, rate", "load.rate", "10000", "1000"},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			n, err := strconv.Atoi(bm.replicas)
			if err != nil {
				b.Fatal(err)
			}
			cfg := &PredictConfig{
				Scenario: plan(b, "target.url="+SimulatedURL, "seed=1", bm.load+"="+bm.n, "load.requests="+strconv.Itoa(max(b.N, 2)), "load.drain=24h",
					"target.api=openai.completions", "target.ignore-eos=true", "users.prompt-tokens=512", "users.output-tokens=256"),
				Cluster: twin.ClusterConfig{Replicas: n},
			}
			if _, err := Predict(b.Context(), cfg); err != nil {
				b.Fatal(err)
			}
		})
	}
}
