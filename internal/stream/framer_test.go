package stream

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httputil"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// frame feeds body to a framer in pieces whose lengths cut gives, and returns
// the events, each with the number of bytes that had been fed when it came out.
func frame(kind Framing, body []byte, cut func(left int) int) (events []seenEvent, fed []int) {
	f := framer{kind: kind}
	at := 0
	take := func() {
		events = append(events, seenEvent{Name: string(f.name), Data: string(f.data)})
		fed = append(fed, at)
	}
	for at < len(body) {
		room := f.room()
		n := copy(room, body[at:at+min(len(body)-at, max(1, cut(len(body)-at)))])
		f.took(n)
		at += n
		for f.next() {
			take()
		}
	}
	if f.last() {
		take()
	}
	return events, fed
}

func checkFraming(t *testing.T, kind Framing, body []byte, cut func(left int) int) {
	t.Helper()
	want, ends := reference(kind, string(body))
	got, fed := frame(kind, body, cut)
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("%q (-want +got):\n%s", body, d)
	}
	for i := range fed {
		if fed[i] < ends[i] {
			t.Fatalf("%q: event %d came after %d bytes, it ends at %d", body, i, fed[i], ends[i])
		}
	}
	// Byte by byte: each event comes out with its last byte, not later.
	got, fed = frame(kind, body, func(int) int { return 1 })
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("%q byte by byte (-want +got):\n%s", body, d)
	}
	if d := cmp.Diff(ends, fed); d != "" {
		t.Fatalf("%q: bytes fed when each event came (-want +got):\n%s", body, d)
	}
}

// TestFramerTable is one form of SSE a line.
func TestFramerTable(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	tests := []struct {
		body string
		want []string // name|data
	}{
		{"data: a\n\ndata: b\n\n", []string{"|a", "|b"}},
		{"data: a\r\n\r\ndata: b\r\n\r\n", []string{"|a", "|b"}},
		{"data: a\r\rdata: b\r\r", []string{"|a", "|b"}},
		{"data: a\r\n\ndata: b\n\r\ndata: c\r\n\r", []string{"|a", "|b", "|c"}},
		{"\xef\xbb\xbfdata: a\n\n", []string{"|a"}},
		{"\xef\xbb\xbf\n\ndata: \xef\xbb\xbfa\n\n", []string{"|\xef\xbb\xbfa"}},
		{":\n\n: ping\n\ndata: a\n:x\ndata: b\n\n", []string{"|a\nb"}},
		{"data:a\n\ndata:  b\n\ndata:\n\ndata\n\n", []string{"|a", "| b", "|", "|"}},
		{"data: a\ndata:\ndata: c\n\n", []string{"|a\n\nc"}},
		{"event: ping\n\nevent: done\ndata: a\n\ndata: b\n\n", []string{"done|a", "|b"}},
		{"event: one\nevent: two\nid: 3\nretry: 4\nfoo: bar\ndata: a\n\n", []string{"two|a"}},
		{"DATA: a\n\n data: b\n\ndatax: c\n\n", nil},
		{"data: a\n\ndata: [DONE]", []string{"|a", "|[DONE]"}},
		{"data: a\n\ndata: [DONE]\n", []string{"|a", "|[DONE]"}},
		{"data: a\n\ndata: [DONE]\r", []string{"|a", "|[DONE]"}},
		{"data: a\n\ndata: b\ndata: c", []string{"|a", "|b\nc"}},
		{"data: a\n\nda", []string{"|a"}},
		{"data: a:b: c\n\n", []string{"|a:b: c"}},
		{"data: " + long + "\n\ndata: a\n\n", []string{"|" + long, "|a"}},
		{"event: " + long + "\ndata: a\ndata: b\n\n", []string{long + "|a\nb"}},
		{"\n\n\r\r\r\n", nil},
		{"", nil},
	}
	for _, tt := range tests {
		for _, size := range []int{1, 2, 3, 7, 1000, 1 << 20} {
			var got []string
			events, _ := frame(FrameSSE, []byte(tt.body), func(int) int { return size })
			for _, ev := range events {
				got = append(got, ev.Name+"|"+ev.Data)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("%.60q in pieces of %d (-want +got):\n%s", tt.body, size, d)
			}
		}
	}
}

