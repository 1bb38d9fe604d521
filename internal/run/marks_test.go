package run

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMarks: what was noticed is read back as it was written; a run that nobody watched has
// none.
func TestMarks(t *testing.T) {
	r := &Run{dir: t.TempDir()}
	if _, err := r.Marks(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file it is %v", err)
	}
	want := []Mark{
		{FromNS: 5e9, ToNS: new(int64(9e9)), Kind: "threshold", Severity: "fail", Text: "ttft p95 is over 500ms: 612 ms"},
		{FromNS: 7e9, Kind: "note", Severity: "fail", Text: "first failure: http_status: \x1b[31m"},
	}
	if err := r.WriteMarks(want); err != nil {
		t.Fatal(err)
	}
	got, err := r.Marks()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, text := range []string{`{"schema":"plimsoll.marks/9"}`, `{`} {
		if err := os.WriteFile(filepath.Join(r.dir, marksFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Marks(); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}
