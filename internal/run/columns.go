package run

import (
	"fmt"
	"strings"

	"github.com/parquet-go/parquet-go"

	"plimsoll/internal/record"
)

// row states the columns of requests/part-*.parquet, in order: the names of
// METRICS.md in snake case, times and durations in ns on the run's clock, null
// for unknown, enums by name. Rows are written by its type, whole columns at a
// time, and read by the table below. A null is a nil pointer or slice, or the
// zero value where that is never a value of its own.
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

	TScheduled      *int64 `parquet:"t_scheduled"`
	TStart          *int64 `parquet:"t_start"`
	TConnected      *int64 `parquet:"t_connected"`
	TSent           *int64 `parquet:"t_sent"`
	THeaders        *int64 `parquet:"t_headers"`
	TFirstEvent     *int64 `parquet:"t_first_event"`
	TFirstToken     *int64 `parquet:"t_first_token"`
	TFirstContent   *int64 `parquet:"t_first_content"`
	TLastToken      *int64 `parquet:"t_last_token"`
	TEnd            *int64 `parquet:"t_end"`
	TRetrievalStart *int64 `parquet:"t_retrieval_start"`
	TRetrievalEnd   *int64 `parquet:"t_retrieval_end"`
	// The start of an attempt that died unanswered on a reused connection.
	TFirstSend *int64 `parquet:"t_first_send"`
	// The time under a cap in flight, between t_scheduled and t_start.
	CapWait int64 `parquet:"cap_wait,delta"`

	KernelTimes bool   `parquet:"kernel_times"`
	ReadLagMean *int64 `parquet:"read_lag_mean"`
	ReadLagMax  *int64 `parquet:"read_lag_max"`
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
	AskedText       int32  `parquet:"asked_text_tokens,optional"`
	AskedExact      bool   `parquet:"asked_exact"`
	Prompt          *int32 `parquet:"prompt_tokens"`
	Cached          *int32 `parquet:"cached_tokens"`
	Output          *int32 `parquet:"output_tokens"`
	Reasoning       *int32 `parquet:"reasoning_tokens"`
	TokenizerOutput *int32 `parquet:"tokenizer_output_tokens"`
	TokenSource     string `parquet:"token_source,dict"`
	StreamedTokens  *int32 `parquet:"streamed_tokens"`
	FirstEvent      *int32 `parquet:"first_event_tokens"`
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
	TFirstOutput *int64 `parquet:"t_first_output"`
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

// column reads one column of a record. Exactly one of its functions is set.
type column struct {
	name string
	// get takes a value that is not null, at entry i of a list.
	get func(r *record.Request, v parquet.Value)
	at  func(r *record.Request, i int, v parquet.Value)
	// int64s and int32s are, where there are many entries, at for all of them.
	int64s func(r *record.Request, list []int64)
	int32s func(r *record.Request, list []int32)
}

func int64s(name string, f func(*record.Request) *int64) column {
	return column{name: name, get: func(r *record.Request, v parquet.Value) { *f(r) = v.Int64() }}
}

func uint64s(name string, f func(*record.Request) *uint64) column {
	return column{name: name, get: func(r *record.Request, v parquet.Value) { *f(r) = v.Uint64() }}
}

func uint32s(name string, f func(*record.Request) *uint32) column {
	return column{name: name, get: func(r *record.Request, v parquet.Value) { *f(r) = v.Uint32() }}
}

func int32s(name string, f func(*record.Request) *int32) column {
	return column{name: name, get: func(r *record.Request, v parquet.Value) { *f(r) = v.Int32() }}
}

func bools(name string, f func(*record.Request) *bool) column {
	return column{name: name, get: func(r *record.Request, v parquet.Value) { *f(r) = v.Boolean() }}
}

