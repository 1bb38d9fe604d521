package conduct

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"plimsoll/internal/clock"
	"plimsoll/internal/dialect"
	"plimsoll/internal/load"
	"plimsoll/internal/message"
	"plimsoll/internal/random"
	"plimsoll/internal/record"
	"plimsoll/internal/run"
	"plimsoll/internal/scenario"
	"plimsoll/internal/stream"
	"plimsoll/internal/workload"
	"plimsoll/internal/workload/content"
	"plimsoll/internal/workload/trace"
)

// The texts of a calibration: of each generator two of each length, in tokens as
// far as they are known before. Longer ones would say more of a generator whose
// texts vary, at the cost of more tokens on the user's account.
var (
	calibrationTokens = []int{200, 200, 1500, 1500}
	// maxGenerators bounds the generators that are calibrated; the others of a run,
	// if there are any, keep the mean of many vocabularies.
	maxGenerators = 12
)

// labelCalibration keeps the texts of a calibration apart from the run's.
const labelCalibration = 0x63616c // "cal"

// wantsLengths says whether the lengths of a scenario are to be made exact by asking
// the server.
func wantsLengths(s *scenario.Scenario, counter record.Counter) bool {
	return s.Users.Lengths == scenario.LengthsExact && counter == nil
}

// generators lists what makes the text of the first requests of a crowd's sessions.
func (c *crowd) generators() []string {
	found := map[string]bool{}
	for i := range uint64(200) {
		a := c.Session(0, i).Start(0)
		if a.Kind != workload.Send || a.Request.Body != "" {
			continue
		}
		for j := range a.Request.Parts {
			if p := &a.Request.Parts[j]; p.Text == "" && p.Media == nil && p.Tokens > 0 {
				found[trace.Whole(p.Generator)] = true
			}
		}
	}
	out := slices.Sorted(maps.Keys(found))
	return out[:min(len(out), maxGenerators)]
}

// noLengths is what helps where a server cannot say how long texts are.
const noLengths = "leave --lengths exact out, or give the model's tokenizer with --tokenizer"

// calibration is how the lengths of a run are made right.
type calibration struct {
	info run.Lengths
	// off is the sum of |counted - asked| / asked in 1e-9, n the number of requests.
	off, n atomic.Int64
}

// newCalibration asks the server how long the texts of a crowd are, by its tokenizer
// where it has one, and by requests for one token where not.
func newCalibration(ctx context.Context, s *scenario.Scenario, users *crowd, access *Access, endpoint string) (*calibration, error) {
	c := &calibration{info: run.Lengths{By: run.LengthsTokenize, BytesPerToken: map[string]float64{}}}
	ask := &tokenizing{s: s, access: access, endpoint: endpoint}
	defer ask.close()
	samples := map[string][]content.Sample{}
	var plain, templated int // of the same text, alone and in a chat
	for _, name := range users.generators() {
		for i, tokens := range calibrationTokens {
			part := message.Part{Generator: name, Seed: random.Derive(s.Seed, labelCalibration, uint64(i)), Tokens: tokens}
			text := string(users.text.AppendText(nil, &part))
			n, err := ask.count(ctx, text, false)
			if err != nil {
				return nil, err
			}
			samples[name] = append(samples[name], content.Sample{Bytes: len(text), Tokens: n})
			c.info.Texts++
			if ask.chat() && !ask.absent && templated == 0 {
				plain = n
				if templated, err = ask.count(ctx, text, true); err != nil {
					return nil, err
				}
			}
		}
	}
	c.info.Probes, c.info.PromptTokens = ask.sent, ask.tokens
	if ask.absent {
		c.info.By = run.LengthsUsage
	}
	own := map[string]int{}
	for name, all := range samples {
		milli, over, err := content.Fit(all)
		if err != nil {
			return nil, &PreflightError{Kind: record.BadBody, Err: fmt.Errorf("lengths of %s: %w", name, err), Fix: noLengths}
		}
		own[name] = milli
		c.info.BytesPerToken[name] = float64(milli) / 1000
		if ask.absent {
			c.info.TemplateTokens += max(0, over-content.NumberTokens(name, milli)) / float64(len(samples))
		}
	}
	if templated > 0 {
		c.info.TemplateTokens = float64(templated - plain)
	}
	users.text.BytesPerToken = own
	return c, nil
}

// add compares what a request asked for with what the server counted.
func (c *calibration) add(r *record.Request) {
	if c == nil || r.Status != record.OK || r.Phase != record.Steady || r.AskedPrompt <= 0 || r.Prompt < 0 {
		return
	}
	asked := float64(r.AskedPrompt)
	off := float64(r.Prompt) - c.info.TemplateTokens - asked
	c.off.Add(int64(max(off, -off) / asked * 1e9))
	c.n.Add(1)
}

