package stream

import (
	"bytes"
	"math"
	"strconv"
)

// wire follows the bytes of one HTTP/1.1 response as they come out of the
// socket, beside net/http, which parses them again. It exists for two facts
// that net/http keeps to itself: where the response ends, so that a read that
// belongs to nobody is not counted, and how many payload bytes have arrived
// that the body's reader has not handed out. net/http's chunked reader goes
// back to the socket until the caller's buffer is full or the chunk ends, so an
// event that is complete inside a partly arrived chunk would be held back:
// asking for no more than has arrived avoids that.
type wire struct {
	state   wireState
	lines   int      // complete lines of the header block
	length  int      // bytes of the line so far
	text    [40]byte // the start of the line
	lastCR  bool     // the line so far is a single CR
	code    int      // status code of the header block, once it is complete
	left    int64    // payload bytes to come in the chunk
	digits  int      // digits of the chunk size so far
	payload int64    // payload bytes of the chunked body so far
	raw     int64    // bytes after the header block
	begun   bool     // set when the read held the first byte of a header block

	coded    bool  // a transfer encoding was stated
	declared int64 // Content-Length plus 1, 0 when there was none
	excess   int64 // bytes of the last read behind the end of the response
}

type wireState uint8

const (
	wireHead wireState = iota
	wireSize
	wireExtension
	wireData
	wireDataEnd
	wireTrailer
	wireDone // the chunked body is complete
	wireBad  // not chunked, or not as it should be: net/http will say
)

// feed takes the bytes of one read.
func (w *wire) feed(p []byte) {
	w.begun, w.excess = false, 0
	if w.state == wireHead {
		p = w.head(p)
	}
	if w.state == wireHead {
		return
	}
	w.raw += int64(len(p))
	if !w.coded && w.declared > 0 {
		w.excess = max(0, w.raw-(w.declared-1))
	}
	w.body(p)
}

// head consumes header bytes and returns what follows the header block.
// Informational answers (1xx) are skipped: the final one is of interest.
func (w *wire) head(p []byte) []byte {
	for len(p) > 0 {
		if w.lines == 0 && w.length == 0 {
			w.begun = true
		}
		i := bytes.IndexByte(p, '\n')
		seg := p
		if i >= 0 {
			seg = p[:i]
		}
		if w.length < len(w.text) {
			copy(w.text[w.length:], seg)
		}
		w.lastCR = w.length == 0 && len(seg) == 1 && seg[0] == '\r' || w.lastCR && len(seg) == 0
		w.length += len(seg)
		if i < 0 {
			return nil
		}
		p = p[i+1:]
		blank := w.length == 0 || w.length == 1 && w.lastCR
		w.lines++
		if w.lines == 1 {
			w.code = statusCode(w.text)
		} else if !blank {
			w.field(w.text[:min(w.length, len(w.text))])
		}
		w.length, w.lastCR = 0, false
		if !blank || w.lines == 1 {
			continue
		}
		w.lines = 0
		if w.code >= 100 && w.code <= 199 && w.code != 101 {
			w.coded, w.declared = false, 0
			continue
		}
		w.state = wireSize
		return p
	}
	return nil
}

// field takes the start of a header line.
func (w *wire) field(line []byte) {
	const length, coding = "content-length:", "transfer-encoding:"
	switch {
	case len(line) > len(coding) && bytes.EqualFold(line[:len(coding)], []byte(coding)):
		w.coded = true
	case len(line) > len(length) && bytes.EqualFold(line[:len(length)], []byte(length)):
		n, err := strconv.ParseInt(string(bytes.TrimSpace(line[len(length):])), 10, 62)
		if err == nil && n >= 0 {
			w.declared = n + 1
		}
	}
}

func statusCode(line [40]byte) int {
	code := 0
	for _, c := range line[9:12] {
		if c < '0' || c > '9' {
			return 0
		}
		code = code*10 + int(c-'0')
	}
	return code
}

// body follows the chunks. It looks at the framing only and skips payload.
func (w *wire) body(p []byte) {
	for len(p) > 0 {
		switch w.state {
		case wireData:
			n := min(w.left, int64(len(p)))
			w.payload += n
			w.left -= n
			p = p[n:]
			if w.left == 0 {
				w.state = wireDataEnd
			}
			continue
		case wireDone:
			if w.coded {
				w.excess = int64(len(p))
			}
			return
		case wireBad:
			return
		}
		c := p[0]
		p = p[1:]
		switch w.state {
		case wireSize:
			if d := hexDigit(c); d >= 0 {
				// Sixteen digits are what net/http takes, zeros in front included.
				if w.digits++; w.digits > 16 || w.left > math.MaxInt64>>4 {
					w.state = wireBad
					return
				}
				w.left = w.left<<4 | int64(d)
				continue
			}
			if w.digits == 0 {
				w.state = wireBad
				return
			}
			w.state = wireExtension
			if c == '\n' {
				w.sizeEnd()
			}
		case wireExtension:
			if c == '\n' {
				w.sizeEnd()
			}
		case wireDataEnd:
			if c == '\n' {
				w.state = wireSize
			} else if c != '\r' {
				w.state = wireBad
			}
		case wireTrailer:
			if c == '\n' {
				if w.length == 0 {
					w.state = wireDone
				}
				w.length = 0
			} else if c != '\r' {
				w.length++
			}
		}
	}
}

func (w *wire) sizeEnd() {
	w.digits = 0
	w.state = wireData
	if w.left == 0 {
		w.state, w.length = wireTrailer, 0
	}
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
