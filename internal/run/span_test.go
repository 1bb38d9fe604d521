package run

import (
	"testing"

	"plimsoll/internal/record"
)

// TestLostIsBounded: between which records lies what could not be read.
func TestLostIsBounded(t *testing.T) {
	var s spans
	for _, e := range []struct {
		part string
		t    int64
	}{{"part-000001.parquet", 5}, {"part-000001.parquet", 3}, {"part-000003-000009.parquet", 30}, {"part-000003-000009.parquet", 20}} {
		s.add(e.part, e.t)
	}
	for part, want := range map[string][2]int64{
		"part-000002.parquet": {5, 20}, "part-000000.parquet": {record.Unset, 3}, "part-000010.parquet": {30, record.Unset},
	} {
		n := s.bound([]Note{{Part: part, After: record.Unset, Before: record.Unset}})[0]
		if n.After != want[0] || n.Before != want[1] {
			t.Errorf("%s: between %d and %d, want %v", part, n.After, n.Before, want)
		}
	}
}
