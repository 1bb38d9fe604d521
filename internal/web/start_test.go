package web

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/clock"
	"plimsoll/internal/detail"
	"plimsoll/internal/live"
	"plimsoll/internal/load"
	"plimsoll/internal/run"
	"plimsoll/internal/twin"
)

// engine serves a simulated engine with fast steps until the test ends.
func engine(t *testing.T) string {
	t.Helper()
	s, err := twin.NewServer(twin.ServerConfig{Model: "llama-3.1-8b", Step: 2 * time.Millisecond, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, s.Serve)
}

// serve runs a server on a free loopback port until the test ends.
func serve(t *testing.T, run func(context.Context, net.Listener) error) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

// listening is a server on a socket of its own, which waits for its clients as long as a
// test may take.
func listening(t *testing.T, change func(*Config)) (*Server, string) {
	t.Helper()
	s := newServer(t, change)
	s.limits.header, s.limits.body, s.limits.idle, s.limits.event = time.Hour, time.Hour, time.Hour, time.Hour
	return s, serve(t, s.Serve)
}

// event is one of an event stream.
type event struct {
	id   int64 // -1 for none
	name string
	data string
}

// events reads the events of a stream until it ends, or until what has come is enough
// where that is not nil.
func events(t *testing.T, url, last string, enough func([]event) bool) []event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Error(err)
		return nil
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		t.Errorf("%s: %s, %s", url, res.Status, res.Header.Get("Content-Type"))
		return nil
	}
	var out []event
	e := event{id: -1}
	in := bufio.NewScanner(res.Body)
	in.Buffer(nil, 1<<20)
	for (enough == nil || !enough(out)) && in.Scan() {
		field, value, _ := strings.Cut(in.Text(), ": ")
		switch field {
		case "id":
			if e.id, err = strconv.ParseInt(value, 10, 64); err != nil {
				t.Error(err)
				return nil
			}
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "":
			if e.name != "" {
				out = append(out, e)
			}
			e = event{id: -1}
		}
	}
	return out
}

