// Package process runs the real binary for tests: builds it once, starts it as
// a process with an environment of its own, and ends it. It owns processes that
// it started and nothing else, and it never looks at what they measured.
package process

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var folder string

// binary builds the program when the first test starts it.
var binary = sync.OnceValues(func() (string, error) {
	if folder == "" {
		return "", errors.New("build the binary: TestMain does not call process.Main")
	}
	path := filepath.Join(folder, "plimsoll")
	build := exec.Command("go", "build", "-o", path, "plimsoll/cmd/plimsoll")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the binary: %w\n%s", err, out)
	}
	return path, nil
})

// Main runs the tests of a package and removes the binary that they built; it
// is what TestMain calls. It returns the exit code.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "plimsoll-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	folder = dir
	return m.Run()
}

// Result is how a process ended.
type Result struct {
	// Code is the exit code, -1 when a signal ended it.
	Code           int
	Stdout, Stderr string
	// Took is the time from start to end.
	Took time.Duration
	// CPU is the processor time that it used, its own and the kernel's for it.
	CPU time.Duration
	// Memory is the most bytes that it had resident at once.
	Memory int64
}

// Process is a running binary.
type Process struct {
	t        testing.TB
	cmd      *exec.Cmd
	began    time.Time
	out, err output
	ended    chan struct{}
}

// output collects what a process prints while others read it.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends p.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// String returns everything so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// Start starts the binary in dir. It is killed when the test ends.
func Start(t testing.TB, dir string, args ...string) *Process {
	t.Helper()
	return StartEnv(t, nil, dir, args...)
}

// StartEnv is Start with variables in the environment, as "NAME=value".
func StartEnv(t testing.TB, env []string, dir string, args ...string) *Process {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{t: t, cmd: exec.Command(path, args...), began: time.Now(), ended: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "NO_COLOR=1"}, env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the state is in cmd.ProcessState
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	return p
}

// Stdout returns what it printed so far.
func (p *Process) Stdout() string { return p.out.String() }

// Stderr returns what it printed to standard error so far.
func (p *Process) Stderr() string { return p.err.String() }

// Signal sends a signal to the process.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("signal %v: %v", s, err)
	}
}

// Running says whether the process has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Wait returns when the process has ended; one that does not end within limit
// fails the test with its goroutines.
func (p *Process) Wait(limit time.Duration) Result {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(limit):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		select {
		case <-p.ended:
		case <-time.After(30 * time.Second):
		}
		p.t.Fatalf("plimsoll %s: still running after %v\n%s", strings.Join(p.cmd.Args[1:], " "), limit, tail(p.Stderr()))
	}
	s := p.cmd.ProcessState
	r := Result{Code: s.ExitCode(), Stdout: p.Stdout(), Stderr: p.Stderr(), Took: time.Since(p.began), CPU: s.UserTime() + s.SystemTime()}
	if u, ok := s.SysUsage().(*syscall.Rusage); ok {
		r.Memory = u.Maxrss
		if runtime.GOOS == "linux" {
			r.Memory <<= 10 // there it is in KiB
		}
	}
	return r
}

// Run runs the binary in dir to its end, for at most limit.
func Run(t testing.TB, dir string, limit time.Duration, args ...string) Result {
	t.Helper()
	return Start(t, dir, args...).Wait(limit)
}

// Must is Run for a process that has to end with exit code 0.
func Must(t testing.TB, dir string, limit time.Duration, args ...string) Result {
	t.Helper()
	r := Run(t, dir, limit, args...)
	if r.Code != 0 {
		t.Fatalf("plimsoll %s: exit %d\n%s\n%s", strings.Join(args, " "), r.Code, tail(r.Stderr), tail(r.Stdout))
	}
	return r
}

// Patience is how long tests wait for what must come about: long enough for any
// process to stand still now and then. No verdict depends on it.
const Patience = 2 * time.Minute

// Until calls ready until it says true, for at most Patience.
func Until(t testing.TB, what string, ready func() bool) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		// It is asked once more after the last moment: this process may be the one that stood still.
		late := time.Since(began) > Patience
		if ready() {
			return
		}
		if late {
			t.Fatalf("not within %v: %s", Patience, what)
		}
	}
}

