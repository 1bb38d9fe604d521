//go:build unix

package run

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A named pipe in the place of a file is refused, not waited for.
func TestPipeIsNoFile(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "run.json"), 0o600); err != nil {
		t.Skip("no named pipes here: ", err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("error is %v", err)
	}
}
