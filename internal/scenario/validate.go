package scenario

import (
	"fmt"
	"maps"
	"math"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"plimsoll/internal/strictyaml"
)

// The bounds that a slip of the keyboard exceeds and no real run does.
const (
	maxUsers = 1_000_000
	maxRate  = 1_000_000
	maxSteps = 1_000
	// maxWorkloads bounds the workloads of one run.
	maxWorkloads = 100
	// maxStreams bounds those with users or rates of their own; beside users there are
	// at most maxMixedStreams with rates, and beside those at most maxMixedUsers. They
	// are the bounds of workload.Parallel, which shares out the numbers of sessions.
	maxStreams      = 64
	maxMixedStreams = 32
	maxMixedUsers   = 1 << 19
	maxDuration     = 31 * 24 * time.Hour
)

// Validate returns everything that is wrong with the scenario as a
// strictyaml.Errors, with the place of each value where the scenario was read
// from a file, or nil.
func (s *Scenario) Validate() error {
	if errs := s.check(nil); len(errs) > 0 {
		errs.Sort()
		return errs
	}
	return nil
}

// validator gathers errors; fields that already have one get no second.
type validator struct {
	s    *Scenario
	had  strictyaml.Errors
	errs strictyaml.Errors
	// variables holds the text of the fields that name variables.
	variables map[string]string
}

func (s *Scenario) check(had strictyaml.Errors) strictyaml.Errors {
	v := validator{s: s, had: had}
	if s.origin.doc != nil {
		v.variables = s.origin.doc.Raws()
	}
	v.general()
	v.target(&s.Target)
	v.users(&s.Users)
	v.load(&s.Load)
	v.guards(&s.Guards)
	v.data(&s.Data)
	return v.errs
}

// fail records an error, unless the field, one in it or one around it has one.
func (v *validator) fail(path, problem, value string) {
	if v.failed(path) {
		return
	}
	e := &strictyaml.Error{Path: path, Problem: problem, Value: value}
	if raw, ok := v.variables[path]; ok && value != "" {
		e.Value = strictyaml.Quote(raw) // what a variable holds is not shown
	}
	if v.s.origin.doc != nil {
		e.Position, _ = v.s.origin.doc.At(path)
	}
	v.errs = append(v.errs, e)
}

// failed says whether reading went wrong at path, in it or around it, or at a
// name that was probably meant to be it: what would be said of its value then
// is only noise.
func (v *validator) failed(path string) bool {
	for _, e := range v.had {
		if e.Path == path || e.Path == "" || e.Nearest == path || strings.HasPrefix(e.Nearest, path+".") || strings.HasPrefix(e.Path, path+"[") || strings.HasPrefix(e.Path, path+".") ||
			strings.HasPrefix(path, e.Path+"[") || strings.HasPrefix(path, e.Path+".") {
			return true
		}
	}
	return false
}

func (v *validator) general() {
	v.text("name", v.s.Name)
	for _, k := range slices.Sorted(maps.Keys(v.s.Tags)) {
		v.text(strictyaml.Join("tag", k), v.s.Tags[k])
		if k == "" || strings.ContainsFunc(k, unicode.IsControl) {
			v.fail("tag", "want a name for every tag", strictyaml.Quote(k))
		}
	}
	if v.s.Seed == 0 && v.s.given("seed") {
		v.fail("seed", "want a seed of at least 1, or none to have one drawn", "0")
	}
}

// CheckText says why s cannot be the text of the field at path of a scenario.
func CheckText(path, s string) error {
	v := validator{s: &Scenario{}}
	v.text(path, s)
	if len(v.errs) == 0 {
		return nil
	}
	return v.errs
}

// text refuses control characters, which would break a terminal or a log.
func (v *validator) text(path, s string) {
	if strings.ContainsFunc(s, unicode.IsControl) {
		v.fail(path, "want text without control characters", strictyaml.Quote(s))
	}
	if len(s) > 1000 {
		v.fail(path, "want at most 1000 bytes of text", "")
	}
}

