package strictyaml

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

type level int

func (l *level) UnmarshalText(b []byte) error {
	switch string(b) {
	case "low":
		*l = 1
	case "high", "9":
		*l = 9
	default:
		return errors.New("want low or high")
	}
	return nil
}

func (l level) MarshalText() ([]byte, error) {
	if l == 9 {
		return []byte("high"), nil
	}
	return []byte("low"), nil
}

var (
	_ encoding.TextMarshaler   = level(0)
	_ encoding.TextUnmarshaler = (*level)(nil)
)

type Common struct {
	Note string `yaml:"note,omitempty"`
}

type inner struct {
	Count int           `yaml:"count,omitempty"`
	Wait  time.Duration `yaml:"wait,omitempty"`
}

type outer struct {
	Common `yaml:",inline"`
	Name   string             `yaml:"name,omitempty"`
	On     bool               `yaml:"on,omitempty"`
	Small  int8               `yaml:"small,omitempty"`
	Big    uint64             `yaml:"big,omitempty"`
	Rate   float64            `yaml:"rate,omitempty"`
	Ptr    *float64           `yaml:"ptr,omitempty"`
	Level  level              `yaml:"level,omitempty"`
	Levels []level            `yaml:"levels,omitempty"`
	Nums   []int              `yaml:"nums,omitempty"`
	Words  []string           `yaml:"words,omitempty"`
	In     inner              `yaml:"in,omitempty"`
	Ins    []inner            `yaml:"ins,omitempty"`
	Map    map[string]string  `yaml:"map,omitempty"`
	Deep   map[string]any     `yaml:"deep,omitempty"`
	Groups map[string]inner   `yaml:"groups,omitempty"`
	Floats map[string]float64 `yaml:"floats,omitempty"`
	hidden int
	Skip   int `yaml:"-"`
	Plain  int
}

func TestDecode(t *testing.T) {
	two := 2.5
	f := func(text string, want outer) {
		t.Helper()
		var got outer
		if err := Unmarshal("f", []byte(text), &got); err != nil {
			t.Errorf("%q: %v", text, err)
			return
		}
		if got.hidden != 0 {
			t.Errorf("%q: an unexported field was filled", text)
		}
		if d := cmp.Diff(want, got, cmp.AllowUnexported(outer{})); d != "" {
			t.Errorf("%q (-want +got):\n%s", text, d)
		}
	}
	f("note: n\nname: x\non: true\nsmall: -128\nbig: 18446744073709551615\nrate: 1e3\nptr: 2.5\nplain: 3",
		outer{Common: Common{Note: "n"}, Name: "x", On: true, Small: -128, Big: math.MaxUint64, Rate: 1000, Ptr: &two, Plain: 3})
	f("name: 007\nwords: [1, true, '', \"a,b\"]", outer{Name: "007", Words: []string{"1", "true", "", "a,b"}})
	f("level: high\nlevels: low,high", outer{Level: 9, Levels: []level{1, 9}})
	f("level: 9", outer{Level: 9})
	f("nums: 1, 2,4", outer{Nums: []int{1, 2, 4}})
	f("nums: 7", outer{Nums: []int{7}})
	f("nums: []", outer{Nums: []int{}})
	f("in: {count: 3, wait: 1h30m}", outer{In: inner{Count: 3, Wait: 90 * time.Minute}})
	f("in:\n  # nothing\nname: x", outer{Name: "x"})
	f("ins:\n- count: 1\n- wait: 5ms\n", outer{Ins: []inner{{Count: 1}, {Wait: 5 * time.Millisecond}}})
	f("ins: {count: 1}", outer{Ins: []inner{{Count: 1}}})
	f("map: {a: 1, b: x}", outer{Map: map[string]string{"a": "1", "b": "x"}})
	f("groups: {a: {count: 1}, b: {}}", outer{Groups: map[string]inner{"a": {Count: 1}, "b": {}}})
	f("ptr: null", outer{})
	f("deep: {a: 1, b: 1.5, c: 'x', d: [true, null, ~], e: {f: 007}, g: 18446744073709551615, h: '1'}", outer{Deep: map[string]any{
		"a": int64(1), "b": 1.5, "c": "x", "d": []any{true, nil, nil}, "e": map[string]any{"f": "007"}, "g": uint64(math.MaxUint64), "h": "1",
	}})
	f("words: &w [a, b]\nname: &n x\nnote: *n\nins: [&i {count: 2}, *i]", outer{Words: []string{"a", "b"}, Name: "x", Common: Common{Note: "x"}, Ins: []inner{{Count: 2}, {Count: 2}}})
	f("rate: .inf", outer{Rate: math.Inf(1)})
}

