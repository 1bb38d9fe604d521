package report

import (
	"encoding/json"
	"errors"
	"iter"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"plimsoll/internal/run"
	"plimsoll/internal/signal"
)

func rowsOf(rows ...run.TimelineRow) iter.Seq2[[]run.TimelineRow, error] {
	return func(yield func([]run.TimelineRow, error) bool) {
		for _, r := range rows {
			if !yield([]run.TimelineRow{r}, nil) {
				return
			}
		}
	}
}

func TestCoursesOfATimeline(t *testing.T) {
	const s = int64(1e9)
	row := func(at int64, name, stat, source, labels string, v float64) run.TimelineRow {
		return run.TimelineRow{T: at * s, Signal: name, Stat: stat, Source: source, Labels: labels, Value: v}
	}
	workload := row(1, "client.ttft", "mean", "", "", 9)
	workload.Workload = "chat"
	tl, err := ReadTimeline(rowsOf(
		row(1, "client.ttft", "p50", "", "", 0.1),
		row(1, "client.ttft", "mean", "", "", 0.2),
		workload,
		row(1, "client.users", "value", "", "", 4),
		row(1, "ttft", "mean", "", "", 0.15),
		row(1, "power", "value", "gpus", "gpu=0", 300),
		row(1, "requests_running", "value", "", "", 3),
		row(1, "requests_running", "value", "engine", "engine=0", 1),
		row(2, "generation_tokens", "rate", "", "", 100),
		row(4, "requests_running", "value", "", "", 5),
		row(4, "power", "value", "gpus", "gpu=1", 400),
		row(4, "my_own", "value", "x", "", 7),
	))
	if err != nil {
		t.Fatal(err)
	}
	nan := math.NaN()
	got := tl.Courses()
	want := &Courses{Start: 1, Step: 1, List: []Course{
		{Signal: "requests_running", Unit: "requests", Group: signal.Engine, Values: []float64{3, nan, nan, 5}},
		{Signal: "generation_tokens", Unit: "tokens/s", Group: signal.Engine, Values: []float64{nan, 100, nan, nan}},
		{
			Signal: "ttft", Unit: "s", Group: signal.Engine, Values: []float64{0.15, nan, nan, nan},
			Beside: &Course{Signal: "client.ttft", Unit: "s", Group: signal.Client, Values: []float64{0.2, nan, nan, nan}},
		},
		{Signal: "power", Of: "gpus gpu=0", Unit: "W", Group: signal.Accelerator, Values: []float64{300, nan, nan, nan}},
		{Signal: "power", Of: "gpus gpu=1", Unit: "W", Group: signal.Accelerator, Values: []float64{nan, nan, nan, 400}},
		{Signal: "client.users", Unit: "users", Group: signal.Client, Values: []float64{4, nan, nan, nan}},
	}}
	if d := cmp.Diff(want, got, cmpopts.EquateNaNs()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	var b strings.Builder
	if err := tl.JSON(&b); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Schema  string  `json:"schema"`
		StepS   float64 `json:"step_s"`
		Signals []struct {
			Signal, Stat, Unit, Source, Labels, Workload string
			Values                                       []*float64
		}
	}
	if err := json.Unmarshal([]byte(b.String()), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Schema != "plimsoll.courses/1" || doc.StepS != 1 || len(doc.Signals) != 11 {
		t.Errorf("%d signals of schema %s, want all 11", len(doc.Signals), doc.Schema)
	}
	if s := doc.Signals[len(doc.Signals)-1]; s.Signal != "my_own" || s.Unit != "" || s.Values[0] != nil || *s.Values[3] != 7 {
		t.Errorf("the last is %+v", s)
	}

	early, err := ReadTimeline(rowsOf(row(-2, "host_load", "value", "h", "", 7), row(0, "client.users", "value", "", "", 1), row(1, "client.users", "value", "", "", 2)))
	if err != nil {
		t.Fatal(err)
	}
	if c := early.Courses(); c.Start != 0 || len(c.List) != 2 || len(c.List[1].Values) != 2 {
		t.Errorf("%+v, want what happened from 0 on", c)
	}

	broken := errors.New("broken")
	if _, err := ReadTimeline(func(yield func([]run.TimelineRow, error) bool) { yield(nil, broken) }); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	for _, last := range []int64{math.MaxInt64, math.MaxInt64 / 2} {
		rows := rowsOf(run.TimelineRow{T: -last}, row(0, "x", "value", "", "", 1), run.TimelineRow{T: 1}, run.TimelineRow{T: last})
		if _, err := ReadTimeline(rows); err == nil {
			t.Error("a grid of centuries was taken up")
		}
	}
	if tl, err := ReadTimeline(rowsOf()); err != nil || len(tl.Courses().List) != 0 {
		t.Errorf("an empty timeline: %v", err)
	}
}

func TestBesideIsOfTheSameUnit(t *testing.T) {
	for of, client := range beside {
		a, b := of.Def(), client.Def()
		if a.Kind != b.Kind || a.Unit != b.Unit || b.Group != signal.Client {
			t.Errorf("%s (%s, %s) beside %s (%s, %s)", b.Name, b.Kind, b.Unit, a.Name, a.Kind, a.Unit)
		}
	}
}
