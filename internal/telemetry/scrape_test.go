package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/clock"
	"plimsoll/internal/memconn"
	"plimsoll/internal/signal"
)

// sinkLog keeps what it is given.
type sinkLog struct {
	mu      sync.Mutex
	series  []signal.Series
	samples []signal.Sample
}

func (s *sinkLog) Declare(x signal.Series) int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.series = append(s.series, x)
	return int32(len(s.series) - 1)
}

func (s *sinkLog) Add(x []signal.Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.samples = append(s.samples, x...)
}

// at is a sample without its series.
type at struct {
	Start, End time.Duration
	Value      float64
}

// of returns the samples of one signal of one source, by name or raw name, in the order of arrival.
func (s *sinkLog) of(source int, name, labels string) []at {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []at
	for _, x := range s.samples {
		d := s.series[x.Series]
		if d.Source == source && (d.Signal != signal.None && d.Signal.String() == name || d.Raw == name) && d.Field == signal.Value && (labels == "*" || d.Labels == labels) {
			out = append(out, at{time.Duration(x.Start), time.Duration(x.End), x.Value})
		}
	}
	return out
}

// starts returns when a source was read.
func (s *sinkLog) starts(source int) []time.Duration {
	var out []time.Duration
	for _, a := range s.of(source, "scrape_up", "") {
		out = append(out, a.Start)
	}
	return out
}

// servers are HTTP servers in memory by host:port.
type servers struct {
	mu   sync.Mutex
	all  map[string]*memconn.Listener
	srvs []*http.Server
	dial []string // what was dialled
}

func (s *servers) listen(addr string) *memconn.Listener {
	l := memconn.Listen(addr)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]*memconn.Listener{}
	}
	s.all[addr] = l
	return l
}

func (s *servers) handle(addr string, h http.HandlerFunc) { s.serve(s.listen(addr), h) }

func (s *servers) serve(l net.Listener, h http.HandlerFunc) {
	srv := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	s.mu.Lock()
	s.srvs = append(s.srvs, srv)
	s.mu.Unlock()
	go func() { _ = srv.Serve(l) }()
}

// accept serves connections by hand.
func (s *servers) accept(addr string, f func(c net.Conn)) {
	l := s.listen(addr)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f(c)
		}
	}()
}

// dialled returns what was.
func (s *servers) dialled() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.dial)
}

func (s *servers) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	s.mu.Lock()
	l := s.all[addr]
	s.dial = append(s.dial, addr)
	s.mu.Unlock()
	if strings.HasPrefix(addr, "hole") {
		<-ctx.Done() // a host that swallows packets
		return nil, ctx.Err()
	}
	if l == nil {
		dead := memconn.Listen(addr)
		_ = dead.Close()
		l = dead
	}
	return l.Dial(ctx, network, addr)
}

func (s *servers) close() {
	for _, x := range s.srvs {
		_ = x.Close()
	}
	for _, l := range s.all {
		_ = l.Close()
	}
	time.Sleep(time.Hour) // in fake time: handlers that sleep come to their end
}

// fake runs f in fake time with servers in memory.
func fake(t *testing.T, f func(t *testing.T, net *servers, c *clock.Clock)) {
	synctest.Test(t, func(t *testing.T) {
		var s servers
		defer s.close()
		f(t, &s, clock.NewFake())
	})
}

func text(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = io.WriteString(w, body)
}

// running is a page of vLLM's with so many requests running.
func running(n int) string {
	return fmt.Sprintf(`# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} %d
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} %d
`, n, 100*n)
}

