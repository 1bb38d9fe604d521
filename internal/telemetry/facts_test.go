package telemetry

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/signal"
)

// nan stands for a value that is not there.
var nan = math.NaN()

var update = flag.Bool("update", false, "rewrite the golden files")

// TestFreshnessOfSources holds when values change on the pages of sources, which decides what
// may be read from a course: the makers document these periods, or they were seen.
func TestFreshnessOfSources(t *testing.T) {
	f := func(source, signalName, want string) {
		t.Helper()
		x := Lookup(source)
		if x == nil {
			t.Fatalf("no table %s", source)
		}
		got := x.Refresh
		if signalName != "" {
			ways := x.Signals[signalName]
			if len(ways) == 0 {
				t.Fatalf("%s gives no %s", source, signalName)
			}
			got = cmp.Or(ways[0].Refresh, x.Refresh)
		}
		if got != want {
			t.Errorf("%s %s changes %q, want %q", source, signalName, got, want)
		}
	}
	f("dcgm", "", "30s") // the default of -c
	f("triton", "gpu_util", "2s")
	f("ray-vllm", "", "10s")
	f("ray-serve", "", "10s")
	// Observed when requests end: in a ramp they tell of earlier arrivals.
	for _, name := range []string{"queue_time", "prefill_time", "decode_time", "inference_time", "e2e", "tpot"} {
		f("vllm", name, "finish")
		f("trtllm", name, "finish")
	}
	// Observed while requests run.
	f("vllm", "ttft", "step")
	f("vllm", "itl", "step")
	f("tgi", "generation_tokens", "finish")
	if !Lookup("trtllm-json").Drains {
		t.Error("reading TensorRT-LLM's statistics removes them")
	}
	if !Lookup("ascend").Timestamps {
		t.Error("npu-exporter gives each sample a time")
	}
}

// TestStatisticsOfStepsAddUp reads TensorRT-LLM's list as it drains: gauges are of the last step, totals go on.
func TestStatisticsOfStepsAddUp(t *testing.T) {
	step := func(iter int, ms float64, ctx, gen, waiting, used int) string {
		return fmt.Sprintf(`{"iter":%d,"iterLatencyMS":%g,"maxNumActiveRequests":73,"inflightBatchingStats":{"numCtxTokens":%d,"numGenRequests":%d,`+
			`"avgNumDecodedTokensPerIter":2,"numScheduledRequests":%d,"numQueuedContextRequests":%d,"numQueuedGenRequests":0,"numPausedRequests":0},`+
			`"kvCacheStats":{"maxNumBlocks":100,"usedNumBlocks":%d,"tokensPerBlock":32,"reusedBlocks":%d,"missedBlocks":%d}}`,
			iter, ms, ctx, gen, gen, waiting, used, iter, 3*iter)
	}
	var sink totals
	r := NewReader(Options{})
	read := func(body string) {
		t.Helper()
		for i := range sink.last {
			sink.last[i] = nan
		}
		if _, err := r.Read([]byte(body), "application/json", 0, 1e6, &sink); err != nil {
			t.Fatal(err)
		}
	}
	want := func(id signal.ID, f signal.Field, v float64) {
		t.Helper()
		got, ok := sink.sum(id, f)
		if v != v {
			if ok {
				t.Errorf("%s %s is %v, want it absent", id, f, got)
			}
			return
		}
		if !ok || !near(got, v) {
			t.Errorf("%s %s is %v (%v), want %v", id, f, got, ok, v)
		}
	}
	read("[" + step(1, 20, 512, 0, 2, 10) + "," + step(2, 10, 0, 4, 1, 12) + "]")
	want(signal.RequestsRunning, signal.Value, 4)
	want(signal.RequestsWaiting, signal.Value, 1)
	want(signal.KVCacheUsage, signal.Value, 0.12)
	want(signal.EngineSteps, signal.Value, 2)
	want(signal.PromptTokensComputed, signal.Value, 512)
	want(signal.GenerationTokens, signal.Value, 8) // 4 requests, 2 tokens each
	want(signal.StepTime, signal.TotalSum, 0.030)
	want(signal.StepTime, signal.TotalCount, 2)
	want(signal.StepTokens, signal.TotalSum, 516)
	want(signal.PrefixCacheHits, signal.Value, 2*32) // a running total of the server's own, in blocks of 32 tokens
	want(signal.PrefixCacheQueries, signal.Value, 8*32)
	read("[]") // drained
	want(signal.RequestsRunning, signal.Value, nan)
	want(signal.GenerationTokens, signal.Value, 8)
	read("[" + step(3, 30, 0, 5, 0, 20) + "]")
	want(signal.RequestsRunning, signal.Value, 5)
	want(signal.GenerationTokens, signal.Value, 18)
	want(signal.StepTime, signal.TotalSum, 0.060)
	want(signal.StepTime, signal.TotalCount, 3)
	want(signal.EngineSteps, signal.Value, 3)
}

