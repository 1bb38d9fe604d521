package signal

// Field says which running total of a Distribution a series holds.
type Field uint8

const (
	// Value is the only field of every kind but Distribution.
	Value Field = iota
	// TotalSum is the sum of all observations so far, in the signal's unit.
	TotalSum
	// TotalCount is the number of observations so far.
	TotalCount
	// TotalBucket is the number of observations so far of at most Series.Bound.
	TotalBucket
)

// String returns the name of f as it stands in files.
func (f Field) String() string {
	return [...]string{Value: "value", TotalSum: "sum", TotalCount: "count", TotalBucket: "bucket"}[f]
}

// Series is the identity of one course of values. A series is declared once, before
// its first sample, and never changes.
type Series struct {
	// Source is the index of the source that says it, in the order of the run's sources.
	Source int
	// Signal is the canonical signal, or zero for a value kept under the server's own name.
	Signal ID
	// Raw is the server's own name where Signal is zero.
	Raw string
	// Labels tell series of one signal apart: name=value pairs in the order of the names, with
	// commas between, as "engine=0" or "gpu=3,uuid=GPU-1b". Empty when the source has only one.
	Labels string
	// Field is which total of a distribution this is.
	Field Field
	// Bound is the upper bound of a bucket in the signal's unit, +Inf for the last.
	Bound float64
}

// Sample is one value of one series.
type Sample struct {
	// Series is the series' index in the order of declaration.
	Series int32
	// Start and End bound the instant at which the value held, in ns of the run's
	// clock: the start and end of the request that fetched it, or twice the source's own timestamp.
	Start, End int64
	// Value is the value in the signal's unit; never NaN or infinite.
	Value float64
}

// Sink takes what sources say. Calls come from one goroutine per source at a time and from
// several sources at once; the slices are the caller's again after the call.
type Sink interface {
	// Declare makes a series known and returns its index, which later samples bear.
	Declare(s Series) int32
	// Add takes samples in the order of their time within each series.
	Add(samples []Sample)
}
