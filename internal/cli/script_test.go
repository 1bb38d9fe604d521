package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"

	"plimsoll/internal/conduct"
)

// TestScripts runs whole commands in this process, each script in a folder of
// its own. Beside testscript's own commands there are:
//
//	plimsoll ARGS...       must exit with 0 (with ! in front: with anything else)
//	exits CODE[,CODE] ...  must exit with one of these: on a busy machine a run may
//	                       be bound by this client (4) whatever else it is
//	interrupted WHEN[,WHEN] ...  like exits 130, with Ctrl-C at each of these moments in
//	                       turn: a time after the one before; busy:N, the server of
//	                       the command's --url has N requests in hand; said:TEXT,
//	                       standard error has it; there:FILE, a file matches that
//	letgo TEXT ...         like interrupted busy:2, and the server of --url lets go of
//	                       what it holds when standard error has the text
//	serve NAME VAR         starts the server NAME and puts its URL into VAR
//	same FIELD FILE FILE   both JSON files have the same value there
//	remove FILE NAME       removes a file of the run of that name
//	nonsense FILE          writes a megabyte of it
//	secret TEXT            with ! in front: no file below holds the text
//	env PATIENT=yes        the next runs wait as long as it takes for what servers say
//	                       of themselves
//	env STDIN=FILE         what the next commands read as standard input
//	columns N              standard output has no line of more than N columns
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
				code := invoke(ts, args[1:], nil)
				if neg || !slices.Contains(strings.Split(args[0], ","), strconv.Itoa(code)) {
					ts.Fatalf("exit code %d, want %s", code, args[0])
				}
			},
			"interrupted": func(ts *testscript.TestScript, _ bool, args []string) {
				interrupted(ts, strings.Split(args[0], ","), args[1:], nil)
			},
			"letgo": func(ts *testscript.TestScript, _ bool, args []string) {
				interrupted(ts, []string{"busy:2", "said:" + args[0]}, args[1:], holding(ts, args[1:]).release)
			},
			"serve": func(ts *testscript.TestScript, _ bool, args []string) {
				url, stop := serve(args[0])
				ts.Defer(stop)
				ts.Setenv(args[1], url)
			},
			"remove": func(ts *testscript.TestScript, _ bool, args []string) {
				found, err := filepath.Glob(ts.MkAbs("runs/*-" + args[1] + "/" + args[0]))
				ts.Check(err)
				if len(found) != 1 {
					ts.Fatalf("%d files", len(found))
				}
				ts.Check(os.Remove(found[0]))
			},
			"nonsense": func(ts *testscript.TestScript, _ bool, args []string) {
				b := bytes.Repeat([]byte("{[&* ~!\x00\xff%@: - |>'\"#\n"), 1<<20/20)
				ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o600))
			},
			"secret": func(ts *testscript.TestScript, neg bool, args []string) {
				found := false
				ts.Check(filepath.WalkDir(ts.MkAbs("."), func(path string, d fs.DirEntry, err error) error {
					if err != nil || d.IsDir() {
						return err
					}
					b, err := os.ReadFile(path)
					found = found || bytes.Contains(b, []byte(args[0]))
					return err
				}))
				if found == neg {
					ts.Fatalf("found: %v", found)
				}
			},
			"same": func(ts *testscript.TestScript, neg bool, args []string) {
				var got [2]any
				for i, name := range args[1:3] {
					var doc map[string]any
					ts.Check(json.Unmarshal([]byte(ts.ReadFile(name)), &doc))
					got[i] = doc[args[0]]
				}
				if got[0] == nil || (got[0] == got[1]) == neg {
					ts.Fatalf("%s: %v and %v", args[0], got[0], got[1])
				}
			},
			"columns": func(ts *testscript.TestScript, _ bool, args []string) {
				n, err := strconv.Atoi(args[0])
				ts.Check(err)
				for line := range strings.Lines(ts.ReadFile("stdout")) {
					if w := utf8.RuneCountInString(strings.TrimRight(line, "\n")); w > n {
						ts.Fatalf("%d columns: %s", w, line)
					}
				}
			},
		},
	})
}

