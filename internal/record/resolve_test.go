package record

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const ms = 1_000_000

// ev is an event of one content mark at that ms with the running count cum.
func ev(at int64, cum int32) Event {
	return Event{At: at * ms, Cumulative: cum, Tokens: Unknown, Channel: Content, TextBytes: 1}
}

func evs(at ...int64) []Event {
	var out []Event
	for _, t := range at {
		out = append(out, ev(t, Unknown))
	}
	return out
}

func with(e []Event, f func(e []Event)) []Event {
	f(e)
	return e
}

// request is a streamed request from 0 to end, in ms.
func request(end int64, output int32, finish string, events []Event) *Request {
	r := &Request{}
	r.Reset()
	r.Start, r.Scheduled, r.End = 0, 0, end*ms
	r.Streamed, r.AskedStream = true, true
	r.Output, r.Finish, r.Events = output, finish, events
	for i := range events {
		r.TextBytes += int64(events[i].TextBytes)
	}
	return r
}

// tpot is the formula of the metrics page, in ms; NaN is null.
func tpot(r *Request) float64 {
	n := len(r.Events)
	first := r.FirstEventTokens
	switch r.Basis {
	case BasisNone:
		return math.NaN()
	case BasisNMinus1:
		first = 1
	}
	return float64(r.Events[n-1].At-r.Events[0].At) / ms / float64(r.StreamedTokens-first)
}

func tokens(r *Request) []int32 {
	var out []int32
	for i := range r.Events {
		out = append(out, r.Events[i].Tokens)
	}
	return out
}

