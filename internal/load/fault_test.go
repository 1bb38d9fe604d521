package load

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/play"
	"plimsoll/internal/random"
	"plimsoll/internal/record"
	"plimsoll/internal/stats"
)

// chunk and finish are parts of streams.
func chunk(text string) string { return fmt.Sprintf(chunkForm, text) }

var events = [][2]string{{"Content-Type", "text/event-stream"}}

// Endpoints that misbehave. Each request ends when it should and is counted by
// its kind, and the user goes on.
func TestBadEndpoints(t *testing.T) {
	const second = 1000.0
	f := func(name string, script *play.Script, set func(*Config), kind record.ErrorKind, message string, end int64) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, script)
				g.cfg.Steps[0].Requests = 3
				if set != nil {
					set(&g.cfg)
				}
				g.run()
				if len(g.records) != 3 {
					t.Fatalf("%d records, want 3", len(g.records))
				}
				for _, r := range g.records {
					if r.Status != record.Failed || r.Error != kind {
						t.Errorf("ended as %v %q: %s; want %q", r.Status, r.Error, r.Message, kind)
					}
					if !strings.Contains(r.Message, message) {
						t.Errorf("message is %q, want %q in it", r.Message, message)
					}
					if at := r.End - r.Start; at != end*ms {
						t.Errorf("ended after %v ms, want %d", float64(at)/1e6, end)
					}
					if _, ok := stats.E2E(r); ok {
						t.Error("a failed request has an e2e")
					}
				}
				if got := g.live.Snapshot().ByKind[kind]; got != 3 {
					t.Errorf("live counts %d of kind %q", got, kind)
				}
			})
		})
	}
	timeouts := func(c *Config) {
		c.HeaderTimeout, c.IdleTimeout, c.TotalTimeout = 3*time.Second, 2*time.Second, 10*time.Second
	}
	stream := func(how string, at float64, writes ...play.Write) *play.Script {
		return respond(play.Response{Status: 200, Headers: events, Framing: "chunked", Writes: writes}, how, at)
	}
	length := func(n string, body, how string) *play.Script {
		return respond(play.Response{
			Status: 200, Headers: [][2]string{{"Content-Type", "application/json"}, {"Content-Length", n}},
			Framing: "length", Writes: []play.Write{{At: 10, Text: body}},
		}, how, 20)
	}
	slow := func(n int) []play.Write {
		var w []play.Write
		for i := range n {
			w = append(w, play.Write{At: float64(i+1) * second, Text: chunk("x")})
		}
		return w
	}

	f("never answers", respond(play.Response{Status: 200, HeadersAt: 3600 * second, Framing: "close"}, "hold", 3600*second),
		timeouts, record.HeaderTimeout, "3s", 3000)
	f("never answers and only the total is limited", respond(play.Response{Status: 200, HeadersAt: 3600 * second, Framing: "close"}, "hold", 3600*second),
		func(c *Config) { c.TotalTimeout = 5 * time.Second }, record.TotalTimeout, "5s", 5000)
	f("goes silent", stream("hold", 3600*second, slow(1)...), timeouts, record.IdleTimeout, "2s", 3000)
	f("sends headers and nothing", stream("hold", 3600*second), timeouts, record.IdleTimeout, "2s", 2000)
	f("is slow", stream("eof", 60*second, slow(60)...), timeouts, record.TotalTimeout, "10s", 10_000)
	f("closes at once", respond(play.Response{Accept: "drop", Framing: "close"}, "fin", 0), nil,
		record.ConnectionReset, "closed before", 0)
	f("closes early", stream("fin", 50, play.Write{At: 30, Text: chunk("a")}), nil, record.TruncatedStream, "", 50)
	f("closes inside an event", stream("fin", 50, play.Write{At: 30, Text: chunk("a") + "data: {\"choi"}), nil, record.TruncatedStream, "", 50)
	f("resets", stream("rst", 50, play.Write{At: 30, Text: chunk("a")}), nil, record.ConnectionReset, "", 50)
	f("states a length it does not send", length("5000", `{"choices":[`, "fin"), nil, record.TruncatedStream, "", 20)
	f("states too short a length", length("12", `{"choices":[{"index":0,"message":{"content":"x"}}]}`, "fin"), nil, record.BadBody, "no answer", 10)
	f("sends an empty body", respond(play.Response{Status: 200, Headers: events, Framing: "length"}, "eof", 0), nil, record.BadBody, "empty", 0)
	f("sends an empty stream", stream("eof", 5), nil, record.BadBody, "empty", 5)
	f("sends only comments", stream("eof", 5, play.Write{At: 1, Text: ": hello\n\n"}), nil, record.TruncatedStream, "0 events", 5)
	f("sends HTML", respond(play.Response{
		Status: 200, Headers: [][2]string{{"Content-Type", "text/html"}}, Framing: "length",
		Writes: []play.Write{{At: 10, Text: "<html>\n<head><title>Sign in</title></head>\n<body><p>Please  sign in &amp; wait</p></body></html>"}},
	}, "eof", 10),
		nil, record.BadBody, "Sign in Please sign in &amp; wait", 10)
	f("redirects", respond(play.Response{Status: 307, Headers: [][2]string{{"Location", "http://elsewhere/"}}, Framing: "length"}, "eof", 0),
		nil, record.RedirectError, "http://elsewhere/", 0)
	f("talks another protocol", respond(play.Response{Status: 99, Framing: "close"}, "fin", 0), nil, record.BadBody, "", 0)
	f("states a length that ends inside an event", respond(play.Response{
		Status: 200, Headers: [][2]string{{"Content-Type", "text/event-stream"}, {"Content-Length", fmt.Sprint(len(chunk("a")) + 20)}},
		Framing: "length", Writes: []play.Write{{At: 10, Text: chunk("a") + chunk("b")}},
	}, "fin", 20), nil, record.TruncatedStream, "inside an event, after 1 whole", 10)
	f("counts more tokens than it may", stream("hold", 50, play.Write{At: 10, Text: chunk("a")},
		play.Write{At: 20, Text: fmt.Sprintf(endForm, 8, 2_000_000_000, 2_000_000_008)}), nil, record.BadBody, "its usage says 2000000000 tokens after 1 output event", 20)
	f("breaks an event", stream("eof", 40, play.Write{At: 10, Text: chunk("a") + "data: {\"choices\":[{\"index\":0,\n\n"},
		play.Write{At: 40, Text: fmt.Sprintf(endForm, 3, 1, 4)}), nil, record.DecodeError, "not JSON", 40)
	f("is overloaded", refusing(503, `{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`), nil, record.Overloaded, "HTTP 503: Loading model", 2)
	f("is overloaded in its own way", refusing(500, `{"type":"error","error":{"message":"Overloaded","type":"overloaded_error"}}`), nil, record.Overloaded, "HTTP 500: Overloaded", 2)
	f("is overloaded in the stream", stream("eof", 20, play.Write{At: 10, Text: `data: {"error":{"message":"busy","type":"overloaded_error"}}` + "\n\n"}), nil, record.Overloaded, "busy", 10)
	f("fails", refusing(500, `{"error":{"message":"boom"}}`), nil, record.HTTPStatusError, "HTTP 500: boom", 2)
	f("fails without words", respond(play.Response{Status: 502, Framing: "length"}, "eof", 0), nil, record.HTTPStatusError, "HTTP 502", 0)
	f("refuses the body", refusing(400, `{"error":{"message":"maximum context length is 512 tokens"}}`), nil, record.HTTPStatusError, "maximum context", 2)
}