func (v *validator) target(t *Target) {
	if len(t.URL) == 0 {
		v.fail("target.url", "want the URL of an endpoint, as in http://localhost:8000", "")
	}
	for i, raw := range t.URL {
		v.url(v.step("target.url", i, len(t.URL)), raw, true)
	}
	v.text("target.model", t.Model)
	v.choice("target.api", t.API, []string{APIChat, APICompletions, APIResponses})
	v.choice("target.usage", t.Usage, []string{UsageFinal, UsageRunning, UsageNone})
	v.keyName("target.api-key-env", t.APIKeyEnv)
	v.headers("target.header", t.Header)
	v.body(t.ExtraBody)
	if t.Temperature != nil {
		v.number("target.temperature", *t.Temperature, 0, 100, "a temperature")
	}
	v.text("target.tokenizer", t.Tokenizer)
	v.files("target", t.CA, t.Cert, t.Key)
	if t.Proxy != "" {
		v.url("target.proxy", t.Proxy, false)
	}
	if t.ConnectTimeout <= 0 {
		v.fail("target.connect-timeout", "want a duration above 0", strictyaml.FormatDuration(t.ConnectTimeout))
	} else {
		v.duration("target.connect-timeout", t.ConnectTimeout)
	}
	v.duration("target.header-timeout", t.HeaderTimeout)
	v.duration("target.idle-timeout", t.IdleTimeout)
	v.duration("target.timeout", t.Timeout)
}

// keyName checks the name of the variable that holds a key.
func (v *validator) keyName(path, name string) {
	if name != "" && !isEnvName(name) {
		// What stands there may be the key itself, so it is not shown.
		v.fail(path, "want the name of an environment variable (letters, digits, _), not a key", "")
	}
}

// files checks the names of the files of a TLS client, in the group at path.
func (v *validator) files(path, ca, cert, key string) {
	at := func(name string) string { return strictyaml.Join(path, name) }
	for _, f := range [][2]string{{"ca", ca}, {"cert", cert}, {"key", key}} {
		v.text(at(f[0]), f[1])
	}
	if strings.Contains(key, "-----BEGIN") {
		v.fail(at("key"), "want the name of a file with the key, not the key itself", "")
	}
	if cert != "" && key == "" {
		v.fail(at("cert"), "a client certificate needs its key: give "+at("key")+" too", "")
	}
	if key != "" && cert == "" {
		v.fail(at("key"), "a client key needs its certificate: give "+at("cert")+" too", "")
	}
}

func validPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

