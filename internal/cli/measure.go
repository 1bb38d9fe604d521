package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"plimsoll/internal/conduct"
	"plimsoll/internal/load"
	"plimsoll/internal/probe"
	"plimsoll/internal/report"
	"plimsoll/internal/run"
	"plimsoll/internal/scenario"
	"plimsoll/internal/stats"
)

// measure carries out one run and prints its report.
func (a *app) measure(s *scenario.Scenario, output string, quiet bool) error {
	res, err := a.conduct(s, quiet)
	if err != nil {
		return err
	}
	fitted, err := probe.Keep(s, res.Folder)
	if err != nil {
		return err
	}
	if output == "json" {
		if err := a.printSummary(res.Summary, fitted); err != nil {
			return err
		}
	} else {
		r, err := a.openRun(res.Folder)
		if err != nil {
			return err
		}
		// What is on disk may be less, should it be full.
		r.about.Summary, r.about.Stopped, r.about.Notes, r.about.Probe = res.Summary, res.Message, nil, fitted
		if err := report.Text(a.env.Stdout, r.about); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(a.env.Stdout, "\nkept in %s\n", report.Printable(a.env.shorten(res.Folder))); err != nil {
			return err
		}
	}
	if res.Broken != nil {
		_, _ = fmt.Fprintf(a.env.Stderr, "plimsoll: run: not all of it is kept: %s\n", report.PrintableLines(res.Broken.Error()))
	} else if res.Message != "" && res.Stopped != load.Interrupted {
		_, _ = fmt.Fprintf(a.env.Stderr, "plimsoll: run stopped: %s\n", report.Printable(res.Message))
	}
	return exitCode(codeOf(res))
}

// printSummary prints summary.json, with what a probe came to in a field of its own.
func (a *app) printSummary(s *stats.Summary, fitted *run.Probe) error {
	b, err := s.Marshal()
	if err != nil {
		return err
	}
	if fitted != nil {
		p, err := fitted.Marshal()
		if err != nil {
			return err
		}
		head, ok := bytes.CutSuffix(bytes.TrimRight(b, "\n"), []byte("\n}"))
		if !ok {
			panic("BUG: a summary that is no object")
		}
		b = append(head, ",\n  \"probe\": "...)
		b = append(b, bytes.ReplaceAll(bytes.TrimRight(p, "\n"), []byte("\n"), []byte("\n  "))...)
		b = append(b, "\n}\n"...)
	}
	_, err = a.env.Stdout.Write(b)
	return err
}

// conduct carries out one run, with its progress on standard error.
func (a *app) conduct(s *scenario.Scenario, quiet bool) (*conduct.Result, error) {
	p := newProgress(a.env, quiet)
	cfg := &conduct.Config{
		Scenario: s, Root: a.env.path(s.Data.Out), Version: buildInfo().Version,
		LookupEnv: a.env.lookup, ReadFile: a.env.readFile, Dir: a.env.path("."),
		Stop: a.ctx.Done(), Progress: p.show,
	}
	if steering := probe.NewSteering(s); steering != nil {
		cfg.Steer = func() conduct.Steering { return steering }
	}
	res, err := conduct.Run(a.hard, cfg)
	p.close()
	switch {
	case err == nil:
		return res, nil
	case errors.Is(err, context.Canceled):
		return nil, err
	}
	if _, ok := errors.AsType[*conduct.UsageError](err); ok {
		return nil, usagef("run: %w", err)
	}
	return nil, fmt.Errorf("run: %w", err)
}

// codeOf returns the exit code of a run: the first of 130, 1, 4, 3, 0 that
// applies.
func codeOf(r *conduct.Result) int {
	switch r.Stopped {
	case load.Interrupted:
		if r.Broken == nil {
			return exitInterrupted
		}
		// Not the user, but a disk.
	case load.ErrorShare, load.KeyRefused, load.PathRefused:
		return exitFailed
	case load.Completed, load.TokenLimit:
	}
	s := r.Summary
	switch {
	case s.Requests.OK == 0:
		return exitFailed
	case s.Run.Verdict != stats.Valid, r.Broken != nil:
		return exitInvalid
	case s.SLO != nil && !s.SLO.Met:
		return exitMissed
	}
	return exitDone
}

// shorten returns a path as the user would write it: relative to the current
// folder when it lies below.
func (e *Env) shorten(path string) string {
	if e.Dir == "" {
		return path
	}
	if rel, err := filepath.Rel(e.Dir, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}
