// Package accuracy holds the twin against published measurements: it reads rows of
// a table of them, drives the twin the way each row's source drove its engine, and
// says by how much the twin is off, group by group. It never changes a constant of
// the twin, and reports no group whose own rows chose something about it.
package accuracy

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"plimsoll/internal/random"
	"plimsoll/internal/record"
	"plimsoll/internal/twin"
	"plimsoll/internal/workload"
)

// Row is one measurement of a table. Times are ms; NaN is not given.
type Row struct {
	ID, Source, Confidence                              string
	Hardware, Engine, Version, Model, Precision         string
	Mode, Spec, Load, Notes                             string
	GPUs, TP, PP, DP, EP                                int
	Concurrency, Rate, ISL, OSL, NominalISL, NominalOSL float64
	TTFT, TPOT, E2E                                     float64
}

// Key is what makes a group.
type Key struct{ Hardware, Engine, Version, Model, Precision string }

func (r *Row) key() Key { return Key{r.Hardware, r.Engine, r.Version, r.Model, r.Precision} }

// String writes the parts with bars between.
func (k Key) String() string {
	return strings.Join([]string{dash(k.Hardware), dash(k.Engine), dash(k.Version), dash(k.Model), dash(k.Precision)}, " | ")
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// columns are the columns that a table must have.
var columns = []string{
	"id", "confidence", "hardware", "engine", "engine_version", "model", "precision", "tp", "concurrency",
	"isl_mean", "osl_mean", "ttft_mean_ms", "tpot_mean_ms",
}

// maxRows bounds a table.
const maxRows = 1_000_000

// Read reads a table in CSV with a header; columns are known by name.
func Read(r io.Reader) ([]Row, error) {
	c := csv.NewReader(r)
	head, err := c.Read()
	if err != nil {
		return nil, fmt.Errorf("read the header: %w", err)
	}
	at := map[string]int{}
	for i, name := range head {
		at[strings.TrimPrefix(strings.TrimSpace(name), "\ufeff")] = i
	}
	for _, name := range columns {
		if _, ok := at[name]; !ok {
			return nil, fmt.Errorf("read the header: no column %q; want at least %s", name, strings.Join(columns, ", "))
		}
	}
	var rows []Row
	for {
		f, err := c.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read a row: %w", err)
		}
		if len(rows) == maxRows {
			return nil, fmt.Errorf("more than %d rows", maxRows)
		}
		text := func(name string) string {
			if i, ok := at[name]; ok {
				return strings.TrimSpace(f[i])
			}
			return ""
		}
		number := func(name string) float64 {
			v, err := strconv.ParseFloat(text(name), 64)
			if err != nil || math.IsInf(v, 0) || v < 0 {
				return math.NaN()
			}
			return v
		}
		count := func(name string) int {
			v := number(name)
			if !(v <= 1e6) {
				return 0
			}
			return int(v)
		}
		rows = append(rows, Row{
			ID: text("id"), Source: text("source"), Confidence: text("confidence"),
			Hardware: text("hardware"), Engine: text("engine"), Version: text("engine_version"),
			Model: text("model"), Precision: text("precision"), Mode: text("mode"), Spec: text("spec_decode"),
			Load: text("load_kind"), Notes: text("notes"),
			GPUs: count("num_gpus"), TP: count("tp"), PP: count("pp"), DP: count("dp_attn"), EP: count("ep"),
			Concurrency: number("concurrency"), Rate: number("rate_rps"),
			ISL: number("isl_mean"), OSL: number("osl_mean"), NominalISL: number("isl_nominal"), NominalOSL: number("osl_nominal"),
			TTFT: number("ttft_mean_ms"), TPOT: number("tpot_mean_ms"), E2E: number("e2e_mean_ms"),
		})
	}
}

// e2e is the row's mean latency, computed where it is not given.
func (r *Row) e2e() float64 {
	if !math.IsNaN(r.E2E) {
		return r.E2E
	}
	return r.TTFT + r.TPOT*(r.OSL-1)
}

