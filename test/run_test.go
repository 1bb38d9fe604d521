package test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll/test/process"
)

// limit is how long a process may take.
const limit = process.Patience

// shape is a short prompt and an answer of the endpoint's length.
func shape(url string, more ...string) []string {
	return append([]string{"run", "--url", url, "--model", "m", "--prompt-tokens", "16", "--output-tokens", "10", "--out", "runs", "--telemetry", "none"}, more...)
}

func TestRunMeasures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := newEndpoint(t, 10, 10*time.Millisecond)
	r := process.Run(t, dir, limit, shape(e.url, "--users", "3", "--requests", "60", "--save-text")...)
	if r.Code != 0 && r.Code != 4 { // 4: the machine was too busy for a verdict
		t.Fatalf("exit %d\n%s", r.Code, r.Stderr)
	}
	run := process.OnlyRun(t, filepath.Join(dir, "runs"))
	s := process.ReadSummary(t, run)
	if s.Requests.OK != 60 || s.Requests.Error+s.Requests.Incomplete+s.Requests.Cancelled != 0 || s.Requests.OK != s.Requests.Scheduled {
		t.Errorf("requests %+v, want 60, all ok", s.Requests)
	}
	rows := process.Rows(t, run)
	if begun := int(e.begun.Load()); len(rows) != begun {
		t.Errorf("%d rows, the server saw %d requests", len(rows), begun)
	}
	want := "word0 word1 word2 word3 word4 word5 word6 word7 word8 word9 "
	for _, row := range rows {
		if row["status"] != "ok" || row.Number(t, "output_tokens") != 10 || row.Number(t, "prompt_tokens") != 16 || answer(row) != want {
			t.Fatalf("row %v, want ok, 10 tokens, %q", row, want)
		}
		// The server never writes a token before its time, whatever the machine does.
		if ttft, e2e := row.Number(t, "ttft_ms"), row.Number(t, "e2e_ms"); ttft < 10 || e2e < 100 || e2e < ttft {
			t.Fatalf("ttft %v ms, e2e %v ms; the server takes at least 10 and 100", ttft, e2e)
		}
	}
	if !strings.Contains(r.Stdout, "ttft") {
		t.Errorf("the report does not speak of ttft:\n%s", r.Stdout)
	}
	again := process.Must(t, dir, limit, "report", run)
	if !strings.Contains(again.Stdout, "ttft") {
		t.Errorf("the report of the saved run does not speak of ttft:\n%s", again.Stdout)
	}
}

// answer returns the saved text of a row.
func answer(row process.Row) string {
	switch v := row["text"].(type) {
	case string:
		return v
	case []any:
		if len(v) == 1 {
			s, _ := v[0].(string)
			return s
		}
	}
	return ""
}

// A process that is killed has kept what was measured, but for its last seconds: while it
// works, requests come to the disk. That they do so every 2.5 s is for the tests of
// package run, since here any process may stand still; a run that lasts an hour would keep
// none of them before its end if that did not work at all.
func TestKilledRunIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := newEndpoint(t, 5, 10*time.Millisecond)
	p := process.Start(t, dir, shape(e.url, "--users", "4", "--duration", "1h")...)
	p.Until("some answers", func() bool { return e.ended.Load() > 20 })
	must := int(e.ended.Load()) - 4 // of each user one may not have been taken in
	runs := filepath.Join(dir, "runs")
	p.Until("they are on the disk", func() bool { return len(process.Rows(t, process.OnlyRun(t, runs))) >= must })
	p.Signal(syscall.SIGKILL)
	p.Wait(limit)

	run := process.OnlyRun(t, runs)
	rows := process.Rows(t, run)
	if most := int(e.ended.Load()); len(rows) < must || len(rows) > most {
		t.Errorf("%d requests are kept; %d were on the disk before the kill, %d ended in all", len(rows), must, most)
	}
	for _, row := range rows {
		if row["status"] != "ok" || row.Number(t, "output_tokens") != 5 {
			t.Fatalf("row %v", row)
		}
	}
	if r := process.Run(t, dir, limit, "report", run); r.Code != 0 || !strings.Contains(r.Stdout, "ttft") {
		t.Errorf("report of a killed run: exit %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}

// Ctrl-C keeps everything that was measured.
func TestInterruptKeepsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := newEndpoint(t, 5, 10*time.Millisecond)
	p := process.Start(t, dir, shape(e.url, "--users", "4", "--duration", "1h")...)
	p.Until("some answers", func() bool { return e.ended.Load() > 40 })
	ended := int(e.ended.Load()) - 4 // of each user one may not have been taken in
	p.Signal(syscall.SIGINT)
	r := p.Wait(limit)
	if r.Code != 130 {
		t.Errorf("exit %d, want 130\n%s", r.Code, r.Stderr)
	}
	run := process.OnlyRun(t, filepath.Join(dir, "runs"))
	ok := 0
	for _, row := range process.Rows(t, run) {
		if row["status"] == "ok" {
			ok++
		}
	}
	if ok < ended {
		t.Errorf("%d whole answers are kept, %d had ended before the interrupt", ok, ended)
	}
	if s := process.ReadSummary(t, run); s.Requests.OK == 0 {
		t.Errorf("the summary of an interrupted run has no request: %+v", s.Requests)
	}
	if process.Must(t, dir, limit, "report", run).Stdout == "" {
		t.Error("the report is empty")
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, 5, 10*time.Millisecond)
	failing := raw(t, serveStatus(500, "text/plain", "no"))
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("target:\n  urll: http://127.0.0.1:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		says string // on standard error
	}{
		"ok":               {shape(e.url, "--users", "1", "--requests", "5"), 0, ""},
		"slo met":          {shape(e.url, "--users", "1", "--requests", "5", "--slo", "e2e.p50=1h"), 0, ""},
		"slo missed":       {shape(e.url, "--users", "1", "--requests", "5", "--slo", "e2e.p50=1ms"), 3, ""},
		"nothing measured": {shape(failing, "--users", "1", "--requests", "5"), 1, ""},
		"unknown flag":     {shape(e.url, "--userz", "1"), 2, "userz"},
		"unknown command":  {[]string{"rum"}, 2, "run"},
		"unknown field":    {[]string{"run", bad}, 2, "bad.yaml:2:3"},
		"bad value":        {shape(e.url, "--users", "minus one"), 2, "minus one"},
		"no url":           {[]string{"run", "--users", "1"}, 2, "url"},
		"no such run":      {[]string{"report", "nowhere"}, 2, "nowhere"},
		"version":          {[]string{"version"}, 0, ""},
		"dry run":          {shape(e.url, "--users", "1", "--requests", "5", "--dry-run"), 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			begun := e.begun.Load()
			r := process.Run(t, dir, limit, c.args...)
			if r.Code == 4 && (c.code == 0 || c.code == 3) {
				// This machine was too busy for a verdict, which the run must say too.
				s := process.ReadSummary(t, process.OnlyRun(t, filepath.Join(dir, "runs")))
				if s.Run.Verdict != "client-bound" {
					t.Errorf("exit 4, but the verdict is %s: %+v", s.Run.Verdict, s.Run.Reasons)
				}
			} else if r.Code != c.code {
				t.Errorf("exit %d, want %d\n%s\n%s", r.Code, c.code, r.Stderr, r.Stdout)
			}
			if !strings.Contains(r.Stderr, c.says) {
				t.Errorf("standard error does not say %q:\n%s", c.says, r.Stderr)
			}
			if sent := e.begun.Load() - begun; (c.code == 2 || name == "dry run") && sent != 0 {
				t.Errorf("%d requests were sent", sent)
			}
			if strings.Contains(r.Stderr, "goroutine ") || strings.Contains(r.Stderr, "panic") {
				t.Errorf("it panicked:\n%s", r.Stderr)
			}
		})
	}
}

