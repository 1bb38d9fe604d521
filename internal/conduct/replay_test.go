package conduct

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/record"
	"plimsoll/internal/run"
	"plimsoll/internal/stats"
	"plimsoll/internal/twin"
	"plimsoll/internal/workload/trace"
)

const published = "../workload/trace/testdata/published/"

// A published trace, replayed by a scenario as a user writes it, starts each of its
// requests at the time of its row to the nanosecond, and asks for its lengths.
func TestTracesHaveNoArrivalError(t *testing.T) {
	f := func(file string, speed int64, more ...string) *PredictResult {
		t.Helper()
		tr, err := trace.Load(published+file, trace.Options{}, trace.Selection{})
		if err != nil {
			t.Fatal(err)
		}
		cfg := predictConfig(t, "", append([]string{"users.trace=" + published + file, "target.ignore-eos=true", "load.drain=24h", "target.api=openai.completions"}, more...)...)
		cfg.Dir = "."
		// Memory and time enough for everything.
		cfg.Cluster = twin.ClusterConfig{Step: 5 * time.Millisecond}
		type sent struct{ scheduled, start, prompt, output int64 }
		got := map[uint64]sent{}
		cfg.Each = func(r *record.Request, _ *twin.Stages, _ int) {
			got[r.ID] = sent{r.Scheduled, r.Start, int64(r.Prompt), int64(r.Output)}
		}
		res, err := Predict(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if s := res.Summary; s.Run.Verdict != stats.Valid || s.Requests.OK != int64(len(tr.Records)) || len(got) != len(tr.Records) {
			t.Fatalf("%s: %s %v, %d of %d ok", file, s.Run.Verdict, s.Run.Reasons, s.Requests.OK, len(tr.Records))
		}
		for i := range tr.Records {
			rec := &tr.Records[i]
			at := (rec.At + speed/2) / speed
			if g := got[uint64(i)]; g != (sent{at, at, int64(rec.Input), int64(rec.Output)}) {
				t.Fatalf("%s:%d: scheduled %d, started %d, %d and %d tokens; want %d, %d and %d tokens", file, rec.Line, g.scheduled, g.start, g.prompt, g.output, at, rec.Input, rec.Output)
			}
		}
		return res
	}
	res := f("mooncake_conversation.jsonl.gz", 1, "users.on-bad-row=skip")
	if r := res.Replay; r == nil || r.Kind != run.ReplayTrace || r.Timing != "absolute" || r.Speed != 1 || r.Requests != 12_031 || r.LateRequests != 0 {
		t.Errorf("replay is %+v", r)
	}
	if w := res.Summary.Run.WindowS; w == nil || *w < 3536 {
		t.Errorf("the window is %v s of a trace of 3,537", w)
	}
	f("azure_2023_code.csv.gz", 1)
	f("azure_2023_conv.csv.gz", 2, "users.speed=2")
}

// The prefix cache of the cluster finds what the trace says is there.
func TestTraceReusesItsPrefixes(t *testing.T) {
	cfg := predictConfig(t, "", "users.trace="+published+"mooncake_conversation.jsonl.gz", "users.until=10m", "load.drain=24h", "target.api=openai.completions", "target.ignore-eos=true")
	cfg.Dir, cfg.Cluster = ".", twin.ClusterConfig{GPU: "h200", Replicas: 1, TP: 8}
	res, err := Predict(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	tk := res.Summary.Tokens
	tr, err := trace.Load(published+"mooncake_conversation.jsonl.gz", trace.Options{}, trace.Selection{To: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[uint64]bool{}
	var found, all float64
	for i := range tr.Records {
		rec := &tr.Records[i]
		all += float64(rec.Input)
		for j, h := range rec.Hashes {
			if !seen[h] {
				for _, h := range rec.Hashes[j:] {
					seen[h] = true
				}
				break
			}
			found += float64(rec.BlockTokens)
		}
	}
	if got, want := float64(*tk.Cached)/float64(*tk.Prompt), found/all; got < want-0.06 || got > want+0.01 {
		t.Errorf("%.3f of the prompt tokens came from the cache, the trace has %.3f", got, want)
	}
}

func writeFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A file that is not right is one error with line and field, before anything is
// sent.
func TestBadTraces(t *testing.T) {
	f := func(text, want string, sets ...string) {
		t.Helper()
		dir := t.TempDir()
		writeFile(t, dir, "t.jsonl", text)
		cfg := predictConfig(t, "", append([]string{"users.trace=t.jsonl"}, sets...)...)
		cfg.Dir = dir
		_, err := Predict(t.Context(), cfg)
		if _, ok := errors.AsType[*UsageError](err); !ok || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
		// A run says the same.
		sets = append([]string{"users.trace=t.jsonl", "target.url=http://127.0.0.1:1", "target.model=m"}, sets...)
		run := config(t, plan(t, sets...))
		run.Dir = dir
		_, err = Run(t.Context(), run)
		if _, ok := errors.AsType[*UsageError](err); ok != !strings.Contains(want, "context") {
			t.Errorf("%s: run says %v", text, err)
		}
	}
	row := `{"timestamp": 0, "input_length": 5, "output_length": 2}` + "\n"
	f(row+`{"timestamp": -5, "input_length": 5, "output_length": 2}`, "t.jsonl:2: timestamp:")
	f(row+`{"timestamp": 7, "output_length": 2}`, "t.jsonl:2:")
	f(row+`{"timestamp": "2024-01-01T00:00:00Z", "input_length": 5, "output_length": 2}`, "t.jsonl:2: timestamp:")
	f(`{"timestamp": 0, "input_length": 5, "output_length": 2, "hash_ids": [99999999999999999999]}`, "t.jsonl:1: hash_ids:")
	f(`{"timestamp": 0, "input_length": 5, "output_length": 2, "hash_ids": [1.5]}`, "t.jsonl:1: hash_ids:")
	f(row+`{"timestamp": 1, "input_length": 131000, "output_length": 200}`, "t.jsonl:2: input_length: 131000 tokens, and 200 of the answer, are more than the context of 131072 tokens")
	f("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00.0,200000,5\n", "t.jsonl:2: ContextTokens: 200000 tokens, and 5 of the answer, are more than the context")
	f("TIMESTAMP,ContextTokens\n2023-11-16 18:00:00.0,20\n", "t.jsonl:1: no column for output, the lengths of the answers,")
	f("TIMESTAMP,ContextTokens\n2023-11-16 18:00:00.0,20\n", "t.jsonl:2: output: nothing says how long the answer is", "users.format=csv")
	f(row+`{"timestamp": 7, "input_length": 5}`, "t.jsonl:2: output: nothing says how long the answer is: give --output-tokens")
	f(row, "no request is left of 1: none is in the window from 1h0m0s, the last one begins at 0s", "users.from=1h")
	f(`{"payload": {"prompt": "x"}}`, "t.jsonl:1: body: the body has prompt, which API openai.chat does not take: want messages; --api openai.completions takes it, on-bad-row skip",
		"users.dataset=t.jsonl", "users.trace=null", "load.users=1", "target.api=openai.chat")
	f(`{"prompt": "hello"}`, "t.jsonl has no times: give it as dataset", "users.format=jsonl")
	f(row+`{"timestamp": 1700000000000, "input_length": 5, "output_length": 2}`, `t.jsonl:2: timestamp: "1700000000000" is Unix milliseconds, line 1 has a number: one file has one unit`)
	f(row+`{"timestamp": 36000000000, "input_length": 5, "output_length": 2}`, "t.jsonl:2: the request would start 10000h0m0s after the first: the times are of two units")
	f(row, "load.warmup: 10s is longer than what is replayed", "load.warmup=10s")
	f(row, "look up generator", "users.content=prsoe")
	f(`{"timestamp": 3, "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://169.254.169.254/latest"}}]}]}`, "t.jsonl:1: image_url:")
	f(`{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "../../etc/passwd"}}]}]}`, "t.jsonl:1: image_url:", "users.dataset=t.jsonl", "users.trace=null", "load.users=1")
	f(`{"custom_id": "a", "method": "POST", "url": "/v1/embeddings", "body": {"model": "m", "input": "x"}}`, "t.jsonl:1: body: the body has no messages", "users.dataset=t.jsonl", "users.trace=null", "load.users=1")
}

// A scenario that came over the network reads no file of this machine.
func TestNoFilesOverTheNetwork(t *testing.T) {
	workload := writeFile(t, t.TempDir(), "w.yaml", "name: w\nprompt:\n  turn: {tokens: 5, content: 'file:secret.txt'}\noutput: 1\n")
	for _, sets := range [][]string{
		{"users.trace=/etc/passwd"}, {"users.dataset=/etc/passwd", "load.users=1"}, {"users.workload=" + workload, "load.users=1"},
	} {
		s := plan(t, append(sets, "target.url=http://127.0.0.1:1")...)
		_, err := NewPlan(s, os.ReadFile, "")
		if err == nil || !strings.Contains(err.Error(), "only read for the command line") {
			t.Errorf("%v: %v", sets, err)
		}
	}
}

// What does not fit the context may be left out.
func TestLongRequestsAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "t.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00.0,200,5\n2023-11-16 18:00:01.0,200000,5\n2023-11-16 18:00:03.0,300,5\n")
	cfg := predictConfig(t, "", "users.trace=t.csv", "users.on-bad-row=skip")
	cfg.Dir = dir
	res, err := Predict(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if s := res.Summary; s.Requests.OK != 2 || s.Run.Verdict != stats.Valid || res.Replay.Requests != 2 || res.Replay.LeftOut != 1 {
		t.Errorf("%d ok, %s, replay %+v", s.Requests.OK, s.Run.Verdict, res.Replay)
	}
}

// received is an endpoint that keeps the bodies it gets.
type received struct {
	mu     sync.Mutex
	bodies []map[string]any
}

func (r *received) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	b, _ := io.ReadAll(q.Body)
	var body map[string]any
	if json.Unmarshal(b, &body) == nil && q.Method == http.MethodPost {
		r.mu.Lock()
		r.bodies = append(r.bodies, body)
		r.mu.Unlock()
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, s := range []string{
		`{"choices":[{"index":0,"delta":{"content":"fine thanks"},"finish_reason":null}]}`,
		`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}`, "[DONE]",
	} {
		_, _ = io.WriteString(w, "data: "+s+"\n\n")
	}
}

// What a data set says is what is sent: its texts, its bodies, and a history with the
// answers that the server gave, or those recorded.
func TestDatasetsAreSent(t *testing.T) {
	const share = `[{"id": "a", "conversations": [{"from": "human", "value": "How are you?"}, {"from": "gpt", "value": "well"}, {"from": "human", "value": "And now?"}, {"from": "gpt", "value": "still well, I think"}]}]`
	const batch = `{"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "gpt", "messages": [{"role": "user", "content": "hi"}], "top_p": 0.25, "max_tokens": 3, "stream": false}}`
	const moon = `{"timestamp": 0, "input_length": 16, "output_length": 4, "hash_ids": [7]}` + "\n" + `{"timestamp": 900000, "input_length": 16, "output_length": 5, "hash_ids": [7]}`
	f := func(text string, check func(t *testing.T, bodies []map[string]any, res *Result), sets ...string) {
		t.Helper()
		dir := t.TempDir()
		writeFile(t, dir, "d.json", text)
		e := new(received)
		s := httptest.NewServer(e)
		defer s.Close()
		cfg := config(t, plan(t, append([]string{"target.url=" + s.URL, "target.model=m", "data.telemetry=none", "users.dataset=d.json", "seed=5"}, sets...)...))
		cfg.Dir = dir
		res, err := Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		check(t, e.bodies, res)
	}
	texts := func(b map[string]any) (out []string) {
		for _, m := range b["messages"].([]any) {
			m := m.(map[string]any)
			out = append(out, m["role"].(string)+": "+m["content"].(string))
		}
		return out
	}
	for answers, want := range map[string]string{"server": "assistant: fine thanks", "recorded": "assistant: well"} {
		f(share, func(t *testing.T, bodies []map[string]any, res *Result) {
			if len(bodies) != 4 {
				t.Fatalf("%d requests", len(bodies))
			}
			if diff := cmp.Diff([]string{"user: How are you?", want, "user: And now?"}, texts(bodies[1])); diff != "" {
				t.Errorf("answers %s: second turn (-want +got):\n%s", answers, diff)
			}
			// The limit is what the recorded answer has, 19 bytes.
			if bodies[1]["max_tokens"] != 5.0 || bodies[2]["max_tokens"] != 1.0 {
				t.Errorf("limits %v and %v", bodies[1]["max_tokens"], bodies[2]["max_tokens"])
			}
			saved, err := run.Open(res.Folder)
			if err != nil {
				t.Fatal(err)
			}
			r := saved.Info().Replay
			if r == nil || r.Kind != run.ReplayDataset || r.Sessions != 1 || r.Requests != 2 || r.Answers != answers || r.Timing != "" || !strings.Contains(r.Text, "sharegpt data set d.json") {
				t.Errorf("run.json says %+v", r)
			}
		}, "load.users=1", "load.requests=4", "users.answers="+answers)
	}
	f(batch, func(t *testing.T, bodies []map[string]any, res *Result) {
		want := map[string]any{
			"model": "m", "messages": []any{map[string]any{"role": "user", "content": "hi"}}, "top_p": 0.25, "max_tokens": 3.0,
			"stream": true, "stream_options": map[string]any{"include_usage": true},
		}
		if diff := cmp.Diff(want, bodies[0]); diff != "" || len(bodies) != 3 {
			t.Errorf("%d bodies; (-want +got):\n%s", len(bodies), diff)
		}
		// Nobody asked for a length of the prompt: there is nothing to compare with.
		if slices.ContainsFunc(res.Summary.Run.Reasons, func(r stats.Reason) bool { return r.Check == "prompt_length" }) {
			t.Errorf("reasons %v", res.Summary.Run.Reasons)
		}
	}, "load.rate=100", "load.arrival=constant", "load.requests=3")
	// The times of a trace do not count, its lengths and hashes do.
	f(moon, func(t *testing.T, bodies []map[string]any, res *Result) {
		got := map[any]int{} // in whatever order they come
		for _, b := range bodies {
			if got[b["max_tokens"]]++; texts(b)[0] != texts(bodies[0])[0] {
				t.Errorf("%v and %v have one hash and two texts", texts(b), texts(bodies[0]))
			}
		}
		if diff := cmp.Diff(map[any]int{4.0: 2, 5.0: 1}, got); diff != "" {
			t.Errorf("limits (-want +got):\n%s", diff)
		}
	}, "load.rate=5", "load.arrival=constant", "load.requests=3")
}

// As many images as a request had go with it, of the asked size, when one is asked for.
func TestTraceWithImages(t *testing.T) {
	const azure = "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n2024-10-15T12:00:00.000Z,0,36,12\n2024-10-15T12:00:00.151Z,2,15,6\n"
	dir := t.TempDir()
	writeFile(t, dir, "t.csv", azure)
	for _, size := range []string{"", "64x48"} {
		e := new(received)
		s := httptest.NewServer(e)
		sets := []string{"target.url=" + s.URL, "target.model=m", "data.telemetry=none", "users.trace=t.csv"}
		if size != "" {
			sets = append(sets, "users.image-size="+size)
		}
		cfg := config(t, plan(t, sets...))
		cfg.Dir = dir
		_, err := Run(t.Context(), cfg)
		s.Close()
		if err != nil {
			t.Fatal(err)
		}
		images := map[int]int{}
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, b := range e.bodies {
			n := 0
			parts, _ := b["messages"].([]any)[0].(map[string]any)["content"].([]any)
			for _, p := range parts {
				if p := p.(map[string]any); p["type"] == "image_url" {
					n++
				}
			}
			images[n]++
		}
		want := map[int]int{0: 2}
		if size != "" {
			want = map[int]int{0: 1, 2: 1}
		}
		if diff := cmp.Diff(want, images); diff != "" {
			t.Errorf("size %q: requests by images (-want +got):\n%s", size, diff)
		}
	}
	cfg := config(t, plan(t, "target.url=http://127.0.0.1:1", "users.trace=t.csv", "users.image-size=64x48", "target.api=openai.completions"))
	cfg.Dir = dir
	if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "image-size: images have no place in API openai.completions") {
		t.Errorf("images in completions: %v", err)
	}
}

// A plan of a trace counts what is in it.
func TestPlanOfTrace(t *testing.T) {
	p, err := NewPlan(plan(t, "target.url=http://h", "users.trace="+published+"azure_2023_code.csv.gz", "users.from=1m", "users.until=11m", "users.speed=4"), nil, ".")
	if err != nil {
		t.Fatal(err)
	}
	tr, err := trace.Load(published+"azure_2023_code.csv.gz", trace.Options{}, trace.Selection{From: time.Minute, To: 11 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	var in, out int64
	for i := range tr.Records {
		in, out = in+int64(tr.Records[i].Input), out+int64(tr.Records[i].Output)
	}
	if *p.Requests != int64(len(tr.Records)) || *p.PromptTokens != in || *p.OutputTokens != out || *p.DurationS > 150 || *p.DurationS < 140 {
		t.Errorf("%d requests, %d and %d tokens, %v s; want %d, %d, %d, 150 s", *p.Requests, *p.PromptTokens, *p.OutputTokens, *p.DurationS, len(tr.Records), in, out)
	}
	if r := p.Replay; r == nil || r.Speed != 4 || *r.FromS != 60 || *r.UntilS != 660 || !strings.Contains(r.Text, "speed 4, window from 1m0s to 11m0s") {
		t.Errorf("replay %+v", r)
	}
	if len(p.Steps) != 1 || !p.Steps[0].Trace {
		t.Errorf("steps %+v", p.Steps)
	}
}
