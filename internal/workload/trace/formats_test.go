package trace

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/message"
	"plimsoll/internal/record"
)

// Each sample is recognised, and read to the last row.
func TestDetection(t *testing.T) {
	for _, c := range []struct {
		file, format string
		requests     int
	}{
		{"samples/aiperf_dag.jsonl", "aiperf-dag", 5},
		{"samples/aiperf_inputs.json", "aiperf-inputs", 2},
		{"samples/aiperf_multi_turn.jsonl", "aiperf-multi-turn", 3},
		{"samples/aiperf_random_pool.jsonl", "aiperf-single-turn", 3},
		{"samples/aiperf_raw_payload.jsonl", "raw-payload", 2},
		{"samples/aiperf_single_turn.jsonl", "aiperf-single-turn", 4},
		{"samples/azure_2023.csv", "azure", 2},
		{"samples/azure_2024.csv", "azure", 2},
		{"samples/azure_2025_multimodal.csv", "azure", 2},
		{"samples/bailian.jsonl", "bailian", 2},
		{"samples/burstgpt_v1.csv", "burstgpt", 2},
		{"samples/burstgpt_v2.csv", "burstgpt", 1},
		{"samples/dynamo_agentic_mooncake.jsonl", "mooncake", 3},
		{"samples/dynamo_applied_compute_agentic.jsonl", "applied-compute", 3},
		{"samples/dynamo_request_trace_v1.jsonl", "dynamo", 2},
		{"samples/endpoints_agentic.jsonl", "mlcommons", 4},
		{"samples/guidellm_data.jsonl", "guidellm", 2},
		{"samples/guidellm_trace.jsonl", "guidellm", 2},
		{"samples/lmsys_chat_1m.jsonl", "sharegpt", 1},
		{"samples/mooncake_lengths.jsonl", "mooncake", 2},
		{"samples/mooncake_messages_delta.jsonl", "mooncake", 2},
		{"samples/mooncake_messages_history.jsonl", "mooncake", 2},
		{"samples/mooncake_payload.jsonl", "mooncake", 1},
		{"samples/mooncake_sessions.jsonl", "mooncake", 2},
		{"samples/mooncake_text.jsonl", "mooncake", 2},
		{"samples/openai_batch_input.jsonl", "openai-batch", 2},
		{"samples/sagemaker_data_capture.jsonl", "sagemaker", 1},
		{"samples/sharegpt.json", "sharegpt", 2},
		{"samples/vllm_custom.jsonl", "jsonl", 2},
		{"samples/weka_trace.json", "weka", 3},
		{"samples/wildchat.jsonl", "sharegpt", 1},
		{"published/otel_fan_in_dependencies.json", "otel", 4},
		{"published/otel_parallel_requests.json", "otel", 5},
		{"published/otel_simple_chain.json", "otel", 3},
		{"published/multi_session_example.csv", "tracelab-csv", 8},
		{"published/multi_session_large.csv", "tracelab-csv", 303},
		{"published/session_workload_example.csv", "tracelab-csv", 11},
		{"published/sanitized_round_trace.jsonl", "tracelab", 19},
		{"published/azure_2023_code.csv.gz", "azure", 8819},
		{"published/reason-deepseek-r1-chunk-2-trace.csv", "servegen", 289},
	} {
		tr, err := Load(filepath.Join("testdata", c.file), Options{}, Selection{})
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		if tr.Format != c.format || len(tr.Records) != c.requests || tr.Summary.Skipped.BadRow != 0 {
			t.Errorf("%s: format %s, %d requests, %d not right; want %s and %d", c.file, tr.Format, len(tr.Records), tr.Summary.Skipped.BadRow, c.format, c.requests)
		}
		// A name that is asked for does the same.
		if s, err := Inspect(filepath.Join("testdata", c.file), Options{Format: c.format}); err != nil || s.Requests != c.requests {
			t.Errorf("%s with --format %s: %v", c.file, c.format, err)
		}
	}
	// The output of a batch is no input.
	if _, err := Load("testdata/samples/openai_batch_output.jsonl", Options{}, Selection{}); err == nil || !strings.Contains(err.Error(), "output of a batch") {
		t.Errorf("batch output: %v", err)
	}
}

