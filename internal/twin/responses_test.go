package twin

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"plimsoll/internal/dialect"
	"plimsoll/internal/message"
)

// answered is what a client has of an answer, by either API.
type answered struct {
	Text, Reasoning, Finish string
	Calls                   []dialect.Call
	Usage                   dialect.Usage
}

// askIn sends a request in the words of an API and reads the answer as the client does.
func askIn(t *testing.T, url string, api dialect.API, req *message.Request, o *dialect.Options) (answered, string) {
	t.Helper()
	body, err := dialect.AppendRequest(nil, api, req, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	status, answer := post(t, url+api.Path(), string(body))
	if status != 200 {
		t.Fatalf("%s: status %d: %s", body, status, answer)
	}
	var d dialect.Decoder
	d.Reset(api, true)
	if !o.Stream {
		d.Body([]byte(answer))
	} else {
		for e := range strings.SplitSeq(strings.TrimSuffix(answer, "\n\n"), "\n\n") {
			var name, data []byte
			for line := range strings.SplitSeq(e, "\n") {
				if v, ok := strings.CutPrefix(line, "event: "); ok {
					name = []byte(v)
				}
				if v, ok := strings.CutPrefix(line, "data: "); ok {
					data = []byte(v)
				}
			}
			d.Event(name, data)
		}
		if !d.Result().Done {
			t.Errorf("%s: the stream has no end: %s", api, answer)
		}
	}
	if d.Result().Bad || !d.Result().Finished {
		t.Errorf("%s: %+v", answer, d.Result())
	}
	r := d.Result()
	first := func(texts []string) string {
		if len(texts) == 0 {
			return ""
		}
		return texts[0]
	}
	return answered{first(r.Text), first(r.Reasoning), r.Finish, r.Calls, r.Usage}, r.ID
}

// bytes is how much is kept.
func (c *dialogues) bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size
}