func newScraper(t *testing.T, cfg Config) *Scraper {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

const ms = time.Millisecond

func sleep(c *clock.Clock, until time.Duration) { _ = c.SleepUntil(context.Background(), int64(until)) }

// TestGrid reads three sources of different speed: all at the same multiples of the period, with a baseline
// before and a final reading after, and each sample between the start and the end of its request.
func TestGrid(t *testing.T) {
	fake(t, func(t *testing.T, net *servers, c *clock.Clock) {
		n := 0
		net.handle("a:8000", func(w http.ResponseWriter, _ *http.Request) { n++; text(w, running(n)) })
		net.handle("b:8000", func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(20 * ms)
			text(w, running(7))
		})
		var sink sinkLog
		s := newScraper(t, Config{
			Clock: c, Sink: &sink, Dial: net.Dial, Every: 100 * ms,
			Targets: []Target{{URL: "http://a:8000/metrics"}, {URL: "http://b:8000/metrics"}, {URL: "http://b:8000/metrics", Every: 250 * ms}},
		})
		sleep(c, 30*ms)
		s.Baseline(t.Context())
		s.Start(t.Context())
		sleep(c, 530*ms)
		s.Final(t.Context())

		grid := []time.Duration{30 * ms, 100 * ms, 200 * ms, 300 * ms, 400 * ms, 500 * ms, 530 * ms}
		for source, want := range [][]time.Duration{grid, grid, {30 * ms, 250 * ms, 500 * ms, 530 * ms}} {
			if diff := cmp.Diff(want, sink.starts(source)); diff != "" {
				t.Errorf("source %d (-want +got):\n%s", source, diff)
			}
		}
		want := []at{}
		for i, g := range grid {
			want = append(want, at{g, g, float64(i + 1)})
		}
		if diff := cmp.Diff(want, sink.of(0, "requests_running", "*")); diff != "" {
			t.Errorf("values (-want +got):\n%s", diff)
		}
		if got := sink.of(1, "requests_running", "*"); len(got) != len(grid) || got[1] != (at{100 * ms, 120 * ms, 7}) {
			t.Errorf("slow source: %v", got)
		}
		if got := sink.of(1, "scrape_time", ""); len(got) == 0 || got[0] != (at{30 * ms, 50 * ms, 0.02}) {
			t.Errorf("scrape_time: %v", got)
		}
		info := s.Info()
		for i := range info {
			if info[i].State != StateOK || !info[i].Up || info[i].Index != i || info[i].Skipped != 0 || info[i].GapCount != 0 || info[i].BackoffCount != 0 ||
				!slices.Equal(info[i].Sources, []string{"vllm"}) || info[i].Series != 2 {
				t.Errorf("source %d: %+v", i, info[i])
			}
		}
		if info[0].Scrapes != int64(len(grid)) || info[1].MeanTime != int64(20*ms) || info[1].Name != "b:8000" {
			t.Errorf("info: %+v", info)
		}
	})
}

