package twin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"plimsoll/internal/dialect"
	"plimsoll/internal/message"
	"plimsoll/internal/workload/content"
)

type cachedUsage struct {
	Usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Details    *struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	Choices []struct {
		Message struct{ Content string }
	}
}

// What two prompts share is in the cache, in whole blocks, and an answer that is
// sent back is, too.
func TestPrefixCache(t *testing.T) { synctest.Test(t, testPrefixCache) }

func testPrefixCache(t *testing.T) {
	s, url := startFake(t, ServerConfig{})
	words := func(seed uint64, n int) string {
		sp := speech{seed: seed, left: n, cut: -1}
		text := ""
		for range n {
			text += sp.next()
		}
		return text
	}
	say := func(path, body string) (u cachedUsage) {
		t.Helper()
		status, answer := post(t, url+path, body)
		synctest.Wait() // what the server does after an answer
		if err := json.Unmarshal([]byte(answer), &u); err != nil || status != 200 || u.Usage.Details == nil {
			t.Fatalf("status %d, %v: %s", status, err, answer)
		}
		return u
	}
	complete := func(text string, want int) {
		t.Helper()
		u := say("/v1/completions", fmt.Sprintf(`{"prompt":%q,"max_tokens":4,"n":2,"ignore_eos":true}`, text))
		if u.Usage.Details.Cached != want {
			t.Errorf("prompt of %d tokens: %d cached, want %d", u.Usage.Prompt, u.Usage.Details.Cached, want)
		}
	}
	base := words(1, 100)
	complete(base, 0)
	complete(base, 96)                           // 6 blocks
	complete(base+" and more of it", 96)         // the seventh was not full
	complete(words(1, 32), 16)                   // one token is always computed
	complete(words(1, 33), 32)                   // or more
	complete("Else "+base, 0)                    // nothing from the beginning
	complete(words(1, 40)+" "+words(2, 100), 32) // 40 tokens are two blocks and a half

	// A conversation: each turn finds the turn before and its answer.
	converse := func() {
		history := []map[string]string{{"role": "system", "content": words(3, 50)}}
		computed := 0
		for turn := range 5 {
			history = append(history, map[string]string{"role": "user", "content": words(uint64(10+turn), 30)})
			b, err := json.Marshal(map[string]any{"messages": history, "max_tokens": 70, "ignore_eos": true})
			if err != nil {
				t.Fatal(err)
			}
			u := say("/v1/chat/completions", string(b))
			if turn > 0 {
				// All tokens of the turn before but the last, which is never computed.
				if want := (computed - 1) / 16 * 16; u.Usage.Details.Cached != want {
					t.Errorf("turn %d: %d of %d tokens cached, want %d", turn, u.Usage.Details.Cached, u.Usage.Prompt, want)
				}
			}
			computed = u.Usage.Prompt + u.Usage.Completion
			history = append(history, map[string]string{"role": "assistant", "content": u.Choices[0].Message.Content})
		}
	}
	converse()
	var prompts, hits int64
	for _, a := range s.Accounts() {
		prompts += int64(a.Prompt)
		hits += int64(a.Cached)
	}
	page := mustParse(t, fetch(t, url+"/metrics"))
	for name, want := range map[string]int64{"prefix_cache_queries": prompts, "prefix_cache_hits": hits, "prompt_tokens_cached": hits} {
		if got := total(page, "vllm:"+name+"_total", "vllm:"+name+"_total"); got != float64(want) {
			t.Errorf("%s: %v, want %d", name, got, want)
		}
	}
	if v := total(page, "vllm:kv_cache_usage_perc", "vllm:kv_cache_usage_perc"); v != 0 {
		t.Errorf("what is only cached counts as used: %v", v)
	}
	if status, _ := post(t, url+"/reset_prefix_cache", ""); status != 200 {
		t.Errorf("reset: %d", status)
	}
	complete(base, 0)
	complete(base, 96)
	converse() // what was forgotten is found again when it has been said again
	_, off := startFake(t, ServerConfig{NoPrefixCache: true})
	for range 2 {
		_, answer := post(t, off+"/v1/completions", fmt.Sprintf(`{"prompt":%q,"max_tokens":2}`, base))
		if strings.Contains(answer, "cached_tokens") {
			t.Errorf("without a cache: %s", answer)
		}
	}
}

// Prompts are counted, and what of them was cached, at their first token: a hit on
// whose prompt the engine still works takes nothing back from the page.
func TestSourcesOfPromptsOnlyGrow(t *testing.T) { synctest.Test(t, testSourcesOfPromptsOnlyGrow) }

