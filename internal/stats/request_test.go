package stats

import (
	"slices"
	"testing"

	"plimsoll/internal/record"
)

type gapTokens struct {
	gap    int64
	tokens int32
}

func gapsOf(r *record.Request) (out []int64) {
	EventGaps(r, func(g int64) { out = append(out, g) })
	return out
}

func itlOf(r *record.Request) (out []gapTokens, ok bool) {
	ok = ITL(r, func(g int64, n int32) { out = append(out, gapTokens{g, n}) })
	return out, ok
}

func TestEventsOfSeveralTokens(t *testing.T) {
	r := streamed(0, 100*ms, 140*ms, 180*ms)
	r.Events[1].Tokens = 3
	r.Output, r.StreamedTokens = 5, 5
	if got := gapsOf(r); !slices.Equal(got, []int64{40 * ms, 40 * ms}) {
		t.Errorf("gaps are %v", got)
	}
	if got, ok := itlOf(r); !ok || !slices.Equal(got, []gapTokens{{40 * ms, 3}, {40 * ms, 1}}) {
		t.Errorf("itl is %v", got)
	}
	if v, _, _ := TPOT(r); v != 20e6 {
		t.Errorf("tpot is %v", v)
	}
	d := summarize(window(sec), r).Latency.ITL
	is(t, "mean of itl", d.Mean, known(20))
	if d.Count != 4 {
		t.Errorf("itl counts %d tokens, want 4", d.Count)
	}
}

func TestFirstEventOfSeveralTokens(t *testing.T) {
	r := streamed(0, 300*ms, 400*ms, 500*ms)
	r.Output, r.StreamedTokens, r.FirstEventTokens = 30, 30, 10
	if v, basis, ok := TPOT(r); !ok || v != 10e6 || basis != record.BasisFirstEvent {
		t.Errorf("tpot is %v by %v", v, basis)
	}
	r.FirstEventTokens = record.Unknown
	if v, basis, _ := TPOT(r); !near(known(v/1e6), 6.896552) || basis != record.BasisNMinus1 {
		t.Errorf("tpot is %v by %v", v, basis)
	}
}

func TestTokenThatAnEventOnlyBegan(t *testing.T) {
	// The second event completes no token: its time belongs to the third.
	r := streamed(0, 10*ms, 30*ms, 40*ms, 50*ms)
	r.Events[1].Tokens, r.Events[3].Tokens = 0, 0
	if got, ok := itlOf(r); !ok || !slices.Equal(got, []gapTokens{{30 * ms, 1}}) {
		t.Errorf("itl is %v", got)
	}
	if got := gapsOf(r); len(got) != 3 {
		t.Errorf("gaps are %v", got)
	}
}

func TestUnknownTokensMakeITLUnknown(t *testing.T) {
	r := streamed(0, 10*ms, 30*ms, 40*ms)
	r.Events[2].Tokens = record.Unknown
	if got, ok := itlOf(r); ok || got != nil {
		t.Errorf("itl is %v", got)
	}
	// Of the first event they close no gap.
	r = streamed(0, 10*ms, 30*ms, 40*ms)
	r.Events[0].Tokens = record.Unknown
	if got, ok := itlOf(r); !ok || len(got) != 2 {
		t.Errorf("itl is %v, %v", got, ok)
	}
}

func TestSeveralChoices(t *testing.T) {
	// Two answers side by side: 100, 120, 140 and 105, 125, 145 ms.
	r := streamed(0, 100*ms, 105*ms, 120*ms, 125*ms, 140*ms, 145*ms)
	for i := range r.Events {
		r.Events[i].Choice = uint8(i % 2)
	}
	if v, _, ok := TPOT(r); ok {
		t.Errorf("tpot of two answers is %v", v)
	}
	want := []int64{20 * ms, 20 * ms, 20 * ms, 20 * ms}
	if got := gapsOf(r); !slices.Equal(got, want) {
		t.Errorf("gaps are %v, want %v", got, want)
	}
	got, ok := itlOf(r)
	if !ok || len(got) != 4 || got[0] != (gapTokens{20 * ms, 1}) {
		t.Errorf("itl is %v", got)
	}
	s := summarize(window(sec), r)
	is(t, "ttft", s.Latency.TTFT.P50, known(100))
	if s.Latency.TPOT.Count != 0 || *s.Tokens.Output != 6 {
		t.Errorf("tpot counts %d, output is %d", s.Latency.TPOT.Count, *s.Tokens.Output)
	}
}

