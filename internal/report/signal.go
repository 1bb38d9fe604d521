package report

import (
	"fmt"
	"io"
	"math"
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

// signalRate writes the growth of a counter in a second.
func signalRate(d *signal.Def, v float64) string {
	switch d.Unit {
	case "s":
		return Figure(v) + " s/s"
	case "J":
		return inUnit(v, "W", false)
	}
	return inUnit(v, d.Unit+"/s", false)
}

// inUnit writes a value with the prefix of its unit that suits it. State says that
// a number without unit is a state rather than a share.
func inUnit(v float64, unit string, state bool) string {
	switch unit {
	case "1":
		if state {
			return Figure(v)
		}
		return Percent(v)
	case "s":
		return Seconds(v)
	case "bytes":
		return byteCount(v)
	case "bytes/s":
		return byteCount(v) + "/s"
	case "W", "J", "Hz":
		return prefixed(v, unit)
	}
	return Figure(v) + " " + unit
}

func byteCount(v float64) string {
	if math.Abs(v) >= math.MaxInt64 {
		return Figure(v/1e12) + " TB"
	}
	return Bytes(int64(math.Round(v)))
}

// prefixed writes a value with k, M or G before its unit.
func prefixed(v float64, unit string) string {
	for _, p := range []string{"", "k", "M"} {
		if math.Abs(v) < 1e4 {
			return Figure(v) + " " + p + unit
		}
		v /= 1000
	}
	return Figure(v) + " G" + unit
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
	t.beside("", fmt.Sprintf("%s series, %s", Count(int64(r.Info.Series)), plural(int64(len(r.Signals)), "signal")))
	if len(r.Sources) == 0 {
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
	t.missing(r.Missing)
	t.pageProblems(&r.Info)
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
		if v, ok := r.Signals[d.Name+"_max"]; ok {
			row(d.Name+"_max", SignalValue(&d, v), "of the highest instance")
		}
	}
	return n
}

// missing writes which signals a page could have, and how to get them.
func (t *text) missing(list []telemetry.Missing) {
	if len(list) == 0 {
		return
	}
	type reason struct{ source, why, enable string }
	var order []reason
	names := map[reason][]string{}
	for _, m := range list {
		k := reason{m.Source, m.Why, m.Enable}
		if names[k] == nil {
			order = append(order, k)
		}
		names[k] = append(names[k], m.Signal)
	}
	t.b.WriteString("\nMISSING\n")
	for _, k := range order {
		for _, l := range Wrap(Printable(k.source+": "+strings.Join(names[k], ", ")), Width-2) {
			t.b.WriteString("  " + l + "\n")
		}
		why := k.why
		if k.enable != "" {
			why += "; " + k.enable
		}
		for _, l := range Wrap(Printable(why), Width-6) {
			t.b.WriteString("      " + l + "\n")
		}
	}
}

// pageProblems writes what of a page could not be used.
func (t *text) pageProblems(i *telemetry.PageInfo) {
	var lines []string
	for _, c := range []struct {
		n    int
		text string
	}{
		{i.Malformed, "malformed, left out"},
		{i.Duplicate, "given twice, the first counts"},
		{i.NaN, "no number, left out"},
		{i.OutOfRange, "cannot be true, left out"},
	} {
		if c.n > 0 {
			lines = append(lines, Count(int64(c.n))+" "+c.text)
		}
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
