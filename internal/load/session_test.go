package load

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/memconn"
	"plimsoll/internal/message"
	"plimsoll/internal/play"
	"plimsoll/internal/record"
	"plimsoll/internal/workload"
	"plimsoll/internal/workload/content"
)

// needing is a population that says what it needs.
type needing struct {
	scripted
	needs workload.Needs
}

func (n needing) Needs() workload.Needs { return n.needs }

// A user who has seen enough tokens closes the connection with the last of them,
// and the server hears of it at once.
func TestAbandonedAfterTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, answering(300*time.Millisecond))
		var log outcomes
		g.cfg.Population = needing{scripted{[]workload.Action{{Kind: workload.Send, CancelTokens: 1}, {Kind: workload.Send, CancelTokens: 3}}, &log}, workload.NeedCancel | workload.NeedText}
		g.cfg.KeepText = false
		g.cfg.Steps = []Step{{Users: 1, Duration: time.Minute, Drain: time.Minute}}
		g.run()
		// The second answer has only two.
		want := []string{`0: cancelled -1 "one" at 150`, `0: ok 2 "one two" at 450`}
		if diff := cmp.Diff(want, log.lines); diff != "" {
			t.Errorf("what the machine was told (-want +got):\n%s", diff)
		}
		rs := g.byID()
		if r := rs[0]; r.Status != record.Cancelled || r.FirstToken != r.End || r.End-r.Start != 150*ms || len(r.Events) != 1 || r.Error != record.NoError {
			t.Errorf("the abandoned request is %+v", r)
		}
		time.Sleep(time.Second)
		q := g.server.Requests()
		if len(q) != 2 || q[0].Gone.IsZero() || q[0].Gone.Sub(q[0].Read) > 151*time.Millisecond {
			t.Errorf("the server was not told at once: %+v", q)
		}
	})
}

// Branches run side by side and are joined by the slowest; the session is one.
func TestBranchesRunSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, answering(300*time.Millisecond))
		var log, branches outcomes
		branch := func(as ...workload.Action) workload.Machine { return &scriptedMachine{scripted{as, &branches}, 0, 7} }
		send := workload.Action{Kind: workload.Send}
		fork := workload.Action{Kind: workload.Fork, At: 100 * ms, Branches: []workload.Machine{
			branch(send), branch(send, send), branch(workload.Action{Kind: workload.Send, CancelAfter: 10 * ms}), branch(),
		}}
		g.cfg.Population = needing{scripted{[]workload.Action{send, fork, send}, &log}, workload.NeedFork | workload.NeedCancel}
		g.cfg.Steps = []Step{{Users: 1, Duration: time.Minute, Drain: time.Minute}}
		sessions := make(chan int64, 1)
		go func() {
			time.Sleep(leadTime + 500*time.Millisecond) // within the branches
			sessions <- g.live.Snapshot().Sessions
		}()
		g.run()
		want := []string{`0: ok 2 "one two" at 300`, `0: cancelled 4 "" at 1000`, `0: ok 2 "one two" at 1300`}
		if diff := cmp.Diff(want, log.lines); diff != "" {
			t.Errorf("what the machine was told (-want +got):\n%s", diff)
		}
		if n := <-sessions; n != 1 {
			t.Errorf("%d sessions while its branches are at work", n)
		}
		if n := g.live.Snapshot().Sessions; n != 0 || len(g.records) != 6 {
			t.Errorf("%d sessions are left, %d requests were made", n, len(g.records))
		}
	})
}

// What is too much for one process is a failure of it, branch by branch.
func TestTooManyBranches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, answering(300*time.Millisecond))
		g.cfg.limit = func(r *run) { r.sessions = 2 }
		var log, branches outcomes
		var bs []workload.Machine
		for range 5 {
			bs = append(bs, &scriptedMachine{scripted{[]workload.Action{{Kind: workload.Send}}, &branches}, 0, 7})
		}
		g.cfg.Population = needing{scripted{[]workload.Action{{Kind: workload.Fork, Branches: bs}}, &log}, workload.NeedFork}
		g.cfg.Steps = []Step{{Users: 1, Duration: time.Minute, Drain: time.Minute}}
		g.run()
		if diff := cmp.Diff(map[string]int{"ok": 2, "error client_resource": 3}, g.count()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{`0: error 4 "" at 300`}, log.lines); diff != "" {
			t.Errorf("what the machine was told (-want +got):\n%s", diff)
		}
	})
}

// searches is an endpoint of searches.
type searches struct {
	mu     sync.Mutex
	bodies []string
	keys   []string
	answer func(w http.ResponseWriter)
}

func (s *searches) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b := make([]byte, 4096)
	n, _ := r.Body.Read(b)
	s.mu.Lock()
	s.bodies, s.keys = append(s.bodies, r.URL.Path+" "+string(b[:n])), append(s.keys, r.Header.Get("Authorization"))
	s.mu.Unlock()
	s.answer(w)
}