func testSourcesOfPromptsOnlyGrow(t *testing.T) {
	_, url := startFake(t, ServerConfig{})
	base := strings.Repeat(" word", 3000)
	post(t, url+"/v1/completions", fmt.Sprintf(`{"prompt":%q,"max_tokens":1}`, base))
	figures := func() (hits, prompts, computed, cached float64) {
		page := mustParse(t, fetch(t, url+"/metrics"))
		get := func(name string, labels ...string) float64 {
			return total(page, "vllm:"+name+"_total", "vllm:"+name+"_total", labels...)
		}
		return get("prefix_cache_hits"), get("prompt_tokens"), get("prompt_tokens_by_source", "source", "local_compute"), get("prompt_tokens_by_source", "source", "local_cache_hit")
	}
	if hits, prompts, computed, cached := figures(); hits != 0 || prompts != 3000 || computed != 3000 || cached != 0 {
		t.Fatalf("%v hits, %v prompt tokens, %v computed and %v cached", hits, prompts, computed, cached)
	}
	// Seconds of prefill.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	body := fmt.Sprintf(`{"prompt":%q,"max_tokens":1}`, base+strings.Repeat(" more", 100_000))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		if resp, err := clientOf(url).Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	eventually(t, "the cached prefix is found", func() bool {
		hits, prompts, computed, cached := figures()
		if computed < 3000 || prompts != computed+cached {
			t.Fatalf("%v hits, %v prompt tokens, %v computed and %v cached", hits, prompts, computed, cached)
		}
		return hits > 0
	})
	cancel()
	<-left
}

// What is remembered of answers is bounded.
func TestAnswersAreForgotten(t *testing.T) {
	var a answers
	content := make([]Extent, maxTold/10-toldOverhead)
	for i := range uint64(50) {
		a.put(i, told{content, 1})
	}
	if len(a.known) != 10 || a.size > maxTold || len(a.order) != 10 {
		t.Errorf("%d answers of %d extents", len(a.known), a.size)
	}
	if _, ok := a.known[49]; !ok {
		t.Error("the latest was forgotten")
	}
}

// Of short prompts, too, no more is remembered than the bound says, whatever it takes to
// find them.
func TestShortAnswersAreForgotten(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector takes memory")
	}
	live := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := live()
	var a answers
	for i := range uint64(2_000_000) {
		a.put(i, told{[]Extent{{ID: i, Tokens: 16}}, 1})
	}
	if took := int64(live() - before); took > 16*maxTold {
		t.Errorf("%d answers take %d bytes, more than %d", len(a.known), took, 16*maxTold)
	}
	if len(a.known) < maxTold/20 {
		t.Errorf("only %d answers are remembered", len(a.known))
	}
}

// A chat costs what its template adds, whatever is in it.
func TestPromptTokens(t *testing.T) {
	s, err := NewServer(ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	r := &dialect.ServerRequest{Messages: []dialect.ServerMessage{{Role: "system", Text: "Be brief."}, {Role: "user", Text: strings.Repeat("ship ", 100)}}}
	p := s.promptsOf(dialect.OpenAIChat, r)[0]
	if want := templateTokens + 2*templateMessageTokens + 3 + 101; p.tokens != want {
		t.Errorf("%d tokens, want %d", p.tokens, want)
	}
	n := 0
	for _, e := range p.content {
		n += e.Tokens
	}
	if n != p.tokens || len(p.content) != (n+15)/16 {
		t.Errorf("%d extents of %d tokens", len(p.content), n)
	}
}

// An image and a sound count as many tokens as a common model makes of them, and the
// same ones at the same place are found in the cache.
func TestServerCountsMedia(t *testing.T) {
	_, url := start(t, ServerConfig{})
	ask := func(seed uint64) (status int, u cachedUsage) {
		t.Helper()
		req := message.Request{MaxTokens: 1, Parts: []message.Part{
			{Text: "Look at"},
			{Media: &message.Media{Kind: message.Image, Width: 300, Height: 200, Seed: seed}},
			{Media: &message.Media{Kind: message.Audio, Seconds: 2.5, Seed: seed}},
			{Text: " What is it?"},
		}}
		body, err := dialect.AppendRequest(nil, dialect.OpenAIChat, &req, new(content.Renderer), &dialect.Options{})
		if err != nil {
			t.Fatal(err)
		}
		status, answer := post(t, url+"/v1/chat/completions", string(body))
		if err := json.Unmarshal([]byte(answer), &u); err != nil {
			t.Fatalf("%v: %s", err, answer)
		}
		return status, u
	}
	_, answer := post(t, url+"/v1/chat/completions", `{"messages":[{"role":"user","content":"Look at What is it?"}],"max_tokens":1}`)
	var bare cachedUsage
	if err := json.Unmarshal([]byte(answer), &bare); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	status, first := ask(1)
	// 11 x 8 squares of 28 pixels and 63 twenty-fifths of a second.
	if got := first.Usage.Prompt - bare.Usage.Prompt; status != 200 || got != 88+63 {
		t.Errorf("status %d, media of %d tokens, want 151", status, got)
	}
	if _, again := ask(1); again.Usage.Details.Cached < 151 {
		t.Errorf("%d tokens were found again", again.Usage.Details.Cached)
	}
	if _, other := ask(2); other.Usage.Details.Cached > 16 {
		t.Errorf("%d tokens of other media were found", other.Usage.Details.Cached)
	}
	status, answer = post(t, url+"/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://a/b.png"}}]}]}`)
	if status != 400 || !strings.Contains(answer, "nothing is fetched here") {
		t.Errorf("an image by its address: %d %s", status, answer)
	}
}
