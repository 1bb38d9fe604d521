package telemetry

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/run"
	"plimsoll/test/process"
)

// limit is how long a run may take.
const limit = 3 * time.Minute

// finished is a run that has ended.
type finished struct {
	process.Result
	dir     string
	info    process.Info
	summary process.Summary
	rows    []process.Row
}

// measure runs the binary to its end and reads what it kept. Client and servers
// share this machine, so the client may rightly call itself the limit (4).
func measure(t *testing.T, args ...string) finished {
	t.Helper()
	return begin(t, args...)()
}

// begin is measure whose function waits for the end.
func begin(t *testing.T, args ...string) func() finished {
	t.Helper()
	dir := t.TempDir()
	p := process.Start(t, dir, append([]string{"run", "--out", "runs"}, args...)...)
	return func() finished {
		t.Helper()
		f := finished{Result: p.Wait(limit)}
		if f.Code != 0 && f.Code != 4 {
			t.Fatalf("exit %d\n%s\n%s", f.Code, f.Stderr, f.Stdout)
		}
		f.read(t, filepath.Join(dir, "runs"))
		return f
	}
}

func (f *finished) read(t *testing.T, runs string) {
	t.Helper()
	f.dir = process.OnlyRun(t, runs)
	f.info, f.summary, f.rows = process.ReadInfo(t, f.dir), process.ReadSummary(t, f.dir), process.Rows(t, f.dir)
}

// sum adds up a number of all requests that were answered.
func (f *finished) sum(t *testing.T, name string) (sum float64) {
	t.Helper()
	for _, r := range f.rows {
		if r["status"] == "ok" {
			sum += r.Number(t, name)
		}
	}
	return sum
}

// good says whether a source was read as it should be. Once in a run somebody may stand
// still for longer than a reading may take.
func good(s process.Source) bool { return s.State == "ok" && s.Failures <= 1 && s.Scrapes > 0 }

// sameTokens fails the test unless the server counted, in all of the run, exactly
// the tokens that the client has in its records. When the reading after the run
// failed, because somebody stood still, it may have fewer.
func (f *finished) sameTokens(t *testing.T, url string) {
	t.Helper()
	s, page := f.info.Input.Server, f.info.Source(t, url)
	if s == nil || s.Prompt == nil || s.Output == nil {
		t.Fatalf("run.json does not say what the server counted: %+v\n%s", s, f.Stdout)
	}
	p, o := f.sum(t, "prompt_tokens"), f.sum(t, "output_tokens")
	if !page.Up && *s.Prompt <= p && *s.Output <= o {
		t.Logf("the last reading failed (%s): what the server counted until then is not compared", page.Why)
	} else if *s.Prompt != p || *s.Output != o || p == 0 || o == 0 {
		t.Errorf("the server counted %v prompt and %v output tokens, the client %v and %v", *s.Prompt, *s.Output, p, o)
	}
}

// course is the course of one figure on the timeline: time in ns and value.
type course map[int64]float64

// total returns the sum over all cells, of a rate what there was of it in all.
func (c course) total() (sum float64) {
	for _, v := range c {
		sum += v
	}
	return sum
}

// most returns the highest value.
func (c course) most() (most float64) {
	for _, v := range c {
		most = max(most, v)
	}
	return most
}

// timeline reads the timeline of the run: "SIGNAL STAT" are the figures of all sources together, "SIGNAL
// STAT SOURCE" those of one source, added up over its engines and devices. Every figure must be a number, and no rate may be
// below 0.
func (f *finished) timeline(t *testing.T) map[string]course {
	t.Helper()
	r, err := run.Open(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]course{}
	for rows, err := range r.Timeline() {
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if math.IsNaN(row.Value) || math.IsInf(row.Value, 0) || row.Stat == "rate" && row.Value < 0 {
				t.Fatalf("row %+v", row)
			}
			if row.Source == "" && row.Labels != "" || row.Workload != "" {
				continue
			}
			name := strings.TrimSpace(row.Signal + " " + row.Stat + " " + row.Source)
			if all[name] == nil {
				all[name] = course{}
			}
			all[name][row.T] += row.Value
		}
	}
	return all
}
