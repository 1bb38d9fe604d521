package cli

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"plimsoll/internal/message"
	"plimsoll/internal/probe"
	"plimsoll/internal/random"
	"plimsoll/internal/report"
	"plimsoll/internal/scenario"
	"plimsoll/internal/strictyaml"
	"plimsoll/internal/twin"
	"plimsoll/internal/workload"
	"plimsoll/internal/workload/content"
)

type workloadsCmd struct {
	List    workloadsListCmd    `cmd:"" help:"The workloads of the library."`
	Show    workloadsShowCmd    `cmd:"" help:"What a workload says, and the shape of what it loads; of two, over each other."`
	Preview workloadsPreviewCmd `cmd:"" help:"The prompts of a session, as they would be sent."`
}

// setFlag replaces fields of a workload.
type setFlag struct {
	Set []string `name:"set" sep:"none" placeholder:"PATH=VALUE" help:"Set a field of the workload, as prompt.turn.tokens=400; may be repeated."`
}

// open returns a workload and what renders its text.
func (c *setFlag) open(a *app, name string) (*workload.File, *content.Renderer, error) {
	settings := make([]scenario.Setting, 0, len(c.Set))
	for _, s := range c.Set {
		path, value, ok := strings.Cut(s, "=")
		if !ok || strings.TrimSpace(path) == "" {
			return nil, nil, fmt.Errorf("--set %s: want PATH=VALUE, as in --set prompt.turn.tokens=400", strictyaml.Quote(s))
		}
		settings = append(settings, scenario.Setting{Path: strings.TrimSpace(path), Value: value, Origin: "--set"})
	}
	r := new(content.Renderer)
	if workload.IsFile(name) && name != "-" {
		files, err := content.OpenFiles(a.env.path(filepath.Dir(name)))
		if err != nil {
			return nil, nil, err
		}
		defer files.Close() // what is loaded stays
		r.Files = files
	}
	f, err := workload.Open(name, a.env.readFile, r.Check, settings...)
	return f, r, err
}

type workloadsListCmd struct{ outputFlag }

func (*workloadsListCmd) Help() string {
	return "The industry workloads emulate users; the families gpu-hbm, architecture, kv and fabric are probes that isolate a part of the stack: given alone to run or twin predict, without a load, one runs its ladder and ends in a fitted result. Each is a file that plimsoll workloads show prints; your own are files of the same form."
}

func (*workloadsListCmd) Examples() []string { return []string{"plimsoll workloads list"} }

// listed is a workload in a list.
type listed struct {
	Name     string   `json:"name"`
	About    string   `json:"about"`
	Stresses []string `json:"stresses"`
	Arrival  string   `json:"arrival"`
	Rungs    int      `json:"rungs"`
}

func (c *workloadsListCmd) Run(a *app) error {
	var all []listed
	for _, name := range workload.Names() {
		f, err := workload.Lookup(name)
		if err != nil {
			return err
		}
		all = append(all, listed{f.Name, f.About, append([]string{}, f.Stresses...), f.Arrival, len(f.Vary)})
	}
	if c.Output == "json" {
		return a.printJSON(map[string]any{"schema": "plimsoll.workloads/1", "workloads": all})
	}
	w := a.env.Stdout
	// Industries first, then the probes.
	families := []string{"gpu-hbm", "architecture", "kv", "fabric"}
	slices.SortStableFunc(all, func(x, y listed) int {
		rank := func(n string) int {
			family, _, _ := strings.Cut(n, "/")
			return slices.Index(families, family)
		}
		return rank(x.Name) - rank(y.Name)
	})
	for _, l := range all {
		fmt.Fprintf(w, "%s\n", l.Name)
		text := l.About
		if len(l.Stresses) > 0 {
			text += " Stresses " + strings.Join(l.Stresses, ", ") + "."
		}
		for _, line := range report.Wrap(text, report.Width-4) {
			fmt.Fprintf(w, "   %s\n", line)
		}
	}
	return nil
}

type workloadsShowCmd struct {
	Names []string `arg:"" name:"name" help:"A workload of the library, or a file of your own (.yaml). Two are laid over each other."`
	Model string   `name:"model" default:"llama-3.1-8b" placeholder:"NAME" help:"The model whose arithmetic and memory make the shape, as plimsoll twin list models has them."`
	setFlag
	outputFlag
}

