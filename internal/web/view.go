package web

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"plimsoll/internal/conduct"
	"plimsoll/internal/detail"
	"plimsoll/internal/report"
	"plimsoll/internal/run"
	"plimsoll/internal/stats"
)

// storeCache keeps the runs that were looked at last open.
type storeCache struct {
	mu   sync.Mutex
	list []*opened // the one used last is the last
	most int64     // bytes that they hold, 0 for maxStored
}

// seen tells versions of an opened run apart.
type seen struct {
	small stamp
	// requests and timeline are when they were changed: a run of another process goes on.
	requests, timeline int64
}

func (s *Server) seen(id string) (v seen, is bool) {
	v.small, is = s.stamp(id)
	if fi, err := s.root.Lstat(id + "/requests"); err == nil {
		v.requests = fi.ModTime().UnixNano()
	}
	if fi, err := s.root.Lstat(id + "/timeline.parquet"); err == nil {
		v.timeline = fi.ModTime().UnixNano()
	}
	return v, is
}

// opened is a run on disk that is looked at.
type opened struct {
	id   string
	seen seen

	// Guarded by the cache: the bytes that it holds, 0 until it is open, who uses it, and
	// whether it is to be closed when nobody does.
	size  int64
	users int
	gone  bool

	// made is how much of its details is made, in thousandths and one more; 0 while
	// nothing is made.
	made atomic.Int64

	once  sync.Once // guards what follows
	saved *run.Run
	store *detail.Store
	// summary is that on disk, or one made of the records; nil when that cannot be.
	summary *stats.Summary
	err     error
}

// The runs that are kept open: at most so many, and of so many bytes in all, apart from
// the one that is looked at.
const (
	maxStores = 8
	maxStored = 512 << 20
)

// openTime bounds how long an answer may take that has to open a run first: its
// details are made of the records when there are none yet.
const openTime = 3 * time.Minute

// open returns a run on disk, opened anew when its files have changed. It is to be
// released after use.
func (s *Server) open(w http.ResponseWriter, id string) (*opened, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	now, is := s.seen(id)
	if !is {
		return nil, noRun(id)
	}
	o := s.stores.use(id, now)
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(openTime)) // fails in tests
	o.once.Do(func() { o.err = s.fill(o) })
	if o.err != nil {
		s.stores.drop(o)
		s.stores.release(o)
		return nil, o.err
	}
	s.stores.settle(o)
	return o, nil
}

// fill reads what an opened run needs.
func (s *Server) fill(o *opened) error {
	var err error
	if o.saved, err = s.openRun(o.id); err != nil {
		return err
	}
	if o.summary, err = o.saved.Summary(); err != nil {
		o.summary, _, _ = conduct.Remake(o.saved) // nil: a run without figures
	}
	defer o.made.Store(0)
	o.store, err = detail.Open(o.saved, conduct.Timeline(o.saved), detail.Progress(func(share float64) { o.made.Store(1 + int64(share*1000)) }))
	return cmp.Or(s.gone(o.id), err)
}

// opening says how far a run is that is being opened.
type opening struct {
	Share *float64 `json:"share"`
}

// getOpening answers at once, while the run is opened for others.
func (s *Server) getOpening(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if err := checkID(id); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, opening{s.stores.making(id)})
}

// making returns how much of the details of a run is made, 0 to 1, nil while nothing is.
func (c *storeCache) making(id string) *float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.list, func(x *opened) bool { return x.id == id })
	if i < 0 {
		return nil
	}
	n := c.list[i].made.Load()
	if n == 0 {
		return nil
	}
	share := float64(n-1) / 1000
	return &share
}

// use returns the entry of a run, a new one when there is none of that version.
func (c *storeCache) use(id string, now seen) *opened {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := &opened{id: id, seen: now}
	if i := slices.IndexFunc(c.list, func(x *opened) bool { return x.id == id }); i >= 0 {
		if c.list[i].seen == now {
			o = c.list[i]
		} else {
			c.close(c.list[i])
		}
		c.list = slices.Delete(c.list, i, i+1)
	}
	o.users++
	c.list = append(c.list, o)
	return o
}

