package trace

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// expected reads the right values of a case.
func expected(t *testing.T, dir string, v any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/cases", dir, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatal(err)
	}
}

func caseFile(dir, name string) string { return filepath.Join("testdata/cases", dir, name) }

func load(t *testing.T, path string, opts Options, sel Selection) *Trace {
	t.Helper()
	tr, err := Load(path, opts, sel)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func inspect(t *testing.T, path string, opts Options) *Summary {
	t.Helper()
	s, err := Inspect(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func hasNotice(s *Summary, part string) bool {
	return slices.ContainsFunc(s.Notices, func(n string) bool { return strings.Contains(n, part) })
}

func TestCase127DynamoRequestTrace(t *testing.T) {
	const dir = "127-dynamo-request-trace"
	var want struct {
		Order      []string `json:"order"`
		Offsets    []int64  `json:"offsets_ms"`
		Distinct   int      `json:"distinct_blocks"`
		Hits       []int    `json:"hit_blocks"`
		ZeroOutput int      `json:"zero_output"`
		NoReplay   int      `json:"no_replay"`
		ToolEvents int      `json:"tool_events"`
		MaxHash    uint64   `json:"max_hash"`
	}
	expected(t, dir, &want)
	tr := load(t, caseFile(dir, "trace.jsonl"), Options{}, Selection{})
	got := want
	got.Order, got.Offsets, got.Hits = nil, nil, nil
	var u reuse
	for i := range tr.Records {
		got.Order = append(got.Order, tr.Records[i].ID)
		got.Offsets = append(got.Offsets, tr.Records[i].At/1e6)
		got.Hits = append(got.Hits, u.add(&tr.Records[i]))
	}
	s := inspect(t, caseFile(dir, "trace.jsonl"), Options{})
	got.Distinct, got.MaxHash = s.Blocks.Distinct, s.Blocks.MaxHash
	got.ZeroOutput, got.NoReplay, got.ToolEvents = s.Skipped.ZeroOutput, s.Skipped.NoReplay, s.ToolEvents
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if s.Blocks.Hit != 1 || s.Sorted {
		t.Errorf("hit %d blocks, sorted %v; want 1 and false", s.Blocks.Hit, s.Sorted)
	}
}

func TestCase130CeilRule(t *testing.T) {
	const dir = "130-mooncake-ceil-rule"
	var want struct {
		Valid   []int `json:"valid_lines"`
		Invalid []int `json:"invalid_lines"`
		Last    []int `json:"last_block_tokens"`
	}
	expected(t, dir, &want)
	path := caseFile(dir, "trace.jsonl")
	s := inspect(t, path, Options{})
	got := want
	got.Valid, got.Last = nil, nil
	got.Invalid = s.Problems[0].Lines
	tr := load(t, path, Options{OnBadRow: Skip}, Selection{})
	for i := range tr.Records {
		got.Valid = append(got.Valid, tr.Records[i].Line)
		got.Last = append(got.Last, tail(&tr.Records[i]))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	_, err := Load(path, Options{}, Selection{})
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Line != 4 || e.Field != "hash_ids" {
		t.Errorf("got %v, want an error about hash_ids in line 4", err)
	}
	fixed := load(t, path, Options{OnBadRow: Fix}, Selection{})
	if n := len(fixed.Records); n != 5 || len(fixed.Records[3].Hashes) != 1 || len(fixed.Records[4].Hashes) != 2 {
		t.Errorf("mended: %+v", fixed.Records)
	}
}

func TestCase133Units(t *testing.T) {
	const dir = "133-milliseconds-or-seconds"
	var want struct {
		Span float64 `json:"span_s"`
		Rate float64 `json:"rate"`
	}
	expected(t, dir, &want)
	for _, name := range []string{"a.jsonl", "b.jsonl", "c.csv"} {
		s := inspect(t, caseFile(dir, name), Options{})
		if *s.SpanS != want.Span || *s.Rate != want.Rate {
			t.Errorf("%s: span %g s, %g/s; want %g and %g", name, *s.SpanS, *s.Rate, want.Span, want.Rate)
		}
	}
	// The override is taken for what it says.
	s := inspect(t, caseFile(dir, "a.jsonl"), Options{TimeUnit: Seconds})
	if *s.SpanS != 6000 {
		t.Errorf("with seconds: span %g", *s.SpanS)
	}
}

func TestUnitGuards(t *testing.T) {
	rows := func(n int, step float64) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(`{"timestamp": ` + trim(float64(i)*step) + `, "input_length": 10, "output_length": 2}` + "\n")
		}
		return b.String()
	}
	for _, c := range []struct{ text, want string }{
		{rows(500, 2), ""},
		{rows(500, 0.25), "requests/s"},
		{rows(500, 999999), "lasts 138.6 h"},
	} {
		r, err := NewReader(strings.NewReader(c.text), "t", Options{Format: "mooncake", OnBadRow: Skip})
		if err != nil {
			t.Fatal(err)
		}
		s, err := InspectReader(r)
		if err != nil {
			t.Fatal(err)
		}
		if c.want == "" && len(s.Notices) > 0 || c.want != "" && !hasNotice(s, c.want) {
			t.Errorf("notices %q, want %q", s.Notices, c.want)
		}
	}
}

func TestCase134Offsets(t *testing.T) {
	const dir = "134-timestamps-not-zero-based"
	var want struct {
		Offsets []float64 `json:"offsets_s"`
	}
	expected(t, dir, &want)
	tr := load(t, caseFile(dir, "burst.csv"), Options{}, Selection{})
	if d := cmp.Diff(want.Offsets, offsets(tr)); d != "" {
		t.Error(d)
	}
	if !hasNotice(tr.Summary, "19440110") {
		t.Errorf("notices %q do not say what was taken off", tr.Summary.Notices)
	}
}

func offsets(tr *Trace) []float64 {
	var out []float64
	for i := range tr.Records {
		out = append(out, float64(tr.Records[i].At)/1e9)
	}
	return out
}

func TestCase135ColumnsByName(t *testing.T) {
	const dir = "135-columns-by-name"
	var want map[string][]int
	expected(t, dir, &want)
	got := map[string][]int{}
	for _, name := range []string{"v1", "v2", "azure_mm"} {
		r := load(t, caseFile(dir, name+".csv"), Options{}, Selection{}).Records[0]
		got[name] = []int{r.Input, r.Output}
		switch name {
		case "azure_mm":
			got[name] = append(got[name], r.Images)
		case "v2":
			if r.Session != "1722ac82-0a46-4bf0-aa08-89794e7a2b3f" || r.Took != 43e9 {
				t.Errorf("v2: session %q, took %d", r.Session, r.Took)
			}
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestCase136ZeroOutput(t *testing.T) {
	const dir = "136-zero-output-rows"
	var want struct {
		Sent    int `json:"sent"`
		Skipped int `json:"skipped_zero_output"`
	}
	expected(t, dir, &want)
	path := caseFile(dir, "trace.csv")
	tr := load(t, path, Options{}, Selection{})
	if len(tr.Records) != want.Sent || tr.Summary.Skipped.ZeroOutput != want.Skipped {
		t.Errorf("sent %d, skipped %d; want %+v", len(tr.Records), tr.Summary.Skipped.ZeroOutput, want)
	}
	if d := cmp.Diff([]float64{0, 45, 50}, offsets(tr)); d != "" {
		t.Error(d)
	}
	kept := load(t, path, Options{KeepZeroOutput: true}, Selection{})
	if len(kept.Records) != 4 || kept.Records[1].Output != 1 {
		t.Errorf("kept: %+v", kept.Records)
	}
}

func TestCase137QuietHead(t *testing.T) {
	const dir = "137-quiet-head-of-trace"
	var want struct {
		Ratio float64 `json:"ratio"`
		Warn  bool    `json:"warn"`
	}
	expected(t, dir, &want)
	b, err := os.ReadFile(caseFile(dir, "input.json"))
	if err != nil {
		t.Fatal(err)
	}
	var in struct {
		Head float64 `json:"head_rate"`
		Peak float64 `json:"peak_window_rate"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		t.Fatal(err)
	}
	ratio, warn := Quiet(in.Head, in.Peak)
	if diff := ratio - want.Ratio; diff > 5e-7 || diff < -5e-7 || warn != want.Warn {
		t.Errorf("got %g, %v, want %g, %v", ratio, warn, want.Ratio, want.Warn)
	}
	// The same in a file: 10 rows in the first 1000 s, 900 in the next.
	var sb strings.Builder
	sb.WriteString("arrived_at,num_prefill_tokens,num_decode_tokens\n")
	for i := range 10 {
		sb.WriteString(trim(float64(i*100)) + ",10,5\n")
	}
	for i := range 900 {
		sb.WriteString(trim(1000+float64(i)) + ",10,5\n")
	}
	r, err := NewReader(strings.NewReader(sb.String()), "t", Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := InspectReader(r)
	if err != nil {
		t.Fatal(err)
	}
	if !hasNotice(s, "begins quietly") {
		t.Errorf("notices %q", s.Notices)
	}
	tr, err := loadText(sb.String(), Options{}, Selection{To: 900e9})
	if err != nil {
		t.Fatal(err)
	}
	if !hasNotice(tr.Summary, "window's rate") || len(tr.Records) != 9 {
		t.Errorf("%d records, notices %q", len(tr.Records), tr.Summary.Notices)
	}
}

func loadText(text string, opts Options, sel Selection) (*Trace, error) {
	r, err := NewReader(strings.NewReader(text), "t", opts)
	if err != nil {
		return nil, err
	}
	return LoadReader(r, sel)
}

func TestCase139CumulativeOrDelta(t *testing.T) {
	const dir = "139-cumulative-or-delta-turns"
	var want struct {
		Detected string `json:"detected"`
	}
	expected(t, dir, &want)
	path := caseFile(dir, "trace.jsonl")
	tr := load(t, path, Options{}, Selection{})
	if tr.Summary.TurnsAre != want.Detected || !tr.Summary.TurnsProven {
		t.Errorf("turns are %q, proven %v", tr.Summary.TurnsAre, tr.Summary.TurnsProven)
	}
	if _, err := Load(path, Options{Turns: "delta"}, Selection{}); err == nil || !strings.Contains(err.Error(), "turns") {
		t.Errorf("delta was not refused: %v", err)
	}
}

func TestCase142AzureQuirks(t *testing.T) {
	const dir = "142-azure-csv-quirks"
	var want struct {
		Rows    int       `json:"rows"`
		Out     []int     `json:"out"`
		Offsets []float64 `json:"offsets_s"`
	}
	expected(t, dir, &want)
	tr := load(t, caseFile(dir, "azure.csv"), Options{}, Selection{})
	got := want
	got.Rows, got.Out, got.Offsets = len(tr.Records), nil, offsets(tr)
	for i := range tr.Records {
		got.Out = append(got.Out, tr.Records[i].Output)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestCase143InconsistentIDs(t *testing.T) {
	const dir = "143-ids-not-prefix-consistent"
	var want struct {
		IDs  []uint64 `json:"inconsistent_ids"`
		Hits int      `json:"prefix_hit_blocks"`
	}
	expected(t, dir, &want)
	s := inspect(t, caseFile(dir, "trace.jsonl"), Options{})
	got := want
	got.IDs, got.Hits = s.Blocks.Inconsistent, s.Blocks.Hit
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if s.Blocks.InconsistentCount != 2 {
		t.Errorf("%d inconsistent ids", s.Blocks.InconsistentCount)
	}
}

func TestCase145Quantised(t *testing.T) {
	const dir = "145-quantised-timestamps"
	var want struct {
		Spread  []int64 `json:"spread_ms"`
		Largest int     `json:"largest_group"`
	}
	expected(t, dir, &want)
	path := caseFile(dir, "trace.jsonl")
	tr := load(t, path, Options{}, Selection{Spread: true})
	got := want
	got.Spread, got.Largest = nil, *tr.Summary.LargestGroup
	for i := range tr.Records {
		got.Spread = append(got.Spread, tr.Records[i].At/1e6)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if *tr.Summary.Instants != 2 || !hasNotice(tr.Summary, "they are distributed") || hasNotice(tr.Summary, "--spread") {
		t.Errorf("%d instants, notices %q", *tr.Summary.Instants, tr.Summary.Notices)
	}
	exact := load(t, path, Options{}, Selection{})
	if !hasNotice(exact.Summary, "--spread") {
		t.Errorf("exact replay: notices %q", exact.Summary.Notices)
	}
	if exact.Records[3].At != 0 || exact.Records[6].At != 3e9 {
		t.Errorf("exact replay moved requests: %+v", exact.Records)
	}
}

func TestCase148ShareGPTRoles(t *testing.T) {
	const dir = "148-sharegpt-roles"
	var want struct {
		Turns   map[string]int `json:"turns"`
		Skipped int            `json:"skipped"`
	}
	expected(t, dir, &want)
	tr := load(t, caseFile(dir, "sharegpt.json"), Options{}, Selection{})
	got := want
	got.Turns, got.Skipped = map[string]int{}, tr.Summary.Skipped.Empty
	prompts := map[string][]string{}
	for i := range tr.Records {
		r := &tr.Records[i]
		got.Turns[r.Session]++
		for _, m := range r.Messages {
			prompts[r.Session] = append(prompts[r.Session], m.Role.String()+":"+m.Text)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string][]string{
		"a": {"user:q1", "user:q2"}, "b": {"user:q"}, "c": {"system:s", "user:q"}, "d": {"user:q"},
	}, prompts); d != "" {
		t.Error(d)
	}
	if tr.Records[0].Answer != "r1" || tr.Records[4].Answer != "" {
		t.Errorf("answers %q and %q", tr.Records[0].Answer, tr.Records[4].Answer)
	}
}

func TestCase172References(t *testing.T) {
	const dir = "172-dataset-urls-and-paths"
	var want map[string]string
	expected(t, dir, &want)
	path := caseFile(dir, "dataset.jsonl")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(string(b)), "\n")
	got := map[string]string{}
	for i, name := range []string{"file_url", "metadata", "parent_path", "data_url", "https"} {
		_, err := loadText(rows[i], Options{}, Selection{})
		switch e, ok := errors.AsType[*Error](err); {
		case ok && e.Field == "image_url" && e.Line == 1 && strings.Contains(e.Text, "refused"):
			got[name] = "refused"
		case err == nil && name == "https":
			got[name] = "passed_through"
		case err == nil:
			got[name] = "sent"
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestReferences(t *testing.T) {
	for _, c := range []struct {
		ref string
		ok  bool
	}{
		{"https://example.com/a.png", true},
		{"http://93.184.216.34/a.png", true},
		{"data:image/png;base64,iVBORw0KGgo=", true},
		{strings.Repeat("iVBORw0KGgoAAAAN", 8), true},
		{"FILE:///etc/passwd", false},
		{"/etc/passwd", false},
		{"..%2f..%2fetc/passwd", false},
		{`C:\secret.png`, false},
		{"ftp://example.com/a.png", false},
		{"gopher://example.com/", false},
		{"http://localhost/a.png", false},
		{"http://LOCALHOST.:8080/a.png", false},
		{"http://metadata.google.internal/x", false},
		{"http://10.1.2.3/", false},
		{"http://192.168.0.1/", false},
		{"http://172.16.9.9/", false},
		{"http://100.100.100.200/latest/meta-data/", false},
		{"http://127.1/", false},
		{"http://2852039166/latest/meta-data/", false},
		{"http://0xa9fea9fe/", false},
		{"http://0251.0376.0251.0376/", false},
		{"http://[::1]/", false},
		{"http://[::ffff:169.254.169.254]/", false},
		{"http://[fe80::1%25eth0]/", false},
		{"http://[fd00:ec2::254]/", false},
		{"http://0.0.0.0/", false},
		{"http://user@169.254.169.254/", false},
		{"http:///x", false},
		{"", false},
	} {
		if why := checkURL(c.ref); (why == "") != c.ok {
			t.Errorf("%q: %q, want ok %v", c.ref, why, c.ok)
		}
	}
}

// tail returns how many tokens the last of the blocks holds, 0 without blocks.
func tail(r *Record) int {
	n := len(r.Hashes)
	if n == 0 {
		return 0
	}
	return min(r.BlockTokens, r.Input-(n-1)*r.BlockTokens)
}