// TestBackoff has a source that becomes slow and quick again: the period doubles while a reading costs more than
// a twentieth of it, and comes back after it was quick for a while, later each time.
func TestBackoff(t *testing.T) {
	fake(t, func(t *testing.T, net *servers, c *clock.Clock) {
		net.handle("a:80", func(w http.ResponseWriter, _ *http.Request) {
			if now := c.Now(); now > int64(2500*ms) && now < int64(10*time.Second) {
				time.Sleep(150 * ms)
			}
			text(w, running(1))
		})
		var sink sinkLog
		s := newScraper(t, Config{Clock: c, Sink: &sink, Dial: net.Dial, Targets: []Target{{URL: "http://a/metrics"}}})
		s.Start(t.Context())
		sleep(c, 60500*ms)
		s.Final(t.Context())
		sec := time.Second
		// 150 ms are too much for 1 s at 3 and 4 s, for 2 s at 6 and 8 s, and not for 4 s. Quick from 12 s on: five readings at 4 s, five at 2 s.
		want := []time.Duration{1 * sec, 2 * sec, 3 * sec, 4 * sec, 6 * sec, 8 * sec, 12 * sec, 16 * sec, 20 * sec, 24 * sec, 28 * sec}
		for i := range 5 {
			want = append(want, time.Duration(30+2*i)*sec)
		}
		for i := 39; i <= 60; i++ {
			want = append(want, time.Duration(i)*sec)
		}
		want = append(want, 60500*ms)
		if diff := cmp.Diff(want, sink.starts(0)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		info := s.Info()[0]
		var periods []time.Duration
		for _, b := range info.Backoffs {
			periods = append(periods, time.Duration(b.Period))
		}
		if diff := cmp.Diff([]time.Duration{2 * sec, 4 * sec, 2 * sec, 1 * sec}, periods); diff != "" {
			t.Errorf("periods (-want +got):\n%s", diff)
		}
		if info.BackoffCount != 4 || !strings.Contains(info.Backoffs[0].Why, "150ms") || info.PeriodAsked != int64(sec) || info.Period != int64(sec) {
			t.Errorf("info: %+v", info)
		}
	})
}

// TestBackoffPeriods gives readings of some cost and looks at the period.
func TestBackoffPeriods(t *testing.T) {
	sec := int64(time.Second)
	for _, x := range []struct {
		name  string
		asked int64
		costs func(i int, period int64) time.Duration
		n     int
		want  []int64
	}{
		{"quick", sec, func(int, int64) time.Duration { return 50 * ms }, 100, nil},
		{"one pause", sec, func(i int, _ int64) time.Duration { return time.Duration(10+290*(i%2)) * ms }, 100, nil},
		{"one long pause", sec, func(i int, _ int64) time.Duration {
			if i == 3 {
				return 500 * ms
			}
			return 5 * ms
		}, 10, []int64{2 * sec, sec}},
		{"as slow as can be", sec, func(int, int64) time.Duration { return time.Minute }, 10, []int64{2 * sec, 4 * sec, 8 * sec}},
		{"often", sec / 10, func(int, int64) time.Duration { return 70 * ms }, 10, []int64{sec / 5}},
		{"often and slow", sec / 10, func(int, int64) time.Duration { return 20 * time.Second }, 10, []int64{sec / 5, sec * 2 / 5, sec * 4 / 5, sec * 8 / 5, sec * 16 / 5, sec * 32 / 5}},
		{"seldom", 30 * sec, func(int, int64) time.Duration { return 60 * ms }, 10, []int64{60 * sec}},
		// Slow whenever it is read every second: the way back takes 5, then 10, then 20 readings.
		{"never at 1 s", sec, func(_ int, period int64) time.Duration {
			if period == sec {
				return 60 * ms
			}
			return 5 * ms
		}, 2 + 5 + 2 + 10 + 2 + 20, []int64{2 * sec, sec, 2 * sec, sec, 2 * sec, sec}},
	} {
		b := newBackoff(x.asked)
		var got []int64
		for i := range x.n {
			if c := b.after(&reading{state: StateOK, cost: int64(x.costs(i, b.period) + 3*ms), rtt: int64(3 * ms)}); c != nil {
				got = append(got, c.Period)
			}
		}
		if diff := cmp.Diff(x.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", x.name, diff)
		}
	}
}

// TestHeavy backs off from a page that is large.
func TestHeavy(t *testing.T) {
	fake(t, func(t *testing.T, net *servers, c *clock.Clock) {
		big := running(1) + strings.Repeat("# "+strings.Repeat("x", 1000)+"\n", heavyBytes/1000)
		net.handle("a:80", func(w http.ResponseWriter, _ *http.Request) { text(w, big) })
		var sink sinkLog
		s := newScraper(t, Config{Clock: c, Sink: &sink, Dial: net.Dial, Targets: []Target{{URL: "http://a/metrics"}}})
		s.Start(t.Context())
		sleep(c, 5500*ms)
		s.Final(t.Context())
		if info := s.Info()[0]; len(info.Backoffs) != 1 || info.Period != int64(2*time.Second) || !strings.Contains(info.Backoffs[0].Why, "bytes") {
			t.Errorf("%+v", info)
		}
	})
}

// TestLateAndDead has exporters that hang, die and come back: each costs points of its own grid and none of another's; what was
// not read is a gap.
func TestLateAndDead(t *testing.T) {
	fake(t, func(t *testing.T, net *servers, c *clock.Clock) {
		between := func(from, to time.Duration) bool { now := c.Now(); return now >= int64(from) && now < int64(to) }
		net.handle("good:80", func(w http.ResponseWriter, _ *http.Request) { text(w, running(1)) })
		net.handle("late:80", func(w http.ResponseWriter, r *http.Request) {
			if between(3*time.Second, 4*time.Second) {
				time.Sleep(2500 * ms)
			}
			text(w, running(1))
		})
		net.handle("hang:80", func(w http.ResponseWriter, r *http.Request) {
			if between(2*time.Second, 3*time.Second) {
				<-r.Context().Done()
				return
			}
			text(w, running(1))
		})
		net.handle("ill:80", func(w http.ResponseWriter, r *http.Request) {
			if between(3*time.Second, 6*time.Second) {
				http.Error(w, "no", http.StatusInternalServerError)
				return
			}
			text(w, running(1))
		})
		var sink sinkLog
		s := newScraper(t, Config{
			Clock: c, Sink: &sink, Dial: net.Dial, Timeout: 4 * time.Second,
			Targets: []Target{{URL: "http://good/metrics"}, {URL: "http://late/metrics"}, {URL: "http://hang/metrics"}, {URL: "http://ill/metrics"}, {URL: "http://dead/metrics"}},
		})
		s.Start(t.Context())
		sleep(c, 9500*ms)
		s.Final(t.Context())

		sec := time.Second
		grid := []time.Duration{1 * sec, 2 * sec, 3 * sec, 4 * sec, 5 * sec, 6 * sec, 7 * sec, 8 * sec, 9 * sec, 9500 * ms}
		for i, want := range [][]time.Duration{
			grid,
			{1 * sec, 2 * sec, 3 * sec, 6 * sec, 8 * sec, 9500 * ms}, // late until 5.5 s, then every 2 s
			{1 * sec, 2 * sec, 8 * sec, 9500 * ms},                   // given up at 6 s, then every 2 s
			grid, grid,
		} {
			if diff := cmp.Diff(want, sink.starts(i)); diff != "" {
				t.Errorf("source %d (-want +got):\n%s", i, diff)
			}
		}
		info := s.Info()
		if info[0].GapCount != 0 || info[0].Failures != 0 {
			t.Errorf("good: %+v", info[0])
		}
		if info[1].Failures != 0 || info[1].GapCount != 0 {
			t.Errorf("late: %+v", info[1])
		}
		if diff := cmp.Diff([]Gap{{From: int64(1 * sec), To: int64(8 * sec), Why: info[2].Gaps[0].Why}}, info[2].Gaps); diff != "" || info[2].Failures != 1 || !strings.HasPrefix(info[2].Gaps[0].Why, "time-out: no whole answer within ") {
			t.Errorf("hang: %+v", info[2])
		}
		if diff := cmp.Diff([]Gap{{From: int64(2 * sec), To: int64(6 * sec), Why: "status 500"}}, info[3].Gaps); diff != "" || info[3].Failures != 3 || info[3].State != StateOK || !info[3].Up {
			t.Errorf("ill: %+v", info[3])
		}
		if info[4].State != StateError || info[4].Why != "nobody listens there" || info[4].Failures != int64(len(grid)) || info[4].Gaps[0].To != Open || info[4].Scrapes != 0 {
			t.Errorf("dead: %+v", info[4])
		}
		for _, a := range sink.of(4, "scrape_up", "") {
			if a.Value != 0 {
				t.Errorf("dead and up: %v", a)
			}
		}
		if n := len(sink.of(3, "requests_running", "*")); n != len(grid)-3 {
			t.Errorf("a failed reading gave values: %d", n)
		}
	})
}

// TestStates is case 124 and its kinds.
func TestStates(t *testing.T) {
	status := func(n int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(n)
			_, _ = io.WriteString(w, body)
		}
	}
	html := "<!doctype html>\n<html><body>sign in</body></html>"
	cases := []struct {
		name string
		h    http.HandlerFunc
		want State
		why  string
	}{
		{"401", status(401, "text/html", html), StateAuthFailed, "status 401"},
		{"403", status(403, "application/json", "{}"), StateAuthFailed, "status 403"},
		{"404", status(404, "text/plain", "404 page not found"), StateAbsent, "status 404"},
		{"405", status(405, "", ""), StateAbsent, "status 405"},
		{"501", status(501, "application/json", `{"error":{"message":"This server does not support metrics endpoint."}}`), StateAbsent, "status 501"},
		{"500", status(500, "", ""), StateError, "status 500"},
		{"503", status(503, "", ""), StateError, "status 503"},
		{"html", status(200, "text/html", html), StateNotAPage, "HTML"},
		{"login as text", status(200, "text/plain", "\n <html>"), StateNotAPage, "HTML"},
		{"away", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://login.example/?token=secret", http.StatusFound)
		}, StateError, "another origin"},
		{"round", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path+"x", http.StatusFound) }, StateError, "redirects"},
		{"cut", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "vllm:")
			panic(http.ErrAbortHandler)
		}, StateError, ""},
		{"ok", status(200, "text/plain; version=0.0.4", running(1)), StateOK, ""},
		{"no type", status(200, "", running(1)), StateOK, ""},
	}
	for _, x := range cases {
		t.Run(x.name, func(t *testing.T) {
			fake(t, func(t *testing.T, net *servers, c *clock.Clock) {
				net.handle("a:80", x.h)
				var sink sinkLog
				s := newScraper(t, Config{Clock: c, Sink: &sink, Dial: net.Dial, Targets: []Target{{URL: "http://a/metrics"}}})
				s.Baseline(t.Context())
				info := s.Info()[0]
				if info.State != x.want || !strings.Contains(info.Why, x.why) || strings.Contains(info.Why, "secret") || (x.want == StateOK) != info.Up {
					t.Errorf("%+v, want %s %q", info, x.want, x.why)
				}
				for _, d := range net.dialled() {
					if d != "a:80" {
						t.Errorf("dialled %s", d)
					}
				}
			})
		})
	}
}

