//go:build race

package load

// raceEnabled says that times are those of the race detector.
const raceEnabled = true
