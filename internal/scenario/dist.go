package scenario

import (
	"errors"
	"fmt"
	"math"
	"slices"
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
	Gamma     = "gamma"
	Zipf      = "zipf"
	Empirical = "file"
	Mixture   = "mix"
)

// distKinds are all of them, for the nearest name.
var distKinds = []string{Fixed, Uniform, Normal, LogNormal, Gamma, Zipf, Empirical, Mixture}

// MaxTokens is the largest length in tokens that a scenario may ask for; no
// model takes a hundredth of it, so more is a slip of the unit.
const MaxTokens = 10_000_000

// maxCount is the largest number of anything else that is drawn, maxDelay the
// longest time, both far from what any use has.
const (
	maxCount = 1_000_000
	maxDelay = 7 * 24 * time.Hour
)

// maxParts bounds the parts of a mixture.
const maxParts = 16

// Dist is a distribution of token counts. Its text forms are 512,
// uniform:100..900, normal:512,64, lognormal:p50=400,p99=4000,
// gamma:mean=400,cv=0.5, zipf:s=1.1,max=4096, file:lengths.txt and
// mix:0.7*512|0.3*uniform:100..900. All but the first two take ,min=N and
// ,max=N behind them.
type Dist struct {
	Kind string // one of the constants; "" is fixed
	// A and B are the value; low and high; mean and deviation; median and 99th
	// percentile; mean and coefficient of variation; for zipf A is 1 and B the
	// exponent.
	A, B float64
	// Min and Max clip what is drawn; 0 means no clip (at least 1 always). Zipf
	// draws from Min, or 1, to Max.
	Min, Max float64
	// Text is the path of a file, and the parts of a mixture in their text form.
	Text string
}

// Count is a distribution of whole numbers of at least 1 that are no tokens:
// turns, documents, branches. Its text forms are those of Dist.
type Count Dist

// Delay is a distribution of durations, in ns. Its text forms are those of Dist
// with durations: 30s, uniform:2s..5s, lognormal:p50=20s,p99=90s.
type Delay Dist

// quantity is what a distribution is of.
type quantity struct {
	// noun is what errors call it, one how they say what a value is.
	noun, one string
	forms     string
	read      func(string) (float64, error)
	write     func(float64) string
	// least is the smallest value, most the largest.
	least, most float64
	// whole values are whole numbers.
	whole bool
}