func (*workloadsShowCmd) Help() string {
	return "The shape is worked out of what the workload draws and of the model, without a server: how much prefill, decoding, memory, network and urgency there is, and whether the parts that the file claims to stress are stressed. On the radar each axis is logarithmic: its middle is a plain question of 100 tokens in and out, its end a thousand times that."
}

func (*workloadsShowCmd) Examples() []string {
	return []string{
		"plimsoll workloads show legal/contract-review",
		"plimsoll workloads show legal/contract-review finance/strategy-simulation",
		"plimsoll workloads show my.yaml --model llama-3.1-70b --output json",
	}
}

func (c *workloadsShowCmd) Run(a *app) error {
	if len(c.Names) > 2 {
		return usagef("workloads show: want one or two workloads, got %d", len(c.Names))
	}
	m, err := twin.Builtin().Model(c.Model)
	if err != nil {
		return usagef("workloads show: --model: %w", err)
	}
	facts := m.Facts("")
	var files []*workload.File
	var shapes []*workload.Shape
	var steps [][]shownStep
	for _, name := range c.Names {
		f, _, err := c.open(a, name)
		if err != nil {
			return usagef("workloads show: %w", err)
		}
		files = append(files, f)
		shapes = append(shapes, workload.ShapeOf(f, facts))
		steps = append(steps, c.ladder(a, name, f))
	}
	if c.Output == "json" {
		out := make([]shownShape, len(shapes))
		for i := range shapes {
			out[i] = shownShape{shapes[i], steps[i]}
		}
		return a.printJSON(map[string]any{"schema": "plimsoll.shape/1", "shapes": out})
	}
	w := a.env.Stdout
	if len(files) == 1 {
		for _, l := range report.Wrap(files[0].About, report.Width-1) {
			fmt.Fprintln(w, l)
		}
		data, err := c.source(a)
		if err != nil {
			return usagef("workloads show: %w", err)
		}
		fmt.Fprintf(w, "\n%s", indent(data))
	}
	row := func(what string, of func(*workload.Shape) string) {
		line := fmt.Sprintf("%-26s", what)
		for _, s := range shapes {
			line += fmt.Sprintf("%26s", of(s))
		}
		fmt.Fprintln(w, line)
	}
	fmt.Fprintf(w, "\nShape on %s, of %d drawn sessions\n", facts.Name, shapes[0].Sessions)
	if len(shapes) == 2 {
		row("", func(s *workload.Shape) string { return report.CutFront(s.Workload, 24) })
	}
	tokens := func(x workload.Spread) string {
		return fmt.Sprintf("%s (p95 %s)", report.Count(int64(x.Mean+0.5)), report.Count(int64(x.P95+0.5)))
	}
	row("requests a session", func(s *workload.Shape) string {
		return fmt.Sprintf("%.1f (p95 %.0f)", s.RequestsPerSession.Mean, s.RequestsPerSession.P95)
	})
	row("prompt tokens", func(s *workload.Shape) string { return tokens(s.Prompt) })
	row("of them new", func(s *workload.Shape) string { return tokens(s.New) })
	row("reused at best", func(s *workload.Shape) string { return fmt.Sprintf("%.1f %%", 100*s.Reuse) })
	row("output tokens", func(s *workload.Shape) string { return tokens(s.Output) })
	row("context of a session", func(s *workload.Shape) string { return tokens(s.Context) })
	row("prefill a request", func(s *workload.Shape) string { return scaled(s.PrefillFLOPs) + "FLOP" })
	row("decoding moves", func(s *workload.Shape) string { return scaled(s.DecodeBytes) + "B" })
	row("keys and values a session", func(s *workload.Shape) string { return scaled(s.KVBytes.Mean) + "B" })
	row("on the wire a request", func(s *workload.Shape) string { return scaled(s.WireBytes) + "B" })
	row("requests of a user", func(s *workload.Shape) string { return fmt.Sprintf("%.3g/s", s.RequestsPerS) })
	row("limit of ttft", func(s *workload.Shape) string { return report.Seconds(s.TTFTLimit) })
	fmt.Fprintln(w)
	for _, l := range radar(shapes...) {
		fmt.Fprintln(w, l)
	}
	if len(shapes) > 1 {
		fmt.Fprintln(w, "# the first, o the second, @ both")
	}
	for i, s := range shapes {
		fmt.Fprintf(w, "%s %s\n", []string{"#", "o"}[i], s.Workload)
		for _, ax := range s.Axes {
			line := fmt.Sprintf("  %-10s %-10s %s", ax.Name, strings.Repeat("=", int(ax.Score*10+0.5)), ax.Claim())
			fmt.Fprintln(w, strings.TrimRight(line, " "))
		}
	}
	if len(files) == 1 && len(steps[0]) > 0 {
		if len(files[0].Vary) > 0 {
			fmt.Fprintln(w, "Each axis is that of the rung that loads the part most.")
		}
		fmt.Fprintf(w, "Given alone it is sent in %s:\n", report.Plural(len(steps[0]), "step"))
		for i, st := range steps[0] {
			for j, l := range report.Wrap(st.text(), report.Width-6) {
				at := "    "
				if j == 0 {
					at = fmt.Sprintf("%3d ", i+1)
				}
				fmt.Fprintln(w, at+report.Printable(l))
			}
		}
	}
	return nil
}

