package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// screenful collects what a command prints while others read it.
type screenful struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *screenful) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *screenful) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// command is one that runs in this process.
type command struct {
	t          *testing.T
	out, err   screenful
	interrupts chan os.Signal
	code       chan int
	browsed    chan string
}

// start starts a command in a folder of its own; change may alter its world.
func start(t *testing.T, change func(*Env), args ...string) *command {
	t.Helper()
	c := &command{t: t, interrupts: make(chan os.Signal, 2), code: make(chan int, 1), browsed: make(chan string, 1)}
	e := &Env{
		Args: args, Dir: t.TempDir(), Stdout: &c.out, Stderr: &c.err, Interrupts: c.interrupts,
		LookupEnv: func(string) (string, bool) { return "", false },
		Browse:    func(url string) error { c.browsed <- url; return nil },
	}
	if change != nil {
		change(e)
	}
	go func() { c.code <- Main(e) }()
	return c
}

// until waits for a pattern on standard error and returns its first group.
func (c *command) until(pattern string) string {
	c.t.Helper()
	re := regexp.MustCompile(pattern)
	var m []string
	await(c.t, pattern, func() bool { m = re.FindStringSubmatch(c.err.String()); return m != nil })
	return m[len(m)-1]
}

// await waits until something is so.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); time.Sleep(10 * time.Millisecond) { // real time: sockets are in use
		if time.Since(begin) > 5*time.Minute {
			t.Fatalf("never %s", what)
		}
	}
}

// end waits for its exit code.
func (c *command) end() int {
	c.t.Helper()
	select {
	case code := <-c.code:
		return code
	case <-time.After(5 * time.Minute):
		c.t.Fatalf("it does not end: %s", c.err.String())
		return -1
	}
}

// TestRunServes: the panel shows the run while it goes on and stays until Ctrl-C, and the exit
// code is that of the run.
func TestRunServes(t *testing.T) {
	url, stop := serve("held")
	defer stop()
	// Whatever the machine does, the run misses this limit.
	c := start(t, nil, "run", "--url", url, "--users", "2", "--requests", "2", "--output-tokens", "4", "--serve", "127.0.0.1:0", "--telemetry", "none", "--slo", "e2e.p50=1ns", "--quiet")
	panel := c.until(`panel at (http://127\.0\.0\.1:\d+/)`)
	runs := func() (out struct {
		Runs []struct {
			ID   string
			Live bool
		}
	},
	) {
		r := panelGet(t, panel+"api/runs")
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &out); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
		return out
	}
	var id string
	await(t, "shown as live", func() bool {
		if l := runs().Runs; len(l) == 1 && l[0].Live {
			id = l[0].ID
		}
		return id != ""
	})
	// Its events come to an end with it, which is when the server lets go of its requests.
	r := panelGet(t, panel+"api/runs/"+id+"/events")
	defer r.Body.Close()
	in := bufio.NewReader(r.Body)
	var events []byte
	for !bytes.Contains(events, []byte("event: snapshot\n")) {
		line, err := in.ReadBytes('\n')
		if events = append(events, line...); err != nil {
			t.Fatalf("%v in %.200s", err, events)
		}
	}
	holds(t, url).release()
	rest, err := io.ReadAll(in)
	events = append(events, rest...)
	if err != nil || !strings.Contains(string(events), "event: snapshot\ndata: {") || !strings.HasSuffix(string(events), "event: end\ndata: {}\n\n") {
		t.Errorf("events are %.200s ... (%v)", events, err)
	}
	c.until(`the panel stays at (http://127\.0\.0\.1:\d+/) until Ctrl-C`)
	if !strings.Contains(c.out.String(), "kept in ") {
		t.Errorf("no report before: %s", c.out.String())
	}
	if l := runs().Runs; len(l) != 1 || l[0].Live {
		t.Errorf("afterwards the runs are %+v", l)
	}
	c.interrupts <- os.Interrupt
	if code := c.end(); code != exitMissed && code != exitInvalid { // 4: a machine too busy for a verdict
		t.Errorf("exit code %d, want that of the run, 3\n%s", code, c.err.String())
	}
	r, err = http.Get(panel + "api/runs") // where something else may listen by now
	if err != nil {
		return
	}
	defer r.Body.Close()
	if b, _ := io.ReadAll(r.Body); strings.Contains(string(b), id) {
		t.Error("the panel is still there")
	}
}

// panelGet is one GET of a panel, which closes connections that say nothing for some
// seconds: on a machine that stands still that may be this one.
func panelGet(t *testing.T, url string) *http.Response {
	t.Helper()
	var r *http.Response
	await(t, "answered: "+url, func() bool {
		var err error
		r, err = http.Get(url)
		return err == nil
	})
	return r
}

// holds returns what the server of a URL has in hand.
func holds(t *testing.T, url string) *held {
	t.Helper()
	h, ok := heldBy.Load(url)
	if !ok {
		t.Fatalf("%s holds nothing", url)
	}
	return h.(*held)
}

// TestInterruptedRunDoesNotStay: who has stopped a run by Ctrl-C is not asked to do it again.
func TestInterruptedRunDoesNotStay(t *testing.T) {
	url, stop := serve("held")
	defer stop()
	c := start(t, nil, "run", "--url", url, "--users", "2", "--duration", "100h", "--serve", "127.0.0.1:0", "--telemetry", "none")
	c.until(`panel at (http\S+)`)
	await(t, "two requests under way", func() bool { return holds(t, url).count() == 2 })
	c.interrupts <- os.Interrupt
	c.until(`(stopping: 2 requests)`)
	holds(t, url).release()
	if code := c.end(); code != exitInterrupted {
		t.Errorf("exit code %d\n%s", code, c.err.String())
	}
	if strings.Contains(c.err.String(), "stays") {
		t.Error(c.err.String())
	}
}