// engine names the twin's engine profile of the row.
func (r *Row) engine() (string, error) {
	switch e := strings.ToLower(r.Engine); {
	case e == "vllm":
		return vllm(r), nil
	case e == "sglang":
		return "sglang", nil
	case strings.Contains(e, "trt"):
		return "trtllm", nil
	}
	return "", fmt.Errorf("engine %q is none of the twin's", r.Engine)
}

var (
	versionPattern  = regexp.MustCompile(`^v?0\.(\d+)`)
	measuredPattern = regexp.MustCompile(`measured=(\d{4})-`)
	seqsPattern     = regexp.MustCompile(`max_num_seqs (\d+)`)
	tokensPattern   = regexp.MustCompile(`max_num_(?:batched_)?tokens[ =](\d+)`)
	memoryPattern   = regexp.MustCompile(`gpu_mem_util (0\.\d+)`)
	sessionsPattern = regexp.MustCompile(`only (\d+) sessions`)
	burstPattern    = regexp.MustCompile(`rate=inf, n=(\d+)`)
)

// vllm tells versions with asynchronous scheduling from those without. Where the
// row names none, the year of the measurement says: it became the default at the
// end of 2025.
func vllm(r *Row) string {
	if m := versionPattern.FindStringSubmatch(r.Version); m != nil {
		if n, _ := strconv.Atoi(m[1]); n <= 12 {
			return "vllm-0.12"
		}
		return "vllm"
	}
	if m := measuredPattern.FindStringSubmatch(r.Source); m != nil && m[1] < "2026" {
		return "vllm-0.12"
	}
	if r.Version == "" {
		return "vllm-0.12"
	}
	return "vllm"
}

// sessions is the number of sessions of the workloads whose source serialises the
// rounds of each, by workload; it caps what is in flight.
var sessions = map[string]int{"general": 45, "general-lite": 45, "codegen": 44, "roleplay": 50, "reasoning": 23, "reasoning-lite": 23}

var workloadPattern = regexp.MustCompile(`workload ([a-z-]+),`)

// lengthSpread is the share by which lengths of aic: rows vary that are all said to
// be equal. Requests of exactly equal length would keep a simulated closed loop in
// lock step for ever, which the figures of some engines show and those of others
// do not. An assumption of the harness, no figure of anybody.
const lengthSpread = 0.05

// setup is how a row is reproduced.
type setup struct {
	cluster twin.ClusterConfig
	step    twin.Step
	cap     int
	lengths [2]random.Dist
}

