package run

import (
	"encoding/json"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/record"
)

// long makes r the i-th of many requests with 256 events, with one token each.
func long(r *record.Request, i int) {
	fill(r, i)
	r.Output, r.StreamedTokens, r.AskedOutput = 256, 256, 256
	at := r.Events[49].At
	x := uint64(i)*0x9e3779b97f4a7c15 + 1
	for j := 50; j < 256; j++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		at += 20e6 + int64(x>>44) - 1<<19
		r.Events = append(r.Events, record.Event{
			At: at, Cumulative: record.Unknown, Tokens: 1, Read: uint32(j + 2), TextBytes: uint32(2 + x%7), Channel: record.Content,
		})
	}
	r.LastToken, r.End = at, at
}

func longs(n int) []record.Request {
	rs := make([]record.Request, n)
	for i := range rs {
		long(&rs[i], i)
	}
	return rs
}

// TestCostOfRows compares what a row costs, on its way from a record to a part,
// with what encoding/json takes for its three lists of 256 numbers.
func TestCostOfRows(t *testing.T) {
	if raceEnabled || testing.CoverMode() != "" {
		t.Skip("costs are not what they are")
	}
	const limit = 2.0
	const n = 2000
	rs := longs(n)
	best := time.Duration(1 << 62)
	reference := best
	ratio := 0.0
	for range 8 { // others may use the machine: the best of some rounds is told
		w, err := Create(t.TempDir(), info("cost"), nil, Blocking())
		if err != nil {
			t.Fatal(err)
		}
		before := cpu()
		for i := range rs {
			w.Add(&rs[i])
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		best = min(best, cpu()-before)

		var lists struct {
			Gaps      []int64
			Tokens    []int32
			TextBytes []uint32
		}
		e := json.NewEncoder(io.Discard)
		before = cpu()
		for i := range rs {
			lists.Gaps, lists.Tokens, lists.TextBytes = lists.Gaps[:0], lists.Tokens[:0], lists.TextBytes[:0]
			last := rs[i].FirstToken
			for _, v := range rs[i].Events {
				lists.Gaps = append(lists.Gaps, v.At-last)
				lists.Tokens, lists.TextBytes = append(lists.Tokens, v.Tokens), append(lists.TextBytes, v.TextBytes)
				last = v.At
			}
			if err := e.Encode(&lists); err != nil {
				t.Fatal(err)
			}
		}
		reference = min(reference, cpu()-before)
		if ratio = float64(best) / float64(reference); ratio <= limit {
			break
		}
	}
	t.Logf("a row takes %v, its lists as JSON %v: %.2f", best/n, reference/n, ratio)
	if ratio > limit {
		t.Errorf("a row takes %v, %.2f of what its lists take as JSON (%v), want at most %.2f", best/n, ratio, reference/n, limit)
	}
}

// TestAllocationsOfRows checks that memory is asked for by the part and by the
// page, not by the row.
func TestAllocationsOfRows(t *testing.T) {
	if raceEnabled || testing.CoverMode() != "" {
		t.Skip("allocations are not what they are")
	}
	rs := longs(512)
	var block []byte
	for i := range rs {
		block = appendRequest(block, &rs[i])
	}
	if n := testing.AllocsPerRun(20, func() { block = appendRequest(block[:0], &rs[0]) }); n > 0 {
		t.Errorf("queueing a row takes %v allocations", n)
	}
	block = block[:0]
	for i := range rs {
		block = appendRequest(block, &rs[i])
	}
	if per := len(block) / len(rs); per > 6*256 {
		t.Errorf("a queued row takes %d bytes, want at most 6 per event", per)
	}
	p := newPartWriter()
	d := &p.decoder
	rows := func() {
		d.b = block
		for i := 0; len(d.b) > 0; i++ {
			i %= len(p.rows)
			if i == 0 {
				d.arrays.reset()
			}
			d.request(&p.records[i])
			d.timeline(&p.timelines[i])
			p.rows[i].fill(&p.records[i], &p.timelines[i], p.flagNames(p.records[i].Flags))
		}
	}
	rows()
	if n := testing.AllocsPerRun(5, rows) / float64(len(rs)); n > 0 {
		t.Errorf("a row takes %v allocations, want none", n)
	}

	w, err := Create(t.TempDir(), info("allocations"), nil, Blocking())
	if err != nil {
		t.Fatal(err)
	}
	add := func() {
		for range 8 {
			for i := range rs {
				w.Add(&rs[i])
			}
		}
		endPart(t, w)
	}
	add() // makes the buffers
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	add()
	runtime.ReadMemStats(&after)
	per := float64(after.Mallocs-before.Mallocs) / float64(8*len(rs))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%.2f allocations per row", per)
	if per > 2 {
		t.Errorf("a row on disk takes %.2f allocations, want at most 2", per)
	}
}

// TestMergeOfSmallAndLargeParts merges parts that are put together and parts
// that stay groups of their own.
func TestMergeOfSmallAndLargeParts(t *testing.T) {
	w, err := Create(t.TempDir(), info("merge"), nil, Blocking())
	if err != nil {
		t.Fatal(err)
	}
	rs := longs(2200)
	ends := []int{5, 17, 1017, 1020, 1025, 2100, 2101}
	for i := range rs {
		w.Add(&rs[i])
		if slices.Contains(ends, i+1) {
			endPart(t, w)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(w.Dir(), requestsDir)
	parts, _, err := listParts(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(parts) != len(ends)+1 {
		t.Fatalf("%d parts, want %d", len(parts), len(ends)+1)
	}
	if err := merge(requestParts, dir, parts); err != nil {
		t.Fatal(err)
	}
	if got := partNames(t, w.Dir()); !slices.Equal(got, []string{"part-000001-000008.parquet"}) {
		t.Fatalf("parts are %v", got)
	}
	f, pf, _, err := openPart(filepath.Join(dir, "part-000001-000008.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var groups []int64
	for _, g := range pf.RowGroups() {
		groups = append(groups, g.NumRows())
	}
	if want := []int64{17, 1000, 8, 1075, 100}; !slices.Equal(groups, want) {
		t.Errorf("groups have %d rows, want %d", groups, want)
	}
	run, err := Open(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for got := range run.Requests() {
		if !slices.Equal(got.Events, rs[i].Events) {
			t.Fatalf("request %d has other events", i)
		}
		got.Events = nil // cmp is slow with thousands of them
		want := rs[i]
		want.Events = nil
		if diff := cmp.Diff(&want, got, sameRequest); diff != "" {
			t.Fatalf("request %d: %s", i, diff)
		}
		i++
	}
	if i != len(rs) || run.Notes() != nil {
		t.Errorf("read %d of %d, notes %v", i, len(rs), run.Notes())
	}
}

func BenchmarkLongRows(b *testing.B) {
	w, err := Create(b.TempDir(), info("bench"), nil, Blocking())
	if err != nil {
		b.Fatal(err)
	}
	rs := longs(4096)
	b.ReportAllocs()
	before := cpu()
	i := 0
	for b.Loop() {
		w.Add(&rs[i%len(rs)])
		i++
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(i)/(cpu()-before).Seconds(), "rows/CPU-s")
}