// The figures of published traces, recomputed from the files themselves by the
// page that lists them.
func TestPublishedStatistics(t *testing.T) {
	for _, c := range []struct {
		file                         string
		n                            int
		in, out                      [6]float64 // mean, p50, p90, p95, p99, max; -1 for not listed
		span, rate                   float64
		cv                           float64
		peak                         int
		instants, group, blocks, dis int
		hit                          float64
	}{
		{
			file: "azure_2023_code.csv.gz", n: 8819,
			in: [6]float64{2047.9, 1469, 5187.6, 7303, 7436, 7437}, out: [6]float64{27.9, 13, 55, 90, 251, 1899},
			span: 3436, rate: 2.567, cv: 13.15, peak: 67,
		},
		{
			file: "azure_2023_conv.csv.gz", n: 19366,
			in: [6]float64{1154.7, 1020, 2734.5, 4083, 4142, 14050}, out: [6]float64{211.1, 129, 424, 451, 601, 1000},
			span: 3501.7, rate: 5.530, cv: 1.094, peak: 16,
		},
		{
			file: "mooncake_conversation.jsonl.gz", n: 12031,
			in: [6]float64{12035, 6909, 27367, 39550, 85400, 126195}, out: [6]float64{342.6, 350, 597, -1, 1118, 2000},
			span: 3537, rate: 3.40, instants: 1180, group: 28, blocks: 288500, dis: 182790, hit: 0.366,
		},
	} {
		s := inspect(t, "testdata/published/"+c.file, Options{})
		near := func(what string, got, want, tol float64) {
			t.Helper()
			if want >= 0 && math.Abs(got-want) > tol {
				t.Errorf("%s: %s %g, want %g", c.file, what, got, want)
			}
		}
		if s.Requests != c.n || !s.Sorted || len(s.Problems) > 0 {
			t.Errorf("%s: %d requests, sorted %v, problems %v", c.file, s.Requests, s.Sorted, s.Problems)
		}
		for i, l := range []*Lengths{s.Input, s.Output} {
			want := [][6]float64{c.in, c.out}[i]
			// The list rounds down where it is whole.
			for j, got := range []float64{l.Mean, l.P50, l.P90, l.P95, l.P99, float64(l.Max)} {
				tol := 0.06
				if want[j] == math.Trunc(want[j]) {
					tol = 1
				}
				near(fmt.Sprintf("lengths %d, figure %d", i, j), got, want[j], tol)
			}
		}
		near("span", *s.SpanS, c.span, 0.6)
		near("rate", *s.Rate, c.rate, 0.005)
		if c.cv > 0 {
			near("gap CV", *s.GapCV, c.cv, 0.006)
			near("peak", float64(*s.PeakPerSecond), float64(c.peak), 0)
		}
		if c.blocks > 0 {
			near("instants", float64(*s.Instants), float64(c.instants), 0)
			near("group", float64(*s.LargestGroup), float64(c.group), 0)
			near("blocks", float64(s.Blocks.Total), float64(c.blocks), 0)
			near("distinct", float64(s.Blocks.Distinct), float64(c.dis), 0)
			near("hit rate", s.Blocks.HitRate, c.hit, 0.0005)
			if s.Blocks.InconsistentCount != 0 {
				t.Errorf("%d inconsistent ids", s.Blocks.InconsistentCount)
			}
		}
	}
	if s := inspect(t, "testdata/published/azure_2023_code.csv.gz", Options{}); math.Abs(*s.LongestGapS-217) > 1 {
		t.Errorf("longest gap %g, want 217 s", *s.LongestGapS)
	}
}

// A row that is not right is one clear error that says where and what.
func TestBadRows(t *testing.T) {
	const head = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
	const ok = `{"timestamp": 0, "input_length": 10, "output_length": 2}` + "\n"
	for _, c := range []struct {
		name, text string
		line       int
		field      string
		says       string
	}{
		{"negative time", ok + `{"timestamp": -5, "input_length": 1, "output_length": 2}`, 2, "timestamp", "before the beginning"},
		{"no time at all", ok + `{"timestamp": "soon", "input_length": 1, "output_length": 2}`, 2, "timestamp", "not a time"},
		{"missing length", ok + `{"timestamp": 1, "output_length": 2}`, 2, "input_length", "missing"},
		{"negative length", ok + `{"timestamp": 1, "input_length": -3, "output_length": 2}`, 2, "input_length", "want 0 to"},
		{"fractional length", ok + `{"timestamp": 1, "input_length": 3.5, "output_length": 2}`, 2, "input_length", "whole number"},
		{"huge length", ok + `{"timestamp": 1, "input_length": 99999999999, "output_length": 2}`, 2, "input_length", "want 0 to"},
		{"hash above 64 bits", ok + `{"timestamp": 1, "input_length": 3, "output_length": 2, "hash_ids": [18446744073709551616]}`, 2, "hash_ids", "64 bits"},
		{"fractional hash", ok + `{"timestamp": 1, "input_length": 3, "output_length": 2, "hash_ids": [1.5]}`, 2, "hash_ids", "64 bits"},
		{"two prompts", ok + `{"timestamp": 1, "text_input": "a", "messages": [{"role": "user", "content": "b"}], "output_length": 2}`, 2, "messages", "stands beside text_input"},
		{"hashes beside text", ok + `{"timestamp": 1, "text_input": "a", "hash_ids": [1], "output_length": 2}`, 2, "hash_ids", "beside text_input"},
		{"unknown mode", ok + `{"timestamp": 1, "messages": [{"role": "user", "content": "b"}], "message_mode": "full", "output_length": 2}`, 2, "message_mode", "history or delta"},
		{"unknown role", ok + `{"timestamp": 1, "messages": [{"role": "wizard", "content": "b"}], "output_length": 2}`, 2, "messages.role", "wizard"},
		{"no JSON", ok + "nonsense\n", 2, "", "no JSON"},
		{"cut off", ok + `{"timestamp": 1, "input_le`, 2, "", "JSON"},
		{"seconds and ms", `{"timestamp": 1760000000000, "input_length": 1, "output_length": 2}` + "\n" + `{"timestamp": 1760000001, "input_length": 1, "output_length": 2}`, 2, "timestamp", "one file has one unit"},
		{"near 0 and Unix ms", ok + `{"timestamp": 1760000000000, "input_length": 1, "output_length": 2}`, 2, "timestamp", "one file has one unit"},
		{"Unix ms and near 0", `{"timestamp": 1760000000000, "input_length": 1, "output_length": 2}` + "\n" + `{"timestamp": 5, "input_length": 1, "output_length": 2}`, 2, "timestamp", "one file has one unit"},
		{"date and number", ok + `{"timestamp": "2024-01-01T00:00:00Z", "input_length": 1, "output_length": 2}`, 2, "timestamp", "one file has one unit"},
		{"unix us as ms", `{"timestamp": 1760000000000000, "input_length": 1, "output_length": 2}`, 1, "timestamp", "--time-unit us"},
		{"negative delay", ok + `{"session_id": "a", "delay": -1, "input_length": 1, "output_length": 2}`, 2, "delay", "below 0"},
		{"missing column", "TIMESTAMP,ContextTokens\n1,2\n", 1, "", "no column for output"},
		{"missing column of a table", "TIMESTAMP,ContextTokens\n1,2\n", 1, "", "--column output=NAME; in a run or a prediction --output-tokens"},
		{"number for a date", head + "5,10,2\n", 2, "TIMESTAMP", "not a date"},
		{"empty cell", head + "2023-11-16 18:15:46,,2\n", 2, "ContextTokens", "is empty"},
		{"too few cells", head + "2023-11-16 18:15:46,5\n", 2, "", "2 columns, the header has 3"},
		{"bad quote", head + "2023-11-16 18:15:46,\"5,2\n", 2, "", `"`},
		{"weka time", `{"id": "a", "block_size": 64, "requests": [{"t": -1, "type": "s", "in": 10, "out": 1}]}`, 1, "t", "0 or more"},
		{"weka scope", `{"id": "a", "block_size": 64, "hash_id_scope": "galaxy", "requests": []}`, 1, "hash_id_scope", "local or global"},
		{"unequal lists", `{"num_turns": 2, "input_prompt_length": 1, "assistant_response_length": [1], "tool_call_output_length": [], "tool_call_latency": []}`, 1, "", "as many of each"},
	} {
		opts := Options{}
		if c.name == "missing column" {
			opts.Format = "azure"
		}
		if strings.HasPrefix(c.text, `{"timestamp"`) {
			opts.Format = "mooncake"
		}
		_, err := loadText(c.text, opts, Selection{})
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		msg := err.Error()
		if e, ok := errors.AsType[*Error](err); ok && (e.Line != c.line || e.Field != c.field) {
			t.Errorf("%s: line %d, field %q in %q; want %d, %q", c.name, e.Line, e.Field, msg, c.line, c.field)
		}
		if !strings.Contains(msg, c.says) || strings.Contains(msg, "\n") {
			t.Errorf("%s: %q does not say %q", c.name, msg, c.says)
		}
		// Left out, it is counted.
		if strings.HasPrefix(c.name, "missing column") {
			continue
		}
		r, err := NewReader(strings.NewReader(c.text), "t", Options{Format: opts.Format, OnBadRow: Skip})
		if err != nil {
			t.Fatal(err)
		}
		s, err := InspectReader(r)
		if err != nil {
			t.Errorf("%s, left out: %v", c.name, err)
		} else if s.Skipped.BadRow != 1 || len(s.Problems) != 1 || s.Problems[0].Count != 1 {
			t.Errorf("%s: %d bad rows, problems %+v", c.name, s.Skipped.BadRow, s.Problems)
		}
	}
}

