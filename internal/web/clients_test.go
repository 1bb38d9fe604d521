package web

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/clock"
	"plimsoll/internal/detail"
	"plimsoll/internal/live"
	"plimsoll/internal/load"
	"plimsoll/internal/memconn"
)

// TestCompressed: long answers come compressed to who is elsewhere and takes them so.
func TestCompressed(t *testing.T) {
	s := newServer(t, nil)
	id := predicted(t, s.cfg.Root)
	s.front.Script, s.front.Style = []byte(strings.Repeat("void 0;", 1000)), []byte("p{}")
	from := func(target, accepts, peer string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", "http://127.0.0.1:8315"+target, http.NoBody)
		r.Header.Set("Accept-Encoding", accepts)
		r.RemoteAddr = peer
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != http.StatusOK || w.Header().Get("Vary") != "Accept-Encoding" || w.Header().Get("Content-Length") != fmt.Sprint(w.Body.Len()) {
			t.Fatalf("GET %s: %d %v", target, w.Code, w.Header())
		}
		return w
	}
	const far = "192.0.2.9:1234"
	for _, target := range []string{"/api/runs/" + id + "/requests", "/api/runs/" + id + "/report.html", "/api/openapi.json"} {
		plain := from(target, "", far)
		packed := from(target, "br, gzip", far)
		if packed.Header().Get("Content-Encoding") != "gzip" || packed.Body.Len()*2 > plain.Body.Len() {
			t.Errorf("GET %s: %d bytes with %q, %d plain", target, packed.Body.Len(), packed.Header().Get("Content-Encoding"), plain.Body.Len())
			continue
		}
		z, err := gzip.NewReader(packed.Body)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(z); err != nil || !bytes.Equal(b, plain.Body.Bytes()) {
			t.Errorf("GET %s: it is another answer when it is compressed: %v", target, err)
		}
		for _, as := range [][2]string{{"gzip;q=0", far}, {"identity", far}, {"gzip", "127.0.0.1:1234"}, {"gzip", "[::1]:1234"}} {
			if got := from(target, as[0], as[1]); got.Header().Get("Content-Encoding") != "" {
				t.Errorf("GET %s, which takes %q from %s, is compressed", target, as[0], as[1])
			}
		}
	}
	if got := from("/api/version", "gzip", far); got.Header().Get("Content-Encoding") != "" {
		t.Error("a short answer is compressed")
	}
}

// TestHeld: a file that a client has is not sent again, however it says so.
func TestHeld(t *testing.T) {
	p := newPanel(map[string][]byte{"index.html": []byte("<p>x</p>")})
	ask := func(held ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", "http://127.0.0.1:8315/", http.NoBody)
		r.Header["If-None-Match"] = held
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		return w
	}
	tag := ask().Header().Get("ETag")
	for held, want := range map[string]int{
		tag: 304, `"other", ` + tag: 304, "W/" + tag: 304, "*": 304, `"other"`: 200, "": 200, strings.Trim(tag, `"`): 200,
	} {
		w := ask(held)
		if w.Code != want || want == 304 && w.Body.Len() > 0 {
			t.Errorf("If-None-Match %s: %d with %d bytes, want %d", held, w.Code, w.Body.Len(), want)
		}
	}
	if w := ask(`"other"`, tag); w.Code != 304 {
		t.Errorf("in a second line: %d", w.Code)
	}
}

// TestHeadOfStream asks for nothing but the header of a stream, which has no end.
func TestHeadOfStream(t *testing.T) {
	s := newServer(t, nil)
	w := live.New()
	c := clock.New()
	w.Begin(live.Run{
		Row: detail.RunRow{ID: "20260101T000000Z-x", Tags: map[string]string{}}, Start: c.Start(), Now: c.Now, Live: new(load.Live), Plan: []load.Step{{Users: 1, Duration: time.Hour}},
	})
	s.Watch(w)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // real time: it is answered at once
	defer cancel()
	r := httptest.NewRequest("HEAD", "http://127.0.0.1:8315/api/runs/20260101T000000Z-x/events", http.NoBody).WithContext(ctx)
	out := httptest.NewRecorder()
	s.ServeHTTP(out, r)
	if out.Code != http.StatusOK || !strings.HasPrefix(out.Header().Get("Content-Type"), "text/event-stream") || ctx.Err() != nil {
		t.Errorf("HEAD of a stream: %d %v, %v", out.Code, out.Header(), ctx.Err())
	}
}

