package report_test

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/internal/detail"
	"plimsoll/internal/report"
	"plimsoll/internal/scenario"
)

// texts are the files of a run.
type texts map[string]string

func (f texts) open(name string) (io.ReadCloser, error) {
	text, ok := f[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

// inFolder opens the files in dir.
func inFolder(dir string) report.Opener {
	return func(name string) (io.ReadCloser, error) { return os.Open(filepath.Join(dir, name)) }
}

const (
	infoFile, summaryFile, scenarioFile, notesFile = "run.json", "summary.json", "scenario.yaml", "notes.json"

	rowID       = "20260102T030405Z-x"
	rowInfoText = `{"schema": "plimsoll.run/1", "id": "x", "name": "n", "state": "done", "start": "2026-01-02T03:04:05.5Z", "tags": {"a": "1"}}`
)

// TestRunRowIsOfTheSummary: what is skimmed is what the whole summary says.
func TestRunRowIsOfTheSummary(t *testing.T) {
	saved, _ := someRun(t, 500, "x")
	in, err := saved.Input()
	if err != nil {
		t.Fatal(err)
	}
	in.Limits = []scenario.Limit{{Metric: "ttft", Stat: "p95", Value: 2e9}}
	s := saved.SummarizeAs(in)
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(saved.Dir(), "summary.json"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	row := report.RunRow(filepath.Base(saved.Dir()), inFolder(saved.Dir()))
	if row.Problem != nil {
		t.Fatalf("problem %+v", row.Problem)
	}
	same := func(what string, got, want *float64) {
		t.Helper()
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%s is not that of the summary", what)
		}
	}
	same("duration", row.DurationS, s.Run.DurationS)
	same("ttft", row.TTFTP95, s.Latency.TTFT.P95)
	same("tpot", row.TPOTP95, s.Latency.TPOT.P95)
	same("e2e", row.E2EP95, s.Latency.E2E.P95)
	same("output", row.OutputPerS, s.Tokens.OutputPerS)
	same("goodput", row.GoodputRPS, s.SLO.GoodputRPS)
	if row.TTFTP95 == nil || row.GoodputRPS == nil {
		t.Error("the summary has nothing to compare")
	}
	if *row.Requests != s.Requests.Scheduled || *row.Errors != s.Requests.Error || *row.ErrorShare != float64(s.Requests.Error)/float64(s.Requests.Scheduled) ||
		*row.SLOMet != *s.SLO.Met || *row.Verdict != string(s.Run.Verdict) || row.State != string(saved.Info().State) || row.Name != saved.Info().Name {
		t.Errorf("row %+v", row)
	}
}

// counted counts what is read of a file.
type counted struct {
	io.Reader
	n *int
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	*c.n += n
	return n, err
}

func (counted) Close() error { return nil }

// TestRunRowReadsLittle: signals, workloads and steps, which make a summary long, are not read.
func TestRunRowReadsLittle(t *testing.T) {
	summary := `{"schema": "plimsoll.summary/1", "run": {"verdict": "valid", "duration_s": 3}, "requests": {"scheduled": 5}, "latency_ms": {"ttft": {"p95": 7}}, "slo": null, "workloads": "` + strings.Repeat("x", 8<<20) + `"}`
	n := 0
	row := report.RunRow(rowID, func(name string) (io.ReadCloser, error) {
		if name == summaryFile {
			return counted{strings.NewReader(summary), &n}, nil
		}
		return texts{infoFile: rowInfoText}.open(name)
	})
	if row.TTFTP95 == nil || *row.TTFTP95 != 7 || row.Problem != nil {
		t.Errorf("row %+v", row)
	}
	if n > 32<<10 {
		t.Errorf("%d bytes of the summary were read", n)
	}
}

func TestRunRowTellsProblems(t *testing.T) {
	f := func(name string, files texts, file, text, state string) {
		t.Helper()
		row := report.RunRow(rowID, files.open)
		switch {
		case row.State != state || row.Started == "" || row.Workloads == nil || row.Tags == nil:
			t.Errorf("%s: row %+v, want state %s", name, row, state)
		case file == "":
			if row.Problem != nil {
				t.Errorf("%s: problem %+v, want none", name, row.Problem)
			}
		case row.Problem == nil || row.Problem.File != file || !strings.Contains(row.Problem.Text, text) || row.Problem.Fix == "":
			t.Errorf("%s: problem %+v, want one of %s with %q", name, row.Problem, file, text)
		}
	}
	const bad = detail.Unreadable
	f("nothing else", texts{infoFile: rowInfoText}, "", "", "done")
	f("no run.json", texts{}, infoFile, "not there", bad)
	f("syntax", texts{infoFile: `{"schema": x`}, infoFile, "at byte 12", bad)
	f("type", texts{infoFile: strings.Replace(rowInfoText, `"done"`, "3", 1)}, infoFile, "field state", bad)
	f("time", texts{infoFile: strings.Replace(rowInfoText, "2026-01", "2026-13", 1)}, infoFile, "month out of range", bad)
	f("newer", texts{infoFile: `{"schema": "plimsoll.run/9", "state": 5}`}, infoFile, "another version", bad)
	f("huge", texts{infoFile: strings.Repeat(" ", 16<<20+1)}, infoFile, "larger than", bad)
	f("summary cut", texts{infoFile: rowInfoText, summaryFile: `{"schema": "plimsoll.summary/1", "run"`}, summaryFile, "at byte", "done")
	f("summary of another type", texts{infoFile: rowInfoText, summaryFile: `{"schema": "plimsoll.summary/1", "requests": 5}`}, summaryFile, "at byte 45: a number", "done")
	f("summary newer", texts{infoFile: rowInfoText, summaryFile: `{"schema": "plimsoll.summary/2", "requests": 5}`}, summaryFile, "another version", "done")
	f("no summary in it", texts{infoFile: rowInfoText, summaryFile: `{}`}, summaryFile, "no schema", "done")
	f("scenario", texts{infoFile: rowInfoText, scenarioFile: "load: ["}, scenarioFile, "scenario.yaml", "done")
	f("notes", texts{infoFile: rowInfoText, notesFile: "[]"}, notesFile, "a array", "done")
	f("the first counts", texts{infoFile: "x", summaryFile: "y"}, infoFile, "at byte", bad)
	row := report.RunRow(rowID, func(string) (io.ReadCloser, error) {
		return nil, &fs.PathError{Op: "open", Path: "p", Err: fs.ErrPermission}
	})
	if row.Problem == nil || !strings.Contains(row.Problem.Fix, "chmod") {
		t.Errorf("what may not be read: %+v", row.Problem)
	}
	row = report.RunRow(rowID, func(string) (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader("{"), failing{})), nil
	})
	if row.Problem == nil || !strings.Contains(row.Problem.Text, "broken disk") {
		t.Errorf("a file that cannot be read to its end: %+v", row.Problem)
	}
	row = report.RunRow(rowID, func(string) (io.ReadCloser, error) { return nil, report.ErrNoFile })
	if row.Problem == nil || !strings.Contains(row.Problem.Text, "no regular file") {
		t.Errorf("a folder: %+v", row.Problem)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("broken disk") }