// shownShape is a shape in JSON, with the steps that the workload is sent in.
type shownShape struct {
	*workload.Shape
	Steps []shownStep `json:"steps,omitempty"`
}

// shownStep is a step of a ladder as a run sends it.
type shownStep struct {
	Users     int               `json:"users,omitempty"`
	Requests  int               `json:"requests,omitempty"`
	DurationS float64           `json:"duration_s,omitempty"`
	Set       map[string]string `json:"set,omitempty"`
	Parts     []shownPart       `json:"parts,omitempty"`
}

// shownPart is what some of the users of a step send.
type shownPart struct {
	Workload string            `json:"workload,omitempty"`
	Weight   int               `json:"weight"`
	Set      map[string]string `json:"set,omitempty"`
}

// text says a step in a line.
func (s *shownStep) text() string {
	out := report.Plural(s.Users, "user")
	switch {
	case s.Requests > 0:
		out += ", " + report.Plural(s.Requests, "request")
	case s.DurationS > 0:
		out += ", " + report.Seconds(s.DurationS)
	}
	if len(s.Set) > 0 {
		out += ": " + fieldsText(s.Set)
	}
	if len(s.Parts) > 0 {
		texts := make([]string, len(s.Parts))
		for i, p := range s.Parts {
			what := []string{}
			if p.Workload != "" {
				what = append(what, p.Workload)
			}
			if len(p.Set) > 0 {
				what = append(what, fieldsText(p.Set))
			}
			if len(what) == 0 {
				what = append(what, "the workload itself")
			}
			texts[i] = strings.Join(what, " with ")
			if p.Weight > 1 {
				texts[i] = strconv.Itoa(p.Weight) + " of " + texts[i]
			}
		}
		out += "; side by side " + strings.Join(texts, ", ")
	}
	return out
}

// fieldsText writes fields with their values, by path.
func fieldsText(set map[string]string) string {
	var out []string
	for _, p := range slices.Sorted(maps.Keys(set)) {
		out = append(out, p+"="+set[p])
	}
	return strings.Join(out, ", ")
}

// ladder are the steps that a run makes of a workload that is given alone; of one whose
// fields are set here, which no run can do, the rungs of its file.
func (c *workloadsShowCmd) ladder(a *app, name string, f *workload.File) []shownStep {
	var out []shownStep
	if len(c.Set) > 0 || name == "-" {
		for _, rung := range f.Rungs() {
			st := shownStep{Users: 1, Set: map[string]string{}}
			for _, s := range rung {
				st.Set[s.Path] = s.Value
			}
			out = append(out, st)
		}
		return out
	}
	for _, l := range probe.Ladder(name, a.env.readFile) {
		st := shownStep{Users: l.Users, Requests: l.Requests, DurationS: l.Duration.Seconds(), Set: l.Set}
		for _, p := range l.Parts {
			st.Parts = append(st.Parts, shownPart{p.Workload, max(p.Weight, 1), p.Set})
		}
		out = append(out, st)
	}
	return out
}

