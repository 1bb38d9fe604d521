package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"plimsoll/internal/conduct"
	"plimsoll/internal/live"
	"plimsoll/internal/load"
	"plimsoll/internal/probe"
	"plimsoll/internal/report"
	"plimsoll/internal/run"
	"plimsoll/internal/scenario"
	"plimsoll/internal/stats"
)

// showing says how a run is shown while it goes on, beside its progress.
type showing struct {
	quiet bool
	// block draws the state of the run below the progress, on a terminal.
	block bool
	// serve is the address of a panel, "" for none; browse opens it in a browser. With
	// stay it is there until the user interrupts.
	serve        string
	browse, stay bool
	// begun, when not nil, is told the folder of the run when it has begun, and may write.
	begun func(folder string)
}

// measure carries out one run, prints its report, and returns its exit code as an
// error.
func (a *app) measure(s *scenario.Scenario, output string, show showing) error {
	if show.serve == "" {
		return a.measureOn(s, output, show, nil)
	}
	srv, l, at, err := a.panel(s.Data.Out, show.serve, &serveFlags{})
	if err != nil {
		return err
	}
	// The panel goes on while what is in flight ends, so that it has a life of its own.
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx, l) }()
	defer func() {
		cancel()
		<-served
		_ = srv.Close(a.hard) // it is over, and its runs were told
	}()
	at.print(a.env.Stderr)
	show.begun = func(folder string) {
		u := at.at(0, "/runs/"+filepath.Base(folder))
		_, _ = fmt.Fprintf(a.env.Stderr, "this run at %s\n", u)
		if show.browse && a.env.Browse != nil {
			if err := a.env.Browse(u); err != nil {
				_, _ = fmt.Fprintf(a.env.Stderr, "no browser could be opened: %s\n", report.Printable(err.Error()))
			}
		}
	}
	w := live.New()
	srv.Watch(w)
	err = a.measureOn(s, output, show, w)
	if show.stay && a.ctx.Err() == nil && w.ID() != "" {
		_, _ = fmt.Fprintf(a.env.Stderr, "the panel stays at %s until Ctrl-C\n", at.at(0, "/"))
		select {
		case <-a.ctx.Done():
		case err := <-served:
			served <- err
		}
	}
	return err
}

// measureOn is measure with the watch of a panel, nil for none.
func (a *app) measureOn(s *scenario.Scenario, output string, show showing, w *live.Watch) error {
	res, err := a.conduct(s, show, w)
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

// conduct carries out one run, with its progress on standard error; w, when not
// nil, is told of it too.
func (a *app) conduct(s *scenario.Scenario, show showing, w *live.Watch) (*conduct.Result, error) {
	p := newProgress(a.env, show.quiet)
	p.begun = show.begun
	p.prepare("preparing the run: what users send is read, the target is looked at")
	watching, enough := context.WithCancel(context.Background())
	var watched sync.WaitGroup
	if show.block && p.tty && !p.quiet {
		if w == nil {
			w = live.New()
		}
		p.status = newStatus()
		watched.Go(func() { p.watch(watching, w.Reader(0)) })
	}
	cfg := &conduct.Config{
		Scenario: s, Root: a.env.path(s.Data.Out), Version: buildInfo().Version,
		LookupEnv: a.env.lookup, ReadFile: a.env.readFile, Dir: a.env.path("."),
		Stop: a.ctx.Done(), Progress: p.show, Note: p.note, Watch: w, Limits: a.env.limits,
	}
	if steering := probe.NewSteering(s); steering != nil {
		cfg.Steer = func() conduct.Steering { return steering }
	}
	res, err := conduct.Run(a.hard, cfg)
	enough()
	watched.Wait()
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
	case s.SLO != nil && s.SLO.Met != nil && !*s.SLO.Met:
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
