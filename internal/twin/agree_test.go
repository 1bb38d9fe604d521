package twin

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll/internal/message"
	"plimsoll/internal/random"
	"plimsoll/internal/workload"
)

// replay is a user who sends one request at a given time, and replays many of
// them.
type replay struct {
	at      int64
	request message.Request
}

type replays []replay

func (r *replay) Start(int64) workload.Action {
	return workload.Action{Kind: workload.Send, At: r.at, Request: &r.request}
}

func (r *replay) Done(int64, workload.Outcome) workload.Action {
	return workload.Action{Kind: workload.End}
}

func (r replays) User(_, user uint32) workload.Machine {
	return &r[user]
}

func (r replays) Session(uint32, uint64) workload.Machine { panic("BUG: an open loop") }

// The server's own account of a crowded engine is what the virtual driver, which
// skips steps, predicts for the same arrivals: the medians of queue, prefill and
// decode and those of the way in and out, to the nanosecond.
func TestServerIsPredicted(t *testing.T) {
	for name, costs := range map[string]StageCosts{
		"engine alone": {},
		"way around":   {Request: 2e6, PromptToken: 1e4, Latency: 3e6, OutputToken: 3e5},
	} {
		t.Run(name, func(t *testing.T) {
			// In fake time the server is on time: who came while a real one is late would find the
			// API process without the tokens of a step that has ended by schedule.
			synctest.Test(t, func(t *testing.T) { testAgreement(t, costs) })
		})
	}
}

func testAgreement(t *testing.T, costs StageCosts) {
	cfg := ServerConfig{MaxNumSeqs: 12, MaxNumBatchedTokens: 512, Stages: &costs}
	s, url := startFake(t, cfg)
	const n = 60
	requests := make([]message.Request, n)
	r := random.Stream(7)
	for i := range requests {
		// The length of the prompt tells who is who.
		requests[i] = message.Request{
			Parts:     []message.Part{{Generator: workload.WordsGenerator, Seed: uint64(1000 + i), Tokens: 20 + 7*i}},
			MaxTokens: 20 + r.IntN(60), Exact: true,
		}
	}
	var wg sync.WaitGroup
	for i := range requests {
		q := &requests[i]
		wg.Go(func() {
			text := workload.Words{}.AppendText(nil, &q.Parts[0])
			if status, answer := post(t, url+"/v1/completions", fmt.Sprintf(`{"prompt":%q,"max_tokens":%d,"ignore_eos":true}`, text, q.MaxTokens)); status != 200 {
				t.Errorf("status %d: %s", status, answer)
			}
		})
		time.Sleep(time.Duration(1 + r.IntN(20e6))) // no two at one instant: they would have no order
	}
	wg.Wait()
	synctest.Wait() // what the server notes after an answer
	if late := s.Stats().Late.Max(); late > 0 {
		t.Errorf("a step was %v late in fake time", time.Duration(late))
	}
	accounts := s.replicas[0].accounts
	slices.SortFunc(accounts, func(a, b logged) int { return cmp.Compare(a.came, b.came) })
	users := make(replays, n)
	for i, a := range accounts {
		users[i] = replay{a.came, requests[(a.Prompt-20)/7]}
	}
	cluster := testCluster(t, ClusterConfig{MaxNumSeqs: cfg.MaxNumSeqs, MaxNumBatchedTokens: cfg.MaxNumBatchedTokens})
	cluster.Stages = costs
	k := new(kept)
	predict(t, &PredictConfig{
		Cluster: cluster, Population: users, Sink: k, Stream: true, Exact: true,
		Steps: []Step{{Users: n, Requests: n, Drain: time.Hour}},
	})
	if len(k.requests) != n {
		t.Fatalf("%d of %d requests predicted", len(k.requests), n)
	}
	median := func(of func(i int) float64) float64 {
		var all []float64
		for i := range n {
			all = append(all, of(i))
		}
		slices.Sort(all)
		return (all[(n-1)/2] + all[n/2]) / 2
	}
	stages := func(i int) Stages {
		a := &accounts[i]
		end := a.Finished
		if a.Sent > 0 {
			end = a.Sent
		}
		return stagesOf(&a.Account, a.came, int64(end))
	}
	for j, name := range StageNames() {
		served := median(func(i int) float64 {
			st := stages(i)
			return float64(st.Values()[j])
		})
		virtual := median(func(i int) float64 { return float64(k.stages[i].Values()[j]) })
		if virtual != served {
			t.Errorf("median %s: %v of the server, %v predicted", name, time.Duration(served), time.Duration(virtual))
		}
		t.Logf("%s: %v of the server, %v predicted", name, time.Duration(served), time.Duration(virtual))
		if j == 0 && served < float64(time.Millisecond) {
			t.Errorf("nobody queues: %v", time.Duration(served))
		}
	}
}
