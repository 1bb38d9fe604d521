package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// hashes are block ids of up to 64 bits. They are never read as floats, in which
// ids above 2^53 become equal. Negative ones are 64-bit patterns that a writer
// took for signed; texts are decimal or, with 0x, hexadecimal.
type hashes []uint64

// UnmarshalJSON reads a list of ids.
func (h *hashes) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	if len(b) == 0 || b[0] != '[' {
		return &valueError{"type", "hash_ids: " + shown(string(b)) + " is not a list of hashes"}
	}
	b = bytes.TrimSpace(b[1 : len(b)-1])
	if len(b) == 0 {
		*h = nil
		return nil
	}
	out := make([]uint64, 0, bytes.Count(b, []byte(","))+1)
	for len(b) > 0 {
		var one []byte
		one, b, _ = bytes.Cut(b, []byte(","))
		s := string(bytes.TrimSpace(one))
		v, err := parseHash(s)
		if err != nil {
			return &valueError{"hash", "hash_ids: " + shown(s) + " is not a whole number of up to 64 bits"}
		}
		out = append(out, v)
	}
	*h = out
	return nil
}

func parseHash(s string) (uint64, error) {
	if len(s) > 1 && s[0] == '"' && s[len(s)-1] == '"' {
		s = s[1 : len(s)-1]
	}
	if x, ok := strings.CutPrefix(s, "0x"); ok {
		return strconv.ParseUint(x, 16, 64)
	}
	if strings.HasPrefix(s, "-") {
		v, err := strconv.ParseInt(s, 10, 64)
		return uint64(v), err
	}
	return strconv.ParseUint(s, 10, 64)
}

// number is a number of a file in its own digits; a text with a number or a date
// is taken for what it says.
type number string

// UnmarshalJSON keeps the digits.
func (n *number) UnmarshalJSON(b []byte) error {
	switch {
	case string(b) == "null":
		*n = ""
	case len(b) > 1 && b[0] == '"':
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*n = number(strings.TrimSpace(s))
	case len(b) > 0 && (b[0] == '-' || b[0] >= '0' && b[0] <= '9'):
		*n = number(b)
	default:
		return &valueError{"type", shown(string(b)) + " is not a number"}
	}
	return nil
}

// count is a number under one of the names that it may have.
type count struct {
	field string
	n     number
}

// count reads the first count of tokens that is there; absent ones are Unknown.
func (r *Reader) count(line int, of ...count) (int, error) {
	for _, c := range of {
		if c.n != "" {
			return r.tokens(line, c.field, c.n)
		}
	}
	return Unknown, nil
}

// tokens reads a count of tokens; absent ones are Unknown.
func (r *Reader) tokens(line int, field string, n number) (int, error) {
	if n == "" {
		return Unknown, nil
	}
	v, err := strconv.ParseInt(string(n), 10, 64)
	if err != nil {
		f, ferr := strconv.ParseFloat(string(n), 64)
		switch {
		case math.IsNaN(f) || ferr != nil && !errors.Is(ferr, strconv.ErrRange):
			return 0, r.bad(line, field, "number", shown(string(n))+" is not a whole number")
		case math.Abs(f) > maxTokens:
			return 0, r.bad(line, field, "length", fmt.Sprintf("%s, want 0 to %d", shown(string(n)), maxTokens))
		case f != math.Trunc(f):
			return 0, r.bad(line, field, "number", shown(string(n))+" is not a whole number")
		}
		v = int64(f)
	}
	if v < 0 || v > maxTokens {
		return 0, r.bad(line, field, "length", fmt.Sprintf("%d, want 0 to %d", v, maxTokens))
	}
	return int(v), nil
}

// id is a name that may be written as a number.
type id string

// UnmarshalJSON reads a text or a number.
func (i *id) UnmarshalJSON(b []byte) error {
	switch {
	case string(b) == "null":
		*i = ""
	case len(b) > 1 && b[0] == '"':
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*i = id(s)
	case len(b) > 0 && (b[0] == '-' || b[0] >= '0' && b[0] <= '9'):
		*i = id(b)
	default:
		return &valueError{"type", shown(string(b)) + " is neither a text nor a number"}
	}
	return nil
}

// one is a text or a list of texts; AIPerf has lists of texts with a name, too:
// {"name": ..., "contents": [...]}.
type one []string

// UnmarshalJSON reads any of them.
func (o *one) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*o = one{s}
		return nil
	}
	var list []string
	if json.Unmarshal(b, &list) != nil {
		list = nil
		var named []struct {
			Contents []string `json:"contents"`
		}
		if json.Unmarshal(b, &named) != nil {
			return &valueError{"type", shown(string(b)) + " is neither a text nor a list of texts"}
		}
		for _, n := range named {
			if n.Contents == nil {
				return &valueError{"type", shown(string(b)) + " is neither a list of texts nor of contents"}
			}
			list = append(list, n.Contents...)
		}
	}
	*o = list
	return nil
}
