package detail

import (
	"plimsoll/internal/phrase"
	"plimsoll/internal/run"
	"plimsoll/internal/stats"
)

// The shapes of the panel's JSON. Times are ms since the run's start instant,
// durations ms; what is not known is null. What the fields mean is said in the
// panel's OpenAPI document.

// RunRow is one line of the list of runs.
type RunRow struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Started string `json:"started"` // RFC 3339, UTC
	// State is as run.json says: running, done, interrupted or failed; killed, where
	// run.json says running and nobody writes the run any more; unreadable, where
	// run.json cannot be read.
	State     string   `json:"state"`
	Live      bool     `json:"live"`
	DurationS *float64 `json:"duration_s"`
	Verdict   *string  `json:"verdict"`
	Model     string   `json:"model"`
	Target    string   `json:"target"`
	Workloads []string `json:"workloads"`
	// Load says it in words: 64 users; 10 requests/s, poisson.
	Load       string            `json:"load"`
	Tags       map[string]string `json:"tags"`
	Note       string            `json:"note"`
	Requests   *int64            `json:"requests"`
	Errors     *int64            `json:"errors"`
	ErrorShare *float64          `json:"error_share"`
	TTFTP95    *float64          `json:"ttft_p95_ms"`
	TPOTP95    *float64          `json:"tpot_p95_ms"`
	E2EP95     *float64          `json:"e2e_p95_ms"`
	OutputPerS *float64          `json:"output_per_s"`
	GoodputRPS *float64          `json:"goodput_rps"`
	SLOMet     *bool             `json:"slo_met"`
	// Problem is what is wrong with the run's files, nil when nothing was noticed.
	Problem *RowProblem `json:"problem"`
}

// Unreadable is the state of a run whose run.json cannot be read.
const Unreadable = "unreadable"

// RowProblem says why a file of a run cannot be read, and what can be done. What the
// file would have said is not known.
type RowProblem struct {
	// File is a path in the run's folder.
	File string `json:"file"`
	Text string `json:"text"`
	Fix  string `json:"fix"`
}

// RunDoc is all that a panel needs of a run beside its lanes and requests.
type RunDoc struct {
	Run RunRow `json:"run"`
	// Summary is summary.json as it is; nil before the end.
	Summary   *stats.Summary `json:"summary"`
	Span      Span           `json:"span"`
	Phases    []Phase        `json:"phases"`
	PlannedMs *Ms            `json:"planned_ms"`
	SLO       []SLO          `json:"slo"`
	// Workloads are in the order of their colours.
	Workloads []string  `json:"workloads"`
	Marks     []Mark    `json:"marks"`
	Missing   []Missing `json:"missing"`
	// Probe is probe.json as it is; nil for a run of no probe.
	Probe    *run.Probe `json:"probe"`
	Scenario string     `json:"scenario"`
	Live     bool       `json:"live"`
	Stopping bool       `json:"stopping"`
}

// Span is a stretch of the run's time.
type Span struct {
	From Ms `json:"from"`
	To   Ms `json:"to"`
}

// Phase is a stretch of one phase of a step; To is nil while it goes on.
type Phase struct {
	Name string `json:"name"`
	Step int    `json:"step"`
	From Ms     `json:"from"`
	To   *Ms    `json:"to"`
}

// SLO is one limit; Limit is in ms. Workload names the one whose requests alone it is
// about, Turn is first or later where it holds for those turns alone.
type SLO struct {
	Metric   string  `json:"metric"`
	Stat     string  `json:"stat"`
	Limit    float64 `json:"limit"`
	Text     string  `json:"text"`
	Workload string  `json:"workload,omitempty"`
	Turn     string  `json:"turn,omitempty"`
	// FromSchedule says that the figure counts from the schedule, WithRetrieval that ttft
	// counts from the beginning of the retrieval.
	FromSchedule  bool `json:"from_schedule,omitempty"`
	WithRetrieval bool `json:"with_retrieval,omitempty"`
	// Aside says that the run is not judged by it, only its workload is.
	Aside bool `json:"aside,omitempty"`
}

