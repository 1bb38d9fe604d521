package twin

import (
	"fmt"
	"math"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// timed asks n times at once for a streamed answer of ten tokens to a prompt of ten
// and returns how long all of them took.
func timed(t *testing.T, url string, n int) time.Duration {
	t.Helper()
	began := time.Now()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			all := stream(t, url+"/v1/completions", `{"prompt":"a b c d e f g h i j","stream":true,"ignore_eos":true,"max_tokens":10}`)
			if len(all) != 10 {
				t.Errorf("%d events", len(all))
			}
		})
	}
	wg.Wait()
	return time.Since(began)
}

// Each stage takes its time on the wire, and can be what everything waits for,
// while the engine goes on.
func TestStagesTakeTime(t *testing.T) {
	const ms = 1e6
	tests := []struct {
		name  string
		costs StageCosts
		// The least time of 5 answers of 10 tokens to prompts of 10, and the least sum
		// of their latencies.
		all, sum time.Duration
	}{
		// One after the other, the k-th waits for k.
		{"tokenization", StageCosts{Request: 20 * ms, PromptToken: 1 * ms}, 160 * time.Millisecond, 450 * time.Millisecond},
		{"tokenizers", StageCosts{Request: 20 * ms, PromptToken: 1 * ms, Tokenizers: 5}, 40 * time.Millisecond, 150 * time.Millisecond},
		{"latency", StageCosts{Latency: 50 * ms}, 60 * time.Millisecond, 250 * time.Millisecond},
		// 50 tokens, one after the other, 5 of the last step at the end.
		{"detokenization", StageCosts{OutputToken: 4 * ms}, 200 * time.Millisecond, 700 * time.Millisecond},
		{"guardrail", StageCosts{Guards: 1, GuardRequest: 10 * ms, GuardToken: 2 * ms}, 160 * time.Millisecond, 450 * time.Millisecond},
		{"guardrails", StageCosts{Guards: 5, GuardRequest: 10 * ms, GuardToken: 2 * ms}, 40 * time.Millisecond, 150 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, url := start(t, ServerConfig{Step: fast, Stages: &tt.costs})
			all := timed(t, url, 5)
			if all < tt.all {
				t.Errorf("all answers took %v, want at least %v", all, tt.all)
			}
			eventually(t, "every sequence is in the accounts", func() bool { return len(s.Accounts()) == 5 })
			engine := math.Inf(1) // the least: a machine may stand still within one
			for _, a := range s.Accounts() {
				engine = min(engine, a.Finished-a.Admitted)
			}
			if engine > float64(20*fast) {
				t.Errorf("the engine took %v for an answer", time.Duration(engine))
			}
			page := mustParse(t, fetch(t, url+"/metrics"))
			if e2e := total(page, "vllm:e2e_request_latency_seconds", "vllm:e2e_request_latency_seconds_sum"); e2e < tt.sum.Seconds() {
				t.Errorf("e2e latency in the histogram %v s, want at least %v", e2e, tt.sum)
			}
			if n := total(page, "vllm:time_to_first_token_seconds", "vllm:time_to_first_token_seconds_count"); n != 5 {
				t.Errorf("%v first tokens", n)
			}
			eventually(t, "nothing is in flight", func() bool { return s.Stats().InFlight == 0 })
		})
	}
}

// begin sends a request without reading its answer.
func begin(t *testing.T, url, body string) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(nc, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		t.Fatal(err)
	}
	return nc
}

// Clients that leave while their tokens wait to be sent are let go.
func TestLeavingStagedClient(t *testing.T) {
	s, url := start(t, ServerConfig{Step: fast, Stages: &StageCosts{OutputToken: 20e6, Guards: 1, GuardRequest: 50e6}})
	for range 5 {
		nc := begin(t, url, `{"prompt":"x","stream":true,"max_tokens":30,"ignore_eos":true}`)
		eventually(t, "it is served", func() bool { return s.Stats().Running > 0 })
		nc.Close()
	}
	eventually(t, "nothing is in flight", func() bool { return s.Stats().InFlight == 0 })
	if status, _ := post(t, url+"/v1/completions", `{"prompt":"x","max_tokens":2}`); status != 200 {
		t.Errorf("status %d afterwards", status)
	}
}
