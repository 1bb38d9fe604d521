package twin

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"plimsoll/internal/dialect"
	"plimsoll/internal/message"
	"plimsoll/internal/workload"
)

// start serves cfg on loopback until the test ends.
func start(t testing.TB, cfg ServerConfig) (s *Server, url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return startOn(t, cfg, l)
}

func startOn(t testing.TB, cfg ServerConfig, l net.Listener) (s *Server, url string) {
	t.Helper()
	s, err := NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("serve: %v", err)
			}
		case <-time.After(2 * time.Minute):
			t.Error("the server does not stop")
		}
	})
	return s, "http://" + l.Addr().String()
}

// eventually waits for what a server does right after its answer, or when a
// client leaves.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("it never happens that %s", what)
		}
		time.Sleep(time.Millisecond) // real time: the server is real
	}
}

func post(t testing.TB, url, body string) (status int, answer string) {
	t.Helper()
	resp, err := clientOf(url).Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read answer: %v after %q", err, b)
	}
	return resp.StatusCode, string(b)
}

// chunk is an event as a client sees it.
type chunk struct {
	ID      string
	Object  string
	Model   string
	Choices []struct {
		Index int
		Delta struct {
			Role    string
			Content string
		}
		Text         string
		FinishReason string `json:"finish_reason"`
	}
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
	}
}

// stream reads the events of one streamed answer; the last is [DONE].
func stream(t testing.TB, url, body string) []chunk {
	t.Helper()
	status, answer := post(t, url, body)
	if status != 200 {
		t.Fatalf("status %d: %s", status, answer)
	}
	events := strings.Split(answer, "\n\n")
	if n := len(events); n < 2 || events[n-1] != "" || events[n-2] != "data: [DONE]" {
		t.Fatalf("stream does not end with [DONE]: %q", answer)
	}
	var all []chunk
	for _, e := range events[:len(events)-2] {
		data, ok := strings.CutPrefix(e, "data: ")
		if !ok {
			t.Fatalf("event %q", e)
		}
		var c chunk
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatalf("event %q: %v", e, err)
		}
		all = append(all, c)
	}
	return all
}

const fast = time.Millisecond

func TestStreamChat(t *testing.T) {
	_, url := start(t, ServerConfig{Step: fast})
	body := `{"model":"meta-llama/Llama-3.1-8B-Instruct","stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},
		"messages":[{"role":"user","content":"Where does the old ship sail?"}],"max_tokens":40,"ignore_eos":true}`
	all := stream(t, url+"/v1/chat/completions", body)
	// role, 40 tokens, usage.
	if len(all) != 42 {
		t.Fatalf("%d events", len(all))
	}
	if c := all[0]; c.Choices[0].Delta.Role != "assistant" || c.Choices[0].Delta.Content != "" || c.Object != "chat.completion.chunk" {
		t.Errorf("first event %+v", c)
	}
	// 7 pieces, 5 for the message, 5 for the template.
	const prompt = 17
	text := ""
	for i, c := range all[1:41] {
		ch := c.Choices[0]
		text += ch.Delta.Content
		if CountTokens(ch.Delta.Content) != 1 {
			t.Errorf("event %d carries %q", i, ch.Delta.Content)
		}
		if c.Usage == nil || c.Usage.Completion != i+1 || c.Usage.Prompt != prompt || c.Usage.Total != prompt+i+1 {
			t.Errorf("event %d: running usage %+v", i, c.Usage)
		}
		if last := i == 39; last != (ch.FinishReason == "length") {
			t.Errorf("event %d: finish %q", i, ch.FinishReason)
		}
		if c.ID != all[0].ID || c.Model != "llama-3.1-8b" {
			t.Errorf("event %d: id %q model %q", i, c.ID, c.Model)
		}
	}
	if n := CountTokens(text); n != 40 {
		t.Errorf("text has %d tokens: %q", n, text)
	}
	if u := all[41]; len(u.Choices) != 0 || u.Usage.Completion != 40 || u.Usage.Prompt != prompt {
		t.Errorf("last event %+v", u)
	}
	again := stream(t, url+"/v1/chat/completions", body)
	second := ""
	for _, c := range again {
		for _, ch := range c.Choices {
			second += ch.Delta.Content
		}
	}
	if second != text {
		t.Errorf("the same request got another answer:\n%q\n%q", text, second)
	}
	if again[0].ID == all[0].ID {
		t.Error("two answers have one id")
	}
	_, other := post(t, url+"/v1/chat/completions", `{"messages":[{"role":"user","content":"Where does the old ship sail?"}],"max_tokens":40,"ignore_eos":true,"seed":5}`)
	if strings.Contains(other, text[:50]) {
		t.Errorf("another seed got the same answer: %s", other)
	}
}

