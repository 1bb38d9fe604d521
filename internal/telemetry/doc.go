// Package telemetry owns what servers, accelerators and hosts say about
// themselves: it fetches their pages, parses them, recognises whose they are and
// turns their series into the canonical signals of package signal, by tables
// that are data. It never starts, slows or changes a request of the load, never
// derives a rate or a percentile (align does), and never invents a value: what a
// page does not say is absent.
package telemetry
