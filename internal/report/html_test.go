package report_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/detail"
	"plimsoll/internal/record"
	"plimsoll/internal/report"
	"plimsoll/internal/run"
	"plimsoll/internal/stats"
)

// someRun writes a run of n requests to disk whose names and texts are name.
func someRun(t testing.TB, n int, name string) (*run.Run, *detail.Store) {
	t.Helper()
	start := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	length := int64(300e9)
	in := stats.Input{
		Name: name, Started: start, Duration: length + 20e9,
		Steps: []stats.StepInput{{Users: 8, Start: 10e9 + 345, End: length, Complete: true}},
	}
	w, err := run.Create(t.TempDir(), run.Info{Name: name, Start: start, Input: &in}, []byte("target: {url: http://127.0.0.1:1}\nload: {users: 8}\n"), run.Blocking())
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	q := new(record.Request)
	for i := range n {
		q.Reset()
		at := int64(float64(i) / float64(n) * float64(length))
		q.ID, q.Session, q.User, q.Turn, q.Workload = uint64(i), uint64(i/4), uint32(i%8), uint32(i%4), fmt.Sprintf("%s %d", name, i%2)
		q.Phase = record.Steady
		if at < in.Steps[0].Start {
			q.Phase = record.Warmup
		}
		q.Scheduled, q.Start, q.Connected, q.Sent = at, at+int64(r.IntN(5e5)), at+int64(5e5), at+int64(6e5)
		q.Streamed, q.HTTPStatus, q.Finish, q.Message, q.Remote = true, 200, name, name, name
		q.Text = []string{name}
		q.Prompt, q.Output, q.StreamedTokens, q.FirstEventTokens, q.Source = int32(r.IntN(9000)), 6, 6, 1, record.SourceServer
		e := q.Sent + int64(3e7+r.ExpFloat64()*3e8)
		for range 6 {
			e += int64(5e6 + r.ExpFloat64()*4e6)
			q.Events = append(q.Events, record.Event{At: e, Tokens: 1, Cumulative: record.Unknown, Channel: record.Content, TextBytes: 1})
		}
		q.Headers, q.FirstEvent, q.FirstToken, q.FirstContent, q.LastToken, q.End = q.Events[0].At, q.Events[0].At, q.Events[0].At, q.Events[0].At, e, e+1000
		if i%50 == 7 {
			q.Status, q.Error = record.Failed, record.TruncatedStream
		}
		w.Add(q)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	end := start.Add(time.Duration(in.Duration))
	if err := w.Update(func(i *run.Info) { i.State, i.End, i.Input = run.Done, &end, &in }); err != nil {
		t.Fatal(err)
	}
	saved, err := run.Open(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	s, err := detail.Open(saved, nil)
	if err != nil {
		t.Fatal(err)
	}
	return saved, s
}

var front = report.Front{Script: []byte(`console.log("</script><!--")`), Style: []byte("body{margin:0}")}

func htmlOf(t testing.TB, r *run.Run, s *detail.Store) string {
	t.Helper()
	var b bytes.Buffer
	if err := report.HTML(&b, r, s, front); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// embedded returns the document in a page, as a browser finds it: an element ends at
// the first end tag behind its start.
func embedded(t testing.TB, page string) map[string]json.RawMessage {
	t.Helper()
	text := between(page, `<script type="application/json" id="data">`, "</script>")
	if text == "" {
		packed := between(page, `<script type="text/plain" id="data-gz">`, "</script>")
		zip, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(packed)))
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(zip)
		if err != nil {
			t.Fatal(err)
		}
		text = string(all)
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

func between(s, from, to string) string {
	_, s, _ = strings.Cut(s, from)
	s, _, _ = strings.Cut(s, to)
	return s
}

// Whatever servers and users call things is data and never markup.
func TestHTMLIsNoMarkupOfOthers(t *testing.T) {
	const evil = `</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>]]>&amp;"'` + "\u2028\u202e\x1b[31m"
	saved, s := someRun(t, 60, evil)
	page := htmlOf(t, saved, s)
	if n := strings.Count(strings.ToLower(page), "<script"); n != 2 {
		t.Errorf("%d elements of script, want the data and the panel's", n)
	}
	if n := strings.Count(strings.ToLower(page), "</script"); n != 2 {
		t.Errorf("%d ends of script, want 2", n)
	}
	for _, bad := range []string{"<img", "<!--", "\u202e", "\x1b"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	doc := embedded(t, page)
	var rows struct {
		Workload []string `json:"workload"`
		Finish   []string `json:"finish"`
	}
	if err := json.Unmarshal(doc["requests"], &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows.Workload) != 60 || rows.Workload[0] != evil+" 0" || rows.Finish[59] != evil {
		t.Errorf("names are %q, want them as they are", rows.Workload[:min(len(rows.Workload), 1)])
	}
	if strings.Contains(string(doc["ones"]), `"text":["`) {
		t.Error("answers are in the page")
	}
}

// The policy of the page lets its own script and style run, and nothing else.
func TestHTMLPolicy(t *testing.T) {
	saved, s := someRun(t, 3, "some")
	page := htmlOf(t, saved, s)
	policy := regexp.MustCompile(`http-equiv="Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(page)
	if policy == nil {
		t.Fatal("no policy")
	}
	script := page[strings.LastIndex(page, "<script>")+len("<script>") : strings.LastIndex(page, "</script>")]
	if script != `console.log("<\/script><\!--")` {
		t.Errorf("script is %q", script)
	}
	for of, text := range map[string]string{"script-src": script, "style-src": between(page, "<style>", "</style>")} {
		sum := sha256.Sum256([]byte(text))
		if want := of + " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(policy[1], want) {
			t.Errorf("policy is %q, want %s", policy[1], want)
		}
	}
	if !strings.HasPrefix(policy[1], "default-src 'none';") || strings.Contains(policy[1], "unsafe") || strings.Contains(policy[1], "http") {
		t.Errorf("policy is %q", policy[1])
	}
}

func TestHTMLWithoutFront(t *testing.T) {
	saved, s := someRun(t, 1, "some")
	err := report.HTML(io.Discard, saved, s, report.Front{})
	if err == nil || !strings.Contains(err.Error(), "make") {
		t.Errorf("error is %v, want one that says make", err)
	}
}

// Of 10,000 requests all are there, and the page stays below its size.
func TestHTMLSize(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes ten thousand requests")
	}
	big := report.Front{Script: bytes.Repeat([]byte("x"), 400_000), Style: []byte("b{}")}
	saved, s := someRun(t, 10_000, "legal/contract-review")
	var b bytes.Buffer
	if err := report.HTML(&b, saved, s, big); err != nil {
		t.Fatal(err)
	}
	if b.Len() > report.MostHTML {
		t.Errorf("%d bytes, want at most %d", b.Len(), report.MostHTML)
	}
	doc := embedded(t, b.String())
	var rows struct{ N []int64 }
	if err := json.Unmarshal(doc["requests"], &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows.N) != 10_000 || string(doc["sampled"]) != "null" {
		t.Errorf("%d requests, sampled %s", len(rows.N), doc["sampled"])
	}
	t.Logf("%d bytes with a front end of 400,000", b.Len())
}

// Of more requests the page keeps the extremes, says how it chose, and its figures are
// of all of them.
func TestHTMLKeepsExtremes(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes many requests")
	}
	saved, s := someRun(t, 24_000, "some")
	page := htmlOf(t, saved, s)
	if len(page) > report.MostHTML {
		t.Errorf("%d bytes, want at most %d", len(page), report.MostHTML)
	}
	doc := embedded(t, page)
	var rows struct {
		N      []int64
		TTFT   []*float64 `json:"ttft_ms"`
		E2E    []*float64 `json:"e2e_ms"`
		Weight []float64
	}
	var sampled string
	var figures detail.Figures
	for name, to := range map[string]any{"requests": &rows, "sampled": &sampled, "figures": &figures} {
		if err := json.Unmarshal(doc[name], to); err != nil {
			t.Fatal(name, err)
		}
	}
	if len(rows.N) < 5000 || len(rows.N) > 10_000 || !strings.Contains(sampled, "of 24,000: every one that failed") {
		t.Errorf("%d requests, %q", len(rows.N), sampled)
	}
	want := s.Figures(0, 0)
	if figures.Requests.Scheduled != want.Requests.Scheduled || *figures.Latency["ttft"].P95 != *want.Latency["ttft"].P95 || !figures.Steady {
		t.Errorf("figures are %+v, want those of all", figures.Requests)
	}
	// The weights make up for the extremes: they stand for all requests, and the median
	// and the 95th percentile of the sample are near those of all.
	if len(rows.Weight) != len(rows.N) {
		t.Fatalf("%d weights of %d requests", len(rows.Weight), len(rows.N))
	}
	var all float64
	var known []weighed
	for i, w := range rows.Weight {
		if all += w; rows.TTFT[i] != nil {
			known = append(known, weighed{*rows.TTFT[i], w})
		}
	}
	if math.Abs(all-24_000) > 0.03*24_000 {
		t.Errorf("the weights come to %v of 24,000", all)
	}
	for permille, exact := range map[float64]float64{500: *want.Latency["ttft"].P50, 950: *want.Latency["ttft"].P95} {
		if got := weighedQuantile(known, permille/1000); math.Abs(got-exact) > 0.03*exact {
			t.Errorf("p%v of the sample is %v, of all %v", permille/10, got, exact)
		}
	}
	for name, list := range map[string][]*float64{"ttft": rows.TTFT, "e2e": rows.E2E} {
		for _, down := range []string{"", "-"} {
			most, err := s.Requests(detail.Query{Sort: down + name, Limit: 1})
			if err != nil {
				t.Fatal(err)
			}
			ms := most.Rows[0].TTFT
			if name == "e2e" {
				ms = most.Rows[0].E2E
			}
			found := false
			for _, v := range list {
				found = found || v != nil && math.Abs(*v-float64(*ms)) < 1e-3
			}
			if !found {
				t.Errorf("the extreme of %s%s, %v ms, is not in the page", down, name, *ms)
			}
		}
	}
	failed, err := s.Requests(detail.Query{Filter: "status:error"})
	if err != nil || failed.Matched != 480 {
		t.Fatalf("%d failed, error %v", failed.Matched, err)
	}
}

// weighed is a value and for how many it stands.
type weighed struct{ v, w float64 }

// weighedQuantile is the least value up to which a share q of the weights lies.
func weighedQuantile(list []weighed, q float64) float64 {
	slices.SortFunc(list, func(a, b weighed) int { return cmp.Compare(a.v, b.v) })
	var all, sum float64
	for _, x := range list {
		all += x.w
	}
	for _, x := range list {
		if sum += x.w; sum >= q*all {
			return x.v
		}
	}
	return math.NaN()
}

func TestDocument(t *testing.T) {
	saved, s := someRun(t, 40, "some")
	doc, err := report.Document(saved, s)
	if err != nil {
		t.Fatal(err)
	}
	if doc.Run.Name != "some" || doc.Run.State != "done" || *doc.Run.DurationS != 320 || doc.Summary != nil {
		t.Errorf("row is %+v", doc.Run)
	}
	var phases []string
	for _, p := range doc.Phases {
		phases = append(phases, fmt.Sprintf("%s %d %.3f-%.3f", p.Name, p.Step, float64(p.From), float64(*p.To)))
	}
	if got, want := strings.Join(phases, ", "), "steady 0 10000.000-300000.000, drain 0 300000.000-320000.000"; got != want {
		t.Errorf("phases are %s, want %s", got, want)
	}
	if got := strings.Join(doc.Workloads, ","); got != "some 0,some 1" {
		t.Errorf("workloads are %s", got)
	}
	groups := ""
	for _, m := range doc.Missing {
		groups += m.Group + " "
		if m.Fix == "" || m.Why == "" {
			t.Errorf("%+v says nothing", m)
		}
	}
	if groups != "engine accelerator network host " {
		t.Errorf("missing are %s", groups)
	}
}

// TestDocumentOfDamage: what can be read of a damaged run is shown, and said not to be all.
func TestDocumentOfDamage(t *testing.T) {
	saved, _ := someRun(t, 40, strings.Repeat("long", 500))
	f := func(want ...string) {
		t.Helper()
		again, err := run.Open(saved.Dir())
		if err != nil {
			t.Fatal(err)
		}
		s, err := detail.Open(again, func(func([]run.TimelineRow, error) bool) {})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		doc, err := report.Document(again, s)
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, m := range doc.Marks {
			if m.Severity == "fail" {
				said += m.Text + "\n"
			}
		}
		for _, w := range want {
			if !strings.Contains(said, w) {
				t.Errorf("marks say %q, want %q", said, w)
			}
		}
		if len(want) == 0 && said != "" {
			t.Errorf("of a whole run marks say %q", said)
		}
		if len(doc.Run.Name) > 1000 {
			t.Errorf("a name of %d bytes", len(doc.Run.Name))
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(saved.Dir(), name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f()
	write("summary.json", "")
	f("the summary cannot be read")
	write("summary.json", `{"schema": "plimsoll.summary/1", "requests": {"scheduled": 40}}`)
	f()
	parts, err := saved.Parts()
	if err != nil || len(parts) == 0 {
		t.Fatal(parts, err)
	}
	write("requests/"+parts[0].Name, "no part")
	f("part-000001.parquet cannot be read: ")
	f("part-000001.parquet cannot be read: ") // and when its details are made
	if err := os.Remove(filepath.Join(saved.Dir(), "requests", parts[0].Name)); err != nil {
		t.Fatal(err)
	}
	f("records of only 0 of at least 40 requests can be read")
}

func TestPhases(t *testing.T) {
	steps := []stats.StepInput{{Start: 5e9, End: 15e9}, {Start: 20e9, End: 30e9}, {Start: 40e9, End: 40e9}}
	for _, c := range []struct {
		end  int64
		want string
	}{
		{40e9, "[{warmup 0 3000 5000} {steady 0 5000 15000} {drain 0 15000 18000} {warmup 1 18000 20000} {steady 1 20000 30000} {drain 1 30000 40000}]"},
		{25e9, "[{warmup 0 3000 5000} {steady 0 5000 15000} {drain 0 15000 18000} {warmup 1 18000 20000} {steady 1 20000 25000}]"},
		{4e9, "[{warmup 0 3000 4000}]"},
		{3e9, "[]"},
		{0, "[]"},
	} {
		var got []string
		for _, p := range report.Phases(steps, 2*time.Second, c.end) {
			got = append(got, fmt.Sprintf("{%s %d %v %v}", p.Name, p.Step, float64(p.From), float64(*p.To)))
		}
		if s := "[" + strings.Join(got, " ") + "]"; s != c.want {
			t.Errorf("until %d: %s, want %s", c.end, s, c.want)
		}
	}
}