func TestWholeAnswersAndChoices(t *testing.T) {
	_, url := start(t, ServerConfig{Step: fast})
	type body struct {
		Choices []struct {
			Index        int
			Text         string
			Message      struct{ Role, Content string }
			FinishReason string `json:"finish_reason"`
		}
		Usage struct {
			Prompt     int `json:"prompt_tokens"`
			Completion int `json:"completion_tokens"`
		}
	}
	get := func(path, req string) body {
		t.Helper()
		status, answer := post(t, url+path, req)
		var b body
		if err := json.Unmarshal([]byte(answer), &b); err != nil || status != 200 {
			t.Fatalf("status %d, %v: %s", status, err, answer)
		}
		return b
	}
	b := get("/v1/chat/completions", `{"messages":[{"role":"user","content":"one two three"}],"n":3,"max_tokens":700,"ignore_eos":true}`)
	if len(b.Choices) != 3 || b.Usage.Prompt != 13 || b.Usage.Completion != 2100 {
		t.Fatalf("%d choices, usage %+v", len(b.Choices), b.Usage)
	}
	for i, c := range b.Choices {
		if c.Index != i || c.Message.Role != "assistant" || CountTokens(c.Message.Content) != 700 || c.FinishReason != "length" {
			t.Errorf("choice %d: %d tokens, %+v", i, CountTokens(c.Message.Content), c)
		}
	}
	if b.Choices[0].Message.Content == b.Choices[1].Message.Content {
		t.Error("two choices have one text")
	}
	b = get("/v1/completions", `{"prompt":["one two","three",""],"n":2}`)
	if len(b.Choices) != 6 || b.Usage.Prompt != 4 || b.Usage.Completion != 96 {
		t.Errorf("%d choices, usage %+v", len(b.Choices), b.Usage)
	}
	b = get("/v1/completions", `{"prompt":[1,2,3,4,5],"max_tokens":3,"ignore_eos":true}`)
	if b.Usage.Prompt != 5 || b.Usage.Completion != 3 || CountTokens(b.Choices[0].Text) != 3 {
		t.Errorf("token ids: %+v", b)
	}
	// The natural end comes before a generous limit, and min_tokens moves it.
	b = get("/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"max_tokens":20000}`)
	n := CountTokens(b.Choices[0].Message.Content)
	if b.Choices[0].FinishReason != "stop" || b.Usage.Completion != n || n >= 20000 {
		t.Errorf("natural end: %d tokens, finish %q, usage %+v", n, b.Choices[0].FinishReason, b.Usage)
	}
	b = get("/v1/chat/completions", fmt.Sprintf(`{"messages":[{"role":"user","content":"x"}],"max_tokens":%d,"min_tokens":%d}`, n+10, n+5))
	if b.Choices[0].FinishReason != "stop" || b.Usage.Completion != n+5 {
		t.Errorf("min_tokens %d: finish %q, usage %+v", n+5, b.Choices[0].FinishReason, b.Usage)
	}
}

func TestRefusals(t *testing.T) {
	s, url := start(t, ServerConfig{Step: fast, MaxModelLen: 100})
	long := strings.Repeat(" word", 120)
	chat, completions := "/v1/chat/completions", "/v1/completions"
	tests := []struct {
		path, body string
		status     int
		want       string
	}{
		{chat, `{"model":"gpt-9","messages":[{"role":"user","content":"x"}]}`, 404, "The model `gpt-9` does not exist"},
		{chat, `{"messages":[{"role":"user","content":"` + long + `"}]}`, 400, "maximum context length is 100 tokens. However, the prompt has 130 tokens"},
		{completions, `{"prompt":"a b c","max_tokens":98}`, 400, "you requested 101 tokens (3 in the prompt, 98 in the answer)"},
		{chat, `{"messages":`, 400, "read request body"},
		{chat, ``, 400, "read request body"},
		{chat, `[]`, 400, "read request body: want an object, got array"},
		{chat, `{"max_tokens":1e99}`, 400, "read request body: max_tokens: want a whole number, got number 1e99"},
		{chat, `{"stream":"yes"}`, 400, "read request body: stream: want true or false, got string"},
		{chat, strings.Repeat("[", 1<<20), 400, "read request body"},
		{chat, `{"messages":[{"role":"user","content":` + strings.Repeat(`[`, 200_000) + strings.Repeat(`]`, 200_000) + `}]}`, 400, "read request body"},
		{chat, `{"messages":[]}`, 400, "messages"},
		{chat, `{"messages":[{"role":"user","content":"x"}],"max_tokens":-5}`, 400, "max_tokens: must be at least 1, got -5"},
		{chat, `{"messages":[{"role":"user","content":"x"}],"max_tokens":9223372036854775807}`, 400, "max_tokens"},
		{chat, `{"messages":[{"role":"user","content":"x"}],"n":1000000}`, 400, "n: must be between 1 and 128"},
		{completions, `{"prompt":["a"` + strings.Repeat(`,"a"`, 127) + `],"n":100}`, 400, "12800 sequences; at most 1024"},
		{"/tokenize", `{"prompt":7}`, 400, "prompt"},
		{"/v1/embeddings", `{}`, 404, "no such path"},
		{"/v1/models", `{}`, 405, "takes GET, not POST"},
	}
	for _, tt := range tests {
		status, answer := post(t, url+tt.path, tt.body)
		var e struct {
			Error struct {
				Message, Type string
				Code          int
			}
		}
		if err := json.Unmarshal([]byte(answer), &e); err != nil {
			t.Errorf("%s %.60s: answer %q: %v", tt.path, tt.body, answer, err)
			continue
		}
		if status != tt.status || e.Error.Code != tt.status || e.Error.Type == "" || !strings.Contains(e.Error.Message, tt.want) {
			t.Errorf("%s %.60s: status %d, %+v; want %d, %q", tt.path, tt.body, status, e.Error, tt.status, tt.want)
		}
	}
	if status, _ := post(t, url+chat, `{"messages":[{"role":"user","content":"x"}],"max_tokens":3}`); status != 200 {
		t.Errorf("after the refusals: status %d", status)
	}
	if n := s.Stats().Refused; n != int64(len(tests)) {
		t.Errorf("%d refused of %d", n, len(tests))
	}
	eventually(t, "nothing is in flight", func() bool { return s.Stats().InFlight == 0 })
}

func TestTooManySequences(t *testing.T) { synctest.Test(t, testTooManySequences) }

func testTooManySequences(t *testing.T) {
	s, url := startFake(t, ServerConfig{Step: fast})
	s.counters.sequences.Store(maxSequences - 1)
	ask := `{"prompt":"x","max_tokens":1,"n":2}`
	if status, answer := post(t, url+"/v1/completions", ask); status != 503 || !strings.Contains(answer, "262144 sequences") {
		t.Errorf("status %d: %s", status, answer)
	}
	s.counters.sequences.Store(0)
	if status, answer := post(t, url+"/v1/completions", ask); status != 200 {
		t.Errorf("status %d: %s", status, answer)
	}
	synctest.Wait()
	if n := s.counters.sequences.Load(); n != 0 {
		t.Errorf("%d sequences are held", n)
	}
}

func TestOtherPaths(t *testing.T) {
	_, url := start(t, ServerConfig{Model: "qwen3-8b", GPU: "h200"})
	get := func(path string) string {
		t.Helper()
		resp, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%s: status %d, %v", path, resp.StatusCode, err)
		}
		return string(b)
	}
	if got := get("/v1/models"); !strings.Contains(got, `"id":"qwen3-8b"`) {
		t.Errorf("models: %s", got)
	}
	get("/health")
	if status, got := post(t, url+"/tokenize", `{"model":"Qwen/Qwen3-8B","prompt":"a few words, and 12345 digits"}`); status != 200 || !strings.HasPrefix(got, `{"count":8,`) {
		t.Errorf("tokenize: %d %s", status, got)
	}
	post(t, url+"/v1/completions", `{"prompt":"a few words","max_tokens":20,"ignore_eos":true}`)
	want := []string{
		`vllm:num_requests_running{engine="0",model_name="qwen3-8b"} 0.0`,
		`vllm:prompt_tokens_total{engine="0",model_name="qwen3-8b"} 3.0`,
		`vllm:generation_tokens_total{engine="0",model_name="qwen3-8b"} 20.0`,
		`vllm:kv_cache_usage_perc{engine="0",model_name="qwen3-8b"} 0.0`,
		`vllm:request_success_total{engine="0",finished_reason="length",model_name="qwen3-8b"} 1.0`,
	}
	got := get("/metrics")
	for _, w := range want {
		if !strings.Contains(got, w+"\n") {
			t.Errorf("metrics lack %q:\n%s", w, got)
		}
	}
}