// A total time-out cuts a healthy stream only when it is asked for (case 064).
func TestTotalTimeoutOfAHealthyStream(t *testing.T) {
	script, _, err := play.Case("064")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, script)
		g.cfg.TotalTimeout = 3 * time.Second
		g.run()
		r := g.only()
		if r.Error != record.TotalTimeout || r.End-r.Start != 3000*ms {
			t.Errorf("ended as %v after %d ns", r.Error, r.End-r.Start)
		}
		// The event at 3 s and the limit meet.
		if n := len(r.Events); n != 5 && n != 6 {
			t.Errorf("%d output events", n)
		}
	})
}

// Case 060: a connection that dies while it is reused costs no failed request,
// is sent again once, and is counted.
func TestKeepAliveRace(t *testing.T) {
	script, want, err := play.Case("060")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, script)
		g.population.Think = 30 * time.Millisecond
		g.cfg.Steps[0].Requests = 2
		g.run()
		resends := 0
		for _, r := range g.byID() {
			resends += int(r.Resends)
			if r.Resends > 0 && (r.FirstSend == record.Unset || r.FirstSend > r.Start || r.Reused) {
				t.Errorf("request %d was resent: first send %d, start %d, reused %v", r.ID, r.FirstSend, r.Start, r.Reused)
			}
			if ttft, _ := stats.TTFT(r); ttft != 100*ms {
				t.Errorf("ttft is %d", ttft)
			}
		}
		got := map[string]any{"requests": 2.0, "success": float64(g.live.Snapshot().OK), "errors": float64(g.live.Snapshot().Failed), "conn_reuse_retries": float64(resends)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Case 062: a refusal for the rate is an error with its delay, never retried,
// and no fast success.
func TestRateLimited(t *testing.T) {
	script, _, err := play.Case("062")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, script)
		g.cfg.Steps[0].Requests = 3
		g.run()
		if diff := cmp.Diff(map[string]int{"error rate_limited": 2, "ok": 1}, g.count()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		rs := g.byID()
		if rs[0].Message != "HTTP 429: slow down (Retry-After: 2)" {
			t.Errorf("message is %q", rs[0].Message)
		}
		if rs[1].Message != "HTTP 429: {} (Retry-After: Wed, 21 Oct 2015 07:28:00 GMT)" {
			t.Errorf("message is %q", rs[1].Message)
		}
		if n := len(g.server.Requests()); n != 3 {
			t.Errorf("the server saw %d requests", n)
		}
	})
}

