package stream

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/memconn"
	"plimsoll/internal/play"
)

// seen is one exchange as a test looks at it.
type seen struct {
	x      Exchange
	events []seenEvent
	body   string
}

type seenEvent struct {
	Name, Data string
	MS         float64 // after Start
	Read       uint32
}

func ms(ns int64) float64 { return float64(ns) / 1e6 }

// exchange runs one exchange to its end. stop ends it early, after an event.
func exchange(ctx context.Context, c *Client, r *Request, stop func(*Event) bool) *seen {
	s := &seen{}
	c.Do(ctx, &s.x, r)
	for s.x.Failure == NoFailure && s.x.Next() {
		ev := &s.x.Ev
		s.events = append(s.events, seenEvent{string(ev.Name), string(ev.Data), ms(ev.At - s.x.Start), ev.Read})
		if stop != nil && stop(ev) {
			s.x.Close()
			break
		}
	}
	if s.x.Framing == FrameBody {
		s.body = string(s.x.Body())
	}
	return s
}

func done(ev *Event) bool { return string(ev.Data) == "[DONE]" }

// bubble runs f inside a synctest bubble against a player in memory.
func bubble(t *testing.T, s *play.Script, cfg Config, f func(t *testing.T, c *Client, p *play.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := memconn.Listen("player:80")
		p := play.Serve(l, s)
		cfg.Dial = l.Dial
		c, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		f(t, c, p)
		c.Close()
		p.Close()
	})
}

