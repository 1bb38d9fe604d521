package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"plimsoll/internal/infile"
)

const (
	// maxLine bounds a line, or one row of a document: a prompt of a million tokens
	// is about 4 MB, and pictures inside a row may make it longer.
	maxLine = 64 << 20
	// sniffed is how much of a file is looked at to find its format.
	sniffed = 256 << 10
	// lookEvery is how many rows pass between two looks at Options.Done.
	lookEvery = 1024
	// examples is how many lines are named for each kind of problem.
	examples = 5
)

// Problem is one kind of thing that is not right, with how often and where.
type Problem struct {
	// Code is a name for programs.
	Code string `json:"code"`
	// Count is how often, Lines where, the first few times.
	Count int   `json:"count"`
	Lines []int `json:"lines,omitempty"`
	// Text is the first one in words.
	Text string `json:"text"`
	// Dropped says that such rows are left out.
	Dropped bool `json:"dropped"`
}

// Reader reads the records of one file in the file's order.
type Reader struct {
	name   string
	opts   Options
	format *format
	// Why says how the format was found.
	why     string
	src     source
	closers []io.Closer
	pending []Record
	read    int
	looks   int

	// fractions counts times that are written with a point, sizes what block sizes
	// rows with hashes would fit.
	fractions int
	sizes     reuse
	timeKind  timeKind
	timeLine  int
	firstTime int64

	turns map[string]int
	chats map[string]string // of Bailian: the session of each turn
	// dropped are requests that were left out, with what they waited for.
	dropped  map[string][]string
	problems map[string]*Problem
	notices  []string
	// Skipped rows by reason, and events that are no requests.
	zeroOutput, badRows, noReplay, toolEvents, empty int
	block                                            int
	// inspecting: what is wrong with the whole is told, not returned.
	inspecting bool
}

// source makes records of a file.
type source interface {
	// next reads one piece of the file and adds its records by r.add; io.EOF at the
	// end. errSkip says that a row was left out and that there may be more.
	next(r *Reader) error
}

// errSkip is what bad returns when the policy is to go on.
var errSkip = errors.New("row left out")

// Open opens a trace by its path. The caller closes it.
func Open(path string, opts Options) (*Reader, error) {
	f, err := infile.Open(path, opts.Done)
	if err != nil {
		return nil, fmt.Errorf("open trace: %w", err)
	}
	st, err := f.Stat()
	in, closers := io.Reader(f), []io.Closer{f}
	if err == nil && isParquet(f.File) {
		rows, err := openParquet(f.File, st.Size(), filepath.Base(path))
		if err != nil {
			f.Close()
			return nil, err
		}
		in, closers = rows, []io.Closer{rows, f}
	}
	r, err := newReader(in, path, opts)
	if err != nil {
		for _, c := range closers {
			c.Close()
		}
		return nil, err
	}
	r.closers = append(r.closers, closers...)
	return r, nil
}

// NewReader reads a trace from in; name is for messages. Formats of several
// files need Open.
func NewReader(in io.Reader, name string, opts Options) (*Reader, error) {
	return newReader(in, name, opts)
}

func newReader(in io.Reader, path string, opts Options) (*Reader, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	r := &Reader{name: path, opts: opts, turns: map[string]int{}, problems: map[string]*Problem{}}
	if opts.OnBadRow == "" {
		r.opts.OnBadRow = Fail
	}
	br := bufio.NewReaderSize(in, sniffed)
	if head, _ := br.Peek(2); len(head) == 2 && head[0] == 0x1f && head[1] == 0x8b {
		z, err := gzip.NewReader(br)
		if err != nil {
			return nil, fmt.Errorf("read trace %s: gzip: %w", path, err)
		}
		r.closers = append(r.closers, z)
		br = bufio.NewReaderSize(z, sniffed)
	}
	head, err := br.Peek(sniffed)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("read trace %s: %w", path, err)
	}
	whole := err == io.EOF
	if bytes.HasPrefix(head, []byte("\xef\xbb\xbf")) {
		if _, err := br.Discard(3); err != nil {
			return nil, fmt.Errorf("read trace %s: %w", path, err)
		}
		head = head[3:]
	}
	if len(bytes.TrimSpace(head)) == 0 {
		return nil, fmt.Errorf("read trace %s: the file is empty", path)
	}
	for magic, what := range map[string]string{
		"PAR1": "a Parquet file, which is only read by its name", "ARROW1": "an Arrow file", "\x28\xb5\x2f\xfd": "compressed with zstd", "\x89HDF": "an HDF5 file", "PK\x03\x04": "a zip archive", "\xff\xfe": "UTF-16", "\xfe\xff": "UTF-16",
		"version https://git-lfs": "a Git LFS pointer, not the file itself",
	} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return nil, fmt.Errorf("read trace %s: it is %s; want text in UTF-8 (CSV, JSON lines or JSON), as it is or compressed with gzip", path, what)
		}
	}
	look := newSniff(head, whole, path)
	if opts.Format != "" {
		if r.format = formatNamed(opts.Format); r.format == nil {
			return nil, fmt.Errorf("read trace %s: format %q is not known, want one of %s", path, opts.Format, strings.Join(FormatNames(), ", "))
		}
		r.why = "as asked"
	} else {
		for i := range formats {
			if why := formats[i].detect(look); why != "" {
				r.format, r.why = &formats[i], why
				break
			}
		}
		if r.format == nil && lengthsName.MatchString(path) {
			return nil, fmt.Errorf("read trace %s: it has the lengths of a ServeGen client: give the file beside it, %s", path,
				lengthsName.ReplaceAllString(filepath.Base(path), "chunk-$1-trace.csv"))
		}
		if r.format == nil {
			if e := look.almost(); e != nil {
				e.File = filepath.Base(path)
				return nil, e
			}
			return nil, fmt.Errorf("read trace %s: its format is not known: it begins %s; name it with --format (%s)",
				path, shown(firstLine(head)), strings.Join(FormatNames(), ", "))
		}
	}
	r.block = r.format.block
	if opts.BlockTokens > 0 {
		r.block = opts.BlockTokens
	}
	if r.src, err = r.format.open(r, br, look); err != nil {
		return nil, err
	}
	return r, nil
}

