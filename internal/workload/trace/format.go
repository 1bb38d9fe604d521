package trace

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"plimsoll/internal/strictyaml"
)

// format is one kind of file.
type format struct {
	name, about string
	// unit is what its times are in.
	unit Unit
	// block is the number of tokens of a hash, 0 without; floor says that a last
	// block that is not full has no hash.
	block int
	floor bool
	// graph says that its rows may name others that they wait for.
	graph bool
	// detect returns how the format was recognised, empty when it was not.
	detect func(s *sniff) string
	open   func(r *Reader, br *bufio.Reader, s *sniff) (source, error)
}

// Format describes one format that can be read.
type Format struct {
	Name  string `json:"name"`
	About string `json:"about"`
	// Unit is that of its times, empty when it has none.
	Unit Unit `json:"time_unit,omitempty"`
	// BlockTokens is the number of tokens that one hash stands for, 0 without.
	BlockTokens int `json:"block_tokens,omitempty"`
}

// Formats returns what can be read.
func Formats() []Format {
	out := make([]Format, len(formats))
	for i := range formats {
		f := &formats[i]
		out[i] = Format{Name: f.name, About: f.about, Unit: f.unit, BlockTokens: f.block}
	}
	return out
}

// FormatNames returns the names of the formats.
func FormatNames() []string {
	out := make([]string, len(formats))
	for i := range formats {
		out[i] = formats[i].name
	}
	return out
}

func formatNamed(name string) *format {
	for i := range formats {
		if formats[i].name == name {
			return &formats[i]
		}
	}
	return nil
}

// formats in the order in which they are looked for. The list is filled by init
// because readers refer to it.
var formats []format

