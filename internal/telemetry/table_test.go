package telemetry

import (
	"testing"
)

func TestBuiltinTablesAreWhole(t *testing.T) {
	tables := Builtin()
	if len(tables) == 0 {
		t.Fatal("no tables")
	}
	for _, x := range tables {
		if len(x.ways) == 0 || len(x.Detect) == 0 {
			t.Errorf("%s has no signals or is never recognised", x.Source)
		}
		if Lookup(x.Source) != x {
			t.Errorf("%s is not found under its name", x.Source)
		}
	}
}
