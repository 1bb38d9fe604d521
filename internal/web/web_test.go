package web

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll/internal/conduct"
	"plimsoll/internal/detail"
	"plimsoll/internal/run"
	"plimsoll/internal/scenario"
)

// newServer is a server over an empty folder, closed when the test ends.
func newServer(t *testing.T, change func(*Config)) *Server {
	t.Helper()
	cfg := Config{Root: filepath.Join(t.TempDir(), "runs"), Version: "test", Listen: "127.0.0.1:8315"}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// predicted puts a run into a folder, simulated in virtual time, and returns its id.
func predicted(t testing.TB, root string, sets ...string) string {
	t.Helper()
	src := scenario.Source{URL: conduct.SimulatedURL}
	for _, s := range append([]string{
		"target.api=openai.completions", "target.ignore-eos=true", "seed=1", "users.prompt-tokens=200", "users.output-tokens=20",
		"load.users=4", "load.requests=60",
	}, sets...) {
		set, err := scenario.ParseSet(s)
		if err != nil {
			t.Fatal(err)
		}
		src.Settings = append(src.Settings, set)
	}
	s, err := scenario.Read(src)
	if err != nil {
		t.Fatal(err)
	}
	res, err := conduct.Predict(context.Background(), &conduct.PredictConfig{Scenario: s, Root: root, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(res.Folder)
}

// call is one request to a server's handler. A method other than GET has the header
// that changes need, and a body is JSON.
func call(t *testing.T, h http.Handler, method, target, body string, change ...func(*http.Request)) (int, http.Header, []byte) {
	t.Helper()
	var r *http.Request
	if body == "" {
		r = httptest.NewRequest(method, "http://127.0.0.1:8315"+target, http.NoBody)
	} else {
		r = httptest.NewRequest(method, "http://127.0.0.1:8315"+target, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
	}
	if method != "GET" {
		r.Header.Set(ChangeHeader, "1")
	}
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	res := w.Result()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if s, ok := h.(*Server); ok {
		conforms(t, s, r, res.StatusCode, res.Header, b)
	}
	return res.StatusCode, res.Header, b
}

// decode reads an answer that must be JSON.
func decode[T any](t *testing.T, b []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%v in %.300s", err, b)
	}
	return v
}

func get[T any](t *testing.T, s *Server, target string) T {
	t.Helper()
	status, _, b := call(t, s, "GET", target, "")
	if status != http.StatusOK {
		t.Fatalf("GET %s: %d %s", target, status, b)
	}
	return decode[T](t, b)
}

type rowList struct {
	Runs []detail.RunRow `json:"runs"`
}

func TestRuns(t *testing.T) {
	s := newServer(t, nil)
	if got := get[rowList](t, s, "/api/runs"); got.Runs == nil || len(got.Runs) != 0 {
		t.Fatalf("runs of an empty folder: %v, want []", got)
	}
	a := predicted(t, s.cfg.Root, "name=first")
	b := predicted(t, s.cfg.Root, "name=second", "load.requests=40")
	list := get[rowList](t, s, "/api/runs").Runs
	if len(list) != 2 || list[0].ID != b || list[1].ID != a {
		t.Fatalf("runs %v, want %s and %s, the newest first", list, b, a)
	}
	row := list[1]
	if row.Name != "first" || row.State != string(run.Done) || row.Requests == nil || *row.Requests != 60 || row.TTFTP95 == nil || row.Load != "4 users" || row.Live {
		t.Errorf("row %+v", row)
	}

	// What is added is kept beside the run, and shown at once.
	status, _, body := call(t, s, "PATCH", "/api/runs/"+a, `{"note": "<b>odd</b>", "tags": {"gpu": "h100", "x": "1"}}`)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	if strings.Contains(string(body), "<b>") {
		t.Errorf("an answer has markup of a note: %s", body)
	}
	call(t, s, "PATCH", "/api/runs/"+a, `{"tags": {"x": null}, "name": "renamed"}`)
	row = get[rowList](t, s, "/api/runs").Runs[1]
	if row.Note != "<b>odd</b>" || row.Tags["gpu"] != "h100" || len(row.Tags) != 1 || row.Name != "renamed" {
		t.Errorf("row after patches %+v", row)
	}
	if saved, err := run.Open(filepath.Join(s.cfg.Root, a)); err != nil || saved.Info().Name != "first" {
		t.Errorf("run.json was changed by a note: %v", err)
	}

	// Deleting needs the name twice.
	if status, _, _ := call(t, s, "DELETE", "/api/runs/"+a, ""); status != http.StatusBadRequest {
		t.Errorf("DELETE without confirm: %d", status)
	}
	if status, _, body := call(t, s, "DELETE", "/api/runs/"+a+"?confirm="+a, ""); status != http.StatusNoContent {
		t.Errorf("DELETE: %d %s", status, body)
	}
	if list := get[rowList](t, s, "/api/runs").Runs; len(list) != 1 || list[0].ID != b {
		t.Errorf("runs after DELETE: %v", list)
	}
	if status, _, _ := call(t, s, "GET", "/api/runs/"+a, ""); status != http.StatusNotFound {
		t.Errorf("GET of a deleted run: %d", status)
	}
}

// TestDeleteOfAnother: a run that another process carries out is not deleted, one whose process was
// killed is.
func TestDeleteOfAnother(t *testing.T) {
	s := newServer(t, nil)
	w, err := run.Create(s.cfg.Root, run.Info{Name: "other", Start: time.Now()}, []byte("name: other\n"), run.Blocking())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	id := filepath.Base(w.Dir())
	if status, _, body := call(t, s, "DELETE", "/api/runs/"+id+"?confirm="+id, ""); status != http.StatusConflict || !strings.Contains(string(body), "another process") {
		t.Errorf("DELETE of a run that is written: %d %s", status, body)
	}
	if list := get[rowList](t, s, "/api/runs").Runs; len(list) != 1 || list[0].State != "running" {
		t.Errorf("a run that is written: %+v", list)
	}
	long := time.Now().Add(-2 * killedTime)
	for _, name := range []string{"run.json", "requests", "telemetry"} {
		if err := os.Chtimes(filepath.Join(w.Dir(), name), long, long); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	if list := get[rowList](t, s, "/api/runs").Runs; len(list) != 1 || list[0].State != stateKilled {
		t.Errorf("a run that nobody writes: %+v", list)
	}
	if status, _, body := call(t, s, "DELETE", "/api/runs/"+id+"?confirm="+id, ""); status != http.StatusNoContent {
		t.Errorf("DELETE of a run that nobody writes: %d %s", status, body)
	}
}

// TestClockIsSet: the wall clock is set while a run of another process is watched. Set
// back, the run's files are of the future: it is killed once they stay as they are for as
// long as ever. Set on, they look old: it is still under way.
func TestClockIsSet(t *testing.T) {
	s := newServer(t, nil)
	w, err := run.Create(s.cfg.Root, run.Info{Name: "other", Start: time.Now()}, []byte("name: other\n"), run.Blocking())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	changed := func(at time.Time) {
		t.Helper()
		for _, name := range []string{"run.json", "requests", "telemetry"} {
			if err := os.Chtimes(filepath.Join(w.Dir(), name), at, at); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		want := func(state, when string) {
			t.Helper()
			if got := get[rowList](t, s, "/api/runs").Runs[0].State; got != state {
				t.Errorf("%s it is %s, want %s", when, got, state)
			}
		}
		for _, ahead := range []time.Duration{time.Hour, 2 * time.Hour} { // written twice
			changed(time.Now().Add(ahead))
			want("running", "just written, with the clock set back,")
			time.Sleep(killedTime - time.Second)
			want("running", "a moment before it is too long, with the clock set back,")
			time.Sleep(2 * time.Second)
			want(stateKilled, "with nobody who writes it, with the clock set back,")
		}
		now := time.Now()
		changed(now)
		want("running", "just written")
		// What a clock that is set on by two hours does to the age of files that were seen.
		const on = 2 * time.Hour
		changed(now.Add(-on))
		for path, f := range s.rows.writes {
			f.changed -= int64(on)
			s.rows.writes[path] = f
		}
		want("running", "with the clock set on")
		time.Sleep(killedTime + time.Second)
		want(stateKilled, "with nobody who writes it, with the clock set on,")
	})
}

// TestPaths tries to leave the folder of runs.
func TestPaths(t *testing.T) {
	s := newServer(t, nil)
	id := predicted(t, s.cfg.Root)
	outside := filepath.Join(filepath.Dir(s.cfg.Root), "outside")
	if err := os.MkdirAll(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	secret := predicted(t, outside, "name=SECRET123")
	if err := os.Rename(filepath.Join(outside, secret), filepath.Join(outside, "run")); err != nil {
		t.Fatal(err)
	}
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(s.cfg.Root, name)); err != nil {
			t.Fatal(err)
		}
	}
	link(filepath.Join(outside, "run"), "linked")
	for _, name := range []string{"scenario.yaml", "summary.json", "requests"} {
		evil := predicted(t, s.cfg.Root, "name=evil")
		if err := os.RemoveAll(filepath.Join(s.cfg.Root, evil, name)); err != nil {
			t.Fatal(err)
		}
		link(filepath.Join(outside, "run", name), evil+"/"+name)
		if status, _, b := call(t, s, "GET", "/api/runs/"+evil, ""); status != http.StatusForbidden || strings.Contains(string(b), "SECRET123") {
			t.Errorf("a run whose %s is a link: %d %s", name, status, b)
		}
	}
	for _, target := range []string{
		"/api/runs/linked", "/api/runs/..", "/api/runs/%2e%2e", "/api/runs/..%2foutside%2frun", "/api/runs/%2e%2e%2foutside%2frun",
		"/api/runs/" + id + "%2f..%2f..%2foutside%2frun", "/api/runs/%2fetc", "/api/runs/..%5coutside", "/api/runs/.scenarios", "/api/runs/%00",
		"/api/runs/" + id + "%00", "/api/runs/../../outside/run",
		"/api/scenarios/..%2f..%2foutside%2frun%2fscenario", "/api/scenarios/..", "/api/scenarios/a%2fb", "/api/scenarios/.hidden",
		"/api/compare?runs=" + id + ",../outside/run", "/api/workloads/..%2f../etc", "/../outside/run/run.json", "/%2e%2e/outside/run/run.json",
	} {
		status, _, b := call(t, s, "GET", target, "")
		if status == http.StatusOK && strings.HasPrefix(target, "/api") || strings.Contains(string(b), "SECRET123") {
			t.Errorf("GET %s: %d %.200s", target, status, b)
		}
	}
	for _, target := range []string{"/api/runs/linked?confirm=linked", "/api/runs/..%2foutside?confirm=../outside", "/api/runs/.scenarios?confirm=.scenarios"} {
		if status, _, _ := call(t, s, "DELETE", target, ""); status < 400 {
			t.Errorf("DELETE %s: %d", target, status)
		}
	}
	if _, err := os.Stat(filepath.Join(outside, "run", "run.json")); err != nil {
		t.Error("what lies outside was deleted")
	}
	// A run that holds a link is deleted without what it leads to.
	if err := os.Symlink(outside, filepath.Join(s.cfg.Root, id, "out")); err != nil {
		t.Fatal(err)
	}
	if status, _, b := call(t, s, "DELETE", "/api/runs/"+id+"?confirm="+id, ""); status != http.StatusNoContent {
		t.Errorf("DELETE: %d %s", status, b)
	}
	if _, err := os.Stat(filepath.Join(outside, "run", "run.json")); err != nil {
		t.Error("what a link in a run leads to was deleted")
	}
	for _, row := range get[rowList](t, s, "/api/runs").Runs {
		if row.ID == "linked" || row.Name == "SECRET123" {
			t.Errorf("the list has %+v", row)
		}
	}
}

// TestGuard calls as pages of other sites would.
func TestGuard(t *testing.T) {
	s := newServer(t, nil)
	header := func(k, v string) func(*http.Request) { return func(r *http.Request) { r.Header.Set(k, v) } }
	without := func(k string) func(*http.Request) { return func(r *http.Request) { r.Header.Del(k) } }
	host := func(h string) func(*http.Request) { return func(r *http.Request) { r.Host = h } }
	f := func(name, method, target, body string, want int, change ...func(*http.Request)) {
		t.Helper()
		if got, _, b := call(t, s, method, target, body, change...); got != want {
			t.Errorf("%s: %d, want %d: %s", name, got, want, b)
		}
	}
	check := `{"scenario": "x: 1"}`
	f("plain", "GET", "/api/runs", "", 200)
	f("page", "GET", "/", "", 200)
	f("localhost", "GET", "/api/runs", "", 200, host("localhost:8315"))
	f("forwarded port", "GET", "/api/runs", "", 200, host("localhost:9000"))
	f("IPv6", "GET", "/api/runs", "", 200, host("[::1]:8315"))
	f("rebound name", "GET", "/api/runs", "", 403, host("evil.example:8315"))
	f("rebound name, page", "GET", "/", "", 403, host("evil.example"))
	f("name that begins like a loopback one", "GET", "/", "", 403, host("localhost.evil.example"))
	f("other address", "GET", "/", "", 403, host("192.0.2.1:8315"))
	f("no host", "GET", "/", "", 403, host(""))
	f("loopback in capitals", "GET", "/", "", 200, host("LocalHost:8315"))
	f("mapped address", "GET", "/", "", 200, host("[::ffff:127.0.0.1]:8315"))
	f("name with a dot behind it", "GET", "/", "", 403, host("localhost.:8315"))
	f("address as one number", "GET", "/", "", 403, host("2130706433:8315"))
	f("other address in brackets", "GET", "/", "", 403, host("[2001:db8::1]:8315"))
	f("two hosts", "GET", "/", "", 403, host("127.0.0.1:8315, evil.example"))
	f("own origin", "POST", "/api/scenarios/check", check, 200, without(ChangeHeader), header("Origin", "http://127.0.0.1:8315"))
	f("foreign origin", "POST", "/api/scenarios/check", check, 403, header("Origin", "http://evil.example"))
	f("origin on another port", "POST", "/api/scenarios/check", check, 403, header("Origin", "http://127.0.0.1:3000"))
	f("own origin, IPv6", "POST", "/api/scenarios/check", check, 200, without(ChangeHeader), host("[::1]:8315"), header("Origin", "http://[::1]:8315"))
	f("own origin, capitals", "POST", "/api/scenarios/check", check, 200, without(ChangeHeader), host("LOCALHOST:8315"), header("Origin", "http://localhost:8315"))
	f("own origin without the port", "POST", "/api/scenarios/check", check, 403, header("Origin", "http://127.0.0.1"))
	f("own origin with a user", "POST", "/api/scenarios/check", check, 403, header("Origin", "http://x@127.0.0.1:8315"))
	f("own origin of a file", "POST", "/api/scenarios/check", check, 403, header("Origin", "file://127.0.0.1:8315"))
	f("null origin", "POST", "/api/scenarios/check", check, 403, header("Origin", "null"))
	f("foreign origin that reads", "GET", "/api/runs", "", 403, header("Origin", "http://evil.example"))
	f("neither origin nor header", "POST", "/api/scenarios/check", check, 403, without(ChangeHeader))
	f("delete without either", "DELETE", "/api/runs/x", "", 403, without(ChangeHeader))
	f("form", "POST", "/api/scenarios/check", check, 415, header("Content-Type", "text/plain"))
	f("form with names", "POST", "/api/scenarios/check", check, 415, header("Content-Type", "application/x-www-form-urlencoded"))
	f("no type", "POST", "/api/scenarios/check", check, 415, without("Content-Type"))
	f("fetched by another site", "GET", "/api/runs", "", 403, header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "no-cors"))
	f("fetched by another port", "GET", "/api/runs", "", 403, header("Sec-Fetch-Site", "same-site"), header("Sec-Fetch-Mode", "cors"))
	f("link from another site", "GET", "/runs", "", 200, header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "navigate"))
	f("unknown method", "PROPFIND", "/api/runs", "", 405)
	f("method without a handler", "PUT", "/api/runs", "", 405)
	f("unknown address", "GET", "/api/nothing", "", 404)
	f("large body", "POST", "/api/scenarios/check", `{"scenario": "`+strings.Repeat("x", maxBody)+`"}`, 413)
	f("unknown field", "POST", "/api/scenarios/check", `{"scenarioo": ""}`, 400)
	f("two values", "POST", "/api/scenarios/check", `{"scenario": ""} {}`, 400)
	f("an end too many", "POST", "/api/scenarios/check", `{"scenario": ""}}`, 400)
	f("nested without end", "POST", "/api/scenarios/check", strings.Repeat("[", maxBody-1), 400)
	f("options", "OPTIONS", "/api/runs", "", 405)
	f("head", "HEAD", "/api/runs", "", 200)
	f("head of a page", "HEAD", "/", "", 200)
	f("long name of a run", "GET", "/api/runs/"+strings.Repeat("x", 5000), "", 404)
	f("name of a run in another script", "GET", "/api/runs/%E8%BF%90%E8%A1%8C", "", 404)
	f("name of a run that is no text", "GET", "/api/runs/%FF%FE", "", 404)
	f("lines in the name of a run", "DELETE", "/api/runs/x%0d%0aSet-Cookie:a?confirm=x", "", 404)

	for _, target := range []string{"/", "/api/runs", "/api/nothing", "/nothing.js"} {
		_, h, _ := call(t, s, "GET", target, "")
		for name, want := range map[string]string{
			"Content-Security-Policy": "script-src 'self';", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Resource-Policy": "same-origin",
		} {
			if !strings.Contains(h.Get(name), want) {
				t.Errorf("GET %s: %s is %q, want %q", target, name, h.Get(name), want)
			}
		}
		for _, bad := range []string{"unsafe", "*", "http:"} {
			if strings.Contains(h.Get("Content-Security-Policy"), bad) {
				t.Errorf("GET %s: the policy allows %q", target, bad)
			}
		}
		if h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("GET %s: other origins may read it", target)
		}
	}
}