// A search at a URL is timed as a stage of its own, never sees the model's key, and
// a request whose search fails is not sent.
func TestSearchAtAURL(t *testing.T) {
	f := func(name, path string, answer func(http.ResponseWriter), a workload.Action, check func(t *testing.T, g *rig, s *searches, r *record.Request)) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, answering(20*time.Millisecond))
				s := &searches{answer: answer}
				l := memconn.Listen("search:80")
				server := &http.Server{Handler: s, ErrorLog: discard()}
				go func() { _ = server.Serve(l) }()
				t.Cleanup(func() {
					_ = server.Close()
					time.Sleep(time.Minute) // whoever still answers comes to an end
				})
				model := g.cfg.Stream.Dial
				g.cfg.Stream.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					if addr == "search:80" {
						return l.Dial(ctx, network, addr)
					}
					return model(ctx, network, addr)
				}
				a.Kind = workload.Send
				a.Retrieval = &workload.Retrieval{URL: "http://search" + path, Model: "embed", Query: message.Part{Text: "what \"is\" new"}, Passages: 8}
				var log outcomes
				g.cfg.Population = needing{scripted{[]workload.Action{a}, &log}, workload.NeedRetrieval | workload.NeedSearch | workload.NeedCancel}
				g.cfg.Header = http.Header{"Authorization": {"Bearer secret"}}
				g.cfg.Steps = []Step{{Users: 1, Duration: time.Minute, Drain: time.Minute}}
				g.run()
				check(t, g, s, g.only())
			})
		})
	}
	slow := func(w http.ResponseWriter) {
		time.Sleep(60 * time.Millisecond)
		_, _ = w.Write([]byte(`{"data": [{"embedding": [1, 2]}]}`))
	}
	for path, want := range map[string]string{
		"/v1/embeddings": `/v1/embeddings {"input":"what \"is\" new","model":"embed"}`,
		"/search":        `/search {"query":"what \"is\" new","top_k":8}`,
	} {
		f(path, path, slow, workload.Action{}, func(t *testing.T, g *rig, s *searches, r *record.Request) {
			if r.Status != record.OK || r.RetrievalStart != g.res.Start || r.RetrievalEnd-r.RetrievalStart != 60*ms || r.Scheduled != r.RetrievalEnd || r.Start != r.Scheduled {
				t.Errorf("the request is %v, its search from %d to %d, due at %d, sent at %d: %s", r.Status, r.RetrievalStart, r.RetrievalEnd, r.Scheduled, r.Start, r.Message)
			}
			if len(s.bodies) != 1 || s.bodies[0] != want || s.keys[0] != "" {
				t.Errorf("the search got %q with the key %q", s.bodies, s.keys)
			}
			if len(g.server.Requests()) != 1 {
				t.Errorf("the model got %d requests", len(g.server.Requests()))
			}
		})
	}
	broken := func(w http.ResponseWriter) { http.Error(w, "no index", 500) }
	f("broken", "/search", broken, workload.Action{}, func(t *testing.T, g *rig, _ *searches, r *record.Request) {
		if r.Error != record.HTTPStatusError || r.Start != record.Unset || !strings.Contains(r.Message, "retrieval: HTTP 500: no index") || len(g.server.Requests()) != 0 {
			t.Errorf("a request whose search failed is %v %v %q, sent %d times", r.Status, r.Error, r.Message, len(g.server.Requests()))
		}
	})
	f("given up", "/search", slow, workload.Action{CancelAt: 10 * ms}, func(t *testing.T, g *rig, _ *searches, r *record.Request) {
		if r.Status != record.Cancelled || r.Scheduled-g.res.Start != 10*ms || r.Start != record.Unset || r.RetrievalEnd != record.Unset || len(g.server.Requests()) != 0 {
			t.Errorf("a request given up during its search is %v, its search from %d to %d", r.Status, r.RetrievalStart, r.RetrievalEnd)
		}
	})
}

// Where the server keeps answers, a turn names the one before and brings only what is
// new; a turn that fails ends its session (case 146).
func TestAnswersThatTheServerKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := func(id string) play.Response {
			r := play.Response{
				Status: 200, Headers: [][2]string{{"Content-Type", "text/event-stream"}}, Framing: "chunked",
				Writes: []play.Write{{At: 10, Text: "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"" + id + "\"}}\n\n" +
					"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"hello\"}\n\n" +
					"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"" + id + "\",\"status\":\"completed\",\"usage\":{\"input_tokens\":5,\"output_tokens\":1}}}\n\n"}},
			}
			r.End.How, r.End.At = "eof", 10
			return r
		}
		broken := play.Response{Status: 500, Headers: [][2]string{{"Content-Type", "application/json"}}, Framing: "length", Writes: []play.Write{{At: 5, Text: `{"error":{"message":"no"}}`}}}
		broken.End.How, broken.End.At = "eof", 5
		script := &play.Script{Format: "llm-play/1", Responses: []play.Response{events("resp_1"), events("resp_2"), broken, events("resp_4")}}
		script.Request.Path, script.Request.API = "/v1/responses", "openai.responses"
		g := newRig(t, script)
		g.cfg.Renderer = new(content.Renderer)
		g.cfg.Population = workload.NewSessions(1, file(t, "{name: w, prompt: {system: 5, turn: 6}, output: 3, session: {turns: 4}}"))
		g.cfg.Steps = []Step{{Users: 1, Requests: 4, Drain: time.Hour}}
		g.run()
		var got []string
		for _, q := range g.server.Requests() {
			var b struct {
				Previous string `json:"previous_response_id"`
				Store    bool
				Input    []struct{ Role string }
			}
			if err := json.Unmarshal(q.Body, &b); err != nil {
				t.Fatal(err)
			}
			roles := ""
			for _, i := range b.Input {
				roles += i.Role + " "
			}
			got = append(got, fmt.Sprintf("%s %v %s", b.Previous, b.Store, strings.TrimSpace(roles)))
		}
		want := []string{" true system user", "resp_1 true user", "resp_2 true user", " true system user"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		rs := g.byID()
		if rs[2].Status != record.Failed || rs[3].Session == rs[2].Session || rs[3].Turn != 0 || rs[1].Output != 1 || rs[1].Prompt != 5 || rs[1].Status != record.OK {
			t.Errorf("turn 3 ended as %v and the next is turn %d of session %d", rs[2].Status, rs[3].Turn, rs[3].Session)
		}
	})
}
