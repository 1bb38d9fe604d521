// Package plainjson makes JSON that a terminal can show. What a server sends ends
// up in files and reports that people print, and JSON lets control characters
// above U+001F and those that turn the direction of text through. It owns that
// one rewriting and never changes what a JSON text means.
package plainjson

import (
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Escape returns the JSON text b with every character that is not printable, or
// that changes how others are shown, written as \uXXXX. Such characters stand
// only inside strings. Bytes that are not UTF-8 become U+FFFD, as encoding/json
// reads them. It returns b itself when there is nothing to do.
func Escape(b []byte) []byte {
	first := next(b)
	if first == len(b) {
		return b
	}
	out := append(make([]byte, 0, len(b)+64), b[:first]...)
	for b = b[first:]; len(b) > 0; {
		r, n := utf8.DecodeRune(b)
		b = b[n:]
		if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		} else {
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		n = next(b)
		out = append(out, b[:n]...)
		b = b[n:]
	}
	return out
}

// next returns where the first character of b stands that is to be escaped.
func next(b []byte) int {
	for i := 0; i < len(b); {
		if c := b[i]; c < 0x7f {
			i++ // below a space stands only white space between values
			continue
		}
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 || !unicode.IsPrint(r) {
			return i
		}
		i += n
	}
	return len(b)
}
