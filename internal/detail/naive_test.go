package detail

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/internal/record"
	"plimsoll/internal/stats"
)

// shownOf is what is shown of a figure of a request, in ns or tokens, worked out of its
// record; e2e is that of ok requests alone.
func shownOf(q *record.Request, name string) (float64, bool) {
	of := func(v int64, ok bool) (float64, bool) { return float64(v), ok }
	count := func(n int32) (float64, bool) { return float64(n), n >= 0 }
	switch name {
	case "ttft":
		return of(stats.TTFT(q))
	case "ttfc":
		return of(stats.TTFC(q))
	case "tpot":
		v, _, ok := stats.TPOT(q)
		return v, ok
	case "e2e":
		v, ok := stats.E2E(q)
		return float64(v), ok && q.Status == record.OK
	case "ttlt":
		return of(stats.TTLT(q))
	case "retrieval":
		return of(stats.Retrieval(q))
	case "send_lag":
		return of(stats.SendLag(q))
	case "prompt":
		return count(q.Prompt)
	case "cached":
		return count(q.Cached)
	case "output":
		return count(q.Output)
	}
	panic("BUG: figure " + name)
}

// someTerm is a term of a filter, and what it says of a request.
func someTerm(t *rapid.T) (string, func(*record.Request) bool) {
	compare := func(op string, v, to float64) bool {
		return op == "<" && v < to || op == "<=" && v <= to || op == ">" && v > to || op == ">=" && v >= to || op == "=" && v == to
	}
	op := rapid.SampledFrom([]string{"<", "<=", ">", ">=", "="}).Draw(t, "op")
	n := rapid.IntRange(0, 40).Draw(t, "n")
	number := func(name string, of func(*record.Request) float64) (string, func(*record.Request) bool) {
		return fmt.Sprint(name, op, n), func(q *record.Request) bool { return compare(op, of(q), float64(n)) }
	}
	var text string
	var says func(*record.Request) bool
	switch field := rapid.SampledFrom([]string{
		"workload", "finish", "status", "phase", "error", "n", "user", "turn", "session", "step", "target", "http",
		"prompt", "output", "cached", "ttft", "ttfc", "tpot", "e2e", "ttlt", "retrieval", "send_lag",
	}).Draw(t, "field"); field {
	case "workload":
		part := rapid.SampledFrom([]string{"1", "WORK", "nothing"}).Draw(t, "part")
		text, says = "workload:"+part, func(q *record.Request) bool {
			return strings.Contains(strings.ToLower(q.Workload), strings.ToLower(part))
		}
	case "finish":
		text, says = "finish:st", func(q *record.Request) bool { return strings.Contains(q.Finish, "st") }
	case "status":
		of := rapid.SampledFrom([]record.Status{record.OK, record.Failed, record.Cancelled, record.Incomplete}).Draw(t, "status")
		text, says = "status:"+of.String(), func(q *record.Request) bool { return q.Status == of }
	case "phase":
		text, says = "phase:warmup", func(q *record.Request) bool { return q.Phase == record.Warmup }
	case "error":
		text, says = "error:"+record.RateLimited.String(), func(q *record.Request) bool { return q.Error == record.RateLimited }
	case "n":
		text, says = number(field, func(q *record.Request) float64 { return float64(q.ID) })
	case "user":
		text, says = number(field, func(q *record.Request) float64 { return float64(q.User) })
	case "turn":
		text, says = number(field, func(q *record.Request) float64 { return float64(q.Turn) })
	case "session":
		text, says = number(field, func(q *record.Request) float64 { return float64(q.Session) })
	case "step":
		text, says = number(field, func(q *record.Request) float64 { return float64(q.Step) })
	case "target":
		text, says = number(field, func(q *record.Request) float64 { return float64(q.Target) })
	case "http":
		text, says = "http:200", func(q *record.Request) bool { return q.HTTPStatus == 200 }
	case "prompt", "output", "cached":
		text, says = fmt.Sprint(field, op, n*20), func(q *record.Request) bool {
			v, ok := shownOf(q, field)
			return ok && compare(op, v, float64(n*20))
		}
	default:
		us := n * n * 500
		text, says = fmt.Sprint(field, op, us, "us"), func(q *record.Request) bool {
			v, ok := shownOf(q, field)
			return ok && compare(op, math.Round(v), float64(us)*1e3)
		}
	}
	if rapid.Bool().Draw(t, "not") {
		yes := says
		return "-" + text, func(q *record.Request) bool { return !yes(q) }
	}
	return text, says
}

