package workload

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"plimsoll/internal/random"
	"plimsoll/internal/scenario"
	"plimsoll/internal/strictyaml"
	"plimsoll/internal/workload/content"
)

//go:embed library
var library embed.FS

// Names lists the workloads of the library, sorted.
func Names() []string {
	var out []string
	err := fs.WalkDir(library, "library", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, strings.TrimSuffix(strings.TrimPrefix(p, "library/"), ".yaml"))
		}
		return err
	})
	if err != nil {
		panic("BUG: " + err.Error())
	}
	slices.Sort(out)
	return out
}

// Source returns the text of a workload of the library.
func Source(name string) ([]byte, error) {
	data, err := library.ReadFile("library/" + name + ".yaml")
	if err != nil || name != path.Clean(name) {
		if near := strictyaml.Nearest(name, Names()); near != "" {
			return nil, fmt.Errorf("look up workload %q: it is not in the library; did you mean %s?", name, near)
		}
		return nil, fmt.Errorf("look up workload %q: it is not in the library, want one of %s, or a file ending in .yaml", name, strings.Join(Names(), ", "))
	}
	return data, nil
}

// Lookup returns a workload of the library, with settings as Read applies them.
// The error names the nearest one.
func Lookup(name string, settings ...scenario.Setting) (*File, error) {
	data, err := Source(name)
	if err != nil {
		return nil, err
	}
	return Read(name+".yaml", data, nil, settings...)
}

