package scenario

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"

	"plimsoll/internal/strictyaml"
)

// plain reads a file as JSON would have it.
func plain(t *testing.T, data []byte) any {
	t.Helper()
	doc, err := strictyaml.Parse("", data)
	if err != nil {
		t.Fatal(err)
	}
	var x any
	if err := doc.Decode(&x, strictyaml.Options{}); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(x)
	if err != nil {
		return x // NaN, which the schema must refuse as it is
	}
	x = nil
	if err := json.Unmarshal(b, &x); err != nil {
		t.Fatal(err)
	}
	return x
}

func TestSchemaAgainstCorpus(t *testing.T) {
	resolved, err := schema().Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range corpus(t, "good", 15) {
		t.Run("good/"+filepath.Base(file), func(t *testing.T) {
			s, data, err := readCorpus(t, file)
			if err != nil {
				t.Fatal(err)
			}
			if err := resolved.Validate(plain(t, data)); err != nil {
				t.Errorf("the schema refuses it: %v", err)
			}
			saved, err := s.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			if err := resolved.Validate(plain(t, saved)); err != nil {
				t.Errorf("the schema refuses the saved form: %v", err)
			}
		})
	}
	refused := 0
	for _, file := range corpus(t, "bad", 100) {
		_, data, _ := readCorpus(t, file)
		if !bytes.HasPrefix(data, []byte("# the schema refuses it too\n")) {
			continue
		}
		refused++
		t.Run("bad/"+filepath.Base(file), func(t *testing.T) {
			if err := resolved.Validate(plain(t, data)); err == nil {
				t.Error("the schema accepts it")
			}
		})
	}
	if refused < 40 {
		t.Errorf("%d bad files are for the schema, want at least 40", refused)
	}
}