func getCase(t *testing.T, name string) *play.Script {
	t.Helper()
	s, _, err := play.Case(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func script(t *testing.T, text string) *play.Script {
	t.Helper()
	s, err := play.Parse([]byte(`{"format":"llm-play/1","request":{"path":"/v1"},"responses":[` + text + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// reference divides a body into events by the rules of the standard, over the
// whole text and without any care for speed, and says which byte ends each.
func reference(kind Framing, body string) (events []seenEvent, ends []int) {
	var name, data string
	has := false
	pos := 0
	end := func(at int) {
		if has {
			events, ends = append(events, seenEvent{Name: name, Data: strings.TrimSuffix(data, "\n")}), append(ends, at)
		}
		name, data, has = "", "", false
	}
	if strings.HasPrefix(body, "\xef\xbb\xbf") {
		pos = 3
	}
	for pos < len(body) {
		eol := strings.IndexAny(body[pos:], "\r\n")
		if kind == FrameNDJSON {
			eol = strings.IndexByte(body[pos:], '\n')
		}
		line, next, at := body[pos:], len(body), len(body)
		if eol >= 0 {
			line, at = body[pos:pos+eol], pos+eol+1
			next = at
			if kind == FrameSSE && body[at-1] == '\r' && at < len(body) && body[at] == '\n' {
				next++
			}
		}
		pos = next
		if kind == FrameNDJSON {
			line = strings.TrimSuffix(line, "\r")
			if strings.Trim(line, " \t\r") != "" {
				events, ends = append(events, seenEvent{Data: line}), append(ends, at)
			}
			continue
		}
		if line == "" {
			end(at)
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "data":
			data, has = data+value+"\n", true
		case "event":
			name = value
		}
	}
	end(len(body))
	return events, ends
}

// TestCases plays every case's responses and checks that each event comes out
// whole and at the time of the write that completed it.
func TestCases(t *testing.T) {
	for _, name := range play.Cases() {
		t.Run(name, func(t *testing.T) {
			s := getCase(t, name)
			for i := range s.Responses {
				one := *s
				one.Responses = s.Responses[i : i+1]
				r := &one.Responses[0]
				if r.Accept == "drop" {
					continue
				}
				bubble(t, &one, Config{}, func(t *testing.T, c *Client, p *play.Server) {
					checkResponse(t, c, p, r)
				})
			}
		})
	}
}

func checkResponse(t *testing.T, c *Client, p *play.Server, r *play.Response) {
	body, err := r.Body()
	if err != nil {
		t.Fatal(err)
	}
	s := exchange(t.Context(), c, &Request{URL: p.URL(), Body: []byte(`{"stream":true}`), IdleTimeout: time.Minute}, nil)
	if s.x.Status != r.Status {
		t.Fatalf("status %d, want %d (%v %s)", s.x.Status, r.Status, s.x.Failure, s.x.Err)
	}
	wantFailure := NoFailure
	wantEnd := r.End.At
	if r.End.How == "hold" {
		wantFailure, wantEnd = FailIdleTimeout, r.Writes[len(r.Writes)-1].At+60_000
		if r.End.At <= wantEnd {
			wantFailure, wantEnd = FailTruncated, r.End.At // it closes without an end
		}
	}
	if r.End.How == "fin" {
		wantFailure = FailTruncated
	}
	if s.x.Failure != wantFailure {
		t.Errorf("failure %v %q, want %v", s.x.Failure, s.x.Err, wantFailure)
	}
	if got := ms(s.x.End - s.x.Start); got != wantEnd {
		t.Errorf("end at %v ms, want %v", got, wantEnd)
	}
	if got := ms(s.x.Headers - s.x.Start); got != r.HeadersAt {
		t.Errorf("headers at %v ms, want %v", got, r.HeadersAt)
	}
	if !s.x.KernelTimes {
		t.Error("no receive times")
	}
	kind := ""
	for _, h := range r.Headers {
		if strings.EqualFold(h[0], "Content-Type") {
			kind = h[1]
		}
	}
	wantFraming := FrameBody
	switch {
	case strings.HasPrefix(kind, "text/event-stream"):
		wantFraming = FrameSSE
	case strings.Contains(kind, "ndjson"):
		wantFraming = FrameNDJSON
	}
	if s.x.Framing != wantFraming {
		t.Fatalf("framing %d, want %d (%s)", s.x.Framing, wantFraming, kind)
	}
	if wantFraming == FrameBody {
		if s.body != string(body) {
			t.Errorf("body %.60q, want %.60q", s.body, body)
		}
		return
	}
	plain := body
	if s.x.Compressed {
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if plain, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	want, ends := reference(wantFraming, string(plain))
	for i := range want {
		if s.x.Compressed {
			want[i].MS = s.events[i].MS // which write holds which byte is the encoder's secret
			continue
		}
		n := 0
		for j := range r.Writes {
			b, _ := r.Writes[j].Bytes()
			n += len(b)
			if n >= ends[i] {
				want[i].MS = r.Writes[j].At
				break
			}
		}
	}
	got := make([]seenEvent, len(s.events))
	copy(got, s.events)
	for i := range got {
		got[i].Read = 0
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	if s.x.ReceivedBytes != int64(len(body)) {
		t.Errorf("received %d bytes, want %d", s.x.ReceivedBytes, len(body))
	}
}

// TestCompressedTimes is case 042: a compressed stream that nobody asked for is
// decoded as its flushes come.
func TestCompressedTimes(t *testing.T) {
	bubble(t, getCase(t, "042"), Config{}, func(t *testing.T, c *Client, p *play.Server) {
		s := exchange(t.Context(), c, &Request{URL: p.URL(), Body: []byte("{}")}, done)
		var got []float64
		for _, ev := range s.events {
			got = append(got, ev.MS)
		}
		if d := cmp.Diff([]float64{100, 120, 140, 141, 141}, got); d != "" || !s.x.Compressed {
			t.Errorf("compressed %v, event times (-want +got):\n%s", s.x.Compressed, d)
		}
		if enc := p.Requests()[0].Header.Get("Accept-Encoding"); enc != "identity" {
			t.Errorf("asked for encoding %q", enc)
		}
	})
}

// TestDoneFreesTheSlot is case 019: the terminal event ends the exchange, and a
// body that stays open costs its connection but hardly any time.
func TestDoneFreesTheSlot(t *testing.T) {
	bubble(t, getCase(t, "019"), Config{}, func(t *testing.T, c *Client, p *play.Server) {
		for i := range 5 {
			s := exchange(t.Context(), c, &Request{URL: p.URL(), Body: []byte("{}")}, done)
			if s.x.Failure != NoFailure || ms(s.x.End-s.x.Start) != 122 {
				t.Errorf("failure %v, end at %v ms, want 122", s.x.Failure, ms(s.x.End-s.x.Start))
			}
			held := ms(c.cfg.Now() - s.x.End)
			if want := ms(int64(closeGrace)); i < lateCount && held != want || i >= lateCount && held != 0 {
				t.Errorf("exchange %d held its caller %v ms after the end", i, held)
			}
			synctest.Wait()
			got := p.Requests()[i]
			if gone := got.Gone.Sub(got.Read); gone > 130*time.Millisecond || gone <= 0 {
				t.Errorf("server saw the connection close at %v", gone)
			}
			if s.x.Reused {
				t.Error("connection was reused")
			}
		}
	})
}

// TestIdleTimeout is case 020: silence is counted from the last byte.
func TestIdleTimeout(t *testing.T) {
	bubble(t, getCase(t, "020"), Config{}, func(t *testing.T, c *Client, p *play.Server) {
		s := exchange(t.Context(), c, &Request{URL: p.URL(), Body: []byte("{}"), IdleTimeout: 2 * time.Second}, done)
		if s.x.Failure != FailIdleTimeout || len(s.events) != 2 || ms(s.x.End-s.x.Start) != 2120 {
			t.Errorf("failure %v %q, %d events, end at %v ms; want idle_timeout, 2, 2120", s.x.Failure, s.x.Err, len(s.events), ms(s.x.End-s.x.Start))
		}
	})
}

// TestTotalTimeout is case 064: only an explicit total limit cuts a healthy stream.
func TestTotalTimeout(t *testing.T) {
	bubble(t, getCase(t, "064"), Config{}, func(t *testing.T, c *Client, p *play.Server) {
		r := &Request{URL: p.URL(), Body: []byte("{}"), HeaderTimeout: time.Second, IdleTimeout: time.Second}
		s := exchange(t.Context(), c, r, done)
		if s.x.Failure != NoFailure || len(s.events) < 12 {
			t.Errorf("without a total limit: %v %q, %d events", s.x.Failure, s.x.Err, len(s.events))
		}
		r.TotalTimeout = 3*time.Second + time.Millisecond
		s = exchange(t.Context(), c, r, done)
		if s.x.Failure != FailTotalTimeout || len(s.events) != 7 || ms(s.x.End-s.x.Start) != 3001 {
			t.Errorf("failure %v %q, %d events, end at %v ms; want total_timeout, 7, 3001", s.x.Failure, s.x.Err, len(s.events), ms(s.x.End-s.x.Start))
		}
	})
}

// TestKeepAliveRace is case 060: a connection that the server closes just as it
// is reused costs no failed request and no hidden repeat.
func TestKeepAliveRace(t *testing.T) {
	bubble(t, getCase(t, "060"), Config{}, func(t *testing.T, c *Client, p *play.Server) {
		r := &Request{URL: p.URL(), Body: []byte("{}")}
		first := exchange(t.Context(), c, r, done)
		second := exchange(t.Context(), c, r, done)
		if first.x.Failure != NoFailure || second.x.Failure != NoFailure {
			t.Fatalf("failures %v, %v %q", first.x.Failure, second.x.Failure, second.x.Err)
		}
		x := &second.x
		if x.Resends != 1 || x.FirstSend == unset || x.FirstSend > x.Start || x.Reused {
			t.Errorf("resends %d, first send %d, start %d, reused %v", x.Resends, x.FirstSend, x.Start, x.Reused)
		}
		if n := len(p.Requests()); n != 3 || p.Connections() != 2 {
			t.Errorf("server saw %d requests on %d connections, want 3 on 2", n, p.Connections())
		}
		if e := c.Endpoints()[0]; e.Stale != 1 || e.Reused != 1 || e.Opened != 2 || e.ReuseOff {
			t.Errorf("%+v", e)
		}
	})
}

// TestFreshConnectionIsNotResent checks that only a reused connection's death is
// forgiven.
func TestFreshConnectionIsNotResent(t *testing.T) {
	s := script(t, `{"accept":"drop","status":0,"framing":"close","end":{"how":"fin"}}`)
	bubble(t, s, Config{}, func(t *testing.T, c *Client, p *play.Server) {
		got := exchange(t.Context(), c, &Request{URL: p.URL(), Body: []byte("{}")}, nil)
		if got.x.Failure != FailReset || got.x.Resends != 0 || len(p.Requests()) != 1 {
			t.Errorf("failure %v %q, %d resends, %d requests", got.x.Failure, got.x.Err, got.x.Resends, len(p.Requests()))
		}
	})
}

// TestReuseGivenUp lets a server drop every second request of a connection.
func TestReuseGivenUp(t *testing.T) {
	ok := `{"status":200,"headers":[["Content-Type","text/event-stream"],["Connection","keep-alive"]],"framing":"chunked",
		"writes":[{"at_ms":1,"text":"data: [DONE]\n\n"}],"end":{"at_ms":1,"how":"eof"}}`
	drop := `{"accept":"drop","status":0,"framing":"close","end":{"how":"fin"}}`
	// Each stale death takes two requests of the player: the dropped one and its
	// repeat; the repeat's connection is then reused by the next.
	s := script(t, strings.Join([]string{ok, drop, ok, drop, ok, drop, ok}, ","))
	bubble(t, s, Config{}, func(t *testing.T, c *Client, p *play.Server) {
		for i := range 8 {
			got := exchange(t.Context(), c, &Request{URL: p.URL(), Body: []byte("{}")}, done)
			if got.x.Failure != NoFailure {
				t.Fatalf("request %d: %v %q", i, got.x.Failure, got.x.Err)
			}
		}
		e := c.Endpoints()[0]
		if !e.ReuseOff || e.Stale != 3 {
			t.Errorf("%+v, want reuse given up after 3", e)
		}
		all := p.Requests()
		if last := all[len(all)-1]; last.Header.Get("Connection") != "close" {
			t.Errorf("last request's headers %v, want Connection: close", last.Header)
		}
	})
}