func TestEveryErrorAtItsPlace(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		var v outer
		err := Unmarshal("f", []byte(text), &v)
		if err == nil {
			t.Errorf("%q: no error", text)
			return
		}
		if d := cmp.Diff(want, err.Error()); d != "" {
			t.Errorf("%q (-want +got):\n%s", text, d)
		}
	}
	f("nmae: x", "f:1:1: nmae: unknown field; did you mean name?")
	f("字: {x: 1}\nname: [a]", "f:1:1: [\"字\"]: unknown field: want one of note, name, on, small, big, rate, ptr, level, levels, nums, words, in, ins, map, deep, groups, floats, plain\n"+
		"f:2:7: name: want text, got a list")
	// Columns count characters, not bytes.
	f("map: {\"字字\": a, b: [x]}", "f:1:19: map.b: want text, got a list")
	f("small: 128\nbig: -1\non: maybe", "f:1:8: small: the number is too large, got 128\nf:2:6: big: want a whole number of at least 0, got -1\nf:3:5: on: want true or false, got \"maybe\"")
	f("count: 3", "f:1:1: count: unknown field; did you mean in.count?")
	f("in: {count: a, wait: 3, cuont: 1}", "f:1:13: in.count: want a whole number, got \"a\"\nf:1:22: in.wait: want a duration with a unit (ns, us, ms, s, m, h): write 3s, got 3\nf:1:25: in.cuont: unknown field; did you mean in.count?")
	f("ins:\n- count: 1\n- count: x\n- a\n", "f:3:10: ins[1].count: want a whole number, got \"x\"\nf:4:3: ins[2]: want a group of fields (count, wait), got \"a\"")
	f("level: mid\nlevels: [low, lo]", "f:1:8: level: want low or high, got \"mid\"\nf:2:15: levels[1]: want low or high, got \"lo\"")
	f("name: a\nname: b\n", "f:2:1: name: given twice, first in line 1: remove one")
	f("deep: {a: {b: 1, b: 2}}", "f:1:18: deep.a.b: given twice, first in line 1: remove one")
	f("hidden: 1\nskip: 2", "f:1:1: hidden: unknown field: want one of note, name, on, small, big, rate, ptr, level, levels, nums, words, in, ins, map, deep, groups, floats, plain\n"+
		"f:2:1: skip: unknown field: want one of note, name, on, small, big, rate, ptr, level, levels, nums, words, in, ins, map, deep, groups, floats, plain")
	f("a:b", "f:1:1: want a group of fields (note, name, on, small, big, rate, ptr, level, levels, nums, words, in, ins, map, deep, groups, floats, plain) with a space after each colon, got \"a:b\"")
	f("rate: 0x10\nfloats: {a: 1_000, b: one}", "f:1:7: rate: want a number, got \"0x10\"\nf:2:13: floats.a: want a number, got \"1_000\"\nf:2:23: floats.b: want a number, got \"one\"")
}

func TestDurations(t *testing.T) {
	f := func(text string, want time.Duration, problem string) {
		t.Helper()
		got, p := parseDuration(text)
		if got != want || p != problem {
			t.Errorf("%q: %v, %q, want %v, %q", text, got, p, want, problem)
		}
	}
	f("30s", 30*time.Second, "")
	f("1h30m", 90*time.Minute, "")
	f("-5ms", -5*time.Millisecond, "")
	f("1.5s", 1500*time.Millisecond, "")
	f("0", 0, "want a duration with a unit (ns, us, ms, s, m, h): write 0s")
	f("30", 0, "want a duration with a unit (ns, us, ms, s, m, h): write 30s")
	f("2 h", 0, "want a duration without spaces: write 2h")
	f("2 hours", 0, "want a duration in ns, us, ms, s, m or h: write 2h")
	f("1.5d", 0, "want a duration in ns, us, ms, s, m or h: write 36h")
	f("5M", 0, "want a duration in ns, us, ms, s, m or h: write 5m")
	f("", 0, "want a duration with a unit (ns, us, ms, s, m, h), as in 30s")
	f("s", 0, "want a duration with a unit (ns, us, ms, s, m, h), as in 30s")
	for _, d := range []time.Duration{0, 1, time.Microsecond, 90 * time.Second, time.Hour, 36 * time.Hour, 1234567890123, -time.Minute} {
		s := FormatDuration(d)
		if s == "0s" && d == 0 {
			continue
		}
		if got, p := parseDuration(s); got != d || p != "" {
			t.Errorf("%v is written %s and read %v %s", d, s, got, p)
		}
	}
}

