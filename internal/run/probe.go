package run

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"plimsoll/internal/plainjson"
)

// ProbeSchemaName is the value of the field schema of probe.json.
const ProbeSchemaName = "plimsoll.probe/1"

const probeFile = "probe.json"

// Probe is the content of probe.json: what a probe came to.
type Probe struct {
	Schema string `json:"schema"`
	// Probe is the name of the workload, Question what it asks, in a sentence.
	Probe    string    `json:"probe"`
	Question string    `json:"question"`
	X        ProbeAxis `json:"x"`
	Y        ProbeAxis `json:"y"`
	// Points are what was measured at each rung, Fits what they come to, Notes what
	// must be known of both: the evidence, what was left out.
	Points []ProbePoint `json:"points"`
	Fits   []ProbeFit   `json:"fits"`
	Notes  []string     `json:"notes"`
}

// ProbeAxis says what is drawn against what.
type ProbeAxis struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
}

// ProbePoint is one rung: Y at X of N requests, with the bounds of its interval, nil
// where there are too few of them.
type ProbePoint struct {
	X      float64  `json:"x"`
	Y      float64  `json:"y"`
	Lo     *float64 `json:"lo"`
	Hi     *float64 `json:"hi"`
	Series string   `json:"series"`
	N      int      `json:"n"`
}

// ProbeFit is one figure that the points come to. Value is nil where there is none,
// Lo and Hi where there is no interval. Text says in a sentence what it means and
// how it was found; OK is false when the answer is not clean, and Text says why.
type ProbeFit struct {
	Name  string   `json:"name"`
	Value *float64 `json:"value"`
	Lo    *float64 `json:"lo"`
	Hi    *float64 `json:"hi"`
	Unit  string   `json:"unit"`
	Text  string   `json:"text"`
	OK    bool     `json:"ok"`
}

// Marshal returns the text of probe.json.
func (p *Probe) Marshal() ([]byte, error) {
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", probeFile, err)
	}
	return append(plainjson.Escape(b), '\n'), nil
}

// WriteProbe writes probe.json, in place of an earlier one.
func (r *Run) WriteProbe(p *Probe) error {
	b, err := p.Marshal()
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(r.dir, probeFile), b)
}

// Probe returns the content of probe.json. The error wraps fs.ErrNotExist when the
// run has none.
func (r *Run) Probe() (*Probe, error) {
	b, err := readFile(filepath.Join(r.dir, probeFile))
	if err != nil {
		return nil, fmt.Errorf("read probe of run: %w", err)
	}
	p := new(Probe)
	if err := json.Unmarshal(b, p); err != nil {
		return nil, fmt.Errorf("read probe of run: decode %s: %w", filepath.Join(r.dir, probeFile), err)
	}
	if p.Schema != ProbeSchemaName {
		return nil, fmt.Errorf("read probe of run: %s: schema is %q, want %q", filepath.Join(r.dir, probeFile), p.Schema, ProbeSchemaName)
	}
	// What another program left out is an empty list, as it would have been written.
	p.Points, p.Fits, p.Notes = append([]ProbePoint{}, p.Points...), append([]ProbeFit{}, p.Fits...), append([]string{}, p.Notes...)
	return p, nil
}