// Mark is something that happened at a time, or from T to To.
type Mark struct {
	T  Ms  `json:"t"`
	To *Ms `json:"to"`
	// Kind is phase, step, threshold, note, lost or finding, Severity info, note or fail.
	Kind     string `json:"kind"`
	Severity string `json:"severity"`
	Text     string `json:"text"`
	// Said is what Text says, for programs: its code and its values.
	Said phrase.Said `json:"said,omitzero"`
}

// Missing says why a lane is empty and what would fill it.
type Missing struct {
	// Group is engine, accelerator, network or host.
	Group  string `json:"group"`
	Signal string `json:"signal"`
	Why    string `json:"why"`
	Fix    string `json:"fix"`
	// Said is what Why says, for programs, and FixSaid what Fix says.
	Said    phrase.Said `json:"said,omitzero"`
	FixSaid phrase.Said `json:"fix_said,omitzero"`
}

// Series is one signal of one source that Data can be asked for.
type Series struct {
	// ID is its index, which never changes within a run that goes on, nor between
	// readings of the same files.
	ID       int    `json:"id"`
	Signal   string `json:"signal"`
	Stat     string `json:"stat"`
	Source   string `json:"source"`
	Labels   string `json:"labels"`
	Workload string `json:"workload"`
	// Unit is that of its values, per second for a rate.
	Unit string `json:"unit"`
	// Kind is gauge, rate, share, state or duration.
	Kind  string `json:"kind"`
	Title string `json:"title"`
}

// Grid has values of series in N buckets, bucket i from From + i*StepMs on. A
// bucket's mean is over the cells in it that are known; that of means of observations
// is over the observations. Percentiles have no mean where a bucket is more than one
// cell, but the least and the most.
type Grid struct {
	From   Ms             `json:"from"`
	StepMs Ms             `json:"step_ms"`
	N      int            `json:"n"`
	Series map[int]Course `json:"series"`
}

// Course is one series on a Grid. Min and Max are nil where a bucket is one cell.
type Course struct {
	Mean Values `json:"mean"`
	Min  Values `json:"min,omitempty"`
	Max  Values `json:"max,omitempty"`
}

// BandsGrid has percentiles of figures of requests by the time at which the
// requests were scheduled. From Provisional on, while the run goes on, they are by
// the time at which requests ended, and change as more of them end.
type BandsGrid struct {
	From        Ms              `json:"from"`
	StepMs      Ms              `json:"step_ms"`
	N           int             `json:"n"`
	Provisional *Ms             `json:"provisional"`
	Figures     map[string]Band `json:"figures"`
	// Good counts the requests scheduled in each bucket that are within every limit; it is
	// left out without limits.
	Good []int64 `json:"good,omitempty"`
}

// Band is one figure: count of values, and the others in ms. Min and max are
// exact, percentiles within 0.4 %.
type Band struct {
	Count []int64 `json:"count"`
	Min   Times   `json:"min"`
	P50   Times   `json:"p50"`
	P95   Times   `json:"p95"`
	P99   Times   `json:"p99"`
	Max   Times   `json:"max"`
}

// HeatGrid has counts of values of a figure by time and size.
type HeatGrid struct {
	From        Ms  `json:"from"`
	StepMs      Ms  `json:"step_ms"`
	N           int `json:"n"`
	Provisional *Ms `json:"provisional"`
	// EdgesMs bound the rows, the lowest first; there is one more than rows.
	EdgesMs Times `json:"edges_ms"`
	// Cells are triples of column, row and count.
	Cells []int64 `json:"cells"`
}

// EnvelopeGrid is a signal of many sources, engines or devices.
type EnvelopeGrid struct {
	From    Ms  `json:"from"`
	StepMs  Ms  `json:"step_ms"`
	N       int `json:"n"`
	Members int `json:"members"`
	// Min and Max are over the cells of all members, Median is the middle one of the
	// members' means over the bucket.
	Min    Values `json:"min"`
	Median Values `json:"median"`
	Max    Values `json:"max"`
	// Worst is the member whose mean over the whole range is farthest from the
	// middle of all members' means.
	Worst *Member `json:"worst"`
}

