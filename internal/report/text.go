package report

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll/internal/run"
	"plimsoll/internal/stats"
	"plimsoll/internal/telemetry"
)

// Run is a run as a report shows it: its figures and what is known around them.
type Run struct {
	Summary *stats.Summary
	// URL, API and Model say what was measured; "" where it is not known.
	URL, API, Model string
	// Load says what was asked for, as in "4 users" or "5 requests/s, poisson".
	Load string
	// Replay says what trace or data set was replayed, and how, a sentence each.
	Replay []string
	// Lengths says how prompts got their lengths, "" when they were estimated.
	Lengths string
	// Connections says what became of the connections, a sentence each.
	Connections []string
	// Sources are those of the servers' own figures, Alignment says how they keep
	// time; nil for none.
	Sources   []telemetry.SourceInfo
	Alignment *Alignment
	// Folder is where the run is kept, "" for nowhere.
	Folder string
	// Failures has what the first failed request of a kind said, by the kind's name.
	Failures map[string]string
	// Stopped says why the run ended early, "" when it did not.
	Stopped string
	// Probe is what a probe came to, nil for other runs.
	Probe *run.Probe
	// Colour marks the verdict and what was missed, for a terminal.
	Colour bool
	// Notes are shown below the verdict: things about the report itself, such as
	// that the figures were made again from the records.
	Notes []string
}

// formulas are those of the definitions page, by the name of the figure.
var formulas = map[string]string{
	"ttft":               "t_first_token - t_start",
	"ttft_from_schedule": "t_first_token - t_scheduled",
	"ttfc":               "t_first_content - t_start",
	"ttlt":               "t_last_token - t_start",
	"e2e":                "t_end - t_start",
	"e2e_from_schedule":  "t_end - t_scheduled",
	"tpot":               "(t_last_token - t_first_token) / (streamed tokens - tokens of the first event)",
	"itl":                "gap between output events / tokens of the later one, once per token",
	"event_gap":          "time from one output event to the next",
	"connect":            "t_connected - t_start",
	"upload":             "t_sent - t_connected",
	"retrieval":          "t_retrieval_end - t_retrieval_start",
	"prompt_rate":        "prompt tokens / ttft",
	"token_rate":         "1 / tpot",
	"send_lag":           "t_start - t_scheduled - time waited under a cap",
	"read_lag":           "time of a read - kernel time of its bytes, mean of a request",
	"canary_lag":         "time of reading a loopback pair - kernel time, 100 a second",
	"gc_pause":           "stops of this process by its garbage collector",
}

type named struct {
	name string
	d    *stats.Dist
}

// Text writes the report for a person at a terminal: the verdict first, failures
// second, then load, what users feel, and how the client itself did. No line is
// longer than Width.
func Text(w io.Writer, r *Run) error {
	t := &text{s: r.Summary}
	t.head(r)
	t.verdict(r)
	t.failures(r)
	t.load(r)
	t.latency()
	t.tokens(r)
	t.slo()
	t.own()
	t.workloads()
	t.rates()
	t.server(r)
	t.client(r)
	t.notes(r)
	t.steps()
	t.probe(r.Probe)
	out := t.b.String()
	if r.Colour {
		out = paint(out)
	}
	_, err := io.WriteString(w, out)
	return err
}

// paint colours the words that a reader looks for. It comes after the layout, so
// that colour codes never count as columns; names that could imitate them have
// been made printable by then.
func paint(s string) string {
	const green, yellow, red, off = "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[0m"
	for _, c := range []struct{ word, colour string }{
		{"valid:", green}, {"CLIENT-BOUND:", yellow}, {"INVALID:", red},
	} {
		at := "VERDICT    " + c.word
		s = strings.Replace(s, "\n"+at, "\n"+strings.TrimSuffix(at, c.word)+c.colour+c.word+off, 1)
	}
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		switch {
		case strings.HasSuffix(l, "   MISSED"):
			lines[i] = strings.TrimSuffix(l, "MISSED") + red + "MISSED" + off
		case strings.HasPrefix(l, "SLO        MISSED"), strings.HasPrefix(l, Pad("", margin)+"service levels: MISSED"):
			lines[i] = strings.Replace(l, "MISSED", red+"MISSED"+off, 1)
		case strings.HasPrefix(l, "FAILURES   ") && !strings.HasPrefix(l, "FAILURES   no"):
			lines[i] = "FAILURES   " + red + strings.TrimPrefix(l, "FAILURES   ") + off
		}
	}
	return strings.Join(lines, "\n")
}

