package report

import (
	"strings"

	"plimsoll/internal/run"
)

// probe writes what a probe came to: its figures with their intervals, each with
// what it means below, then what was measured at each rung, then what must be known
// of both.
func (t *text) probe(p *run.Probe) {
	if p == nil {
		return
	}
	t.section("PROBE", p.Probe+": "+p.Question)
	name := 0
	for _, f := range p.Fits {
		name = max(name, len([]rune(f.Name)))
	}
	name = min(name, 34)
	for _, f := range p.Fits {
		value := "-"
		if f.Value != nil {
			value = compact(*f.Value)
			switch f.Unit {
			case "":
			case "1/s":
				value += "/s"
			default:
				value += " " + Printable(f.Unit)
			}
		}
		line := "  " + Pad(Cut(Printable(f.Name), name), name) + "  " + value
		if f.Lo != nil && f.Hi != nil {
			line += "  [" + compact(*f.Lo) + " to " + compact(*f.Hi) + "]"
		}
		if !f.OK && f.Value != nil {
			line += "  !"
		}
		t.b.WriteString(Cut(line, Width) + "\n")
		for _, l := range Wrap(Printable(f.Text), Width-6) {
			t.b.WriteString("      " + l + "\n")
		}
	}
	t.b.WriteString("    [] the 95 % interval, unless the text says otherwise; ! no clean answer\n")
	t.points(p)
	if len(p.Points) > 0 && len(p.Notes) > 0 {
		t.b.WriteString("\n")
	}
	for _, n := range p.Notes {
		t.wrapped("  - ", n)
	}
}

// wrapped writes a text whose further lines stand below its beginning.
func (t *text) wrapped(mark, line string) {
	for _, l := range Wrap(Printable(line), Width-len(mark)) {
		t.b.WriteString(mark + l + "\n")
		mark = strings.Repeat(" ", len(mark))
	}
}

// longSeries is how many rungs of a series are printed.
const longSeries = 16

// points writes the rungs of each series.
func (t *text) points(p *run.Probe) {
	if len(p.Points) == 0 {
		return
	}
	axis := func(a run.ProbeAxis) string {
		if a.Unit == "" || a.Unit == a.Name {
			return a.Name
		}
		return a.Name + ", " + a.Unit
	}
	t.b.WriteString("\n")
	t.wrapped("  ", "rungs: x is "+axis(p.X)+"; y is "+axis(p.Y))
	t.b.WriteString("  " + Pad("series", 22) + PadLeft("x", 12) + PadLeft("y", 12) + PadLeft("from", 12) + PadLeft("to", 12) + PadLeft("n", 8) + "\n")
	of := map[string]int{}
	for _, q := range p.Points {
		of[q.Series]++
	}
	seen, left := map[string]int{}, 0
	for _, q := range p.Points {
		// A long series is drawn elsewhere: here a part of it will do.
		every := (of[q.Series] + longSeries - 1) / longSeries
		if seen[q.Series]++; (seen[q.Series]-1)%every != 0 {
			left++
			continue
		}
		t.b.WriteString("  " + Pad(Cut(Printable(q.Series), 22), 22) + PadLeft(compact(q.X), 12) + PadLeft(compact(q.Y), 12) +
			PadLeft(ptr(q.Lo), 12) + PadLeft(ptr(q.Hi), 12) + PadLeft(Count(q.N), 8) + "\n")
	}
	if left > 0 {
		t.b.WriteString("  and " + Count(left) + " in between, which --output json has\n")
	}
}
