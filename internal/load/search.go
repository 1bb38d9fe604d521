package load

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"plimsoll/internal/message"
	"plimsoll/internal/record"
	"plimsoll/internal/stream"
	"plimsoll/internal/workload"
)

// searchTimeout is how long a search at a URL may take. The request of a search
// that fails is not sent, and is a failure of the kind that the search had.
const searchTimeout = 30 * time.Second

// search is a retrieval that was carried out.
type search struct {
	// start is Unset when there was none, end when it was given up.
	start, end int64
	kind       record.ErrorKind
	message    string
}

// retrieve carries out the retrieval of a, which is due when it has ended then. It
// returns false when the run or the step came to its end first.
func (s *step) retrieve(a *workload.Action) (search, bool) {
	clock := s.run.cfg.Clock
	f := search{start: a.At, end: record.Unset}
	if clock.SleepUntil(s.more, a.At) != nil {
		return f, false
	}
	if a.Retrieval.URL == "" {
		end := a.At + max(0, a.Retrieval.Duration)
		if a.CancelAt > 0 && a.CancelAt < end {
			a.At = max(a.At, a.CancelAt)
			return f, clock.SleepUntil(s.more, a.At) == nil
		}
		f.end, a.At = end, end
		return f, clock.SleepUntil(s.more, end) == nil
	}
	f.start = clock.Now()
	ctx := s.more
	if a.CancelAt > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(max(1, a.CancelAt-f.start)))
		defer cancel()
	}
	s.run.search.do(ctx, a.Retrieval, &f)
	if s.more.Err() != nil {
		return f, false
	}
	a.At = clock.Now()
	if f.end == record.Unset {
		a.At = a.CancelAt
	}
	return f, true
}

// note puts a retrieval into the record of its request, and returns false when the
// request is a failure with it.
func (f *search) note(w *worker) bool {
	r := &w.rec
	r.RetrievalStart, r.RetrievalEnd = f.start, f.end
	if f.kind != record.NoError {
		w.fail(f.kind, f.message)
		return false
	}
	return true
}

// searcher sends queries to an endpoint of embeddings or search.
type searcher struct {
	client   *stream.Client
	renderer message.Renderer
	clock    Clock
}

func newSearcher(c *stream.Client, r message.Renderer, clock Clock) *searcher {
	return &searcher{client: c, renderer: r, clock: clock}
}

// do sends the query of a retrieval and reads the answer, of which nothing is used.
// When ctx ends first f has no end.
func (c *searcher) do(ctx context.Context, q *workload.Retrieval, f *search) {
	text := q.Query.Text
	if text == "" {
		text = string(c.renderer.AppendText(nil, &q.Query))
	}
	var body any = map[string]any{"query": text, "top_k": q.Passages}
	if strings.HasSuffix(strings.TrimRight(strings.SplitN(q.URL, "?", 2)[0], "/"), "/embeddings") {
		body = map[string]any{"model": q.Model, "input": text}
	}
	b, err := json.Marshal(body)
	if err != nil {
		panic("BUG: a query cannot be encoded: " + err.Error())
	}
	// The key of the model's endpoint is none of the search's business.
	req := stream.Request{
		Method: http.MethodPost, URL: q.URL, Body: b, TotalTimeout: searchTimeout,
		Header: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}, "Accept-Encoding": {"identity"}, "User-Agent": {"plimsoll"}},
	}
	var ex stream.Exchange
	defer ex.Close()
	c.client.Do(ctx, &ex, &req)
	var answer []byte
	if ex.Failure == stream.NoFailure {
		if ex.Framing == stream.FrameBody {
			answer = ex.Body()
		} else {
			for ex.Next() { // until its end
			}
		}
	}
	switch {
	case ex.Failure == stream.FailCancelled:
		return
	case ex.Failure != stream.NoFailure:
		f.kind, f.message = failureKinds[ex.Failure], "retrieval: "+ex.Err
	case ex.Status < 200 || ex.Status > 299:
		f.kind, f.message = record.HTTPStatusError, fmt.Sprintf("retrieval: HTTP %d: %s", ex.Status, quote(answer))
	}
	f.end = c.clock.Now()
}
