package twin

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// family is a family of a page, as the format has it.
type family struct {
	kind, help string
	samples    []sample
}

type sample struct {
	name   string
	labels map[string]string
	value  float64
}

var (
	metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*`)
	labelName  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*`)
)

// parsePage reads a page by the rules of Prometheus' text format 0.0.4: HELP and
// TYPE once and before the samples, the samples of a family together, no sample
// twice, and histograms whose buckets ascend and end in their count.
func parsePage(text string) (map[string]*family, error) {
	all := map[string]*family{}
	if !strings.HasSuffix(text, "\n") {
		return nil, fmt.Errorf("the last line has no end")
	}
	seen := map[string]bool{}
	current := ""
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		fail := func(why string) error { return fmt.Errorf("line %d: %s: %q", i+1, why, line) }
		if rest, ok := strings.CutPrefix(line, "# "); ok {
			word, rest, _ := strings.Cut(rest, " ")
			name, rest, _ := strings.Cut(rest, " ")
			if metricName.FindString(name) != name || name == "" {
				return nil, fail("bad name")
			}
			f := all[name]
			if f == nil {
				f = new(family)
				all[name] = f
			}
			if len(f.samples) > 0 {
				return nil, fail("after a sample of its family")
			}
			switch {
			case word == "HELP" && f.help == "":
				f.help = rest
			case word == "TYPE" && f.kind == "" && slices.Contains([]string{"counter", "gauge", "histogram", "summary", "untyped"}, rest):
				f.kind = rest
			default:
				return nil, fail("not one HELP and TYPE")
			}
			current = name
			continue
		}
		s := sample{labels: map[string]string{}}
		rest := line
		s.name = metricName.FindString(rest)
		rest = rest[len(s.name):]
		if s.name == "" {
			return nil, fail("no name")
		}
		if strings.HasPrefix(rest, "{") {
			rest = rest[1:]
			for !strings.HasPrefix(rest, "}") {
				n := labelName.FindString(rest)
				if n == "" || !strings.HasPrefix(rest[len(n):], `="`) {
					return nil, fail("bad label")
				}
				rest = rest[len(n)+2:]
				var v strings.Builder
				for {
					if rest == "" {
						return nil, fail("open label")
					}
					c := rest[0]
					rest = rest[1:]
					if c == '"' {
						break
					}
					if c == '\\' {
						if rest == "" || !strings.ContainsAny(rest[:1], `\"n`) {
							return nil, fail("bad escape")
						}
						c = rest[0]
						if c == 'n' {
							c = '\n'
						}
						rest = rest[1:]
					}
					v.WriteByte(c)
				}
				if _, twice := s.labels[n]; twice {
					return nil, fail("label twice")
				}
				s.labels[n] = v.String()
				rest = strings.TrimPrefix(rest, ",")
			}
			rest = rest[1:]
		}
		v, err := strconv.ParseFloat(strings.TrimPrefix(rest, " "), 64)
		if err != nil || !strings.HasPrefix(rest, " ") || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fail("no value")
		}
		s.value = v
		base := s.name
		f := all[current]
		if f != nil && (f.kind == "histogram" || f.kind == "summary") {
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				if strings.TrimSuffix(base, suffix) == current {
					base = current
				}
			}
		}
		if base != current || f.kind == "" || f.help == "" {
			return nil, fail("not under its own HELP and TYPE")
		}
		if key := s.name + fmt.Sprint(s.labels); seen[key] {
			return nil, fail("twice")
		} else {
			seen[key] = true
		}
		if f.kind == "counter" && s.value < 0 {
			return nil, fail("a counter below 0")
		}
		f.samples = append(f.samples, s)
	}
	for name, f := range all {
		if f.kind == "histogram" {
			if err := checkHistogram(name, f); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

func checkHistogram(name string, f *family) error {
	type state struct {
		bound, count float64
		sum, total   bool
	}
	states := map[string]*state{}
	for _, s := range f.samples {
		le, bucket := s.labels["le"]
		own := maps.Clone(s.labels)
		delete(own, "le")
		key := fmt.Sprint(own)
		st := states[key]
		if st == nil {
			st = &state{bound: math.Inf(-1)}
			states[key] = st
		}
		switch {
		case bucket:
			b, err := strconv.ParseFloat(le, 64)
			if err != nil || b <= st.bound || s.value < st.count {
				return fmt.Errorf("%s: bucket %q of %v after %v of %v", name, le, s.value, st.bound, st.count)
			}
			st.bound, st.count = b, s.value
		case s.name == name+"_count":
			if !math.IsInf(st.bound, 1) || s.value != st.count {
				return fmt.Errorf("%s: count %v, last bucket %v of %v", name, s.value, st.bound, st.count)
			}
			st.total = true
		case s.name == name+"_sum":
			st.sum = true
		}
	}
	for key, st := range states {
		if !st.sum || !st.total {
			return fmt.Errorf("%s%s: no sum or no count", name, key)
		}
	}
	return nil
}

func mustParse(t *testing.T, text string) map[string]*family {
	t.Helper()
	all, err := parsePage(text)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestPageRules(t *testing.T) {
	const head = "# HELP a A.\n# TYPE a gauge\n"
	for _, bad := range []string{
		head + "a 1", head + "a 1\na 1\n", head + "a NaN\n", head + "a{b=\"\\x\"} 1\n", head + "b 1\n", "a 1\n", head + "a{b=\"1\",b=\"2\"} 1\n",
		"# HELP h H.\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\nh_count 1\nh_sum 1\n",
		"# HELP h H.\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\nh_count 2\nh_sum 1\n",
		"# HELP h H.\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\nh_count 1\n",
	} {
		if _, err := parsePage(bad); err == nil {
			t.Errorf("taken: %q", bad)
		}
	}
	got := mustParse(t, "# HELP a A \\\\ b.\n# TYPE a gauge\n"+`a{b="x\"\\\n",c="é"} 1e+06`+"\n")
	if s := got["a"].samples[0]; s.labels["b"] != "x\"\\\n" || s.value != 1e6 {
		t.Errorf("%+v", s)
	}
}

// names are the label names of a family's samples, and the bounds of its buckets.
func (f *family) names() (labels, bounds []string) {
	set := map[string]bool{}
	for _, s := range f.samples {
		for n, v := range s.labels {
			set[n] = true
			if n == "le" && !slices.Contains(bounds, v) {
				bounds = append(bounds, v)
			}
		}
	}
	return slices.Sorted(maps.Keys(set)), bounds
}

func readPage(t *testing.T, file string) map[string]*family {
	t.Helper()
	b, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return mustParse(t, string(b))
}

func fetch(t testing.TB, url string) string {
	t.Helper()
	resp, err := clientOf(url).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s: status %d, %v: %s", url, resp.StatusCode, err, b)
	}
	return string(b)
}

// The page has every family of vLLM's, with its type, help, labels and buckets.
func TestPageOfVLLM(t *testing.T) {
	want := readPage(t, "vllm_v1.prom")
	_, url := start(t, ServerConfig{Step: fast, MaxModelLen: 8192, Replicas: 2})
	for range 4 {
		post(t, url+"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"max_tokens":3}`)
	}
	fetch(t, url+"/v1/models")
	got := mustParse(t, fetch(t, url+"/metrics"))
	// Without accelerators there is no memory to tell of.
	delete(want, "vllm:cache_config_info")
	for name, w := range want {
		g := got[name]
		if g == nil {
			t.Errorf("no %s", name)
			continue
		}
		if g.kind != w.kind || g.help != w.help {
			t.Errorf("%s: %s %q, want %s %q", name, g.kind, g.help, w.kind, w.help)
		}
		wl, wb := w.names()
		gl, gb := g.names()
		if d := gocmp.Diff(wl, gl); d != "" {
			t.Errorf("%s: labels (-want +got):\n%s", name, d)
		}
		if d := gocmp.Diff(wb, gb); d != "" {
			t.Errorf("%s: buckets (-want +got):\n%s", name, d)
		}
	}
	for name := range got {
		if want[name] == nil && !strings.HasSuffix(name, "_created") && !strings.HasPrefix(name, "process_") {
			t.Errorf("vLLM has no %s", name)
		}
	}
	for _, s := range got["vllm:request_success_total"].samples {
		if e := s.labels["engine"]; e != "0" && e != "1" || s.labels["model_name"] != "llama-3.1-8b" {
			t.Errorf("labels %v", s.labels)
		}
	}
	// With one: what telemetry reads the size of the memory from.
	s, url := start(t, ServerConfig{})
	info := mustParse(t, fetch(t, url+"/metrics"))["vllm:cache_config_info"].samples[0]
	for name, v := range map[string]string{"block_size": "16", "num_gpu_blocks": strconv.Itoa(s.blocks), "engine": "0", "enable_prefix_caching": "True", "gpu_memory_utilization": "0.9"} {
		if info.labels[name] != v {
			t.Errorf("cache_config_info: %s %q, want %q", name, info.labels[name], v)
		}
	}
}

// total sums the samples of a name over all labels but those given.
func total(all map[string]*family, family, name string, labels ...string) (sum float64) {
	for _, s := range all[family].samples {
		ok := s.name == name
		for i := 0; i+1 < len(labels); i += 2 {
			ok = ok && s.labels[labels[i]] == labels[i+1]
		}
		if ok {
			sum += s.value
		}
	}
	return sum
}

// The figures on the page are those of the twin's own accounts.
func TestPageAddsUp(t *testing.T) { synctest.Test(t, testPageAddsUp) }

func testPageAddsUp(t *testing.T) {
	s, url := startFake(t, ServerConfig{MaxNumSeqs: 4, MaxNumBatchedTokens: 128, Replicas: 2, Router: "least-loaded", Stages: &StageCosts{}})
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			post(t, url+"/v1/completions", fmt.Sprintf(`{"prompt":%q,"max_tokens":%d,"ignore_eos":true,"n":2}`, strings.Repeat(" word", 40*i+1), 5+i))
		})
	}
	wg.Wait()
	synctest.Wait() // what the server does after an answer
	if n := len(s.Accounts()); n != 24 {
		t.Fatalf("%d accounts", n)
	}
	page := mustParse(t, fetch(t, url+"/metrics"))
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9*math.Max(1, math.Abs(want)) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	var prompt, output, e2e, queue, prefill, decode, first, tokens float64
	for _, a := range s.Accounts() {
		prompt += float64(a.Prompt)
		output += float64(a.Output)
		e2e += (a.Finished - a.Arrival) / 1e9
		queue += (a.Admitted - a.Arrival) / 1e9
		prefill += (a.First - a.Admitted) / 1e9
		decode += (a.Finished - a.First) / 1e9
		first += (a.First - a.Arrival) / 1e9
		tokens += float64(a.Output - 1)
	}
	sum := func(name string) float64 { return total(page, "vllm:"+name, "vllm:"+name+"_sum") }
	count := func(name string) float64 { return total(page, "vllm:"+name, "vllm:"+name+"_count") }
	near("prompt tokens", total(page, "vllm:prompt_tokens_total", "vllm:prompt_tokens_total"), prompt)
	near("output tokens", total(page, "vllm:generation_tokens_total", "vllm:generation_tokens_total"), output)
	near("sum of prompts", sum("request_prompt_tokens"), prompt)
	near("sum of answers", sum("request_generation_tokens"), output)
	near("tokens of iterations", sum("iteration_tokens_total"), prompt+output)
	near("e2e", sum("e2e_request_latency_seconds"), e2e)
	near("queue", sum("request_queue_time_seconds"), queue)
	near("prefill", sum("request_prefill_time_seconds"), prefill)
	near("decode", sum("request_decode_time_seconds"), decode)
	near("inference", sum("request_inference_time_seconds"), prefill+decode)
	near("first tokens", sum("time_to_first_token_seconds"), first)
	// A sequence's times between tokens are its decode time.
	near("times between tokens", sum("inter_token_latency_seconds"), decode)
	near("their number", count("inter_token_latency_seconds"), tokens)
	near("finished", total(page, "vllm:request_success_total", "vllm:request_success_total", "finished_reason", "length"), 24)
	near("n", sum("request_params_n"), 24)
	near("requests", count("request_max_num_generation_tokens"), 12)
	near("HTTP requests", total(page, "http_requests_total", "http_requests_total", "handler", "/v1/completions", "status", "2xx"), 12)
	for i, r := range s.router.router.(*leastLoaded).load {
		if r != 0 {
			t.Errorf("the router holds %d requests on replica %d after the end", r, i)
		}
	}
}