func TestImpossibleServers(t *testing.T) {
	tests := []struct {
		cfg  ServerConfig
		want string
	}{
		{ServerConfig{Model: "llama-3.1-8c"}, "nearest: llama-3.1-8b"},
		{ServerConfig{GPU: "h1000"}, "nearest: h100"},
		{ServerConfig{Engine: "ollm"}, "nearest: vllm"},
		{ServerConfig{Model: "llama-3.1-405b"}, "does not fit 1 x h100"},
		{ServerConfig{MemoryUtilization: 0.21}, "which is 21.8 MiB too much"},
		{ServerConfig{TP: 5}, "tp 5 does not divide the 32 attention heads"},
		{ServerConfig{Replicas: -1}, "replicas -1"},
		{ServerConfig{MaxNumSeqs: -1}, "max-num-seqs -1"},
		{ServerConfig{MaxNumSeqs: 64, MaxNumBatchedTokens: 32}, "max-num-batched-tokens 32: want at least max-num-seqs 64"},
		{ServerConfig{MaxModelLen: 1 << 20}, "the context of llama-3.1-8b is 131072 tokens"},
		{ServerConfig{GPU: "rtx-4090", MaxModelLen: 131072}, "the KV memory holds"},
		{ServerConfig{Step: -1}, "step -1ns"},
	}
	for _, tt := range tests {
		_, err := NewServer(tt.cfg)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: error %v, want %q in it", tt.cfg, err, tt.want)
		}
	}
}

