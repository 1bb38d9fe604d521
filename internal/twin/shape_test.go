package twin

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

// event is a chat event with everything that an answer can have.
type event struct {
	Choices []struct {
		Delta struct {
			Content   string
			Reasoning string `json:"reasoning_content"`
			Calls     []call `json:"tool_calls"`
		}
		FinishReason string `json:"finish_reason"`
	}
	Usage *usage
}

type call struct {
	Index    int
	ID       string
	Function struct{ Name, Arguments string }
}

type usage struct {
	Completion int `json:"completion_tokens"`
	Details    *struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

type whole struct {
	Choices []struct {
		Message struct {
			Content   *string
			Reasoning string `json:"reasoning_content"`
			Calls     []call `json:"tool_calls"`
		}
		Text         string
		FinishReason string `json:"finish_reason"`
	}
	Usage usage
}

func events(t *testing.T, url, ask string) []event {
	t.Helper()
	status, answer := post(t, url+"/v1/chat/completions", ask)
	if status != 200 {
		t.Fatalf("status %d: %s", status, answer)
	}
	var all []event
	for line := range strings.SplitSeq(answer, "\n\n") {
		if data := strings.TrimPrefix(line, "data: "); data != "" && data != "[DONE]" {
			var e event
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			all = append(all, e)
		}
	}
	return all
}

func askWhole(t *testing.T, url, body string) whole {
	t.Helper()
	status, answer := post(t, url, body)
	var w whole
	if err := json.Unmarshal([]byte(answer), &w); err != nil || status != 200 || len(w.Choices) == 0 {
		t.Fatalf("status %d, %v: %s", status, err, answer)
	}
	return w
}

const talk = `"messages":[{"role":"user","content":"Where does the old ship sail?"}]`

func TestReasoning(t *testing.T) { synctest.Test(t, testReasoning) }

func testReasoning(t *testing.T) {
	_, url := startFake(t, ServerConfig{Step: fast})
	tests := []struct {
		asked string
		want  int // of 40 tokens
	}{
		{`"chat_template_kwargs":{"enable_thinking":true}`, 20},
		{`"chat_template_kwargs":{"thinking":true}`, 20},
		{`"reasoning_effort":"low"`, 10},
		{`"reasoning_effort":"high"`, 30},
		{`"reasoning_effort":"high","chat_template_kwargs":{"enable_thinking":false}`, -1},
		{`"reasoning_effort":"none"`, -1},
		{`"x":1`, -1},
	}
	for _, tt := range tests {
		body := `{"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"max_tokens":40,"ignore_eos":true,` + talk + "," + tt.asked + "}"
		thought, said, pieces := "", "", 0
		var last usage
		for i, e := range events(t, url, body) {
			last = *e.Usage
			if len(e.Choices) == 0 || i == 0 {
				continue
			}
			d := e.Choices[0].Delta
			if said != "" && d.Reasoning != "" || d.Reasoning != "" && d.Content != "" {
				t.Errorf("%s: reasoning after the answer began: %+v", tt.asked, d)
			}
			if d.Reasoning != "" {
				pieces++
				if last.Details.Reasoning != pieces {
					t.Errorf("%s: running usage says %d of %d tokens of reasoning", tt.asked, last.Details.Reasoning, pieces)
				}
			}
			thought += d.Reasoning
			said += d.Content
		}
		if n := CountTokens(thought); n != max(tt.want, 0) || CountTokens(said) != 40-n {
			t.Errorf("%s: %d tokens of reasoning and %d of answer", tt.asked, n, CountTokens(said))
		}
		if last.Completion != 40 || (last.Details == nil) != (tt.want < 0) || last.Details != nil && last.Details.Reasoning != tt.want {
			t.Errorf("%s: usage %+v %+v", tt.asked, last, last.Details)
		}
		w := askWhole(t, url+"/v1/chat/completions", strings.Replace(body, `"stream":true,`, "", 1))
		if m := w.Choices[0].Message; m.Reasoning != thought || *m.Content != said {
			t.Errorf("%s: whole answer %q and %q, stream %q and %q", tt.asked, m.Reasoning, *m.Content, thought, said)
		}
		if !strings.HasPrefix(strings.ToUpper(said), said[:1]) || said[0] == ' ' {
			t.Errorf("%s: the answer starts in the middle: %q", tt.asked, said)
		}
	}
}

func TestCalls(t *testing.T) { synctest.Test(t, testCalls) }

func testCalls(t *testing.T) {
	_, url := startFake(t, ServerConfig{Step: fast})
	tools := `"tools":[{"type":"function","function":{"name":"find"}},{"type":"function","function":{"name":"sail \"home\""}}],`
	for choice, want := range map[string]string{`"required"`: "find", `{"type":"function","function":{"name":"sail \"home\""}}`: `sail "home"`} {
		for _, limit := range []string{`"max_tokens":20000`, `"max_tokens":30,"ignore_eos":true`, `"max_tokens":1`} {
			body := `{"stream":true,"stream_options":{"include_usage":true},` + limit + `,` + tools + `"tool_choice":` + choice + "," + talk + "}"
			arguments, name, id, finish, n, tokens := "", "", "", "", 0, 0
			for _, e := range events(t, url, body) {
				if e.Usage != nil {
					tokens = e.Usage.Completion
				}
				for _, c := range e.Choices {
					if c.Delta.Content != "" {
						t.Errorf("content %q beside a call", c.Delta.Content)
					}
					finish += c.FinishReason
					for _, call := range c.Delta.Calls {
						n++
						name += call.Function.Name
						id += call.ID
						arguments += call.Function.Arguments
					}
				}
			}
			complete := finish == "tool_calls"
			if name != want || !strings.HasPrefix(id, "call_") || n != tokens || complete != strings.Contains(limit, "20000") || !complete && finish != "length" {
				t.Errorf("%s %s: name %q, id %q, %d events of %d tokens, finish %q", choice, limit, name, id, n, tokens, finish)
			}
			var parsed struct{ Text string }
			if err := json.Unmarshal([]byte(arguments), &parsed); (err == nil) != complete || complete && CountTokens(parsed.Text) != tokens-1 {
				t.Errorf("%s %s: arguments %q of %d tokens: %v", choice, limit, arguments, tokens, err)
			}
			m := askWhole(t, url+"/v1/chat/completions", strings.Replace(body, `"stream":true,`, "", 1)).Choices[0]
			if len(m.Message.Calls) != 1 || m.Message.Calls[0].Function.Arguments != arguments || m.Message.Calls[0].Function.Name != want || m.FinishReason != finish || m.Message.Content != nil {
				t.Errorf("%s %s: whole answer %+v", choice, limit, m)
			}
		}
	}
	for _, words := range []string{tools + `"tool_choice":"auto",`, tools, tools + `"tool_choice":"none",`, ""} {
		if m := askWhole(t, url+"/v1/chat/completions", `{`+words+`"max_tokens":5,`+talk+`}`).Choices[0].Message; len(m.Calls) > 0 || *m.Content == "" {
			t.Errorf("%s: %+v", words, m)
		}
	}
	for body, want := range map[string]string{
		`{"tool_choice":"required",` + talk + `}`:                                                  "no function is offered",
		`{` + tools + `"tool_choice":{"type":"function","function":{"name":"swim"}},` + talk + `}`: `\"swim\" is not among`,
	} {
		if status, answer := post(t, url+"/v1/chat/completions", body); status != 400 || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
}

func TestStop(t *testing.T) { synctest.Test(t, testStop) }

func testStop(t *testing.T) {
	_, url := startFake(t, ServerConfig{Step: fast})
	url += "/v1/completions"
	full := askWhole(t, url, `{"prompt":"ship","max_tokens":2000,"ignore_eos":true}`).Choices[0].Text
	words := strings.Fields(full)
	third := words[20] + " " + words[21]
	for _, tt := range []struct{ stop, at string }{
		{".", "."}, {third, third}, {third[1:], third[1:]}, {". ", ". "},
	} {
		at := strings.Index(full, tt.at)
		for _, keep := range []bool{false, true} {
			want := full[:at]
			if keep {
				want = full[:at+len(tt.at)]
			}
			body := fmt.Sprintf(`{"prompt":"ship","max_tokens":2000,"ignore_eos":true,"stop":["never said",%q],"include_stop_str_in_output":%v}`, tt.stop, keep)
			w := askWhole(t, url, body)
			tokens := CountTokens(full[:at+len(tt.at)])
			if tt.stop == ". " {
				tokens = CountTokens(full[:at+1]) + 1 // the space comes with the next word
			}
			if got := w.Choices[0]; got.Text != want || got.FinishReason != "stop" || w.Usage.Completion != tokens {
				t.Errorf("stop %q keep %v: %q, finish %q, %d tokens; want %q, %d tokens", tt.stop, keep, got.Text, got.FinishReason, w.Usage.Completion, want, tokens)
			}
			said := ""
			all := stream(t, url, strings.Replace(body, "{", `{"stream":true,`, 1))
			for _, c := range all {
				said += c.Choices[0].Text
			}
			if said != want || all[len(all)-1].Choices[0].FinishReason != "stop" {
				t.Errorf("stop %q keep %v: stream says %q", tt.stop, keep, said)
			}
		}
	}
	if w := askWhole(t, url, `{"prompt":"ship","max_tokens":50,"ignore_eos":true,"stop":"never said"}`); w.Choices[0].FinishReason != "length" || w.Usage.Completion != 50 {
		t.Errorf("no stop: %+v", w)
	}
}

// Events of several tokens have the same text; the first comes alone, as from
// vLLM.
func TestTokensPerEvent(t *testing.T) { synctest.Test(t, testTokensPerEvent) }

func testTokensPerEvent(t *testing.T) {
	_, one := startFake(t, ServerConfig{Step: fast})
	_, many := startFake(t, ServerConfig{Step: fast, TokensPerEvent: 8})
	for _, extra := range []string{`"x":1`, `"reasoning_effort":"medium"`, `"tools":[{"function":{"name":"f"}}],"tool_choice":"required"`} {
		body := `{"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"max_tokens":50,"ignore_eos":true,` + extra + "," + talk + "}"
		join := func(url string) (text string, counts []int) {
			for _, e := range events(t, url, body) {
				for _, c := range e.Choices {
					text += c.Delta.Content + c.Delta.Reasoning
					for _, call := range c.Delta.Calls {
						text += call.Function.Name + call.Function.Arguments
					}
				}
				if n := e.Usage.Completion; len(counts) == 0 || counts[len(counts)-1] < n {
					counts = append(counts, n)
				}
			}
			return text, counts
		}
		want, all := join(one)
		got, counts := join(many)
		if got != want {
			t.Errorf("%s: %q, want %q", extra, got, want)
		}
		if len(all) != 50 || counts[0] != 1 || counts[1] != 9 || counts[2] != 17 || counts[len(counts)-1] != 50 || len(counts) > 9 {
			t.Errorf("%s: events after %v tokens", extra, counts)
		}
	}
}

// An answer is sentences, from its first word, and the same however long it may
// get.
func TestTextIsSentences(t *testing.T) {
	for seed := range uint64(50) {
		s := speech{seed: seed, left: 3000, cut: -1}
		var text strings.Builder
		for range 3000 {
			piece := s.next()
			if CountTokens(piece) != 1 {
				t.Fatalf("seed %d: %q is %d tokens", seed, piece, CountTokens(piece))
			}
			text.WriteString(piece)
		}
		all := strings.SplitAfter(text.String(), ".")
		for i, sentence := range all[:len(all)-1] {
			if i > 0 {
				if !strings.HasPrefix(sentence, " ") {
					t.Errorf("seed %d: no space before %q", seed, sentence)
				}
				sentence = sentence[1:]
			}
			if sentence[0] < 'A' || sentence[0] > 'Z' || strings.Count(sentence, " ") < 3 {
				t.Errorf("seed %d: %q is no sentence", seed, sentence)
			}
		}
		if CountTokens(text.String()) != 3000 {
			t.Errorf("seed %d: %d tokens", seed, CountTokens(text.String()))
		}
	}
}

func TestTokenize(t *testing.T) {
	_, url := start(t, ServerConfig{Step: fast})
	get := func(body string) (r struct {
		Count   int
		Longest int `json:"max_model_len"`
		Tokens  []int
		Strings []string `json:"token_strs"`
	},
	) {
		t.Helper()
		status, answer := post(t, url+"/tokenize", body)
		if err := json.Unmarshal([]byte(answer), &r); err != nil || status != 200 {
			t.Fatalf("%s: %d, %v: %s", body, status, err, answer)
		}
		if len(r.Tokens) != r.Count || r.Longest != 131072 {
			t.Errorf("%s: %+v", body, r)
		}
		return r
	}
	long := get(`{"prompt":"The old ship, the old crew","return_token_strs":true}`)
	short := get(`{"prompt":"The old ship"}`)
	if long.Count != 7 || strings.Join(long.Strings, "") != "The old ship, the old crew" || fmt.Sprint(short.Tokens) != fmt.Sprint(long.Tokens[:3]) || long.Tokens[1] != long.Tokens[5] || long.Tokens[0] == long.Tokens[1] {
		t.Errorf("%+v and %+v", long, short)
	}
	if chat := get(`{` + talk + `}`); chat.Count != 17 {
		t.Errorf("%+v", chat)
	}
	for _, path := range []string{"/ping", "/reset_prefix_cache"} {
		if status, answer := post(t, url+path, ""); status != 200 || answer != "" {
			t.Errorf("%s: %d %q", path, status, answer)
		}
	}
	for _, path := range []string{"/ping", "/health"} {
		fetch(t, url+path)
	}
	if got := fetch(t, url+"/load"); got != `{"server_load":0}` {
		t.Errorf("load: %s", got)
	}
	var models struct {
		Data []struct {
			ID, Root string
			Longest  int `json:"max_model_len"`
		}
	}
	if err := json.Unmarshal([]byte(fetch(t, url+"/v1/models")), &models); err != nil || len(models.Data) != 1 || models.Data[0].Longest != 131072 || models.Data[0].Root == "" {
		t.Errorf("models: %v %+v", err, models)
	}
}
