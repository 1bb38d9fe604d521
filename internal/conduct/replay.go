package conduct

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"plimsoll/internal/dialect"
	"plimsoll/internal/load"
	"plimsoll/internal/pace"
	"plimsoll/internal/record"
	"plimsoll/internal/run"
	"plimsoll/internal/scenario"
	"plimsoll/internal/workload"
	"plimsoll/internal/workload/content"
	"plimsoll/internal/workload/trace"
)

// replay is a trace or a data set, laid out to be replayed.
type replay struct {
	*trace.Replay
	trace *trace.Trace
	info  run.Replay
	// times are when its sessions start, nil for a data set; requests counts all of a
	// trace.
	times    *pace.Times
	requests int
	options  trace.ReplayOptions
	// wrong counts the requests left out since they cannot be sent as they are.
	wrong int
}

// newReplay reads what a scenario replays, nil for one that replays nothing.
func newReplay(s *scenario.Scenario, src *sources, counter record.Counter) (*replay, error) {
	u := &s.Users
	if u.Replayed() == "" {
		return nil, nil
	}
	field := "users.dataset"
	if u.Trace != "" {
		field = "users.trace"
	}
	if src.dir == "" {
		return nil, fmt.Errorf("%s: %w", field, errNoFiles)
	}
	if err := src.check(u.Content, ""); err != nil {
		return nil, fmt.Errorf("users.content: %w", err)
	}
	sel := trace.Selection{From: u.From, To: u.Until, Spread: u.Spread}
	if u.Trace != "" {
		sel.Limit = s.Load.Requests
	}
	t, err := trace.Load(src.path(u.Replayed()), trace.Options{
		Format: u.Format, TimeUnit: trace.Unit(u.TimeUnit), OnBadRow: trace.Policy(u.OnBadRow), KeepZeroOutput: u.KeepZeroOutput,
		BlockTokens: u.BlockSize, Columns: u.Column, Turns: u.Turns, Seed: s.Seed, Done: src.done, OutputKnown: u.OutputTokens.A > 0,
	}, sel)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	opts := trace.ReplayOptions{
		Seed: s.Seed, Timing: trace.Timing(u.Timing), Speed: u.Speed, GapCap: u.GapCap, Exact: s.Target.IgnoreEOS, Output: int(u.OutputTokens.A),
		Generator: u.Content, Untimed: u.Trace == "", RecordedAnswers: u.Answers == scenario.AnswersRecorded,
	}
	opts.ImageWidth, opts.ImageHeight = u.Image()
	if c, ok := counter.(content.Tokenizer); ok {
		opts.Count = c.Count
	}
	wrong := t.Keep(func(rec *trace.Record) error {
		if len(rec.Messages) == 0 && rec.Output <= 0 && rec.Answer == "" && u.OutputTokens.A == 0 {
			return fmt.Errorf("%s: %w", field, &trace.Error{
				File: t.File, Line: rec.Line, Field: "output", Text: "nothing says how long the answer is: give --output-tokens, or name the column that says it with --column output=NAME",
			})
		}
		if opts.ImageWidth == 0 {
			if err := t.OnlyImages(rec); err != nil {
				return fmt.Errorf("%s: %w", field, err)
			}
		}
		if len(rec.Body) == 0 {
			return nil
		}
		if err := dialect.CheckBody(dialect.API(s.Target.API), string(rec.Body)); err != nil {
			return fmt.Errorf("%s: %w; %son-bad-row skip leaves such rows out", field,
				&trace.Error{File: t.File, Line: rec.Line, Field: "body", Text: err.Error()}, taker(rec.Body))
		}
		return nil
	})
	if len(wrong) > 0 && (!skips(u) || len(t.Records) == 0) {
		return nil, wrong[0]
	}
	r := &replay{trace: t, options: opts, wrong: len(wrong)}
	if err := r.lay(s); err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return r, nil
}

// taker names an API that takes a body.
func taker(body json.RawMessage) string {
	for _, api := range []dialect.API{dialect.OpenAIChat, dialect.OpenAICompletions, dialect.OpenAIResponses} {
		if dialect.CheckBody(api, string(body)) == nil {
			return fmt.Sprintf("--api %s takes it, ", api)
		}
	}
	return ""
}

// maxSpan is the longest replay, as long as the longest window of a load.
const maxSpan = 31 * 24 * time.Hour

// skips says whether requests that are not right are left out.
func skips(u *scenario.Users) bool { return u.OnBadRow != "" && u.OnBadRow != string(trace.Fail) }

