package load

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/dialect"
	"plimsoll/internal/play"
	"plimsoll/internal/record"
	"plimsoll/internal/stats"
)

// expected is the content of expected.json of a case: only the keys that are
// there are checked. Times are in ms since the request was sent.
type expected struct {
	Status       string          `json:"status"`
	ErrorKind    string          `json:"error_kind"`
	ErrorMessage string          `json:"error_message"`
	HTTPStatus   int             `json:"http_status"`
	Text         *string         `json:"text"`
	Texts        []string        `json:"texts"`
	Reasoning    string          `json:"reasoning_text"`
	Refusal      string          `json:"refusal"`
	Calls        []expectedCall  `json:"tool_calls"`
	TTFT         json.RawMessage `json:"ttft_ms"`
	TTFC         json.RawMessage `json:"ttft_content_ms"`
	TPOT         json.RawMessage `json:"tpot_ms"`
	E2E          json.RawMessage `json:"e2e_ms"`
	LastToken    json.RawMessage `json:"last_token_ms"`
	StreamEnd    json.RawMessage `json:"stream_end_ms"`
	Output       json.RawMessage `json:"output_tokens"`
	Finish       json.RawMessage `json:"finish_reason"`
	Events       *int            `json:"events"`
	OutputEvents *int            `json:"output_events"`
	Gaps         []float64       `json:"icl_ms"`
	Streamed     *bool           `json:"streamed"`
	Warnings     []string        `json:"warnings"`
	Usage        map[string]int  `json:"usage"`
	// PlainTPOT is a figure of others, in the case to tell it from ours.
	PlainTPOT json.RawMessage `json:"tpot_plain_ms"`
}

type expectedCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// elsewhere are the cases of the folder that no player can play to this
// package, with where they are tested or why they are not.
var elsewhere = map[string]string{
	"060-keepalive-close-race":                "below: it is about two requests",
	"061-http2-goaway":                        "HTTP/2 is not spoken yet",
	"062-429-retry-after":                     "below: it is about three requests",
	"067-fd-limit":                            "checked by conduct before a run",
	"068-one-backend-behind-lb":               "connections are spread by stream",
	"070-tls-self-signed":                     "below: it needs a server with TLS",
	"080-single-token-requests":               "a formula of stats",
	"083-count-tokens-on-joined-text":         "the resolution of record",
	"085-tokens-per-second-needs-output-only": "a formula of stats",
	"086-reasoning-units-must-match":          "a formula of stats",
	"087-coordinated-omission":                "below: it is about a schedule",
	"088-schedule-drift":                      "below: it is about a schedule",
	"089-start-burst":                         "below: it is about a schedule",
}

// played reads a case.
func played(t *testing.T, name string) (*play.Script, *expected) {
	t.Helper()
	script, values, err := play.Case(name)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	want := new(expected)
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(want); err != nil {
		t.Fatalf("read expected.json: %v", err)
	}
	return script, want
}

// expect reads the values of a case that has no play file.
func expect(t *testing.T, name string, v any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "cases", name, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatal(err)
	}
}

// eachCase runs f on every case that is of one request to an API of ours.
func eachCase(t *testing.T, f func(t *testing.T, name string, script *play.Script, want *expected)) {
	n := 0
	for _, name := range play.Cases() {
		if elsewhere[name] != "" {
			continue
		}
		script, _, err := play.Case(name)
		if err != nil {
			t.Fatal(err)
		}
		if api := script.Request.API; api != string(dialect.OpenAIChat) && api != string(dialect.OpenAICompletions) {
			continue
		}
		n++
		t.Run(name, func(t *testing.T) {
			script, want := played(t, name)
			f(t, name, script, want)
		})
	}
	if n != 42 {
		t.Errorf("%d cases were played, want 42", n)
	}
}

// configure sets what a case says about the run.
func configure(name string, cfg *Config) {
	switch name[:3] {
	case "020":
		cfg.IdleTimeout = 2 * time.Second
	case "022":
		cfg.Population = fixed(8, 128)
	case "064":
		cfg.HeaderTimeout, cfg.IdleTimeout = time.Second, time.Second
	}
}

// All cases over a buffered connection in memory under a fake clock, where
// every value is exact.
func TestCasesUnderFakeTime(t *testing.T) {
	eachCase(t, func(t *testing.T, name string, script *play.Script, want *expected) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, script)
			configure(name, &g.cfg)
			g.run()
			check(t, g.only(), g.results[0], want, exact)
			if name[:3] == "020" {
				if end := g.records[0].End - g.records[0].Start; end != 2120*ms {
					t.Errorf("silence ended the request after %d ns, want 2 s after the last byte at 120 ms", end)
				}
			}
		})
	})
}

// The same cases over real sockets. A loaded machine may be late by any time,
// but nothing can be early.
func TestCasesOverSockets(t *testing.T) {
	eachCase(t, func(t *testing.T, name string, script *play.Script, want *expected) {
		if name[:3] == "064" {
			t.Skip("5.5 s of a slow stream say nothing here that fake time does not")
		}
		t.Parallel()
		g := newSocketRig(t, script)
		configure(name, &g.cfg)
		if name[:3] == "020" {
			want.OutputEvents = nil // a player that is held up is silent for as long before the second
		}
		g.run()
		check(t, g.only(), g.results[0], want, late)
	})
}

// closeness says how two times may differ.
type closeness struct{ early, late float64 }

var (
	exact = closeness{1e-6, 1e-6}
	// The player's own sleeps end late, never early, by as much as the machine
	// holds it up; the stamps of two clocks may be 1 ms apart.
	late = closeness{1, math.Inf(1)}
)

