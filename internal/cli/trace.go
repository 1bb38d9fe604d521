package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"plimsoll/internal/report"
	"plimsoll/internal/workload/trace"
)

type traceCmd struct {
	Inspect traceInspectCmd `cmd:"" help:"What a trace or a data set holds, before anything is sent."`
	Convert traceConvertCmd `cmd:"" help:"Write a trace in another form."`
	Formats traceFormatsCmd `cmd:"" help:"The formats that can be read."`
}

// readFlags say how a trace is read.
type readFlags struct {
	Format   string            `name:"format" placeholder:"NAME" help:"The file's format, as plimsoll trace formats lists them; found from the content by default."`
	TimeUnit string            `name:"time-unit" placeholder:"U" help:"What the times are in: ns, us, ms or s; the format's own by default."`
	Block    int               `name:"block-size" placeholder:"N" help:"Tokens that one hash stands for; the format's own by default."`
	Column   map[string]string `name:"column" placeholder:"WHAT=NAME" help:"Which column or field holds what (timestamp, input, output, session, prompt, model, id, kind, images, took); may be repeated."`
	Turns    string            `name:"turns" placeholder:"HOW" help:"What rows of one session hold: cumulative (the whole prompt) or delta (what is new); what the file says by default."`
	KeepZero bool              `name:"keep-zero-output" help:"Keep rows without output tokens, as requests for one; they are left out by default."`
	Seed     uint64            `name:"seed" placeholder:"N" help:"Of formats that are models of users, not logs (ServeGen)."`
}

func (f *readFlags) options(a *app) trace.Options {
	return trace.Options{
		Done:   a.ctx.Done(),
		Format: f.Format, TimeUnit: trace.Unit(f.TimeUnit), BlockTokens: f.Block, Columns: f.Column, Turns: f.Turns, KeepZeroOutput: f.KeepZero, Seed: f.Seed,
	}
}

type traceInspectCmd struct {
	File string `arg:"" name:"file" help:"The trace, as it is or compressed with gzip; - is standard input."`
	readFlags
	outputFlag
}

func (*traceInspectCmd) Help() string {
	return "Reads the whole file and says how long it lasts, how many requests it has and how they come, how long they are, which conversations they belong to, how much of the prompts a cache that never forgets would find again, and what is not right with it. Nothing is sent, and nothing that a row points at is opened."
}

func (*traceInspectCmd) Examples() []string {
	return []string{
		"plimsoll trace inspect conversation_trace.jsonl",
		"plimsoll trace inspect BurstGPT_3.csv.gz --output json",
		"plimsoll trace inspect mine.csv --column input=in --column output=out",
	}
}

func (c *traceInspectCmd) Run(a *app) error {
	p := newProgress(a.env, false)
	p.prepare("reading " + c.File)
	defer p.close()
	opts := c.options(a)
	opts.OnBadRow = trace.Skip
	var s *trace.Summary
	var err error
	if c.File == "-" && a.env.Stdin != nil {
		var r *trace.Reader
		if r, err = trace.NewReader(a.env.Stdin, "standard input", opts); err == nil {
			defer r.Close()
			s, err = trace.InspectReader(r)
		}
	} else {
		s, err = trace.Inspect(a.env.path(c.File), opts)
	}
	if err != nil {
		return traceError(err, "inspect")
	}
	if c.Output == "json" {
		return a.printJSON(s)
	}
	return writeTrace(a.env.Stdout, s)
}

// traceError gives an error of a file its exit code and a way on: the help of the
// command that read it.
func traceError(err error, command string) error {
	e := &coded{code: exitUsage, err: err}
	if errors.Is(err, fs.ErrNotExist) {
		return e
	}
	e.hint = "see plimsoll trace " + command + " --help"
	return e
}

