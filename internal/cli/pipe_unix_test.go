//go:build unix

package cli

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// checkIn runs check of a page in a directory and returns its exit code and what it said.
func checkIn(t *testing.T, dir, page string, stdin io.Reader, interrupts chan os.Signal) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	done := make(chan int, 1)
	go func() {
		done <- Main(&Env{Args: []string{"check", page}, Dir: dir, Stdin: stdin, Stdout: &o, Stderr: &e, Interrupts: interrupts})
	}()
	select {
	case code = <-done:
	case <-time.After(5 * time.Minute):
		t.Fatal("check waits for ever")
	}
	return code, o.String(), e.String()
}

// fill writes text into a named pipe, which has a writer when it returns, and comments
// behind it: more than a pipe holds, so that the writer stays until somebody reads.
func fill(t *testing.T, path, text string) {
	t.Helper()
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		defer w.Close()
		if _, err := io.WriteString(w, text+strings.Repeat("# "+strings.Repeat("-", 61)+"\n", 2000)); err != nil {
			t.Errorf("fill the pipe: %v", err)
		}
	})
	t.Cleanup(func() { r.Close(); done.Wait() })
}

// TestPipes reads named pipes with a writer, without one, and with one that says nothing.
func TestPipes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	code, _, errs := checkIn(t, dir, "pipe", nil, nil)
	if code != exitUsage || !strings.Contains(errs, "nothing writes to this pipe") {
		t.Errorf("without a writer: exit code %d, %q", code, errs)
	}

	const page = "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name=\"m\"} 3\n"
	fill(t, path, page)
	code, out, errs := checkIn(t, dir, "pipe", nil, nil)
	if code != exitDone || !strings.Contains(out, "vllm") {
		t.Errorf("with a writer: exit code %d, %q, %q", code, out, errs)
	}

	silent, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer silent.Close()
	stdin, writer := io.Pipe()
	defer writer.Close()
	for name, page := range map[string]string{"a pipe": "pipe", "standard input": "-"} {
		interrupts := make(chan os.Signal, 1)
		interrupts <- os.Interrupt
		code, _, errs = checkIn(t, dir, page, stdin, interrupts)
		if code != exitInterrupted || !strings.Contains(errs, "interrupted") {
			t.Errorf("%s, interrupted: exit code %d, %q", name, code, errs)
		}
	}
}

// TestPipedOnce gives a workload by a pipe and by standard input, which have it once: a
// command looks at it first and uses it afterwards.
func TestPipedOnce(t *testing.T) {
	const text = "name: mine/piped\nabout: a\nstresses: [scheduler]\narrival: users\nprompt: {turn: 32}\noutput: 4\n"
	dir := t.TempDir()
	path := filepath.Join(dir, "pipe.yaml")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	fill(t, path, text)
	for _, name := range []string{"pipe.yaml", "-"} {
		var out, errs bytes.Buffer
		code := Main(&Env{
			Args: []string{"run", "--url", "http://h", "--users", "2", "--workload", name, "--dry-run"},
			Dir:  dir, Stdin: strings.NewReader(text), Stdout: &out, Stderr: &errs,
		})
		if code != exitDone {
			t.Errorf("%s: exit code %d, %s", name, code, errs.String())
		}
	}
}