// A client that leaves frees its place, and the next one gets it.
func TestLeavingClient(t *testing.T) { synctest.Test(t, testLeavingClient) }

func testLeavingClient(t *testing.T) {
	s, url := startFake(t, ServerConfig{Step: 5 * time.Millisecond, MaxNumSeqs: 1})
	nc := dial(t, url)
	body := `{"messages":[{"role":"user","content":"x"}],"stream":true,"max_tokens":100000,"ignore_eos":true}`
	fmt.Fprintf(nc, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	br := bufio.NewReader(nc)
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "data: ") {
			break
		}
	}
	second := make(chan int, 1)
	go func() {
		status, _ := post(t, url+"/v1/chat/completions", `{"messages":[{"role":"user","content":"y"}],"max_tokens":2}`)
		second <- status
	}()
	eventually(t, "the second request waits", func() bool { return s.Stats().Waiting == 1 })
	nc.Close()
	select {
	case status := <-second:
		if status != 200 {
			t.Errorf("status %d", status)
		}
	case <-time.After(time.Minute):
		t.Fatal("the place was not freed")
	}
	synctest.Wait() // what the server does after an answer
	if st := s.Stats(); st.Aborted != 1 || st.InFlight != 0 {
		t.Errorf("%d aborted, %d in flight", st.Aborted, st.InFlight)
	}
	cancelled := 0
	for _, a := range s.Accounts() {
		if a.Cancelled {
			cancelled++
		}
	}
	if cancelled != 1 {
		t.Errorf("%d accounts of cancelled sequences", cancelled)
	}
}