func TestToken(t *testing.T) {
	if _, err := New(Config{Root: t.TempDir(), Listen: "192.0.2.7:80"}); err == nil {
		t.Error("an address that others can reach is served without a token")
	}
	if _, err := New(Config{Root: t.TempDir(), Listen: "[::]:80"}); err == nil {
		t.Error("all addresses are served without a token")
	}
	if a, b := NewToken(), NewToken(); a == b || len(a) < 43 {
		t.Errorf("tokens %q and %q, want two of 256 bits", a, b)
	}
	const token = "right-token"
	s := newServer(t, func(c *Config) { c.Listen, c.Token = "192.0.2.7:8315", token })
	here := func(r *http.Request) { r.Host = "192.0.2.7:8315" }
	f := func(name, target string, want int, change ...func(*http.Request)) http.Header {
		t.Helper()
		status, h, b := call(t, s, "GET", target, "", append([]func(*http.Request){here}, change...)...)
		if status != want {
			t.Errorf("%s: %d, want %d: %s", name, status, want, b)
		}
		return h
	}
	bearer := func(v string) func(*http.Request) { return func(r *http.Request) { r.Header.Set("Authorization", v) } }
	cookie := func(name, v string) func(*http.Request) {
		return func(r *http.Request) { r.AddCookie(&http.Cookie{Name: name, Value: v}) }
	}
	f("none", "/api/runs", 401)
	f("none for a page", "/", 401)
	f("bearer", "/api/runs", 200, bearer("Bearer "+token))
	f("bearer in small letters", "/api/runs", 200, bearer("bearer "+token))
	f("wrong bearer", "/api/runs", 401, bearer("Bearer right-tokeN"))
	f("beginning of the bearer", "/api/runs", 401, bearer("Bearer right"))
	f("empty bearer", "/api/runs", 401, bearer("Bearer "))
	f("other scheme", "/api/runs", 401, bearer("Basic "+token))
	f("in the query of the API", "/api/runs?token="+token, 401)
	f("wrong in the query", "/?token=wrong", 401)
	h := f("in the query", "/runs/x?token="+token+"&lane=1", 303)
	if got := h.Get("Location"); got != "/runs/x?lane=1" {
		t.Errorf("Location %q still has the token, or lost the rest", got)
	}
	set, err := http.ParseSetCookie(h.Get("Set-Cookie"))
	if err != nil {
		t.Fatal(err)
	}
	if !set.HttpOnly || set.SameSite != http.SameSiteStrictMode || set.Name != "plimsoll-8315" {
		t.Errorf("cookie %s", h.Get("Set-Cookie"))
	}
	f("cookie", "/api/runs", 200, cookie(set.Name, set.Value))
	f("wrong cookie", "/api/runs", 401, cookie(set.Name, "x"))
	f("cookie of another port", "/api/runs", 401, cookie("plimsoll-1", token))
	f("wrong host with the token", "/api/runs", 403, bearer("Bearer "+token), func(r *http.Request) { r.Host = "evil.example" })
	status, h, _ := call(t, s, "POST", "/api/logout", "", here, cookie(set.Name, set.Value))
	if gone, err := http.ParseSetCookie(h.Get("Set-Cookie")); err != nil || status != http.StatusNoContent || gone.Name != set.Name || gone.MaxAge >= 0 {
		t.Errorf("logout: %d, cookie %q", status, h.Get("Set-Cookie"))
	}
	if h := f("away", "//evil.example/?token="+token, 303); strings.HasPrefix(h.Get("Location"), "//") {
		t.Errorf("Location %q leads to another server", h.Get("Location"))
	}
}