func TestResolve(t *testing.T) {
	const u = Unknown
	null := math.NaN()
	reasoning := func(n int) func(e []Event) {
		return func(e []Event) {
			for i := range n {
				e[i].Channel = Reasoning
			}
		}
	}
	tests := []struct {
		name     string
		r        *Request
		set      func(r *Request)
		tokens   []int32
		streamed int32
		first    int32
		basis    TPOTBasis
		tpot     float64
		flags    string
	}{
		{
			name: "one token each", r: request(200, 4, "stop", evs(100, 100, 100, 200)),
			tokens: []int32{1, 1, 1, 1}, streamed: 4, first: 1, basis: BasisFirstEvent, tpot: 100.0 / 3,
		},
		{
			name: "counted end token without text", r: request(121, 3, "stop", evs(100, 120)),
			tokens: []int32{1, 1}, streamed: 3, first: 1, basis: BasisFirstEvent, tpot: 10,
		},
		{
			name: "no end token when the length was reached", r: request(121, 3, "length", evs(100, 120)),
			tokens: []int32{u, u}, streamed: 3, first: u, basis: BasisNMinus1, tpot: 10, flags: "multi_token_events",
		},
		{
			name: "reasoning first", r: request(321, 5, "stop", with(evs(100, 120, 140, 300, 320), reasoning(3))), set: func(r *Request) { r.Reasoning = 3 },
			tokens: []int32{1, 1, 1, 1, 1}, streamed: 5, first: 1, basis: BasisFirstEvent, tpot: 55,
		},
		{
			name: "hidden reasoning", r: request(321, 5, "stop", evs(300, 320)), set: func(r *Request) { r.Reasoning = 3 },
			tokens: []int32{1, 1}, streamed: 2, first: 1, basis: BasisFirstEvent, tpot: 20,
		},
		{
			name: "hidden reasoning and running usage", r: request(321, 905, "stop", []Event{ev(300, 902), ev(310, 903), ev(320, 905)}), set: func(r *Request) { r.Reasoning = 900 },
			tokens: []int32{2, 1, 2}, streamed: 5, first: 2, basis: BasisFirstEvent, tpot: 20.0 / 3, flags: "multi_token_events",
		},
		{
			name: "reasoning inside the content", r: request(321, 4, "length", evs(100, 120, 140, 160)), set: func(r *Request) { r.Reasoning = 2 },
			tokens: []int32{1, 1, 1, 1}, streamed: 4, first: 1, basis: BasisFirstEvent, tpot: 20,
		},
		{
			name: "reasoning of which nobody knows where it went", r: request(321, 9, "length", evs(100, 120, 140)), set: func(r *Request) { r.Reasoning = 8 },
			tokens: []int32{u, u, u}, streamed: u, first: u, tpot: null,
		},
		{
			name: "more reasoning than output", r: request(321, 3, "length", evs(100, 120)), set: func(r *Request) { r.Reasoning = 8 },
			tokens: []int32{u, u}, streamed: u, first: u, tpot: null,
		},
		{
			name: "several tokens per event", r: request(181, 5, "stop", evs(100, 140, 180)),
			tokens: []int32{u, u, u}, streamed: 5, first: u, basis: BasisNMinus1, tpot: 20, flags: "multi_token_events",
		},
		{
			name: "first event bundles tokens", r: request(501, 30, "length", []Event{ev(300, 10), ev(400, 20), ev(500, 30)}),
			tokens: []int32{10, 10, 10}, streamed: 30, first: 10, basis: BasisFirstEvent, tpot: 10, flags: "multi_token_events",
		},
		{
			name: "only the first event has a count", r: request(601, 51, "stop", with(evs(100, 300, 600), func(e []Event) { e[0].Cumulative = 10; reasoning(2)(e) })), set: func(r *Request) { r.Reasoning = 50 },
			tokens: []int32{10, u, u}, streamed: 51, first: 10, basis: BasisFirstEvent, tpot: 500.0 / 41, flags: "multi_token_events",
		},
		{
			name: "no count until the end", r: request(601, 51, "stop", with(evs(100, 300, 600), reasoning(2))), set: func(r *Request) { r.Reasoning = 50 },
			tokens: []int32{u, u, u}, streamed: 51, first: u, basis: BasisNMinus1, tpot: 10, flags: "multi_token_events",
		},
		{
			name: "usage on the last event only", r: request(121, 2, "", []Event{ev(100, u), ev(120, 2)}),
			tokens: []int32{1, 1}, streamed: 2, first: 1, basis: BasisFirstEvent, tpot: 20,
		},
		{
			name: "gaps in the running count", r: request(200, 9, "stop", []Event{ev(100, 1), ev(110, u), ev(120, 3), ev(130, u), ev(140, u), ev(150, 8)}),
			tokens: []int32{1, 1, 1, u, u, u}, streamed: 9, first: 1, basis: BasisFirstEvent, tpot: 50.0 / 8, flags: "multi_token_events",
		},
		{
			name: "a count that falls is none", r: request(200, 3, "stop", []Event{ev(100, 3), ev(110, 2), ev(120, 1)}),
			tokens: []int32{1, 1, 1}, streamed: 3, first: 1, basis: BasisFirstEvent, tpot: 10,
		},
		{
			name: "an event without a token of its own", r: request(200, 3, "length", []Event{ev(100, 1), ev(110, 1), ev(120, 3)}),
			tokens: []int32{1, 0, 2}, streamed: 3, first: 1, basis: BasisFirstEvent, tpot: 10, flags: "multi_token_events",
		},
		{
			name: "more events than tokens", r: request(200, 2, "stop", evs(100, 120, 140)),
			tokens: []int32{u, u, u}, streamed: 2, first: u, basis: BasisNMinus1, tpot: 40, flags: "multi_token_events more_events_than_tokens",
		},
		{
			name: "no usage", r: request(200, u, "stop", evs(100, 120, 140)),
			tokens: []int32{u, u, u}, streamed: u, first: u, tpot: null,
		},
		{
			name: "single token", r: request(101, 1, "length", evs(100)),
			tokens: []int32{1}, streamed: 1, first: 1, tpot: null,
		},
		{
			name: "all in one event", r: request(101, 9000, "stop", evs(100)),
			tokens: []int32{u}, streamed: 9000, first: u, tpot: null, flags: "multi_token_events",
		},
		{
			name: "usage without output", r: request(900, 200, "stop", nil),
			streamed: u, first: u, tpot: null, flags: "no_output",
		},
		{
			name: "not streamed", r: request(800, 1, "stop", nil), set: func(r *Request) { r.Streamed = false; r.TextBytes = 5 },
			streamed: u, first: u, tpot: null,
		},
		{
			name: "failed without output", r: request(60, u, "", nil), set: func(r *Request) { r.Status = Failed },
			streamed: u, first: u, tpot: null,
		},
		{
			name: "short of what was asked", r: request(200, 2, "stop", evs(100, 110)), set: func(r *Request) { r.AskedExact, r.AskedOutput = true, 128 },
			tokens: []int32{1, 1}, streamed: 2, first: 1, basis: BasisFirstEvent, tpot: 10, flags: "short_output",
		},
		{
			name: "a proxy that held everything back", r: request(1700, 4, "stop", evs(1700, 1700, 1700, 1700)),
			tokens: []int32{1, 1, 1, 1}, streamed: 4, first: 1, basis: BasisFirstEvent, tpot: 0, flags: "buffered_stream",
		},
		{
			name: "a long prompt and a short answer", r: request(10100, 4, "stop", evs(10000, 10030, 10060, 10090)),
			tokens: []int32{1, 1, 1, 1}, streamed: 4, first: 1, basis: BasisFirstEvent, tpot: 30,
		},
		{
			name: "two choices", r: request(146, 6, "stop", with(evs(100, 105, 120, 125, 140, 145), func(e []Event) { e[1].Choice, e[3].Choice, e[5].Choice = 1, 1, 1 })),
			tokens: []int32{1, 1, 1, 1, 1, 1}, streamed: 6, first: u, tpot: null,
		},
		{
			name:   "two choices, running usage per choice",
			r:      request(146, 6, "stop", []Event{ev(100, 1), {At: 105, Cumulative: 1, Choice: 1}, ev(120, 3), {At: 125, Cumulative: 3, Choice: 1}}),
			tokens: []int32{u, u, u, u}, streamed: 6, first: u, tpot: null, flags: "multi_token_events",
		},
		{
			name:   "two choices, running usage of both",
			r:      request(146, 5, "stop", []Event{ev(100, 1), {At: 105, Cumulative: 3, Choice: 1}, ev(120, 4), {At: 125, Cumulative: 5, Choice: 1}}),
			tokens: []int32{1, 2, 1, 1}, streamed: 5, first: u, tpot: null, flags: "multi_token_events",
		},
		{
			name:   "two choices, running usage that is not of both",
			r:      request(146, 9, "stop", []Event{ev(100, 1), {At: 105, Cumulative: 2, Choice: 1}, ev(120, 4)}),
			tokens: []int32{u, u, u}, streamed: 9, first: u, tpot: null, flags: "multi_token_events",
		},
		{
			name:   "two choices, usage of one of them",
			r:      request(146, 2, "length", with(evs(100, 105, 110, 115), func(e []Event) { e[1].Choice, e[3].Choice = 1, 1 })),
			set:    func(r *Request) { r.AskedExact, r.AskedOutput = true, 2 },
			tokens: []int32{u, u, u, u}, streamed: 2, first: u, tpot: null, flags: "multi_token_events more_events_than_tokens",
		},
		{
			name:   "usage with an end token on the last event only",
			r:      request(121, 3, "stop", []Event{ev(100, u), ev(120, 3)}),
			tokens: []int32{1, 1}, streamed: 3, first: 1, basis: BasisFirstEvent, tpot: 10,
		},
		{
			name:   "usage on the first event and at the end",
			r:      request(121, 9, "stop", []Event{ev(100, 4), ev(120, u)}),
			tokens: []int32{4, u}, streamed: 9, first: 4, basis: BasisFirstEvent, tpot: 4, flags: "multi_token_events",
		},
		{
			name:   "two choices with an end token each",
			r:      request(146, 4, "stop", with(evs(100, 105), func(e []Event) { e[1].Choice = 1 })),
			tokens: []int32{1, 1}, streamed: 4, first: u, tpot: null, flags: "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.set != nil {
				tt.set(tt.r)
			}
			for range 2 { // a second call must change nothing
				tt.r.Resolve(nil)
				if diff := cmp.Diff(tt.tokens, tokens(tt.r)); diff != "" {
					t.Errorf("tokens: want -, got +\n%s", diff)
				}
				if tt.r.StreamedTokens != tt.streamed || tt.r.FirstEventTokens != tt.first || tt.r.Basis != tt.basis {
					t.Errorf("streamed %d, first %d, basis %v, want %d, %d, %v", tt.r.StreamedTokens, tt.r.FirstEventTokens, tt.r.Basis, tt.streamed, tt.first, tt.basis)
				}
				if got := tpot(tt.r); math.Abs(got-tt.tpot) > 1e-9 || math.IsNaN(got) != math.IsNaN(tt.tpot) {
					t.Errorf("tpot %v, want %v", got, tt.tpot)
				}
				if got := strings.Join(tt.r.Flags.Names(), " "); got != tt.flags {
					t.Errorf("flags %q, want %q", got, tt.flags)
				}
			}
			want := SourceServer
			if tt.r.Output == Unknown {
				want = SourceNone
			}
			if tt.r.Source != want {
				t.Errorf("source %v, want %v", tt.r.Source, want)
			}
		})
	}
}