// words is strs for a column of few different texts, which are made once.
func words(name string, f func(*record.Request) *string) column {
	const most = 1000
	known := make(map[string]string)
	return column{name: name, get: func(r *record.Request, v parquet.Value) {
		s, ok := known[string(v.ByteArray())]
		if !ok {
			if s = string(v.ByteArray()); len(known) < most {
				known[s] = s
			}
		}
		*f(r) = s
	}}
}

func strs(name string, f func(*record.Request) *string) column {
	return column{name: name, get: func(r *record.Request, v parquet.Value) { *f(r) = string(v.ByteArray()) }}
}

// enum is a column of the names of a small enum.
func enum[T interface {
	~uint8
	fmt.Stringer
}](name string, f func(*record.Request) *T,
) column {
	values := make(map[string]T)
	for i := range 256 {
		s := T(i).String()
		if _, ok := values[s]; !ok {
			values[s] = T(i)
		}
	}
	return column{name: name, get: func(r *record.Request, v parquet.Value) { *f(r) = values[string(v.ByteArray())] }}
}

// list is a list with one entry per output event.
func list(name string, get func(*record.Event, parquet.Value)) column {
	return column{name: name, at: func(r *record.Request, i int, v parquet.Value) { get(event(r, i), v) }}
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

// columns returns how each column is read.
func columns() []column {
	type request = record.Request
	flagBits := make(map[string]record.Flags)
	for i := range 32 {
		for _, n := range record.Flags(1 << i).Names() {
			flagBits[n] = 1 << i
		}
	}
	return []column{
		uint64s("id", func(r *request) *uint64 { return &r.ID }),
		uint32s("agent", func(r *request) *uint32 { return &r.Agent }),
		words("workload", func(r *request) *string { return &r.Workload }),
		uint64s("session", func(r *request) *uint64 { return &r.Session }),
		uint32s("turn", func(r *request) *uint32 { return &r.Turn }),
		uint32s("user", func(r *request) *uint32 { return &r.User }),
		uint32s("step", func(r *request) *uint32 { return &r.Step }),
		enum("phase", func(r *request) *record.Phase { return &r.Phase }),
		uint32s("target", func(r *request) *uint32 { return &r.Target }),
		words("remote", func(r *request) *string { return &r.Remote }),

		int64s("t_scheduled", func(r *request) *int64 { return &r.Scheduled }),
		int64s("t_start", func(r *request) *int64 { return &r.Start }),
		int64s("t_connected", func(r *request) *int64 { return &r.Connected }),
		int64s("t_sent", func(r *request) *int64 { return &r.Sent }),
		int64s("t_headers", func(r *request) *int64 { return &r.Headers }),
		int64s("t_first_event", func(r *request) *int64 { return &r.FirstEvent }),
		int64s("t_first_token", func(r *request) *int64 { return &r.FirstToken }),
		int64s("t_first_content", func(r *request) *int64 { return &r.FirstContent }),
		int64s("t_last_token", func(r *request) *int64 { return &r.LastToken }),
		int64s("t_end", func(r *request) *int64 { return &r.End }),
		int64s("t_retrieval_start", func(r *request) *int64 { return &r.RetrievalStart }),
		int64s("t_retrieval_end", func(r *request) *int64 { return &r.RetrievalEnd }),
		int64s("t_first_send", func(r *request) *int64 { return &r.FirstSend }),
		int64s("cap_wait", func(r *request) *int64 { return &r.CapWait }),

		bools("kernel_times", func(r *request) *bool { return &r.KernelTimes }),
		int64s("read_lag_mean", func(r *request) *int64 { return &r.ReadLagMean }),
		int64s("read_lag_max", func(r *request) *int64 { return &r.ReadLagMax }),
		uint32s("reads", func(r *request) *uint32 { return &r.Reads }),

		enum("status", func(r *request) *record.Status { return &r.Status }),
		enum("error_kind", func(r *request) *record.ErrorKind { return &r.Error }),
		{
			name: "http_status",
			get:  func(r *request, v parquet.Value) { r.HTTPStatus = uint16(v.Uint32()) },
		},
		words("finish_reason", func(r *request) *string { return &r.Finish }),
		strs("message", func(r *request) *string { return &r.Message }),
		{
			name: "flags",
			get: func(r *request, v parquet.Value) {
				for n := range strings.SplitSeq(string(v.ByteArray()), ",") {
					r.Flags |= flagBits[n]
				}
			},
		},
		{
			name: "resends",
			get:  func(r *request, v parquet.Value) { r.Resends = uint8(v.Uint32()) },
		},
		bools("reused", func(r *request) *bool { return &r.Reused }),

		int32s("asked_prompt_tokens", func(r *request) *int32 { return &r.AskedPrompt }),
		int32s("asked_output_tokens", func(r *request) *int32 { return &r.AskedOutput }),
		int32s("asked_text_tokens", func(r *request) *int32 { return &r.AskedText }),
		bools("asked_exact", func(r *request) *bool { return &r.AskedExact }),
		int32s("prompt_tokens", func(r *request) *int32 { return &r.Prompt }),
		int32s("cached_tokens", func(r *request) *int32 { return &r.Cached }),
		int32s("output_tokens", func(r *request) *int32 { return &r.Output }),
		int32s("reasoning_tokens", func(r *request) *int32 { return &r.Reasoning }),
		int32s("tokenizer_output_tokens", func(r *request) *int32 { return &r.TokenizerOutput }),
		enum("token_source", func(r *request) *record.TokenSource { return &r.Source }),
		int32s("streamed_tokens", func(r *request) *int32 { return &r.StreamedTokens }),
		int32s("first_event_tokens", func(r *request) *int32 { return &r.FirstEventTokens }),
		enum("tpot_basis", func(r *request) *record.TPOTBasis { return &r.Basis }),

		bools("streamed", func(r *request) *bool { return &r.Streamed }),
		bools("asked_stream", func(r *request) *bool { return &r.AskedStream }),
		uint32s("stream_events", func(r *request) *uint32 { return &r.StreamEvents }),
		{
			name: "output_events",
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
			get:  func(r *request, v parquet.Value) { event(r, 0).At = v.Int64() },
		},
		{
			name: "event_gaps",
			// The differences are added up once the first event is known.
			at: func(r *request, i int, v parquet.Value) { event(r, i+1).At = v.Int64() },
			int64s: func(r *request, list []int64) {
				event(r, len(list))
				for i, v := range list[:min(len(list), len(r.Events)-1)] {
					r.Events[i+1].At = v
				}
			},
		},
		{
			name: "event_tokens",
			at:   func(r *request, i int, v parquet.Value) { event(r, i).Tokens = v.Int32() },
			int32s: func(r *request, list []int32) {
				event(r, len(list)-1)
				for i, v := range list[:min(len(list), len(r.Events))] {
					r.Events[i].Tokens = v
				}
			},
		},
		list("event_cumulative_tokens",
			func(e *record.Event, v parquet.Value) { e.Cumulative = v.Int32() }),
		list("event_text_bytes",
			func(e *record.Event, v parquet.Value) { e.TextBytes = v.Uint32() }),
		{
			name: "event_reads",
			at:   func(r *request, i int, v parquet.Value) { event(r, i).Read = v.Uint32() },
		},
		list("event_choices",
			func(e *record.Event, v parquet.Value) { e.Choice = uint8(v.Int32()) }),
		list("event_channels",
			func(e *record.Event, v parquet.Value) { e.Channel = record.Channel(v.Int32()) }),
		list("event_bounded",
			func(e *record.Event, v parquet.Value) { e.Bounded = v.Boolean() }),

		{
			name: "text",
			at:   func(r *request, _ int, v parquet.Value) { r.Text = append(r.Text, string(v.ByteArray())) },
		},
		strs("reasoning_text", func(r *request) *string { return &r.ReasoningText }),
		strs("refusal_text", func(r *request) *string { return &r.RefusalText }),
	}
}

// layout binds the columns to the leaves of a file's schema.
type layout struct {
	// leaves has the column of each leaf, nil for one that this version does not
	// know.
	leaves []*column
	// levels are the leaves as the file has them.
	levels []parquet.LeafColumn
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
		l.leaves, l.levels = append(l.leaves, c), append(l.levels, leaf)
	}
	return l, nil
}

