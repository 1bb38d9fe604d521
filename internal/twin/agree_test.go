package twin

import (
	"cmp"
	"fmt"
	"math"
	"slices"
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
// decode within 2 %.
func TestRealTimeIsPredicted(t *testing.T) {
	cfg := ServerConfig{MaxNumSeqs: 12, MaxNumBatchedTokens: 512}
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
	if s.Stats().Rebased > 0 {
		t.Skip("this machine stood still for seconds: there is no schedule to compare with")
	}
	accounts := s.Accounts()
	slices.SortFunc(accounts, func(a, b Account) int { return cmp.Compare(a.Arrival, b.Arrival) })
	users := make(replays, n)
	for i, a := range accounts {
		users[i] = replay{int64(a.Arrival), requests[(a.Prompt-20)/7]}
	}
	k := new(kept)
	predict(t, &PredictConfig{
		Cluster:    testCluster(t, ClusterConfig{MaxNumSeqs: cfg.MaxNumSeqs, MaxNumBatchedTokens: cfg.MaxNumBatchedTokens}),
		Population: users, Sink: k, Stream: true, Exact: true,
		Steps: []Step{{Users: n, Requests: n, Drain: time.Hour}},
	})
	if len(k.requests) != n {
		t.Fatalf("%d of %d requests predicted", len(k.requests), n)
	}
	medians := func(of func(i int) []float64) []float64 {
		var columns [3][]float64
		for i := range n {
			for j, v := range of(i) {
				columns[j] = append(columns[j], v)
			}
		}
		m := make([]float64, len(columns))
		for j, c := range columns {
			slices.Sort(c)
			m[j] = (c[(n-1)/2] + c[n/2]) / 2
		}
		return m
	}
	real := medians(func(i int) []float64 {
		a := accounts[i]
		return []float64{a.Admitted - a.Arrival, a.First - a.Admitted, a.Finished - a.First}
	})
	virtual := medians(func(i int) []float64 {
		st := k.stages[i]
		return []float64{float64(st.Queue), float64(st.Prefill), float64(st.Decode)}
	})
	for j, name := range []string{"queue", "prefill", "decode"} {
		if off := math.Abs(virtual[j]/real[j] - 1); !(off < 0.02) {
			t.Errorf("median %s: %v in real time, %v predicted", name, time.Duration(real[j]), time.Duration(virtual[j]))
		}
	}
	if real[0] < float64(time.Millisecond) {
		t.Errorf("nobody queues: %v", time.Duration(real[0]))
	}
	t.Logf("medians of queue, prefill and decode: %v in real time, %v predicted", real, virtual)
}
