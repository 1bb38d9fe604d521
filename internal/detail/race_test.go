//go:build race

package detail

const raceEnabled = true
