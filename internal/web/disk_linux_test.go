package web

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"plimsoll/internal/detail"
)

// TestFullDisk fills the disk with the runs: what cannot be written is refused and says
// why, nothing that was there is lost, and runs can be looked at and deleted.
func TestFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=4m,nr_inodes=300"); err != nil {
		t.Skipf("cannot mount a small file system here: %v", err)
	}
	s := newServer(t, func(c *Config) { c.Root = disk })
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	id := predicted(t, disk)
	base := "/api/runs/" + id
	for _, c := range [][3]string{{"PATCH", base, `{"note": "old", "tags": {"a": "b"}}`}, {"PUT", "/api/scenarios/x", `{"scenario": "old"}`}} {
		if status, _, b := call(t, s, c[0], c[1], c[2]); status != http.StatusOK {
			t.Fatalf("%v: %d %s", c, status, b)
		}
	}
	whole := get[detail.Rows](t, s, base+"/requests")
	// Its details are to be made again, and nothing is left for them.
	if err := os.RemoveAll(filepath.Join(disk, id, "detail")); err != nil {
		t.Fatal(err)
	}
	s.stores.forget(id)
	fill(t, filepath.Join(disk, "filler"))
	long := strings.Repeat("x", maxNote-1)
	full := func(method, target, body string) {
		t.Helper()
		status, _, b := call(t, s, method, target, body)
		if status != http.StatusInsufficientStorage || !strings.Contains(string(b), "is full") || !strings.Contains(string(b), "make room") {
			t.Errorf("%s %s on a full disk: %d %s", method, target, status, b)
		}
	}
	full("PATCH", base, `{"note": "`+long+`"}`)
	full("PATCH", base, `{"tags": {"a": null, "c": "`+strings.Repeat("y", maxTag)+`"}, "note": "`+long+`"}`)
	full("PUT", "/api/scenarios/x", `{"scenario": "`+long+`"}`)
	full("PUT", "/api/scenarios/new", `{"scenario": "`+long+`"}`)
	if row := get[runList](t, s, "/api/runs").Runs[0]; row.Note != "old" || row.Tags["a"] != "b" || row.Problem != nil {
		t.Errorf("the run after notes that did not fit: %+v", row)
	}
	if got := get[namedScenario](t, s, "/api/scenarios/x"); got.Scenario != "old" {
		t.Errorf("the scenario after one that did not fit: %q", got.Scenario)
	}
	if list := get[scenarioList](t, s, "/api/scenarios").Scenarios; len(list) != 1 {
		t.Errorf("scenarios %+v, want the one that was there", list)
	}
	// Damaged notes are kept where they are until the new ones are whole.
	notes := filepath.Join(disk, id, notesFile)
	if err := os.Truncate(notes, 20); err != nil {
		t.Fatal(err)
	}
	full("PATCH", base, `{"note": "`+long+`"}`)
	if fi, err := os.Stat(notes); err != nil || fi.Size() != 20 {
		t.Errorf("damaged notes after ones that did not fit: %v, %v", fi, err)
	}
	onlyNotes(t, filepath.Join(disk, id))

	for range 2 {
		if got := get[detail.Rows](t, s, base+"/requests"); got.Total != whole.Total || got.Total == 0 {
			t.Errorf("%d requests are shown, %d were before the disk was full", got.Total, whole.Total)
		}
		if one := get[detail.One](t, s, base+"/requests/5"); !one.Whole {
			t.Errorf("a request without its events: %+v", one)
		}
		get[detail.RunDoc](t, s, base)
		get[detail.Figures](t, s, base+"/figures")
		s.stores.forget(id) // as a server that begins
	}
	if left, err := filepath.Glob(filepath.Join(disk, "*", "*", "*.tmp")); err != nil || len(left) > 0 {
		t.Errorf("%v is left of what did not fit, %v", left, err)
	}
	// No folder fits either: not even one for what is deleted.
	for i := range 300 {
		if err := os.WriteFile(filepath.Join(disk, fmt.Sprint("filler-", i)), nil, 0o644); err != nil {
			break
		}
	}
	if err := os.Mkdir(filepath.Join(disk, "folder"), 0o755); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("a folder on a full disk: %v", err)
	}
	if status, _, b := call(t, s, "DELETE", base+"?confirm="+id, ""); status != http.StatusNoContent {
		t.Errorf("DELETE on a full disk: %d %s", status, b)
	}
	if left, err := filepath.Glob(filepath.Join(disk, deletedDir+"*")); err != nil || len(left) > 0 {
		t.Errorf("%v is left of the run, %v", left, err)
	}
	if status, _, b := call(t, s, "PUT", "/api/scenarios/new", `{"scenario": "`+long+`"}`); status != http.StatusOK {
		t.Errorf("after room was made: %d %s", status, b)
	}
}

// fill writes a file until its disk takes no more.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for range 1 << 20 {
		if _, err = f.Write(make([]byte, 4096)); err != nil {
			break
		}
	}
	if err == nil {
		t.Fatal("the disk takes whatever is written")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
