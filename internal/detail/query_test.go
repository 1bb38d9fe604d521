package detail

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/internal/histogram"
	"plimsoll/internal/record"
	"plimsoll/internal/stats"
)

// exactly are the values of a figure of a request in ms.
func exactly(q *record.Request, name string) []float64 {
	one := func(v int64, ok bool) []float64 {
		if !ok {
			return nil
		}
		return []float64{float64(v) / 1e6}
	}
	if q.Status != record.OK && name != "send_lag" {
		return nil
	}
	switch name {
	case "ttft":
		return one(stats.TTFT(q))
	case "ttfc":
		return one(stats.TTFC(q))
	case "e2e":
		return one(stats.E2E(q))
	case "ttlt":
		return one(stats.TTLT(q))
	case "retrieval":
		return one(stats.Retrieval(q))
	case "ttft_from_schedule":
		return one(stats.TTFTFromSchedule(q))
	case "e2e_from_schedule":
		return one(stats.E2EFromSchedule(q))
	case "send_lag":
		return one(stats.SendLag(q))
	case "tpot":
		v, _, ok := stats.TPOT(q)
		return one(int64(math.Round(v)), ok)
	case itl:
		var out []float64
		stats.ITL(q, func(gap int64, tokens int32) {
			for range tokens {
				out = append(out, float64(gap)/float64(tokens)/1e6)
			}
		})
		return out
	}
	panic("BUG: figure " + name)
}

// close says whether a percentile is as near as a histogram promises, or a whole ns.
func nearTo(got, want float64) bool {
	return math.Abs(got-want) <= histogram.MaxError*math.Abs(want)+2e-6
}

// Bands are those of the values themselves, in buckets by schedule or, of what has not
// settled, by end; no request is in two of them and none is in none.
func TestBandsAgainstExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		in, list := someRun(r, rapid.IntRange(1, 60).Draw(t, "requests"), 1)
		points := rapid.SampledFrom([]int{1, 3, 20, 600}).Draw(t, "points")
		workload := rapid.SampledFrom([]string{"", "workload 1", "none"}).Draw(t, "workload")
		over := rapid.Bool().Draw(t, "over")
		s := storeOf(in, list)
		if over {
			s.finish()
		}
		from, to := int64(0), int64(0)
		if rapid.Bool().Draw(t, "part") {
			from, to = int64(1.2e9), int64(5.7e9)
		}
		g := s.Bands(BandFigures(), workload, from, to, points)
		if (g.Provisional == nil) != over || g.N > points {
			t.Fatalf("%d buckets of at most %d, provisional %v", g.N, points, g.Provisional)
		}
		for _, name := range BandFigures() {
			b, ok := g.Figures[name]
			if !ok {
				t.Fatalf("no bands of %s", name)
			}
			want := make([][]float64, g.N)
			for _, q := range list {
				at := binTime(q)
				if name == itl {
					_, at = s.gapsOf(q, 0, at)
				}
				if !over && at >= g.Provisional.NS() && q.End != record.Unset {
					at = q.End
				}
				i := floor(at-g.From.NS(), g.StepMs.NS())
				if i >= 0 && i < int64(g.N) && (workload == "" || q.Workload == workload) {
					want[i] = append(want[i], exactly(q, name)...)
				}
			}
			for i, values := range want {
				slices.Sort(values)
				n := len(values)
				if int(b.Count[i]) != n {
					t.Fatalf("%s, bucket %d: %d values, want %d", name, i, b.Count[i], n)
				}
				if n == 0 {
					if !math.IsNaN(b.P50[i]) || !math.IsNaN(b.Max[i]) {
						t.Fatalf("%s, bucket %d: figures of nothing", name, i)
					}
					continue
				}
				at := func(permille int) float64 { return values[stats.Rank(permille, int64(n))-1] }
				if math.Abs(b.Min[i]-max(values[0], 0)) > 2e-6 || math.Abs(b.Max[i]-max(values[n-1], 0)) > 2e-6 {
					t.Fatalf("%s, bucket %d: from %v to %v, want %v to %v", name, i, b.Min[i], b.Max[i], values[0], values[n-1])
				}
				for _, p := range []struct{ got, want float64 }{{b.P50[i], at(500)}, {b.P95[i], at(950)}, {b.P99[i], at(990)}} {
					if !nearTo(p.got, max(p.want, 0)) {
						t.Fatalf("%s, bucket %d: percentile %v, want %v", name, i, p.got, p.want)
					}
				}
			}
			// The heat map counts the same values, each in the row that holds it.
			h := s.Heat(name, workload, from, to, points)
			columns := make([]int64, h.N)
			for c := 0; c < len(h.Cells); c += 3 {
				column, row, n := h.Cells[c], h.Cells[c+1], h.Cells[c+2]
				columns[column] += n
				got := int64(0)
				for _, v := range want[column] {
					if v := max(v, 0); v >= h.EdgesMs[row]-2e-6 && v < h.EdgesMs[row+1]+2e-6 {
						got++
					}
				}
				if n < 1 || got < n {
					t.Fatalf("heat of %s, column %d, row from %v to %v: %d, of %d values that lie there", name, column, h.EdgesMs[row], h.EdgesMs[row+1], n, got)
				}
			}
			if h.N != g.N || !slices.Equal(columns, b.Count) {
				t.Fatalf("heat of %s: columns of %v, want %v", name, columns, b.Count)
			}
		}
	})
}