type text struct {
	b strings.Builder
	s *stats.Summary
}

// margin is where the text beside a section's name begins.
const margin = 11

// section writes lines beside a name, wrapped.
func (t *text) section(name string, lines ...string) {
	t.b.WriteString("\n")
	t.beside(name, lines...)
}

func (t *text) beside(name string, lines ...string) {
	for _, line := range lines {
		for _, l := range Wrap(Printable(line), Width-margin) {
			t.b.WriteString(Pad(name, margin) + l + "\n")
			name = ""
		}
	}
}

func (t *text) head(r *Run) {
	s := t.s
	id := s.Run.ID
	if id == "" {
		id = "run"
	}
	t.b.WriteString(Cut(Printable(id), Width) + "\n\n")
	if r.URL != "" {
		line := r.URL
		if r.API != "" {
			line += " (" + r.API + ")"
		}
		t.beside("target", line)
	}
	if r.Model != "" {
		t.beside("model", r.Model)
	}
	started := s.Run.Started
	if at, err := time.Parse(time.RFC3339Nano, started); err == nil && !at.IsZero() {
		started = at.UTC().Format("2006-01-02 15:04:05 UTC")
		if at.UnixNano() == 0 {
			// A prediction has no date, so that equal ones are equal to the byte.
			started = "in virtual time"
		}
	}
	if at, err := time.Parse(time.RFC3339Nano, started); err == nil && at.IsZero() {
		started = "not known"
	}
	if s.Run.DurationS != nil {
		started += ", " + Seconds(*s.Run.DurationS)
	}
	t.beside("started", started)
}

func (t *text) verdict(r *Run) {
	s := t.s
	line := strings.ToUpper(string(s.Run.Verdict))
	switch s.Run.Verdict {
	case stats.Valid:
		line = "valid: every check that could be made is within its limit"
	case stats.ClientBound:
		line += ": these figures say more about this client than about the service"
	case stats.Invalid:
		line += ": these figures cannot be used"
		if t.onlyShort() {
			line = "INVALID: less was measured than was asked for; below is what was"
		}
	}
	lines := []string{line}
	if r.Stopped != "" {
		lines = append(lines, "stopped early: "+r.Stopped)
	}
	for _, reason := range s.Run.Reasons {
		// Of a prediction what is refused is known before, and part of what it says.
		if reason.Effect != stats.MakesNote || reason.Said.Code == "failures.refused" {
			lines = append(lines, reasonLine(reason))
		}
	}
	if s.SLO != nil {
		line := "service levels: " + word(s.SLO.Met)
		if n := unmeasured(s.SLO.Limits); n > 0 && s.SLO.Met != nil {
			line += fmt.Sprintf("; %d of %s not measured", n, Plural(len(s.SLO.Limits), "limit"))
		}
		lines = append(lines, line)
	}
	if n := t.noted(r); n > 0 {
		lines = append(lines, Plural(n, "note")+" below")
	}
	t.section("VERDICT", lines...)
}

// short says whether a steady window was cut short, onlyShort whether nothing else makes
// the run invalid: then the figures are right, but of less than was asked for.
func (t *text) short() bool {
	return slices.ContainsFunc(t.s.Run.Reasons, func(r stats.Reason) bool { return r.Check == "short_window" })
}

func (t *text) onlyShort() bool {
	return t.short() && !slices.ContainsFunc(t.s.Run.Reasons, func(r stats.Reason) bool {
		return r.Effect == stats.MakesInvalid && r.Check != "short_window"
	})
}

