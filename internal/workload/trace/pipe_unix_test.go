//go:build unix

package trace

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A named pipe is read like a file; one that nothing writes to is an error.
func TestNamedPipe(t *testing.T) {
	pipe := func() string {
		path := filepath.Join(t.TempDir(), "rows.jsonl")
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Skip(err)
		}
		return path
	}
	path := pipe()
	done := make(chan error, 1)
	go func() {
		_, err := Load(path, Options{}, Selection{})
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "nothing writes to this pipe") {
			t.Errorf("error %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for ever")
	}
	// Another one: whoever waited for a writer of the first may yet open it, and take what is written.
	// All of it is in the pipe, which the test holds open, before it is read.
	path = pipe()
	hold, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close()
	if err := os.WriteFile(path, []byte(`{"timestamp": 0, "input_length": 5, "output_length": 2}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tr, err := Load(path, Options{}, Selection{})
	if err != nil || len(tr.Records) != 1 {
		t.Errorf("%v, %v", tr, err)
	}
}
