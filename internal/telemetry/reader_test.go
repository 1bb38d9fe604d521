package telemetry

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/signal"
)

// book is a sink that keeps everything.
type book struct {
	series  []signal.Series
	samples []signal.Sample
}

func (b *book) Declare(s signal.Series) int32 {
	b.series = append(b.series, s)
	return int32(len(b.series) - 1)
}

func (b *book) Add(s []signal.Sample) { b.samples = append(b.samples, s...) }

// name returns how the tests call a course: signal or raw name, labels, field and bound.
func (b *book) name(i int32) string {
	s := b.series[i]
	name := s.Raw
	if s.Signal != signal.None {
		name = s.Signal.String()
	}
	if s.Labels != "" {
		name += "{" + s.Labels + "}"
	}
	switch s.Field {
	case signal.Value:
	case signal.TotalBucket:
		name += fmt.Sprintf(".le%v", s.Bound)
	default:
		name += "." + s.Field.String()
	}
	if s.Source != 0 {
		name = fmt.Sprintf("%d:%s", s.Source, name)
	}
	return name
}

// courses returns the values of every course in the order of their samples.
func (b *book) courses() map[string][]float64 {
	out := map[string][]float64{}
	for _, s := range b.samples {
		out[b.name(s.Series)] = append(out[b.name(s.Series)], s.Value)
	}
	return out
}

// read reads pages one second after another, each for 10 ms.
func read(t *testing.T, o Options, pages ...string) (*book, []PageInfo) {
	t.Helper()
	b := &book{}
	r := NewReader(o)
	var infos []PageInfo
	for i, p := range pages {
		info, err := r.Read([]byte(p), "", int64(i)*1e9, int64(i)*1e9+1e7, b)
		if err != nil {
			t.Fatalf("page %d: %v", i, err)
		}
		infos = append(infos, info)
	}
	return b, infos
}

