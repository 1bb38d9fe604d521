package stats

import (
	"testing"

	"plimsoll/internal/record"
)

func TestArrivals(t *testing.T) {
	const u = record.Unknown
	for _, c := range []struct {
		name     string
		tokens   []int32 // of events at 10, 20, ...
		output   int32
		text     int64
		end      int64
		perEvent float64
		want     []float64
		ok       bool
	}{
		{"counted", []int32{1, 2, 0}, 3, 9, 50, 0, []float64{1, 2, 0}, true},
		{"reasoning that was never streamed", []int32{1, 2}, 13, 9, 50, 0, []float64{11, 2}, true},
		{"counted as a whole", []int32{u, u, u}, 7, 9, 50, 2, []float64{2, 2, 3}, true},
		{"counted in part", []int32{1, u}, 4, 9, 50, 2, []float64{2, 2}, true},
		{"uncounted", []int32{u, u}, u, 9, 50, 1.5, []float64{1.5, 1.5}, true},
		{"uncounted, and nothing to go by", []int32{u, u}, u, 9, 50, 0, nil, false},
		{"one body", nil, 7, 9, 50, 2, []float64{7}, true},
		{"an uncounted body", nil, u, 9, 50, 2, nil, false},
		{"refused", nil, u, 0, 50, 2, nil, true},
		{"under way", nil, u, 9, record.Unset, 2, nil, true},
	} {
		r := new(record.Request)
		r.Reset()
		r.Output, r.TextBytes, r.End = c.output, c.text, c.end
		for i, n := range c.tokens {
			r.Events = append(r.Events, record.Event{At: int64(i+1) * 10, Tokens: n, Cumulative: u})
		}
		var got []float64
		ok := Arrivals(r, c.perEvent, func(at int64, tokens float64) {
			want := int64(len(got)+1) * 10
			if len(c.tokens) == 0 {
				want = c.end
			}
			if at != want {
				t.Errorf("%s: at %d, want %d", c.name, at, want)
			}
			got = append(got, tokens)
		})
		same := len(got) == len(c.want)
		for i := range min(len(got), len(c.want)) {
			same = same && got[i] == c.want[i]
		}
		if !same || ok != c.ok {
			t.Errorf("%s: %v, %v, want %v, %v", c.name, got, ok, c.want, c.ok)
		}
	}
}

func TestPromptArrival(t *testing.T) {
	r := new(record.Request)
	r.Reset()
	if _, ok := PromptArrival(r); ok {
		t.Error("nothing was reached")
	}
	r.End = 9
	if at, ok := PromptArrival(r); !ok || at != 9 {
		t.Errorf("without a token: %d, %v", at, ok)
	}
	r.FirstToken = 5
	if at, ok := PromptArrival(r); !ok || at != 5 {
		t.Errorf("%d, %v", at, ok)
	}
}