// TestAllAddresses has the Host that a server on all addresses is called by.
func TestAllAddresses(t *testing.T) {
	s := newServer(t, func(c *Config) { c.Listen, c.Token, c.Hosts = "[::]:8315", "t", []string{"Panel.Example"} })
	f := func(local, host string, want bool) {
		t.Helper()
		r := httptest.NewRequest("GET", "/", http.NoBody)
		r.Host = host
		addr, err := net.ResolveTCPAddr("tcp", local)
		if err != nil {
			t.Fatal(err)
		}
		r = r.WithContext(contextWithLocal(r, addr))
		if got := s.guard.hostKnown(r); got != want {
			t.Errorf("host %q at %s: %v, want %v", host, local, got, want)
		}
	}
	f("192.0.2.7:8315", "192.0.2.7:8315", true)
	f("192.0.2.7:8315", "192.0.2.7", true)
	f("192.0.2.7:8315", "192.0.2.8", false)
	f("192.0.2.7:8315", "evil.example", false)
	f("192.0.2.7:8315", "localhost", false)
	f("127.0.0.1:8315", "localhost:8315", true)
	f("127.0.0.1:8315", "evil.example", false)
	f("[2001:db8::1]:8315", "[2001:db8::1]:8315", true)
	f("[::ffff:192.0.2.7]:8315", "192.0.2.7:8315", true)
	f("192.0.2.7:8315", "panel.example", true)
	f("192.0.2.7:8315", "panel.example:443", true)
}

