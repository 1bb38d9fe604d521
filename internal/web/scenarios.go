package web

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"plimsoll/internal/conduct"
	"plimsoll/internal/probe"
	"plimsoll/internal/scenario"
	"plimsoll/internal/strictyaml"
)

// ScenarioError is one thing that is wrong with a scenario. Line and Column count
// from 1 and are 0 where the text has no place for it.
type ScenarioError struct {
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Field  string `json:"field"`
	Text   string `json:"text"`
	Fix    string `json:"fix"`
}

// scenarioErrors lists what an error of reading a scenario says. Sc gives the places of
// fields where the error itself has none; nil when it could not be read.
func scenarioErrors(sc *scenario.Scenario, err error) []ScenarioError {
	out := []ScenarioError{}
	all, ok := errors.AsType[strictyaml.Errors](err)
	if !ok {
		return append(out, placed(sc, err))
	}
	for _, e := range all {
		one := ScenarioError{Line: e.Line, Column: e.Col, Field: e.Path, Text: e.Problem}
		if e.Value != "" {
			one.Text += ", got " + e.Value
		}
		if e.Nearest != "" {
			one.Fix = e.Nearest
		}
		out = append(out, one)
	}
	return out
}

// field is the path of a field before what is said of it.
var field = regexp.MustCompile(`^([a-z][a-z0-9-]*(?:\[\d+\]|\.[a-z][a-z0-9-]*)+): `)

// placed is an error that begins with the path of its field, at the place of the field.
func placed(sc *scenario.Scenario, err error) ScenarioError {
	e := ScenarioError{Text: err.Error()}
	if p, ok := errors.AsType[*Problem](err); ok {
		e.Fix = p.Fix
	}
	m := field.FindStringSubmatch(e.Text)
	if m == nil || sc == nil {
		return e
	}
	at, ok := sc.At(m[1])
	if !ok {
		return e
	}
	e.Line, e.Column, e.Field, e.Text = at.Line, at.Col, m[1], e.Text[len(m[0]):]
	return e
}

// readScenario reads a scenario that came by REST. The run is kept in this server's
// folder whatever it says. Beside an error there is the scenario where it can be read.
func (s *Server) readScenario(text string) (*scenario.Scenario, error) {
	sc, err := scenario.Read(scenario.Source{Name: "scenario.yaml", Data: []byte(text), Getenv: s.lookup, Complete: probe.Complete(s.readFile)})
	if err != nil {
		if all, ok := errors.AsType[strictyaml.Errors](err); ok {
			for _, e := range all {
				if m := unset.FindStringSubmatch(e.Problem); m != nil && !s.allowed(m[1]) {
					e.Problem = notAllowed(m[1]).Error()
				}
			}
		}
		return nil, err
	}
	if gpu := sc.Target.Hardware.GPU; gpu != "" {
		if err := catalogueName("target.hardware", gpu); err != nil {
			return sc, fmt.Errorf("target.hardware: %w", err)
		}
	}
	keys := map[string]string{"target.api-key-env": sc.Target.APIKeyEnv}
	for i := range sc.Data.Telemetry {
		keys[fmt.Sprintf("data.telemetry[%d].api-key-env", i)] = sc.Data.Telemetry[i].APIKeyEnv
	}
	for _, path := range slices.Sorted(maps.Keys(keys)) {
		if name := keys[path]; name != "" && !s.allowed(name) {
			return sc, fmt.Errorf("%s: %w", path, notAllowed(name))
		}
	}
	return sc, nil
}

// unset is what a scenario is told of a variable that it cannot have.
var unset = regexp.MustCompile(`^environment variable (\w+) is not set`)

// notAllowed says why a scenario that came by REST cannot have a variable.
func notAllowed(name string) error {
	return fmt.Errorf("a scenario in the panel may not name the variable %s: take one that begins with PLIMSOLL_ or ends with _API_KEY, or start plimsoll with --allow-env to allow it", name)
}

