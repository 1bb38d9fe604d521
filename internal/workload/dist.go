package workload

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"plimsoll/internal/random"
	"plimsoll/internal/scenario"
)

// Dist returns the distribution of token counts that a scenario describes; no
// kind means fixed. One that names a file is an error: only a workload's own
// file may.
func Dist(d scenario.Dist) (random.Dist, error) { return ready(d, d.Parts, nil) }

// ready makes a distribution ready to be drawn from. Parts are those of a
// mixture.
func ready(d scenario.Dist, parts func() ([]scenario.Weighted, error), readFile func(string) ([]byte, error)) (random.Dist, error) {
	out := random.Dist{A: d.A, B: d.B, Min: d.Min, Max: d.Max}
	switch d.Kind {
	case "", scenario.Fixed:
		out.Kind = random.Fixed
	case scenario.Uniform:
		out.Kind = random.Uniform
	case scenario.Normal:
		out.Kind = random.Normal
	case scenario.LogNormal:
		out.Kind = random.Lognormal
	case scenario.Gamma:
		out.Kind = random.Gamma
	case scenario.Zipf:
		out.Kind = random.Zipf
		out.A = max(d.A, d.Min)
	case scenario.Empirical:
		out.Kind = random.Empirical
		if readFile == nil {
			return out, fmt.Errorf("file:%s: no file is read here: write its numbers into a workload's own file", d.Text)
		}
		data, err := readFile(d.Text)
		if err != nil {
			return out, err
		}
		if out.Values, err = values(string(data)); err != nil {
			return out, fmt.Errorf("%s:%w", d.Text, err)
		}
	case scenario.Mixture:
		out.Kind = random.Mixture
		list, err := parts()
		if err != nil {
			return out, err
		}
		for _, p := range list {
			inner, err := ready(p.Dist, nil, readFile)
			if err != nil {
				return out, err
			}
			out.Parts = append(out.Parts, random.Part{Weight: p.Weight, Dist: inner})
		}
	default:
		return out, fmt.Errorf("unknown distribution %q, want fixed, uniform, normal, lognormal, gamma, zipf, file or a mixture", d.Kind)
	}
	return out, nil
}

// values reads one number from each line of a file; empty lines and those that
// begin with # are skipped.
func values(text string) ([]float64, error) {
	var out []float64
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		x, err := strconv.ParseFloat(line, 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
			return nil, fmt.Errorf("%d: want one number of at least 0, got %q", n, line[:min(len(line), 40)])
		}
		if out = append(out, x); len(out) > maxValues {
			return nil, fmt.Errorf("%d: want at most %d numbers", n, maxValues)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("1: want at least one number")
	}
	return out, nil
}
