package report

import (
	"fmt"
	"io"
	"math"
	"strings"

	"plimsoll/internal/signal"
)

// Course is how one signal went during a run, on the grid of its timeline.
type Course struct {
	// Signal is its name, Of what tells several of one name apart: the source, its
	// labels; "" where there is only one.
	Signal string
	Of     string
	// Unit is that of the values.
	Unit string
	// Group is where it is shown.
	Group signal.Group
	// State says that values without unit are states rather than shares.
	State bool
	// Values has one value for each point of the grid, NaN where nothing is known.
	Values []float64
	// Beside is the client's own figure of the same, nil when there is none.
	Beside *Course
}

// Courses are the courses of one run.
type Courses struct {
	// Start and Step are the time of the first point of the grid and the distance of
	// its points, in s of the run.
	Start, Step float64
	// List is in the order in which they are shown.
	List []Course
	// Notes are shown below.
	Notes []string
}

const (
	courseName  = 27
	courseChart = 17
	courseValue = 8
)

// Signals writes the course of every signal for a person at a terminal. No line is
// longer than Width.
func Signals(w io.Writer, c *Courses) error {
	t := new(text)
	if len(c.List) == 0 {
		t.section("SIGNALS", "none were read")
	}
	for _, g := range append([]struct {
		group signal.Group
		name  string
	}{{signal.Client, "client"}}, append(groupNames, struct {
		group signal.Group
		name  string
	}{signal.Scrape, "reading the sources"})...) {
		first := true
		for i := range c.List {
			if c.List[i].Group != g.group {
				continue
			}
			if first {
				first = false
				t.b.WriteString("\n" + Pad(strings.ToUpper(g.name), courseName+1) + Pad("course", courseChart))
				for _, h := range []string{"least", "mean", "most"} {
					t.b.WriteString(PadLeft(h, courseValue))
				}
				t.b.WriteString("\n")
			}
			t.course(&c.List[i], "")
			if b := c.List[i].Beside; b != nil {
				t.course(b, " ")
			}
		}
	}
	points := 0
	for i := range c.List {
		points = max(points, len(c.List[i].Values))
	}
	if points > 0 {
		end := c.Start + float64(points)*c.Step
		lines := []string{fmt.Sprintf("a chart is from %s to %s of the run, %s a column, from its own least to its own most; blank is not known",
			Seconds(c.Start), Seconds(end), Seconds(max(c.Step, (end-c.Start)/courseChart)))}
		t.section("COURSES", append(lines, c.Notes...)...)
	}
	_, err := io.WriteString(w, strings.TrimPrefix(t.b.String(), "\n"))
	return err
}

// course writes one line, and a line before it where the name needs one.
func (t *text) course(c *Course, indent string) {
	name := indent + c.Signal
	if c.Of != "" {
		name += " " + c.Of
	}
	name = Printable(name)
	if len([]rune(name)) > courseName {
		t.b.WriteString(Cut(name, Width) + "\n")
		name = ""
	}
	least, most, sum, n := math.Inf(1), math.Inf(-1), 0.0, 0
	for _, v := range c.Values {
		if !math.IsNaN(v) {
			least, most, sum, n = min(least, v), max(most, v), sum+v, n+1
		}
	}
	if n == 0 {
		t.b.WriteString(Pad(name, courseName+1) + "not known\n")
		return
	}
	unit, scale := commonUnit(c.Unit, c.State, math.Max(math.Abs(least), math.Abs(most)))
	line := Pad(name, courseName+1) + Pad(chart(c.Values, courseChart, least, most), courseChart)
	for _, v := range []float64{least, sum / float64(n), most} {
		line += PadLeft(compact(v*scale), courseValue)
	}
	t.b.WriteString(Cut(strings.TrimRight(line+" "+unit, " "), Width) + "\n")
}

// commonUnit returns a unit for values of which most is the largest, and what they
// are multiplied with.
func commonUnit(unit string, state bool, most float64) (string, float64) {
	steps := func(unit string, prefixes ...string) (string, float64) {
		scale := 1.0
		for _, p := range prefixes {
			if most*scale < 1000 {
				return p + unit, scale
			}
			scale /= 1000
		}
		return prefixes[len(prefixes)-1] + unit, scale * 1000
	}
	switch unit {
	case "1":
		if state {
			return "", 1
		}
		return "%", 100
	case "s":
		switch {
		case most < 1e-3:
			return "us", 1e6
		case most < 1:
			return "ms", 1e3
		}
		return "s", 1
	case "bytes":
		return steps("B", "", "k", "M", "G", "T")
	case "bytes/s":
		return steps("B/s", "", "k", "M", "G", "T")
	case "W", "J", "Hz", "FLOP", "FLOP/s":
		return steps(unit, "", "k", "M", "G", "T", "P")
	}
	return unit, 1
}

var blocks = []rune("▁▂▃▄▅▆▇█")

// chart draws values, NaN for unknown, from least to most in n columns: each the
// mean of what is known of its stretch.
func chart(values []float64, n int, least, most float64) string {
	n = min(n, len(values))
	out := make([]rune, n)
	for i := range out {
		sum, known := 0.0, 0
		for _, v := range values[i*len(values)/n : (i+1)*len(values)/n] {
			if !math.IsNaN(v) {
				sum, known = sum+v, known+1
			}
		}
		switch {
		case known == 0:
			out[i] = ' '
		case most <= least:
			// Nothing changed: at the bottom when it was nothing, else in the middle.
			out[i] = blocks[0]
			if most != 0 {
				out[i] = blocks[3]
			}
		default:
			level := (sum/float64(known) - least) / (most - least) * float64(len(blocks))
			out[i] = blocks[min(int(level), len(blocks)-1)]
		}
	}
	return string(out)
}
