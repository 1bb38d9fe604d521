package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"plimsoll/internal/conduct"
	"plimsoll/internal/live"
	"plimsoll/internal/record"
	"plimsoll/internal/report"
)

// plainInterval is how often a line of progress is written where no terminal
// redraws it.
const plainInterval = 10 * time.Second

// progress shows how far a run has come on standard error: one line that is
// redrawn on a terminal, a line every 10 s elsewhere, nothing when quiet.
type progress struct {
	w          io.Writer
	tty, quiet bool
	// begun is told the folder once, when there is one; nil for nobody.
	begun func(folder string)

	mu       sync.Mutex
	drawn    int  // how many lines stand on the terminal
	stopping bool // the user has been told
	said     time.Duration
	// before tells, when nothing has begun yet, what takes time; after does when the
	// load is over.
	before, after *time.Timer
	// status is what stands below the line with --live, nil without; line is the last
	// line of progress.
	status *status
	line   string
	over   bool // nothing of the run is drawn any more
	made   bool // it was said that what the panel draws is made
}

// workingAfter is how long what has no line of its own may take before it is said.
const workingAfter = 2 * time.Second

func newProgress(env *Env, quiet bool) *progress {
	return &progress{w: env.Stderr, tty: env.StderrTTY, quiet: quiet}
}

// prepare says what is being done if that takes long: until the first line, or the end.
func (p *progress) prepare(what string) {
	if p.quiet {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before = time.AfterFunc(workingAfter, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.before != nil {
			_, _ = io.WriteString(p.w, report.Cut(report.Printable(what), report.Width-1)+"\n")
		}
	})
}

// prepared ends what prepare began, with the lock held.
func (p *progress) prepared() {
	if p.before != nil {
		p.before.Stop()
		p.before = nil
	}
}

// note says what is known of the load before it begins.
func (p *progress) note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	for _, line := range report.Wrap("note: "+report.Printable(text), report.Width-1) {
		_, _ = io.WriteString(p.w, line+"\n")
	}
}

// show is called about once a second.
func (p *progress) show(c conduct.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prepared()
	if p.begun != nil && c.Folder != "" {
		p.clear()
		p.begun(c.Folder)
		p.begun = nil
	}
	if c.Stopping && !c.Over && !p.stopping {
		p.stopping = true
		p.clear()
		_, _ = fmt.Fprintf(p.w, "stopping: %s in flight may end; Ctrl-C again stops at once\n",
			report.Plural(c.Counts.InFlight, "request"))
	}
	if p.quiet {
		return
	}
	if c.Making > 0 {
		p.making(c.Making)
		return
	}
	if c.Over && p.after == nil {
		p.after = time.AfterFunc(workingAfter, p.working)
	}
	line := report.Cut(report.Printable(progressLine(&c)), report.Width-1)
	switch {
	case p.tty:
		p.line = line
		p.draw()
	case c.Over, c.Elapsed-p.said >= plainInterval:
		p.said = c.Elapsed
		_, _ = io.WriteString(p.w, line+"\n")
	}
}

// working says that the load is over and the figures are not ready yet.
func (p *progress) working() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.after == nil {
		return // closed
	}
	p.clear()
	p.over = true
	_, _ = io.WriteString(p.w, "working out the figures\n")
}

// making says how much is made of what the panel draws: on a line that is redrawn, or
// once.
func (p *progress) making(share float64) {
	if p.after != nil {
		p.after.Stop() // the figures are worked out
	}
	said := p.made
	p.over, p.made = true, true
	const text = "making what the panel draws"
	switch {
	case p.tty:
		p.clear()
		_, _ = fmt.Fprintf(p.w, "%s  %.0f %%", text, 100*share)
		p.drawn = 1
	case !said:
		_, _ = io.WriteString(p.w, text+"\n")
	}
}

// draw writes what stands on the terminal anew, in one piece so that it does not
// flicker.
func (p *progress) draw() {
	var b strings.Builder
	p.top(&b)
	b.WriteString("\r\x1b[K" + p.line)
	p.drawn = 1
	if p.status != nil {
		for _, l := range p.status.lines() {
			b.WriteString("\n\x1b[K" + report.Printable(l))
			p.drawn++
		}
	}
	_, _ = io.WriteString(p.w, b.String())
}

// top goes to the first of the lines that stand there.
func (p *progress) top(b *strings.Builder) {
	if p.drawn > 1 {
		fmt.Fprintf(b, "\x1b[%dA", p.drawn-1)
	}
}

