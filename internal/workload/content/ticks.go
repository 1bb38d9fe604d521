package content

import "strconv"

// This file makes market data: trades, quotes, depth and positions of a few
// symbols whose prices walk by ticks of a cent.

func init() {
	for name, f := range map[string]builtin{
		"open": openMarket, "tick": tick, "clock": clockTime, "symbol": symbol, "book": book, "position": position,
	} {
		builtins[name] = f
	}
}

// Places in state.walk: prices of the symbols first, then the clock.
const (
	walkSymbols = 6
	walkNanos   = 6
	walkSeed    = 7
)

// openMarket begins a session at half past nine and draws the symbols' prices.
func openMarket(s *state, dst []byte) []byte {
	s.walk[walkSeed] = int64(s.next() >> 2)
	for i := range walkSymbols {
		s.walk[i] = s.between(1200, 48000)
	}
	s.walk[walkNanos] = (9*3600+30*60)*1_000_000 + s.between(0, 3_000_000_000)
	y := s.later(0, 0)
	if s.g.zh {
		dst = append(appendISO(append(dst, "# 交易日 "...), y), " 逐笔行情 时间,代码,类型,价格,数量,方向,场所\n"...)
		return dst
	}
	dst = append(appendISO(append(dst, "# session "...), y), " time,symbol,type,price,size,side,venue\n"...)
	return dst
}

// clockTime appends the session's time of day in microseconds.
func clockTime(s *state, dst []byte) []byte {
	us := s.walk[walkNanos]
	dst = append(appendNumber(dst, us/3_600_000_000%24, '!', 0), ':')
	dst = append(appendNumber(dst, us/60_000_000%60, '!', 0), ':')
	dst = append(appendNumber(dst, us/1_000_000%60, '!', 0), '.')
	us %= 1_000_000
	for unit := int64(100_000); unit > 0; unit /= 10 {
		dst = append(dst, byte('0'+us/unit%10))
	}
	return dst
}

// ticker appends the name of the i-th symbol of the session.
func (s *state) ticker(dst []byte, i int) []byte {
	v := uint64(s.walk[walkSeed]) >> (7 * i)
	if s.g.zh {
		board := [...]string{"600", "601", "000", "002", "300", "688"}[v%6]
		dst = append(dst, board...)
		v = v / 6 * 37 % 1000
		dst = append(dst, byte('0'+v/100), byte('0'+v/10%10), byte('0'+v%10))
		if board[0] == '6' {
			return append(dst, ".SH"...)
		}
		return append(dst, ".SZ"...)
	}
	n := 3 + int(v%2)
	v = v*2654435761 + uint64(i)*40503
	for range n {
		dst = append(dst, "ABCDEFGHIJKLMNOPRSTUVWXYZ"[v%25])
		v /= 25
	}
	return dst
}

func symbol(s *state, dst []byte) []byte { return s.ticker(dst, s.below(walkSymbols)) }

// venue appends where a trade happened.
func (s *state) venue(dst []byte, x uint64) []byte {
	if s.g.zh {
		return append(dst, [...]string{"连续竞价", "盘后定价", "大宗", "连续竞价"}[x&3]...)
	}
	return append(dst, [...]string{"XNAS", "XNYS", "ARCX", "BATS", "EDGX", "IEXG", "MEMX", "FINR"}[x&7]...)
}

// tick appends one event of one symbol. One draw serves all its fields.
func tick(s *state, dst []byte) []byte {
	x := s.next()
	i := int(x % walkSymbols)
	// Gaps are short in bursts and long between them.
	gap := int64(x >> 8 & 0xfff)
	if x>>20&15 == 0 {
		gap *= 97
	}
	s.walk[walkNanos] += gap + 1
	move := int64(x>>24&7) - 3
	if x>>27&31 == 0 {
		move *= 9
	}
	s.walk[i] = max(100, s.walk[i]+move)
	px := s.walk[i]
	dst = append(clockTime(s, dst), ',')
	dst = append(s.ticker(dst, i), ',')
	size := int64(x>>32&31) + 1
	if x>>37&3 != 0 {
		size *= 100
	}
	if x>>39&3 == 0 { // a quote: both sides
		spread := int64(x>>41&3) + 1
		dst = append(dst, s.label("Q,", "报价,")...)
		dst = append(appendNumber(dst, px-spread, 0, 2), '/')
		dst = append(appendNumber(dst, px+spread, 0, 2), ',')
		dst = append(strconv.AppendInt(dst, size, 10), '/')
		dst = append(strconv.AppendInt(dst, (int64(x>>43&15)+1)*100, 10), ",,"...)
	} else {
		dst = append(dst, s.label("T,", "成交,")...)
		dst = append(appendNumber(dst, px, 0, 2), ',')
		dst = append(strconv.AppendInt(dst, size, 10), ',')
		if x>>48&1 == 0 {
			dst = append(dst, s.label("B,", "买,")...)
		} else {
			dst = append(dst, s.label("S,", "卖,")...)
		}
	}
	return append(s.venue(dst, x>>50), '\n')
}

// book appends five levels of depth.
func book(s *state, dst []byte) []byte {
	i := s.below(walkSymbols)
	dst = append(s.ticker(dst, i), '\n')
	bid, ask := s.walk[i]-1, s.walk[i]+1
	for range 5 {
		dst = append(appendNumber(dst, bid, 0, 2), " x "...)
		dst = append(strconv.AppendInt(dst, s.between(1, 90)*100, 10), " | "...)
		dst = append(appendNumber(dst, ask, 0, 2), " x "...)
		dst = append(strconv.AppendInt(dst, s.between(1, 90)*100, 10), '\n')
		bid, ask = bid-s.between(1, 4), ask+s.between(1, 4)
	}
	return dst
}

// position appends a holding with the profit that its figures make.
func position(s *state, dst []byte) []byte {
	i := s.below(walkSymbols)
	qty := s.between(-90, 90) * 100
	last := s.walk[i]
	avg := max(50, last+s.between(-300, 300))
	dst = append(s.ticker(dst, i), ',')
	dst = append(strconv.AppendInt(dst, qty, 10), ',')
	dst = append(appendNumber(dst, avg, 0, 2), ',')
	dst = append(appendNumber(dst, last, 0, 2), ',')
	return append(appendNumber(dst, qty*(last-avg), 0, 2), '\n')
}
