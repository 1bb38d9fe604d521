package twin

import (
	"slices"
	"sort"
	"strconv"
	"strings"
)

// exposition writes Prometheus' text format 0.0.4, in the manner of the exporter
// that it stands for.
type exposition struct {
	b []byte
	// python says that values look as Python's client writes them: 1.0 and 1e+06.
	python bool
}

// family starts a family of samples.
func (e *exposition) family(name, kind, help string) {
	e.b = append(append(append(append(e.b, "# HELP "...), name...), ' '), strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(help)...)
	e.b = append(append(append(append(e.b, "\n# TYPE "...), name...), ' '), kind...)
	e.b = append(e.b, '\n')
}

// sample writes one sample; labels come from labels, or are empty.
func (e *exposition) sample(name, labels string, v float64) {
	e.b = append(e.b, name...)
	if labels != "" {
		e.b = append(append(append(e.b, '{'), labels...), '}')
	}
	e.b = append(e.value(append(e.b, ' '), v), '\n')
}

// labels renders pairs of name and value.
func labels(pairs ...string) string {
	var b strings.Builder
	for i := 0; i+1 < len(pairs); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(pairs[i])
		b.WriteString(`="`)
		b.WriteString(strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(pairs[i+1]))
		b.WriteByte('"')
	}
	return b.String()
}

// value writes v, in Python's way with at least one decimal, and from a million on
// with an exponent.
func (e *exposition) value(b []byte, v float64) []byte {
	if !e.python {
		return strconv.AppendFloat(b, v, 'f', -1, 64)
	}
	if v >= 1e6 {
		return strconv.AppendFloat(b, v, 'e', -1, 64)
	}
	n := len(b)
	b = strconv.AppendFloat(b, v, 'f', -1, 64)
	if !slices.Contains(b[n:], '.') {
		b = append(b, ".0"...)
	}
	return b
}

// histogram writes the samples of h. The bucket's bound stands between the labels
// before and after.
func (e *exposition) histogram(name, before, after string, h *buckets) {
	join := func(parts ...string) string {
		return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ",")
	}
	sum := uint64(0)
	for i, n := range h.counts {
		sum += n
		le := "+Inf"
		if i < len(h.bounds) {
			le = string(e.value(nil, h.bounds[i]))
		}
		e.sample(name+"_bucket", join(before, `le="`+le+`"`, after), float64(sum))
	}
	all := join(before, after)
	e.sample(name+"_count", all, float64(sum))
	e.sample(name+"_sum", all, h.sum)
}

// buckets is a histogram with fixed upper bounds, which its values may reach.
type buckets struct {
	bounds []float64
	counts []uint64 // one more than bounds
	sum    float64
}

func newBuckets(bounds []float64) buckets {
	return buckets{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

// observe counts n values of v.
func (h *buckets) observe(v float64, n uint64) {
	h.counts[sort.SearchFloat64s(h.bounds, v)] += n
	h.sum += v * float64(n)
}

// copy returns what stays as it is.
func (h *buckets) copy() buckets {
	return buckets{bounds: h.bounds, counts: slices.Clone(h.counts), sum: h.sum}
}
