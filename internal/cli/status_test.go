package cli

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plimsoll/internal/conduct"
	"plimsoll/internal/detail"
	"plimsoll/internal/live"
	"plimsoll/internal/record"
)

var escape = regexp.MustCompile(`^\x1b\[(\d*)([AKJ])`)

// screen returns what stands on a terminal after it was sent text.
func screen(t *testing.T, text string) []string {
	t.Helper()
	lines, row, col := []string{""}, 0, 0
	for len(text) > 0 {
		if m := escape.FindStringSubmatch(text); m != nil {
			switch n, _ := strconv.Atoi(m[1]); m[2] {
			case "A":
				if row -= n; row < 0 {
					t.Fatalf("it goes above the top before %q", text)
				}
			case "K":
				lines[row] = string([]rune(lines[row])[:col])
			case "J":
				lines = lines[:row+1]
			}
			text = text[len(m[0]):]
			continue
		}
		c, n := utf8.DecodeRuneInString(text)
		text = text[n:]
		switch c {
		case '\r':
			col = 0
		case '\n': // the terminal's driver adds the return
			row, col = row+1, 0
			if row == len(lines) {
				lines = append(lines, "")
			}
		default:
			l := []rune(lines[row])
			lines[row] = string(append(l[:col:col], c)) + string(l[min(col+1, len(l)):])
			col++
		}
	}
	return lines
}

// TestStatusOnATerminal: ten lines are redrawn in their place, marks stay above them, and
// nothing is left at the end.
func TestStatusOnATerminal(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&Env{Stderr: &out, StderrTTY: true}, false)
	p.status = newStatus()
	c := conduct.Progress{Phase: record.Steady, Steps: 1, Users: 4, Share: 0.35, Left: 39 * time.Second}
	s := &live.Snapshot{
		T: 1000, Header: live.Header{InFlight: 4, Users: 4, Sessions: 4, Failures: 2, FailureShare: new(0.02)},
		Added: []detail.Series{{ID: 0, Signal: "requests_running", Stat: "value"}, {ID: 1, Signal: "requests_running", Stat: "value", Source: "a"}, {ID: 2, Signal: "client.output_tokens", Stat: "rate"}},
		Cells: []live.Cell{{Series: 0, Value: 3}, {Series: 1, Value: 9}, {Series: 2, Value: 250}},
		Bands: []live.Band{{Figure: "ttft", T: 0, Count: 1, P50: 120, P95: 410, Max: 900}, {Figure: "ttft", Workload: "chat", T: 0, Count: 1, P50: 1}},
	}
	p.snapshot(s) // before the first progress: kept, not drawn
	if out.Len() > 0 {
		t.Fatalf("%q was drawn", out.String())
	}
	p.show(c)
	want := []string{
		"[===>      ]  35 %  39s left  4 users  0 done/s  0 tokens/s  0 ok",
		"load      4 in flight  4 users  4 sessions",
		"requests  2 failed  2.00 % of the last",
		"ttft      p50 120  p95 410  max 900 ms           █",
		"tpot      -",
		"itl       -",
		"e2e       -",
		"tokens    250/s out                              █",
		"server    3 running",
		"client",
	}
	if d := cmp.Diff(want, screen(t, out.String())); d != "" {
		t.Errorf("on the terminal (-want +got)\n%s", d)
	}
	// A mark is told above; the figures of a second that was without requests are those before.
	mark := detail.Mark{T: 2000, Kind: "threshold", Severity: "fail", Text: "ttft p95 is over 500ms: 612 ms"}
	p.snapshot(&live.Snapshot{T: 2000, Marks: []detail.Mark{{T: 1500, Kind: "phase", Text: "steady"}, mark}, Cells: []live.Cell{{Series: 2, Value: 125}}})
	mark.To = new(detail.Ms(5000))
	p.snapshot(&live.Snapshot{T: 12000, Marks: []detail.Mark{mark}})
	want = append([]string{"2.00 s: ttft p95 is over 500ms: 612 ms", "5.00 s: no longer: ttft p95 is over 500ms: 612 ms"}, want...)
	want[3], want[4], want[5], want[9] = "load      0 in flight  0 users  0 sessions", "requests  0 failed", "ttft      -                                      █", "tokens    125/s out                              █▅▅"
	if d := cmp.Diff(want, screen(t, out.String())); d != "" {
		t.Errorf("with marks (-want +got)\n%s", d)
	}
	c.Over = true
	p.show(c)
	p.close()
	p.snapshot(s) // one that comes late draws nothing
	if d := cmp.Diff(append(want[:2:2], ""), screen(t, out.String())); d != "" {
		t.Errorf("in the end (-want +got)\n%s", d)
	}
}

// TestStatusFits: whatever the figures, lines have fewer than 80 columns and there are nine.
func TestStatusFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStatus()
		value := rapid.OneOf(rapid.Float64Range(0, 1), rapid.Float64Range(0, 1e12))
		ms := func(what string) detail.Ms { return detail.Ms(value.Draw(t, what)) }
		for i := range rapid.IntRange(0, 40).Draw(t, "snapshots") {
			x := &live.Snapshot{T: detail.Ms(1000 * i), Header: live.Header{InFlight: rapid.Int64Min(0).Draw(t, "in flight"), Failures: rapid.Int64Min(0).Draw(t, "failed"), FailureShare: new(rapid.Float64Range(0, 1).Draw(t, "share")), GoodputRPS: new(value.Draw(t, "goodput"))}}
			for id, name := range []string{
				"client.waiting_first_token value", "client.requests_sent rate", "client.requests_ok rate", "client.output_tokens rate", "client.prompt_tokens rate",
				"requests_running value", "requests_waiting value", "kv_cache_usage value", "client.send_lag p99", "client.canary_lag p99", "client.cpu value",
			} {
				signal, stat, _ := strings.Cut(name, " ")
				x.Added = append(x.Added, detail.Series{ID: id, Signal: signal, Stat: stat})
				if rapid.Bool().Draw(t, "known") {
					x.Cells = append(x.Cells, live.Cell{Series: id, T: x.T, Value: value.Draw(t, name)})
				}
			}
			for _, f := range []string{"ttft", "itl"} {
				x.Bands = append(x.Bands, live.Band{Figure: f, T: x.T, P50: ms("p50"), P95: ms("p95"), Max: ms("max")})
			}
			s.add(x)
			lines := s.lines()
			if len(lines) != statusLines {
				t.Fatalf("%d lines", len(lines))
			}
			for _, l := range lines {
				if n := utf8.RuneCountInString(l); n >= 80 || strings.ContainsAny(l, "\n\r\x1b") {
					t.Fatalf("%d columns: %q", n, l)
				}
			}
		}
	})
}
