package content

import "strconv"

// This file makes the tables of filings, whose figures add up as auditors make
// them add up.

func init() {
	for name, f := range map[string]builtin{
		"books": books, "fiscal": fiscal, "musd": millions, "income": income, "segments": segments, "cash": cash, "balance": balance,
		"doi":         doi,
		"saleschange": salesChange,
		"interest":    func(s *state, dst []byte) []byte { return s.sum(dst, s.walk[walkInterest]) },
		"interestB":   func(s *state, dst []byte) []byte { return s.sum(dst, s.walk[walkPriorInterest]) },
		"tax":         func(s *state, dst []byte) []byte { return appendNumber(dst, s.walk[walkTax]%1000, 0, 1) },
		"taxB":        func(s *state, dst []byte) []byte { return appendNumber(dst, s.walk[walkTax]/1000, 0, 1) },
	} {
		builtins[name] = f
	}
}

// Places in state.walk that a filing keeps its figures in, in tenths of a million.
const (
	walkSales = iota
	walkPrior
	walkIncome
	walkPriorIncome
	walkCash
	walkInterest
	walkPriorInterest
	walkTax // two rates in thousandths, the prior year's first
)

// books sets the size of the company: net sales of two years.
func books(s *state, dst []byte) []byte {
	s.later(0, 0)
	sales := s.between(900, 9000)
	for range s.below(2) {
		sales *= 7
	}
	s.walk[walkSales] = sales
	s.walk[walkPrior] = sales * 1000 / s.between(860, 1170)
	s.walk[walkInterest], s.walk[walkPriorInterest] = s.two(s.walk[walkSales], s.walk[walkPrior], 6, 28)
	s.walk[walkTax] = s.between(170, 260)*1000 + s.between(170, 260)
	return dst
}

// fiscal is the end of the document's fiscal year.
func fiscal(s *state, dst []byte) []byte {
	y, _, _ := civil(s.later(0, 0))
	if s.g.zh {
		dst = strconv.AppendInt(dst, y, 10)
		return append(dst, "年12月31日"...)
	}
	return strconv.AppendInt(append(dst, "December 31, "...), y, 10)
}

// millions appends a sum in proportion to the company's sales.
func millions(s *state, dst []byte) []byte {
	// Most sums are small beside the sales, a few large.
	v := max(s.walk[walkSales], 900) * s.between(1, 30) / 1000
	if s.below(5) == 0 {
		v *= 4
	}
	return s.sum(dst, max(v, 3))
}

// sum appends an amount in tenths of a million.
func (s *state) sum(dst []byte, v int64) []byte {
	if s.g.zh {
		return append(appendNumber(dst, v*10, ',', 0), "万元"...)
	}
	return append(appendNumber(append(dst, '$'), v, ',', 1), " million"...)
}

// salesChange says how the sales of the year stand to those of the year before,
// as the tables have them.
func salesChange(s *state, dst []byte) []byte {
	if s.walk[walkSales] == 0 {
		dst = books(s, dst)
	}
	a, b := s.walk[walkSales], s.walk[walkPrior]
	rose := a >= b
	permille := (max(a, b) - min(a, b)) * 1000 / b
	if s.g.zh {
		dst = append(dst, "营业收入"...)
		dst = append(s.sum(dst, a), "，同比"...)
		if rose {
			dst = append(dst, "增长"...)
		} else {
			dst = append(dst, "下降"...)
		}
		return append(appendNumber(dst, permille, 0, 1), '%')
	}
	verbs := [...]string{"decreased", "declined", "fell", "increased", "grew", "rose"}
	i := s.below(3)
	if rose {
		i += 3
	}
	dst = append(append(append(dst, "Net sales "...), verbs[i]...), ' ')
	dst = append(appendNumber(dst, permille, 0, 1), "% to "...)
	return s.sum(dst, a)
}

// row appends a line of a table: a name and two figures in tenths.
func (s *state) row(dst []byte, name string, figures ...int64) []byte {
	return s.figures(append(append(dst, "| "...), name...), figures...)
}

// figures appends the rest of a line.
func (s *state) figures(dst []byte, figures ...int64) []byte {
	for _, v := range figures {
		dst = append(dst, " | "...)
		if v < 0 {
			dst = append(appendNumber(append(dst, '('), -v, ',', 1), ')')
		} else {
			dst = appendNumber(dst, v, ',', 1)
		}
	}
	return append(dst, " |\n"...)
}

// heading appends the head of a table of two years.
func (s *state) heading(dst []byte) []byte {
	y, _, _ := civil(s.later(0, 0))
	dst = append(dst, "| | "...)
	dst = append(strconv.AppendInt(dst, y, 10), " | "...)
	dst = append(strconv.AppendInt(dst, y-1, 10), " |\n|---|---|---|\n"...)
	return dst
}

// label chooses the language of a line's name.
func (s *state) label(en, zh string) string {
	if s.g.zh {
		return zh
	}
	return en
}

// two draws a share, in thousandths of two years' bases, that differs little
// between them.
func (s *state) two(base, prior, lo, hi int64) (int64, int64) {
	share := s.between(lo, hi)
	other := max(1, share+s.between(-share/10-1, share/10+1))
	return base * share / 1000, prior * other / 1000
}