// watch shows the snapshots of a run below the line of progress until the run has
// ended or ctx has.
func (p *progress) watch(ctx context.Context, r *live.Reader) {
	for {
		x, err := r.Next(ctx)
		if errors.Is(err, live.ErrResync) {
			continue // what is shown is of the newest anyway
		}
		if err != nil {
			return
		}
		p.snapshot(x)
	}
}

func (p *progress) snapshot(x *live.Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.line == "" || p.over {
		p.status.add(x)
		return
	}
	for i := range x.Marks {
		if text := tellMark(&x.Marks[i]); text != "" {
			p.clear()
			_, _ = io.WriteString(p.w, report.Cut(report.Printable(text), report.Width-1)+"\n")
		}
	}
	p.status.add(x)
	p.draw()
}

func (p *progress) clear() {
	if p.drawn > 0 {
		var b strings.Builder
		p.top(&b)
		b.WriteString("\r\x1b[K")
		if p.drawn > 1 {
			b.WriteString("\x1b[J") // and all that is below
		}
		_, _ = io.WriteString(p.w, b.String())
		p.drawn = 0
	}
}

// close takes the line away.
func (p *progress) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prepared()
	if p.after != nil {
		p.after.Stop()
		p.after = nil
	}
	p.clear()
	p.over = true
}

const barWidth = 10

// progressLine is one line of fewer than 80 columns:
// [===>      ]  35 %  39s left  4 users  2.00 done/s  128 tokens/s  24 ok
// What matters less goes when there is no room.
func progressLine(c *conduct.Progress) string {
	head, bar := "", ""
	stopping := c.Stopping && !c.Over
	if c.Share >= 0 && !stopping {
		n := min(barWidth, int(c.Share*barWidth))
		bar = strings.Repeat("=", n)
		if n < barWidth {
			bar += ">" + strings.Repeat(" ", barWidth-n-1)
		}
		bar = "[" + bar + "] "
		head = fmt.Sprintf("%3.0f %%  ", 100*c.Share)
	}
	switch {
	case stopping:
		// The plan's end is no longer what is waited for.
		head = "stopping, " + report.Plural(c.Counts.InFlight, "request") + " in flight"
	case c.Over && c.Share < 1:
		head += "ended after " + report.Seconds(c.Elapsed.Seconds())
	case c.Over:
		head += "done in " + report.Seconds(c.Elapsed.Seconds())
	case c.Phase == record.Drain && c.Step == c.Steps-1:
		head += report.Count(c.Counts.InFlight) + " to drain"
	case c.Left >= 0:
		head += seconds(c.Left) + " left"
	default:
		head += seconds(c.Elapsed)
	}
	level := report.Figure(c.Rate) + "/s"
	switch {
	case c.Users > 0 && c.Rate > 0:
		level = report.Plural(c.Users, "user") + " + " + level
	case c.Users > 0:
		level = report.Plural(c.Users, "user")
	}
	if c.Steps > 1 {
		level = fmt.Sprintf("step %d/%d: %s", c.Step+1, c.Steps, level)
	}
	switch {
	case c.Phase == record.Warmup && !c.Over && !stopping:
		level += ", warm-up"
	case c.Users == 0:
		level += " asked"
	}
	tail := "  " + report.Count(c.Counts.OK) + " ok"
	if n := c.Counts.Failed; n > 0 {
		tail += "  " + report.Count(n) + " failed"
	}
	server := ""
	if n := c.Server; n != nil && !c.Over {
		// What the servers have in hand says more than a bar.
		if n.Running != nil {
			server += "  " + report.Count(int64(math.Round(*n.Running))) + " running"
		}
		if n.Waiting != nil {
			server += "  " + report.Count(int64(math.Round(*n.Waiting))) + " waiting"
		}
		if n.KV != nil {
			server += "  kv " + report.Percent(*n.KV)
		}
	}
	rates, tokens := "", ""
	if !c.Over {
		rates, tokens = "  "+report.Figure(c.EndedPerS)+" done/s", "  "+report.Figure(c.TokensPerS)+" tokens/s"
	}
	core := head + "  " + level
	for _, line := range []string{
		bar + core + rates + tokens + server + tail, core + rates + tokens + server + tail,
		core + rates + server + tail, core + tokens + server + tail, core + server + tail,
		bar + core + rates + tokens + tail, core + rates + tokens + tail, core + rates + tail, core + tail,
	} {
		if utf8.RuneCountInString(line) < report.Width {
			return line
		}
	}
	return head + tail
}

// seconds writes a time to the second.
func seconds(d time.Duration) string { return d.Round(time.Second).String() }
