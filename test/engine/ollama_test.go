package engine_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll/test/gguf"
	"plimsoll/test/process"
)

// script is what the model says to everything: words, and characters whose
// bytes are spread over two, three and four tokens.
var script = gguf.Script{Pieces: []string{
	"The", " harbour", " master", " marks", " caf", "\xc3", "\xa9", " and", " \xe2\x9a\x93", "\xe6", "\x97", "\xa5", "\xf0", "\x9f", "\x98", "\x80",
	" on", " every", " hull", ",", " so", " that", " nobody", " loads", " past", " the", " line", " which", " holds", " it", " up", ".",
}}

// chat is the conversation format, as simple as one can be.
const chat = `{{- range .Messages }}<|im_start|>{{ .Role }}
{{ .Content }}<|im_end|>
{{ end }}<|im_start|>assistant
`

// ollama is one running engine that serves model "scripted".
type ollama struct {
	url string
	log string // path of its log
}

// start runs the engine that PLIMSOLL_ENGINE names on a free loopback port, in a
// home of its own, and waits until it serves the script. It is stopped by its
// process id when the test ends.
func start(t *testing.T) *ollama {
	t.Helper()
	binary := os.Getenv("PLIMSOLL_ENGINE")
	if binary == "" {
		t.Skip("no real engine: `make engine` builds one and sets PLIMSOLL_ENGINE")
	}
	for range 10 {
		home := t.TempDir()
		addr := process.FreeAddr(t)
		e := &ollama{"http://" + addr, filepath.Join(home, "log")}
		env := []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "OLLAMA_HOST=" + addr, "OLLAMA_MODELS=" + filepath.Join(home, "models"),
			"OLLAMA_KEEP_ALIVE=-1", "OLLAMA_NUM_PARALLEL=4", "OLLAMA_CONTEXT_LENGTH=2048", "OLLAMA_NOHISTORY=1",
		}
		ended := e.launch(t, binary, env)
		answers := false
		process.Until(t, "the engine answers", func() bool {
			select {
			case <-ended:
				return true
			default:
			}
			r, err := (&http.Client{Timeout: 20 * time.Second}).Get(e.url)
			if err == nil {
				r.Body.Close()
				answers = true
			}
			return answers
		})
		if answers {
			e.load(t, binary, home, env)
			return e
		}
		if said, _ := os.ReadFile(e.log); !process.Taken(string(said)) {
			t.Fatalf("the engine ended before it served: %s", said)
		}
		t.Log("another program has the port of the engine: another one")
	}
	t.Fatal("the engine: of 10 ports none is free")
	return nil
}

// launch starts the engine; what it returns is closed when it has ended.
func (e *ollama) launch(t *testing.T, binary string, env []string) <-chan struct{} {
	t.Helper()
	log, err := os.Create(e.log)
	if err != nil {
		t.Fatal(err)
	}
	serve := exec.Command(binary, "serve")
	serve.Env, serve.Stdout, serve.Stderr = env, log, log
	serve.SysProcAttr = ownGroup() // its runner is a child of its own
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		serve.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		serve.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(process.Patience):
			t.Errorf("the engine did not stop within %v of SIGTERM", process.Patience)
		}
		killGroup(serve.Process.Pid) // what it may have left
		<-ended
		log.Close()
		if t.Failed() {
			b, _ := os.ReadFile(e.log)
			t.Logf("the engine's log ends:\n%s", b[max(0, len(b)-4000):])
		}
	})
	return ended
}

// load has the engine take in the script as its model.
func (e *ollama) load(t *testing.T, binary, home string, env []string) {
	t.Helper()
	var model bytes.Buffer
	if err := gguf.Write(&model, script); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(home, "m.gguf"), model.Bytes())
	write(t, filepath.Join(home, "Modelfile"), fmt.Appendf(nil,
		"FROM ./m.gguf\nTEMPLATE \"\"\"%s\"\"\"\nPARAMETER num_thread 1\nPARAMETER num_predict 256\n", chat))
	create := exec.Command(binary, "create", "scripted", "-f", "Modelfile")
	create.Dir, create.Env = home, env
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("create the model: %v\n%s", err, out)
	}
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// native is the last line of an answer on the engine's own API, which says how
// long the engine itself took.
type native struct {
	Message         struct{ Content string }
	DoneReason      string        `json:"done_reason"`
	PromptEvalCount int           `json:"prompt_eval_count"`
	PromptEval      time.Duration `json:"prompt_eval_duration"`
	EvalCount       int           `json:"eval_count"`
}

