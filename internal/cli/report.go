package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"plimsoll/internal/assets"
	"plimsoll/internal/conduct"
	"plimsoll/internal/detail"
	"plimsoll/internal/probe"
	"plimsoll/internal/record"
	"plimsoll/internal/report"
	"plimsoll/internal/run"
	"plimsoll/internal/scenario"
	"plimsoll/internal/stats"
)

// latest is the name of the run that was started last.
const latest = "latest"

type reportCmd struct {
	Name    string `arg:"" name:"run" help:"The folder of a run, its name, or latest."`
	Format  string `name:"format" enum:"text,json,jsonl,html" default:"text" placeholder:"FORMAT" group:"output" help:"text; json (the summary); jsonl (one request a line); html (one page that works offline)."`
	File    string `name:"file" placeholder:"FILE" group:"output" help:"Where html goes: report.html in the run's folder unless given, - for standard output."`
	Signals bool   `name:"signals" group:"output" help:"Instead of the figures: how every signal of the servers went, the client's own beside it; as text or json."`
	Out     string `name:"out" default:"runs" placeholder:"DIR" help:"The folder of runs in which names are looked up."`
}

func (*reportCmd) Help() string {
	return "The figures of a run that was killed are made again from its records."
}

func (*reportCmd) Examples() []string {
	return []string{
		"plimsoll report latest",
		"plimsoll report runs/20261130T104512Z-chat --format json",
		"plimsoll report latest --format jsonl | head -1",
		"plimsoll report latest --signals",
		"plimsoll report latest --format html",
	}
}

func (c *reportCmd) Run(a *app) error {
	dir, err := a.findRun(c.Name, c.Out)
	if err != nil {
		return err
	}
	if c.File != "" && c.Format != "html" {
		return usagef("report: --file is for --format html")
	}
	if c.Signals {
		return c.signals(a, dir)
	}
	if c.Format == "html" {
		return c.html(a, dir)
	}
	r, err := a.openRun(dir)
	if err != nil {
		return err
	}
	switch c.Format {
	case "json":
		return a.printSummary(r.about.Summary, r.about.Probe)
	case "jsonl":
		return report.JSONLines(a.env.Stdout, a.whole(r.saved))
	}
	return report.Text(a.env.Stdout, r.about)
}