// release ends the use of an entry.
func (c *storeCache) release(o *opened) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o.users--; o.gone {
		c.close(o)
	}
}

// close gives up the files of an entry that is in the list no more, when nobody uses
// it any longer. The lock is held.
func (c *storeCache) close(o *opened) {
	if o.gone = true; o.users == 0 && o.store != nil {
		_ = o.store.Close() // it was only read
	}
}

// closeAll closes what nobody uses.
func (c *storeCache) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.list {
		c.close(o)
	}
	c.list = nil
}

// settle counts what an opened run holds and closes those that were looked at
// longest ago.
func (c *storeCache) settle(o *opened) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.size = o.store.Size()
	most := cmp.Or(c.most, maxStored)
	n, kept := int64(0), 0
	for kept < len(c.list) {
		n += c.list[len(c.list)-1-kept].size
		if kept > 0 && (kept == maxStores || n > most) {
			break
		}
		kept++
	}
	for _, old := range c.list[:len(c.list)-kept] {
		c.close(old)
	}
	c.list = slices.Delete(c.list, 0, len(c.list)-kept)
}

// drop takes an entry out of the cache.
func (c *storeCache) drop(o *opened) { c.remove(func(x *opened) bool { return x == o }) }

// forget takes a run out of the cache.
func (c *storeCache) forget(id string) { c.remove(func(x *opened) bool { return x.id == id }) }

func (c *storeCache) remove(which func(*opened) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = slices.DeleteFunc(c.list, func(o *opened) bool {
		if !which(o) {
			return false
		}
		c.close(o)
		return true
	})
}

// store calls do with what is known of a run: of one under way here as far as it has
// come.
func (s *Server) store(w http.ResponseWriter, id string, do func(*detail.Store) error) error {
	if watch := s.watchOf(id); watch != nil {
		return do(watch.Store())
	}
	o, err := s.open(w, id)
	if err != nil {
		return err
	}
	defer s.stores.release(o)
	return do(o.store)
}

func (s *Server) getRun(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if watch := s.watchOf(id); watch != nil {
		doc := watch.Doc()
		if row := s.row(id); row != nil {
			doc.Run = *row // with what was noted
		}
		return writeJSON(w, http.StatusOK, &doc)
	}
	o, err := s.open(w, id)
	if err != nil {
		return err
	}
	defer s.stores.release(o)
	doc, err := report.Document(o.saved, o.store)
	if err != nil {
		return err
	}
	if doc.Summary == nil {
		doc.Summary = o.summary
	}
	doc.Run.State = s.state(id, doc.Run.State)
	if err := s.gone(id); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, &doc)
}

// getReport answers the page of a run that works offline. In it scripts are part of the
// page, so it gets an origin of its own that can reach nothing here.
func (s *Server) getReport(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if s.watchOf(id) != nil {
		return &Problem{Status: http.StatusConflict, Text: "the run is still under way", Fix: "wait for its end"}
	}
	o, err := s.open(w, id)
	if err != nil {
		return err
	}
	defer s.stores.release(o)
	var page bytes.Buffer
	if err := cmp.Or(report.HTML(&page, o.saved, o.store, s.front), s.gone(id)); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "sandbox allow-scripts allow-downloads; frame-ancestors 'none'")
	h.Set("Content-Disposition", `inline; filename="`+id+`.html"`)
	send(w, http.StatusOK, page.Bytes())
	return nil
}

// seriesList are the series of a run, and why lanes have none.
type seriesList struct {
	Series  []detail.Series  `json:"series"`
	Missing []detail.Missing `json:"missing"`
}

func (s *Server) getSeries(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	var out seriesList
	if watch := s.watchOf(id); watch != nil {
		out.Series, out.Missing = watch.Store().Series(), watch.Doc().Missing
	} else {
		o, err := s.open(w, id)
		if err != nil {
			return err
		}
		defer s.stores.release(o)
		info := o.saved.Info()
		out.Series, out.Missing = o.store.Series(), report.MissingLanes(o.store.Series(), &info)
	}
	if out.Series == nil {
		out.Series = []detail.Series{}
	}
	return writeJSON(w, http.StatusOK, &out)
}

