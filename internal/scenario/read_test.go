package scenario

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func seed7() uint64 { return 7 }

func TestFlagsAndFileMakeTheSamePlan(t *testing.T) {
	file := `
target: {url: "http://localhost:8000", model: m, header: {X-Team: a, X-Other: "b,c"}}
users: {prompt-tokens: "normal:512,64", output-tokens: 20}
load: {users: [1, 2, 4], duration: 30s, warmup: 5s}
guards: {slo: [ttft.p95=500ms, tpot.mean=40ms]}
tag: {gpu: h100}
`
	fromFile, err := Read(Source{Name: "f.yaml", Data: []byte(file), Seed: seed7})
	if err != nil {
		t.Fatal(err)
	}
	flags := Source{Seed: seed7}
	for _, f := range [][2]string{
		{"url", "http://localhost:8000"},
		{"model", "m"},
		{"header", "X-Team=a"},
		{"header", "X-Other=b,c"},
		{"prompt-tokens", "normal:512,64"},
		{"output-tokens", "20"},
		{"users", "1,2,4"},
		{"duration", "30s"},
		{"warmup", "5s"},
		{"slo", "ttft.p95=500ms"},
		{"slo", "tpot.mean=40ms"},
		{"tag", "gpu=h100"},
	} {
		path, ok := FlagPath(f[0])
		if !ok {
			t.Fatalf("no field for --%s", f[0])
		}
		flags.Settings = append(flags.Settings, Setting{Path: path, Value: f[1], Origin: "--" + f[0], Add: true})
	}
	fromFlags, err := Read(flags)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(fromFile, fromFlags, cmpopts.IgnoreUnexported(Scenario{})); d != "" {
		t.Errorf("file and flags differ (-file +flags):\n%s", d)
	}
	if fromFile.Hash() != fromFlags.Hash() {
		t.Errorf("hashes differ: %s, %s", fromFile.Hash(), fromFlags.Hash())
	}
	if fromFile.Load.Drain != time.Minute || fromFile.Target.API != APIChat {
		t.Errorf("defaults are missing: %+v", fromFile)
	}
}

func TestParseAppliesSets(t *testing.T) {
	s, err := Parse("f.yaml", []byte("target: {url: http://h}\nload: {users: 3}\n"), []string{"load.users=8", "load.requests=10"})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]int{8}, s.Load.Users); d != "" || s.Load.Requests != 10 || s.Load.Duration != 0 {
		t.Errorf("load = %+v", s.Load)
	}
	_, err = Parse("f.yaml", []byte("target: {url: http://h}\nload: {users: 3}\n"), []string{"load.usres=8", "guards.max-error-share=x", "novalue"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"--set: load.usres: unknown field; did you mean load.users?",
		`--set: guards.max-error-share: want a number, got "x"`,
		`--set "novalue": want PATH=VALUE`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, err)
		}
	}
}

func TestFlagPathIsUnambiguous(t *testing.T) {
	seen := map[string]string{}
	for _, p := range Paths() {
		flag := p[strings.LastIndexByte(p, '.')+1:]
		if other, ok := seen[flag]; ok {
			t.Errorf("--%s is both %s and %s", flag, other, p)
		}
		seen[flag] = p
		if got, ok := FlagPath(flag); !ok || got != p {
			t.Errorf("FlagPath(%s) = %s, %v, want %s", flag, got, ok, p)
		}
	}
	for _, later := range []string{"agents", "api-key"} {
		path, ok := FlagPath(later)
		if !ok {
			t.Errorf("FlagPath(%s): not known", later)
			continue
		}
		_, err := Read(Source{Settings: []Setting{{Path: path, Value: "SECRET123", Origin: "--" + later}}})
		if err == nil || !strings.Contains(err.Error(), "--"+later+": "+path+": ") || strings.Contains(err.Error(), "unknown") || strings.Contains(err.Error(), "SECRET123") {
			t.Errorf("--%s: %v", later, err)
		}
	}
	if p, ok := FlagPath("nonsense"); ok {
		t.Errorf("FlagPath(nonsense) = %s", p)
	}
}