// longest is a tokenizer over a small vocabulary: the longest word that fits.
type longest []string

func (l longest) AppendEnds(dst []int32, text string) []int32 {
	for at := 0; at < len(text); {
		n := 1
		for _, w := range l {
			if len(w) > n && strings.HasPrefix(text[at:], w) {
				n = len(w)
			}
		}
		at += n
		dst = append(dst, int32(at))
	}
	return dst
}

func TestResolveTokenizer(t *testing.T) {
	vocabulary := longest{"Hello", " world", "Hel", "lo"}
	text := func(output int32, finish string, pieces ...string) *Request {
		r := request(200, output, finish, nil)
		for i, p := range pieces {
			e := ev(100+10*int64(i), Unknown)
			e.TextBytes = uint32(len(p))
			r.Events = append(r.Events, e)
			r.TextBytes += int64(len(p))
		}
		r.Text = []string{strings.Join(pieces, "")}
		return r
	}
	f := func(r *Request, counted, output int32, source TokenSource, first int32, want ...int32) {
		t.Helper()
		for range 2 {
			r.Resolve(vocabulary)
			if diff := cmp.Diff(want, tokens(r)); diff != "" {
				t.Errorf("tokens: want -, got +\n%s", diff)
			}
			if r.TokenizerOutput != counted || r.Output != output || r.Source != source || r.FirstEventTokens != first {
				t.Errorf("counted %d, output %d from %v, first %d, want %d, %d, %v, %d", r.TokenizerOutput, r.Output, r.Source, r.FirstEventTokens, counted, output, source, first)
			}
		}
	}
	const u = Unknown
	// The joined text has 2 tokens, its pieces 3.
	f(text(u, "stop", "Hel", "lo", " world"), 2, 2, SourceTokenizer, u, 0, 1, 1)
	f(text(u, "stop", "Hello", " world"), 2, 2, SourceTokenizer, 1, 1, 1)
	// The server's count wins, both are kept.
	f(text(7, "stop", "Hello", " world"), 2, 7, SourceServer, 1, 1, 1)
	// A character of three byte tokens, held back until it was whole.
	f(text(u, "stop", "Hello", "中", " world"), 5, 5, SourceTokenizer, 1, 1, 3, 1)
	// Running counts come before the tokenizer.
	r := text(3, "stop", "Hello", " world")
	r.Events[0].Cumulative, r.Events[1].Cumulative = 2, 3
	f(r, 2, 3, SourceServer, 2, 2, 1)
	// Two channels, each a text of its own.
	r = text(u, "stop", "Hel", "lo", "lo", " world")
	r.Events[0].Channel, r.Events[1].Channel = Reasoning, Reasoning
	r.ReasoningText, r.Text[0] = "Hello", "lo world"
	f(r, 3, 3, SourceTokenizer, u, 0, 1, 1, 1)
	// Both in one event: the sum is known, the split is not.
	r = text(u, "stop", "Hel", "lolo", " world")
	r.Events[1].Channel = Reasoning | Content
	r.ReasoningText, r.Text[0] = "Hello", "lo world"
	f(r, 3, 3, SourceTokenizer, 1, 1, 1, 1) // numbers agree: one each
	// Two choices.
	r = text(u, "stop", "Hel", "Hello", "lo", " world")
	r.Events[1].Choice, r.Events[3].Choice = 1, 1
	r.Text = []string{"Hello", "Hello world"}
	f(r, 3, 3, SourceTokenizer, u, 0, 1, 1, 1)
	// Text that is not the whole output counts for nothing.
	r = text(u, "stop", "Hello", "{}")
	r.Events[1].Channel, r.Text[0] = ToolCall, "Hello"
	f(r, u, u, SourceNone, u, u, u)
}