func TestPositions(t *testing.T) {
	d, err := Parse("f", []byte("in:\n  count: 3\nmap: {a.b: x, \"c d\": y}\nnums: [1,\n  2]\ndeep: {l: [{k: v}]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var v outer
	if err := d.Set(&v, "in.wait", "3s", "--wait", false, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := d.Decode(&v, Options{}); err != nil {
		t.Fatal(err)
	}
	f := func(path, want string, wantOK bool) {
		t.Helper()
		p, ok := d.At(path)
		if p.String() != want || ok != wantOK {
			t.Errorf("At(%s) = %s, %v, want %s, %v", path, p, ok, want, wantOK)
		}
	}
	f("in", "f:2:3", true)
	f("in.count", "f:2:10", true)
	f("in.wait", "--wait", true)
	f("in.unset", "f:2:3", true) // the group it would be in
	f(Join("map", "a.b"), "f:3:12", true)
	f(Join("map", "c d"), "f:3:22", true)
	f(Join("map", "x]y")+".z", "f:3:6", true)
	f("nums[1]", "f:5:3", true)
	f("deep.l[0].k", "f:6:16", true)
	f("name", "f", false)
	if d.Has("name") || !d.Has("in.wait") || d.Has("in.unset") {
		t.Error("Has is wrong")
	}
}

func TestSet(t *testing.T) {
	f := func(text, path, value string, check func(outer) bool) {
		t.Helper()
		d, err := Parse("f", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var v outer
		if err := d.Set(&v, path, value, "--set", false, Options{}); err != nil {
			t.Errorf("set %s=%s: %v", path, value, err)
			return
		}
		if err := d.Decode(&v, Options{}); err != nil {
			t.Errorf("set %s=%s: %v", path, value, err)
			return
		}
		if !check(v) {
			t.Errorf("set %s=%s gave %+v", path, value, v)
		}
	}
	f("name: a", "name", "b: [c", func(v outer) bool { return v.Name == "b: [c" })
	f("name: a", "name", "null", func(v outer) bool { return v.Name == "" })
	f("name: a", "in.count", "4", func(v outer) bool { return v.In.Count == 4 })
	f("in: {wait: 1s}", "in.count", "4", func(v outer) bool { return v.In.Count == 4 && v.In.Wait == time.Second })
	f("in:\nname: x", "in.count", "4", func(v outer) bool { return v.In.Count == 4 })
	f("nums: [1, 2]", "nums", "3,4", func(v outer) bool { return len(v.Nums) == 2 && v.Nums[1] == 4 })
	f("nums: 1", "nums", "[5]", func(v outer) bool { return len(v.Nums) == 1 && v.Nums[0] == 5 })
	f("map: {a: x}", "map.b.c", "y", func(v outer) bool { return v.Map["a"] == "x" && v.Map["b.c"] == "y" })
	f("map: {a: x}", "map", "b=y=z", func(v outer) bool { return v.Map["a"] == "x" && v.Map["b"] == "y=z" })
	f("map: {a: x}", "map", `{"b":"y"}`, func(v outer) bool { return len(v.Map) == 1 && v.Map["b"] == "y" })
	f("name: a", "deep.x.y", "7", func(v outer) bool { return v.Deep["x"].(map[string]any)["y"] == int64(7) })
	f("name: a", "deep", `{"x":[1,"2"]}`, func(v outer) bool { return v.Deep["x"].([]any)[1] == "2" })
	f("name: a", "ptr", "0.5", func(v outer) bool { return v.Ptr != nil && *v.Ptr == 0.5 })
	f("name: a", "level", "high", func(v outer) bool { return v.Level == 9 })

	bad := func(path, value, want string) {
		t.Helper()
		d := New("f")
		var v outer
		err := d.Set(&v, path, value, "--set", false, Options{})
		if err == nil {
			err = d.Decode(&v, Options{})
		}
		if err == nil || err.Error() != want {
			t.Errorf("set %s=%s: %v, want %s", path, value, err, want)
		}
	}
	bad("in.cuont", "1", "--set: in.cuont: unknown field; did you mean in.count?")
	bad("count", "1", "--set: count: unknown field; did you mean in.count?")
	bad("in", "1", "--set: in: is a group: set one of its fields (count, wait)")
	bad("name.x", "1", "--set: name.x: name has no fields inside; did you mean name?")
	bad("", "1", "--set: want the path of a field, as in load.users=8")
	bad("map", "novalue", "--set: map: want NAME=VALUE")
	bad("deep", "{[", "--set: deep: want YAML or JSON: not YAML: could not find flow map content")
	bad("deep..x", "1", "--set: deep..x: want a name between the dots")
	bad("nums", "1,x", "--set: nums[1]: want a whole number, got \"x\"")
	bad("in.count", "1.5", "--set: in.count: want a whole number, got 1.5")

	d := New("")
	var v outer
	for _, s := range []string{"a", "b,c"} {
		if err := d.Set(&v, "words", s, "--words", true, Options{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Decode(&v, Options{}); err != nil || strings.Join(v.Words, " ") != "a b c" {
		t.Errorf("repeated flag gave %q, %v", v.Words, err)
	}
}

// The first case is a file of a public report: numbers that stay strings, $ in
// passwords that is expanded, and secrets that are saved.
func TestInterpolate(t *testing.T) {
	env := func(name string) (string, bool) {
		v, ok := map[string]string{"API_KEY": "TESTKEY", "EMPTY": "", "INJECT": "a: b\nc: [d"}[name]
		return v, ok
	}
	d, err := Parse("f", []byte("rate: ${RATE:-4}\napi_key: ${API_KEY}\nnote: cost $$5\npassword: 'p$1x'\ninject: ${INJECT}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Interpolate(env); err != nil {
		t.Fatal(err)
	}
	var got any
	if err := d.Decode(&got, Options{}); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"rate": int64(4), "api_key": "TESTKEY", "note": "cost $5", "password": "p$1x", "inject": "a: b\nc: [d"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if diff := cmp.Diff(map[string]string{"rate": "${RATE:-4}", "api_key": "${API_KEY}", "inject": "${INJECT}"}, d.Raws()); diff != "" {
		t.Errorf("Raws (-want +got):\n%s", diff)
	}
	d, err = Parse("f", []byte("a: ${NO}\nb: [x, '${EMPTY}']\nc: ${no-name}\nd: ${open\n"))
	if err != nil {
		t.Fatal(err)
	}
	wantErr := "f:1:4: a: environment variable NO is not set: set it, or write ${NO:-default}\n" +
		"f:2:8: b[1]: environment variable EMPTY is empty: fill it, or write ${EMPTY:-default}\n" +
		"f:3:4: c: want ${NAME} or ${NAME:-default} with a variable's name, or $$ for a dollar sign\n" +
		"f:4:4: d: ${ without }: write ${NAME}, or $$ for a dollar sign"
	if err := d.Interpolate(env); err == nil || err.Error() != wantErr {
		t.Errorf("error\n%v\nwant\n%s", err, wantErr)
	}
}

func TestNearest(t *testing.T) {
	known := []string{"users", "rate", "duration", "max-in-flight", "ca"}
	f := func(name, want string) {
		t.Helper()
		if got := Nearest(name, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
	f("usres", "users")
	f("Users", "users")
	f("max_in_flight", "max-in-flight")
	f("maxinflight", "max-in-flight")
	f("durations", "duration")
	f("cb", "")
	f("xyz", "")
	f("", "")
	f(strings.Repeat("users", 1000), "")
	for i, a := range known {
		for _, b := range known[i:] {
			if Distance(a, b) != Distance(b, a) {
				t.Errorf("Distance(%q, %q) is not symmetric", a, b)
			}
		}
		if Distance(a, a) != 0 {
			t.Errorf("Distance(%q, itself) is not 0", a)
		}
	}
}

// hostile are texts that have to give an answer at once, whatever it is.
func hostile() map[string]string {
	const n = MaxBytes
	r := rand.New(rand.NewPCG(1, 2))
	random := func(alphabet string) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = alphabet[r.IntN(len(alphabet))]
		}
		return string(b)
	}
	printable := ""
	for c := ' '; c <= '~'; c++ {
		printable += string(c)
	}
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.Repeat(fmt.Sprintf("*%c,", c-1), 10))
	}
	out := map[string]string{
		"printable": random(printable), "marks": random(" \n:-[]{},&*!?|>'\"#%a1"), "alias bomb": bomb,
		"maps": strings.Repeat("a: b\n", n/5), "distinct": "", "nested maps": "",
	}
	for _, unit := range []string{"a", "[", "{", "{a:", "- ", "? ", "?\n", "a: ", "a:\n", "!a ", "&a ", "*a ", "'", "\"", "\"\\", "#\n", "%a\n", "---\n", "|\n", ">\n ", "a: |\n", ":", ",", "]", "- a\n", "? a\n", "\n", " ", "\t", "\r", "\x00", "\xff", "é", "\ufeff", "<<: *a\n", "a: &a *a\n", "[a: ", "{a: [", "- - a\n", "a: 'b\n", "a:\n- ", "&a [*a,", "...\n", "${A}"} {
		out[fmt.Sprintf("repeat %q", unit)] = strings.Repeat(unit, n/len(unit))
	}
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "key%d: value\n", i)
	}
	out["distinct"] = b.String()
	b.Reset()
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%sa:\n", strings.Repeat(" ", i))
	}
	out["nested maps"] = b.String()
	return out
}

// cpu is the processor time of this process so far, which no pause of the machine adds to.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestHostileTextIsAnErrorAtOnce(t *testing.T) {
	texts := hostile()
	texts["a megabyte"] = strings.Repeat("{[", 1<<19)
	for name, text := range texts {
		start := cpu()
		var v outer
		err := Unmarshal("f", []byte(text), &v)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		if e, ok := errors.AsType[Errors](err); !ok || len(e) == 0 {
			t.Errorf("%s: error is a %T", name, err)
		}
		if n := len(err.Error()); n > 64<<10 {
			t.Errorf("%s: the error has %d bytes", name, n)
		}
		// A wide bound for a slow machine: without the limits the quadratic
		// cases take minutes.
		if d := cpu() - start; d > 30*time.Second {
			t.Errorf("%s took %v of the processors", name, d)
		}
	}
}

func TestParserPanicIsAnError(t *testing.T) {
	err := guarded("f", func() { panic("boom") })
	if err == nil || !strings.Contains(err.Problem, "gave up") {
		t.Errorf("err = %v", err)
	}
}

// anyValue generates values as Decode gives them for any.
func anyValue(depth int) *rapid.Generator[any] {
	scalars := []*rapid.Generator[any]{
		rapid.String().AsAny(), rapid.Int64().AsAny(), rapid.Bool().AsAny(),
		rapid.Float64Range(-1e300, 1e300).AsAny(), rapid.Just[any](nil),
		rapid.SampledFrom([]any{"", " ", "null", "~", "true", "yes", "1", "1.5", "1e3", ".nan", "-", "- a", "a: b", "#", "a #b", "'", "\"", "\\", "\n", "\t", "---", "...", "{", "[", "*a", "&a", "!a", "%", "@", "`", "|", ">", "?", "=", "<<", "007", "1:30", "2024-01-01", "${A}", "$$", "$", "\u0085", "\u2028", "\ufeff", "é", "a:", ":a", "-1", "+1", ".5", "0x1"}),
	}
	if depth == 0 {
		return rapid.OneOf(scalars...)
	}
	return rapid.OneOf(append(scalars,
		rapid.Map(rapid.SliceOfN(anyValue(depth-1), 0, 4), func(x []any) any { return x }),
		rapid.Map(rapid.MapOfN(rapid.String(), anyValue(depth-1), 0, 4), func(x map[string]any) any { return x }),
	)...)
}

func TestMarshalReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := outer{
			Name: rapid.String().Draw(t, "name"), Small: rapid.Int8().Draw(t, "small"), Big: rapid.Uint64().Draw(t, "big"),
			Rate: rapid.Float64().Draw(t, "rate"), Words: rapid.SliceOfN(rapid.String(), 1, 3).Draw(t, "words"),
			Map:  rapid.MapOfN(rapid.String(), rapid.String(), 1, 3).Draw(t, "map"),
			Deep: map[string]any{"x": anyValue(3).Draw(t, "deep")},
			In:   inner{Count: rapid.Int().Draw(t, "count"), Wait: time.Duration(rapid.Int64().Draw(t, "wait"))},
			Ins:  []inner{{}, {Count: 1}}, Level: 9, Levels: []level{1, 9}, Groups: map[string]inner{"a b": {Count: 1}, "c": {}},
			Plain: 1,
		}
		escape := rapid.Bool().Draw(t, "escape")
		text, err := Marshal(&in, nil, escape)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := Parse("f", text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if escape {
			if err := doc.Interpolate(func(string) (string, bool) { return "REPLACED", true }); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
		}
		var out outer
		if err := doc.Decode(&out, Options{}); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if d := cmp.Diff(in, out, cmp.AllowUnexported(outer{})); d != "" {
			t.Fatalf("(-in +out):\n%s\n%s", d, text)
		}
	})
}

