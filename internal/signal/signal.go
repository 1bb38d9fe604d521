// Package signal owns the catalogue of canonical signals: what the servers, the
// accelerators, the hosts and the client say, each under one name with one unit,
// one kind and one way of putting several sources of it together; and the types in
// which values of them travel. It never reads a page, never keeps time and never
// derives a value: telemetry makes samples, align makes courses out of them.
package signal

import "fmt"

// ID names one signal of the catalogue. The zero ID is no signal. IDs are for use
// inside one process: files hold names.
type ID uint8

// Kind is how the values of a signal are to be read.
type Kind uint8

const (
	// Gauge is a value at an instant; between two readings nothing is known of it.
	Gauge Kind = iota
	// Counter is a total since the server started: only differences mean anything.
	Counter
	// Distribution is a histogram or summary of the server: running totals of sum,
	// count and buckets. Differences of sum over differences of count are exact
	// means of a window; quantiles are known to a bucket.
	Distribution
	// Ratio is the increase of one counter over the increase of another (Def.Part and
	// Def.Whole). Where a server only states the ratio itself, it is read as a Gauge.
	Ratio
	// Constant does not change while the server runs: a capacity, a limit.
	Constant
)

// String returns the name of k as it stands in listings.
func (k Kind) String() string {
	switch k {
	case Gauge:
		return "gauge"
	case Counter:
		return "counter"
	case Distribution:
		return "distribution"
	case Ratio:
		return "ratio"
	case Constant:
		return "constant"
	}
	panic(fmt.Sprintf("BUG: signal kind %d", k))
}

// Combine is how values of one signal from several engines, ranks, devices or ports become one.
type Combine uint8

const (
	// Sum is for counts, tokens, bytes and watts.
	Sum Combine = iota
	// Mean is for ratios and clocks, which never add up: the mean and the maximum
	// are both given, and the maximum is what runs out first.
	Mean
	// Max is for states of which one is enough, as throttling.
	Max
)

// Group is where a signal is shown and who says it.
type Group uint8

const (
	// Client signals come from the load generator itself.
	Client Group = iota
	// Engine signals come from the inference engine.
	Engine
	// Gateway signals come from a router or proxy before the engines: its own
	// vantage point, never mixed with the engine's.
	Gateway
	// Accelerator signals come from an exporter of GPU or other accelerator figures.
	Accelerator
	// Network signals come from interfaces, links and fabrics.
	Network
	// Host signals come from the operating system of a host.
	Host
	// Scrape signals are about the reading of a source: its cost and its success.
	Scrape
)

// Def is one signal of the catalogue.
type Def struct {
	// ID is the definition's own identifier.
	ID ID
	// Name is the canonical name, in snake case; client and gateway signals carry a prefix and a dot.
	Name string
	// Unit is the unit of a value: s, tokens, bytes, W, J, Hz, 1 (a ratio from 0 to 1), requests, ... A
	// counter's unit is that of its total; its rate is per second.
	Unit string
	// Kind says how values are to be read.
	Kind Kind
	// Combine says how several become one.
	Combine Combine
	// Group says who says it.
	Group Group
	// Part and Whole are the counters of a Ratio; zero elsewhere.
	Part, Whole ID
	// Help is what it means, in a sentence without a full stop.
	Help string
}
