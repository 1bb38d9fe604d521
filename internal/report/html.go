package report

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"regexp"
	"slices"

	"plimsoll/internal/detail"
	"plimsoll/internal/plainjson"
	"plimsoll/internal/record"
	"plimsoll/internal/run"
	"plimsoll/internal/signal"
)

// MostHTML is the size in bytes that a page is kept below.
const MostHTML = 3_000_000

const (
	// mostHTMLRequests is the number of requests that a page has at most.
	mostHTMLRequests = 10_000
	// mostDevices is the number of devices up to which each has a line of its own;
	// more are an envelope.
	mostDevices = 8
	// mostMembers bounds the devices that a page names.
	mostMembers = 1000
	// mostSeries bounds the courses of a page.
	mostSeries = 400
	// stretches is the number of equal parts of time in which extremes are kept.
	stretches = 200
	// onesBytes bounds what single requests with their events take of a page.
	onesBytes = 300_000
)

// Front is the built front end of the report: one script and one style sheet.
type Front struct{ Script, Style []byte }

// bundle is the document that a page holds.
type bundle struct {
	Bundle   int                            `json:"bundle"`
	Doc      detail.RunDoc                  `json:"doc"`
	Series   []detail.Series                `json:"series"`
	Missing  []detail.Missing               `json:"missing"`
	Data     detail.Grid                    `json:"data"`
	Bands    map[string]detail.BandsGrid    `json:"bands"`
	Heat     map[string]detail.HeatGrid     `json:"heat"`
	Envelope map[string]detail.EnvelopeGrid `json:"envelope"`
	Figures  detail.Figures                 `json:"figures"`
	Requests map[string]any                 `json:"requests"`
	// Sampled says how the requests were chosen, nil when all are there.
	Sampled *string               `json:"sampled"`
	Ones    map[string]detail.One `json:"ones"`
}

// HTML writes a run as one page that needs nothing else: the panel, and in it what the
// panel would ask a server for, with at most 600 points a course (of each the mean, the
// minimum and the maximum) and at most 10,000 requests, of which the extremes are kept.
// Names, answers and whatever else servers and users said are data inside it and never
// markup.
func HTML(w io.Writer, r *run.Run, s *detail.Store, p Front) error {
	if len(p.Script) == 0 || len(p.Style) == 0 {
		return errors.New("write report: this binary was built without the front end: build it with make")
	}
	doc, err := Document(r, s)
	if err != nil {
		return err
	}
	// Coarser until it fits; the last is for runs of very many signals and steps.
	var page []byte
	for _, size := range []sizes{{600, mostHTMLRequests, mostSeries}, {300, mostHTMLRequests, mostSeries}, {200, 5000, 200}, {100, 2000, 100}} {
		b, err := bundleOf(s, &doc, size)
		if err != nil {
			return err
		}
		text, err := json.Marshal(b)
		if err != nil {
			return fmt.Errorf("write report: %w", err)
		}
		text = plainjson.Escape(text)
		if page, err = pageOf(&doc, p, text, false); err != nil {
			return err
		}
		if len(page) > MostHTML {
			if page, err = pageOf(&doc, p, text, true); err != nil {
				return err
			}
		}
		if len(page) <= MostHTML {
			break
		}
	}
	_, err = w.Write(page)
	return err
}

var (
	endOfScript = regexp.MustCompile(`(?i)</(script)`)
	endOfStyle  = regexp.MustCompile(`(?i)</style`)
)