// ask puts one question on the engine's own API.
func (e *ollama) ask(t *testing.T, prompt string) native {
	t.Helper()
	var n native
	b := e.post(t, "/api/chat", map[string]any{
		"model": "scripted", "stream": false, "messages": []any{map[string]string{"role": "user", "content": prompt}},
	})
	if err := json.Unmarshal(b, &n); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return n
}

func (e *ollama) post(t *testing.T, path string, body any) []byte {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.Post(e.url+path, "application/json", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err = io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("POST %s: %s %v %s", path, r.Status, err, b)
	}
	return b
}

// served is what the engine itself logged of its requests to one path.
type served struct {
	n, failed int
	took      []time.Duration
}

// [GIN] 2026/01/02 - 15:04:05 | 200 |   36.4ms |  127.0.0.1 | POST  "/v1/chat/completions"
var access = regexp.MustCompile(`(?m)^\[GIN\] .*? \| +(\d+) \| +([0-9.a-zµ]+) \| .*\| POST +"([^"]+)"`)

// served reads the engine's log: Ollama has no counters, but it logs each
// request with its status and the time that it took.
func (e *ollama) served(t *testing.T, path string) served {
	t.Helper()
	b, err := os.ReadFile(e.log)
	if err != nil {
		t.Fatal(err)
	}
	var s served
	for _, m := range access.FindAllStringSubmatch(string(b), -1) {
		if m[3] != path {
			continue
		}
		d, err := time.ParseDuration(m[2])
		if err != nil {
			t.Fatalf("engine's log: %q: %v", m[0], err)
		}
		s.n++
		s.took = append(s.took, d)
		if m[1] != "200" {
			s.failed++
		}
	}
	return s
}

// TestEngine asks the engine without Plimsoll, by its own API and by OpenAI's:
// what the other tests expect of a run is what an independent client sees.
func TestEngine(t *testing.T) {
	e := start(t)
	n := e.ask(t, "Hello harbour")
	if n.Message.Content != script.Text() || n.EvalCount != script.Tokens() || n.DoneReason != "stop" {
		t.Errorf("native answer %q, %d tokens, %s; want %q, %d, stop", n.Message.Content, n.EvalCount, n.DoneReason, script.Text(), script.Tokens())
	}
	if n.PromptEval <= 0 {
		t.Errorf("native prompt time %v", n.PromptEval)
	}
	// begin, <|im_start|>, "user", newline, 13 characters, <|im_end|>, newline, <|im_start|>, "assistant", newline
	if want := 1 + 1 + 4 + 1 + 13 + 1 + 1 + 1 + 9 + 1; n.PromptEvalCount != want {
		t.Errorf("native prompt of %d tokens, want %d", n.PromptEvalCount, want)
	}
	var text strings.Builder
	var usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	}
	for line := range strings.Lines(string(e.post(t, "/v1/chat/completions", map[string]any{
		"model": "scripted", "stream": true, "stream_options": map[string]any{"include_usage": true},
		"messages": []any{map[string]string{"role": "user", "content": "Hello harbour"}},
	}))) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var c struct {
			Choices []struct{ Delta struct{ Content string } }
			Usage   any
		}
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		for _, ch := range c.Choices {
			text.WriteString(ch.Delta.Content)
		}
		if c.Usage != nil {
			b, _ := json.Marshal(c.Usage)
			if err := errors.Join(json.Unmarshal(b, &usage)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if text.String() != script.Text() || usage.Completion != script.Tokens() || usage.Prompt != n.PromptEvalCount {
		t.Errorf("streamed answer %q, usage %+v; want %q, %d and %d", text.String(), usage, script.Text(), n.PromptEvalCount, script.Tokens())
	}
	if s := e.served(t, "/v1/chat/completions"); s.n != 1 || s.failed != 0 || s.took[0] <= 0 {
		t.Errorf("the engine logged %+v, want one request", s)
	}
}