// A client that does not read neither delays the others nor takes memory
// without end.
func TestSlowClient(t *testing.T) {
	s, url := start(t, ServerConfig{Step: fast})
	nc := dial(t, url)
	defer nc.Close()
	_ = nc.(*net.TCPConn).SetReadBuffer(4096)
	body := `{"prompt":"x","stream":true,"n":128,"max_tokens":100000,"ignore_eos":true}`
	fmt.Fprintf(nc, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	eventually(t, "the client that does not read is dropped", func() bool {
		// Others are served all the while.
		all := stream(t, url+"/v1/completions", `{"prompt":"y","stream":true,"max_tokens":20,"ignore_eos":true}`)
		if len(all) != 20 {
			t.Fatalf("%d events", len(all))
		}
		return s.Stats().SlowClients == 1
	})
	eventually(t, "its sequences end", func() bool { return s.Stats().Running == 0 })
}

// cramped gives its connections small buffers, so that little is enough to fill
// them.
type cramped struct{ net.Listener }

func (l cramped) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err == nil {
		err = nc.(*net.TCPConn).SetWriteBuffer(16 << 10)
	}
	return nc, err
}

// A client that reads late, but not too late, gets every byte in order.
func TestLateReader(t *testing.T) {
	for ask, tokens := range map[string]int64{
		`{"prompt":"x","stream":true,"max_tokens":900,"ignore_eos":true}`: 900,
		`{"prompt":"x","max_tokens":40000,"ignore_eos":true}`:             40_000,
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s, url := startOn(t, ServerConfig{Step: 20 * time.Microsecond}, cramped{l})
		_, want := post(t, url+"/v1/completions", ask)
		nc := dial(t, url)
		defer nc.Close()
		if err := nc.(*net.TCPConn).SetReadBuffer(32 << 10); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(nc, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(ask), ask)
		eventually(t, "the whole answer is made", func() bool { return s.Stats().OutputTokens == 2*tokens })
		queued := func() (n int) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for c := range s.conns {
				if c.mu.TryLock() {
					if c.flushing {
						n++
					}
					c.mu.Unlock()
				}
			}
			return n
		}
		eventually(t, "a queue waits for the client", func() bool { return queued() > 0 })
		resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		id := regexp.MustCompile(`"id":"[^"]*"|"created":[0-9]*`)
		if got, want := id.ReplaceAllString(string(b), ""), id.ReplaceAllString(want, ""); got != want {
			t.Errorf("%s: the late reader got %d bytes, a prompt one %d", ask, len(got), len(want))
		}
		eventually(t, "the queue is gone", func() bool { return queued() == 0 })
	}
}

// The server's own account is what the same arrivals give in virtual time, to
// the last bit: real time only waits.
func TestRealTimeIsVirtualTime(t *testing.T) {
	s, url := start(t, ServerConfig{MaxNumSeqs: 8, MaxNumBatchedTokens: 256})
	var wg sync.WaitGroup
	// All begin alike, so that most are found in the prefix cache.
	content := map[int][]Extent{}
	for i := range 24 {
		text := strings.Repeat(" word", 20*i+1)
		content[20*i+1] = s.promptsOf(dialect.OpenAICompletions, &dialect.ServerRequest{Prompts: []string{text}, PromptTokens: []int{0}})[0].content
		wg.Go(func() {
			ask := fmt.Sprintf(`{"prompt":%q,"max_tokens":%d,"ignore_eos":true}`, text, 5+i)
			if status, answer := post(t, url+"/v1/completions", ask); status != 200 {
				t.Errorf("status %d: %s", status, answer)
			}
		})
	}
	wg.Wait()
	eventually(t, "every sequence is in the accounts", func() bool { return len(s.Accounts()) == 24 })
	if s.Stats().Rebased > 0 {
		t.Skip("this machine stood still for seconds: there is no schedule to compare with")
	}
	real := s.Accounts()
	slices.SortFunc(real, func(a, b Account) int { return cmp.Compare(a.Arrival, b.Arrival) })

	e, err := NewEngine(s.replicas[0].engine.cfg)
	if err != nil {
		t.Fatal(err)
	}
	seqs := make([]*Seq, len(real))
	for i, a := range real {
		seqs[i] = &Seq{Prompt: a.Prompt, Output: a.Output, Content: content[a.Prompt], Account: Account{Arrival: a.Arrival}}
	}
	next, now := 0, 0.0
	for steps := 0; next < len(seqs) || !e.Idle(); steps++ {
		if steps > 100_000 {
			t.Fatalf("does not end: %v", e)
		}
		for next < len(seqs) && seqs[next].Account.Arrival <= now {
			e.Submit(seqs[next])
			next++
		}
		length, ok := e.Begin(now)
		if !ok {
			now = max(now, seqs[next].Account.Arrival)
			continue
		}
		now += length
		e.End(now, nil)
	}
	cached := 0
	for i, a := range real {
		a.FirstSent, a.Sent = 0, 0 // of the way out, which is not replayed
		cached += a.Cached
		if d := gocmp.Diff(seqs[i].Account, a); d != "" {
			t.Errorf("sequence %d of %d prompt tokens (-virtual +real):\n%s", i, a.Prompt, d)
		}
	}
	if cached < 1000 {
		t.Errorf("%d tokens were cached: the prompts share too little", cached)
	}
}

