package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll/internal/conduct"
	"plimsoll/internal/scenario"
	"plimsoll/internal/stats"
	"plimsoll/internal/strictyaml"
	"plimsoll/internal/twin"
	"plimsoll/internal/workload"
)

// catalogueModel finds a model by name. A name that is a path is none: models of the
// user's own files are for the command line.
func catalogueModel(name string) (*twin.Model, error) {
	if err := catalogueName("model", name); err != nil {
		return nil, err
	}
	m, err := twin.Builtin().Model(name)
	if err != nil {
		return nil, wrong("model", "%v", err)
	}
	return m, nil
}

// catalogueName refuses names that the catalogue would take for those of files and
// folders.
func catalogueName(field, name string) error {
	ext := strings.ToLower(name)
	_, err := os.Stat(name)
	if err == nil || len(name) > 100 || strings.HasPrefix(name, "/") || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "\\\x00") ||
		strings.HasSuffix(ext, ".json") || strings.HasSuffix(ext, ".yaml") || strings.HasSuffix(ext, ".yml") {
		p := wrong(field, "%s is no name of the catalogue", strictyaml.Quote(name))
		p.Fix = "a name of /api/twin/catalogue; files of your own are for plimsoll twin"
		return p
	}
	return nil
}

// CatalogueModel, CatalogueGPU and CatalogueEngine are what a twin can be made of.
type (
	CatalogueModel struct {
		Name    string  `json:"name"`
		Title   string  `json:"title"`
		Params  float64 `json:"params"`
		Active  float64 `json:"active_params"`
		Context int     `json:"context"`
	}
	CatalogueGPU struct {
		Name          string  `json:"name"`
		Title         string  `json:"title"`
		MemoryGiB     float64 `json:"memory_gib"`
		BandwidthTBs  float64 `json:"bandwidth_tbs"`
		BF16TFLOPs    float64 `json:"bf16_tflops"`
		FP8TFLOPs     float64 `json:"fp8_tflops"`
		FP4TFLOPs     float64 `json:"fp4_tflops"`
		LargestDomain float64 `json:"domain"`
	}
	CatalogueEngine struct {
		Name  string `json:"name"`
		Title string `json:"title"`
	}
)

// twinCatalogue is all that a twin can be made of.
type twinCatalogue struct {
	Models     []CatalogueModel  `json:"models"`
	GPUs       []CatalogueGPU    `json:"gpus"`
	Engines    []CatalogueEngine `json:"engines"`
	Precisions []twin.Precision  `json:"precisions"`
	Routers    []string          `json:"routers"`
}

func (s *Server) catalogue(w http.ResponseWriter, _ *http.Request) error {
	c := twin.Builtin()
	out := twinCatalogue{Routers: twin.Routers(), Precisions: []twin.Precision{twin.BF16, twin.FP8, twin.FP8Block, twin.FP4, twin.INT8, twin.INT4}}
	for i := range c.Models {
		m := &c.Models[i]
		out.Models = append(out.Models, CatalogueModel{Name: m.Name, Title: m.ID, Params: m.Params(), Active: m.ActiveParams(), Context: m.Context})
	}
	for i := range c.GPUs {
		g := &c.GPUs[i]
		out.GPUs = append(out.GPUs, CatalogueGPU{
			Name: g.Name, Title: g.Title, MemoryGiB: g.MemoryGiB.V, BandwidthTBs: g.Bandwidth.V,
			BF16TFLOPs: g.BF16.V, FP8TFLOPs: g.FP8.V, FP4TFLOPs: g.FP4.V, LargestDomain: g.Domain.V,
		})
	}
	for i := range c.Engines {
		e := &c.Engines[i]
		out.Engines = append(out.Engines, CatalogueEngine{Name: e.Name, Title: e.Title})
	}
	return writeJSON(w, http.StatusOK, &out)
}