// TestRedirect follows a redirect within the origin, as to /metrics/, once and for all.
func TestRedirect(t *testing.T) {
	fake(t, func(t *testing.T, net *servers, c *clock.Clock) {
		var paths []string
		net.handle("a:80", func(w http.ResponseWriter, r *http.Request) {
			paths = append(paths, r.URL.Path+" "+r.Header.Get("Authorization"))
			if r.URL.Path == "/metrics" {
				http.Redirect(w, r, "/metrics/", http.StatusTemporaryRedirect)
				return
			}
			text(w, running(1))
		})
		var sink sinkLog
		s := newScraper(t, Config{
			Clock: c, Sink: &sink, Dial: net.Dial,
			Targets: []Target{{URL: "http://a/metrics", Header: http.Header{"Authorization": {"Bearer k"}}}},
		})
		s.Baseline(t.Context())
		s.Final(t.Context())
		if diff := cmp.Diff([]string{"/metrics Bearer k", "/metrics/ Bearer k", "/metrics/ Bearer k"}, paths); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if u := s.Info()[0].URL; u != "http://a/metrics/" {
			t.Errorf("URL %s", u)
		}
	})
}

// TestSize bounds bodies, as they come and unpacked: what was read is used, the rest is named.
func TestSize(t *testing.T) {
	pack := func(b []byte) []byte {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		_, _ = z.Write(b)
		_ = z.Close()
		return out.Bytes()
	}
	small := pack([]byte(running(3)))
	bomb := pack(append([]byte(running(3)), bytes.Repeat([]byte("# \n"), 8<<20)...))
	for _, x := range []struct {
		name string
		h    http.HandlerFunc
		cut  bool
	}{
		{"gzip", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(small)
		}, false},
		{"bomb", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb)
		}, true},
		{"endless", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, running(3))
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, "# and so on\n"); err != nil {
					return
				}
			}
		}, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			fake(t, func(t *testing.T, net *servers, c *clock.Clock) {
				net.handle("a:80", x.h)
				var sink sinkLog
				s := newScraper(t, Config{Clock: c, Sink: &sink, Dial: net.Dial, MaxBody: 1 << 20, Targets: []Target{{URL: "http://a/metrics", Header: http.Header{"Accept-Encoding": {"gzip"}}}}})
				s.Baseline(t.Context())
				info := s.Info()[0]
				if got := sink.of(0, "requests_running", "*"); len(got) != 1 || got[0].Value != 3 || info.State != StateOK {
					t.Errorf("got %v, %+v", got, info)
				}
				if cut := slices.ContainsFunc(info.Problems, func(p SourceProblem) bool { return strings.Contains(p.Text, "larger than 1048576") }); cut != x.cut {
					t.Errorf("problems %+v", info.Problems)
				}
			})
		})
	}
}