// TestLinesTable is NDJSON.
func TestLinesTable(t *testing.T) {
	tests := []struct {
		body string
		want []string
	}{
		{"{}\n[1]\n", []string{"{}", "[1]"}},
		{"{}\r\n\r\n \n{\"a\":\"\\r\"}\r\n", []string{"{}", "{\"a\":\"\\r\"}"}},
		{"\xef\xbb\xbf{}\n{}", []string{"{}", "{}"}},
		{"\n\n", nil},
		{"{", []string{"{"}},
	}
	for _, tt := range tests {
		for _, size := range []int{1, 2, 1000} {
			var got []string
			events, _ := frame(FrameNDJSON, []byte(tt.body), func(int) int { return size })
			for _, ev := range events {
				got = append(got, ev.Data)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("%q in pieces of %d (-want +got):\n%s", tt.body, size, d)
			}
		}
	}
}

// TestAnySplit lets chance compose bodies and cut them.
func TestAnySplit(t *testing.T) {
	piece := rapid.SampledFrom([]string{
		"data", ":", " ", "\n", "\r", "\r\n", "\n\n", "event", "data: ", "id: 1", "\xef\xbb\xbf", "{}", "é", "x",
		"data: " + strings.Repeat("y", 3000),
	})
	rapid.Check(t, func(r *rapid.T) {
		body := strings.Join(rapid.SliceOfN(piece, 0, 40).Draw(r, "pieces"), "")
		kind := rapid.SampledFrom([]Framing{FrameSSE, FrameNDJSON}).Draw(r, "kind")
		checkFraming(t, kind, []byte(body), func(int) int { return rapid.IntRange(1, 50).Draw(r, "cut") })
	})
}

func FuzzFramer(f *testing.F) {
	for _, s := range []string{"data: a\n\n", "data:a\r\n\r\ndata: b", "\xef\xbb\xbfevent: x\rdata: a\r\r", ":\n\ndata: a\ndata: b\n\n", "{}\n{}\r\n"} {
		f.Add([]byte(s), uint64(1), false)
		f.Add([]byte(s), uint64(2), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, seed uint64, lines bool) {
		if len(body) > 4096 {
			return
		}
		kind := FrameSSE
		if lines {
			kind = FrameNDJSON
		}
		r := rand.New(rand.NewPCG(seed, 0))
		checkFraming(t, kind, body, func(left int) int { return 1 + r.IntN(left) })
	})
}

// FuzzWire compares the follower of chunks with the library's decoder on the
// same bytes: it must never claim more payload than there is, however the bytes
// are cut, and all of it when they are right.
func FuzzWire(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n", uint64(1))
	f.Add("HTTP/1.1 103 X\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\nB: c\r\n\r\n", "5;x=y\r\nhello\r\nA\r\n0123456789\r\n00\r\nT: r\r\n\r\n", uint64(2))
	f.Add("HTTP/1.1 200 OK\n\n", "1\r\na\r\n1\r\nb\r\n", uint64(3))
	f.Add("HTTP/1.1 200 OK\r\n\r\n", "0000000000000005\r\nhello\r\n0000000000000000\r\n\r\n", uint64(4))
	f.Add("HTTP/1.1 200 OK\r\n\r\n", "fffffffffffffff0\r\nhello", uint64(5))
	f.Fuzz(func(t *testing.T, head, body string, seed uint64) {
		if len(head)+len(body) > 4096 || len(head) == 0 {
			return
		}
		whole := feed([]byte(head+body), func(left int) int { return left })
		r := rand.New(rand.NewPCG(seed, 0))
		split := feed([]byte(head+body), func(left int) int { return 1 + r.IntN(left) })
		single := feed([]byte(head+body), func(int) int { return 1 })
		for _, w := range []*wire{&split, &single} {
			w.begun = whole.begun
			if *w != whole {
				t.Fatalf("cut up %+v, whole %+v", *w, whole)
			}
		}
		if w := feed([]byte(head), func(left int) int { return left }); w.state != wireSize || w.raw != 0 {
			return // not a header block
		}
		payload, err := io.ReadAll(httputil.NewChunkedReader(strings.NewReader(body)))
		switch {
		case err == nil && whole.payload != int64(len(payload)):
			t.Fatalf("%q: %d payload bytes, want %d", body, whole.payload, len(payload))
		case err == nil && whole.state != wireDone && whole.state != wireTrailer:
			t.Fatalf("%q: state %d at the end", body, whole.state)
		}
	})
}