// The variant of case 041: servers that send the word null as a string.
func TestFinishReasonNullAsAString(t *testing.T) {
	running := `data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"null"}]}` + "\n\n"
	f := func(end string, status record.Status, kind record.ErrorKind) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, respond(play.Response{
				Status: 200, Headers: events, Framing: "chunked",
				Writes: []play.Write{{At: 10, Text: running}, {At: 20, Text: end}},
			}, "eof", 30))
			g.run()
			if r := g.only(); r.Status != status || r.Error != kind || r.Finish != "" {
				t.Errorf("ended as %v %q with finish %q", r.Status, r.Error, r.Finish)
			}
		})
	}
	f("data: [DONE]\n\n", record.OK, record.NoError)
	f(running, record.Failed, record.TruncatedStream)
}

// A finished answer whose connection then breaks is an answer.
func TestBreakAfterTheFinishReason(t *testing.T) {
	finish := `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	for _, how := range []string{"fin", "rst"} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, respond(play.Response{
				Status: 200, Headers: events, Framing: "chunked",
				Writes: []play.Write{{At: 10, Text: chunk("a")}, {At: 20, Text: finish}},
			}, how, 30))
			g.run()
			r := g.only()
			if r.Status != record.OK || r.Flags&record.NoDone == 0 || r.End-r.Start != 20*ms {
				t.Errorf("%s: ended as %v %q %v after %d ns", how, r.Status, r.Error, r.Flags.Names(), r.End-r.Start)
			}
		})
	}
}

// What a server does after an answer that was whole is not the client's
// lateness: the user is held up, and its next request is due after that.
func TestWaitForAnEndIsNotSendLag(t *testing.T) {
	whole := []play.Write{{At: 10, Text: chunk("a") + `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"}}
	f := func(how string, at float64, held int64) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, respond(play.Response{Status: 200, Headers: events, Framing: "chunked", Writes: whole}, how, at))
			g.cfg.Steps[0].Requests = 2
			g.cfg.IdleTimeout = 2 * time.Second
			g.run()
			rs := g.byID()
			for _, r := range rs {
				if lag, _ := stats.SendLag(r); r.Status != record.OK || r.End-r.Start != 10*ms || lag != 0 {
					t.Errorf("%s: request %d ended as %v after %d ns, send lag %d ns", how, r.ID, r.Status, r.End-r.Start, lag)
				}
			}
			if got := rs[1].Scheduled - rs[0].End; got != held*ms {
				t.Errorf("%s: the second request was due %v ms after the first, want %d", how, float64(got)/1e6, held)
			}
		})
	}
	f("hold", 9000, 2000)
	f("rst", 710, 700)
}

