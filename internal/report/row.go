package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"plimsoll/internal/detail"
	"plimsoll/internal/run"
	"plimsoll/internal/skim"
	"plimsoll/internal/stats"
)

// The files of a run that its line in a list is made of.
const (
	infoFile     = "run.json"
	summaryFile  = "summary.json"
	scenarioFile = "scenario.yaml"
	notesFile    = "notes.json"
)

// RowFiles are the names of the files, in the folder of a run, that its RunRow depends
// on.
func RowFiles() []string { return []string{infoFile, summaryFile, scenarioFile, notesFile} }

// mostSmallFile bounds the files of a run that are read whole for its line, in bytes.
const mostSmallFile = 16 << 20

// ErrNoFile says that there is something else under the name of a file.
var ErrNoFile = errors.New("no regular file")

// Opener opens a file in the folder of a run by its name; it refuses with ErrNoFile
// what is none, so that nobody waits for a named pipe.
type Opener func(name string) (io.ReadCloser, error)

// folder opens the files in dir.
func folder(dir string) Opener {
	return func(name string) (io.ReadCloser, error) {
		path := filepath.Join(dir, name)
		if fi, err := os.Stat(path); err == nil && !fi.Mode().IsRegular() {
			return nil, ErrNoFile
		}
		return os.Open(path)
	}
}

// RunRow returns the line in a list of the run whose folder is called id. Of its files
// no more is read than the line needs. Whatever is damaged there is a line: it tells
// the first problem, and what is not known is left out. Started is "" where nothing
// tells it.
func RunRow(id string, open Opener) detail.RunRow {
	row := detail.RunRow{ID: id, Name: id, State: detail.Unreadable, Workloads: []string{}, Tags: map[string]string{}}
	if begin, _, ok := strings.Cut(id, "-"); ok {
		if t, err := time.Parse("20060102T150405Z", begin); err == nil {
			row.Started = t.Format(time.RFC3339Nano)
		}
	}
	tell := func(file, fix string, err error) {
		if err == nil || row.Problem != nil {
			return
		}
		row.Problem = &detail.RowProblem{File: file, Text: Reason(err), Fix: fix}
		switch {
		case errors.Is(err, fs.ErrPermission):
			row.Problem.Fix = "let the user who runs plimsoll read it (chmod, chown)"
		case errors.Is(err, errNewer):
			row.Problem.Fix = "use the plimsoll that wrote it, or a newer one"
		}
	}
	simulated, err := rowInfo(&row, open)
	tell(infoFile, "put it back from a copy of the run, or delete the run; what is in requests and telemetry can be read without it, by whatever reads Parquet", err)
	if err := rowScenario(&row, open); !errors.Is(err, fs.ErrNotExist) {
		tell(scenarioFile, "put it back from a copy of the run: without it nothing tells model, load and workloads", err)
	}
	if simulated != "" {
		row.Target = "simulated: " + simulated
	}
	if err := rowSummary(&row, open); !errors.Is(err, fs.ErrNotExist) {
		tell(summaryFile, "open the run: its figures are made again of the records", err)
	}
	if err := rowNotes(&row, open); !errors.Is(err, fs.ErrNotExist) {
		tell(notesFile, "write the note and the tags anew; what is there now is kept as "+notesFile+".old", err)
	}
	return row
}

// errNewer says that a file is of another version of its schema than this one reads.
var errNewer = errors.New("written by another version of plimsoll")

func checkSchema(got, want string) error {
	if got == want {
		return nil
	}
	return fmt.Errorf("its schema is %q, and this plimsoll reads %q: %w", got, want, errNewer)
}

