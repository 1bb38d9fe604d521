package test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"plimsoll/test/process"
)

// slow skips a test that takes long or needs much of the machine.
func slow(t *testing.T) {
	t.Helper()
	if os.Getenv("PLIMSOLL_SLOW") == "" {
		t.Skip("slow: `make slow` sets PLIMSOLL_SLOW")
	}
}

// twin starts a simulated cluster and returns where it listens.
func twin(t *testing.T, args ...string) string {
	t.Helper()
	_, url := process.Twin(t, args...)
	return url
}

// Twin and client together on this machine hold 2,000 open streams of 20 tokens
// a second: nothing fails, and the client trusts itself.
func TestTwoThousandStreams(t *testing.T) {
	slow(t)
	// Twenty engines, each at its own time within the step: one engine would write
	// 2,000 tokens in one instant, and then a client on two cores is late by the
	// length of that burst and says so.
	url := twin(t, "--step", "50ms")
	var s process.Summary
	const tries = 3 // a shared machine may stall now and then
	quiet := 0      // tries in which nothing else had the machine; in one of them it may have stalled
	for try := 0; try < tries && quiet+tries-try >= 2; try++ {
		alone := process.Quiet(t, func() {
			dir := t.TempDir()
			r := process.Run(t, dir, 4*time.Minute, "run", "--url", url, "--users", "2000", "--prompt-tokens", "16", "--ignore-eos",
				"--output-tokens", "uniform:100..300", // equal lengths would end and begin 2,000 requests in one instant, every 10 s
				"--warmup", "15s", "--duration", "20s", "--drain", "1m", "--out", "runs", "--telemetry", "none")
			s = process.ReadSummary(t, process.OnlyRun(t, filepath.Join(dir, "runs")))
			t.Logf("try %d: exit %d, verdict %s %v, requests %+v, %s times, bounded %s, canary lag p99 %s ms, send lag p99 %s ms, itl p50 %s p99 %s ms, cpu %s",
				try+1, r.Code, s.Run.Verdict, s.Run.Reasons, s.Requests, s.Client.Timestamps, number(s.Client.Bounded),
				p99(s.Client.CanaryLag), p99(s.Client.SendLag), p50(s.Latency["itl"]), p99(s.Latency["itl"]), number(s.Client.CPU))
		})
		if timely(s) {
			break
		}
		if alone {
			quiet++
		}
	}
	if s.Requests.Error > 0 {
		t.Errorf("requests %+v, want none failed", s.Requests)
	}
	if s.Client.Timestamps != "kernel" {
		t.Errorf("%s times, want the kernel's", s.Client.Timestamps)
	}
	if !timely(s) && quiet < 2 {
		t.Skip("the client's own lateness is not judged: other work had this machine")
	}
	if s.Requests.OK < 2000 || s.Requests.Incomplete+s.Requests.Cancelled > 0 {
		t.Errorf("requests %+v, want at least 2,000, all ok", s.Requests)
	}
	if !timely(s) {
		t.Errorf("verdict %s, %+v; bounded share of events %s, want below 0.05; itl p50 %s ms, the twin steps every 50",
			s.Run.Verdict, s.Run.Reasons, number(s.Client.Bounded), p50(s.Latency["itl"]))
	}
}

// timely says whether the client was in time by its own account, and the twin by what the
// client saw of it.
func timely(s process.Summary) bool {
	itl := s.Latency["itl"]
	return s.Run.Verdict == "valid" && s.Client.Bounded != nil && *s.Client.Bounded < 0.05 && itl != nil && itl.P50 != nil && *itl.P50 >= 45 && *itl.P50 <= 55
}

// The demo needs nothing and ends with a report and a run.
func TestDemo(t *testing.T) {
	slow(t)
	dir := t.TempDir()
	r := process.Run(t, dir, 5*time.Minute, "demo")
	if r.Code != 0 && r.Code != 3 && r.Code != 4 { // a busy machine may miss the levels of the demo (3), or be too busy for a verdict (4)
		t.Errorf("exit %d\n%s", r.Code, r.Stderr)
	}
	if !strings.Contains(r.Stdout, "ttft") {
		t.Errorf("it does not end with a report:\n%s", r.Stdout)
	}
	s := process.ReadSummary(t, process.OnlyRun(t, filepath.Join(dir, "runs")))
	if s.Requests.OK == 0 || s.Requests.Error > 0 {
		t.Errorf("requests %+v", s.Requests)
	}
}

// On a full disk the run ends, says why, and what was written is readable.
func TestFullDisk(t *testing.T) {
	slow(t)
	disk := t.TempDir()
	if err := mountTmpfs(disk, "size=1500k"); err != nil {
		t.Skipf("cannot mount a small file system here: %v", err)
	}
	t.Cleanup(func() {
		if err := unmount(disk); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	e := newEndpoint(t, 10, 2*time.Millisecond)
	r := process.Run(t, t.TempDir(), 4*time.Minute, "run", "--url", e.url, "--model", "m", "--users", "30", "--prompt-tokens", "16", "--output-tokens", "10",
		"--duration", "1h", "--out", disk, "--telemetry", "none", "--save-text")
	if r.Code == 0 || !strings.Contains(r.Stderr, "no space left on device") {
		t.Errorf("exit %d after %v\n%s", r.Code, r.Took, r.Stderr)
	}
	if strings.Contains(r.Stderr, "goroutine ") {
		t.Errorf("it panicked:\n%s", r.Stderr)
	}
	run := process.OnlyRun(t, disk)
	if rows := process.Rows(t, run); len(rows) == 0 {
		t.Errorf("no request of the full disk can be read")
	}
}

// A read-only file system is said before anything is sent, to root too.
func TestReadOnly(t *testing.T) {
	slow(t)
	disk := t.TempDir()
	if err := mountTmpfs(disk, "size=200k,ro"); err != nil {
		t.Skipf("cannot mount a file system here: %v", err)
	}
	t.Cleanup(func() {
		if err := unmount(disk); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	e := newEndpoint(t, 10, 2*time.Millisecond)
	r := process.Run(t, t.TempDir(), limit, shape(e.url, "--users", "1", "--requests", "5", "--set", "data.out="+disk)...)
	if r.Code == 0 || !strings.Contains(r.Stderr, "read-only file system") {
		t.Errorf("exit %d\n%s", r.Code, r.Stderr)
	}
	if n := e.begun.Load(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func number(f *float64) string {
	if f == nil {
		return "unknown"
	}
	return strconv.FormatFloat(*f, 'g', 4, 64)
}

func p50(d *process.Distribution) string {
	if d == nil {
		return "unknown"
	}
	return number(d.P50)
}

func p99(d *process.Distribution) string {
	if d == nil {
		return "unknown"
	}
	return number(d.P99)
}