// noted is the number of notes: checks that leave the verdict as it is, and
// notes on the report itself. Failures have a section of their own.
func (t *text) noted(r *Run) int {
	n := len(r.Notes)
	if r.Alignment != nil {
		n += len(r.Alignment.Notes)
	}
	for _, reason := range t.s.Run.Reasons {
		if reason.Effect == stats.MakesNote && reason.Check != "failures" {
			n++
		}
	}
	return n
}

func (t *text) notes(r *Run) {
	var lines []string
	for _, reason := range t.s.Run.Reasons {
		if reason.Effect == stats.MakesNote && reason.Check != "failures" {
			lines = append(lines, reasonLine(reason))
		}
	}
	lines = append(lines, r.Notes...)
	if r.Alignment != nil {
		lines = append(lines, r.Alignment.Notes...)
	}
	var open []string
	for _, c := range t.s.Run.Checks {
		if c.Value == nil {
			name := strings.ReplaceAll(c.Check, "_", " ")
			switch c.Check {
			case "token_count":
				name += " (no tokenizer)"
			case "engine_tokens":
				name = "agreement with the engine (no counters of one: plimsoll check URL says how to get them)"
			case "engine_latency":
				if t.attributable() {
					if g := t.s.Agreement; g == nil || g.Attributable == nil {
						continue // said with the tokens
					}
					name += " (no histograms of an engine)"
				} else {
					name += " (not attributable)"
				}
			case "tpot_floor":
				name += " (no --hardware, or a model that is not in the catalogue)"
			}
			open = append(open, name)
		}
	}
	if len(open) > 0 {
		lines = append(lines, "not checked, since not measured: "+strings.Join(open, ", "))
	}
	if len(lines) > 0 {
		t.section("NOTES", lines...)
	}
}

func reasonLine(r stats.Reason) string {
	return strings.ReplaceAll(r.Check, "_", " ") + ": " + r.Text
}

func (t *text) failures(r *Run) {
	q := t.s.Requests
	if q.Scheduled == 0 {
		t.section("FAILURES", "no request was scheduled in the window")
		return
	}
	var lines []string
	if q.Error == 0 {
		lines = append(lines, "none of "+Count(q.Scheduled)+" requests")
	} else {
		lines = append(lines, fmt.Sprintf("%s of %s requests (%s)", Count(q.Error), Count(q.Scheduled),
			Percent(float64(q.Error)/float64(q.Scheduled))))
		kinds := slices.SortedFunc(maps.Keys(q.ByError), func(a, b string) int {
			if d := q.ByError[b] - q.ByError[a]; d != 0 {
				return int(max(-1, min(1, d)))
			}
			return strings.Compare(a, b)
		})
		var each []string
		for _, k := range kinds {
			if q.ByError[k] > 0 {
				each = append(each, k+" "+Count(q.ByError[k]))
			}
		}
		lines = append(lines, strings.Join(each, ", "))
		for _, k := range kinds {
			if m := r.Failures[k]; m != "" {
				lines = append(lines, k+": "+Cut(Printable(m), longestMessage))
			}
		}
		if q.SearchFailed > 0 {
			lines = append(lines, Count(q.SearchFailed)+" of them of the search before the request, which was not sent")
		}
	}
	if q.Cancelled+q.Incomplete > 0 {
		lines = append(lines, fmt.Sprintf("cancelled %s, incomplete %s", Count(q.Cancelled), Count(q.Incomplete)))
	}
	if q.Error+q.Cancelled+q.Incomplete > 0 {
		lines = append(lines, "these are in no latency figure below")
	}
	t.section("FAILURES", lines...)
}

// longestMessage is how much of a message is shown, three lines or so.
const longestMessage = 200

func perSecond(v *float64) string {
	if v == nil {
		return "not known"
	}
	return Figure(*v) + "/s"
}