// Reason says in words, on one line, why a file of a run cannot be read.
func Reason(err error) string {
	var bad *json.SyntaxError
	var odd *json.UnmarshalTypeError
	switch {
	case errors.As(err, &bad):
		return fmt.Sprintf("it is no JSON at byte %d: %v", bad.Offset, bad)
	case errors.As(err, &odd):
		return fmt.Sprintf("its field %s, at byte %d, is a %s", cmp.Or(odd.Field, "of all"), odd.Offset, odd.Value)
	case errors.Is(err, ErrNoFile):
		return "it is no regular file but a folder, a link or a pipe"
	case errors.Is(err, fs.ErrNotExist):
		return "it is not there"
	case errors.Is(err, fs.ErrPermission):
		return "this process may not read it"
	}
	if at, ok := errors.AsType[*skim.SyntaxError](err); ok {
		return "it is not as it should be " + at.Error()
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Op + ": " + at.Err.Error()
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}

// small reads a whole file.
func small(open Opener, name string) ([]byte, error) {
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only: nothing can be lost
	b, err := io.ReadAll(io.LimitReader(f, mostSmallFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > mostSmallFile {
		return nil, fmt.Errorf("it is larger than %d bytes", mostSmallFile)
	}
	if len(b) == 0 {
		return nil, errors.New("it is empty: its writing did not come to its end")
	}
	return b, nil
}

// rowInfo fills in what run.json says, and returns what the target was simulated by.
func rowInfo(row *detail.RunRow, open Opener) (simulated string, err error) {
	b, err := small(open, infoFile)
	if err != nil {
		return "", err
	}
	// No more than what a line needs, since sources of telemetry make the rest long.
	var info struct {
		Schema  string            `json:"schema"`
		Name    string            `json:"name"`
		Tags    map[string]string `json:"tags"`
		State   run.State         `json:"state"`
		Start   time.Time         `json:"start"`
		End     *time.Time        `json:"end"`
		Verdict stats.Verdict     `json:"verdict"`
		Target  json.RawMessage   `json:"target"`
	}
	err = json.Unmarshal(b, &info)
	if _, odd := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !odd {
		return "", err
	}
	if err := checkSchema(info.Schema, run.InfoSchemaName); err != nil {
		return "", err // which is why something is of another type, too
	}
	if err != nil {
		return "", err
	}
	row.State, row.Started, row.Name = string(info.State), info.Start.UTC().Format(time.RFC3339Nano), Cut(info.Name, maxRowName)
	for k, v := range info.Tags {
		if len(k) <= maxRowName && len(v) <= maxRowName {
			row.Tags[k] = v
		}
	}
	if info.End != nil {
		d := info.End.Sub(info.Start).Seconds()
		row.DurationS = &d
	}
	if v := string(info.Verdict); v != "" {
		row.Verdict = &v
	}
	var target struct{ Twin struct{ Text string } }
	_ = json.Unmarshal(info.Target, &target) // any other target is none
	return target.Twin.Text, nil
}

// rowScenario fills in what the scenario says.
func rowScenario(row *detail.RunRow, open Opener) error {
	b, err := small(open, scenarioFile)
	if err != nil {
		return err
	}
	s, err := savedScenario(b)
	if err != nil {
		return err
	}
	row.Workloads, row.Model, row.Target, row.Load = workloadNames(s), s.Target.Model, strings.Join(s.Target.URL, ", "), DescribeLoad(s)
	return nil
}

// rowSummary fills in what the summary says, which is read no further than that.
func rowSummary(row *detail.RunRow, open Opener) error {
	f, err := open(summaryFile)
	if err != nil {
		return err
	}
	defer f.Close() // read only: nothing can be lost
	var schema, verdict string
	var duration, output, goodput *float64
	var p95 [3]*float64
	var requests *stats.Requests
	var met *bool
	in := skim.New(f)
	some := func(fields map[string]any) error {
		return in.Inner(func(name string) error {
			if v, ok := fields[name]; ok {
				return in.Value(v)
			}
			return nil
		})
	}
	err = in.Object(func(name string) error {
		switch name {
		case "schema":
			if err := in.Value(&schema); err != nil {
				return err
			}
			return checkSchema(schema, stats.SummarySchemaName)
		case "run":
			return some(map[string]any{"verdict": &verdict, "duration_s": &duration})
		case "requests":
			return in.Value(&requests)
		case "tokens":
			return some(map[string]any{"output_per_s": &output})
		case "latency_ms":
			return in.Inner(func(name string) error {
				for i, of := range [...]string{"ttft", "tpot", "e2e"} {
					if name == of {
						return some(map[string]any{"p95": &p95[i]})
					}
				}
				return nil
			})
		case "slo": // the last that is of interest
			if err := some(map[string]any{"goodput_rps": &goodput, "met": &met}); err != nil {
				return err
			}
			return skim.ErrEnough
		}
		return nil
	})
	if err != nil {
		return err
	}
	if schema == "" {
		return errors.New("it has no schema")
	}
	if verdict != "" {
		row.Verdict = &verdict
	}
	row.DurationS, row.OutputPerS = duration, output
	row.TTFTP95, row.TPOTP95, row.E2EP95 = p95[0], p95[1], p95[2]
	row.GoodputRPS, row.SLOMet = goodput, met
	if requests != nil {
		row.Requests, row.Errors = &requests.Scheduled, &requests.Error
		if requests.Scheduled > 0 {
			share := float64(requests.Error) / float64(requests.Scheduled)
			row.ErrorShare = &share
		}
	}
	return nil
}

// rowNotes fills in what somebody noted.
func rowNotes(row *detail.RunRow, open Opener) error {
	b, err := small(open, notesFile)
	if err != nil {
		return err // most runs have none
	}
	n, err := run.ParseRemarks(b)
	if err != nil {
		return err
	}
	row.Name, row.Note = Cut(cmp.Or(n.Name, row.Name), maxRowName), n.Note
	for k, v := range n.Tags {
		if v == nil {
			delete(row.Tags, k)
		} else {
			row.Tags[k] = *v
		}
	}
	return nil
}
