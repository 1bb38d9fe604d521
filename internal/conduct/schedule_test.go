package conduct

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"plimsoll/internal/clock"
	"plimsoll/internal/dialect"
	"plimsoll/internal/load"
	"plimsoll/internal/memconn"
	"plimsoll/internal/play"
	"plimsoll/internal/random"
	"plimsoll/internal/record"
	"plimsoll/internal/scenario"
	"plimsoll/internal/stream"
	"plimsoll/internal/twin"
	"plimsoll/internal/workload"
)

// moment is what two schedules have in common of a request; times are ns since
// the start of its step.
type moment struct {
	Step, User                   uint32
	Session                      uint64
	Turn                         uint32
	Phase, Status                string
	Scheduled, Start, First, End int64
	CapWait                      int64
	SearchStart, SearchEnd       int64
	AskedPrompt, AskedOutput     int32
}

// diary notes the moments of all requests.
type diary struct {
	mu  sync.Mutex
	all []moment
}

func (d *diary) note(r *record.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, moment{
		r.Step, r.User, r.Session, r.Turn, r.Phase.String(), r.Status.String(),
		r.Scheduled, r.Start, r.FirstToken, r.End, r.CapWait, r.RetrievalStart, r.RetrievalEnd, r.AskedPrompt, r.AskedOutput,
	})
}

// settle puts the moments in order, by the clock of their step.
func (d *diary) settle(starts []int64) []moment {
	for i := range d.all {
		m := &d.all[i]
		for _, t := range []*int64{&m.Scheduled, &m.Start, &m.First, &m.End, &m.SearchStart, &m.SearchEnd} {
			if *t != record.Unset {
				*t -= starts[m.Step]
			}
		}
	}
	slices.SortFunc(d.all, func(a, b moment) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Scheduled, b.Scheduled), cmp.Compare(a.User, b.User), cmp.Compare(a.Session, b.Session), cmp.Compare(a.Turn, b.Turn), cmp.Compare(a.AskedPrompt, b.AskedPrompt))
	})
	return d.all
}

type loadDiary struct{ diary }

func (d *loadDiary) Record(r *record.Request) { d.note(r) }

type twinDiary struct{ diary }

func (d *twinDiary) Record(f *twin.Finished) { d.note(&f.Request) }

// outline is what two results of a step have in common.
type outline struct {
	SteadyStart, SteadyEnd, End int64
	Scheduled, Steady           uint64
	Complete                    bool
}

// The load generator under fake time against a server that always takes 300 ms,
// and the twin in virtual time with steps of 150 ms and an engine for each
// request, make the same schedule to the nanosecond.
func TestLoadAndTwinMakeOneSchedule(t *testing.T) {
	f := func(name string, think time.Duration, slots int, steps ...load.Step) {
		t.Helper()
		sameSchedule(t, name, &workload.Synthetic{
			Seed: 7, Prompt: random.Dist{Kind: random.Uniform, A: 8, B: 60}, Output: random.Dist{A: 2}, Exact: true, Think: think,
		}, slots, steps...)
	}
	ms := time.Millisecond
	// Numbers of requests are multiples of the users: who of several that are ready
	// at one instant gets the last request is nobody's promise.
	f("users for a time", 0, 0, load.Step{Users: 3, Warmup: 500 * ms, Duration: 2 * time.Second, Drain: time.Minute})
	f("users for a number of requests", 0, 0, load.Step{Users: 3, Requests: 9, Drain: time.Minute})
	f("users who think", 170*ms, 0, load.Step{Users: 2, Warmup: 100 * ms, Requests: 8, Drain: time.Minute})
	f("users who are cut", 0, 0, load.Step{Users: 3, Duration: 1000 * ms, Drain: 70 * ms})
	f("requests of users that are cut", 20*ms, 0, load.Step{Users: 2, Requests: 6, Drain: 270 * ms})
	f("a constant rate", 0, 0, load.Step{Rate: 20, Arrival: "constant", Warmup: 330 * ms, Duration: 2 * time.Second, Drain: time.Minute})
	f("random arrivals", 0, 0, load.Step{Rate: 40, Arrival: "poisson", Warmup: 200 * ms, Duration: 2 * time.Second, Drain: time.Minute})
	f("a number of random arrivals", 0, 0, load.Step{Rate: 30, Arrival: "poisson", Warmup: 200 * ms, Requests: 25, Drain: time.Minute})
	f("a rate under a cap", 0, 3, load.Step{Rate: 25, Arrival: "poisson", Duration: 2 * time.Second, Drain: time.Minute})
	f("a rate under a cap that is cut", 0, 2, load.Step{Rate: 25, Arrival: "poisson", Duration: 2 * time.Second, Drain: 400 * ms})
	f("users under a cap of their number", 0, 4, load.Step{Users: 4, Duration: 1000 * ms, Drain: time.Minute})
	f("bursty arrivals", 0, 0, load.Step{Rate: 30, Arrival: "gamma", Burstiness: 0.3, Warmup: 200 * ms, Duration: 2 * time.Second, Drain: time.Minute})
	spikes := shape(scenario.Shape{Kind: scenario.Spikes, To: 6, Every: 700 * ms, For: 100 * ms})
	f("a number of requests in spikes", 0, 3, load.Step{Rate: 10, Arrival: "poisson", Shape: spikes, Warmup: 300 * ms, Requests: 25, Drain: time.Minute})
	f("stages", 0, 0, staged(load.Step{Arrival: "constant", Warmup: 100 * ms, Drain: time.Minute}, []scenario.Stage{{Length: time.Second, From: 5, To: 40}, {Length: time.Second, From: 10, To: 10}}))
	f("one step after another", 0, 0,
		load.Step{Users: 2, Requests: 4, Drain: time.Minute}, load.Step{Rate: 10, Arrival: "poisson", Requests: 6, Drain: time.Minute},
		load.Step{Users: 3, Warmup: 100 * ms, Duration: 700 * ms, Drain: time.Second})
}