func contextWithLocal(r *http.Request, addr net.Addr) context.Context {
	return context.WithValue(r.Context(), http.LocalAddrContextKey, addr)
}

// TestTwoServersWriteOneFile: servers of one folder that store a file at once leave one of
// them whole, and nothing beside it.
func TestTwoServersWriteOneFile(t *testing.T) {
	a := newServer(t, nil)
	b := newServer(t, func(c *Config) { c.Root = a.cfg.Root })
	texts := []string{strings.Repeat("a", 300_000), strings.Repeat("b", 500_000)}
	var wg sync.WaitGroup
	for i, s := range []*Server{a, b} {
		wg.Go(func() {
			for range 40 {
				if err := s.write("x.yaml", []byte(texts[i])); err != nil {
					t.Error(err)
				}
			}
		})
	}
	stop := make(chan struct{})
	read := make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				read <- n
				return
			default:
			}
			got, err := a.root.ReadFile("x.yaml")
			if err == nil && string(got) != texts[0] && string(got) != texts[1] {
				t.Errorf("a file of %d bytes that nobody wrote", len(got))
			}
			n++
		}
	}()
	wg.Wait()
	close(stop)
	if n := <-read; n == 0 {
		t.Error("the file was not read meanwhile")
	}
	left, err := os.ReadDir(a.cfg.Root)
	if err != nil || len(left) != 1 {
		t.Errorf("%v is left of one file, %v", left, err)
	}
}