// asked are the parameters of a question about a run.
type asked struct {
	url.Values
	err error // the first
}

func ask(r *http.Request) *asked { return &asked{Values: r.URL.Query()} }

// ms returns a time in ms as ns, other when it is not given.
func (a *asked) ms(name string, other int64) int64 {
	v := a.float(name, math.NaN())
	if math.IsNaN(v) {
		return other
	}
	return detail.Ms(v).NS()
}

// float returns a number, other when it is not given.
func (a *asked) float(name string, other float64) float64 {
	text := a.Get(name)
	if text == "" {
		return other
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.Abs(v) > 1e12 {
		a.fail(wrong(name, "%q: want a number of at most 1e12", text))
		return other
	}
	return v
}

// number returns a whole number between low and high, other when it is not given.
func (a *asked) number(name string, other, low, high int) int {
	text := a.Get(name)
	if text == "" {
		return other
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		a.fail(wrong(name, "%q: want a whole number from %d to %d", text, low, high))
		return other
	}
	return n
}

func (a *asked) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

// The bounds of what may be asked for at once.
const (
	maxPointsAsked = 4000
	maxSeriesAsked = 400
	maxRowsAsked   = 1000
	maxPixels      = 8000
)

// span returns the range that is asked for; without one it has no length, which is
// the whole run.
func (a *asked) span() (from, to int64) {
	from, to = a.ms("from", 0), a.ms("to", 0)
	if to < from {
		a.fail(wrong("to", "%g is before from", detail.ToMs(to)))
	}
	return from, to
}

func (s *Server) getData(w http.ResponseWriter, r *http.Request) error {
	q := ask(r)
	from, to := q.span()
	points := q.number("points", 600, 1, maxPointsAsked)
	var ids []int
	if list := q.Get("series"); list != "" {
		for text := range strings.SplitSeq(list, ",") {
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 || len(ids) == maxSeriesAsked {
				return wrong("series", "%q: want at most %d numbers of series, with commas", list, maxSeriesAsked)
			}
			ids = append(ids, n)
		}
	}
	return s.answer(w, r, q, func(st *detail.Store) (any, error) { return st.Data(ids, from, to, points), nil })
}

// answer asks a store, when the question is right, and writes what it says.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, q *asked, of func(*detail.Store) (any, error)) error {
	if q.err != nil {
		return q.err
	}
	return s.store(w, r.PathValue("id"), func(st *detail.Store) error {
		v, err := of(st)
		if err != nil {
			return queryProblem(err)
		}
		return writeJSON(w, http.StatusOK, v)
	})
}

// queryProblem is what is wrong with a question.
func queryProblem(err error) error {
	if e, ok := errors.AsType[*detail.FilterError](err); ok {
		return &Problem{Status: http.StatusBadRequest, Field: "filter", Text: e.Text, Fix: e.Fix, Errors: []ScenarioError{{Line: 1, Column: e.At + 1, Field: "filter", Text: e.Text, Fix: e.Fix}}}
	}
	if e, ok := errors.AsType[*detail.QueryError](err); ok {
		return &Problem{Status: http.StatusBadRequest, Field: e.Field, Text: e.Text, Fix: e.Fix}
	}
	if errors.Is(err, detail.ErrNoRequest) {
		return &Problem{Status: http.StatusNotFound, Field: "n", Text: err.Error(), Fix: "a number of /requests; what cannot be read of the run is among its marks"}
	}
	return err
}