// TestClockReadings are the Date header, the time of a node exporter and samples' own timestamps, as samples too.
func TestClockReadings(t *testing.T) {
	fake(t, func(t *testing.T, net *servers, c *clock.Clock) {
		net.handle("a:80", func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(40 * ms)
			w.Header().Set("Date", time.Now().Add(5*time.Second).UTC().Format(http.TimeFormat))
			text(w, "# TYPE node_time_seconds gauge\nnode_time_seconds 1.7e+09\nnode_load1 2\n")
		})
		var sink sinkLog
		s := newScraper(t, Config{Clock: c, Sink: &sink, Dial: net.Dial, Targets: []Target{{URL: "http://a/metrics"}}})
		s.Baseline(t.Context())
		date := c.Start().Add(5 * time.Second).Truncate(time.Second).UnixNano()
		want := []ClockReading{
			{Start: 0, End: int64(40 * ms), Server: date, Resolution: 1e9, Kind: ClockDate},
			{Start: 0, End: int64(40 * ms), Server: 1.7e18, Resolution: 1e6, Kind: ClockTime},
		}
		if diff := cmp.Diff(want, s.Info()[0].Clock); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := sink.of(0, ClockSeries, "kind=date"); len(got) != 1 || got[0] != (at{0, 40 * ms, float64(date) / 1e9}) {
			t.Errorf("samples: %v", got)
		}
	})
	var r clockReadings
	for i := range 100_000 {
		r.add(ClockReading{Start: int64(i)})
		if len(r.list) > MaxClockReadings {
			t.Fatal("not bounded")
		}
	}
	if n := len(r.list); n < MaxClockReadings/2 || r.list[0].Start > 100 || r.list[n-1].Start < 99_900 {
		t.Errorf("%d readings from %d to %d", n, r.list[0].Start, r.list[n-1].Start)
	}
	step := r.list[1].Start - r.list[0].Start
	for i := 1; i < len(r.list); i++ {
		if r.list[i].Start-r.list[i-1].Start != step {
			t.Fatalf("uneven at %d: %d after %d", i, r.list[i].Start, r.list[i-1].Start)
		}
	}
}