// The accelerators' page has DCGM's names, types, help and labels, and shows what
// decoding and what prefill do to a device.
func TestPageOfDCGM(t *testing.T) { synctest.Test(t, testPageOfDCGM) }

func testPageOfDCGM(t *testing.T) {
	l := listen(t)
	_, url := startFake(t, ServerConfig{Model: "llama-3.1-70b", TP: 4, Replicas: 3, DCGM: l, DCGMInterval: 50 * time.Millisecond})
	want := readPage(t, "dcgm_h100.prom")
	own := "http://" + l.Addr().String()
	got := mustParse(t, fetch(t, own+"/metrics"))
	for name, g := range got {
		w := want[name]
		if w == nil {
			t.Errorf("dcgm-exporter has no %s", name)
			continue
		}
		if g.kind != w.kind || g.help != w.help {
			t.Errorf("%s: %s %q, want %s %q", name, g.kind, g.help, w.kind, w.help)
		}
		wl, _ := w.names()
		gl, _ := g.names()
		// As in Kubernetes, the replica is the pod.
		if d := gocmp.Diff(slices.Sorted(slices.Values(append(wl, "container", "namespace", "pod"))), gl); d != "" {
			t.Errorf("%s: labels (-want +got):\n%s", name, d)
		}
		if len(g.samples) != 12 {
			t.Errorf("%s: %d devices", name, len(g.samples))
		}
	}
	for _, name := range []string{"GPU_UTIL", "FB_USED", "FB_FREE", "POWER_USAGE", "SM_CLOCK", "GPU_TEMP", "TOTAL_ENERGY_CONSUMPTION"} {
		if got["DCGM_FI_DEV_"+name] == nil {
			t.Errorf("no %s", name)
		}
	}
	uuids := map[string]bool{}
	for _, s := range got["DCGM_FI_DEV_GPU_UTIL"].samples {
		uuids[s.labels["UUID"]] = true
	}
	if len(uuids) != 12 {
		t.Errorf("%d devices have %d UUIDs", 12, len(uuids))
	}
	if status, _ := post(t, own+"/v1/completions", `{"prompt":"x"}`); status != 404 {
		t.Errorf("the listener of metrics answers a request with %d", status)
	}
	value := func(name string) float64 {
		page := mustParse(t, fetch(t, url+"/dcgm/metrics"))
		return total(page, "DCGM_FI_"+name, "DCGM_FI_"+name, "Hostname", "twin-node-0", "gpu", "0")
	}
	if u, p := value("DEV_GPU_UTIL"), value("DEV_POWER_USAGE"); u != 0 || p != 700*idlePower {
		t.Errorf("idle: %v %% at %v W", u, p)
	}
	if used, free, kept := value("DEV_FB_USED"), value("DEV_FB_FREE"), value("DEV_FB_RESERVED"); math.Abs(used+free+kept-80*1024) > 2 || used != 0.9*80*1024 {
		t.Errorf("memory %v + %v + %v MiB", used, free, kept)
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { post(t, url+"/v1/completions", `{"prompt":"x","max_tokens":60,"ignore_eos":true}`) })
	}
	time.Sleep(200 * time.Millisecond)
	if u := value("DEV_GPU_UTIL"); u < 90 {
		t.Errorf("decoding: %v %%", u)
	}
	wg.Wait()
	time.Sleep(101 * time.Millisecond) // the page is of a whole interval
	if u := value("DEV_GPU_UTIL"); u != 0 {
		t.Errorf("idle again: %v %%", u)
	}
	if j := value("DEV_TOTAL_ENERGY_CONSUMPTION"); !(j > 0) {
		t.Errorf("energy %v", j)
	}
	_, fixed := startFake(t, ServerConfig{Step: fast})
	if resp, err := clientOf(fixed).Get(fixed + "/dcgm/metrics"); err != nil || resp.StatusCode != 404 {
		t.Errorf("fixed steps have accelerators: %v %v", resp, err)
	} else {
		resp.Body.Close()
	}
}

