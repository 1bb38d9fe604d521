package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"plimsoll/internal/clock"
	"plimsoll/internal/dialect"
	"plimsoll/internal/memconn"
	"plimsoll/internal/play"
	"plimsoll/internal/random"
	"plimsoll/internal/record"
	"plimsoll/internal/stream"
	"plimsoll/internal/workload"
)

// rig is a run with a player at the other end, and everything that came of it.
type rig struct {
	t          *testing.T
	cfg        Config
	population *workload.Synthetic
	live       Live
	server     *play.Server
	addr       string

	mu      sync.Mutex
	records []*record.Request
	results []*dialect.Result

	res *Result
}

// newRig returns a run of one request against a player in memory.
func newRig(t *testing.T, script *play.Script) *rig {
	l := memconn.Listen("server:80")
	g := plug(t, clock.NewFake(), script, l)
	g.cfg.Stream.Dial = l.Dial
	return g
}

// newSocketRig returns the same over TCP.
func newSocketRig(t *testing.T, script *play.Script) *rig {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := plug(t, clock.New(), script, l)
	// The client's own limits, which a process that is held up must not meet.
	g.cfg.Stream.ConnectTimeout, g.cfg.Stream.KeepAlive = time.Hour, time.Hour
	return g
}

func plug(t *testing.T, c *clock.Clock, script *play.Script, l net.Listener) *rig {
	if script.Request.Path == "" {
		script.Request.Path = "/v1/chat/completions"
	}
	server := play.Serve(l, script)
	t.Cleanup(server.Close)
	g := configured(c, server.URL(), dialect.API(script.Request.API))
	g.t, g.server, g.addr = t, server, l.Addr().String()
	return g
}

// configured returns a run of one request to url; chat is the default API.
func configured(c *clock.Clock, url string, api dialect.API) *rig {
	g := &rig{population: fixed(8, 0)}
	g.population.Prompt = random.Dist{Kind: random.Uniform, A: 8, B: 60}
	if api == "" {
		api = dialect.OpenAIChat
	}
	g.cfg = Config{
		Clock:      c,
		Stream:     stream.Config{Now: c.Now, Start: c.Start()},
		URLs:       []string{url},
		API:        api,
		Options:    dialect.Options{Model: "m", Stream: true, Usage: true},
		Population: g.population,
		Renderer:   workload.Words{},
		Steps:      []Step{{Users: 1, Requests: 1, Drain: time.Hour}},
		KeepText:   true,
		Sink:       g,
		Live:       &g.live,
		inspect: func(r *dialect.Result) {
			g.mu.Lock()
			defer g.mu.Unlock()
			c := *r
			g.results = append(g.results, &c)
		},
	}
	return g
}

// fixed is a workload of fixed lengths.
func fixed(prompt, output int) *workload.Synthetic {
	return &workload.Synthetic{Prompt: random.Dist{A: float64(prompt)}, Output: random.Dist{A: float64(output)}}
}

// Record keeps a copy.
func (g *rig) Record(r *record.Request) {
	c := *r
	c.Events = slices.Clone(r.Events)
	c.Text = slices.Clone(r.Text)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.records = append(g.records, &c)
}

// run carries the run out and checks what must hold of any.
func (g *rig) run() { g.runContext(g.t.Context()) }

