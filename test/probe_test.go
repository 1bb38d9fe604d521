package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
	// No answer begins before the twin has taken in the prompt and computed it in one step.
	// By how much later a busy machine decides, and so over the slope; that it is found
	// within 5 % is for the tests of package probe, in simulated time.
	cl, err := twinmodel.NewCluster(twinmodel.ClusterConfig{GPU: "b200"})
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, row := range process.Rows(t, folder) {
		n := int(row.Number(t, "prompt_tokens"))
		if n > 5000 { // more than one step
			continue
		}
		compared++
		least := cl.Engine.Timer.StepTime(&twinmodel.Batch{Sampled: 1, Chunks: []twinmodel.Chunk{{New: n}}}) + float64(n)*cl.Stages.PromptToken
		if got := 1e6 * row.Number(t, "ttft_ms"); got < least {
			t.Errorf("the first token of a prompt of %d tokens after %.0f ns, the twin takes at least %.0f", n, got, least)
		}
	}
	if compared != 18 {
		t.Errorf("%d requests of the first three rungs, want 18", compared)
	}
	if !slices.ContainsFunc(p.Fits, func(f run.ProbeFit) bool { return f.Name == "prefill speed" }) {
		t.Errorf("nothing is said of the speed: %+v", p.Fits)
	}
	again := process.Must(t, dir, limit, "report", folder, "--format", "json")
	var whole struct{ Probe run.Probe }
	if err := json.Unmarshal([]byte(again.Stdout), &whole); err != nil {
		t.Fatal(err)
	}
	if a, b := must(t, whole.Probe), must(t, p); a != b {
		t.Errorf("worked out again it is another:\n%s\n%s", a, b)
	}
	if help := process.Must(t, dir, limit, "run", "--help"); !strings.Contains(help.Stdout, "kv/capacity") {
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