func TestHeatRows(t *testing.T) {
	last := int64(0)
	for row := range (63-10)*heatSteps + 2 {
		low := heatLow(row)
		if row > 0 && low <= last && low != math.MaxInt64 {
			t.Fatalf("row %d begins at %d, the one before at %d", row, low, last)
		}
		if low < math.MaxInt64 && (heatRow(low) != row || row > 0 && heatRow(low-1) != row-1) {
			t.Fatalf("row %d begins at %d, which is in %d", row, low, heatRow(low))
		}
		last = low
	}
}

// The rows of a grid that a page has: the fixture that the front end's own reader of
// filters is held against, too.
func TestFilterFixture(t *testing.T) {
	b, err := os.ReadFile("../../web/testdata/filter.json")
	if err != nil {
		t.Fatal(err)
	}
	var fixture struct {
		Rows  []RequestRow
		Cases []struct {
			Filter  string
			Matches []int64
			Error   *struct{ At, Length int }
		}
	}
	if err := json.Unmarshal(b, &fixture); err != nil {
		t.Fatal(err)
	}
	// The times of a fixture's row need not agree with its tpot, those of columns must:
	// filters on tpot are of rows whose last token suits it.
	s, suited := New(Meta{}), New(Meta{})
	for _, row := range fixture.Rows {
		s.addRow(row)
		if row.TTFT != nil && row.TPOT != nil {
			last := *row.TTFT + *row.TPOT
			row.TTLT = &last
		}
		suited.addRow(row)
		if row.TPOT != nil && row.TTFT != nil {
			suited.cols.tpotTokens[len(suited.cols.tpotTokens)-1] = 1
		}
	}
	if len(fixture.Rows) == 0 || len(fixture.Cases) < 50 {
		t.Fatalf("%d rows, %d cases", len(fixture.Rows), len(fixture.Cases))
	}
	for _, c := range fixture.Cases {
		of := s
		if strings.Contains(c.Filter, "tpot") {
			of = suited
		}
		rows, err := of.Requests(Query{Filter: c.Filter, Sort: "n"})
		if c.Error != nil {
			var bad *FilterError
			if !errors.As(err, &bad) || bad.At != c.Error.At || bad.Length != c.Error.Length || bad.Text == "" {
				t.Errorf("%q: error %+v, want one at %+v", c.Filter, err, *c.Error)
			}
			continue
		}
		var got []int64
		for _, r := range rows.Rows {
			got = append(got, r.N)
		}
		if err != nil || !slices.Equal(got, c.Matches) {
			t.Errorf("%q takes %v, error %v, want %v", c.Filter, got, err, c.Matches)
		}
	}
}

