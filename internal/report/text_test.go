package report

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/histogram"
	"plimsoll/internal/record"
	"plimsoll/internal/run"
	"plimsoll/internal/scenario"
	"plimsoll/internal/stats"
	"plimsoll/internal/telemetry"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const ms = int64(time.Millisecond)

// answer makes an ok request of n tokens, one every gap, the first after ttft.
func answer(id uint64, at, ttft, gap int64, n int) *record.Request {
	r := new(record.Request)
	r.Reset()
	r.ID, r.Session, r.User, r.Workload = id, id, uint32(id%4), "synthetic"
	r.Phase = record.Steady
	r.Scheduled, r.Start, r.Connected, r.Sent = at, at+100_000, at+100_000, at+150_000
	r.Headers = r.Start + ttft
	r.FirstEvent = r.Headers
	for i := range n {
		r.Events = append(r.Events, record.Event{
			At: r.Start + ttft + int64(i)*gap, Cumulative: record.Unknown, Tokens: 1,
			Read: uint32(i), TextBytes: 5, Channel: record.Content,
		})
	}
	r.FirstToken, r.FirstContent, r.LastToken = r.Events[0].At, r.Events[0].At, r.Events[n-1].At
	r.End = r.LastToken + 200_000
	r.KernelTimes, r.ReadLagMean, r.ReadLagMax, r.Reads = true, 40_000, 90_000, uint32(n)
	r.Streamed, r.AskedStream, r.StreamEvents = true, true, uint32(n+2)
	r.AskedPrompt, r.AskedOutput = 512, int32(n)
	r.Prompt, r.Output, r.StreamedTokens, r.FirstEventTokens = 520, int32(n), int32(n), 1
	r.Cached, r.Reasoning = 0, record.Unknown
	r.Source, r.Basis, r.Status, r.HTTPStatus, r.Finish = record.SourceServer, record.BasisFirstEvent, record.OK, 200, "length"
	r.SentBytes, r.ReceivedBytes, r.TextBytes = 3000, int64(240*n), int64(5*n)
	return r
}

func broken(id uint64, at int64, kind record.ErrorKind) *record.Request {
	r := new(record.Request)
	r.Reset()
	r.ID, r.Session, r.Workload, r.Phase = id, id, "synthetic", record.Steady
	r.Scheduled, r.Start, r.Connected, r.Sent, r.End = at, at+50_000, at+60_000, at+70_000, at+5*ms
	r.Status, r.Error, r.HTTPStatus = record.Failed, kind, 500
	return r
}

func ptrTo[T any](v T) *T { return &v }

// closed is a closed loop of 4 users over 30 s.
func closed(n int) (stats.Input, []*record.Request) {
	canary, gc := new(histogram.Histogram), new(histogram.Histogram)
	for i := range 3000 {
		canary.Record(int64(60_000 + i*10))
	}
	gc.Record(120_000)
	gc.Record(80_000)
	in := stats.Input{
		ID: "20261130-104512-chat", Name: "chat", Started: time.Date(2026, 11, 30, 10, 45, 12, 0, time.UTC),
		Duration: int64(31200) * ms,
		Steps:    []stats.StepInput{{Users: 4, Start: 0, End: 30_000 * ms, Complete: true}},
		Client: stats.ClientInput{
			CanaryLag: canary, GCPause: gc, CPUShare: ptrTo(0.042), OpenConnections: ptrTo(int64(4)),
		},
	}
	var rs []*record.Request
	for i := range n {
		at := int64(i) * 30_000 * ms / int64(n)
		rs = append(rs, answer(uint64(i), at, 40*ms+int64(i%17)*ms, 10*ms+int64(i%5)*100_000, 64))
	}
	return in, rs
}

// golden compares a text with the file of that name, and looks at its shape.
func golden(t *testing.T, name, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > Width {
			t.Errorf("%d columns: %s", n, line)
		}
		if s := strings.TrimRight(line, "\n"); strings.TrimRight(s, " ") != s {
			t.Errorf("blanks at the end: %q", line)
		}
	}
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), text); d != "" {
		t.Errorf("the report changed (-want +got), -update if it should:\n%s", d)
	}
}

