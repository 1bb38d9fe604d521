package detail

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"plimsoll/internal/record"
	"plimsoll/internal/stats"
)

// filterCases is what the panel's own reader of filters is held to as well, so that
// both take the same requests and find errors in the same places.
type filterCases struct {
	Rows  []RequestRow `json:"rows"`
	Cases []struct {
		Filter  string  `json:"filter"`
		Matches []int64 `json:"matches"`
		Error   *struct{ At, Length int }
	} `json:"cases"`
}

// requestOf is a request of which everything that row says is measured.
func requestOf(t *testing.T, row *RequestRow) *record.Request {
	t.Helper()
	q := new(record.Request)
	q.Reset()
	q.ID, q.Session, q.User, q.Turn = uint64(row.N), row.Session, uint32(row.User), uint32(row.Turn)
	q.Step, q.Target, q.Workload, q.Finish = uint32(row.Step), uint32(row.Target), row.Workload, row.Finish
	for i := range 256 {
		if record.Status(i).String() == row.Status {
			q.Status = record.Status(i)
		}
		if record.Phase(i).String() == row.Phase {
			q.Phase = record.Phase(i)
		}
		if s := record.ErrorKind(i).String(); s == row.ErrorKind && s != "" {
			q.Error = record.ErrorKind(i)
		}
	}
	q.Streamed, q.AskedStream = true, true
	q.Scheduled = row.T.NS()
	q.Start = q.Scheduled + row.SendLag.NS()
	q.Connected, q.Sent, q.Headers = q.Start, q.Start, q.Start
	after := func(to *int64, ms *Ms) {
		if ms != nil {
			*to = q.Start + ms.NS()
		}
	}
	after(&q.FirstToken, row.TTFT)
	after(&q.FirstEvent, row.TTFT)
	after(&q.FirstContent, row.TTFC)
	after(&q.LastToken, row.TTLT)
	after(&q.End, row.E2E)
	if row.End != nil {
		q.End = row.End.NS()
	}
	if row.Retrieval != nil {
		q.RetrievalStart, q.RetrievalEnd = q.Scheduled-row.Retrieval.NS(), q.Scheduled
	}
	if row.HTTPStatus != nil {
		q.HTTPStatus = uint16(*row.HTTPStatus)
	}
	tokens := func(to *int32, n *int) {
		if n != nil {
			*to = int32(*n)
		}
	}
	tokens(&q.Prompt, row.PromptTokens)
	tokens(&q.Cached, row.CachedTokens)
	tokens(&q.Output, row.OutputTokens)
	if row.TPOT != nil {
		// Twenty tokens after the first make the figure.
		q.FirstEventTokens, q.StreamedTokens = 1, 21
		for _, at := range []int64{q.FirstToken, q.LastToken} {
			q.Events = append(q.Events, record.Event{At: at, Cumulative: record.Unknown, Tokens: record.Unknown, Channel: record.Content, TextBytes: 3})
		}
	}
	return q
}

func TestFilterIsThatOfThePanel(t *testing.T) {
	data, err := os.ReadFile("../../web/testdata/filter.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases filterCases
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases.Rows) == 0 || len(cases.Cases) < 50 {
		t.Fatalf("%d rows and %d cases", len(cases.Rows), len(cases.Cases))
	}
	var list []*record.Request
	for i := range cases.Rows {
		list = append(list, requestOf(t, &cases.Rows[i]))
	}
	s := storeOf(stats.Input{ID: "filter", Started: time.Unix(0, 0).UTC()}, list)
	for _, c := range cases.Cases {
		t.Run(c.Filter, func(t *testing.T) {
			rows, err := s.Requests(Query{Filter: c.Filter, Limit: 100})
			if c.Error != nil {
				bad, ok := errors.AsType[*FilterError](err)
				if !ok || bad.At != c.Error.At || bad.Length != c.Error.Length || bad.Text == "" {
					t.Fatalf("got %v, want an error at %d of length %d", err, c.Error.At, c.Error.Length)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []int64
			for i := range rows.Rows {
				got = append(got, rows.Rows[i].N)
			}
			if slices.Sort(got); !slices.Equal(got, c.Matches) {
				t.Errorf("takes %v, want %v", got, c.Matches)
			}
		})
	}
}
