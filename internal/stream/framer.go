package stream

import "bytes"

// framer divides a body into events as its bytes come. Every byte is looked at
// once; an event is handed out as slices of the buffer, so nothing is copied
// unless an event has several data lines.
//
// Server-sent events are those of the WHATWG standard (lines end in LF, CRLF or
// CR; comments, id and retry are dropped), with one difference, see last.
type framer struct {
	kind Framing
	// buf[mark:] is kept: mark is where the current event begins, line where
	// the current line begins, scan what has been searched for its end.
	buf              []byte
	mark, line, scan int
	skipLF           bool // the last line ended in CR: a LF belongs to it
	begun            bool // the first line has been seen, with its byte-order mark

	data0, data1 int // the first data line of the event
	name0, name1 int
	hasData      bool
	joined       bool
	join         []byte // several data lines, joined

	name, data []byte // of the event that next returned
}

// The buffer's first size, and above what it is not kept for the next exchange.
const (
	bufferSize    = 1 << 10
	bufferKeep    = 256 << 10
	bufferMinRead = 512
)

func (f *framer) reset() {
	buf, join := f.buf[:0], f.join[:0]
	if cap(buf) > bufferKeep {
		buf = nil
	}
	if cap(join) > bufferKeep {
		join = nil
	}
	*f = framer{buf: buf, join: join}
}

// room returns the space that the next bytes are read into; took says how many
// came. Slices handed out by next are invalid afterwards.
func (f *framer) room() []byte {
	if f.mark == len(f.buf) {
		f.shift(f.mark)
	}
	if cap(f.buf)-len(f.buf) < bufferMinRead {
		if f.mark > 0 {
			f.shift(f.mark)
		}
		if cap(f.buf)-len(f.buf) < bufferMinRead {
			grown := make([]byte, len(f.buf), max(bufferSize, 2*cap(f.buf)))
			copy(grown, f.buf)
			f.buf = grown
		}
	}
	return f.buf[len(f.buf):cap(f.buf)]
}

func (f *framer) took(n int) { f.buf = f.buf[:len(f.buf)+n] }

// shift drops the first n bytes, which belong to events that are over.
func (f *framer) shift(n int) {
	if n == 0 {
		return
	}
	f.buf = f.buf[:copy(f.buf, f.buf[n:])]
	f.mark -= n
	f.line -= n
	f.scan -= n
	f.data0 -= n
	f.data1 -= n
	if f.name0 == f.name1 {
		f.name0, f.name1 = 0, 0
	} else {
		f.name0 -= n
		f.name1 -= n
	}
}

// next finds the next complete event in the buffer.
func (f *framer) next() bool {
	if f.kind == FrameNDJSON {
		return f.nextLine()
	}
	for f.scan < len(f.buf) {
		if f.skipLF {
			f.skipLF = false
			if f.buf[f.scan] == '\n' {
				f.scan++
				f.line = f.scan
				f.forget()
				continue
			}
		}
		rest := f.buf[f.scan:]
		end := bytes.IndexByte(rest, '\n')
		if end >= 0 {
			rest = rest[:end]
		}
		if cr := bytes.IndexByte(rest, '\r'); cr >= 0 {
			end = cr
			f.skipLF = true
		}
		if end < 0 {
			f.scan = len(f.buf)
			return false
		}
		start, stop := f.line, f.scan+end
		f.scan = stop + 1
		f.line = f.scan
		if f.sseLine(start, stop) {
			return true
		}
	}
	return false
}

// sseLine takes the line buf[start:stop] and reports whether it completed an event.
func (f *framer) sseLine(start, stop int) bool {
	if !f.begun {
		f.begun = true
		if bytes.HasPrefix(f.buf[start:stop], byteOrderMark) {
			start += len(byteOrderMark)
		}
	}
	if start == stop {
		done := f.hasData
		if done {
			f.emit()
		}
		f.hasData, f.joined = false, false
		f.name0, f.name1 = 0, 0
		f.mark = f.line
		return done
	}
	line := f.buf[start:stop]
	colon := bytes.IndexByte(line, ':')
	value := stop
	field := line
	if colon >= 0 {
		field = line[:colon]
		value = start + colon + 1
		if value < stop && f.buf[value] == ' ' {
			value++
		}
	}
	switch string(field) {
	case "data":
		switch {
		case !f.hasData:
			f.hasData = true
			f.data0, f.data1 = value, stop
		case !f.joined:
			f.joined = true
			f.join = append(f.join[:0], f.buf[f.data0:f.data1]...)
			fallthrough
		default:
			f.join = append(f.join, '\n')
			f.join = append(f.join, f.buf[value:stop]...)
		}
	case "event":
		f.name0, f.name1 = value, stop
	}
	f.forget()
	return false
}

// forget lets go of the lines so far of which nothing in the buffer is needed,
// so that a body without events does not fill memory.
func (f *framer) forget() {
	switch {
	case f.hasData && !f.joined:
	case f.name0 == f.name1:
		f.mark = f.line
	default:
		f.mark = f.name0 // the last name counts
	}
}

func (f *framer) emit() {
	f.name = f.buf[f.name0:f.name1]
	if f.joined {
		f.data = f.join
	} else {
		f.data = f.buf[f.data0:f.data1]
	}
}

func (f *framer) nextLine() bool {
	for {
		end := bytes.IndexByte(f.buf[f.scan:], '\n')
		if end < 0 {
			f.scan = len(f.buf)
			return false
		}
		start, stop := f.line, f.scan+end
		f.scan = stop + 1
		f.line = f.scan
		f.mark = f.line
		if f.jsonLine(start, stop) {
			return true
		}
	}
}

func (f *framer) jsonLine(start, stop int) bool {
	line := f.buf[start:stop]
	if !f.begun {
		f.begun = true
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	line = bytes.TrimSuffix(line, []byte{'\r'})
	if len(bytes.TrimLeft(line, " \t\r")) == 0 {
		return false
	}
	f.data = line
	return true
}

// last hands out what is left at the proper end of the body. The standard drops
// an event that no blank line ends; many servers leave that line out after the
// last one, so it counts here. Nothing is left after a body that broke off.
func (f *framer) last() bool {
	start, stop := f.line, len(f.buf)
	f.line, f.scan, f.mark = stop, stop, stop
	if f.kind == FrameNDJSON {
		return start < stop && f.jsonLine(start, stop)
	}
	if f.skipLF && start < stop && f.buf[start] == '\n' {
		start++
	}
	f.skipLF = false
	if start < stop {
		f.sseLine(start, stop)
	}
	if !f.hasData {
		return false
	}
	f.emit()
	f.hasData = false
	return true
}

var byteOrderMark = []byte("\xef\xbb\xbf")
