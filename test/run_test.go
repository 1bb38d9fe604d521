package test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll/test/process"
)

const limit = 60 * time.Second

// shape is a short prompt and an answer of the endpoint's length.
func shape(url string, more ...string) []string {
	return append([]string{"run", "--url", url, "--model", "m", "--prompt-tokens", "16", "--output-tokens", "10", "--out", "runs", "--telemetry", "none"}, more...)
}

func TestRunMeasures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := newEndpoint(t, 10, 10*time.Millisecond)
	r := process.Run(t, dir, limit, shape(e.url, "--users", "3", "--duration", "2s", "--warmup", "500ms", "--save-text")...)
	if r.Code != 0 && r.Code != 4 { // 4: the machine was too busy for a verdict
		t.Fatalf("exit %d\n%s", r.Code, r.Stderr)
	}
	run := process.OnlyRun(t, filepath.Join(dir, "runs"))
	s := process.ReadSummary(t, run)
	if s.Requests.OK < 30 || s.Requests.Error+s.Requests.Incomplete+s.Requests.Cancelled != 0 || s.Requests.OK != s.Requests.Scheduled {
		t.Errorf("requests %+v, want about 60, all ok", s.Requests)
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

// A process that is killed loses at most the requests of its last 5 s.
func TestKillLosesAtMostFiveSeconds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := newEndpoint(t, 5, 10*time.Millisecond)
	p := process.Start(t, dir, shape(e.url, "--users", "4", "--duration", "60s")...)
	p.Until(limit, "the first answer", func() bool { return e.endedBefore(time.Now()) > 0 })
	time.Sleep(9 * time.Second)
	p.Signal(syscall.SIGKILL)
	killed := time.Now()
	p.Wait(limit)

	run := process.OnlyRun(t, filepath.Join(dir, "runs"))
	rows := process.Rows(t, run)
	must, most := e.endedBefore(killed.Add(-5*time.Second)), e.endedBefore(time.Now())
	if must < 20 {
		t.Fatalf("only %d requests ended before the last 5 s", must)
	}
	if len(rows) < must || len(rows) > most {
		t.Errorf("%d requests are kept; %d ended up to 5 s before the kill, %d in all", len(rows), must, most)
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
	p := process.Start(t, dir, shape(e.url, "--users", "4", "--duration", "60s")...)
	p.Until(limit, "some answers", func() bool { return e.endedBefore(time.Now()) > 40 })
	ended := e.endedBefore(time.Now())
	p.Signal(syscall.SIGINT)
	r := p.Wait(20 * time.Second)
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
		"slo met":          {shape(e.url, "--users", "1", "--requests", "5", "--slo", "e2e.p50=10s"), 0, ""},
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
			for try := 0; r.Code == 4 && try < 9; try++ {
				t.Logf("the machine was too busy for a verdict; again")
				r = process.Run(t, dir, limit, c.args...)
			}
			if r.Code != c.code {
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
// called client-bound, whatever the figures look like.
func TestStalledClientAccusesItself(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := newEndpoint(t, 5, 10*time.Millisecond)
	p := process.Start(t, dir, shape(e.url, "--rate", "20", "--arrival", "constant", "--duration", "5s")...)
	p.Until(limit, "some answers", func() bool { return e.endedBefore(time.Now()) > 20 })
	p.Signal(syscall.SIGSTOP)
	time.Sleep(time.Second)
	p.Signal(syscall.SIGCONT)
	r := p.Wait(limit)
	s := process.ReadSummary(t, process.OnlyRun(t, filepath.Join(dir, "runs")))
	if s.Run.Verdict != "client-bound" || r.Code != 4 {
		t.Errorf("verdict %s, exit %d; want client-bound, 4. Reasons %+v", s.Run.Verdict, r.Code, s.Run.Reasons)
	}
	if s.Requests.OK != 100 {
		t.Errorf("requests %+v, want 100 ok", s.Requests)
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