func number64(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// more names the forms that are rarer.
const more = ", or gamma:mean=,cv=, zipf:s=,max=, file:PATH, mix:W*DIST|W*DIST"

var ofTokens = quantity{
	noun: "tokens", one: "a number of tokens", forms: distForms, read: readTokens, write: number64,
	least: 1, most: MaxTokens, whole: true,
}

var ofCounts = quantity{
	noun: "numbers", one: "a number", forms: "want 4, uniform:4..8, normal:6,2 or lognormal:p50=6,p99=20" + more,
	read: bare, write: number64,
	least: 1, most: maxCount, whole: true,
}

var ofDelays = quantity{
	noun: "durations", one: "a duration with a unit, as in 30s", forms: "want 30s, uniform:2s..5s, normal:20s,5s or lognormal:p50=20s,p99=90s" + more,
	read: readDelay, write: func(x float64) string { return strictyaml.FormatDuration(time.Duration(x)) },
	least: 0, most: float64(maxDelay),
}

func readTokens(s string) (float64, error) { return tokens(s, "tokens") }

func readDelay(s string) (float64, error) {
	s = strings.TrimSpace(s)
	d, err := time.ParseDuration(s)
	if _, bare := strconv.ParseFloat(s, 64); bare == nil && s != "0" {
		return 0, numberError("want a duration with a unit: write " + s + "s")
	}
	if err != nil {
		return 0, fmt.Errorf("want a duration with a unit, as in 30s, not %s", strictyaml.Quote(s))
	}
	return float64(d), nil
}

const distForms = "want 512, uniform:100..900, normal:512,64 or lognormal:p50=400,p99=4000"

// ParseDist reads the text form of a distribution. The error says what was
// expected, without the text itself.
func ParseDist(s string) (Dist, error) { return ofTokens.parse(s) }

// ParseCount reads the text form of a Count, as ParseDist does.
func ParseCount(s string) (Count, error) {
	d, err := ofCounts.parse(s)
	return Count(d), err
}

// ParseDelay reads the text form of a Delay, as ParseDist does.
func ParseDelay(s string) (Delay, error) {
	d, err := ofDelays.parse(s)
	return Delay(d), err
}

func (q *quantity) parse(s string) (Dist, error) {
	kind, args, ok := strings.Cut(strings.TrimSpace(s), ":")
	if !ok {
		n, err := q.read(kind)
		if err == nil {
			d := Dist{Kind: Fixed, A: n}
			return d, q.check(d)
		}
		if _, isNumber := err.(numberError); isNumber {
			return Dist{}, err
		}
		return Dist{}, q.unknownKind(kind)
	}
	d := Dist{Kind: strings.TrimSpace(kind)}
	if d.Kind == Mixture {
		return q.mixture(args)
	}
	parts := strings.Split(args, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	var err error
	switch d.Kind {
	case Fixed:
		if d.A, err = q.read(args); err != nil {
			return Dist{}, fmt.Errorf("fixed: %w", err)
		}
		return d, q.check(d)
	case Uniform:
		low, high, ok := strings.Cut(parts[0], "..")
		if !ok {
			return Dist{}, fmt.Errorf("want uniform:LOW..HIGH, as in uniform:100..900")
		}
		if d.A, err = q.read(low); err != nil {
			return Dist{}, fmt.Errorf("uniform: low: %w", err)
		}
		if d.B, err = q.read(high); err != nil {
			return Dist{}, fmt.Errorf("uniform: high: %w", err)
		}
		parts = parts[1:]
	case Normal:
		if len(parts) < 2 {
			return Dist{}, fmt.Errorf("want normal:MEAN,DEVIATION, as in normal:512,64")
		}
		if d.A, err = q.read(parts[0]); err != nil {
			return Dist{}, fmt.Errorf("normal: mean: %w", err)
		}
		if d.B, err = q.read(parts[1]); err != nil {
			return Dist{}, fmt.Errorf("normal: deviation: %w", err)
		}
		parts = parts[2:]
	case LogNormal:
		if parts, err = q.named(parts, "p50", q.read, &d.A, "p99", q.read, &d.B); err != nil {
			return Dist{}, q.wrap(LogNormal, "want lognormal:p50=N,p99=N, as in lognormal:p50=400,p99=4000", err)
		}
	case Gamma:
		if parts, err = q.named(parts, "mean", q.read, &d.A, "cv", bare, &d.B); err != nil {
			return Dist{}, q.wrap(Gamma, "want gamma:mean=N,cv=X, as in gamma:mean=400,cv=0.5", err)
		}
	case Zipf:
		d.A = 1
		var have float64
		if parts, err = q.named(parts, "s", bare, &d.B, "", nil, &have); err != nil {
			return Dist{}, q.wrap(Zipf, "want zipf:s=X,max=N, as in zipf:s=1.1,max=4096", err)
		}
	case Empirical:
		if d.Text = parts[0]; d.Text == "" {
			return Dist{}, fmt.Errorf("want file:PATH, a file with one number in each line")
		}
		parts = parts[1:]
	default:
		return Dist{}, q.unknownKind(d.Kind)
	}
	for _, p := range parts {
		name, value, _ := strings.Cut(p, "=")
		x, err := q.read(value)
		switch name {
		case "min":
			d.Min = x
		case "max":
			d.Max = x
		default:
			return Dist{}, fmt.Errorf("%s: unknown part %s: want min=N or max=N", d.Kind, strictyaml.Quote(p))
		}
		if err == nil && x < max(q.least, 1) {
			err = fmt.Errorf("want at least %s", q.write(max(q.least, 1)))
		}
		if err != nil {
			return Dist{}, fmt.Errorf("%s: %s: %w", d.Kind, name, err)
		}
	}
	return d, q.check(d)
}

// bare reads a number without a unit.
func bare(s string) (float64, error) { return tokens(s, "") }

// errMissing says that a parameter was not given.
var errMissing = errors.New("missing")

// wrap says what the parameters of a kind are when one is missing.
func (q *quantity) wrap(kind, want string, err error) error {
	if errors.Is(err, errMissing) {
		return errors.New(want)
	}
	return fmt.Errorf("%s: %w", kind, err)
}

// named takes one or two parameters out of parts and returns the rest.
func (q *quantity) named(parts []string, nameA string, readA func(string) (float64, error), a *float64, nameB string, readB func(string) (float64, error), b *float64) ([]string, error) {
	haveA, haveB := false, nameB == ""
	var rest []string
	for _, p := range parts {
		name, value, _ := strings.Cut(p, "=")
		var err error
		switch name = strings.TrimSpace(name); {
		case name == nameA:
			*a, err = readA(value)
			haveA = true
		case name == nameB && nameB != "":
			*b, err = readB(value)
			haveB = true
		default:
			rest = append(rest, p)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if !haveA || !haveB {
		return nil, errMissing
	}
	return rest, nil
}

// Weighted is one part of a mixture.
type Weighted struct {
	Weight float64
	Dist   Dist
}

// mixture reads W*DIST|W*DIST.
func (q *quantity) mixture(args string) (Dist, error) {
	parts, err := q.parts(args)
	if err != nil {
		return Dist{}, fmt.Errorf("mix: %w", err)
	}
	var text []string
	for _, p := range parts {
		text = append(text, number64(p.Weight)+"*"+q.text(p.Dist))
	}
	return Dist{Kind: Mixture, Text: strings.Join(text, "|")}, nil
}

func (q *quantity) parts(args string) ([]Weighted, error) {
	var out []Weighted
	for s := range strings.SplitSeq(args, "|") {
		weight, dist, ok := strings.Cut(s, "*")
		if !ok {
			return nil, fmt.Errorf("want WEIGHT*DIST|WEIGHT*DIST, as in mix:0.7*512|0.3*uniform:100..900")
		}
		w, err := bare(weight)
		if err == nil && w <= 0 {
			err = fmt.Errorf("want a weight above 0")
		}
		if err != nil {
			return nil, fmt.Errorf("weight: %w", err)
		}
		d, err := q.parse(dist)
		if err != nil {
			return nil, err
		}
		if d.Kind == Mixture {
			return nil, fmt.Errorf("want parts that are no mixtures themselves")
		}
		if out = append(out, Weighted{w, d}); len(out) > maxParts {
			return nil, fmt.Errorf("want at most %d parts", maxParts)
		}
	}
	return out, nil
}

// Parts returns the parts of a mixture of token counts.
func (d Dist) Parts() ([]Weighted, error) { return ofTokens.parts(d.Text) }

// fromFile says whether the distribution, or a part of it, is that of a file.
func (d Dist) fromFile() bool {
	if d.Kind != Mixture {
		return d.Kind == Empirical
	}
	parts, _ := d.Parts() // what is wrong with them is said elsewhere
	return slices.ContainsFunc(parts, func(w Weighted) bool { return w.Dist.Kind == Empirical })
}

// Parts returns the parts of a mixture of counts.
func (d Count) Parts() ([]Weighted, error) { return ofCounts.parts(d.Text) }

// Parts returns the parts of a mixture of durations.
func (d Delay) Parts() ([]Weighted, error) { return ofDelays.parts(d.Text) }

func (q *quantity) unknownKind(kind string) error {
	if near := strictyaml.Nearest(kind, distKinds); near != "" {
		return fmt.Errorf("unknown distribution %s, did you mean %s? %s", strictyaml.Quote(kind), near, q.forms)
	}
	return fmt.Errorf("%s", q.forms)
}

// numberError is about a text that is a number, but not a usable one.
type numberError string

func (e numberError) Error() string { return string(e) }

// tokens reads a decimal number of what noun says, "" for nothing of the kind.
func tokens(s, noun string) (float64, error) {
	if noun != "" {
		noun = " of " + noun
	}
	s = strings.TrimSpace(s)
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || strings.ContainsAny(s, "xXpP_") {
		if err != nil && strings.HasSuffix(err.Error(), strconv.ErrRange.Error()) {
			return 0, numberError("the number is too large")
		}
		return 0, fmt.Errorf("want a number%s, not %s", noun, strictyaml.Quote(s))
	}
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0, numberError("want a finite number" + noun)
	}
	return x, nil
}

// check says whether the distribution of tokens can be drawn from.
func (d Dist) check() error { return ofTokens.check(d) }

func (q *quantity) check(d Dist) error {
	of, least := "numbers of "+q.noun, q.write(q.least)
	if q.noun != "tokens" {
		of = q.noun
	}
	for i, x := range []float64{d.A, d.B, d.Min, d.Max} {
		unitless := i == 1 && (d.Kind == Gamma || d.Kind == Zipf)
		switch {
		case math.IsNaN(x) || math.IsInf(x, 0):
			return fmt.Errorf("want finite %s", of)
		case x < 0:
			return fmt.Errorf("want %s of at least 0", of)
		case unitless && x > 100:
			return fmt.Errorf("%s: want at most 100 for cv and s", d.Kind)
		case !unitless && x > q.most:
			return fmt.Errorf("want at most %s %s", q.write(q.most), q.noun)
		}
	}
	whole := func(x float64) bool { return !q.whole || x == math.Trunc(x) }
	switch d.Kind {
	case Fixed:
		if d.A < q.least || !whole(d.A) {
			return fmt.Errorf("want a whole %s of at least %s", strings.TrimPrefix(q.one, "a "), least)
		}
	case Uniform:
		if d.A < q.least || !whole(d.A) || !whole(d.B) {
			return fmt.Errorf("uniform: want whole %s of at least %s", of, least)
		}
		if d.A > d.B {
			return fmt.Errorf("uniform: the low end %s is above the high end %s", q.write(d.A), q.write(d.B))
		}
	case Normal:
		if d.A < q.least {
			return fmt.Errorf("normal: want a mean of at least %s", least)
		}
	case LogNormal:
		if d.A < max(q.least, 1) {
			return fmt.Errorf("lognormal: want a p50 of at least %s", q.write(max(q.least, 1)))
		}
		if d.A > d.B {
			return fmt.Errorf("lognormal: p50 %s is above p99 %s", q.write(d.A), q.write(d.B))
		}
	case Gamma:
		if d.A < max(q.least, 1) {
			return fmt.Errorf("gamma: want a mean of at least %s", q.write(max(q.least, 1)))
		}
	case Zipf:
		if !q.whole {
			return fmt.Errorf("zipf: it is of whole numbers, not of %s", q.noun)
		}
		if d.Max == 0 {
			return fmt.Errorf("want zipf:s=X,max=N, as in zipf:s=1.1,max=4096")
		}
		if !whole(d.Max) || !whole(d.Min) {
			return fmt.Errorf("zipf: want whole numbers for min and max")
		}
	case Empirical:
	case Mixture:
		_, err := q.parts(d.Text)
		return err
	default:
		return q.unknownKind(d.Kind)
	}
	if d.Max != 0 && d.Min > d.Max {
		return fmt.Errorf("%s: min %s is above max %s", d.Kind, q.write(d.Min), q.write(d.Max))
	}
	return nil
}

// String returns the text form.
func (d Dist) String() string { return ofTokens.text(d) }

// String returns the text form.
func (d Count) String() string { return ofCounts.text(Dist(d)) }

// String returns the text form.
func (d Delay) String() string { return ofDelays.text(Dist(d)) }

func (q *quantity) text(d Dist) string {
	f := q.write
	var s string
	switch d.Kind {
	case Uniform:
		s = "uniform:" + f(d.A) + ".." + f(d.B)
	case Normal:
		s = "normal:" + f(d.A) + "," + f(d.B)
	case LogNormal:
		s = "lognormal:p50=" + f(d.A) + ",p99=" + f(d.B)
	case Gamma:
		s = "gamma:mean=" + f(d.A) + ",cv=" + number64(d.B)
	case Zipf:
		s = "zipf:s=" + number64(d.B)
	case Empirical:
		s = "file:" + d.Text
	case Mixture:
		return "mix:" + d.Text
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

// MarshalText returns the text form.
func (d Count) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// MarshalText returns the text form.
func (d Delay) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the text form.
func (d *Dist) UnmarshalText(b []byte) error {
	x, err := ParseDist(string(b))
	if err == nil {
		*d = x
	}
	return err
}

// UnmarshalText reads the text form.
func (d *Count) UnmarshalText(b []byte) error {
	x, err := ParseCount(string(b))
	if err == nil {
		*d = x
	}
	return err
}

// UnmarshalText reads the text form.
func (d *Delay) UnmarshalText(b []byte) error {
	x, err := ParseDelay(string(b))
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
// Its text form is ttft.p95=500ms. OfWorkloads alone stands for the limits that come
// with the workloads.
type Limit struct {
	Metric string // one of SLOMetrics, or OfWorkloads
	Stat   string // one of SLOStats
	Value  time.Duration
}

// OfWorkloads is the limit that makes those of the workloads count.
const OfWorkloads = "workload"

// SLOMetrics are the latencies that a service level may limit, under the names
// of the summary.
var SLOMetrics = []string{"ttft", "ttfc", "ttlt", "e2e", "tpot", "itl"}

// SLOStats are the statistics that a service level may limit.
var SLOStats = []string{"mean", "p50", "p75", "p90", "p95", "p99", "p999", "max"}

// ParseLimit reads the text form of a limit. The error says what was expected,
// without the text itself.
func ParseLimit(s string) (Limit, error) {
	if strings.TrimSpace(s) == OfWorkloads {
		return Limit{Metric: OfWorkloads}, nil
	}
	name, value, ok := strings.Cut(s, "=")
	metric, stat, dotted := strings.Cut(strings.TrimSpace(name), ".")
	if !ok || !dotted {
		return Limit{}, fmt.Errorf("want METRIC.STAT=DURATION, as in ttft.p95=500ms, or %s", OfWorkloads)
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
	if l == (Limit{Metric: OfWorkloads}) {
		return nil
	}
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
	if l.Metric == OfWorkloads {
		return OfWorkloads
	}
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