// addRow adds a row of a page to the columns.
func (s *Store) addRow(row RequestRow) {
	c := &s.cols
	i := c.rows()
	r := new(record.Request)
	r.Reset()
	r.ID, r.Session, r.User, r.Turn, r.Step, r.Target = uint64(row.N), row.Session, uint32(row.User), uint32(row.Turn), uint32(row.Step), uint32(row.Target)
	r.Scheduled = row.T.NS()
	for j := range 4 {
		if record.Status(j).String() == row.Status {
			r.Status = record.Status(j)
		}
		if record.Phase(j).String() == row.Phase {
			r.Phase = record.Phase(j)
		}
	}
	for j := range 30 {
		if record.ErrorKind(j).String() == row.ErrorKind {
			r.Error = record.ErrorKind(j)
		}
	}
	if row.HTTPStatus != nil {
		r.HTTPStatus = uint16(*row.HTTPStatus)
	}
	for _, n := range []struct {
		from *int
		to   *int32
	}{{row.PromptTokens, &r.Prompt}, {row.CachedTokens, &r.Cached}, {row.OutputTokens, &r.Output}} {
		if n.from != nil {
			*n.to = int32(*n.from)
		}
	}
	c.add(r, uint16(s.workloads.of(row.Workload, mostWorkloads)), uint8(s.finishes.of(row.Finish, mostFinishes)), false)
	put := func(col int, v int64) { c.durations[col].put(i, v) }
	// A start at the schedule, so that its durations are those of the row; send lag is
	// the delay less what was held.
	put(colDelay, 0)
	if row.SendLag != nil {
		put(colHeld, -row.SendLag.NS())
	}
	if row.E2E != nil {
		put(colEnd, row.E2E.NS())
	}
	if row.TTLT != nil {
		put(colTTLT, row.TTLT.NS())
	}
	if row.TTFT != nil {
		put(colTTFT, row.TTFT.NS())
		if row.TTFC != nil {
			p := *c.of(i)
			p.kind |= kindContent
			c.profile[i] = c.number(p)
			put(colContent, row.TTFC.NS()-row.TTFT.NS())
		}
	}
	if row.Retrieval != nil {
		put(colRetrieval, row.Retrieval.NS())
	}
}

// A page is a part of all rows in their order.
func TestPagesOfSortedRows(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	in, list := someRun(r, 300, 1)
	s := storeOf(in, list)
	for _, over := range []bool{false, true} {
		if over {
			s.finish()
		}
		for _, name := range append(slices.Clone(sortNames), "ttft", "tpot", "e2e", "send_lag", "ttlt") {
			for _, down := range []string{"", "-"} {
				all, err := s.Requests(Query{Sort: down + name, Limit: 1000})
				if err != nil || len(all.Rows) != 300 || all.Total != 300 || all.Matched != 300 {
					t.Fatalf("%s%s: %d rows, error %v", down, name, len(all.Rows), err)
				}
				var paged []int64
				for at := 0; at < 300; at += 77 {
					page, err := s.Requests(Query{Sort: down + name, Limit: 77, Offset: at})
					if err != nil {
						t.Fatal(err)
					}
					for _, row := range page.Rows {
						paged = append(paged, row.N)
					}
				}
				for i, row := range all.Rows {
					if paged[i] != row.N {
						t.Fatalf("%s%s: row %d of the pages is %d, want %d", down, name, i, paged[i], row.N)
					}
				}
			}
		}
		last := math.Inf(1)
		rows, _ := s.Requests(Query{Sort: "-ttft", Limit: 1000})
		for i, row := range rows.Rows {
			v := math.Inf(-1) // unknown values come last
			if row.TTFT != nil {
				v = float64(*row.TTFT)
			}
			if v > last {
				t.Fatalf("row %d: %v behind %v", i, v, last)
			}
			last = v
		}
	}
	var bad *QueryError
	if _, err := s.Requests(Query{Sort: "speed"}); !errors.As(err, &bad) || bad.Field != "sort" || !strings.Contains(bad.Fix, "ttft") {
		t.Errorf("sort by what is not there: error %v", err)
	}
}