// TestResponsesOfOllamaAddUp reads the ends of two responses.
func TestResponsesOfOllamaAddUp(t *testing.T) {
	var sink totals
	r := NewReader(Options{})
	for range 2 {
		if _, err := r.Read(readPage(t, "ollama_final_chunk.json"), "application/json", 0, 1e6, &sink); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []struct {
		id signal.ID
		f  signal.Field
		v  float64
	}{
		{signal.RequestsFinished, signal.Value, 2},
		{signal.GenerationTokens, signal.Value, 2 * 290},
		{signal.ITL, signal.TotalSum, 2 * 2.232},
		{signal.ITL, signal.TotalCount, 2 * 290},
		{signal.E2E, signal.TotalCount, 2},
	} {
		if v, ok := sink.sum(x.id, x.f); !ok || !near(v, x.v) {
			t.Errorf("%s %s is %v, want %v", x.id, x.f, v, x.v)
		}
	}
}

// TestCountersThatGoDown reads a counter before and after a restart of the server, and with a gap.
func TestCountersThatGoDown(t *testing.T) {
	page := func(v int) string {
		return fmt.Sprintf("vllm:num_requests_running{engine=\"0\"} 1\nvllm:generation_tokens_total{engine=\"0\"} %d\n", v)
	}
	const gap = "vllm:num_requests_running{engine=\"0\"} 1\n"
	f := func(pages []string, restarts []int, values []float64) {
		t.Helper()
		var sink totals
		r := NewReader(Options{})
		for i, p := range pages {
			for j := range sink.last {
				sink.last[j] = nan
			}
			info, err := r.Read([]byte(p), "", int64(i)*1e9, int64(i)*1e9, &sink)
			if err != nil {
				t.Fatal(err)
			}
			if info.Restarts != restarts[i] {
				t.Errorf("page %d: %d restarts, want %d", i, info.Restarts, restarts[i])
			}
			v, ok := sink.sum(signal.GenerationTokens, signal.Value)
			if gone := math.IsNaN(values[i]); ok == gone || ok && v != values[i] {
				t.Errorf("page %d: %v (%v), want %v", i, v, ok, values[i])
			}
		}
	}
	f([]string{page(100), page(175), page(20), page(35)}, []int{0, 0, 1, 0}, []float64{100, 175, 20, 35})
	f([]string{page(100), gap, page(175)}, []int{0, 0, 0}, []float64{100, nan, 175})
}

// TestOwnTimes reads pages whose samples carry times: those that can be true become the
// samples' times, and nothing is said twice.
func TestOwnTimes(t *testing.T) {
	const zero = int64(1789200030e9)
	var sink stamped
	r := NewReader(Options{WallZero: zero})
	read := func(page string, at int64) PageInfo {
		t.Helper()
		info, err := r.Read(readPage(t, page), "", at, at+1e6, &sink)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	info := read("ascend_loaded_composed.prom", 12e9)
	if info.Timestamps != 36 || info.Newest != 1789200041123e6 {
		t.Errorf("%d times, the newest %d", info.Timestamps, info.Newest)
	}
	ends := map[int64]int{}
	for _, s := range sink.samples {
		if s.Start != s.End {
			t.Fatalf("a sample of a time holds from %d to %d", s.Start, s.End)
		}
		ends[s.End]++
	}
	// Two devices, read 10.123 s and 11.123 s after the run began.
	if len(ends) != 2 || ends[10.123e9] == 0 || ends[10.123e9] != ends[11.123e9] {
		t.Errorf("times are %v", ends)
	}
	n := len(sink.samples)
	if read("ascend_loaded_composed.prom", 13e9); len(sink.samples) != n {
		t.Errorf("%d samples of times that were there before", len(sink.samples)-n)
	}
	// Seconds where milliseconds are meant would be January 1970.
	sink.samples = nil
	read("ascend.prom", 14e9)
	if len(sink.samples) == 0 {
		t.Fatal("no samples")
	}
	for _, s := range sink.samples {
		if s.Start != 14e9 || s.End != 14e9+1e6 {
			t.Fatalf("a sample holds from %d to %d", s.Start, s.End)
		}
	}
}

// stamped is a sink that keeps every sample.
type stamped struct {
	series  int32
	samples []signal.Sample
}

func (x *stamped) Declare(signal.Series) int32 { x.series++; return x.series - 1 }
func (x *stamped) Add(samples []signal.Sample) { x.samples = append(x.samples, samples...) }

// families of sources, in the order of the documentation.
var sourceFamilies = []string{"Engines", "Gateways and routers", "Accelerators", "Hosts and networks"}

// familyOf is where most signals of a source belong.
func familyOf(x *Table) string {
	n := map[string]int{}
	for name := range x.Signals {
		id, _ := signal.Lookup(name)
		switch id.Def().Group {
		case signal.Gateway:
			n["Gateways and routers"]++
		case signal.Accelerator:
			n["Accelerators"]++
		case signal.Host, signal.Network:
			n["Hosts and networks"]++
		default:
			n["Engines"]++
		}
	}
	best := "Engines"
	for _, f := range sourceFamilies {
		if n[f] > n[best] {
			best = f
		}
	}
	return best
}

// sourcesPage writes docs/telemetry-sources.md out of the tables.
func sourcesPage() string {
	var b strings.Builder
	b.WriteString(`# Sources of telemetry

What Plimsoll can read, written out of the tables in internal/telemetry/tables by a test (` + "`go test ./internal/telemetry -update`" + `).
[telemetry.md](telemetry.md) says how pages are found and read, and how to write a table of your own.

"Changes" says when values on the page change: with each step of the engine, at each scrape, when requests
finish, or at a fixed period by default.
`)
	code := func(s string) string { return "`" + s + "`" }
	cell := func(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
	names := func(x *Table) []string {
		var out []string
		for _, d := range signal.All() {
			has := len(x.Signals[d.Name]) > 0
			if d.Kind == signal.Ratio {
				has = has || len(x.Signals[d.Part.String()]) > 0 && len(x.Signals[d.Whole.String()]) > 0
			}
			if has {
				out = append(out, d.Name)
			}
		}
		return out
	}
	for _, family := range sourceFamilies {
		fmt.Fprintf(&b, "\n## %s\n\n| source | page | enabled by | changes | signals |\n|---|---|---|---|---|\n", family)
		var in []*Table
		for _, x := range Builtin() {
			if familyOf(x) == family {
				in = append(in, x)
			}
		}
		for _, x := range in {
			var pages []string
			for _, p := range x.Page {
				pages = append(pages, code(p))
			}
			what := strings.Join(names(x), ", ")
			if x.Like != "" {
				what = "those of " + code(x.Like)
			}
			fmt.Fprintf(&b, "| %s: %s | %s | %s | %s | %s |\n", code(x.Source), x.Title, strings.Join(pages, ", "), cell(x.Enable), x.Refresh, what)
		}
		b.WriteString("\nWhat has to be asked for:\n\n| source | signals | enabled by |\n|---|---|---|\n")
		for _, x := range in {
			if x.Like != "" {
				continue
			}
			by := map[string][]string{}
			for _, name := range names(x) {
				for _, w := range x.Signals[name] {
					if w.Enable != "" {
						by[w.Enable] = append(by[w.Enable], name)
						break
					}
				}
			}
			for _, e := range slices.Sorted(maps.Keys(by)) {
				fmt.Fprintf(&b, "| %s | %s | %s |\n", code(x.Source), strings.Join(by[e], ", "), cell(e))
			}
		}
		b.WriteString("\nWhat to know:\n\n")
		for _, x := range in {
			if x.Note != "" {
				fmt.Fprintf(&b, "- %s: %s\n", code(x.Source), x.Note)
			}
			if x.Like != "" {
				continue
			}
			for _, name := range names(x) {
				for _, w := range x.Signals[name] {
					if w.Note != "" {
						fmt.Fprintf(&b, "- %s %s: %s\n", code(x.Source), name, w.Note)
						break
					}
				}
			}
			for _, name := range slices.Sorted(maps.Keys(x.Absent)) {
				if !slices.Contains(names(x), name) {
					fmt.Fprintf(&b, "- %s has no %s: %s\n", code(x.Source), name, x.Absent[name])
				}
			}
		}
	}
	return b.String()
}

// TestSourcesAreDocumented compares docs/telemetry-sources.md with the tables.
func TestSourcesAreDocumented(t *testing.T) {
	const path = "../../docs/telemetry-sources.md"
	want := sourcesPage()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the tables say: run go test ./internal/telemetry -run Documented -update", path)
	}
}

// TestGateways: which of the built-in tables are of something that stands before engines, and that a run keeps it.
func TestGateways(t *testing.T) {
	var got []string
	for _, x := range builtin() {
		if x.Gateway() {
			got = append(got, x.Source)
		}
	}
	slices.Sort(got)
	same(t, got, []string{
		"dynamo-frontend", "dynamo-router", "dynamo-worker", "envoy-ai-gateway", "kserve", "litellm", "llm-d-epp", "otel-genai", "ray-serve", "smg", "vllm-router",
	})
	r := NewReader(Options{})
	if _, err := r.Read([]byte("dynamo_component_inflight_requests 3\nvllm:num_requests_running{engine=\"0\"} 3\n"), "", 0, 0, nil); err != nil {
		t.Fatal(err)
	}
	var x reading
	x.known(r)
	same(t, x.gateways, []string{"dynamo-worker"})
}

// TestSamePage: a page that was found is not read once more where it is named in other words.
func TestSamePage(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"http://h:9400", "http://h:9400/metrics", true},
		{"http://h:9400/", "http://H:9400/metrics/", true},
		{"http://h", "http://h:80/metrics", true},
		{"http://localhost:9400", "http://127.0.0.1:9400/metrics", true},
		{"http://LocalHost.:9400", "http://127.0.0.1:9400/metrics", true},
		{"http://h:9400", "http://h:9401", false},
		{"http://h:9400", "https://h:9400", false},
		{"http://h:9400/metrics?a=1", "http://h:9400/metrics", false},
		{"http://h:8000/metrics", "http://h:8000/v1/metrics", false},
		{"http://localhost:9400", "http://localhost.example:9400", false},
	} {
		if got := SamePage(c.a, c.b); got != c.want {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
	}
}