// lay lays the trace out.
func (r *replay) lay(s *scenario.Scenario) (err error) {
	u, t := &s.Users, r.trace
	if r.Replay, err = trace.NewReplay(t, r.options); err != nil {
		return err
	}
	r.requests = len(t.Records)
	if r.Needs()&workload.NeedMedia != 0 && dialect.API(s.Target.API) != dialect.OpenAIChat {
		return fmt.Errorf("image-size: images have no place in API %s: want %s", s.Target.API, dialect.OpenAIChat)
	}
	if u.Trace != "" {
		if t.Summary.Timed == 0 {
			return fmt.Errorf("%s has no times: give it as dataset, with users or a rate", t.File)
		}
		if r.times, err = pace.At(r.Starts()); err != nil {
			return err
		}
		if span := r.Span(); span > maxSpan {
			last := &t.Records[0]
			for i := range t.Records {
				if rec := &t.Records[i]; rec.At > last.At {
					last = rec
				}
			}
			return &trace.Error{
				File: t.File, Line: last.Line, Text: fmt.Sprintf("the request would start %s after the first: the times are of two units, or of another one (--time-unit); if they are right, --gap-cap, --until or --speed makes that at most %s",
					span.Round(time.Second), maxSpan),
			}
		}
		if s.Load.Warmup > r.Span() {
			return fmt.Errorf("load.warmup: %s is longer than what is replayed of the trace, %s", s.Load.Warmup, r.Span().Round(time.Millisecond))
		}
	}
	r.describe(u)
	r.info.LeftOut += r.wrong
	return nil
}

// fit refuses requests that are longer than a context, or leaves them out.
func (r *replay) fit(s *scenario.Scenario, context int, estimates bool) error {
	long := r.TooLong(context, estimates)
	if len(long) == 0 {
		return nil
	}
	if !skips(&s.Users) || len(long) == len(r.trace.Records) {
		return long[0]
	}
	lines := map[int]bool{}
	for _, e := range long {
		lines[e.Line] = true
	}
	r.wrong += len(r.trace.Keep(func(rec *trace.Record) error {
		if lines[rec.Line] {
			return long[0]
		}
		return nil
	}))
	return r.lay(s)
}

// describe fills in what run.json says.
func (r *replay) describe(u *scenario.Users) {
	seconds := func(d time.Duration) *float64 {
		if d == 0 {
			return nil
		}
		return new(d.Seconds())
	}
	s := r.trace.Summary
	r.info = run.Replay{
		Kind: run.ReplayDataset, File: r.trace.File, Format: r.trace.Format, Requests: r.requests, Sessions: r.Sessions(),
		Speed: u.Speed, GapCapS: seconds(u.GapCap), FromS: seconds(u.From), UntilS: seconds(u.Until), Spread: u.Spread,
		Answers: u.Answers, Text: r.Describe(), Notices: s.Notices,
	}
	if r.info.Answers == "" {
		r.info.Answers = scenario.AnswersServer
	}
	r.info.LeftOut = s.Skipped.BadRow + s.Skipped.ZeroOutput + s.Skipped.NoReplay + s.Skipped.Empty
	if u.Trace != "" {
		r.info.Kind, r.info.Timing, r.info.SpanS = run.ReplayTrace, u.Timing, new(r.Span().Seconds())
	}
}

// ended is info with how it went.
func (r *replay) ended() *run.Replay {
	info := r.info
	n, most, mean := r.Late()
	if info.LateRequests = n; n > 0 {
		info.LateMaxMS, info.LateMeanMS = new(most.Seconds()*1e3), new(mean.Seconds()*1e3)
	}
	info.NotSent = r.Aborted()
	return &info
}

// step is the one step that replays a trace.
func (r *replay) step(base load.Step) load.Step {
	base.Times, base.Requests, base.Duration = r.times, r.requests, 0
	// Of a trace of one instant the mean is over a second.
	span := r.Span().Seconds()
	if span == 0 {
		span = 1
	}
	base.Rate = min(float64(r.requests)/span, 1e6)
	return base
}

// reuse is the share of the prompt tokens that come again in a trace, as far as it
// says so; nil when that is not known.
func (r *replay) reuse(s *scenario.Scenario) *float64 {
	u, sum := &s.Users, r.trace.Summary
	if u.Trace == "" || u.From > 0 || u.Until > 0 || s.Load.Requests > 0 || s.Load.Warmup > 0 {
		return nil
	}
	switch b := sum.Blocks; {
	case b != nil && b.InputTokens > 0:
		return new(b.TokenHitRate)
	case sum.WithText == 0 && sum.Sessions == 0:
		return new(0.0)
	}
	return nil
}

// sources is how the files that a scenario names are read.
type sources struct {
	readFile func(string) ([]byte, error) // nil when there can be none
	dir      string                       // as Config.Dir
	done     <-chan struct{}              // ends the reading of traces
	files    *content.Files
	folder   string   // of files
	searches []string // URLs that the workloads read so far search at
}

func (s *sources) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(s.dir, name)
}

// errNoFiles says that a scenario may name no files of this machine.
var errNoFiles = errors.New("files of this machine are only read for the command line: plimsoll run or plimsoll twin predict")

// check looks whether text can be made by a generator, and reads its documents; of
// one that reads documents, folder is what they are relative to.
func (s *sources) check(name, folder string) error {
	r := content.Renderer{}
	if content.ReadsFiles(name) {
		if s.dir == "" {
			return errNoFiles
		}
		folder = s.path(folder)
		if s.files == nil {
			f, err := content.OpenFiles(folder)
			if err != nil {
				return err
			}
			s.files, s.folder = f, folder
		}
		if folder != s.folder {
			return errors.New("documents of two folders in one run (" + s.folder + " and " + folder + "): put the workload files into one folder")
		}
		r.Files = s.files
	}
	return r.Check(name)
}

// close closes the folder of documents; what has been read stays.
func (s *sources) close() {
	if s.files != nil {
		_ = s.files.Close() // it was only read
	}
}
