// Package align puts what the client measured and what the servers stated onto
// one grid of time: the timeline. It owns the rates of counters across restarts
// and gaps, the figures of distributions from their differences, how several
// engines and devices become one, how far each source's clock is from the
// client's, how often each source really renews its values, and the energy of a
// request and a token. It never reads a page (telemetry), defines no figure of a
// request (stats), judges nothing (diagnose), and states nothing that nobody
// said: a cell without a reading stays empty.
package align
