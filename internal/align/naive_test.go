package align

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/internal/record"
	"plimsoll/internal/run"
	"plimsoll/internal/signal"
	"plimsoll/internal/stats"
)

// someRequests are requests of all kinds in the order of their ends.
func someRequests(rng *rand.Rand, n int, length int64, workloads int) []*record.Request {
	var out []*record.Request
	for i := range n {
		start := rng.Int64N(length)
		first := start + rng.Int64N(3*sec)
		end := first + rng.Int64N(6*sec)
		r := request(uint64(i), start, first, end, 1+rng.IntN(40))
		r.Scheduled = max(0, start-rng.Int64N(300*ms))
		r.Session, r.User = uint64(i/3), uint32(rng.IntN(20))
		r.Workload = fmt.Sprintf("w%d", rng.IntN(workloads))
		r.KernelTimes, r.ReadLagMean = true, rng.Int64N(ms)
		switch rng.IntN(10) {
		case 0:
			r.Status, r.Error = record.Failed, record.TruncatedStream
			r.Output = record.Unknown // events nobody counted
			for j := range r.Events {
				r.Events[j].Tokens = record.Unknown
			}
		case 1:
			r.Status = record.Cancelled
		case 2: // one body
			r.Events, r.Streamed, r.FirstToken, r.LastToken = nil, false, record.Unset, record.Unset
			r.StreamedTokens, r.FirstEventTokens = record.Unknown, record.Unknown
		case 3: // refused
			r.Status, r.Error = record.Failed, record.ConnectRefused
			r.Events, r.FirstToken, r.LastToken, r.Output, r.Prompt = nil, record.Unset, record.Unset, record.Unknown, record.Unknown
		case 4: // counted, but not by event
			for j := range r.Events {
				r.Events[j].Tokens = record.Unknown
			}
		case 5: // never ended
			r.Status, r.End = record.Incomplete, record.Unset
		case 6: // reasoning that was counted and not streamed
			r.Output += 17
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b *record.Request) int {
		end := func(r *record.Request) int64 {
			_, last := latest(r)
			return last
		}
		return int((end(a) - end(b)) / 100) // about
	})
	return out
}