// reproduce says how the row's source drove its engine. The error says why it
// cannot be reproduced.
func reproduce(r *Row) (*setup, error) {
	if r.Mode != "" && r.Mode != "agg" {
		return nil, fmt.Errorf("mode %s", r.Mode)
	}
	engine, err := r.engine()
	if err != nil {
		return nil, err
	}
	precision := strings.TrimSuffix(r.Precision, "?")
	if precision == "" {
		// Where the row does not say, its command names the weights; else they are as
		// published.
		precision = "bf16"
		if m, err := twin.Builtin().Model(r.Model); err == nil && m.Checkpoint != "" {
			precision = string(m.Checkpoint)
		}
		for _, p := range []string{"fp8", "awq", "gptq", "int4", "nvfp4"} {
			if strings.Contains(strings.ToLower(r.Notes+r.Model), p) {
				precision = p
			}
		}
	}
	precision, kv8, _ := strings.Cut(precision, ",")
	p, err := twin.ParsePrecision(precision)
	if err != nil {
		return nil, err
	}
	s := &setup{cluster: twin.ClusterConfig{
		Model: r.Model, GPU: r.Hardware, Engine: engine, Precision: p,
		TP: r.TP, PP: r.PP, DP: r.DP, EP: r.EP, KVFP8: strings.Contains(kv8, "fp8"),
	}}
	c := &s.cluster
	if c.TP == 0 {
		c.TP = max(1, r.GPUs)
	}
	if c.DP == 0 {
		c.DP = 1
	}
	if n := c.TP * max(1, c.PP) * c.DP; r.GPUs > n {
		c.Replicas = r.GPUs / n
	}
	pick := func(re *regexp.Regexp, text string) int {
		if m := re.FindStringSubmatch(text); m != nil {
			n, _ := strconv.Atoi(m[1])
			return n
		}
		return 0
	}
	c.MaxNumSeqs = pick(seqsPattern, r.Notes)
	c.MaxNumBatchedTokens = pick(tokensPattern, r.Notes)
	if c.MaxNumBatchedTokens > 0 && c.MaxNumSeqs == 0 {
		c.MaxNumSeqs = min(1024, c.MaxNumBatchedTokens)
	}
	if m := memoryPattern.FindStringSubmatch(r.Notes); m != nil {
		c.MemoryUtilization, _ = strconv.ParseFloat(m[1], 64)
	}

	// Lengths are uniform from 0.8 to 1.0 of the nominal where the mean says so. Other
	// rows of the same collection are spread a little around their mean.
	spread := strings.HasPrefix(r.ID, "aic:")
	length := func(mean, nominal float64) (random.Dist, error) {
		if math.IsNaN(mean) {
			mean = nominal
		}
		if !(mean >= 1 && mean < 1e6) {
			return random.Dist{}, errors.New("no lengths")
		}
		if math.Abs(mean/nominal-0.9) < 0.005 {
			return random.Dist{Kind: random.Uniform, A: math.Round(0.8 * nominal), B: math.Round(nominal)}, nil
		}
		if spread && mean >= 10 {
			return random.Dist{Kind: random.Uniform, A: math.Round((1 - lengthSpread) * mean), B: math.Round((1 + lengthSpread) * mean)}, nil
		}
		return random.Dist{Kind: random.Fixed, A: math.Round(mean)}, nil
	}
	if s.lengths[0], err = length(r.ISL, r.NominalISL); err != nil {
		return nil, err
	}
	if s.lengths[1], err = length(r.OSL, r.NominalOSL); err != nil {
		return nil, err
	}

	switch {
	case strings.HasPrefix(r.Load, "open-loop"):
		if !(r.Rate > 0) {
			return nil, errors.New("no rate: stages pooled")
		}
		// Two minutes, as a stage's order of length; the arrivals are even.
		n := int(min(max(r.Rate*120, 100), 4000))
		s.step = twin.Step{Rate: r.Rate, Arrival: "constant", Requests: n}
		if s.cap = pick(sessionsPattern, r.Notes); s.cap == 0 {
			if m := workloadPattern.FindStringSubmatch(r.Notes); m != nil {
				s.cap = sessions[m[1]]
			}
		}
	case strings.HasPrefix(r.Load, "burst"):
		n := pick(burstPattern, r.Load)
		if n == 0 {
			return nil, fmt.Errorf("load %q", r.Load)
		}
		s.step = twin.Step{Users: n, Requests: n}
	case strings.HasPrefix(r.Load, "closed-loop") || r.Load == "":
		if !(r.Concurrency >= 1) {
			return nil, errors.New("no concurrency")
		}
		// All users at once, ten requests each.
		n := int(math.Round(r.Concurrency))
		s.step = twin.Step{Users: n, Requests: 10 * n}
	default:
		return nil, fmt.Errorf("load %q", r.Load)
	}
	s.step.Drain = 240 * time.Hour // every request is waited for
	return s, nil
}

// Result is what the twin says of a row.
type Result struct {
	TTFT, TPOT, E2E float64 // means in ms
	// Running is the mean share of max_num_seqs that ran, KV the largest share of
	// blocks in use.
	Running, KV float64
}

// sink sums up the requests.
type sink struct {
	n, tpots        int
	ttft, tpot, e2e float64
}

func (s *sink) Record(f *twin.Finished) {
	r := &f.Request
	if r.Status != record.OK || r.FirstToken == record.Unset {
		return
	}
	s.n++
	first := float64(r.FirstToken-r.Start) / 1e6
	all := float64(r.LastToken-r.Start) / 1e6
	s.ttft += first
	s.e2e += all
	if r.Output > 1 {
		s.tpots++
		s.tpot += (all - first) / float64(r.Output-1)
	}
}