func (t *text) load(r *Run) {
	s, l := t.s, &t.s.Load
	first := r.Load
	switch {
	case first != "":
	case len(s.Steps) > 1:
		first = fmt.Sprintf("%d steps", len(s.Steps))
	case l.Users != nil:
		first = Plural(*l.Users, "user")
	case len(s.Steps) == 1 && s.Steps[0].Rate != nil:
		first = Figure(*s.Steps[0].Rate) + "/s asked for"
	}
	if s.Run.WindowS != nil {
		if first != "" {
			first += ", "
		}
		first += "window " + Seconds(*s.Run.WindowS)
		if t.short() {
			first += " (cut short)"
		}
	}
	q := s.Requests
	lines := append([]string{first}, r.Replay...)
	lines = append(lines,
		fmt.Sprintf("requests: scheduled %s, sent %s, ok %s, error %s", Count(q.Scheduled), Count(q.Sent), Count(q.OK), Count(q.Error)),
		fmt.Sprintf("rate: offered %s, started %s, completed %s",
			perSecond(l.OfferedRPS), perSecond(l.AchievedRPS), perSecond(l.CompletedRPS)),
	)
	var flying []string
	for _, d := range []struct {
		thing string
		d     *stats.Dist
	}{{"requests", l.RequestsInFlight}, {"sessions", l.SessionsInFlight}} {
		if d.d != nil && d.d.Mean != nil && d.d.Max != nil {
			flying = append(flying, fmt.Sprintf("%s %s (most %s)", Figure(*d.d.Mean), d.thing, Count(int64(*d.d.Max))))
		}
	}
	if len(flying) > 0 {
		lines = append(lines, "in flight: "+strings.Join(flying, ", "))
	}
	t.section("LOAD", lines...)
}

// Plural names a number of things by the name of one.
func Plural[T ~int | ~int32 | ~int64 | ~uint32 | ~uint64](n T, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Count(n) + " " + thing + "s"
}

func (t *text) tokens(r *Run) {
	k := &t.s.Tokens
	var lines []string
	one := func(name string, n *int64, perS *float64, part string, of *int64) {
		if n == nil {
			lines = append(lines, name+" not known")
			return
		}
		line := name + " " + Count(*n)
		if of != nil && *of > 0 {
			line += fmt.Sprintf(" (%s %s)", part, Count(*of))
		}
		if perS != nil {
			line += ", arrived at " + perSecond(perS)
		}
		lines = append(lines, line)
	}
	one("prompt", k.Prompt, k.PromptPerS, "cached", k.Cached)
	one("output", k.Output, k.OutputPerS, "reasoning", k.Reasoning)
	var by []string
	for _, c := range []struct {
		name string
		n    int64
	}{{"the server", k.Source.Server}, {"a tokenizer", k.Source.Tokenizer}, {"nobody", k.Source.None}} {
		if c.n > 0 {
			by = append(by, c.name+" for "+Count(c.n))
		}
	}
	if len(by) > 0 {
		lines = append(lines, "output counted by "+strings.Join(by, ", by ")+" of the ok requests")
	}
	if k.EstimatedShare != nil && *k.EstimatedShare > 0 {
		lines = append(lines, Percent(*k.EstimatedShare)+" of the output rate is estimated from events without a count")
	}
	if r.Lengths != "" {
		lines = append(lines, r.Lengths)
	}
	t.section("TOKENS", lines...)
}

// tableUnit chooses ms, or s when a figure would not fit its column.
func tableUnit(rows []named) (unit string, scale float64) {
	for _, r := range rows {
		if r.d != nil && r.d.Max != nil && *r.d.Max >= 99_999.5 {
			return "s", 1e-3
		}
	}
	return "ms", 1
}

const (
	nameColumn = 21
	countCol   = 9
	valueCol   = 8
)

var highColumns = []string{"mean", "p50", "p90", "p95", "p99", "max"}

// lowColumns are for rates, where the low ones hurt.
var lowColumns = []string{"mean", "p50", "p25", "p5", "p1", "min"}

