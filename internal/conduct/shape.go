package conduct

import (
	"math"
	"strings"
	"time"

	"plimsoll/internal/load"
	"plimsoll/internal/pace"
	"plimsoll/internal/scenario"
)

// calm is how many fades a market takes until what is left of its opening is
// below a rate of one in a million million.
const calm = 28

// shape is how a rate goes that a scenario describes; nil for one that stays.
func shape(s scenario.Shape) *pace.Shape {
	flat := func(length time.Duration, x float64) pace.Piece { return pace.Piece{Length: length, From: x, To: x} }
	switch s.Kind {
	case scenario.Ramp:
		return &pace.Shape{Pieces: []pace.Piece{{Length: s.Over, From: s.From, To: s.To}}, Rest: s.To}
	case scenario.Spikes:
		return &pace.Shape{Pieces: []pace.Piece{flat(s.Every-s.For, 1), flat(s.For, s.To)}, Repeat: true}
	case scenario.MarketOpen:
		out := &pace.Shape{Repeat: s.Every > 0, Rest: 1}
		if s.After > 0 {
			out.Pieces = append(out.Pieces, flat(s.After, 1))
		}
		length := s.Every - s.After
		if s.Every == 0 {
			length = calm * s.Fade
		}
		out.Pieces = append(out.Pieces, pace.Piece{Form: pace.Fade, Length: length, From: s.To, To: 1, Fade: s.Fade})
		return out
	case scenario.Diurnal:
		return &pace.Shape{Pieces: []pace.Piece{{Form: pace.Wave, Length: s.Period, From: s.Low, To: s.High}}, Repeat: true}
	case scenario.OnOff:
		return &pace.Shape{Pieces: []pace.Piece{flat(s.On, 1), flat(s.Off, 0)}, Repeat: true}
	}
	return nil
}

// staged is the one step that stages make: its rate is their mean.
func staged(base load.Step, stages []scenario.Stage) load.Step {
	var n, length float64
	for _, s := range stages {
		n += (s.From + s.To) / 2 * s.Length.Seconds()
		length += s.Length.Seconds()
	}
	base.Rate = n / length
	base.Shape = &pace.Shape{}
	for _, s := range stages {
		base.Shape.Pieces = append(base.Shape.Pieces, pace.Piece{Length: s.Length, From: s.From / base.Rate, To: s.To / base.Rate})
	}
	base.Duration = base.Shape.Length()
	return base
}

// asked is how long the steady window of a step is to be by its time, in ns: 0 where a
// number of requests ends it.
func asked(s *load.Step) int64 {
	if s.Times == nil && s.Duration == 0 {
		return 0
	}
	return int64(window(s))
}

// window is how long the steady window of a step is expected to be, 0 when that
// depends on the answers.
func window(s *load.Step) time.Duration {
	if s.Times != nil {
		return max(1, time.Duration(s.Times.Last())-s.Warmup)
	}
	if s.Duration > 0 || s.Users > 0 {
		return s.Duration
	}
	if len(s.Streams) > 0 {
		return streamed(s)
	}
	before := pace.Expected(s.Rate, s.Warmup, s.Shape, s.Warmup)
	end, ok := pace.Along(s.Rate, s.Warmup, s.Shape).Time(before + float64(s.Requests))
	if !ok {
		return 0
	}
	return time.Duration(end) - s.Warmup
}

// streamed is window of a number of sessions that arrive in streams: found by halving,
// since each goes its own way. It is 0 when so many do not come in a hundred years.
func streamed(s *load.Step) time.Duration {
	const longest = 100 * 365 * 24 * time.Hour
	lo, hi := time.Duration(0), longest
	want := expected(s, s.Warmup) + float64(s.Requests)
	if expected(s, s.Warmup+longest) < want {
		return 0
	}
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; expected(s, s.Warmup+mid) < want {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// expected is how many sessions of a step with a rate are expected to arrive until t.
func expected(s *load.Step, t time.Duration) float64 {
	if len(s.Streams) == 0 {
		return pace.Expected(s.Rate, s.Warmup, s.Shape, t)
	}
	sum := 0.0
	for i := range s.Streams {
		sum += pace.Expected(s.Streams[i].Rate, s.Warmup, s.Streams[i].Shape, t)
	}
	return sum
}

// requests is how many requests a step with a rate is expected to schedule.
func requests(s *load.Step) int64 {
	if s.Times != nil {
		return int64(s.Requests)
	}
	if s.Requests > 0 {
		return int64(math.Round(expected(s, s.Warmup))) + int64(s.Requests)
	}
	return int64(math.Round(expected(s, s.Warmup+s.Duration)))
}

// stagesText is a list of stages as it stands on a command line.
func stagesText(stages []scenario.Stage) string {
	texts := make([]string, len(stages))
	for i, s := range stages {
		texts[i] = s.String()
	}
	return strings.Join(texts, ",")
}
