package scenario

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"plimsoll/internal/strictyaml"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// corpusEnv is the environment that the files of the corpus are read in.
func corpusEnv(name string) (string, bool) {
	v, ok := map[string]string{
		"KEY":    "SECRET123",
		"EMPTY":  "",
		"INJECT": "x\nload: {users: 3}",
	}[name]
	return v, ok
}

func readCorpus(t *testing.T, file string) (*Scenario, []byte, error) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Read(Source{Name: filepath.Base(file), Data: data, Getenv: corpusEnv, Seed: seed7})
	return s, data, err
}

func corpus(t *testing.T, dir string, least int) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/" + dir + "/*.yaml")
	if err != nil || len(files) < least {
		t.Fatalf("%d files in testdata/%s (%v), want at least %d", len(files), dir, err, least)
	}
	return files
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", file, d)
	}
}

func TestBadCorpus(t *testing.T) {
	for _, file := range corpus(t, "bad", 100) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			s, _, err := readCorpus(t, file)
			if err == nil {
				t.Fatalf("no error, scenario %+v", s)
			}
			if s != nil {
				t.Errorf("a scenario beside the error")
			}
			errs, ok := errors.AsType[strictyaml.Errors](err)
			if !ok {
				t.Fatalf("error is a %T", err)
			}
			for _, e := range errs {
				if e.Problem == "" || (e.Line == 0) != (e.Col == 0) {
					t.Errorf("error without a problem or a column: %#v", e)
				}
			}
			if strings.Contains(err.Error(), "SECRET123") {
				t.Errorf("the error shows a secret: %v", err)
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

func TestGoodCorpus(t *testing.T) {
	for _, file := range corpus(t, "good", 15) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			s, _, err := readCorpus(t, file)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Validate(); err != nil {
				t.Errorf("Validate after Read: %v", err)
			}
			b, err := s.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(b, []byte("SECRET123")) {
				t.Errorf("the saved scenario holds a secret:\n%s", b)
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".saved", string(b))
			again, err := Read(Source{Name: "saved", Data: b, Getenv: corpusEnv, Seed: func() uint64 { return 99 }})
			if err != nil {
				t.Fatalf("read saved scenario: %v\n%s", err, b)
			}
			if d := cmp.Diff(s, again, cmpopts.IgnoreUnexported(Scenario{})); d != "" {
				t.Errorf("saved scenario differs (-ran +saved):\n%s", d)
			}
			if s.Hash() != again.Hash() {
				t.Errorf("hash of the saved scenario is %s, was %s", again.Hash(), s.Hash())
			}
			for _, v := range s.Plan() {
				if strings.Contains(v.Text+v.Origin, "SECRET123") {
					t.Errorf("the plan shows a secret: %+v", v)
				}
			}
		})
	}
}