func TestTextGolden(t *testing.T) {
	around := Run{
		URL: "http://127.0.0.1:8000/v1/chat/completions", API: "openai.chat", Model: "llama-3.1-8b",
	}
	f := func(name string, r Run) {
		t.Run(name, func(t *testing.T) {
			t.Helper()
			var b bytes.Buffer
			if err := Text(&b, &r); err != nil {
				t.Fatal(err)
			}
			golden(t, name, b.String())
		})
	}
	runOf := func(in stats.Input, rs []*record.Request) Run {
		r := around
		r.Summary = stats.Summarize(in, slices.Values(rs))
		return r
	}

	in, rs := closed(700)
	f("valid", runOf(in, rs))

	// Few requests, failures, a late client, a service level missed.
	in, rs = closed(40)
	in.Limits = []scenario.Limit{
		{Metric: "ttft", Stat: "p95", Value: 500 * time.Millisecond},
		{Metric: "tpot", Stat: "mean", Value: 8 * time.Millisecond},
	}
	in.Steps[0].Complete = false
	for i := range 5 {
		rs = append(rs, broken(uint64(100+i), int64(i)*1000*ms, record.HTTPStatusError))
	}
	rs = append(rs, broken(110, 7000*ms, record.TruncatedStream))
	for _, r := range rs[1:] {
		r.Scheduled -= 30 * ms
	}
	cut := answer(111, 20_000*ms, 50*ms, 10*ms, 20)
	cut.Status = record.Incomplete
	rs = append(rs, cut)
	r := runOf(in, rs)
	r.Stopped = "too many failures: 6 of the last 100 requests"
	r.Notes = []string{"made again from the records, since summary.json is missing"}
	f("troubled", r)

	// Steps of a rate, with a model and messages that would act on a terminal.
	in, rs = closed(300)
	in.RateDriven = true
	in.Steps = []stats.StepInput{
		{Rate: 5, Start: 0, End: 15_000 * ms, Complete: true},
		{Rate: 15, Start: 15_000 * ms, End: 30_000 * ms, Complete: true},
	}
	in.Limits = []scenario.Limit{{Metric: "ttft", Stat: "p90", Value: 60 * time.Millisecond}}
	for i, q := range rs {
		if q.Scheduled >= 15_000*ms {
			q.Step = 1
		}
		if i%2 == 1 {
			q.Workload = "code\x1b[2J"
		}
	}
	r = runOf(in, rs)
	r.Model = "llama\x1b[31m\u202egnp.exe"
	f("steps", r)

	// What the servers said beside it; others use them too.
	in, rs = closed(300)
	in.Server = &stats.ServerInput{
		PromptTokens: ptrTo(1e6), OutputTokens: ptrTo(2e6), TTFT: &stats.Mean{Sum: 31, Count: 1000}, E2E: &stats.Mean{Sum: 1210, Count: 1000},
	}
	r = runOf(in, rs)
	r.Summary.Server = map[string]*stats.Dist{}
	of := func(name string, mean float64, more ...float64) {
		d := &stats.Dist{Count: 30, Mean: &mean}
		if len(more) > 0 {
			d.P50, d.P95, d.Max = &more[0], &more[1], &more[2]
		}
		r.Summary.Server[name] = d
	}
	of("requests_running", 3.4, 3, 4, 4)
	of("requests_waiting", 0.2, 0, 1, 2)
	of("kv_cache_usage", 0.123, 0.12, 0.2, 0.25)
	of("generation_tokens", 1234.5)
	of("ttft", 0.031, 0.03, 0.05, 0.1)
	of("e2e", 1.21)
	of("preemptions", 0)
	of("power", 612, 640, 690, 702)
	of("fb_used", 7.1e10, 7.1e10, 7.1e10, 7.1e10)
	of("sm_active", 0.93, 0.95, 1, 1)
	of("throttled", 0, 0, 0, 1)
	of("nvlink_tx", 1.2e9, 1.1e9, 2e9, 2e9)
	of("host_cpu", 12.5)
	of("gateway.e2e", 1.3)
	of("kv_capacity", 452_000, 452_000, 452_000, 452_000)
	r.Summary.Server["kv_capacity"].Min = ptrTo(452_000.0)
	of("kv_cache_usage_max", 0.2, 0.2, 0.3, 0.4)
	of("requests_running_imbalance", 1.5, 1.5, 1.8, 2)
	of("requests_paused", 0, 0, 0, 0)
	r.Summary.Energy = &stats.Energy{
		Joules: ptrTo(18_360.0), MeanW: ptrTo(612.0), Source: "power", Devices: 2, JPerRequest: ptrTo(61.2), JPerOutputToken: ptrTo(0.956),
		IdleW: ptrTo(98.0), AboveIdleJoules: ptrTo(15_420.0), AboveIdleJPerRequest: ptrTo(51.4), AboveIdleJPerOutputToken: ptrTo(0.803),
	}
	r.Alignment = &Alignment{
		Sources: []run.SourceTimes{{Source: 1, RenewedEveryNS: 30e9, ClockUnsteady: true}, {Source: 0, RenewedEveryNS: 1e9, RenewedAtLeast: true, TwoServers: true}},
		Notes:   []string{"telemetry/part-000003.parquet could not be read: damaged"},
	}
	r.Sources = []telemetry.SourceInfo{
		{
			Name: "10.0.0.1:8000", URL: "http://10.0.0.1:8000/metrics", Kind: telemetry.KindPage, Sources: []string{"vllm"}, State: telemetry.StateOK, Up: true,
			Scrapes: 41, Failures: 2, Period: 1e9, PeriodAsked: 1e9, Series: 402, MeanTime: 3_100_000,
			ClockOffset: ptrTo(int64(-2_100_000)), ClockUncertainty: ptrTo(int64(800_000)), Restarts: 1, GapCount: 1,
			Problems: []telemetry.SourceProblem{{Line: 12, Text: "no value: \"vllm:x\\x1b[31m\"", Count: 41}, {Text: "a", Count: 1}, {Text: "b", Count: 1}, {Text: "c", Count: 1}, {Text: "d", Count: 1}},
		},
		{
			Name: "10.0.0.1:9400", URL: "http://10.0.0.1:9400/metrics", Kind: telemetry.KindPage, Sources: []string{"dcgm"}, State: telemetry.StateOK, Up: true,
			Scrapes: 8, Period: 4e9, PeriodAsked: 1e9, Series: 58, MeanTime: 180_000_000, Skipped: 3,
		},
		{Name: "10.0.0.2:9100", URL: "http://10.0.0.2:9100/metrics", Kind: telemetry.KindPage, State: telemetry.StateError, Why: "nobody listens there", Failures: 33, Period: 1e9, PeriodAsked: 1e9},
		{Name: "localhost", Kind: telemetry.KindHost, Sources: []string{"host"}, State: telemetry.StateOK, Up: true, Scrapes: 33, Period: 1e9, PeriodAsked: 1e9},
	}
	f("served", r)

	// Limits of what never happened, and of what cannot be.
	in, rs = closed(40)
	in.Limits = []scenario.Limit{{Metric: "ttft", Stat: "p95", Value: 40 * time.Millisecond}, {Metric: "tpot", Stat: "p95", Value: 8 * time.Millisecond}}
	in.Workloads = map[string]stats.WorkloadLimits{
		"synthetic": {First: in.Limits[:1:1], Later: in.Limits[:1:1]}, "none": {All: in.Limits[1:]},
	}
	in.WorkloadsCount = true
	for _, q := range rs {
		q.Events, q.Output, q.StreamedTokens, q.LastToken = q.Events[:1], 1, 1, q.FirstToken
	}
	f("unmeasured", runOf(in, rs))

	// Ended by its user in the middle: the figures are shown, and of how much they are.
	in, rs = closed(40)
	in.Steps[0].End, in.Steps[0].Asked, in.Steps[0].Complete = 21_000*ms, 30_000*ms, false
	r = runOf(in, rs[:28])
	r.Stopped = "interrupted"
	f("interrupted", r)

	// Nothing at all.
	in, _ = closed(1)
	f("empty", runOf(in, nil))

	// Answers that take hours.
	in, _ = closed(1)
	rs = nil
	for i := range 4 {
		rs = append(rs, answer(uint64(i), int64(i)*1000*ms, 90_000*ms, 100_000*ms, 30))
	}
	f("slow", runOf(in, rs))
}

