package web

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"plimsoll/internal/detail"
	"plimsoll/internal/run"
)

// TestView asks for everything that is drawn of a run and holds it against the
// summary on disk.
func TestView(t *testing.T) {
	s := newServer(t, nil)
	id := predicted(t, s.cfg.Root, "guards.slo=ttft.p95=1h,tpot.mean=1us")
	base := "/api/runs/" + id
	saved, err := run.Open(s.cfg.Root + "/" + id)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := saved.Summary()
	if err != nil {
		t.Fatal(err)
	}

	doc := get[detail.RunDoc](t, s, base)
	if doc.Live || doc.Summary == nil || doc.Run.ID != id || !strings.Contains(doc.Scenario, "users:") || len(doc.Workloads) != 1 {
		t.Errorf("document %+v", doc)
	}
	if len(doc.SLO) != 2 || doc.SLO[0].Text != "ttft.p95=1h" || doc.SLO[0].Limit != 3.6e6 || doc.SLO[1].Limit != 1e-3 {
		t.Errorf("service levels %+v", doc.SLO)
	}
	steady := 0
	for i, p := range doc.Phases {
		if p.To == nil || *p.To <= p.From || i > 0 && p.From != *doc.Phases[i-1].To {
			t.Errorf("phase %d of %+v is no stretch after the one before", i, doc.Phases)
		}
		if p.Name == "steady" {
			steady++
		}
	}
	if steady != 1 || doc.Span.To <= 0 {
		t.Errorf("phases %+v, span %+v", doc.Phases, doc.Span)
	}

	fig := get[detail.Figures](t, s, base+"/figures")
	if fig.Requests.Scheduled != sum.Requests.Scheduled || fig.Latency["ttft"] == nil || *fig.Latency["ttft"].P95 != *sum.Latency.TTFT.P95 {
		t.Errorf("figures of the whole run %+v, want those of the summary", fig)
	}
	half := get[detail.Figures](t, s, fmt.Sprintf("%s/figures?from=0&to=%f", base, float64(doc.Span.To)/2))
	if half.Requests.Scheduled == 0 || half.Requests.Scheduled >= fig.Requests.Scheduled {
		t.Errorf("%d requests in the first half of a run of %d", half.Requests.Scheduled, fig.Requests.Scheduled)
	}

	series := get[struct {
		Series  []detail.Series
		Missing []detail.Missing
	}](t, s, base+"/series")
	if len(series.Series) == 0 {
		t.Fatal("no series")
	}
	grid := get[struct {
		N      int
		StepMs float64 `json:"step_ms"`
		Series map[string]struct{ Mean []*float64 }
	}](t, s, base+"/data?series=0,1&points=50")
	if len(grid.Series) != 2 || grid.N == 0 || grid.N > 50 || len(grid.Series["0"].Mean) != grid.N {
		t.Errorf("grid of %d with %d series", grid.N, len(grid.Series))
	}

	rows := get[detail.Rows](t, s, base+"/requests?sort=-e2e&limit=5")
	if rows.Matched != int(sum.Requests.Scheduled) || len(rows.Rows) != 5 || *rows.Rows[0].E2E < *rows.Rows[4].E2E {
		t.Errorf("requests %+v", rows)
	}
	if worst := *sum.Latency.E2E.Max; math.Abs(float64(*rows.Rows[0].E2E)-worst) > 1e-3 {
		t.Errorf("slowest request %v ms, summary says %v", *rows.Rows[0].E2E, worst)
	}
	one := get[detail.One](t, s, fmt.Sprintf("%s/requests/%d", base, rows.Rows[0].N))
	if one.Row.N != rows.Rows[0].N || len(one.Events.T) == 0 || one.Points["sent"] == nil {
		t.Errorf("request %+v", one)
	}
	dots := get[detail.Scatter](t, s, base+"/scatter?y=e2e&color=status")
	if len(dots.Points.N) != rows.Matched {
		t.Errorf("%d dots for %d requests", len(dots.Points.N), rows.Matched)
	}
	none := get[detail.Rows](t, s, base+"/requests?filter="+url.QueryEscape("ttft>1h"))
	if none.Matched != 0 || none.Rows == nil {
		t.Errorf("requests slower than an hour: %+v, want []", none)
	}
	get[detail.Common](t, s, base+"/common?y=e2e&ymin=1")
	get[json.RawMessage](t, s, base+"/bands?figure=ttft,itl&points=20")
	get[json.RawMessage](t, s, base+"/heat?figure=tpot")
	get[json.RawMessage](t, s, base+"/envelope?signal=requests_running")

	for target, field := range map[string]string{
		"/requests?filter=ttft%3E1parsec": "filter", "/requests?filter=" + strings.Repeat("x", 2000): "filter", "/requests?sort=nothing": "sort",
		"/requests?limit=0": "limit", "/requests?limit=1000000": "limit", "/requests?offset=-1": "offset",
		"/data?series=a": "series", "/data?series=-1": "series", "/data?series=1&points=0": "points", "/data?from=10&to=5": "to", "/data?from=NaN": "from",
		"/data?from=1e300": "from", "/bands?figure=nothing": "figure", "/heat?figure=nothing": "figure", "/scatter?y=nothing": "y", "/scatter?width=1e9": "width",
		"/envelope": "signal", "/scatter?color=nothing": "color",
	} {
		status, _, b := call(t, s, "GET", base+target, "")
		if got := decode[struct{ Error Problem }](t, b).Error; status != http.StatusBadRequest || got.Field != field || got.Text == "" {
			t.Errorf("GET %s: %d %s, want 400 of %s", target, status, b, field)
		}
	}
	for _, target := range []string{"/requests/100000", "/requests/-1", "/requests/x", "/nothing"} {
		if status, _, b := call(t, s, "GET", base+target, ""); status != http.StatusNotFound {
			t.Errorf("GET %s: %d %s, want 404", target, status, b)
		}
	}
}