// A conversation that the server keeps has the same tokens as one that comes whole each
// time: the same prompts, found in the prefix cache as far, and the same answers.
func TestKeptHistoryIsTheSameTokens(t *testing.T) {
	question := func(turn int) message.Part {
		return message.Part{Text: fmt.Sprintf("Question %d: %s?", turn, strings.Repeat(" what of the ship", 9))}
	}
	f := func(name string, shape func(turn int, req *message.Request), stream bool) {
		test := func(t *testing.T) {
			var got [2][]answered
			for i, api := range []dialect.API{dialect.OpenAIChat, dialect.OpenAIResponses} {
				_, url := startFake(t, ServerConfig{}) // steps of one length have no cache
				parts := []message.Part{{Role: message.System, Text: "You know all ships. " + strings.Repeat("Be terse. ", 12)}}
				known, previous := 0, ""
				for turn := range 5 {
					parts = append(parts, question(turn))
					req := message.Request{Parts: parts, MaxTokens: 20, Exact: true, Again: true}
					if api == dialect.OpenAIResponses {
						req.Previous, req.Known = previous, known
					}
					shape(turn, &req)
					a, id := askIn(t, url, api, &req, &dialect.Options{Stream: stream, Usage: true})
					got[i] = append(got[i], a)
					previous = id
					switch {
					case len(a.Calls) > 0:
						parts = append(parts, message.Part{Role: message.Assistant, Calls: []message.Call{message.Call(a.Calls[0])}})
						known = len(parts)
						parts = append(parts, message.Part{Role: message.Tool, CallID: a.Calls[0].ID, Text: "nothing found"})
					default:
						parts = append(parts, message.Part{Role: message.Assistant, Text: a.Text})
						known = len(parts)
					}
				}
			}
			// Chat says nothing of reasoning when nothing was asked for, responses always.
			for i := range got[0] {
				got[0][i].Usage.Reasoning = max(0, got[0][i].Usage.Reasoning)
			}
			if d := gocmp.Diff(got[0], got[1]); d != "" {
				t.Errorf("(-chat +responses):\n%s", d)
			}
			last := got[1][4].Usage
			if last.Cached < last.Prompt/2 || last.Prompt < 300 {
				t.Errorf("of the last prompt of %d tokens %d were cached: nothing is shared", last.Prompt, last.Cached)
			}
		}
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
	f("plain", func(int, *message.Request) {}, true)
	f("whole", func(int, *message.Request) {}, false)
	f("reasoning", func(_ int, req *message.Request) { req.ReasoningEffort = "high" }, true)
	f("tools", func(turn int, req *message.Request) {
		req.Tools = []message.Function{{Name: "look_up", Parameters: `{"type":"object"}`}}
		if turn%2 == 0 {
			req.ToolChoice = "required"
		}
	}, true)
}

// What goes on from a response that is not there is refused as servers do, and nothing
// is kept of whom nobody may go on from.
func TestUnknownResponses(t *testing.T) { synctest.Test(t, testUnknownResponses) }

func testUnknownResponses(t *testing.T) {
	s, url := startFake(t, ServerConfig{Step: fast, MaxModelLen: 400})
	path := url + "/v1/responses"
	refused := func(body string, status int, field, want string) {
		t.Helper()
		got, answer := post(t, path, body)
		synctest.Wait() // what the server does after an answer
		var e struct {
			Error struct {
				Message, Type string
				Param         *string
				Code          int
			}
		}
		if err := json.Unmarshal([]byte(answer), &e); err != nil {
			t.Fatalf("%s: %v", answer, err)
		}
		if got != status || e.Error.Code != status || e.Error.Param == nil || *e.Error.Param != field || !strings.Contains(e.Error.Message, want) {
			t.Errorf("%.80s: status %d, %s; want %d, %q of %q", body, got, answer, status, want, field)
		}
	}
	made := func(body string) (id string, tokens int, status string) {
		t.Helper()
		got, answer := post(t, path, body)
		synctest.Wait() // what the server does after an answer
		var r struct {
			ID, Status string
			Usage      struct {
				Input int `json:"input_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(answer), &r); err != nil || got != 200 {
			t.Fatalf("status %d: %s", got, answer)
		}
		return r.ID, r.Usage.Input, r.Status
	}
	refused(`{"input":"a","previous_response_id":"resp_0"}`, 404, "previous_response_id", "Response with id 'resp_0' not found.")
	refused(`{"input":"a","model":"gpt-9"}`, 404, "model", "The model `gpt-9` does not exist")
	refused(`{"input":[{"role":"boss","content":"a"}]}`, 400, "input[0].role", "must be user")
	refused(`{"input":"`+strings.Repeat("a b ", 300)+`"}`, 400, "input", "maximum context length is 400 tokens")
	id, _, _ := made(`{"input":"a","store":false,"max_output_tokens":2}`)
	refused(`{"input":"b","previous_response_id":"`+id+`"}`, 404, "previous_response_id", id)
	if n := s.dialogues.bytes(); n != 0 {
		t.Errorf("%d bytes are kept", n)
	}

	// 5 for the chat, 5 for the message and its text.
	id, tokens, status := made(`{"input":"a","instructions":"one two three","max_output_tokens":2,"ignore_eos":true}`)
	if tokens != 5+5+1+5+3 || status != "incomplete" {
		t.Errorf("%d tokens, %s", tokens, status)
	}
	// Instructions are of one response alone; the answer of 2 tokens comes before the new message.
	if _, tokens, _ = made(`{"input":"b c","previous_response_id":"` + id + `","max_output_tokens":2}`); tokens != 5+5+1+5+2+5+2 {
		t.Errorf("%d tokens in the next turn", tokens)
	}
	// Who asks for more than there is gets what there is.
	if _, _, status = made(`{"input":"a","max_output_tokens":100000,"ignore_eos":true}`); status != "incomplete" {
		t.Errorf("an answer to the end of the context is %s", status)
	}
	if n := s.Stats().InFlight; n != 0 {
		t.Errorf("%d in flight", n)
	}
}

// The end of a response says all of it again, however long that is and however late
// its client reads.
func TestLongResponse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, url := startOn(t, ServerConfig{Step: 20 * time.Microsecond, TokensPerEvent: maxTokensPerEvent}, cramped{l})
	// What comes before the end is less than what may wait for a client.
	const tokens = 30_000
	nc := dial(t, url)
	defer nc.Close()
	if err := nc.(*net.TCPConn).SetReadBuffer(32 << 10); err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"input":"x","stream":true,"max_output_tokens":%d,"ignore_eos":true}`, tokens)
	fmt.Fprintf(nc, "POST /v1/responses HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	eventually(t, "the whole answer is made", func() bool { return s.Stats().OutputTokens == tokens })
	resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%v after %d bytes", err, len(b))
	}
	_, last, _ := strings.Cut(string(b), "\nevent: response.incomplete\ndata: ")
	var e struct {
		Response struct {
			Output []struct{ Content []struct{ Text string } }
		}
	}
	if err := json.Unmarshal([]byte(last), &e); err != nil {
		t.Fatalf("%v: the stream ends with %.200q", err, last)
	}
	if n := CountTokens(e.Response.Output[0].Content[0].Text); n != tokens {
		t.Errorf("the end has %d tokens", n)
	}
}

// A client that leaves has no response, and what it went on from is let go.
func TestLeavingResponse(t *testing.T) { synctest.Test(t, testLeavingResponse) }

func testLeavingResponse(t *testing.T) {
	s, url := startFake(t, ServerConfig{Step: 2 * time.Millisecond})
	_, first := post(t, url+"/v1/responses", `{"input":"a","max_output_tokens":2}`)
	var r struct{ ID string }
	if err := json.Unmarshal([]byte(first), &r); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // what the server does after an answer
	size := s.dialogues.bytes()
	nc := dial(t, url)
	body := fmt.Sprintf(`{"input":"b","previous_response_id":%q,"stream":true,"max_output_tokens":100000,"ignore_eos":true}`, r.ID)
	fmt.Fprintf(nc, "POST /v1/responses HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	br := bufio.NewReader(nc)
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	line, err := lines.ReadString('\n')
	if err != nil || line != "event: response.created\n" {
		t.Errorf("the stream begins with %q, %v", line, err)
	}
	nc.Close()
	synctest.Wait()
	time.Sleep(4 * time.Millisecond) // the step under way, and one more
	if n := s.Stats().InFlight; n != 0 {
		t.Errorf("%d in flight", n)
	}
	s.dialogues.mu.Lock()
	defer s.dialogues.mu.Unlock()
	if k := s.dialogues.named[r.ID]; s.dialogues.size != size || len(s.dialogues.named) != 1 || k.users != 1 {
		t.Errorf("%d bytes of %d responses are kept, the first with %d users", s.dialogues.size, len(s.dialogues.named), k.users)
	}
}
