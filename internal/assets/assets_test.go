package assets

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestPanel(t *testing.T) {
	page, err := fs.ReadFile(files, "files/missing.html")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "make web") {
		t.Error("the page does not say how to get the front end")
	}
	for _, bad := range []string{"<script", "style=", "<style", "http://", "https://"} {
		if strings.Contains(string(page), bad) {
			t.Errorf("the page contains %q, which the content security policy or an offline machine would stop", bad)
		}
	}
	f := func(all fstest.MapFS, want map[string][]byte, wantBuilt bool) {
		t.Helper()
		got, built := panelOf(all)
		if diff := cmp.Diff(want, got); diff != "" || built != wantBuilt {
			t.Errorf("built %v, want %v; files (-want +got):\n%s", built, wantBuilt, diff)
		}
	}
	missing := &fstest.MapFile{Data: page}
	f(fstest.MapFS{"files/missing.html": missing}, map[string][]byte{"index.html": page}, false)
	// A build that broke off has no page to begin with.
	f(fstest.MapFS{"files/missing.html": missing, "files/dist/a.js": {Data: []byte("js")}}, map[string][]byte{"index.html": page}, false)
	f(fstest.MapFS{
		"files/missing.html": missing, "files/dist/index.html": {Data: []byte("panel")}, "files/dist/assets/a.js": {Data: []byte("js")},
	}, map[string][]byte{"index.html": []byte("panel"), "assets/a.js": []byte("js")}, true)
}