type traceConvertCmd struct {
	File string `arg:"" name:"file" help:"The trace, as it is or compressed with gzip."`
	To   string `name:"to" enum:"mooncake,plimsoll" default:"mooncake" placeholder:"FORM" help:"mooncake (JSON lines that most tools read) or plimsoll (JSON lines that lose nothing)."`
	Out  string `name:"out" placeholder:"FILE" help:"Where to write; standard output by default."`
	readFlags
	OnBadRow string        `name:"on-bad-row" default:"fail" placeholder:"WHAT" help:"fail, skip (leave such rows out) or fix (make hashes fit the length; leave out what cannot be mended)."`
	From     time.Duration `name:"from" placeholder:"D" help:"Leave out what begins before this time of the trace."`
	Until    time.Duration `name:"until" placeholder:"D" help:"Leave out what begins at this time of the trace or later."`
	Spread   bool          `name:"spread" help:"Distribute requests of one instant over the time to the next."`
	Limit    int           `name:"limit" placeholder:"N" help:"At most this many requests."`
}

func (*traceConvertCmd) Help() string {
	return "Times begin at 0. A row that is not right ends it with an error unless --on-bad-row says otherwise. What the form cannot hold is said on standard error."
}

func (*traceConvertCmd) Examples() []string {
	return []string{
		"plimsoll trace convert dynamo-request-trace.000001.jsonl.gz > mine.jsonl",
		"plimsoll trace convert BurstGPT_1.csv --from 24h --until 25h --out hour.jsonl",
		"plimsoll trace convert session.json --to plimsoll",
	}
}

func (c *traceConvertCmd) Run(a *app) (err error) {
	opts := c.options(a)
	opts.OnBadRow = trace.Policy(c.OnBadRow)
	if c.Limit < 0 {
		return usagef("trace convert: --limit %d: want at least 1", c.Limit)
	}
	w := a.env.Stdout
	if c.Out != "" {
		in, errIn := os.Stat(a.env.path(c.File))
		out, errOut := os.Stat(a.env.path(c.Out))
		if errIn == nil && errOut == nil && os.SameFile(in, out) {
			return usagef("trace convert: --out %s is the file that is read", c.Out)
		}
		f, finish, ferr := create(a.env.path(c.Out))
		if ferr != nil {
			return usagef("trace convert: %w", ferr)
		}
		defer func() { err = finish(err) }()
		w = f
	}
	p := newProgress(a.env, false)
	p.prepare("reading " + c.File)
	done, err := trace.Convert(w, a.env.path(c.File), c.To, opts, trace.Selection{From: c.From, To: c.Until, Spread: c.Spread, Limit: c.Limit})
	p.close()
	if err != nil {
		return traceError(err, "convert")
	}
	say := func(s string) { fmt.Fprintln(a.env.Stderr, report.PrintableLines(s)) }
	say(fmt.Sprintf("%s requests", report.Count(done.Requests)))
	if len(done.Lost) > 0 {
		say("not in the form, left out: " + strings.Join(done.Lost, ", "))
	}
	for _, n := range done.Notices {
		say("notice: " + n)
	}
	return nil
}

// create opens a file for writing. It is written aside and moved into place by
// finish, unless that is given an error, so that what was there is not lost to a
// command that fails. What is no regular file, such as a pipe, is written to.
func create(name string) (w io.Writer, finish func(error) error, err error) {
	if st, err := os.Stat(name); err == nil && !st.Mode().IsRegular() {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return nil, nil, err
		}
		return f, func(err error) error { return errors.Join(err, f.Close()) }, nil
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".trace-*")
	if err != nil {
		return nil, nil, err
	}
	return f, func(err error) error {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err == nil {
			err = os.Chmod(f.Name(), 0o644)
		}
		if err == nil {
			err = os.Rename(f.Name(), name)
		}
		if err != nil {
			os.Remove(f.Name())
		}
		return err
	}, nil
}

type traceFormatsCmd struct{ outputFlag }

func (*traceFormatsCmd) Help() string {
	return "The time unit is the format's; --time-unit replaces it."
}

func (*traceFormatsCmd) Examples() []string { return []string{"plimsoll trace formats"} }

