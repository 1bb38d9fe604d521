package live

import (
	"encoding/json"
	"strconv"
	"sync"

	"plimsoll/internal/detail"
	"plimsoll/internal/phrase"
)

// Snapshot is the running test at one second, and what came since the snapshot
// before. It does not change once it is made.
type Snapshot struct {
	// N is its number, from 1 on.
	N int64 `json:"n"`
	// T is the second of the run's clock.
	T detail.Ms `json:"t"`
	// Phase is warmup, steady or drain, or "" before the load began; Step counts from
	// 0.
	Phase string `json:"phase"`
	Step  int    `json:"step"`
	Steps int    `json:"steps"`
	// Share is the part of the planned load that is done, 0 to 1, and Left what the
	// rest may take; nil when they cannot be known.
	Share *float64   `json:"share"`
	Left  *detail.Ms `json:"left_ms"`
	// Stopping says that the run has been asked to stop.
	Stopping bool   `json:"stopping"`
	Header   Header `json:"header"`
	// Verdict is nil while nothing can be said: client-bound while the client is late,
	// and that of the run in the last snapshot. Reasons are sentences.
	Verdict *string  `json:"verdict"`
	Reasons []string `json:"reasons"`
	// Said is what the reasons say, for programs, in the same order.
	Said []phrase.Said `json:"reasons_said"`
	// Added are series that no snapshot before had.
	Added []detail.Series `json:"series_added"`
	Cells []Cell          `json:"cells"`
	Bands []Band          `json:"bands"`
	// Marks are new, or have got their end.
	Marks []detail.Mark `json:"marks"`
	// Dropped counts the requests and samples so far that are missing here, though not
	// on disk, because more came than could be looked at.
	Dropped int64 `json:"dropped"`

	once sync.Once
	text []byte
}

// Header are the figures of the page's head. Rates, percentiles and the mean over
// time are of the last 10 s, counts of the whole run.
type Header struct {
	InFlight   int64    `json:"in_flight"`
	GoodputRPS *float64 `json:"goodput_rps"`
	// TTFTP95 is of first tokens in that time, also of requests that still run.
	TTFTP95    *detail.Ms `json:"ttft_p95_ms"`
	TPOTP95    *detail.Ms `json:"tpot_p95_ms"`
	OutputPerS float64    `json:"output_per_s"`
	Failures   int64      `json:"failures"`
	// FailureShare is of the last 100 requests that ended.
	FailureShare *float64 `json:"failure_share"`
	Users        int64    `json:"users"`
	Sessions     int64    `json:"sessions"`
	Scheduled    int64    `json:"scheduled"`
	Sent         int64    `json:"sent"`
	OK           int64    `json:"ok"`
	Cancelled    int64    `json:"cancelled"`
	Incomplete   int64    `json:"incomplete"`
	OutputTokens int64    `json:"output_tokens"`
	// Limits has one for each limit of the run's document, in its order.
	Limits []LimitNow `json:"limits"`
}

// LimitNow is a limit held against the requests of the steady window that ended in the
// last 10 s. Met is nil while there are too few of them, or none with the figure; Value
// then too, and where failures make it infinite.
type LimitNow struct {
	Value *detail.Ms `json:"value"`
	Met   *bool      `json:"met"`
}

// Cell is the value of one series in the second from T on.
type Cell struct {
	Series int
	T      detail.Ms
	Value  float64
}

// MarshalJSON writes [series, t, value].
func (c Cell) MarshalJSON() ([]byte, error) {
	b := append(make([]byte, 0, 32), '[')
	b = strconv.AppendInt(b, int64(c.Series), 10)
	b = append(b, ',')
	b = strconv.AppendFloat(b, float64(c.T), 'f', -1, 64)
	b = append(b, ',')
	b = strconv.AppendFloat(b, c.Value, 'g', 6, 64)
	return append(b, ']'), nil
}

// UnmarshalJSON reads it.
func (c *Cell) UnmarshalJSON(b []byte) error {
	var v [3]float64
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*c = Cell{int(v[0]), detail.Ms(v[1]), v[2]}
	return nil
}

// Band has percentiles in ms of one figure in the second from T on, of one workload
// or of all.
type Band struct {
	Figure   string    `json:"figure"`
	Workload string    `json:"workload"`
	T        detail.Ms `json:"t"`
	Count    int64     `json:"count"`
	Min      detail.Ms `json:"min"`
	P50      detail.Ms `json:"p50"`
	P95      detail.Ms `json:"p95"`
	P99      detail.Ms `json:"p99"`
	Max      detail.Ms `json:"max"`
}

// JSON returns the snapshot as JSON in one line, which is made once. It is not to
// be changed.
func (s *Snapshot) JSON() []byte {
	s.once.Do(func() {
		b, err := json.Marshal(s)
		if err != nil {
			panic("BUG: a snapshot without JSON: " + err.Error())
		}
		s.text = b
	})
	return s.text
}