// someQuestion is a query of a run and those of its requests that it takes, by the order
// of their schedule.
func someQuestion(t *rapid.T, list []*record.Request) (Query, []*record.Request) {
	var q Query
	if rapid.Bool().Draw(t, "part") {
		q.From = rapid.Int64Range(0, 9e9).Draw(t, "from")
		q.To = q.From + rapid.Int64Range(1, 9e9).Draw(t, "length")
	}
	taken := slices.DeleteFunc(slices.Clone(list), func(r *record.Request) bool {
		return q.To > 0 && (binTime(r) < q.From || binTime(r) >= q.To)
	})
	var terms []string
	for range rapid.IntRange(0, 4).Draw(t, "terms") {
		text, says := someTerm(t)
		terms = append(terms, text)
		taken = slices.DeleteFunc(taken, func(r *record.Request) bool { return !says(r) })
	}
	q.Filter = strings.Join(terms, " ")
	slices.SortFunc(taken, func(a, b *record.Request) int {
		return cmp.Or(cmp.Compare(binTime(a), binTime(b)), cmp.Compare(a.ID, b.ID))
	})
	return q, taken
}

// naiveBars are all bars of Common, by field and value.
func naiveBars(all, taken []*record.Request, selected func(*record.Request) bool) (bars map[string]Bar, in, rest int) {
	users := uint32(0)
	for _, q := range all {
		users = max(users, q.User)
	}
	width := int64(users/userGroups + 1)
	class := func(n int32) string {
		switch d := bits.Len32(uint32(n)); {
		case n < 0:
			return ""
		case d == 0:
			return "0"
		case d == 1:
			return "1"
		default:
			return fmt.Sprintf("%d..%d", 1<<(d-1), 1<<d-1)
		}
	}
	bars = make(map[string]Bar)
	for _, q := range taken {
		inside := selected(q)
		if inside {
			in++
		} else {
			rest++
		}
		connection := "new connection"
		if q.Reused {
			connection = "reused connection"
		}
		group := int64(q.User) / width
		values := [][2]string{
			{"workload", q.Workload},
			{"status", q.Status.String()},
			{"error", q.Error.String()},
			{"phase", q.Phase.String()},
			{"step", strconv.Itoa(int(q.Step))},
			{"turn", strconv.Itoa(int(q.Turn))},
			{"target", strconv.Itoa(int(q.Target))},
			{"user", between(group*width, (group+1)*width-1)},
			{"prompt", class(q.Prompt)},
			{"cached", class(q.Cached)},
			{"output", class(q.Output)},
			{"reused", connection},
			{"http", strconv.Itoa(int(q.HTTPStatus))},
			{"finish", q.Finish + "\x00"},
		}
		for _, name := range q.Flags.Names() {
			values = append(values, [2]string{"flag", name})
		}
		for _, v := range values {
			if v[1] == "" || v[0] == "http" && v[1] == "0" {
				continue
			}
			b := bars[v[0]+" "+v[1]]
			b.Field, b.Value = v[0], strings.TrimSuffix(v[1], "\x00")
			if inside {
				b.Selected++
			} else {
				b.Rest++
			}
			bars[v[0]+" "+v[1]] = b
		}
	}
	for k, b := range bars {
		b.SelectedShare = float64(b.Selected) / float64(in)
		if rest > 0 {
			b.RestShare = float64(b.Rest) / float64(rest)
		}
		if bars[k] = b; !(b.SelectedShare-b.RestShare > leastLift) {
			delete(bars, k)
		}
	}
	return bars, in, rest
}

