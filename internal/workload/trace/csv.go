package trace

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// columnAliases are the names under which tables hold what a record needs, in
// small letters with single spaces or underscores.
var columnAliases = []struct {
	field string
	names []string
}{
	{"timestamp", []string{"timestamp", "arrival_time", "arrived_at", "start_time", "created_time", "request_time", "time"}},
	{"input", []string{"contexttokens", "request tokens", "input_length", "input_tokens", "input_len", "prompt_tokens", "prompt_len", "prompt_tokens_count", "num_prefill_tokens"}},
	{"output", []string{"generatedtokens", "response tokens", "output_length", "output_tokens", "output_len", "completion_tokens", "output_tokens_count", "num_decode_tokens", "max_tokens"}},
	{"session", []string{"session id", "session_id", "conversation_id"}},
	{"prompt", []string{"prompt", "text", "text_input", "question", "instruction"}},
	{"model", []string{"model"}},
	{"id", []string{"id", "request_id", "custom_id"}},
	{"kind", []string{"log type", "type", "kind"}},
	{"images", []string{"numimages", "num_images", "images"}},
	{"took", []string{"elapsed time"}},
}

func isColumn(field string) bool {
	for _, a := range columnAliases {
		if a.field == field {
			return true
		}
	}
	return false
}

func columnNames() string {
	var out []string
	for _, a := range columnAliases {
		out = append(out, a.field)
	}
	return strings.Join(out, ", ")
}

// columnOf returns what a column of a table holds, empty for nothing of use.
func columnOf(name string, chosen map[string]string) string {
	name = strings.TrimSpace(name)
	for field, c := range chosen {
		if c == name {
			return field
		}
	}
	low := strings.ToLower(name)
	for _, a := range columnAliases {
		if _, taken := chosen[a.field]; taken {
			continue
		}
		for _, n := range a.names {
			if n == low {
				return a.field
			}
		}
	}
	return ""
}

// table is the source of CSV files. Columns are found by name, never by place.
type table struct {
	in  *bounded
	cr  *csv.Reader
	at  map[string]int
	row func(r *Reader, line int, t *table, cells []string) error
	// names are those of the header, for messages.
	names []string
}

// openTable reads the header.
func openTable(r *Reader, br *bufio.Reader, columnOf func(string) string, need ...string) (*table, error) {
	t := &table{in: &bounded{r: br, left: maxLine}, at: map[string]int{}}
	t.cr = csv.NewReader(t.in)
	t.cr.ReuseRecord = true
	t.cr.FieldsPerRecord = -1
	head, err := t.cr.Read()
	if err != nil {
		return nil, fmt.Errorf("read trace %s:1: header: %w", r.base(), err)
	}
	for i, name := range head {
		name = strings.TrimSpace(name)
		t.names = append(t.names, name)
		if f := columnOf(name); f != "" {
			if j, twice := t.at[f]; twice {
				return nil, fmt.Errorf("read trace %s:1: columns %q and %q both hold the %s; say which with --column %s=NAME", r.base(), t.names[j], name, f, f)
			}
			t.at[f] = i
		}
	}
	for _, f := range need {
		if _, ok := t.at[f]; !ok {
			return nil, fmt.Errorf("read trace %s:1: no column for %s among %s; name it with --column %s=NAME", r.base(), f, shown(strings.Join(t.names, ",")), f)
		}
	}
	return t, nil
}

func (t *table) next(r *Reader) error {
	t.in.left = maxLine
	cells, err := t.cr.Read()
	if err == io.EOF {
		return io.EOF
	}
	if err != nil {
		line := 0
		if e, ok := errors.AsType[*csv.ParseError](err); ok {
			line = e.Line
			err = e.Err
			if !errors.Is(err, errTooLong) {
				return r.bad(line, "", "csv", err.Error())
			}
		}
		return &Error{File: r.base(), Line: line, Text: err.Error()}
	}
	line, _ := t.cr.FieldPos(0)
	if len(cells) != len(t.names) {
		if len(cells) == 1 && strings.TrimSpace(cells[0]) == "" {
			return nil
		}
		return r.bad(line, "", "columns", fmt.Sprintf("%d columns, the header has %d", len(cells), len(t.names)))
	}
	return t.row(r, line, t, cells)
}

