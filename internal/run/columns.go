package run

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/parquet-go/parquet-go"

	"plimsoll/internal/record"
)

// row states the columns of requests/part-*.parquet, in order: the names of
// METRICS.md in snake case, times and durations in ns on the run's clock, null
// for unknown, enums by name. It is only the schema; rows are written and read
// by the table below.
type row struct {
	ID       uint64 `parquet:"id,delta"`
	Agent    uint32 `parquet:"agent"`
	Workload string `parquet:"workload,dict"`
	Session  uint64 `parquet:"session,delta"`
	Turn     uint32 `parquet:"turn"`
	User     uint32 `parquet:"user"`
	Step     uint32 `parquet:"step"`
	Phase    string `parquet:"phase,dict"`
	Target   uint32 `parquet:"target"`
	Remote   string `parquet:"remote,dict,optional"`

	TScheduled      int64 `parquet:"t_scheduled,delta,optional"`
	TStart          int64 `parquet:"t_start,delta,optional"`
	TConnected      int64 `parquet:"t_connected,delta,optional"`
	TSent           int64 `parquet:"t_sent,delta,optional"`
	THeaders        int64 `parquet:"t_headers,delta,optional"`
	TFirstEvent     int64 `parquet:"t_first_event,delta,optional"`
	TFirstToken     int64 `parquet:"t_first_token,delta,optional"`
	TFirstContent   int64 `parquet:"t_first_content,delta,optional"`
	TLastToken      int64 `parquet:"t_last_token,delta,optional"`
	TEnd            int64 `parquet:"t_end,delta,optional"`
	TRetrievalStart int64 `parquet:"t_retrieval_start,delta,optional"`
	TRetrievalEnd   int64 `parquet:"t_retrieval_end,delta,optional"`
	// The start of an attempt that died unanswered on a reused connection.
	TFirstSend int64 `parquet:"t_first_send,delta,optional"`
	// The time under a cap in flight, between t_scheduled and t_start.
	CapWait int64 `parquet:"cap_wait,delta"`

	KernelTimes bool   `parquet:"kernel_times"`
	ReadLagMean int64  `parquet:"read_lag_mean,delta,optional"`
	ReadLagMax  int64  `parquet:"read_lag_max,delta,optional"`
	Reads       uint32 `parquet:"reads"`

	Status     string `parquet:"status,dict"`
	ErrorKind  string `parquet:"error_kind,dict,optional"`
	HTTPStatus uint32 `parquet:"http_status,dict,optional"`
	Finish     string `parquet:"finish_reason,dict,optional"`
	Message    string `parquet:"message,optional"`
	Flags      string `parquet:"flags,dict,optional"` // names, separated by commas
	Resends    uint32 `parquet:"resends"`
	Reused     bool   `parquet:"reused"`

	AskedPrompt     int32  `parquet:"asked_prompt_tokens,optional"`
	AskedOutput     int32  `parquet:"asked_output_tokens,optional"`
	AskedExact      bool   `parquet:"asked_exact"`
	Prompt          int32  `parquet:"prompt_tokens,optional"`
	Cached          int32  `parquet:"cached_tokens,optional"`
	Output          int32  `parquet:"output_tokens,optional"`
	Reasoning       int32  `parquet:"reasoning_tokens,optional"`
	TokenizerOutput int32  `parquet:"tokenizer_output_tokens,optional"`
	TokenSource     string `parquet:"token_source,dict"`
	StreamedTokens  int32  `parquet:"streamed_tokens,optional"`
	FirstEvent      int32  `parquet:"first_event_tokens,optional"`
	TPOTBasis       string `parquet:"tpot_basis,dict"`

	Streamed      bool   `parquet:"streamed"`
	AskedStream   bool   `parquet:"asked_stream"`
	StreamEvents  uint32 `parquet:"stream_events"`
	OutputEvents  uint32 `parquet:"output_events"`
	SentBytes     int64  `parquet:"sent_bytes,delta"`
	ReceivedBytes int64  `parquet:"received_bytes,delta"`
	TextBytes     int64  `parquet:"text_bytes,delta"`
	Fallbacks     uint32 `parquet:"fallbacks"`

	// The first output event, where it is not t_first_token.
	TFirstOutput int64 `parquet:"t_first_output,optional"`
	// The time from each output event to the next: one less than there are.
	EventGaps []int64 `parquet:"event_gaps,list,optional" parquet-element:",delta"`
	// One entry per output event each. A list is null where no event says
	// anything but the usual: unknown tokens, no running count, choice 0,
	// content, no bounded time. Unknown entries among known ones are -1.
	EventTokens     []int32 `parquet:"event_tokens,list,optional" parquet-element:",delta"`
	EventCumulative []int32 `parquet:"event_cumulative_tokens,list,optional" parquet-element:",delta"`
	EventTextBytes  []int32 `parquet:"event_text_bytes,list,optional" parquet-element:",delta"`
	// The index of each event's read less that of the event before, without the
	// ones at the end.
	EventReads    []int32 `parquet:"event_reads,list,optional" parquet-element:",delta"`
	EventChoices  []int32 `parquet:"event_choices,list,optional" parquet-element:",delta"`
	EventChannels []int32 `parquet:"event_channels,list,optional" parquet-element:",delta"` // 1 content, 2 reasoning, 4 tool call, 8 refusal, or a sum
	EventBounded  []bool  `parquet:"event_bounded,list,optional"`

	Text      []string `parquet:"text,list,optional"`
	Reason    string   `parquet:"reasoning_text,optional"`
	RefusalOf string   `parquet:"refusal_text,optional"`
}