// sameSchedule fails when the two do not make the same schedule of a population.
func sameSchedule(t *testing.T, name string, users load.Population, slots int, steps ...load.Step) []moment {
	t.Helper()
	const step = 150 * time.Millisecond
	var want, got []moment
	var wantSteps, gotSteps []outline
	synctest.Test(t, func(t *testing.T) {
		l := memconn.Listen("server:80")
		token := func(text, rest string) string {
			return fmt.Sprintf("data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n%s", text, rest)
		}
		at := step.Seconds() * 1e3
		answer := play.Response{
			Status: 200, Headers: [][2]string{{"Content-Type", "text/event-stream"}}, Framing: "chunked",
			Writes: []play.Write{
				{At: at, Text: token("one", "")},
				{At: 2 * at, Text: token(" two", "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n"+
					"data: {\"object\":\"chat.completion.chunk\",\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2,\"total_tokens\":9}}\n\ndata: [DONE]\n\n")},
			},
		}
		answer.End.How, answer.End.At = "eof", 2*at
		script := &play.Script{Format: "llm-play/1", Responses: []play.Response{answer}}
		script.Request.Path = "/v1/chat/completions"
		server := play.Serve(l, script)
		defer server.Close()
		c := clock.NewFake()
		d := new(loadDiary)
		cfg := load.Config{
			Clock: c, Stream: stream.Config{Now: c.Now, Start: c.Start(), Dial: l.Dial}, URLs: []string{server.URL()}, API: dialect.OpenAIChat,
			Options: dialect.Options{Model: "m", Stream: true, Usage: true, IgnoreEOS: true},
			Seed:    7, Population: users, Renderer: workload.Words{}, Steps: steps, MaxInFlight: slots, Sink: d,
		}
		res, err := load.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		var starts []int64
		for _, s := range res.Steps {
			starts = append(starts, s.Start)
			wantSteps = append(wantSteps, outline{s.SteadyStart - s.Start, s.SteadyEnd - s.Start, s.End - s.Start, s.Scheduled, s.Steady, s.Complete})
		}
		want = d.settle(starts)
	})
	cluster, err := twin.NewCluster(twin.ClusterConfig{Step: step, Replicas: 200})
	if err != nil {
		t.Fatal(err)
	}
	d := new(twinDiary)
	cfg := &twin.PredictConfig{
		Cluster: cluster, Router: "round-robin", Seed: 7, Population: users, MaxInFlight: slots, Stream: true, Exact: true, Sink: d,
	}
	for _, s := range steps {
		cfg.Steps = append(cfg.Steps, twin.Step(s))
	}
	p, err := twin.Predict(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var starts []int64
	for _, s := range p.Steps {
		starts = append(starts, s.Start)
		gotSteps = append(gotSteps, outline{s.SteadyStart - s.Start, s.SteadyEnd - s.Start, s.End - s.Start, s.Scheduled, s.Steady, s.Complete})
	}
	got = d.settle(starts)
	if len(want) == 0 {
		t.Fatalf("%s: nothing was sent", name)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("%s: schedule (-load +twin):\n%s", name, diff)
	}
	if diff := gocmp.Diff(wantSteps, gotSteps); diff != "" {
		t.Errorf("%s: steps (-load +twin):\n%s", name, diff)
	}
	return got
}
