package twin

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Whatever bytes come, what is answered is HTTP, nothing panics, and nothing is
// left behind.
func FuzzConnection(f *testing.F) {
	s, url := start(f, ServerConfig{Step: 50 * time.Microsecond, MaxModelLen: 200, TokensPerEvent: 3})
	addr := strings.TrimPrefix(url, "http://")
	post := func(path, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
	}
	for _, seed := range []string{
		"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.0\r\n\r\n", "HEAD /health HTTP/1.1\r\nHost: x\r\n\r\n",
		post("/v1/chat/completions", `{"stream":true,"max_tokens":20,"n":3,"stop":["e "],"reasoning_effort":"low",`+talk+`}`),
		post("/v1/chat/completions", `{"tools":[{"function":{"name":"f"}}],"tool_choice":"required",`+talk+`}`) + "GET /load HTTP/1.1\r\nHost: x\r\n\r\n",
		post("/v1/completions", `{"prompt":[[1,2],[3]],"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`),
		post("/tokenize", `{"prompt":"\ud800 x\u0000","return_token_strs":true}`),
		"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"pro\r\nffffffffffffffff\r\n",
		"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
		"\x16\x03\x01\x02\x00\x01\x00", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Skip(err) // out of ports
		}
		defer nc.Close()
		_ = nc.SetDeadline(time.Now().Add(2 * time.Minute))
		if _, err := nc.Write(data); err == nil {
			_ = nc.(*net.TCPConn).CloseWrite()
		}
		answer, err := io.ReadAll(nc)
		if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
			t.Fatalf("no end after %q", answer)
		}
		// A client that leaves gets what there was until then.
		for br := bufio.NewReader(bytes.NewReader(answer)); ; {
			if _, err := br.Peek(1); err != nil {
				break
			}
			resp, err := http.ReadResponse(br, nil)
			if err != nil {
				if !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("%v in %q", err, answer)
				}
				break
			}
			if c := resp.StatusCode; c != 100 && c != 200 && (c < 400 || c > 505) {
				t.Errorf("status %d", c)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				break
			}
		}
		if n := s.counters.bodies.Load(); n < 0 {
			t.Errorf("%d bytes of bodies", n)
		}
	})
}

// Bodies that are being read together are bounded, and the bound is given back.
func TestBodiesAreBounded(t *testing.T) { synctest.Test(t, testBodiesAreBounded) }

func testBodiesAreBounded(t *testing.T) {
	s, url := startFake(t, ServerConfig{Step: fast})
	s.counters.bodies.Store(maxBodies - 10_000)
	big := `{"prompt":"` + strings.Repeat("word ", 10_000) + `","max_tokens":1}`
	if status, answer := post(t, url+"/v1/completions", big); status != 503 || !strings.Contains(answer, "being read") {
		t.Errorf("status %d: %.200s", status, answer)
	}
	if n := s.counters.bodies.Load(); n != maxBodies-10_000 {
		t.Errorf("%d bytes were not given back", n-maxBodies+10_000)
	}
	if status, _ := post(t, url+"/v1/completions", `{"prompt":"x","max_tokens":1}`); status != 200 {
		t.Errorf("a small body: status %d", status)
	}
	synctest.Wait() // what the server does after an answer
	s.counters.bodies.Store(0)
	if status, _ := post(t, url+"/v1/completions", big); status != 200 {
		t.Errorf("with room again: status %d", status)
	}
	synctest.Wait()
	if n := s.counters.bodies.Load(); n != 0 {
		t.Errorf("%d bytes of bodies are held", n)
	}
}

// A client that ends its side while the answer comes has gone; one that only
// began a request and went silent holds a place among the connections, and no
// other.
func TestHalfOpen(t *testing.T) {
	s, url := start(t, ServerConfig{Step: fast})
	dial := func(text string) *net.TCPConn {
		nc, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		if _, err := io.WriteString(nc, text); err != nil {
			t.Fatal(err)
		}
		return nc.(*net.TCPConn)
	}
	body := `{"prompt":"x","stream":true,"max_tokens":100000,"ignore_eos":true}`
	half := dial(fmt.Sprintf("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	eventually(t, "it is served", func() bool { return s.Stats().Running == 1 })
	if err := half.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is given up", func() bool { st := s.Stats(); return st.Running == 0 && st.Aborted == 1 })
	for range 20 {
		dial("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
		dial("GET /hea")
	}
	if status, _ := post(t, url+"/v1/completions", `{"prompt":"x","max_tokens":3}`); status != 200 {
		t.Errorf("status %d beside silent clients", status)
	}
	if n := s.Stats().InFlight; n > 1 {
		t.Errorf("%d answers in flight", n)
	}
}

// Replicas with fixed steps spread their bursts over the step, and stay on their
// grid.
func TestReplicasSpreadTheirSteps(t *testing.T) {
	const step, n = 20 * time.Millisecond, 4
	synctest.Test(t, func(t *testing.T) {
		s, url := startFake(t, ServerConfig{Step: step, Replicas: n})
		time.Sleep(7 * time.Millisecond)
		for range 2 * n {
			post(t, url+"/v1/completions", `{"prompt":"x","max_tokens":2,"ignore_eos":true}`)
			time.Sleep(3 * time.Millisecond)
		}
		synctest.Wait() // what the server notes after an answer
		for _, r := range s.replicas {
			if len(r.accounts) != 2 {
				t.Fatalf("replica %d served %d", r.index, len(r.accounts))
			}
			for _, a := range r.accounts {
				phase := float64(step) * float64(r.index) / n
				want := phase + float64(step)*math.Ceil((a.Arrival-phase)/float64(step))
				if a.Admitted != want {
					t.Errorf("replica %d began at %v with what came at %v, want %v", r.index, time.Duration(a.Admitted), time.Duration(a.Arrival), time.Duration(want))
				}
			}
		}
	})
}
