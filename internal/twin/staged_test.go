package twin

import (
	"fmt"
	"math"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// Each stage takes its time on the wire, to the nanosecond, and can be what everything
// waits for, while the engine goes on.
func TestStagesTakeTime(t *testing.T) {
	const ms, us = time.Millisecond, time.Microsecond
	// Five requests come a tenth of a step apart: the engine begins with the first, and
	// takes the others into its next step.
	tests := []struct {
		name  string
		costs StageCosts
		// When the answers of 10 tokens to prompts of 10 are complete, and the sums of their
		// times to first token and latencies.
		complete   []time.Duration
		first, e2e time.Duration
	}{
		{"none", StageCosts{}, []time.Duration{10_100 * us, 11_100 * us, 11_100 * us, 11_100 * us, 11_100 * us}, 8 * ms, 53 * ms},
		// 30 ms each, one after the other: the k-th waits for k, then for no other in the engine.
		{
			"tokenization",
			StageCosts{Request: 20e6, PromptToken: 1e6},
			[]time.Duration{40_100 * us, 70_100 * us, 100_100 * us, 130_100 * us, 160_100 * us},
			454 * ms, 499 * ms,
		},
		{
			"tokenizers",
			StageCosts{Request: 20e6, PromptToken: 1e6, Tokenizers: 5},
			[]time.Duration{40_100 * us, 41_100 * us, 41_100 * us, 41_100 * us, 41_100 * us},
			158 * ms, 203 * ms,
		},
		{
			"latency",
			StageCosts{Latency: 50e6},
			[]time.Duration{60_100 * us, 61_100 * us, 61_100 * us, 61_100 * us, 61_100 * us},
			258 * ms, 303 * ms,
		},
		// 50 tokens, one after the other: the first's tenth is the 46th, those of the last step
		// go out together.
		{
			"detokenization",
			StageCosts{OutputToken: 4e6},
			[]time.Duration{185_100 * us, 201_100 * us, 201_100 * us, 201_100 * us, 201_100 * us},
			104 * ms, 988 * ms,
		},
		// Before the engine's answer, whose first tokens count from their own start.
		{
			"guardrail",
			StageCosts{Guards: 1, GuardRequest: 10e6, GuardToken: 2e6},
			[]time.Duration{40_100 * us, 70_100 * us, 100_100 * us, 130_100 * us, 160_100 * us},
			8 * ms, 499 * ms,
		},
		{
			"guardrails",
			StageCosts{Guards: 5, GuardRequest: 10e6, GuardToken: 2e6},
			[]time.Duration{40_100 * us, 41_100 * us, 41_100 * us, 41_100 * us, 41_100 * us},
			8 * ms, 203 * ms,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, url := startFake(t, ServerConfig{Step: ms, Stages: &tt.costs})
				began := time.Now()
				got := make([]time.Duration, 5)
				var wg sync.WaitGroup
				for i := range got {
					time.Sleep(100 * us)
					wg.Go(func() {
						all := stream(t, url+"/v1/completions", `{"prompt":"a b c d e f g h i j","stream":true,"ignore_eos":true,"max_tokens":10}`)
						if len(all) != 10 {
							t.Errorf("%d events", len(all))
						}
						got[i] = time.Since(began)
					})
				}
				wg.Wait()
				synctest.Wait() // what the server notes after an answer
				if d := gocmp.Diff(tt.complete, got); d != "" {
					t.Errorf("the answers are complete at (-want +got):\n%s", d)
				}
				for _, a := range s.Accounts() {
					// At most till the next step, and ten of them: the stages are not the engine's.
					if wait, work := a.Admitted-a.Arrival, a.Finished-a.Admitted; wait < 0 || wait >= float64(ms) || work != float64(10*ms) {
						t.Errorf("the engine let one wait for %v and took %v", time.Duration(wait), time.Duration(work))
					}
				}
				page := mustParse(t, fetch(t, url+"/metrics"))
				for name, want := range map[string]time.Duration{"vllm:time_to_first_token_seconds": tt.first, "vllm:e2e_request_latency_seconds": tt.e2e} {
					sum, n := total(page, name, name+"_sum"), total(page, name, name+"_count")
					if math.Abs(sum-want.Seconds()) > 1e-9 || n != 5 {
						t.Errorf("%s: %v s of %v, want %v of 5", name, sum, n, want.Seconds())
					}
				}
				if n := s.Stats().InFlight; n != 0 {
					t.Errorf("%d in flight afterwards", n)
				}
			})
		})
	}
}

// begin sends a request without reading its answer.
func begin(t *testing.T, url, body string) net.Conn {
	t.Helper()
	nc := dial(t, url)
	if _, err := fmt.Fprintf(nc, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		t.Fatal(err)
	}
	return nc
}

// Clients that leave while their tokens wait to be sent are let go.
func TestLeavingStagedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, url := startFake(t, ServerConfig{Step: fast, Stages: &StageCosts{OutputToken: 20e6, Guards: 1, GuardRequest: 50e6}})
		for range 5 {
			nc := begin(t, url, `{"prompt":"x","stream":true,"max_tokens":30,"ignore_eos":true}`)
			// The process that makes text of tokens is what it waits for.
			eventually(t, "it is served", func() bool { return s.Stats().Running > 0 })
			nc.Close()
			time.Sleep(2 * fast)
		}
		if st := s.Stats(); st.InFlight != 0 || st.Running != 0 || st.Aborted != 5 {
			t.Errorf("%d in flight, %d running, %d aborted", st.InFlight, st.Running, st.Aborted)
		}
		if status, _ := post(t, url+"/v1/completions", `{"prompt":"x","max_tokens":2}`); status != 200 {
			t.Errorf("status %d afterwards", status)
		}
	})
}
