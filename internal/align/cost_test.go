package align

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/internal/record"
	"plimsoll/internal/run"
	"plimsoll/internal/signal"
)

// generated are the samples of many sources, made while they are read.
type generated struct {
	sources, seconds int
	series           []signal.Series
	most             *uint64 // the most that was seen to be held
}

// newGenerated has 64 series for each source, as an engine's page has: gauges,
// counters and two distributions with 24 buckets.
func newGenerated(sources, seconds int) *generated {
	g := &generated{sources: sources, seconds: seconds, most: new(uint64)}
	for s := range sources {
		add := func(d signal.Series) {
			d.Source, d.Labels = s, "engine=0"
			g.series = append(g.series, d)
		}
		for _, id := range []signal.ID{
			signal.RequestsRunning, signal.RequestsWaiting, signal.KVCacheUsage, signal.PromptTokens, signal.GenerationTokens,
			signal.PrefixCacheHits, signal.PrefixCacheQueries, signal.Preemptions, signal.RequestsFinished, signal.Power, signal.Energy, signal.SMActive,
		} {
			add(signal.Series{Signal: id})
		}
		for _, id := range []signal.ID{signal.TTFT, signal.ITL} {
			add(signal.Series{Signal: id, Field: signal.TotalSum})
			add(signal.Series{Signal: id, Field: signal.TotalCount})
			for b := range 24 {
				bound := math.Pow(2, float64(b)) / 1000
				if b == 23 {
					bound = math.Inf(1)
				}
				add(signal.Series{Signal: id, Field: signal.TotalBucket, Bound: bound})
			}
		}
	}
	return g
}

func (g *generated) Series() []signal.Series { return g.series }

func (g *generated) All() iter.Seq[[]signal.Sample] {
	return func(yield func([]signal.Sample) bool) {
		per := len(g.series) / g.sources
		batch := make([]signal.Sample, per)
		for t := range g.seconds {
			if t%100 == 0 {
				*g.most = max(*g.most, held())
			}
			for s := range g.sources {
				at := int64(t)*sec + int64(s)*ms
				for i := range batch {
					v := float64(t*(i+1)) + float64(s)
					switch g.series[i].Signal.Def().Kind {
					case signal.Gauge:
						v = float64((t*7+i+s)%100) / 100
					case signal.Distribution:
						v = float64(t * min(i+1, 30))
					}
					batch[i] = signal.Sample{Series: int32(s*per + i), Start: at, End: at + 2*ms, Value: v}
				}
				if !yield(batch) {
					return
				}
			}
		}
	}
}

// held is what the heap holds, without what the collector has not come round to yet: how
// much that is depends on who else has the processors.
func held() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano())
}

// TestMemoryOfALongRun makes timelines of runs of different length: what is held
// at once must not grow with it.
func TestMemoryOfALongRun(t *testing.T) {
	if raceEnabled || testing.CoverMode() != "" {
		t.Skip("memory is not what it is")
	}
	measure := func(seconds int) (most uint64, allocs float64, perSample time.Duration) {
		g := newGenerated(4, seconds)
		from := held()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start, rows := cpu(), 0
		in := steady(0, int64(seconds)*sec)
		_, err := Build(Input{Step: sec, Samples: g, Run: in, Start: time.Unix(1.7e9, 0), Rows: func(r []run.TimelineRow) error {
			rows += len(r)
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		used := cpu() - start
		runtime.ReadMemStats(&after)
		n := float64(seconds * len(g.series))
		return *g.most - min(*g.most, from), float64(after.Mallocs-before.Mallocs) / n, time.Duration(float64(used) / n)
	}
	short, _, _ := measure(4500)
	long, allocs, per := measure(18_000)
	t.Logf("%d KiB for 75 minutes, %d KiB for five hours; %v and %.4f allocations per sample", short>>10, long>>10, per, allocs)
	if float64(long) > 1.2*float64(short)+1<<19 {
		t.Errorf("four times the time takes %d KiB instead of %d", long>>10, short>>10)
	}
	if allocs > 0.02 {
		t.Errorf("a sample takes %.3f allocations, want none", allocs)
	}
}

// TestMemoryOfManyRequests makes the client's figures of runs of different length.
func TestMemoryOfManyRequests(t *testing.T) {
	if raceEnabled || testing.CoverMode() != "" {
		t.Skip("memory is not what it is")
	}
	measure := func(n int) (most uint64, allocs float64) {
		r := request(0, 0, 500*ms, 2*sec, 50)
		list := func(yield func(*record.Request) bool) {
			for i := range n {
				if i%500 == 0 {
					most = max(most, held())
				}
				shift := int64(10 * ms)
				r.ID, r.Session, r.User = uint64(i), uint64(i), uint32(i%100)
				r.Scheduled, r.Start, r.FirstToken, r.LastToken, r.End = r.Scheduled+shift, r.Start+shift, r.FirstToken+shift, r.LastToken+shift, r.End+shift
				for j := range r.Events {
					r.Events[j].At += shift
				}
				if !yield(r) {
					return
				}
			}
		}
		from := held()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := Build(Input{Run: steady(0, int64(n)*10*ms), Requests: list, Start: time.Unix(1.7e9, 0)}); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return most - min(most, from), float64(after.Mallocs-before.Mallocs) / float64(n)
	}
	short, _ := measure(5000)
	long, allocs := measure(50_000)
	t.Logf("%d KiB for 5000 requests, %d KiB for 50000; %.2f allocations per request", short>>10, long>>10, allocs)
	// 64 bytes for each request more, and what slices grow by.
	if more := int64(long) - int64(short); more > 45_000*160+1<<20 {
		t.Errorf("a request more takes %d bytes", more/45_000)
	}
	if allocs > 6 {
		t.Errorf("a request takes %.2f allocations", allocs)
	}
}

// TestPercentilesLieInTheirBuckets observes random values in random buckets: the
// true percentiles must lie within the stated bounds, and the mean must be exact.
func TestPercentilesLieInTheirBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 9))
		engines := rapid.IntRange(1, 3).Draw(t, "engines")
		var bounds []float64
		b := 0.001
		for range rapid.IntRange(1, 20).Draw(t, "buckets") {
			bounds = append(bounds, b)
			b *= 1.2 + 2*rng.Float64()
		}
		bounds = append(bounds, math.Inf(1))
		m := new(memory)
		values := make([][]float64, engines)
		var inside []float64
		const from, to, last = 3, 9, 12
		for i := range int64(last) {
			for e := range engines {
				observe(m, i*sec, 0, fmt.Sprintf("engine=%d", e), signal.TTFT, bounds, values[e])
				for range rng.IntN(20) {
					v := math.Exp(4*rng.NormFloat64() - 3)
					values[e] = append(values[e], v)
					if i >= from && i < to {
						inside = append(inside, v)
					}
				}
			}
		}
		if len(inside) == 0 {
			t.Skip("nothing was observed")
		}
		out, err := Build(Input{Run: steady(from*sec, to*sec), Samples: m, Start: time.Unix(1.7e9, 0)})
		if err != nil {
			t.Fatal(err)
		}
		d := out.Server["ttft"]
		slices.Sort(inside)
		sum := 0.0
		for _, v := range inside {
			sum += v
		}
		if d.Count != int64(len(inside)) || math.Abs(*d.Mean-sum/float64(len(inside))) > 1e-6*(1+*d.Mean) {
			t.Fatalf("%d with mean %v, want %d with %v", d.Count, *d.Mean, len(inside), sum/float64(len(inside)))
		}
		for name, q := range map[string]struct {
			q float64
			v *float64
		}{"p5": {0.05, d.P5}, "p50": {0.5, d.P50}, "p95": {0.95, d.P95}, "p99": {0.99, d.P99}} {
			ci, ok := d.CI95[name]
			if !ok {
				if inside[0] <= bounds[len(bounds)-2] {
					t.Errorf("%s has no bounds", name)
				}
				continue
			}
			true := inside[max(int(math.Ceil(q.q*float64(len(inside))-1e-9)), 1)-1]
			if true < *ci[0] || ci[1] != nil && true > *ci[1] || ci[1] == nil && true <= bounds[len(bounds)-2] {
				t.Errorf("%s is %v, not in [%v, %v]", name, true, *ci[0], ci[1])
			}
			if q.v != nil && (*q.v < *ci[0] || *q.v > *ci[1]) {
				t.Errorf("%s is %v, outside of its bounds", name, *q.v)
			}
		}
	})
}

