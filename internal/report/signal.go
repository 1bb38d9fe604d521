package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"plimsoll/internal/signal"
	"plimsoll/internal/telemetry"
)

// SignalValue writes a value of a signal with its unit.
func SignalValue(d *signal.Def, v float64) string {
	if d.ID == signal.EngineStart {
		return time.Unix(int64(v), 0).UTC().Format("2006-01-02 15:04:05 UTC")
	}
	return inUnit(v, d.Unit, d.Combine == signal.Max)
}

// inUnit writes a value with the prefix of its unit that suits it. State says that
// a number without unit is a state rather than a share.
func inUnit(v float64, unit string, state bool) string {
	switch unit {
	case "1":
		if state {
			return number(v)
		}
		return Percent(v)
	case "s":
		return Seconds(v)
	case "bytes":
		return byteCount(v)
	case "bytes/s":
		return byteCount(v) + "/s"
	case "W", "J", "Hz", "FLOP", "FLOP/s":
		return prefixed(v, unit)
	}
	if v == 1 && unit != "series" {
		unit = strings.TrimSuffix(unit, "s")
	}
	return number(v) + " " + unit
}

// number writes a whole number in full and any other as a figure.
func number(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return Count(int64(v))
	}
	return Figure(v)
}

func byteCount(v float64) string {
	if math.Abs(v) >= math.MaxInt64 {
		return Figure(v/1e12) + " TB"
	}
	return Bytes(int64(math.Round(v)))
}

// prefixed writes a value with k, M or G before its unit.
func prefixed(v float64, unit string) string {
	for _, p := range []string{"", "k", "M", "G", "T"} {
		if math.Abs(v) < 1e4 {
			return Figure(v) + " " + p + unit
		}
		v /= 1000
	}
	return Figure(v) + " P" + unit
}

// groupNames are those of signals, in the order in which they are shown.
var groupNames = []struct {
	group signal.Group
	name  string
}{
	{signal.Engine, "engine"},
	{signal.Gateway, "gateway"},
	{signal.Accelerator, "accelerator"},
	{signal.Network, "network"},
	{signal.Host, "host"},
}

// Page writes what a telemetry page says for a person at a terminal. Name is where
// it came from. No line is longer than Width.
func Page(w io.Writer, name string, r *telemetry.Reading) error {
	t := new(text)
	t.beside("page", name)
	t.beside("", fmt.Sprintf("%s series, %s", Count(int64(r.Info.Series)), Plural(len(r.Signals), "signal")))
	switch {
	case len(r.Sources) > 0:
	case r.Info.Series == 0 && r.Info.Malformed == 0:
		t.beside("sources", "none: there is no value on the page; the statistics of trtllm-serve are so while nothing runs, and after somebody read them")
	default:
		t.beside("sources", "none that is known; a table of your own (--telemetry-tables FILE) says what its names mean")
	}
	for i, s := range r.Sources {
		label := ""
		if i == 0 {
			label = "sources"
		}
		t.beside(label, titled(s))
	}
	left := len(r.Signals)
	for _, g := range groupNames {
		left -= t.pageGroup(g.name, g.group, r)
	}
	if left > 0 {
		panic("BUG: a page has signals that are in no group")
	}
	t.pageProblems(&r.Info)
	t.missing(r.Missing)
	_, err := io.WriteString(w, t.b.String())
	return err
}

// titled returns the name of a source with its title.
func titled(source string) string {
	if t := telemetry.Lookup(source); t != nil && !strings.EqualFold(t.Title, source) {
		return source + " (" + t.Title + ")"
	}
	return source
}

const (
	signalColumn = 28
	signalValue  = 20
)

// pageGroup writes the signals of one group and returns how many there were.
func (t *text) pageGroup(title string, g signal.Group, r *telemetry.Reading) int {
	n := 0
	row := func(name, value, note string) {
		if n == 0 {
			t.b.WriteString("\n" + strings.ToUpper(title) + "\n")
		}
		n++
		line := Pad("  "+name, signalColumn) + "  " + Pad(value, signalValue) + "  " + note
		t.b.WriteString(Cut(strings.TrimRight(line, " "), Width) + "\n")
	}
	for _, d := range signal.All() {
		if d.Group != g {
			continue
		}
		if v, ok := r.Signals[d.Name]; ok {
			note := ""
			switch {
			case d.Kind == signal.Distribution:
				note = "mean since its start"
			case d.Kind == signal.Counter:
				note = "since its start"
			case d.Kind == signal.Ratio:
				note = "since its start"
			}
			row(d.Name, SignalValue(&d, v), note)
		}
		if v, ok := r.Signals[d.Highest()]; ok {
			row(d.Highest(), SignalValue(&d, v), "of the highest instance")
		}
	}
	return n
}

// absent begins the reason of a signal whose series are not on the page.
const absent = "the page has no "

// Missing returns which signals a source could give and does not, and how to get
// them, a sentence each: those with a remedy first.
func Missing(list []telemetry.Missing) []string {
	type reason struct{ source, why, enable string }
	var order []reason
	names := map[reason][]string{}
	for _, m := range list {
		k := reason{m.Source, m.Why, m.Enable}
		if strings.HasPrefix(m.Why, absent) {
			// Which series would give it matters to those who write tables; JSON has it.
			if k.why = ""; k.enable == "" {
				k.why = "not on the page"
			}
		}
		if names[k] == nil {
			order = append(order, k)
		}
		names[k] = append(names[k], m.Signal)
	}
	slices.SortStableFunc(order, func(a, b reason) int { return min(1, len(b.enable)) - min(1, len(a.enable)) })
	var out []string
	for _, k := range order {
		s := k.source + ": " + strings.Join(names[k], ", ") + ": " + k.why
		if k.enable != "" {
			if k.why != "" {
				s += "; "
			}
			s += k.enable
		}
		out = append(out, s)
	}
	return out
}

// missing writes what Missing says.
func (t *text) missing(list []telemetry.Missing) {
	if len(list) == 0 {
		return
	}
	t.b.WriteString("\nMISSING\n")
	for _, m := range Missing(list) {
		for i, l := range Wrap(Printable(m), Width-6) {
			t.b.WriteString(strings.Repeat(" ", 2+4*min(i, 1)) + l + "\n")
		}
	}
}

// pageProblems writes what of a page could not be used.
func (t *text) pageProblems(i *telemetry.PageInfo) {
	var lines []string
	for _, c := range []struct {
		n           int
		text, first string
	}{
		{i.Malformed, "malformed, left out", ""},
		{i.Duplicate, "given twice, the first counts", ""},
		{i.NaN, "no number, left out", i.FirstNaN},
		{i.OutOfRange, "cannot be true, left out", i.FirstOutOfRange},
	} {
		if c.n == 0 {
			continue
		}
		line := Count(int64(c.n)) + " " + c.text
		if c.first != "" {
			line += ": first " + Printable(c.first)
		}
		lines = append(lines, line)
	}
	for _, p := range i.Problems {
		s := p.Text
		if p.Line > 0 {
			s = fmt.Sprintf("line %d: %s", p.Line, s)
		}
		lines = append(lines, s)
	}
	if len(lines) > 0 {
		t.section("PROBLEMS", lines...)
	}
}
