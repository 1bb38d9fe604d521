package conduct

import (
	"errors"
	"fmt"
	"iter"

	"plimsoll/internal/align"
	"plimsoll/internal/run"
	"plimsoll/internal/stats"
)

// Remake makes the summary of a run on disk that has none, as that of a process
// that was killed. Nothing is written.
func Remake(saved *run.Run) (*stats.Summary, *run.Alignment, error) {
	in, err := saved.Input()
	if err != nil {
		return nil, nil, err
	}
	result, err := build(saved, in, nil)
	in.Server = totals(saved)
	s := saved.SummarizeAs(in)
	return s, put(s, result, err), nil
}

// Timeline returns the rows of a run's timeline: those on disk or, of a run whose
// process was killed or whose file is no timeline any more, what can be made of its
// records and samples now.
func Timeline(saved *run.Run) iter.Seq2[[]run.TimelineRow, error] {
	return func(yield func([]run.TimelineRow, error) bool) {
		missing, began := false, false
		for rows, err := range saved.Timeline() {
			if missing = err != nil && !began; missing {
				break
			}
			began = true
			if !yield(rows, err) {
				return
			}
		}
		if !missing {
			return
		}
		in, err := saved.Input()
		if err != nil {
			yield(nil, err)
			return
		}
		stopped := errors.New("no more rows are wanted")
		_, err = build(saved, in, func(rows []run.TimelineRow) error {
			if !yield(rows, nil) {
				return stopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, stopped) {
			yield(nil, err)
		}
	}
}

// build makes the timeline of a run without keeping it.
func build(saved *run.Run, in stats.Input, rows func([]run.TimelineRow) error) (*align.Result, error) {
	info := saved.Info()
	return align.Build(align.Input{
		Start: info.Start, Run: in, Sources: align.Sources(info.Telemetry), Samples: saved.Samples(), Requests: saved.Requests(), Rows: rows,
	})
}

// totals returns what the servers of a run counted, nil for nothing.
func totals(saved *run.Run) *stats.ServerInput {
	info := saved.Info()
	if len(info.Telemetry) == 0 {
		return nil
	}
	return align.Totals(saved.Samples(), align.Sources(info.Telemetry))
}

// put adds the servers' figures to a summary. A timeline that could not be made is
// said in the alignment and takes nothing from what the client measured.
func put(s *stats.Summary, result *align.Result, err error) *run.Alignment {
	if err != nil {
		return &run.Alignment{Notes: []string{fmt.Sprintf("the timeline could not be made: %v", err)}}
	}
	s.Server, s.Energy = result.Server, result.Energy
	for i := range s.Steps {
		if i < len(result.Steps) {
			s.Steps[i].Server = result.Steps[i]
		}
	}
	return &result.Alignment
}