func check(t *testing.T, r *record.Request, res *dialect.Result, want *expected, c closeness) {
	t.Helper()
	equal := func(what string, got, want any) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	at := func(what string, raw json.RawMessage, ns float64, ok bool) {
		t.Helper()
		if raw == nil {
			return
		}
		if string(raw) == "null" {
			if ok {
				t.Errorf("%s is %.3f ms, want none", what, ns/1e6)
			}
			return
		}
		var ms float64
		if err := json.Unmarshal(raw, &ms); err != nil {
			t.Fatal(err)
		}
		if !ok {
			t.Errorf("%s is missing, want %v ms", what, ms)
		} else if d := ns/1e6 - ms; d < -c.early || d > c.late {
			t.Errorf("%s is %.6f ms, want %v", what, ns/1e6, ms)
		}
	}
	point := func(what string, raw json.RawMessage, p int64) {
		t.Helper()
		at(what, raw, float64(p-r.Start), p != record.Unset)
	}
	fact := func(what string, raw json.RawMessage, got any) {
		t.Helper()
		if raw == nil {
			return
		}
		b, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if string(b) != string(raw) {
			t.Errorf("%s is %s, want %s", what, b, raw)
		}
	}

	equal("status", r.Status.String(), want.Status)
	equal("error kind", r.Error.String(), want.ErrorKind)
	if want.ErrorMessage != "" {
		equal("message", r.Message, want.ErrorMessage)
	}
	if (r.Status == record.Failed) != (r.Message != "") {
		t.Errorf("status is %v with message %q", r.Status, r.Message)
	}
	if want.HTTPStatus != 0 {
		equal("HTTP status", int(r.HTTPStatus), want.HTTPStatus)
	}
	if want.Text != nil {
		got := ""
		if len(r.Text) > 0 {
			got = r.Text[0]
		}
		equal("text", got, *want.Text)
	}
	if want.Texts != nil {
		equal("texts", r.Text, want.Texts)
	}
	if want.Reasoning != "" {
		equal("reasoning", r.ReasoningText, want.Reasoning)
	}
	if want.Refusal != "" {
		equal("refusal", res.Refusal, []string{want.Refusal})
	}
	if want.Calls != nil {
		var got []expectedCall
		for _, k := range res.Calls {
			got = append(got, expectedCall(k))
		}
		equal("tool calls", got, want.Calls)
	}

	ttft, ok := stats.TTFT(r)
	at("ttft", want.TTFT, float64(ttft), ok)
	ttfc, ok := stats.TTFC(r)
	at("ttfc", want.TTFC, float64(ttfc), ok)
	e2e, ok := stats.E2E(r)
	at("e2e", want.E2E, float64(e2e), ok)
	point("last token", want.LastToken, r.LastToken)
	point("end", want.StreamEnd, r.End)
	if tpot, _, ok := stats.TPOT(r); c == exact || string(want.TPOT) == "null" {
		at("tpot", want.TPOT, math.Round(tpot), ok)
	}

	var output, finish any
	if r.Output != record.Unknown {
		output = r.Output
	}
	if r.Finish != "" {
		finish = r.Finish
	}
	fact("output tokens", want.Output, output)
	fact("finish reason", want.Finish, finish)
	if want.Events != nil {
		equal("events", int(r.StreamEvents), *want.Events)
	}
	if want.OutputEvents != nil {
		equal("output events", len(r.Events), *want.OutputEvents)
	}
	if want.Streamed != nil {
		equal("streamed", r.Streamed, *want.Streamed)
	}
	for k, n := range want.Usage {
		got := map[string]int32{"prompt": r.Prompt, "completion": r.Output, "reasoning": r.Reasoning, "cached": r.Cached}
		equal("usage "+k, int(got[k]), n)
	}
	if want.Gaps != nil && c == exact {
		var gaps []float64
		for i := range r.Events[1:] {
			gaps = append(gaps, float64(r.Events[i+1].At-r.Events[i].At)/1e6)
		}
		equal("gaps", gaps, want.Gaps)
	}
	for _, w := range want.Warnings {
		if !slices.Contains(r.Flags.Names(), w) {
			t.Errorf("flag %s is missing from %s", w, strings.Join(r.Flags.Names(), ", "))
		}
	}
	// A flag that the case does not name is an alarm about nothing; only that
	// events and tokens differ in number is so common that cases leave it out.
	for _, f := range r.Flags.Names() {
		if f != "multi_token_events" && c == exact && !slices.Contains(want.Warnings, f) {
			t.Errorf("flag %s is set, the case has %v", f, want.Warnings)
		}
	}
	checkOrder(t, r)
}

// checkOrder checks what holds for every record.
func checkOrder(t *testing.T, r *record.Request) {
	t.Helper()
	last := record.Unset
	name := "nothing"
	step := func(n string, at int64) {
		t.Helper()
		if at == record.Unset {
			return
		}
		if at < last {
			t.Errorf("%s at %d is before %s at %d", n, at, name, last)
		}
		last, name = at, n
	}
	step("scheduled", r.Scheduled)
	step("start", r.Start)
	step("connected", r.Connected)
	if r.Flags&record.EarlyResponse == 0 {
		step("sent", r.Sent)
	}
	step("headers", r.Headers)
	step("first event", r.FirstEvent)
	step("first token", r.FirstToken)
	step("last token", r.LastToken)
	step("end", r.End)
	for i := 1; i < len(r.Events); i++ {
		if r.Events[i].At < r.Events[i-1].At {
			t.Errorf("event %d is before the one before it", i)
		}
	}
}
