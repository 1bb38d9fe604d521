package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"plimsoll/internal/conduct"
	"plimsoll/internal/report"
	"plimsoll/internal/telemetry"
)

// page reads the saved telemetry page that the argument of check names, and says
// whether it names one rather than an endpoint.
func (a *app) page(arg string) ([]byte, bool, error) {
	if strings.Contains(arg, "://") {
		return nil, false, nil
	}
	data, err := a.env.readFile(arg)
	switch {
	case err == nil && len(data) >= maxInput:
		return nil, false, usagef("check %s: the page is larger than %s", report.Printable(arg), report.Bytes(maxInput-1))
	case err == nil:
		return data, true, nil
	case errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(arg, `/\`) && (strings.Contains(arg, ":") || filepath.Ext(arg) == ""):
		return nil, false, nil // an address without http://, most likely: the scenario says so
	}
	return nil, false, usagef("check: %w; an endpoint begins with http:// or https://", err)
}

// pageFacts is what a program reads of a page.
type pageFacts struct {
	Schema  string              `json:"schema"` // plimsoll.page/1
	Sources []string            `json:"sources"`
	Signals map[string]float64  `json:"signals"`
	Missing []telemetry.Missing `json:"missing"`
	Series  int                 `json:"series"`
	// Malformed, Duplicate, NaN and OutOfRange count what was left out.
	Malformed  int `json:"malformed"`
	Duplicate  int `json:"duplicate"`
	NaN        int `json:"nan"`
	OutOfRange int `json:"out_of_range"`
	// FirstNaN and FirstOutOfRange say which was the first of these.
	FirstNaN        string        `json:"first_nan,omitempty"`
	FirstOutOfRange string        `json:"first_out_of_range,omitempty"`
	Problems        []pageProblem `json:"problems"`
}

type pageProblem struct {
	Line int    `json:"line,omitempty"`
	Text string `json:"text"`
}

// page says what a saved page holds.
func (c *checkCmd) page(a *app, data []byte, files []string) error {
	tables, err := conduct.Tables(files, a.env.readFile)
	if err != nil {
		return usagef("check: %w", err)
	}
	name := c.Target
	if name == "-" {
		name = "standard input"
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return fmt.Errorf("check %s: the page is empty", report.Printable(name))
	}
	r, err := telemetry.ReadPage(data, "", tables...)
	if err != nil {
		return fmt.Errorf("check %s: %w", report.Printable(name), err)
	}
	if c.Output != "json" {
		return report.Page(a.env.Stdout, name, r)
	}
	f := pageFacts{
		Schema: "plimsoll.page/1", Sources: r.Sources, Signals: r.Signals, Series: r.Info.Series,
		Malformed: r.Info.Malformed, Duplicate: r.Info.Duplicate, NaN: r.Info.NaN, OutOfRange: r.Info.OutOfRange,
		FirstNaN: r.Info.FirstNaN, FirstOutOfRange: r.Info.FirstOutOfRange,
		Missing: []telemetry.Missing{}, Problems: []pageProblem{},
	}
	if f.Sources == nil {
		f.Sources = []string{}
	}
	if f.Signals == nil {
		f.Signals = map[string]float64{}
	}
	f.Missing = append(f.Missing, r.Missing...)
	for _, p := range r.Info.Problems {
		f.Problems = append(f.Problems, pageProblem(p))
	}
	return a.printJSON(&f)
}
