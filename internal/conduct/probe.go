package conduct

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"plimsoll/internal/clock"
	"plimsoll/internal/dialect"
	"plimsoll/internal/load"
	"plimsoll/internal/message"
	"plimsoll/internal/record"
	"plimsoll/internal/stream"
	"plimsoll/internal/workload"
)

// Probe is what an API showed it can do. Null means that it could not be told.
type Probe struct {
	Model string `json:"model"`
	// Streaming: a stream was asked for and came as a stream.
	Streaming *bool `json:"streaming"`
	// Usage: token counts at the end of a stream; RunningUsage: in its events.
	Usage        *bool `json:"usage"`
	RunningUsage *bool `json:"running_usage"`
	// ExactLength: exactly as many tokens as asked for.
	ExactLength *bool `json:"exact_length"`
	// NonStream: one body when no stream is asked for, with usage.
	NonStream *bool `json:"non_stream"`
	// Reasoning: a reasoning field was seen.
	Reasoning *bool `json:"reasoning"`
	// Done: the stream ended with its terminal event.
	Done  *bool   `json:"done"`
	Tries []Tried `json:"tries"`
}

// Tried is one probe as it went.
type Tried struct {
	What         string   `json:"what"`
	Status       string   `json:"status"`
	HTTPStatus   *int     `json:"http_status"`
	Error        *Problem `json:"error"`
	Events       int      `json:"events"`
	OutputTokens *int32   `json:"output_tokens"`
	PromptTokens *int32   `json:"prompt_tokens"`
	Finish       string   `json:"finish_reason,omitempty"`
	TTFTMS       *float64 `json:"ttft_ms"`
	E2EMS        *float64 `json:"e2e_ms"`
}

// Lines says what a probe found, one thing a line.
func (p *Probe) Lines() []string {
	word := func(b *bool) string {
		switch {
		case b == nil:
			return "not known"
		case *b:
			return "yes"
		}
		return "no"
	}
	var out []string
	if p.Streaming != nil || p.NonStream != nil {
		out = append(out,
			fmt.Sprintf("streaming %s, usage at the end %s, running usage %s", word(p.Streaming), word(p.Usage), word(p.RunningUsage)),
			fmt.Sprintf("exact length %s, one body %s, reasoning field %s, [DONE] %s",
				word(p.ExactLength), word(p.NonStream), word(p.Reasoning), word(p.Done)))
	}
	for _, t := range p.Tries {
		s := t.What + ": " + t.Status
		if t.Error != nil {
			s += ", " + t.Error.Kind
			if t.Error.Text != "" {
				s += ", " + t.Error.Text
			}
		}
		if t.OutputTokens != nil {
			s += fmt.Sprintf(", %d tokens", *t.OutputTokens)
		}
		if t.Events > 0 {
			s += fmt.Sprintf(" in %d events", t.Events)
		}
		if t.Finish != "" {
			s += ", finish " + t.Finish
		}
		if t.TTFTMS != nil {
			s += fmt.Sprintf(", ttft %.1f ms", *t.TTFTMS)
		}
		out = append(out, s)
	}
	return out
}

// probeTokens is the output length that each probe asks for.
const probeTokens = 16

// probe sends three requests to each API: a stream, a stream with running usage
// and an exact length, and one without streaming. It goes on to the next API at
// the first sign that this one is not there.
func (k *checker) probe(ctx context.Context) {
	model := k.cfg.Model
	if model == "" && len(k.facts.Models) > 0 {
		model = k.facts.Models[0].ID
	}
	for i := range k.facts.APIs {
		fact := &k.facts.APIs[i]
		fact.Probe = &Probe{Model: model, Tries: []Tried{}}
		for _, try := range []func(context.Context, *APIFact) bool{k.tryStream, k.tryExact, k.tryBody} {
			if ctx.Err() != nil || !try(ctx, fact) {
				break
			}
		}
	}
}

func (k *checker) tryStream(ctx context.Context, fact *APIFact) bool {
	p := fact.Probe
	r := k.send(ctx, fact, "stream", dialect.Options{Stream: true, Usage: true}, false)
	if !answered(r, fact) {
		return false
	}
	if r.HTTPStatus == http.StatusOK {
		p.Streaming = new(r.Streamed)
	}
	if r.Streamed && r.Status == record.OK {
		p.Usage = new(r.Source == record.SourceServer)
		p.Done = new(r.Flags&record.NoDone == 0)
		p.Reasoning = new(reasoned(r))
	}
	return true
}

func (k *checker) tryExact(ctx context.Context, fact *APIFact) bool {
	p := fact.Probe
	r := k.send(ctx, fact, "exact",
		dialect.Options{Stream: true, Usage: true, RunningUsage: true, IgnoreEOS: true}, true)
	if !answered(r, fact) {
		return false
	}
	if r.Status != record.OK {
		// Refused as a whole: nothing says which of the two it was.
		return true
	}
	running := 0
	for i := range r.Events {
		if r.Events[i].Cumulative > 0 {
			running++
		}
	}
	if len(r.Events) > 1 {
		p.RunningUsage = new(running > 1)
	}
	if r.Output != record.Unknown {
		p.ExactLength = new(r.Output == probeTokens)
	}
	return true
}

