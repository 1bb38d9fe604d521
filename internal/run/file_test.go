package run

import (
	"os"
	"path/filepath"
	"testing"
)

// TestHugeFileIsNotRead reads a file of a run that claims to be longer than any is.
func TestHugeFileIsNotRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), infoFile)
	if err := os.WriteFile(name, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if b, err := readFile(name); err != nil || string(b) != "{}" {
		t.Fatalf("read %q, %v", b, err)
	}
	if err := os.Truncate(name, maxWhole+1); err != nil {
		t.Skip(err) // no space, and no sparse files
	}
	if b, err := readFile(name); err == nil {
		t.Errorf("%d bytes were read", len(b))
	}
}
