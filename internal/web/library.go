package web

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"sync"

	"plimsoll/internal/workload"
)

// defaultModel is the model whose arithmetic makes shapes when none is named, that
// of the command line.
const defaultModel = "llama-3.1-8b"

// LibraryWorkload is a workload of the library in the list.
type LibraryWorkload struct {
	Name   string `json:"name"`
	Title  string `json:"title"`
	Family string `json:"family"`
	// Kind is vertical for users of an industry, probe for what isolates a part of the
	// stack.
	Kind     string   `json:"kind"`
	Stresses []string `json:"stresses"`
}

// probes are the families that isolate a part of the stack.
var probes = []string{"gpu-hbm", "architecture", "kv", "fabric"}

// library are all workloads: the industries first, then the probes.
var library = sync.OnceValues(func() ([]LibraryWorkload, error) {
	var out []LibraryWorkload
	for _, name := range workload.Names() {
		f, err := workload.Lookup(name)
		if err != nil {
			return nil, err
		}
		family, _, _ := strings.Cut(name, "/")
		l := LibraryWorkload{Name: name, Title: f.About, Family: family, Kind: "vertical", Stresses: append([]string{}, f.Stresses...)}
		if slices.Contains(probes, family) {
			l.Kind = "probe"
		}
		out = append(out, l)
	}
	slices.SortStableFunc(out, func(a, b LibraryWorkload) int {
		return cmp.Compare(slices.Index(probes, a.Family), slices.Index(probes, b.Family))
	})
	return out, nil
})

// workloadList are the workloads of the library.
type workloadList struct {
	Workloads []LibraryWorkload `json:"workloads"`
}

// workloadDoc is a workload of the library.
type workloadDoc struct {
	Name string `json:"name"`
	// YAML is its file.
	YAML  string          `json:"yaml"`
	Facts *workload.Shape `json:"facts"`
	Shape radar           `json:"shape"`
}

// radar is what a radar chart of a workload shows.
type radar struct {
	Axes []ShapeAxis `json:"axes"`
}

func (s *Server) listWorkloads(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	if m := q.Get("model"); m != "" {
		if _, err := catalogueModel(m); err != nil {
			return err
		}
	}
	list, err := library()
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, workloadList{list})
}

// ShapeAxis is one axis of a radar.
type ShapeAxis struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Share is where it lies on the axis, 0 to 1.
	Share float64 `json:"share"`
	Text  string  `json:"text"`
}

func (s *Server) getWorkload(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("family") + "/" + r.PathValue("name")
	if !slices.Contains(workload.Names(), name) {
		return &Problem{Status: http.StatusNotFound, Field: "name", Text: "there is no workload " + name + " in the library", Fix: "a name of /api/workloads"}
	}
	f, err := workload.Lookup(name)
	if err != nil {
		return err
	}
	source, err := workload.Source(name)
	if err != nil {
		return err
	}
	m, err := catalogueModel(cmp.Or(r.URL.Query().Get("model"), defaultModel))
	if err != nil {
		return err
	}
	facts := workload.ShapeOf(f, m.Facts(""))
	axes := make([]ShapeAxis, 0, len(facts.Axes))
	for _, a := range facts.Axes {
		axes = append(axes, ShapeAxis{Name: a.Name, Value: a.Value, Unit: a.Unit, Share: a.Score, Text: a.Claim()})
	}
	return writeJSON(w, http.StatusOK, workloadDoc{Name: name, YAML: string(source), Facts: facts, Shape: radar{axes}})
}
