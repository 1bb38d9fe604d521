//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// A terminal that is closed asks to stop, as Ctrl-C does, and kills nothing.
func TestHangUpIsAnInterrupt(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("hang-ups are ignored here (nohup)")
	}
	env := Process()
	t.Cleanup(func() { signal.Reset() })
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	select {
	case s := <-env.Interrupts:
		if s != syscall.SIGHUP {
			t.Errorf("got %v", s)
		}
	case <-time.After(time.Minute):
		t.Error("no interrupt came")
	}
}