func feed(b []byte, cut func(left int) int) wire {
	var w wire
	for len(b) > 0 {
		n := max(1, min(len(b), cut(len(b))))
		w.feed(b[:n])
		b = b[n:]
	}
	return w
}

// TestSniff judges bodies by media type and first bytes.
func TestSniff(t *testing.T) {
	tests := []struct {
		kind, body string
		complete   bool
		want       Framing
		sure       bool
	}{
		{"text/event-stream", "", false, FrameBody, false},
		{"text/event-stream", "", true, FrameSSE, true},
		{"text/event-stream", "d", false, FrameBody, false},
		{"text/event-stream", ": ping", false, FrameSSE, true},
		{"text/event-stream", "x: y\n", false, FrameSSE, true},
		{"text/event-stream", `{"error":1}`, false, FrameBody, true},
		{"text/event-stream", "<html>", false, FrameBody, true},
		{"application/json", "\n\ndata: x", false, FrameSSE, true},
		{"application/json", "da", false, FrameBody, false},
		{"application/json", "da", true, FrameBody, true},
		{"application/json", "{}\n{}\n", false, FrameBody, true},
		{"application/x-ndjson", "{}", false, FrameNDJSON, true},
		{"application/x-ndjson", "data: x", false, FrameSSE, true},
		{"", "\xef\xbb\xbfevent: x", false, FrameSSE, true},
		{"", "{\"a\":", false, FrameBody, false},
		{"", "{\"a\":1}", true, FrameBody, true},
		{"", "{\"a\":1}\n", true, FrameBody, true},
		{"", "{\"a\":1}\n", false, FrameNDJSON, true},
		{"", "{\"a\":1}\n{\"a\"", true, FrameNDJSON, true},
		{"text/plain", "{\n\"a\":1}", false, FrameBody, true},
		{"text/plain", "hello", false, FrameBody, true},
		{"text/html", "<html>", false, FrameBody, true},
		{"text/html", "retr", false, FrameBody, false},
	}
	for _, tt := range tests {
		got, sure := sniff(tt.kind, []byte(tt.body), tt.complete)
		if sure != tt.sure || sure && got != tt.want {
			t.Errorf("sniff(%q, %q, %v) = %d, %v; want %d, %v", tt.kind, tt.body, tt.complete, got, sure, tt.want, tt.sure)
		}
	}
}

// TestFramerKeepsMemoryLow lets a body without a single event pass.
func TestFramerKeepsMemoryLow(t *testing.T) {
	for _, line := range []string{"<p>hello</p>\n", ": ping\n\n", "id: 7\n", "\r\n", "event: tick\n"} {
		f := framer{kind: FrameSSE}
		for range 10_000 {
			f.took(copy(f.room(), line))
			if f.next() {
				t.Fatalf("%q is no event", line)
			}
		}
		if cap(f.buf) > 4*bufferSize {
			t.Errorf("%q: buffer of %d bytes", line, cap(f.buf))
		}
	}
	f := framer{kind: FrameSSE, buf: make([]byte, 0, bufferKeep+1)}
	f.join = append(f.join, bytes.Repeat([]byte("x"), 10)...)
	if f.reset(); cap(f.buf) != 0 || cap(f.join) == 0 {
		t.Errorf("reset kept %d and %d bytes", cap(f.buf), cap(f.join))
	}
	if s := fmt.Sprint(f.kind); s != "0" {
		t.Errorf("reset left kind %s", s)
	}
}
