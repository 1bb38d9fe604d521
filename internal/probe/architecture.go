package probe

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"plimsoll/internal/record"
	"plimsoll/internal/run"
)

// rungAxis is that of rungs which differ in kind and not in size: their numbers.
var rungAxis = run.ProbeAxis{Name: "rung", Unit: ""}

var expertRouting = kind{
	question: "Does the time of a token depend on what the text is about?",
	x:        rungAxis, y: tpotAxis,
	steps: routingSteps,
	fit:   fitRouting,
}

func fitRouting(d *data, out *run.Probe) {
	var names []string
	var values [][]float64
	var lengths []float64
	for i := range d.steps {
		st := &d.steps[i]
		v := st.values(tpot)
		name := st.label()
		if len(st.Parts) > 0 {
			name = "mixed"
		}
		if len(v) == 0 {
			continue
		}
		names, values, lengths = append(names, name), append(values, v), append(lengths, st.prompt())
		point(out, name, float64(i), median(slices.Clone(v)), len(v))
		b := batchOf(st)
		result(out, "rate of "+name, estimate{b.rate, math.NaN(), math.NaN()}, "tokens/s", true, "Tokens a second of %s.", plural(st.Users, "users"))
	}
	if len(values) < 2 {
		result(out, "spread", unknown, "times", false, "Two domains are needed, there are %d.", len(values))
		return
	}
	slow, fast := 0, 0
	mid := func(i int) float64 { return median(slices.Clone(values[i])).value }
	for i := range values {
		if mid(i) > mid(slow) {
			slow = i
		}
		if mid(i) < mid(fast) {
			fast = i
		}
	}
	if slow == fast {
		fast = (slow + 1) % len(values) // all take as long: any two will do
	}
	e := ratio(values[fast], values[slow])
	result(out, "spread", e, "times", true, "The time of a token of %s over that of %s, the slowest over the fastest of %d domains (Hodges and Lehmann on logarithms; the two were picked, so that a little above 1 means nothing).", names[slow], names[fast], len(values))
	for i, n := range names {
		if n != "mixed" {
			continue
		}
		var single []float64
		for j := range values {
			if j != i && names[j] != "words" {
				single = append(single, values[j]...)
			}
		}
		result(out, "mixed", ratio(single, values[i]), "times", true, "The time of a token with all domains at once over that with one at a time: below 1 where a mixture of experts is loaded more evenly.")
	}
	if least, most := slices.Min(lengths), slices.Max(lengths); most > 1.02*least {
		note(out, "prompts of the domains are %s to %s tokens long: a part of the spread is that; a tokenizer would make them equal", count(least), count(most))
	}
	note(out, "a model without experts has no reason to differ; the twin does not look at what a text says")
}

var attentionWindow = kind{
	question: "Is there a length at which tokens or prompts suddenly cost more or less?",
	x:        promptAxis, y: tpotAxis,
	users: []int{1}, requests: func(int) int { return 8 },
	climbs: true,
	fit:    fitWindow,
}

// stepLimit is how far a pair of lengths must leave the trend to be called a step.
const stepLimit = 0.05

func fitWindow(d *data, out *run.Probe) {
	var x []float64
	var groups [2][][]float64
	for i := range d.steps {
		st := &d.steps[i]
		n, a, b := st.prompt(), st.values(tpot), st.values(ttft)
		if len(a) == 0 || len(b) == 0 {
			continue
		}
		x = append(x, n)
		groups[0], groups[1] = append(groups[0], a), append(groups[1], b)
		point(out, "tpot", n, median(slices.Clone(a)), len(a))
		point(out, "ttft", n, median(slices.Clone(b)), len(b))
	}
	found := false
	for f, name := range []string{"tpot", "ttft"} {
		for i := 1; i+1 < len(x); i++ {
			if x[i]/x[i-1] > 1.5 {
				continue // not a pair around a size
			}
			// By how much the pair's own slope leaves that from the rung before the pair
			// to the one behind it.
			lo, hi := i-2, i+1
			if lo < 0 {
				lo = 0
			}
			e := bootstrap([][]float64{groups[f][lo], groups[f][i-1], groups[f][i], groups[f][hi]}, func(m []float64) float64 {
				trend := (m[3] - m[2]) / (x[hi] - x[i])
				if lo < i-1 {
					trend = (trend + (m[1]-m[0])/(x[i-1]-x[lo])) / 2
				}
				return 100 * ((m[2] - m[1]) - trend*(x[i]-x[i-1])) / m[1]
			})
			step := math.Abs(e.value) > 100*stepLimit && (e.lo > 0 || e.hi < 0)
			found = found || step
			text := "no step"
			if step {
				text = "A STEP: the size of a window or of a context's extension lies in between"
			}
			result(out, fmt.Sprintf("%s from %s to %s", name, count(x[i-1]), count(x[i])), e, "%", true,
				"What it changes beyond the trend of the lengths around the pair (bootstrap of the requests of each length): %s.", text)
		}
	}
	if len(x) < 3 {
		result(out, "step", unknown, "%", false, "Three lengths are needed, there are %d.", len(x))
	} else if !found {
		note(out, "no pair of lengths leaves its trend by more than %.0f %%: a window that is there would make the slope smaller beyond it, and not a step", 100*stepLimit)
	}
}

var predictability = kind{
	question: "Do tokens come faster when they are easy to foresee?",
	x:        rungAxis, y: tpotAxis,
	users: []int{4}, requests: func(users int) int { return 4 * users },
	fit: fitPredictability,
}

