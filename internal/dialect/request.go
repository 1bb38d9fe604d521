package dialect

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"plimsoll/internal/message"
)

// APIs lists the APIs that this build speaks.
func APIs() []API { return []API{OpenAIChat, OpenAICompletions} }

// Lookup returns the API of that name, or an error that names the nearest one.
func Lookup(name string) (API, error) {
	best, at := API(""), math.MaxInt
	for _, a := range APIs() {
		if string(a) == name {
			return a, nil
		}
		if d := distance(name, string(a)); d < at {
			best, at = a, d
		}
	}
	return "", fmt.Errorf("look up API: %q is not known, want one of %q, nearest is %q", name, APIs(), best)
}

// distance is the edit distance of two short names.
func distance(a, b string) int {
	if len(a) > 64 {
		a = a[:64]
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// Path is the API's path below the root of a server, "" for an unknown API.
func (a API) Path() string {
	switch a {
	case OpenAIChat:
		return "/v1/chat/completions"
	case OpenAICompletions:
		return "/v1/completions"
	}
	return ""
}

// AppendRequest appends the body of req for api to dst. Neighbouring parts of
// one role are one message; completions get all parts as one text. Where two
// texts meet without white space between them, one space keeps their words
// apart. The fields come in a fixed order, those of o.Extra last and sorted:
// they replace fields of the same name, and one that is nil leaves its field
// out. max_completion_tokens in o.Extra also replaces max_tokens. r makes the
// text of parts that have none and may be nil when all have. The body is valid
// UTF-8 whatever the texts hold.
func AppendRequest(dst []byte, api API, req *message.Request, r message.Renderer, o *Options) ([]byte, error) {
	if api.Path() == "" {
		return dst, fmt.Errorf("make request body: API %q is not known, want one of %q", api, APIs())
	}
	w := bodyWriter{dst: append(dst, '{'), extra: o.Extra}
	if (req.Body == "" || o.Model != "") && w.field("model") {
		w.dst = appendQuoted(w.dst, o.Model)
	}
	var err error
	switch {
	case req.Body != "":
		err = w.given(req.Body, req.Exact, o)
	case api == OpenAIChat:
		if w.field("messages") {
			w.dst, err = appendMessages(w.dst, req.Parts, r)
		}
	case w.field("prompt"):
		w.dst = append(w.dst, '"')
		w.dst, err = appendParts(w.dst, req.Parts, r)
		w.dst = append(w.dst, '"')
	}
	if err != nil {
		return dst, err
	}
	if _, renamed := o.Extra["max_completion_tokens"]; req.MaxTokens > 0 && !renamed && !w.have["max_completion_tokens"] && w.field("max_tokens") {
		w.dst = appendInt(w.dst, int64(req.MaxTokens))
	}
	if req.Choices > 1 && w.field("n") {
		w.dst = appendInt(w.dst, int64(req.Choices))
	}
	if req.ReasoningEffort != "" && w.field("reasoning_effort") {
		w.dst = appendQuoted(w.dst, req.ReasoningEffort)
	}
	if req.ResponseSchema != "" && w.field("response_format") {
		if !json.Valid([]byte(req.ResponseSchema)) {
			return dst, fmt.Errorf("make request body: the schema of the answer is not JSON: %q", req.ResponseSchema)
		}
		w.dst = append(w.dst, `{"type":"json_schema","json_schema":{"name":"answer","schema":`...)
		w.dst = append(w.dst, req.ResponseSchema...)
		w.dst = append(w.dst, "}}"...)
	}
	if o.Temperature != nil && w.field("temperature") {
		if math.IsNaN(*o.Temperature) || math.IsInf(*o.Temperature, 0) {
			return dst, fmt.Errorf("make request body: temperature %v, want a finite number", *o.Temperature)
		}
		w.dst = strconv.AppendFloat(w.dst, *o.Temperature, 'g', -1, 64)
	}
	if o.Stream && w.field("stream") {
		w.dst = append(w.dst, "true"...)
	}
	if o.Stream && (o.Usage || o.RunningUsage) && w.field("stream_options") {
		w.dst = append(w.dst, `{"include_usage":true`...)
		if o.RunningUsage {
			w.dst = append(w.dst, `,"continuous_usage_stats":true`...)
		}
		w.dst = append(w.dst, '}')
	}
	if exact := req.Exact || o.IgnoreEOS; exact {
		if w.field("ignore_eos") {
			w.dst = append(w.dst, "true"...)
		}
		if req.MaxTokens > 0 && w.field("min_tokens") {
			w.dst = appendInt(w.dst, int64(req.MaxTokens))
		}
	}
	if len(o.Extra) > 0 {
		for _, k := range slices.Sorted(maps.Keys(o.Extra)) {
			v := o.Extra[k]
			if v == nil {
				continue
			}
			b, err := json.Marshal(v)
			if err != nil {
				return dst, fmt.Errorf("make request body: extra field %q: %w", k, err)
			}
			w.comma()
			w.dst = appendQuoted(w.dst, k)
			w.dst = append(w.dst, ':')
			w.dst = append(w.dst, b...)
		}
	}
	return append(w.dst, '}'), nil
}

type bodyWriter struct {
	dst   []byte
	extra map[string]any
	have  map[string]bool // fields of a given body
	some  bool
}

func (w *bodyWriter) comma() {
	if w.some {
		w.dst = append(w.dst, ',')
	}
	w.some = true
}

// field begins a field unless an extra field takes its place.
func (w *bodyWriter) field(name string) bool {
	if _, replaced := w.extra[name]; replaced || w.have[name] {
		return false
	}
	w.comma()
	w.dst = append(w.dst, '"')
	w.dst = append(w.dst, name...)
	w.dst = append(w.dst, '"', ':')
	return true
}

func appendMessages(dst []byte, parts []message.Part, r message.Renderer) ([]byte, error) {
	dst = append(dst, '[')
	for i := 0; i < len(parts); {
		j := i + 1
		for j < len(parts) && parts[j].Role == parts[i].Role {
			j++
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"role":"`...)
		dst = append(dst, parts[i].Role.String()...)
		dst = append(dst, `","content":"`...)
		var err error
		if dst, err = appendParts(dst, parts[i:j], r); err != nil {
			return dst, err
		}
		dst = append(dst, '"', '}')
		i = j
	}
	return append(dst, ']'), nil
}

// appendParts appends the texts of parts, joined and escaped.
func appendParts(dst []byte, parts []message.Part, r message.Renderer) ([]byte, error) {
	start := len(dst)
	for i := range parts {
		p := &parts[i]
		seam := len(dst)
		if p.Text != "" {
			dst = appendEscaped(dst, p.Text)
		} else if p.Tokens > 0 || p.Generator != "" {
			if r == nil {
				return dst, fmt.Errorf("make request body: part %d has no text and nothing renders generator %q", i, p.Generator)
			}
			dst = r.AppendText(dst, p)
			if needsEscape(dst[seam:]) {
				raw := string(dst[seam:])
				dst = appendEscaped(dst[:seam], raw)
			}
		}
		if seam > start && len(dst) > seam && !spaceBefore(dst[start:seam]) && !spaceAfter(dst[seam:]) {
			dst = append(dst, 0)
			copy(dst[seam+1:], dst[seam:])
			dst[seam] = ' '
		}
	}
	return dst, nil
}

// spaceBefore reports whether the escaped text b ends with white space,
// spaceAfter whether it begins with it.
func spaceBefore(b []byte) bool {
	n := len(b)
	return b[n-1] == ' ' || n >= 2 && b[n-2] == '\\' && (b[n-1] == 'n' || b[n-1] == 't' || b[n-1] == 'r')
}

func spaceAfter(b []byte) bool {
	return b[0] == ' ' || len(b) >= 2 && b[0] == '\\' && (b[1] == 'n' || b[1] == 't' || b[1] == 'r')
}
