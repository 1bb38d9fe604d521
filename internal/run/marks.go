package run

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"plimsoll/internal/phrase"
	"plimsoll/internal/plainjson"
)

// MarksSchemaName is the value of the field schema of marks.json.
const MarksSchemaName = "plimsoll.marks/1"

const marksFile = "marks.json"

// Mark is something that was noticed while a run was watched, at a time or from one
// time to another, in ns of the run's clock. ToNS is nil for what has no length or
// held to the end.
type Mark struct {
	FromNS int64  `json:"from_ns"`
	ToNS   *int64 `json:"to_ns,omitempty"`
	// Kind is threshold or note, Severity note or fail.
	Kind     string `json:"kind"`
	Severity string `json:"severity"`
	Text     string `json:"text"`
	// Said is what Text says, for programs; marks of older runs have none.
	Said phrase.Said `json:"said,omitzero"`
}

// marks is the content of marks.json.
type marks struct {
	Schema string `json:"schema"`
	Marks  []Mark `json:"marks"`
}

// WriteMarks writes marks.json, in place of an earlier one.
func (r *Run) WriteMarks(list []Mark) error {
	b, err := json.MarshalIndent(marks{MarksSchemaName, list}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", marksFile, err)
	}
	return writeFile(filepath.Join(r.dir, marksFile), append(plainjson.Escape(b), '\n'))
}

// Marks returns the content of marks.json. The error wraps fs.ErrNotExist when the
// run has none, as one that nobody watched.
func (r *Run) Marks() ([]Mark, error) {
	b, err := readFile(filepath.Join(r.dir, marksFile))
	if err != nil {
		return nil, fmt.Errorf("read marks of run: %w", err)
	}
	var m marks
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("read marks of run: decode %s: %w", filepath.Join(r.dir, marksFile), err)
	}
	if m.Schema != MarksSchemaName {
		return nil, fmt.Errorf("read marks of run: %s: schema is %q, want %q", filepath.Join(r.dir, marksFile), m.Schema, MarksSchemaName)
	}
	return m.Marks, nil
}