// Member is one of many sources, engines or devices.
type Member struct {
	Source string  `json:"source"`
	Labels string  `json:"labels"`
	Value  float64 `json:"value"`
	Series int     `json:"series"`
}

// Figures are of the requests scheduled in a range. Where it touches a steady
// window they are of its part of the steady windows alone, as those of a summary,
// and then Steady is true; otherwise of all requests in it.
type Figures struct {
	From   Ms   `json:"from"`
	To     Ms   `json:"to"`
	Steady bool `json:"steady"`
	// WindowS is the length that rates of requests refer to, TokenWindowS that of
	// token rates, which are of whole cells of the grid inside the range.
	WindowS      float64                   `json:"window_s"`
	TokenWindowS float64                   `json:"token_window_s"`
	Requests     stats.Requests            `json:"requests"`
	Tokens       TokenFigures              `json:"tokens"`
	Latency      map[string]*Stat          `json:"latency_ms"`
	OfferedRPS   *float64                  `json:"offered_rps"`
	AchievedRPS  *float64                  `json:"achieved_rps"`
	CompletedRPS *float64                  `json:"completed_rps"`
	GoodputRPS   *float64                  `json:"goodput_rps"`
	Attainment   *float64                  `json:"attainment"`
	SLO          []stats.Limit             `json:"slo"`
	Workloads    map[string]WorkloadFigure `json:"workloads"`
}

// TokenFigures are sums over requests and rates by arrival.
type TokenFigures struct {
	Prompt     *int64   `json:"prompt"`
	Cached     *int64   `json:"cached"`
	Output     *int64   `json:"output"`
	OutputPerS *float64 `json:"output_per_s"`
	PromptPerS *float64 `json:"prompt_per_s"`
}

// Stat is a distribution in ms.
type Stat struct {
	Count int64    `json:"count"`
	Mean  *float64 `json:"mean"`
	Min   *float64 `json:"min"`
	P50   *float64 `json:"p50"`
	P75   *float64 `json:"p75"`
	P90   *float64 `json:"p90"`
	P95   *float64 `json:"p95"`
	P99   *float64 `json:"p99"`
	Max   *float64 `json:"max"`
}

// WorkloadFigure are figures of one workload in the range.
type WorkloadFigure struct {
	Requests   int64    `json:"requests"`
	Errors     int64    `json:"errors"`
	TTFTP95    *float64 `json:"ttft_p95_ms"`
	TPOTP95    *float64 `json:"tpot_p95_ms"`
	OutputPerS *float64 `json:"output_per_s"`
	// SLO judges the limits that come with the workload, those of the run where it has
	// none; nil where that has none either.
	SLO *stats.SLO `json:"slo"`
}

// Rows are the requests that a Query matched.
type Rows struct {
	// Total is the number in the range, Matched how many of them the filter takes.
	Total   int          `json:"total"`
	Matched int          `json:"matched"`
	Rows    []RequestRow `json:"rows"`
}

// RequestRow is one request. T is when it was scheduled, N its number in the run.
type RequestRow struct {
	N            int64  `json:"n"`
	T            Ms     `json:"t"`
	End          *Ms    `json:"end"`
	Workload     string `json:"workload"`
	Session      uint64 `json:"session"`
	Turn         int    `json:"turn"`
	User         int    `json:"user"`
	Step         int    `json:"step"`
	Phase        string `json:"phase"`
	Target       int    `json:"target"`
	Status       string `json:"status"`
	ErrorKind    string `json:"error_kind"`
	HTTPStatus   *int   `json:"http_status"`
	Finish       string `json:"finish"`
	TTFT         *Ms    `json:"ttft_ms"`
	TTFC         *Ms    `json:"ttfc_ms"`
	TPOT         *Ms    `json:"tpot_ms"`
	E2E          *Ms    `json:"e2e_ms"`
	TTLT         *Ms    `json:"ttlt_ms"`
	Retrieval    *Ms    `json:"retrieval_ms"`
	SendLag      *Ms    `json:"send_lag_ms"`
	PromptTokens *int   `json:"prompt_tokens"`
	CachedTokens *int   `json:"cached_tokens"`
	OutputTokens *int   `json:"output_tokens"`
}