// IsFile says whether a name is that of a user's own file, not of the library.
func IsFile(name string) bool {
	return name == "-" || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// Open returns the workload of a name: of the library, or of the user's own file
// (IsFile), whose further files are relative to its folder. Check is that of
// Around.
func Open(name string, readFile func(path string) ([]byte, error), check func(generator string) error, settings ...scenario.Setting) (*File, error) {
	if !IsFile(name) {
		return Lookup(name, settings...)
	}
	data, err := readFile(name)
	if err != nil {
		return nil, fmt.Errorf("read workload: %w", err)
	}
	around := &Around{Check: check, ReadFile: func(p string) ([]byte, error) {
		if !filepath.IsAbs(p) && name != "-" {
			p = filepath.Join(filepath.Dir(name), p)
		}
		return readFile(p)
	}}
	return Read(name, data, around, settings...)
}

// Bounds on what a file may ask for, far above any use: more is a slip, and
// every session must fit the memory.
const (
	maxTurns      = 100_000
	maxDocuments  = 1_000
	maxBranches   = 64
	maxCalls      = 64
	maxPassages   = 1_000
	maxMedia      = 64
	maxPixels     = content.MaxSide
	maxSeconds    = content.MaxAudioMillis / 1000
	maxVary       = 100
	maxText       = 1 << 20
	maxValues     = 10_000_000
	maxContextCap = 100_000_000
	// defaultContext is the longest context without max-context.
	defaultContext = 1_000_000
)

// Around is what a workload's file may refer to.
type Around struct {
	// ReadFile reads the numbers of a distribution; nil when there must be none.
	ReadFile func(path string) ([]byte, error)
	// Check says whether text can be made by a generator of that name; nil is the
	// Check of a content.Renderer without documents.
	Check func(generator string) error
}

// defaultContent is what text is made of when nothing is said of it.
const defaultContent = "prose"

// Read makes a workload of a file and settings, which replace single fields. The
// name is that of the file in errors, around what it refers to, nil for nothing.
// The error is a strictyaml.Errors with everything that is wrong.
func Read(name string, data []byte, around *Around, settings ...scenario.Setting) (*File, error) {
	if around == nil {
		around = new(Around)
	}
	f, doc, err := read(name, data, around, settings)
	if err != nil {
		return nil, err
	}
	// Each rung of a probe must make a workload too.
	var errs strictyaml.Errors
	for i, rung := range f.Rungs() {
		one, _, err := read(name, data, around, append(slices.Clone(settings), rung...))
		if err == nil {
			f.rungs = append(f.rungs, one)
			continue
		}
		at := fmt.Sprintf("vary[%d]", i)
		if len(f.Vary) == 1 {
			at = "vary"
		}
		pos, _ := doc.At(at)
		problem := err.Error()
		if list, ok := errors.AsType[strictyaml.Errors](err); ok {
			problem = list[0].Path + ": " + list[0].Problem
			if list[0].Value != "" {
				problem += ", got " + list[0].Value
			}
			if list[0].Nearest != "" {
				problem += "; did you mean " + list[0].Nearest + "?"
			}
		}
		errs = append(errs, &strictyaml.Error{Position: pos, Path: at, Problem: problem})
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return f, nil
}

// Rungs lists what each rung of Vary sets, in the order of the file, the fields
// of one in that of their paths. A file without any has none.
func (f *File) Rungs() [][]scenario.Setting {
	var out [][]scenario.Setting
	for _, rung := range f.Vary {
		var set []scenario.Setting
		for _, p := range slices.Sorted(maps.Keys(rung)) {
			set = append(set, scenario.Setting{Path: p, Value: rung[p], Origin: "vary"})
		}
		out = append(out, set)
	}
	return out
}

func read(name string, data []byte, around *Around, settings []scenario.Setting) (*File, *strictyaml.Document, error) {
	doc, err := strictyaml.Parse(name, data)
	if err != nil {
		return nil, nil, err
	}
	f := new(File)
	var errs strictyaml.Errors
	collect := func(err error) {
		if err == nil {
			return
		}
		list, ok := errors.AsType[strictyaml.Errors](err)
		if !ok {
			panic("BUG: " + err.Error())
		}
		errs = append(errs, list...)
	}
	for _, s := range settings {
		collect(doc.Set(f, s.Path, s.Value, s.Origin, s.Add, strictyaml.Options{}))
	}
	collect(doc.Decode(f, strictyaml.Options{}))
	c := checker{f: f, doc: doc, known: errs, around: around}
	c.check()
	if errs = append(errs, c.errs...); len(errs) > 0 {
		errs.Sort()
		return nil, nil, errs
	}
	return f, doc, nil
}

// checker finds what is wrong with a file whose fields could be read.
type checker struct {
	f      *File
	doc    *strictyaml.Document
	known  strictyaml.Errors
	errs   strictyaml.Errors
	around *Around
}

func (c *checker) fail(path, problem, value, nearest string) {
	// What could not be read has been said.
	for _, e := range c.known {
		if e.Path == path {
			return
		}
	}
	at, _ := c.doc.At(path)
	c.errs = append(c.errs, &strictyaml.Error{Position: at, Path: path, Problem: problem, Value: value, Nearest: nearest})
}

// item is the path of an item of a list, which may stand alone without brackets.
func (c *checker) item(path string, i int) string {
	if at := fmt.Sprintf("%s[%d]", path, i); c.doc.Has(at) {
		return at
	}
	return path
}

// unread says whether the field at path, or what it lies in, could not be read.
func (c *checker) unread(path string) bool {
	for _, e := range c.known {
		if e.Path == path || strings.HasPrefix(path, e.Path+".") || e.Path != "" && strings.HasPrefix(e.Path, path+".") {
			return true
		}
	}
	return false
}

func (c *checker) oneOf(path, value string, known []string) {
	if value == "" || slices.Contains(known, value) {
		return
	}
	c.fail(path, "want one of "+strings.Join(known, ", "), strictyaml.Quote(value), strictyaml.Nearest(value, known))
}

func (c *checker) check() {
	f, k := c.f, &c.f.compiled
	c.name()
	for _, s := range f.Stresses {
		c.oneOf("stresses", s, Stresses)
	}
	c.oneOf("arrival", f.Arrival, Arrivals)
	c.session()
	c.prompt()
	c.output()
	c.retrieval()
	c.fork()
	c.tools()
	c.cancel()
	c.media()
	c.vary()
	c.firstTurn()
	for at, limits := range map[string][]scenario.Limit{"slo.all": f.SLO.All, "slo.first": f.SLO.First, "slo.later": f.SLO.Later} {
		for i, l := range limits {
			if l.Metric == scenario.OfWorkloads {
				c.fail(c.item(at, i), "want a limit, as in ttft.p95=500ms", strictyaml.Quote(l.String()), "")
			}
		}
	}
	if f.SLO.WithRetrieval && f.Retrieval == nil {
		c.fail("slo.with-retrieval", "there is no retrieval in this workload", "", "")
	}
	if _, turns := k.turns.Bounds(); f.Session.History == HistoryServer && turns > 1 {
		k.needs |= NeedText
	}
}

func (c *checker) name() {
	n := c.f.Name
	bad := strings.ContainsFunc(n, func(r rune) bool {
		return r != '/' && r != '-' && r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
	})
	switch {
	case n == "":
		c.fail("name", "want a name, as in team/support-chat", "", "")
	case bad || len(n) > 80 || strings.Contains(n, "//") || strings.HasPrefix(n, "/") || strings.HasSuffix(n, "/"):
		c.fail("name", "want lower-case letters, digits, - and /, at most 80", strictyaml.Quote(n), "")
	}
}

func (c *checker) session() {
	s, k := &c.f.Session, &c.f.compiled
	if s.History == "" {
		s.History = HistoryServer
	}
	c.oneOf("session.history", s.History, []string{HistoryServer, HistoryRecorded, HistoryNone})
	c.oneOf("session.on-failure", s.OnFailure, []string{OnFailureGoOn, OnFailureEnd})
	k.turns = c.count("session.turns", s.Turns, 1, maxTurns)
	k.think = c.delay("session.think", s.Think)
	k.tick = c.delay("session.tick", s.Tick)
	k.pause, k.hasPause = c.delay("session.pause", s.Pause), s.Pause.Kind != ""
	if s.Tick.Kind != "" {
		if s.Think.Kind != "" {
			c.fail("session.tick", "give either think or tick: turns follow either the answers or the clock", "", "")
		}
		if least, _ := k.tick.Bounds(); least <= 0 && !c.unread("session.tick") {
			c.fail("session.tick", "want ticks that are always longer than 0: add a min", s.Tick.String(), "")
		}
	}
	if s.MaxContext < 0 || s.MaxContext > maxContextCap {
		c.fail("session.max-context", fmt.Sprintf("want 1 to %d tokens", maxContextCap), strconv.Itoa(s.MaxContext), "")
	}
	if s.MaxContext == 0 {
		s.MaxContext = defaultContext
	}
}

// firstTurn refuses a longest context that no first turn keeps to: such a turn is sent
// whatever its length.
func (c *checker) firstTurn() {
	s, k := &c.f.Session, &c.f.compiled
	if len(c.errs) > 0 || len(c.known) > 0 || !c.doc.Has("session.max-context") {
		return
	}
	low := func(d random.Dist) float64 { least, _ := d.Bounds(); return max(0, least) }
	least := low(k.system) + low(k.group) + low(k.document)*low(k.documents) + low(k.turn)
	if c.f.Retrieval != nil {
		least += low(k.passages) * low(k.passage)
	}
	answer := k.output
	if k.hasFirst {
		answer = k.first
	}
	most, what := least+low(answer), "prompt.turn"
	for _, l := range []struct {
		name string
		n    float64
	}{{"prompt.system", low(k.system)}, {"prompt.group", low(k.group)}, {"prompt.session", low(k.document) * low(k.documents)}} {
		if l.n > low(k.turn) && c.doc.Has(l.name) {
			what = l.name
		}
	}
	if most > float64(s.MaxContext) {
		c.fail("session.max-context", fmt.Sprintf("the first prompt and its answer are at least %.0f tokens: want at least so many, or a shorter %s", most, what), strconv.Itoa(s.MaxContext), "")
	}
}

func (c *checker) prompt() {
	p, k := &c.f.Prompt, &c.f.compiled
	k.system = c.layer("prompt.system", &p.System)
	k.group = c.dist("prompt.group.tokens", p.Group.Tokens)
	c.content("prompt.group.content", &p.Group.Content)
	k.document = c.dist("prompt.session.tokens", p.Session.Tokens)
	c.content("prompt.session.content", &p.Session.Content)
	k.documents = c.count("prompt.session.documents", p.Session.Documents, 1, maxDocuments)
	k.turn, k.hasTurn = c.layer("prompt.turn", &p.Turn), p.Turn.given()
	if p.Session.Documents.Kind != "" && p.Session.Tokens.Kind == "" {
		c.fail("prompt.session.documents", "want the length of a document beside their number: add tokens", "", "")
	}
	g := &p.Group
	switch {
	case g.Tokens.Kind == "":
		if g.Users != 0 || g.Sets != 0 || g.Order != "" {
			c.fail("prompt.group", "want the length of the text that the group shares: add tokens", "", "")
		}
		return
	case c.unread("prompt.group"):
		return
	case g.Users < 0 || g.Sets < 0 || (g.Users > 0) == (g.Sets > 0):
		c.fail("prompt.group", "want either users (how many share one text) or sets (how many texts there are)", "", "")
	case g.Users > maxValues || g.Sets > maxValues:
		c.fail("prompt.group", fmt.Sprintf("want at most %d users or sets", maxValues), "", "")
	case g.Order != "" && g.Sets == 0:
		c.fail("prompt.group.order", "an order is that of sets: add sets", "", "")
	}
	c.oneOf("prompt.group.order", g.Order, []string{OrderCycle, OrderRandom, OrderZipf})
}

func (c *checker) output() {
	o, k := &c.f.Output, &c.f.compiled
	k.output, k.hasOutput = c.dist("output.tokens", o.Tokens), o.Tokens.Kind != ""
	k.first, k.hasFirst = c.dist("output.first", o.First), o.First.Kind != ""
	c.oneOf("output.stop", o.Stop, []string{StopExact, StopNatural})
	switch {
	case k.hasFirst && !k.hasOutput:
		c.fail("output.first", "want the length of the later answers too: add tokens", "", "")
	case o.Stop == StopExact && !k.hasOutput:
		c.fail("output.stop", "want the exact length: add tokens", "", "")
	case o.Stop == "" && k.hasOutput:
		o.Stop = StopExact
	case o.Stop == "":
		o.Stop = StopNatural
	}
	if r := o.Reasoning; r != nil {
		k.reasoning, k.hasReasoning = c.dist("output.reasoning.tokens", r.Tokens), r.Tokens.Kind != ""
		if len(r.Effort) > 40 {
			c.fail("output.reasoning.effort", "want low, medium, high or a word that the server knows", strictyaml.Quote(r.Effort), "")
		}
		if r.Effort != "" {
			k.needs |= NeedEffort
		}
	}
	c.json("output.schema", o.Schema)
	if o.Schema != "" {
		k.needs |= NeedSchema
	}
}

// json says that a text is no JSON object.
func (c *checker) json(path, text string) {
	var object map[string]any
	if text == "" {
		return
	}
	if err := json.Unmarshal([]byte(text), &object); err != nil || object == nil {
		c.fail(path, "want a JSON object", strictyaml.Quote(text), "")
	}
}

func (c *checker) retrieval() {
	r, k := c.f.Retrieval, &c.f.compiled
	if r == nil {
		return
	}
	k.latency = c.delay("retrieval.latency", r.Latency)
	k.passages = c.count("retrieval.passages", r.Passages, 0, maxPassages)
	k.passage = c.dist("retrieval.tokens", r.Tokens)
	c.content("retrieval.content", &r.Content)
	if (r.Passages.Kind == "") != (r.Tokens.Kind == "") && !c.unread("retrieval.passages") && !c.unread("retrieval.tokens") {
		c.fail("retrieval", "want passages and tokens (their number and the length of each), or neither", "", "")
	}
	if (r.URL == "") == (r.Latency.Kind == "") && !c.unread("retrieval.latency") {
		c.fail("retrieval", "want either a latency (an emulated search) or a url (a real one)", "", "")
	}
	k.needs |= NeedRetrieval
	if r.URL != "" {
		k.needs |= NeedSearch
		u, err := url.Parse(r.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			c.fail("retrieval.url", "want the whole URL of an embeddings or search endpoint", strictyaml.Quote(r.URL), "")
		}
		if !k.hasTurn {
			c.fail("retrieval.url", "want a question to search with: add prompt.turn", "", "")
		}
	}
	if c.f.Fork != nil {
		c.fail("retrieval", "a workload that forks cannot search too: use fork.found for what the branches find", "", "")
	}
}

func (c *checker) fork() {
	k, f := &c.f.compiled, c.f.Fork
	if f == nil {
		if !k.hasTurn && c.f.Retrieval == nil && !c.unread("prompt") {
			c.fail("prompt.turn", "want the length of the question of a turn", "", "")
		}
		return
	}
	k.needs |= NeedFork | NeedText
	k.branches = c.count("fork.branches", f.Branches, 0, maxBranches)
	if f.Branches.Kind == "" && !c.unread("fork.branches") {
		c.fail("fork.branches", "want the number of branches", "", "")
	}
	k.query = c.layer("fork.turn", &f.Turn)
	if !f.Turn.given() && !c.unread("fork.turn") {
		c.fail("fork.turn", "want the length of the question of a branch", "", "")
	}
	k.branchOutput = c.dist("fork.output", f.Output)
	k.found, k.hasFound = c.layer("fork.found", &f.Found), f.Found.given()
	if c.f.Session.History == HistoryNone {
		c.fail("session.history", "a workload that forks keeps what it found: want server or recorded", HistoryNone, "")
	}
	if c.f.Tools != nil {
		c.fail("tools", "a workload that forks cannot call tools too", "", "")
	}
}

func (c *checker) tools() {
	t, k := c.f.Tools, &c.f.compiled
	if t == nil {
		return
	}
	k.needs |= NeedTools | NeedText
	k.toolShare = c.share("tools.share", t.Share)
	k.calls = c.count("tools.calls", t.Calls, 1, maxCalls)
	k.callOutput, k.hasCalls = c.dist("tools.tokens", t.Tokens), t.Tokens.Kind != ""
	c.oneOf("tools.choice", t.Choice, []string{"auto", "required", "none"})
	if t.Choice == "" {
		t.Choice = "auto"
	}
	if len(t.Offer) == 0 && !c.unread("tools.offer") {
		c.fail("tools.offer", "want at least one tool", "", "")
	}
	for i := range t.Offer {
		at := c.item("tools.offer", i)
		o := &t.Offer[i]
		if o.Name == "" || strings.ContainsFunc(o.Name, func(r rune) bool {
			return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
		}) {
			c.fail(at+".name", "want letters, digits, - and _", strictyaml.Quote(o.Name), "")
		}
		c.json(at+".parameters", o.Parameters)
		c.json(at+".arguments", o.Arguments)
		if o.Arguments == "" {
			o.Arguments = "{}"
		}
		k.toolResults = append(k.toolResults, c.layer(at+".result", &o.Result))
		if !o.Result.given() && !c.unread(at+".result") {
			c.fail(at+".result", "want the length of what the tool says", "", "")
		}
		k.toolDelays = append(k.toolDelays, c.delay(at+".delay", o.Delay))
	}
}

func (c *checker) cancel() {
	a, k := c.f.Cancel, &c.f.compiled
	if a == nil {
		return
	}
	k.needs |= NeedCancel
	k.cancelShare = c.share("cancel.share", a.Share)
	k.after = c.delay("cancel.after", a.After)
	c.oneOf("cancel.when", a.When, []string{CancelFirstToken, CancelAfterTime, CancelSuperseded})
	switch {
	case a.When == "" && !c.unread("cancel.when"):
		c.fail("cancel.when", "want "+CancelFirstToken+", "+CancelAfterTime+" or "+CancelSuperseded, "", "")
	case a.When == CancelAfterTime && a.After.Kind == "" && !c.unread("cancel.after"):
		c.fail("cancel.after", "want how long the user waits, as in 5s", "", "")
	case a.When != CancelAfterTime && a.After.Kind != "":
		c.fail("cancel.after", "it is for when: "+CancelAfterTime, "", "")
	case a.When == CancelSuperseded && c.f.Session.Tick.Kind == "":
		c.fail("cancel.when", "an answer is superseded by the next tick: add session.tick", CancelSuperseded, "")
	}
}

func (c *checker) media() {
	k := &c.f.compiled
	for i := range c.f.Media {
		at := c.item("media", i)
		m := &c.f.Media[i]
		k.needs |= NeedMedia
		k.mediaCounts = append(k.mediaCounts, c.count(at+".count", m.Count, 1, maxMedia))
		c.oneOf(at+".at", m.At, []string{"session", "turn"})
		switch m.Kind {
		case "image":
			if m.Width < 1 || m.Height < 1 || m.Width > maxPixels || m.Height > maxPixels {
				c.fail(at, fmt.Sprintf("want width and height of 1 to %d pixels", maxPixels), fmt.Sprintf("%d x %d", m.Width, m.Height), "")
			}
			if m.Seconds != 0 {
				c.fail(at+".seconds", "an image has no length in time", "", "")
			}
			c.oneOf(at+".format", m.Format, []string{FormatJPEG, FormatPNG})
		case "audio":
			if !(m.Seconds > 0) || m.Seconds > maxSeconds {
				c.fail(at+".seconds", fmt.Sprintf("want more than 0 and at most %d seconds", maxSeconds), fmt.Sprint(m.Seconds), "")
			}
			if m.Width != 0 || m.Height != 0 || m.Format != "" {
				c.fail(at, "a sound has no width, height and format: it is WAV", "", "")
			}
		default:
			c.fail(at+".kind", "want image or audio", strictyaml.Quote(m.Kind), strictyaml.Nearest(m.Kind, []string{"image", "audio"}))
		}
		if m.Tokens < 0 || m.Tokens > scenario.MaxTokens {
			c.fail(at+".tokens", "want a number of tokens of at least 0", strconv.Itoa(m.Tokens), "")
		}
		if m.Tokens == 0 {
			m.Tokens, m.guessed = m.media(0).Tokens(), true
		}
	}
}

func (c *checker) vary() {
	for i, rung := range c.f.Vary {
		at := c.item("vary", i)
		if len(rung) == 0 {
			c.fail(at, "want at least one field with its value", "", "")
		}
		for p := range rung {
			if p == "vary" || strings.HasPrefix(p, "vary.") {
				c.fail(strictyaml.Join(at, p), "a rung cannot change the ladder", "", "")
			}
		}
	}
	if n := len(c.f.Vary); n > maxVary {
		c.fail("vary", fmt.Sprintf("want at most %d rungs", maxVary), strconv.Itoa(n), "")
	}
}

func (c *checker) share(path string, x *float64) float64 {
	if x == nil {
		return 1
	}
	if !(*x >= 0 && *x <= 1) {
		c.fail(path, "want a share of 0 to 1", fmt.Sprint(*x), "")
	}
	return *x
}

func (c *checker) layer(path string, l *LayerSpec) random.Dist {
	if l.Text != "" {
		switch {
		case l.Content != "":
			c.fail(path+".content", "give either text or content", "", "")
		case len(l.Text) > maxText:
			c.fail(path+".text", fmt.Sprintf("want at most %d bytes", maxText), strconv.Itoa(len(l.Text)), "")
		}
		if !l.given() {
			l.Tokens = scenario.Dist{Kind: scenario.Fixed, A: float64((len(l.Text) + 3) / 4)}
		}
		return c.dist(path+".tokens", l.Tokens)
	}
	if l.Content != "" && !l.given() && !c.unread(path) && !c.unread(path+".tokens") {
		c.fail(path, "want the length of the text: add tokens", "", "")
	}
	c.content(path+".content", &l.Content)
	return c.dist(path+".tokens", l.Tokens)
}

// content checks the name of a generator, and fills it in.
func (c *checker) content(path string, name *string) {
	if *name == "" {
		*name = defaultContent
		return
	}
	check := c.around.Check
	if check == nil {
		check = new(content.Renderer).Check
	}
	if err := check(*name); err != nil {
		c.fail(path, err.Error(), "", "")
	}
}

// dist, count and delay make distributions ready; zero ones draw 0.
func (c *checker) dist(path string, d scenario.Dist) random.Dist {
	return c.ready(path, d, d.Parts)
}

func (c *checker) delay(path string, d scenario.Delay) random.Dist {
	r := c.ready(path, scenario.Dist(d), d.Parts)
	seconds(&r)
	return r
}

// seconds makes the numbers of files, which are seconds, ns.
func seconds(d *random.Dist) {
	for i := range d.Values {
		d.Values[i] *= 1e9
	}
	for i := range d.Parts {
		seconds(&d.Parts[i].Dist)
	}
}

// count also holds a number below most; def stands in where none was given.
func (c *checker) count(path string, d scenario.Count, def float64, most int) random.Dist {
	if d.Kind == "" {
		return random.Dist{A: def}
	}
	r := c.ready(path, scenario.Dist(d), d.Parts)
	if _, top := r.Bounds(); top > float64(most) && !c.unread(path) {
		has := "there is no largest one"
		if !math.IsInf(top, 1) {
			has = fmt.Sprintf("it can be %.0f", top)
		}
		c.fail(path, fmt.Sprintf("want at most %d, and %s: add max=%d", most, has, most), d.String(), "")
	}
	return r
}

func (c *checker) ready(path string, d scenario.Dist, parts func() ([]scenario.Weighted, error)) random.Dist {
	if d.Kind == "" {
		return random.Dist{}
	}
	r, err := ready(d, parts, c.around.ReadFile)
	if err != nil {
		c.fail(path, err.Error(), "", "")
	}
	return r
}