// quantile returns a figure of a distribution by its name.
func quantile(d *stats.Dist, name string) *float64 {
	switch name {
	case "mean":
		return d.Mean
	case "min":
		return d.Min
	case "p1":
		return d.P1
	case "p5":
		return d.P5
	case "p25":
		return d.P25
	case "p50":
		return d.P50
	case "p75":
		return d.P75
	case "p90":
		return d.P90
	case "p95":
		return d.P95
	case "p99":
		return d.P99
	case "p999":
		return d.P999
	case "max":
		return d.Max
	}
	return nil
}

// table writes one row per distribution, and below each the formula and the
// intervals. It says whether any percentile had too few requests behind it.
func (t *text) table(title string, columns []string, scale float64, ci bool, rows []named) (few bool) {
	t.b.WriteString("\n" + Pad(title, nameColumn) + PadLeft("n", countCol))
	for _, c := range columns {
		t.b.WriteString(PadLeft(c, valueCol))
	}
	t.b.WriteString("\n")
	for _, r := range rows {
		if r.d == nil || r.d.Count == 0 {
			continue
		}
		t.b.WriteString(Pad("  "+r.name, nameColumn) + PadLeft(Count(r.d.Count), countCol))
		for _, c := range columns {
			v := quantile(r.d, c)
			cell := "-"
			if v != nil {
				cell = compact(*v * scale)
			}
			if ok, known := r.d.Enough[mirror(c)]; known && !ok {
				cell, few = "~"+cell, true
			}
			t.b.WriteString(PadLeft(cell, valueCol))
		}
		t.b.WriteString("\n")
		line := formulas[r.name]
		if s := intervals(r.d, columns, scale); ci && s != "" {
			line += "; " + s
		}
		for _, l := range Wrap(line, Width-4) {
			t.b.WriteString("    " + l + "\n")
		}
	}
	return few
}

// compact is Figure for a narrow column: from a hundred thousand on in thousands
// and millions.
func compact(v float64) string {
	switch a := math.Abs(v); {
	case a >= 999.5e12:
		return strconv.FormatFloat(v, 'g', 2, 64)
	case a >= 999.5e9:
		return Figure(v/1e12) + "T"
	case a >= 999.5e6:
		return Figure(v/1e9) + "G"
	case a >= 999.5e3:
		return Figure(v/1e6) + "M"
	case a >= 99_999.5:
		return Figure(v/1e3) + "k"
	}
	return Figure(v)
}

// mirror names the high percentile that is as far out as a low one: it takes as
// many requests.
func mirror(name string) string {
	switch name {
	case "p1":
		return "p99"
	case "p5":
		return "p95"
	case "p25":
		return "p75"
	}
	return name
}

