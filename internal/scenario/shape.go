package scenario

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"plimsoll/internal/strictyaml"
)

// The kinds of shape.
const (
	Ramp       = "ramp"
	Spikes     = "spikes"
	MarketOpen = "market-open"
	Diurnal    = "diurnal"
	OnOff      = "on-off"
)

// ShapeKinds are the names of the shapes.
var ShapeKinds = []string{Ramp, Spikes, MarketOpen, Diurnal, OnOff}

// Shape is how a rate goes over time, as multiples of it. Its text forms are
//
//	ramp:from=0.1,to=3,over=5m
//	spikes:to=5,every=1m,for=5s
//	market-open:to=10,after=30s,fade=1m,every=10m
//	diurnal:low=0.2,high=1.8,period=24h
//	on-off:on=10s,off=20s
//
// with a default for what is left out, other than a length. The zero value is a
// rate that stays what it is.
type Shape struct {
	Kind string
	// Of a ramp: from one multiple to the other in Over, and on at To. Of spikes and
	// a market's opening: To is the multiple at the top. Low and High are those of a
	// diurnal curve, which begins at Low.
	From, To, Low, High float64
	Over                time.Duration
	// Every is the time from one spike to the next, For its length, which is the end
	// of Every. A market opens After the start of Every, or once when that is 0, and
	// calms down by 1/e in each Fade.
	Every, For, After, Fade time.Duration
	Period                  time.Duration
	On, Off                 time.Duration
}

// shapeParam is one parameter of a kind of shape.
type shapeParam struct {
	name     string
	number   func(*Shape) *float64
	length   func(*Shape) *time.Duration
	required bool
	initial  float64
}

var shapeParams = map[string][]shapeParam{
	Ramp: {
		{name: "from", number: func(s *Shape) *float64 { return &s.From }, initial: 0},
		{name: "to", number: func(s *Shape) *float64 { return &s.To }, initial: 1},
		{name: "over", length: func(s *Shape) *time.Duration { return &s.Over }, required: true},
	},
	Spikes: {
		{name: "to", number: func(s *Shape) *float64 { return &s.To }, required: true},
		{name: "every", length: func(s *Shape) *time.Duration { return &s.Every }, required: true},
		{name: "for", length: func(s *Shape) *time.Duration { return &s.For }, required: true},
	},
	MarketOpen: {
		{name: "to", number: func(s *Shape) *float64 { return &s.To }, required: true},
		{name: "after", length: func(s *Shape) *time.Duration { return &s.After }},
		{name: "fade", length: func(s *Shape) *time.Duration { return &s.Fade }, required: true},
		{name: "every", length: func(s *Shape) *time.Duration { return &s.Every }},
	},
	Diurnal: {
		{name: "low", number: func(s *Shape) *float64 { return &s.Low }, required: true},
		{name: "high", number: func(s *Shape) *float64 { return &s.High }, required: true},
		{name: "period", length: func(s *Shape) *time.Duration { return &s.Period }, required: true},
	},
	OnOff: {
		{name: "on", length: func(s *Shape) *time.Duration { return &s.On }, required: true},
		{name: "off", length: func(s *Shape) *time.Duration { return &s.Off }, required: true},
	},
}

// maxMultiple bounds the multiples of a rate.
const maxMultiple = 10_000

// ParseShape reads the text form of a shape. The error says what was expected,
// without the text itself.
func ParseShape(text string) (Shape, error) {
	kind, args, _ := strings.Cut(strings.TrimSpace(text), ":")
	s := Shape{Kind: strings.TrimSpace(kind)}
	params, ok := shapeParams[s.Kind]
	if !ok {
		return Shape{}, oneOf("shape", s.Kind, ShapeKinds)
	}
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.name
		if p.number != nil {
			*p.number(&s) = p.initial
		}
	}
	given := map[string]bool{}
	for part := range strings.SplitSeq(args, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if err := oneOf("part of "+s.Kind, name, names); err != nil {
			return Shape{}, err
		}
		if given[name] {
			return Shape{}, fmt.Errorf("%s: %s is there twice", s.Kind, name)
		}
		given[name] = true
		for _, p := range params {
			if p.name != name {
				continue
			}
			if p.length != nil {
				d, err := time.ParseDuration(value)
				if err != nil || value == "0" {
					return Shape{}, fmt.Errorf("%s: %s: want a duration with a unit, as in 30s", s.Kind, name)
				}
				*p.length(&s) = d
				continue
			}
			x, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return Shape{}, fmt.Errorf("%s: %s: want a multiple of the rate, a number", s.Kind, name)
			}
			*p.number(&s) = x
		}
	}
	for _, p := range params {
		if p.required && !given[p.name] {
			return Shape{}, fmt.Errorf("%s: %s is missing: want %s", s.Kind, p.name, shapeForms[s.Kind])
		}
	}
	return s, s.check()
}

// shapeForms has an example of each kind.
var shapeForms = map[string]string{
	Ramp:       "ramp:from=0.1,to=3,over=5m",
	Spikes:     "spikes:to=5,every=1m,for=5s",
	MarketOpen: "market-open:to=10,after=30s,fade=1m",
	Diurnal:    "diurnal:low=0.2,high=1.8,period=24h",
	OnOff:      "on-off:on=10s,off=20s",
}