// naiveClient works out every figure of a cell from all records.
func naiveClient(all []*record.Request, t, step, end int64, perEvent float64, workload string) map[[2]string]float64 {
	out := make(map[[2]string]float64)
	cell := window{t, t + step}
	in := func(x int64) bool { return x != record.Unset && x >= t && x < t+step }
	covered := float64(min(end, t+step) - t)
	type life struct{ from, to int64 }
	users, sessions := map[uint64]life{}, map[uint64]life{}
	live := func(m map[uint64]life, id uint64, from, to int64) {
		l, ok := m[id]
		if !ok {
			l = life{from, to}
		}
		m[id] = life{min(l.from, from), max(l.to, to)}
	}
	values := map[string][]float64{}
	add := func(name, stat string, v float64) { out[[2]string{name, stat}] += v }
	for _, r := range all {
		if workload != "" && r.Workload != workload {
			continue
		}
		_, last := latest(r)
		ended := r.End
		if ended == record.Unset {
			ended = last
		}
		live(users, uint64(r.User), r.Scheduled, ended)
		live(sessions, r.Session, r.Scheduled, ended)
		for _, c := range []struct {
			name string
			hit  bool
		}{
			{"client.requests_scheduled", in(r.Scheduled)},
			{"client.requests_sent", in(r.Start)},
			{"client.requests_ok", in(r.End) && r.Status == record.OK},
			{"client.requests_failed", in(r.End) && r.Status == record.Failed},
			{"client.requests_cancelled", in(r.End) && r.Status == record.Cancelled},
		} {
			v := 0.0
			if c.hit {
				v = 1e9 / float64(step)
			}
			add(c.name, "rate", v)
		}
		to := r.End
		if to == record.Unset {
			to = end
		}
		first := to
		if r.FirstToken != record.Unset {
			first = r.FirstToken
		}
		add("client.requests_in_flight", "value", float64(cell.overlap(r.Start, to))/covered)
		add("client.waiting_first_token", "value", float64(cell.overlap(r.Start, first))/covered)
		add("client.decoding", "value", float64(cell.overlap(first, to))/covered)
		prompt, output := 0.0, 0.0
		at := r.FirstToken
		if at == record.Unset {
			at = r.End
		}
		if in(at) && r.Prompt >= 0 {
			prompt = float64(r.Prompt)
		}
		known, sum := len(r.Events) > 0, int64(0)
		for _, e := range r.Events {
			known = known && e.Tokens >= 0
			sum += int64(e.Tokens)
		}
		for i, e := range r.Events {
			if !in(e.At) {
				continue
			}
			switch n := int64(len(r.Events)); {
			case known:
				output += float64(e.Tokens)
				if i == 0 && int64(r.Output) > sum {
					output += float64(int64(r.Output) - sum)
				}
			case r.Output >= 0:
				output += float64(int64(r.Output)*int64(i+1)/n - int64(r.Output)*int64(i)/n)
			default:
				output += perEvent
			}
		}
		if len(r.Events) == 0 && in(r.End) && r.Output >= 0 {
			output += float64(r.Output)
		}
		add("client.prompt_tokens", "rate", prompt/(float64(step)/1e9))
		add("client.output_tokens", "rate", output/(float64(step)/1e9))
		put := func(name string, at, v int64) {
			if in(at) {
				values[name] = append(values[name], float64(v)/1e9)
			}
		}
		put("client.send_lag", r.Start, r.Start-r.Scheduled)
		put("client.read_lag", r.End, r.ReadLagMean)
		if r.Status != record.OK {
			continue
		}
		put("client.e2e", r.End, r.End-r.Start)
		if !r.Streamed {
			continue
		}
		put("client.ttft", r.FirstToken, r.FirstToken-r.Start)
		if n := r.StreamedTokens - r.FirstEventTokens; n > 0 && len(r.Events) > 1 {
			put("client.tpot", r.End, int64(math.Round(float64(r.LastToken-r.FirstToken)/float64(n))))
		}
		if known {
			for i := 1; i < len(r.Events); i++ {
				put("client.itl", r.Events[i].At, r.Events[i].At-r.Events[i-1].At)
			}
		}
	}
	for _, l := range users {
		add("client.users", "value", float64(cell.overlap(l.from, l.to))/covered)
	}
	for _, l := range sessions {
		add("client.sessions_in_flight", "value", float64(cell.overlap(l.from, l.to))/covered)
	}
	for name, v := range values {
		slices.Sort(v)
		sum := 0.0
		for _, x := range v {
			sum += x
		}
		out[[2]string{name, "mean"}] = sum / float64(len(v))
		out[[2]string{name, "max"}] = v[len(v)-1]
		for stat, q := range map[string]float64{"p50": 50, "p95": 95, "p99": 99} {
			out[[2]string{name, stat}] = v[max(int(math.Ceil(float64(len(v))*q/100-1e-9)), 1)-1]
		}
	}
	return out
}

func TestClientAgainstTheNaiveOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
		length := rapid.Int64Range(2, 40).Draw(t, "length") * sec
		workloads := rapid.IntRange(1, 3).Draw(t, "workloads")
		step := rapid.SampledFrom([]int64{500 * ms, sec, 2 * sec}).Draw(t, "step")
		all := someRequests(rng, rapid.IntRange(1, 60).Draw(t, "requests"), length, workloads)
		names := map[string]bool{}
		var tokens, events int64
		duration, prompts, outputs := int64(0), false, false
		for _, r := range all {
			names[r.Workload] = true
			_, last := latest(r)
			duration = max(duration, last)
			prompts, outputs = prompts || r.Prompt >= 0, outputs || r.Output >= 0
			if len(r.Events) > 0 && r.Events[0].Tokens >= 0 {
				tokens, events = tokens+int64(len(r.Events)), events+int64(len(r.Events))
			}
		}
		perEvent := 0.0
		if events > 0 {
			perEvent = float64(tokens) / float64(events)
		}
		duration += rng.Int64N(2 * sec)
		got := make(map[run.TimelineRow]float64)
		_, err := Build(Input{
			Step: step, Run: stats.Input{Duration: duration}, Requests: slices.Values(all),
			Rows: func(rows []run.TimelineRow) error {
				for _, r := range rows {
					v := r.Value
					r.Value = 0
					got[r] = v
				}
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		workload := []string{""}
		if len(names) > 1 {
			for n := range names {
				workload = append(workload, n)
			}
		}
		n := 0
		for _, w := range workload {
			for at := int64(0); at < duration; at += step {
				for k, want := range naiveClient(all, at, step, duration, perEvent, w) {
					if k[0] == "client.prompt_tokens" && !prompts || k[0] == "client.output_tokens" && !outputs {
						continue
					}
					v, ok := got[run.TimelineRow{T: at, Signal: k[0], Stat: k[1], Workload: w}]
					allowed := 1e-9 * max(1, want)
					if k[0] == "client.itl" && k[1] != "mean" && k[1] != "max" {
						allowed = 0.004*want + 1e-9
					}
					if !ok || math.Abs(v-want) > allowed {
						t.Fatalf("%s %s of %q at %d is %v (%v), want %v", k[0], k[1], w, at, v, ok, want)
					}
					n++
				}
			}
		}
		if n != len(got) {
			t.Fatalf("%d rows, want %d", len(got), n)
		}
	})
}

// TestRatesAreThoseOfTheSummary compares what came in a window, added up from the
// cells, with the summary of the same records.
func TestRatesAreThoseOfTheSummary(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 5))
		all := someRequests(rng, 200, 30*sec, 2)
		in := steady(5*sec, 25*sec)
		in.Duration = 40 * sec
		want := stats.Summarize(in, slices.Values(all))
		_, rows := build(t, Input{Run: in, Requests: slices.Values(all)})
		sum := func(name string) (v float64) {
			for second, x := range at(rows, name, "rate", "", "") {
				if second >= 5 && second < 25 {
					v += x
				}
			}
			return v / 20
		}
		for name, w := range map[string]*float64{
			"client.output_tokens": want.Tokens.OutputPerS, "client.prompt_tokens": want.Tokens.PromptPerS,
			"client.requests_sent": want.Load.AchievedRPS, "client.requests_ok": want.Load.CompletedRPS,
		} {
			if got := sum(name); w == nil || math.Abs(got-*w) > 1e-6*got {
				t.Errorf("seed %d: %s is %v, the summary has %v", seed, name, got, *w)
			}
		}
	}
}

// reading is one reading of a naive course.
type reading struct {
	t int64
	v float64
}

// naiveGap says whether readings are missing before reading i.
func naiveGap(list []reading, i int, usual int64) bool {
	before := int64(0)
	if i > 1 {
		before = list[i-1].t - list[i-2].t
	}
	return float64(list[i].t-list[i-1].t) > 1.5*float64(max(usual, before))
}

// naiveGauge returns the value of a cell.
func naiveGauge(list []reading, usual, t, step int64) (float64, bool) {
	sum, n := 0.0, 0
	for _, r := range list {
		if r.t >= t && r.t < t+step {
			sum, n = sum+r.v, n+1
		}
	}
	if n > 0 {
		return sum / float64(n), true
	}
	middle := t + step/2
	for i, r := range list {
		from, to := r.t-usual/2, r.t+usual/2
		if i > 0 && !naiveGap(list, i, usual) {
			from = (list[i-1].t + r.t) / 2
		}
		if i+1 < len(list) && !naiveGap(list, i+1, usual) {
			to = (r.t + list[i+1].t) / 2
		}
		if middle >= from && middle < to {
			return r.v, true
		}
	}
	return 0, false
}