// One whose few events are long ones, too: what is kept of an answer is bounded by
// what was asked for.
func TestLongEvents(t *testing.T) {
	f := func(bytes int, want record.ErrorKind) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			var writes []play.Write
			for i := range 4 {
				writes = append(writes, play.Write{At: float64(i + 1), Text: chunk(strings.Repeat("x", bytes/4))})
			}
			writes = append(writes, play.Write{At: 5, Text: fmt.Sprintf(endForm, 1, 4, 5)})
			g := newRig(t, respond(play.Response{Status: 200, Headers: events, Framing: "chunked", Writes: writes}, "eof", 6))
			g.population.Output = fixed(1, 16).Output
			g.run()
			r := g.only()
			if r.Error != want || want != record.NoError && !strings.Contains(r.Message, "bytes of text in 4 output events, 16 tokens were asked for") {
				t.Errorf("%d bytes: %v %q", bytes, r.Error, r.Message)
			}
		})
	}
	f(80_000, record.NoError) // 320 tokens of 256 bytes are 81,920
	f(100_000, record.BadBody)
}

// A server that ignores the limit is cut off.
func TestEndlessAnswer(t *testing.T) {
	var writes []play.Write
	for i := range 2000 {
		writes = append(writes, play.Write{At: float64(i + 1), Text: chunk("x")})
	}
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, respond(play.Response{Status: 200, Headers: events, Framing: "chunked", Writes: writes}, "hold", 1e6))
		g.population.Output = fixed(1, 16).Output
		g.run()
		r := g.only()
		if r.Error != record.BadBody || !strings.Contains(r.Message, "ignored the output limit") {
			t.Errorf("ended as %v %q: %s", r.Status, r.Error, r.Message)
		}
		if want := capFactor*16 + capSlack + 1; len(r.Events) != want || r.End-r.Start != int64(want)*ms {
			t.Errorf("cut off after %d events and %d ns, want %d", len(r.Events), r.End-r.Start, want)
		}
		// The connection is closed, so that the server can stop.
		time.Sleep(time.Second)
		if n := len(g.server.Requests()[0].Wrote); n > len(r.Events)+10 {
			t.Errorf("the server went on for %d events", n)
		}
	})
}

// TestImpossibleUsage: a server's count that no answer of the asked length can have is
// no count, however it is sent, and its request has failed.
func TestImpossibleUsage(t *testing.T) {
	const most = capFactor*16 + capSlack
	stream := func(writes ...play.Write) *play.Script {
		return respond(play.Response{Status: 200, Headers: events, Framing: "chunked", Writes: writes}, "eof", 30)
	}
	for name, answer := range map[string]func(tokens int) *play.Script{
		"at the end": func(n int) *play.Script {
			return stream(play.Write{At: 10, Text: chunk("a") + chunk("b")}, play.Write{At: 20, Text: fmt.Sprintf(endForm, 8, n, 8+n)})
		},
		"running": func(n int) *play.Script {
			running := strings.TrimSuffix(chunk("a"), "}\n\n") + fmt.Sprintf(`,"usage":{"prompt_tokens":3,"completion_tokens":%d}}`+"\n\n", n)
			return stream(play.Write{At: 10, Text: running}, play.Write{At: 20, Text: chunk("b") + "data: [DONE]\n\n"})
		},
		"whole": func(n int) *play.Script {
			return refusing(200, fmt.Sprintf(`{"choices":[{"index":0,"message":{"role":"assistant","content":"a b"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":%d,"completion_tokens_details":{"reasoning_tokens":%d}}}`, n, n))
		},
	} {
		for _, n := range []int{most, most + 1, 2_000_000_000} {
			t.Run(fmt.Sprintf("%s %d", name, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := newRig(t, answer(n))
					g.population.Output = fixed(1, 16).Output
					g.run()
					r := g.only()
					if n <= most {
						if r.Error == record.BadBody || int(r.Output) != n {
							t.Errorf("ended as %v %q: %s with %d tokens, want %d", r.Status, r.Error, r.Message, r.Output, n)
						}
						return
					}
					if r.Error != record.BadBody || !strings.Contains(r.Message, fmt.Sprintf("its usage says %d tokens", n)) {
						t.Errorf("ended as %v %q: %s", r.Status, r.Error, r.Message)
					}
					if r.Output != record.Unknown || r.Reasoning != record.Unknown {
						t.Errorf("it has %d tokens, %d of reasoning", r.Output, r.Reasoning)
					}
					for _, e := range r.Events {
						if e.Cumulative > most || e.Tokens > most {
							t.Errorf("an event has %d tokens, %d with those before", e.Tokens, e.Cumulative)
						}
					}
					if live := g.live.Snapshot().OutputTokens; live > 2 {
						t.Errorf("live counts %d tokens", live)
					}
				})
			})
		}
	}
}

