package dialect

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/message"
	"plimsoll/internal/record"
)

// tokenEvent is a token event of the usual size, 247 bytes.
var tokenEvent = []byte(`{"id":"chatcmpl-9f86d081884c7d659a2feaa0c55ad0","object":"chat.completion.chunk","created":1796027346,"model":"meta-llama/Llama-3.1-8B-Instruct","system_fingerprint":"fp_4","choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]}`)

// runningEvent is one with running usage, as asked for of vLLM.
var runningEvent = bytes.Replace(tokenEvent, []byte(`null}]}`), []byte(`null}],"usage":{"prompt_tokens":512,"completion_tokens":99,"total_tokens":611}}`), 1)

// runningNext is the event after runningEvent.
var runningNext = bytes.Replace(bytes.Replace(runningEvent, []byte(`99`), []byte(`100`), 1), []byte(`611`), []byte(`612`), 1)

func TestTokenEventSize(t *testing.T) {
	if len(tokenEvent) != 247 || !json.Valid(tokenEvent) {
		t.Fatalf("token event has %d bytes: %s", len(tokenEvent), tokenEvent)
	}
}

// read is what a worker does with a token event once its bytes are framed.
func read(d *Decoder, data []byte, events []record.Event, at int64) []record.Event {
	delta := d.Event(nil, data)
	for i := range delta.Marks {
		m := &delta.Marks[i]
		events = append(events, record.Event{
			At: at, Cumulative: delta.Cumulative, Tokens: record.Unknown, TextBytes: m.TextBytes, Choice: m.Choice, Channel: m.Channel,
		})
	}
	return events
}

func BenchmarkEvent(b *testing.B) {
	for _, bb := range []struct {
		name       string
		data       []byte
		walk, keep bool
	}{
		{"fast", tokenEvent, false, false},
		{"fast, keeping text", tokenEvent, false, true},
		{"walk", tokenEvent, true, false},
		{"running usage", runningEvent, false, false},
	} {
		b.Run(bb.name, func(b *testing.B) {
			var d Decoder
			d.Reset(OpenAIChat, bb.keep)
			events := make([]record.Event, 0, 1024)
			n := int64(0)
			b.ReportAllocs()
			b.SetBytes(int64(len(bb.data)))
			for b.Loop() {
				if n&1023 == 0 {
					events = events[:0]
					d.Reset(OpenAIChat, bb.keep)
				}
				if bb.walk {
					d.learnt = false
				}
				data := bb.data
				if n&1 == 1 && &data[0] == &runningEvent[0] {
					data = runningNext
				}
				events = read(&d, data, events, n)
				n++
			}
		})
	}
	b.Run("json.Valid", func(b *testing.B) {
		b.SetBytes(int64(len(tokenEvent)))
		for b.Loop() {
			if !json.Valid(tokenEvent) {
				b.Fatal("not valid")
			}
		}
	})
}

// The budgets of a token event are ratios to json.Valid on the same bytes,
// taken in one run: at most 0.5 for the walk, 0.15 for a chunk like the last.
func TestEventCost(t *testing.T) {
	if testing.Short() || raceEnabled || testing.CoverMode() != "" {
		t.Skip("costs are not measured in short, race or coverage runs")
	}
	var d Decoder
	events := make([]record.Event, 0, 1024)
	const loops = 250 // about a quarter of a millisecond, less than a time slice
	cost := func(one, two []byte, walk bool) time.Duration {
		d.Reset(OpenAIChat, false)
		events = read(&d, one, events[:0], 0)
		start := time.Now()
		for i := range loops / 2 {
			d.learnt = d.learnt && !walk
			events = read(&d, two, events[:0], int64(i))
			d.learnt = d.learnt && !walk
			events = read(&d, one, events, int64(i))
		}
		return time.Since(start)
	}
	valid := func(data []byte) time.Duration {
		start := time.Now()
		for range loops {
			if !json.Valid(data) {
				t.Fatal("not valid")
			}
		}
		return time.Since(start)
	}
	// A busy machine only ever adds time: the least of many short rounds, taken
	// in turns, is what the code costs.
	least := func(f func() time.Duration, best *time.Duration) { *best = min(*best, f()) }
	base, fast, walk := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	runningBase, running, runningWalk := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for range 300 {
		least(func() time.Duration { return valid(tokenEvent) }, &base)
		least(func() time.Duration { return cost(tokenEvent, tokenEvent, false) }, &fast)
		least(func() time.Duration { return cost(tokenEvent, tokenEvent, true) }, &walk)
		least(func() time.Duration { return valid(runningEvent) }, &runningBase)
		least(func() time.Duration { return cost(runningEvent, runningNext, false) }, &running)
		least(func() time.Duration { return cost(runningEvent, runningNext, true) }, &runningWalk)
	}
	ratio := func(a, b time.Duration) float64 { return float64(a) / float64(b) }
	t.Logf("json.Valid %v, fast %.3f, walk %.3f; with running usage %.3f, %.3f", base/loops, ratio(fast, base), ratio(walk, base), ratio(running, runningBase), ratio(runningWalk, runningBase))
	if r := ratio(fast, base); r > 0.15 {
		t.Errorf("a chunk like the last costs %.3f of json.Valid, budget 0.15", r)
	}
	if r := ratio(running, runningBase); r > 0.15 {
		t.Errorf("a chunk like the last with running usage costs %.3f of json.Valid, budget 0.15", r)
	}
	if r := ratio(walk, base); r > 0.5 {
		t.Errorf("a walk costs %.3f of json.Valid, budget 0.5", r)
	}
}

func TestEventAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	f := func(name string, data []byte, walk, keep bool) {
		t.Helper()
		var d Decoder
		d.Reset(OpenAIChat, keep)
		d.text = [][]byte{make([]byte, 0, 1<<16)} // growth is amortised, not per event
		d.text = d.text[:0]
		events := make([]record.Event, 0, 2048)
		events = read(&d, data, events, 0)
		if n := testing.AllocsPerRun(1000, func() {
			if walk {
				d.learnt = false
			}
			events = read(&d, data, events, 1)
		}); n != 0 {
			t.Errorf("%s: %v allocations per event", name, n)
		}
		if d.Result().Fallbacks != 0 || len(events) < 1000 {
			t.Errorf("%s: %d fallbacks, %d events", name, d.Result().Fallbacks, len(events))
		}
	}
	f("fast", tokenEvent, false, false)
	f("fast with text", tokenEvent, false, true)
	f("walk", tokenEvent, true, false)
	f("walk with text", tokenEvent, true, true)
	f("running usage", runningEvent, false, true)
	f("reasoning", []byte(strings.Replace(string(tokenEvent), `"content"`, `"reasoning_content"`, 1)), true, true)
	f("escapes", []byte(strings.Replace(string(tokenEvent), ` token`, `\n\u4e2d\"`, 1)), false, true)
	f("logprobs", []byte(strings.Replace(string(tokenEvent), `"finish_reason"`, `"logprobs":{"content":[{"token":" x","bytes":[1,2],"logprob":-0.5,"top_logprobs":[]}]},"finish_reason"`, 1)), true, true)
}

// One answer after another through one decoder: nothing is allocated once its
// buffers have grown.
func TestAnswerAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	finish := []byte(chatChunk(`{}`, "stop"))
	usage := []byte(`{"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":2}}`)
	done := []byte("[DONE]")
	var d Decoder
	events := make([]record.Event, 0, 2048)
	if n := testing.AllocsPerRun(100, func() {
		d.Reset(OpenAIChat, false)
		events = events[:0]
		for range 20 {
			events = read(&d, tokenEvent, events, 1)
		}
		events = read(&d, finish, events, 1)
		events = read(&d, usage, events, 1)
		events = read(&d, done, events, 1)
		if !d.Result().Done {
			t.Fatal("not done")
		}
	}); n != 0 {
		t.Errorf("%v allocations per answer", n)
	}
}

// words renders parts without allocating.
type words []byte

func (w words) AppendText(dst []byte, _ *message.Part) []byte { return append(dst, w...) }

func BenchmarkAppendRequest(b *testing.B) {
	req := message.Request{Parts: []message.Part{
		{Role: message.System, Text: "You are terse.\nAnswer in one word."}, {Generator: "words", Tokens: 1000},
	}, MaxTokens: 100}
	o := Options{Model: "meta-llama/Llama-3.1-8B-Instruct", Stream: true, Usage: true, RunningUsage: true}
	var r message.Renderer = words(strings.Repeat("lorem ipsum dolor ", 300))
	var body []byte
	var err error
	b.ReportAllocs()
	for b.Loop() {
		if body, err = AppendRequest(body[:0], OpenAIChat, &req, r, &o); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(body)))
}

func TestAppendRequestAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	req := message.Request{Parts: []message.Part{{Text: "a\n\"é"}, {Generator: "words", Tokens: 3}}, MaxTokens: 100, Exact: true, Choices: 2}
	half := 0.5
	o := Options{Model: "m", Stream: true, Usage: true, Temperature: &half}
	var r message.Renderer = words("lorem ipsum")
	body := make([]byte, 0, 1024)
	for _, a := range APIs() {
		if n := testing.AllocsPerRun(100, func() {
			if _, err := AppendRequest(body, a, &req, r, &o); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations per body", a, n)
		}
	}
}

// The server's side makes a chunk without allocating, too.
func TestWriterAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	w := NewWriter(OpenAIChat, "id", "m", 7)
	u := WriterUsage{Prompt: 9, Completion: 1, Cached: -1, Reasoning: -1}
	dst := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() { _ = w.AppendText(dst, 0, " token", "", &u) }); n != 0 {
		t.Errorf("%v allocations per chunk", n)
	}
}
