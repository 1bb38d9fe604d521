package trace

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plimsoll/internal/message"
	"plimsoll/internal/record"
	"plimsoll/internal/workload"
	"plimsoll/internal/workload/content"
)

// sent is one request as a driver carried it out.
type sent struct {
	id              string
	due, start, end int64
	parts           []message.Part
	prompt          int
	session         uint64
}

// driver carries out machines in virtual time, forks too.
type driver struct {
	t       interface{ Fatal(args ...any) }
	service func(id string) int64
	status  func(id string) record.Status
	replay  *Replay
	events  []event
	now     int64
	all     []sent
	order   int
	flight  int
	peak    int
}

type event struct {
	at    int64
	class int // ends before starts at one time
	order int
	do    func()
}

func (d *driver) at(t int64, class int, do func()) {
	d.order++
	d.events = append(d.events, event{t, class, d.order, do})
}

func (d *driver) run() {
	for n := 0; len(d.events) > 0; n++ {
		if n > 1<<20 {
			d.t.Fatal("the replay does not end")
		}
		i := 0
		for j := range d.events {
			a, b := d.events[j], d.events[i]
			if c := cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.class, b.class), cmp.Compare(a.order, b.order)); c < 0 {
				i = j
			}
		}
		e := d.events[i]
		d.events = slices.Delete(d.events, i, i+1)
		d.now = max(d.now, e.at)
		e.do()
	}
}

// act carries out an action; ended is called when the machine has.
func (d *driver) act(m workload.Machine, a workload.Action, ended func()) {
	switch a.Kind {
	case workload.End:
		ended()
	case workload.Wait:
		d.at(max(a.At, d.now), 1, func() { d.act(m, m.Done(d.now, workload.Outcome{}), ended) })
	case workload.Fork:
		left := len(a.Branches)
		for _, b := range a.Branches {
			d.at(max(a.At, d.now), 1, func() {
				d.act(b, b.Start(d.now), func() {
					if left--; left == 0 {
						d.act(m, m.Done(d.now, workload.Outcome{Ended: d.now}), ended)
					}
				})
			})
		}
	case workload.Send:
		d.at(max(a.At, d.now), 1, func() {
			node := m.(*machine).node
			id := d.replay.trace.Records[node].ID
			if id == "" {
				id = fmt.Sprint(node)
			}
			s := sent{id: id, due: a.At, start: d.now, parts: slices.Clone(a.Request.Parts), prompt: a.Request.PromptTokens(), session: a.Session}
			s.end = s.start + d.service(id)
			d.all = append(d.all, s)
			d.flight++
			d.peak = max(d.peak, d.flight)
			o := workload.Outcome{OutputTokens: int32(a.Request.MaxTokens), Ended: s.end}
			if d.status != nil {
				o.Status = d.status(id)
			}
			d.at(s.end, 0, func() {
				d.flight--
				d.act(m, m.Done(d.now, o), ended)
			})
		})
	}
}

// play carries out a whole trace.
func playTrace(t testing.TB, p *Replay, service func(id string) int64) *driver {
	t.Helper()
	d := &driver{t: t, replay: p, service: service}
	d.playAll()
	return d
}

func (d *driver) playAll() {
	for g := range d.replay.Groups() {
		m := d.replay.User(0, uint32(g))
		d.act(m, m.Start(0), func() {})
	}
	d.run()
}