var schema = parquet.NewSchema("request", parquet.SchemaOf(new(row)))

// column writes one column of a record and reads it back. Exactly one pair of
// functions is set.
type column struct {
	name string
	// put returns the value, or false for null; get takes one that is not null.
	put func(r *record.Request) (parquet.Value, bool)
	get func(r *record.Request, v parquet.Value)
	// entries appends the entries of a list, none for a null list; at takes
	// entry i.
	entries func(dst []parquet.Value, r *record.Request) []parquet.Value
	at      func(r *record.Request, i int, v parquet.Value)
}

// text returns the value of s without copying it.
func text(s string) parquet.Value {
	return parquet.ByteArrayValue(unsafe.Slice(unsafe.StringData(s), len(s)))
}

func point(name string, f func(*record.Request) *int64) column {
	return column{
		name: name,
		put: func(r *record.Request) (parquet.Value, bool) {
			v := *f(r)
			return parquet.Int64Value(v), v != record.Unset
		},
		get: func(r *record.Request, v parquet.Value) { *f(r) = v.Int64() },
	}
}

func int64s(name string, f func(*record.Request) *int64) column {
	return column{
		name: name,
		put:  func(r *record.Request) (parquet.Value, bool) { return parquet.Int64Value(*f(r)), true },
		get:  func(r *record.Request, v parquet.Value) { *f(r) = v.Int64() },
	}
}

func uint64s(name string, f func(*record.Request) *uint64) column {
	return column{
		name: name,
		put:  func(r *record.Request) (parquet.Value, bool) { return parquet.Int64Value(int64(*f(r))), true },
		get:  func(r *record.Request, v parquet.Value) { *f(r) = v.Uint64() },
	}
}

func uint32s(name string, f func(*record.Request) *uint32) column {
	return column{
		name: name,
		put:  func(r *record.Request) (parquet.Value, bool) { return parquet.Int32Value(int32(*f(r))), true },
		get:  func(r *record.Request, v parquet.Value) { *f(r) = v.Uint32() },
	}
}

