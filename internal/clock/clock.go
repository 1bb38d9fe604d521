// Package clock owns time: one monotonic start instant, nanoseconds since it,
// absolute sleeping that is more precise than the runtime's timers, and the
// mapping of kernel receive stamps onto the run's clock. It never decides when
// anything should happen (pace) and keeps no statistics.
package clock

import (
	"context"
	"time"
)

// MaxStampAge is the age above which a kernel receive stamp is taken for the
// product of a stepped wall clock. No read is a minute late and still of use.
const MaxStampAge = time.Minute

// Clock is the run's monotonic clock. All of its times are int64 nanoseconds
// since its start instant. It is safe for concurrent use.
type Clock struct {
	start   time.Time
	sleeper *sleeper // nil: the runtime's timers are used
}

// New returns a clock whose start instant is now and whose sleeps are as
// precise as the platform allows. Where the runtime's clock is not the kernel's
// (inside a synctest bubble) it is the same as NewFake: a kernel timer would
// never fire there.
func New() *Clock {
	c := NewFake()
	if !runtimeClockIsFake(c.start) {
		c.sleeper = newSleeper()
	}
	return c
}

// NewFake returns a clock whose start instant is now and whose sleeps are the
// runtime's timers, which are exact inside a synctest bubble and 0.5 to 1 ms
// late outside.
func NewFake() *Clock { return &Clock{start: time.Now()} }

// Now returns the nanoseconds since the start instant.
func (c *Clock) Now() int64 { return int64(time.Since(c.start)) }

// Start returns the start instant, with both of its readings.
func (c *Clock) Start() time.Time { return c.start }

// Wall returns the wall clock's time at t, as the wall clock stood when the
// clock started.
func (c *Clock) Wall(t int64) time.Time { return c.start.Round(0).Add(time.Duration(t)) }

// SleepUntil returns nil at t, at once when t has passed, or the context's
// error when that ends first. It is never early.
func (c *Clock) SleepUntil(ctx context.Context, t int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d := time.Duration(t - c.Now())
	if d <= 0 {
		return nil
	}
	if c.sleeper != nil {
		if ok, err := c.sleeper.sleep(ctx, c, t); ok {
			return err
		}
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// FromStamp maps a wall-clock stamp taken by the kernel a short while ago onto
// the run's clock, by its age. It returns false when the age is below 0 or over
// MaxStampAge: the wall clock has stepped and the stamp says nothing.
func (c *Clock) FromStamp(stamp time.Time) (t int64, ok bool) {
	now := time.Now()
	age := now.UnixNano() - stamp.UnixNano()
	if age < 0 || age > int64(MaxStampAge) {
		return 0, false
	}
	return int64(now.Sub(c.start)) - age, true
}