// TestRunByREST starts a run, watches it by two streams, one of which breaks off and
// comes back, stops it, and looks at what is on disk.
func TestRunByREST(t *testing.T) {
	target := engine(t)
	s, base := listening(t, nil)
	yaml := fmt.Sprintf("name: by rest\ntarget: {url: %s, ignore-eos: true}\nusers: {prompt-tokens: 50, output-tokens: 20}\nload: {users: 3, duration: 100h, drain: 10m}\ndata: {telemetry: none, out: /tmp/elsewhere}\n", target)
	body := string(must(t, scenarioText{yaml}))
	status, h, b := call(t, s, "POST", "/api/runs", body)
	if status != http.StatusCreated {
		t.Fatalf("POST: %d %s", status, b)
	}
	id := decode[runID](t, b).ID
	if h.Get("Location") != "/api/runs/"+id {
		t.Errorf("Location %q", h.Get("Location"))
	}
	if status, _, b := call(t, s, "POST", "/api/runs", body); status != http.StatusConflict || !strings.Contains(string(b), id) {
		t.Errorf("a second run: %d %s, want 409 that names the first", status, b)
	}
	if status, _, _ := call(t, s, "DELETE", "/api/runs/"+id+"?confirm="+id, ""); status != http.StatusConflict {
		t.Errorf("DELETE of a run under way: %d", status)
	}
	url := base + "/api/runs/" + id + "/events"
	whole := make(chan []event, 1)
	go func() { whole <- events(t, url+"?after=0", "", nil) }()

	// Something was measured, and more than one event says so.
	first := events(t, url, "0", func(e []event) bool {
		return len(e) >= 3 && decode[*live.Snapshot](t, []byte(e[len(e)-1].data)).Header.OK > 0
	})
	doc := get[detail.RunDoc](t, s, "/api/runs/"+id)
	if !doc.Live || !doc.Run.Live || doc.Summary != nil || doc.Run.Name != "by rest" || doc.Stopping {
		t.Errorf("document while it goes on: %+v", doc)
	}
	if rows := get[runList](t, s, "/api/runs").Runs; len(rows) != 1 || !rows[0].Live || rows[0].State != string(run.Running) {
		t.Errorf("rows while it goes on: %+v", rows)
	}
	for _, target := range []string{"/series", "/figures", "/requests?limit=3", "/bands", "/heat", "/scatter", "/data?series=0,1"} {
		if status, _, b := call(t, s, "GET", "/api/runs/"+id+target, ""); status != http.StatusOK {
			t.Errorf("GET %s while it goes on: %d %s", target, status, b)
		}
	}
	if status, _, b := call(t, s, "POST", "/api/runs/"+id+"/stop", ""); status != http.StatusAccepted {
		t.Fatalf("stop: %d %s", status, b)
	}
	last := strconv.FormatInt(first[len(first)-1].id, 10)
	second := events(t, url, last, nil)
	got := append(first, second...)
	all := <-whole
	if len(all) < 4 || all[len(all)-1].name != "end" {
		t.Fatalf("events of a whole stream: %+v", all)
	}
	if len(got) != len(all) {
		t.Fatalf("%d events of a stream that was broken off, %d of one that was not", len(got), len(all))
	}
	for i, e := range all {
		if e.name == "snapshot" && e.id != int64(i+1) {
			t.Errorf("event %d has the number %d", i, e.id)
		}
		if got[i] != e {
			t.Errorf("event %d: %.100v behind a break, %.100v without", i, got[i], e)
		}
	}
	if s := decode[*live.Snapshot](t, []byte(all[len(all)-2].data)); s.Header.OK == 0 || !s.Stopping {
		t.Errorf("last snapshot: header %+v, stopping %v", s.Header, s.Stopping)
	}
	d := readDocument(t)
	v := schemaAt(t, "snapshot", d, []byte(`{"$ref": "#/components/schemas/Snapshot"}`))
	for _, e := range all[:len(all)-1] {
		if err := v.Validate(decode[any](t, []byte(e.data))); err != nil {
			t.Errorf("a snapshot is not as the document says: %v\n%s", err, e.data)
		}
	}

	doc = get[detail.RunDoc](t, s, "/api/runs/"+id)
	if doc.Live || doc.Run.State != string(run.Interrupted) || doc.Summary == nil || doc.Summary.Requests.OK == 0 {
		t.Errorf("document behind the end: %+v", doc.Run)
	}
	if got := events(t, url, "", nil); len(got) != 1 || got[0].name != "end" {
		t.Errorf("events of an ended run: %v, want end", got)
	}
	// Who comes back late has what was between, too.
	if late := events(t, url, last, nil); !slices.Equal(late, all[len(first):]) {
		t.Errorf("behind the end a stream goes on with %d events, want %d", len(late), len(all)-len(first))
	}
	if status, _, _ := call(t, s, "POST", "/api/runs/"+id+"/stop", ""); status != http.StatusConflict {
		t.Errorf("stop of an ended run: %d", status)
	}
	if status, _, b := call(t, s, "DELETE", "/api/runs/"+id+"?confirm="+id, ""); status != http.StatusNoContent && status != http.StatusOK {
		t.Fatalf("DELETE: %d %s", status, b)
	}
	if status, _, _ := call(t, s, "GET", "/api/runs/"+id+"/events?after=0", ""); status != http.StatusNotFound {
		t.Errorf("events of a deleted run: %d, want 404", status)
	}
}

// TestStartsAtOnce: of many who start a run in one process at once one gets it, the others
// are told so; another process starts its own, in a folder of its own.
func TestStartsAtOnce(t *testing.T) {
	target := engine(t)
	a := newServer(t, nil)
	b := newServer(t, func(c *Config) { c.Root = a.cfg.Root })
	body := string(must(t, scenarioText{fmt.Sprintf("name: at once\ntarget: {url: %s, ignore-eos: true}\nusers: {prompt-tokens: 50, output-tokens: 20}\nload: {users: 1, duration: 100h, drain: 1s}\ndata: {telemetry: none}\n", target)}))
	servers := []*Server{a, a, a, b, b, b}
	ids := make([]string, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() {
			switch status, _, b := call(t, s, "POST", "/api/runs", body); {
			case status == http.StatusCreated:
				ids[i] = decode[runID](t, b).ID
			case status != http.StatusConflict || !strings.Contains(string(b), "two at once would measure each other"):
				t.Errorf("a run that is one too many: %d %s", status, b)
			}
		})
	}
	wg.Wait()
	slices.Sort(ids)
	if ids[3] != "" || ids[4] == "" || ids[4] == ids[5] {
		t.Fatalf("the runs are %q, want one of each server, and no more", ids)
	}
	for _, s := range []*Server{a, b} {
		live := 0
		for _, row := range get[runList](t, s, "/api/runs").Runs {
			if !slices.Contains(ids, row.ID) || row.State != string(run.Running) {
				t.Errorf("in the list: %+v", row)
			}
			if row.Live {
				live++
			} else if status, _, b := call(t, s, "DELETE", "/api/runs/"+row.ID+"?confirm="+row.ID, ""); status != http.StatusConflict {
				t.Errorf("DELETE of the run of another process: %d %s", status, b)
			}
		}
		if live != 1 {
			t.Errorf("%d runs are under way in a server", live)
		}
	}
}