// TestColour: colour changes no column, and there is none unless asked for.
// TestVirtualTime: a prediction has no date, and does not show the epoch as one.
func TestVirtualTime(t *testing.T) {
	in, rs := closed(10)
	in.Started = time.Unix(0, 0).UTC()
	var b bytes.Buffer
	if err := Text(&b, &Run{Summary: stats.Summarize(in, slices.Values(rs))}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "started    in virtual time, 31.2 s\n") || strings.Contains(b.String(), "1970") {
		t.Errorf("the start of a prediction:\n%s", strings.Join(strings.SplitN(b.String(), "\n", 6)[:5], "\n"))
	}
}

func TestColour(t *testing.T) {
	in, rs := closed(40)
	in.Limits = []scenario.Limit{{Metric: "tpot", Stat: "mean", Value: 8 * time.Millisecond}}
	in.Steps[0].Complete = false
	rs = append(rs, broken(100, 0, record.HTTPStatusError))
	r := Run{Summary: stats.Summarize(in, slices.Values(rs)), Model: "a\x1b[31mb"}
	var plain, painted bytes.Buffer
	if err := Text(&plain, &r); err != nil {
		t.Fatal(err)
	}
	r.Colour = true
	if err := Text(&painted, &r); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(plain.String(), "\x1b") {
		t.Error("colour without being asked for")
	}
	for _, want := range []string{"\x1b[31mINVALID:\x1b[0m", "\x1b[31mMISSED\x1b[0m", "\x1b[31m1 of 41 requests"} {
		if !strings.Contains(painted.String(), want) {
			t.Errorf("no %q in the painted report", want)
		}
	}
	codes := regexp.MustCompile("\x1b\\[[0-9]+m")
	if d := cmp.Diff(plain.String(), codes.ReplaceAllString(painted.String(), "")); d != "" {
		t.Errorf("colour changed the text (-plain +painted):\n%s", d)
	}
}

// Users beside workloads with a rate wait from the schedule too, as their limits count.
func TestUsersBesideARateWaitFromTheSchedule(t *testing.T) {
	in, rs := closed(64)
	s := stats.Summarize(in, slices.Values(rs))
	for _, from := range []bool{false, true} {
		s.Workloads["synthetic"].SLO = &stats.SLO{Own: true, Limits: []stats.Limit{{Metric: "ttft", Stat: "p95", Limit: 500, FromSchedule: from}}}
		var b bytes.Buffer
		if err := Text(&b, &Run{Summary: s}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.String(), "\n  ttft_from_schedule  "); got != from {
			t.Errorf("counted from the schedule: %v, shown: %v\n%s", from, got, b.String())
		}
	}
}