// ended is info with the achieved error.
func (c *calibration) ended() *run.Lengths {
	if c == nil {
		return nil
	}
	info := c.info
	if n := c.n.Load(); n > 0 {
		info.Error = new(float64(c.off.Load()) / 1e9 / float64(n))
	}
	return &info
}

// tokenizing counts the tokens of texts by asking a server.
type tokenizing struct {
	s        *scenario.Scenario
	access   *Access
	endpoint string
	k        *checker
	done     func()
	// absent says that the server has no tokenizer that answers: requests are sent.
	absent bool
	sent   int
	tokens int64
}

func (q *tokenizing) close() {
	if q.done != nil {
		q.done()
	}
}

func (q *tokenizing) chat() bool { return dialect.API(q.s.Target.API) != dialect.OpenAICompletions }

// count returns the number of tokens of a text, as a message of a chat or alone.
func (q *tokenizing) count(ctx context.Context, text string, chat bool) (int, error) {
	if !q.absent {
		n, ok, err := q.tokenize(ctx, text, chat)
		switch {
		case ok || err != nil:
			return n, err
		case q.sent > 0:
			return 0, &PreflightError{Kind: record.BadBody, Err: fmt.Errorf("the server's POST /tokenize answers some texts and not others: lengths cannot be calibrated"), Fix: noLengths}
		}
		q.absent = true
	}
	return q.usage(ctx, text)
}

// tokenize asks POST /tokenize, as vLLM has it.
func (q *tokenizing) tokenize(ctx context.Context, text string, chat bool) (n int, ok bool, err error) {
	if q.k == nil {
		k, _, _, done, err := newChecker(&CheckConfig{URL: q.s.Target.URL[0], Access: q.access, Timeout: maxPreflight})
		if err != nil {
			return 0, false, &PreflightError{Err: err}
		}
		q.k, q.done = k, done
	}
	ask := map[string]any{"model": q.s.Target.Model}
	if chat {
		ask["messages"] = []map[string]string{{"role": "user", "content": text}}
	} else {
		ask["prompt"] = text
	}
	body, err := json.Marshal(ask)
	if err != nil {
		panic("BUG: a text cannot be encoded: " + err.Error())
	}
	p := q.k.post(ctx, "/tokenize", body)
	if ctx.Err() != nil {
		return 0, false, ctx.Err()
	}
	var answer struct {
		Count int `json:"count"`
	}
	if p.err != nil || p.status != http.StatusOK || json.Unmarshal(p.body, &answer) != nil || answer.Count <= 0 {
		return 0, false, nil
	}
	q.sent++
	return answer.Count, true, nil
}

// usage sends a request for one token, the way a run does, and reads what the server
// counted of its prompt.
func (q *tokenizing) usage(ctx context.Context, text string) (int, error) {
	t, c := &q.s.Target, clock.New()
	sink := new(keep)
	_, err := load.Run(ctx, load.Config{
		Clock:  c,
		Stream: stream.Config{Now: c.Now, Start: c.Start(), TLS: q.access.TLS, Proxy: q.access.Proxy, ConnectTimeout: t.ConnectTimeout},
		URLs:   []string{q.endpoint}, Header: q.access.Header, API: dialect.API(t.API), Options: options(q.s),
		HeaderTimeout: t.HeaderTimeout, IdleTimeout: t.IdleTimeout, TotalTimeout: t.Timeout,
		Population: once{&message.Request{Parts: []message.Part{{Text: text}}, MaxTokens: 1}},
		Renderer:   given{}, Sink: sink,
		Steps: []load.Step{{Users: 1, Requests: 1, Drain: max(t.Timeout, time.Minute)}},
	})
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if err != nil {
		return 0, &UsageError{Err: err}
	}
	r := sink.r
	switch {
	case r == nil || r.Status != record.OK && r.Prompt <= 0:
		fail := &PreflightError{Err: fmt.Errorf("a request that calibrates lengths failed"), Fix: noLengths}
		if r != nil {
			fail.Kind, fail.Err = r.Error, fmt.Errorf("a request that calibrates lengths: %s", q.access.Redact(r.Message))
		}
		return 0, fail
	case r.Prompt <= 0:
		return 0, &PreflightError{Err: fmt.Errorf("the server has no POST /tokenize and does not say how many tokens a prompt has (usage): lengths cannot be calibrated"), Fix: noLengths}
	}
	q.sent++
	q.tokens += int64(r.Prompt)
	return int(r.Prompt), nil
}

// post sends a JSON body to a path of the target.
func (k *checker) post(ctx context.Context, path string, body []byte) page {
	return k.requestBody(ctx, http.MethodPost, path, bytes.NewReader(body))
}