// TestSameOriginKey sends the key of the inference endpoint nowhere else.
func TestSameOriginKey(t *testing.T) {
	key := http.Header{"Authorization": {"Bearer k"}, "X-Org": {"o"}, "Content-Type": {"application/json"}}
	for _, x := range []struct {
		page, target string
		own          http.Header
		want         http.Header
	}{
		{"http://h:8000/metrics", "http://h:8000/v1", nil, http.Header{"Authorization": {"Bearer k"}, "X-Org": {"o"}}},
		{"http://H:80/metrics", "http://h/v1/chat/completions", nil, http.Header{"Authorization": {"Bearer k"}, "X-Org": {"o"}}},
		{"http://h:9400/metrics", "http://h:8000/v1", nil, http.Header{}},
		{"https://h/metrics", "http://h/v1", nil, http.Header{}},
		{"http://h.evil/metrics", "http://h/v1", nil, http.Header{}},
		{"http://h:9400/metrics", "http://h:8000/v1", http.Header{"authorization": {"Basic x"}}, http.Header{"Authorization": {"Basic x"}}},
		{"http://h:8000/metrics", "http://h:8000/v1", http.Header{"Authorization": {"Basic x"}}, http.Header{"Authorization": {"Basic x"}, "X-Org": {"o"}}},
	} {
		if diff := cmp.Diff(x.want, HeaderFor(x.page, x.own, x.target, key)); diff != "" {
			t.Errorf("%s of %s (-want +got):\n%s", x.page, x.target, diff)
		}
	}
}