// examine reads a scenario that came by REST and says what it would do, or everything that
// is known to be wrong with it before anything is sent. Notes are what it says in vain.
func (s *Server) examine(text string) (sc *scenario.Scenario, plan *conduct.Plan, wrong, notes []ScenarioError) {
	wrong, notes = []ScenarioError{}, []ScenarioError{}
	sc, err := s.readScenario(text)
	if err != nil {
		return sc, nil, scenarioErrors(sc, err), notes
	}
	origin := "the folder of this panel"
	if sc.Given("data.out") {
		at, _ := sc.At("data.out")
		notes = append(notes, ScenarioError{
			Line: at.Line, Column: at.Col, Field: "data.out", Text: fmt.Sprintf("not used: this panel keeps every run in its own folder, not in %s", strictyaml.Quote(sc.Data.Out)),
		})
		origin = fmt.Sprintf("the folder of this panel, whatever %s says", at)
	}
	sc.KeepIn(s.cfg.Root, origin)
	if err := conduct.CheckAccess(sc, s.lookup, s.readFile); err != nil {
		wrong = append(wrong, scenarioErrors(sc, err)...)
	}
	if plan, err = conduct.NewPlan(sc, s.readFile, ""); err != nil {
		wrong = append(wrong, scenarioErrors(sc, err)...)
	}
	if len(wrong) > 0 {
		return sc, nil, wrong, notes
	}
	return sc, plan, wrong, notes
}

// lookup is the part of the environment that a scenario which came by REST may name.
func (s *Server) lookup(name string) (string, bool) {
	if !s.allowed(name) {
		return "", false
	}
	return s.cfg.LookupEnv(name)
}

func (s *Server) allowed(name string) bool {
	return strings.HasPrefix(name, "PLIMSOLL_") || strings.HasSuffix(name, "_API_KEY") || slices.Contains(s.cfg.AllowEnv, name)
}

// maxFile bounds a file that a scenario names.
const maxFile = 64 << 20

// readFile reads a file that such a scenario names, below the folder for that.
func (s *Server) readFile(name string) ([]byte, error) {
	if s.cfg.Files == "" {
		return nil, fmt.Errorf("read %s: a scenario in the panel may name no files: start plimsoll with --files DIR to allow those of a folder, or use plimsoll run", strictyaml.Quote(name))
	}
	root, err := os.OpenRoot(s.cfg.Files)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	fi, err := root.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("read %s, which must lie below the folder given with --files: %w", strictyaml.Quote(name), err)
	}
	if !fi.Mode().IsRegular() || fi.Size() > maxFile {
		return nil, fmt.Errorf("read %s: no file of at most %d bytes", strictyaml.Quote(name), maxFile)
	}
	return root.ReadFile(name)
}

func (s *Server) schema(w http.ResponseWriter, _ *http.Request) error {
	b, err := scenario.Schema()
	if err != nil {
		return err
	}
	writeBytes(w, http.StatusOK, b)
	return nil
}

// scenarioText is the body of requests that bring a scenario.
type scenarioText struct {
	Scenario string `json:"scenario"`
}

// checked is what a scenario would do, or everything that is wrong with it.
type checked struct {
	Errors []ScenarioError `json:"errors"`
	// Plan is that of plimsoll run --dry-run, null when something is wrong.
	Plan *conduct.Plan `json:"plan"`
	// Notes are what the scenario says in vain.
	Notes []ScenarioError `json:"notes"`
}

func (s *Server) checkScenario(w http.ResponseWriter, r *http.Request) error {
	var in scenarioText
	if err := readJSON(r, &in); err != nil {
		return err
	}
	var out checked
	_, out.Plan, out.Errors, out.Notes = s.examine(in.Scenario)
	return writeJSON(w, http.StatusOK, &out)
}

// The store of scenarios lies beside the runs, where no run can.
const (
	scenariosDir = ".scenarios"
	scenarioExt  = ".yaml"
	maxScenarios = 1000
)

