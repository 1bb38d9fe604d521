package scenario

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"plimsoll/internal/strictyaml"
)

// The kinds of distribution.
const (
	Fixed     = "fixed"
	Uniform   = "uniform"
	Normal    = "normal"
	LogNormal = "lognormal"
)

// MaxTokens is the largest length in tokens that a scenario may ask for; no
// model takes a hundredth of it, so more is a slip of the unit.
const MaxTokens = 10_000_000

// Dist is a distribution of token counts. Its text forms are 512,
// uniform:100..900, normal:512,64, lognormal:p50=400,p99=4000; the last two
// take ,min=N and ,max=N behind it.
type Dist struct {
	Kind string // fixed, uniform, normal, lognormal
	// A and B are the value; low and high; mean and deviation; median and 99th
	// percentile.
	A, B float64
	// Min and Max clip what is drawn; 0 means no clip (at least 1 always).
	Min, Max float64
}

const distForms = "want 512, uniform:100..900, normal:512,64 or lognormal:p50=400,p99=4000"

// ParseDist reads the text form of a distribution. The error says what was
// expected, without the text itself.
func ParseDist(s string) (Dist, error) {
	kind, args, ok := strings.Cut(strings.TrimSpace(s), ":")
	if !ok {
		n, err := tokens(kind)
		if err == nil {
			d := Dist{Kind: Fixed, A: n}
			return d, d.check()
		}
		if _, isNumber := err.(numberError); isNumber {
			return Dist{}, err
		}
		return Dist{}, unknownKind(kind)
	}
	d := Dist{Kind: strings.TrimSpace(kind)}
	parts := strings.Split(args, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	var err error
	switch d.Kind {
	case Fixed:
		if d.A, err = tokens(args); err != nil {
			return Dist{}, fmt.Errorf("fixed: %w", err)
		}
		return d, d.check()
	case Uniform:
		low, high, ok := strings.Cut(args, "..")
		if !ok {
			return Dist{}, fmt.Errorf("want uniform:LOW..HIGH, as in uniform:100..900")
		}
		if d.A, err = tokens(low); err != nil {
			return Dist{}, fmt.Errorf("uniform: low: %w", err)
		}
		if d.B, err = tokens(high); err != nil {
			return Dist{}, fmt.Errorf("uniform: high: %w", err)
		}
		return d, d.check()
	case Normal:
		if len(parts) < 2 {
			return Dist{}, fmt.Errorf("want normal:MEAN,DEVIATION, as in normal:512,64")
		}
		if d.A, err = tokens(parts[0]); err != nil {
			return Dist{}, fmt.Errorf("normal: mean: %w", err)
		}
		if d.B, err = tokens(parts[1]); err != nil {
			return Dist{}, fmt.Errorf("normal: deviation: %w", err)
		}
		parts = parts[2:]
	case LogNormal:
		var have [2]bool
		rest := parts[:0]
		for _, p := range parts {
			name, value, _ := strings.Cut(p, "=")
			switch strings.TrimSpace(name) {
			case "p50":
				d.A, err = tokens(value)
				have[0] = true
			case "p99":
				d.B, err = tokens(value)
				have[1] = true
			default:
				rest = append(rest, p)
			}
			if err != nil {
				return Dist{}, fmt.Errorf("lognormal: %s: %w", name, err)
			}
		}
		if !have[0] || !have[1] {
			return Dist{}, fmt.Errorf("want lognormal:p50=N,p99=N, as in lognormal:p50=400,p99=4000")
		}
		parts = rest
	default:
		return Dist{}, unknownKind(d.Kind)
	}
	for _, p := range parts {
		name, value, _ := strings.Cut(p, "=")
		x, err := tokens(value)
		switch name {
		case "min":
			d.Min = x
		case "max":
			d.Max = x
		default:
			return Dist{}, fmt.Errorf("%s: unknown part %s: want min=N or max=N", d.Kind, strictyaml.Quote(p))
		}
		if err == nil && x < 1 {
			err = fmt.Errorf("want at least 1")
		}
		if err != nil {
			return Dist{}, fmt.Errorf("%s: %s: %w", d.Kind, name, err)
		}
	}
	return d, d.check()
}

func unknownKind(kind string) error {
	if near := strictyaml.Nearest(kind, []string{Fixed, Uniform, Normal, LogNormal}); near != "" {
		return fmt.Errorf("unknown distribution %s, did you mean %s? %s", strictyaml.Quote(kind), near, distForms)
	}
	return fmt.Errorf("%s", distForms)
}

// numberError is about a text that is a number, but not a usable one.
type numberError string

func (e numberError) Error() string { return string(e) }

// tokens reads a decimal number of tokens.
func tokens(s string) (float64, error) {
	s = strings.TrimSpace(s)
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || strings.ContainsAny(s, "xXpP_") {
		if err != nil && strings.HasSuffix(err.Error(), strconv.ErrRange.Error()) {
			return 0, numberError("the number is too large")
		}
		return 0, fmt.Errorf("want a number of tokens, not %s", strictyaml.Quote(s))
	}
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0, numberError("want a finite number of tokens")
	}
	return x, nil
}

