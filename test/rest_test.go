package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"plimsoll/test/process"
)

// A run that is started by REST is the same as one of the command line: the same files,
// the same fields in them, and the same values of all that does not come of the clock.
func TestRESTIsTheCommandLine(t *testing.T) {
	t.Parallel()
	for name, scenario := range map[string]string{
		"steps": "load: {rate: [20, 40], requests: 30, drain: 20s}\nusers: {prompt-tokens: 'uniform:20..60', output-tokens: 8}\nguards: {slo: [ttft.p95=20s, tpot.mean=10s]}\ntag: {team: a}\n" +
			"data: {telemetry: none}\n",
		"sessions": "load: {users: 2, requests: 12, warmup: 200ms, drain: 20s}\nusers: {workload: [mine.yaml=2, synthetic]}\n" +
			"data: {save-text: true, telemetry: none}\n",
		"probe": "load: {users: 1, requests: 4, warmup: 0s}\nusers: {workload: gpu-hbm/prefill-ladder}\ndata: {telemetry: none}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := twin(t, "--step", "5ms")
			dir := t.TempDir()
			write := func(name, text string) {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			write("mine.yaml", "name: mine\nsession: {turns: 3}\nprompt:\n  turn: {tokens: 30, content: prose}\noutput: {tokens: 8}\n")
			text := fmt.Sprintf("name: same\nseed: 7\ntarget: {url: %q, ignore-eos: true}\n%s", url, scenario)
			write("same.yaml", text)
			if r := process.Run(t, dir, limit, "run", "same.yaml", "--out", "cli", "--quiet"); r.Code != 0 && r.Code != 4 { // 4: the machine was too busy for a verdict
				t.Fatalf("exit %d\n%s", r.Code, r.Stderr)
			}
			restRun(t, dir, text)
			a, b := process.OnlyRun(t, filepath.Join(dir, "cli")), process.OnlyRun(t, filepath.Join(dir, "rest"))
			if x, y := files(t, a), files(t, b); !slices.Equal(x, y) {
				t.Errorf("files of the command line %q, by REST %q", x, y)
			}
			for _, name := range []string{"run.json", "summary.json", "probe.json"} {
				x, y := facts(t, filepath.Join(a, name)), facts(t, filepath.Join(b, name))
				for _, k := range slices.Sorted(maps.Keys(x)) {
					if v, ok := y[k]; !ok || v != x[k] {
						t.Errorf("%s: %s is %s by the command line, %s by REST", name, k, x[k], v)
					}
				}
				for k := range y {
					if _, ok := x[k]; !ok {
						t.Errorf("%s: %s is %s by REST alone", name, k, y[k])
					}
				}
			}
			if x, y := saved(t, a), saved(t, b); x != y {
				t.Errorf("the scenario of the command line\n%s\nby REST\n%s", x, y)
			}
		})
	}
}

// restRun carries out a scenario in the folder rest of dir by a panel.
func restRun(t *testing.T, dir, scenario string) {
	t.Helper()
	p := process.Start(t, dir, "serve", "--runs", "rest", "--listen", "127.0.0.1:0", "--files", dir)
	panel := p.Panel()
	body, _ := json.Marshal(map[string]string{"scenario": scenario})
	r, err := http.NewRequest(http.MethodPost, panel+"api/runs", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Plimsoll", "1")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if res.StatusCode != http.StatusCreated {
		t.Fatalf("POST: %s %s", res.Status, answer)
	}
	var run struct{ ID string }
	if err := json.Unmarshal(answer, &run); err != nil {
		t.Fatal(err)
	}
	res, err = http.Get(panel + "api/runs/" + run.ID + "/events?after=0")
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || !strings.HasSuffix(string(all), "event: end\ndata: {}\n\n") {
		t.Fatalf("the stream of events broke off: %v", err)
	}
}

// files lists what is in a folder of a run; of how many parts there are time decides.
func files(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			// What was noticed while somebody watched is no part of the run.
			if name, _ := filepath.Rel(dir, path); name != "marks.json" {
				out = append(out, regexp.MustCompile(`part-[\d-]+`).ReplaceAllString(name, "part"))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Compact(out)
}

// saved is the scenario of a run, without the folder that it is in.
func saved(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "scenario.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^ +out: .*\n`).ReplaceAllString(string(b), "")
}

// chance is what a run says of the moments that it met: its verdict, what was noticed,
// and of which percentiles an interval can be given.
var chance = regexp.MustCompile(`^\.(verdict|run\.(verdict|reasons|notes)|findings|message)\b|\.(notes|warnings|ci95)\b`)

// moment are texts that say when, which run, and how times were spread.
var moment = regexp.MustCompile(`^20\d\d-\d\d-\d\dT[0-9:.]+Z$|^20\d{6}T\d{6}Z-|^A[A-Za-z0-9+/]+=*$`)

// facts are the fields of a JSON file by path: of numbers and moments what kind they
// are, and that a figure is not known is no other kind. A file that is not there has none.
func facts(t *testing.T, path string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	var v any
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		if chance.MatchString(path) {
			return
		}
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				walk(path+"."+k, x)
			}
		case []any:
			for _, x := range v {
				walk(path+"[]", x)
			}
		case nil, float64:
			out[path] = "a number"
		case string:
			out[path] = moment.ReplaceAllString(v, "a moment")
		default:
			out[path] = fmt.Sprint(v)
		}
	}
	walk("", v)
	return out
}