func init() {
	rows := func(row func(*Reader, int, []byte) error) func(*Reader, *bufio.Reader, *sniff) (source, error) {
		return func(r *Reader, br *bufio.Reader, s *sniff) (source, error) {
			if s.array {
				return newDocument(br, "", row), nil
			}
			if s.single {
				return newDocument(br, "-", row), nil
			}
			return &jsonLines{lines: lines{br: br}, row: row}, nil
		}
	}
	formats = []format{
		{
			name: "plimsoll", about: "JSON lines of this program's own: trace convert --to plimsoll", graph: true, unit: Nanoseconds,
			detect: keys("at_ns"), open: rows(ownRow),
		},
		{
			name: "azure", about: "Azure LLM inference traces, 2023 to 2025 forms", unit: Date,
			detect: header("timestamp", "contexttokens", "generatedtokens"), open: openCSV,
		},
		{
			name: "burstgpt", about: "BurstGPT, both releases", unit: Seconds,
			detect: header("timestamp", "request tokens", "response tokens"), open: openCSV,
		},
		{
			name: "tracelab-csv", about: "TraceLab workload tables", unit: Milli,
			detect: header("session_id", "round_idx", "prefix_len", "input_len", "output_len"), open: openTraceLabCSV,
		},
		{
			name: "servegen", about: "ServeGen client models: chunk-N-trace.csv beside chunk-N-dataset.json", unit: Seconds,
			detect: detectServeGen, open: openServeGen,
		},
		{
			name: "dynamo", about: "Dynamo request traces (dynamo.request.trace.v1)", unit: Milli, block: 64,
			detect: func(s *sniff) string {
				if s.json && bytes.Contains(s.first, []byte(`"dynamo.request.trace.`)) {
					return "its schema is dynamo.request.trace"
				}
				return keys("event_type", "request")(s)
			},
			open: rows(dynamoRow),
		},
		{
			name: "sagemaker", about: "SageMaker data capture", unit: Date,
			detect: keys("captureData"), open: rows(sageMakerRow),
		},
		{
			name: "openai-batch", about: "OpenAI batch input files",
			detect: keys("custom_id"), open: rows(batchRow),
		},
		{
			name: "weka", about: "Weka and AgentX sessions of agents", graph: true, unit: Seconds, block: 64, floor: true,
			detect: keys("requests", "block_size"), open: openWeka,
		},
		{
			name: "otel", about: "OpenTelemetry spans with gen_ai attributes", graph: true, unit: Nanoseconds,
			detect: func(s *sniff) string {
				if s.json && (s.keys["resourceSpans"] || s.keys["spans"] || s.keys["attributes"] && (s.keys["span_id"] || s.keys["spanId"])) {
					return "it holds spans"
				}
				return ""
			},
			open: openOTel,
		},
		{
			name: "aiperf-inputs", about: "AIPerf inputs.json: sessions of payloads",
			detect: func(s *sniff) string {
				if s.keys["data"] && bytes.Contains(s.head, []byte(`"payloads"`)) {
					return "it has data with payloads"
				}
				return ""
			},
			open: func(_ *Reader, br *bufio.Reader, _ *sniff) (source, error) {
				return newDocument(br, "data", inputsRow), nil
			},
		},
		{
			name: "bailian", about: "Qwen-Bailian usage traces", unit: Seconds, block: 16,
			detect: keys("chat_id", "parent_chat_id"), open: rows(bailianRow),
		},
		{
			name: "tracelab", about: "TraceLab rounds", unit: Date,
			detect: keys("session_id", "round_index"), open: openTraceLab,
		},
		{
			name: "mlcommons", about: "MLCommons endpoints, agentic: user, assistant and tool rows", unit: Seconds,
			detect: keys("conversation_id", "turn", "role"), open: openEndpoints,
		},
		{
			name: "applied-compute", about: "Dynamo's applied_compute_agentic: lengths of whole sessions", unit: Seconds,
			detect: keys("num_turns", "input_prompt_length"), open: rows(appliedRow),
		},
		{
			name: "sharegpt", about: "ShareGPT, LMSYS-Chat and WildChat conversations",
			detect: func(s *sniff) string {
				if s.json && (s.keys["conversations"] || s.keys["conversation"]) {
					return "its rows have conversations"
				}
				return ""
			},
			open: rows(conversationRow),
		},
		{
			name: "aiperf-dag", about: "AIPerf dag_jsonl: sessions with spawns and forks", graph: true, unit: Milli,
			detect: func(s *sniff) string {
				if s.keys["turns"] && (bytes.Contains(s.head, []byte(`"spawns"`)) || bytes.Contains(s.head, []byte(`"forks"`))) {
					return "its turns spawn others"
				}
				return ""
			},
			open: openDAG,
		},
		{
			name: "aiperf-multi-turn", about: "AIPerf multi_turn sessions", unit: Milli,
			detect: keys("turns"), open: rows(multiTurnRow),
		},
		{
			name: "guidellm", about: "GuideLLM trace_synthetic and data files; times in seconds", graph: true, unit: Seconds, block: 512,
			detect: func(s *sniff) string {
				switch {
				case !s.json:
				case s.keys["prompt"] && (s.keys["output_tokens_count"] || s.keys["prompt_tokens_count"]):
					return "its fields are prompt and output_tokens_count"
				case s.keys["timestamp"] && s.keys["input_length"] && !s.keys["hash_ids"] && !s.keys["session_id"] && fractional(s.first):
					return "its times have fractions and its rows no hashes: taken as seconds; --format mooncake takes them as ms"
				}
				return ""
			},
			open: rows(mooncakeRow),
		},
		{
			name: "mooncake", about: "Mooncake traces, AIPerf's mooncake variants, Dynamo agentic Mooncake", graph: true, unit: Milli, block: 512,
			detect: func(s *sniff) string {
				switch {
				case !s.json:
				case s.keys["input_length"], s.keys["text_input"], s.keys["payload"]:
					return "its rows have input_length, text_input or payload"
				case s.keys["input_tokens"] && s.keys["output_tokens"]:
					return "its rows have input_tokens and output_tokens"
				case s.keys["messages"] && (s.keys["timestamp"] || s.keys["message_mode"] || s.keys["delay"] || s.keys["output_length"]):
					return "its rows have messages and times"
				}
				return ""
			},
			open: rows(mooncakeRow),
		},
		{
			name: "raw-payload", about: "request bodies, one a line (AIPerf raw_payload)",
			detect: func(s *sniff) string {
				if s.json && s.keys["model"] && (s.keys["messages"] || s.keys["prompt"] || s.keys["input"]) {
					return "its rows are request bodies"
				}
				return ""
			},
			open: rows(payloadRow),
		},
		{
			name: "jsonl", about: "JSON lines with prompt or messages", graph: true,
			detect: func(s *sniff) string {
				if s.json && (s.keys["messages"] || s.keys["prompt"]) {
					return "its rows have prompt or messages"
				}
				return ""
			},
			open: rows(promptRow),
		},
		{
			name: "aiperf-single-turn", about: "AIPerf single_turn: text, images, times", unit: Milli,
			detect: func(s *sniff) string {
				if s.json && (s.keys["text"] || s.keys["texts"] || s.keys["image"] || s.keys["images"]) {
					return "its rows have text or texts"
				}
				return ""
			},
			open: rows(singleTurnRow),
		},
		{
			name: "aiperf-random-pool", about: "AIPerf random_pool: prompts in no order", unit: Milli,
			detect: func(*sniff) string { return "" }, open: rows(singleTurnRow),
		},
		{
			name: "csv", about: "any table with a header: lengths or prompts, columns by name (--column)", unit: Seconds,
			detect: func(s *sniff) string {
				if s.json {
					return ""
				}
				for _, c := range s.columns {
					if k := columnOf(c, nil); k == "input" || k == "prompt" {
						return "its header has column " + shown(c)
					}
				}
				return ""
			},
			open: openCSV,
		},
	}
}

