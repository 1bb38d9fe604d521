package run

import (
	"encoding/json"
	"fmt"
	"path/filepath"
)

// NotesSchemaName is the value of the field schema of notes.json.
const NotesSchemaName = "plimsoll.notes/1"

const notesFile = "notes.json"

// Remarks are what a user added to a run afterwards, the content of notes.json.
type Remarks struct {
	Schema string `json:"schema"`
	Note   string `json:"note,omitempty"`
	// Name stands for that of run.json.
	Name string `json:"name,omitempty"`
	// Tags add to those of run.json and replace them; nil takes one out.
	Tags map[string]*string `json:"tags,omitempty"`
}

// Remarks returns the content of notes.json. The error wraps fs.ErrNotExist when the
// run has none.
func (r *Run) Remarks() (Remarks, error) {
	var n Remarks
	b, err := readFile(filepath.Join(r.dir, notesFile))
	if err != nil {
		return n, fmt.Errorf("read notes of run: %w", err)
	}
	if n, err = ParseRemarks(b); err != nil {
		return Remarks{}, fmt.Errorf("read notes of run: decode %s: %w", filepath.Join(r.dir, notesFile), err)
	}
	return n, nil
}

// ParseRemarks reads the content of notes.json.
func ParseRemarks(b []byte) (Remarks, error) {
	var n Remarks
	if err := json.Unmarshal(b, &n); err != nil {
		return Remarks{}, err
	}
	if n.Schema != NotesSchemaName {
		return Remarks{}, fmt.Errorf("its schema is %q, want %q", n.Schema, NotesSchemaName)
	}
	return n, nil
}
