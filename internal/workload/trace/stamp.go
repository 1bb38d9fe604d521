package trace

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A time in a file is a number in the format's unit or a date. Numbers are
// turned into ns digit by digit: a float64 would lose the nanoseconds of a Unix
// time.

// parseDecimal returns the number s times scale, rounded to the nearest, without
// going through a float unless s has an exponent.
func parseDecimal(s string, scale int64) (int64, error) {
	neg := strings.HasPrefix(s, "-")
	digits := strings.TrimLeft(s, "+-")
	if len(s)-len(digits) > 1 || digits == "" {
		return 0, strconv.ErrSyntax
	}
	if strings.ContainsAny(digits, "eE") {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsNaN(f) || math.Abs(f*float64(scale)) >= math.MaxInt64 {
			return 0, strconv.ErrRange
		}
		return int64(math.Round(f * float64(scale))), nil
	}
	whole, frac, _ := strings.Cut(digits, ".")
	if whole == "" && frac == "" {
		return 0, strconv.ErrSyntax
	}
	var n uint64
	if whole != "" {
		var err error
		if n, err = strconv.ParseUint(whole, 10, 63); err != nil {
			return 0, err
		}
	}
	if n > uint64(math.MaxInt64/scale) {
		return 0, strconv.ErrRange
	}
	v := int64(n) * scale
	add, unit := int64(0), scale
	rounded := false
	for i := range len(frac) {
		c := frac[i]
		if c < '0' || c > '9' {
			return 0, strconv.ErrSyntax
		}
		d := int64(c - '0')
		switch {
		case unit >= 10:
			unit /= 10
			add += d * unit
		case !rounded:
			rounded = true
			if d >= 5 {
				add++
			}
		}
	}
	if v > math.MaxInt64-add {
		return 0, strconv.ErrRange
	}
	v += add
	if neg {
		v = -v
	}
	return v, nil
}

// dateForms are the dates that traces have: with a space or a T, with or without
// a zone; the fraction may have any length or be missing.
var dateForms = [...]string{
	"2006-01-02 15:04:05Z07:00",
	"2006-01-02T15:04:05Z07:00",
	"2006-01-02 15:04:05",
	"2006-01-02T15:04:05",
}

// parseDate returns a date as Unix ns; without a zone it is UTC.
func parseDate(s string) (int64, error) {
	for _, form := range dateForms {
		t, err := time.Parse(form, s)
		if err == nil {
			if y := t.Year(); y < 1971 || y > 2200 {
				return 0, fmt.Errorf("a date of the year %d", y)
			}
			return t.UnixNano(), nil
		}
	}
	return 0, strconv.ErrSyntax
}

// isDate says whether s looks like a date and not like a number.
func isDate(s string) bool {
	return len(s) >= 10 && s[4] == '-' && s[7] == '-'
}

// timeKind is what sort of time a file has. One file has one sort.
type timeKind uint8

const (
	noTime timeKind = iota
	dateTime
	relativeTime // a number of units since some origin
	epochSeconds
	epochMilli
	epochMicro
	epochNano
)

var timeKindNames = [...]string{"no time", "a date", "a number", "Unix seconds", "Unix milliseconds", "Unix microseconds", "Unix nanoseconds"}

// kindOf sorts a number by its size. Between 2001 and 2096 the units of Unix times
// do not overlap. What is no number, or of no date that ns can hold, is no Unix time.
func kindOf(s string) timeKind {
	f, err := strconv.ParseFloat(s, 64)
	switch f = math.Abs(f); {
	case err != nil, math.IsNaN(f), f >= math.MaxInt64, f < 1e9:
		return relativeTime
	case f < 4e9:
		return epochSeconds
	case f < 1e12:
		return relativeTime
	case f < 4e12:
		return epochMilli
	case f < 1e15:
		return relativeTime
	case f < 4e15:
		return epochMicro
	case f < 1e18:
		return relativeTime
	}
	return epochNano
}

// unit is the unit of a Unix time, empty for others.
func (k timeKind) unit() Unit {
	switch k {
	case epochSeconds:
		return Seconds
	case epochMilli:
		return Milli
	case epochMicro:
		return Micro
	case epochNano:
		return Nanoseconds
	}
	return ""
}