// Tiles hold every point, and the lowest and highest of each are points too.
func TestScatterTiles(t *testing.T) {
	const n = mostDots + 3000
	s := New(Meta{})
	r := rand.New(rand.NewPCG(3, 4))
	low, high := math.Inf(1), math.Inf(-1)
	for i := range n {
		q := new(record.Request)
		q.Reset()
		q.ID, q.Workload, q.Streamed = uint64(i), fmt.Sprint("w", i%3), true
		q.Scheduled = int64(r.Float64() * 1e12)
		q.Start = q.Scheduled
		q.FirstToken = q.Start + int64(math.Exp(17+2*r.NormFloat64()))
		q.End = q.FirstToken
		v := float64(q.FirstToken-q.Start) / 1e6
		low, high = min(low, v), max(high, v)
		if i%100 == 0 {
			q.Streamed = false // without the figure
			q.FirstToken = record.Unset
		}
		s.AddRequest(q)
	}
	sc, err := s.Scatter(Query{}, "ttft", 1000, 300)
	if err != nil {
		t.Fatal(err)
	}
	if sc.Matched != n || sc.Without != n/100 || sc.Tiles == nil || len(sc.Points.N) > mostDots || len(sc.Colors) != 3 {
		t.Fatalf("%d matched, %d without, %d points, colours %v", sc.Matched, sc.Without, len(sc.Points.N), sc.Colors)
	}
	total := int64(0)
	type place struct{ x, y float64 }
	tiles := map[place]int64{}
	for i, c := range sc.Tiles.Count {
		total += c
		tiles[place{sc.Tiles.X0[i], sc.Tiles.Y0[i]}] += c
		if i > 0 && c > sc.Tiles.Count[i-1] {
			t.Errorf("tile %d has %d, the one before %d", i, c, sc.Tiles.Count[i-1])
		}
	}
	if total != n-n/100 {
		t.Errorf("tiles hold %d, want %d", total, n-n/100)
	}
	lowest, highest := slices.Min(sc.Points.Y), slices.Max(sc.Points.Y)
	if lowest > low*1.5 || highest < high/1.5 {
		t.Errorf("points from %v to %v, want the extremes %v and %v", lowest, highest, low, high)
	}
	inside := 0
	for i := range sc.Points.N {
		for j := range sc.Tiles.Count {
			if x, y := sc.Points.X[i], sc.Points.Y[i]; x >= sc.Tiles.X0[j] && x < sc.Tiles.X1[j] && y >= sc.Tiles.Y0[j]-1e-9 && y <= sc.Tiles.Y1[j]+1e-9 {
				inside++
				break
			}
		}
	}
	if inside != len(sc.Points.N) {
		t.Errorf("%d of %d points are in a tile", inside, len(sc.Points.N))
	}
	few, err := s.Scatter(Query{Filter: "n<4000"}, "ttft", 1000, 300)
	if err != nil || few.Tiles != nil || len(few.Points.N) != 4000-40 {
		t.Errorf("of few: %d points, tiles %v, error %v", len(few.Points.N), few.Tiles != nil, err)
	}
}

