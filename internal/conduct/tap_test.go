package conduct

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/signal"
)

// counting is a sink that only counts.
type counting struct{ series, samples int }

func (c *counting) Declare(signal.Series) int32 { c.series++; return int32(c.series - 1) }
func (c *counting) Add(s []signal.Sample)       { c.samples += len(s) }

func TestTap(t *testing.T) {
	under := new(counting)
	tp := &tap{next: under}
	if got := tp.now(0); got != nil {
		t.Errorf("%+v before anything was said", got)
	}
	var ids []int32
	for _, s := range []signal.Series{
		{Signal: signal.RequestsRunning, Labels: "engine=0"},
		{Signal: signal.Power, Labels: "gpu=0"},
		{Signal: signal.RequestsRunning, Labels: "engine=1"},
		{Signal: signal.KVCacheUsage, Labels: "engine=0"},
		{Signal: signal.KVCacheUsage, Labels: "engine=1"},
		{Raw: "x"},
	} {
		ids = append(ids, tp.Declare(s))
	}
	if got := tp.now(0); got != nil {
		t.Errorf("%+v before a value", got)
	}
	add := func(i int, at int64, v float64) {
		tp.Add([]signal.Sample{{Series: ids[i], Start: at, End: at, Value: v}})
	}
	add(0, 100, 5)
	add(2, 100, 7)
	add(1, 100, 700)
	add(3, 100, 0.2)
	add(4, 100, 0.9)
	add(5, 100, 1)
	f := func(since int64, want *ServerNow) {
		t.Helper()
		if d := cmp.Diff(want, tp.now(since)); d != "" {
			t.Errorf("since %d (-want +got):\n%s", since, d)
		}
	}
	f(0, &ServerNow{Running: new(12.0), KV: new(0.9)})
	add(0, 200, 6)
	add(3, 200, 0)
	f(0, &ServerNow{Running: new(13.0), KV: new(0.9)})
	// What was said long ago is not so any more.
	f(150, &ServerNow{Running: new(6.0), KV: new(0.0)})
	f(201, nil)
	if under.series != 6 || under.samples != 8 {
		t.Errorf("%+v passed on, want 6 series and 8 samples", under)
	}
	batch := []signal.Sample{{Series: ids[0], End: 300, Value: 1}, {Series: ids[1], End: 300, Value: 1}}
	if n := testing.AllocsPerRun(100, func() { tp.Add(batch) }); n != 0 {
		t.Errorf("%v allocations per page", n)
	}
}