// naiveCounter returns the rise inside a stretch of time, and how much of it is
// known; with gaps, rises through gaps count as well.
func naiveCounter(list []reading, usual int64, w window, gaps bool) (rise float64, known int64) {
	for i := 1; i < len(list); i++ {
		if !gaps && naiveGap(list, i, usual) {
			continue
		}
		a, b := list[i-1], list[i]
		d := b.v - a.v
		if d < 0 {
			d = b.v
		}
		n := w.overlap(a.t, b.t)
		rise += d * float64(n) / float64(b.t-a.t)
		known += n
	}
	return rise, known
}

// TestServersAgainstTheNaiveOne reads several engines on several sources, with
// readings that are missing or late, restarts and other periods.
func TestServersAgainstTheNaiveOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
		step := rapid.SampledFrom([]int64{500 * ms, sec, 2 * sec}).Draw(t, "step")
		sources := rapid.IntRange(1, 3).Draw(t, "sources")
		engines := rapid.IntRange(1, 3).Draw(t, "engines")
		length := rapid.Int64Range(8, 60).Draw(t, "length") * sec
		ids := []signal.ID{signal.RequestsRunning, signal.KVCacheUsage, signal.GenerationTokens, signal.Throttled}
		m := new(memory)
		type key struct{ source, engine, id int }
		courses := make(map[key][]reading)
		periods := make([]int64, sources)
		var plan []struct {
			t      int64
			source int
		}
		for s := range sources {
			periods[s] = rapid.SampledFrom([]int64{200 * ms, 500 * ms, sec, 3 * sec}).Draw(t, "period")
			for at := rng.Int64N(sec) - 2*sec; at < length; at += periods[s] {
				if rng.IntN(12) > 0 {
					plan = append(plan, struct {
						t      int64
						source int
					}{at + rng.Int64N(periods[s]/10), s})
				}
			}
		}
		slices.SortStableFunc(plan, func(a, b struct {
			t      int64
			source int
		},
		) int {
			return int((a.t - b.t) / 1000)
		})
		counts, still := make(map[key]float64), make(map[key]int)
		for _, p := range plan {
			for e := range engines {
				for i, id := range ids {
					k := key{p.source, e, i}
					v := float64(rng.IntN(1000)) / 8
					if id == signal.GenerationTokens {
						switch {
						case still[k] > 0:
							still[k]--
						case rng.IntN(30) == 0:
							still[k] = rng.IntN(4)
						case rng.IntN(40) == 0:
							counts[k] = float64(1 + rng.IntN(500)) // perhaps what it was
						default:
							counts[k] += float64(1 + rng.IntN(500))
						}
						v = counts[k]
					}
					m.say(p.t, signal.Series{Source: p.source, Signal: id, Labels: fmt.Sprintf("engine=%d", e)}, v)
					courses[k] = append(courses[k], reading{p.t, v})
				}
			}
		}
		from := rng.Int64N(length / 2)
		in := Input{Step: step, Samples: m, Run: steady(from, from+length/3)}
		for s := range sources {
			in.Sources = append(in.Sources, Source{Name: string(rune('a' + s))})
		}
		got := make(map[run.TimelineRow]float64)
		in.Rows = func(rows []run.TimelineRow) error {
			for _, r := range rows {
				if r.Source == "" && len(r.Signal) > 7 && r.Signal[:7] == "client." {
					continue
				}
				v := r.Value
				r.Value = 0
				got[r] = v
			}
			return nil
		}
		out, err := Build(in)
		if err != nil {
			t.Fatal(err)
		}
		usual := func(list []reading) int64 {
			var d []int64
			for i := 1; i < len(list); i++ {
				d = append(d, list[i].t-list[i-1].t)
			}
			if len(d) == 0 {
				return sec
			}
			slices.Sort(d)
			return d[len(d)/2]
		}
		for _, list := range courses {
			if len(list) > 32 {
				t.Skip("more readings than the median is taken of")
			}
		}
		// A gauge that an engine writes as it works is not of now while its tokens stand
		// still: two cells, with nobody there. 0 is what it would be anyway.
		tokens := slices.Index(ids, signal.GenerationTokens)
		gauge := func(k key, at int64) (float64, bool) {
			list := courses[k]
			v, ok := naiveGauge(list, usual(list), at, step)
			if v == 0 || ids[k.id] != signal.RequestsRunning && ids[k.id] != signal.KVCacheUsage {
				return v, ok
			}
			counted := courses[key{k.source, k.engine, tokens}]
			for _, cell := range []int64{at, at - step} {
				if rise, n := naiveCounter(counted, usual(counted), window{cell, cell + step}, false); rise != 0 || n < step/2 {
					return v, ok
				}
			}
			return 0, false
		}
		want := make(map[run.TimelineRow]float64)
		window0 := window{in.Run.Steps[0].Start, in.Run.Steps[0].End}
		sumRate, anyRate := 0.0, false
		for at := floor(-length-9*sec, step) * step; at < 2*length+6*sec; at += step {
			for i, id := range ids {
				together := func(of []key, source string) {
					var known []float64
					missing := false
					for _, k := range of {
						list := courses[k]
						if len(list) == 0 {
							continue
						}
						u := usual(list)
						v, ok := gauge(k, at)
						if id == signal.GenerationTokens {
							rise, n := naiveCounter(list, u, window{at, at + step}, false)
							v, ok = rise/float64(n)*1e9, n >= step/2 && n > 0
						}
						if ok {
							known = append(known, v)
						} else {
							// It never went away before its source did.
							missing = missing || at+step/2 >= list[0].t
						}
					}
					row := run.TimelineRow{T: at, Signal: id.String(), Stat: "value", Source: source}
					if len(known) == 0 {
						return
					}
					sum, most := 0.0, known[0]
					for _, v := range known {
						sum, most = sum+v, max(most, v)
					}
					put := func(stat string, v float64) { row.Stat = stat; want[row] = v }
					switch id {
					case signal.KVCacheUsage:
						put("value", sum/float64(len(known)))
						if len(of) > 1 {
							put("max", most)
						}
					case signal.Throttled:
						put("value", most)
					default:
						if missing {
							return
						}
						if id == signal.GenerationTokens {
							put("rate", sum)
						} else {
							put("value", sum)
						}
						if len(known) > 1 && sum > 0 {
							put("imbalance", most/(sum/float64(len(known))))
						}
					}
				}
				var all []key
				for s := range sources {
					var of []key
					for e := range engines {
						k := key{s, e, i}
						if len(courses[k]) == 0 {
							continue
						}
						of = append(of, k)
						list := courses[k]
						row := run.TimelineRow{T: at, Signal: id.String(), Stat: "value", Source: in.Sources[s].Name, Labels: fmt.Sprintf("engine=%d", e)}
						if id == signal.GenerationTokens {
							row.Stat = "rate"
							if rise, n := naiveCounter(list, usual(list), window{at, at + step}, false); n >= step/2 && n > 0 {
								want[row] = rise / float64(n) * 1e9
							}
						} else if v, ok := gauge(k, at); ok {
							want[row] = v
						}
					}
					if len(of) > 1 {
						together(of, in.Sources[s].Name)
					}
					all = append(all, of...)
				}
				together(all, "")
			}
		}
		for k, list := range courses {
			if ids[k.id] == signal.GenerationTokens {
				if rise, n := naiveCounter(list, usual(list), window0, true); n > 0 {
					sumRate, anyRate = sumRate+rise/float64(n)*1e9, true
				}
			}
		}
		for k, v := range want {
			if g, ok := got[k]; !ok || math.Abs(g-v) > 1e-6*max(1, math.Abs(v)) {
				t.Errorf("%+v is %v (%v), want %v", k, g, ok, v)
			}
		}
		for k, v := range got {
			if _, ok := want[k]; !ok {
				t.Errorf("%+v is %v, want none", k, v)
			}
		}
		if d := out.Server["generation_tokens"]; d != nil && anyRate && math.Abs(*d.Mean-sumRate) > 1e-6*sumRate {
			t.Errorf("mean rate is %v, want %v", *d.Mean, sumRate)
		}
	})
}
