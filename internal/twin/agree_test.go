package twin

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
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
// decode within 2 %, and those of the way in and out.
func TestRealTimeIsPredicted(t *testing.T) {
	for name, costs := range map[string]StageCosts{
		"engine alone": {},
		"way around":   {Request: 2e6, PromptToken: 1e4, Latency: 3e6, OutputToken: 3e5},
	} {
		t.Run(name, func(t *testing.T) {
			for range 3 {
				differ, late := testAgreement(t, costs)
				if len(differ) == 0 {
					return
				}
				if late < 5*time.Millisecond {
					t.Fatal(strings.Join(differ, "\n"))
				}
				t.Logf("a step was %v late: once more", late)
			}
			t.Skip("this machine does not keep time: there is no schedule to compare with")
		})
	}
}

// testAgreement returns in what real and virtual time differ, and by how much this
// machine was late at worst. The engine's schedule does not mind, but who comes while
// it is late finds the API process without the tokens of a step that has ended by
// schedule.
func testAgreement(t *testing.T, costs StageCosts) (differ []string, late time.Duration) {
	cfg := ServerConfig{MaxNumSeqs: 12, MaxNumBatchedTokens: 512, Stages: &costs}
	s, url := start(t, cfg)
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
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond) // real time: arrivals at a running server
	}
	wg.Wait()
	eventually(t, "every sequence is in the accounts", func() bool { return len(s.Accounts()) == n })
	late = time.Duration(s.Stats().Late.Max())
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
		real := median(func(i int) float64 {
			st := stages(i)
			return float64(st.Values()[j])
		})
		virtual := median(func(i int) float64 { return float64(k.stages[i].Values()[j]) })
		if math.Abs(virtual-real) > 0.02*real {
			differ = append(differ, fmt.Sprintf("median %s: %v in real time, %v predicted", name, time.Duration(real), time.Duration(virtual)))
		}
		t.Logf("%s: %v in real time, %v predicted", name, time.Duration(real), time.Duration(virtual))
		if j == 0 && real < float64(time.Millisecond) {
			t.Errorf("nobody queues: %v", time.Duration(real))
		}
	}
	return differ, late
}
