package trace

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// Trace is a whole trace, ready to be replayed: sorted, its times from 0, its
// sessions and dependencies checked.
type Trace struct {
	File, Format string
	Records      []Record
	// Summary is what Inspect says of the file, of all of it, whatever the window.
	Summary *Summary
	// spread says that requests of one instant were distributed, part which part
	// was taken, empty for all.
	spread bool
	part   string
	// length is the field with the length of a prompt, for messages.
	length string
}

// Selection says which part of a trace is taken, and how.
type Selection struct {
	// From and To bound the window, To excluded; 0 for To means the end. The times
	// of what is left begin at 0 again.
	From, To time.Duration
	// Spread distributes the requests of one instant evenly over the time to the
	// next one.
	Spread bool
	// Limit keeps that many requests, 0 for all.
	Limit int
}

// Load reads a whole trace. A row that is not right is an error unless the options
// say otherwise.
func Load(path string, opts Options, sel Selection) (*Trace, error) {
	r, err := Open(path, opts)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return LoadReader(r, sel)
}

// LoadReader reads the rest of r as Load does.
func LoadReader(r *Reader, sel Selection) (*Trace, error) {
	if sel.From < 0 || sel.To < 0 || sel.To > 0 && sel.To <= sel.From {
		return nil, fmt.Errorf("window: want a beginning and a later end, got %v to %v", sel.From, sel.To)
	}
	i := newInspector()
	i.later, i.spread = true, sel.Spread
	t := &Trace{File: r.base(), Format: r.format.name, length: r.lengthField()}
	for {
		rec, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		i.add(r, &rec)
		t.Records = append(t.Records, rec)
	}
	if i.hasDeps && !r.inspecting {
		for _, e := range checkGraph(nodesOf(t.Records), r.dropped) {
			e.File = t.File
			return nil, e
		}
		bridge(t.Records, r.dropped)
	}
	for k := range t.Records {
		if t.Records[k].At != Unset {
			t.Records[k].At -= i.first
		}
	}
	sortRecords(t.Records)
	for k := range t.Records {
		if rec := &t.Records[k]; len(rec.Hashes) > 0 && rec.Input > 0 {
			i.reuse.add(rec)
		}
	}
	t.Summary = i.summary(r)
	if p := r.problems["delta_of_cumulative"]; p != nil && !r.inspecting {
		return nil, fmt.Errorf("read trace %s: turns: %s", t.File, p.Text)
	}
	if sel.From > 0 || sel.To > 0 || sel.Limit > 0 && len(t.Records) > sel.Limit {
		t.Summary.Notices = slices.DeleteFunc(t.Summary.Notices, func(s string) bool { return slices.Contains(i.whole, s) })
		if text := sel.together(t.Records); text != "" {
			t.Summary.Notices = append(t.Summary.Notices, text)
		}
	}
	if sel.Spread {
		spread(t.Records)
		t.spread = true
	}
	before, last := len(t.Records), time.Duration(0)
	for i := range t.Records {
		last = max(last, time.Duration(t.Records[i].At))
	}
	if sel.From > 0 || sel.To > 0 {
		t.window(int64(sel.From), int64(sel.To))
		t.part = fmt.Sprintf("from %v", sel.From)
		if sel.To > 0 {
			t.part += fmt.Sprintf(" to %v", sel.To)
		}
	}
	if sel.Limit > 0 && len(t.Records) > sel.Limit {
		t.Records = t.Records[:sel.Limit]
		t.orphans()
	}
	if len(t.Records) == 0 {
		if before > 0 {
			return nil, fmt.Errorf("read trace %s: no request is left of %d: none is in the window %s, the last one begins at %v", t.File, before, t.part, last)
		}
		return nil, fmt.Errorf("read trace %s: no request is left of %d (%d rows were left out)", t.File, t.Summary.Requests,
			t.Summary.Skipped.BadRow+t.Summary.Skipped.ZeroOutput+t.Summary.Skipped.NoReplay+t.Summary.Skipped.Empty)
	}
	return t, nil
}

// together says that the requests that sel takes of records, which are sorted and not
// spread, stand on few instants, empty when they do not.
func (sel *Selection) together(records []Record) string {
	timed, instants, group, largest := 0, 0, 0, 0
	last := Unset
	for i := range records {
		at := records[i].At
		if at == Unset || at < int64(sel.From) || sel.To > 0 && at >= int64(sel.To) {
			continue
		}
		if sel.Limit > 0 && timed == sel.Limit {
			break
		}
		if timed++; at != last {
			instants++
			group, last = 0, at
		}
		group++
		largest = max(largest, group)
	}
	return together(timed, instants, largest, sel.Spread)
}

// lengthField is the name of the column or field with the length of a prompt.
func (r *Reader) lengthField() string {
	if t, ok := r.src.(*table); ok {
		return t.name("input")
	}
	if name := r.opts.Columns["input"]; name != "" {
		return name
	}
	if name, ok := map[string]string{
		"plimsoll": "input_tokens", "dynamo": "input_length", "weka": "in", "tracelab": "input_tokens_total", "applied-compute": "input_prompt_length",
		"otel": "gen_ai.usage.input_tokens",
	}[r.format.name]; ok {
		return name
	}
	return "input_length"
}

func nodesOf(records []Record) []node {
	var out []node
	for i := range records {
		if records[i].ID != "" || len(records[i].Deps) > 0 {
			out = append(out, node{records[i].ID, records[i].Line, records[i].Deps})
		}
	}
	return out
}