// An answer that begins before the request is sent whole is flagged.
func TestAnswerBeforeTheRequestIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := play.Response{
			Status: 413, Headers: [][2]string{{"Content-Type", "application/json"}}, Framing: "length", Early: true,
			Writes: []play.Write{{At: 1, Text: `{"error":{"message":"too large"}}`}},
		}
		g := newRig(t, respond(r, "eof", 10))
		// More than the connection holds.
		g.population.Prompt = fixed(500_000, 0).Prompt
		g.run()
		if r := g.only(); r.Flags&record.EarlyResponse == 0 || r.Error != record.HTTPStatusError || r.HTTPStatus != 413 {
			t.Errorf("ended as %v %q %v: %s", r.Status, r.Error, r.Flags.Names(), r.Message)
		}
	})
}

// An endpoint that is down is refused connections, and the guard stops the run
// long before the time is over.
func TestEndpointThatIsDown(t *testing.T) {
	addr := play.Nobody(t)
	g := newSocketRig(t, answering(time.Millisecond))
	g.cfg.URLs = []string{"http://" + addr + "/v1/chat/completions"}
	g.cfg.MaxErrorShare = 0.5
	g.cfg.Steps = []Step{{Users: 2, Duration: time.Hour, Drain: time.Second}}
	g.run()
	if g.res.Stopped != ErrorShare || !strings.Contains(g.res.Message, "connect_refused") {
		t.Errorf("stopped by %v: %s", g.res.Stopped, g.res.Message)
	}
	n := g.count()
	if n["error connect_refused"] < 51 || n["error connect_refused"]+n["cancelled"] != len(g.records) || len(g.records) > 60 {
		t.Errorf("requests ended as %v", n)
	}
}

// What goes wrong before there is a connection has kinds of its own.
func TestFailuresToConnect(t *testing.T) {
	f := func(err error, kind record.ErrorKind) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, answering(time.Millisecond))
			g.cfg.Stream.ConnectTimeout = 5 * time.Second
			g.cfg.Stream.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
				if err == nil { // nobody answers
					<-ctx.Done()
					err = ctx.Err()
				}
				return nil, &net.OpError{Op: "dial", Net: network, Err: err}
			}
			g.run()
			r := g.only()
			if r.Status != record.Failed || r.Error != kind || r.Connected != record.Unset || r.Sent != record.Unset {
				t.Errorf("ended as %v %q: %s", r.Status, r.Error, r.Message)
			}
			if took := r.End - r.Start; took != 0 && took != 5000*ms {
				t.Errorf("took %d ns", took)
			}
		})
	}
	f(&net.DNSError{Err: "no such host", Name: "host.invalid", IsNotFound: true}, record.DNSError)
	f(os.NewSyscallError("connect", syscall.ECONNREFUSED), record.ConnectRefused)
	f(os.NewSyscallError("socket", syscall.EMFILE), record.ClientResource)
	f(os.NewSyscallError("connect", syscall.EADDRNOTAVAIL), record.ClientResource)
	f(nil, record.ConnectTimeout)
}

