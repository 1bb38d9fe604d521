package content

import "strconv"

// builtins are the parts of documents that are made by code, because their
// numbers must agree with one another.
var builtins = map[string]builtin{
	"new":      func(s *state, dst []byte) []byte { s.newDocument(); return dst },
	"date":     func(s *state, dst []byte) []byte { return appendDate(dst, s.between(firstDay, lastDay), s.g.zh) },
	"isodate":  func(s *state, dst []byte) []byte { return appendISO(dst, s.between(firstDay, lastDay)) },
	"later":    func(s *state, dst []byte) []byte { return appendDate(dst, s.later(1, 75), s.g.zh) },
	"isolater": func(s *state, dst []byte) []byte { return appendISO(dst, s.later(1, 75)) },
	"soon":     func(s *state, dst []byte) []byte { return appendISO(dst, s.later(0, 3)) },
	"today":    func(s *state, dst []byte) []byte { return appendDate(dst, s.later(0, 0), s.g.zh) },
	"isotoday": func(s *state, dst []byte) []byte { return appendISO(dst, s.later(0, 0)) },
	// Dates about the document's own, without moving its clock.
	"past":      func(s *state, dst []byte) []byte { return appendDate(dst, s.later(0, 0)-s.between(20, 900), s.g.zh) },
	"future":    func(s *state, dst []byte) []byte { return appendDate(dst, s.later(0, 0)+s.between(300, 2500), s.g.zh) },
	"soonafter": func(s *state, dst []byte) []byte { return appendDate(dst, s.later(0, 0)+s.between(5, 120), s.g.zh) },
	"year": func(s *state, dst []byte) []byte {
		y, _, _ := civil(s.later(0, 0))
		return strconv.AppendInt(dst, y, 10)
	},
	"lastyear": func(s *state, dst []byte) []byte {
		y, _, _ := civil(s.later(0, 0))
		return strconv.AppendInt(dst, y-1, 10)
	},
	"money": money,
	"model": model,
	"born": func(s *state, dst []byte) []byte {
		s.walk[walkBorn] = s.later(0, 0) - s.between(34*365, 88*365)
		return dst
	},
	"age": func(s *state, dst []byte) []byte {
		return strconv.AppendInt(dst, (s.later(0, 0)-s.walk[walkBorn])*4/1461, 10)
	},
	"dob":     func(s *state, dst []byte) []byte { return appendISO(dst, s.walk[walkBorn]) },
	"letter":  func(s *state, dst []byte) []byte { return append(dst, byte('a'+s.below(8))) },
	"exhibit": func(s *state, dst []byte) []byte { return append(dst, byte('A'+s.below(20))) },
}

// Days are counted from 1970-01-01, as Unix does. Documents are dated from 2004
// to 2024.
const (
	firstDay = 12418
	lastDay  = 20088
)

// walkBorn is the place in state.walk of a patient's day of birth.
const walkBorn = 5

// later moves the document's clock on by lo..hi days and returns its day.
func (s *state) later(lo, hi int64) int64 {
	if s.day == 0 {
		s.day = int(s.between(firstDay, lastDay-2000))
	}
	s.day += int(s.between(lo, hi))
	return int64(s.day)
}

// civil returns the date of a day since 1970-01-01 (the era method of the
// proleptic Gregorian calendar: 400 years are 146,097 days).
func civil(day int64) (year, month, dom int64) {
	z := day + 719468
	era := z / 146097
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	dom = doy - (153*mp+2)/5 + 1
	month = mp + 3
	year = yoe + era*400
	if month > 12 {
		month -= 12
		year++
	}
	return year, month, dom
}

var monthNames = [...]string{
	"January", "February", "March", "April", "May", "June", "July", "August",
	"September", "October", "November", "December",
}

func appendDate(dst []byte, day int64, zh bool) []byte {
	y, m, d := civil(day)
	if zh {
		dst = append(strconv.AppendInt(dst, y, 10), "年"...)
		dst = append(strconv.AppendInt(dst, m, 10), "月"...)
		return append(strconv.AppendInt(dst, d, 10), "日"...)
	}
	dst = append(append(dst, monthNames[m-1]...), ' ')
	dst = append(strconv.AppendInt(dst, d, 10), ", "...)
	return strconv.AppendInt(dst, y, 10)
}

func appendISO(dst []byte, day int64) []byte {
	y, m, d := civil(day)
	dst = append(strconv.AppendInt(dst, y, 10), '-')
	dst = append(appendNumber(dst, m, '!', 0), '-')
	return appendNumber(dst, d, '!', 0)
}

// amount draws a sum whose size is spread evenly over the powers of ten from
// 10^lo to 10^hi, in two or three figures, as people agree on sums.
func (s *state) amount(lo, hi int64) int64 {
	v := s.between(10, 999)
	if v >= 100 {
		v -= v % 5
	}
	for range s.between(lo, hi) - 1 {
		v *= 10
	}
	return v
}

func money(s *state, dst []byte) []byte {
	if s.g.zh {
		return rmb(s, dst)
	}
	return appendGrouped(append(dst, '$'), s.amount(3, 6))
}

// rmb appends a sum in yuan, sometimes with the capital numerals that Chinese
// contracts and cheques repeat it in.
func rmb(s *state, dst []byte) []byte {
	v := s.amount(3, 6)
	dst = append(appendGrouped(append(dst, "人民币"...), v), "元"...)
	if s.below(3) == 0 {
		dst = append(dst, "（大写："...)
		dst = append(appendCapital(dst, v), "元整）"...)
	}
	return dst
}

const capitals = "零壹贰叁肆伍陆柒捌玖"

// appendCapital appends 0 < v < 10^12 in the numerals of Chinese cheques.
func appendCapital(dst []byte, v int64) []byte {
	units := [...]string{"", "拾", "佰", "仟"}
	groups := [...]string{"", "万", "亿"}
	gap, started := false, false
	for g := 2; g >= 0; g-- {
		scale := int64(1)
		for range g {
			scale *= 10000
		}
		part := v / scale % 10000
		if part == 0 {
			gap = started
			continue
		}
		for u, unit := 3, int64(1000); u >= 0; u, unit = u-1, unit/10 {
			d := part / unit % 10
			if d == 0 {
				gap = started
				continue
			}
			if gap {
				dst = append(dst, "零"...)
				gap = false
			}
			dst = append(append(dst, capitals[3*d:3*d+3]...), units[u]...)
			started = true
		}
		dst = append(dst, groups[g]...)
		gap = false
		if part%10 == 0 {
			gap = true
		}
	}
	return dst
}

// model appends a type designation such as KX-2140.
func model(s *state, dst []byte) []byte {
	x := s.next()
	dst = append(dst, byte('A'+x%26), byte('A'+(x>>8)%26), '-')
	return strconv.AppendUint(dst, 100+(x>>16)%9900, 10)
}
