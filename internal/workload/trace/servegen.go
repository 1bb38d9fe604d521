package trace

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"plimsoll/internal/infile"
	"plimsoll/internal/random"
)

// A ServeGen client is a model, not a log: for each window of time the rate and
// the distribution of the gaps, in another file distributions of the lengths.
// Reading one makes requests from a seed.

// chunkName is how a client's file is called; its number and its folder name the
// client.
var chunkName = regexp.MustCompile(`chunk-([0-9]+)-trace\.csv$`)

// lengthsName is how the file beside it is called.
var lengthsName = regexp.MustCompile(`chunk-([0-9]+)-dataset\.json$`)

func detectServeGen(s *sniff) string {
	if s.json || len(s.columns) != 6 || !chunkName.MatchString(s.path) {
		return ""
	}
	for _, i := range []int{0, 1, 2, 4, 5} {
		if _, err := strconv.ParseFloat(s.columns[i], 64); err != nil {
			return ""
		}
	}
	return "its name is chunk-N-trace.csv and it has 6 columns without a header"
}

// genWindow is one window of a client.
type genWindow struct {
	start, length float64 // s
	rate          float64
	// kind is Gamma, Weibull or empty (Poisson), with shape; the scale follows from
	// the rate.
	kind  string
	shape float64
}

// lengths is a distribution over numbers: their cumulated probabilities.
type lengths struct {
	value []float64
	upTo  []float64
}

func (l *lengths) draw(r *rand.Rand) float64 {
	n := len(l.value)
	if n == 0 {
		return 0
	}
	i, _ := slices.BinarySearch(l.upTo, r.Float64()*l.upTo[n-1])
	return l.value[min(i, n-1)]
}

// genLengths are the distributions of a longer window.
type genLengths struct {
	start float64
	of    map[string]*lengths
}

type serveGen struct {
	windows []genWindow
	sizes   []genLengths
	client  string
	// A window is made at once when it is entered.
	at int
	n  int
}

func openServeGen(r *Reader, br *bufio.Reader, _ *sniff) (source, error) {
	if !chunkName.MatchString(r.name) {
		return nil, fmt.Errorf("read trace %s: want a file named chunk-N-trace.csv with chunk-N-dataset.json beside it", r.base())
	}
	g := &serveGen{client: chunkName.FindStringSubmatch(r.name)[1]}
	cr := csv.NewReader(io.LimitReader(br, maxLine))
	cr.FieldsPerRecord = 6
	for line := 1; ; line++ {
		row, err := cr.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read trace %s: %w", r.base(), err)
		}
		var v [6]float64
		for _, i := range []int{0, 1, 2, 4, 5} {
			if v[i], err = strconv.ParseFloat(strings.TrimSpace(row[i]), 64); err != nil || math.IsNaN(v[i]) || v[i] < 0 || v[i] > 1e9 {
				return nil, &Error{File: r.base(), Line: line, Text: fmt.Sprintf("column %d: %s is not a number from 0 to 10^9", i+1, shown(row[i]))}
			}
		}
		w := genWindow{start: v[0], rate: v[1], kind: strings.TrimSpace(row[3]), shape: v[4]}
		switch w.kind {
		case "Gamma", "Weibull":
			if w.shape <= 0 && w.rate > 0 {
				return nil, &Error{File: r.base(), Line: line, Text: "column 5: the shape is not above 0"}
			}
		case "":
		default:
			return nil, &Error{File: r.base(), Line: line, Text: "column 4: " + shown(w.kind) + " is not known, want Gamma, Weibull or nothing"}
		}
		if n := len(g.windows); n > 0 {
			p := &g.windows[n-1]
			if p.length = w.start - p.start; p.length <= 0 {
				return nil, &Error{File: r.base(), Line: line, Text: fmt.Sprintf("the window starts at %g s, not after the one before it", w.start)}
			}
		}
		g.windows = append(g.windows, w)
	}
	if n := len(g.windows); n > 1 {
		g.windows[n-1].length = g.windows[n-2].length
	} else if n == 1 {
		g.windows[0].length = 600 // the published windows
	}
	data := strings.TrimSuffix(r.name, "trace.csv") + "dataset.json"
	f, err := infile.Open(data, r.opts.Done)
	if err != nil {
		return nil, fmt.Errorf("read trace %s: its lengths: %w", r.base(), err)
	}
	defer f.Close()
	if g.sizes, err = readLengths(io.LimitReader(f, maxLine)); err != nil {
		return nil, fmt.Errorf("read trace %s: %w", filepath.Base(data), err)
	}
	r.notice("the file is a model of one client, not a log: its requests are drawn with seed %d", r.opts.Seed)
	return g, nil
}

// readLengths reads a client's dataset file.
func readLengths(in io.Reader) ([]genLengths, error) {
	var raw map[string]map[string]json.RawMessage
	if err := json.NewDecoder(in).Decode(&raw); err != nil {
		return nil, err
	}
	var out []genLengths
	for at, fields := range raw {
		start, err := strconv.ParseFloat(at, 64)
		if err != nil || math.IsNaN(start) || math.IsInf(start, 0) {
			return nil, fmt.Errorf("window %s: want its start in seconds", shown(at))
		}
		g := genLengths{start: start, of: map[string]*lengths{}}
		for name, v := range fields {
			var s string
			if json.Unmarshal(v, &s) != nil {
				s = string(v)
			}
			l, err := parseLengths(s)
			if err != nil {
				return nil, fmt.Errorf("window %s: %s: %w", at, name, err)
			}
			if len(l.value) > 0 {
				g.of[name] = l
			}
		}
		if len(g.of) > 0 {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b genLengths) int { return int(min(1, max(-1, a.start-b.start))) })
	if len(out) == 0 {
		return nil, fmt.Errorf("no window has lengths")
	}
	return out, nil
}

