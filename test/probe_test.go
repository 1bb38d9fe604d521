package test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/run"
	twinmodel "plimsoll/internal/twin"
	"plimsoll/test/process"
)

// A probe against a simulated server in real time: its rungs are steps of one run,
// its figures those of the server, and kept, printed and worked out again alike.
func TestProbeInRealTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	url := twin(t, "--gpu", "b200")
	const ladder = `[{users: 1, requests: 6, set: {prompt.turn: 1024}}, {users: 1, requests: 6, set: {prompt.turn: 2048}},
{users: 1, requests: 6, set: {prompt.turn: 4096}}, {users: 1, requests: 6, set: {prompt.turn: 8192}}, {users: 1, requests: 6, set: {prompt.turn: 16384}}]`
	r := process.Run(t, dir, limit, "run", "--url", url, "--workload", "gpu-hbm/prefill-ladder", "--set", "load.steps="+strings.ReplaceAll(ladder, "\n", " "), "--out", "runs", "--telemetry", "none")
	if r.Code != 0 && r.Code != 4 { // 4: the machine was too busy for a verdict
		t.Fatalf("exit %d\n%s", r.Code, r.Stderr)
	}
	folder := process.OnlyRun(t, filepath.Join(dir, "runs"))
	text, err := os.ReadFile(filepath.Join(folder, "probe.json"))
	if err != nil {
		t.Fatal(err)
	}
	var p run.Probe
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	if p.Schema != run.ProbeSchemaName || len(p.Points) != 5 || !strings.Contains(r.Stdout, "PROBE      gpu-hbm/prefill-ladder") {
		t.Errorf("%s\n%s", text, r.Stdout)
	}
	for _, q := range p.Points {
		if q.N != 6 || q.Y <= 0 {
			t.Errorf("point %+v", q)
		}
	}
	// The speed is that of the twin's steps and its tokenizer; a busy machine makes it
	// less, never more than by chance.
	cl, err := twinmodel.NewCluster(twinmodel.ClusterConfig{GPU: "b200"})
	if err != nil {
		t.Fatal(err)
	}
	step := func(n int) float64 {
		return cl.Engine.Timer.StepTime(&twinmodel.Batch{Sampled: 1, Chunks: []twinmodel.Chunk{{New: n}}})
	}
	truth := 1e9 / ((step(4096)-step(2048))/2048 + cl.Stages.PromptToken)
	for _, f := range p.Fits {
		if f.Name == "prefill speed" && (f.Value == nil || math.Abs(math.Log(*f.Value/truth)) > math.Log(1.5)) {
			t.Errorf("%+v, the twin does about %.0f tokens/s", f, truth)
		}
	}
	again := process.Must(t, dir, limit, "report", folder, "--format", "json")
	var whole struct{ Probe run.Probe }
	if err := json.Unmarshal([]byte(again.Stdout), &whole); err != nil {
		t.Fatal(err)
	}
	if a, b := must(t, whole.Probe), must(t, p); a != b {
		t.Errorf("worked out again it is another:\n%s\n%s", a, b)
	}
	if help := process.Must(t, dir, 10*time.Second, "run", "--help"); !strings.Contains(help.Stdout, "kv/capacity") {
		t.Error("run --help does not show a probe")
	}
}

func must(t *testing.T, p run.Probe) string {
	t.Helper()
	b, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
