package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// FuzzAddresses asks a server with one run for what may be in an address: nothing
// makes it fail inside, leaves the folder, or answers in another form than the
// document says.
func FuzzAddresses(f *testing.F) {
	for _, seed := range []struct{ id, tail, query string }{
		{"", "", ""},
		{"", "requests", "filter=ttft>2s -status:ok&sort=-ttft&limit=3&offset=1"},
		{"", "requests", "filter=workload:\"a b&from=-1&to=1e9"},
		{"", "requests/3", ""},
		{"", "data", "series=0,1,99999999999&points=4000"},
		{"", "bands", "figure=ttft,ttft&workload=\x00"},
		{"", "scatter", "y=prompt&color=status&width=8000&height=1"},
		{"", "common", "ymin=-1e12&ymax=NaN&xmin=5"},
		{"..", "", ""},
		{"../../etc", "series", ""},
		{".scenarios", "", ""},
		{"%2e%2e", "events", "after=-1"},
		{"a\x00b", "heat", "figure=e2e&columns=4000"},
	} {
		f.Add(seed.id, seed.tail, seed.query)
	}
	root := f.TempDir()
	s, err := New(Config{Root: root, Version: "test", Listen: "127.0.0.1:8315"})
	if err != nil {
		f.Fatal(err)
	}
	known := predicted(f, root, "load.requests=20")
	f.Fuzz(func(t *testing.T, id, tail, query string) {
		if id == "" {
			id = known
		}
		if strings.HasPrefix(tail, "report") {
			return // slow, and without a question
		}
		status, _, b := call(t, s, "GET", "/api/runs/"+url.PathEscape(id)+"/"+url.PathEscape(tail)+"?"+escapeQuery(query), "")
		if status >= http.StatusInternalServerError {
			t.Errorf("%d %s", status, b)
		}
		if status == http.StatusOK && id != known && strings.HasPrefix(string(b), "{") && tail != "" {
			t.Errorf("an answer for the id %q: %.200s", id, b)
		}
	})
}

// escapeQuery keeps the names and values of a query and makes an address of them.
func escapeQuery(query string) string {
	v := url.Values{}
	for part := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(part, "=")
		v.Add(name, value)
	}
	return v.Encode()
}