// TestOutputKnown: a table without the lengths of answers is right where they are said.
func TestOutputKnown(t *testing.T) {
	tr, err := loadText("TIMESTAMP,ContextTokens\n1,2\n5,3\n", Options{OutputKnown: true}, Selection{})
	if err != nil || len(tr.Records) != 2 || tr.Records[1].Input != 3 || tr.Records[1].Output > 0 {
		t.Fatalf("%+v, %v", tr, err)
	}
	if hasNotice(tr.Summary, "--output-tokens") || !hasNotice(tr.Summary, "as long as asked for") {
		t.Errorf("notices %q", tr.Summary.Notices)
	}
}

func TestNotAFormat(t *testing.T) {
	for text, says := range map[string]string{
		"":              "empty",
		" \n\n":         "empty",
		"\xef\xbb\xbf":  "empty",
		"hello\nworld":  "format is not known",
		"a,b,c\n1,2,3":  "format is not known",
		`{"a": 1}`:      "format is not known",
		"PAR1xxxx":      "Parquet",
		"PK\x03\x04xxx": "zip",
		"version https://git-lfs.github.com/spec/v1\noid sha256:0\n": "LFS",
		"\x1f\x8bnot gzip": "gzip",
	} {
		_, err := NewReader(strings.NewReader(text), "t", Options{})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
	if _, err := NewReader(strings.NewReader("x"), "t", Options{Format: "nope"}); err == nil || !strings.Contains(err.Error(), "mooncake") {
		t.Errorf("unknown format: %v", err)
	}
	if _, err := Open("testdata", Options{}); err == nil || !strings.Contains(err.Error(), "folder") {
		t.Errorf("folder: %v", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{{TimeUnit: "h"}, {OnBadRow: "maybe"}, {Turns: "both"}, {BlockTokens: -1}, {Columns: map[string]string{"colour": "x"}}} {
		if _, err := NewReader(strings.NewReader("x"), "t", o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// A wrong block size is recognised by the rows.
func TestBlockSizeIsSuggested(t *testing.T) {
	text := `{"timestamp": 0, "input_length": 130, "output_length": 2, "hash_ids": [1, 2, 3]}
{"timestamp": 1, "input_length": 200, "output_length": 2, "hash_ids": [1, 2, 3, 4]}
`
	r, err := NewReader(strings.NewReader(text), "t", Options{OnBadRow: Skip})
	if err != nil {
		t.Fatal(err)
	}
	s, err := InspectReader(r)
	if err != nil {
		t.Fatal(err)
	}
	if !hasNotice(s, "--block-size 64") {
		t.Errorf("notices %q", s.Notices)
	}
	if tr, err := loadText(text, Options{BlockTokens: 64}, Selection{}); err != nil || len(tr.Records) != 2 {
		t.Errorf("with 64: %v", err)
	}

	// One block says how large it is at least.
	if r, err = NewReader(strings.NewReader(`{"timestamp": 0, "input_length": 1000, "output_length": 2, "hash_ids": [1]}`+"\n"), "t", Options{OnBadRow: Skip}); err != nil {
		t.Fatal(err)
	}
	if s, err = InspectReader(r); err != nil || !hasNotice(s, "--block-size 1024") {
		t.Errorf("notices %q, %v", s.Notices, err)
	}
}

func TestGraphIsChecked(t *testing.T) {
	row := func(id, wait string) string {
		return fmt.Sprintf(`{"request_id": %q, "timestamp": 0, "wait_for": [%s], "input_length": 5, "output_length": 2}`+"\n", id, wait)
	}
	for _, c := range []struct{ text, says string }{
		{row("a", "") + row("b", `"c"`), `"c" is no request`},
		{row("a", "") + row("b", `"c"`) + row("c", `"b"`), "waits for itself"},
		{row("a", `"a"`), "waits for itself"},
		{row("a", "") + row("a", `"a"`), "twice"},
	} {
		if _, err := loadText(c.text, Options{}, Selection{}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %q", err, c.says)
		}
		r, err := NewReader(strings.NewReader(c.text), "t", Options{OnBadRow: Skip})
		if err != nil {
			t.Fatal(err)
		}
		s, err := InspectReader(r)
		if err != nil || len(s.Problems) == 0 {
			t.Errorf("inspected: %v, %+v", err, s)
		}
	}
	// What waited for a row that is left out waits for what that one waited for.
	tr, err := loadText(row("a", "")+`{"request_id": "b", "wait_for": ["a"], "input_length": 5, "output_length": 0}`+"\n"+row("c", `"b"`), Options{}, Selection{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"a"}, tr.Records[1].Deps); d != "" {
		t.Error(d)
	}
}

func TestWeka(t *testing.T) {
	tr := load(t, "testdata/samples/weka_trace.json", Options{}, Selection{})
	type brief struct {
		ID, Session, Parent string
		Deps                []string
		At, Delay           int64
		Hashes              int
	}
	var got []brief
	for i := range tr.Records {
		r := &tr.Records[i]
		got = append(got, brief{r.ID, r.Session, r.Parent, r.Deps, r.At, r.Delay, len(r.Hashes)})
	}
	want := []brief{
		{"sess-1#0", "sess-1", "", nil, 0, Unset, 3},
		{"sess-1/agent_001#0", "sess-1/agent_001", "sess-1", []string{"sess-1#0"}, Unset, 4e8, 2},
		{"sess-1#2", "sess-1", "", []string{"sess-1#0", "sess-1/agent_001#0"}, Unset, 13e8, 5},
	}
	// 1.6 - 1.2 in floats is not 0.4.
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b int64) bool { return a == b || a > 0 && b > 0 && a-b < 2 && b-a < 2 })); d != "" {
		t.Error(d)
	}
	if tr.Records[0].Hashes[0] != tr.Records[2].Hashes[0] || tr.Records[0].Hashes[0] == 1 {
		t.Error("ids of one session must stay equal, and be no longer those of others")
	}
}

func TestOTelDependencies(t *testing.T) {
	tr := load(t, "testdata/published/otel_fan_in_dependencies.json", Options{}, Selection{})
	got := map[string][]string{}
	for i := range tr.Records {
		got[tr.Records[i].ID] = tr.Records[i].Deps
	}
	want := map[string][]string{"span_001": nil, "span_002": {"span_001"}, "span_003": {"span_001"}, "span_004": {"span_002", "span_003"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	last := tr.Records[3]
	if last.Delay != 1e9 || last.Took != 3e9 || len(last.Messages) != 7 || last.Output != 1500 {
		t.Errorf("%+v", last)
	}
	// The same as OTLP writes it.
	otlp := `{"resourceSpans":[{"scopeSpans":[{"spans":[
{"traceId":"t","spanId":"a","name":"chat","startTimeUnixNano":"1760000000000000000","endTimeUnixNano":"1760000001000000000","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},{"key":"gen_ai.usage.input_tokens","value":{"intValue":"12"}},{"key":"gen_ai.usage.output_tokens","value":{"intValue":3}}]},
{"traceId":"t","spanId":"x","name":"tool","startTimeUnixNano":"1760000001000000000","endTimeUnixNano":"1760000001500000000","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"execute_tool"}}]},
{"traceId":"t","spanId":"b","name":"chat","startTimeUnixNano":"1760000001500000001","endTimeUnixNano":"1760000002000000000","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},{"key":"gen_ai.usage.input_tokens","value":{"intValue":"20"}},{"key":"gen_ai.usage.output_tokens","value":{"intValue":"4"}}]}]}]}]}`
	tr, err := loadText(otlp, Options{}, Selection{})
	if err != nil {
		t.Fatal(err)
	}
	b := tr.Records[1]
	if len(tr.Records) != 2 || tr.Summary.ToolEvents != 1 || b.At != 1500000001 || b.Delay != 500000001 || b.Input != 20 || b.Deps[0] != "a" {
		t.Errorf("%+v", tr.Records)
	}
}

func TestEndpointsAgentic(t *testing.T) {
	tr := load(t, "testdata/samples/endpoints_agentic.jsonl", Options{}, Selection{})
	var got []string
	for i := range tr.Records {
		r := &tr.Records[i]
		s := fmt.Sprintf("%s/%d wait %v:", r.Session, r.Turn, time.Duration(r.ToolWait))
		for _, m := range r.Messages {
			s += " " + m.Role.String() + "=" + m.Text
		}
		got = append(got, s+" -> "+r.Answer)
	}
	want := []string{
		`c1/0 wait 0s: system=be brief user=fix it -> [{"id":"t1","function":{"name":"ls"}}]`,
		"c2/0 wait 0s: user=hello -> hi",
		"c1/1 wait 1.5s: tool=a.txt tool=b.txt -> done",
		"c2/1 wait 0s: user=and? -> ",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestTraceLab(t *testing.T) {
	tr := load(t, "testdata/published/multi_session_example.csv", Options{}, Selection{})
	r := tr.Records
	if r[0].At != 0 || r[1].ToolWait != 100e6 || r[1].Input != 704 || r[1].Prefix != 576 {
		t.Errorf("%+v", r[:2])
	}
	tr = load(t, "testdata/published/sanitized_round_trace.jsonl", Options{}, Selection{})
	var found bool
	for i := range tr.Records {
		if tr.Records[i].ID == "msg_8d1986c8b1e483eb421ec3b2" {
			found = true
			// The round began with the result at 05:40:50.938; the one before had said its
			// last at 05:40:31.647.
			if d := tr.Records[i].Delay; d != 19291e6 || tr.Records[i].Input != 35740 || tr.Records[i].Prefix != 29380 {
				t.Errorf("%+v", tr.Records[i])
			}
		}
	}
	if !found {
		t.Error("the second round is missing")
	}
}

func TestApplied(t *testing.T) {
	tr := load(t, "testdata/samples/dynamo_applied_compute_agentic.jsonl", Options{}, Selection{})
	var got [][3]int64
	for i := range tr.Records {
		got = append(got, [3]int64{int64(tr.Records[i].Input), int64(tr.Records[i].Output), tr.Records[i].ToolWait})
	}
	if d := cmp.Diff([][3]int64{{128, 32, 0}, {168, 20, 5e8}, {197, 40, 1e6}}, got); d != "" {
		t.Error(d)
	}
}

func TestDAG(t *testing.T) {
	tr := load(t, "testdata/samples/aiperf_dag.jsonl", Options{}, Selection{})
	got := map[string][]string{}
	for i := range tr.Records {
		got[tr.Records[i].ID] = tr.Records[i].Deps
	}
	want := map[string][]string{
		"root#0": nil, "root#1": {"root#0", "c1#0"}, "root#2": {"root#1", "c2#0"}, "c1#0": {"root#0"}, "c2#0": {"root#0"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for i := range tr.Records {
		if tr.Records[i].ID == "root#1" && tr.Records[i].Delay != 100e6 {
			t.Errorf("delay %d", tr.Records[i].Delay)
		}
	}
	for text, says := range map[string]string{
		`{"session_id": "a", "turns": [{"text": "x", "spawns": ["b"]}]}`:                                                                                                       "no session",
		`{"session_id": "a", "turns": [{"text": "x", "spawns": ["b", "b"]}]}` + "\n" + `{"session_id": "b", "turns": [{"text": "x"}]}`:                                         "twice",
		`{"session_id": "a", "turns": [{"text": "x"}, {"text": "y", "spawns": [{"children": ["b"], "join_at": 1}]}]}` + "\n" + `{"session_id": "b", "turns": [{"text": "x"}]}`: "not after turn",
	} {
		if _, err := loadText(text, Options{}, Selection{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

func TestBatchAndPayload(t *testing.T) {
	tr := load(t, "testdata/samples/openai_batch_input.jsonl", Options{}, Selection{})
	r := tr.Records
	if r[0].ID != "req-1" || r[0].Output != 8 || r[0].Messages[0].Text != "Hi" || r[1].Kind != "/v1/embeddings" || r[1].Messages[0].Text != "a\nb" || len(r[1].Body) == 0 {
		t.Errorf("%+v", r)
	}
	for text, says := range map[string]string{
		`{"custom_id": "a", "method": "GET", "url": "/v1/x", "body": {"prompt": "x"}}`:                         "want POST",
		`{"custom_id": "a", "method": "POST", "url": "http://169.254.169.254/", "body": {"prompt": "x"}}`:      "whole URL",
		`{"model": "m", "input": [{"role": "user", "content": [{"type": "input_image", "image_url": "/x"}]}]}`: "refused",
		`{"model": "m", "messages": []}`:          "is empty",
		`{"model": "m", "prompt": {"a": 1}}`:      "neither a text",
		`{"text": "see", "image": "/etc/passwd"}`: "refused",
		`{"timestamp": 0, "payload": {"messages": [{"role": "user", "content": [{"type": "file", "file": {"path": "/etc/shadow"}}]}]}}`: "refused",
	} {
		if _, err := loadText(text, Options{}, Selection{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

// A client's model gives back its own rates and lengths, and equal seeds the same
// requests.
func TestServeGen(t *testing.T) {
	const path = "testdata/published/multimodal-mm-image-chunk-2-trace.csv"
	var n, rows float64
	for seed := range uint64(20) {
		tr := load(t, path, Options{Seed: seed}, Selection{})
		n += float64(len(tr.Records))
		if seed == 0 {
			again := load(t, path, Options{}, Selection{})
			if d := cmp.Diff(tr.Records, again.Records); d != "" {
				t.Error("the same seed makes other requests")
			}
		}
		for i := range tr.Records {
			if tr.Records[i].Images == 1 {
				rows++
			}
		}
	}
	if rows != n {
		t.Errorf("%g of %g requests have one image", rows, n)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := 0.0
	for line := range strings.SplitSeq(strings.TrimSpace(string(b)), "\n") {
		var start, rate float64
		if _, err := fmt.Sscanf(line, "%g,%g,", &start, &rate); err != nil {
			t.Fatal(err)
		}
		want += rate * 600
	}
	// Gamma gaps of CV up to 5 make the counts of one seed vary; their mean must not.
	if got := n / 20; math.Abs(got-want)/want > 0.05 {
		t.Errorf("%.0f requests on average, the rates make %.0f", got, want)
	}
	// Lengths: reason-deepseek-r1's client has one window, with lengths around it.
	tr := load(t, "testdata/published/reason-deepseek-r1-chunk-2-trace.csv", Options{}, Selection{})
	for i := range tr.Records {
		r := &tr.Records[i]
		if r.Input < 1 || r.Output < 80 || r.Reasoning < 1 || r.Reasoning > r.Output {
			t.Fatalf("%+v", r)
		}
	}
}

func TestGaps(t *testing.T) {
	for _, w := range []genWindow{{kind: "Gamma", shape: 0.3}, {kind: "Gamma", shape: 3}, {kind: "Weibull", shape: 0.7}, {kind: "Weibull", shape: 1.5}, {}} {
		r := stream(7)
		const n = 200000
		var sum, sq float64
		for range n {
			g := gap(r, &w, 2)
			sum += g
			sq += g * g
		}
		mean := sum / n
		cv := math.Sqrt(sq/n-mean*mean) / mean
		want := 1.0
		switch w.kind {
		case "Gamma":
			want = 1 / math.Sqrt(w.shape)
		case "Weibull":
			g1, g2 := math.Gamma(1+1/w.shape), math.Gamma(1+2/w.shape)
			want = math.Sqrt(g2/(g1*g1) - 1)
		}
		if math.Abs(mean-2) > 0.03 || math.Abs(cv-want) > 0.02*want {
			t.Errorf("%s %g: mean %g, CV %g, want 2 and %g", w.kind, w.shape, mean, cv, want)
		}
	}
}

func TestParseLengths(t *testing.T) {
	for text, ok := range map[string]bool{
		"{}": true, "{12: 0.5, 13: 0.5}": true, "{'12': 1.0}": true, "{0.25: 1.0}": true,
		"": false, "[1]": false, "{12}": false, "{a: 1}": false, "{12: nan}": false, "{12: -1}": false, "{12: 2}": false, "{12: 0.0}": false, "{-1: 1}": false,
	} {
		if _, err := parseLengths(text); (err == nil) != ok {
			t.Errorf("%q: %v, want ok %v", text, err, ok)
		}
	}
}

func TestParseDecimal(t *testing.T) {
	for _, c := range []struct {
		s     string
		scale int64
		want  int64
		ok    bool
	}{
		{"0", 1e9, 0, true},
		{"61.114", 1e9, 61114000000, true},
		{"19440110.0", 1e9, 19440110e9, true},
		{"1760000000.123456789", 1e9, 1760000000123456789, true},
		{"1.0000000005", 1e9, 1000000001, true},
		{"1.0000000004999", 1e9, 1000000000, true},
		{".5", 1e6, 500000, true},
		{"5.", 1e6, 5000000, true},
		{"-2.5", 1e6, -2500000, true},
		{"1e3", 1e6, 1e9, true},
		{"99999999999", 1e9, 0, false},
		{"1e300", 1e9, 0, false},
		{"", 1e9, 0, false},
		{".", 1e9, 0, false},
		{"--1", 1e9, 0, false},
		{"1.2.3", 1e9, 0, false},
		{"0x10", 1e9, 0, false},
		{"NaN", 1e9, 0, false},
	} {
		got, err := parseDecimal(c.s, c.scale)
		if (err == nil) != c.ok || got != c.want {
			t.Errorf("%q x %d: %d, %v; want %d, ok %v", c.s, c.scale, got, err, c.want, c.ok)
		}
	}
}

func TestConvertMooncake(t *testing.T) {
	var b bytes.Buffer
	done, err := Convert(&b, caseFile("127-dynamo-request-trace", "trace.jsonl"), "mooncake", Options{}, Selection{})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"timestamp":0,"input_length":130,"output_length":10,"hash_ids":[0,1,2],"request_id":"A","session_id":"s1"}
{"timestamp":200,"input_length":64,"output_length":8,"hash_ids":[0],"request_id":"B","session_id":"s2"}
{"timestamp":300,"input_length":64,"output_length":8,"hash_ids":[3],"request_id":"C","session_id":"s3"}
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
	if done.Requests != 3 || done.BlockTokens != 64 {
		t.Errorf("%+v", done)
	}
}

// The own form loses nothing, whatever the file was.
func TestConvertKeepsEverything(t *testing.T) {
	files, err := filepath.Glob("testdata/samples/*")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("testdata/published/[mos]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append(files, more...) {
		if strings.Contains(f, "batch_output") || strings.Contains(f, "dataset.json") || strings.Contains(f, "chunk") || strings.HasSuffix(f, ".gz") {
			continue
		}
		before := load(t, f, Options{}, Selection{})
		var b bytes.Buffer
		if _, err := Convert(&b, f, "plimsoll", Options{}, Selection{}); err != nil {
			t.Errorf("%s: %v", f, err)
			continue
		}
		after, err := loadText(b.String(), Options{}, Selection{})
		if err != nil {
			t.Errorf("%s: %v", f, err)
			continue
		}
		if after.Format != "plimsoll" {
			t.Errorf("%s: read again as %s", f, after.Format)
		}
		for i := range before.Records {
			before.Records[i].Line, after.Records[i].Line = 0, 0
			if len(before.Records[i].Hashes) == 0 {
				before.Records[i].BlockTokens, after.Records[i].BlockTokens = 0, 0
			}
			compact(&before.Records[i])
			compact(&after.Records[i])
		}
		if d := cmp.Diff(before.Records, after.Records); d != "" {
			t.Errorf("%s: %s", f, d)
		}
	}
}

// compact makes JSON that means the same equal, and forgets what an empty list and
// none have apart.
func compact(r *Record) {
	for _, p := range []*[]byte{(*[]byte)(&r.Body), (*[]byte)(&r.Tools)} {
		var b bytes.Buffer
		if jsonCompact(&b, *p) == nil {
			*p = b.Bytes()
		}
	}
	if len(r.Deps) == 0 {
		r.Deps = nil
	}
	if len(r.Hashes) == 0 {
		r.Hashes = nil
	}
	if len(r.Body) == 0 {
		r.Body = nil
	}
	if len(r.Tools) == 0 {
		r.Tools = nil
	}
}

func TestConvertRoundTrip(t *testing.T) {
	var b bytes.Buffer
	const file = "testdata/published/mooncake_conversation.jsonl.gz"
	if _, err := Convert(&b, file, "mooncake", Options{}, Selection{}); err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(&b, "t", Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := InspectReader(r)
	if err != nil {
		t.Fatal(err)
	}
	want := inspect(t, file, Options{})
	want.File = "t"
	if d := cmp.Diff(want, got, cmp.AllowUnexported(Summary{})); d != "" {
		t.Error(d)
	}
}

func TestSelection(t *testing.T) {
	const file = "testdata/published/azure_2023_conv.csv.gz"
	whole := load(t, file, Options{}, Selection{})
	part := load(t, file, Options{}, Selection{From: 600 * time.Second, To: 660 * time.Second})
	n := 0
	for i := range whole.Records {
		if at := whole.Records[i].At; at >= 600e9 && at < 660e9 {
			if part.Records[n].At != at-600e9 {
				t.Fatalf("request %d of the window at %d, want %d", n, part.Records[n].At, at-600e9)
			}
			n++
		}
	}
	if n != len(part.Records) {
		t.Errorf("%d requests in the window, want %d", len(part.Records), n)
	}
	if got := load(t, file, Options{}, Selection{Limit: 7}); len(got.Records) != 7 {
		t.Errorf("limit: %d", len(got.Records))
	}
	if _, err := Load(file, Options{}, Selection{From: 2, To: 1}); err == nil {
		t.Error("a window that ends before it begins was taken")
	}
	if _, err := Load(file, Options{}, Selection{From: 100 * time.Hour}); err == nil || !strings.Contains(err.Error(), "no request is left") {
		t.Errorf("an empty window: %v", err)
	}
}

// repeat gives the same line n times, without holding them.
type repeat struct {
	line []byte
	n    int
	rest []byte
}

func (r *repeat) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if len(r.rest) == 0 {
			if r.n == 0 {
				if n == 0 {
					return 0, io.EOF
				}
				return n, nil
			}
			r.n--
			r.rest = r.line
		}
		k := copy(p[n:], r.rest)
		r.rest = r.rest[k:]
		n += k
	}
	return n, nil
}

// A large file is not held: what is kept grows with what is different in it, and
// by 8 bytes a row for the times.
func TestLargeFileIsNotHeld(t *testing.T) {
	line := []byte(`{"timestamp": 5, "input_length": 51200, "output_length": 5, "hash_ids": [` + strings.Repeat("123456789, ", 99) + "1]}\n")
	const rows = 30000 // 33 MB
	r, err := NewReader(&repeat{line: line, n: rows}, "t", Options{})
	if err != nil {
		t.Fatal(err)
	}
	i := newInspector()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for {
		rec, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		i.add(r, &rec)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if s := i.summary(r); s.Requests != rows || s.Blocks.Distinct != 100 {
		t.Errorf("%d requests, %d blocks", s.Requests, s.Blocks.Distinct)
	}
	if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 4<<20 {
		t.Errorf("%d MB are held of %d MB", held>>20, len(line)*rows>>20)
	}
	runtime.KeepAlive(i)
}

func TestInterrupted(t *testing.T) {
	stop := make(chan struct{})
	close(stop)
	if _, err := Load("testdata/published/azure_2023_code.csv.gz", Options{Done: stop}, Selection{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}

func TestLongLine(t *testing.T) {
	for name, in := range map[string]io.Reader{
		"lines": io.MultiReader(strings.NewReader(`{"timestamp": 0, "input_length": 1, "output_length": 2}`+"\n"), &repeat{line: []byte(strings.Repeat("x", 1<<16)), n: 2000}),
		"csv":   io.MultiReader(strings.NewReader("prompt,input_tokens\n\""), &repeat{line: []byte(strings.Repeat("x", 1<<16)), n: 2000}),
		"json":  io.MultiReader(strings.NewReader(`[{"id": "a", "conversations": [{"from": "human", "value": "`), &repeat{line: []byte(strings.Repeat("x", 1<<16)), n: 2000}),
	} {
		r, err := NewReader(in, "t", Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err = InspectReader(r); err == nil || !strings.Contains(err.Error(), "longer than 64 MiB") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGzip(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte("\xef\xbb\xbfTIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.68,1,2\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	whole := b.String()
	tr, err := loadText(whole, Options{}, Selection{})
	if err != nil || len(tr.Records) != 1 {
		t.Errorf("%v", err)
	}
	if _, err := loadText(whole[:len(whole)-6], Options{}, Selection{}); err == nil {
		t.Error("a file that is cut off was taken")
	}
}

func TestColumns(t *testing.T) {
	text := "when,tokens_in,tokens_out\n0.5,10,2\n1.5,20,3\n"
	tr, err := loadText(text, Options{Format: "csv", Columns: map[string]string{"timestamp": "when", "input": "tokens_in", "output": "tokens_out"}}, Selection{})
	if err != nil {
		t.Fatal(err)
	}
	if r := tr.Records[1]; r.At != 1e9 || r.Input != 20 || r.Output != 3 {
		t.Errorf("%+v", r)
	}
	tr, err = loadText(`{"q": "hello", "n": 7}`+"\n", Options{Format: "guidellm", Columns: map[string]string{"prompt": "q", "output": "n"}}, Selection{})
	if err != nil {
		t.Fatal(err)
	}
	if r := tr.Records[0]; r.Messages[0] != (Message{message.User, "hello"}) || r.Output != 7 {
		t.Errorf("%+v", r)
	}
	if _, err := loadText(text, Options{Format: "csv", Columns: map[string]string{"input": "nope"}}, Selection{}); err == nil || !strings.Contains(err.Error(), "nope") {
		t.Errorf("%v", err)
	}
	if _, err := loadText("input_tokens,prompt_tokens\n1,2\n", Options{}, Selection{}); err == nil || !strings.Contains(err.Error(), "both hold") {
		t.Errorf("%v", err)
	}
}

func FuzzReaders(f *testing.F) {
	files, err := filepath.Glob("testdata/samples/*")
	if err != nil {
		f.Fatal(err)
	}
	cases, err := filepath.Glob("testdata/cases/*/*.*")
	if err != nil {
		f.Fatal(err)
	}
	for i, name := range append(files, cases...) {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, byte(i))
		f.Add(b, byte(255))
	}
	names := FormatNames()
	f.Fuzz(func(t *testing.T, b []byte, which byte) {
		opts := Options{OnBadRow: []Policy{Fail, Skip, Fix}[int(which)%3]}
		if int(which) < 2*len(names) {
			opts.Format = names[int(which)%len(names)]
		}
		r, err := NewReader(bytes.NewReader(b), "t", opts)
		if err != nil {
			return
		}
		tr, err := LoadReader(r, Selection{Spread: which%2 == 0})
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of several lines: %q", err)
			}
			return
		}
		for i := range tr.Records {
			r := &tr.Records[i]
			if r.At != Unset && r.At < 0 || r.Output == 0 || r.Output < Unknown || r.Input < Unknown || r.Delay != Unset && r.Delay < 0 || r.ToolWait < 0 {
				t.Fatalf("record %d: %+v", i, r)
			}
			if i > 0 && r.At != Unset && tr.Records[i-1].At != Unset && r.At < tr.Records[i-1].At {
				t.Fatalf("record %d is before the one before it", i)
			}
			if len(r.Hashes) > 0 && (r.BlockTokens < 1 || (len(r.Hashes)-1)*r.BlockTokens >= max(r.Input, 1)) {
				t.Fatalf("record %d: %d hashes of %d for %d tokens", i, len(r.Hashes), r.BlockTokens, r.Input)
			}
		}
		// Whatever was read is replayed to its end: each request is sent once, or given
		// up with its session.
		p, err := NewReplay(tr, ReplayOptions{Timing: []Timing{Absolute, Causal}[which%2]})
		if err != nil || len(tr.Records) > 100 {
			return
		}
		d := &driver{t: t, replay: p, service: func(string) int64 { return 1e6 }}
		d.status = func(string) record.Status {
			if len(d.all)%5 == 4 {
				return record.Failed
			}
			return record.OK
		}
		for k, at := range p.Starts() {
			m := p.Session(0, uint64(k))
			d.at(at, 1, func() { d.act(m, m.Start(at), func() {}) })
		}
		d.run()
		if n := len(d.all) + int(p.Aborted()); n != len(tr.Records) {
			t.Fatalf("%d sent and %d given up of %d", len(d.all), p.Aborted(), len(tr.Records))
		}
	})
}

func FuzzTime(f *testing.F) {
	for _, s := range []string{"1.5", "2023-11-16 18:15:46.6805900", "2024-05-12 00:00:00+00:00", "-1", "1e9", "99999999999999999999"} {
		f.Add(s, int64(1e6))
	}
	f.Fuzz(func(t *testing.T, s string, scale int64) {
		if scale <= 0 || scale > 1e9 {
			return
		}
		_, _ = parseDate(s)
		v, err := parseDecimal(s, scale)
		if err == nil && strings.HasPrefix(s, "-") != (v < 0) && v != 0 {
			t.Errorf("%q became %d", s, v)
		}
		_ = checkURL(s)
	})
}

func FuzzLengths(f *testing.F) {
	for _, s := range []string{`{"0": {"input_tokens": "{60: 0.5, 61: 0.5}", "output_tokens": "{}"}}`, `{"a": 1}`, `{"0": {"x": "{1: 2}"}}`, `{"1e999": {"x": "{1: 1}"}}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		sizes, err := readLengths(strings.NewReader(s))
		if err != nil {
			return
		}
		r := stream(1)
		for i := range sizes {
			for _, l := range sizes[i].of {
				if v := l.draw(r); !(v >= 0 && v <= maxTokens) {
					t.Errorf("drew %g", v)
				}
			}
		}
	})
}

// Lengths of prompts alone may be all that somebody has: without times, or where the format
// is said, a table without lengths of answers is read, and says what decides them.
func TestNoColumnOfAnswers(t *testing.T) {
	f := func(text, format string) {
		t.Helper()
		r, err := NewReader(strings.NewReader(text), "t", Options{Format: format})
		if err != nil {
			t.Fatal(err)
		}
		if n := r.Notices(); len(n) != 1 || !strings.Contains(n[0], "--output-tokens decides") {
			t.Errorf("%q as %q: notices %q", text, format, n)
		}
	}
	f("TIMESTAMP,ContextTokens\n1,2\n", "csv")
	f("input_length\n5\n", "")
}

// Numbers that count on past what looks like a Unix time in another unit are no mix.
func TestCountingPastUnixTimes(t *testing.T) {
	f := func(unit Unit, times ...string) {
		t.Helper()
		text := ""
		for _, at := range times {
			text += `{"timestamp": ` + at + `, "input_length": 1, "output_length": 2}` + "\n"
		}
		if _, err := loadText(text, Options{Format: "mooncake", TimeUnit: unit}, Selection{}); err != nil {
			t.Errorf("%s of %v: %v", unit, times, err)
		}
	}
	f(Micro, "0", "999999999", "1000000001", "3999999999", "4000000001")
	f(Nanoseconds, "0", "1700000000000", "1700000000000000")
	f(Milli, "999999999", "1000000001")
}
