package conduct

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/scenario"
	"plimsoll/internal/stats"
	"plimsoll/internal/twin"
)

// listing serves a list with one model of a context, and counts everything else that it
// is asked.
func listing(t *testing.T, context int) (url string, asked *int) {
	t.Helper()
	asked = new(int)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Path == "/v1/models" {
			_, _ = fmt.Fprintf(w, `{"object":"list","data":[{"id":"m","max_model_len":%d}]}`, context)
			return
		}
		if r.Method == http.MethodPost {
			*asked++
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

// What can never fit the context that the list of models states is refused before
// anything is sent, with the field and what to do.
func TestRunRefusesWhatCannotFit(t *testing.T) {
	f := func(name string, context int, want []string, sets ...string) {
		t.Run(name, func(t *testing.T) {
			url, asked := listing(t, context)
			_, err := Run(t.Context(), config(t, plan(t, append([]string{"target.url=" + url, "load.users=1", "load.requests=2"}, sets...)...)))
			if _, ok := errors.AsType[*UsageError](err); !ok {
				t.Fatalf("got %v, want a refusal", err)
			}
			for _, w := range want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%v\nlacks %q", err, w)
				}
			}
			if *asked > 0 {
				t.Errorf("%d requests were sent", *asked)
			}
		})
	}
	f("prompt", 131072, []string{"users.prompt-tokens: ", "200000 tokens", "131072 tokens, as its server says", "want at most 130944"}, "users.prompt-tokens=200000")
	f("answer", 8000, []string{"users.output-tokens: ", "want at most 7000"}, "users.prompt-tokens=1000", "users.output-tokens=9000")
	f("spread", 8000, []string{"users.prompt-tokens: "}, "users.prompt-tokens=uniform:9000..20000")
	f("workload", 8000, []string{"users.workload: healthcare/patient-summary: ", "prompt.session", "8000 tokens"}, "users.workload=healthcare/patient-summary")
	f("one of two", 8000, []string{"users.workload: healthcare/patient-summary: "}, "users.workload=finance/strategy-simulation,healthcare/patient-summary")
}

// What only now and then does not fit is said before the load, and of a prediction it is
// part of the verdict how many were refused.
func TestPredictTellsWhatMayNotFit(t *testing.T) {
	f := func(name string, context int, want []string, sets ...string) {
		t.Run(name, func(t *testing.T) {
			cfg := predictConfig(t, "", append([]string{"load.users=4", "load.requests=40"}, sets...)...)
			cfg.Cluster = twin.ClusterConfig{MaxModelLen: context}
			var notes []string
			cfg.Note = func(text string) { notes = append(notes, text) }
			res, err := Predict(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if len(want) == 0 {
				if len(notes) > 0 || res.Summary.Requests.Error > 0 {
					t.Errorf("notes %q, %d errors, want none", notes, res.Summary.Requests.Error)
				}
				return
			}
			if len(notes) != 1 {
				t.Fatalf("notes %q, want one", notes)
			}
			for _, w := range want {
				if !strings.Contains(notes[0], w) {
					t.Errorf("%s\nlacks %q", notes[0], w)
				}
			}
			i := slices.IndexFunc(res.Summary.Run.Reasons, func(r stats.Reason) bool { return r.Check == "failures" })
			if i < 0 {
				t.Fatalf("no reason of %d refused requests", res.Summary.Requests.Error)
			}
			if got, want := res.Summary.Run.Reasons[i].Text, fmt.Sprintf("%d of 40 requests were refused", res.Summary.Requests.Error); !strings.HasPrefix(got, want) {
				t.Errorf("the verdict says %q, want %q", got, want)
			}
		})
	}
	f("sessions that grow", 30000, []string{"legal/contract-review: ", "30000 tokens here", "session.max-context"}, "users.workload=legal/contract-review")
	f("a tail", 0, []string{"synthetic: ", "users.prompt-tokens a max"}, "users.prompt-tokens=lognormal:p50=60000,p99=400000", "guards.max-error-share=1")
	f("nothing", 0, nil, "users.workload=legal/contract-review")
}

// A ladder of which the upper steps do not fit goes on, and says how many.
func TestRoomOfLadder(t *testing.T) {
	s := plan(t, "target.url="+SimulatedURL, "users.workload=gpu-hbm/prefill-ladder", "load.users=1", "load.requests=2")
	for _, n := range []string{"1000", "4000", "16000"} {
		s.Load.Steps = append(s.Load.Steps, scenario.LoadStep{Users: 1, Requests: 1, Set: map[string]string{"prompt.turn": n}})
	}
	users, err := newCrowd(s, new(sources), nil)
	if err != nil {
		t.Fatal(err)
	}
	notes, err := users.room(s, 3, 8000, "the context is 8000 tokens")
	if err != nil || len(notes) != 1 || !strings.Contains(notes[0], "of 1 of its 3 steps that is all") {
		t.Errorf("notes %q, %v", notes, err)
	}
	if _, err = users.room(s, 3, 900, "the context is 900 tokens"); err == nil || !strings.Contains(err.Error(), "load.steps: gpu-hbm/prefill-ladder: ") {
		t.Errorf("got %v, want a refusal", err)
	}
}