// The answers to questions about requests are those that looking at one record after
// the other gives: of runs that go on and that are over, of all of it and of parts, with
// filters and without.
func TestQuestionsAgainstRecords(t *testing.T) {
	longest := 3 // in blocks of rows
	if testing.Short() {
		longest = 1
	}
	figures := []string{"ttft", "ttfc", "tpot", "e2e", "ttlt", "retrieval", "send_lag", "prompt", "cached", "output"}
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		n := rapid.IntRange(1, 60).Draw(t, "requests")
		if rapid.IntRange(0, 19).Draw(t, "many") == 0 {
			n = rapid.IntRange(blockRows-2, longest*blockRows).Draw(t, "many requests")
		}
		in, list := someRun(r, n, 1)
		s := storeOf(in, list)
		over := rapid.Bool().Draw(t, "over")
		if over {
			s.finish()
		}
		for range 4 {
			q, taken := someQuestion(t, list)
			q.Limit = mostRows
			rows, err := s.Requests(q)
			if err != nil || rows.Matched != len(taken) || len(rows.Rows) != len(taken) {
				t.Fatalf("%+v takes %d, error %v, want %d", q, rows.Matched, err, len(taken))
			}
			for i, row := range rows.Rows {
				if row.N != int64(taken[i].ID) || row.T.NS() != binTime(taken[i]) || row.Workload != taken[i].Workload {
					t.Fatalf("%+v: row %d is %+v, want request %d", q, i, row, taken[i].ID)
				}
			}
			y := rapid.SampledFrom(figures).Draw(t, "y")
			unit := perMS
			if slices.Contains([]string{"prompt", "cached", "output"}, y) {
				unit = 1
			}
			sc, err := s.Scatter(q, y, 300, 100)
			if err != nil || sc.Matched != len(taken) || sc.Tiles != nil {
				t.Fatalf("scatter of %+v: %d taken, error %v, want %d", q, sc.Matched, err, len(taken))
			}
			points := map[int64]float64{}
			for i, n := range sc.Points.N {
				points[n] = sc.Points.Y[i]
			}
			known := 0
			for _, r := range taken {
				v, ok := shownOf(r, y)
				if at, there := points[int64(r.ID)]; there != ok || ok && at != v/unit {
					t.Fatalf("scatter of %+v, %s of request %d: %v, %v, want %v, %v", q, y, r.ID, at, there, v/unit, ok)
				}
				known += int(bit(ok))
			}
			if len(points) != known || sc.Without != len(taken)-known {
				t.Fatalf("scatter of %+v: %d points, %d without, want %d of %d", q, len(points), sc.Without, known, len(taken))
			}
			box := Box{Y: y, YMin: math.NaN(), YMax: math.NaN()}
			if rapid.Bool().Draw(t, "low") {
				box.YMin = rapid.Float64Range(0, 300).Draw(t, "least")
			}
			if rapid.Bool().Draw(t, "high") {
				box.YMax = rapid.Float64Range(0, 3000).Draw(t, "most")
			}
			if rapid.Bool().Draw(t, "times") {
				box.XMin, box.XMax = 1e9, rapid.Int64Range(1e9, 9e9).Draw(t, "until")
			}
			checkCommon(t, s, q, box, list, taken, unit)
		}
	})
}

// checkCommon holds an answer of Common against records.
func checkCommon(t *rapid.T, s *Store, q Query, box Box, list, taken []*record.Request, unit float64) {
	want, in, rest := naiveBars(list, taken, func(r *record.Request) bool {
		if at := binTime(r); (box.XMin != 0 || box.XMax != 0) && (at < box.XMin || at > box.XMax) {
			return false
		}
		v, ok := shownOf(r, box.Y)
		return ok && !(v/unit < box.YMin) && !(v/unit > box.YMax)
	})
	c, err := s.Common(q, box)
	if err != nil || c.Selected != in || c.Rest != rest {
		t.Fatalf("common of %+v in %+v: %d selected, %d others, error %v, want %d and %d", q, box, c.Selected, c.Rest, err, in, rest)
	}
	if in == 0 {
		return
	}
	lift := func(b Bar) float64 { return b.SelectedShare - b.RestShare }
	var lifts []float64
	for _, b := range want {
		lifts = append(lifts, lift(b))
	}
	slices.SortFunc(lifts, func(a, b float64) int { return cmp.Compare(b, a) })
	if len(c.Bars) != min(len(lifts), mostBars) {
		t.Fatalf("common of %+v in %+v: %d bars, want %d", q, box, len(c.Bars), min(len(lifts), mostBars))
	}
	for i, b := range c.Bars {
		key := b.Field + " " + b.Value
		if b.Field == "finish" {
			key += "\x00"
		}
		if want[key] != b || lift(b) != lifts[i] {
			t.Fatalf("common of %+v in %+v: bar %d is %+v, want %+v and a difference of %v", q, box, i, b, want[key], lifts[i])
		}
	}
}