// count is a number of tokens with a value that means null.
func count(name string, null int32, f func(*record.Request) *int32) column {
	return column{
		name: name,
		put:  func(r *record.Request) (parquet.Value, bool) { v := *f(r); return parquet.Int32Value(v), v != null },
		get:  func(r *record.Request, v parquet.Value) { *f(r) = v.Int32() },
	}
}

func bools(name string, f func(*record.Request) *bool) column {
	return column{
		name: name,
		put:  func(r *record.Request) (parquet.Value, bool) { return parquet.BooleanValue(*f(r)), true },
		get:  func(r *record.Request, v parquet.Value) { *f(r) = v.Boolean() },
	}
}

// required is a string that is there even when empty, strings is null then.
func required(name string, f func(*record.Request) *string) column {
	return column{
		name: name,
		put:  func(r *record.Request) (parquet.Value, bool) { return text(*f(r)), true },
		get:  func(r *record.Request, v parquet.Value) { *f(r) = string(v.ByteArray()) },
	}
}

func optional(name string, f func(*record.Request) *string) column {
	c := required(name, f)
	c.put = func(r *record.Request) (parquet.Value, bool) { s := *f(r); return text(s), s != "" }
	return c
}

// enum is a column of the names of a small enum; "" is null.
func enum[T interface {
	~uint8
	fmt.Stringer
}](name string, f func(*record.Request) *T,
) column {
	values := make(map[string]T)
	var names [256]string
	for i := range 256 {
		s := T(i).String()
		names[i] = s
		if _, ok := values[s]; !ok {
			values[s] = T(i)
		}
	}
	return column{
		name: name,
		put:  func(r *record.Request) (parquet.Value, bool) { s := names[*f(r)]; return text(s), s != "" },
		get:  func(r *record.Request, v parquet.Value) { *f(r) = values[string(v.ByteArray())] },
	}
}

// list is a list with one entry per output event, null when all are usual.
func list(name string, usual func(*record.Event) bool, put func(*record.Event) parquet.Value, get func(*record.Event, parquet.Value)) column {
	return column{
		name: name,
		entries: func(dst []parquet.Value, r *record.Request) []parquet.Value {
			for i := range r.Events {
				if !usual(&r.Events[i]) {
					for i := range r.Events {
						dst = append(dst, put(&r.Events[i]))
					}
					break
				}
			}
			return dst
		},
		at: func(r *record.Request, i int, v parquet.Value) { get(event(r, i), v) },
	}
}

// maxEvents bounds what a damaged file can make a reader allocate.
const maxEvents = 1 << 24

// event returns event i of r, adding those that are missing; what is beyond the
// bound ends up in the last one.
func event(r *record.Request, i int) *record.Event {
	i = min(i, maxEvents-1)
	for len(r.Events) <= i {
		e := record.Event{Read: 1, Tokens: record.Unknown, Cumulative: record.Unknown, Channel: record.Content}
		if len(r.Events) == 0 {
			e.At = record.Unset // until it is known to be t_first_token or not
		}
		r.Events = append(r.Events, e)
	}
	return &r.Events[i]
}