// Until is Until for something that this process brings about: it fails at once
// when the process ends.
func (p *Process) Until(what string, ready func() bool) {
	p.t.Helper()
	Until(p.t, what, func() bool {
		running := p.Running() // before ready: what it does last counts
		if ready() {
			return true
		}
		if !running {
			p.t.Fatalf("it ended before: %s\n%s\n%s", what, tail(p.Stderr()), tail(p.Stdout()))
		}
		return false
	})
}

// whole addresses: what follows them has been printed too.
var (
	address      = regexp.MustCompile(`(http://[0-9.]+:[0-9]+)[^0-9]`)
	panelAddress = regexp.MustCompile(`panel at (http://[0-9.]+:[0-9]+/)`)
)

// Twin starts a simulated cluster that listens where it likes, and returns its
// address when it is there.
func Twin(t testing.TB, more ...string) (*Process, string) {
	t.Helper()
	p := Start(t, t.TempDir(), append([]string{"twin", "serve", "--listen", "127.0.0.1:0"}, more...)...)
	return p, p.says("where it listens", address)
}

// TwinAt starts a simulated cluster at an address that it must have, as soon as
// nobody else has it.
func TwinAt(t testing.TB, addr string, more ...string) *Process {
	t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		p := Start(t, t.TempDir(), append([]string{"twin", "serve", "--listen", addr}, more...)...)
		Until(t, "the twin listens or says why not", func() bool { return address.MatchString(p.Stdout()+p.Stderr()) || !p.Running() })
		if p.Running() {
			return p
		}
		if !Taken(p.Stderr()) || time.Since(began) > Patience {
			t.Fatalf("the twin does not listen at %s: %s", addr, tail(p.Stderr()))
		}
	}
}

// Taken says whether a program complains that another one has its port.
func Taken(said string) bool { return strings.Contains(said, "address already in use") }

// Panel returns the address of the panel that the process serves, when it is there.
func (p *Process) Panel() string {
	p.t.Helper()
	return p.says("where the panel is", panelAddress)
}

// says waits until it has printed something and returns the first group.
func (p *Process) says(what string, text *regexp.Regexp) (found string) {
	p.t.Helper()
	p.Until("it says "+what, func() bool {
		m := text.FindStringSubmatch(p.Stdout() + p.Stderr())
		if m != nil {
			found = m[1]
		}
		return m != nil
	})
	return found
}

// Listen listens on a loopback port below those that Linux and macOS give to clients and
// to listeners that do not care, so that none of those takes it when it is closed.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000)))
		if err == nil {
			return l
		}
	}
	t.Fatal("of 100 ports none is free")
	return nil
}

// FreeAddr returns a loopback address for a program that has to be told where to listen,
// a port as Listen finds it. Another program that has to be told may take it before this one
// does: who starts one looks whether it is Taken.
func FreeAddr(t testing.TB) string {
	t.Helper()
	l := Listen(t)
	defer l.Close()
	return l.Addr().String()
}

// Summary is what tests read of summary.json.
type Summary struct {
	Schema string
	Run    struct {
		Verdict string
		Reasons []struct{ Check, Text string }
	}
	Load struct {
		Offered   *float64 `json:"offered_rps"`
		Achieved  *float64 `json:"achieved_rps"`
		Completed *float64 `json:"completed_rps"`
	}
	Requests struct {
		Scheduled, Sent, OK, Error, Cancelled, Incomplete int
		ByError                                           map[string]int `json:"by_error"`
	}
	Tokens struct {
		Prompt, Output *int64
		Source         map[string]int
	}
	Latency map[string]*Distribution `json:"latency_ms"`
	Client  struct {
		Timestamps string
		Bounded    *float64      `json:"bounded_event_share"`
		SendLag    *Distribution `json:"send_lag_ms"`
		ReadLag    *Distribution `json:"read_lag_ms"`
		CanaryLag  *Distribution `json:"canary_lag_ms"`
		CPU        *float64      `json:"cpu_share"`
	}
	// Server is what the servers said, by canonical signal.
	Server map[string]*Distribution
}

// Distribution is what tests read of one distribution.
type Distribution struct {
	Count               int
	Mean, Min, P50, P99 *float64
	Max                 *float64
}