// fill makes w the row of r, whose events are in t. It points into both.
func (w *row) fill(r *record.Request, t *timeline, flags string) {
	*w = row{
		ID: r.ID, Agent: r.Agent, Workload: r.Workload, Session: r.Session, Turn: r.Turn, User: r.User, Step: r.Step,
		Phase: r.Phase.String(), Target: r.Target, Remote: r.Remote,

		TScheduled: point(&r.Scheduled), TStart: point(&r.Start), TConnected: point(&r.Connected), TSent: point(&r.Sent),
		THeaders: point(&r.Headers), TFirstEvent: point(&r.FirstEvent), TFirstToken: point(&r.FirstToken),
		TFirstContent: point(&r.FirstContent), TLastToken: point(&r.LastToken), TEnd: point(&r.End),
		TRetrievalStart: point(&r.RetrievalStart), TRetrievalEnd: point(&r.RetrievalEnd),
		TFirstSend: point(&r.FirstSend), CapWait: r.CapWait,

		KernelTimes: r.KernelTimes, ReadLagMean: point(&r.ReadLagMean), ReadLagMax: point(&r.ReadLagMax), Reads: r.Reads,

		Status: r.Status.String(), ErrorKind: r.Error.String(), HTTPStatus: uint32(r.HTTPStatus), Finish: r.Finish,
		Message: r.Message, Flags: flags, Resends: uint32(r.Resends), Reused: r.Reused,

		AskedPrompt: r.AskedPrompt, AskedOutput: r.AskedOutput, AskedText: r.AskedText, AskedExact: r.AskedExact,
		Prompt: count(&r.Prompt), Cached: count(&r.Cached), Output: count(&r.Output), Reasoning: count(&r.Reasoning),
		TokenizerOutput: count(&r.TokenizerOutput), TokenSource: r.Source.String(), StreamedTokens: count(&r.StreamedTokens),
		FirstEvent: count(&r.FirstEventTokens), TPOTBasis: r.Basis.String(),

		Streamed: r.Streamed, AskedStream: r.AskedStream, StreamEvents: r.StreamEvents, OutputEvents: uint32(t.n),
		SentBytes: r.SentBytes, ReceivedBytes: r.ReceivedBytes, TextBytes: r.TextBytes, Fallbacks: r.Fallbacks,

		EventGaps: t.gaps, EventTokens: t.tokens, EventCumulative: t.cumulative, EventTextBytes: t.textBytes,
		EventReads: t.reads, EventChoices: t.choices, EventChannels: t.channels, EventBounded: t.bounded,

		Text: r.Text, Reason: r.ReasoningText, RefusalOf: r.RefusalText,
	}
	if t.n > 0 && t.first != r.FirstToken {
		w.TFirstOutput = &t.first
	}
}

func point(p *int64) *int64 {
	if *p == record.Unset {
		return nil
	}
	return p
}

func count(p *int32) *int32 {
	if *p == record.Unknown {
		return nil
	}
	return p
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
	follow(r.Events, r.FirstToken)
}

// follow makes times of the gaps between events, and numbers of their reads.
func follow(e []record.Event, firstToken int64) {
	if len(e) > 0 && e[0].At == record.Unset {
		e[0].At = firstToken
	}
	for i := 1; i < len(e); i++ {
		e[i].At += e[i-1].At
		e[i].Read += e[i-1].Read
	}
}