// TestBadTargets are refused before anything is sent.
func TestBadTargets(t *testing.T) {
	c := clock.NewFake()
	for _, x := range []struct {
		target Target
		want   string
	}{
		{Target{URL: "ftp://h/metrics"}, "want http://"},
		{Target{URL: "http:///metrics"}, "no host"},
		{Target{URL: "http://user:secret@h/metrics"}, "user name or password"},
		{Target{URL: "http://h/\x7f"}, "invalid control character"},
		{Target{URL: "http://h/metrics", Every: time.Millisecond}, "at least 10ms"},
		{Target{URL: "http://h/metrics", Kind: "x"}, `kind "x"`},
		{Target{URL: "http://h/metrics", Proxy: "socks5://x"}, "proxy"},
		{Target{Kind: KindHost}, "ReadFile"},
		{Target{URL: "http://h?query=x", Kind: KindPrometheus}, "base URL"},
		{Target{URL: "http://h", Kind: KindPrometheus, Match: map[string]string{"a b": "x"}}, "label name"},
		{Target{URL: "http://h", Kind: KindPrometheus, Queries: []Query{{Name: "x"}}}, "expression"},
	} {
		_, err := New(Config{Clock: c, Sink: &sinkLog{}, Targets: []Target{x.target}})
		if err == nil || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v, want %q", x.target, err, x.want)
		}
	}
}

// TestGridAfter is strictly later and a multiple.
func TestGridAfter(t *testing.T) {
	for _, x := range [][3]int64{{0, 10, 10}, {1, 10, 10}, {9, 10, 10}, {10, 10, 20}, {-1, 10, 0}, {-10, 10, 0}, {-11, 10, -10}} {
		if got := gridAfter(x[0], x[1]); got != x[2] {
			t.Errorf("after %d: %d, want %d", x[0], got, x[2])
		}
	}
}

// TestDrainingPage reads statistics that are gone once they are read: never twice, and steps that somebody else took are named.
func TestDrainingPage(t *testing.T) {
	fake(t, func(t *testing.T, net *servers, c *clock.Clock) {
		step := func(n int) string {
			return fmt.Sprintf(`{"iter":%d,"iterLatencyMS":10.5,"numActiveRequests":3,"inflightBatchingStats":{"numScheduledRequests":3,"numCtxTokens":100,"numGenRequests":2,"avgNumDecodedTokensPerIter":1}}`, n)
		}
		pages := []string{"[]", "[" + step(1) + "," + step(2) + "]", "[" + step(3) + "]", "[" + step(6) + "]", "[]", "", "[" + step(7) + "]"}
		n := 0
		net.handle("a:80", func(w http.ResponseWriter, _ *http.Request) {
			if n++; pages[n-1] == "" {
				panic(http.ErrAbortHandler) // it was read, and the answer is lost
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, pages[n-1])
		})
		var sink sinkLog
		s := newScraper(t, Config{Clock: c, Sink: &sink, Dial: net.Dial, Targets: []Target{{URL: "http://a/metrics"}}})
		s.Baseline(t.Context())
		if info := s.Info()[0]; info.State != StateOK {
			t.Errorf("an empty list: %+v", info)
		}
		s.Start(t.Context())
		sleep(c, 5500*ms)
		s.Final(t.Context())
		if n != len(pages) {
			t.Errorf("asked %d times for %d readings", n, len(pages))
		}
		info := s.Info()[0]
		if !info.Drains || !slices.Equal(info.Sources, []string{"trtllm-json"}) || info.Failures != 1 {
			t.Errorf("%+v", info)
		}
		lost := int64(0)
		for _, p := range info.Problems {
			if strings.Contains(p.Text, "steps are missing") {
				lost = p.Count
			}
		}
		if lost != 2 || !slices.ContainsFunc(info.Problems, func(p SourceProblem) bool { return strings.Contains(p.Text, "may be lost") }) {
			t.Errorf("%+v", info.Problems)
		}
		if got := sink.of(0, "requests_running", "*"); len(got) != 4 || got[0].Value != 3 {
			t.Errorf("%v", got)
		}
	})
}

