package twin

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/pace"
	"plimsoll/internal/record"
	"plimsoll/internal/scenario"
	"plimsoll/internal/workload"
	"plimsoll/internal/workload/content"
)

// ledger is the twin's own account of a workload.
type ledger struct {
	file     *workload.File
	shape    *workload.Shape
	plain    *ledger // of a plain question
	requests int
	// cancelled counts answers that nobody waited for.
	cancelled          int
	waited, prefilling float64 // ns of all searches, and until first tokens
	decoding           float64 // ns from there to the last tokens
	mediaTokens        float64 // that the server counts beyond the text
	starts, arrivals   []int64 // of requests, and of sessions' first ones
	sessions           map[uint64]*growth
	refused            string
	users              int
	seconds            float64
	// reuse is the share of the prompts that was found in the cache.
	reuse float64
	// prefill and decode are what the device did in all steps for prompts and for answers.
	prefill, decode Work
}

// growth is the first prompt of a session and the longest, and its longest context.
type growth struct{ first, longest, context int32 }

func (l *ledger) Record(f *Finished) {
	r := &f.Request
	l.requests++
	switch r.Status {
	case record.Cancelled:
		l.cancelled++
	case record.Failed:
		l.refused = r.Message
	default:
	}
	l.starts = append(l.starts, r.Start)
	if r.Turn == 0 {
		l.arrivals = append(l.arrivals, r.Start)
	}
	if r.RetrievalEnd > 0 {
		l.waited += float64(r.RetrievalEnd - r.RetrievalStart)
	}
	if r.AskedText > 0 && r.Prompt > 0 {
		l.mediaTokens += float64(r.Prompt - r.AskedText)
	}
	if r.Prompt > 0 {
		g := l.sessions[r.Session]
		if g == nil {
			g = &growth{first: r.Prompt}
			l.sessions[r.Session] = g
		}
		g.longest = max(g.longest, r.Prompt)
		g.context = max(g.context, r.Prompt+max(r.Output, 0))
	}
	l.prefilling += float64(f.Stages.Prefill)
	l.decoding += float64(f.Stages.Decode)
}

// timed is the time of a cluster's steps, which adds up what they do in a ledger.
type timed struct {
	StepTimer
	meter *Meter
	l     *ledger
}

func (m *timed) StepTime(b *Batch) float64 {
	if b.Decodes > 0 {
		w := m.meter.Work(&Batch{Decodes: b.Decodes, KV: b.KV, Sampled: b.Decodes})
		m.l.decode.add(&w, 1)
	}
	if len(b.Chunks) > 0 {
		w := m.meter.Work(&Batch{Chunks: b.Chunks, Sampled: b.Sampled - b.Decodes})
		m.l.prefill.add(&w, 1)
	}
	return m.StepTimer.StepTime(b)
}

// account runs a workload on the twin of one H200 with Llama 3.1 8B.
func account(t *testing.T, f *workload.File, step Step, noCache bool) *ledger {
	t.Helper()
	l := &ledger{file: f, users: step.Users, seconds: step.Duration.Seconds(), sessions: map[uint64]*growth{}}
	cluster := testCluster(t, ClusterConfig{Model: "llama-3.1-8b", GPU: "h200", NoPrefixCache: noCache})
	l.shape = workload.ShapeOf(f, cluster.Model.Facts(""))
	roofline := cluster.Engine.Timer.(*Roofline)
	cluster.Engine.Timer = &timed{roofline, NewMeter(Builtin(), cluster.Layout, roofline), l}
	step.Drain = 24 * time.Hour
	p := predict(t, &PredictConfig{
		Cluster: cluster, Population: workload.NewSessions(3, f), Sink: l, Stream: true, Exact: true, Seed: 3, Steps: []Step{step},
	})
	if l.refused != "" {
		t.Errorf("refused: %s", l.refused)
	}
	if l.requests < 100 {
		t.Errorf("only %d requests", l.requests)
	}
	l.reuse = float64(p.Counters.PrefixHits) / float64(max(p.Counters.PrefixQueries, 1))
	return l
}