func TestReplicasTakeTurns(t *testing.T) { synctest.Test(t, testReplicasTakeTurns) }

func testReplicasTakeTurns(t *testing.T) {
	s, url := startFake(t, ServerConfig{Step: fast, Replicas: 3})
	for range 12 {
		post(t, url+"/v1/completions", `{"prompt":"x","max_tokens":5,"ignore_eos":true}`)
	}
	for _, r := range s.replicas {
		if n := r.state.output.Load(); n != 20 {
			t.Errorf("replica %d made %d tokens, want 20", r.index, n)
		}
	}
}

// One connection serves several requests, also when the next one comes before
// the answer is complete, and with chunked bodies and 100-continue.
func TestKeepAlive(t *testing.T) {
	s, url := start(t, ServerConfig{Step: fast})
	nc := dial(t, url)
	defer nc.Close()
	request := func(prompt string) string {
		body := fmt.Sprintf(`{"prompt":%q,"stream":true,"max_tokens":5,"ignore_eos":true}`, prompt)
		return fmt.Sprintf("POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	}
	fmt.Fprint(nc, request("a")+request("b")+request("c"))
	br := bufio.NewReader(nc)
	texts := map[string]bool{}
	for i := range 3 {
		for {
			line, err := br.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if line == "HTTP/1.1 100 Continue\r\n" {
				if _, err := br.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
				break
			}
		}
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		b, err := io.ReadAll(resp.Body)
		if err != nil || bytes.Count(b, []byte("data: ")) != 6 {
			t.Fatalf("answer %d: %v %s", i, err, b)
		}
		texts[string(b)] = true
	}
	if len(texts) != 3 || s.Stats().Connections != 1 {
		t.Errorf("%d different answers on %d connections", len(texts), s.Stats().Connections)
	}
}

func TestOldAndHostileClients(t *testing.T) {
	s, url := start(t, ServerConfig{Step: fast})
	say := func(text string) string {
		t.Helper()
		nc := dial(t, url)
		defer nc.Close()
		_ = nc.SetDeadline(time.Now().Add(2 * time.Minute))
		go func() { _, _ = io.WriteString(nc, text) }()
		b, err := io.ReadAll(nc)
		if err != nil {
			t.Fatalf("%.40q: %v after %.200q", text, err, b)
		}
		return string(b)
	}
	body := `{"prompt":"x","stream":true,"max_tokens":2,"ignore_eos":true}`
	old := say(fmt.Sprintf("POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	if !strings.HasSuffix(old, "data: [DONE]\n\n") || strings.Contains(old, "chunked") {
		t.Errorf("HTTP/1.0: %q", old)
	}
	closing := say(fmt.Sprintf("POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	if !strings.HasSuffix(closing, "0\r\n\r\n") || !strings.Contains(closing, "Connection: close") {
		t.Errorf("close: %q", closing)
	}
	for text, want := range map[string]string{
		"nonsense\r\n\r\n": "HTTP/1.1 400 ",
		"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n{}":    "HTTP/1.1 413 ",
		"GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 2*maxHeader) + "\r\n\r\n":                "HTTP/1.1 431 ",
		"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n": "HTTP/1.1 400 ",
	} {
		if got := say(text); !strings.HasPrefix(got, want) {
			t.Errorf("%.40q: %.100q, want %q", text, got, want)
		}
	}
	eventually(t, "nothing is in flight", func() bool { return s.Stats().InFlight == 0 })
}

// Under --step the engine's own account is exact: first tokens one to two steps after
// arrival, the rest on the grid.
func TestStepsAreOnTheGrid(t *testing.T) {
	const step = 20 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		s, url := startFake(t, ServerConfig{Step: step})
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				stream(t, url+"/v1/completions", `{"prompt":"x","stream":true,"max_tokens":15,"ignore_eos":true}`)
			})
			time.Sleep(7 * time.Millisecond)
		}
		wg.Wait()
		synctest.Wait() // what the server notes after an answer
		accounts := s.Accounts()
		if len(accounts) != 20 {
			t.Fatalf("%d accounts", len(accounts))
		}
		for i, a := range accounts {
			// The first comes to an idle engine, which begins at once; each step takes what has
			// come since the last began.
			came := float64(i) * 7e6
			admitted := math.Ceil(came/float64(step)) * float64(step)
			want := Account{
				Arrival: came, Admitted: admitted, First: admitted + float64(step), Finished: admitted + 15*float64(step),
				Steps: 15, Prompt: 1, Output: 15,
			}
			if d := gocmp.Diff(want, a); d != "" {
				t.Errorf("sequence %d (-want +got):\n%s", i, d)
			}
		}
		st := s.Stats()
		if st.Late.Count() != uint64(st.Steps) || st.Late.Max() != 0 || st.LateLast.Max() != 0 {
			t.Errorf("of %d steps: late %v, the last token %v", st.Steps, st.Late, st.LateLast)
		}
	})
}