// columns returns how each column is written and read.
func columns() []column {
	type request = record.Request
	flagBits := make(map[string]record.Flags)
	for i := range 32 {
		for _, n := range record.Flags(1 << i).Names() {
			flagBits[n] = 1 << i
		}
	}
	flagNames := make(map[record.Flags]string)
	return []column{
		uint64s("id", func(r *request) *uint64 { return &r.ID }),
		uint32s("agent", func(r *request) *uint32 { return &r.Agent }),
		required("workload", func(r *request) *string { return &r.Workload }),
		uint64s("session", func(r *request) *uint64 { return &r.Session }),
		uint32s("turn", func(r *request) *uint32 { return &r.Turn }),
		uint32s("user", func(r *request) *uint32 { return &r.User }),
		uint32s("step", func(r *request) *uint32 { return &r.Step }),
		enum("phase", func(r *request) *record.Phase { return &r.Phase }),
		uint32s("target", func(r *request) *uint32 { return &r.Target }),
		optional("remote", func(r *request) *string { return &r.Remote }),

		point("t_scheduled", func(r *request) *int64 { return &r.Scheduled }),
		point("t_start", func(r *request) *int64 { return &r.Start }),
		point("t_connected", func(r *request) *int64 { return &r.Connected }),
		point("t_sent", func(r *request) *int64 { return &r.Sent }),
		point("t_headers", func(r *request) *int64 { return &r.Headers }),
		point("t_first_event", func(r *request) *int64 { return &r.FirstEvent }),
		point("t_first_token", func(r *request) *int64 { return &r.FirstToken }),
		point("t_first_content", func(r *request) *int64 { return &r.FirstContent }),
		point("t_last_token", func(r *request) *int64 { return &r.LastToken }),
		point("t_end", func(r *request) *int64 { return &r.End }),
		point("t_retrieval_start", func(r *request) *int64 { return &r.RetrievalStart }),
		point("t_retrieval_end", func(r *request) *int64 { return &r.RetrievalEnd }),
		point("t_first_send", func(r *request) *int64 { return &r.FirstSend }),
		int64s("cap_wait", func(r *request) *int64 { return &r.CapWait }),

		bools("kernel_times", func(r *request) *bool { return &r.KernelTimes }),
		point("read_lag_mean", func(r *request) *int64 { return &r.ReadLagMean }),
		point("read_lag_max", func(r *request) *int64 { return &r.ReadLagMax }),
		uint32s("reads", func(r *request) *uint32 { return &r.Reads }),

		enum("status", func(r *request) *record.Status { return &r.Status }),
		enum("error_kind", func(r *request) *record.ErrorKind { return &r.Error }),
		{
			name: "http_status",
			put: func(r *request) (parquet.Value, bool) {
				return parquet.Int32Value(int32(r.HTTPStatus)), r.HTTPStatus != 0
			},
			get: func(r *request, v parquet.Value) { r.HTTPStatus = uint16(v.Uint32()) },
		},
		optional("finish_reason", func(r *request) *string { return &r.Finish }),
		optional("message", func(r *request) *string { return &r.Message }),
		{
			name: "flags",
			put: func(r *request) (parquet.Value, bool) {
				if r.Flags == 0 {
					return parquet.Value{}, false
				}
				s, ok := flagNames[r.Flags]
				if !ok {
					s = strings.Join(r.Flags.Names(), ",")
					flagNames[r.Flags] = s
				}
				return text(s), true
			},
			get: func(r *request, v parquet.Value) {
				for n := range strings.SplitSeq(string(v.ByteArray()), ",") {
					r.Flags |= flagBits[n]
				}
			},
		},
		{
			name: "resends",
			put:  func(r *request) (parquet.Value, bool) { return parquet.Int32Value(int32(r.Resends)), true },
			get:  func(r *request, v parquet.Value) { r.Resends = uint8(v.Uint32()) },
		},
		bools("reused", func(r *request) *bool { return &r.Reused }),

		count("asked_prompt_tokens", 0, func(r *request) *int32 { return &r.AskedPrompt }),
		count("asked_output_tokens", 0, func(r *request) *int32 { return &r.AskedOutput }),
		bools("asked_exact", func(r *request) *bool { return &r.AskedExact }),
		count("prompt_tokens", record.Unknown, func(r *request) *int32 { return &r.Prompt }),
		count("cached_tokens", record.Unknown, func(r *request) *int32 { return &r.Cached }),
		count("output_tokens", record.Unknown, func(r *request) *int32 { return &r.Output }),
		count("reasoning_tokens", record.Unknown, func(r *request) *int32 { return &r.Reasoning }),
		count("tokenizer_output_tokens", record.Unknown, func(r *request) *int32 { return &r.TokenizerOutput }),
		enum("token_source", func(r *request) *record.TokenSource { return &r.Source }),
		count("streamed_tokens", record.Unknown, func(r *request) *int32 { return &r.StreamedTokens }),
		count("first_event_tokens", record.Unknown, func(r *request) *int32 { return &r.FirstEventTokens }),
		enum("tpot_basis", func(r *request) *record.TPOTBasis { return &r.Basis }),

		bools("streamed", func(r *request) *bool { return &r.Streamed }),
		bools("asked_stream", func(r *request) *bool { return &r.AskedStream }),
		uint32s("stream_events", func(r *request) *uint32 { return &r.StreamEvents }),
		{
			name: "output_events",
			put:  func(r *request) (parquet.Value, bool) { return parquet.Int32Value(int32(len(r.Events))), true },
			get: func(r *request, v parquet.Value) {
				if n := v.Uint32(); n > 0 {
					event(r, int(n)-1)
				}
			},
		},
		int64s("sent_bytes", func(r *request) *int64 { return &r.SentBytes }),
		int64s("received_bytes", func(r *request) *int64 { return &r.ReceivedBytes }),
		int64s("text_bytes", func(r *request) *int64 { return &r.TextBytes }),
		uint32s("fallbacks", func(r *request) *uint32 { return &r.Fallbacks }),

		{
			name: "t_first_output",
			put: func(r *request) (parquet.Value, bool) {
				if len(r.Events) == 0 || r.Events[0].At == r.FirstToken {
					return parquet.Value{}, false
				}
				return parquet.Int64Value(r.Events[0].At), true
			},
			get: func(r *request, v parquet.Value) { event(r, 0).At = v.Int64() },
		},
		{
			name: "event_gaps",
			entries: func(dst []parquet.Value, r *request) []parquet.Value {
				for i := 1; i < len(r.Events); i++ {
					dst = append(dst, parquet.Int64Value(r.Events[i].At-r.Events[i-1].At))
				}
				return dst
			},
			// The differences are added up once the first event is known.
			at: func(r *request, i int, v parquet.Value) { event(r, i+1).At = v.Int64() },
		},
		list("event_tokens",
			func(e *record.Event) bool { return e.Tokens == record.Unknown },
			func(e *record.Event) parquet.Value { return parquet.Int32Value(e.Tokens) },
			func(e *record.Event, v parquet.Value) { e.Tokens = v.Int32() }),
		list("event_cumulative_tokens",
			func(e *record.Event) bool { return e.Cumulative == record.Unknown },
			func(e *record.Event) parquet.Value { return parquet.Int32Value(e.Cumulative) },
			func(e *record.Event, v parquet.Value) { e.Cumulative = v.Int32() }),
		list("event_text_bytes",
			func(e *record.Event) bool { return e.TextBytes == 0 },
			func(e *record.Event) parquet.Value { return parquet.Int32Value(int32(e.TextBytes)) },
			func(e *record.Event, v parquet.Value) { e.TextBytes = v.Uint32() }),
		{
			name: "event_reads",
			entries: func(dst []parquet.Value, r *request) []parquet.Value {
				n := len(r.Events)
				for n > 1 && r.Events[n-1].Read-r.Events[n-2].Read == 1 {
					n--
				}
				last := uint32(0)
				for i := range n {
					dst = append(dst, parquet.Int32Value(int32(r.Events[i].Read-last)))
					last = r.Events[i].Read
				}
				return dst
			},
			at: func(r *request, i int, v parquet.Value) { event(r, i).Read = v.Uint32() },
		},
		list("event_choices",
			func(e *record.Event) bool { return e.Choice == 0 },
			func(e *record.Event) parquet.Value { return parquet.Int32Value(int32(e.Choice)) },
			func(e *record.Event, v parquet.Value) { e.Choice = uint8(v.Int32()) }),
		list("event_channels",
			func(e *record.Event) bool { return e.Channel == record.Content },
			func(e *record.Event) parquet.Value { return parquet.Int32Value(int32(e.Channel)) },
			func(e *record.Event, v parquet.Value) { e.Channel = record.Channel(v.Int32()) }),
		list("event_bounded",
			func(e *record.Event) bool { return !e.Bounded },
			func(e *record.Event) parquet.Value { return parquet.BooleanValue(e.Bounded) },
			func(e *record.Event, v parquet.Value) { e.Bounded = v.Boolean() }),

		{
			name: "text",
			entries: func(dst []parquet.Value, r *request) []parquet.Value {
				for _, s := range r.Text {
					dst = append(dst, text(s))
				}
				return dst
			},
			at: func(r *request, _ int, v parquet.Value) { r.Text = append(r.Text, string(v.ByteArray())) },
		},
		optional("reasoning_text", func(r *request) *string { return &r.ReasoningText }),
		optional("refusal_text", func(r *request) *string { return &r.RefusalText }),
	}
}