// page may be written as its address alone.
type page struct {
	At     string            `yaml:"at,short"`
	Fields map[string]string `yaml:"fields,omitempty"`
	On     bool              `yaml:"more,omitempty"`
}

type book struct {
	Pages []page `yaml:"pages"`
	First page   `yaml:"first"`
}

func TestShortForm(t *testing.T) {
	f := func(text string, want book, saved string) {
		t.Helper()
		doc, err := Parse("f", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := doc.Interpolate(func(n string) (string, bool) { return "secret" + n, true }); err != nil {
			t.Fatal(err)
		}
		var got book
		if err := doc.Decode(&got, Options{}); err != nil {
			t.Errorf("%q: %v", text, err)
			return
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q (-want +got):\n%s", text, d)
		}
		b, err := Marshal(&got, doc.Raws(), true)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(saved, string(b)); d != "" {
			t.Errorf("%q saved (-want +got):\n%s", text, d)
		}
	}
	f("pages: a\nfirst: x", book{Pages: []page{{At: "a"}}, First: page{At: "x"}}, "pages:\n  - a\nfirst: x\n")
	f("pages: a, b", book{Pages: []page{{At: "a"}, {At: "b"}}}, "pages:\n  - a\n  - b\nfirst: \"\"\n")
	f("pages: {at: a}", book{Pages: []page{{At: "a"}}}, "pages:\n  - a\nfirst: \"\"\n")
	f("pages: [a, {at: b, more: true}, {at: c, fields: {k: v}}]", book{Pages: []page{{At: "a"}, {At: "b", On: true}, {At: "c", Fields: map[string]string{"k": "v"}}}},
		"pages:\n  - a\n  -\n    at: b\n    more: true\n  -\n    at: c\n    fields:\n      k: v\nfirst: \"\"\n")
	// What came from a variable is saved by its name, wherever it stands.
	f("pages: \"a,${B}\"\nfirst: {at: \"${C}\"}", book{Pages: []page{{At: "a"}, {At: "secretB"}}, First: page{At: "secretC"}},
		"pages: \"a,${B}\"\nfirst:\n  at: \"${C}\"\n")
	f("pages: {at: a, fields: {k: \"${B}\"}}", book{Pages: []page{{At: "a", Fields: map[string]string{"k": "secretB"}}}},
		"pages:\n  -\n    at: a\n    fields:\n      k: \"${B}\"\nfirst: \"\"\n")
	f("pages: [\"${A}\", {at: \"${B}\", more: true}]", book{Pages: []page{{At: "secretA"}, {At: "secretB", On: true}}},
		"pages:\n  - \"${A}\"\n  -\n    at: \"${B}\"\n    more: true\nfirst: \"\"\n")

	var b book
	err := Unmarshal("f", []byte("pages: [[a], {zebra: b}]\nfirst: []"), &b)
	want := "f:1:9: pages[0]: want a value (at) or a group of fields (at, fields, more), got a list\n" +
		"f:1:15: pages[1].zebra: unknown field: want one of at, fields, more\n" +
		"f:2:8: first: want a value (at) or a group of fields (at, fields, more), got a list"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	leaves := Leaves(&book{Pages: []page{{At: "a"}, {At: "b", On: true}}, First: page{At: "x"}}, nil)
	if d := cmp.Diff([]Leaf{{"pages", "a, at=b, more=true"}, {"first", "x"}}, leaves); d != "" {
		t.Error(d)
	}
	doc := New("")
	if err := doc.Set(&b, "pages", "a,b", "--pages", false, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := doc.Set(&b, "pages", "[{at: c}]", "--pages", true, Options{}); err != nil {
		t.Fatal(err)
	}
	b = book{}
	if err := doc.Decode(&b, Options{}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]page{{At: "a"}, {At: "b"}, {At: "c"}}, b.Pages); d != "" {
		t.Error(d)
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, text := range hostile() {
		f.Add(text[:min(len(text), 200)])
	}
	f.Add("name: x\nin: {count: 3, wait: 1s}\nnums: 1,2\ndeep: {a: &a [1, *x]}\nmap: {a: b}\n")
	f.Add("? a\n: - b\n  - c: |\n     d\n")
	f.Fuzz(func(t *testing.T, text string) {
		start := cpu()
		doc, err := Parse("f", []byte(text))
		if d := cpu() - start; d > 3*time.Second {
			t.Fatalf("%d bytes took %v of the processors", len(text), d)
		}
		if err != nil {
			checkErrors(t, err)
			return
		}
		if err := doc.Interpolate(func(n string) (string, bool) { return n, n != "A" }); err != nil {
			checkErrors(t, err)
		}
		var v outer
		if err := doc.Decode(&v, Options{}); err != nil {
			checkErrors(t, err)
		}
		var x any
		if err := doc.Decode(&x, Options{}); err != nil {
			checkErrors(t, err)
		}
		text2, err := Marshal(&outer{Deep: map[string]any{"x": x}}, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(text2) > 1<<16 {
			return
		}
		var again outer
		if err := Unmarshal("again", text2, &again); err != nil {
			if strings.Contains(err.Error(), "more than") {
				return // the limits count what quoting adds
			}
			t.Fatalf("%v\n%s", err, text2)
		}
		// Not by cmp, which takes exponential time on nested lists; and by their
		// text, in which NaN equals NaN.
		if a, b := fmt.Sprintf("%#v", x), fmt.Sprintf("%#v", again.Deep["x"]); a != b {
			t.Fatalf("first %s\nagain %s\n%s", a, b, text2)
		}
	})
}

func checkErrors(t *testing.T, err error) {
	t.Helper()
	errs, ok := errors.AsType[Errors](err)
	if !ok || len(errs) == 0 {
		t.Fatalf("error is a %T: %v", err, err)
	}
	for _, e := range errs {
		if e.Problem == "" || e.Line < 0 || e.Col < 0 || e.Line > 0 && e.Col == 0 {
			t.Fatalf("odd error %#v", e)
		}
	}
}

// A group that stands as its short value alone can be set like any other.
func TestSetBesideAShortValue(t *testing.T) {
	type layer struct {
		Tokens  int    `yaml:"tokens,short"`
		Content string `yaml:"content"`
	}
	type file struct {
		Turn  layer  `yaml:"turn"`
		Other *layer `yaml:"other"`
	}
	f := func(path, value string, want file) {
		t.Helper()
		d, err := Parse("f.yaml", []byte("turn: 5\nother: 6\n"))
		if err != nil {
			t.Fatal(err)
		}
		var got file
		if err := d.Set(&got, path, value, "--set", false, Options{}); err != nil {
			t.Fatal(err)
		}
		if err := d.Decode(&got, Options{}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s=%s (-want +got):\n%s", path, value, diff)
		}
	}
	other := &layer{Tokens: 6}
	f("turn", "7", file{layer{Tokens: 7}, other})
	f("turn.tokens", "7", file{layer{Tokens: 7}, other})
	f("turn.content", "x", file{layer{5, "x"}, other})
	f("other.content", "x", file{layer{Tokens: 5}, &layer{6, "x"}})
}