// keys recognises JSON rows by their fields.
func keys(names ...string) func(*sniff) string {
	return func(s *sniff) string {
		for _, n := range names {
			if !s.json || !s.keys[n] {
				return ""
			}
		}
		return "its rows have " + strings.Join(names, ", ")
	}
}

// header recognises tables by their columns.
func header(names ...string) func(*sniff) string {
	return func(s *sniff) string {
		for _, n := range names {
			found := false
			for _, c := range s.columns {
				found = found || strings.EqualFold(strings.TrimSpace(c), n)
			}
			if !found {
				return ""
			}
		}
		return "its header has " + strings.Join(names, ", ")
	}
}

// sniff is what the beginning of a file shows.
type sniff struct {
	path  string
	head  []byte
	first []byte // the first row, as far as it could be seen
	line  int    // of the first row
	// json says that it is JSON; array that the document is a list, single that it
	// is one object over many lines.
	json, array, single bool
	keys                map[string]bool // of the first object
	columns             []string        // of the first line of a table
}

func newSniff(head []byte, whole bool, path string) *sniff {
	s := &sniff{path: path, head: head, keys: map[string]bool{}}
	b := bytes.TrimLeft(head, " \t\r\n")
	s.line = 1 + bytes.Count(head[:len(head)-len(b)], []byte("\n"))
	s.first = []byte(firstLine(b))
	switch {
	case len(b) == 0:
		return s
	case b[0] == '[':
		s.json, s.array = true, true
		s.first = b
		objectKeys(s.keys, b[1:])
	case b[0] == '{':
		s.json = true
		objectKeys(s.keys, b)
		if !json.Valid(s.first) && (whole || len(s.first) < len(b)) {
			s.single = true
			s.first = b
		}
	default:
		cr := csv.NewReader(bytes.NewReader(s.first))
		cr.FieldsPerRecord = -1
		if row, err := cr.Read(); err == nil {
			s.columns = row
		}
	}
	return s
}

// objectKeys collects the names of the fields of the first object in b, which may
// be cut off.
func objectKeys(set map[string]bool, b []byte) {
	dec := json.NewDecoder(bytes.NewReader(b))
	tok, err := dec.Token()
	if err != nil || tok != json.Delim('{') {
		return
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return
		}
		name, ok := key.(string)
		if !ok {
			return
		}
		set[name] = true
		var v json.RawMessage
		if dec.Decode(&v) != nil {
			return
		}
	}
}

