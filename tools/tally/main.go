// Command tally reads the output of `go test -json` and prints what a person
// wants of it: skipped tests with their reasons, one line per package, and at the
// end, where a log that is cut still has it, the output of failed tests, their names
// and the counts. Lines that are not JSON (make, the compiler)
// pass. It never fails a check by itself: the exit code is go test's.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// event is one line of go test -json; see `go doc test2json`.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// maxOutput bounds what is kept and printed of one failed test.
const maxOutput = 24 << 10

func main() {
	w := bufio.NewWriter(os.Stdout)
	defer w.Flush()
	tally(os.Stdin, w)
}

// failure is a test, or a package as a whole, that failed or was cut short.
type failure struct {
	what, name string
	lines      []string
	// within says that one inside of it failed, whose output says why.
	within bool
}

func tally(from io.Reader, w io.Writer) {
	output := map[string][]string{} // by package and test
	var failures []failure
	passed, failed, skipped := 0, 0, 0
	in := bufio.NewScanner(from)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var e event
		if err := json.Unmarshal(in.Bytes(), &e); err != nil || e.Action == "" {
			fmt.Fprintln(w, in.Text())
			continue
		}
		key := strings.TrimSpace(e.Package + " " + e.Test)
		switch e.Action {
		case "output":
			if strings.HasPrefix(strings.TrimSpace(e.Output), "=== ") {
				continue
			}
			output[key] = append(output[key], e.Output)
		case "build-output":
			fmt.Fprint(w, e.Output)
		case "pass":
			if e.Test != "" {
				passed++
			} else {
				fmt.Fprintf(w, "ok    %s %.1f s\n", e.Package, e.Elapsed)
			}
			delete(output, key)
		case "skip":
			if e.Test != "" {
				skipped++
				fmt.Fprintf(w, "skip  %s%s\n", key, reason(output[key]))
			}
			delete(output, key)
		case "fail":
			if e.Test != "" {
				failed++
			}
			within := slices.ContainsFunc(failures, func(f failure) bool {
				return strings.HasPrefix(f.name, key+"/") || e.Test == "" && strings.HasPrefix(f.name, key+" ")
			})
			failures = append(failures, failure{"FAIL", key, output[key], within})
			delete(output, key)
		}
	}
	if err := in.Err(); err != nil {
		fmt.Fprintln(w, "tally:", err)
	}
	for _, key := range slices.Sorted(maps.Keys(output)) { // tests that a crash or a kill cut short
		if strings.Contains(key, " ") {
			failures = append(failures, failure{"CUT ", key, output[key], false})
		}
	}
	for _, f := range failures {
		show(w, f)
	}
	for _, f := range failures {
		if !f.within {
			fmt.Fprintf(w, "failed: %s%s\n", f.name, reason(f.lines))
		}
	}
	fmt.Fprintf(w, "tally: %d passed, %d failed, %d skipped\n", passed, failed, skipped)
}

// mostReason bounds what is told of a test in one line.
const mostReason = 300

// reason is the first thing that a test said, in front of which stands a colon: "" for none.
func reason(lines []string) string {
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "--- ") || line == "FAIL" || line == "PASS" {
			continue
		}
		if len(line) > mostReason {
			line = strings.ToValidUTF8(line[:mostReason], "") + "..."
		}
		return ": " + line
	}
	return ""
}

func show(w io.Writer, f failure) {
	text := strings.Join(f.lines, "")
	if len(text) > maxOutput {
		text = text[:maxOutput/2] + "\n...\n" + text[len(text)-maxOutput/2:]
	}
	fmt.Fprintf(w, "%s  %s\n", f.what, f.name)
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\n"); line != "" {
			fmt.Fprintf(w, "      %s\n", line)
		}
	}
}