func replay(t testing.TB, tr *Trace, opts ReplayOptions) *Replay {
	t.Helper()
	p, err := NewReplay(tr, opts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// promptTokens returns the length of the prompt of a record as it is replayed,
// when every answer is as long as recorded.
func promptTokens(t testing.TB, tr *Trace, i int) int {
	t.Helper()
	d := playTrace(t, replay(t, tr, ReplayOptions{}), func(string) int64 { return 1 })
	for _, s := range d.all {
		if s.id == tr.Records[i].ID || s.id == fmt.Sprint(i) {
			return s.prompt
		}
	}
	t.Fatalf("request %d was not sent", i)
	return 0
}

func TestCase128GraphTiming(t *testing.T) {
	const dir = "128-agentic-graph-timing"
	var want struct {
		Starts   map[string]int64 `json:"starts_ms"`
		Makespan int64            `json:"makespan_ms"`
		Peak     int              `json:"peak_in_flight"`
		Union    int64            `json:"tool_union_ms"`
	}
	expected(t, dir, &want)
	b, err := os.ReadFile(caseFile(dir, "input.json"))
	if err != nil {
		t.Fatal(err)
	}
	var in struct {
		Rows    []json.RawMessage `json:"rows"`
		Service map[string]int64  `json:"service_ms"`
		Spans   [][2]int64        `json:"tool_spans_ms"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		t.Fatal(err)
	}
	var sb strings.Builder
	for _, row := range in.Rows {
		if err := jsonCompactLine(&sb, row); err != nil {
			t.Fatal(err)
		}
	}
	for _, timing := range []Timing{Absolute, Causal} {
		tr, err := loadText(sb.String(), Options{}, Selection{})
		if err != nil {
			t.Fatal(err)
		}
		p := replay(t, tr, ReplayOptions{Timing: timing})
		if p.Needs() != workload.NeedFork || p.Groups() != 2 {
			t.Errorf("needs %v, %d groups", p.Needs(), p.Groups())
		}
		d := playTrace(t, p, func(id string) int64 { return in.Service[id] * 1e6 })
		got := want
		got.Starts, got.Makespan, got.Peak = map[string]int64{}, 0, d.peak
		for _, s := range d.all {
			got.Starts[s.id] = s.start / 1e6
			got.Makespan = max(got.Makespan, s.end/1e6)
			if s.due != s.start {
				t.Errorf("%s was due at %d and started at %d", s.id, s.due, s.start)
			}
		}
		got.Union = int64(union(in.Spans))
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", timing, diff)
		}
	}
}

// union is the time that is covered by any of the spans.
func union(spans [][2]int64) (sum int64) {
	s := slices.Clone(spans)
	slices.SortFunc(s, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	end := int64(0)
	for _, x := range s {
		sum += max(0, x[1]-max(x[0], end))
		end = max(end, x[1])
	}
	return sum
}

func TestCase140TurnWaits(t *testing.T) {
	const dir = "140-turn-waits-for-previous"
	var want struct {
		Absolute []int64 `json:"starts_timestamp_mode"`
		Lateness []int64 `json:"lateness_ms"`
		Think    []int64 `json:"starts_think_mode"`
		Flight   int     `json:"max_in_flight_per_session"`
	}
	expected(t, dir, &want)
	b, err := os.ReadFile(caseFile(dir, "input.json"))
	if err != nil {
		t.Fatal(err)
	}
	var in struct {
		Times   []int64 `json:"turn_timestamps_ms"`
		Service int64   `json:"service_ms"`
		Think   int64   `json:"think_ms"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		t.Fatal(err)
	}
	var stamped, delayed strings.Builder
	for i, at := range in.Times {
		fmt.Fprintf(&stamped, `{"session_id": "s", "timestamp": %d, "input_length": 10, "output_length": 2}`+"\n", at)
		when := `"timestamp": 0`
		if i > 0 {
			when = fmt.Sprintf(`"delay": %d`, in.Think)
		}
		fmt.Fprintf(&delayed, `{"session_id": "s", %s, "input_length": 10, "output_length": 2}`+"\n", when)
	}
	starts := func(text string, opts ReplayOptions) ([]int64, *Replay) {
		tr, err := loadText(text, Options{}, Selection{})
		if err != nil {
			t.Fatal(err)
		}
		p := replay(t, tr, opts)
		d := playTrace(t, p, func(string) int64 { return in.Service * 1e6 })
		if d.peak != want.Flight {
			t.Errorf("%d in flight", d.peak)
		}
		var out []int64
		for _, s := range d.all {
			out = append(out, s.start/1e6)
		}
		return out, p
	}
	got, p := starts(stamped.String(), ReplayOptions{})
	if d := gocmp.Diff(want.Absolute, got); d != "" {
		t.Error(d)
	}
	// 0, 500 and 1000 ms late.
	n, most, mean := p.Late()
	if n != 2 || most != time.Duration(want.Lateness[2])*time.Millisecond || mean != 750*time.Millisecond {
		t.Errorf("%d late, at most %v, mean %v", n, most, mean)
	}
	for _, c := range []struct {
		text   string
		timing Timing
	}{{delayed.String(), Absolute}, {delayed.String(), Causal}, {stamped.String(), Causal}} {
		got, p := starts(c.text, ReplayOptions{Timing: c.timing})
		if d := gocmp.Diff(want.Think, got); d != "" {
			t.Errorf("%s: %s", c.timing, d)
		}
		if n, _, _ := p.Late(); n != 0 {
			t.Errorf("%d late", n)
		}
	}
}

// Prompts are as long as the trace says, in every form that says it.
func TestPromptLengths(t *testing.T) {
	fixed := load(t, caseFile("130-mooncake-ceil-rule", "trace.jsonl"), Options{OnBadRow: Fix}, Selection{})
	for i, want := range []int{512, 513, 1024, 20, 1025} {
		if got := promptTokens(t, fixed, i); got != want {
			t.Errorf("mended row %d has a prompt of %d tokens, want %d", i+1, got, want)
		}
	}
	const dir = "139-cumulative-or-delta-turns"
	var want struct {
		Cumulative []int `json:"prompts_cumulative"`
		Delta      []int `json:"prompts_if_delta"`
	}
	expected(t, dir, &want)
	b, err := os.ReadFile(caseFile(dir, "trace.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	plain := strings.ReplaceAll(string(b), `, "hash_ids": [1]`, "")
	for _, c := range []struct {
		text string
		opts Options
		want []int
	}{
		{string(b), Options{}, want.Cumulative},
		{plain, Options{}, want.Cumulative},
		{plain, Options{Turns: "delta"}, want.Delta},
	} {
		tr, err := loadText(c.text, c.opts, Selection{})
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for i := range tr.Records {
			got = append(got, promptTokens(t, tr, i))
		}
		if d := gocmp.Diff(c.want, got); d != "" {
			t.Error(d)
		}
	}
	for _, f := range []string{"published/multi_session_large.csv", "published/sanitized_round_trace.jsonl", "samples/weka_trace.json", "samples/dynamo_agentic_mooncake.jsonl"} {
		tr := load(t, "testdata/"+f, Options{}, Selection{})
		d := playTrace(t, replay(t, tr, ReplayOptions{}), func(string) int64 { return 1e6 })
		if len(d.all) != len(tr.Records) {
			t.Errorf("%s: %d of %d requests were sent", f, len(d.all), len(tr.Records))
		}
		sum := 0
		for i := range tr.Records {
			sum += tr.Records[i].Input
		}
		for _, s := range d.all {
			sum -= s.prompt
		}
		if sum != 0 {
			t.Errorf("%s: prompts are %d tokens short in all", f, sum)
		}
	}
}

// render makes the text of a prompt.
func render(parts []message.Part) string {
	r := &Renderer{Inner: content.Words{}}
	var b []byte
	for i := range parts {
		if i > 0 {
			b = append(b, ' ')
		}
		b = r.AppendText(b, &parts[i])
	}
	return string(b)
}

// tokens counts as plain words do: a word or a mark is one.
func tokens(text string) int {
	return len(strings.Fields(strings.NewReplacer(".", " .", ",", " ,").Replace(text)))
}

func TestCase131FullAndPartial(t *testing.T) {
	const dir = "131-same-id-full-and-partial"
	var want struct {
		Tokens []int `json:"row_tokens"`
		Shared int   `json:"shared_prefix_tokens"`
	}
	expected(t, dir, &want)
	tr := load(t, caseFile(dir, "trace.jsonl"), Options{}, Selection{})
	d := playTrace(t, replay(t, tr, ReplayOptions{}), func(string) int64 { return 1 })
	a, b := render(d.all[0].parts), render(d.all[1].parts)
	got := want
	got.Tokens = []int{tokens(a), tokens(b)}
	got.Shared = 0
	if strings.HasPrefix(b, a) {
		got.Shared = tokens(a)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Equal hashes are equal text, others are not, whatever the order and the seed of
// the rows around them; another seed is other text.
func TestHashesAreText(t *testing.T) {
	tr := load(t, "testdata/samples/mooncake_lengths.jsonl", Options{}, Selection{})
	texts := func(seed uint64) []string {
		var out []string
		for _, s := range playTrace(t, replay(t, tr, ReplayOptions{Seed: seed}), func(string) int64 { return 1 }).all {
			out = append(out, render(s.parts))
		}
		return out
	}
	one, again, other := texts(1), texts(1), texts(2)
	if d := gocmp.Diff(one, again); d != "" {
		t.Error("equal seeds make other texts")
	}
	if one[0] == other[0] {
		t.Error("another seed makes the same text")
	}
	// Blocks 0 and 1 are shared: 1024 tokens; then 6 tokens of block 2 stand against
	// block 3.
	a, b := strings.Fields(one[0]), strings.Fields(one[1])
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	if got := tokens(strings.Join(a[:n], " ")); got != 1024 {
		t.Errorf("%d tokens are shared, want 1024", got)
	}
}

func TestTextSessions(t *testing.T) {
	say := func(d *driver) []string {
		var out []string
		for _, s := range d.all {
			line := ""
			for _, p := range s.parts {
				text := p.Text
				if text == "" {
					text = fmt.Sprintf("<%d made>", p.Tokens)
				}
				line += p.Role.String() + "=" + text + " "
			}
			out = append(out, strings.TrimSpace(line))
		}
		return out
	}
	tr := load(t, "testdata/samples/mooncake_messages_delta.jsonl", Options{}, Selection{})
	p := replay(t, tr, ReplayOptions{})
	if p.Needs() != workload.NeedText|workload.NeedTools {
		t.Errorf("needs %v", p.Needs())
	}
	d := playTrace(t, p, func(string) int64 { return 1e6 })
	if diff := gocmp.Diff([]string{"user=Hi", "user=Hi assistant=<4 made> user=More"}, say(d)); diff != "" {
		t.Error(diff)
	}
	if got := d.all[1].start; got != 501e6 {
		t.Errorf("the second turn started at %d, want 501 ms", got)
	}
	tr = load(t, "testdata/samples/mooncake_messages_history.jsonl", Options{}, Selection{})
	if diff := gocmp.Diff([]string{"user=Hi", "user=Hi assistant=recorded user=More"}, say(playTrace(t, replay(t, tr, ReplayOptions{}), func(string) int64 { return 1 }))); diff != "" {
		t.Error(diff)
	}
	tr = load(t, caseFile("148-sharegpt-roles", "sharegpt.json"), Options{}, Selection{})
	p = replay(t, tr, ReplayOptions{RecordedAnswers: true, Output: 7})
	d = &driver{t: t, replay: p, service: func(string) int64 { return 1 }}
	for k := range uint64(p.Groups()) {
		m := p.Session(0, k)
		d.act(m, m.Start(d.now), func() {})
		d.run()
	}
	if diff := gocmp.Diff([]string{"user=q1", "user=q1 assistant=r1 user=q2", "user=q", "system=s user=q", "user=q"}, say(d)); diff != "" {
		t.Error(diff)
	}
	if p.Needs() != 0 {
		t.Errorf("needs %v", p.Needs())
	}
}

// A turn whose history lacks an answer is not sent, and is counted.
func TestFailedTurnEndsItsSession(t *testing.T) {
	tr := load(t, "testdata/samples/mooncake_messages_delta.jsonl", Options{}, Selection{})
	p := replay(t, tr, ReplayOptions{})
	d := &driver{t: t, replay: p, service: func(string) int64 { return 1 }, status: func(string) record.Status { return record.Failed }}
	d.playAll()
	if len(d.all) != 1 || p.Aborted() != 1 {
		t.Errorf("%d sent, %d aborted", len(d.all), p.Aborted())
	}
}

func TestSpeedAndGapCap(t *testing.T) {
	text := `{"timestamp": 0, "input_length": 10, "output_length": 2}
{"timestamp": 1000, "input_length": 10, "output_length": 2}
{"timestamp": 61000, "input_length": 10, "output_length": 2}
{"timestamp": 62000, "input_length": 10, "output_length": 2}
`
	for _, c := range []struct {
		opts ReplayOptions
		want []int64
	}{
		{ReplayOptions{}, []int64{0, 1000, 61000, 62000}},
		{ReplayOptions{Speed: 2}, []int64{0, 500, 30500, 31000}},
		{ReplayOptions{GapCap: 5 * time.Second}, []int64{0, 1000, 6000, 7000}},
		{ReplayOptions{GapCap: 5 * time.Second, Speed: 10}, []int64{0, 100, 600, 700}},
	} {
		tr, err := loadText(text, Options{}, Selection{})
		if err != nil {
			t.Fatal(err)
		}
		p := replay(t, tr, c.opts)
		var got []int64
		for _, s := range p.Starts() {
			got = append(got, s/1e6)
		}
		if d := gocmp.Diff(c.want, got); d != "" {
			t.Errorf("%+v: %s", c.opts, d)
		}
		if c.opts.GapCap > 0 && !strings.Contains(p.Describe(), "gaps of at most 5s") || c.opts.Speed > 0 && !strings.Contains(p.Describe(), fmt.Sprintf("speed %g", c.opts.Speed)) {
			t.Errorf("%q does not say how", p.Describe())
		}
	}
	for _, o := range []ReplayOptions{{Speed: -1}, {Timing: "soon"}, {GapCap: -1}} {
		if _, err := NewReplay(&Trace{Summary: &Summary{}}, o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// An open loop is given each session at its time, and sends the same.
func TestSessionsOfAnOpenLoop(t *testing.T) {
	tr := load(t, "testdata/published/multi_session_large.csv", Options{}, Selection{})
	p := replay(t, tr, ReplayOptions{})
	closed := playTrace(t, p, func(string) int64 { return 7e6 })
	open := &driver{t: t, replay: p, service: func(string) int64 { return 7e6 }}
	for k, at := range p.Starts() {
		m := p.Session(0, uint64(k))
		open.at(at, 1, func() { open.act(m, m.Start(at), func() {}) })
	}
	open.run()
	sortSent := func(s []sent) {
		slices.SortFunc(s, func(a, b sent) int { return cmp.Compare(a.id, b.id) })
	}
	sortSent(closed.all)
	sortSent(open.all)
	if d := gocmp.Diff(closed.all, open.all, gocmp.AllowUnexported(sent{})); d != "" {
		t.Error(d)
	}
	if m := p.Session(0, 48); m.Start(0).Kind != workload.End {
		t.Error("there are 48 sessions")
	}
}

// Whatever waits for whom, everything is sent once, and nothing before what it
// waits for has ended.
func TestReplayOfAnyGraph(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "n")
		var sb strings.Builder
		deps := make([][]int, n)
		for i := range n {
			fmt.Fprintf(&sb, `{"request_id": "%d", "session_id": "s%d", "input_length": 5, "output_length": 2`, i, i)
			var wait []string
			for j := range i {
				if rapid.IntRange(0, 3).Draw(t, "edge") == 0 {
					deps[i] = append(deps[i], j)
					wait = append(wait, fmt.Sprintf("%q", fmt.Sprint(j)))
				}
			}
			if len(wait) > 0 {
				fmt.Fprintf(&sb, `, "wait_for": [%s], "delay": %d`, strings.Join(wait, ","), rapid.IntRange(0, 5).Draw(t, "delay"))
			} else {
				fmt.Fprintf(&sb, `, "timestamp": %d`, rapid.IntRange(0, 20).Draw(t, "at"))
			}
			sb.WriteString("}\n")
		}
		tr, err := loadText(sb.String(), Options{}, Selection{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewReplay(tr, ReplayOptions{})
		if err != nil {
			t.Fatal(err)
		}
		service := map[string]int64{}
		for i := range n {
			service[fmt.Sprint(i)] = int64(rapid.IntRange(1, 30).Draw(t, "service")) * 1e6
		}
		d := &driver{t: t, replay: p, service: func(id string) int64 { return service[id] }}
		d.playAll()
		at := map[string]sent{}
		for _, s := range d.all {
			if _, twice := at[s.id]; twice {
				t.Fatalf("%s was sent twice", s.id)
			}
			at[s.id] = s
		}
		if len(at) != n {
			t.Fatalf("%d of %d were sent", len(at), n)
		}
		for i := range n {
			for k := range tr.Records {
				r := &tr.Records[k]
				if r.ID != fmt.Sprint(i) {
					continue
				}
				want := r.At - 0
				if len(deps[i]) > 0 {
					want = 0
					for _, j := range deps[i] {
						want = max(want, at[fmt.Sprint(j)].end)
					}
					want += r.Delay
				}
				if got := at[r.ID].start; got != want {
					t.Fatalf("%s started at %d, want %d", r.ID, got, want)
				}
			}
		}
	})
}

// Whatever the length of an answer, what the next turn brings is the beginning of what
// was foreseen before it, as long as the trace says; and asking changes nothing.
func TestForeseenForAnyAnswer(t *testing.T) {
	const asked, longer = 60, 90
	for name, rows := range map[string]string{
		"whole prompts": `{"at_ns": 0, "session": "a", "input_tokens": 100, "output_tokens": 60}
{"session": "a", "input_tokens": 300, "output_tokens": 60}`,
		"too short for the answer": `{"at_ns": 0, "session": "a", "input_tokens": 100, "output_tokens": 60}
{"session": "a", "input_tokens": 130, "output_tokens": 60}`,
		"anew": `{"at_ns": 0, "session": "a", "input_tokens": 100, "output_tokens": 60}
{"session": "a", "input_tokens": 80, "output_tokens": 60}`,
		"a prefix": `{"at_ns": 0, "session": "a", "input_tokens": 100, "output_tokens": 60}
{"session": "a", "input_tokens": 300, "output_tokens": 60, "prefix_tokens": 130}`,
		"what is new": `{"at_ns": 0, "session": "a", "input_tokens": 100, "output_tokens": 60, "delta": true}
{"session": "a", "input_tokens": 30, "output_tokens": 60, "delta": true}`,
		"a fork": `{"at_ns": 0, "id": "1", "session": "a", "input_tokens": 100, "output_tokens": 60}
{"session": "b", "parent_session": "a", "forked": true, "after": ["1"], "input_tokens": 300, "output_tokens": 60}`,
		"no limit": `{"at_ns": 0, "session": "a", "input_tokens": 100}
{"session": "a", "input_tokens": 300, "output_tokens": 60}`,
	} {
		tr, err := loadText(rows, Options{Format: "plimsoll"}, Selection{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r := &Renderer{}
		for tokens := int32(-1); tokens <= longer; tokens++ {
			if tokens > asked && (name == "what is new" || name == "whole prompts" || name == "a prefix" || name == "a fork") {
				break // an answer longer than was asked for is made when it is there
			}
			p := replay(t, tr, ReplayOptions{Seed: 5})
			told, other := p.Session(0, 0), p.Session(0, 0)
			a := told.Start(0)
			other.Start(0)
			var foreseen []message.Part
			take := func(part *message.Part) { w, _ := r.Whole(part); foreseen = append(foreseen, w) }
			for i := range a.Request.Parts {
				take(&a.Request.Parts[i])
			}
			told.(workload.Foreseer).Foresee(take, func(func()) { t.Errorf("%s: there is nothing to count", name) })
			o := workload.Outcome{Status: record.OK, OutputTokens: tokens, Ended: 5}
			if tokens < 0 {
				o.Status = record.Failed
			}
			a = told.Done(5, o)
			want := tr.Records[1].Input
			if tr.Records[1].Delta {
				if tokens < 0 {
					continue // the session has ended
				}
				want += 100 + int(max(tokens, 0))
			}
			got := 0
			for i := range a.Request.Parts {
				part := &a.Request.Parts[i]
				got += part.Tokens
				w, _ := r.Whole(part)
				if !slices.ContainsFunc(foreseen, func(q message.Part) bool {
					return q.Generator == w.Generator && q.Seed == w.Seed && q.Tokens == w.Tokens
				}) {
					t.Errorf("%s: after %d tokens the turn brings %+v, which was not foreseen", name, tokens, w)
				}
			}
			if got != want {
				t.Errorf("%s: after %d tokens the prompt has %d, want %d", name, tokens, got, want)
			}
			if d := gocmp.Diff(other.Done(5, o).Request.Parts, a.Request.Parts); d != "" {
				t.Errorf("%s: asking has changed what comes:\n%s", name, d)
			}
		}
	}
}