// Case 070: a certificate of one's own is refused by default, and taken with its
// authority or when asked to look away.
func TestSelfSignedCertificate(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, chunk("a")+fmt.Sprintf(endForm, 1, 1, 2))
	}))
	s.EnableHTTP2 = false
	s.Config.ErrorLog = discard()
	s.StartTLS()
	defer s.Close()
	f := func(conf *tls.Config, kind record.ErrorKind, message string) {
		t.Helper()
		g := newSocketRig(t, answering(time.Millisecond))
		g.cfg.URLs = []string{s.URL + "/v1/chat/completions"}
		g.cfg.Stream.TLS = conf
		g.run()
		r := g.only()
		if r.Error != kind || !strings.Contains(r.Message, message) {
			t.Errorf("ended as %v %q: %s", r.Status, r.Error, r.Message)
		}
		if connect, _ := stats.Connect(r); kind == record.NoError && connect <= 0 {
			t.Errorf("a connect with TLS took %d ns", connect)
		}
	}
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	f(nil, record.TLSError, "certificate")
	f(&tls.Config{RootCAs: pool}, record.NoError, "")
	f(&tls.Config{InsecureSkipVerify: true}, record.NoError, "") //nolint:gosec // what the test is about
}

// Several events of one read are bounded but for the last, whatever they carry.
func TestBoundedEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finish := `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
		write := func(at float64, text string) play.Write { return play.Write{At: at, Text: text} }
		g := newRig(t, respond(play.Response{Status: 200, Headers: events, Framing: "chunked", Writes: []play.Write{
			write(10, chunk("a")),                                  // alone
			write(20, chunk("b")+chunk("c")+chunk("d")),            // b and c are bounded
			write(30, ": ping\n\n"+chunk("e")),                     // a comment is no event
			write(40, chunk("f")[:40]), write(50, chunk("f")[40:]), // one event of two reads
			write(60, chunk("g")[:40]), write(70, chunk("g")[40:]+chunk("h")[:30]), write(80, chunk("h")[30:]),
			write(90, chunk("i")+finish), // a structural event counts
			write(100, "data: [DONE]\n\n"),
		}}, "eof", 100))
		g.run()
		var got []string
		for _, e := range g.only().Events {
			got = append(got, fmt.Sprintf("%d %v", (e.At-g.records[0].Start)/ms, e.Bounded))
		}
		want := []string{"10 false", "20 true", "20 true", "20 false", "30 false", "50 false", "70 false", "80 false", "90 true"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// What is sent is what the workload says, in the API's terms, with the header.
func TestRequestAsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, answering(time.Millisecond))
		g.cfg.Header = http.Header{"Authorization": {"Bearer secret"}}
		g.population.Prompt, g.population.Output, g.population.Exact = random.Dist{A: 20}, random.Dist{A: 30}, true
		g.run()
		q := g.server.Requests()[0]
		for k, want := range map[string]string{
			"Authorization": "Bearer secret", "Content-Type": "application/json", "Accept-Encoding": "identity",
			"Accept": "text/event-stream, application/json", "User-Agent": "plimsoll",
		} {
			if got := q.Header.Get(k); got != want {
				t.Errorf("%s is %q, want %q", k, got, want)
			}
		}
		for _, want := range []string{`"model":"m"`, `"max_tokens":30`, `"stream":true`, `"ignore_eos":true`} {
			if !strings.Contains(string(q.Body), want) {
				t.Errorf("body %s has no %s", q.Body, want)
			}
		}
		r := g.only()
		if r.AskedPrompt != 20 || r.AskedOutput != 30 || !r.AskedExact || r.Workload != "synthetic" || r.SentBytes != int64(len(q.Body)) {
			t.Errorf("record says %d, %d, %v, %q, %d bytes of %d", r.AskedPrompt, r.AskedOutput, r.AskedExact, r.Workload, r.SentBytes, len(q.Body))
		}
		if r.Flags&record.ShortOutput == 0 {
			t.Error("an output shorter than asked is not flagged")
		}
		if len(g.cfg.Header) != 1 {
			t.Errorf("the caller's header was changed: %v", g.cfg.Header)
		}
	})
}