// PredictRequest says what to predict: a cluster, who uses it, and the levels of load
// that make the curve. Lengths are a number of tokens or a distribution as text.
type PredictRequest struct {
	Model        string    `json:"model,omitempty"`
	GPU          string    `json:"gpu,omitempty"`
	GPUs         int       `json:"gpus,omitempty"`
	TP           int       `json:"tp,omitempty"`
	PP           int       `json:"pp,omitempty"`
	DP           int       `json:"dp,omitempty"`
	EP           int       `json:"ep,omitempty"`
	Replicas     int       `json:"replicas,omitempty"`
	Router       string    `json:"router,omitempty"`
	KVFP8        bool      `json:"kv_fp8,omitempty"`
	Precision    string    `json:"precision,omitempty"`
	Engine       string    `json:"engine,omitempty"`
	PromptTokens distText  `json:"prompt_tokens,omitempty"`
	OutputTokens distText  `json:"output_tokens,omitempty"`
	Workload     string    `json:"workload,omitempty"`
	Users        []int     `json:"users,omitempty"`
	Rates        []float64 `json:"rates,omitempty"`
	// Requests is the number of each point; 0 takes as many as the time allows.
	Requests int `json:"requests,omitempty"`
}

// distText is a distribution of lengths: text, or a number in JSON.
type distText string

// UnmarshalJSON takes a string or a number.
func (d *distText) UnmarshalJSON(b []byte) error {
	if b = bytes.TrimSpace(b); len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(d))
	}
	var n json.Number
	if err := json.Unmarshal(b, &n); err != nil {
		return fmt.Errorf("want a number of tokens, or a distribution as text: %w", err)
	}
	*d = distText(n)
	return nil
}

// PredictPoint is one level of load.
type PredictPoint struct {
	Load       float64  `json:"load"`
	OutputPerS *float64 `json:"output_per_s"`
	TTFTP50    *float64 `json:"ttft_p50_ms"`
	TTFTP95    *float64 `json:"ttft_p95_ms"`
	TPOTP50    *float64 `json:"tpot_p50_ms"`
	TPOTP95    *float64 `json:"tpot_p95_ms"`
	E2EP95     *float64 `json:"e2e_p95_ms"`
	// Requests is the number that the point is made of, Refused those of them that did
	// not fit.
	Requests int64 `json:"requests"`
	Refused  int64 `json:"refused"`
}

// PredictMemory is how the memory of a device is divided, in bytes.
type PredictMemory struct {
	Usable      float64 `json:"usable"`
	Weights     float64 `json:"weights"`
	Activations float64 `json:"activations"`
	Other       float64 `json:"other"`
	KV          float64 `json:"kv"`
	// KVTokens is the number of tokens that a replica can hold.
	KVTokens int `json:"kv_tokens"`
}

// Prediction is a curve, or why there can be none.
type Prediction struct {
	Fits    bool           `json:"fits"`
	Error   string         `json:"error"`
	Cluster string         `json:"cluster"`
	Memory  *PredictMemory `json:"memory"`
	By      string         `json:"by"` // users or rate: what load counts
	Points  []PredictPoint `json:"points"`
	// Left says what was left out, and why; "" for nothing.
	Left   string  `json:"left"`
	TookMS float64 `json:"took_ms"`
}

// Bounds of a prediction; the points that its time does not reach are left out and named.
const (
	predictWait   = 5 * time.Second // for a place among those that are made at once
	maxPoints     = 32
	maxUsers      = 20_000
	maxRate       = 100_000
	maxRequests   = 200_000
	requestsAUser = 8    // of a point by users, at least
	requestsPoint = 400  // of a point, at least
	mostByDefault = 4000 // of a point, unless asked for
)

// defaultUsers are the levels of a curve when none are asked for.
var defaultUsers = []int{1, 2, 4, 8, 16, 32, 64, 128, 256}