func income(s *state, dst []byte) []byte {
	if s.walk[walkSales] == 0 {
		dst = books(s, dst)
	}
	a, b := s.walk[walkSales], s.walk[walkPrior]
	dst = s.heading(dst)
	dst = s.row(dst, s.label("Net sales", "营业收入"), a, b)
	cost, costB := s.two(a, b, 520, 760)
	dst = s.row(dst, s.label("Cost of sales", "营业成本"), cost, costB)
	dst = s.row(dst, s.label("Gross profit", "毛利"), a-cost, b-costB)
	sga, sgaB := s.two(a, b, 90, 190)
	dst = s.row(dst, s.label("Selling, general and administrative", "销售及管理费用"), sga, sgaB)
	rd, rdB := s.two(a, b, 12, 80)
	dst = s.row(dst, s.label("Research and development", "研发费用"), rd, rdB)
	op, opB := a-cost-sga-rd, b-costB-sgaB-rdB
	dst = s.row(dst, s.label("Operating income", "营业利润"), op, opB)
	in, inB := s.walk[walkInterest], s.walk[walkPriorInterest]
	dst = s.row(dst, s.label("Interest expense", "利息支出"), in, inB)
	dst = s.row(dst, s.label("Income before income taxes", "利润总额"), op-in, opB-inB)
	tax, taxB := (op-in)*(s.walk[walkTax]%1000)/1000, (opB-inB)*(s.walk[walkTax]/1000)/1000
	dst = s.row(dst, s.label("Provision for income taxes", "所得税费用"), tax, taxB)
	s.walk[walkIncome], s.walk[walkPriorIncome] = op-in-tax, opB-inB-taxB
	return s.row(dst, s.label("Net income", "净利润"), op-in-tax, opB-inB-taxB)
}

func segments(s *state, dst []byte) []byte {
	if s.walk[walkSales] == 0 {
		dst = books(s, dst)
	}
	a, b := s.walk[walkSales], s.walk[walkPrior]
	dst = s.heading(dst)
	restA, restB := a, b
	n := s.between(2, 4)
	for i := range n {
		x, y := restA, restB
		if i < n-1 {
			x, y = s.two(restA, restB, 250, 620)
		}
		restA, restB = restA-x, restB-y
		dst = s.named(append(dst, "| "...), "segname")
		dst = s.figures(dst, x, y)
	}
	return s.row(dst, s.label("Total net sales", "合计"), a, b)
}

func cash(s *state, dst []byte) []byte {
	if s.walk[walkSales] == 0 {
		dst = books(s, dst)
	}
	a, b := s.walk[walkSales], s.walk[walkPrior]
	dst = s.heading(dst)
	op, opB := s.two(a, b, 60, 170)
	inv, invB := s.two(a, b, 25, 90)
	fin, finB := s.two(a, b, 10, 80)
	dst = s.row(dst, s.label("Operating activities", "经营活动产生的现金流量净额"), op, opB)
	dst = s.row(dst, s.label("Investing activities", "投资活动产生的现金流量净额"), -inv, -invB)
	dst = s.row(dst, s.label("Financing activities", "筹资活动产生的现金流量净额"), -fin, -finB)
	dst = s.row(dst, s.label("Net change in cash", "现金净增加额"), op-inv-fin, opB-invB-finB)
	startB, _ := s.two(a, b, 90, 240)
	startA := startB + opB - invB - finB
	dst = s.row(dst, s.label("Cash at beginning of year", "期初现金余额"), startA, startB)
	s.walk[walkCash] = startA + op - inv - fin
	return s.row(dst, s.label("Cash at end of year", "期末现金余额"), s.walk[walkCash], startA)
}

func balance(s *state, dst []byte) []byte {
	if s.walk[walkSales] == 0 {
		dst = books(s, dst)
	}
	a, b := s.walk[walkSales], s.walk[walkPrior]
	dst = s.heading(dst)
	var total, totalB int64
	for _, l := range [...]struct {
		en, zh string
		lo, hi int64
	}{
		{"Receivables, net", "应收账款", 110, 190},
		{"Inventories", "存货", 90, 210},
		{"Property, plant and equipment, net", "固定资产", 180, 420},
		{"Goodwill and intangible assets", "商誉及无形资产", 120, 540},
		{"Other assets", "其他资产", 30, 90},
	} {
		x, y := s.two(a, b, l.lo, l.hi)
		total, totalB = total+x, totalB+y
		dst = s.row(dst, s.label(l.en, l.zh), x, y)
	}
	dst = s.row(dst, s.label("Total assets", "资产总计"), total, totalB)
	ap, apB := s.two(a, b, 60, 130)
	debt, debtB := total*s.between(240, 420)/1000, totalB*s.between(240, 420)/1000
	other, otherB := s.two(a, b, 40, 90)
	dst = s.row(dst, s.label("Accounts payable", "应付账款"), ap, apB)
	dst = s.row(dst, s.label("Total debt", "借款合计"), debt, debtB)
	dst = s.row(dst, s.label("Other liabilities", "其他负债"), other, otherB)
	dst = s.row(dst, s.label("Shareholders' equity", "股东权益"), total-ap-debt-other, totalB-apB-debtB-otherB)
	return s.row(dst, s.label("Total liabilities and equity", "负债和股东权益总计"), total, totalB)
}

// doi appends the suffix of a digital object identifier.
func doi(s *state, dst []byte) []byte {
	v := s.next()
	for range 3 {
		dst = append(dst, byte('a'+v%26))
		v /= 26
	}
	dst = append(dst, '.')
	return strconv.AppendUint(dst, 1000000+v%9000000, 10)
}
