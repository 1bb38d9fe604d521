package pace

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"time"
)

// Form is how a rate goes from one value to another.
type Form uint8

// The forms.
const (
	// Line goes straight; a constant rate is a line too.
	Line Form = iota
	// Fade falls (or rises) from the first value towards the second, ever slower:
	// after each Fade time 1/e of the distance is left.
	Fade
	// Wave goes from the first value to the second and back, as a cosine does.
	Wave
)

// Piece is a stretch of a shape. From and To are multiples of a base rate, at
// least 0.
type Piece struct {
	Form     Form
	Length   time.Duration
	From, To float64
	// Fade is the time constant of a piece of that form.
	Fade time.Duration
}

// Shape is how a rate goes over time, as multiples of a base rate: pieces one
// after another, which begin again when Repeat is set. Otherwise the rate is
// Rest after them; nothing more arrives when that is 0.
type Shape struct {
	Pieces []Piece
	Repeat bool
	Rest   float64
}

// The bound of the multiples of a rate, beyond which one is a slip.
const maxMultiple = 1e6

// Check says what is wrong with the shape.
func (s *Shape) Check() error {
	if len(s.Pieces) == 0 {
		return errors.New("shape: it has no pieces")
	}
	ok := func(x float64) bool { return x >= 0 && x <= maxMultiple }
	for i, p := range s.Pieces {
		switch {
		case p.Length <= 0:
			return fmt.Errorf("shape: piece %d: want a length above 0, got %v", i, p.Length)
		case !ok(p.From) || !ok(p.To):
			return fmt.Errorf("shape: piece %d: want a rate of 0 to %g times the base, got %g to %g", i, float64(maxMultiple), p.From, p.To)
		case p.Form == Fade && p.Fade <= 0:
			return fmt.Errorf("shape: piece %d: want a fade above 0, got %v", i, p.Fade)
		}
	}
	if !ok(s.Rest) {
		return fmt.Errorf("shape: want a rate of 0 to %g times the base after its pieces, got %g", float64(maxMultiple), s.Rest)
	}
	if s.total() <= 0 && (s.Repeat || s.Rest == 0) {
		return errors.New("shape: its rate is 0 all the time")
	}
	return nil
}

// Length is the time that the pieces take once.
func (s *Shape) Length() time.Duration {
	var d time.Duration
	for _, p := range s.Pieces {
		d += p.Length
	}
	return d
}

func (s *Shape) total() float64 {
	var n float64
	for i := range s.Pieces {
		n += s.Pieces[i].count(s.Pieces[i].Length.Seconds())
	}
	return n
}

// At returns the multiple of the base rate t after the shape's start.
func (s *Shape) At(t time.Duration) float64 {
	if s.Repeat {
		t %= s.Length()
	}
	for i := range s.Pieces {
		p := &s.Pieces[i]
		if t < p.Length {
			return p.at(t.Seconds())
		}
		t -= p.Length
	}
	return s.Rest
}

// at is the multiple t seconds after the piece's start.
func (p *Piece) at(t float64) float64 {
	length := p.Length.Seconds()
	switch p.Form {
	case Fade:
		return p.To + (p.From-p.To)*math.Exp(-t/p.Fade.Seconds())
	case Wave:
		return p.From + (p.To-p.From)*(1-math.Cos(2*math.Pi*t/length))/2
	default:
		return p.From + (p.To-p.From)*t/length
	}
}

// count is the integral of at from the piece's start.
func (p *Piece) count(t float64) float64 {
	length := p.Length.Seconds()
	switch p.Form {
	case Fade:
		tau := p.Fade.Seconds()
		return p.To*t - (p.From-p.To)*tau*math.Expm1(-t/tau)
	case Wave:
		mean, swing := (p.From+p.To)/2, (p.To-p.From)/2
		return mean*t - swing*length/(2*math.Pi)*math.Sin(2*math.Pi*t/length)
	default:
		return t * (p.From + (p.To-p.From)*t/length/2)
	}
}