// Random tokens are put into events and the events into reads. Whatever the
// split, the tokens of the events sum to the tokens of the answer, and the time
// per token after the first event is the server's step.
func TestResolveSplits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 200).Draw(t, "tokens")
		step := rapid.Int64Range(1, 50).Draw(t, "step") * ms
		start := rapid.Int64Range(0, 5000).Draw(t, "start") * ms
		endToken := rapid.Bool().Draw(t, "end token") // counted, without text
		hidden := rapid.Int32Range(0, 40).Draw(t, "hidden reasoning")
		source := rapid.SampledFrom([]string{"running", "tokenizer", "equal"}).Draw(t, "source")
		words := make(longest, 0, n)
		var text strings.Builder
		r := request(0, Unknown, "stop", nil)
		for sent := 0; sent < n; {
			size := 1
			if source != "equal" {
				size = rapid.IntRange(1, min(9, n-sent)).Draw(t, "size")
			}
			if sent+size == n && len(r.Events) == 0 && size > 1 {
				size-- // at least two events
			}
			var e Event
			for range size {
				w := fmt.Sprintf("<%d%s>", sent, strings.Repeat("é", sent%3))
				words = append(words, w)
				text.WriteString(w)
				e.TextBytes += uint32(len(w))
				sent++
			}
			// The event is whole with its last token.
			e.At, e.Cumulative, e.Tokens, e.Channel = start+int64(sent-1)*step, Unknown, Unknown, Content
			if source == "running" {
				e.Cumulative = hidden + int32(sent)
			}
			r.Events = append(r.Events, e)
			r.TextBytes += int64(e.TextBytes)
		}
		// Reads: inner events may wait for the read of a later one, which
		// changes their times and nothing else.
		read := uint32(0)
		last := len(r.Events) - 1
		for i := 0; i <= last; {
			j := i + 1
			if i > 0 && i < last {
				j = min(i+rapid.IntRange(1, 4).Draw(t, "in read"), last)
			}
			for k := i; k < j; k++ {
				r.Events[k].Read, r.Events[k].At, r.Events[k].Bounded = read, r.Events[j-1].At, k < j-1
			}
			read++
			i = j
		}
		r.End = r.Events[last].At + ms
		r.Text = []string{text.String()}
		var tok Counter
		switch source {
		case "tokenizer":
			tok = words
		default:
			r.Reasoning = hidden
			r.Output = hidden + int32(n)
			if endToken {
				r.Output++
			}
		}
		r.Resolve(tok)
		sum := int32(0)
		for i := range r.Events {
			if r.Events[i].Tokens == Unknown {
				t.Fatalf("event %d is unknown", i)
			}
			sum += r.Events[i].Tokens
		}
		if sum != int32(n) {
			t.Fatalf("events carry %d tokens, want %d", sum, n)
		}
		silent := r.StreamedTokens - sum
		if silent < 0 || silent > 1 {
			t.Fatalf("streamed %d, events carry %d", r.StreamedTokens, sum)
		}
		r.StreamedTokens -= silent // a token without text has no time
		if got, want := tpot(r), float64(step)/ms; math.Abs(got-want) > 1e-9 && r.Basis != BasisNone {
			t.Fatalf("tpot %v ms, want %v", got, want)
		}
		if r.Basis == BasisNone {
			t.Fatal("no tpot")
		}
	})
}

func TestResolveAllocates(t *testing.T) {
	r := request(1000, 100, "stop", nil)
	for i := range 100 {
		r.Events = append(r.Events, ev(int64(i*10), int32(i+1)))
	}
	if n := testing.AllocsPerRun(100, func() { r.Resolve(nil) }); n != 0 {
		t.Errorf("Resolve allocates %v times", n)
	}
}

func BenchmarkResolve(b *testing.B) {
	r := request(1000, 100, "stop", nil)
	for i := range 100 {
		r.Events = append(r.Events, ev(int64(i*10), int32(i+1)))
	}
	b.ReportAllocs()
	for b.Loop() {
		r.Resolve(nil)
	}
}