func (s *Server) getBands(w http.ResponseWriter, r *http.Request) error {
	q := ask(r)
	from, to := q.span()
	points := q.number("points", 600, 1, maxPointsAsked)
	figures := detail.BandFigures()
	if list := q.Get("figure"); list != "" {
		figures = nil
		for name := range strings.SplitSeq(list, ",") {
			if !slices.Contains(detail.BandFigures(), name) {
				p := wrong("figure", "there is no figure %q", name)
				p.Fix = "some of " + strings.Join(detail.BandFigures(), ", ")
				return p
			}
			figures = append(figures, name)
		}
	}
	return s.answer(w, r, q, func(st *detail.Store) (any, error) {
		return st.Bands(figures, q.Get("workload"), from, to, points), nil
	})
}

func (s *Server) getHeat(w http.ResponseWriter, r *http.Request) error {
	q := ask(r)
	from, to := q.span()
	columns := q.number("columns", 300, 1, maxPointsAsked)
	figure := q.Get("figure")
	if figure == "" {
		figure = "ttft"
	}
	if !slices.Contains(detail.BandFigures(), figure) {
		p := wrong("figure", "there is no figure %q", figure)
		p.Fix = "one of " + strings.Join(detail.BandFigures(), ", ")
		return p
	}
	return s.answer(w, r, q, func(st *detail.Store) (any, error) { return st.Heat(figure, q.Get("workload"), from, to, columns), nil })
}

func (s *Server) getEnvelope(w http.ResponseWriter, r *http.Request) error {
	q := ask(r)
	from, to := q.span()
	points := q.number("points", 600, 1, maxPointsAsked)
	signal, stat := q.Get("signal"), q.Get("stat")
	if signal == "" {
		return wrong("signal", "want the name of a signal")
	}
	if stat == "" {
		stat = "value"
	}
	return s.answer(w, r, q, func(st *detail.Store) (any, error) { return st.Envelope(signal, stat, from, to, points), nil })
}

func (s *Server) getFigures(w http.ResponseWriter, r *http.Request) error {
	q := ask(r)
	from, to := q.span()
	return s.answer(w, r, q, func(st *detail.Store) (any, error) { return st.Figures(from, to), nil })
}

// query is the part of a question that chooses requests.
func (a *asked) query() detail.Query {
	from, to := a.span()
	return detail.Query{
		From: from, To: to, Filter: a.Get("filter"), Sort: a.Get("sort"), Color: a.Get("color"),
		Limit: a.number("limit", 200, 1, maxRowsAsked), Offset: a.number("offset", 0, 0, math.MaxInt32),
	}
}

func (s *Server) getRequests(w http.ResponseWriter, r *http.Request) error {
	q := ask(r)
	query := q.query()
	return s.answer(w, r, q, func(st *detail.Store) (any, error) { return st.Requests(query) })
}

func (s *Server) getRequest(w http.ResponseWriter, r *http.Request) error {
	q := ask(r)
	n, err := strconv.ParseInt(r.PathValue("n"), 10, 64)
	if err != nil || n < 0 {
		return &Problem{Status: http.StatusNotFound, Field: "n", Text: "want the number of a request"}
	}
	return s.answer(w, r, q, func(st *detail.Store) (any, error) {
		one, err := st.Request(int(n))
		if one.Lost != nil {
			err = s.gone(r.PathValue("id"))
		}
		return one, err
	})
}

func (s *Server) getScatter(w http.ResponseWriter, r *http.Request) error {
	q := ask(r)
	query := q.query()
	width, height := q.number("width", 1000, 1, maxPixels), q.number("height", 300, 1, maxPixels)
	y := q.Get("y")
	if y == "" {
		y = "ttft"
	}
	return s.answer(w, r, q, func(st *detail.Store) (any, error) { return st.Scatter(query, y, width, height) })
}

func (s *Server) getCommon(w http.ResponseWriter, r *http.Request) error {
	q := ask(r)
	query := q.query()
	box := detail.Box{
		Y: q.Get("y"), XMin: q.ms("xmin", 0), XMax: q.ms("xmax", 0), YMin: q.float("ymin", math.NaN()), YMax: q.float("ymax", math.NaN()),
	}
	return s.answer(w, r, q, func(st *detail.Store) (any, error) { return st.Common(query, box) })
}