func (g *rig) runContext(ctx context.Context) {
	g.t.Helper()
	var err error
	if g.res, err = Run(ctx, g.cfg); err != nil {
		g.t.Fatal(err)
	}
	live := g.live.Snapshot()
	if live.InFlight != 0 || live.Users != 0 || live.Ended() != int64(len(g.records)) || live.Scheduled != int64(len(g.records)) {
		g.t.Errorf("%d records, and after the run live is %+v", len(g.records), live)
	}
	for _, f := range g.live.Flows(nil) {
		if f.InFlight != 0 || f.Decoding != 0 {
			g.t.Errorf("after the run there is %+v", f)
		}
	}
	var scheduled uint64
	for _, s := range g.res.Steps {
		scheduled += s.Scheduled
	}
	if scheduled != uint64(len(g.records)) {
		g.t.Errorf("%d requests were scheduled, %d recorded", scheduled, len(g.records))
	}
	var output, prompt int64
	for _, r := range g.records {
		checkOrder(g.t, r)
		if r.Output != record.Unknown {
			output += int64(r.Output)
		} else {
			output += int64(len(r.Events))
		}
		prompt += max(0, int64(r.Prompt))
		if (r.Status == record.Failed) != (r.Error != record.NoError) {
			g.t.Errorf("request %d is %v with kind %q", r.ID, r.Status, r.Error)
		}
	}
	if live.OutputTokens != output || live.PromptTokens != prompt {
		g.t.Errorf("live counts %d and %d tokens, the records hold %d and %d", live.PromptTokens, live.OutputTokens, prompt, output)
	}
}

// only returns the one record.
func (g *rig) only() *record.Request {
	g.t.Helper()
	if len(g.records) != 1 {
		g.t.Fatalf("%d records, want 1", len(g.records))
	}
	return g.records[0]
}

// byID returns the records in the order in which they became due.
func (g *rig) byID() []*record.Request {
	out := slices.Clone(g.records)
	slices.SortFunc(out, func(a, b *record.Request) int { return int(int64(a.ID) - int64(b.ID)) })
	return out
}

// byScheduled returns the records in the order of their schedule.
func (g *rig) byScheduled() []*record.Request {
	out := slices.Clone(g.records)
	slices.SortStableFunc(out, func(a, b *record.Request) int { return int(a.Scheduled - b.Scheduled) })
	return out
}

// count returns the records by status and kind.
func (g *rig) count() map[string]int {
	n := map[string]int{}
	for _, r := range g.records {
		k := r.Status.String()
		if r.Error != record.NoError {
			k += " " + r.Error.String()
		}
		n[k]++
	}
	return n
}

// url returns the server's URL under another path.
func (g *rig) url(path string) string { return "http://" + g.addr + "/" + path }

// prompts returns the prompts that the server received.
func (g *rig) prompts() []string {
	var out []string
	for _, q := range g.server.Requests() {
		var body struct{ Messages []struct{ Content string } }
		if err := json.Unmarshal(q.Body, &body); err != nil {
			g.t.Fatal(err)
		}
		var b strings.Builder
		for _, m := range body.Messages {
			b.WriteString(m.Content)
		}
		out = append(out, b.String())
	}
	return out
}

const (
	chunkForm = `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}` + "\n\n"
	endForm   = `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}` + "\n\ndata: [DONE]\n\n"
)

// answering is a server that sends two tokens and ends after d, every time.
func answering(d time.Duration) *play.Script {
	at := d.Seconds() * 1e3
	return respond(play.Response{
		Status: 200, Headers: [][2]string{{"Content-Type", "text/event-stream"}}, Framing: "chunked",
		Writes: []play.Write{
			{At: at / 2, Text: fmt.Sprintf(chunkForm, "one")},
			{At: at, Text: fmt.Sprintf(chunkForm, " two") + fmt.Sprintf(endForm, 7, 2, 9)},
		},
	}, "eof", at)
}

// respond makes a script of one response that ends so.
func respond(r play.Response, how string, at float64) *play.Script {
	r.End.How, r.End.At = how, at
	return &play.Script{Format: "llm-play/1", Responses: []play.Response{r}}
}

// refusing is a server that answers everything with a status and a body.
func refusing(status int, body string) *play.Script {
	return respond(play.Response{
		Status: status, Headers: [][2]string{{"Content-Type", "application/json"}}, Framing: "length",
		Writes: []play.Write{{At: 2, Text: body}},
	}, "eof", 2)
}

// discard is a log of what a test server has to say.
func discard() *log.Logger { return log.New(io.Discard, "", 0) }

// net/http has its own word for servers that say more than they announced; the
// records have ours.
func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	os.Exit(m.Run())
}