// Real steps are never early, and each has its lateness counted.
func TestStepsAreNeverEarly(t *testing.T) {
	s, url := start(t, ServerConfig{Step: fast})
	stream(t, url+"/v1/completions", `{"prompt":"x","stream":true,"max_tokens":50,"ignore_eos":true}`)
	// A step is counted when it has ended, its lateness when its tokens are written.
	var st Stats
	eventually(t, "the lateness of every step is noted", func() bool {
		st = s.Stats()
		return st.Late.Count() == uint64(st.Steps)
	})
	if st.Steps < 50 || st.Late.Min() < 0 {
		t.Errorf("of %d steps one was %d ns early", st.Steps, -st.Late.Min())
	}
	t.Logf("step lateness: p50 %v p99 %v of %d steps", time.Duration(st.Late.Quantile(.5)), time.Duration(st.Late.Quantile(.99)), st.Steps)
}

// The client's generator and the twin's rule count the same tokens.
func TestTokensOfWords(t *testing.T) {
	for seed := range uint64(300) {
		n := int(seed)*7 + 1
		text := workload.Words{}.AppendText(nil, &message.Part{Generator: workload.WordsGenerator, Seed: seed, Tokens: n})
		if got := CountTokens(string(text)); got != n {
			t.Fatalf("seed %d: %d tokens made, %d counted: %q", seed, n, got, text)
		}
	}
	tests := []struct {
		text string
		want []string
	}{
		{"", nil},
		{" a", []string{" a"}},
		{"Don't  stop, now!", []string{"Don't", " ", " stop", ",", " now", "!"}},
		{"x=12345;\n\n", []string{"x", "=", "123", "45", ";", "\n", "\n"}},
		{"日本 語", []string{"日", "本", " 語"}},
		{strings.Repeat("a", 33), []string{strings.Repeat("a", 16), strings.Repeat("a", 16), "a"}},
		{"\xff\xfe", []string{"\xff", "\xfe"}},
	}
	for _, tt := range tests {
		var got []string
		for s := tt.text; s != ""; s = s[nextPiece(s):] {
			got = append(got, s[:nextPiece(s)])
		}
		if d := gocmp.Diff(tt.want, got); d != "" {
			t.Errorf("%q (-want +got):\n%s", tt.text, d)
		}
	}
}

func FuzzCountTokens(f *testing.F) {
	f.Add("The ship, 12 tons.\n")
	f.Add("\xe6\x97 \x00é")
	f.Fuzz(func(t *testing.T, s string) {
		n := CountTokens(s) // ends, without panic
		if n > len(s) || s != "" && n == 0 {
			t.Errorf("%d tokens in %d bytes", n, len(s))
		}
	})
}
