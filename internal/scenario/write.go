package scenario

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"plimsoll/internal/strictyaml"
)

// Marshal returns the scenario as a file that Parse reads back to the same
// plan: defaults filled in, and the name instead of the value wherever a
// variable of the environment was named in a field that may hold a secret.
func (s *Scenario) Marshal() ([]byte, error) {
	return strictyaml.Marshal(s, s.origin.raw, true)
}

// Hash returns 12 hex digits that are equal for scenarios that send the same
// kind of requests, in the same way, and judge them by the same limits. It does
// not depend on formatting or order, nor on the name, the tags, the seed, and
// where the run is kept. Secrets count by the name of their variable.
func (s *Scenario) Hash() string {
	c := *s
	c.Name, c.Tags, c.Seed, c.Data = "", nil, 0, Data{}
	b, err := strictyaml.Marshal(&c, s.origin.raw, true)
	if err != nil {
		panic("BUG: a scenario cannot be written: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6])
}

// Value is one field of the plan.
type Value struct {
	// Path is the field, Text its value as the file would have it: secrets by
	// the name of their variable.
	Path, Text string
	// Origin is default, the file's position, the flag, or why Read chose it.
	Origin string
}

// Plan lists every field that has a value, in the order of the file, with
// where the value came from.
func (s *Scenario) Plan() []Value {
	var raws map[string]string
	if s.origin.doc != nil {
		raws = s.origin.doc.Raws()
	}
	leaves := strictyaml.Leaves(s, s.origin.raw)
	out := make([]Value, 0, len(leaves))
	for _, l := range leaves {
		v := Value{Path: l.Path, Text: l.Text, Origin: "default"}
		if why, ok := s.origin.derived[l.Path]; ok {
			v.Origin = why
		} else if s.origin.doc != nil {
			if p, ok := s.origin.doc.At(l.Path); ok && covers(s, l.Path) {
				v.Origin = p.String()
				if raw, ok := raws[l.Path]; ok && raw != strings.Trim(l.Text, `"`) {
					v.Origin += " " + raw
				}
			}
		}
		out = append(out, v)
	}
	return out
}

// At returns where a field was written, or the group around it; ok is false where
// neither was.
func (s *Scenario) At(path string) (p strictyaml.Position, ok bool) {
	if s.origin.doc == nil {
		return p, false
	}
	return s.origin.doc.At(path)
}

// Given says whether the field itself was written.
func (s *Scenario) Given(path string) bool { return s.given(path) }

// KeepIn has the run kept in a folder whatever the scenario says; why is told as the
// origin of that.
func (s *Scenario) KeepIn(folder, why string) {
	s.Data.Out = folder
	if s.origin.doc != nil {
		s.origin.derived["data.out"] = why
	}
}

// covers says whether the field itself was written, rather than only the group
// around it.
func covers(s *Scenario, path string) bool { return s.origin.doc.Has(path) }
