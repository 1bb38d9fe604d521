// Command tally reads the output of `go test -json` and prints what a person
// wants of it: the output of failed tests, skipped tests with their reasons, one
// line per package, and the counts. Lines that are not JSON (make, the compiler)
// pass. It never fails a check by itself: the exit code is go test's.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
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
	output := map[string][]string{} // by package and test
	passed, failed, skipped := 0, 0, 0
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var e event
		if err := json.Unmarshal(in.Bytes(), &e); err != nil || e.Action == "" {
			fmt.Fprintln(w, in.Text())
			continue
		}
		key := e.Package + " " + e.Test
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
				show(w, "skip", key, output[key])
			}
			delete(output, key)
		case "fail":
			if e.Test != "" {
				failed++
			}
			show(w, "FAIL", key, output[key])
			delete(output, key)
		}
	}
	if err := in.Err(); err != nil {
		fmt.Fprintln(w, "tally:", err)
	}
	for key, lines := range output { // tests that a crash or a kill cut short
		if strings.HasSuffix(key, " ") {
			continue
		}
		show(w, "CUT ", key, lines)
	}
	fmt.Fprintf(w, "tally: %d passed, %d failed, %d skipped\n", passed, failed, skipped)
}

func show(w *bufio.Writer, what, key string, lines []string) {
	text := strings.Join(lines, "")
	if len(text) > maxOutput {
		text = text[:maxOutput/2] + "\n...\n" + text[len(text)-maxOutput/2:]
	}
	fmt.Fprintf(w, "%s  %s\n", what, strings.TrimSpace(key))
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\n"); line != "" {
			fmt.Fprintf(w, "      %s\n", line)
		}
	}
}