// source returns the text of the one workload that is shown, none of one that came
// from standard input, which was read to its end.
func (c *workloadsShowCmd) source(a *app) ([]byte, error) {
	switch {
	case c.Names[0] == "-":
		return nil, nil
	case workload.IsFile(c.Names[0]):
		return a.env.readFile(c.Names[0])
	}
	data, err := workload.Source(c.Names[0])
	if err != nil {
		return nil, err
	}
	// The long sentence of a file of the library is one line, and was shown already.
	var out []byte
	for line := range bytes.Lines(data) {
		if !bytes.HasPrefix(line, []byte("about:")) {
			out = append(out, line...)
		}
	}
	return out, nil
}

// indent sets a text off.
func indent(data []byte) string {
	var b strings.Builder
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			line = "  " + report.Printable(line)
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// scaled writes a number with the prefix of its power of a thousand.
func scaled(x float64) string {
	for _, p := range []string{"", "k", "M", "G", "T", "P"} {
		if x < 999.5 {
			return fmt.Sprintf("%.3g %s", x, p)
		}
		x /= 1000
	}
	return fmt.Sprintf("%.3g E", x)
}

type workloadsPreviewCmd struct {
	Name    string `arg:"" help:"A workload of the library, or a file of your own (.yaml)."`
	Session uint64 `name:"session" placeholder:"N" help:"Which session (default 0)."`
	Turns   int    `name:"turns" default:"2" placeholder:"N" help:"How many of its turns."`
	Seed    uint64 `name:"seed" default:"1" placeholder:"N" help:"The seed of the run."`
	Full    bool   `name:"full" help:"Whole texts, not their beginnings."`
	setFlag
	outputFlag
}

func (*workloadsPreviewCmd) Help() string {
	return "Nothing is sent. Where the server's own answer would come back as history, a note stands for it. In front of each part are its role and the layer that it belongs to: system (everybody's), group, session (one user's), turn (new), history."
}

func (*workloadsPreviewCmd) Examples() []string {
	return []string{
		"plimsoll workloads preview legal/contract-review",
		"plimsoll workloads preview research/citation-expansion --turns 1 --full",
	}
}

// previewed is a request in JSON.
type previewed struct {
	Session   uint64          `json:"session"`
	Turn      uint32          `json:"turn"`
	Branch    bool            `json:"branch"`
	DueS      float64         `json:"due_s"`
	SearchS   *float64        `json:"retrieval_s"`
	MaxTokens int             `json:"max_tokens"`
	Exact     bool            `json:"exact"`
	Prompt    int             `json:"prompt_tokens"`
	Parts     []previewedPart `json:"parts"`
}

type previewedPart struct {
	Role      string `json:"role"`
	Layer     string `json:"layer"`
	Generator string `json:"generator,omitempty"`
	Tokens    int    `json:"tokens"`
	Text      string `json:"text"`
}

var layerNames = map[message.Layer]string{
	message.LayerTurn: "turn", message.LayerSystem: "system", message.LayerGroup: "group", message.LayerSession: "session", message.LayerHistory: "history",
}

// previewRequests bounds what a preview makes.
const previewRequests = 200

func (c *workloadsPreviewCmd) Run(a *app) error {
	if c.Turns < 1 {
		return usagef("workloads preview: --turns %d: want at least 1", c.Turns)
	}
	wait := newProgress(a.env, false)
	wait.prepare("reading the documents")
	defer wait.close()
	f, r, err := c.open(a, c.Name)
	if err != nil {
		return usagef("workloads preview: %w", err)
	}
	p := previewer{render: r, turns: uint32(c.Turns)}
	m := workload.NewSessions(c.Seed, f).Session(0, c.Session)
	for action := m.Start(0); ; {
		next, ok := p.step(m, action)
		if !ok {
			break
		}
		action = next
	}
	if p.full {
		return errors.New("workloads preview: too many requests: ask for fewer --turns")
	}
	if c.Output == "json" {
		return a.printJSON(map[string]any{"schema": "plimsoll.preview/1", "workload": f.Name, "requests": p.out})
	}
	w := a.env.Stdout
	for i, q := range p.out {
		if i > 0 {
			fmt.Fprintln(w)
		}
		what := fmt.Sprintf("turn %d", q.Turn)
		if q.Branch {
			what += ", branch"
		}
		limit := "as long as the server likes"
		if q.MaxTokens > 0 {
			limit = fmt.Sprintf("at most %d tokens", q.MaxTokens)
			if q.Exact {
				limit = fmt.Sprintf("exactly %d tokens", q.MaxTokens)
			}
		}
		fmt.Fprintf(w, "== session %d, %s: %s tokens, answered with %s\n", q.Session, what, report.Count(int64(q.Prompt)), limit)
		if q.SearchS != nil {
			fmt.Fprintf(w, "-- after a search of %s\n", report.Seconds(*q.SearchS))
		}
		for _, part := range q.Parts {
			of := ""
			if part.Generator != "" {
				of = ", " + part.Generator
			}
			fmt.Fprintf(w, "-- %s, %s layer, %d tokens%s\n", part.Role, part.Layer, part.Tokens, of)
			text := part.Text
			if !c.Full {
				text = beginning(text)
			}
			for par := range strings.SplitSeq(text, "\n") {
				for _, line := range report.Wrap(par, report.Width-1) {
					fmt.Fprintln(w, line)
				}
			}
		}
	}
	return nil
}

// beginning cuts a text to what a person looks at.
func beginning(text string) string {
	const most = 240
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	runes := []rune(text)
	return string(runes[:most]) + " […]"
}

// previewer is a driver that answers every request with a note.
type previewer struct {
	render *content.Renderer
	turns  uint32
	out    []previewed
	full   bool
}

// step carries out one action and returns the next, false at the end.
func (p *previewer) step(m workload.Machine, a workload.Action) (workload.Action, bool) {
	if a.Kind == workload.End || a.Turn >= p.turns && a.Kind != workload.Wait {
		return a, false
	}
	if len(p.out) >= previewRequests {
		p.full = true
		return a, false
	}
	switch a.Kind {
	case workload.Send:
		o := p.request(&a, false)
		return m.Done(o.Ended, o), true
	case workload.Fork:
		var all workload.Outcome
		for _, b := range slices.Clone(a.Branches) {
			action := b.Start(a.At)
			o := p.request(&action, true)
			b.Done(o.Ended, o)
			all.Ended = max(all.Ended, o.Ended)
		}
		return m.Done(all.Ended, all), true
	default:
		return m.Done(a.At, workload.Outcome{}), true
	}
}

// request keeps one request, and answers it after a second.
func (p *previewer) request(a *workload.Action, branch bool) workload.Outcome {
	q := previewed{
		Session: a.Session, Turn: a.Turn, Branch: branch, DueS: float64(a.At) / 1e9,
		MaxTokens: a.Request.MaxTokens, Exact: a.Request.Exact, Prompt: a.Request.PromptTokens(),
	}
	end := a.At + 1e9
	if s := a.Retrieval; s != nil {
		d := float64(s.Duration) / 1e9
		if q.SearchS = &d; s.URL != "" {
			q.SearchS = nil
		}
		end += s.Duration
	}
	for i := range a.Request.Parts {
		part := &a.Request.Parts[i]
		shown := previewedPart{Role: part.Role.String(), Layer: layerNames[part.Layer], Generator: part.Generator, Tokens: part.Tokens}
		switch {
		case part.Media != nil:
			shown.Text = fmt.Sprintf("[%s of %d x %d pixels, seed %x]", part.Media.Kind, part.Media.Width, part.Media.Height, part.Media.Seed)
			if part.Media.Kind == message.Audio {
				shown.Text = fmt.Sprintf("[%s of %g s, seed %x]", part.Media.Kind, part.Media.Seconds, part.Media.Seed)
			}
		case len(part.Calls) > 0:
			shown.Generator = ""
			shown.Text = part.Text
			for _, call := range part.Calls {
				shown.Text += fmt.Sprintf("[calls %s(%s)]", call.Name, call.Arguments)
			}
		case part.Text != "":
			shown.Generator, shown.Text = "", part.Text
		default:
			shown.Text = string(p.render.AppendText(nil, part))
		}
		q.Parts = append(q.Parts, shown)
	}
	p.out = append(p.out, q)
	o := workload.Outcome{OutputTokens: int32(a.Request.MaxTokens), ReasoningTokens: int32(a.Request.ReasoningTokens), Ended: end}
	o.Text = fmt.Sprintf("[the server's answer to turn %d]", a.Turn)
	if branch {
		// Each branch's answer is its own.
		o.Text = fmt.Sprintf("[the server's answer to a branch of turn %d, %04x]", a.Turn, random.Derive(a.Request.Parts[len(a.Request.Parts)-1].Seed)&0xffff)
	}
	return o
}
