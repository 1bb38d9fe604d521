package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"plimsoll/internal/signal"
)

// maxDepth bounds the nesting of JSON that is looked into.
const maxDepth = 16

// maxElements bounds the steps that one page may hold: engines keep some thousands until they are read.
const maxElements = 20_000

// decodeJSON reads a page of JSON objects: one, several after each other, or a list of them. What is beyond
// maxElements is left unread.
func decodeJSON(body []byte) (elements []map[string]any, ok bool) {
	b := bytes.TrimLeft(body, " \t\r\n\ufeff")
	// The exposition format may begin with a brace too: {"name.with.dots",label="x"} 1.
	if len(b) == 0 || b[0] != '[' && b[0] != '{' {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(b))
	for len(elements) < maxElements {
		if b[0] != '[' {
			var m map[string]any
			if err := d.Decode(&m); errors.Is(err, io.EOF) {
				return elements, true
			} else if err != nil {
				return nil, false
			}
			elements = append(elements, m)
			continue
		}
		if tok, err := d.Token(); errors.Is(err, io.EOF) {
			return elements, true
		} else if err != nil || tok != json.Delim('[') {
			return nil, false
		}
		for d.More() && len(elements) < maxElements {
			var v any
			if err := d.Decode(&v); err != nil {
				return nil, false
			}
			if m, ok := v.(map[string]any); ok {
				elements = append(elements, m)
			}
		}
		if len(elements) < maxElements {
			if _, err := d.Token(); err != nil {
				return nil, false
			}
		}
	}
	return elements, true
}

// readJSON reads the elements of a JSON page: gauges are those of the last one, counters and
// distributions are running totals over all elements of all pages.
func (r *Reader) readJSON(elements []map[string]any, start, end int64, sink signal.Sink) (PageInfo, error) {
	r.form(true)
	if len(elements) == 0 {
		// Drained since the last reading: totals stand, gauges are unknown.
		r.begin()
		for i := range r.plan {
			o := &r.plan[i]
			o.state = stateNaN
			if o.adds() {
				o.state, o.last = stateOK, o.course.total
			}
		}
	}
	total := PageInfo{}
	for _, e := range elements {
		r.begin()
		r.flatten("", e, 0)
		if r.replan || r.seenN != r.plannedN {
			r.compile()
		}
		for i := range r.plan {
			o := &r.plan[i]
			v, _ := o.work()
			if o.key.field == signal.TotalCount && len(o.way.Count) == 0 && finite(v) {
				v = 1
			}
			o.judge(v)
			if o.adds() {
				if o.state == stateOK {
					o.course.total += v
				}
				o.state, o.last = stateOK, o.course.total
			}
		}
		total.NaN += r.info.NaN
		if total.FirstNaN == "" {
			total.FirstNaN = r.info.FirstNaN
		}
		total.New += r.info.New
	}
	if len(elements) > 0 && len(r.active) == 0 {
		return r.info, fmt.Errorf("%w: JSON of which no table knows anything", ErrNotAPage)
	}
	r.info.NaN, r.info.New, r.info.Restarts, r.info.FirstNaN = total.NaN, total.New, 0, total.FirstNaN
	if len(elements) == maxElements {
		r.problem(0, fmt.Sprintf("%d steps or more: what is beyond was left out", maxElements))
	}
	r.samples = r.samples[:0]
	for i := range r.plan {
		r.out(&r.plan[i], 0, start, end, sink)
	}
	if len(elements) > 0 {
		r.forget()
	}
	if sink != nil && len(r.samples) > 0 {
		sink.Add(r.samples)
	}
	return r.info, nil
}

// adds says whether the elements of a page add up to the output.
func (o *output) adds() bool {
	return o.way != nil && !o.way.Last && (o.id.Def().Kind == signal.Counter || o.key.field != signal.Value)
}

// flatten takes the numbers of an element under their paths.
func (r *Reader) flatten(path string, v any, depth int) {
	switch x := v.(type) {
	case map[string]any:
		if depth > maxDepth {
			return
		}
		for _, k := range sortedKeys(x) {
			p := k
			if path != "" {
				p = path + "." + k
			}
			r.flatten(p, x[k], depth+1)
		}
	case float64:
		r.number(path, x)
	case bool:
		n := 0.0
		if x {
			n = 1
		}
		r.number(path, n)
	}
}

func (r *Reader) number(path string, v float64) {
	if r.info.Series >= r.opts.MaxSeries {
		r.full()
		return
	}
	r.key = append(r.key[:0], path...)
	f := r.known(r.key)
	if f.s == nil {
		f = r.meet(path, path, nil)
	}
	r.value(f, v, 0, 0)
}