// The row of a figure is that whose edge is the last not above it.
func TestRowsByLogarithm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Float64Range(1e-6, 1e6).Draw(t, "low")
		times := rapid.Float64Range(1, 1e9).Draw(t, "times")
		edges := make([]float64, rapid.IntRange(1, 60).Draw(t, "rows")+1)
		for j := range edges {
			edges[j] = low * math.Pow(times, float64(j)/float64(len(edges)-1))
		}
		rows := rowsOf(edges)
		values := []float64{0, -1, low / 3, edges[len(edges)-1] * 2, rapid.Float64Range(edges[0], edges[len(edges)-1]).Draw(t, "value")}
		for _, e := range edges {
			values = append(values, e, math.Nextafter(e, 0), math.Nextafter(e, math.Inf(1)))
		}
		for _, y := range values {
			want := 0
			for want+2 < len(edges) && y >= edges[want+1] {
				want++
			}
			if got := rows.of(y); got != want {
				t.Fatalf("%v is in row %d of %v, want %d", y, got, edges, want)
			}
		}
	})
}

// Each tile holds the points that lie in it, by colour.
func TestTilesAgainstRecords(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	in, list := someRun(r, mostDots*8/5, 1)
	s := storeOf(in, list)
	s.finish()
	for _, y := range []string{"ttft", "output"} {
		for _, color := range []string{"workload", "status"} {
			sc, err := s.Scatter(Query{Color: color}, y, 640, 200)
			if err != nil || sc.Tiles == nil {
				t.Fatalf("%s: tiles %v, error %v", y, sc.Tiles, err)
			}
			type point struct {
				x, y  float64
				color string
			}
			var points []point
			for _, q := range list {
				v, ok := shownOf(q, y)
				if y == "ttft" {
					v /= perMS
				}
				of := q.Workload
				if color == "status" {
					of = q.Status.String()
				}
				if ok {
					points = append(points, point{float64(binTime(q)) / perMS, v, of})
				}
			}
			top, bottom := slices.Max(sc.Tiles.Y1), slices.Min(sc.Tiles.Y0)
			total := int64(0)
			for i, n := range sc.Tiles.Count {
				got := int64(0)
				for _, p := range points {
					if p.color == sc.Colors[sc.Tiles.C[i]] && p.x >= sc.Tiles.X0[i] && p.x < sc.Tiles.X1[i] &&
						(p.y >= sc.Tiles.Y0[i] || sc.Tiles.Y0[i] == bottom) && (p.y < sc.Tiles.Y1[i] || sc.Tiles.Y1[i] == top) {
						got++
					}
				}
				if got != n {
					t.Fatalf("%s by %s: tile %d has %d, want %d", y, color, i, n, got)
				}
				total += n
			}
			if int(total) != sc.Matched-sc.Without {
				t.Errorf("%s by %s: tiles of %d, want %d", y, color, total, sc.Matched-sc.Without)
			}
		}
	}
}

// Sorting by digits is sorting, and leaves equal ones in their order.
func TestSortByKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.OneOf(
			rapid.Float64Range(-1e3, 1e12), rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1, -1, 1e300, -1e300, 5e-324}),
		), 0, 200).Draw(t, "values")
		keys, rows := make([]uint64, len(values)), make([]uint32, len(values))
		for i, v := range values {
			keys[i], rows[i] = keyOf(v), uint32(i)
		}
		want := slices.Clone(rows)
		slices.SortStableFunc(want, func(a, b uint32) int { return cmp.Compare(values[a], values[b]) })
		if got := sortByKey(keys, rows); !slices.Equal(got, want) {
			t.Fatalf("%v in the order %v, want %v", values, got, want)
		}
	})
}