func (k timeKind) epoch() bool { return k >= epochSeconds }

// decades is longer than any trace and shorter than what lies between 0 and the Unix times
// that kindOf knows, which begin in 2001.
const decades = int64(20 * 365 * 24 * time.Hour)

// time reads the time of a row into ns. unit is the format's.
func (r *Reader) time(line int, field, s string, unit Unit) (int64, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return Unset, r.bad(line, field, "missing", "is empty, want a time")
	}
	if r.opts.TimeUnit != UnitAuto {
		unit = r.opts.TimeUnit
	}
	if unit == UnitAuto {
		unit = Seconds // a format that has no times of its own
	}
	var k timeKind
	var ns int64
	var err error
	if isDate(s) {
		k = dateTime
		ns, err = parseDate(s)
	} else {
		if unit == Date {
			return Unset, r.bad(line, field, "time", fmt.Sprintf("%s is not a date such as 2023-11-16 18:15:46.68; with --time-unit numbers are read", shown(s)))
		}
		if unit != Nanoseconds {
			k = kindOf(s)
		} else {
			k = relativeTime // every size is usual
		}
		if own := k.unit(); own != "" && own.scale() < unit.scale() {
			return Unset, r.bad(line, field, "unit", fmt.Sprintf("%s looks like %s, but times of format %s are %s; say --time-unit %s if so", shown(s), timeKindNames[k], r.format.name, unitName(unit), own))
		}
		ns, err = parseDecimal(s, unit.scale())
	}
	if err != nil {
		return Unset, r.bad(line, field, "time", fmt.Sprintf("%s is not a time (want a number of %s or a date)", shown(s), unitName(unit)))
	}
	if ns < 0 {
		return Unset, r.bad(line, field, "negative_time", fmt.Sprintf("%s is before the beginning, want 0 or more", shown(s)))
	}
	switch {
	case r.timeKind == noTime:
		r.timeKind, r.timeLine = k, line
		r.firstTime = ns
	case k != r.timeKind && (k == dateTime || r.timeKind == dateTime || k.epoch() && r.timeKind.epoch() ||
		k.unit() == unit && ns-r.firstTime > decades || r.timeKind.unit() == unit && r.firstTime-ns > decades):
		// A file that starts near 0 and counts on past 10^9 is no mix: only two kinds
		// of Unix times are, a date beside a number, or a Unix time decades from a
		// number near 0 in the same unit.
		return Unset, r.bad(line, field, "mixed_units", fmt.Sprintf("%s is %s, line %d has %s: one file has one unit", shown(s), timeKindNames[k], r.timeLine, timeKindNames[r.timeKind]))
	}
	if k == relativeTime && strings.Contains(s, ".") && !strings.HasSuffix(s, ".0") {
		r.fractions++
	}
	return ns - r.firstTime, nil
}

// unit is what numbers that are times are in.
func (r *Reader) unit() Unit {
	u := r.format.unit
	if r.opts.TimeUnit != UnitAuto {
		u = r.opts.TimeUnit
	}
	if u.scale() == 0 {
		u = Seconds
	}
	return u
}

func unitName(u Unit) string {
	switch u {
	case Seconds:
		return "seconds"
	case Milli:
		return "milliseconds"
	case Micro:
		return "microseconds"
	case Nanoseconds:
		return "nanoseconds"
	}
	return "seconds"
}

// span reads a length of time into ns.
func (r *Reader) span(line int, field, s string, unit Unit) (int64, error) {
	ns, err := parseDecimal(strings.TrimSpace(s), unit.scale())
	if err != nil {
		return 0, r.bad(line, field, "time", fmt.Sprintf("%s is not a number of %s", shown(s), unitName(unit)))
	}
	if ns < 0 {
		return 0, r.bad(line, field, "negative_time", fmt.Sprintf("%s is below 0", shown(s)))
	}
	return ns, nil
}

// shown quotes a value of a file, not all of it when it is long.
func shown(s string) string {
	if len(s) > 40 {
		s = strings.ToValidUTF8(s[:37], "") + "..."
	}
	return strconv.Quote(s)
}
