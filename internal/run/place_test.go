package run

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/record"
)

// A record is found by its place and by its ID, and is the one that a reader of all
// comes by.
func TestSingleRecords(t *testing.T) {
	const n = 700
	dir := write(t, t.TempDir(), n, 100, 101, 350)
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	parts := map[string]bool{}
	for p, q := range r.Placed() {
		count++
		parts[p.Part] = true
		if count%23 != 1 && count != n {
			continue
		}
		got, err := r.RequestAt(p)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(q, got, sameRequest); diff != "" {
			t.Fatalf("record at %+v (-read in order +read alone):\n%s", p, diff)
		}
		if got, err = r.FindRequest(q.ID); err != nil || !cmp.Equal(q, got, sameRequest) {
			t.Fatalf("record %d by its ID: error %v, %s", q.ID, err, cmp.Diff(q, got, sameRequest))
		}
	}
	if count != n || len(parts) != 4 || r.Notes() != nil {
		t.Errorf("%d records in %d parts, notes %v", count, len(parts), r.Notes())
	}
	for _, p := range []Place{{"part-000001.parquet", 100}, {"part-000001.parquet", -1}, {"../run.json", 0}, {"", 0}} {
		if _, err := r.RequestAt(p); !errors.Is(err, ErrNoRecord) {
			t.Errorf("record at %+v: error %v", p, err)
		}
	}
	if _, err := r.FindRequest(n); !errors.Is(err, ErrNoRecord) {
		t.Errorf("record %d: error %v", n, err)
	}
	states, err := r.Parts()
	if err != nil || len(states) != 4 {
		t.Fatalf("parts are %v, error %v", states, err)
	}
	for _, s := range states {
		fi, err := os.Stat(filepath.Join(dir, requestsDir, s.Name))
		if err != nil || fi.Size() != s.Size {
			t.Errorf("part %+v: error %v", s, err)
		}
	}
	// A damaged part holds nothing, and is said to.
	name := filepath.Join(dir, requestsDir, "part-000002.parquet")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := r.RequestAt(Place{"part-000002.parquet", 0}); !errors.Is(err, errDamaged) {
		t.Errorf("record of a damaged part: error %v", err)
	}
	if _, err := r.FindRequest(100); !errors.Is(err, ErrNoRecord) {
		t.Errorf("record of a damaged part by its ID: error %v", err)
	}
	if _, err := r.FindRequest(5); err != nil {
		t.Errorf("record before a damaged part: error %v", err)
	}
}

func BenchmarkRequestAt(b *testing.B) {
	dir := write(b, b.TempDir(), 3000)
	r, err := Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	var q *record.Request
	for b.Loop() {
		if q, err = r.RequestAt(Place{"part-000001.parquet", 2900}); err != nil || q == nil {
			b.Fatal(err)
		}
	}
}