// TestStores looks at more runs than are kept open, and at one that changes.
func TestStores(t *testing.T) {
	s := newServer(t, nil)
	var ids []string
	for i := range maxStores + 3 {
		ids = append(ids, predicted(t, s.cfg.Root, fmt.Sprintf("name=n%d", i), "load.requests=8"))
	}
	for range 2 {
		for _, id := range ids {
			get[detail.RunDoc](t, s, "/api/runs/"+id)
		}
	}
	if n := len(s.stores.list); n != maxStores {
		t.Errorf("%d runs are kept open, want %d", n, maxStores)
	}
	last := ids[len(ids)-1]
	before := s.stores.list[maxStores-1]
	get[detail.RunDoc](t, s, "/api/runs/"+last)
	if s.stores.list[maxStores-1] != before {
		t.Error("a run that did not change was opened anew")
	}
	call(t, s, "PATCH", "/api/runs/"+last, `{"note": "seen"}`)
	if got := get[detail.RunDoc](t, s, "/api/runs/"+last); got.Run.Note != "seen" {
		t.Errorf("note %q, want the new one", got.Run.Note)
	}
}

// TestStoresAreBounded keeps no more runs open than fit, but for the one that is looked at.
func TestStoresAreBounded(t *testing.T) {
	s := newServer(t, nil)
	one, other := predicted(t, s.cfg.Root, "name=one", "load.requests=8"), predicted(t, s.cfg.Root, "name=other", "load.requests=8")
	get[detail.RunDoc](t, s, "/api/runs/"+one)
	s.stores.most = s.stores.list[0].size * 3 / 2
	if s.stores.most <= 0 {
		t.Fatal("an open run holds nothing")
	}
	for _, id := range []string{other, one, one} {
		get[detail.RunDoc](t, s, "/api/runs/"+id)
		if n := len(s.stores.list); n != 1 || s.stores.list[0].id != id {
			t.Errorf("%d runs are kept open, want %s alone", n, id)
		}
	}
}

// TestOpening asks how far a run is that others open, and opens one for many at once.
func TestOpening(t *testing.T) {
	s := newServer(t, nil)
	id := predicted(t, s.cfg.Root)
	share := func() *float64 { return get[opening](t, s, "/api/runs/"+id+"/opening").Share }
	if got := share(); got != nil {
		t.Errorf("of a run that nobody opens: %v", *got)
	}
	if err := os.RemoveAll(filepath.Join(s.cfg.Root, id, "detail")); err != nil {
		t.Fatal(err)
	}
	var found [4]*opened
	var all sync.WaitGroup
	for i := range found {
		all.Go(func() {
			o, err := s.open(httptest.NewRecorder(), id)
			if err != nil {
				t.Error(err)
				return
			}
			found[i] = o
			s.stores.release(o)
		})
	}
	all.Wait()
	for _, o := range found {
		if o == nil || o != found[0] {
			t.Fatal("a run was opened more than once")
		}
	}
	if got := share(); got != nil {
		t.Errorf("of a run that is open: %v", *got)
	}
	found[0].made.Store(1 + 350) // as while it is made
	if got := share(); got == nil || *got != 0.35 {
		t.Errorf("of a run of which 35 %% is made: %v", got)
	}
	if status, _, _ := call(t, s, "GET", "/api/runs/..%2f/opening", ""); status != http.StatusNotFound {
		t.Errorf("of what is no run: %d", status)
	}
}

// TestReport opens the offline page of a run whose name is markup.
func TestReport(t *testing.T) {
	s := newServer(t, nil)
	s.front.Script, s.front.Style = []byte("void 0"), []byte("p{}")
	const markup = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
	id := predicted(t, s.cfg.Root, "name="+markup)
	status, h, b := call(t, s, "GET", "/api/runs/"+id+"/report.html", "")
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, b)
	}
	if strings.Contains(string(b), "alert(1)</script>") || strings.Contains(string(b), "<img") {
		t.Error("a name became markup")
	}
	// Its scripts run in an origin of their own, from which the API cannot be called.
	policy := h.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "sandbox ") || strings.Contains(policy, "allow-same-origin") {
		t.Errorf("policy %q", policy)
	}
	if status, _, _ := call(t, s, "GET", "/api/runs/nothing/report.html", ""); status != http.StatusNotFound {
		t.Errorf("the page of no run: %d", status)
	}
}

// TestClosed closes a run that somebody still looks at: its files stay open as long.
func TestClosed(t *testing.T) {
	s := newServer(t, nil)
	id := predicted(t, s.cfg.Root)
	w := httptest.NewRecorder()
	o, err := s.open(w, id)
	if err != nil {
		t.Fatal(err)
	}
	s.stores.forget(id)
	if o.users != 1 || !o.gone || len(s.stores.list) != 0 {
		t.Errorf("a run that is looked at and forgotten: %d users, gone %v", o.users, o.gone)
	}
	if g := o.store.Data([]int{0}, 0, 0, 10); g.N == 0 {
		t.Error("its data cannot be read any more")
	}
	again, err := s.open(w, id)
	if err != nil {
		t.Fatal(err)
	}
	if again == o {
		t.Error("a forgotten run was not opened anew")
	}
	s.stores.release(o)
	s.stores.release(again)
	if again.gone || again.users != 0 {
		t.Error("a run in the list was closed")
	}
}