// holding returns the server of a command's --url, which holds something.
func holding(ts *testscript.TestScript, args []string) *held {
	i := slices.Index(args, "--url")
	if i < 0 || i+1 == len(args) {
		ts.Fatalf("no --url in %q", args)
	}
	h, ok := heldBy.Load(args[i+1])
	if !ok {
		ts.Fatalf("%s holds nothing", args[i+1])
	}
	return h.(*held)
}

// interrupted runs a command with Ctrl-C at certain moments; instead of the last Ctrl-C
// it calls last, where that is not nil.
func interrupted(ts *testscript.TestScript, when, args []string, last func()) {
	ch, over, failed := make(chan os.Signal, len(when)), make(chan struct{}), make(chan string, 1)
	said := new(screenful)
	moments := make([]func() bool, len(when))
	for i, w := range when {
		kind, rest, _ := strings.Cut(w, ":")
		switch kind {
		case "busy":
			n, err := strconv.Atoi(rest)
			ts.Check(err)
			h := holding(ts, args)
			moments[i] = func() bool { return h.count() >= n }
		case "said":
			moments[i] = func() bool { return strings.Contains(said.String(), rest) }
		case "there":
			pattern := ts.MkAbs(rest)
			moments[i] = func() bool { found, err := filepath.Glob(pattern); return err == nil && len(found) > 0 }
		default:
			after, err := time.ParseDuration(w)
			ts.Check(err)
			var since time.Time
			moments[i] = func() bool {
				if since.IsZero() {
					since = time.Now()
				}
				return time.Since(since) >= after
			}
		}
	}
	go func() {
		for i, is := range moments {
			for begin := time.Now(); !is(); {
				select {
				case <-over:
					failed <- "it ended before " + when[i]
					return
				case <-time.After(5 * time.Millisecond): // real time: others are at work
				}
				if time.Since(begin) > 5*time.Minute {
					failed <- "never " + when[i]
					ch <- os.Interrupt
					ch <- os.Interrupt
					return
				}
			}
			if i == len(moments)-1 && last != nil {
				last()
			} else {
				ch <- os.Interrupt
			}
		}
		failed <- ""
	}()
	code := invokeTo(ts, args, ch, said)
	close(over)
	if text := <-failed; text != "" {
		ts.Fatalf("%s; exit code %d", text, code)
	}
	if code != exitInterrupted {
		ts.Fatalf("exit code %d, want %d", code, exitInterrupted)
	}
}

func invoke(ts *testscript.TestScript, args []string, interrupts chan os.Signal) int {
	return invokeTo(ts, args, interrupts, io.Discard)
}

// invokeTo is invoke, and copies what goes to standard error.
func invokeTo(ts *testscript.TestScript, args []string, interrupts chan os.Signal, errs io.Writer) int {
	stdin := ""
	if name := ts.Getenv("STDIN"); name != "" {
		stdin = ts.ReadFile(name)
	}
	var limits conduct.Limits
	if ts.Getenv("PATIENT") != "" {
		limits = conduct.Limits{Edge: time.Hour, Stop: time.Hour, Read: time.Hour, Search: time.Hour}
	}
	return Main(&Env{
		Args: args, Stdin: strings.NewReader(stdin), limits: limits, Stdout: ts.Stdout(), Stderr: io.MultiWriter(ts.Stderr(), errs),
		LookupEnv: func(name string) (string, bool) {
			v := ts.Getenv(name)
			return v, v != ""
		},
		Dir:        ts.MkAbs("."),
		Interrupts: interrupts,
	})
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
	code := Main(&Env{Args: []string{"check", url, "--get-timeout", "1h"}, Stdout: io.Discard, Stderr: io.Discard, Interrupts: ch})
	if code != exitInterrupted || time.Since(began) > 5*time.Minute {
		t.Errorf("exit code %d after %s, want %d at once", code, time.Since(began), exitInterrupted)
	}
}