// pageOf puts a page together. The document is as it is or packed: gzip, in base64.
func pageOf(doc *detail.RunDoc, p Front, text []byte, packed bool) ([]byte, error) {
	if endOfStyle.Match(p.Style) {
		return nil, errors.New("write report: the style sheet of this binary cannot be put into a page")
	}
	// Inside strings, where alone they can be, these mean the same.
	script := endOfScript.ReplaceAll(bytes.ReplaceAll(p.Script, []byte("\r"), nil), []byte(`<\/$1`))
	script = bytes.ReplaceAll(script, []byte("<!--"), []byte(`<\!--`))
	style := bytes.ReplaceAll(p.Style, []byte("\r"), nil)
	hash := func(b []byte) string {
		sum := sha256.Sum256(b)
		return base64.StdEncoding.EncodeToString(sum[:])
	}
	name := cmp.Or(doc.Run.Name, doc.Run.ID)
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"+
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; img-src data:; base-uri 'none'; form-action 'none'\">\n"+
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>%s</title>\n<style>", hash(script), hash(style), html.EscapeString(Printable(name))+" · Plimsoll")
	b.Write(style)
	b.WriteString("</style>\n</head>\n<body>\n<div id=\"app\"></div>\n")
	if packed {
		b.WriteString(`<script type="text/plain" id="data-gz">`)
		text64 := base64.NewEncoder(base64.StdEncoding, &b)
		zip, err := gzip.NewWriterLevel(text64, gzip.BestCompression)
		if err == nil {
			_, err = zip.Write(text)
		}
		if err = errors.Join(err, zip.Close(), text64.Close()); err != nil {
			return nil, fmt.Errorf("write report: %w", err)
		}
	} else {
		// json.Marshal writes <, > and & of strings as \u003c, \u003e and \u0026, so that
		// nothing in it can end the element or begin a comment.
		b.WriteString(`<script type="application/json" id="data">`)
		b.Write(text)
	}
	b.WriteString("</script>\n<script>")
	b.Write(script)
	b.WriteString("</script>\n</body>\n</html>\n")
	return b.Bytes(), nil
}

// sizes say how much of a run a page holds.
type sizes struct{ points, requests, series int }

// bundleOf makes the document of a page.
func bundleOf(s *detail.Store, doc *detail.RunDoc, size sizes) (*bundle, error) {
	b := &bundle{
		Bundle: 1, Doc: *doc, Missing: doc.Missing, Bands: map[string]detail.BandsGrid{}, Heat: map[string]detail.HeatGrid{},
		Envelope: map[string]detail.EnvelopeGrid{}, Ones: map[string]detail.One{},
	}
	drawn, envelopes, ids := seriesOf(s.Series(), size.series)
	b.Series = drawn
	b.Data = s.Data(ids, 0, 0, size.points)
	for _, e := range envelopes {
		b.Envelope[e.Signal+"/"+e.Stat] = s.Envelope(e.Signal, e.Stat, 0, 0, min(size.points, 300))
	}
	bands := []string{"ttft", "tpot", "itl", "e2e"}
	b.Bands[""] = s.Bands(bands, "", 0, 0, size.points)
	if n := len(doc.Workloads); n > 1 && n <= mostDevices {
		for _, w := range doc.Workloads {
			b.Bands[w] = s.Bands(bands, w, 0, 0, size.points/3)
		}
	}
	for _, f := range bands {
		b.Heat[f] = s.Heat(f, "", 0, 0, size.points/2)
	}
	from, to := int64(0), int64(0)
	for _, p := range doc.Phases {
		if p.Name == "steady" && p.To != nil {
			if to == 0 {
				from = p.From.NS()
			}
			to = p.To.NS()
		}
	}
	b.Figures = s.Figures(from, to)
	rows, weights, method, err := sampleOf(s, size.requests)
	if err != nil {
		return nil, err
	}
	b.Sampled = method
	b.Requests = columnsOf(rows)
	if weights != nil {
		b.Requests["weight"] = weights
	}
	return b, onesOf(b, s, rows)
}

// late are the client's own lags, of which the worst is drawn.
var late = []string{signal.ClientSendLag.String(), signal.ClientReadLag.String(), signal.ClientCanaryLag.String()}

// stacked are the signals of which the lanes of load show each workload's part.
var stacked = []string{signal.ClientUsers.String(), signal.ClientInFlight.String(), signal.ClientSent.String()}

