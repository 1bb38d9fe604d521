//go:build unix

package infile

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fifo makes a named pipe.
func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	return path
}

// within fails when f takes longer than five minutes: what waits for ever does.
func within(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(5 * time.Minute):
		t.Fatal("it waits for ever")
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := write("plain", "text", 0o600)
	if err := os.Symlink(plain, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{plain, filepath.Join(dir, "link")} {
		if b, err := Read(name, 4, nil); err != nil || string(b) != "text" {
			t.Errorf("%s holds %q, %v", name, b, err)
		}
	}
	f := func(path, want string) {
		t.Helper()
		within(t, func() {
			if _, err := Read(path, 3, nil); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: error is %v, want %q", path, err, want)
			}
		})
	}
	f(plain, "it has more than")
	f(dir, "it is a folder, want a file")
	f(filepath.Join(dir, "none"), "no such file")
	f("/dev/zero", "it has more than")
	f(fifo(t), "nothing writes to this pipe")
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f(filepath.Join(dir, "s"), "it is a socket, want a file")
	if os.Geteuid() != 0 {
		f(write("closed", "text", 0), "permission denied")
	}
	if b, err := Read("/dev/null", 3, nil); err != nil || len(b) != 0 {
		t.Errorf("/dev/null holds %q, %v", b, err)
	}
}

// A pipe is read to its end, however slowly it is written, and its writer may come a
// little later than its reader.
func TestPipe(t *testing.T) {
	path := fifo(t)
	f, err := Open(path, make(chan struct{}))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.since = time.Now().Add(time.Hour) // the writer's moment passes on no machine
	wrote := make(chan error, 1)
	go func() {
		time.Sleep(50 * time.Millisecond) // real time: a pipe of the system
		w, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err == nil {
			for _, part := range []string{"a", "b", "c"} {
				time.Sleep(50 * time.Millisecond) // real time: a pipe of the system
				_, _ = w.WriteString(part)
			}
			err = w.Close()
		}
		wrote <- err
	}()
	within(t, func() {
		if b, err := All(f, path, 10); err != nil || string(b) != "abc" {
			t.Errorf("the pipe holds %q, %v", b, err)
		}
	})
	if err := <-wrote; err != nil {
		t.Error(err)
	}
}

// Who waits for a pipe is freed when its owner is done, whether the pipe has a writer
// that says nothing or none.
func TestDone(t *testing.T) {
	for _, writer := range []bool{false, true} {
		path := fifo(t)
		if writer {
			w, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
		}
		done := make(chan struct{})
		time.AfterFunc(100*time.Millisecond, func() { close(done) })
		within(t, func() {
			if _, err := Read(path, 10, done); !errors.Is(err, context.Canceled) {
				t.Errorf("with a writer %v: error is %v", writer, err)
			}
		})
	}
}
