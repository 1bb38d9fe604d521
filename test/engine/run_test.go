package engine_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/test/process"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

// TestRun measures the engine with users and with a rate. Every answer is the
// script, every count of tokens the engine's own, and no figure is better than
// what the engine says of itself.
func TestRun(t *testing.T) {
	e := start(t)
	// What the engine needs for a prompt at the least: alone, its own figure.
	// Loading the model comes first, and is not part of it.
	e.ask(t, "warm up")
	floor := time.Duration(math.MaxInt64)
	turn := 0
	least := func() { // before and after each run: this machine may be slower at times
		for _, q := range []string{"amber anchors drift", "brass bells answer", "cold currents bend", "deep docks echo", "every ebb falls"} {
			q = q[turn:] + q[:turn] // nothing that it has in its cache
			floor = min(floor, e.ask(t, strings.Repeat(q+" ", 8)).PromptEval)
		}
		turn++
	}
	least()

	for name, c := range map[string]struct {
		load     []string
		requests int
	}{
		"4 users":       {[]string{"--users", "4", "--requests", "60"}, 60},
		"2 requests/s":  {[]string{"--rate", "2", "--arrival", "constant", "--duration", "20s"}, 40},
		"not streaming": {[]string{"--users", "2", "--requests", "24", "--no-stream"}, 24},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			before := e.served(t, "/v1/chat/completions")
			r := process.Run(t, dir, 5*time.Minute, append([]string{
				"run", "--url", e.url, "--model", "scripted", "--prompt-tokens", "32", "--output-tokens", "64",
				"--out", "runs", "--save-text", "--telemetry", "auto",
			}, c.load...)...)
			// Engine and client share this machine, so the client may rightly
			// call itself the limit (4); what it measured must be right all the same.
			if r.Code != 0 && r.Code != 4 {
				t.Fatalf("exit %d\n%s\n%s", r.Code, r.Stderr, r.Stdout)
			}
			run := process.OnlyRun(t, filepath.Join(dir, "runs"))
			s := process.ReadSummary(t, run)
			if s.Requests.OK != c.requests || s.Requests.OK != s.Requests.Scheduled || s.Requests.Error+s.Requests.Cancelled+s.Requests.Incomplete > 0 {
				t.Errorf("requests %+v, want %d, all ok", s.Requests, c.requests)
			}
			t.Logf("verdict %s %v", s.Run.Verdict, s.Run.Reasons)
			if s.Run.Verdict == "invalid" {
				t.Errorf("the run is invalid:\n%s", r.Stdout)
			}
			rows := process.Rows(t, run)
			var ttft float64
			var e2e, own []float64
			for _, row := range rows {
				if row["status"] != "ok" || row["token_source"] != "server" || row["finish_reason"] != "stop" {
					t.Fatalf("row %v, want ok, tokens of the server, stop", row)
				}
				if text := answer(row); text != script.Text() {
					t.Fatalf("answer %q, want %q", text, script.Text())
				}
				if n := row.Number(t, "output_tokens"); n != float64(script.Tokens()) {
					t.Fatalf("%v output tokens, the engine counts %d", n, script.Tokens())
				}
				e2e = append(e2e, row.Number(t, "e2e_ms"))
				if name == "not streaming" {
					if row["ttft_ms"] != nil {
						t.Fatalf("ttft %v without a stream", row["ttft_ms"])
					}
					continue
				}
				ttft += row.Number(t, "ttft_ms")
			}
			// It has no page of its own: this machine is read, and nothing is said that nobody stated.
			info := process.ReadInfo(t, run)
			if in := info.Input.Server; in != nil && (in.Output != nil || in.TTFT != nil) || s.Server["generation_tokens"] != nil || s.Server["requests_running"] != nil {
				t.Errorf("run.json has counters of an engine without any: %+v, sources %+v", in, info.Telemetry)
			}
			for _, src := range info.Telemetry {
				if src.State == "ok" && src.Kind != "host" && strings.HasPrefix(src.URL, e.url) {
					t.Errorf("Ollama has a page: %+v", src)
				}
			}
			n := float64(len(rows))
			// Of an answer that ended after the window, because the engine stood still, not all tokens are in it.
			if s.Tokens.Output == nil || *s.Tokens.Output > int64(len(rows)*script.Tokens()) || *s.Tokens.Output < int64(s.Requests.OK/2*script.Tokens()) {
				t.Errorf("%v output tokens in the window, want about %d of %d each", s.Tokens.Output, s.Requests.OK, script.Tokens())
			}

			// Ollama has no counters to agree with. It logs each request and how
			// long its handler took; it writes that line after the answer.
			var log served
			process.Until(t, "the engine has logged every request", func() bool {
				log = e.served(t, "/v1/chat/completions")
				return log.n-before.n >= len(rows)
			})
			if log.n-before.n != len(rows) || log.failed > before.failed {
				t.Errorf("the engine served %d requests, %d of them failed; the client kept %d", log.n-before.n, log.failed-before.failed, len(rows))
			}
			for _, d := range log.took[before.n:] {
				own = append(own, d.Seconds()*1000)
			}
			// The handler ends some microseconds after its last byte is written: later where the engine stands still just
			// then, which those of a few seconds may meet, a quarter of them at most.
			slices.Sort(e2e)
			slices.Sort(own)
			middle, quarter := e2e[len(e2e)/2], own[len(own)/4]
			t.Logf("%d requests, mean ttft %.2f ms; e2e p50 %.2f ms, the engine's handler p50 %.2f ms, p25 %.2f ms", len(rows), ttft/n, middle, own[len(own)/2], quarter)
			if middle < quarter-1 {
				t.Errorf("e2e p50 %.3f ms is below p25 of the engine's own %.3f ms", middle, quarter)
			}
			least()
			if least := floor.Seconds() * 1000; name != "not streaming" && ttft/n < least {
				t.Errorf("mean ttft %.3f ms is below the engine's own prompt time %.3f ms", ttft/n, least)
			}
		})
	}
}