// scenarioName is what a stored scenario may be called: letters and digits of any
// script, and a few marks that mean nothing to a file system.
var scenarioName = regexp.MustCompile(`^[\p{L}\p{N}][\p{L}\p{M}\p{N} ._-]{0,79}$`)

func checkName(name string) error {
	if !scenarioName.MatchString(name) || strings.Contains(name, "..") || strings.HasSuffix(name, " ") || len(name) > 200 {
		p := wrong("name", "%q cannot be the name of a scenario", name)
		p.Fix = "1 to 80 letters, digits, blanks, dots, dashes and underscores, a letter or digit first"
		return p
	}
	return nil
}

// StoredScenario is a scenario in the list.
type StoredScenario struct {
	Name    string `json:"name"`
	Changed string `json:"changed"` // RFC 3339, UTC
}

// scenarioList are the stored scenarios by name.
type scenarioList struct {
	Scenarios []StoredScenario `json:"scenarios"`
}

// namedScenario is a stored scenario.
type namedScenario struct {
	Name     string `json:"name"`
	Scenario string `json:"scenario"`
}

func (s *Server) listScenarios(w http.ResponseWriter, _ *http.Request) error {
	list, err := s.stored()
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, scenarioList{list})
}

func (s *Server) stored() ([]StoredScenario, error) {
	list := []StoredScenario{}
	d, err := s.root.Open(scenariosDir)
	if errors.Is(err, fs.ErrNotExist) {
		return list, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list scenarios: %w", err)
	}
	entries, err := d.ReadDir(-1)
	_ = d.Close() // it was only read
	if err != nil {
		return nil, fmt.Errorf("list scenarios: %w", err)
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), scenarioExt)
		if !ok || !e.Type().IsRegular() || checkName(name) != nil {
			continue
		}
		if fi, err := e.Info(); err == nil {
			list = append(list, StoredScenario{Name: name, Changed: fi.ModTime().UTC().Format(time.RFC3339)})
		}
	}
	slices.SortFunc(list, func(a, b StoredScenario) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

func (s *Server) getScenario(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if err := checkName(name); err != nil {
		return err
	}
	path := scenariosDir + "/" + name + scenarioExt
	fi, err := s.root.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !fi.Mode().IsRegular() {
		return &Problem{Status: http.StatusNotFound, Field: "name", Text: fmt.Sprintf("there is no scenario %q", name)}
	}
	if err != nil {
		return err
	}
	b, err := s.root.ReadFile(path)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, namedScenario{name, string(b)})
}

func (s *Server) putScenario(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if err := checkName(name); err != nil {
		return err
	}
	var in scenarioText
	if err := readJSON(r, &in); err != nil {
		return err
	}
	if len(in.Scenario) > strictyaml.MaxBytes {
		return wrong("scenario", "a scenario of %d bytes is longer than %d", len(in.Scenario), strictyaml.MaxBytes)
	}
	if err := s.root.Mkdir(scenariosDir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make folder of scenarios: %w", err)
	}
	list, err := s.stored()
	if err != nil {
		return err
	}
	if len(list) >= maxScenarios && !slices.ContainsFunc(list, func(x StoredScenario) bool { return x.Name == name }) {
		return &Problem{Status: http.StatusConflict, Text: fmt.Sprintf("there are %d scenarios already", len(list)), Fix: "delete one"}
	}
	// One that is not right yet is kept too: it is somebody's work.
	if err := s.write(scenariosDir+"/"+name+scenarioExt, []byte(in.Scenario)); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, namedScenario{name, in.Scenario})
}

func (s *Server) deleteScenario(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if err := checkName(name); err != nil {
		return err
	}
	err := s.root.Remove(scenariosDir + "/" + name + scenarioExt)
	if errors.Is(err, fs.ErrNotExist) {
		return &Problem{Status: http.StatusNotFound, Field: "name", Text: fmt.Sprintf("there is no scenario %q", name)}
	}
	if err != nil {
		return fmt.Errorf("delete scenario: %w", err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