// check says whether a rate can go so.
func (s Shape) check() error {
	for _, p := range shapeParams[s.Kind] {
		if p.number != nil {
			if x := *p.number(&s); !(x >= 0 && x <= maxMultiple) {
				return fmt.Errorf("%s: %s: want a multiple of the rate from 0 to %d, got %v", s.Kind, p.name, maxMultiple, x)
			}
			continue
		}
		d := *p.length(&s)
		if d < 0 || p.required && d == 0 || d > maxDuration {
			return fmt.Errorf("%s: %s: want a duration above 0s and at most %s, got %s", s.Kind, p.name, strictyaml.FormatDuration(maxDuration), strictyaml.FormatDuration(d))
		}
	}
	switch s.Kind {
	case Ramp:
		if s.To == 0 {
			return fmt.Errorf("ramp: to: want a multiple above 0, at which the rate stays")
		}
	case Spikes:
		if s.For >= s.Every {
			return fmt.Errorf("spikes: a spike of %s does not fit into %s: want for below every", strictyaml.FormatDuration(s.For), strictyaml.FormatDuration(s.Every))
		}
	case MarketOpen:
		if s.Every != 0 && s.After >= s.Every {
			return fmt.Errorf("market-open: want after below every, got %s and %s", strictyaml.FormatDuration(s.After), strictyaml.FormatDuration(s.Every))
		}
	case Diurnal:
		if s.High == 0 || s.Low > s.High {
			return fmt.Errorf("diurnal: want low at most high, and high above 0, got %v and %v", s.Low, s.High)
		}
	case OnOff:
	default:
		return oneOf("shape", s.Kind, ShapeKinds)
	}
	return nil
}

// Peak is the highest multiple of the rate.
func (s Shape) Peak() float64 {
	switch s.Kind {
	case Ramp:
		return max(s.From, s.To)
	case Spikes, MarketOpen:
		return max(1, s.To)
	case Diurnal:
		return s.High
	}
	return 1
}

// String returns the text form; nothing for the zero value.
func (s Shape) String() string {
	var b strings.Builder
	b.WriteString(s.Kind)
	sep := ":"
	for _, p := range shapeParams[s.Kind] {
		var text string
		if p.number != nil {
			text = strconv.FormatFloat(*p.number(&s), 'f', -1, 64)
		} else if d := *p.length(&s); d != 0 {
			text = strictyaml.FormatDuration(d)
		} else {
			continue
		}
		b.WriteString(sep + p.name + "=" + text)
		sep = ","
	}
	return b.String()
}

// MarshalText returns the text form.
func (s Shape) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the text form.
func (s *Shape) UnmarshalText(b []byte) error {
	x, err := ParseShape(string(b))
	if err == nil {
		*s = x
	}
	return err
}

// Stage is a stretch of load in which the rate goes straight from one value to
// another, in requests a second. Its text forms are 30s:10 and 1m:10..50.
type Stage struct {
	Length   time.Duration
	From, To float64
}

// ParseStage reads the text form of a stage. The error says what was expected,
// without the text itself.
func ParseStage(text string) (Stage, error) {
	const want = "want LENGTH:RATE or LENGTH:FROM..TO, as in 30s:10 or 1m:10..50"
	length, rates, ok := strings.Cut(strings.TrimSpace(text), ":")
	if !ok {
		return Stage{}, errors.New(want)
	}
	d, err := time.ParseDuration(strings.TrimSpace(length))
	if err != nil {
		return Stage{}, fmt.Errorf("%s is no length: "+want, strictyaml.Quote(length))
	}
	s := Stage{Length: d}
	from, to, two := strings.Cut(rates, "..")
	if !two {
		to = from
	}
	for _, p := range []struct {
		text string
		x    *float64
	}{{from, &s.From}, {to, &s.To}} {
		if *p.x, err = strconv.ParseFloat(strings.TrimSpace(p.text), 64); err != nil {
			return Stage{}, fmt.Errorf("%s is no rate: "+want, strictyaml.Quote(p.text))
		}
	}
	return s, s.check()
}

func (s Stage) check() error {
	switch {
	case s.Length <= 0 || s.Length > maxDuration:
		return fmt.Errorf("want a length above 0s and at most %s, got %s", strictyaml.FormatDuration(maxDuration), strictyaml.FormatDuration(s.Length))
	case !(s.From >= 0 && s.From <= maxRate) || !(s.To >= 0 && s.To <= maxRate) || math.IsNaN(s.From+s.To):
		return fmt.Errorf("want rates from 0 to %d requests a second, got %v to %v", maxRate, s.From, s.To)
	}
	return nil
}

// String returns the text form.
func (s Stage) String() string {
	f := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	text := strictyaml.FormatDuration(s.Length) + ":" + f(s.From)
	if s.To != s.From {
		text += ".." + f(s.To)
	}
	return text
}

// MarshalText returns the text form.
func (s Stage) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the text form.
func (s *Stage) UnmarshalText(b []byte) error {
	x, err := ParseStage(string(b))
	if err == nil {
		*s = x
	}
	return err
}

// ReadStages reads a file of stages: one a line, empty lines and what follows a #
// left out; a line may begin with the dash of a YAML list. Name is the file's name
// in errors.
func ReadStages(name string, data []byte) ([]Stage, error) {
	var out []Stage
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "- "))
		if line == "" {
			continue
		}
		s, err := ParseStage(line)
		if err != nil {
			return nil, fmt.Errorf("read stages %s:%d: %w", name, n, err)
		}
		if out = append(out, s); len(out) > maxSteps {
			return nil, fmt.Errorf("read stages %s:%d: want at most %d stages", name, n, maxSteps)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("read stages %s: it has none; want lines as 30s:10 or 1m:10..50", name)
	}
	return out, nil
}
