//go:build race

package telemetry

const race = true