// TestSlowReader: a client that takes no events is given up within the time for one.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 200 * time.Millisecond
		ended := make(chan error, 1)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			e := stream{w: w, c: http.NewResponseController(w), time: limit}
			text := strings.Repeat(": still here\n\n", 5000)
			for range 1000 { // more than any connection holds
				e.send(text)
			}
			ended <- e.err
		})}
		l := memconn.Listen("panel:80")
		go func() { _ = server.Serve(l) }() // it ends by being closed
		defer server.Close()
		c := dial(t, l)
		began := time.Now()
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != limit {
			t.Errorf("a stream that nobody reads ended after %v by %v", time.Since(began), err)
		}
	})
}

// TestIdleConnections keeps 200 connections open that ask for nothing more.
func TestIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l := limited(t, nil)
		var open []net.Conn
		for range 200 {
			c := dial(t, l)
			open = append(open, c)
			if _, err := io.WriteString(c, "GET /api/version HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatalf("connection %d: %v", len(open), err)
			}
			var v version
			if err := json.NewDecoder(res.Body).Decode(&v); err != nil || res.StatusCode != http.StatusOK {
				t.Errorf("connection %d: %d, %v", len(open), res.StatusCode, err)
			}
			_ = res.Body.Close()
		}
	})
}

// A prediction has every way of spreading a model that the command line has.
func TestPredictionsSpread(t *testing.T) {
	s := newServer(t, nil)
	s.limits.predict = time.Hour // the points are what is looked at, not this machine's speed
	ask := func(more string) (p Prediction, status int, body string) {
		t.Helper()
		status, _, b := call(t, s, "POST", "/api/twin/predict", `{"model": "deepseek-v3", "gpu": "h200", "users": [4], "requests": 20, "prompt_tokens": 200, "output_tokens": 20`+more+`}`)
		if status == http.StatusOK {
			if err := json.Unmarshal([]byte(b), &p); err != nil {
				t.Fatal(err)
			}
		}
		return p, status, string(b)
	}
	base, _, said := ask(`, "tp": 8`)
	if !base.Fits || len(base.Points) != 1 {
		t.Fatalf("%s", said)
	}
	for more, want := range map[string]func(p *Prediction) bool{
		`, "tp": 8, "pp": 2`:                                      func(p *Prediction) bool { return p.Memory.Weights < 0.6*base.Memory.Weights },
		`, "tp": 1, "dp": 8, "ep": 8`:                             func(p *Prediction) bool { return p.Memory.KVTokens != base.Memory.KVTokens },
		`, "tp": 8, "kv_fp8": true`:                               func(p *Prediction) bool { return float64(p.Memory.KVTokens) > 1.9*float64(base.Memory.KVTokens) },
		`, "tp": 8, "replicas": 2, "router": "least-loaded"`:      func(p *Prediction) bool { return p.Memory.KVTokens == base.Memory.KVTokens },
		`, "gpus": 32, "tp": 8, "pp": 2, "router": "round-robin"`: func(p *Prediction) bool { return strings.Contains(p.Cluster, "2 replicas of 16") },
	} {
		if p, status, said := ask(more); status != http.StatusOK || !p.Fits || len(p.Points) != 1 || !want(&p) {
			t.Errorf("%s: %d %s", more, status, said)
		}
	}
	// The lengths differ, so that it matters who gets which.
	routed := func(name string) PredictPoint {
		p, _, said := ask(`, "tp": 8, "replicas": 4, "users": [24], "requests": 200, "output_tokens": "uniform:10..400", "router": "` + name + `"`)
		if len(p.Points) != 1 {
			t.Fatalf("%s", said)
		}
		return p.Points[0]
	}
	if cmp.Equal(routed("round-robin"), routed("least-loaded")) {
		t.Error("the router makes no difference")
	}
	for more, field := range map[string]string{`, "router": "random"`: "router", `, "pp": -1`: "pp", `, "dp": 100001`: "dp"} {
		if _, status, said := ask(more); status != http.StatusBadRequest || !strings.Contains(said, `"field":"`+field+`"`) {
			t.Errorf("%s: %d %s", more, status, said)
		}
	}
}

// TestPredictionsAreBounded: no more predictions are made at once than there are places.
func TestPredictionsAreBounded(t *testing.T) {
	s := newServer(t, nil)
	for range cap(s.predicting) {
		s.predicting <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	const body = `{"model": "llama-3.1-8b", "gpu": "h100", "users": [1], "requests": 10}`
	status, _, b := call(t, s, "POST", "/api/twin/predict", body, func(r *http.Request) { *r = *r.WithContext(ctx) })
	if status != http.StatusServiceUnavailable {
		t.Errorf("one too many: %d %s", status, b)
	}
	<-s.predicting
	if status, _, b := call(t, s, "POST", "/api/twin/predict", body); status != http.StatusOK {
		t.Errorf("with a place: %d %s", status, b)
	}
}