func firstLine(b []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimLeft(b, " \t\r\n"), []byte("\n"))
	return string(bytes.TrimRight(line, "\r"))
}

// Close releases the file.
func (r *Reader) Close() error {
	var err error
	for _, c := range r.closers {
		err = errors.Join(err, c.Close())
	}
	r.closers = nil
	return err
}

// Format returns the name of the file's format and how it was found.
func (r *Reader) Format() (name, why string) { return r.format.name, r.why }

// Next returns the next record, io.EOF after the last.
func (r *Reader) Next() (Record, error) {
	if r.opts.Limit > 0 && r.read >= r.opts.Limit {
		return Record{}, io.EOF
	}
	for len(r.pending) == 0 {
		if r.looks++; r.looks%lookEvery == 0 {
			select {
			case <-r.opts.Done:
				return Record{}, fmt.Errorf("read trace %s: %w", r.base(), context.Canceled)
			default:
			}
		}
		err := r.src.next(r)
		switch {
		case err == nil || errors.Is(err, errSkip):
		case err == io.EOF && len(r.pending) > 0:
		default:
			return Record{}, err
		}
	}
	rec := r.pending[0]
	r.pending = r.pending[1:]
	r.read++
	return rec, nil
}

// Problems returns what was found so far, the rows that were left out first.
func (r *Reader) Problems() []Problem {
	var out []Problem
	for _, k := range slices.Sorted(maps.Keys(r.problems)) {
		out = append(out, *r.problems[k])
	}
	slices.SortStableFunc(out, func(a, b Problem) int {
		if a.Dropped != b.Dropped {
			if a.Dropped {
				return -1
			}
			return 1
		}
		return 0
	})
	return out
}

// Notices returns what a reader of the figures should know.
func (r *Reader) Notices() []string { return r.notices }

func (r *Reader) notice(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	if !slices.Contains(r.notices, s) {
		r.notices = append(r.notices, s)
	}
}

// bad is what a row that is not right leads to: an error, or errSkip when such
// rows are left out.
func (r *Reader) bad(line int, field, code, text string) error {
	e := &Error{File: filepath.Base(r.name), Line: line, Field: field, Text: text, code: code}
	if r.opts.OnBadRow == Fail {
		return e
	}
	r.badRows++
	r.remark(line, code, field, text, true)
	return errSkip
}

// remark counts a problem.
func (r *Reader) remark(line int, code, field, text string, dropped bool) {
	p := r.problems[code]
	if p == nil {
		if field != "" {
			text = field + ": " + text
		}
		p = &Problem{Code: code, Text: text, Dropped: dropped}
		r.problems[code] = p
	}
	p.Count++
	if len(p.Lines) < examples && line > 0 {
		p.Lines = append(p.Lines, line)
	}
}