// check says whether the distribution can be drawn from.
func (d Dist) check() error {
	for _, x := range []float64{d.A, d.B, d.Min, d.Max} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("want finite numbers of tokens")
		}
		if x < 0 {
			return fmt.Errorf("want numbers of tokens of at least 0")
		}
		if x > MaxTokens {
			return fmt.Errorf("want at most %d tokens", MaxTokens)
		}
	}
	whole := func(x float64) bool { return x == math.Trunc(x) }
	switch d.Kind {
	case Fixed:
		if d.A < 1 || !whole(d.A) {
			return fmt.Errorf("want a whole number of tokens of at least 1")
		}
	case Uniform:
		if d.A < 1 || !whole(d.A) || !whole(d.B) {
			return fmt.Errorf("uniform: want whole numbers of tokens of at least 1")
		}
		if d.A > d.B {
			return fmt.Errorf("uniform: the low end %v is above the high end %v", d.A, d.B)
		}
	case Normal:
		if d.A < 1 {
			return fmt.Errorf("normal: want a mean of at least 1")
		}
	case LogNormal:
		if d.A < 1 {
			return fmt.Errorf("lognormal: want a p50 of at least 1")
		}
		if d.A > d.B {
			return fmt.Errorf("lognormal: p50 %v is above p99 %v", d.A, d.B)
		}
	default:
		return unknownKind(d.Kind)
	}
	if d.Max != 0 && d.Min > d.Max {
		return fmt.Errorf("%s: min %v is above max %v", d.Kind, d.Min, d.Max)
	}
	return nil
}

// String returns the text form.
func (d Dist) String() string {
	f := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	var s string
	switch d.Kind {
	case Uniform:
		return "uniform:" + f(d.A) + ".." + f(d.B)
	case Normal:
		s = "normal:" + f(d.A) + "," + f(d.B)
	case LogNormal:
		s = "lognormal:p50=" + f(d.A) + ",p99=" + f(d.B)
	default:
		return f(d.A)
	}
	if d.Min != 0 {
		s += ",min=" + f(d.Min)
	}
	if d.Max != 0 {
		s += ",max=" + f(d.Max)
	}
	return s
}

// MarshalText returns the text form.
func (d Dist) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the text form.
func (d *Dist) UnmarshalText(b []byte) error {
	x, err := ParseDist(string(b))
	if err == nil {
		*d = x
	}
	return err
}

// Mean returns the mean of the distribution before clipping, for estimates.
func (d Dist) Mean() float64 {
	switch d.Kind {
	case Uniform:
		return (d.A + d.B) / 2
	case LogNormal:
		sigma := d.Sigma()
		return d.A * math.Exp(sigma*sigma/2)
	default:
		return d.A
	}
}

// Sigma returns the deviation of the logarithm of a lognormal distribution.
func (d Dist) Sigma() float64 {
	const z99 = 2.3263478740408408 // the standard normal's 99th percentile
	return math.Log(d.B/d.A) / z99
}

// Limit is one service level: a statistic of a metric must be at most Value.
// Its text form is ttft.p95=500ms.
type Limit struct {
	Metric string // one of SLOMetrics
	Stat   string // one of SLOStats
	Value  time.Duration
}

// SLOMetrics are the latencies that a service level may limit, under the names
// of the summary.
var SLOMetrics = []string{"ttft", "ttfc", "ttlt", "e2e", "tpot", "itl"}

// SLOStats are the statistics that a service level may limit.
var SLOStats = []string{"mean", "p50", "p75", "p90", "p95", "p99", "p999", "max"}

// ParseLimit reads the text form of a limit. The error says what was expected,
// without the text itself.
func ParseLimit(s string) (Limit, error) {
	name, value, ok := strings.Cut(s, "=")
	metric, stat, dotted := strings.Cut(strings.TrimSpace(name), ".")
	if !ok || !dotted {
		return Limit{}, fmt.Errorf("want METRIC.STAT=DURATION, as in ttft.p95=500ms")
	}
	l := Limit{Metric: metric, Stat: stat}
	if err := l.checkNames(); err != nil {
		return Limit{}, err
	}
	value = strings.TrimSpace(value)
	d, err := time.ParseDuration(value)
	if err != nil || value == "0" {
		if _, numErr := strconv.ParseFloat(value, 64); numErr == nil {
			return Limit{}, fmt.Errorf("want a duration with a unit: write %s.%s=%sms or %s.%s=%ss", metric, stat, value, metric, stat, value)
		}
		return Limit{}, fmt.Errorf("want a duration with a unit after the =, as in %s.%s=500ms", metric, stat)
	}
	l.Value = d
	return l, l.check()
}

func (l Limit) checkNames() error {
	if err := oneOf("metric", l.Metric, SLOMetrics); err != nil {
		return err
	}
	return oneOf("statistic", l.Stat, SLOStats)
}

func (l Limit) check() error {
	if err := l.checkNames(); err != nil {
		return err
	}
	if l.Value <= 0 {
		return fmt.Errorf("want a limit above 0")
	}
	return nil
}

// oneOf says that name is none of the known names, with the nearest.
func oneOf(what, name string, known []string) error {
	for _, k := range known {
		if k == name {
			return nil
		}
	}
	hint := ":"
	if near := strictyaml.Nearest(name, known); near != "" {
		hint = ", did you mean " + near + "?"
	}
	return fmt.Errorf("unknown %s %s%s want one of %s", what, strictyaml.Quote(name), hint, strings.Join(known, ", "))
}

// String returns the text form.
func (l Limit) String() string {
	return l.Metric + "." + l.Stat + "=" + strictyaml.FormatDuration(l.Value)
}

// MarshalText returns the text form.
func (l Limit) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads the text form.
func (l *Limit) UnmarshalText(b []byte) error {
	x, err := ParseLimit(string(b))
	if err == nil {
		*l = x
	}
	return err
}
