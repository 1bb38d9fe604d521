package cli

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs whole commands in this process, each script in a folder of
// its own. Beside testscript's own commands there are:
//
//	plimsoll ARGS...       must exit with 0 (with ! in front: with anything else)
//	exits CODE ARGS...     must exit with CODE
//	interrupted AFTER ...  like exits 130, with Ctrl-C after that time
//	serve NAME VAR         starts the server NAME and puts its URL into VAR
//	columns N              the last output has no line of more than N columns
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"plimsoll": func(ts *testscript.TestScript, neg bool, args []string) {
				code := invoke(ts, args, nil)
				if neg == (code == 0) {
					ts.Fatalf("exit code %d", code)
				}
			},
			"exits": func(ts *testscript.TestScript, neg bool, args []string) {
				want, err := strconv.Atoi(args[0])
				ts.Check(err)
				if code := invoke(ts, args[1:], nil); neg || code != want {
					ts.Fatalf("exit code %d, want %d", code, want)
				}
			},
			"interrupted": func(ts *testscript.TestScript, _ bool, args []string) {
				after, err := time.ParseDuration(args[0])
				ts.Check(err)
				ch := make(chan os.Signal, 1)
				timer := time.AfterFunc(after, func() { ch <- os.Interrupt })
				defer timer.Stop()
				if code := invoke(ts, args[1:], ch); code != exitInterrupted {
					ts.Fatalf("exit code %d, want %d", code, exitInterrupted)
				}
			},
			"serve": func(ts *testscript.TestScript, _ bool, args []string) {
				url, stop := serve(args[0])
				ts.Defer(stop)
				ts.Setenv(args[1], url)
			},
			"columns": func(ts *testscript.TestScript, _ bool, args []string) {
				n, err := strconv.Atoi(args[0])
				ts.Check(err)
				for _, name := range []string{"stdout", "stderr"} {
					for line := range strings.Lines(ts.ReadFile(name)) {
						if w := utf8.RuneCountInString(strings.TrimRight(line, "\n")); w > n {
							ts.Fatalf("%s: %d columns: %s", name, w, line)
						}
					}
				}
			},
		},
	})
}

func invoke(ts *testscript.TestScript, args []string, interrupts chan os.Signal) int {
	return Main(&Env{
		Args: args, Stdin: strings.NewReader(""), Stdout: ts.Stdout(), Stderr: ts.Stderr(),
		LookupEnv: func(name string) (string, bool) {
			v := ts.Getenv(name)
			return v, v != ""
		},
		Dir:        ts.MkAbs("."),
		Interrupts: interrupts,
	})
}

// serve starts one of the servers that the scripts name.
func serve(name string) (url string, stop func()) {
	var h http.Handler
	switch name {
	case "vllm": // the passive face of one engine
		mux := http.NewServeMux()
		mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Server", "uvicorn")
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"llama-3.1-8b","owned_by":"vllm","max_model_len":8192},{"id":"a\u001b[31mb"}]}`)
		})
		mux.HandleFunc("POST /v1/chat/completions", func(http.ResponseWriter, *http.Request) {})
		mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"version":"0.11.0"}`)
		})
		mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
		mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\"} 0\n")
		})
		h = mux
	case "locked": // wants a key
		h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer s3cret" {
				http.Error(w, `{"error":{"message":"no such key"}}`, http.StatusUnauthorized)
				return
			}
			_, _ = io.WriteString(w, `{"data":[{"id":"m"}]}`)
		})
	case "html": // a web site, not an API
		h = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<html>hello</html>")
		})
	case "silent": // accepts and says nothing
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		return "http://" + l.Addr().String(), func() { l.Close() }
	default:
		panic("no server " + name)
	}
	s := httptest.NewServer(h)
	return s.URL, s.Close
}

// TestHelpFits: the help of every command is there, has an example and fits
// 80 columns.
func TestHelpFits(t *testing.T) {
	var walk func(args []string)
	walk = func(args []string) {
		var out, errs bytes.Buffer
		code := Main(&Env{Args: append(args, "--help"), Stdout: &out, Stderr: &errs})
		if code != 0 || errs.Len() > 0 {
			t.Errorf("%v --help: exit code %d, stderr %q", args, code, errs.String())
		}
		help := out.String()
		for line := range strings.Lines(help) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
				t.Errorf("%v --help: %d columns: %s", args, n, line)
			}
		}
		_, commands, found := strings.Cut(help, "\nCommands\n")
		if !found {
			if !strings.Contains(help, "\nExamples\n") {
				t.Errorf("%v --help: no example", args)
			}
			return
		}
		commands, _, _ = strings.Cut(commands, "\n\n")
		for _, m := range regexp.MustCompile(`(?m)^  (\w+)`).FindAllStringSubmatch(commands, -1) {
			walk(append(args[:len(args):len(args)], m[1]))
		}
	}
	walk(nil)
}

// TestNearest: a slip of the fingers is told from a different word.
func TestNearest(t *testing.T) {
	names := []string{"run", "report", "check", "version"}
	f := func(got, want string) {
		t.Helper()
		if s := maybe(got, names); s != want {
			t.Errorf("maybe(%q) = %q, want %q", got, s, want)
		}
	}
	f("reprot", "; did you mean report?")
	f("chek", "; did you mean check?")
	f("versoin", "; did you mean version?")
	f("elephants", "")
	for i, a := range names {
		for _, b := range names[i:] {
			if distance(a, b) != distance(b, a) {
				t.Errorf("distance(%q, %q) is not symmetric", a, b)
			}
		}
		if distance(a, a) != 0 {
			t.Errorf("distance(%q, itself) is not 0", a)
		}
	}
}

// TestInterruptTwice: at the second interrupt Main returns although the command
// is still waiting for a server that says nothing.
func TestInterruptTwice(t *testing.T) {
	url, stop := serve("silent")
	defer stop()
	ch := make(chan os.Signal, 2)
	ch <- os.Interrupt
	ch <- os.Interrupt
	began := time.Now()
	code := Main(&Env{Args: []string{"check", url, "--timeout", "20s"}, Stdout: io.Discard, Stderr: io.Discard, Interrupts: ch})
	if code != exitInterrupted || time.Since(began) > 10*time.Second {
		t.Errorf("exit code %d after %s, want %d at once", code, time.Since(began), exitInterrupted)
	}
}