// seriesOf chooses the series of a page: those of all sources together, and of single
// devices where there are few; signals of many devices become envelopes. IDs are of
// those whose courses are drawn.
func seriesOf(all []detail.Series, most int) (drawn, envelopes []detail.Series, ids []int) {
	devices := map[[2]string][]detail.Series{}
	keep := func(d detail.Series) {
		if len(ids) < most {
			drawn, ids = append(drawn, d), append(ids, d.ID)
		}
	}
	var order [][2]string
	for _, d := range all {
		id, known := signal.Lookup(d.Signal)
		distribution := known && id.Def().Kind == signal.Distribution
		switch {
		case d.Labels != "" && known && id.Def().Group == signal.Accelerator && d.Stat == "value":
			k := [2]string{d.Signal, d.Stat}
			if devices[k] == nil {
				order = append(order, k)
			}
			devices[k] = append(devices[k], d)
		case d.Source != "" || d.Labels != "":
		case d.Workload != "":
			if slices.Contains(stacked, d.Signal) && (d.Stat == "value" || d.Stat == "rate") {
				keep(d)
			}
		case slices.Contains(late, d.Signal):
			if d.Stat == "p99" || d.Stat == "max" || d.Stat == "mean" {
				keep(d)
			}
		case distribution && known && id.Def().Group == signal.Client:
			// The bands have them.
		case d.Stat == "value" || d.Stat == "mean" || d.Stat == "rate" && !distribution:
			keep(d)
		}
	}
	named := 0
	for _, k := range order {
		of := devices[k]
		if len(of) <= mostDevices {
			for _, d := range of {
				keep(d)
			}
			continue
		}
		envelopes = append(envelopes, of[0])
		// They are named so that it is seen how many there are.
		n := min(len(of), max(mostMembers-named, mostDevices+1))
		named += n
		drawn = append(drawn, of[:n]...)
	}
	return drawn, envelopes, ids
}

// sampleOf returns at most n requests in the order of their schedule, for how many of all
// each of them stands, and how they were chosen; both nil when they are all. With the
// weights, what the panel works out of a part of the time is not of the extremes, of
// which all are here, more than of the others.
func sampleOf(s *detail.Store, n int) ([]detail.RequestRow, []float64, *string, error) {
	total := s.Len()
	if total <= n {
		rows, err := s.Requests(detail.Query{Limit: max(total, 1)})
		return rows.Rows, nil, nil, err
	}
	chosen, sure := map[int64]detail.RequestRow{}, map[int64]bool{}
	take := func(q detail.Query) error {
		rows, err := s.Requests(q)
		for _, r := range rows.Rows {
			chosen[r.N], sure[r.N] = r, true
		}
		return err
	}
	failed, err := s.Requests(detail.Query{Filter: "-status:ok", Limit: 1})
	if err != nil {
		return nil, nil, nil, err
	}
	every := (failed.Matched + n/5 - 1) / (n / 5)
	var list []detail.RequestRow
	if every == 1 {
		err = take(detail.Query{Filter: "-status:ok", Limit: n / 5})
	} else if every > 1 {
		if list, err = s.Every("-status:ok", every); err == nil {
			for _, r := range list {
				chosen[r.N] = r
			}
		}
	}
	if err != nil {
		return nil, nil, nil, err
	}
	_, to := s.Span()
	for i := range int64(stretches) {
		from, until := to/stretches*i, to/stretches*(i+1)
		for _, f := range []string{"ttft", "tpot", "e2e"} {
			for _, down := range []string{"", "-"} {
				if err := take(detail.Query{From: from, To: max(until, 1), Sort: down + f, Limit: 1}); err != nil {
					return nil, nil, nil, err
				}
			}
		}
	}
	step := (total + n - len(chosen) - 1) / (n - len(chosen))
	if list, err = s.Every("", step); err != nil {
		return nil, nil, nil, err
	}
	for _, r := range list {
		chosen[r.N] = r
	}
	out := make([]detail.RequestRow, 0, len(chosen))
	for _, r := range chosen {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b detail.RequestRow) int { return cmp.Or(cmp.Compare(a.T, b.T), cmp.Compare(a.N, b.N)) })
	// A weight is one over how likely the request was to be chosen.
	weights := make([]float64, len(out))
	for i := range out {
		switch r := &out[i]; {
		case sure[r.N]:
			weights[i] = 1
		case r.Status == record.OK.String() || every == 0:
			weights[i] = float64(step)
		default:
			weights[i] = math.Round(1000/(1-(1-1/float64(every))*(1-1/float64(step)))) / 1000
		}
	}
	word := "every one that failed"
	if every > 1 {
		word = fmt.Sprintf("one in %d of those that failed", every)
	}
	method := fmt.Sprintf("%s of %s: %s, the least and the most of ttft, tpot and e2e in each of %d stretches of time, and one in %d of all",
		Count(len(out)), Count(total), word, stretches, step)
	return out, weights, &method, nil
}

