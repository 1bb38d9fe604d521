package stats

import (
	"math"

	"plimsoll/internal/record"
)

// span is a column of durations in 40 bits each: all but a few of a run's times
// are between 0 and 18 minutes, and ten million requests have a dozen of them.
// What does not fit goes to a map. A column in which nothing is known costs
// nothing.
type span struct {
	lo  []uint32
	hi  []uint8
	far map[int32]int64
}

const (
	spanNull = 1<<40 - 1
	spanFar  = 1<<40 - 2
)

func (s *span) set(i int, v int64) {
	if s.lo == nil {
		s.lo, s.hi = make([]uint32, chunkRows), make([]uint8, chunkRows)
		for j := range s.lo {
			s.lo[j], s.hi[j] = math.MaxUint32, math.MaxUint8
		}
	}
	if v < 0 || v >= spanFar {
		if s.far == nil {
			s.far = make(map[int32]int64)
		}
		s.far[int32(i)] = v
		v = spanFar
	}
	s.lo[i], s.hi[i] = uint32(v), uint8(v>>32)
}

func (s *span) get(i int) (int64, bool) {
	if s.lo == nil {
		return 0, false
	}
	v := int64(s.hi[i])<<32 | int64(s.lo[i])
	switch v {
	case spanNull:
		return 0, false
	case spanFar:
		return s.far[int32(i)], true
	}
	return v, true
}

// The stored durations; all but lag and retrieval count from t_start.
const (
	colDelay   = iota // t_start - t_scheduled
	colCapWait        // what of that was not the client's lateness, see SendLag
	colTTFT
	colTTFC
	colTTLT
	colEnd
	colConnect
	colUpload
	colRetrieval
	colReadLag
	colITL // mean inter-token latency, only when a limit asks for it
	numCols
)

const chunkRows = 1 << 14

// notSteady marks a row that belongs to no window.
const notSteady = math.MaxUint16

// chunk holds the figures of up to chunkRows requests in columns.
type chunk struct {
	n          int
	scheduled  []int64
	session    []uint64
	step       []uint16
	workload   []uint16
	block      []uint8
	status     []record.Status
	buffered   []bool
	later      []bool  // not the session's first turn
	tpotTokens []int32 // what tpot is divided by, 0 when it is not known
	prompt     []int32
	cols       [numCols]span
}

func newChunk() *chunk {
	return &chunk{
		scheduled: make([]int64, chunkRows), session: make([]uint64, chunkRows),
		step: make([]uint16, chunkRows), workload: make([]uint16, chunkRows), block: make([]uint8, chunkRows),
		status: make([]record.Status, chunkRows), buffered: make([]bool, chunkRows), later: make([]bool, chunkRows),
		tpotTokens: make([]int32, chunkRows), prompt: make([]int32, chunkRows),
	}
}

func (k *chunk) put(col, i int, v int64, ok bool) {
	if ok {
		k.cols[col].set(i, v)
	}
}

// metric is a figure of a request that a summary has a distribution of.
type metric int

const (
	mTTFT metric = iota
	mTTFTFromSchedule
	mTTFC
	mTTLT
	mE2E
	mE2EFromSchedule
	mTPOT
	mConnect
	mUpload
	mRetrieval
	mPromptRate
	mSendLag
	mReadLag
	mITL
	mTTFTWithRetrieval
	mTTFTWithRetrievalFromSchedule
)

// value returns metric m of row i, in ns or tokens per second. It repeats the
// functions of request.go on the columns; a test holds the two together.
func (k *chunk) value(m metric, i int) (float64, bool) {
	col := func(c int) (float64, bool) {
		v, ok := k.cols[c].get(i)
		return float64(v), ok
	}
	sum := func(a, b int) (float64, bool) {
		v, ok := k.cols[a].get(i)
		w, has := k.cols[b].get(i)
		return float64(v + w), ok && has
	}
	ok := k.status[i] == record.OK
	switch m {
	case mTTFT:
		return col(colTTFT)
	case mTTFTFromSchedule:
		return sum(colTTFT, colDelay)
	case mTTFC:
		return col(colTTFC)
	case mTTLT:
		return col(colTTLT)
	case mE2E:
		v, has := col(colEnd)
		return v, ok && has
	case mE2EFromSchedule:
		v, has := sum(colEnd, colDelay)
		return v, ok && has
	case mTPOT:
		return k.tpot(i)
	case mConnect:
		return col(colConnect)
	case mUpload:
		return col(colUpload)
	case mRetrieval:
		return col(colRetrieval)
	case mPromptRate:
		v, has := col(colTTFT)
		if !has || v <= 0 || k.prompt[i] < 0 {
			return 0, false
		}
		return float64(k.prompt[i]) / (v / 1e9), true
	case mSendLag:
		v, has := k.cols[colDelay].get(i)
		wait, _ := k.cols[colCapWait].get(i)
		return float64(v - wait), has
	case mReadLag:
		return col(colReadLag)
	case mITL:
		return col(colITL)
	case mTTFTWithRetrieval:
		return sum(colTTFT, colRetrieval)
	case mTTFTWithRetrievalFromSchedule:
		v, has := sum(colTTFT, colDelay)
		r, ok := col(colRetrieval)
		return v + r, has && ok
	}
	panic("BUG: unknown metric")
}

func (k *chunk) tpot(i int) (float64, bool) {
	if k.tpotTokens[i] == 0 {
		return 0, false
	}
	first, _ := k.cols[colTTFT].get(i)
	last, _ := k.cols[colTTLT].get(i)
	return float64(last-first) / float64(k.tpotTokens[i]), true
}
