package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll/internal/strictyaml"
)

// Replay says what users once did is done again: a trace, with its times, or a data
// set, whose sessions users or a rate go through. With neither all is empty.
type Replay struct {
	// Trace and Dataset are files; at most one of them is given.
	Trace   string `yaml:"trace,omitempty"`
	Dataset string `yaml:"dataset,omitempty"`
	// Speed divides the times of a trace, and the waits between turns.
	Speed float64 `yaml:"speed,omitempty"`
	// Timing says when a later turn starts: TimingAbsolute or TimingCausal; empty for
	// a data set.
	Timing string `yaml:"timing,omitempty"`
	// GapCap, when above 0, is the longest time without a start and the longest wait
	// of a turn, before Speed.
	GapCap time.Duration `yaml:"gap-cap,omitempty"`
	// From and Until bound the window of the trace that is replayed, Until excluded; 0
	// for Until is its end.
	From  time.Duration `yaml:"from,omitempty"`
	Until time.Duration `yaml:"until,omitempty"`
	// Spread distributes the requests of one instant over the time to the next.
	Spread bool `yaml:"spread,omitempty"`
	// Answers says what later turns have in their history: AnswersServer, also when
	// empty, or AnswersRecorded.
	Answers string `yaml:"answers,omitempty"`
	// Content is the generator of prompts of which only the length is known; empty for
	// plain words.
	Content string `yaml:"content,omitempty"`
	// ImageSize is the width and height of the images that requests of the file had,
	// as 1024x768; empty sends none.
	ImageSize string `yaml:"image-size,omitempty"`

	// How the file is read: see trace.Options.
	Format         string            `yaml:"format,omitempty"`
	TimeUnit       string            `yaml:"time-unit,omitempty"`
	BlockSize      int               `yaml:"block-size,omitempty"`
	Column         map[string]string `yaml:"column,omitempty"`
	Turns          string            `yaml:"turns,omitempty"`
	KeepZeroOutput bool              `yaml:"keep-zero-output,omitempty"`
	OnBadRow       string            `yaml:"on-bad-row,omitempty"`
}

// The values that fields of a replay choose from.
const (
	TimingAbsolute = "absolute"
	TimingCausal   = "causal"

	LengthsEstimated = "estimated"
	LengthsExact     = "exact"

	AnswersServer   = "server"
	AnswersRecorded = "recorded"
)

// maxSpeed bounds Speed: a day in less than a tenth of a second is a slip.
const maxSpeed = 1e6

// maxPixels bounds the width and the height of an image, as package content does.
const maxPixels = 8192

// Image returns the size of images, 0 for none.
func (r *Replay) Image() (width, height int) {
	w, h, ok := strings.Cut(r.ImageSize, "x")
	width, err := strconv.Atoi(w)
	height, err2 := strconv.Atoi(h)
	if !ok || err != nil || err2 != nil || width < 1 || height < 1 || width > maxPixels || height > maxPixels {
		return 0, 0
	}
	return width, height
}

// Replayed is the file that is replayed, "" for none.
func (r *Replay) Replayed() string {
	if r.Trace != "" {
		return r.Trace
	}
	return r.Dataset
}

// fillReplay sets the defaults of what is replayed. It says itself how long requests
// are.
func (u *Users) fillReplay(given func(path string) bool) {
	r := &u.Replay
	if r.Replayed() == "" {
		return
	}
	if !given("users.prompt-tokens") {
		u.PromptTokens = Dist{}
	}
	if !given("users.output-tokens") {
		u.OutputTokens = Dist{}
	}
	if r.Speed == 0 && !given("users.speed") {
		r.Speed = 1
	}
	if r.Trace != "" && r.Timing == "" && !given("users.timing") {
		r.Timing = TimingAbsolute
	}
}