// What sets selected requests apart comes first.
func TestCommon(t *testing.T) {
	s := New(Meta{})
	for i := range 1000 {
		q := new(record.Request)
		q.Reset()
		q.ID, q.Workload, q.Streamed, q.User, q.Turn = uint64(i), "chat", true, uint32(i%16), uint32(i%5)
		q.Scheduled = int64(i) * second
		q.Start = q.Scheduled
		q.FirstToken = q.Start + 50e6
		q.Prompt, q.HTTPStatus = 1000, 200
		if i%10 == 0 { // the slow ones
			q.Workload, q.Target, q.FirstToken, q.Prompt = "legal", 2, q.Start+3e9, 9000
			q.Flags |= record.MultiTokenEvents
		}
		q.End = q.FirstToken + 1000
		s.AddRequest(q)
	}
	c, err := s.Common(Query{}, Box{Y: "ttft", YMin: 1000, YMax: math.NaN()})
	if err != nil {
		t.Fatal(err)
	}
	if c.Selected != 100 || c.Rest != 900 || len(c.Bars) < 4 {
		t.Fatalf("%d selected, %d others, %d bars", c.Selected, c.Rest, len(c.Bars))
	}
	var top []string
	for i, b := range c.Bars {
		if b.SelectedShare == 1 && b.RestShare == 0 {
			top = append(top, b.Field+"="+b.Value)
		}
		if i > 0 && b.SelectedShare-b.RestShare > c.Bars[i-1].SelectedShare-c.Bars[i-1].RestShare+1e-12 {
			t.Errorf("bar %d, %+v, is behind %+v", i, b, c.Bars[i-1])
		}
	}
	slices.Sort(top)
	if got, want := strings.Join(top, " "), "flag=multi_token_events prompt=8192..16383 target=2 workload=legal"; got != want {
		t.Errorf("all of the selected and none of the others have %s, want %s", got, want)
	}
	early, err := s.Common(Query{}, Box{Y: "ttft", XMin: 0, XMax: 99 * second, YMin: 0, YMax: 1e9})
	if err != nil || early.Selected != 100 {
		t.Errorf("of the first 100 s: %d, error %v", early.Selected, err)
	}
	none, err := s.Common(Query{Filter: "workload:none"}, Box{})
	if err != nil || none.Selected != 0 || none.Rest != 0 || none.Bars == nil {
		t.Errorf("of nothing: %+v, error %v", none, err)
	}
}

func TestEnvelope(t *testing.T) {
	s := New(Meta{})
	const members = 40
	for i := range 120 {
		for m := range members {
			v := 0.5 + float64(m)/1000
			if m == 17 {
				v = 0.01
			}
			if m == 3 && i == 50 {
				v = 0.99 // one cell
			}
			s.AddCell(int64(i)*second, Key{Signal: "sm_active", Stat: "value", Source: fmt.Sprint("node", m/8), Labels: fmt.Sprint("gpu=", m%8)}, v)
		}
		s.AddCell(int64(i)*second, Key{Signal: "sm_active", Stat: "value"}, 0.5)
		s.AddCell(int64(i)*second, Key{Signal: "sm_active", Stat: "value", Source: "node0"}, 0.5)
		s.AddCell(int64(i)*second, Key{Signal: "sm_active", Stat: "value", Labels: "gpu=0"}, 0.5)
	}
	e := s.Envelope("sm_active", "value", 0, 0, 12)
	if e.Members != members || e.N != 12 || e.Worst == nil || e.Worst.Source != "node2" || e.Worst.Labels != "gpu=1" || math.Abs(e.Worst.Value-0.01) > 1e-9 {
		t.Fatalf("%d members, %d buckets, worst %+v", e.Members, e.N, e.Worst)
	}
	for i := range e.N {
		most := 0.5 + float64(members-1)/1000
		if i == 5 {
			most = 0.99
		}
		if e.Min[i] != 0.01 || e.Max[i] != most || math.Abs(e.Median[i]-0.5185) > 0.002 {
			t.Errorf("bucket %d: %v, %v, %v", i, e.Min[i], e.Median[i], e.Max[i])
		}
	}
	if none := s.Envelope("power", "value", 0, 0, 12); none.Members != 0 || none.Worst != nil {
		t.Errorf("of nothing: %+v", none)
	}
}

