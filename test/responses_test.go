package test

import (
	"cmp"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"plimsoll/test/process"
)

// Sessions whose history the server keeps have the prompts of those that bring it
// along, find as much of them in its cache, and get answers as long.
func TestSessionsThatTheServerKeeps(t *testing.T) {
	t.Parallel()
	url := twin(t)
	dir := t.TempDir()
	const workload = "{name: talk, prompt: {system: 100, turn: 30}, output: 20, session: {turns: 4}}\n"
	if err := os.WriteFile(filepath.Join(dir, "talk.yaml"), []byte(workload), 0o600); err != nil {
		t.Fatal(err)
	}
	type turn struct{ Session, Turn, Prompt, Cached, Output float64 }
	measure := func(api string) (turns []turn) {
		r := process.Run(t, dir, limit, "run", "--url", url, "--api", api, "--workload", "./talk.yaml", "--users", "1", "--requests", "12", "--seed", "5",
			"--telemetry", "none", "--out", api)
		if r.Code != 0 && r.Code != 4 { // 4: the machine was too busy for a verdict
			t.Fatalf("%s: exit %d\n%s", api, r.Code, r.Stderr)
		}
		for _, row := range process.Rows(t, process.OnlyRun(t, filepath.Join(dir, api))) {
			if row["status"] != "ok" {
				t.Errorf("%s: %v", api, row)
			}
			turns = append(turns, turn{row.Number(t, "session"), row.Number(t, "turn"), row.Number(t, "prompt_tokens"), row.Number(t, "cached_tokens"), row.Number(t, "output_tokens")})
		}
		slices.SortFunc(turns, func(a, b turn) int { return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.Turn, b.Turn)) })
		return turns
	}
	chat := measure("openai.chat")
	resp, err := http.Post(url+"/reset_prefix_cache", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if d := gocmp.Diff(chat, measure("openai.responses")); d != "" {
		t.Errorf("(-chat +responses):\n%s", d)
	}
	if len(chat) != 12 || chat[3].Cached < chat[3].Prompt/2 {
		t.Errorf("%d turns, of the fourth %+v", len(chat), chat[3])
	}

	var facts struct {
		APIs []struct {
			API   string
			Probe map[string]any
		}
	}
	if err := json.Unmarshal([]byte(process.Must(t, dir, limit, "check", url, "--probe", "--output", "json").Stdout), &facts); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(facts.APIs, func(a struct {
		API   string
		Probe map[string]any
	},
	) bool {
		return a.API == "openai.responses"
	})
	if i < 0 {
		t.Fatalf("no responses in %+v", facts)
	}
	for _, what := range []string{"streaming", "usage", "exact_length", "non_stream", "done"} {
		if p := facts.APIs[i].Probe; p[what] != true {
			t.Errorf("%s is %v", what, p[what])
		}
	}
}