// What a snapshot sees of a step under way is its share of it, and the sum of
// snapshots is the work.
func TestWorkIsConserved(t *testing.T) {
	var w worked
	w.begin(1e9, 3e9, Work{FLOPs: 8, Busy: 1}, 500)
	for at, want := range map[float64]float64{0: 0, 1e9: 0, 1.5e9: 2, 2e9: 4, 3e9: 8, 9e9: 8} {
		if got := w.at(at); got.total.FLOPs != want || got.joules != 125*want {
			t.Errorf("at %v: %v FLOPs, %v J, want %v", at, got.total.FLOPs, got.joules, want)
		}
	}
	w.end()
	if got := w.at(9e9); got.total.FLOPs != 8 || got.joules != 1000 || got.stepping != 2 {
		t.Errorf("after the end: %+v", got)
	}
}

func meterOf(t *testing.T, cfg ClusterConfig) (*Meter, *Cluster) {
	t.Helper()
	c, err := NewCluster(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return NewMeter(Builtin(), c.Layout, c.Engine.Timer.(*Roofline)), c
}

// Work against hand-made sums: Llama-3.1-8B has 7.504e9 elements outside its
// embedding, and 131,072 bytes of keys and values per token.
func TestWork(t *testing.T) {
	k, c := meterOf(t, ClusterConfig{})
	near := func(what string, got, want, within float64) {
		t.Helper()
		if !(math.Abs(got-want) <= within*want) {
			t.Errorf("%s: %v, want %v within %v", what, got, want, within)
		}
	}
	one := k.Work(&Batch{Decodes: 1, KV: 10_000, Sampled: 1})
	near("bytes of one token", one.ReadBytes, 2*7.504e9+131072*10_000, 0.001)
	near("FLOPs of one token", one.FLOPs, 2*7.504e9+4*32*32*128*10_000, 0.001)
	near("written", one.WriteBytes, 131072+k.activations/2, 1e-9)
	near("tensor time", one.Tensor, one.FLOPs/989e12, 0.01)
	if one.LinkBytes != 0 {
		t.Errorf("one device sends %v bytes", one.LinkBytes)
	}
	step := c.Engine.Timer.StepTime(&Batch{Decodes: 1, KV: 10_000, Sampled: 1}) / 1e9
	prefill := Batch{Chunks: []Chunk{{New: 8192}}}
	whole := k.Work(&prefill)
	near("FLOPs of a prompt", whole.FLOPs, 8192*2*(7.504e9-128256*4096)+4*32*32*128*8192*8192/2, 0.001)
	seconds := c.Engine.Timer.StepTime(&prefill) / 1e9
	if share := whole.Tensor / seconds; share < 0.5 || share > 0.85 {
		t.Errorf("a prefill keeps the tensor cores busy for %.2f of the time", share)
	}
	g := c.Layout.GPU
	if p := g.power(&whole, seconds); p != 700 {
		t.Errorf("a prefill draws %v W", p)
	}
	if p := g.power(&one, step); p < 0.7*700 || p > 0.95*700 {
		t.Errorf("decoding draws %v W", p)
	}
	// Split over four devices, each does a quarter of it, and talks.
	four, _ := meterOf(t, ClusterConfig{TP: 4})
	part := four.Work(&prefill)
	near("a quarter of the FLOPs", part.FLOPs, whole.FLOPs/4, 0.001)
	near("all-reduces", part.LinkBytes, 8192*65*2*3.0/4*2*4096, 1e-9)
}

// No step of any model is shorter than its work takes at the devices' peaks, and
// none does nothing: two independent sums over the same shapes.
func TestWorkFitsTheStep(t *testing.T) {
	c := Builtin()
	checked := 0
	for i := range c.Models {
		for _, gpu := range []string{"h100", "b200", "mi300x"} {
			for _, cfg := range []ClusterConfig{{TP: 1}, {TP: 8}, {TP: 8, EP: 8}, {TP: 4, PP: 2}, {TP: 1, DP: 8, EP: 8}, {TP: 8, Precision: FP8}} {
				cfg.Model, cfg.GPU = c.Models[i].Name, gpu
				cfg.MaxNumSeqs, cfg.MaxNumBatchedTokens = 64, 256 // beyond its tables the step time is a formula
				cl, err := NewCluster(cfg)
				if err != nil {
					continue // does not fit, or is not possible
				}
				k := NewMeter(c, cl.Layout, cl.Engine.Timer.(*Roofline))
				g := cl.Layout.GPU
				window := int64(k.steps.window)
				for _, b := range []Batch{
					{Decodes: 1, KV: 500, Windowed: min(500, window), Sampled: 1},
					{Decodes: 64, KV: 64 * 2000, Windowed: 64 * min(2000, window), Sampled: 64},
					{Decodes: 16, KV: 16 * 30_000, Windowed: 16 * min(30_000, window), Sampled: 16, Chunks: []Chunk{{New: 500, Past: 1000}}},
					{Chunks: []Chunk{{New: 2048}, {New: 100, Past: 50}}, Sampled: 2},
				} {
					checked++
					seconds := cl.Engine.Timer.StepTime(&b) / 1e9
					w := k.Work(&b)
					memory := (w.ReadBytes + w.WriteBytes) / (g.Bandwidth.V * 1e12) / seconds
					if tensor := w.Tensor / seconds; !(tensor > 0 && tensor < 1) || !(memory > 0 && memory < 1) || !(w.Busy > 0 && w.FLOPs > 0) {
						t.Errorf("%s on %s %+v, batch %+v: tensor cores %.3f, memory %.3f of the time; %+v", cfg.Model, gpu, cfg, b, tensor, memory, w)
					}
					if p := g.power(&w, seconds); p < g.TDP.V*basePower || p > g.TDP.V {
						t.Errorf("%s on %s: %v W of %v", cfg.Model, gpu, p, g.TDP.V)
					}
					if (w.LinkBytes > 0) != (cl.Layout.Devices() > 1) {
						t.Errorf("%s on %s %+v: %v bytes between devices", cfg.Model, gpu, cfg, w.LinkBytes)
					}
				}
			}
		}
	}
	if checked < 500 {
		t.Errorf("only %d batches checked", checked)
	}
}

func TestImpossiblePages(t *testing.T) {
	for _, tt := range []struct {
		cfg  ServerConfig
		want string
	}{
		{ServerConfig{TokensPerEvent: -1}, "tokens-per-event -1"},
		{ServerConfig{TokensPerEvent: 1 << 20}, "want 1 to 1024"},
		{ServerConfig{DCGMInterval: time.Microsecond}, "want at least 10ms"},
		{ServerConfig{ClockShift: -1 << 62}, "clock-shift"},
		{ServerConfig{Router: "roundest"}, "nearest: round-robin"},
	} {
		if _, err := NewServer(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: error %v, want %q in it", tt.cfg, err, tt.want)
		}
	}
}

// The network counters are the bytes that a client sees.
func TestPageOfNode(t *testing.T) { synctest.Test(t, testPageOfNode) }

func testPageOfNode(t *testing.T) {
	s, url := startFake(t, ServerConfig{Step: fast})
	nc := dial(t, url)
	defer nc.Close()
	body := `{"prompt":"x","stream":true,"max_tokens":50,"ignore_eos":true}`
	sent, err := fmt.Fprintf(nc, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(bufio.NewReader(nc))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // what the server does after an answer
	if r, w := s.counters.received.Load(), s.counters.sent.Load(); r != int64(sent) || w != int64(len(got)) {
		t.Errorf("received %d of %d, sent %d of %d", r, sent, w, len(got))
	}
	page := mustParse(t, fetch(t, url+"/node/metrics"))
	if v := total(page, "node_network_transmit_bytes_total", "node_network_transmit_bytes_total", "device", "eth0"); v < float64(len(got)) {
		t.Errorf("transmitted %v", v)
	}
}

// A server with a shifted clock shows one time of day wherever it shows one, and
// its times of requests stay what they are.
func TestClockShift(t *testing.T) {
	for _, shift := range []time.Duration{-90 * time.Minute, 0, 2500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			_, url := startFake(t, ServerConfig{Step: fast, ClockShift: shift})
			time.Sleep(1700 * time.Millisecond)
			status, body := post(t, url+"/v1/completions", `{"prompt":"x","max_tokens":3,"ignore_eos":true}`)
			synctest.Wait() // what the server notes after an answer
			var answer struct{ Created int64 }
			if err := json.Unmarshal([]byte(body), &answer); err != nil || status != 200 {
				t.Fatalf("status %d, %v: %s", status, err, body)
			}
			resp, err := clientOf(url).Get(url + "/node/metrics")
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			date, err := http.ParseTime(resp.Header.Get("Date"))
			if err != nil {
				t.Fatal(err)
			}
			node, page := mustParse(t, string(b)), mustParse(t, fetch(t, url+"/metrics"))
			const e2e = "vllm:e2e_request_latency_seconds"
			start := float64(began.Add(shift).UnixNano()) / 1e9
			for what, times := range map[string][2]float64{
				"created":                    {float64(answer.Created), math.Floor(start + 1.7)},
				"Date":                       {float64(date.Unix()), math.Floor(start + 1.703)},
				"node_time_seconds":          {total(node, "node_time_seconds", "node_time_seconds"), start + 1.703},
				"process_start_time_seconds": {page["process_start_time_seconds"].samples[0].value, start},
				e2e + "_created":             {page[e2e+"_created"].samples[0].value, start},
				e2e + "_sum":                 {total(page, e2e, e2e+"_sum"), .003},
			} {
				if got, want := times[0], times[1]; math.Abs(got-want) > 1e-3*min(1, want) {
					t.Errorf("shift %v: %s is %.4f, want %.4f", shift, what, got, want)
				}
			}
		})
	}
}