// TestNotStarted asks for runs that cannot be.
func TestNotStarted(t *testing.T) {
	s := newServer(t, func(c *Config) {
		c.LookupEnv = func(name string) (string, bool) { return "SECRET123", name == "HOME" || name == "SSH_AUTH_SOCK" }
	})
	f := func(name, yaml string, want int, texts ...string) {
		t.Helper()
		status, _, b := call(t, s, "POST", "/api/runs", string(must(t, scenarioText{yaml})))
		if status != want {
			t.Errorf("%s: %d, want %d: %s", name, status, want, b)
		}
		for _, text := range texts {
			if !strings.Contains(string(b), text) {
				t.Errorf("%s: %s, want %q", name, b, text)
			}
		}
		// Who checks it is told the same, with the place.
		if _, _, checkedBody := call(t, s, "POST", "/api/scenarios/check", string(must(t, scenarioText{yaml}))); want == http.StatusBadRequest {
			type errorList struct{ Errors []ScenarioError }
			check, start := decode[errorList](t, checkedBody).Errors, decode[errorList](t, b).Errors
			if diff := cmp.Diff(start, check); diff != "" || len(start) == 0 {
				t.Errorf("%s: start and check differ (-start +check):\n%s", name, diff)
			}
			for _, e := range check {
				if yaml != "" && (e.Line == 0 || e.Column == 0) {
					t.Errorf("%s: an error without a place: %+v", name, e)
				}
				if strings.Contains(e.Text, "export it") || strings.Contains(e.Text, "is not set") {
					t.Errorf("%s: a variable that is set and not allowed is told as one that is not set: %s", name, e.Text)
				}
			}
		}
		if strings.Contains(string(b), "SECRET123") || strings.Contains(string(b), "root:") {
			t.Errorf("%s: the answer has what it must not: %s", name, b)
		}
	}
	target := "target: {url: 'http://127.0.0.1:1', %s}\nload: {users: 1}\n"
	f("nobody there", fmt.Sprintf(target, ""), http.StatusBadGateway, "connect_refused")
	f("not YAML", "load: [", http.StatusBadRequest, "errors")
	f("empty", "", http.StatusBadRequest, "errors")
	f("unknown field", fmt.Sprintf(target, "modell: x"), http.StatusBadRequest, "target.modell")
	// Files and variables of this machine are not for everybody who may post.
	f("file", fmt.Sprintf(target, "ca: /etc/passwd"), http.StatusBadRequest, "--files")
	f("workload file", "target: {url: 'http://127.0.0.1:1'}\nusers: {workload: /etc/passwd.yaml}\nload: {users: 1}\n", http.StatusBadRequest, "--files")
	f("tokenizer", fmt.Sprintf(target, "tokenizer: ../../etc/passwd"), http.StatusBadRequest, "--files")
	f("hardware file", fmt.Sprintf(target, "hardware: /etc/passwd.yaml"), http.StatusBadRequest, "catalogue")
	f("variable", fmt.Sprintf(target, "model: '${HOME}'"), http.StatusBadRequest, "HOME")
	f("key", fmt.Sprintf(target, "api-key-env: SSH_AUTH_SOCK"), http.StatusBadRequest, "SSH_AUTH_SOCK", "--allow-env")
	f("variable in two places", fmt.Sprintf(target, "model: 'x${HOME}', usage: none"), http.StatusBadRequest, "--allow-env")
	f("key of telemetry", "target: {url: 'http://127.0.0.1:1'}\nload: {users: 1}\ndata:\n  telemetry: [{url: 'http://127.0.0.1:1/metrics', api-key-env: HOME}]\n", http.StatusBadRequest, "HOME", `"line":4`)
	f("certificate of telemetry", "target: {url: 'http://127.0.0.1:1'}\nload: {users: 1}\ndata:\n  telemetry: [{url: 'http://127.0.0.1:1/metrics', ca: /etc/passwd}]\n", http.StatusBadRequest, "--files", `"line":4`)
	f("an unfinished key", "target: {url: 'http://127.0.0.1:1'}\nload: {users: 1}\ndat\n", http.StatusBadRequest, "dat:")
	if rows := get[runList](t, s, "/api/runs").Runs; len(rows) != 0 {
		t.Errorf("runs that never began are listed: %v", rows)
	}

	readonly := newServer(t, func(c *Config) { c.ReadOnly = true })
	for method, target := range map[string]string{"POST": "/api/runs", "PUT": "/api/scenarios/x", "DELETE": "/api/runs/x", "PATCH": "/api/runs/x"} {
		if status, _, _ := call(t, readonly, method, target, `{}`); status != http.StatusForbidden {
			t.Errorf("%s %s of a panel that only shows: %d", method, target, status)
		}
	}
	if status, _, b := call(t, readonly, "POST", "/api/scenarios/check", `{"scenario": "x: 1"}`); status != http.StatusOK {
		t.Errorf("check of a panel that only shows: %d %s", status, b)
	}
}