// add checks a record against the rules that all formats have in common and
// queues it.
func (r *Reader) add(rec Record) error {
	if rec.Input > maxTokens || rec.Output > maxTokens || rec.Images > maxTokens {
		return r.bad(rec.Line, "", "length", fmt.Sprintf("%d input and %d output tokens, want at most %d", rec.Input, rec.Output, maxTokens))
	}
	if rec.Output == 0 {
		r.zeroOutput++
		r.remark(rec.Line, "zero_output", "", "no output tokens, mostly a failed request; never sent as 0", !r.opts.KeepZeroOutput)
		if !r.opts.KeepZeroOutput {
			if rec.ID != "" && len(r.dropped) < maxSessions {
				if r.dropped == nil {
					r.dropped = map[string][]string{}
				}
				r.dropped[rec.ID] = rec.Deps
			}
			return errSkip
		}
		rec.Output = 1
	}
	if len(rec.Hashes) > 0 {
		if err := r.fit(&rec); err != nil {
			return err
		}
	}
	if r.opts.Turns == "delta" && rec.Session != "" {
		rec.Delta = true
	}
	if rec.Session != "" {
		rec.Turn = r.turns[rec.Session]
		if len(r.turns) < maxSessions {
			r.turns[rec.Session] = rec.Turn + 1
		}
	}
	r.pending = append(r.pending, rec)
	return nil
}

// fitting returns the largest power of two, else the largest number, that all rows
// with hashes fit as a block size; 0 when there is none.
func (r *Reader) fitting() int {
	lo, hi := r.sizes.lo, r.sizes.hi
	if r.format.floor || lo == 0 || lo > hi {
		return 0
	}
	// The largest power of two; the smallest where nothing bounds it, as where every
	// prompt is one block.
	size := 1
	for size <= hi/2 && size < maxTokens && (hi < maxTokens || size < lo) {
		size *= 2
	}
	if size >= lo {
		return size
	}
	return hi
}

// maxSessions bounds what is remembered of a file: names of sessions.
const maxSessions = 4 << 20

// fit checks that the hashes are as many as the length needs.
func (r *Reader) fit(rec *Record) error {
	if rec.BlockTokens == 0 {
		rec.BlockTokens = r.block
	}
	n, b := len(rec.Hashes), rec.BlockTokens
	if rec.Input == Unknown {
		return r.bad(rec.Line, "input_length", "missing", "is missing beside hash_ids")
	}
	r.sizes.sized(n, rec.Input)
	want, rule := (rec.Input+b-1)/b, "ceil"
	if r.format.name == "plimsoll" && n <= want {
		return nil // what the hashes do not cover is known to be unique
	}
	if r.format.floor {
		want, rule = rec.Input/b, "floor"
		if n == want+1 && rec.Input%b > 0 {
			want = n // some writers keep the last block
		}
	}
	if n == want {
		return nil
	}
	text := fmt.Sprintf("%d for %d input tokens, want %d (%s of length / %d)", n, rec.Input, want, rule, b)
	if r.opts.OnBadRow == Fix {
		r.remark(rec.Line, "hash_count", "hash_ids", text+": mended", false)
		// What the ids do not cover is unique; ids beyond the end are cut.
		rec.Hashes = rec.Hashes[:min(n, want)]
		return nil
	}
	return r.bad(rec.Line, "hash_ids", "hash_count", text)
}

// lines reads a file line by line, bounded.
type lines struct {
	br   *bufio.Reader
	buf  []byte
	line int
}

// next returns the next line that is not blank, without its end, and its number.
// It is valid until the next call.
func (l *lines) next(r *Reader) ([]byte, int, error) {
	for {
		l.buf = l.buf[:0]
		for {
			part, err := l.br.ReadSlice('\n')
			if len(l.buf)+len(part) > maxLine {
				return nil, 0, &Error{File: filepath.Base(r.name), Line: l.line + 1, Text: fmt.Sprintf("the line is longer than %d MiB", maxLine>>20)}
			}
			l.buf = append(l.buf, part...)
			if err == bufio.ErrBufferFull {
				continue
			}
			if err == io.EOF && len(l.buf) == 0 {
				return nil, 0, io.EOF
			}
			if err != nil && err != io.EOF {
				return nil, 0, fmt.Errorf("read trace %s:%d: %w", filepath.Base(r.name), l.line+1, err)
			}
			break
		}
		l.line++
		if b := bytes.TrimSpace(l.buf); len(b) > 0 {
			return b, l.line, nil
		}
	}
}

// jsonLines is the source of formats with one JSON object a line.
type jsonLines struct {
	lines
	row func(r *Reader, line int, b []byte) error
	// end adds what is left when the file has ended; nil for nothing.
	end   func(r *Reader) error
	ended bool
}

func (s *jsonLines) next(r *Reader) error {
	if s.ended {
		return io.EOF
	}
	b, line, err := s.lines.next(r)
	if err == io.EOF {
		s.ended = true
		if s.end != nil {
			return s.end(r)
		}
	}
	if err != nil {
		return err
	}
	return s.row(r, line, b)
}

// document is the source of formats that are one JSON document, or several one
// after another: it gives each element of the list that the format is, or the
// document itself.
type document struct {
	in  *bounded
	dec *json.Decoder
	// list is the name of the field that holds the rows; empty when the document
	// is a list itself, or one row.
	list    string
	inside  bool
	started bool
	n       int
	row     func(r *Reader, n int, b []byte) error
	end     func(r *Reader) error
	ended   bool
}

