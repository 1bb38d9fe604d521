package workload

import (
	"math"
	"slices"

	"plimsoll/internal/message"
	"plimsoll/internal/random"
	"plimsoll/internal/record"
)

// Facts are what the shape of a workload needs to know of a model.
type Facts struct {
	Name string
	// ActiveParams is the number of parameters that a token is multiplied with.
	ActiveParams float64
	// PairFLOPs are the operations of attention for one token and one token before
	// it, over all layers that see everything, WindowPairFLOPs over those that see
	// the last Window tokens only.
	PairFLOPs, WindowPairFLOPs float64
	Window                     int
	// KVBytes is the memory of a token's keys and values in the layers that see
	// everything, WindowKVBytes in those with a window.
	KVBytes, WindowKVBytes float64
	// StepBytes are the weights that a decoding step of ShapeBatch sequences reads.
	StepBytes float64
}

// ShapeBatch is the number of sequences that share the reading of the weights in
// a shape: a guess of what a loaded server has, so that shapes can be compared.
const ShapeBatch = 32

// flops are the operations of computing tokens after past ones.
func (f *Facts) flops(past, tokens float64) float64 {
	n := 2 * f.ActiveParams * tokens
	n += f.PairFLOPs * tokens * (past + tokens/2)
	if f.Window > 0 {
		w := float64(f.Window)
		// The first of them see less than a window.
		short := min(max(w-past, 0), tokens)
		n += f.WindowPairFLOPs * (short*(past+short/2) + (tokens-short)*w)
	}
	return n
}

// kv is the memory of so many tokens.
func (f *Facts) kv(tokens float64) float64 {
	n := tokens * f.KVBytes
	if f.Window > 0 {
		n += min(tokens, float64(f.Window)) * f.WindowKVBytes
	}
	return n
}

// Spread describes values that were drawn.
type Spread struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	Max  float64 `json:"max"`
}

func spread(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	slices.Sort(values)
	sum := 0.0
	for _, x := range values {
		sum += x
	}
	at := func(q float64) float64 { return values[int(math.Ceil(q*float64(len(values))))-1] }
	return Spread{Mean: sum / float64(len(values)), P50: at(0.5), P95: at(0.95), Max: values[len(values)-1]}
}

// Shape is what a workload loads, worked out of its distributions and a model,
// without a server: answers come at the asked length and the speed of the limits.
type Shape struct {
	Workload string `json:"workload"`
	Model    string `json:"model"`
	// Sessions is the number of sessions that were drawn, Requests of theirs.
	Sessions int `json:"sessions"`
	Requests int `json:"requests"`
	// RequestsPerSession, and the lengths in tokens of prompts, of what of them is
	// new to a server that forgets nothing, and of answers.
	RequestsPerSession Spread `json:"requests_per_session"`
	Prompt             Spread `json:"prompt_tokens"`
	New                Spread `json:"new_tokens"`
	Output             Spread `json:"output_tokens"`
	// Reuse is the share of all prompt tokens that such a server has already.
	Reuse float64 `json:"reuse"`
	// Context is the longest context of a session in tokens.
	Context Spread `json:"session_context_tokens"`
	// Per request: operations of prefill, bytes that decoding moves, bytes of text
	// and media on the wire both ways; per session: bytes that keys and values take
	// at most.
	PrefillFLOPs float64 `json:"prefill_flops"`
	DecodeBytes  float64 `json:"decode_bytes"`
	WireBytes    float64 `json:"wire_bytes"`
	KVBytes      Spread  `json:"kv_bytes"`
	// TTFTLimit and TPOTLimit are the limits in seconds that the shape's speed and
	// urgency follow from: the strictest of the workload's, and where it has none
	// those of a reader, 2 s and 100 ms.
	TTFTLimit float64 `json:"ttft_limit_s"`
	TPOTLimit float64 `json:"tpot_limit_s"`
	// RequestsPerS is what one user sends in a second at that speed, Urgency that
	// over TTFTLimit.
	RequestsPerS float64 `json:"requests_per_user_s"`
	Urgency      float64 `json:"urgency"`
	// Axes are the shape of a radar.
	Axes []Axis `json:"axes"`
}