// cell returns the value of a field, empty when the table has no such column.
func (t *table) cell(cells []string, field string) string {
	if i, ok := t.at[field]; ok {
		return strings.TrimSpace(cells[i])
	}
	return ""
}

// name returns the name of a field's column.
func (t *table) name(field string) string {
	if i, ok := t.at[field]; ok {
		return t.names[i]
	}
	return field
}

// count reads a whole number of at least 0.
func (t *table) count(r *Reader, line int, cells []string, field string) (int, error) {
	s := t.cell(cells, field)
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		// Tables written by pandas have whole numbers as 12.0.
		f, ferr := strconv.ParseFloat(s, 64)
		if ferr != nil || f != float64(int64(f)) {
			text := shown(s) + " is not a whole number"
			if s == "" {
				text = "is empty, want a whole number"
			}
			return 0, r.bad(line, t.name(field), "number", text)
		}
		n = int64(f)
	}
	if n < 0 || n > maxTokens {
		return 0, r.bad(line, t.name(field), "length", fmt.Sprintf("%d, want 0 to %d", n, maxTokens))
	}
	return int(n), nil
}

// openCSV reads the tables of single requests: Azure, BurstGPT and others.
func openCSV(r *Reader, br *bufio.Reader, _ *sniff) (source, error) {
	need := []string{"timestamp", "input", "output"}
	if r.format.name == "csv" {
		need = nil
	}
	t, err := openTable(r, br, func(name string) string { return columnOf(name, r.opts.Columns) }, need...)
	if err != nil {
		return nil, err
	}
	for f, name := range r.opts.Columns {
		if _, ok := t.at[f]; !ok {
			return nil, fmt.Errorf("read trace %s:1: no column %q; the header has %s", r.base(), name, shown(strings.Join(t.names, ",")))
		}
	}
	_, hasInput := t.at["input"]
	_, hasPrompt := t.at["prompt"]
	if !hasInput && !hasPrompt {
		return nil, fmt.Errorf("read trace %s:1: no column for input or prompt among %s; name it with --column input=NAME", r.base(), shown(strings.Join(t.names, ",")))
	}
	_, hasOutput := t.at["output"]
	_, hasTime := t.at["timestamp"]
	if !hasOutput && !hasPrompt {
		// Times beside the lengths of prompts are a trace that lost a column; lengths
		// alone may be all that somebody has.
		if hasTime && r.opts.Format == "" && !r.opts.OutputKnown {
			return nil, fmt.Errorf("read trace %s:1: no column for output, the lengths of the answers, among %s; name it with --column output=NAME; in a run or a prediction --output-tokens may say how long they are", r.base(), shown(strings.Join(t.names, ",")))
		}
		if r.opts.OutputKnown {
			r.notice("no column says how long the answers were: they are as long as asked for")
			t.row = csvRow
			return t, nil
		}
		r.notice("no column says how long the answers were: --output-tokens decides, or name one with --column output=NAME")
	}
	t.row = csvRow
	return t, nil
}

func csvRow(r *Reader, line int, t *table, cells []string) error {
	var rec Record
	rec.reset(line)
	var err error
	if _, ok := t.at["timestamp"]; ok {
		if rec.At, err = r.time(line, t.name("timestamp"), t.cell(cells, "timestamp"), r.format.unit); err != nil {
			return err
		}
	}
	if _, ok := t.at["input"]; ok {
		if rec.Input, err = t.count(r, line, cells, "input"); err != nil {
			return err
		}
	}
	if s := t.cell(cells, "output"); s != "" || r.format.name != "csv" {
		if rec.Output, err = t.count(r, line, cells, "output"); err != nil {
			return err
		}
	}
	if _, ok := t.at["images"]; ok {
		if rec.Images, err = t.count(r, line, cells, "images"); err != nil {
			return err
		}
	}
	if s := t.cell(cells, "took"); s != "" {
		if rec.Took, err = r.span(line, t.name("took"), s, Seconds); err != nil {
			return err
		}
	}
	if i, ok := t.at["prompt"]; ok {
		if cells[i] == "" {
			return r.bad(line, t.name("prompt"), "missing", "is empty")
		}
		rec.Messages = []Message{{Text: cells[i]}}
	}
	rec.Session, rec.Model = t.cell(cells, "session"), t.cell(cells, "model")
	rec.ID, rec.Kind = t.cell(cells, "id"), t.cell(cells, "kind")
	return r.add(rec)
}