// A client that was stopped for a while could not keep its schedule: the run is
// called client-bound, whatever the figures look like. The 21st request has it stopped,
// and what is left of its schedule is long enough for that to come late, too.
func TestStalledClientAccusesItself(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := newEndpoint(t, 5, 10*time.Millisecond)
	const requests = 400 // 20 s
	p := process.Start(t, dir, shape(e.url, "--rate", "20", "--arrival", "constant", "--requests", strconv.Itoa(requests))...)
	p.Until("some requests", func() bool { return e.begun.Load() > 20 })
	p.Signal(syscall.SIGSTOP)
	time.Sleep(3 * time.Second) // at least: 60 requests are due meanwhile
	p.Signal(syscall.SIGCONT)
	r := p.Wait(limit)
	s := process.ReadSummary(t, process.OnlyRun(t, filepath.Join(dir, "runs")))
	if s.Run.Verdict != "client-bound" || r.Code != 4 {
		t.Errorf("verdict %s, exit %d; want client-bound, 4. Reasons %+v", s.Run.Verdict, r.Code, s.Run.Reasons)
	}
	if !slices.ContainsFunc(s.Run.Reasons, func(r struct{ Check, Text string }) bool { return r.Check == "send_lag" }) {
		t.Errorf("of 60 requests that could not be sent in time nothing is said: %+v", s.Run.Reasons)
	}
	if s.Requests.OK != requests {
		t.Errorf("requests %+v, want %d ok", s.Requests, requests)
	}
}

// A folder that cannot be written is said before anything is sent.
func TestNowhereToWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "runs"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e := newEndpoint(t, 5, 10*time.Millisecond)
	r := process.Run(t, dir, limit, shape(e.url, "--users", "1", "--requests", "5")...)
	if r.Code == 0 || !strings.Contains(r.Stderr, "runs") {
		t.Errorf("exit %d\n%s", r.Code, r.Stderr)
	}
	if n := e.begun.Load(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// Every command and every flag of run that --help shows is in the contract.
func TestContractIsComplete(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../docs/contract.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	flags := regexp.MustCompile(`(?m)^  (--[a-z-]+)`).FindAllStringSubmatch(process.Must(t, dir, limit, "run", "--help").Stdout, -1)
	commands := regexp.MustCompile(`(?m)^  ([a-z]+) `).FindAllStringSubmatch(process.Must(t, dir, limit, "--help").Stdout, -1)
	if len(flags) < 30 || len(commands) < 6 {
		t.Fatalf("help shows %d flags of run and %d commands", len(flags), len(commands))
	}
	for _, m := range flags {
		if !regexp.MustCompile(m[1] + `\b`).Match(b) {
			t.Errorf("docs/contract.md does not know run's %s", m[1])
		}
	}
	for _, m := range commands {
		if !strings.Contains(string(b), "plimsoll "+m[1]) {
			t.Errorf("docs/contract.md does not know the command %s", m[1])
		}
	}
}