// Axis is one part of the stack, of Stresses, with what a request (for memory a
// session) loads it with.
type Axis struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Score is between 0 and 1: the logarithm of how many times as much it is as
	// for a plain question of 100 tokens in and out, a thousand times being 1.
	Score float64 `json:"score"`
	// Declared says that the workload's file means to stress this part.
	Declared bool `json:"declared"`
}

// Claim holds what the workload's file says of the part against its score, in words;
// empty where neither has anything to say.
func (a *Axis) Claim() string {
	switch {
	case a.Declared && a.Score >= Stressed:
		return "stressed, as it says"
	case a.Declared:
		return "it says stressed, and is below ten plain questions"
	case a.Score >= Stressed:
		return "much, though not what it is for"
	}
	return ""
}

// Stressed is the score from which on a part counts as stressed: ten times a plain
// question.
const Stressed = 1.0 / 3

const (
	// shapeSessions is how many sessions a shape is drawn from, shapeRequests
	// bounds the requests.
	shapeSessions = 400
	shapeRequests = 40_000
	// The limits of a reader who said none.
	readerTTFT, readerTPOT = 2.0, 0.1
	// eventBytes is the size of a streamed event around its token's text, charBytes
	// that of a token: both as the OpenAI API has them, roughly.
	eventBytes, tokenBytes = 200, 4.5
	// jpegBytes and pngBytes are what a pixel of an image that content draws takes when
	// it is sent as base64, in the mean over sides of 512 to 2048 pixels; secondBytes a second
	// of sound: 16,000 samples of two bytes.
	jpegBytes, pngBytes, secondBytes = 0.115, 0.055, 2 * 16_000 * 4.0 / 3
	// scoreRange is the ratio to a plain question at which a score is 1.
	scoreRange = 1000
)

// ShapeOf works out the shape of a workload. Of one with a ladder each axis is that of
// the rung that loads the part most; all else is that of the file.
func ShapeOf(f *File, facts *Facts) *Shape {
	s := measure(f, facts)
	all := []*Shape{s}
	for _, rung := range f.rungs {
		all = append(all, measure(rung, facts))
	}
	plain, err := Read("plain.yaml", []byte("name: plain\nprompt: {turn: 100}\noutput: 100\n"), nil)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	ref := measure(plain, facts)
	axis := func(name, unit string, of func(*Shape) float64) {
		a := Axis{Name: name, Unit: unit, Declared: slices.Contains(f.Stresses, name)}
		for _, one := range all {
			a.Value = max(a.Value, of(one))
		}
		if r := of(ref); a.Value > r && r > 0 {
			a.Score = min(math.Log(a.Value/r)/math.Log(scoreRange), 1)
		}
		s.Axes = append(s.Axes, a)
	}
	axis(Compute, "FLOPs of prefill a request", func(s *Shape) float64 { return s.PrefillFLOPs })
	axis(Bandwidth, "bytes moved by decoding a request", func(s *Shape) float64 { return s.DecodeBytes })
	axis(KV, "bytes of keys and values a session", func(s *Shape) float64 { return s.KVBytes.Mean })
	axis(Network, "bytes on the wire a request", func(s *Shape) float64 { return s.WireBytes })
	axis(Scheduler, "requests a second and user, over the limit of ttft", func(s *Shape) float64 { return s.Urgency })
	return s
}

// measure draws sessions and adds up what they load.
func measure(f *File, facts *Facts) *Shape {
	s := &Shape{Workload: f.Name, Model: facts.Name, TTFTLimit: readerTTFT, TPOTLimit: readerTPOT}
	strictest(f, &s.TTFTLimit, &s.TPOTLimit)
	m := meter{facts: facts, shape: s, seen: map[uint64]bool{}}
	pop := NewSessions(1, f)
	var machine Machine = new(session)
	for n := uint64(0); n < shapeSessions && s.Requests < shapeRequests; n++ {
		machine = pop.Reuse(machine, 0, n)
		m.context = 0
		before := s.Requests
		m.end = 0
		Walk(machine, func(a *Action) (Outcome, bool) {
			o := m.request(a)
			m.end = max(m.end, o.Ended)
			return o, true
		})
		s.Sessions++
		m.seconds += float64(m.end) / 1e9
		m.requests = append(m.requests, float64(s.Requests-before))
		m.contexts = append(m.contexts, m.context)
		m.kv = append(m.kv, facts.kv(m.context))
	}
	n := float64(max(s.Requests, 1))
	s.RequestsPerSession, s.Prompt, s.New, s.Output = spread(m.requests), spread(m.prompts), spread(m.fresh), spread(m.outputs)
	s.Context, s.KVBytes = spread(m.contexts), spread(m.kv)
	if s.Prompt.Mean > 0 {
		s.Reuse = 1 - s.New.Mean/s.Prompt.Mean
	}
	s.PrefillFLOPs, s.DecodeBytes, s.WireBytes = m.flops/n, m.moved/n, m.wire/n
	if m.seconds > 0 {
		s.RequestsPerS = n / m.seconds
	}
	s.Urgency = s.RequestsPerS / s.TTFTLimit
	return s
}