// layout binds the columns to the leaves of a file's schema.
type layout struct {
	// leaves has the column of each leaf, nil for one that this version does not
	// know; optional says whether a scalar leaf can be null.
	leaves   []*column
	optional []bool
}

// layoutOf binds to s, whose columns may be fewer, more, or in another order.
func layoutOf(s *parquet.Schema) (*layout, error) {
	cols := columns()
	byName := make(map[string]*column, len(cols))
	for i := range cols {
		byName[cols[i].name] = &cols[i]
	}
	want := make(map[string]parquet.Kind)
	for _, path := range schema.Columns() {
		leaf, _ := schema.Lookup(path...)
		want[strings.Join(path, ".")] = leaf.Node.Type().Kind()
	}
	l := new(layout)
	for _, path := range s.Columns() {
		leaf, ok := s.Lookup(path...)
		if !ok {
			return nil, fmt.Errorf("column %s is in no schema", strings.Join(path, "."))
		}
		c := byName[path[0]]
		if kind, known := want[strings.Join(path, ".")]; !known {
			c = nil
		} else if kind != leaf.Node.Type().Kind() {
			return nil, fmt.Errorf("column %s has type %s, want %s", path[0], leaf.Node.Type(), kind)
		}
		l.leaves = append(l.leaves, c)
		l.optional = append(l.optional, leaf.MaxDefinitionLevel > 0)
	}
	return l, nil
}