// TestHangingConnects has more hosts that swallow connects than handshakes are usually made at once: others are read in time.
func TestHangingConnects(t *testing.T) {
	fake(t, func(t *testing.T, net *servers, c *clock.Clock) {
		net.handle("good:80", func(w http.ResponseWriter, _ *http.Request) { text(w, running(1)) })
		targets := []Target{}
		for i := range 200 {
			targets = append(targets, Target{URL: fmt.Sprintf("http://hole%d/metrics", i)})
		}
		// Every 6 s, so that a connection of its own is dialled for each reading.
		targets = append(targets, Target{URL: "http://good/metrics", Every: 6 * time.Second})
		var sink sinkLog
		s := newScraper(t, Config{Clock: c, Sink: &sink, Dial: net.Dial, Targets: targets})
		s.Start(t.Context())
		sleep(c, 25*time.Second)
		sec := time.Second
		if diff := cmp.Diff([]time.Duration{6 * sec, 12 * sec, 18 * sec, 24 * sec}, sink.starts(200)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if info := s.Info(); info[200].Scrapes != 4 || info[0].State != StateError || !strings.Contains(info[0].Why, "time") {
			t.Errorf("%+v\n%+v", info[200], info[0])
		}
		s.Close()
		if c.Now() != int64(25*sec) {
			t.Errorf("Close waited until %v", time.Duration(c.Now()))
		}
	})
}

// TestPathAndWait gives a page without a path, waits between the baseline and the start, which is no gap, and reads a page that is a
// Prometheus' own.
func TestPathAndWait(t *testing.T) {
	fake(t, func(t *testing.T, net *servers, c *clock.Clock) {
		var mu sync.Mutex // two targets are read at once
		var paths []string
		net.handle("a:80", func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			paths = append(paths, r.URL.String())
			mu.Unlock()
			text(w, running(1))
		})
		net.handle("p:9090", func(w http.ResponseWriter, _ *http.Request) { text(w, "x 1\nprometheus_tsdb_head_series 9\n") })
		s := newScraper(t, Config{Clock: c, Sink: &sinkLog{}, Dial: net.Dial, Targets: []Target{{URL: "http://a"}, {URL: "http://a/?x=1"}, {URL: "http://p:9090/metrics"}}})
		s.Baseline(t.Context())
		sleep(c, 10500*ms)
		s.Start(t.Context())
		sleep(c, 12500*ms)
		s.Final(t.Context())
		slices.Sort(paths)
		if diff := cmp.Diff([]string{"/metrics", "/metrics?x=1"}, slices.Compact(paths)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		info := s.Info()
		for _, i := range info {
			if i.GapCount != 0 || i.Scrapes != 4 {
				t.Errorf("%+v", i)
			}
		}
		if info[1].URL != "http://a/metrics?..." || info[0].Name != "a" {
			t.Errorf("%+v", info)
		}
		if len(info[2].Problems) != 1 || !strings.Contains(info[2].Problems[0].Text, "kind prometheus") || info[2].Problems[0].Count != 4 {
			t.Errorf("%+v", info[2].Problems)
		}
	})
}

// A page may have a good share of the courses of a run and never all; a Prometheus, which has many pages, may.
func TestShareOfCourses(t *testing.T) {
	for _, x := range []struct{ sources, page, prometheus int }{
		{1, mostCourses, MaxCourses}, {8, MaxCourses / 8, MaxCourses}, {64, leastCourses, MaxCourses},
	} {
		for kind, want := range map[Kind]int{KindPage: x.page, KindPrometheus: x.prometheus} {
			s := &Scraper{cfg: Config{Targets: make([]Target, x.sources)}}
			room, n := s.room(kind), 0
			for n <= MaxCourses && room() {
				n++
			}
			if n != want {
				t.Errorf("%d sources, %s: %d courses, want %d", x.sources, kind, n, want)
			}
		}
	}
	s := &Scraper{cfg: Config{Targets: make([]Target, 64)}}
	n := 0
	for range 64 {
		for room := s.room(KindPage); room(); {
			n++
		}
	}
	if n != MaxCourses {
		t.Errorf("%d courses of all sources, want %d", n, MaxCourses)
	}
}
