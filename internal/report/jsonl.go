package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"math"

	"plimsoll/internal/plainjson"
	"plimsoll/internal/record"
	"plimsoll/internal/stats"
)

// Row is one request in the JSON lines report, under the names of the
// definitions page. Clock points are ns on the run's clock, latencies ms. What
// is not known is null.
type Row struct {
	ID       uint64 `json:"id"`
	Workload string `json:"workload"`
	Session  uint64 `json:"session"`
	Turn     uint32 `json:"turn"`
	User     uint32 `json:"user"`
	Step     uint32 `json:"step"`
	Agent    uint32 `json:"agent"`
	Phase    string `json:"phase"`
	Target   uint32 `json:"target"`
	Remote   string `json:"remote"`

	Status       string   `json:"status"`
	ErrorKind    *string  `json:"error_kind"`
	HTTPStatus   *uint16  `json:"http_status"`
	ErrorMessage *string  `json:"error_message"`
	FinishReason *string  `json:"finish_reason"`
	Flags        []string `json:"flags"`

	TScheduled    *int64 `json:"t_scheduled"`
	TStart        *int64 `json:"t_start"`
	TConnected    *int64 `json:"t_connected"`
	TSent         *int64 `json:"t_sent"`
	THeaders      *int64 `json:"t_headers"`
	TFirstEvent   *int64 `json:"t_first_event"`
	TFirstToken   *int64 `json:"t_first_token"`
	TFirstContent *int64 `json:"t_first_content"`
	TLastToken    *int64 `json:"t_last_token"`
	TEnd          *int64 `json:"t_end"`
	TFirstSend    *int64 `json:"t_first_send"`
	Timestamps    string `json:"timestamps"` // kernel or user

	TTFT             *float64 `json:"ttft_ms"`
	TTFTFromSchedule *float64 `json:"ttft_from_schedule_ms"`
	TTFC             *float64 `json:"ttfc_ms"`
	TTLT             *float64 `json:"ttlt_ms"`
	E2E              *float64 `json:"e2e_ms"`
	E2EFromSchedule  *float64 `json:"e2e_from_schedule_ms"`
	TPOT             *float64 `json:"tpot_ms"`
	TPOTBasis        *string  `json:"tpot_basis"`
	// ITLMean is the mean over the tokens of this request.
	ITLMean      *float64 `json:"itl_mean_ms"`
	EventGapMean *float64 `json:"event_gap_mean_ms"`
	Connect      *float64 `json:"connect_ms"`
	Upload       *float64 `json:"upload_ms"`
	Retrieval    *float64 `json:"retrieval_ms"`
	// TTFTWithRetrieval is absent of turns without a search.
	TTFTWithRetrieval *float64 `json:"ttft_with_retrieval_ms,omitempty"`
	SendLag           *float64 `json:"send_lag_ms"`
	CapWait           float64  `json:"cap_wait_ms"`
	ReadLag           *float64 `json:"read_lag_ms"`
	ReadLagMax        *float64 `json:"read_lag_max_ms"`
	PromptRate        *float64 `json:"prompt_rate"`
	TokenRate         *float64 `json:"token_rate"`

	AskedPrompt  *int32 `json:"asked_prompt_tokens"`
	AskedOutput  *int32 `json:"asked_output_tokens"`
	PromptTokens *int32 `json:"prompt_tokens"`
	// Of prompts with images or sounds alone: what was asked for as text, and what the
	// server counted beyond it.
	TextTokens  *int32 `json:"text_tokens,omitempty"`
	MediaTokens *int32 `json:"media_tokens,omitempty"`

	CachedTokens    *int32 `json:"cached_tokens"`
	OutputTokens    *int32 `json:"output_tokens"`
	ReasoningTokens *int32 `json:"reasoning_tokens"`
	StreamedTokens  *int32 `json:"streamed_tokens"`
	TokenSource     string `json:"token_source"`

	Streamed      bool   `json:"streamed"`
	StreamEvents  uint32 `json:"stream_events"`
	OutputEvents  int    `json:"output_events"`
	BoundedEvents int    `json:"bounded_events"`
	Reads         uint32 `json:"reads"`
	Reused        bool   `json:"reused"`
	Resends       uint8  `json:"resends"`
	SentBytes     int64  `json:"sent_bytes"`
	ReceivedBytes int64  `json:"received_bytes"`
	TextBytes     int64  `json:"text_bytes"`
	Fallbacks     uint32 `json:"fallbacks"`

	// Text and ReasoningText are there only when the run kept them.
	Text          []string `json:"text,omitempty"`
	ReasoningText *string  `json:"reasoning_text,omitempty"`
}