// predict runs the twin; host, above 0, replaces the engine's overhead per step in
// us. known are the clusters that were built before.
func (s *setup) predict(ctx context.Context, known map[twin.ClusterConfig]*twin.Cluster, host float64) (Result, error) {
	cl := known[s.cluster]
	if cl == nil {
		var err error
		if cl, err = twin.NewCluster(s.cluster); err != nil {
			return Result{}, err
		}
		cl.Stages = cl.Layout.Engine.Stages()
		known[s.cluster] = cl
	}
	if host > 0 {
		other := *cl
		e := *cl.Layout.Engine
		setOverhead(&e, host)
		other.Engine.Timer = cl.Engine.Timer.(*twin.Roofline).With(&e)
		cl = &other
	}
	var sum sink
	p, err := twin.Predict(ctx, &twin.PredictConfig{
		Cluster: cl, Seed: 1, Stream: true, Exact: true, MaxInFlight: s.cap,
		Population: &workload.Synthetic{Seed: 1, Prompt: s.lengths[0], Output: s.lengths[1], Exact: true},
		Steps:      []twin.Step{s.step}, Sink: &sum,
	})
	if err != nil {
		return Result{}, err
	}
	if p.Stopped == twin.Interrupted {
		return Result{}, ctx.Err()
	}
	if sum.n == 0 {
		return Result{}, errors.New("no request was served")
	}
	n := float64(sum.n)
	res := Result{TTFT: sum.ttft / n, TPOT: math.NaN(), E2E: sum.e2e / n}
	if sum.tpots > 0 {
		res.TPOT = sum.tpot / float64(sum.tpots)
	}
	res.Running = p.MeanRunning / float64(cl.Engine.MaxNumSeqs)
	res.KV = p.PeakKV
	return res, nil
}

// Overhead returns an engine's overhead per step in us: what is not hidden behind
// the device.
func overhead(e *twin.EngineProfile) float64 {
	if e.Overlap {
		return e.SerialUS.V
	}
	return e.HostUS.V + e.SerialUS.V
}

func setOverhead(e *twin.EngineProfile, us float64) {
	if e.Overlap {
		e.SerialUS.V = us
	} else {
		e.HostUS.V, e.SerialUS.V = us, 0
	}
}

// candidates are the overheads per step in us that are tried.
var candidates = []float64{200, 400, 600, 800, 1000, 1200, 1500}

const (
	// minOthers is how many other groups of an engine it takes to choose its
	// overhead, maxShare how much of their rows one of them may have at most.
	minOthers, maxShare = 3, 2.0 / 3
	// minGain is by how much the mean error over the others' rows must fall for
	// another overhead than the catalogue's; errors above hopeless count as that:
	// they have other causes.
	minGain, hopeless = 0.005, 0.25
)

// Group is a group's rows and what became of them.
type Group struct {
	Key
	Profile string
	// Class is "dense", "moe", or why the group is not of either.
	Class string
	// Low is a group of rows of confidence C or D, which are only shown.
	Low bool
	// Rows is the number of rows, Out why some of them do not count.
	Rows int
	Out  map[string]int
	// Overhead is what the figures are with, in us; Chosen says that the other
	// groups of the profile chose it.
	Overhead float64
	Chosen   bool
	// Median absolute errors and biases, as shares, over Used rows.
	Used                        int
	TPOT, TTFT, E2E             float64
	TPOTBias, TTFTBias, E2EBias float64

	rows   []*Row
	setups []*setup
	// byOverhead are the results per candidate; index 0 is the catalogue's. chosen
	// are those that are reported.
	byOverhead [][]Result
	chosen     []Result
}

// Report is all that Evaluate found.
type Report struct {
	Groups []*Group
	// Skipped counts the rows that belong to no group, by reason.
	Skipped map[string]int
}

// Filter says which rows count.
const Filter = "confidence A or B, dense, no speculative decoding, 5 rows or more in the group, and away from saturation " +
	"(mean running below 85 % of max_num_seqs and KV use always below 90 % in the twin)"