func item(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// url checks an http or https URL. Query says whether it may have a query.
func (v *validator) url(path, raw string, query bool) {
	u, err := url.Parse(raw)
	if err != nil {
		// The error of url.Parse repeats the text, which may hold a password.
		want := "want a URL, as in http://localhost:8000"
		// An address with a port is no URL for url.Parse: its scheme is missing.
		if _, err := url.Parse("http://" + raw); err == nil && !strings.Contains(raw, "://") {
			want = "want a URL with http:// or https://: write http://" + redact(raw)
		}
		v.fail(path, want, strictyaml.Quote(redact(raw)))
		return
	}
	switch {
	case raw == "":
		v.fail(path, "want a URL, as in http://localhost:8000", `""`)
	case u.Scheme != "http" && u.Scheme != "https":
		if !strings.Contains(raw, "://") {
			v.fail(path, "want a URL with http:// or https://: write http://"+redact(raw), strictyaml.Quote(redact(raw)))
			return
		}
		v.fail(path, "want a URL with http:// or https://", strictyaml.Quote(redact(raw)))
	case u.Hostname() == "":
		v.fail(path, "want a host in the URL, as in http://localhost:8000", strictyaml.Quote(redact(raw)))
	case u.Port() != "" && !validPort(u.Port()):
		v.fail(path, "want a port from 1 to 65535", strictyaml.Quote(redact(raw)))
	case u.Fragment != "" || strings.HasSuffix(raw, "#"):
		v.fail(path, "a fragment (#) is never sent: remove it", strictyaml.Quote(redact(raw)))
	case strings.ContainsFunc(raw, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		v.fail(path, "want a URL without spaces", strictyaml.Quote(redact(raw)))
	case !query && (u.RawQuery != "" || u.Path != "" && u.Path != "/"):
		v.fail(path, "want only scheme, host and port", strictyaml.Quote(redact(raw)))
	}
	if u.User != nil && !v.named(path) {
		v.fail(path, "a user name or password is written in the URL: write ${NAME} for it, or use api-key-env", redact(raw))
	}
	for name := range u.Query() {
		if secretName(name) && !v.named(path) {
			v.fail(path, fmt.Sprintf("a key is written in the query (%s): write ${NAME} for it, or use api-key-env", strictyaml.Quote(name)), redact(raw))
		}
	}
}

func (v *validator) choice(path, name string, known []string) {
	for _, k := range known {
		if k == name {
			return
		}
	}
	if v.failed(path) {
		return
	}
	v.fail(path, "want one of "+strings.Join(known, ", "), strictyaml.Quote(name))
	v.errs[len(v.errs)-1].Nearest = strictyaml.Nearest(name, known)
}

func (v *validator) number(path string, x, low, high float64, what string) {
	switch {
	case math.IsNaN(x):
		v.fail(path, "want "+what+", a number", "NaN")
	case x < low:
		v.fail(path, fmt.Sprintf("want %s of at least %v", what, low), fmt.Sprint(x))
	case x > high:
		v.fail(path, fmt.Sprintf("want %s of at most %v", what, high), fmt.Sprint(x))
	}
}

// duration checks one that may be 0.
func (v *validator) duration(path string, d time.Duration) {
	switch {
	case d < 0:
		v.fail(path, "want a duration of at least 0s", strictyaml.FormatDuration(d))
	case d > maxDuration:
		v.fail(path, "want a duration of at most "+strictyaml.FormatDuration(maxDuration), strictyaml.FormatDuration(d))
	}
}

func (v *validator) users(u *Users) {
	if len(u.Workload) > maxWorkloads {
		v.fail("users.workload", fmt.Sprintf("want at most %d workloads", maxWorkloads), fmt.Sprint(len(u.Workload)))
	}
	seen := map[string]bool{}
	for i, w := range u.Workload {
		if v.s.origin.derived["users.workload"] == "load.workloads" {
			break // it is checked there
		}
		path := v.step("users.workload", i, len(u.Workload))
		v.text(path, w.Name)
		if err := w.check(); err != nil {
			v.fail(path, err.Error(), "")
		}
		if seen[w.Name] {
			v.fail(path, "this workload is there twice: keep one, with the sum of the weights", strictyaml.Quote(w.Name))
		}
		seen[w.Name] = true
	}
	if len(u.Workload) == 0 && v.s.given("users.workload") && v.s.origin.doc != nil && !v.synthetic() {
		v.fail("users.workload", "want at least one workload", "[]")
	}
	if u.Lengths != "" {
		v.choice("users.lengths", u.Lengths, []string{LengthsEstimated, LengthsExact})
	}
	replayed := u.Replayed() != ""
	if err := u.PromptTokens.check(); err != nil && !(replayed && u.PromptTokens == (Dist{})) {
		v.fail("users.prompt-tokens", err.Error(), "")
	}
	if err := u.OutputTokens.check(); err != nil && !(replayed && u.OutputTokens == (Dist{})) {
		v.fail("users.output-tokens", err.Error(), "")
	}
	for _, d := range []struct {
		path string
		d    Dist
	}{{"users.prompt-tokens", u.PromptTokens}, {"users.output-tokens", u.OutputTokens}} {
		if d.d.fromFile() {
			v.fail(d.path, "lengths out of a file are those of a workload file: want a number or another distribution", strictyaml.Quote(d.d.String()))
		}
	}
	v.replay(u)
}

// synthetic says whether the synthetic workload was named, of which Read makes none.
func (v *validator) synthetic() bool { return v.s.origin.derived["users.workload"] != "" }

func (v *validator) load(l *Load) {
	if v.s.Users.Trace != "" {
		v.traced(l)
		return
	}
	// What Complete made steps of is there no more.
	completed := v.s.origin.derived["load.steps"] != ""
	given := func(path string) bool { return !completed && v.s.given(path) }
	haveUsers, haveRate := len(l.Users) > 0 || given("load.users"), len(l.Rate) > 0 || given("load.rate")
	haveStages := len(l.Stages) > 0 || v.s.given("load.stages")
	haveSteps := len(l.Steps) > 0 || v.s.given("load.steps")
	haveWorkloads := len(l.Workloads) > 0 || v.s.given("load.workloads")
	switch {
	case haveWorkloads && (haveUsers || haveRate || haveStages || haveSteps):
		other := "load.users"
		switch {
		case haveRate:
			other = "load.rate"
		case haveStages:
			other = "load.stages"
		case haveSteps:
			other = "load.steps"
		}
		v.fail("load.workloads", "the workloads have users or rates of their own"+v.also(other)+"; --set "+other+"=null drops the other", "")
	case haveWorkloads:
		v.workloads(l)
	case haveSteps && (haveUsers || haveRate || haveStages):
		other := "load.users"
		if haveRate {
			other = "load.rate"
		} else if haveStages {
			other = "load.stages"
		}
		v.fail("load.steps", "steps have users or rates of their own"+v.also(other)+"; --set load.steps=null drops the steps, --set "+other+"=null the other", "")
	case haveSteps:
		v.steps(l)
	case haveUsers && haveRate:
		v.fail("load.rate", "give users or rate, not both"+v.also("load.users")+"; --set load.users=null drops the users, --set load.rate=null the rate", "")
	case haveStages && (haveUsers || haveRate):
		other := "load.users"
		if haveRate {
			other = "load.rate"
		}
		v.fail("load.stages", "stages have rates of their own: give stages, users or rate, only one of them"+v.also(other)+"; --set "+other+"=null drops the other", "")
	case !haveUsers && !haveRate && !haveStages && !v.failed("load"): // nor steps, as the cases above say
		v.fail("load", "want users (each waits for its answer) or rate (requests a second), as in users: 8", "")
	}
	if haveUsers && len(l.Users) == 0 {
		v.fail("load.users", "want at least one number of users", "[]")
	}
	if haveRate && len(l.Rate) == 0 {
		v.fail("load.rate", "want at least one rate", "[]")
	}
	for i, n := range l.Users {
		if n < 1 || n > maxUsers {
			v.fail(v.step("load.users", i, len(l.Users)), fmt.Sprintf("want a number of users from 1 to %d", maxUsers), fmt.Sprint(n))
		}
	}
	for i, r := range l.Rate {
		path := v.step("load.rate", i, len(l.Rate))
		switch {
		case math.IsNaN(r):
			v.fail(path, "want a rate above 0, a number", "NaN")
		case r <= 0 || r > maxRate:
			v.fail(path, fmt.Sprintf("want a rate above 0 and at most %d requests a second", maxRate), fmt.Sprint(r))
		}
	}
	if len(l.Users) > maxSteps || len(l.Rate) > maxSteps {
		v.fail("load", fmt.Sprintf("want at most %d steps", maxSteps), fmt.Sprint(max(len(l.Users), len(l.Rate))))
	}
	v.arrival(l, haveUsers && !haveRate && !haveStages || (haveSteps || haveWorkloads) && !l.RateDriven())
	haveDuration, haveRequests := l.Duration != 0 || v.s.given("load.duration"), l.Requests != 0 || v.s.given("load.requests")
	switch {
	case haveDuration && haveRequests:
		v.fail("load.requests", "give duration or requests, not both"+v.also("load.duration")+"; --set load.duration=null drops the duration", "")
	case haveDuration && l.Duration <= 0:
		v.fail("load.duration", "want a duration above 0", strictyaml.FormatDuration(l.Duration))
	case haveRequests && l.Requests < 1:
		v.fail("load.requests", "want a number of requests of at least 1", fmt.Sprint(l.Requests))
	case haveStages && (haveDuration || haveRequests):
		path := "load.duration"
		if haveRequests {
			path = "load.requests"
		}
		v.fail(path, "stages have lengths of their own"+v.also("load.stages")+": remove it", "")
	case !haveDuration && !haveRequests && !haveStages && l.open():
		v.fail("load.duration", "want a duration or a number of requests", "")
	}
	v.duration("load.duration", max(0, l.Duration))
	v.duration("load.warmup", l.Warmup)
	v.duration("load.drain", l.Drain)
	v.cap(l)
}

// cap checks the cap in flight.
func (v *validator) cap(l *Load) {
	if l.MaxInFlight < 0 || v.s.given("load.max-in-flight") && l.MaxInFlight == 0 {
		v.fail("load.max-in-flight", "want a cap of at least 1, or none", fmt.Sprint(l.MaxInFlight))
	}
}

// workloads checks workloads with users or rates of their own.
func (v *validator) workloads(l *Load) {
	if n := len(l.Workloads); n == 0 || n > maxStreams {
		v.fail("load.workloads", fmt.Sprintf("want 1 to %d workloads", maxStreams), fmt.Sprint(n))
		return
	}
	if what := v.s.Users.Replayed(); what != "" {
		v.fail("load.workloads", "what is replayed is all there is to send: remove it, or the file that is replayed", strictyaml.Quote(what))
		return
	}
	seen := map[string]bool{}
	all, rates, sum, given := 0, 0, 0.0, v.s.Users.Workload
	for i := range l.Workloads {
		w, at := &l.Workloads[i], v.step("load.workloads", i, len(l.Workloads))
		all += max(0, w.Users)
		switch {
		case w.Workload == "":
			v.fail(at+".workload", "want the name of a workload", "")
		case seen[w.Workload]:
			v.fail(at+".workload", "this workload is there twice: keep one, with all of its users or its rate", strictyaml.Quote(w.Workload))
		case i >= len(given) || given[i].Name != w.Workload || len(given) != len(l.Workloads):
			v.fail("users.workload", "load.workloads says which workloads there are: remove it", "")
			given = append(make([]Share, i, len(l.Workloads)), Share{Name: w.Workload})
			for _, w := range l.Workloads[i+1:] { // said once
				given = append(given, Share{Name: w.Workload})
			}
		}
		seen[w.Workload] = true
		switch {
		case w.Users == 0 && w.Rate == 0:
			v.fail(at, "want users or a rate for each workload", "")
		case w.Users != 0 && w.Rate != 0:
			v.fail(at, "a workload has users or a rate, not both: remove one of the two", "")
		case w.Users < 0 || w.Users > maxUsers || all > maxUsers:
			v.fail(at+".users", fmt.Sprintf("want a number of users from 1 to %d, all together", maxUsers), fmt.Sprint(w.Users))
		case !(w.Rate >= 0 && w.Rate <= maxRate) || w.Rate > 0 && sum+w.Rate > maxRate:
			v.fail(at+".rate", fmt.Sprintf("want a rate above 0 and at most %d requests a second, all together", maxRate), fmt.Sprint(w.Rate))
		}
		if w.Rate > 0 {
			rates++
			sum += w.Rate
		}
		arrival, burstiness, _ := w.Arrivals(l)
		switch {
		case w.Users > 0 && (w.Arrival != "" || w.Burstiness != 0 || w.Shape != (Shape{})):
			v.fail(at, "an arrival and a shape belong to a rate; users start a request when the last has ended: remove them", "")
		case w.Rate > 0 && !slices.Contains(Arrivals, arrival):
			v.fail(at+".arrival", "want one of "+strings.Join(Arrivals, ", "), strictyaml.Quote(arrival))
		case w.Rate > 0 && (burstiness != 0) != (arrival == ArrivalGamma):
			v.fail(at+".burstiness", "gamma arrivals have a burstiness, and no others do", fmt.Sprint(burstiness))
		case w.Burstiness != 0 && !(w.Burstiness >= MinBurstiness && w.Burstiness <= MaxBurstiness):
			v.fail(at+".burstiness", fmt.Sprintf("want a burstiness from %g to %g", MinBurstiness, float64(MaxBurstiness)), fmt.Sprint(w.Burstiness))
		case w.Shape != (Shape{}):
			if err := w.Shape.check(); err != nil {
				v.fail(at+".shape", err.Error(), "")
			}
		}
	}
	switch {
	case all == 0 || rates == 0:
	case rates > maxMixedStreams:
		v.fail("load.workloads", fmt.Sprintf("want at most %d workloads with a rate beside users: give some of them users, or run them one after another", maxMixedStreams), fmt.Sprint(rates))
	case all > maxMixedUsers:
		v.fail("load.workloads", fmt.Sprintf("want at most %d users beside workloads with a rate, all together", maxMixedUsers), fmt.Sprint(all))
	}
}

// steps checks the steps of a load that have users or rates of their own.
func (v *validator) steps(l *Load) {
	if n := len(l.Steps); n == 0 || n > maxSteps {
		v.fail("load.steps", fmt.Sprintf("want 1 to %d steps", maxSteps), fmt.Sprint(n))
	}
	for i := range l.Steps {
		s, at := &l.Steps[i], v.step("load.steps", i, len(l.Steps))
		switch {
		case s.Users == 0 && s.Rate == 0 || s.Users != 0 && s.Rate != 0:
			v.fail(at, "want users or a rate for each step", "")
		case s.Users < 0 || s.Users > maxUsers:
			v.fail(at+".users", fmt.Sprintf("want a number of users from 1 to %d", maxUsers), fmt.Sprint(s.Users))
		case !(s.Rate >= 0 && s.Rate <= maxRate):
			v.fail(at+".rate", fmt.Sprintf("want a rate above 0 and at most %d requests a second", maxRate), fmt.Sprint(s.Rate))
		case (s.Rate > 0) != (l.Steps[0].Rate > 0):
			v.fail(at, "want users for all steps, or rates for all", "")
		}
		switch {
		case s.Duration != 0 && s.Requests != 0:
			v.fail(at, "give duration or requests, not both", "")
		case s.Duration < 0 || s.Requests < 0:
			v.fail(at, "want a duration or a number of requests above 0", "")
		}
		v.duration(at+".duration", max(0, s.Duration))
		v.duration(at+".warmup", s.Warmup)
		if n := len(s.Parts); n > maxWorkloads {
			v.fail(at+".parts", fmt.Sprintf("want at most %d parts", maxWorkloads), fmt.Sprint(n))
		}
		for j, p := range s.Parts {
			if p.Weight < 0 || p.Weight > maxWeight {
				v.fail(fmt.Sprintf("%s.parts[%d].weight", at, j), fmt.Sprintf("want a whole weight of 1 to %g", float64(maxWeight)), fmt.Sprint(p.Weight))
			}
		}
		if (len(s.Parts) > 0 || len(s.Set) > 0) && len(v.s.Users.Workload) != 1 {
			v.fail(at, "what a step sets is of one workload: want exactly one in users.workload", "")
		}
	}
}

// arrival checks how a rate arrives and goes; users says that there are users.
func (v *validator) arrival(l *Load, users bool) {
	switch {
	case l.Arrival == "":
		if l.RateDriven() && !users {
			v.choice("load.arrival", l.Arrival, Arrivals)
		}
	default:
		v.choice("load.arrival", l.Arrival, Arrivals)
		if users {
			v.fail("load.arrival", "an arrival belongs to a rate; users start a request when the last has ended: remove it", strictyaml.Quote(l.Arrival))
		}
	}
	switch given := l.Burstiness != 0 || v.s.given("load.burstiness"); {
	case given && l.Arrival != ArrivalGamma:
		v.fail("load.burstiness", "only gamma arrivals have one: add arrival gamma, or remove it", fmt.Sprint(l.Burstiness))
	case given:
		v.number("load.burstiness", l.Burstiness, MinBurstiness, MaxBurstiness, "a burstiness")
	case l.Arrival == ArrivalGamma:
		v.fail("load.arrival", "gamma arrivals need a burstiness (below 1 burstier than poisson, above 1 more even)", strictyaml.Quote(l.Arrival))
	}
	if l.Shape != (Shape{}) {
		if err := l.Shape.check(); err != nil {
			v.fail("load.shape", err.Error(), "")
		}
		for _, r := range l.Rate {
			if r*l.Shape.Peak() > maxRate {
				v.fail("load.shape", fmt.Sprintf("want at most %d requests a second at the top", maxRate), fmt.Sprint(r*l.Shape.Peak()))
				break
			}
		}
		switch {
		case users:
			v.fail("load.shape", "a shape belongs to a rate; users start a request when the last has ended: remove it", "")
		case len(l.Stages) > 0:
			v.fail("load.shape", "stages are a shape already: remove one of the two", "")
		}
	}
	if len(l.Stages) > maxSteps {
		v.fail("load.stages", fmt.Sprintf("want at most %d stages", maxSteps), fmt.Sprint(len(l.Stages)))
	}
	var sum float64
	var length time.Duration
	for i, s := range l.Stages {
		if err := s.check(); err != nil {
			v.fail(v.step("load.stages", i, len(l.Stages)), err.Error(), "")
			return
		}
		sum += s.From + s.To
		if length += s.Length; length > maxDuration {
			v.fail("load.stages", "want stages of at most "+strictyaml.FormatDuration(maxDuration)+" together", "")
			return
		}
	}
	switch {
	case len(l.Stages) > 0 && sum == 0:
		v.fail("load.stages", "the rate of all stages is 0: want one above it", "")
	case len(l.Stages) == 0 && v.s.given("load.stages"):
		v.fail("load.stages", "want at least one stage, as in 30s:10", "[]")
	}
}

// step is the path of one value of a list, without its index when it is alone.
func (v *validator) step(path string, i, n int) string {
	if n == 1 {
		return path
	}
	return item(path, i)
}

// also says where the other of two fields is.
func (v *validator) also(path string) string {
	if v.s.origin.doc == nil || !v.s.given(path) {
		return ""
	}
	p, _ := v.s.origin.doc.At(path)
	if at := p.String(); strings.HasPrefix(at, "--") {
		return fmt.Sprintf(" (%s is given by %s)", path, at)
	}
	return fmt.Sprintf(" (%s is at %s)", path, p)
}

func (v *validator) guards(g *Guards) {
	seen := map[string]bool{}
	for i, l := range g.SLO {
		path := v.step("guards.slo", i, len(g.SLO))
		if err := l.check(); err != nil {
			v.fail(path, err.Error(), "")
			continue
		}
		name := strings.TrimSuffix(l.Metric+"."+l.Stat, ".")
		if seen[name] {
			v.fail(path, "a second limit for "+name+": keep one", strictyaml.Quote(l.String()))
		}
		seen[name] = true
	}
	if g.MaxErrorShare <= 0 || g.MaxErrorShare > 1 || math.IsNaN(g.MaxErrorShare) {
		problem := "want a share above 0 and at most 1"
		if g.MaxErrorShare > 1 && g.MaxErrorShare <= 100 {
			problem += fmt.Sprintf(": for %v %% write %v", g.MaxErrorShare, g.MaxErrorShare/100)
		}
		v.fail("guards.max-error-share", problem, fmt.Sprint(g.MaxErrorShare))
	}
	if g.MaxTotalTokens < 0 || v.s.given("guards.max-total-tokens") && g.MaxTotalTokens == 0 {
		v.fail("guards.max-total-tokens", "want a number of tokens of at least 1", fmt.Sprint(g.MaxTotalTokens))
	}
}

func (v *validator) data(d *Data) {
	if d.Out == "" {
		v.fail("data.out", "want the name of a folder", `""`)
	}
	v.text("data.out", d.Out)
	v.telemetry(d)
}

// telemetry checks the pages to read.
func (v *validator) telemetry(d *Data) {
	const want = "want auto, none or URLs"
	if len(d.Telemetry) == 0 {
		v.fail("data.telemetry", want, "[]")
	}
	autos := 0
	for i := range d.Telemetry {
		p := &d.Telemetry[i]
		path := v.step("data.telemetry", i, len(d.Telemetry))
		// A page that is a group has the path of an item even when it is alone.
		if v.s.given(strictyaml.Join(item("data.telemetry", i), "url")) {
			path = item("data.telemetry", i)
		}
		at := path
		if v.s.given(strictyaml.Join(path, "url")) {
			at = strictyaml.Join(path, "url")
		}
		switch p.URL {
		case Auto, None:
			switch {
			case p.URL == None && len(d.Telemetry) > 1:
				v.fail(at, "none stands alone: "+want, strictyaml.Quote(p.URL))
			case p.words() > 0:
				v.fail(path, p.URL+" takes no other fields: give the URL of a page", "")
			case p.URL == Auto:
				if autos++; autos == 2 {
					v.fail(at, "auto is there twice: keep one", "")
				}
			}
			continue
		}
		if near := strictyaml.Nearest(p.URL, []string{Auto, None}); near != "" && !strings.Contains(p.URL, ":") {
			v.choice(at, p.URL, []string{Auto, None})
			continue
		}
		if p.URL == "" && p.words() > 0 {
			v.fail(strictyaml.Join(item("data.telemetry", i), "url"), "want the URL of the page, as in http://localhost:9400/metrics", "")
			continue
		}
		v.url(at, p.URL, true)
		v.page(path, p)
		for j := range i {
			if p.same(&d.Telemetry[j]) {
				v.fail(at, fmt.Sprintf("the same page as %s, which would be counted twice: remove one", item("data.telemetry", j)), strictyaml.Quote(redact(p.URL)))
				break
			}
		}
	}
	if t := d.TelemetryInterval; t < MinTelemetryInterval || t > MaxTelemetryInterval {
		v.fail("data.telemetry-interval", fmt.Sprintf("want a duration from %s to %s",
			strictyaml.FormatDuration(MinTelemetryInterval), strictyaml.FormatDuration(MaxTelemetryInterval)), strictyaml.FormatDuration(t))
	}
	for i, name := range d.TelemetryTables {
		path := v.step("data.telemetry-tables", i, len(d.TelemetryTables))
		v.text(path, name)
		if name == "" {
			v.fail(path, "want the name of a file", `""`)
		}
	}
}

// same says whether two entries name one page, or ask a Prometheus for the same.
func (p *Page) same(q *Page) bool {
	return p.URL != Auto && p.place() == q.place() && (p.Kind == PagePrometheus) == (q.Kind == PagePrometheus) && maps.Equal(p.Match, q.Match)
}

// place is the page in one spelling: without a path it is /metrics, and this machine
// is the same under its name and its address.
func (p *Page) place() string {
	u, err := url.Parse(p.URL)
	if err != nil {
		return p.URL
	}
	if u.Path = strings.TrimRight(u.Path, "/"); u.Path == "" {
		u.Path = "/metrics"
	}
	u.RawPath, u.Fragment, u.RawFragment = "", "", ""
	host, port := strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), u.Port()
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	u.Host = net.JoinHostPort(host, port)
	return u.String()
}

// words counts the fields beside the URL that say something.
func (p *Page) words() int {
	n := len(p.Match) + len(p.Header)
	for _, s := range []string{p.Kind, p.APIKeyEnv, p.CA, p.Cert, p.Key} {
		n += min(1, len(s))
	}
	if p.Insecure {
		n++
	}
	return n
}

// page checks what stands beside the URL of one page.
func (v *validator) page(path string, p *Page) {
	at := func(name string) string { return strictyaml.Join(path, name) }
	if p.Kind != "" {
		v.choice(at("kind"), p.Kind, []string{PageExposition, PagePrometheus})
	}
	if len(p.Match) > 0 && p.Kind != PagePrometheus {
		v.fail(at("match"), "only a Prometheus is asked by labels: add kind: prometheus, or remove it", "")
	}
	for _, name := range slices.Sorted(maps.Keys(p.Match)) {
		if !isEnvName(name) {
			v.fail(at("match"), "want the name of a label (letters, digits, _)", strictyaml.Quote(name))
		}
		v.text(strictyaml.Join(at("match"), name), p.Match[name])
	}
	v.keyName(at("api-key-env"), p.APIKeyEnv)
	v.headers(at("header"), p.Header)
	v.files(path, p.CA, p.Cert, p.Key)
}

// Header fields that belong to the framing of a request, which the client does
// itself.
var ownHeaders = []string{"Connection", "Content-Length", "Host", "Transfer-Encoding", "Trailer", "Upgrade", "TE"}

func (v *validator) headers(at string, h map[string]string) {
	first := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(h)) {
		path := strictyaml.Join(at, name)
		lower := strings.ToLower(name)
		if !isToken(name) {
			v.fail(path, "want the name of a header field: letters, digits and -", "")
			continue
		}
		if other, ok := first[lower]; ok {
			v.fail(path, "the same header field as "+other+": keep one", "")
		}
		first[lower] = name
		for _, own := range ownHeaders {
			if strings.EqualFold(own, name) {
				v.fail(path, "this header field is set by the client itself: remove it", "")
			}
		}
		value := h[name]
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			v.fail(path, "want a value without line breaks and control characters", "")
		}
		if strings.TrimSpace(value) == "" {
			v.fail(path, "want a value: an empty header field says nothing", "")
		}
		v.secret(path, value, secretName(name))
	}
}

// body checks the further fields of the request body: what JSON cannot say, and
// keys.
func (v *validator) body(body map[string]any) {
	var walk func(path, name string, x any)
	walk = func(path, name string, x any) {
		switch x := x.(type) {
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(x)) {
				walk(strictyaml.Join(path, k), k, x[k])
			}
		case []any:
			for i := range x {
				walk(item(path, i), name, x[i])
			}
		case float64:
			if math.IsNaN(x) || math.IsInf(x, 0) {
				v.fail(path, "want a number that JSON can hold", fmt.Sprint(x))
			}
		case string:
			v.secret(path, x, secretName(name))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(body)) {
		walk(strictyaml.Join("target.extra-body", k), k, body[k])
	}
	for _, own := range []string{"model", "messages", "prompt", "stream"} {
		if _, ok := body[own]; ok {
			v.fail(strictyaml.Join("target.extra-body", own), "this field of the body is set by the run itself: use its own flag (--model, --prompt-tokens, --no-stream)", "")
		}
	}
}

func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

func isEnvName(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}
