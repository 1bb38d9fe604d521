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