// workloadOf is a workload of the library with settings like output=60.
func workloadOf(t *testing.T, name string, settings ...string) *workload.File {
	t.Helper()
	var set []scenario.Setting
	for _, s := range settings {
		path, value, _ := strings.Cut(s, "=")
		set = append(set, scenario.Setting{Path: path, Value: value, Origin: "--set"})
	}
	f, err := workload.Lookup(name, set...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// prefillShare is the share of all operations that prompts cost, decodeBusy that of
// the device's time that answers do, decodeTime that of the requests' own time.
func (l *ledger) prefillShare() float64 {
	return l.prefill.FLOPs / (l.prefill.FLOPs + l.decode.FLOPs)
}
func (l *ledger) decodeBusy() float64 { return l.decode.Busy / (l.prefill.Busy + l.decode.Busy) }
func (l *ledger) decodeTime() float64 { return l.decoding / (l.prefilling + l.decoding) }

// grown is how many times longer than its first the longest prompt of a session of
// several is, in the mean.
func (l *ledger) grown() float64 {
	sum, n := 0.0, 0.0
	for _, g := range l.sessions {
		if g.longest > g.first {
			sum += float64(g.longest) / float64(g.first)
			n++
		}
	}
	return sum / max(n, 1)
}

// context is the mean of the sessions' longest contexts in tokens.
func (l *ledger) context() float64 {
	sum := 0.0
	for _, g := range l.sessions {
		sum += float64(g.context)
	}
	return sum / float64(max(len(l.sessions), 1))
}

// urgency is the requests of a user in a second over the limit of ttft.
func (l *ledger) urgency() float64 {
	return float64(l.requests) / float64(l.users) / l.seconds / l.shape.TTFTLimit
}

// dispersion is the variance over the mean of the number of times in windows, 1 for
// times at random.
func dispersion(times []int64, window time.Duration) float64 {
	counts := map[int64]float64{}
	var end int64
	for _, at := range times {
		counts[at/int64(window)]++
		end = max(end, at/int64(window))
	}
	var sum, squares float64
	for i := range end + 1 {
		sum += counts[i]
		squares += counts[i] * counts[i]
	}
	n := float64(end + 1)
	mean := sum / n
	return (squares/n - mean*mean) / mean
}

// load is what a request (of memory a session, of the scheduler a user) loads a part
// of the stack with.
func (l *ledger) load(part string) float64 {
	switch n := float64(l.requests); part {
	case workload.Compute:
		return l.prefill.FLOPs / n
	case workload.Bandwidth:
		return l.decode.ReadBytes / n
	case workload.KV:
		return l.context()
	case workload.Scheduler:
		return l.urgency()
	case workload.Network:
		// The twin simulates no wire: these are the bodies' own bytes.
		text, media := l.bodies()
		return text + media
	}
	panic("no account of " + part)
}

// times is how many times as much as a plain question loads a part.
func (l *ledger) times(part string) float64 { return l.load(part) / l.plain.load(part) }

// bothMuch says that prompts and answers are a hundred times a plain question's.
func bothMuch(l *ledger) bool {
	return l.times(workload.Compute) > 100 && l.times(workload.Bandwidth) > 100
}

// bodies is the mean size in bytes of the text and the media of first requests.
func (l *ledger) bodies() (text, media float64) {
	const sessions = 4
	s, r := workload.NewSessions(3, l.file), new(content.Renderer)
	var buf []byte
	for n := range uint64(sessions) {
		for _, p := range s.Session(0, n).Start(0).Request.Parts {
			if p.Media != nil {
				buf = r.AppendMedia(buf[:0], p.Media)
				media += float64(len(buf)) / sessions
			} else {
				buf = r.AppendText(buf[:0], &p)
				text += float64(len(buf)) / sessions
			}
		}
	}
	return text, media
}

// closed is eight users, as many as the workloads' figures below are for.
var closed = Step{Users: 8, Duration: 30 * time.Minute}

// A claim is what a workload is for, as something that a ledger shows or does not.
// The control is the same workload without it, of which it must not hold.
type claim struct {
	what    string
	holds   func(l *ledger) bool
	control []string
	// other is the control instead where it is another workload.
	other string
}

// industry says for each industry workload what it becomes without each of the parts
// that its file says it stresses, and what else it is for.
var industry = map[string]struct {
	without map[string][]string
	claims  []claim
}{
	"legal/contract-review": {
		map[string][]string{
			workload.Compute: {"prompt.session.tokens=200"},
			workload.KV:      {"prompt.session.tokens=20", "prompt.system=100", "session.history=none", "output.first=250"},
		},
		[]claim{
			{"computes for prompts above all", func(l *ledger) bool { return l.prefillShare() > 0.85 }, []string{"prompt.session.tokens=200"}, ""},
			{"and decodes most of the time all the same", func(l *ledger) bool { return l.decodeTime() > 0.8 }, []string{"output.first=1", "output.tokens=1"}, ""},
			{"its memory grows over a session", func(l *ledger) bool { return l.grown() > 1.05 }, []string{"session.history=none"}, ""},
		},
	},
	"legal/case-research": {
		map[string][]string{
			workload.Compute:   {"retrieval.tokens=20"},
			workload.Bandwidth: {"output=20"},
		},
		[]claim{
			{"computes for passages more than for answers", func(l *ledger) bool { return l.prefillShare() > 0.65 }, []string{"retrieval.tokens=20"}, ""},
			{"waits for a search", func(l *ledger) bool { w := l.waited / float64(l.requests) / 1e6; return w > 350 && w < 600 }, []string{"retrieval.latency=5ms"}, ""},
			{"then decodes", func(l *ledger) bool { return l.decodeBusy() > 0.9 }, []string{"output=20"}, ""},
		},
	},
	"finance/financial-modeling": {
		map[string][]string{
			workload.Compute:   {"prompt.session.tokens=20"},
			workload.Bandwidth: {"output=60"},
		},
		[]claim{
			{"computes much and decodes much", bothMuch, nil, "legal/contract-review"},
			{"computes much and decodes much", bothMuch, nil, "research/literature-synthesis"},
		},
	},
	"finance/strategy-simulation": {
		map[string][]string{workload.Scheduler: {"session.tick=30s"}},
		[]claim{
			{"each user sends every second", func(l *ledger) bool { return float64(l.requests)/float64(l.users)/l.seconds > 0.9 }, []string{"session.tick=30s"}, ""},
			{"no memory stays", func(l *ledger) bool { return l.context() < 1500 }, []string{"session.history=recorded"}, ""},
		},
	},
	"healthcare/patient-summary": {
		map[string][]string{
			workload.Compute: {"prompt.session.tokens=200"},
			workload.KV:      {"prompt.session.tokens=200"},
		},
		[]claim{
			{"computes for prompts alone, nearly", func(l *ledger) bool { return l.prefillShare() > 0.95 }, []string{"prompt.session.tokens=2000"}, ""},
			{"prompts take most of the device's time", func(l *ledger) bool { return l.decodeBusy() < 0.5 }, nil, "legal/contract-review"},
		},
	},
	"healthcare/patient-summary-images": {
		map[string][]string{
			workload.Compute: {"prompt.session.tokens=200", "media=[]"},
			workload.KV:      {"prompt.session.tokens=200", "media=[]"},
			workload.Network: {"prompt.session.tokens=200", "prompt.system=20", "media=[]"},
		},
		[]claim{
			{"computes for prompts alone, nearly", func(l *ledger) bool { return l.prefillShare() > 0.95 }, []string{"prompt.session.tokens=2000", "media=[]"}, ""},
			{"images count in its prompts", func(l *ledger) bool { return l.mediaTokens/float64(l.requests) > 2500 }, nil, "healthcare/patient-summary"},
			{"images are most of what is sent", func(l *ledger) bool { text, media := l.bodies(); return media > text }, nil, "healthcare/patient-summary"},
		},
	},
	"healthcare/clinical-reasoning": {
		map[string][]string{
			workload.Bandwidth: {"output.tokens=60", "output.reasoning.tokens=10"},
			workload.KV:        {"prompt.session.tokens=20", "prompt.system=100", "session.history=none"},
		},
		[]claim{
			{"decodes", func(l *ledger) bool { return l.decodeBusy() > 0.9 }, []string{"output.tokens=20", "output.reasoning.tokens=10"}, ""},
			{"its memory persists", func(l *ledger) bool { return l.grown() > 1.5 }, []string{"session.history=none"}, ""},
			{"and is found again", func(l *ledger) bool { return l.reuse > 0.8 }, []string{"session.turns=1"}, ""},
			{"many hops", func(l *ledger) bool { return float64(l.requests) > 6*float64(len(l.sessions)) }, nil, "legal/contract-review"},
		},
	},
	"research/literature-synthesis": {
		map[string][]string{workload.Bandwidth: {"output=100"}},
		[]claim{
			{"decodes", func(l *ledger) bool { return l.decodeBusy() > 0.95 && l.decodeTime() > 0.98 }, []string{"output=100"}, ""},
			{"moves fifty times a plain question's bytes", func(l *ledger) bool { return l.times(workload.Bandwidth) > 50 }, nil, "legal/case-research"},
		},
	},
	"research/citation-expansion": {
		map[string][]string{workload.KV: {"prompt.session.tokens=20", "prompt.system=100", "fork.found.tokens=1", "fork.turn.tokens=20", "fork.output=20", "output=20"}},
		[]claim{
			{"reuses its context", func(l *ledger) bool { return l.reuse > 0.9 }, []string{"session.turns=1", "fork.branches=1"}, ""},
			{"its context grows", func(l *ledger) bool { return l.grown() > 4 }, []string{"fork.found.tokens=100"}, ""},
			{"to nearly 60,000 tokens", func(l *ledger) bool { return l.context() > 45_000 }, []string{"fork.found.tokens=100"}, ""},
		},
	},
}

// What each industry workload is made for shows in the twin's own account of steps and
// requests, and not in that of its control. Its prompts are found again in the cache as
// often as its shape says, within 2 points.
func TestWorkloadsStressWhatTheySay(t *testing.T) {
	file, err := workload.Read("plain.yaml", []byte("name: plain\nsession: {think: 12s}\nprompt: {turn: 100}\noutput: 100\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	plain := account(t, file, closed, false)
	kept := map[string]*ledger{}
	of := func(t *testing.T, name string, settings ...string) *ledger {
		t.Helper()
		key := fmt.Sprint(name, settings)
		if kept[key] == nil {
			kept[key] = account(t, workloadOf(t, name, settings...), closed, false)
			kept[key].plain = plain
		}
		return kept[key]
	}
	found := 0
	for _, name := range workload.Names() {
		switch family, _, _ := strings.Cut(name, "/"); family {
		case "legal", "finance", "healthcare", "research":
		default:
			continue
		}
		found++
		t.Run(name, func(t *testing.T) {
			l, says := of(t, name), industry[name]
			t.Logf("%d requests: %.0f %% of the operations for prompts, %.1f %% of the device's time and %.1f %% of the requests' for answers, %.2f-fold growth to %.0f tokens, %.1f %% reused",
				l.requests, 100*l.prefillShare(), 100*l.decodeBusy(), 100*l.decodeTime(), l.grown(), l.context(), 100*l.reuse)
			if math.Abs(l.reuse-l.shape.Reuse) > 0.02 {
				t.Errorf("%.2f %% of the prompts were cached, the shape says %.2f %%", 100*l.reuse, 100*l.shape.Reuse)
			}
			// ten times a plain question, as in a shape
			if len(l.file.Stresses) != len(says.without) {
				t.Errorf("it stresses %v, and the test knows %d of them", l.file.Stresses, len(says.without))
			}
			for _, part := range l.file.Stresses {
				without, ok := says.without[part]
				if !ok {
					t.Errorf("no test knows how it stresses %s", part)
					continue
				}
				got, control := l.times(part), of(t, name, without...).times(part)
				t.Logf("%s: %.1f times a plain question, without it %.1f", part, got, control)
				if got < 10 {
					t.Errorf("it says that it stresses %s, and that is %.1f times a plain question", part, got)
				}
				if control >= 10 {
					t.Errorf("%s is %.1f times a plain question even with %v", part, control, without)
				}
			}
			for _, c := range says.claims {
				other := name
				if c.other != "" {
					other = c.other
				}
				if !c.holds(l) {
					t.Errorf("it is not so: %s", c.what)
				}
				if c.holds(of(t, other, c.control...)) {
					t.Errorf("even so with %v %v: %s", other, c.control, c.what)
				}
			}
		})
	}
	if found != len(industry) {
		t.Errorf("%d workloads, and the test knows %d", found, len(industry))
	}
}

// Without a cache no prompt is found again, so that the agreement with the shape is
// not that of two constants.
func TestReuseIsTheCaches(t *testing.T) {
	for name := range industry {
		f := workloadOf(t, name)
		l := account(t, f, Step{Users: 8, Requests: 200}, true)
		if l.shape.Reuse < 0.02 {
			continue
		}
		if l.reuse > l.shape.Reuse-0.02 {
			t.Errorf("%s: %.2f %% cached of %.2f %% without a cache", name, 100*l.reuse, 100*l.shape.Reuse)
		}
	}
}

// The market's decisions come in bursts where sessions arrive as the workload says, and
// answers that the next tick supersedes are given up; neither is so of sessions that
// arrive at random, nor of answers that are waited for.
func TestStrategySimulationBursts(t *testing.T) {
	const name = "finance/strategy-simulation"
	f := workloadOf(t, name)
	if f.Arrival != "spikes" {
		t.Fatalf("it suits arrivals by %s", f.Arrival)
	}
	// spikes:to=20,every=1m,for=5s, and as many sessions in the mean at random
	spikes := &pace.Shape{Repeat: true, Pieces: []pace.Piece{{Length: 55 * time.Second, From: 1, To: 1}, {Length: 5 * time.Second, From: 20, To: 20}}}
	open := func(rate float64, shape *pace.Shape) Step {
		return Step{Rate: rate, Arrival: "poisson", Shape: shape, Duration: 40 * time.Minute}
	}
	burst, random := account(t, f, open(0.2, spikes), false), account(t, f, open(0.2*(55+5*20)/60, nil), false)
	type figures struct{ arrivals, requests float64 }
	of := func(l *ledger) figures {
		return figures{dispersion(l.arrivals, 5*time.Second), dispersion(l.starts, time.Second)}
	}
	b, r := of(burst), of(random)
	t.Logf("bursts %+v with %d of %d given up, at random %+v with %d of %d", b, burst.cancelled, burst.requests, r, random.cancelled, random.requests)
	if b.arrivals < 5 || r.arrivals > 1.6 {
		t.Errorf("dispersion of arrivals %.2f, at random %.2f", b.arrivals, r.arrivals)
	}
	if b.requests < 2 || r.requests > 1.5 {
		t.Errorf("dispersion of requests %.2f, at random %.2f", b.requests, r.requests)
	}
	patient := account(t, workloadOf(t, name, "cancel.share=0"), open(0.2, spikes), false)
	if burst.cancelled < 3*random.cancelled || burst.cancelled == 0 || patient.cancelled > 0 {
		t.Errorf("%d given up, at random %d, of answers that are waited for %d", burst.cancelled, random.cancelled, patient.cancelled)
	}
}
