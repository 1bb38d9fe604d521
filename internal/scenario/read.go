package scenario

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"reflect"
	"strings"

	"plimsoll/internal/strictyaml"
)

// Setting is one value given outside the file: by --set, or by a flag that
// names a field.
type Setting struct {
	// Path is the field, as load.users; Value is its text, as on the command
	// line.
	Path, Value string
	// Origin is what to call it in errors and in the plan: --set, --users.
	Origin string
	// Add makes a second value of the same flag add to the list instead of
	// replacing it.
	Add bool
}

// ParseSet reads the argument of --set, PATH=VALUE.
func ParseSet(s string) (Setting, error) {
	path, value, ok := strings.Cut(s, "=")
	if !ok || strings.TrimSpace(path) == "" {
		return Setting{}, fmt.Errorf("--set %s: want PATH=VALUE, as in --set load.users=8", strictyaml.Quote(path))
	}
	return Setting{Path: strings.TrimSpace(path), Value: value, Origin: "--set"}, nil
}

// FlagPath returns the field that a command-line flag (without dashes) sets:
// each field's flag is the last part of its path.
func FlagPath(flag string) (path string, ok bool) {
	for _, p := range Paths() {
		if p == flag || strings.HasSuffix(p, "."+flag) {
			return p, true
		}
	}
	for p := range reserved {
		if strings.HasSuffix(p, "."+flag) {
			return p, true
		}
	}
	return "", false
}

// Paths lists the path of every field, in the order of the file.
func Paths() []string { return strictyaml.Paths(reflect.TypeFor[Scenario]()) }

// Source is what a scenario is read from.
type Source struct {
	// Name is the file's name in errors. Data is its text; nil when there is no
	// file and the settings alone make the scenario.
	Name string
	Data []byte
	// Settings are applied in order over the file.
	Settings []Setting
	// Getenv looks up the variables that ${NAME} names; nil knows none.
	Getenv func(name string) (string, bool)
	// URL stands in where the scenario names no endpoint, for a target that is
	// simulated; "" for none.
	URL string
	// Seed draws the seed when none is given; nil takes one from the system.
	Seed func() uint64
	// Complete, when not nil, may give a load to a scenario that says nothing of it
	// or only a part, before it is checked; it returns the paths of the fields that it
	// set, each with the reason.
	Complete func(*Scenario) map[string]string
}

// reserved are fields of later versions, or ones that must not exist, with what
// to say instead of "unknown field". They are refused rather than ignored.
var reserved = map[string]string{
	"target.api-key": "a key is never written in a scenario: put it in an environment variable and name that with api-key-env",
	"load.agents":    "agents are not in this version yet: remove it; this process makes all load",

	// Groups of a workload file.
	"session": ofWorkloads, "prompt": ofWorkloads, "output": ofWorkloads, "retrieval": ofWorkloads,
	"fork": ofWorkloads, "tools": ofWorkloads, "cancel": ofWorkloads, "media": ofWorkloads,
	"slo": "the limits of a run are guards.slo; those of a workload are set for a step by set of load.steps, or in a workload file of your own",
}

const ofWorkloads = "is of a workload, not of a scenario: set it for a step by set of load.steps, or in a workload file of your own that users.workload names"

// Read makes a scenario of a file and settings, with every default filled in,
// and checks it. The error is a strictyaml.Errors with everything that is
// wrong.
func Read(src Source) (*Scenario, error) {
	doc := strictyaml.New(src.Name)
	if src.Data != nil {
		var err error
		if doc, err = strictyaml.Parse(src.Name, src.Data); err != nil {
			return nil, err
		}
	}
	s := Default()
	opts := strictyaml.Options{Reserved: reserved, Secret: secretPath}
	var errs strictyaml.Errors
	for _, set := range src.Settings {
		errs = collect(errs, doc.Set(s, set.Path, set.Value, set.Origin, set.Add, opts))
	}
	lookup := src.Getenv
	if lookup == nil {
		lookup = func(string) (string, bool) { return "", false }
	}
	errs = collect(errs, doc.Interpolate(lookup))
	errs = collect(errs, doc.Decode(s, opts))
	s.origin = origins{doc: doc, derived: map[string]string{}, raw: saved(doc.Raws())}
	if src.URL != "" && len(s.Target.URL) == 0 && !s.given("target.url") {
		s.Target.URL = []string{src.URL}
		s.origin.derived["target.url"] = "nothing is sent"
	}
	if src.Complete != nil && len(errs) == 0 {
		maps.Copy(s.origin.derived, src.Complete(s))
	}
	s.fill(src.Seed)
	errs = append(errs, s.check(errs)...)
	if len(errs) > 0 {
		errs.Sort()
		return nil, errs
	}
	return s, nil
}