// NewRow makes the row of a request. It keeps nothing of r but its strings.
func NewRow(r *record.Request) *Row {
	row := &Row{
		ID: r.ID, Workload: r.Workload, Session: r.Session, Turn: r.Turn, User: r.User, Step: r.Step, Agent: r.Agent,
		Phase: r.Phase.String(), Target: r.Target, Remote: r.Remote,
		Status: r.Status.String(), Flags: r.Flags.Names(),
		TScheduled: point(r.Scheduled), TStart: point(r.Start), TConnected: point(r.Connected), TSent: point(r.Sent),
		THeaders: point(r.Headers), TFirstEvent: point(r.FirstEvent), TFirstToken: point(r.FirstToken),
		TFirstContent: point(r.FirstContent), TLastToken: point(r.LastToken), TEnd: point(r.End), TFirstSend: point(r.FirstSend),
		Timestamps: "user",

		TTFT: millis(stats.TTFT(r)), TTFTFromSchedule: millis(stats.TTFTFromSchedule(r)), TTFC: millis(stats.TTFC(r)),
		TTLT: millis(stats.TTLT(r)), E2E: millis(stats.E2E(r)), E2EFromSchedule: millis(stats.E2EFromSchedule(r)),
		Connect: millis(stats.Connect(r)), Upload: millis(stats.Upload(r)), Retrieval: millis(stats.Retrieval(r)), TTFTWithRetrieval: millis(stats.TTFTWithRetrieval(r)),
		SendLag: millis(stats.SendLag(r)), CapWait: float64(r.CapWait) / 1e6, ReadLag: millis(stats.ReadLag(r)),
		PromptRate: finite(stats.PromptRate(r)), TokenRate: finite(stats.TokenRate(r)),

		PromptTokens: tokens(r.Prompt), CachedTokens: tokens(r.Cached), OutputTokens: tokens(r.Output),
		ReasoningTokens: tokens(r.Reasoning), StreamedTokens: tokens(r.StreamedTokens), TokenSource: r.Source.String(),

		Streamed: r.Streamed, StreamEvents: r.StreamEvents, OutputEvents: len(r.Events), Reads: r.Reads,
		Reused: r.Reused, Resends: r.Resends, SentBytes: r.SentBytes, ReceivedBytes: r.ReceivedBytes,
		TextBytes: r.TextBytes, Fallbacks: r.Fallbacks, Text: r.Text,
	}
	if row.Flags == nil {
		row.Flags = []string{}
	}
	if r.KernelTimes {
		row.Timestamps = "kernel"
		if r.ReadLagMax != record.Unset {
			row.ReadLagMax = millis(r.ReadLagMax, true)
		}
	}
	if r.Error != record.NoError {
		row.ErrorKind = new(r.Error.String())
	}
	if r.HTTPStatus != 0 {
		row.HTTPStatus = new(r.HTTPStatus)
	}
	if r.Message != "" {
		row.ErrorMessage = new(r.Message)
	}
	if r.Finish != "" {
		row.FinishReason = new(r.Finish)
	}
	if ns, basis, ok := stats.TPOT(r); ok {
		row.TPOT, row.TPOTBasis = new(ns/1e6), new(basis.String())
	}
	var sum, n int64
	if stats.ITL(r, func(gap int64, k int32) { sum, n = sum+gap, n+int64(k) }) && n > 0 {
		row.ITLMean = new(float64(sum) / float64(n) / 1e6)
	}
	sum, n = 0, 0
	stats.EventGaps(r, func(gap int64) { sum, n = sum+gap, n+1 })
	if n > 0 {
		row.EventGapMean = new(float64(sum) / float64(n) / 1e6)
	}
	if r.AskedPrompt > 0 {
		row.AskedPrompt = new(r.AskedPrompt)
	}
	if r.AskedText > 0 {
		row.TextTokens = new(r.AskedText)
	}
	if n, ok := stats.MediaTokens(r); ok {
		row.MediaTokens = &n
	}
	if r.AskedOutput > 0 {
		row.AskedOutput = new(r.AskedOutput)
	}
	for i := range r.Events {
		if r.Events[i].Bounded {
			row.BoundedEvents++
		}
	}
	if r.ReasoningText != "" {
		row.ReasoningText = new(r.ReasoningText)
	}
	return row
}

func point(t int64) *int64 {
	if t == record.Unset {
		return nil
	}
	return &t
}

func millis(ns int64, ok bool) *float64 {
	if !ok {
		return nil
	}
	return new(float64(ns) / 1e6)
}

func finite(v float64, ok bool) *float64 {
	if !ok || math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

func tokens(n int32) *int32 {
	if n == record.Unknown {
		return nil
	}
	return &n
}

// JSONLines writes one row a line for every request of seq. It ends at the first
// error of seq or of w.
func JSONLines(w io.Writer, seq iter.Seq2[*record.Request, error]) error {
	b := bufio.NewWriterSize(w, 1<<16)
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	for r, err := range seq {
		if err != nil {
			_ = b.Flush()
			return err
		}
		line.Reset()
		err := enc.Encode(NewRow(r))
		if err == nil {
			_, err = b.Write(plainjson.Escape(line.Bytes()))
		}
		if err != nil {
			return fmt.Errorf("write request %d: %w", r.ID, err)
		}
	}
	return b.Flush()
}