// strictest replaces limits by the lowest that a file has, where it has any.
func strictest(f *File, ttft, tpot *float64) {
	lowest := func(of *float64, names ...string) {
		low := math.Inf(1)
		for _, l := range slices.Concat(f.SLO.All, f.SLO.First, f.SLO.Later) {
			if slices.Contains(names, l.Metric) {
				low = min(low, l.Value.Seconds())
			}
		}
		if !math.IsInf(low, 1) {
			*of = low
		}
	}
	lowest(ttft, "ttft", "ttfc")
	lowest(tpot, "tpot", "itl")
}

// meter adds up what sessions load.
type meter struct {
	facts *Facts
	shape *Shape
	// seen are the prompts' beginnings that a server has: each the seeds up to and
	// with a part, as one number.
	seen map[uint64]bool

	context                 float64 // longest of the session
	end                     int64   // of the session
	seconds                 float64
	requests, contexts, kv  []float64
	prompts, fresh, outputs []float64
	flops, moved, wire      float64
}

// naturalOutput stands in for a length that is left to the server.
const naturalOutput = 250

// request takes one request into account and answers it at the speed of the limits.
func (m *meter) request(a *Action) Outcome {
	req := a.Request
	output := float64(req.MaxTokens)
	if req.MaxTokens == 0 {
		output = naturalOutput
	}
	o := Outcome{OutputTokens: int32(output), ReasoningTokens: int32(req.ReasoningTokens), Ended: a.At}
	if a.Retrieval != nil {
		o.Ended += a.Retrieval.Duration
	}
	start := o.Ended
	ttft, tpot := m.shape.TTFTLimit*1e9, m.shape.TPOTLimit*1e9
	o.Ended += int64(ttft + tpot*(output-1))
	for _, at := range []int64{a.CancelAt, start + a.CancelAfter} {
		if at > start && at < o.Ended {
			o.Ended, o.Status = at, record.Cancelled
			output = min(output, max(0, (float64(at-start)-ttft)/tpot+1))
		}
	}
	if n := float64(a.CancelTokens); n > 0 && n < output {
		output, o.Status, o.Ended = n, record.Cancelled, start+int64(ttft+tpot*(n-1))
	}
	o.OutputTokens = int32(output)

	var prompt, known float64
	chain, whole := uint64(0), true
	for i := range req.Parts {
		p := &req.Parts[i]
		prompt += float64(p.Tokens)
		chain = random.Derive(chain, p.Seed, uint64(p.Tokens))
		if whole && m.seen[chain] {
			known += float64(p.Tokens)
		} else {
			whole = false
		}
		// What nobody can send again need not be remembered.
		if req.Again || p.Layer != message.LayerTurn {
			m.seen[chain] = true
		}
		if p.Media != nil {
			pixel := jpegBytes
			if p.Media.PNG {
				pixel = pngBytes
			}
			m.wire += pixel*float64(p.Media.Width*p.Media.Height) + secondBytes*p.Media.Seconds
		}
	}
	if req.Again && req.Answer != 0 {
		m.seen[random.Derive(chain, req.Answer, uint64(o.OutputTokens))] = true
	}
	s := m.shape
	s.Requests++
	fresh := max(prompt-known, 1)
	m.prompts, m.fresh, m.outputs = append(m.prompts, prompt), append(m.fresh, fresh), append(m.outputs, output)
	m.context = max(m.context, prompt+output)
	m.flops += m.facts.flops(prompt-fresh, fresh)
	m.moved += output * (m.facts.kv(prompt+output/2) + m.facts.StepBytes/ShapeBatch)
	m.wire += prompt*tokenBytes + output*(eventBytes+tokenBytes)
	return o
}