func (s *Server) predict(w http.ResponseWriter, r *http.Request) error {
	var in PredictRequest
	if err := readJSON(r, &in); err != nil {
		return err
	}
	if err := in.check(); err != nil {
		return err
	}
	select {
	case s.predicting <- struct{}{}:
		defer func() { <-s.predicting }()
	case <-r.Context().Done():
		return r.Context().Err()
	case <-time.After(predictWait):
		w.Header().Set("Retry-After", "5")
		return &Problem{Status: http.StatusServiceUnavailable, Text: "too many predictions are being made", Fix: "try again"}
	}
	began := time.Now()
	out := &Prediction{Points: []PredictPoint{}, By: "users"}
	if len(in.Rates) > 0 {
		out.By = "rate"
	}
	cfg := twin.ClusterConfig{
		Model: in.Model, GPU: in.GPU, Engine: in.Engine, Precision: twin.Precision(in.Precision), TP: in.TP, PP: in.PP, DP: in.DP, EP: in.EP, Replicas: in.Replicas, KVFP8: in.KVFP8,
	}
	if err := cfg.Spread(in.GPUs); err != nil {
		return wrong("gpus", "%v", err)
	}
	cluster, err := twin.NewCluster(cfg)
	if err != nil {
		out.Error = err.Error()
		out.TookMS = since(began)
		return writeJSON(w, http.StatusOK, out)
	}
	m := cluster.Memory
	out.Fits, out.Cluster = true, cluster.Describe()
	out.Memory = &PredictMemory{
		Usable: m.Usable, Weights: m.Weights, Activations: m.Activations, Other: m.Other,
		KV: max(0, m.Usable-m.Weights-m.Activations-m.Other), KVTokens: m.KVTokens,
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.limits.predict)
	defer cancel()
	levels := in.levels()
	var missed []string
	for _, i := range coarseFirst(len(levels)) {
		p, err := s.point(ctx, &in, cfg, levels[i])
		switch {
		case err == nil:
			out.Points = append(out.Points, *p)
		case errors.Is(err, context.DeadlineExceeded):
			missed = append(missed, levels[i])
		case errors.Is(err, context.Canceled):
			return err
		default:
			if _, ok := errors.AsType[*conduct.UsageError](err); !ok {
				return err
			}
			// It cannot serve such requests, whatever the load.
			out.Fits, out.Error, out.Points = false, err.Error(), []PredictPoint{}
			out.TookMS = since(began)
			return writeJSON(w, http.StatusOK, out)
		}
	}
	slices.SortFunc(out.Points, func(a, b PredictPoint) int { return cmp.Compare(a.Load, b.Load) })
	if len(missed) > 0 {
		slices.SortFunc(missed, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
		out.Left = fmt.Sprintf("%s %s left out: more than %d ms to predict", out.By, strings.Join(missed, ", "), s.limits.predict.Milliseconds())
	}
	out.TookMS = since(began)
	return writeJSON(w, http.StatusOK, out)
}

func since(t time.Time) float64 { return math.Round(float64(time.Since(t).Microseconds())) / 1000 }

// check refuses what would take too long, or open a file.
func (in *PredictRequest) check() error {
	for _, f := range []struct{ name, value string }{{"model", in.Model}, {"gpu", in.GPU}, {"engine", in.Engine}} {
		if f.value == "" {
			continue
		}
		if err := catalogueName(f.name, f.value); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		name string
		n    int
	}{{"gpus", in.GPUs}, {"tp", in.TP}, {"pp", in.PP}, {"dp", in.DP}, {"ep", in.EP}, {"replicas", in.Replicas}} {
		if f.n < 0 || f.n > 100_000 {
			return wrong(f.name, "%d: want 1 to 100000", f.n)
		}
	}
	if in.Router != "" && !slices.Contains(twin.Routers(), in.Router) {
		p := wrong("router", "there is no router %s", strictyaml.Quote(in.Router))
		p.Fix = "one of " + strings.Join(twin.Routers(), ", ")
		return p
	}
	if in.Workload != "" && !slices.Contains(workload.Names(), in.Workload) {
		p := wrong("workload", "there is no workload %s in the library", strictyaml.Quote(in.Workload))
		p.Fix = strictyaml.Nearest(in.Workload, workload.Names())
		return p
	}
	switch {
	case len(in.Users) > 0 && len(in.Rates) > 0:
		return wrong("rates", "want users or rates, not both")
	case len(in.Users)+len(in.Rates) > maxPoints:
		return wrong("users", "more than %d points", maxPoints)
	case in.Requests < 0 || in.Requests > maxRequests:
		return wrong("requests", "%d: want at most %d", in.Requests, maxRequests)
	}
	for _, n := range in.Users {
		if n < 1 || n > maxUsers {
			return wrong("users", "%d: want 1 to %d", n, maxUsers)
		}
	}
	for _, x := range in.Rates {
		if !(x > 0 && x <= maxRate) {
			return wrong("rates", "%g: want more than 0 and at most %d", x, maxRate)
		}
	}
	return nil
}

// levels are the levels of load as a scenario has them.
func (in *PredictRequest) levels() []string {
	var out []string
	for _, x := range in.Rates {
		out = append(out, strconv.FormatFloat(x, 'g', -1, 64))
	}
	users := in.Users
	if len(in.Users)+len(in.Rates) == 0 {
		users = defaultUsers
	}
	for _, n := range users {
		out = append(out, strconv.Itoa(n))
	}
	return slices.Compact(out)
}

// coarseFirst orders n levels so that those which are reached, should time run out,
// are spread over all of them: ends first, then middles.
func coarseFirst(n int) []int {
	var out []int
	seen := make([]bool, n)
	add := func(i int) {
		if !seen[i] {
			seen[i] = true
			out = append(out, i)
		}
	}
	for parts := 1; len(out) < n; parts *= 2 {
		for k := range parts + 1 {
			add(k * (n - 1) / parts)
		}
	}
	return out
}

// point predicts one level of load.
func (s *Server) point(ctx context.Context, in *PredictRequest, cfg twin.ClusterConfig, level string) (*PredictPoint, error) {
	x, err := strconv.ParseFloat(level, 64)
	if err != nil {
		return nil, err
	}
	set := func(path, value string) scenario.Setting {
		return scenario.Setting{Path: path, Value: value, Origin: path}
	}
	kind, requests := "load.users", in.Requests
	if requests == 0 {
		requests = max(requestsPoint, min(int(x*requestsAUser), mostByDefault))
	}
	if len(in.Rates) > 0 {
		kind = "load.rate"
	}
	sets := []scenario.Setting{
		set("target.api", scenario.APICompletions), set("target.ignore-eos", "true"), set("load.drain", "24h"), set("seed", "1"),
		set(kind, level), set("load.requests", strconv.Itoa(requests)),
	}
	if in.Workload != "" {
		sets = append(sets, set("users.workload", in.Workload))
	}
	if in.PromptTokens != "" {
		sets = append(sets, set("users.prompt-tokens", string(in.PromptTokens)))
	}
	if in.OutputTokens != "" {
		sets = append(sets, set("users.output-tokens", string(in.OutputTokens)))
	}
	sc, err := scenario.Read(scenario.Source{Settings: sets, URL: conduct.SimulatedURL})
	if err != nil {
		return nil, &Problem{Status: http.StatusBadRequest, Text: err.Error(), Errors: scenarioErrors(nil, err)}
	}
	res, err := conduct.Predict(ctx, &conduct.PredictConfig{Scenario: sc, Cluster: cfg, Router: in.Router, Version: s.cfg.Version})
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	sum := res.Summary
	at := func(d *stats.Dist, of func(*stats.Dist) *float64) *float64 {
		if d == nil {
			return nil
		}
		return of(d)
	}
	p50 := func(d *stats.Dist) *float64 { return d.P50 }
	p95 := func(d *stats.Dist) *float64 { return d.P95 }
	ttft, e2e := sum.Latency.TTFT, sum.Latency.E2E
	if len(in.Rates) > 0 {
		ttft, e2e = sum.Latency.TTFTFromSchedule, sum.Latency.E2EFromSchedule
	}
	return &PredictPoint{
		Load: x, OutputPerS: sum.Tokens.OutputPerS, Requests: sum.Requests.Scheduled, Refused: sum.Requests.Error,
		TTFTP50: at(ttft, p50), TTFTP95: at(ttft, p95), TPOTP50: at(sum.Latency.TPOT, p50), TPOTP95: at(sum.Latency.TPOT, p95), E2EP95: at(e2e, p95),
	}, nil
}