// open says whether the length of some step is left to the load.
func (l *Load) open() bool {
	for i := range l.Steps {
		if l.Steps[i].Duration == 0 && l.Steps[i].Requests == 0 {
			return true
		}
	}
	return len(l.Steps) == 0
}

func collect(errs strictyaml.Errors, err error) strictyaml.Errors {
	if err == nil {
		return errs
	}
	if more, ok := errors.AsType[strictyaml.Errors](err); ok {
		return append(errs, more...)
	}
	return append(errs, &strictyaml.Error{Problem: err.Error()})
}

// fill sets the defaults that depend on other fields.
func (s *Scenario) fill(seed func() uint64) {
	derive := func(path, why string) { s.origin.derived[path] = why }
	if w := s.Users.Workload; len(w) == 1 && w[0].Name == Synthetic && len(s.Load.Workloads) == 0 {
		s.Users.Workload = nil
		derive("users.workload", Synthetic)
	}
	if len(s.Load.Workloads) > 0 && len(s.Users.Workload) == 0 && !s.given("users.workload") {
		for _, w := range s.Load.Workloads {
			s.Users.Workload = append(s.Users.Workload, Share{Name: w.Workload, Weight: 1})
		}
		derive("users.workload", "load.workloads")
	}
	if s.Seed == 0 && !s.given("seed") {
		if seed == nil {
			// Small enough to be typed again and to be exact in JSON.
			seed = func() uint64 { return 1 + rand.Uint64N(1<<31) }
		}
		s.Seed = seed()
		derive("seed", "drawn")
	}
	if s.Load.RateDriven() && s.Load.Arrival == "" && !s.given("load.arrival") {
		s.Load.Arrival = ArrivalPoisson
	}
	s.Users.fillReplay(s.given)
	if s.Users.Trace == "" && s.Load.open() && len(s.Load.Stages) == 0 && !s.given("load.stages") && s.Load.Duration == 0 && s.Load.Requests == 0 && !s.given("load.duration") && !s.given("load.requests") {
		s.Load.Duration = DefaultDuration
	}
	if !s.given("target.api") {
		if api := apiOfURLs(s.Target.URL); api != "" {
			s.Target.API = api
			derive("target.api", "the path in target.url")
		}
	}
}

// apiOfURLs returns the API whose path all the URLs name, or "".
func apiOfURLs(urls []string) string {
	found := ""
	for _, raw := range urls {
		u, err := url.Parse(raw)
		if err != nil {
			return ""
		}
		api, path := "", strings.TrimRight(u.Path, "/")
		switch {
		case strings.HasSuffix(path, "/chat/completions"):
			api = APIChat
		case strings.HasSuffix(path, "/completions"):
			api = APICompletions
		case strings.HasSuffix(path, "/responses"):
			api = APIResponses
		}
		if api == "" || found != "" && found != api {
			return ""
		}
		found = api
	}
	return found
}

func (s *Scenario) given(path string) bool {
	return s.origin.doc != nil && s.origin.doc.Has(path)
}

// Parse reads a scenario from the text of a file, with the PATH=VALUE settings
// of --set over it and the process's environment for ${NAME}. Name is the
// file's name in errors.
func Parse(name string, data []byte, sets []string) (*Scenario, error) {
	src := Source{Name: name, Data: data}
	if data == nil {
		src.Data = []byte{}
	}
	var errs strictyaml.Errors
	for _, arg := range sets {
		set, err := ParseSet(arg)
		if err != nil {
			errs = append(errs, &strictyaml.Error{Problem: err.Error()})
			continue
		}
		src.Settings = append(src.Settings, set)
	}
	s, err := Read(src)
	if errs = collect(errs, err); len(errs) > 0 {
		return nil, errs
	}
	return s, nil
}