// minRows is the smallest group that is reported.
const minRows = 5

// Evaluate drives the twin as each row says.
func Evaluate(ctx context.Context, rows []Row) (*Report, error) {
	rep := &Report{Skipped: map[string]int{}}
	type trusted struct {
		Key
		low bool
	}
	byKey := map[trusted]*Group{}
	for i := range rows {
		r := &rows[i]
		switch {
		case !slices.Contains([]string{"A", "B", "C", "D"}, r.Confidence):
			rep.Skipped["confidence "+dash(r.Confidence)]++
			continue
		case math.IsNaN(r.TPOT) && math.IsNaN(r.TTFT):
			rep.Skipped["neither TTFT nor TPOT"]++
			continue
		}
		key := trusted{r.key(), r.Confidence > "B"}
		g := byKey[key]
		if g == nil {
			g = &Group{Key: r.key(), Low: key.low, Out: map[string]int{}}
			byKey[key] = g
			rep.Groups = append(rep.Groups, g)
		}
		g.Rows++
		g.rows = append(g.rows, r)
	}
	for _, g := range rep.Groups {
		g.prepare()
	}
	if err := rep.run(ctx, false); err != nil {
		return nil, err
	}
	if err := rep.run(ctx, true); err != nil {
		return nil, err
	}
	for _, g := range rep.Groups {
		rep.choose(g)
		g.conclude()
	}
	return rep, nil
}

// prepare finds how to reproduce each row and what kind of model it is.
func (g *Group) prepare() {
	rows := g.rows
	g.rows = nil
	for _, r := range rows {
		if s := strings.ToLower(r.Spec); strings.Contains(s, "eagle") || strings.HasPrefix(s, "mtp") || strings.Contains(strings.ToLower(r.Notes), "speculative") {
			g.Out["speculative decoding"]++
			continue
		}
		if strings.Contains(r.Spec, "may be mtp") {
			g.Out["may be speculative decoding"]++
			continue
		}
		s, err := reproduce(r)
		if err != nil {
			g.Out[err.Error()]++
			continue
		}
		g.rows, g.setups = append(g.rows, r), append(g.setups, s)
	}
	model, err := twin.Builtin().Model(g.Model)
	switch {
	case err != nil:
		g.Class = "model not in the catalogue"
	case len(g.rows) == 0:
		g.Class = "no rows left"
	case model.FFN.Kind == twin.Experts:
		g.Class = "moe"
	default:
		g.Class = "dense"
	}
	if len(g.setups) > 0 {
		g.Profile = g.setups[0].cluster.Engine
		if e, err := twin.Builtin().Engine(g.Profile); err == nil {
			g.Overhead = overhead(e)
		}
	}
}

// run predicts the rows: with the catalogue's overhead, or, of dense groups, with
// every candidate.
func (rep *Report) run(ctx context.Context, all bool) error {
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(runtime.GOMAXPROCS(0))
	for _, g := range rep.Groups {
		if g.Class != "dense" && (all || g.Class != "moe") || g.Low && (all || g.Class != "dense") {
			continue
		}
		eg.Go(func() error {
			known := map[twin.ClusterConfig]*twin.Cluster{}
			var hosts []float64
			if all {
				hosts = candidates
			} else {
				hosts = []float64{0}
			}
			for _, host := range hosts {
				results := make([]Result, len(g.rows))
				for i := 0; i < len(g.rows); i++ {
					res, err := g.setups[i].predict(ctx, known, host)
					if ctx.Err() != nil {
						return ctx.Err()
					}
					if err == nil && (res.Running >= 0.85 || res.KV >= 0.9) && !all {
						err = errors.New("saturated in the twin")
					}
					if err != nil {
						g.Out[short(err.Error())]++
						g.rows = slices.Delete(g.rows, i, i+1)
						g.setups = slices.Delete(g.setups, i, i+1)
						results = slices.Delete(results, i, i+1)
						i--
						continue
					}
					results[i] = res
				}
				g.byOverhead = append(g.byOverhead, results)
			}
			return nil
		})
	}
	return eg.Wait()
}