// columnsOf turns rows into columns; a column that says the same as an absent one is
// left out.
func columnsOf(rows []detail.RequestRow) map[string]any {
	out := map[string]any{}
	texts := func(name string, of func(*detail.RequestRow) string) {
		list, any := make([]string, len(rows)), false
		for i := range rows {
			list[i] = of(&rows[i])
			any = any || list[i] != ""
		}
		if any {
			out[name] = list
		}
	}
	numbers := func(name string, of func(*detail.RequestRow) int64) {
		list, any := make([]int64, len(rows)), name == "n"
		for i := range rows {
			list[i] = of(&rows[i])
			any = any || list[i] != 0
		}
		if any {
			out[name] = list
		}
	}
	times := func(name string, of func(*detail.RequestRow) *detail.Ms) {
		list, any := make([]*detail.Ms, len(rows)), false
		for i := range rows {
			list[i] = of(&rows[i])
			any = any || list[i] != nil
		}
		if any {
			out[name] = list
		}
	}
	counts := func(name string, of func(*detail.RequestRow) *int) {
		list, any := make([]*int, len(rows)), false
		for i := range rows {
			list[i] = of(&rows[i])
			any = any || list[i] != nil
		}
		if any {
			out[name] = list
		}
	}
	type row = detail.RequestRow
	numbers("n", func(r *row) int64 { return r.N })
	times("t", func(r *row) *detail.Ms { return &r.T })
	times("end", func(r *row) *detail.Ms { return r.End })
	texts("workload", func(r *row) string { return r.Workload })
	numbers("session", func(r *row) int64 { return int64(r.Session) })
	numbers("turn", func(r *row) int64 { return int64(r.Turn) })
	numbers("user", func(r *row) int64 { return int64(r.User) })
	numbers("step", func(r *row) int64 { return int64(r.Step) })
	texts("phase", func(r *row) string { return r.Phase })
	numbers("target", func(r *row) int64 { return int64(r.Target) })
	texts("status", func(r *row) string { return r.Status })
	texts("error_kind", func(r *row) string { return r.ErrorKind })
	counts("http_status", func(r *row) *int { return r.HTTPStatus })
	texts("finish", func(r *row) string { return r.Finish })
	times("ttft_ms", func(r *row) *detail.Ms { return r.TTFT })
	times("ttfc_ms", func(r *row) *detail.Ms { return r.TTFC })
	times("tpot_ms", func(r *row) *detail.Ms { return r.TPOT })
	times("e2e_ms", func(r *row) *detail.Ms { return r.E2E })
	times("ttlt_ms", func(r *row) *detail.Ms { return r.TTLT })
	times("retrieval_ms", func(r *row) *detail.Ms { return r.Retrieval })
	times("send_lag_ms", func(r *row) *detail.Ms { return r.SendLag })
	counts("prompt_tokens", func(r *row) *int { return r.PromptTokens })
	counts("cached_tokens", func(r *row) *int { return r.CachedTokens })
	counts("output_tokens", func(r *row) *int { return r.OutputTokens })
	return out
}

// onesOf adds single requests with their events: the slowest, some that failed, and
// some of all, as many as there is room for. Answers are left out.
func onesOf(b *bundle, s *detail.Store, rows []detail.RequestRow) error {
	var wanted []int64
	for _, q := range []detail.Query{{Sort: "-ttft", Limit: 12}, {Sort: "-e2e", Limit: 12}, {Sort: "-tpot", Limit: 12}, {Filter: "-status:ok", Limit: 12}} {
		found, err := s.Requests(q)
		if err != nil {
			return err
		}
		for _, r := range found.Rows {
			wanted = append(wanted, r.N)
		}
	}
	for i := range 24 {
		if len(rows) > 0 {
			wanted = append(wanted, rows[i*len(rows)/24].N)
		}
	}
	left := onesBytes
	for _, n := range wanted {
		key := fmt.Sprint(n)
		if _, ok := b.Ones[key]; ok {
			continue
		}
		one, err := s.Request(int(n))
		if err != nil {
			continue // its record cannot be read: the page has its row
		}
		one.Text = nil
		size, err := json.Marshal(&one)
		if err != nil {
			return fmt.Errorf("write report: %w", err)
		}
		if len(size) > left {
			continue
		}
		left -= len(size)
		b.Ones[key] = one
	}
	return nil
}