// replay checks what is replayed, and how.
func (v *validator) replay(u *Users) {
	r := &u.Replay
	v.text("users.trace", r.Trace)
	v.text("users.dataset", r.Dataset)
	if r.Trace != "" && r.Dataset != "" {
		v.fail("users.dataset", "give a trace (with its times) or a data set (without), not both"+v.also("users.trace"), "")
	}
	if r.Replayed() == "" {
		if v.failed("users.trace") || v.failed("users.dataset") {
			return
		}
		for _, p := range replayFields {
			if v.s.given(p) {
				v.fail(p, "it belongs to a trace or a data set: give trace or dataset, or remove it", "")
			}
		}
		return
	}
	what := "a trace"
	if r.Trace == "" {
		what = "a data set"
		for _, p := range timeFields {
			if v.s.given(p) {
				v.fail(p, "a data set is replayed without its times: give the file as trace, or remove it", "")
			}
		}
	}
	for _, p := range []string{"users.workload", "users.prompt-tokens"} {
		if v.s.given(p) {
			v.fail(p, what+" says what is sent"+v.also("users."+r.field())+": remove one of the two", "")
		}
	}
	if v.s.given("users.output-tokens") && u.OutputTokens.Kind != Fixed {
		v.fail("users.output-tokens", "with "+what+" it is the limit of requests whose output the file does not say: want a number", strictyaml.Quote(u.OutputTokens.String()))
	}
	v.number("users.speed", r.Speed, 1e-6, maxSpeed, "a speed")
	v.duration("users.gap-cap", r.GapCap)
	for _, d := range []struct {
		path string
		d    time.Duration
	}{{"users.from", r.From}, {"users.until", r.Until}} {
		if d.d < 0 {
			v.fail(d.path, "want a time of at least 0", strictyaml.FormatDuration(d.d))
		}
	}
	if r.Until > 0 && r.Until <= r.From {
		v.fail("users.until", "want a time after from, "+strictyaml.FormatDuration(r.From), strictyaml.FormatDuration(r.Until))
	}
	if r.Timing != "" {
		v.choice("users.timing", r.Timing, []string{TimingAbsolute, TimingCausal})
	}
	if r.Answers != "" {
		v.choice("users.answers", r.Answers, []string{AnswersServer, AnswersRecorded})
	}
	if r.TimeUnit != "" {
		v.choice("users.time-unit", r.TimeUnit, []string{"ns", "us", "ms", "s"})
	}
	if r.Turns != "" {
		v.choice("users.turns", r.Turns, []string{"cumulative", "delta"})
	}
	if r.OnBadRow != "" {
		v.choice("users.on-bad-row", r.OnBadRow, []string{"fail", "skip", "fix"})
	}
	if r.BlockSize < 0 || v.s.given("users.block-size") && r.BlockSize == 0 {
		v.fail("users.block-size", "want a number of tokens of at least 1", fmt.Sprint(r.BlockSize))
	}
	v.text("users.content", r.Content)
	if w, h := r.Image(); r.ImageSize != "" && (w == 0 || h == 0) {
		v.fail("users.image-size", fmt.Sprintf("want a width and a height of 1 to %d pixels, as in 1024x768", maxPixels), strictyaml.Quote(r.ImageSize))
	}
	v.text("users.format", r.Format)
	for _, k := range slices.Sorted(maps.Keys(r.Column)) {
		v.text(strictyaml.Join("users.column", k), r.Column[k])
	}
}

// field is the name of the field with the file.
func (r *Replay) field() string {
	if r.Trace != "" {
		return "trace"
	}
	return "dataset"
}

// timeFields are those of a trace alone, replayFields all that need a file.
var (
	timeFields   = []string{"users.timing", "users.from", "users.until", "users.spread"}
	replayFields = append([]string{
		"users.speed", "users.gap-cap", "users.answers", "users.content", "users.image-size", "users.format", "users.time-unit", "users.block-size", "users.column",
		"users.turns", "users.keep-zero-output", "users.on-bad-row",
	}, timeFields...)
)

// traced checks the load of a trace, which brings its own.
func (v *validator) traced(l *Load) {
	for _, f := range []struct{ path, fix string }{
		{"load.users", "give the file as dataset to have users go through its sessions"},
		{"load.rate", "give the file as dataset to send its sessions at a rate; speed changes that of the trace"},
		{"load.stages", "remove them"},
		{"load.steps", "remove them"},
		{"load.arrival", "remove it"},
		{"load.burstiness", "remove it"},
		{"load.shape", "remove it"},
		{"load.duration", "until bounds the part of the trace that is replayed, requests the number of requests"},
	} {
		if v.s.given(f.path) {
			v.fail(f.path, "a trace has its own times"+v.also("users.trace")+": "+f.fix, "")
		}
	}
	if v.s.given("load.requests") && l.Requests < 1 {
		v.fail("load.requests", "want a number of requests of at least 1", fmt.Sprint(l.Requests))
	}
	v.duration("load.warmup", l.Warmup)
	v.duration("load.drain", l.Drain)
	v.cap(l)
}