func short(s string) string {
	if i := strings.IndexAny(s, ":;"); i > 0 {
		s = s[:i]
	}
	return s
}

// choose takes the overhead that is best for the other groups of the same profile,
// when there are enough of them and none of them decides alone.
func (rep *Report) choose(g *Group) {
	if g.Class != "dense" || g.Low || len(g.byOverhead) < 2 {
		return
	}
	groups, rows, largest := 0, 0, 0
	errs := make([]float64, len(g.byOverhead))
	for _, o := range rep.Groups {
		if o == g || o.Low || o.Class != "dense" || o.Profile != g.Profile || len(o.rows) == 0 {
			continue
		}
		groups++
		rows += len(o.rows)
		largest = max(largest, len(o.rows))
		for k := range errs {
			if e := o.tpotError(k); !math.IsNaN(e) {
				errs[k] += float64(len(o.rows)) * min(e, hopeless)
			}
		}
	}
	if groups < minOthers || float64(largest) > maxShare*float64(rows) {
		return
	}
	g.Chosen = true
	pick := 0
	for k := range errs {
		if errs[k]/float64(rows) < errs[0]/float64(rows)-minGain && errs[k] < errs[pick] {
			pick = k
		}
	}
	if pick > 0 {
		g.Overhead = candidates[pick-1]
		g.chosen = g.byOverhead[pick]
	}
}

func (g *Group) tpotError(k int) float64 {
	var es []float64
	for i, r := range g.rows {
		if !math.IsNaN(r.TPOT) {
			es = append(es, math.Abs(g.byOverhead[k][i].TPOT/r.TPOT-1))
		}
	}
	return median(es)
}

// conclude computes the group's errors.
func (g *Group) conclude() {
	g.Used = len(g.rows)
	if g.Used == 0 || len(g.byOverhead) == 0 {
		return
	}
	if g.chosen == nil {
		g.chosen = g.byOverhead[0]
	}
	var e [3][]float64
	for i, r := range g.rows {
		res := g.chosen[i]
		for j, pair := range [][2]float64{{res.TPOT, r.TPOT}, {res.TTFT, r.TTFT}, {res.E2E, r.e2e()}} {
			if x := pair[0]/pair[1] - 1; !math.IsNaN(x) && !math.IsInf(x, 0) {
				e[j] = append(e[j], x)
			}
		}
	}
	abs := func(x []float64) float64 {
		y := make([]float64, len(x))
		for i := range x {
			y[i] = math.Abs(x[i])
		}
		return median(y)
	}
	g.TPOT, g.TTFT, g.E2E = abs(e[0]), abs(e[1]), abs(e[2])
	g.TPOTBias, g.TTFTBias, g.E2EBias = median(e[0]), median(e[1]), median(e[2])
}

func median(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	x = slices.Sorted(slices.Values(x))
	if n := len(x); n%2 == 0 {
		return (x[n/2-1] + x[n/2]) / 2
	}
	return x[len(x)/2]
}

// Counts says whether the group is one of those that the medians are over.
func (g *Group) Counts() bool { return g.Class == "dense" && !g.Low && g.Used >= minRows }

// Medians returns the medians over all groups that count.
func (rep *Report) Medians() (tpot, ttft, e2e float64, groups int) {
	var e [3][]float64
	for _, g := range rep.Groups {
		if g.Counts() {
			groups++
			for j, v := range []float64{g.TPOT, g.TTFT, g.E2E} {
				if !math.IsNaN(v) {
					e[j] = append(e[j], v)
				}
			}
		}
	}
	return median(e[0]), median(e[1]), median(e[2]), groups
}

// Run evaluates the rows of in and writes the report to out.
func Run(ctx context.Context, in io.Reader, out io.Writer) error {
	rows, err := Read(in)
	if err != nil {
		return err
	}
	start := time.Now()
	rep, err := Evaluate(ctx, rows)
	if err != nil {
		return err
	}
	rep.write(out, len(rows), time.Since(start))
	return nil
}