// html writes a run as one page and says where it is.
func (c *reportCmd) html(a *app, dir string) error {
	saved, err := run.Open(dir)
	if err != nil {
		return err
	}
	s, err := detail.Open(saved, conduct.Timeline(saved))
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	defer s.Close() // read only: nothing can be lost
	panel, _ := assets.Panel()
	var page bytes.Buffer
	if err := report.HTML(&page, saved, s, report.Front{Script: panel["report.js"], Style: panel["report.css"]}); err != nil {
		return err
	}
	if c.File == "-" {
		_, err := a.env.Stdout.Write(page.Bytes())
		return err
	}
	name := filepath.Join(dir, "report.html")
	if c.File != "" {
		name = a.env.path(c.File)
	}
	if err := os.WriteFile(name, page.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	_, err = fmt.Fprintln(a.env.Stdout, report.Printable(a.env.shorten(name)))
	return err
}

// signals prints the courses of the signals of a run.
func (c *reportCmd) signals(a *app, dir string) error {
	if c.Format != "text" && c.Format != "json" {
		return usagef("report: --signals has no format %s: want text or json", c.Format)
	}
	saved, err := run.Open(dir)
	if err != nil {
		return err
	}
	t, err := report.ReadTimeline(conduct.Timeline(saved))
	switch {
	case err != nil:
		return fmt.Errorf("report: %w", err)
	case c.Format == "json":
		return t.JSON(a.env.Stdout)
	}
	return report.Signals(a.env.Stdout, t.Courses())
}

// whole gives the requests of a run, and an error at the end when some could not
// be read or the user has had enough.
func (a *app) whole(r *run.Run) iter.Seq2[*record.Request, error] {
	return func(yield func(*record.Request, error) bool) {
		for q := range r.Requests() {
			if a.ctx.Err() != nil {
				yield(nil, a.ctx.Err())
				return
			}
			if !yield(q, nil) {
				return
			}
		}
		for _, n := range r.Notes() {
			if !yield(nil, fmt.Errorf("read run %s: %s", r.Info().ID, noteText(n))) {
				return
			}
		}
	}
}

// findRun returns the folder of a run: one that exists as named, one of that
// name in the folder of runs, or the one started last there.
func (a *app) findRun(name, root string) (string, error) {
	root = a.env.path(root)
	if name == "" {
		return "", usagef("report: the name of the run is empty: want a folder, a name or %s", latest)
	}
	if name != latest {
		for _, dir := range []string{a.env.path(name), filepath.Join(root, name)} {
			if _, err := os.Stat(filepath.Join(dir, "run.json")); err == nil {
				return dir, nil
			}
		}
	}
	if fi, err := os.Stat(a.env.path(name)); err == nil && fi.IsDir() && strings.ContainsRune(name, filepath.Separator) {
		return "", usagef("report: %s is no run: there is no run.json in it", report.Printable(name))
	}
	runs, err := run.List(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if name == latest && len(runs) > 0 {
		return runs[len(runs)-1].Dir(), nil
	}
	shown := report.Printable(a.env.shorten(root))
	if len(runs) == 0 {
		return "", usagef("report: no run %q: there is none in %s", name, shown)
	}
	// The end of a name is what a user remembers.
	var ids, found []string
	for _, r := range runs {
		ids = append(ids, r.Info().ID)
		if r.Info().Name == name || strings.HasSuffix(r.Info().ID, "-"+name) {
			found = append(found, r.Dir())
		}
	}
	if len(found) > 0 {
		return found[len(found)-1], nil
	}
	hint := maybe(name, ids)
	if hint == "" {
		hint = "; the last one is " + ids[len(ids)-1]
	}
	return "", usagef("report: no run %q in %s%s", name, shown, hint)
}

// opened is a run as the report needs it.
type opened struct {
	saved *run.Run
	about *report.Run
}

// failures looks up what the first failed request of each kind said.
func (a *app) failures(saved *run.Run, about *report.Run) error {
	left := 0
	for _, n := range about.Summary.Requests.ByError {
		left += int(min(n, 1))
	}
	about.Failures = map[string]string{}
	if left == 0 {
		return nil
	}
	for r := range saved.Requests() {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		if r.Status != record.Failed || r.Phase != record.Steady {
			continue
		}
		k := stats.ErrorName(r.Error)
		if _, known := about.Failures[k]; !known {
			about.Failures[k] = r.Message
			if left--; left == 0 {
				break
			}
		}
	}
	return nil
}

// openRun reads a run, and makes its figures again when they were never written.
func (a *app) openRun(dir string) (*opened, error) {
	saved, err := run.Open(dir)
	if err != nil {
		return nil, err
	}
	info := saved.Info()
	about := &report.Run{Folder: a.env.shorten(dir), Colour: a.env.colour()}
	about.Summary, err = saved.Summary()
	if err != nil {
		cause := "summary.json cannot be read"
		if errors.Is(err, fs.ErrNotExist) {
			cause = "summary.json is missing"
		}
		if about.Summary, info.Alignment, err = conduct.Remake(saved); err != nil {
			return nil, err
		}
		about.Notes = append(about.Notes, "the figures were made again from the records, since "+cause)
		for _, n := range saved.Notes() {
			about.Notes = append(about.Notes, noteText(n))
		}
	}
	if err := a.failures(saved, about); err != nil {
		return nil, err
	}
	switch info.State {
	case run.Running:
		about.Stopped = "the run is still under way, or its process was killed"
	case run.Interrupted, run.Failed:
		about.Stopped = info.Message
	case run.Done:
		if info.Message != "" {
			about.Stopped = info.Message
		}
	}
	// The scenario is only for the heading: a report without it is one still.
	if text, err := saved.Scenario(); err == nil {
		if s, err := scenario.Read(scenario.Source{Name: "scenario.yaml", Data: text, Getenv: byName}); err == nil {
			about.URL, about.API, about.Model = strings.Join(s.Target.URL, ", "), s.Target.API, s.Target.Model
			about.Load = report.DescribeLoad(s)
		}
	}
	showReplay(about, info.Replay)
	about.Lengths = describeLengths(info.Lengths)
	about.Sources, about.Alignment = info.Telemetry, (*report.Alignment)(info.Alignment)
	// Of a run whose scenario cannot be read any more nobody knows whether it was one.
	about.Probe, _ = probe.OfRun(saved)
	var simulated struct{ Twin struct{ Text string } }
	if json.Unmarshal(info.Target, &simulated) == nil && simulated.Twin.Text != "" {
		about.URL, about.Model = "", "simulated: "+simulated.Twin.Text
	}
	var facts conduct.Facts
	if json.Unmarshal(info.Target, &facts) == nil {
		for _, c := range facts.Connections {
			about.Connections = append(about.Connections, describeConnections(&c))
		}
	}
	return &opened{saved: saved, about: about}, nil
}

// byName leaves the name of a variable where a scenario names one: what it
// holds now is not what it held then, and may be a key.
func byName(name string) (string, bool) { return "${" + name + "}", true }

// describeConnections says what became of the connections to one host.
func describeConnections(c *conduct.Connections) string {
	s := fmt.Sprintf("%s: %s opened, reused for %s", c.Host, report.Plural(c.Opened, "connection"), report.Plural(c.Reused, "request"))
	if len(c.Addresses) > 1 {
		var total, most int64
		for _, n := range c.Addresses {
			total, most = total+n, max(most, n)
		}
		s += fmt.Sprintf(", over %d addresses", len(c.Addresses))
		if float64(most) > 1.5*float64(total)/float64(len(c.Addresses)) {
			s += fmt.Sprintf(" UNEVENLY: one got %s of them", report.Percent(float64(most)/float64(total)))
		}
	}
	if c.IdleDeaths > 0 {
		s += fmt.Sprintf("; %s closed by the server while idle", report.Count(c.IdleDeaths))
	}
	if c.SentAgain > 0 {
		s += fmt.Sprintf("; %s sent again since the reused connection was dead", report.Plural(c.SentAgain, "request"))
	}
	if c.LateEnds > 0 {
		s += fmt.Sprintf("; %s stayed open after the answer", report.Count(c.LateEnds))
	}
	if c.ReuseOff {
		s += "; the server keeps none, so none was reused any more"
	}
	return s
}

func noteText(n run.Note) string { return fmt.Sprintf("%s: %s", n.Part, n.Text) }