func TestPlanSaysWhereValuesCameFrom(t *testing.T) {
	file := "target:\n  url: http://h/v1/completions\n  header: {X-Key: \"${K}\"}\nload:\n  users: 3\n  warmup: ${W:-5s}\n"
	s, err := Read(Source{
		Name: "f.yaml", Data: []byte(file), Seed: seed7, Getenv: func(n string) (string, bool) { return "SECRET123", n == "K" },
		Settings: []Setting{{Path: "load.users", Value: "4,8", Origin: "--users"}, {Path: "guards.slo", Value: "ttft.p95=1s", Origin: "--set"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][2]string{}
	for _, v := range s.Plan() {
		got[v.Path] = [2]string{v.Text, v.Origin}
	}
	for path, want := range map[string][2]string{
		"seed":                {"7", "drawn"},
		"target.url":          {"http://h/v1/completions", "f.yaml:2:8"},
		"target.api":          {"openai.completions", "the path in target.url"},
		"target.header.X-Key": {`"${K}"`, "f.yaml:3:19"},
		"target.usage":        {"final", "default"},
		"load.users":          {"4, 8", "--users"},
		"load.warmup":         {"5s", "f.yaml:6:11 ${W:-5s}"},
		"load.duration":       {"1m", "default"},
		"guards.slo":          {"ttft.p95=1s", "--set"},
	} {
		if got[path] != want {
			t.Errorf("%s: %q, want %q", path, got[path], want)
		}
	}
	if s.Target.Header["X-Key"] != "SECRET123" {
		t.Errorf("header = %q", s.Target.Header)
	}
}

func TestHashIsOfWhatIsSent(t *testing.T) {
	base := "target: {url: 'http://h'}\nload: {users: 4}\n"
	read := func(text string) string {
		t.Helper()
		s, err := Read(Source{Data: []byte(text)})
		if err != nil {
			t.Fatal(err)
		}
		return s.Hash()
	}
	want := read(base)
	for _, same := range []string{
		"load:\n  users: [4]\n  duration: 60s\ntarget:\n  url: [http://h]\n",
		base + "name: x\ntag: {a: b}\nseed: 9\ndata: {out: elsewhere, save-text: true}\n",
		base + "users: {prompt-tokens: 'fixed:512'}\n",
	} {
		if got := read(same); got != want {
			t.Errorf("hash %s, want %s, for\n%s", got, want, same)
		}
	}
	for _, other := range []string{
		"target: {url: 'http://h'}\nload: {users: 5}\n",
		"target: {url: 'http://h'}\nload: {users: 4, duration: 61s}\n",
		base + "guards: {slo: ttft.p95=1s}\n",
		base + "users: {prompt-tokens: 513}\n",
	} {
		if got := read(other); got == want {
			t.Errorf("equal hash for\n%s", other)
		}
	}
}

// A scenario that a program has made has no file: errors carry the path alone,
// and a header it fills in is its own business.
func TestValidateWithoutAFile(t *testing.T) {
	s := Default()
	s.Target.URL = []string{"http://h"}
	s.Target.Header = map[string]string{"Authorization": "Bearer x"}
	s.Load.Users = []int{2}
	s.Load.Requests = 5
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	s.Load.Rate = []float64{1}
	s.Users.OutputTokens = Dist{}
	want := "users.output-tokens: want 512, uniform:100..900, normal:512,64 or lognormal:p50=400,p99=4000\n" +
		"load.rate: give users or rate, not both; --set load.users=null drops the users, --set load.rate=null the rate\n" +
		"load.arrival: want one of constant, poisson, gamma, got \"\""
	err := s.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !strings.Contains(want, line) {
			t.Errorf("error %q", line)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("target: {url: 'http://h'}\nload: {users: 4}\n", "guards.slo=ttft.p95=1s")
	f.Add("target:\n  url: http://h\n  header: {a: '${X}'}\n  extra-body: {b: [1, {c: d}]}\nload: {rate: 1,2}\n", "target.extra-body={\"a\":1}")
	f.Add("users: {prompt-tokens: 'normal:1,2,min=3'}\n", "load.users=1,2")
	f.Fuzz(func(t *testing.T, text, set string) {
		src := Source{Name: "f", Data: []byte(text), Seed: seed7, Getenv: func(n string) (string, bool) { return "v", len(n) < 5 }}
		if st, err := ParseSet(set); err == nil {
			src.Settings = []Setting{st}
		}
		s, err := Read(src)
		if err != nil {
			if s != nil || err.Error() == "" {
				t.Fatal("odd error")
			}
			return
		}
		b, err := s.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		src.Data, src.Settings = b, nil
		again, err := Read(src)
		if err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		if s.Hash() != again.Hash() {
			b2, _ := again.Marshal()
			t.Fatalf("saved form reads back otherwise:\n%s\n%s", b, b2)
		}
		s.Plan()
	})
}