// answer returns the saved text of a row.
func answer(row process.Row) string {
	switch v := row["text"].(type) {
	case string:
		return v
	case []any:
		if len(v) == 1 {
			s, _ := v[0].(string)
			return s
		}
	}
	return ""
}

// TestCheck asks what the engine can do and compares with what is known of it.
func TestCheck(t *testing.T) {
	e := start(t)
	r := process.Must(t, t.TempDir(), process.Patience, "check", e.url, "--probe", "--output", "json")
	var f struct {
		Reachable bool
		Engine    string
		Models    []struct{ ID string }
		APIs      []struct {
			API   string
			Probe map[string]any
		}
	}
	if err := json.Unmarshal([]byte(r.Stdout), &f); err != nil {
		t.Fatalf("%v in %s", err, r.Stdout)
	}
	if !f.Reachable || f.Engine != "ollama" || len(f.Models) != 1 || !strings.HasPrefix(f.Models[0].ID, "scripted") {
		t.Errorf("facts %+v, want ollama with model scripted", f)
	}
	want := map[string]bool{"streaming": true, "usage": true, "running_usage": false, "non_stream": true, "done": true}
	answered := 0
	for _, api := range f.APIs {
		// This version of Ollama has no Responses API: what is not there is said by its status.
		if api.API == "openai.responses" {
			tries, _ := api.Probe["tries"].([]any)
			if len(tries) == 0 {
				t.Errorf("%s: no try is kept: %v", api.API, api.Probe)
				continue
			}
			if first, _ := tries[0].(map[string]any); first["http_status"] != 404.0 || api.Probe["streaming"] != nil {
				t.Errorf("%s: %v, want a 404 and nothing known", api.API, api.Probe)
			}
			continue
		}
		answered++
		for name, is := range want {
			if got := api.Probe[name]; got != is {
				t.Errorf("%s: %s is %v, want %v: %v", api.API, name, got, is, api.Probe)
			}
		}
	}
	if answered != 2 || len(f.APIs) != 3 {
		t.Errorf("%d APIs asked, %d looked at, want chat, text completions and responses", len(f.APIs), answered)
	}
}