// TestServeEverywhere: every address that is printed is one by which the panel can be called.
func TestServeEverywhere(t *testing.T) {
	f := func(listen string) {
		t.Helper()
		c := start(t, nil, "serve", "--runs", t.TempDir(), "--listen", listen)
		re := regexp.MustCompile(`(?m)^panel at (http://\S+)$`)
		await(t, "an address is printed", func() bool { return re.MatchString(c.out.String()) })
		found := re.FindAllStringSubmatch(c.out.String(), -1)
		for _, m := range found {
			var r *http.Response
			jar, err := cookiejar.New(nil)
			if err != nil {
				t.Fatal(err)
			}
			client := &http.Client{Jar: jar} // as a browser, which keeps the token
			await(t, "answered: "+m[1], func() bool { r, err = client.Get(m[1]); return err == nil })
			b, err := io.ReadAll(r.Body)
			_ = r.Body.Close()
			if r.StatusCode != http.StatusOK || err != nil {
				t.Errorf("--listen %s: %s answers %d %s (%v)", listen, m[1], r.StatusCode, b, err)
			}
			u, err := url.Parse(m[1])
			if err != nil {
				t.Fatal(err)
			}
			if u.Query().Get("token") == "" {
				t.Errorf("--listen %s: %s has no token", listen, m[1])
			}
			// The name must still be one of this server.
			q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m[1], nil)
			if err != nil {
				t.Fatal(err)
			}
			q.Host = "rebound.example:" + u.Port()
			var other *http.Response
			await(t, "answered", func() bool { other, err = http.DefaultClient.Do(q); return err == nil })
			_ = other.Body.Close()
			if other.StatusCode != http.StatusForbidden {
				t.Errorf("--listen %s: called %s it answers %d", listen, q.Host, other.StatusCode)
			}
		}
		c.interrupts <- os.Interrupt
		if code := c.end(); code != exitDone {
			t.Errorf("exit code %d\n%s", code, c.err.String())
		}
	}
	f("0.0.0.0:0")
	f(":0")
	f("[::]:0")
}

// TestHosts: of all addresses of a machine those are named that a browser can be given.
func TestHosts(t *testing.T) {
	own := []netip.Addr{
		netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1"), netip.MustParseAddr("2001:db8::7"), netip.MustParseAddr("fe80::1"),
		netip.MustParseAddr("192.0.2.4"), netip.MustParseAddr("169.254.1.1"), netip.MustParseAddr("::ffff:192.0.2.4"), netip.MustParseAddr("10.0.0.9"),
	}
	for _, c := range []struct {
		listen string
		want   []string
	}{
		{"[::]:8315", []string{"127.0.0.1:8315", "192.0.2.4:8315", "10.0.0.9:8315", "[2001:db8::7]:8315"}},
		{"0.0.0.0:1", []string{"127.0.0.1:1", "192.0.2.4:1", "10.0.0.9:1"}},
		{"127.0.0.1:8315", []string{"127.0.0.1:8315"}},
		{"[::1]:8315", []string{"[::1]:8315"}},
		{"192.0.2.4:80", []string{"192.0.2.4:80"}},
	} {
		if diff := cmp.Diff(c.want, hostsOf(c.listen, own)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.listen, diff)
		}
	}
}

// TestServeNowhere: an address that cannot be listened on is told before anything is sent.
func TestServeNowhere(t *testing.T) {
	c := start(t, nil, "run", "--url", "http://127.0.0.1:1", "--users", "1", "--serve", "nowhere")
	if code := c.end(); code != exitUsage || !strings.Contains(c.err.String(), "listen on nowhere") {
		t.Errorf("exit code %d: %s", code, c.err.String())
	}
}

// TestDemoShowsItself: a person sees the panel in the browser and ends it, everybody else waits for
// the end alone.
func TestDemoShowsItself(t *testing.T) {
	f := func(person bool, change func(*Env), args ...string) {
		t.Helper()
		c := start(t, change, append([]string{"demo", "--duration", "500ms", "--quiet"}, args...)...)
		panel := c.until(`panel at (http\S+)`)
		page := c.until(`this run at (http\S+/runs/\S+)\n`)
		if !strings.HasPrefix(page, panel) {
			t.Errorf("the run is at %q, the panel at %q", page, panel)
		}
		if person {
			c.until(`(stays) at http`)
			c.interrupts <- os.Interrupt
		}
		if code := c.end(); !slices.Contains([]int{exitDone, exitFailed, exitMissed, exitInvalid}, code) { // 1, 3 and 4: a busy machine
			t.Errorf("exit code %d\n%s", code, c.err.String())
		}
		browse := person && len(args) == 0
		select {
		case got := <-c.browsed:
			if !browse || got != page {
				t.Errorf("%q was opened, the run is at %q", got, page)
			}
		default:
			if browse {
				t.Error("no browser was opened")
			}
		}
		if !person && strings.Contains(c.err.String(), "stays") {
			t.Errorf("nobody watches, and it stays: %s", c.err.String())
		}
	}
	terminal := func(e *Env) { e.StdoutTTY = true }
	f(true, terminal)
	f(true, terminal, "--no-browser")
	f(false, nil)
	f(false, func(e *Env) {
		e.StdoutTTY = true
		e.LookupEnv = func(name string) (string, bool) { return "true", name == "CI" }
	})
}