// intervals names the 95 % intervals of the median and of the highest (or
// lowest) percentile shown that has one.
func intervals(d *stats.Dist, columns []string, scale float64) string {
	var out []string
	for _, c := range []string{"p50", columns[3]} {
		ci, ok := d.CI95[c]
		if !ok || ci[0] == nil || ci[1] == nil {
			continue
		}
		if lo, hi := Figure(*ci[0]*scale), Figure(*ci[1]*scale); lo != hi {
			out = append(out, c+" "+lo+" to "+hi)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "95 %: " + strings.Join(out, ", ")
}

func (t *text) latency() {
	l := &t.s.Latency
	rate := t.rateDriven()
	rows := []named{{"ttft", l.TTFT}}
	if rate {
		rows = append(rows, named{"ttft_from_schedule", l.TTFTFromSchedule})
	}
	if !same(l.TTFT, l.TTFC) {
		rows = append(rows, named{"ttfc", l.TTFC})
	}
	rows = append(rows, named{"tpot", l.TPOT}, named{"itl", l.ITL}, named{"e2e", l.E2E})
	if rate {
		rows = append(rows, named{"e2e_from_schedule", l.E2EFromSchedule})
	}
	more := []named{{"ttlt", l.TTLT}, {"event_gap", l.EventGap}, {"connect", l.Connect}, {"upload", l.Upload}, {"retrieval", l.Retrieval}}
	unit, scale := tableUnit(append(slices.Clone(rows), more...))
	if !anyRow(rows) {
		t.section("LATENCY", "nothing was measured")
		return
	}
	few := t.table("WHAT USERS FEEL, "+unit, highColumns, scale, true, rows)
	if k := t.s.Tokens.TPOTBasis; k.NMinus1 > 0 {
		t.b.WriteString(fmt.Sprintf("    tpot: %s of %s requests divided by n-1, the first event's tokens being unknown\n",
			Count(k.NMinus1), Count(k.NMinus1+k.FirstEvent)))
	}
	if anyRow(more) {
		few = t.table("ITS PARTS, "+unit, highColumns, scale, false, more) || few
	}
	if r := &t.s.Rates; anyRow([]named{{"", r.TokenRate}, {"", r.PromptRate}}) {
		few = t.table("ONE USER'S TOKENS/S", lowColumns, 1, true, []named{{"token_rate", r.TokenRate}, {"prompt_rate", r.PromptRate}}) || few
	}
	of := "the window."
	if t.short() {
		of = "the window, which was cut short."
	}
	note := "Of the ok requests scheduled in " + of
	if few {
		note += " ~ too few requests for it: enough are 64 for p90, 130 for p95, 662 for p99."
	}
	t.b.WriteString("\n")
	for _, l := range Wrap(note, Width-4) {
		t.b.WriteString("    " + l + "\n")
	}
}

func anyRow(rows []named) bool {
	return slices.ContainsFunc(rows, func(r named) bool { return r.d != nil && r.d.Count > 0 })
}

// same says whether two distributions show the same figures, so that one row
// does.
func same(a, b *stats.Dist) bool {
	if a == nil || b == nil || a.Count != b.Count {
		return b == nil || b.Count == 0
	}
	for _, c := range highColumns {
		x, y := quantile(a, c), quantile(b, c)
		if (x == nil) != (y == nil) || (x != nil && *x != *y) {
			return false
		}
	}
	return true
}

func (t *text) rateDriven() bool {
	counted := func(s *stats.SLO) bool {
		return s != nil && slices.ContainsFunc(s.Limits, func(l stats.Limit) bool { return l.FromSchedule })
	}
	if counted(t.s.SLO) {
		return true
	}
	// Users stood beside workloads with a rate.
	for _, w := range t.s.Workloads {
		if counted(w.SLO) {
			return true
		}
	}
	for i := range t.s.Steps {
		if t.s.Steps[i].Rate != nil {
			return true
		}
	}
	return t.s.Load.Users == nil && len(t.s.Steps) < 2
}

func (t *text) steps() {
	if len(t.s.Steps) < 2 {
		return
	}
	t.b.WriteString("\n" + Pad("STEPS, ms", 13))
	heads := []string{"window", "offered", "done/s", "tokens/s", "ttft p50", "ttft p95", "tpot p50", "errors"}
	widths := []int{8, 8, 7, 9, 9, 9, 9, 8}
	for i, h := range heads {
		t.b.WriteString(PadLeft(h, widths[i]))
	}
	t.b.WriteString("\n")
	for i := range t.s.Steps {
		st := &t.s.Steps[i]
		name := "?"
		switch {
		case st.Users != nil:
			name = Plural(*st.Users, "user")
		case st.Rate != nil:
			name = Figure(*st.Rate) + "/s"
		}
		ttft := st.Latency.TTFT
		if st.Rate != nil {
			ttft = st.Latency.TTFTFromSchedule
		}
		window := Seconds(st.WindowS)
		if !st.Complete {
			window = "!" + window
		}
		cells := []string{
			window, ptr(st.Load.OfferedRPS), ptr(st.Load.CompletedRPS), ptr(st.Tokens.OutputPerS),
			cell(ttft, "p50"), cell(ttft, "p95"), cell(st.Latency.TPOT, "p50"), Count(st.Requests.Error),
		}
		name = Pad("  "+name, 13)
		t.b.WriteString(name)
		for j, c := range cells {
			width := widths[j]
			if j == 0 {
				width -= len(name) - 13 // a long name takes of the blanks before the window
			}
			t.b.WriteString(PadLeft(c, width))
		}
		t.b.WriteString("\n")
	}
	t.b.WriteString("    The figures above are over the windows of all steps together.\n")
	if slices.ContainsFunc(t.s.Steps, func(s stats.Step) bool { return !s.Complete }) {
		t.b.WriteString("    ! the window was cut short\n")
	}
	if t.rateDriven() {
		t.b.WriteString("    ttft is from the schedule\n")
	}
}

func ptr(v *float64) string {
	if v == nil {
		return "-"
	}
	return compact(*v)
}

func cell(d *stats.Dist, name string) string {
	if d == nil {
		return "-"
	}
	v := quantile(d, name)
	if v == nil {
		return "-"
	}
	s := compact(*v)
	if ok, known := d.Enough[name]; known && !ok {
		return "~" + s
	}
	return s
}

func (t *text) slo() {
	o := t.s.SLO
	if o == nil {
		return
	}
	line := word(o.Met)
	if o.Met != nil {
		line += "; goodput " + perSecond(o.GoodputRPS)
	}
	if o.Attainment != nil {
		line += ", attainment " + Percent(*o.Attainment) + " of all scheduled requests"
	}
	t.section("SLO", line)
	t.limits(o.Limits)
	if len(t.s.Steps) > 1 {
		t.b.WriteString("    shown for the worst step\n")
	}
}

// word says whether a limit is met; nil is one that was not measured.
func word(met *bool) string {
	switch {
	case met == nil:
		return "not measured"
	case *met:
		return "met"
	}
	return "MISSED"
}

// unmeasured counts the limits of which nothing was measured.
func unmeasured(limits []stats.Limit) (n int) {
	for i := range limits {
		if limits[i].Met == nil {
			n++
		}
	}
	return n
}

// limits writes service levels, a line each.
func (t *text) limits(limits []stats.Limit) {
	from, infinite, search, turns := false, false, false, false
	workload := ""
	for _, l := range limits {
		v := "-"
		if l.Value != nil {
			v = Seconds(*l.Value / 1e3)
		} else if l.Met != nil {
			infinite = true
		}
		if l.Workload != workload {
			workload = l.Workload
			t.b.WriteString("  " + Cut(Printable(workload), Width-2) + "\n")
		}
		name := l.Metric + " " + l.Stat
		if l.Turn != "" {
			name, turns = name+" "+l.Turn, true
		}
		t.b.WriteString("  " + Pad(name, nameColumn-2) + PadLeft(v, 11) + "   limit" +
			PadLeft(Seconds(l.Limit/1e3), 11) + "   " + word(l.Met) + "\n")
		from = from || l.FromSchedule
		search = search || l.WithRetrieval
	}
	if infinite {
		t.b.WriteString("    - beyond every limit: failed and incomplete requests count as infinite, and\n" +
			"    so do cancelled ones that had waited for longer than the limit\n")
	}
	if unmeasured(limits) > 0 {
		t.b.WriteString("    not measured: the window has no such request, or its answers have no such\n" +
			"    figure (one token, several choices, no stream); it counts neither way\n")
	}
	if turns {
		t.b.WriteString("    first, later: of a session's first turn, and of the others\n")
	}
	if search {
		t.b.WriteString("    ttft is counted from the beginning of the search\n")
	}
	if from {
		t.b.WriteString("    ttft and e2e are counted from the schedule, since a rate was asked for\n")
	}
}

// own writes how the limits were met that came with the workloads.
func (t *text) own() {
	for _, name := range slices.Sorted(maps.Keys(t.s.Workloads)) {
		o := t.s.Workloads[name].SLO
		if o == nil || !o.Own {
			continue
		}
		line := Printable(name) + ": limits of its own, which do not decide about the run"
		counted := t.s.SLO != nil && slices.ContainsFunc(t.s.SLO.Limits, func(l stats.Limit) bool { return l.Workload == name })
		if counted {
			line = Printable(name) + ": its own limits stand above"
		}
		if o.Attainment != nil {
			line += "; attainment " + Percent(*o.Attainment) + " of its scheduled requests"
		}
		t.section("SLO", line)
		if !counted {
			t.limits(o.Limits)
		}
	}
}

func (t *text) workloads() {
	if len(t.s.Workloads) < 2 {
		return
	}
	t.b.WriteString("\n" + Pad("WORKLOADS, ms", 21))
	heads := []string{"ok", "errors", "ttft p50", "ttft p95", "tpot p50", "e2e p50"}
	widths := []int{8, 8, 10, 10, 10, 10}
	for i, h := range heads {
		t.b.WriteString(PadLeft(h, widths[i]))
	}
	t.b.WriteString("\n")
	for _, name := range slices.Sorted(maps.Keys(t.s.Workloads)) {
		g := t.s.Workloads[name]
		cells := []string{
			Count(g.Requests.OK), Count(g.Requests.Error), cell(g.Latency.TTFT, "p50"), cell(g.Latency.TTFT, "p95"),
			cell(g.Latency.TPOT, "p50"), cell(g.Latency.E2E, "p50"),
		}
		t.b.WriteString(Pad("  "+CutFront(Printable(name), 18), 21))
		for j, c := range cells {
			t.b.WriteString(PadLeft(c, widths[j]))
		}
		t.b.WriteString("\n")
	}
}

// rates writes how often each of several workloads was asked for and answered.
func (t *text) rates() {
	if len(t.s.Workloads) < 2 {
		return
	}
	t.b.WriteString("\n" + Pad("REQUESTS/s", 21))
	widths := []int{10, 10, 11, 17}
	for i, h := range []string{"offered", "started", "completed", "output tokens/s"} {
		t.b.WriteString(PadLeft(h, widths[i]))
	}
	t.b.WriteString("\n")
	for _, name := range slices.Sorted(maps.Keys(t.s.Workloads)) {
		g := t.s.Workloads[name]
		t.b.WriteString(Pad("  "+CutFront(Printable(name), 18), 21))
		for j, v := range []*float64{g.Load.OfferedRPS, g.Load.AchievedRPS, g.Load.CompletedRPS, g.Tokens.OutputPerS} {
			t.b.WriteString(PadLeft(ptr(v), widths[j]))
		}
		t.b.WriteString("\n")
	}
}

func (t *text) client(r *Run) {
	c := &t.s.Client
	var lines []string
	if c.Timestamps != nil {
		line := "receive times from the kernel"
		if *c.Timestamps != "kernel" {
			line = "receive times from user space: how late this process read is in them"
		}
		if c.BoundedEventShare != nil {
			line += "; " + Percent(*c.BoundedEventShare) + " of events only bounded"
		}
		lines = append(lines, line)
	}
	var parts []string
	if c.CPUShare != nil {
		parts = append(parts, "processors "+Percent(*c.CPUShare)+" busy with this client")
	}
	if c.OpenConnections != nil {
		parts = append(parts, "at most "+Plural(*c.OpenConnections, "connection"))
	}
	if len(parts) > 0 {
		lines = append(lines, strings.Join(parts, ", "))
	}
	lines = append(lines, r.Connections...)
	if c.DroppedRecords+c.DroppedSamples > 0 {
		lines = append(lines, fmt.Sprintf("DROPPED: %s records, %s samples", Count(c.DroppedRecords), Count(c.DroppedSamples)))
	}
	if len(lines) == 0 {
		lines = []string{"nothing is known of the client"}
	}
	t.section("CLIENT", lines...)
	rows := []named{{"send_lag", c.SendLag}, {"read_lag", c.ReadLag}, {"canary_lag", c.CanaryLag}, {"gc_pause", c.GCPause}}
	if anyRow(rows) {
		unit, scale := tableUnit(rows)
		t.table("ITS LATENESS, "+unit, highColumns, scale, false, rows)
	}
}