func TestStepOfALongRun(t *testing.T) {
	for _, c := range []struct {
		length  time.Duration
		perCell int64
		want    time.Duration
	}{
		{time.Minute, 100, time.Second},
		{time.Hour, 10_000, time.Second},
		{24 * time.Hour, 100, time.Second},
		{24 * time.Hour, 6400, 15 * time.Second},
		{1000 * time.Hour, 1e9, time.Hour},
	} {
		if got := chooseStep(int64(c.length), c.perCell); got != int64(c.want) {
			t.Errorf("%v with %d rows a cell: %v, want %v", c.length, c.perCell, time.Duration(got), c.want)
		}
	}
}

func tallyOf(list ...weighted) *tally {
	t := new(tally)
	for _, x := range list {
		t.add(x.v, x.w)
	}
	return t
}

func TestDistributionOverTime(t *testing.T) {
	// 1 for half of the time, 5 for 40 %, 100 for 10 %.
	d := tallyOf(weighted{100, 1}, weighted{1, 2}, weighted{5, 4}, weighted{1, 3}).dist()
	if d.Count != 4 || !near(*d.Mean, 12.5) || *d.P50 != 1 || *d.P75 != 5 || *d.P90 != 5 || *d.P95 != 100 || *d.Min != 1 || *d.Max != 100 {
		t.Errorf("%+v", d)
	}
	if d := tallyOf().dist(); d.Count != 0 || d.Mean != nil {
		t.Errorf("%+v", d)
	}
	if d := tallyOf(weighted{3, 1}).dist(); d.Std != nil || *d.P99 != 3 {
		t.Errorf("%+v", d)
	}
	// So many that neighbours are put together.
	rng := rand.New(rand.NewPCG(4, 4))
	var all []float64
	var parts [2]tally
	for i := range 300_000 {
		v := math.Exp(rng.NormFloat64())
		all = append(all, v)
		parts[i%2].add(v, 1)
	}
	parts[0].merge(&parts[1])
	if n := len(parts[0].values); n > keptValues {
		t.Errorf("%d values are kept", n)
	}
	slices.Sort(all)
	d = parts[0].dist()
	for q, got := range map[float64]float64{0.01: *d.P1, 0.5: *d.P50, 0.95: *d.P95, 0.99: *d.P99} {
		rank, _ := slices.BinarySearch(all, got)
		if share := float64(rank) / float64(len(all)); math.Abs(share-q) > 0.001 {
			t.Errorf("what should not be exceeded for %v is not for %v", q, share)
		}
	}
	if d.Count != 300_000 || *d.Min != all[0] || *d.Max != all[len(all)-1] {
		t.Errorf("%d values from %v to %v", d.Count, *d.Min, *d.Max)
	}
}