// parseLengths reads a distribution as Python prints it: {12: 0.5, 13: 0.5}.
func parseLengths(s string) (*lengths, error) {
	s = strings.TrimSpace(s)
	if !strings.HasPrefix(s, "{") || !strings.HasSuffix(s, "}") || len(s) < 2 {
		return nil, fmt.Errorf("%s is not {length: probability, ...}", shown(s))
	}
	l := new(lengths)
	total := 0.0
	for pair := range strings.SplitSeq(s[1:len(s)-1], ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		k, p, ok := strings.Cut(pair, ":")
		k = strings.Trim(strings.TrimSpace(k), `"'`)
		x, err := strconv.ParseFloat(k, 64)
		q, err2 := strconv.ParseFloat(strings.TrimSpace(p), 64)
		if !ok || err != nil || err2 != nil || !(q >= 0 && q <= 1.000001) || !(x >= 0 && x <= maxTokens) {
			return nil, fmt.Errorf("%s is not a length and its probability", shown(pair))
		}
		total += q
		l.value = append(l.value, x)
		l.upTo = append(l.upTo, total)
	}
	if len(l.value) > 0 && total <= 0 {
		return nil, fmt.Errorf("the probabilities add up to %g", total)
	}
	return l, nil
}

// sizesAt returns the lengths that hold at a time: those of the last window
// that has any before it, else the first.
func (g *serveGen) sizesAt(t float64) *genLengths {
	best := 0
	for i := range g.sizes {
		if g.sizes[i].start <= t {
			best = i
		}
	}
	return &g.sizes[best]
}

// maxInWindow bounds the requests of one window.
const maxInWindow = 1 << 22

func (g *serveGen) next(r *Reader) error {
	if g.at == len(g.windows) {
		if g.n == 0 {
			return fmt.Errorf("read trace %s: no window has a rate above 0", r.base())
		}
		return io.EOF
	}
	w := &g.windows[g.at]
	g.at++
	if w.rate <= 0 {
		return nil
	}
	if w.rate*w.length > maxInWindow {
		return &Error{File: r.base(), Line: g.at, Text: fmt.Sprintf("%g requests in one window", w.rate*w.length)}
	}
	rng := random.Stream(random.Derive(r.opts.Seed, hashText(g.client), uint64(g.at)))
	sizes := g.sizesAt(w.start)
	mean := 1 / w.rate
	for t := w.start + firstGap(rng, w, mean); t < w.start+w.length; {
		var rec Record
		rec.reset(g.at)
		rec.At = int64(t * 1e9)
		in := sizes.draw(rng, "input_tokens")
		in += sizes.draw(rng, "text_tokens")
		images := sizes.draw(rng, "image_count")
		in += images * sizes.draw(rng, "image_tokens")
		rec.Images = int(images)
		in += sizes.draw(rng, "audio_count") * sizes.draw(rng, "audio_tokens")
		in += sizes.draw(rng, "video_count") * sizes.draw(rng, "video_tokens")
		rec.Input = max(1, int(math.Round(in)))
		rec.Output = max(1, int(math.Round(sizes.draw(rng, "output_tokens"))))
		rec.Reasoning = min(rec.Output, int(math.Round(float64(rec.Output)*min(1, sizes.draw(rng, "reason_ratio")))))
		rec.Kind = "client " + g.client
		g.n++
		if err := r.add(rec); err != nil && err != errSkip {
			return err
		}
		t += gap(rng, w, mean)
	}
	return nil
}

func (g *genLengths) draw(r *rand.Rand, name string) float64 {
	if l := g.of[name]; l != nil {
		return l.draw(r)
	}
	return 0
}

// gap draws the time between two requests of a window.
func gap(r *rand.Rand, w *genWindow, mean float64) float64 {
	switch w.kind {
	case "Gamma":
		return random.StandardGamma(r, w.shape) * mean / w.shape
	case "Weibull":
		return mean / math.Gamma(1+1/w.shape) * math.Pow(r.ExpFloat64(), 1/w.shape)
	}
	return r.ExpFloat64() * mean
}

// firstGap draws the time from the window's edge to its first request. The edge lies
// anywhere in a gap, and more probably in a long one; only then are there as many
// requests as the rate says, which matters where gaps vary much.
func firstGap(r *rand.Rand, w *genWindow, mean float64) float64 {
	u := r.Float64()
	switch w.kind {
	case "Gamma":
		return u * random.StandardGamma(r, w.shape+1) * mean / w.shape
	case "Weibull":
		return u * mean / math.Gamma(1+1/w.shape) * math.Pow(random.StandardGamma(r, 1+1/w.shape), 1/w.shape)
	}
	return r.ExpFloat64() * mean
}
