package web

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/detail"
	"plimsoll/internal/run"
	"plimsoll/internal/signal"
)

// pagesOfRun are all addresses of the API that read a run.
func pagesOfRun(id string) []string {
	base := "/api/runs/" + id
	return []string{
		base, base + "/series", base + "/data?series=0,1,2&points=50", base + "/bands", base + "/heat", base + "/envelope?signal=requests_running", base + "/figures",
		base + "/requests?sort=-e2e", base + "/requests/0", base + "/requests/59", base + "/scatter", base + "/common?ymin=1", base + "/report.html", base + "/events",
		"/api/runs", "/api/compare?runs=" + id + ",whole",
	}
}

// damages are the ways in which a file of a run is damaged.
func damages(t *testing.T, outside string) map[string]func(name string, content []byte) error {
	out := map[string]func(string, []byte) error{
		"empty":  func(name string, _ []byte) error { return os.WriteFile(name, nil, 0o644) },
		"gone":   func(string, []byte) error { return nil },
		"folder": func(name string, _ []byte) error { return os.Mkdir(name, 0o755) },
		"pipe":   func(name string, _ []byte) error { return makePipe(name) },
		"link":   func(name string, _ []byte) error { return os.Symlink(outside, name) },
		"zeros":  func(name string, b []byte) error { return os.WriteFile(name, make([]byte, len(b)), 0o644) },
		"longer": func(name string, b []byte) error {
			return os.WriteFile(name, append(slices.Clone(b), "more"...), 0o644)
		},
	}
	shares, flips := []int{1, 50, 99}, 6
	if testing.Short() {
		shares, flips = shares[1:2], 2
	}
	for _, share := range shares {
		out[fmt.Sprintf("cut at %d %%", share)] = func(name string, b []byte) error { return os.WriteFile(name, b[:len(b)*share/100], 0o644) }
	}
	for i := range flips {
		out[fmt.Sprintf("flipped %d", i)] = func(name string, b []byte) error {
			b = slices.Clone(b)
			if len(b) > 0 {
				b[(len(b)-1)*i/(flips-1)] ^= 1 << (i % 8)
			}
			return os.WriteFile(name, b, 0o644)
		}
	}
	if os.Geteuid() != 0 { // root may read everything
		out["denied"] = func(name string, b []byte) error { return os.WriteFile(name, b, 0) }
	}
	return out
}