func TestOneBodyHasNoStreamFigures(t *testing.T) {
	r := streamed(0, 100*ms, 200*ms)
	r.Streamed = false
	for name, f := range map[string]func(*record.Request) (int64, bool){"ttft": TTFT, "ttfc": TTFC, "ttft_from_schedule": TTFTFromSchedule} {
		if v, ok := f(r); ok {
			t.Errorf("%s is %d", name, v)
		}
	}
	if _, _, ok := TPOT(r); ok {
		t.Error("tpot is known")
	}
	if _, ok := itlOf(r); ok {
		t.Error("itl is known")
	}
	if _, ok := PromptRate(r); ok {
		t.Error("prompt_rate is known")
	}
	if v, ok := E2E(r); !ok || v != 200*ms {
		t.Errorf("e2e is %d, %v", v, ok)
	}
}

func TestFiguresOfPoints(t *testing.T) {
	r := streamed(0, 100*ms)
	r.Scheduled, r.Start, r.Connected, r.Sent = 5*ms, 20*ms, 27*ms, 30*ms
	r.CapWait, r.Prompt = 10*ms, 200
	r.RetrievalStart, r.RetrievalEnd = 0, 4*ms
	r.KernelTimes, r.ReadLagMean = true, 7
	for name, f := range map[string]struct {
		get  func(*record.Request) (int64, bool)
		want int64
	}{
		"ttft": {TTFT, 80 * ms}, "ttft_from_schedule": {TTFTFromSchedule, 95 * ms}, "ttfc": {TTFC, 80 * ms}, "ttlt": {TTLT, 80 * ms},
		"e2e": {E2E, 80 * ms}, "e2e_from_schedule": {E2EFromSchedule, 95 * ms}, "connect": {Connect, 7 * ms}, "upload": {Upload, 3 * ms},
		"retrieval": {Retrieval, 4 * ms}, "ttft_with_retrieval": {TTFTWithRetrieval, 84 * ms}, "send_lag": {SendLag, 5 * ms}, "read_lag": {ReadLag, 7},
	} {
		if v, ok := f.get(r); !ok || v != f.want {
			t.Errorf("%s is %d, %v, want %d", name, v, ok, f.want)
		}
		var empty record.Request
		empty.Reset()
		if v, ok := f.get(&empty); ok {
			t.Errorf("%s of nothing is %d", name, v)
		}
	}
	if v, ok := PromptRate(r); !ok || v != 2500 {
		t.Errorf("prompt_rate is %v", v)
	}
	r.Status = record.Failed
	if _, ok := E2E(r); ok {
		t.Error("e2e of a failed request is known")
	}
	if _, ok := E2EFromSchedule(r); ok {
		t.Error("e2e_from_schedule of a failed request is known")
	}
	if v, ok := TTFT(r); !ok || v != 80*ms {
		t.Error("ttft of a request that failed later is unknown")
	}
}

func TestRateOfNoTime(t *testing.T) {
	// A proxy that lets go of everything at once: tpot is 0, its rate unknown.
	r := streamed(0, 1700*ms, 1700*ms, 1700*ms)
	if v, _, ok := TPOT(r); !ok || v != 0 {
		t.Errorf("tpot is %v, %v", v, ok)
	}
	if v, ok := TokenRate(r); ok {
		t.Errorf("token_rate is %v", v)
	}
	r.Start = r.FirstToken
	r.Prompt = 5
	if v, ok := PromptRate(r); ok {
		t.Errorf("prompt_rate is %v", v)
	}
}

// A connection that the server let die under a request is not the client's
// lateness.
func TestSendLagOfARequestSentAgain(t *testing.T) {
	r := streamed(1000*ms, 1010*ms, 1020*ms)
	r.Scheduled, r.FirstSend, r.Resends, r.CapWait = 100*ms, 107*ms, 1, 2*ms
	if lag, ok := SendLag(r); !ok || lag != 5*ms {
		t.Errorf("send lag is %d ns, %v; want 5 ms", lag, ok)
	}
	is(t, "send_lag of the run", summarize(window(sec), r).Client.SendLag.Max, known(5))
}
