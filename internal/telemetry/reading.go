package telemetry

// Missing is a canonical signal that a page could give and does not.
type Missing struct {
	// Source is the source whose table knows the signal.
	Source string
	// Signal is its canonical name.
	Signal string
	// Why says why it is missing; never empty.
	Why string
	// Enable says how to make the server publish it; empty when nothing is known.
	Enable string
}

// Reading is what one page says at one instant.
type Reading struct {
	// Sources are the sources recognised.
	Sources []string
	// Signals are the canonical signals: gauges and constants combined over instances as the
	// signal combines (of those that combine by mean also NAME_max where there is more than one instance), counters their total,
	// distributions their mean since the server started, ratios part over whole. What is unknown is not there.
	Signals map[string]float64
	// Missing are the signals that the sources could give and this page does not.
	Missing []Missing
	// Info says what the page held.
	Info PageInfo
}

// ReadPage reads one page by the built-in tables and those given, which come first.
func ReadPage(body []byte, contentType string, tables ...*Table) (*Reading, error) {
	return nil, ErrNotAPage
}