func (c *traceFormatsCmd) Run(a *app) error {
	if c.Output == "json" {
		return a.printJSON(trace.Formats())
	}
	var b strings.Builder
	b.WriteString(report.Pad("FORMAT", 20) + report.Pad("TIMES", 6) + report.Pad("BLOCK", 6) + "WHAT\n")
	for _, f := range trace.Formats() {
		unit, block := string(f.Unit), ""
		if unit == "" {
			unit = "-"
		}
		if f.BlockTokens > 0 {
			block = report.Count(f.BlockTokens)
		}
		head := report.Pad(f.Name, 20) + report.Pad(unit, 6) + report.Pad(block, 6)
		for _, l := range report.Wrap(f.About, report.Width-32) {
			b.WriteString(head + l + "\n")
			head = strings.Repeat(" ", 32)
		}
	}
	_, err := io.WriteString(a.env.Stdout, b.String())
	return err
}

// writeTrace writes what a trace holds for a person to read.
func writeTrace(w io.Writer, s *trace.Summary) error {
	var b strings.Builder
	line := func(name, text string) {
		for _, l := range report.Wrap(report.Printable(text), report.Width-12) {
			b.WriteString(report.Pad(name, 12) + l + "\n")
			name = ""
		}
	}
	line("file", s.File)
	line("format", s.Format+": "+s.Detected)
	n := report.Count(s.Requests)
	if s.ToolEvents > 0 {
		n += fmt.Sprintf("; %s events are no requests", report.Count(s.ToolEvents))
	}
	line("requests", n)
	var left []string
	for _, k := range []struct {
		n    int
		what string
	}{
		{s.Skipped.BadRow, "not right"},
		{s.Skipped.ZeroOutput, "without output"},
		{s.Skipped.NoReplay, "without a replay part"},
		{s.Skipped.Empty, "empty"},
	} {
		if k.n > 0 {
			left = append(left, report.Count(k.n)+" "+k.what)
		}
	}
	if len(left) > 0 {
		line("left out", strings.Join(left, ", "))
	}
	b.WriteString("\n")
	if s.SpanS != nil {
		line("span", report.Seconds(*s.SpanS))
		if s.Rate != nil {
			t := report.Figure(*s.Rate) + "/s"
			if s.PeakPerSecond != nil {
				t += fmt.Sprintf(", at most %s in one second", report.Count(*s.PeakPerSecond))
			}
			line("rate", t)
		}
		if s.GapCV != nil {
			line("burstiness", fmt.Sprintf("%s: deviation of the gaps over their mean (Poisson has 1); the longest gap is %s", report.Figure(*s.GapCV), report.Seconds(*s.LongestGapS)))
		}
		if s.Instants != nil {
			t := report.Count(*s.Instants) + " different times"
			if *s.LargestGroup > 1 {
				t += fmt.Sprintf(", at most %s requests at one", report.Count(*s.LargestGroup))
			}
			line("instants", t)
		}
		order := "by time"
		if !s.Sorted {
			order = "not by time"
		}
		line("order", order)
	} else {
		line("times", "none: a data set")
	}
	rows := []struct {
		name string
		l    *trace.Lengths
	}{{"input", s.Input}, {"output", s.Output}, {"reasoning", s.Reasoning}}
	if s.Input != nil || s.Output != nil {
		b.WriteString("\n")
		b.WriteString(report.Pad("TOKENS", 12))
		for _, h := range []string{"n", "mean", "p50", "p90", "p95", "p99", "max"} {
			b.WriteString(report.PadLeft(h, 9))
		}
		b.WriteString("\n")
		for _, r := range rows {
			if r.l == nil {
				continue
			}
			b.WriteString(report.Pad("  "+r.name, 12) + report.PadLeft(report.Count(r.l.Count), 9))
			for _, v := range []float64{r.l.Mean, r.l.P50, r.l.P90, r.l.P95, r.l.P99} {
				b.WriteString(report.PadLeft(wholeFigure(v), 9))
			}
			b.WriteString(report.PadLeft(report.Count(r.l.Max), 9) + "\n")
		}
	}
	b.WriteString("\n")
	if s.WithText > 0 {
		line("text", fmt.Sprintf("%s requests have their own text, %s in all", report.Count(s.WithText), report.Bytes(s.TextBytes)))
	}
	if s.Images > 0 {
		line("images", report.Count(s.Images))
	}
	if len(s.Unsent) > 0 {
		line("not sent", trace.Counts(s.Unsent)+": of such rows text is sent, and nothing else that came with it")
	}
	if s.Cancelled > 0 {
		line("cancelled", report.Count(s.Cancelled)+" when they were recorded")
	}
	if s.Turns == nil {
		line("sessions", "none of more than one request")
	} else {
		how := s.TurnsAre
		switch {
		case s.TurnsProven:
			how += " (the hashes of each row begin with those of the one before)"
		case how == "cumulative":
			how += " (taken so)"
		}
		line("sessions", fmt.Sprintf("%s of more than one request; %s requests each on average, at most %s; rows are %s",
			report.Count(s.Sessions), report.Figure(s.Turns.Mean), report.Count(s.Turns.Max), how))
	}
	if s.Dependent > 0 {
		line("waiting", report.Count(s.Dependent)+" requests start when others have ended")
	}
	if u := s.Blocks; u != nil {
		size := "of several sizes"
		if u.BlockTokens > 0 {
			size = "of " + report.Count(u.BlockTokens) + " tokens"
		}
		line("blocks", fmt.Sprintf("%s %s, %s different", report.Count(u.Total), size, report.Count(u.Distinct)))
		line("reuse", fmt.Sprintf("%s of the blocks, %s of the input tokens: what a prefix cache that never forgets would find", report.Percent(u.HitRate), report.Percent(u.TokenHitRate)))
	}
	for _, m := range []struct {
		name string
		of   map[string]int
	}{{"models", s.Models}, {"kinds", s.Kinds}} {
		if len(m.of) > 0 {
			line(m.name, mostOf(m.of))
		}
	}
	if len(s.Problems) > 0 {
		b.WriteString("\nPROBLEMS\n")
		for _, p := range s.Problems {
			bullet(&b, problem(&p))
		}
	}
	if len(s.Notices) > 0 {
		b.WriteString("\nNOTICES\n")
		for _, n := range s.Notices {
			bullet(&b, n)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// problem says what is wrong, then in how many rows and where.
func problem(p *trace.Problem) string {
	var where []string
	if p.Count > 1 {
		where = append(where, report.Plural(p.Count, "row"))
	}
	if n := len(p.Lines); n > 0 {
		at := "line "
		if n > 1 {
			at = "lines "
		}
		at += strings.Trim(strings.ReplaceAll(fmt.Sprint(p.Lines), " ", ", "), "[]")
		if p.Count > n {
			at += ", ..."
		}
		where = append(where, at)
	}
	t := p.Text
	if len(where) > 0 {
		t += " (" + strings.Join(where, ": ") + ")"
	}
	if p.Dropped {
		t += "; left out"
	}
	return t
}

func bullet(b *strings.Builder, text string) {
	head := "  - "
	for _, l := range report.Wrap(report.Printable(text), report.Width-4) {
		b.WriteString(head + l + "\n")
		head = "    "
	}
}

// wholeFigure writes a length, which nobody reads to a tenth above 100.
func wholeFigure(v float64) string {
	if v >= 100 {
		return report.Count(int(v + 0.5))
	}
	return report.Figure(v)
}

// mostOf names what is most frequent.
func mostOf(m map[string]int) string {
	names := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		if m[a] != m[b] {
			return m[b] - m[a]
		}
		return strings.Compare(a, b)
	})
	var out []string
	for i, n := range names {
		if i == 5 {
			out = append(out, fmt.Sprintf("and %d more", len(names)-i))
			break
		}
		out = append(out, fmt.Sprintf("%s (%s)", n, report.Count(m[n])))
	}
	return strings.Join(out, ", ")
}