// kinds are what rows of no known format may be meant as: the fields that tell one,
// all that are needed or one of several, and those that stand beside them.
var kinds = []struct {
	format    string
	all, some []string
	beside    []string
}{
	{format: "mooncake", some: []string{"input_length", "text_input", "messages", "payload"}, beside: []string{
		"timestamp", "output_length", "hash_ids", "request_id", "session_id", "wait_for", "delay", "tool_wait_ms", "message_mode", "prefix_reset",
	}},
	{format: "jsonl", some: []string{"prompt", "messages"}, beside: []string{"output_tokens", "session_id"}},
	{format: "raw-payload", some: []string{"messages", "prompt", "input"}, beside: []string{"model", "max_tokens", "max_completion_tokens", "temperature", "stream", "top_p"}},
	{format: "openai-batch", all: []string{"custom_id"}, beside: []string{"method", "url", "body"}},
	{format: "bailian", all: []string{"chat_id", "parent_chat_id"}, beside: []string{"timestamp", "input_length", "output_length", "turn", "type", "hash_ids"}},
	{format: "tracelab", all: []string{"session_id", "round_index"}, beside: []string{"input_tokens_total", "prefix_tokens", "newly_append_tokens", "timing_events"}},
	{format: "mlcommons", all: []string{"conversation_id", "turn", "role"}, beside: []string{"content", "tool_results", "delay_seconds"}},
	{format: "weka", all: []string{"requests", "block_size"}, beside: []string{"id", "hash_id_scope"}},
	{format: "sharegpt", some: []string{"conversations", "conversation"}, beside: []string{"id", "conversation_id", "conversation_hash"}},
	{format: "aiperf-single-turn", some: []string{"text", "texts", "image", "images"}, beside: []string{"audio", "audios", "video", "videos"}},
}

// almost says what the first row lacks for the format that it has most fields of, nil
// where it has none of any.
func (s *sniff) almost() *Error {
	if !s.json {
		return nil
	}
	names := slices.Sorted(maps.Keys(s.keys))
	best, most := -1, 0
	var slip, meant string
	for i := range kinds {
		k := &kinds[i]
		n, from, to := 0, "", ""
		for _, name := range names {
			switch near := strictyaml.Nearest(name, slices.Concat(k.all, k.some)); {
			case slices.Contains(k.beside, name), near == name:
				n++
			case near != "" && !s.keys[near]:
				n += 2
				from, to = name, near
			}
		}
		if n > most {
			best, most, slip, meant = i, n, from, to
		}
	}
	if best < 0 {
		return nil
	}
	k := &kinds[best]
	missing := slices.DeleteFunc(slices.Clone(k.all), func(name string) bool { return s.keys[name] })
	text := "is missing"
	if len(k.some) > 0 {
		missing = k.some
	} else if len(missing) > 1 {
		text += ", and " + strings.Join(missing[1:], " and ") + " too"
	}
	e := &Error{Line: s.line, Field: missing[0]}
	if meant != "" {
		e.Field = meant
		text += "; the row has " + shown(slip) + ": " + meant + " may be meant"
	}
	if len(k.some) > 0 {
		text += "; rows of format " + k.format + ", the nearest, have " + either(k.some)
	} else {
		text += " for format " + k.format + ", the nearest"
	}
	e.Text = text + " (plimsoll trace formats lists all; --format names one)"
	return e
}

// fractional says whether the first row's timestamp is written with a point.
func fractional(row []byte) bool {
	var v struct {
		Timestamp json.RawMessage `json:"timestamp"`
	}
	dec := json.NewDecoder(bytes.NewReader(row))
	if err := dec.Decode(&v); err != nil && err != io.EOF {
		return false
	}
	return bytes.ContainsRune(v.Timestamp, '.') && v.Timestamp[0] != '"'
}

func (r *Reader) base() string { return filepath.Base(r.name) }