func (k *checker) tryBody(ctx context.Context, fact *APIFact) bool {
	r := k.send(ctx, fact, "one body", dialect.Options{}, false)
	if !answered(r, fact) {
		return false
	}
	if r.HTTPStatus != http.StatusOK {
		return true
	}
	fact.Probe.NonStream = new(r.Status == record.OK && !r.Streamed && r.Source == record.SourceServer)
	return true
}

// reasoned says whether any event carried reasoning.
func reasoned(r *record.Request) bool {
	return slices.ContainsFunc(r.Events, func(e record.Event) bool { return e.Channel&record.Reasoning != 0 })
}

// answered notes whether the API is there, and says whether it is worth going on.
func answered(r *record.Request, fact *APIFact) bool {
	switch {
	case r == nil:
		fact.Text = "the probe was interrupted"
		return false
	case r.Error == record.AuthError:
		fact.Text = fmt.Sprintf("the key was refused (%d); set one with --api-key-env", r.HTTPStatus)
		return false
	case r.HTTPStatus == http.StatusNotFound || r.HTTPStatus == http.StatusMethodNotAllowed:
		fact.Text = fmt.Sprintf("a POST is answered %d: no such API, or no such model", r.HTTPStatus)
		fact.There = new(false)
		return false
	case r.HTTPStatus == http.StatusOK:
		fact.Text = "there: a POST is answered 200"
		fact.There = new(true)
	}
	return true
}

// keep is a sink that keeps what it needs of the one record it gets.
type keep struct {
	mu sync.Mutex
	r  *record.Request
}

func (s *keep) Record(r *record.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := *r
	c.Events = slices.Clone(r.Events)
	s.r = &c
}

// once is a population of one user that asks one thing.
type once struct{ req *message.Request }

func (o once) User(uint32, uint32) workload.Machine    { return &onceMachine{req: o.req} }
func (o once) Session(uint32, uint64) workload.Machine { return &onceMachine{req: o.req} }

type onceMachine struct{ req *message.Request }

func (m *onceMachine) Start(now int64) workload.Action {
	return workload.Action{Kind: workload.Send, At: now, Request: m.req, Workload: "probe"}
}
func (m *onceMachine) Done(int64, workload.Outcome) workload.Action { return workload.Action{} }

// given renders parts that hold their text.
type given struct{}

func (given) AppendText(dst []byte, p *message.Part) []byte { return append(dst, p.Text...) }

// send makes one probe the way a run makes its requests, and notes it.
func (k *checker) send(ctx context.Context, fact *APIFact, what string, opt dialect.Options, exact bool) *record.Request {
	opt.Model = fact.Probe.Model
	c := clock.New()
	sink := new(keep)
	cfg := load.Config{
		Clock:  c,
		Stream: stream.Config{Now: c.Now, Start: c.Start(), TLS: k.cfg.Access.TLS, Proxy: k.cfg.Access.Proxy, ConnectTimeout: k.cfg.Timeout, NewConnection: true},
		URLs:   []string{withPath(k.root, fact.Path)}, Header: k.cfg.Access.Header,
		API: dialect.API(fact.API), Options: opt, TotalTimeout: k.cfg.ProbeTimeout,
		Population: once{&message.Request{
			Parts:     []message.Part{{Text: "Count from one to ten in words.", Tokens: 8}},
			MaxTokens: probeTokens, Exact: exact,
		}},
		Renderer: given{}, Sink: sink,
		Steps: []load.Step{{Users: 1, Requests: 1, Drain: k.cfg.ProbeTimeout}},
	}
	if _, err := load.Run(ctx, cfg); err != nil {
		fact.Probe.Tries = append(fact.Probe.Tries, Tried{
			What: what, Status: record.Failed.String(),
			Error: &Problem{Kind: record.ClientResource.String(), Text: err.Error()},
		})
		return nil
	}
	r := sink.r
	if r == nil {
		return nil
	}
	t := Tried{What: what, Status: r.Status.String(), Events: len(r.Events), Finish: r.Finish}
	s := Sent{Method: "POST", Path: fact.Path}
	if r.HTTPStatus != 0 {
		t.HTTPStatus = new(int(r.HTTPStatus))
		s.Status = t.HTTPStatus
	}
	if r.Error != record.NoError {
		t.Error = &Problem{Kind: r.Error.String(), Text: strings.TrimSpace(k.cfg.Access.Redact(r.Message))}
		s.Error = t.Error
	}
	if r.Output != record.Unknown {
		t.OutputTokens = &r.Output
	}
	if r.Prompt != record.Unknown {
		t.PromptTokens = &r.Prompt
	}
	if r.FirstToken != record.Unset && r.Start != record.Unset && r.Streamed {
		t.TTFTMS = new(float64(r.FirstToken-r.Start) / float64(time.Millisecond))
	}
	if r.End != record.Unset && r.Start != record.Unset {
		t.E2EMS = new(float64(r.End-r.Start) / float64(time.Millisecond))
		s.MS = t.E2EMS
	}
	k.facts.Sent = append(k.facts.Sent, s)
	fact.Probe.Tries = append(fact.Probe.Tries, t)
	return r
}