// One is one request with its events and what the servers said meanwhile.
type One struct {
	Row RequestRow `json:"row"`
	// Points are the clock points by name, nil where one was not reached.
	Points map[string]*Ms `json:"points"`
	Events Events         `json:"events"`
	// Whole is false while the record is not on disk yet: then there are no events.
	Whole bool `json:"whole"`
	// Lost says why the record cannot be read, nil when it can or is not there yet.
	Lost        *string      `json:"lost"`
	Message     string       `json:"message"`
	Flags       []string     `json:"flags"`
	KernelTimes bool         `json:"kernel_times"`
	Remote      string       `json:"remote"`
	Text        []string     `json:"text"`
	Server      []ServerStat `json:"server"`
	Engine      *EngineTimes `json:"engine"`
}

// Events are the output events of a request in columns.
type Events struct {
	T       Times  `json:"t"`
	Tokens  []*int `json:"tokens"`
	Bounded []bool `json:"bounded"`
}

// ServerStat is a signal of all servers over the time of a request.
type ServerStat struct {
	Signal string   `json:"signal"`
	Stat   string   `json:"stat"`
	Unit   string   `json:"unit"`
	Mean   *float64 `json:"mean"`
	Max    *float64 `json:"max"`
}

// EngineTimes are what the engines observed in the mean over the time of a
// request, of whatever requests.
type EngineTimes struct {
	QueueMs   *float64 `json:"queue_ms"`
	PrefillMs *float64 `json:"prefill_ms"`
	DecodeMs  *float64 `json:"decode_ms"`
}

// Scatter are requests as points, or as tiles where there are too many.
type Scatter struct {
	// Matched counts those that the query takes, Without those of them that lack
	// the figure.
	Matched int `json:"matched"`
	Without int `json:"without"`
	// Colors are the names of the colours that C refers to.
	Colors []string `json:"colors"`
	Points Points   `json:"points"`
	Tiles  *Tiles   `json:"tiles"`
	YLog   bool     `json:"y_log"`
}

// Points are requests in columns: number, time scheduled, figure, colour.
type Points struct {
	N []int64 `json:"n"`
	X Times   `json:"x"`
	Y Times   `json:"y"`
	C []int   `json:"c"`
}

// Tiles are rectangles with the number of requests of one colour in each; those
// with the most come first.
type Tiles struct {
	X0    Times   `json:"x0"`
	X1    Times   `json:"x1"`
	Y0    Times   `json:"y0"`
	Y1    Times   `json:"y1"`
	C     []int   `json:"c"`
	Count []int64 `json:"count"`
}

// Common says what selected requests have in common against the rest.
type Common struct {
	Selected int   `json:"selected"`
	Rest     int   `json:"rest"`
	Bars     []Bar `json:"bars"`
}

// Bar is one value of one field; those whose shares differ most come first.
type Bar struct {
	Field         string  `json:"field"`
	Value         string  `json:"value"`
	SelectedShare float64 `json:"selected_share"`
	RestShare     float64 `json:"rest_share"`
	Selected      int     `json:"selected"`
	Rest          int     `json:"rest"`
}

// Query chooses requests: those scheduled in [From, To) ns that the filter takes.
// A To of 0 or less is no bound.
type Query struct {
	From, To int64
	Filter   string
	// Sort names a field of RequestRow without _ms and _tokens, "-" before it for the
	// largest first; "" is by time.
	Sort          string
	Limit, Offset int
	// Color is workload or status, for Scatter; "" is workload.
	Color string
}

// Box selects points of a scatter by time in ns and by the figure Y in ms, both
// ends included. NaN in a bound of Y is no bound, and so are an XMax and XMin of 0.
type Box struct {
	Y          string
	XMin, XMax int64
	YMin, YMax float64
}
