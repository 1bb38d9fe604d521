package detail

import (
	"math"
	"strconv"

	"plimsoll/internal/record"
)

// Ms is a time or a duration in ms; in JSON it has at most three decimals.
type Ms float64

// ToMs returns ns as ms.
func ToMs(ns int64) Ms { return Ms(float64(ns) / 1e6) }

// NS returns m in ns.
func (m Ms) NS() int64 { return int64(math.Round(float64(m) * 1e6)) }

// MarshalJSON writes at most three decimals.
func (m Ms) MarshalJSON() ([]byte, error) {
	return appendDecimals(make([]byte, 0, 16), float64(m)), nil
}

// msOrNil is ns in ms, nil for what is not known.
func msOrNil(ns int64) *Ms {
	if ns == record.Unset {
		return nil
	}
	m := ToMs(ns)
	return &m
}

// appendDecimals appends v with at most three decimals, null for what is no number.
func appendDecimals(b []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(b, "null"...)
	}
	if a := math.Abs(v); a < 1e12 { // as a whole number of thousandths, which is exact
		n := int64(math.Round(a * 1000))
		if v < 0 && n > 0 {
			b = append(b, '-')
		}
		b = strconv.AppendInt(b, n/1000, 10)
		if f := n % 1000; f > 0 {
			b = append(b, '.', byte('0'+f/100), byte('0'+f/10%10), byte('0'+f%10))
			for b[len(b)-1] == '0' {
				b = b[:len(b)-1]
			}
		}
		return b
	}
	return strconv.AppendFloat(b, v, 'f', -1, 64)
}

// Times is a list of times or durations in ms, NaN for unknown: null in JSON,
// the others with at most three decimals.
type Times []float64

// MarshalJSON writes the list.
func (t Times) MarshalJSON() ([]byte, error) { return appendList(t, appendDecimals), nil }

// Values is a list of figures, NaN for unknown: null in JSON, the others rounded to
// six digits, twice as many as are ever shown.
type Values []float64

// MarshalJSON writes the list.
func (l Values) MarshalJSON() ([]byte, error) { return appendList(l, appendSix), nil }

// appendList writes a list as JSON, each value by value.
func appendList(list []float64, value func([]byte, float64) []byte) []byte {
	b := make([]byte, 0, 2+8*len(list))
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = value(b, v)
	}
	return append(b, ']')
}

// appendSix appends v rounded to six digits, null for what is no number.
func appendSix(b []byte, v float64) []byte {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return append(b, "null"...)
	case v == math.Trunc(v) && math.Abs(v) < 1e6:
		return strconv.AppendInt(b, int64(v), 10)
	}
	return strconv.AppendFloat(b, v, 'g', 6, 64)
}

// nan is the value of what is not known inside lists.
var nan = math.NaN()