// Levels of a list: optional group, repeated group, required element.
const (
	listNull  = 0
	listEntry = 2
)

// appendColumn appends the values of column i of r.
func (l *layout) appendColumn(dst []parquet.Value, i int, r *record.Request) []parquet.Value {
	c := l.leaves[i]
	if c.entries == nil {
		v, ok := c.put(r)
		level := 0
		switch {
		case !ok:
			v = parquet.Value{}
		case l.optional[i]:
			level = 1
		}
		return append(dst, v.Level(0, level, i))
	}
	from := len(dst)
	dst = c.entries(dst, r)
	if len(dst) == from {
		return append(dst, parquet.Value{}.Level(0, listNull, i))
	}
	dst[from] = dst[from].Level(0, listEntry, i)
	for j := from + 1; j < len(dst); j++ {
		dst[j] = dst[j].Level(1, listEntry, i)
	}
	return dst
}

// read makes r the record in row, of which nothing is kept.
func (l *layout) read(r *record.Request, row parquet.Row) {
	r.Reset()
	at, last := 0, -1
	for _, v := range row {
		i := v.Column()
		if i != last {
			at, last = 0, i
		}
		if i < 0 || i >= len(l.leaves) || l.leaves[i] == nil || v.IsNull() {
			continue
		}
		if c := l.leaves[i]; c.at != nil {
			c.at(r, at, v)
			at++
		} else {
			c.get(r, v)
		}
	}
	e := r.Events
	if len(e) > 0 && e[0].At == record.Unset {
		e[0].At = r.FirstToken
	}
	for i := 1; i < len(e); i++ {
		e[i].At += e[i-1].At
		e[i].Read += e[i-1].Read
	}
}