// ReadSummary reads the summary of a run's folder.
func ReadSummary(t testing.TB, run string) Summary {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(run, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s Summary
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatalf("summary.json: %v\n%s", err, b)
	}
	if s.Schema != "plimsoll.summary/1" {
		t.Fatalf("summary.json has schema %q", s.Schema)
	}
	return s
}

// Source is what tests read of one source of telemetry in run.json.
type Source struct {
	Index                       int
	Name, URL, Kind, State, Why string
	Sources                     []string
	Up                          bool
	Scrapes, Failures, Restarts int64
	// Skipped are the moments at which a reading before was still under way.
	Skipped      int64
	Period       int64 `json:"period_ns"`
	BackoffCount int64 `json:"backoff_count"`
	Problems     []struct{ Text string }
}

// Info is what tests read of run.json.
type Info struct {
	// Telemetry are the sources, in their order.
	Telemetry []Source
	// Alignment is how each of them keeps time.
	Alignment struct{ Sources []Times }
	Input     struct {
		// Server is what the servers counted in all of the run.
		Server *struct {
			Prompt *float64 `json:"prompt_tokens"`
			Output *float64 `json:"output_tokens"`
			TTFT   *Mean
			E2E    *Mean
		}
	}
}

// Times is how one source of telemetry keeps time, in ns.
type Times struct {
	Source       int
	ReadEvery    int64   `json:"read_every_ns"`
	RenewedEvery int64   `json:"renewed_every_ns"`
	AtLeast      bool    `json:"renewed_at_least"`
	Offset       *int64  `json:"offset_ns"`
	Uncertainty  *int64  `json:"uncertainty_ns"`
	ClockSteps   []int64 `json:"clock_steps_ns"`
	Restarts     []int64 `json:"restarts_ns"`
	Readings     int64
}

// Mean is a sum of values, in seconds, and their number.
type Mean struct{ Sum, Count float64 }

// ReadInfo reads run.json of a run's folder.
func ReadInfo(t testing.TB, run string) Info {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(run, "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	var info Info
	if err := json.Unmarshal(b, &info); err != nil {
		t.Fatalf("run.json: %v\n%s", err, b)
	}
	return info
}

// Source returns the source with a URL; the test fails when there is none.
func (i *Info) Source(t testing.TB, url string) Source {
	t.Helper()
	for _, s := range i.Telemetry {
		if s.URL == url {
			return s
		}
	}
	t.Fatalf("run.json has no source %s: %+v", url, i.Telemetry)
	return Source{}
}

// Times returns how the source with a URL keeps time.
func (i *Info) Times(t testing.TB, url string) Times {
	t.Helper()
	s := i.Source(t, url)
	for _, a := range i.Alignment.Sources {
		if a.Source == s.Index {
			return a
		}
	}
	t.Fatalf("run.json does not say how %s keeps time: %+v", url, i.Alignment)
	return Times{}
}

// OnlyRun returns the one run in a folder of runs.
func OnlyRun(t testing.TB, runs string) string {
	t.Helper()
	var found []string
	entries, err := os.ReadDir(runs)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			found = append(found, filepath.Join(runs, e.Name()))
		}
	}
	if len(found) != 1 {
		t.Fatalf("folder of runs holds %d, want one: %q", len(found), found)
	}
	return found[0]
}

// Row is one request as `report --format jsonl` prints it; absent values are
// missing or nil.
type Row map[string]any

// Rows returns the requests of a run.
func Rows(t testing.TB, run string) []Row {
	t.Helper()
	r := Must(t, filepath.Dir(run), time.Minute, "report", run, "--format", "jsonl")
	var out []Row
	for line := range strings.Lines(r.Stdout) {
		var row Row
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("report --format jsonl: %v in %q", err, line)
		}
		out = append(out, row)
	}
	return out
}

// Number returns a number of the row; the test fails when it is null.
func (r Row) Number(t testing.TB, name string) float64 {
	t.Helper()
	f, ok := r[name].(float64)
	if !ok {
		t.Fatalf("row has %s = %v, want a number: %v", name, r[name], r)
	}
	return f
}

func tail(s string) string { return s[max(0, len(s)-3000):] }