func newDocument(br io.Reader, list string, row func(r *Reader, n int, b []byte) error) *document {
	in := &bounded{r: br}
	return &document{in: in, dec: json.NewDecoder(in), list: list, row: row}
}

// bounded fails when more is read at once than a row may be long.
type bounded struct {
	r    io.Reader
	left int
}

var errTooLong = fmt.Errorf("a row is longer than %d MiB", maxLine>>20)

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	if len(p) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.Read(p)
	b.left -= n
	return n, err
}

func (d *document) next(r *Reader) error {
	if d.ended {
		return io.EOF
	}
	err := d.step(r)
	if err == io.EOF {
		d.ended = true
		if d.n == 0 {
			return fmt.Errorf("read trace %s: no rows found in the JSON document", filepath.Base(r.name))
		}
		if d.end != nil {
			return d.end(r)
		}
	}
	return err
}

func (d *document) fail(r *Reader, err error) error {
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("read trace %s: row %d: the file ends inside it", filepath.Base(r.name), d.n+1)
	}
	return fmt.Errorf("read trace %s: row %d (byte %d): %w", filepath.Base(r.name), d.n+1, d.dec.InputOffset(), err)
}

func (d *document) step(r *Reader) error {
	d.in.left = maxLine
	if !d.started {
		d.started = true
		if err := d.enter(r); err != nil {
			return err
		}
	}
	if d.inside && !d.dec.More() {
		// The rest of the document says nothing of the rows; after the list another
		// document may follow only in files of one document a line.
		return io.EOF
	}
	var raw json.RawMessage
	if err := d.dec.Decode(&raw); err != nil {
		if err == io.EOF && !d.inside {
			return io.EOF
		}
		return d.fail(r, err)
	}
	d.n++
	return d.row(r, d.n, raw)
}

// enter goes to the first row.
func (d *document) enter(r *Reader) error {
	if d.list == "-" {
		return nil // documents, each a row
	}
	tok, err := d.dec.Token()
	if err != nil {
		return d.fail(r, err)
	}
	if tok == json.Delim('[') {
		d.inside = true
		return nil
	}
	if tok != json.Delim('{') || d.list == "" {
		return fmt.Errorf("read trace %s: want a JSON list of rows", filepath.Base(r.name))
	}
	for d.dec.More() {
		key, err := d.dec.Token()
		if err != nil {
			return d.fail(r, err)
		}
		if key == d.list {
			tok, err := d.dec.Token()
			if err != nil {
				return d.fail(r, err)
			}
			if tok != json.Delim('[') {
				return fmt.Errorf("read trace %s: %s: want a list", filepath.Base(r.name), d.list)
			}
			d.inside = true
			return nil
		}
		var other json.RawMessage
		if err := d.dec.Decode(&other); err != nil {
			return d.fail(r, err)
		}
	}
	return fmt.Errorf("read trace %s: no list %q in the document", filepath.Base(r.name), d.list)
}

// unmarshal decodes one row and says which field was wrong.
func (r *Reader) unmarshal(line int, b []byte, v any) error {
	err := json.Unmarshal(b, v)
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return r.bad(line, e.Field, "type", fmt.Sprintf("a %s, want %s", e.Value, wanted(e.Type.String())))
	}
	if e, ok := errors.AsType[*valueError](err); ok {
		field := blamed(b, v)
		return r.bad(line, field, e.code, strings.TrimPrefix(e.text, field+": "))
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return r.bad(line, "", "json", fmt.Sprintf("no JSON at byte %d: %s", e.Offset, e.Error()))
	}
	return r.bad(line, "", "json", err.Error())
}

// blamed is the field of a row whose value v does not take, empty for none: what a
// value says of itself does not name it.
func blamed(b []byte, v any) string {
	var row map[string]json.RawMessage
	if json.Unmarshal(b, &row) != nil {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(row)) {
		one, err := json.Marshal(map[string]json.RawMessage{name: row[name]})
		if err != nil {
			continue
		}
		err = json.Unmarshal(one, reflect.New(reflect.TypeOf(v).Elem()).Interface())
		if _, ok := errors.AsType[*valueError](err); ok {
			return name
		}
	}
	return ""
}

func wanted(t string) string {
	switch {
	case strings.HasPrefix(t, "int"), strings.HasPrefix(t, "uint"):
		return "a whole number"
	case strings.HasPrefix(t, "float"):
		return "a number"
	case strings.HasPrefix(t, "[]"):
		return "a list"
	case t == "string":
		return "a text"
	case t == "bool":
		return "true or false"
	}
	return "an object"
}

// valueError is what a value of a file is refused with while it is decoded.
type valueError struct{ code, text string }

func (e *valueError) Error() string { return e.text }
