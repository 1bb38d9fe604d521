package cli

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"plimsoll/internal/conduct"
	"plimsoll/internal/load"
	"plimsoll/internal/record"
)

func TestProgressLine(t *testing.T) {
	f := func(want string, c conduct.Progress) {
		t.Helper()
		if got := progressLine(&c); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	base := conduct.Progress{
		Phase: record.Steady, Steps: 1, Users: 4, Share: 0.35, Left: 39 * time.Second, Elapsed: 21 * time.Second,
		EndedPerS: 2, TokensPerS: 128.4, Counts: load.Snapshot{OK: 24},
	}
	f("[===>      ]  35 %  39s left  4 users  2.00 done/s  128 tokens/s  24 ok", base)
	c := base
	c.Phase, c.Counts.Failed = record.Warmup, 2
	f(" 35 %  39s left  4 users, warm-up  2.00 done/s  128 tokens/s  24 ok  2 failed", c)
	c = base
	c.Share, c.Left = 0.5, -1
	f("[=====>    ]  50 %  21s  4 users  2.00 done/s  128 tokens/s  24 ok", c)
	c = base
	c.Phase, c.Share, c.Counts.InFlight = record.Drain, 1, 1
	f("[==========] 100 %  1 to drain  4 users  2.00 done/s  128 tokens/s  24 ok", c)
	c = base
	c.Steps, c.Step, c.Users, c.Rate = 3, 1, 0, 2.5
	f(" 35 %  39s left  step 2/3: 2.50/s asked  2.00 done/s  128 tokens/s  24 ok", c)
	c.Steps, c.Step, c.Rate, c.TokensPerS, c.Counts.Failed = 100, 99, 12_345, 1e6, 1e6
	f(" 35 %  39s left  step 100/100: 12,345/s asked  24 ok  1,000,000 failed", c)
	c = base
	c.Stopping, c.Counts.InFlight = true, 2
	f("stopping, 2 requests in flight  4 users  2.00 done/s  128 tokens/s  24 ok", c)
	c = base
	c.Server = &conduct.ServerNow{Running: new(12.0), Waiting: new(3.0), KV: new(0.412)}
	f(" 35 %  39s left  4 users  2.00 done/s  12 running  3 waiting  kv 41.2 %  24 ok", c)
	c.Server = &conduct.ServerNow{Running: new(0.0)}
	f(" 35 %  39s left  4 users  2.00 done/s  128 tokens/s  0 running  24 ok", c)
	c.Steps, c.Step, c.Users, c.Rate = 3, 1, 0, 2.5
	f(" 35 %  39s left  step 2/3: 2.50/s asked  2.00 done/s  0 running  24 ok", c)
	c = base
	c.Over, c.Share = true, 1
	f("[==========] 100 %  done in 21.0 s  4 users  24 ok", c)
	c.Share = 0.2
	f("[==>       ]  20 %  ended after 21.0 s  4 users  24 ok", c)
}

// What the panel draws is made after all figures are known: on a terminal the line says
// how far that is, elsewhere one line says it once, and nothing does when quiet.
func TestProgressOfMaking(t *testing.T) {
	f := func(want string, tty, quiet bool) {
		t.Helper()
		var b bytes.Buffer
		p := newProgress(&Env{Stderr: &b, StderrTTY: tty}, quiet)
		p.show(conduct.Progress{Over: true, Making: 0.2, Share: -1, Left: -1})
		p.show(conduct.Progress{Over: true, Making: 0.75, Share: -1, Left: -1})
		p.close()
		if got := b.String(); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	f("making what the panel draws  20 %\r\x1b[Kmaking what the panel draws  75 %\r\x1b[K", true, false)
	f("making what the panel draws\n", false, false)
	f("", true, true)
}

// TestProgressOnATerminal: one line is redrawn and taken away at the end, and it
// never wraps.
func TestProgressOnATerminal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b bytes.Buffer
		p := newProgress(&Env{Stderr: &b, StderrTTY: true}, false)
		n := rapid.IntRange(1, 5).Draw(t, "calls")
		for range n {
			p.show(conduct.Progress{
				Steps: rapid.IntRange(1, 1000).Draw(t, "steps"), Users: rapid.IntRange(0, 1_000_000).Draw(t, "users"),
				Share: rapid.Float64Range(-1, 1).Draw(t, "share"), Rate: 123_456, TokensPerS: 1e9, EndedPerS: 1e7,
				Counts: load.Snapshot{OK: 1e12, Failed: 1e12},
			})
		}
		p.close()
		out := b.String()
		if strings.Contains(out, "\n") || !strings.HasSuffix(out, "\r\x1b[K") {
			t.Fatalf("%q is not one line, taken away at the end", out)
		}
		for line := range strings.SplitSeq(out, "\r\x1b[K") {
			if utf8.RuneCountInString(line) >= 80 {
				t.Fatalf("the line wraps: %q", line)
			}
		}
	})
}

// TestPreparing: what takes long before the load is said once, unless it is quick.
func TestPreparing(t *testing.T) {
	f := func(quiet bool, wait time.Duration, want string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			var b bytes.Buffer
			p := newProgress(&Env{Stderr: &b, StderrTTY: true}, quiet)
			p.prepare("reading \x1b[2J x.csv")
			time.Sleep(wait)
			p.close()
			time.Sleep(time.Hour)
			if got := b.String(); got != want {
				t.Errorf("after %v: %q, want %q", wait, got, want)
			}
		})
	}
	f(false, workingAfter-1, "")
	f(false, workingAfter+1, "reading \\x1b[2J x.csv\n")
	f(true, time.Hour, "")
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		p := newProgress(&Env{Stderr: &b}, false)
		p.prepare("reading")
		p.show(conduct.Progress{Steps: 1, Users: 1})
		time.Sleep(time.Hour)
		p.close()
		if b.Len() > 0 {
			t.Errorf("%q although the load had begun", b.String())
		}
	})
}

// TestProgressElsewhere: a line every 10 s and one at the end.
func TestProgressElsewhere(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&Env{Stderr: &b}, false)
	for i := range 25 {
		p.show(conduct.Progress{Steps: 1, Users: 1, Share: 0.5, Elapsed: time.Duration(i+1) * time.Second})
	}
	p.show(conduct.Progress{Steps: 1, Users: 1, Share: 1, Elapsed: 26 * time.Second, Over: true})
	p.close()
	if n := strings.Count(b.String(), "\n"); n != 3 || strings.Contains(b.String(), "\x1b") {
		t.Errorf("%d lines, want 3 without control codes:\n%s", n, b.String())
	}
}

// TestProgressQuiet: nothing but what became of Ctrl-C.
func TestProgressQuiet(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&Env{Stderr: &b, StderrTTY: true}, true)
	p.show(conduct.Progress{Steps: 1, Users: 1})
	if b.Len() > 0 {
		t.Errorf("%q although quiet", b.String())
	}
	for range 3 {
		p.show(conduct.Progress{Steps: 1, Users: 1, Stopping: true, Counts: load.Snapshot{InFlight: 3}})
	}
	p.close()
	if got, want := b.String(), "stopping: 3 requests in flight may end; Ctrl-C again stops at once\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
