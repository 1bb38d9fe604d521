package cli

import (
	"fmt"
	"maps"
	"slices"

	"plimsoll/internal/report"
	"plimsoll/internal/run"
)

// replayFlags are the flags of run and twin predict that make the users of a file.
// Each has the name of its field.
type replayFlags struct {
	Trace    string   `name:"trace" placeholder:"FILE" group:"replay" help:"Replay a trace with its own times, instead of a workload and a load. See plimsoll trace inspect."`
	Dataset  string   `name:"dataset" placeholder:"FILE" group:"replay" help:"Users, or a rate of sessions, go through the sessions of a data set, or of a trace without its times."`
	Speed    string   `name:"speed" placeholder:"X" group:"replay" help:"Divides the times of a trace and the waits between turns (default 1)."`
	Timing   string   `name:"timing" placeholder:"HOW" group:"replay" help:"A later turn starts at its recorded time but after the answer it waits for (absolute, default), or as long after that as recorded (causal)."`
	GapCap   string   `name:"gap-cap" placeholder:"D" group:"replay" help:"Longest time without a start, and longest wait of a turn, before --speed."`
	From     string   `name:"from" placeholder:"D" group:"replay" help:"Leave out what begins before this time of the trace."`
	Until    string   `name:"until" placeholder:"D" group:"replay" help:"Leave out what begins at this time of the trace or later."`
	Spread   bool     `name:"spread" group:"replay" help:"Distribute requests of one instant over the time to the next."`
	Answers  string   `name:"answers" placeholder:"WHOSE" group:"replay" help:"What later turns have in their history: answers of the server (default) or recorded."`
	Content  string   `name:"content" placeholder:"NAME" group:"replay" help:"Generator of prompts of which only the length is known (default words)."`
	Images   string   `name:"image-size" placeholder:"WxH" group:"replay" help:"Send as many images of this size with a request as it had in the file; none by default."`
	Format   string   `name:"format" placeholder:"NAME" group:"replay" help:"The file's format, as plimsoll trace formats lists them; found from the content by default."`
	TimeUnit string   `name:"time-unit" placeholder:"U" group:"replay" help:"What the times are in: ns, us, ms or s; the format's own by default."`
	Block    string   `name:"block-size" placeholder:"N" group:"replay" help:"Tokens that one hash stands for; the format's own by default."`
	Column   []string `name:"column" sep:"none" placeholder:"WHAT=NAME" group:"replay" help:"Which column or field holds what (timestamp, input, output, session, prompt, model, id, kind, images, took); may be repeated."`
	Turns    string   `name:"turns" placeholder:"HOW" group:"replay" help:"What rows of one session hold: cumulative (the whole prompt) or delta (what is new)."`
	KeepZero bool     `name:"keep-zero-output" group:"replay" help:"Keep rows without output tokens, as requests for one."`
	OnBadRow string   `name:"on-bad-row" placeholder:"WHAT" group:"replay" help:"fail (default), skip (leave such rows out) or fix (make hashes fit the length)."`
}

// describeReplay says what is replayed, a line each.
func describeReplay(r *run.Replay) []string {
	out := []string{r.Text}
	if r.Kind == run.ReplayTrace && r.GapCapS == nil && r.FromS == nil && r.UntilS == nil {
		out[0] += ", no gap cap, all of it"
	}
	if r.LeftOut > 0 {
		out = append(out, report.Count(r.LeftOut)+" rows of the file are left out")
	}
	if r.LateRequests > 0 && r.LateMaxMS != nil && r.LateMeanMS != nil {
		out = append(out, fmt.Sprintf("%s could not start at their recorded times, since what they waited for had not ended: %s ms late on average, at most %s ms",
			report.Plural(r.LateRequests, "request"), report.Figure(*r.LateMeanMS), report.Figure(*r.LateMaxMS)))
	}
	if r.NotSent > 0 {
		out = append(out, report.Plural(r.NotSent, "request")+" not sent: an earlier turn had failed, whose answer their history needs")
	}
	return out
}

// showReplay makes a report say what was replayed, nil for nothing.
func showReplay(about *report.Run, r *run.Replay) {
	if r == nil {
		return
	}
	about.Replay = describeReplay(r)
	if r.Kind == run.ReplayTrace {
		about.Load = replayLoad(r)
	}
	about.Notes = append(about.Notes, r.Notices...)
}

// describeLengths says how prompts got their lengths, "" for nil.
func describeLengths(l *run.Lengths) string {
	if l == nil {
		return ""
	}
	s := "prompts cut by the model's tokenizer"
	switch l.By {
	case run.LengthsTokenize:
		s = fmt.Sprintf("lengths calibrated by the server's tokenizer, %d texts", l.Texts)
	case run.LengthsUsage:
		s = fmt.Sprintf("lengths calibrated by %s before the run, of %s prompt tokens together", report.Plural(l.Probes, "request"), report.Count(l.PromptTokens))
	}
	for i, name := range slices.Sorted(maps.Keys(l.BytesPerToken)) {
		sep := ", "
		if i == 0 {
			sep = ": "
		}
		s += sep + name + " " + report.Figure(l.BytesPerToken[name]) + " bytes a token"
	}
	if l.TemplateTokens > 0 {
		s += "; the chat template adds " + report.Figure(l.TemplateTokens) + " tokens to a prompt"
	}
	if l.Error != nil {
		s += "; prompts differ from what was asked by " + report.Percent(*l.Error) + " on average"
		if l.TemplateTokens > 0 {
			s += " without those"
		}
	}
	return s
}

// replayLoad names the load of a replayed trace in a few words.
func replayLoad(r *run.Replay) string {
	return report.Plural(r.Requests, "request") + " at the times of a trace"
}