// telemetryOf gives a run a timeline and parts of telemetry.
func telemetryOf(t *testing.T, dir string) {
	t.Helper()
	saved, err := run.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	w, err := saved.CreateTimeline()
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(30) {
		if err := w.Add([]run.TimelineRow{{T: i * 1e9, Signal: "requests_running", Stat: "value", Source: "engine", Value: float64(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	// The parts of a run of its own, since an ended one takes no samples.
	other, err := run.Create(t.TempDir(), run.Info{Name: "x", Start: time.Now()}, []byte("name: x\n"), run.Blocking())
	if err != nil {
		t.Fatal(err)
	}
	sink := other.Sink()
	series := sink.Declare(signal.Series{Raw: "x_running"})
	for i := range int64(30) {
		sink.Add([]signal.Sample{{Series: series, Start: i * 1e9, End: i*1e9 + 1e6, Value: float64(i)}})
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "telemetry"), os.DirFS(filepath.Join(other.Dir(), "telemetry"))); err != nil {
		t.Fatal(err)
	}
}

// TestDamage damages every file of a run in every way, and asks for every page: each is
// answered in bounded time with what can be read, or says which file it is and what can
// be done.
func TestDamage(t *testing.T) {
	s := newServer(t, nil)
	whole := predicted(t, s.cfg.Root)
	if err := os.Rename(filepath.Join(s.cfg.Root, whole), filepath.Join(s.cfg.Root, "whole")); err != nil {
		t.Fatal(err)
	}
	s.front.Script, s.front.Style = []byte("void 0"), []byte("p{}")
	telemetryOf(t, filepath.Join(s.cfg.Root, "whole"))
	get[json.RawMessage](t, s, "/api/runs/whole")
	call(t, s, "PATCH", "/api/runs/whole", `{"note": "n", "tags": {"a": "b"}}`)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("SECRET123"), 0o644); err != nil {
		t.Fatal(err)
	}
	// What is written of a probe and of marks lies beside the others.
	for name, text := range map[string]string{"probe.json": `{"schema": "plimsoll.probe/1", "probe": "x", "points": [], "fits": [], "notes": []}`, "marks.json": `{"schema": "plimsoll.marks/1", "marks": []}`} {
		if err := os.WriteFile(filepath.Join(s.cfg.Root, "whole", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // its details are made again of telemetry and timeline
		if err := os.RemoveAll(filepath.Join(s.cfg.Root, "whole", "detail")); err != nil {
			t.Fatal(err)
		}
		s.stores.forget("whole")
		get[json.RawMessage](t, s, "/api/runs/whole")
	}
	var files []string
	from := os.DirFS(filepath.Join(s.cfg.Root, "whole"))
	if err := fs.WalkDir(from, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(files) < 11 {
		t.Fatalf("the run has only %v", files)
	}
	n := 0
	for _, file := range files {
		for how, do := range damages(t, outside) {
			n++
			id := fmt.Sprintf("damaged-%d", n)
			dir := filepath.Join(s.cfg.Root, id)
			if err := os.CopyFS(dir, from); err != nil {
				t.Fatal(err)
			}
			name := filepath.Join(dir, filepath.FromSlash(file))
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
			if err := do(name, b); err != nil {
				t.Fatal(err)
			}
			for _, page := range pagesOfRun(id) {
				askDamaged(t, s, page, file, how, id)
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d files, %d damages", len(files), n)
}

// askDamaged asks for a page of a run whose file is damaged.
func askDamaged(t *testing.T, s *Server, page, file, how, id string) {
	t.Helper()
	where := fmt.Sprintf("%s %s: GET %s", file, how, strings.ReplaceAll(page, id, "ID"))
	type answer struct {
		status int
		h      http.Header
		body   []byte
	}
	done := make(chan answer, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				t.Errorf("%s: panic: %v", where, r)
				close(done)
			}
		}()
		r := httptest.NewRequest("GET", "http://127.0.0.1:8315"+page, http.NoBody)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		done <- answer{w.Code, w.Header(), w.Body.Bytes()}
	}()
	var a answer
	select {
	case a = <-done:
	case <-time.After(time.Minute): // real time: nothing waits for a pipe or a loop without end
		t.Fatalf("%s: no answer", where)
	}
	if strings.Contains(string(a.body), "SECRET123") {
		t.Errorf("%s: it shows a file of elsewhere", where)
	}
	if a.status < 400 {
		return
	}
	var said refusal
	if err := json.Unmarshal(a.body, &said); err != nil || said.Error == nil {
		t.Errorf("%s: %d %.300s", where, a.status, a.body)
		return
	}
	if p := said.Error; how != "gone" && !strings.Contains(p.Text, filepath.Base(file)) || p.Fix == "" || strings.Contains(p.Text, s.cfg.Root) {
		t.Errorf("%s: %d %q, fix %q: want the file and what to do, and no path of this machine", where, a.status, p.Text, p.Fix)
	}
}

// TestDamageIsTold: what of a run cannot be read is a mark of it, as long as that is so, and
// no longer.
func TestDamageIsTold(t *testing.T) {
	s := newServer(t, nil)
	id := predicted(t, s.cfg.Root)
	dir := filepath.Join(s.cfg.Root, id)
	telemetryOf(t, dir)
	told := func(file string) bool {
		t.Helper()
		s.stores.forget(id) // as a server that begins
		for _, m := range get[detail.RunDoc](t, s, "/api/runs/"+id).Marks {
			if strings.HasPrefix(m.Text, file+" cannot be read: ") {
				if strings.Contains(m.Text, s.cfg.Root) {
					t.Errorf("a mark says where the runs lie: %s", m.Text)
				}
				return true
			}
		}
		return false
	}
	for file, also := range map[string]string{"requests/part-000001.parquet": "", "timeline.parquet": "", "telemetry/part-000001.parquet": "timeline.parquet"} {
		if told(file) {
			t.Fatalf("%s is damaged, says a run that is whole", file)
		}
		saved := map[string][]byte{}
		for _, name := range []string{file, also} {
			if name == "" {
				continue
			}
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			saved[name] = slices.Clone(b)
			b[len(b)/2] ^= 1 // of the same length: its details are taken for those of it
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.RemoveAll(filepath.Join(dir, "detail")); err != nil {
			t.Fatal(err)
		}
		for i := range 2 { // made, then read
			if !told(file) {
				t.Errorf("%s: no mark tells of the damage (opening %d)", file, i+1)
			}
		}
		if n := get[detail.Rows](t, s, "/api/runs/"+id+"/requests").Matched; (n == 0) != (also == "" && strings.HasPrefix(file, "requests")) {
			t.Errorf("%s: %d requests are shown", file, n)
		}
		if series := get[seriesList](t, s, "/api/runs/"+id+"/series").Series; len(series) == 0 {
			t.Errorf("%s: nothing is drawn", file)
		}
		for name, b := range saved {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if told(file) {
			t.Errorf("%s: it is whole again, and a mark still says that it is damaged", file)
		}
		if n := get[detail.Rows](t, s, "/api/runs/"+id+"/requests").Matched; n != 60 {
			t.Errorf("%s: %d requests after it is whole again, want 60", file, n)
		}
	}
	// A part that was whole when its details were made is not needed for them; its requests
	// come without their events then, and say why.
	name := filepath.Join(dir, "requests", "part-000001.parquet")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if one := get[detail.One](t, s, "/api/runs/"+id+"/requests/5"); one.Whole || one.Lost == nil || !strings.Contains(*one.Lost, "part-000001.parquet") || one.Row.TTFT == nil {
		t.Errorf("a request of a damaged part: %+v", one)
	}
}
