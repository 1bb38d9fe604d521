package run

import (
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"plimsoll/internal/record"
)

// times draws a clock point, also Unset, 0 and negative ones.
func times() *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Just(record.Unset), rapid.Just(int64(0)), rapid.Int64Range(-1e9, 1e15))
}

func counts() *rapid.Generator[int32] {
	return rapid.OneOf(rapid.Just(record.Unknown), rapid.Int32Range(0, math.MaxInt32))
}

// requests draws records with every field set to something.
func requests() *rapid.Generator[*record.Request] {
	return rapid.Custom(func(t *rapid.T) *record.Request {
		u32 := func(name string) uint32 { return rapid.Uint32().Draw(t, name) }
		str := func(name string) string { return rapid.OneOf(rapid.Just(""), rapid.String()).Draw(t, name) }
		boolean := func(name string) bool { return rapid.Bool().Draw(t, name) }
		at := func(name string) int64 { return times().Draw(t, name) }
		n := func(name string) int32 { return counts().Draw(t, name) }
		r := new(record.Request)
		r.Reset()
		r.ID, r.Session = rapid.Uint64().Draw(t, "id"), rapid.Uint64().Draw(t, "session")
		r.User, r.Turn, r.Step, r.Agent, r.Target = u32("user"), u32("turn"), u32("step"), u32("agent"), u32("target")
		r.Workload, r.Remote, r.Finish, r.Message = str("workload"), str("remote"), str("finish"), str("message")
		r.Phase = record.Phase(rapid.IntRange(0, int(record.Drain)).Draw(t, "phase"))
		for name, p := range map[string]*int64{
			"scheduled": &r.Scheduled, "start": &r.Start, "connected": &r.Connected, "sent": &r.Sent, "headers": &r.Headers,
			"first event": &r.FirstEvent, "first token": &r.FirstToken, "first content": &r.FirstContent, "last token": &r.LastToken,
			"end": &r.End, "retrieval start": &r.RetrievalStart, "retrieval end": &r.RetrievalEnd, "first send": &r.FirstSend,
			"lag mean": &r.ReadLagMean, "lag max": &r.ReadLagMax,
		} {
			*p = at(name)
		}
		r.CapWait = rapid.Int64Range(0, 1e12).Draw(t, "cap wait")
		r.KernelTimes, r.Streamed, r.AskedStream = boolean("kernel"), boolean("streamed"), boolean("asked stream")
		r.AskedExact, r.Reused = boolean("exact"), boolean("reused")
		r.Reads, r.StreamEvents, r.Fallbacks = u32("reads"), u32("stream events"), u32("fallbacks")
		r.AskedPrompt, r.AskedOutput = rapid.Int32Range(0, 1e6).Draw(t, "asked prompt"), rapid.Int32Range(0, 1e6).Draw(t, "asked output")
		for name, p := range map[string]*int32{
			"prompt": &r.Prompt, "cached": &r.Cached, "output": &r.Output, "reasoning": &r.Reasoning,
			"tokenizer": &r.TokenizerOutput, "streamed tokens": &r.StreamedTokens, "first tokens": &r.FirstEventTokens,
		} {
			*p = n(name)
		}
		r.Source = record.TokenSource(rapid.IntRange(0, 2).Draw(t, "source"))
		r.Basis = record.TPOTBasis(rapid.IntRange(0, 2).Draw(t, "basis"))
		r.Status = record.Status(rapid.IntRange(0, 3).Draw(t, "status"))
		r.Error = record.ErrorKind(rapid.IntRange(0, int(record.ClientResource)).Draw(t, "error"))
		r.HTTPStatus = rapid.Uint16().Draw(t, "http status")
		r.Flags = record.Flags(rapid.Uint32Range(0, uint32(record.ShortOutput)*2-1).Draw(t, "flags"))
		r.Resends = rapid.Uint8().Draw(t, "resends")
		r.SentBytes, r.ReceivedBytes = rapid.Int64Min(0).Draw(t, "sent bytes"), rapid.Int64Min(0).Draw(t, "received bytes")
		r.TextBytes = rapid.Int64Min(0).Draw(t, "text bytes")
		r.Text = rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "text")
		r.ReasoningText, r.RefusalText = str("reasoning text"), str("refusal text")
		// Streams are all plain, all odd, or mixed.
		odd := rapid.IntRange(0, 2).Draw(t, "odd")
		first := rapid.Bool().Draw(t, "first output is first token")
		for i := range rapid.IntRange(0, 20).Draw(t, "events") {
			e := record.Event{
				At: rapid.Int64Range(0, 1e15).Draw(t, "at"), Cumulative: record.Unknown, Tokens: record.Unknown,
				Read: uint32(i), TextBytes: rapid.Uint32Range(0, 1e6).Draw(t, "text bytes"), Channel: record.Content,
			}
			if i == 0 && first && r.FirstToken != record.Unset {
				e.At = r.FirstToken
			}
			if odd == 2 || odd == 1 && rapid.Bool().Draw(t, "this odd") {
				e.Cumulative, e.Tokens, e.Read = n("cumulative"), n("tokens"), u32("read")
				e.Choice, e.Channel = rapid.Uint8().Draw(t, "choice"), record.Channel(rapid.IntRange(0, 15).Draw(t, "channel"))
				e.Bounded = boolean("bounded")
			}
			r.Events = append(r.Events, e)
		}
		return r
	})
}

var sameRequest = cmp.Options{cmpopts.EquateEmpty()}

func TestQueueKeepsEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(requests(), 1, 5).Draw(t, "requests")
		var b []byte
		for _, r := range want {
			b = appendRequest(b, r)
		}
		d := decoder{b: b, names: make(map[string]string)}
		got := new(record.Request)
		for _, r := range want {
			d.next(got)
			if diff := cmp.Diff(r, got, sameRequest); diff != "" {
				t.Fatal(diff)
			}
		}
		if len(d.b) > 0 {
			t.Fatalf("%d bytes are left", len(d.b))
		}
	})
}

func info(name string) Info {
	return Info{Name: name, Start: time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)}
}

func TestRequestsSurviveTheDisk(t *testing.T) {
	root := t.TempDir()
	for seed := range 30 { // each run costs the disk several syncs
		want := rapid.SliceOfN(requests(), 1, 150).Example(seed)
		w, err := Create(root, info("x"), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range want {
			w.Add(r)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		run, err := Open(w.Dir())
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		for got := range run.Requests() {
			if diff := cmp.Diff(want[i], got, sameRequest); diff != "" {
				t.Fatalf("seed %d, request %d: %s", seed, i, diff)
			}
			i++
		}
		if i != len(want) || run.Notes() != nil {
			t.Fatalf("seed %d: read %d of %d, notes %v", seed, i, len(want), run.Notes())
		}
		if n := run.Info(); n.Records != int64(i) || n.DroppedRecords != 0 {
			t.Fatalf("run.json says %d records and %d dropped", n.Records, n.DroppedRecords)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(root, "*", "*"+tmpSuffix)); left != nil {
		t.Errorf("left behind %v", left)
	}
}