// table reads a table of the test's own.
func table(t testing.TB, text string) *Table {
	t.Helper()
	x, err := LoadTable("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func same(t *testing.T, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// Cases 121: a restart in the middle resets a counter; a reading that lacks the series is a gap.
func TestRestartIsSeenOnceAndAGapIsNone(t *testing.T) {
	page := func(v int) string {
		return fmt.Sprintf("vllm:generation_tokens_total{engine=\"0\"} %d\nvllm:num_requests_running{engine=\"0\"} 1\n", v)
	}
	gap := "vllm:num_requests_running{engine=\"0\"} 1\n"

	b, infos := read(t, Options{}, page(100), page(175), page(20), page(35))
	same(t, b.courses()["generation_tokens{engine=0}"], []float64{100, 175, 20, 35})
	var restarts []int
	for _, i := range infos {
		restarts = append(restarts, i.Restarts)
	}
	same(t, restarts, []int{0, 0, 1, 0})

	b, infos = read(t, Options{}, page(100), gap, page(175))
	same(t, b.courses()["generation_tokens{engine=0}"], []float64{100, 175})
	for i, info := range infos {
		if info.Restarts != 0 {
			t.Errorf("page %d: a gap is no restart", i)
		}
	}
	if len(b.series) != 2 {
		t.Errorf("%d courses, want 2: one that comes back is the same", len(b.series))
	}

	// Restarted while it was not to be seen.
	_, infos = read(t, Options{}, page(100), gap, page(20))
	if infos[2].Restarts != 1 {
		t.Error("a restart during a gap was not seen")
	}
	// A NaN in between says nothing.
	_, infos = read(t, Options{}, page(100), strings.ReplaceAll(page(7), " 7", " NaN"), page(101))
	if infos[1].Restarts+infos[2].Restarts != 0 || infos[1].NaN != 1 {
		t.Errorf("NaN: %+v", infos[1])
	}
	// The process says itself that it started again, with no counter that could have fallen.
	start := func(s string) string { return gap + "process_start_time_seconds " + s + "\n" }
	_, infos = read(t, Options{}, start("1.7e9"), start("1.7e9"), start("1.70000006e9"))
	if infos[1].Restarts != 0 || infos[2].Restarts != 1 || infos[2].Start != 1700000060e9 {
		t.Errorf("start time: %+v", infos)
	}
	// The sum of a histogram of differences may fall; only its count says restart.
	h := func(sum, count int) string {
		return fmt.Sprintf("vllm:time_to_first_token_seconds_sum{engine=\"0\"} %d\nvllm:time_to_first_token_seconds_count{engine=\"0\"} %d\n", sum, count)
	}
	_, infos = read(t, Options{}, h(10, 10), h(9, 11), h(1, 1))
	if infos[1].Restarts != 0 || infos[2].Restarts != 1 {
		t.Errorf("histogram: %+v", infos)
	}
}

// Case 122: engines add up in counts and never in ratios, and each has a course of its own.
func TestEnginesAddUp(t *testing.T) {
	page := `vllm:num_requests_running{engine="0",model_name="m"} 30
vllm:num_requests_running{engine="1",model_name="m"} 10
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.9
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.3
vllm:generation_tokens_total{engine="0",model_name="m"} 1000
vllm:generation_tokens_total{engine="1",model_name="m"} 3000
vllm:time_to_first_token_seconds_bucket{engine="0",model_name="m",le="0.1"} 1
vllm:time_to_first_token_seconds_bucket{engine="0",model_name="m",le="+Inf"} 4
vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 2
vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 4
vllm:time_to_first_token_seconds_bucket{engine="1",model_name="m",le="0.1"} 2
vllm:time_to_first_token_seconds_bucket{engine="1",model_name="m",le="+Inf"} 6
vllm:time_to_first_token_seconds_sum{engine="1",model_name="m"} 3
vllm:time_to_first_token_seconds_count{engine="1",model_name="m"} 6
`
	got, err := ReadPage([]byte(page), "")
	if err != nil {
		t.Fatal(err)
	}
	same(t, got.Sources, []string{"vllm"})
	same(t, got.Signals, map[string]float64{
		"requests_running": 40, "generation_tokens": 4000,
		"kv_cache_usage": (0.9 + 0.3) / 2, "kv_cache_usage_max": 0.9,
		"ttft": (2.0 + 3) / (4 + 6),
	})
	b, _ := read(t, Options{}, page)
	same(t, b.courses(), map[string][]float64{
		"requests_running{engine=0}": {30}, "requests_running{engine=1}": {10},
		"kv_cache_usage{engine=0}": {0.9}, "kv_cache_usage{engine=1}": {0.3},
		"generation_tokens{engine=0}": {1000}, "generation_tokens{engine=1}": {3000},
		"ttft{engine=0}.sum": {2}, "ttft{engine=0}.count": {4}, "ttft{engine=0}.le0.1": {1}, "ttft{engine=0}.le+Inf": {4},
		"ttft{engine=1}.sum": {3}, "ttft{engine=1}.count": {6}, "ttft{engine=1}.le0.1": {2}, "ttft{engine=1}.le+Inf": {6},
	})
}

// Case 125: what is odd is left out and counted, and everything else is used.
func TestOddPages(t *testing.T) {
	page := `# TYPE vllm:e2e_request_latency_seconds histogram
vllm:e2e_request_latency_seconds_sum{model_name="m"} 10
vllm:e2e_request_latency_seconds_count{model_name="m"} 4
vllm:e2e_request_latency_seconds_created{model_name="m"} 1.7e+09
# TYPE go_gc summary
go_gc{quantile="0.5"} NaN
# TYPE foo counter
foo_total 17.0 # {trace_id="KOO5S4vxi0o"} 0.67
# EOF
`
	for _, contentType := range []string{"", "text/plain; version=0.0.4", "application/openmetrics-text; version=1.0.0; charset=utf-8"} {
		got, err := ReadPage([]byte(page), contentType)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got.Signals, map[string]float64{"e2e": 2.5})
		if got.Info.NaN != 1 || got.Info.Series != 5 || got.Info.Malformed != 0 {
			t.Errorf("%s: %+v", contentType, got.Info)
		}
	}
	b, _ := read(t, Options{}, page)
	same(t, b.courses(), map[string][]float64{"e2e.sum": {10}, "e2e.count": {4}})

	only := func(lines string) *Reading {
		t.Helper()
		got, err := ReadPage([]byte(lines), "")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	// Only the last bucket: it is the count.
	got := only("vllm:e2e_request_latency_seconds_bucket{le=\"+Inf\"} 4\nvllm:e2e_request_latency_seconds_sum 10\n")
	same(t, got.Signals, map[string]float64{"e2e": 2.5})
	// A mean of nothing is unknown.
	got = only("vllm:e2e_request_latency_seconds_count 0\nvllm:e2e_request_latency_seconds_sum 0\n")
	same(t, got.Signals, map[string]float64{})
	// The type that a page states is not what decides.
	got = only("# TYPE vllm:num_requests_running counter\n# TYPE vllm:prompt_tokens_total gauge\nvllm:num_requests_running 3\nvllm:prompt_tokens_total 5\n")
	same(t, got.Signals, map[string]float64{"requests_running": 3, "prompt_tokens": 5})
	// Infinite, absurd and impossible values are missing.
	got = only("DCGM_FI_DEV_POWER_USAGE{gpu=\"0\"} +Inf\nDCGM_FI_DEV_GPU_TEMP{gpu=\"0\"} 9223372036854775794\n" +
		"DCGM_FI_DEV_SM_CLOCK{gpu=\"0\"} 2147483632\nDCGM_FI_PROF_DRAM_ACTIVE{gpu=\"0\"} 7407936\nDCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 101\n" +
		"DCGM_FI_DEV_MEMORY_TEMP{gpu=\"0\"} 0\nDCGM_FI_DEV_FB_USED{gpu=\"0\"} 18446744073709551600\nDCGM_FI_DEV_XID_ERRORS{gpu=\"0\"} 79\n" +
		"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu=\"0\"} 9223372036854775794\n")
	same(t, got.Signals, map[string]float64{"xid": 79})
	if got.Info.OutOfRange != 7 || got.Info.NaN != 1 {
		t.Errorf("%+v", got.Info)
	}
	// Line ends of Windows, spaces everywhere, no line end at the end, a byte order mark.
	got = only("\ufeff# TYPE x gauge\r\nvllm:num_requests_running { engine = \"0\" , model_name=\"a b\" , } \t 3 \r\n\r\n  vllm:num_requests_waiting{engine=\"0\"}   4  1700000000000\r\nvllm:num_preemptions_total{engine=\"0\"} 5")
	same(t, got.Signals, map[string]float64{"requests_running": 3, "requests_waiting": 4, "preemptions": 5})
	if got.Info.Timestamps != 1 || got.Info.Newest != 1700000000e9 {
		t.Errorf("%+v", got.Info)
	}
	// Names and labels in quotes, as UTF-8 names are written, and all escapes.
	got = only("{\"vllm:num_requests_running\",\"engine\"=\"0\"} 2\nvllm:num_requests_waiting{engine=\"0\",m=\"a\\\"b\\\\c\\nd}\"} 6\n")
	same(t, got.Signals, map[string]float64{"requests_running": 2, "requests_waiting": 6})
}

func TestBrokenLinesAreNamedAndTheRestIsUsed(t *testing.T) {
	page := `vllm:num_requests_running{engine="0"} 3
this is no sample
vllm:num_requests_waiting{engine="0" 4
vllm:prompt_tokens_total{engine="0"} seven
vllm:num_preemptions_total{engine="0"} 1 2 3
{} 5
vllm:generation_tokens_total{engine="0"} 9
vllm:generation_tokens_total{engine="0"} 10
0bad 1
vllm:kv_cache_usage_perc{engine="0",a} 0.5
vllm:kv_cache_usage_perc{engine="0"} 0x10
python_info 1
a{1x="y"} 1
a{b=c} 1
a{"b="c"} 1
a{b="c" d="e"} 1
a{b} 1
{b="c"} 1
` + "a{" + strings.Repeat(`b="c",`, maxLabels+1) + "} 1\n"
	got, err := ReadPage([]byte(page), "")
	if err != nil {
		t.Fatal(err)
	}
	same(t, got.Signals, map[string]float64{"requests_running": 3, "generation_tokens": 9})
	if got.Info.Malformed != 15 || got.Info.Duplicate != 1 || got.Info.Series != 3 {
		t.Errorf("%+v", got.Info)
	}
	var lines []int
	for _, p := range got.Info.Problems {
		lines = append(lines, p.Line)
		if p.Text == "" {
			t.Error("a problem without a text")
		}
	}
	same(t, lines, []int{2, 3, 4, 5, 6, 8, 9, 10, 11, 13})
	if !strings.Contains(got.Info.Problems[0].Text, "this is no sample") {
		t.Errorf("%q does not show the line", got.Info.Problems[0].Text)
	}
	// No line is read that is longer than any may be.
	got, err = ReadPage([]byte("vllm:num_requests_waiting{engine=\"0\",x=\""+strings.Repeat("x", 100_000)+"\"} 5\n"+page), "")
	if err != nil || got.Info.Malformed != 16 || len(got.Signals) != 2 || !strings.Contains(got.Info.Problems[0].Text, "bytes") {
		t.Errorf("%v %+v", err, got)
	}
	// A megabyte of nonsense is not a megabyte of problems.
	got, err = ReadPage([]byte(page+strings.Repeat("nonsense without end\n", 50_000)), "")
	if err != nil || got.Info.Malformed != 50_015 || len(got.Info.Problems) > maxProblems {
		t.Errorf("%v, %d problems of %d", err, len(got.Info.Problems), got.Info.Malformed)
	}
}

func TestBodiesThatAreNoPage(t *testing.T) {
	for name, body := range map[string]string{
		"html":            "<!DOCTYPE html><html><body>Sign in</body></html>",
		"html after gaps": "\n\n  <html>",
		"gzip":            "\x1f\x8b\x08\x00\x00\x00\x00\x00",
		"binary":          "PNG\x00\x01\x02\x03",
		"text":            "Not Found\n",
		"json":            `{"detail":"Not Found","code":404}`,
		"json list":       `[{"a":1}]`,
		"json cut off":    `[{"iter": 1, "iterLatencyMS"`,
		"json not closed": `[{"iter": 1}`,
		"json no list":    `[{"iter": 1}}`,
	} {
		if _, err := ReadPage([]byte(body), ""); !errors.Is(err, ErrNotAPage) {
			t.Errorf("%s: %v", name, err)
		} else if len(err.Error()) > 300 {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, body := range map[string]string{"empty": "", "comments": "# HELP x y\n# EOF\n", "blank": "\n\n \n", "drained": "[]"} {
		got, err := ReadPage([]byte(body), "")
		if err != nil || len(got.Signals) != 0 || len(got.Sources) != 0 {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
}

// Old and new names side by side are one thing told twice.
func TestNamesByPreference(t *testing.T) {
	both := "vllm:kv_cache_usage_perc{engine=\"0\"} 0.5\nvllm:gpu_cache_usage_perc{engine=\"0\"} 0.4\n" +
		"vllm:prefix_cache_hits_total{engine=\"0\"} 10\nvllm:gpu_prefix_cache_hits_total{engine=\"0\"} 10\n" +
		"vllm:prefix_cache_queries_total{engine=\"0\"} 40\nvllm:gpu_prefix_cache_queries_total{engine=\"0\"} 40\n"
	got, err := ReadPage([]byte(both), "")
	if err != nil {
		t.Fatal(err)
	}
	same(t, got.Signals, map[string]float64{"kv_cache_usage": 0.5, "prefix_cache_hits": 10, "prefix_cache_queries": 40, "prefix_cache_hit_ratio": 0.25})
	// The server is replaced by an older one: the course goes on under the old name.
	old := "vllm:gpu_cache_usage_perc{engine=\"0\"} 0.3\n"
	b, _ := read(t, Options{}, both, old, both)
	same(t, b.courses()["kv_cache_usage{engine=0}"], []float64{0.5, 0.3, 0.5})
	// With and without the ending of counters.
	got, err = ReadPage([]byte("vllm:prompt_tokens{engine=\"0\"} 7\nvllm:generation_tokens_total{engine=\"0\"} 8\n"), "")
	if err != nil {
		t.Fatal(err)
	}
	same(t, got.Signals, map[string]float64{"prompt_tokens": 7, "generation_tokens": 8})
}

// The names of DCGM 4.6, and devices that are told several times.
func TestNamesOfDCGM(t *testing.T) {
	f := func(page string, want map[string]float64) {
		t.Helper()
		got, err := ReadPage([]byte(page), "")
		if err != nil {
			t.Fatal(err)
		}
		same(t, got.Sources, []string{"dcgm"})
		same(t, got.Signals, want)
	}
	f(`DCGM_FI_PROF_SM_UTIL_RATIO{gpu="0"} 0.8
DCGM_FI_PROF_SM_OCCUPANCY_RATIO{gpu="0"} 0.3
DCGM_FI_PROF_TENSOR_UTIL_RATIO{gpu="0"} 0.7
DCGM_FI_PROF_DRAM_UTIL_RATIO{gpu="0"} 0.4
DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO{gpu="0"} 0.9
DCGM_FI_DEV_GPU_UTIL_RATIO{gpu="0"} 0.95
DCGM_FI_DEV_BOARD_POWER_WATTS{gpu="0"} 650
DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS{gpu="0"} 700
DCGM_FI_DEV_GPU_TEMP_CELSIUS{gpu="0"} 61
DCGM_FI_DEV_MEMORY_TEMP_CELSIUS{gpu="0"} 71
DCGM_FI_DEV_XID_ERROR{gpu="0"} 31
DCGM_FI_DEV_PCIE_REPLAY_TOTAL{gpu="0"} 2
DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL{gpu="0"} 3
DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL{gpu="0"} 5e12
`, map[string]float64{
		"sm_active": 0.8, "sm_occupancy": 0.3, "tensor_active": 0.7, "dram_active": 0.4, "gr_engine_active": 0.9, "gpu_util": 0.95, "power": 650, "power_limit": 700,
		"gpu_temp": 61, "mem_temp": 71, "xid": 31, "gpu_errors": 5, "pcie_tx_bytes": 5e12,
	})
	f("# HELP DCGM_FI_DEV_GPU_UTIL_RATIO GPU utilization (in %).\nDCGM_FI_DEV_GPU_UTIL_RATIO{gpu=\"0\"} 1\n", map[string]float64{"gpu_util": 0.01})
	// Instances of one device: its power counts once, their memory adds up; several pods on one device repeat its figures.
	f(`DCGM_FI_DEV_POWER_USAGE{gpu="0",GPU_I_ID="1"} 300
DCGM_FI_DEV_POWER_USAGE{gpu="0",GPU_I_ID="2"} 300
DCGM_FI_DEV_FB_USED{gpu="0",GPU_I_ID="1"} 10
DCGM_FI_DEV_FB_USED{gpu="0",GPU_I_ID="2"} 20
DCGM_FI_PROF_DRAM_ACTIVE{gpu="0",GPU_I_ID="1"} 0.5
DCGM_FI_PROF_DRAM_ACTIVE{gpu="0",GPU_I_ID="2"} 0.1
DCGM_FI_DEV_POWER_USAGE{gpu="1",pod="a"} 200
DCGM_FI_DEV_POWER_USAGE{gpu="1",pod="b"} 200
`, map[string]float64{"power": 500, "fb_used": 30 << 20, "dram_active": 0.3, "dram_active_max": 0.5})
	b, _ := read(t, Options{}, "DCGM_FI_DEV_POWER_USAGE{gpu=\"0\",UUID=\"GPU-1\",Hostname=\"h\"} 1\n", "DCGM_FI_DEV_POWER_USAGE{gpu=\"0\",UUID=\"GPU-1\",hostname=\"h\"} 2\n")
	same(t, b.courses(), map[string][]float64{"power{gpu=0,host=h,uuid=GPU-1}": {1, 2}})
}

func TestRepeatedRanksCountOnce(t *testing.T) {
	page := ""
	for dp := range 2 {
		for tp := range 4 {
			// Ranks are told in the order 3, 2, 1, 0; with data-parallel attention their numbers go on from replica to replica.
			for _, rank := range []int{3 - tp, 4*dp + 3 - tp} {
				page += fmt.Sprintf("sglang:num_running_reqs{dp_rank=\"%d\",tp_rank=\"%d\",pp_rank=\"0\"} %d\n", dp, rank, 10+dp)
			}
		}
	}
	got, err := ReadPage([]byte(page), "")
	if err != nil {
		t.Fatal(err)
	}
	same(t, got.Signals, map[string]float64{"requests_running": 21})
	// The lowest rank counts, as a number: 2 before 10.
	got, err = ReadPage([]byte("sglang:num_running_reqs{tp_rank=\"10\"} 5\nsglang:num_running_reqs{tp_rank=\"2\"} 6\n"), "")
	if err != nil {
		t.Fatal(err)
	}
	same(t, got.Signals, map[string]float64{"requests_running": 6})
	// Rank 0 comes later than others: from then on it is the one.
	b, _ := read(t, Options{}, "sglang:num_running_reqs{tp_rank=\"1\"} 5\n", "sglang:num_running_reqs{tp_rank=\"1\"} 5\nsglang:num_running_reqs{tp_rank=\"0\"} 6\n")
	same(t, b.courses(), map[string][]float64{"requests_running": {5, 6}})
}

func TestOwnTimestamps(t *testing.T) {
	page := func(ms int64, v int) string {
		return fmt.Sprintf("npu_chip_info_power{id=\"0\"} %d %d\nnpu_chip_info_temperature{id=\"0\"} 40\n", v, ms)
	}
	b := &book{}
	const zero = 1_700_000_000e9
	r := NewReader(Options{WallZero: zero})
	for i, p := range []string{page(1_700_000_005_250, 100), page(1_700_000_005_250, 100), page(1_700_000_007_000, 110)} {
		if _, err := r.Read([]byte(p), "", int64(i)*1e9, int64(i)*1e9+5, b); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, s := range b.samples {
		got = append(got, fmt.Sprintf("%s %d-%d %v", b.name(s.Series), s.Start, s.End, s.Value))
	}
	// The second page repeats what the first said: no new value. What has no time of its own has that of the reading.
	same(t, got, []string{
		"power{gpu=0} 5250000000-5250000000 100", "gpu_temp{gpu=0} 0-5 40",
		"gpu_temp{gpu=0} 1000000000-1000000005 40",
		"power{gpu=0} 7000000000-7000000000 110", "gpu_temp{gpu=0} 2000000000-2000000005 40",
	})
	// What goes back in time is no news either, but it is said.
	n := len(b.samples)
	info, err := r.Read([]byte(page(1_700_000_006_000, 90)), "", 3e9, 3e9+5, b)
	if err != nil || info.Backwards != 1 || len(info.Problems) != 1 || len(b.samples) != n+1 {
		t.Errorf("%+v, %v", info, err)
	}
	// Without the run's zero they cannot be used.
	b, _ = read(t, Options{}, page(1_700_000_005_250, 100))
	if b.samples[0].Start != 0 || b.samples[0].End != 1e7 {
		t.Errorf("%+v", b.samples[0])
	}
}

func TestSeveralSourcesOnOnePage(t *testing.T) {
	page := string(readFile(t, "vllm_v1.t1.prom")) + string(readFile(t, "dcgm.prom"))
	var order []string
	b, infos := read(t, Options{Source: func(x *Table) int { order = append(order, x.Source); return 10 + len(order) }}, page)
	same(t, infos[0].Sources, []string{"dcgm", "vllm"})
	same(t, order, infos[0].Sources)
	for _, s := range b.series {
		want := 12
		if s.Signal != signal.None && s.Signal.Def().Group != signal.Engine {
			want = 11
		}
		if s.Source != want {
			t.Errorf("%v comes from source %d", s, s.Source)
		}
	}
	// A router that repeats the engines' names is not an engine, whenever that becomes known.
	engine := "vllm:num_requests_running 3\n"
	router := engine + "vllm:healthy_pods_total{server=\"http://a\"} 1\n"
	_, infos = read(t, Options{}, engine, router)
	same(t, infos[0].Sources, []string{"vllm-v0"})
	same(t, infos[1].Sources, []string{"vllm-router"})
}

func TestPagesThatBorrowNames(t *testing.T) {
	f := func(page string, want bool) {
		t.Helper()
		_, infos := read(t, Options{}, page, page)
		got := len(infos[0].Problems) == 1 && strings.Contains(infos[0].Problems[0].Text, "unverified")
		if got != want || len(infos[1].Problems) != 0 {
			t.Errorf("%+v, then %+v", infos[0].Problems, infos[1].Problems)
		}
	}
	const page = "vllm:num_requests_running{engine=\"0\"} 1\n"
	f(page, true)
	f(page+"vllm:cache_config_info{engine=\"0\",block_size=\"16\"} 1\n", false)
	f(page+"process_start_time_seconds 1.7e9\n", false)
	f("sglang:num_running_reqs 1\n", false) // of which nothing is known that only the server has
}

func TestYields(t *testing.T) {
	inner := table(t, "source: inner\ndetect: in_*\nsignals: {requests_running: in_running, requests_waiting: in_waiting}\n")
	outer := table(t, "source: outer\ndetect: out_*\nyields: [inner]\nsignals: {requests_running: out_running, preemptions: out_preemptions}\n")
	o := Options{Tables: []*Table{outer, inner}}
	b, _ := read(t, o, "out_running 7\nout_preemptions 1\nin_running 5\n")
	same(t, b.courses(), map[string][]float64{"preemptions": {1}, "1:requests_running": {5}})
	// Alone it says all it knows; a signal that the other lacks stays.
	b, _ = read(t, o, "out_running 7\n", "out_running 7\nin_waiting 5\n", "out_running 7\nin_waiting 5\nin_running 6\n")
	same(t, b.courses(), map[string][]float64{"requests_running": {7, 7}, "1:requests_waiting": {5, 5}, "1:requests_running": {6}})
}

// ways are pages of a table for one signal with the values that must come out.
func TestWays(t *testing.T) {
	f := func(signals, page string, want map[string][]float64) {
		t.Helper()
		x := table(t, "source: x\ndetect: [a*, b*, c*]\nkeep: {gpu: [gpu, GPU]}\nsignals:\n"+signals)
		b, _ := read(t, Options{Tables: []*Table{x}}, page)
		same(t, b.courses(), want)
	}
	one := func(name string, v float64) map[string][]float64 { return map[string][]float64{name: {v}} }
	none := map[string][]float64{}

	f("  power: {from: a, factor: 0.001}\n", "a 1500\n", one("power", 1.5))
	f("  power: a\n", "a{gpu=\"1\",x=\"2\"} 3\na{GPU=\"2\"} 4\na{gpu=\"1\",x=\"3\"} 5\n", map[string][]float64{"power{gpu=1}": {8}, "power{gpu=2}": {4}})
	f("  power: {from: a, keep: [gpu], combine: mean}\n", "a{gpu=\"1\",x=\"2\"} 3\na{gpu=\"1\",x=\"3\"} 5\n", one("power{gpu=1}", 4))
	f("  power: {from: a, combine: max}\n", "a{x=\"2\"} 3\na{x=\"3\"} 5\na NaN\n", one("power", 5))
	f("  power: {from: a, combine: min}\n", "a{x=\"2\"} 3\na{x=\"3\"} 5\n", one("power", 3))
	f("  host_cpus: {from: a, combine: count}\n", "a{x=\"2\"} 3\na{x=\"3\"} 5\n", one("host_cpus", 2))
	f("  host_cpus: {from: a, combine: count}\n", "a 8\n", one("host_cpus", 1))
	f("  power: a\n", "a{x=\"2\"} 3\na{x=\"3\"} NaN\n", none) // part of a sum is unknown
	f("  power: {sum: [a, b]}\n", "a 3\nb 5\n", one("power", 8))
	f("  power: {sum: [a, b]}\n", "a 3\n", one("power", 3))
	f("  power: {sum: [a, b]}\n", "b 3\n", none)
	f("  power: {sum: [a, b]}\n", "a{gpu=\"0\"} 3\nb{gpu=\"0\"} 1\nb{gpu=\"1\"} 5\n", map[string][]float64{"power{gpu=0}": {4}, "power{gpu=1}": {5}})
	f("  power: {from: a, less: [b, c]}\n", "a 7\nb 5\n", one("power", 2))
	f("  kv_capacity: {from: a, times: b}\n", "a{gpu=\"0\"} 7\na{gpu=\"1\"} 8\nb 5\n", map[string][]float64{"kv_capacity{gpu=0}": {35}, "kv_capacity{gpu=1}": {40}})
	f("  kv_capacity: {from: a, times: b}\n", "a{gpu=\"0\"} 7\na{gpu=\"1\"} 8\nb{gpu=\"0\"} 5\n", one("kv_capacity{gpu=0}", 35))
	f("  kv_capacity: {from: a, times: b}\n", "a 7\n", none)
	f("  kv_cache_usage: {from: a, over: b}\n", "a 3\nb 4\n", one("kv_cache_usage", 0.75))
	f("  kv_cache_usage: {from: a, over: b}\n", "a 0\nb 0\n", none)
	f("  kv_cache_usage: {from: a, over: b}\n", "a 3\nb 0\n", none)
	f("  kv_cache_usage:\n    - {from: a, over: b}\n    - c\n", "a 3\nc 0.5\n", one("kv_cache_usage", 0.5))
	f("  kv_capacity: {from: a_info, labels: [size, n]}\n", "a_info{size=\"16\",n=\"6000\"} 1\n", one("kv_capacity", 96000))
	f("  kv_capacity: {from: a_info, labels: [size, n]}\n", "a_info{size=\"16\",n=\"None\"} 1\n", none)
	f("  kv_capacity: {from: a_info, labels: [size]}\n", "a_info{size=\"16\"} 1\na_info{size=\"32\"} 1\n", one("kv_capacity", 48))
	f("  engine_sleeping: {from: a, invert: true}\n", "a 1\n", one("engine_sleeping", 0))
	f("  throttled: {from: a, mask: \"0xec\"}\n", "a{gpu=\"0\"} 3\na{gpu=\"1\"} 4\n", map[string][]float64{"throttled{gpu=0}": {0}, "throttled{gpu=1}": {1}})
	f("  power: {from: a, range: [10, 20]}\n", "a{gpu=\"0\"} 9\na{gpu=\"1\"} 20\n", one("power{gpu=1}", 20))
	f("  gpu_util: {from: a, factor: 0.01}\n", "a{gpu=\"0\"} 105\na{gpu=\"1\"} 106\na{gpu=\"2\"} -1\n", one("gpu_util{gpu=0}", 1.05))
	f("  power: {from: a, needs: [b]}\n", "a 3\nc 1\n", none)
	f("  power: {from: a, needs: [b]}\n", "a 3\nb 1\n", one("power", 3))
	f("  power: {from: a, help: in mW, factor: 0.001}\n", "# HELP a Power (in mW).\na 3000\n", one("power", 3))
	f("  power: {from: a, help: in mW, factor: 0.001}\n", "# HELP a Power (in W).\n# HELP ab Power (in mW).\na 3000\n", none)
	f("  power: [\"a_*\"]\n", "a_1 3\na_2 4\na_2_created 5\nb 1\n", one("power", 7))
	f("  power:\n    from: ['a{x=~\"1|2\",y!=\"\"}']\n", "a{x=\"1\",y=\"1\"} 3\na{x=\"12\",y=\"1\"} 5\na{x=\"2\"} 7\n", one("power", 3))
	f("  power: a{x=\"\"}\n", "a{x=\"1\"} 3\na{y=\"1\"} 4\n", one("power", 4))
	f("  ttft: {from: a_ms, factor: 0.001}\n", "a_ms_sum 3000\na_ms_count 2\na_ms_bucket{le=\"100\"} 1\na_ms_bucket{le=\"+Inf\"} 2\n",
		map[string][]float64{"ttft.sum": {3}, "ttft.count": {2}, "ttft.le0.1": {1}, "ttft.le+Inf": {2}})
	f("  ttft: a, b\n", "b_sum 3\nb_count 2\n", map[string][]float64{"ttft.sum": {3}, "ttft.count": {2}})
	f("  ttft: a\n", "a{quantile=\"0.5\"} 1\na_sum 3\na_count 2\n", map[string][]float64{"ttft.sum": {3}, "ttft.count": {2}})
	f("  ttft: {total: a_us, count: b, factor: 0.000001}\n", "a_us 3000000\nb 2\n", map[string][]float64{"ttft.sum": {3}, "ttft.count": {2}})
	f("  ttft: {total: a_us, count: b}\n", "a_us 3\n", none)
	f("  engine_steps: a_count\n", "a_sum 3\na_count 2\n", one("engine_steps", 2))
	// Bounds that differ cannot be added up; sum and count can.
	f("  ttft: a\n", "a_sum{x=\"1\"} 1\na_count{x=\"1\"} 2\na_bucket{x=\"1\",le=\"1\"} 1\na_bucket{x=\"1\",le=\"+Inf\"} 2\n"+
		"a_sum{x=\"2\"} 3\na_count{x=\"2\"} 4\na_bucket{x=\"2\",le=\"2\"} 1\na_bucket{x=\"2\",le=\"+Inf\"} 4\n",
		map[string][]float64{"ttft.sum": {4}, "ttft.count": {6}})
	f("  ttft: a\n", "a_sum{x=\"1\"} 1\na_count{x=\"1\"} 2\na_bucket{x=\"1\",le=\"1\"} 1\na_bucket{x=\"1\",le=\"+Inf\"} 2\n"+
		"a_sum{x=\"2\"} 3\na_count{x=\"2\"} 4\na_bucket{x=\"2\",le=\"1\"} 1\na_bucket{x=\"2\",le=\"+Inf\"} 4\n",
		map[string][]float64{"ttft.sum": {4}, "ttft.count": {6}, "ttft.le1": {2}, "ttft.le+Inf": {6}})
	// A ratio that is stated gives way to its counters.
	f("  prefix_cache_hit_ratio: a\n  prefix_cache_hits: b\n  prefix_cache_queries: c\n", "a 0.9\nb 1\nc 4\n", map[string][]float64{"prefix_cache_hits": {1}, "prefix_cache_queries": {4}})
	f("  prefix_cache_hit_ratio: a\n  prefix_cache_hits: b\n  prefix_cache_queries: c\n", "a 0.9\nb 1\n", map[string][]float64{"prefix_cache_hits": {1}, "prefix_cache_hit_ratio": {0.9}})
	// Labels that would break the list of labels.
	f("  power: a\n", "a{gpu=\"x,y\\nz\"} 3\n", one("power{gpu=x;y z}", 3))
}

func TestZeroThatMeansOff(t *testing.T) {
	page := func(v int) string { return fmt.Sprintf("vllm:estimated_flops_per_gpu_total{engine=\"0\"} %d\n", v) }
	b, _ := read(t, Options{}, page(0), page(0), page(5), page(0), page(3))
	// Once it was counted, 0 is a value: the engine started again.
	same(t, b.courses(), map[string][]float64{"model_flops{engine=0}": {5, 0, 3}})
	got, err := ReadPage([]byte(page(0)), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range got.Missing {
		if m.Signal == "model_flops" {
			if !strings.Contains(m.Why, "0") || m.Enable == "" {
				t.Errorf("%+v", m)
			}
			return
		}
	}
	t.Error("model_flops is not missing")
}

func TestMissing(t *testing.T) {
	x := table(t, `source: x
detect: a*
signals:
  power: {from: [a_power, a_watts], since: "3.1"}
  energy: {from: a_energy, enable: start it with --energy}
  gpu_util: a_util
  gpu_temp: a_temp
  sm_active: {from: a_sm, needs: a_prof}
  prefix_cache_hits: a_hits
  prefix_cache_queries: a_queries
  prefix_cache_hit_ratio: a_ratio
  kv_capacity: {from: a_blocks, times: a_size}
absent:
  mem_temp: the device cannot measure it
  power: not said
`)
	got, err := ReadPage([]byte("a_util 3\na_temp NaN\na_sm 0.5\na_hits 1\na_queries 4\na_blocks{gpu=\"0\"} 5\n"), "", x)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got.Missing, []Missing{
		{"x", "kv_capacity", "the page has no a_size", ""},
		{"x", "gpu_util", "its value 3 cannot be true: want 0 to 1.05", ""},
		{"x", "sm_active", "the page has no a_prof", ""},
		{"x", "power", "the page has no a_power, no a_watts (there since 3.1)", ""},
		{"x", "energy", "the page has no a_energy", "start it with --energy"},
		{"x", "gpu_temp", "its value is no number", ""},
		{"x", "mem_temp", "the device cannot measure it", ""},
	})
}

// A server whose names change with every page must not fill the memory, and costs no course that is not one.
func TestChurn(t *testing.T) {
	r, b := NewReader(Options{}), &book{}
	for i := range 200 {
		var page strings.Builder
		fmt.Fprintf(&page, "vllm:num_requests_running{engine=\"0\"} %d\n", i)
		// Not counted until the 150th page, and joined by others from time to time.
		fmt.Fprintf(&page, "vllm:estimated_flops_per_gpu_total{engine=\"0\"} %d\n", max(0, i-149))
		if i%20 == 0 {
			page.WriteString("vllm:num_requests_waiting{engine=\"0\"} 1\n")
		}
		for j := range 200 {
			fmt.Fprintf(&page, "http_requests_total{path=\"/%d/%d\"} 1\nx%d_%d 2\n", i, j, i, j)
		}
		info, err := r.Read([]byte(page.String()), "", int64(i), int64(i), b)
		if err != nil || info.Series < 402 {
			t.Fatal(info, err)
		}
	}
	if len(r.all) > 2500 || len(r.byText) > 2500 || len(r.byKey) > 2500 || len(r.names) > 2500 {
		t.Errorf("%d series, %d texts, %d keys, %d names are kept", len(r.all), len(r.byText), len(r.byKey), len(r.names))
	}
	if len(b.series) != 3 || len(b.samples) != 200+50+10 {
		t.Errorf("%d courses with %d samples: %v", len(b.series), len(b.samples), b.series)
	}
}

func TestTooManySeries(t *testing.T) {
	var page strings.Builder
	for i := range 100 {
		fmt.Fprintf(&page, "vllm:num_requests_running{engine=\"%d\"} 1\n", i)
	}
	for _, head := range []string{"", "broken line\n"} {
		b, infos := read(t, Options{MaxSeries: 10}, head+page.String(), head+page.String())
		if infos[1].Series != 10 || len(infos[1].Problems) == 0 || len(b.series) != 10 || len(b.samples) != 20 {
			t.Errorf("%+v, %d courses", infos[1], len(b.series))
		}
	}
}

// Labels that change with every reading bring new courses only as long as there is room; those that are known go on.
func TestNoRoom(t *testing.T) {
	var pages []string
	for i := range 6 {
		pages = append(pages, fmt.Sprintf("vllm:num_requests_running{engine=\"0\"} %d\nvllm:num_requests_running{engine=\"new%d\"} 1\n", i, i))
	}
	left := 3
	b, infos := read(t, Options{Room: func() bool { left--; return left >= 0 }}, pages...)
	if len(b.series) != 3 || len(b.samples) != 6+2 {
		t.Errorf("%d courses with %d samples, want 3 with 8", len(b.series), len(b.samples))
	}
	for i, info := range infos {
		if want := max(0, min(i-1, 1)); info.NoRoom != want || info.Samples != 2-want {
			t.Errorf("page %d: %d without room, %d samples", i, info.NoRoom, info.Samples)
		}
	}
}

// What a server cannot mean is left out: there is no negative number of requests, while temperatures may be.
func TestLessThanNothing(t *testing.T) {
	x := table(t, `source: x
title: X
detect: [a]
signals:
  requests_running: a
  fb_used: b
  gpu_temp: c
`)
	b, infos := read(t, Options{Tables: []*Table{x}}, "a -1\nb -1e9\nc -20\n", "a 2\nb 0\nc 5\n")
	if diff := cmp.Diff(map[string][]float64{"requests_running": {2}, "fb_used": {0}, "gpu_temp": {-20, 5}}, b.courses()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if infos[0].OutOfRange != 2 || infos[1].OutOfRange != 0 {
		t.Errorf("%d and %d out of range", infos[0].OutOfRange, infos[1].OutOfRange)
	}
}

// The strict parser and the scanner say the same of every page that the strict one takes.
func TestScannerAgreesWithParser(t *testing.T) {
	for name, page := range allPages(t) {
		var strict, tolerant sampleLines
		if err := parsePage(page, false, &strict); err != nil {
			continue
		}
		scanPage(page, false, &tolerant)
		if d := cmp.Diff(strict.got, tolerant.got); d != "" || len(strict.got) == 0 {
			t.Errorf("%s (-parser +scanner)\n%s", name, d)
		}
	}
}

// The same of pages put together from scraps, valid by chance.
func TestScannerAgreesWithParserOnScraps(t *testing.T) {
	scraps := []string{
		"a", "b:c", "le", "{", "}", "=", `"`, `"x"`, `"a\"b"`, ",", " ", "\t", "1", "2.5", "NaN", "+Inf", "-Inf", "inf", "1e3", "0x1p2", "1_0", "#", "# ", "\n", "\n", "\r",
		"\\", `{a="b"}`, " 1\n", " 1 2\n", "é", "\xff", "# HELP a b\n", "# TYPE a gauge\n", "# EOF\n", `{"q.r"}`, "{\"q.r\",a=\"b\"} 3\n", "\x00", ".", "-", "1e400", " # {a=\"b\"} 1\n",
	}
	rng := rand.New(rand.NewPCG(7, 7))
	taken := 0
	for range 100_000 {
		var page []byte
		for range 1 + rng.IntN(9) {
			page = append(page, scraps[rng.IntN(len(scraps))]...)
		}
		openMetrics := rng.IntN(4) == 0
		var strict, tolerant sampleLines
		if looksLike(page) != "" || parsePage(page, openMetrics, &strict) != nil {
			continue
		}
		// The parser also takes lines without a space before the value.
		if scanPage(page, openMetrics, &tolerant); tolerant.bad > 0 {
			continue
		}
		taken++
		if d := cmp.Diff(strict.got, tolerant.got); d != "" {
			t.Fatalf("%q (-parser +scanner)\n%s", page, d)
		}
	}
	if taken < 1000 {
		t.Errorf("only %d pages were valid", taken)
	}
}

// sampleLines keeps what a parser says, as text.
type sampleLines struct {
	got  []string
	bad  int
	full int
}

func (l *sampleLines) take(x *line) bool {
	v := fmt.Sprint(math.Float64bits(x.value))
	if math.IsNaN(x.value) {
		v = "NaN"
	}
	name, labels, ok := parseSeries(string(x.series))
	if !ok {
		l.bad++
	}
	l.got = append(l.got, fmt.Sprintf("%q %q %s %d", name, labels, v, x.stamp))
	return l.full == 0 || len(l.got) < l.full
}

func (l *sampleLines) malformed(int, []byte, string) { l.bad++ }

func allPages(t testing.TB) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	entries, err := os.ReadDir("testdata/pages")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, ".prom") {
			out[name] = readFile(t, name)
		}
	}
	return out
}

// Neither the order of lines nor which parser reads them changes what a page says, nor does what other pages said before.
func TestOrderDoesNotMatter(t *testing.T) {
	for name, page := range allPages(t) {
		want, err := ReadPage(page, "")
		if err != nil {
			t.Fatal(name, err)
		}
		if want.Info.Duplicate > 0 {
			continue // of which the first counts
		}
		text := strings.Split(string(page), "\n")
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(text), func(i, j int) { text[i], text[j] = text[j], text[i] })
		r := NewReader(Options{})
		for _, p := range []string{"vllm:x{engine=\"0\"} 1\n", strings.Join(text, "\n")} {
			if p == "" {
				continue
			}
			if _, err := r.Read([]byte(p), "", 0, 0, nil); err != nil {
				t.Fatal(name, err)
			}
		}
		got, err := ReadPage([]byte(strings.Join(text, "\n")+"\nbroken\n"), "")
		if err != nil || !got.approximates(want) {
			t.Errorf("%s: %v %s", name, err, cmp.Diff(want.Signals, got.Signals))
		}
	}
}

// What a reader remembers never changes what a page says: after any pages of a source it reads the next as a fresh one does.
func TestMemoryDoesNotMatter(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for name, tells := range map[string]string{
		"vllm_v1_dp2_spec_nixl_mfu_multiproc.prom": "vllm:num_requests_running", "sglang_all_ranks_tp2_dp2.prom": "sglang:", "triton.prom": "nv_",
		"dcgm_prof_h100_decode_bound.prom": "DCGM_", "node_exporter.prom": "node_load1 ", "dynamo_worker_vllm.prom": "vllm:num_requests_running",
	} {
		all := strings.Split(strings.TrimSpace(string(readFile(t, name))), "\n")
		r, b := NewReader(Options{}), &auditor{t: t, seen: map[signal.Series]bool{}}
		if _, err := r.Read([]byte(strings.Join(all, "\n")), "", 0, 0, b); err != nil {
			t.Fatal(err)
		}
		sources := r.info.Sources
		compared := 0
		for step := range 20 {
			// Each page lacks some of the families, or some series, or nothing.
			share := []float64{1, 0.98, 0.5, 0.05}[rng.IntN(4)]
			families := rng.IntN(2) == 0
			keep := map[string]bool{}
			var page []string
			for _, line := range all {
				key := line
				if families {
					key, _, _ = strings.Cut(line, "{")
				}
				if _, ok := keep[key]; !ok {
					keep[key] = rng.Float64() < share
				}
				if keep[key] || strings.HasPrefix(line, "#") || strings.HasPrefix(line, tells) {
					page = append(page, line)
				}
			}
			body := []byte(strings.Join(page, "\n") + "\n")
			want, err := ReadPage(body, "")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Read(body, "", int64(step+1), int64(step+1), b); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(want.Sources, sources) {
				continue // by itself it would not be known
			}
			compared++
			got := r.signals()
			for k, v := range got {
				if _, ok := want.Signals[k]; !ok && v == 0 {
					delete(got, k) // once something is counted, 0 is a value
				}
			}
			if x := (&Reading{Sources: sources, Signals: got}); !x.approximates(want) {
				t.Errorf("%s, page %d (-by itself +after others)\n%s", name, step, cmp.Diff(want.Signals, got))
			}
		}
		if compared < 8 {
			t.Errorf("%s: only %d pages were compared", name, compared)
		}
	}
}

// approximates says whether two readings say the same up to the order of additions.
func (g *Reading) approximates(want *Reading) bool {
	if !cmp.Equal(g.Sources, want.Sources) || len(g.Signals) != len(want.Signals) {
		return false
	}
	for k, v := range want.Signals {
		x, ok := g.Signals[k]
		if !ok || math.Abs(x-v) > 1e-9*math.Abs(v) {
			return false
		}
	}
	return true
}

// Values that come one by one, as from Prometheus, say the same as the page.
func TestPointsAreReadLikePages(t *testing.T) {
	for name, page := range allPages(t) {
		want := NewReader(Options{})
		if _, err := want.Read(page, "", 0, 0, nil); err != nil {
			t.Fatal(err)
		}
		var points []Point
		scanPage(page, false, pointer{&points})
		got := NewReader(Options{})
		for range 2 {
			if _, err := got.ReadPoints(points, 0, 0, nil); err != nil {
				t.Fatal(err)
			}
		}
		a, b := want.signals(), got.signals()
		if strings.Contains(string(page), "_VIOLATION") { // of which only the page's HELP says the unit
			delete(a, "throttled_time")
		}
		if d := cmp.Diff(a, b); d != "" {
			t.Errorf("%s (-page +points)\n%s", name, d)
		}
	}
}

type pointer struct{ to *[]Point }

func (p pointer) take(l *line) bool {
	name, labels, ok := parseSeries(string(l.series))
	if ok {
		*p.to = append(*p.to, Point{Name: name, Labels: labels, Value: l.value})
	}
	return true
}

func (pointer) malformed(int, []byte, string) {}

func TestExtraLabelsAreKept(t *testing.T) {
	points := func(v float64) []Point {
		var out []Point
		for i := range 2 {
			out = append(out, Point{Name: "vllm:num_requests_running", Labels: []Label{{"engine", "0"}, {"instance", fmt.Sprintf("host%d:8000", i)}}, Value: v + float64(i)})
		}
		return out
	}
	r, b := NewReader(Options{Keep: map[string][]string{"instance": {"instance"}}}), &book{}
	for i := range 2 {
		if _, err := r.ReadPoints(points(float64(i)), 0, 0, b); err != nil {
			t.Fatal(err)
		}
	}
	same(t, b.courses(), map[string][]float64{
		"requests_running{engine=0,instance=host0:8000}": {0, 1},
		"requests_running{engine=0,instance=host1:8000}": {1, 2},
	})
}

func TestPointsThatAreNone(t *testing.T) {
	r := NewReader(Options{MaxSeries: 2})
	points := []Point{{Name: "", Value: 1}, {Name: "a", Value: math.NaN()}, {Name: "a", Value: 2}, {Name: "b", Value: 3}, {Name: "c", Value: 4}}
	info, err := r.ReadPoints(points, 0, 0, nil)
	if err != nil || info.Malformed != 1 || info.NaN != 1 || info.Duplicate != 1 || info.Series != 2 || len(info.Problems) != 3 {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestBucketsWithoutBounds(t *testing.T) {
	got, err := ReadPage([]byte("vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"x\"} 3\nvllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"+Inf\"} 4\n"+
		"vllm:time_to_first_token_seconds_sum{engine=\"0\"} 2\npython_info 1\n"), "")
	if err != nil || len(got.Info.Problems) != 1 || got.Signals["ttft"] != 0.5 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRawSeries(t *testing.T) {
	x := table(t, "source: x\ndetect: a*\nraw: [b, 'c{y=\"1\"}']\nsignals: {power: a}\n")
	page := "a 1\nb{k=\"2\",j=\"1\"} 2\nc{y=\"1\"} 3\nc{y=\"2\"} 4\nc_created 9\n"
	b, _ := read(t, Options{Tables: []*Table{x}}, page)
	same(t, b.courses(), map[string][]float64{"power": {1}, "b{j=1,k=2}": {2}, "c{y=1}": {3}})
	b, _ = read(t, Options{Tables: []*Table{x}, Raw: true}, page)
	same(t, b.courses(), map[string][]float64{"power": {1}, "b{j=1,k=2}": {2}, "c{y=1}": {3}, "c{y=2}": {4}})
	// What another source makes a signal of is no raw series of the first.
	y := table(t, "source: y\ndetect: c\nsignals: {energy: 'c{y=\"2\"}'}\n")
	b, _ = read(t, Options{Tables: []*Table{x, y}, Raw: true}, page)
	same(t, b.courses(), map[string][]float64{"power": {1}, "b{j=1,k=2}": {2}, "c{y=1}": {3}, "1:energy": {4}})
}

func TestJSON(t *testing.T) {
	x := table(t, `source: x
format: json
detect: iter
signals:
  requests_running: {from: in.running}
  generation_tokens: {from: in.gen, times: in.per}
  prefix_cache_hits: {from: kv.reused, last: true}
  kv_cache_usage: {from: kv.used, over: kv.max}
  step_time: {from: ms, factor: 0.001}
  step_tokens: {sum: [in.ctx, in.gen]}
`)
	element := func(iter, running, gen, per, reused, used, ms, ctx int) string {
		return fmt.Sprintf(`{"iter":%d,"ms":%d,"name":"x","in":{"running":%d,"gen":%d,"per":%d,"ctx":%d},"kv":{"reused":%d,"used":%d,"max":100}}`,
			iter, ms, running, gen, per, ctx, reused, used)
	}
	b, infos := read(t, Options{Tables: []*Table{x}},
		"["+element(1, 5, 4, 1, 10, 50, 125, 64)+","+element(2, 6, 5, 2, 12, 60, 250, 0)+"]",
		"[]",
		"["+element(3, 7, 1, 1, 3, 70, 500, 0)+"]\n")
	same(t, b.courses(), map[string][]float64{
		"requests_running": {6, 7}, "kv_cache_usage": {0.6, 0.7},
		"generation_tokens": {4 + 10, 4 + 10, 4 + 10 + 1},
		"prefix_cache_hits": {12, 3},
		"step_time.sum":     {0.375, 0.375, 0.875}, "step_time.count": {2, 2, 3},
		"step_tokens.sum": {68 + 5, 68 + 5, 68 + 5 + 1}, "step_tokens.count": {2, 2, 3},
	})
	if infos[1].Series != 0 || infos[2].Series != 9 {
		t.Errorf("%+v", infos)
	}
	// A page of more steps than any engine keeps is cut off.
	_, infos = read(t, Options{Tables: []*Table{x}}, "["+strings.Repeat(`{"iter":1},`, 2*maxElements)+`{"iter":1}]`)
	if len(infos[0].Problems) != 1 {
		t.Errorf("%+v", infos[0])
	}
	// The same table never reads text.
	if b, _ := read(t, Options{Tables: []*Table{x}}, "iter 1\nms 5\n"); len(b.series) != 0 {
		t.Errorf("%v", b.courses())
	}
}

// TestFirstOfWhatIsLeftOut: which value was left out is said once, and in the same words for the next page.
func TestFirstOfWhatIsLeftOut(t *testing.T) {
	page := "vllm:kv_cache_usage_perc{engine=\"0\"} 0.5\n" +
		"vllm:kv_cache_usage_perc{engine=\"1\"} %v\n" +
		"vllm:kv_cache_usage_perc{engine=\"2\"} NaN\n" +
		"vllm:kv_cache_usage_perc{engine=\"3\"} Inf\n" +
		"vllm:cache_config_info{engine=\"0\",block_size=\"16\"} 1\n" +
		"vllm:kv_cache_usage_perc{engine=\"0\"} 0.6\n" +
		"vllm:kv_cache_usage_perc{engine=\"0\"} 0.7\n"
	r := NewReader(Options{})
	for _, v := range []int{7, 8} {
		info, err := r.Read(fmt.Appendf(nil, page, v), "", 0, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		if info.FirstNaN != `vllm:kv_cache_usage_perc{engine="2"}` || info.FirstOutOfRange != "kv_cache_usage of engine=1, which is from 0 to 1.05" {
			t.Errorf("no number: %s, cannot be true: %s", info.FirstNaN, info.FirstOutOfRange)
		}
		same(t, info.Problems, []Problem{{6, `given twice, the first counts: "vllm:kv_cache_usage_perc{engine=\"0\"}"`}})
		got := reading{}
		got.read(&info)
		var said []string
		for _, p := range got.problems {
			said = append(said, p.Text)
		}
		same(t, said[1:], []string{
			`values that are NaN or infinite are left out, first vllm:kv_cache_usage_perc{engine="2"}`,
			"of series that stand on the page twice the first is used",
			"values that cannot be true are left out, first kv_cache_usage of engine=1, which is from 0 to 1.05",
		})
	}
	info, err := r.Read([]byte("vllm:kv_cache_usage_perc{engine=\"0\"} 0.5\n"), "", 0, 0, nil)
	if err != nil || info.FirstNaN != "" || info.FirstOutOfRange != "" {
		t.Errorf("%+v, %v", info, err)
	}
}
