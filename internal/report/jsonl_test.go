package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plimsoll/internal/record"
)

func lines(t *testing.T, rs ...*record.Request) []map[string]any {
	t.Helper()
	var b bytes.Buffer
	err := JSONLines(&b, func(yield func(*record.Request, error) bool) {
		for _, r := range rs {
			if !yield(r, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]any
	for line := range strings.Lines(b.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		out = append(out, m)
	}
	return out
}

func TestJSONLines(t *testing.T) {
	got := lines(t, answer(7, 1000*ms, 50*ms, 10*ms, 5), broken(8, 2000*ms, record.HTTPStatusError))
	if len(got) != 2 {
		t.Fatalf("%d lines, want 2", len(got))
	}
	want := map[string]any{
		"id": 7.0, "status": "ok", "error_kind": nil, "http_status": 200.0, "finish_reason": "length",
		"ttft_ms": 50.0, "ttft_from_schedule_ms": 50.1, "tpot_ms": 10.0, "itl_mean_ms": 10.0, "event_gap_mean_ms": 10.0,
		"tpot_basis": "first_event", "output_tokens": 5.0, "prompt_tokens": 520.0, "reasoning_tokens": nil,
		"token_source": "server", "text_bytes": 25.0, "output_events": 5.0, "timestamps": "kernel",
		"e2e_ms": 90.2, "phase": "steady", "asked_output_tokens": 5.0, "token_rate": 100.0,
	}
	for k, v := range want {
		if d := cmp.Diff(v, got[0][k]); d != "" {
			t.Errorf("%s (-want +got):\n%s", k, d)
		}
	}
	for k, v := range map[string]any{
		"status": "error", "error_kind": "http_status", "http_status": 500.0,
		"ttft_ms": nil, "e2e_ms": nil, "tpot_ms": nil, "output_tokens": nil, "t_first_token": nil, "finish_reason": nil,
	} {
		if d := cmp.Diff(v, got[1][k]); d != "" {
			t.Errorf("failed request: %s (-want +got):\n%s", k, d)
		}
	}
	if _, ok := got[0]["text"]; ok {
		t.Error("text of a run that kept none")
	}
}

// TestRowNeverInventsFigures: of a request of which nothing was seen nothing is
// said: every pointer is nil, so every unknown is null.
func TestRowNeverInventsFigures(t *testing.T) {
	r := new(record.Request)
	r.Reset()
	v := reflect.ValueOf(*NewRow(r))
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			t.Errorf("%s is %v, want nil", v.Type().Field(i).Name, f.Elem())
		}
	}
}

// TestRowIsJSON: whatever a request holds, its row is a line of JSON.
func TestRowIsJSON(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := answer(1, rapid.Int64Range(0, 1e15).Draw(rt, "at"), rapid.Int64Range(0, 1e12).Draw(rt, "ttft"),
			rapid.Int64Range(0, 1e12).Draw(rt, "gap"), rapid.IntRange(1, 5).Draw(rt, "n"))
		r.Message = rapid.String().Draw(rt, "message")
		r.Text = []string{rapid.String().Draw(rt, "text")}
		r.Output = rapid.Int32Range(-1, math.MaxInt32).Draw(rt, "output")
		b, err := json.Marshal(NewRow(r))
		if err != nil || bytes.ContainsRune(b, '\n') {
			rt.Fatalf("%v: %s", err, b)
		}
	})
}

func TestJSONLinesStopsAtAnError(t *testing.T) {
	broke := errors.New("part-3: broken")
	var b bytes.Buffer
	err := JSONLines(&b, func(yield func(*record.Request, error) bool) {
		if yield(answer(1, 0, ms, ms, 2), nil) {
			yield(nil, broke)
		}
	})
	if !errors.Is(err, broke) {
		t.Errorf("error %v, want %v", err, broke)
	}
	if n := strings.Count(b.String(), "\n"); n != 1 {
		t.Errorf("%d lines before the error, want 1", n)
	}
}

// What a server said is in every line as text that no terminal obeys.
func TestJSONLinesArePrintable(t *testing.T) {
	r := broken(1, 1000*ms, record.HTTPStatusError)
	r.Message, r.Finish = "\u009b31m\x7f \u202egnp\u2028\x1b[2J", "\u009d0;x\u009c"
	var b bytes.Buffer
	if err := JSONLines(&b, func(yield func(*record.Request, error) bool) { yield(r, nil) }); err != nil {
		t.Fatal(err)
	}
	for _, c := range strings.TrimSuffix(b.String(), "\n") {
		if !unicode.IsPrint(c) {
			t.Errorf("%q in %q", c, b.String())
		}
	}
	var row Row
	if err := json.Unmarshal(b.Bytes(), &row); err != nil || *row.ErrorMessage != r.Message || *row.FinishReason != r.Finish {
		t.Errorf("row is %+v, %v", row, err)
	}
}
