package dialect

import (
	"encoding/binary"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// clean[c] is true for the ASCII bytes that a JSON string holds as they are.
var clean = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// appendQuoted appends s as a JSON string, quotes included. Bytes that are not
// valid UTF-8 become U+FFFD, so that the body is always valid JSON.
func appendQuoted[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	dst = appendEscaped(dst, s)
	return append(dst, '"')
}

// appendEscaped is appendQuoted without the quotes.
func appendEscaped[T string | []byte](dst []byte, s T) []byte {
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if clean[c] {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := decodeRune(s[i:])
			if r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
			dst = append(dst, s[from:i]...)
			dst = append(dst, "\ufffd"...)
			i++
			from = i
			continue
		}
		dst = append(dst, s[from:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		from = i
	}
	return append(dst, s[from:]...)
}

func decodeRune[T string | []byte](s T) (rune, int) {
	n := min(len(s), utf8.UTFMax)
	var b [utf8.UTFMax]byte
	copy(b[:], s[:n])
	return utf8.DecodeRune(b[:n])
}

// needsEscape reports whether b cannot stand in a JSON string as it is.
func needsEscape(b []byte) bool {
	ascii, i := true, 0
	for ; i+8 <= len(b); i += 8 { // eight bytes at a time: prompts are long
		w := binary.LittleEndian.Uint64(b[i:])
		const low, high = 0x0101010101010101, 0x8080808080808080
		if equal(w, '"')|equal(w, '\\')|(w-low*0x20)&^w&high != 0 {
			return true
		}
		ascii = ascii && w&high == 0
	}
	for _, c := range b[i:] {
		if !clean[c] {
			if c < utf8.RuneSelf {
				return true
			}
			ascii = false
		}
	}
	return !ascii && !utf8.Valid(b)
}

// appendText appends the text that the inside of a JSON string stands for, as
// encoding/json decodes it: invalid UTF-8 and lone surrogates become U+FFFD. It
// is false when raw holds an escape that JSON does not have.
func appendText(dst, raw []byte) ([]byte, bool) {
	for i := 0; i < len(raw); {
		c := raw[i]
		switch {
		case c == '\\':
			r, n := unescape(raw[i:])
			if n == 0 {
				return dst, false
			}
			dst = utf8.AppendRune(dst, r)
			i += n
		case c < utf8.RuneSelf:
			j := i + 1
			for j < len(raw) && raw[j] < utf8.RuneSelf && raw[j] != '\\' {
				j++
			}
			dst = append(dst, raw[i:j]...)
			i = j
		default:
			r, n := utf8.DecodeRune(raw[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
		}
	}
	return dst, true
}

// textLen is the length of what appendText would append.
func textLen(raw []byte) (n int, ok bool) {
	for i := 0; i < len(raw); {
		c := raw[i]
		switch {
		case c == '\\':
			r, size := unescape(raw[i:])
			if size == 0 {
				return 0, false
			}
			n += utf8.RuneLen(r)
			i += size
		case c < utf8.RuneSelf:
			i++
			n++
		default:
			r, size := utf8.DecodeRune(raw[i:])
			n += utf8.RuneLen(r)
			i += size
		}
	}
	return n, true
}

// unescape decodes the escape at the start of b, which begins with a backslash,
// and returns its length, 0 when it is none of JSON's. Two \u escapes that form
// a surrogate pair are one; a lone surrogate is U+FFFD.
func unescape(b []byte) (rune, int) {
	if len(b) < 2 {
		return 0, 0
	}
	switch b[1] {
	case '"', '\\', '/':
		return rune(b[1]), 2
	case 'n':
		return '\n', 2
	case 't':
		return '\t', 2
	case 'r':
		return '\r', 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'u':
		r, ok := hex4(b[2:])
		if !ok {
			return 0, 0
		}
		if !utf16.IsSurrogate(r) {
			return r, 6
		}
		if len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
			if r2, ok := hex4(b[8:]); ok {
				if d := utf16.DecodeRune(r, r2); d != utf8.RuneError {
					return d, 12
				}
			}
		}
		return utf8.RuneError, 6
	}
	return 0, 0
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// cut returns at most limit bytes of s as valid UTF-8, never ending inside a
// character: every byte that is not valid counts as U+FFFD.
func cut(s string, limit int) string {
	if len(s) <= limit && utf8.ValidString(s) {
		return s
	}
	out := make([]byte, 0, limit)
	for _, r := range s { // an invalid byte ranges as U+FFFD
		if len(out)+utf8.RuneLen(r) > limit {
			break
		}
		out = utf8.AppendRune(out, r)
	}
	return string(out)
}

func appendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }
