//go:build race

package histogram

const raceEnabled = true