// time is the inverse of count, between 0 and the piece's length.
func (p *Piece) time(n float64) float64 {
	length := p.Length.Seconds()
	if p.Form == Line {
		// The root of the quadratic in the form that divides by no difference.
		root := math.Sqrt(max(0, p.From*p.From+2*(p.To-p.From)/length*n))
		if p.From+root == 0 {
			return 0
		}
		return min(length, 2*n/(p.From+root))
	}
	// Newton's steps, kept inside of a bracket that is halved when they are not
	// good enough: at a rate near 0 they would leave it.
	low, high := 0.0, length
	t := length / 2
	for range 80 {
		d := p.count(t) - n
		if d < 0 {
			low = t
		} else {
			high = t
		}
		next := (low + high) / 2
		if r := p.at(t); r > 0 {
			if guess := t - d/r; guess > low && guess < high {
				next = guess
			}
		}
		if math.Abs(next-t) < 1e-10 || high-low < 1e-10 {
			return next
		}
		t = next
	}
	return t
}

// course is a shape at a base rate, after a lead at the rate that it begins with.
type course struct {
	shape  *Shape
	rate   float64
	lead   float64 // s
	before float64 // multiples of the base rate times seconds, in the lead
	// Of each piece: the seconds and the count from the shape's start to its end.
	ends, counts []float64
}

// Along returns the curve of a base rate in arrivals per second whose shape
// begins after lead; until then the rate is what the shape begins with. A nil
// shape is the base rate all the time. The shape has been checked.
func Along(rate float64, lead time.Duration, shape *Shape) Curve {
	if shape == nil {
		return Rate(rate)
	}
	c := &course{shape: shape, rate: rate, lead: lead.Seconds()}
	c.before = c.lead * shape.Pieces[0].From
	var end, count float64
	for i := range shape.Pieces {
		p := &shape.Pieces[i]
		end += p.Length.Seconds()
		count += p.count(p.Length.Seconds())
		c.ends, c.counts = append(c.ends, end), append(c.counts, count)
	}
	return c
}

// Time returns when n arrivals are expected. Where the rate is 0 for a while that
// is at the end of the while: nothing arrives before.
func (c *course) Time(n float64) (int64, bool) {
	if !(c.rate > 0) {
		return 0, false
	}
	t, ok := c.time(n / c.rate)
	t = math.Round(t * 1e9)
	if !ok || !(t < math.MaxInt64) {
		return 0, false
	}
	return int64(t), true
}

func (c *course) time(n float64) (float64, bool) {
	if n < c.before {
		return n / c.shape.Pieces[0].From, true
	}
	n -= c.before
	last := len(c.ends) - 1
	length, total := c.ends[last], c.counts[last]
	start := c.lead
	if c.shape.Repeat {
		rounds := math.Floor(n / total)
		n = max(0, n-rounds*total)
		start += rounds * length
	}
	i := sort.Search(last+1, func(i int) bool { return c.counts[i] > n })
	if i > last {
		switch {
		case c.shape.Repeat: // the division rounded: this is the next round's start
			return start + length, true
		case c.shape.Rest == 0:
			return 0, false
		}
		return start + length + (n-total)/c.shape.Rest, true
	}
	if i > 0 {
		start += c.ends[i-1]
		n -= c.counts[i-1]
	}
	return start + c.shape.Pieces[i].time(n), true
}

// Expected returns how many arrivals a base rate with a shape that begins after
// lead has until t after the start. A nil shape is the base rate all the time.
func Expected(rate float64, lead time.Duration, shape *Shape, t time.Duration) float64 {
	if shape == nil || t <= 0 {
		return rate * max(0, t.Seconds())
	}
	first := shape.Pieces[0].From
	if t <= lead {
		return rate * first * t.Seconds()
	}
	n := first * lead.Seconds()
	t -= lead
	length := shape.Length()
	if shape.Repeat {
		n += float64(t/length) * shape.total()
		t %= length
	}
	for i := range shape.Pieces {
		p := &shape.Pieces[i]
		n += p.count(min(t, p.Length).Seconds())
		if t -= p.Length; t <= 0 {
			return rate * n
		}
	}
	return rate * (n + shape.Rest*t.Seconds())
}
