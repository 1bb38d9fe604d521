package run

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func readTimeline(r *Run) (out []TimelineRow, err error) {
	for rows, err := range r.Timeline() {
		if err != nil {
			return out, err
		}
		out = append(out, rows...)
	}
	return out, nil
}

func TestTimeline(t *testing.T) {
	dir := write(t, t.TempDir(), 10)
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readTimeline(r); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no timeline gives %v", err)
	}
	make1 := func(n int) (want []TimelineRow) {
		w, err := r.CreateTimeline()
		if err != nil {
			t.Fatal(err)
		}
		signals := []string{"client.users", "kv_cache_usage", "vllm:something"}
		for i := range n {
			want = append(want, TimelineRow{
				T: int64(i/3)*1e9 - 3e9, Signal: signals[i%3], Stat: "value", Source: []string{"", "a:8000", "b:8000"}[i%3],
				Labels: []string{"", "engine=0"}[i%2], Workload: []string{"chat", ""}[i%2], Value: float64(i) / 4,
			})
		}
		if err := w.Add(want); err != nil {
			t.Fatal(err)
		}
		if w.Rows() != int64(n) {
			t.Errorf("%d rows", w.Rows())
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return want
	}
	for _, n := range []int{0, 1, timelineGroup + 5000, 300} { // each takes the place of the one before
		want := make1(n)
		got, err := readTimeline(r)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%d rows: read %d, %v", n, len(got), err)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("row %d (-want +got):\n%s", i, cmp.Diff(want[i], got[i]))
			}
		}
	}
	w, err := r.CreateTimeline()
	if err != nil {
		t.Fatal(err)
	}
	w.Discard()
	if got, err := readTimeline(r); err != nil || len(got) != 300 {
		t.Errorf("after one that was given up: %d rows, %v", len(got), err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
	if err != nil || left != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
	name := filepath.Join(dir, timelineFile)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	whole[len(whole)/2] ^= 4
	if err := os.WriteFile(name, whole, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readTimeline(r); !errors.Is(err, errDamaged) {
		t.Errorf("a damaged timeline gives %v", err)
	}
}