// TestKeptInThisFolder: a scenario that says where its run is kept is told that it is not,
// and the plan does not say that the folder comes from the scenario.
func TestKeptInThisFolder(t *testing.T) {
	s := newServer(t, nil)
	f := func(data string, notes int, origin string) {
		t.Helper()
		_, _, b := call(t, s, "POST", "/api/scenarios/check", string(must(t, scenarioText{"target: {url: 'http://127.0.0.1:1'}\nload: {users: 1, duration: 1s}\n" + data})))
		got := decode[checked](t, b)
		if len(got.Errors) > 0 || got.Plan == nil || len(got.Notes) != notes {
			t.Fatalf("%q: %s", data, b)
		}
		for _, n := range got.Notes {
			if n.Line != 3 || n.Field != "data.out" || !strings.Contains(n.Text, "/tmp/elsewhere") {
				t.Errorf("note %+v", n)
			}
		}
		for _, x := range got.Plan.Fields {
			if x.Path == "data.out" && (x.Origin != origin || !strings.Contains(x.Value, s.cfg.Root)) {
				t.Errorf("%q: data.out is %q of %q, want %q of %q", data, x.Value, x.Origin, s.cfg.Root, origin)
			}
		}
	}
	f("", 0, "the folder of this panel")
	f("data: {out: /tmp/elsewhere}\n", 1, "the folder of this panel, whatever scenario.yaml:3:13 says")
}

// TestPastIsForgotten: the snapshots of a run that has ended are there for who comes back
// soon, and not for ever.
func TestPastIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const id = "20260101T000000Z-x"
		began := func(id string) (*live.Watch, chan struct{}) {
			w, done, c := live.New(), make(chan struct{}), clock.New()
			w.Begin(live.Run{
				Row: detail.RunRow{ID: id, Tags: map[string]string{}}, Start: c.Start(), Now: c.Now, Live: new(load.Live), Plan: []load.Step{{Users: 1, Duration: time.Hour}},
			})
			return w, done
		}
		var k work
		f := func(what, id string, there, ended bool) {
			t.Helper()
			ring, _, over := k.snapshots(id)
			if (ring != nil) != there || over != ended {
				t.Errorf("%s: snapshots are there: %v, over %v; want %v, %v", what, ring != nil, over, there, ended)
			}
		}
		w, done := began(id)
		if err := k.begin(w, done, func() {}); err != nil {
			t.Fatal(err)
		}
		f("under way", id, true, false)
		f("another", "20260101T000000Z-y", false, true)
		f("none", "", false, true)
		w.End(nil, nil)
		close(done)
		f("at the end", id, true, true)
		time.Sleep(pastTime - 1)
		f("soon", id, true, true)
		time.Sleep(2 * time.Nanosecond)
		synctest.Wait()
		f("long after", id, false, true)

		w, done = began(id)
		if err := k.begin(w, done, func() {}); err != nil {
			t.Fatal(err)
		}
		w.End(nil, nil)
		close(done)
		f("at the next end", id, true, true)
		w, done = began("20260101T000000Z-z")
		if err := k.begin(w, done, func() {}); err != nil {
			t.Fatal(err)
		}
		f("when another began", id, false, true)
		w.End(nil, nil)
		close(done)
		time.Sleep(2 * pastTime)
	})
}
