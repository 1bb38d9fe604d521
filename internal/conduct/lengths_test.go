package conduct

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"plimsoll/internal/run"
	"plimsoll/internal/twin"
)

// counter is an endpoint that counts tokens by the twin's rule, and 7 for its
// template; with a tokenizer that answers, or not, and usage, or not.
type counter struct {
	tokenize, usage bool
	bytes           bool  // counts bytes, and no template
	most            int64 // the texts that the tokenizer answers, 0 for all
	asked, sent     atomic.Int64
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Messages  []struct{ Content string }
		Prompt    string
		MaxTokens int `json:"max_tokens"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	count, n := twin.CountTokens, 0
	if c.bytes {
		count = func(s string) int { return len(s) }
	} else if len(body.Messages) > 0 {
		n = 7
	}
	n += count(body.Prompt)
	for _, m := range body.Messages {
		n += count(m.Content)
	}
	if r.URL.Path == "/tokenize" {
		if n := c.asked.Add(1); !c.tokenize || c.most > 0 && n > c.most {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintf(w, `{"count": %d, "tokens": []}`, n)
		return
	}
	c.sent.Add(1)
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"finish_reason\":\"length\"}]}\n\n")
	if c.usage {
		fmt.Fprintf(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":1}}\n\n", n)
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

// ticked writes the file of a workload with the prompts of finance/strategy-simulation,
// which differ most between vocabularies; its requests are not given up when the next
// tick comes.
func ticked(t *testing.T) string {
	t.Helper()
	return writeFile(t, t.TempDir(), "ticks.yaml", "name: mine/ticks\nabout: a\nstresses: [scheduler]\narrival: users\nprompt: {system: 400, turn: {tokens: 'uniform:300..800', content: ticks}}\noutput: uniform:60..120\n")
}

// The lengths of texts whose tokens are not those of most vocabularies come right
// by asking the server, in either way, and what was asked is in the plan and in the
// run.
func TestLengthsAreCalibrated(t *testing.T) {
	f := func(e *counter, workload, lengths string) (*run.Lengths, error) {
		t.Helper()
		s := httptest.NewServer(e)
		defer s.Close()
		sets := []string{"target.url=" + s.URL, "target.model=m", "data.telemetry=none", "load.users=2", "load.requests=24", "seed=11", "users.lengths=" + lengths}
		if workload != "" {
			sets = append(sets, "users.workload="+workload)
		}
		sc := plan(t, sets...)
		p, err := NewPlan(sc, os.ReadFile, ".")
		if err != nil {
			t.Fatal(err)
		}
		if (p.Lengths != nil) != (lengths == "exact") {
			t.Errorf("lengths %s: the plan says %+v", lengths, p.Lengths)
		}
		cfg := config(t, sc)
		cfg.Dir = "."
		res, err := Run(t.Context(), cfg)
		if err != nil {
			return nil, err
		}
		saved, err := run.Open(res.Folder)
		if err != nil {
			t.Fatal(err)
		}
		l := saved.Info().Lengths
		if l != nil && l.Texts != p.Lengths.Texts {
			t.Errorf("%d texts were counted, %d planned", l.Texts, p.Lengths.Texts)
		}
		return l, nil
	}
	ticks := ticked(t)
	withTokenizer := &counter{tokenize: true, usage: true}
	l, err := f(withTokenizer, ticks, "exact")
	if err != nil {
		t.Fatal(err)
	}
	if l.By != run.LengthsTokenize || l.TemplateTokens != 7 || l.BytesPerToken["ticks"] == 0 || *l.Error > 0.03 || l.PromptTokens != 0 || withTokenizer.sent.Load() != 24 {
		t.Errorf("by /tokenize: %+v, error %v; %d requests", l, *l.Error, withTokenizer.sent.Load())
	}
	without := &counter{usage: true}
	if l, err = f(without, ticks, "exact"); err != nil {
		t.Fatal(err)
	}
	if l.By != run.LengthsUsage || *l.Error > 0.03 || l.TemplateTokens < 1 || l.TemplateTokens > 15 || int64(l.Probes) != without.sent.Load()-24 || without.asked.Load() != 1 || l.PromptTokens == 0 {
		t.Errorf("by usage: %+v, error %v; %d requests", l, *l.Error, without.sent.Load())
	}
	// Words are a token each, here too.
	if l, err = f(&counter{tokenize: true, usage: true}, "", "exact"); err != nil || *l.Error > 0.02 {
		t.Errorf("words: %+v, %v", l, err)
	}
	// Nobody asked.
	quiet := &counter{tokenize: true, usage: true}
	if l, err = f(quiet, ticks, "estimated"); err != nil || l != nil || quiet.asked.Load() != 0 || quiet.sent.Load() != 24 {
		t.Errorf("estimated: %+v, %v; %d asked", l, err, quiet.asked.Load())
	}
	silent := &counter{}
	_, err = f(silent, ticks, "exact")
	if _, ok := errors.AsType[*PreflightError](err); !ok || !strings.Contains(err.Error(), "lengths cannot be calibrated") || !strings.Contains(err.Error(), "--tokenizer") || silent.sent.Load() != 1 {
		t.Errorf("a server that counts nothing: %v, %d requests", err, silent.sent.Load())
	}
	// What its tokenizer and its usage say are counts of different things.
	fickle := &counter{tokenize: true, usage: true, most: 3}
	_, err = f(fickle, ticks, "exact")
	if _, ok := errors.AsType[*PreflightError](err); !ok || !strings.Contains(err.Error(), "answers some texts and not others") || fickle.sent.Load() != 0 {
		t.Errorf("a tokenizer that answers three times: %v, %d requests", err, fickle.sent.Load())
	}
}

// With the model's tokenizer every generated prompt has exactly the asked length:
// synthetic ones, those of a workload, those of a trace.
func TestTokenizerCutsExactly(t *testing.T) {
	ranks := writeRanks(t) // every byte is a token
	for name, sets := range map[string][]string{
		"synthetic": {"users.prompt-tokens=uniform:60..900", "load.users=2", "load.requests=10"},
		"workload":  {"users.workload=" + ticked(t), "load.users=2", "load.requests=10"},
		"trace":     {"users.trace=" + published + "mooncake_conversation.jsonl.gz", "users.until=10s", "users.speed=50", "load.requests=12"},
		"data set":  {"users.dataset=" + published + "azure_2023_code.csv.gz", "load.users=2", "load.requests=10", "users.content=ticks"},
	} {
		t.Run(name, func(t *testing.T) {
			e := &counter{bytes: true, usage: true}
			s := httptest.NewServer(e)
			defer s.Close()
			sets = append(sets, "target.url="+s.URL, "target.model=m", "data.telemetry=none", "seed=11", "users.lengths=exact", "target.tokenizer=r50k:"+ranks)
			cfg := config(t, plan(t, sets...))
			cfg.Dir = "."
			res, err := Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			saved, err := run.Open(res.Folder)
			if err != nil {
				t.Fatal(err)
			}
			l := saved.Info().Lengths
			if l == nil || l.By != run.LengthsTokenizer || l.Error == nil || *l.Error > 0.002 || e.asked.Load() != 0 {
				t.Errorf("lengths %+v", l)
			}
			n := 0
			for r := range saved.Requests() {
				n++
				// Between two blocks of a trace is a space, which is a token of its own only
				// where every byte is.
				if seams := r.AskedPrompt / 512; r.Prompt < r.AskedPrompt || r.Prompt > r.AskedPrompt+seams || name != "trace" && r.Prompt != r.AskedPrompt {
					t.Fatalf("%d tokens, %d asked for", r.Prompt, r.AskedPrompt)
				}
			}
			if n < 10 {
				t.Errorf("%d requests", n)
			}
		})
	}
}