func fitPredictability(d *data, out *run.Probe) {
	names := []string{"copy", "prose", "random"}
	var values [][]float64
	for i := range d.steps {
		st := &d.steps[i]
		if i >= len(names) {
			break
		}
		v := st.values(tpot)
		values = append(values, v)
		point(out, names[i], float64(i), median(slices.Clone(v)), len(v))
		per := st.values(func(r *request) float64 {
			if r.output <= 0 || r.eventCount == 0 {
				return math.NaN()
			}
			return float64(r.output) / float64(r.eventCount)
		})
		if len(per) > 0 {
			result(out, "tokens per event, "+names[i], mean(per), "", true, "Of %s (Student's interval); more than one where tokens that were drafted come together.", plural(len(per), "answers"))
		}
	}
	for i, v := range values {
		if i == 0 || len(v) == 0 || len(values[0]) == 0 {
			continue
		}
		e := ratio(values[0], v)
		text := "no speculation that shows"
		if e.lo > 1.05 {
			text = "speculation pays where the text can be foreseen"
		}
		result(out, names[i]+" over copy", e, "times", true, "The time of a token of %s text over that of copied text (Hodges and Lehmann on logarithms): %s.", names[i], text)
	}
	if len(out.Fits) == 0 {
		result(out, "random over copy", unknown, "times", false, "No answer had a time per token.")
	}
	if v := d.signals["spec_acceptance"]; len(v) > 0 {
		all := make([]float64, len(v))
		for i := range v {
			all[i] = v[i].value
		}
		note(out, "the server says that it accepted %.0f %% of what it drafted (median)", 100*median(all).value)
	}
}

var reasoning = kind{
	question: "What does more effort of reasoning cost until the answer begins?",
	x:        rungAxis, y: run.ProbeAxis{Name: "ttfc", Unit: "ms"},
	users: []int{2}, requests: func(users int) int { return 4 * users },
	fit: fitReasoning,
}

func fitReasoning(d *data, out *run.Probe) {
	var first []float64
	var base string
	for i := range d.steps {
		st := &d.steps[i]
		name := st.label()
		ttfc := st.values(func(r *request) float64 { return r.ttfc })
		tokens := st.values(func(r *request) float64 {
			if r.output < 0 {
				return math.NaN()
			}
			return float64(r.output)
		})
		thought := st.values(func(r *request) float64 {
			if r.reasoning < 0 {
				return math.NaN()
			}
			return float64(r.reasoning)
		})
		point(out, name, float64(i), median(slices.Clone(ttfc)), len(ttfc))
		if len(tokens) > 0 {
			result(out, "tokens, "+name, median(tokens), "tokens", true, "Of an answer with its reasoning (median of %d).", len(tokens))
		}
		if len(thought) > 0 {
			result(out, "reasoning, "+name, median(thought), "tokens", true, "Of the reasoning, as the server counts it (median of %d).", len(thought))
		}
		if v := st.values(ttft); len(v) > 0 {
			result(out, "ttft, "+name, median(v), "ms", true, "Until anything came, reasoning included (median of %d).", len(v))
		}
		if len(ttfc) == 0 {
			continue
		}
		if first == nil {
			first, base = ttfc, name
			continue
		}
		result(out, name+" over "+base, ratio(first, ttfc), "times", true, "The time until the first word of the answer itself (Hodges and Lehmann on logarithms).")
	}
	if len(out.Fits) == 0 {
		result(out, "ttfc", unknown, "ms", false, "No answer had any content.")
	}
}

var media = kind{
	question: "What do images and sounds cost until the first token?",
	x:        promptAxis, y: ttftAxis,
	users: []int{1}, requests: func(int) int { return 8 },
	fit: fitMedia,
}

func fitMedia(d *data, out *run.Probe) {
	slopes := map[string]*[2][]float64{}
	for i := range d.steps {
		st := &d.steps[i]
		kind := "image"
		if strings.Contains(st.Set["media"], "audio") {
			kind = "audio"
		}
		n, v := st.prompt(), st.values(ttft)
		if len(v) == 0 || math.IsNaN(n) {
			continue
		}
		point(out, kind, n, median(slices.Clone(v)), len(v))
		if slopes[kind] == nil {
			slopes[kind] = new([2][]float64)
		}
		for _, t := range v {
			slopes[kind][0] = append(slopes[kind][0], n)
			slopes[kind][1] = append(slopes[kind][1], t)
		}
	}
	for _, kind := range []string{"image", "audio"} {
		p := slopes[kind]
		if p == nil {
			continue
		}
		l := theilSen(p[0], p[1], confidence)
		if !l.slope.known() {
			result(out, "time per token, "+kind, unknown, "ms/token", false, "All prompts count the same: the server does not say what its media count.")
			continue
		}
		result(out, "time per token, "+kind, l.slope, "ms/token", true, "What each token more in the prompt costs until the first token of the answer (Theil and Sen over %d requests).", len(p[0]))
	}
	if len(out.Fits) == 0 {
		result(out, "time per token, image", unknown, "ms/token", false, "No request with media was answered.")
	}
}

// gapsOf are the times in ms between the successive events of a request.
func gapsOf(r *request) []float64 {
	var out []float64
	for k := 1; k < len(r.events); k++ {
		out = append(out, float64(r.events[k].at-r.events[k-1].at)/1e6)
	}
	return out
}

// reached says whether a clock point was.
func reached(t int64) bool { return t != record.Unset }