// Percentiles are never averaged, and means of observations are over the observations.
func TestDataOfSeveralCells(t *testing.T) {
	s := New(Meta{})
	for i, v := range []struct{ mean, rate, p95 float64 }{{1, 10, 5}, {3, 30, 7}, {9, 0, 9}} {
		at := int64(i) * second
		s.AddCell(at, Key{Signal: "queue_time", Stat: "mean"}, v.mean)
		s.AddCell(at, Key{Signal: "queue_time", Stat: "rate"}, v.rate)
		s.AddCell(at, Key{Signal: "client.ttft", Stat: "p95"}, v.p95)
	}
	g := s.Data([]int{0, 1, 2, 99, -1}, 0, 10*second, 1)
	if len(g.Series) != 3 || g.N != 1 {
		t.Fatalf("%d series, %d buckets", len(g.Series), g.N)
	}
	if c := g.Series[0]; c.Mean[0] != (1*10+3*30)/40.0 || c.Min[0] != 1 || c.Max[0] != 3 {
		t.Errorf("mean of means is %+v", c)
	}
	if c := g.Series[2]; !math.IsNaN(c.Mean[0]) || c.Min[0] != 5 || c.Max[0] != 9 {
		t.Errorf("percentiles are %+v", c)
	}
	if c := s.Data([]int{2}, 0, 3*second, 3).Series[2]; c.Mean[1] != 7 || c.Min != nil {
		t.Errorf("single cells are %+v", c)
	}
	if d := s.Series()[0]; d.Kind != "duration" || d.Unit != "s" || d.ID != 0 {
		t.Errorf("series is %+v", d)
	}
	if d := s.SeriesFrom(1); len(d) != 2 || d[0].ID != 1 || d[0].Unit != "1/s" {
		t.Errorf("later series are %+v", d)
	}
}

func TestBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cell := rapid.SampledFrom([]int64{1, 2, 5, 10, 15, 30, 60, 3600}).Draw(t, "cell") * second
		from := rapid.Int64Range(-1e13, 1e15).Draw(t, "from")
		to := from + rapid.Int64Range(0, 1e15).Draw(t, "length")
		points := rapid.IntRange(1, 3000).Draw(t, "points")
		b := bucketsFor(from, to, cell, points)
		if b.step%cell != 0 || b.from%b.step != 0 || b.from > from || b.from+int64(b.n)*b.step < to || b.n < 1 {
			t.Fatalf("%+v of [%d, %d) in cells of %d", b, from, to, cell)
		}
		if from < 0 {
			points++ // none of them goes beyond 0
		}
		if b.n > points {
			t.Fatalf("%d buckets, want at most %d", b.n, points)
		}
	})
}

func TestCellsAreCutAtWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var steps []stats.StepInput
		at := int64(0)
		for range rapid.IntRange(0, 4).Draw(t, "steps") {
			start := at + rapid.Int64Range(0, 3e9).Draw(t, "before")
			at = start + rapid.Int64Range(0, 3e9).Draw(t, "length")
			steps = append(steps, stats.StepInput{Start: start, End: at})
		}
		g := newCellGrid(second, steps)
		// Cells follow one another and know their ends.
		cell := -1
		for x := int64(0); x < at+2*second; {
			if g.start(x) != x || g.cell(x) != cell+1 {
				t.Fatalf("at %d: cell %d from %d, want %d", x, g.cell(x), g.start(x), cell+1)
			}
			cell++
			end := g.end(x)
			if end <= x || end > x+second || g.cell(end-1) != cell || g.start(end-1) != x || g.end(end-1) != end {
				t.Fatalf("cell %d from %d to %d", cell, x, end)
			}
			x = end
		}
		for _, s := range steps {
			if first, last, length := g.within(s.Start, s.End); length != s.End-s.Start || last-first < int((s.End-s.Start)/second) {
				t.Fatalf("window [%d, %d) is cells %d to %d, %d ns", s.Start, s.End, first, last, length)
			}
		}
	})
}

func TestNumbersInJSON(t *testing.T) {
	b, err := json.Marshal(map[string]any{
		"times":  Times{0, 1, -0.0004, 1.2345678, 1e9 + 0.5, math.NaN(), math.Inf(1), -2.5},
		"values": Values{0, 123456, 0.1234567, 1e9, math.NaN(), 0.000001234567},
		"ms":     []*Ms{msOrNil(1234567), msOrNil(record.Unset)},
	})
	const want = `{"ms":[1.235,null],"times":[0,1,0,1.235,1000000000.5,null,null,-2.5],"values":[0,123456,0.123457,1e+09,null,1.23457e-06]}`
	if err != nil || string(b) != want {
		t.Errorf("%s, error %v, want %s", b, err, want)
	}
}