// bridge makes what waited for a request that was left out wait for what that one
// waited for.
func bridge(records []Record, dropped map[string][]string) {
	if len(dropped) == 0 {
		return
	}
	for i := range records {
		var deps []string
		seen := map[string]bool{}
		var add func(string)
		add = func(d string) {
			if seen[d] {
				return
			}
			seen[d] = true
			before, left := dropped[d]
			if !left {
				deps = append(deps, d)
				return
			}
			for _, b := range before {
				add(b)
			}
		}
		for _, d := range records[i].Deps {
			add(d)
		}
		records[i].Deps = deps
	}
}

// sortRecords sorts by time. A row without a time stays behind the row of its
// session before it, or where it was when it is its session's first.
func sortRecords(records []Record) {
	type key struct {
		at    int64
		order int
	}
	keys := make([]key, len(records))
	latest := map[string]int64{}
	running := int64(0)
	for i := range records {
		at := records[i].At
		if at == Unset {
			at = running
			if s := records[i].Session; s != "" {
				if t, ok := latest[s]; ok {
					at = t
				}
			}
		}
		running = at
		if s := records[i].Session; s != "" {
			latest[s] = at
		}
		keys[i] = key{at, i}
	}
	index := make([]int, len(records))
	for i := range index {
		index[i] = i
	}
	slices.SortStableFunc(index, func(a, b int) int {
		if keys[a].at != keys[b].at {
			return int(min(1, max(-1, keys[a].at-keys[b].at)))
		}
		return a - b
	})
	sorted := make([]Record, len(records))
	turns := map[string]int{}
	for to, from := range index {
		sorted[to] = records[from]
		if s := sorted[to].Session; s != "" {
			sorted[to].Turn = turns[s]
			turns[s]++
		}
	}
	copy(records, sorted)
}

// spread distributes requests of one instant evenly up to the next instant. Those
// of the last instant are spread over as long as those of the one before it were.
func spread(records []Record) {
	var timed []int
	for i := range records {
		if records[i].At != Unset {
			timed = append(timed, i)
		}
	}
	step := int64(0)
	for i := 0; i < len(timed); {
		at := records[timed[i]].At
		j := i + 1
		for j < len(timed) && records[timed[j]].At == at {
			j++
		}
		if j < len(timed) {
			step = records[timed[j]].At - at
		}
		for k := i; k < j; k++ {
			records[timed[k]].At = at + step*int64(k-i)/int64(j-i)
		}
		i = j
	}
}

// window keeps what begins from from to to. Sessions that began before go on with
// the turns that lie inside.
func (t *Trace) window(from, to int64) {
	kept := t.Records[:0]
	last := map[string]int64{}
	for i := range t.Records {
		rec := t.Records[i]
		at := rec.At
		if at == Unset {
			at = last[rec.Session]
		}
		last[rec.Session] = at
		if at < from || to > 0 && at >= to {
			continue
		}
		if rec.At != Unset {
			rec.At -= from
		}
		kept = append(kept, rec)
	}
	clear(t.Records[len(kept):])
	t.Records = kept
	t.orphans()
	rate := float64(len(kept)) / (float64(min(to, t.span())-from) / 1e9)
	if to == 0 {
		rate = float64(len(kept)) / (float64(t.span()-from) / 1e9)
	}
	if peak := t.Summary.busiest; peak > 0 {
		if ratio, warn := Quiet(rate, peak); warn {
			t.Summary.Notices = append(t.Summary.Notices, fmt.Sprintf("the window's rate is %s %% of that of the trace's busiest tenth: it would measure an idle service", trim(ratio*100)))
		}
	}
}

// Keep leaves out the requests that wrong has something to say of, and returns that.
func (t *Trace) Keep(wrong func(*Record) error) (out []error) {
	t.Records = slices.DeleteFunc(t.Records, func(rec Record) bool {
		err := wrong(&rec)
		if err != nil {
			out = append(out, err)
		}
		return err != nil
	})
	if len(out) > 0 {
		t.orphans()
	}
	return out
}

// OnlyImages returns what is wrong with a request that has nothing but images where
// those are not sent, nil for others.
func (t *Trace) OnlyImages(rec *Record) error {
	if !rec.hasNothing() || rec.Images == 0 {
		return nil
	}
	return &Error{
		File: t.File, Line: rec.Line, Field: "images", Text: "the row has nothing but images, which are not sent: --image-size 1024x768 sends made ones in their place, --on-bad-row skip leaves such rows out",
	}
}

func (t *Trace) span() int64 {
	if t.Summary.SpanS == nil {
		return 0
	}
	return int64(*t.Summary.SpanS * 1e9)
}

// orphans forgets requests that are no longer there: who waited for them begins on
// their own.
func (t *Trace) orphans() {
	here := map[string]bool{}
	for i := range t.Records {
		here[t.Records[i].ID] = true
	}
	first := map[string]bool{}
	for i := range t.Records {
		rec := &t.Records[i]
		rec.Deps = slices.DeleteFunc(rec.Deps, func(d string) bool { return !here[d] })
		if len(rec.Deps) == 0 && (rec.Graph || rec.Session != "" && !first[rec.Session]) && rec.At == Unset {
			rec.At = 0
		}
		first[rec.Session] = true
	}
}
