// Package skim reads a few members of a large JSON object without decoding the rest:
// a list of thousands of runs needs some numbers of each run's files, which are mostly
// something else. It owns the passing over of what nobody asked for. It does not say
// whether what it passes over is right: what it hands on is decoded by encoding/json.
package skim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ErrEnough is for a function that is called with members: what follows is not read.
var ErrEnough = errors.New("enough was read")

// SyntaxError says where a text is no JSON, or has a value of another type.
type SyntaxError struct {
	// Offset counts bytes from the beginning of what was read.
	Offset int64
	Text   string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("at byte %d: %s", e.Offset, e.Text) }

const (
	chunk = 8 << 10
	// mostValue bounds what is kept of one value that is handed on, in bytes.
	mostValue = 1 << 20
	// mostDepth bounds how deep values may lie in one another.
	mostDepth = 1000
)

// Reader reads one JSON text from its beginning as far as it is needed. It is for one
// goroutine.
type Reader struct {
	src      io.Reader
	buf      []byte // what was read and may still be wanted
	at       int    // the next byte in it
	passed   int64  // bytes before it
	keep     int    // where in buf the value begins that is kept, -1 for none
	err      error  // of src
	consumed bool   // the value of the member at hand was read
}

// New returns a Reader of src.
func New(src io.Reader) *Reader { return &Reader{src: src, buf: make([]byte, 0, chunk), keep: -1} }

// more reads more bytes; it returns false at the end.
func (r *Reader) more() bool {
	if r.keep >= 0 && len(r.buf)-r.keep > mostValue {
		r.err = fmt.Errorf("at byte %d: a value of more than %d bytes", r.passed+int64(r.keep), mostValue)
	}
	if r.err != nil {
		return false
	}
	from := r.at
	if r.keep >= 0 {
		from = r.keep
	}
	n := copy(r.buf, r.buf[from:])
	r.buf, r.at, r.passed = r.buf[:n], r.at-from, r.passed+int64(from)
	if r.keep >= 0 {
		r.keep = 0
	}
	if cap(r.buf)-n < chunk/2 {
		r.buf = append(make([]byte, 0, 2*cap(r.buf)+chunk), r.buf...)
	}
	for range 100 { // readers that return nothing
		k, err := r.src.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+k]
		r.err = err
		if k > 0 {
			return true
		}
		if err != nil {
			return false
		}
	}
	r.err = io.ErrNoProgress
	return false
}

// fail is an error at the next byte: that of the source when it ended for another
// reason than its end.
func (r *Reader) fail(format string, args ...any) error {
	if r.at == len(r.buf) && r.err != nil {
		if !errors.Is(r.err, io.EOF) {
			return r.err
		}
		format, args = "it ends early", nil
	}
	return &SyntaxError{Offset: r.passed + int64(r.at), Text: fmt.Sprintf(format, args...)}
}

// next returns the next byte that is no white space without taking it, 0 at the end.
func (r *Reader) next() byte {
	for {
		for ; r.at < len(r.buf); r.at++ {
			switch c := r.buf[r.at]; c {
			case ' ', '\n', '\r', '\t':
			default:
				return c
			}
		}
		if !r.more() {
			return 0
		}
	}
}

// text takes a string with its quotes.
func (r *Reader) text() error {
	r.at++ // the first quote
	for {
		rest := r.buf[r.at:]
		i := bytes.IndexAny(rest, "\"\\")
		if i < 0 {
			r.at = len(r.buf)
			if !r.more() {
				return r.fail("")
			}
			continue
		}
		r.at += i + 1
		if rest[i] == '"' {
			return nil
		}
		if r.at == len(r.buf) && !r.more() {
			return r.fail("")
		}
		r.at++ // what is escaped
	}
}

// skip takes a value of any kind.
func (r *Reader) skip() error {
	depth := 0
	for {
		switch c := r.next(); c {
		case 0:
			return r.fail("a zero byte")
		case '"':
			if err := r.text(); err != nil {
				return err
			}
		case '{', '[':
			r.at++
			if depth++; depth > mostDepth {
				return r.fail("values lie deeper in one another than %d", mostDepth)
			}
			continue
		case '}', ']':
			if depth == 0 {
				return r.fail("%q where a value is wanted", c)
			}
			r.at++
			depth--
		case ',', ':':
			if depth == 0 {
				return r.fail("%q where a value is wanted", c)
			}
			r.at++
			continue
		default:
			if err := r.word(); err != nil {
				return err
			}
		}
		if depth == 0 {
			return nil
		}
	}
}

// word takes a number, true, false or null.
func (r *Reader) word() error {
	for {
		for ; r.at < len(r.buf); r.at++ {
			switch r.buf[r.at] {
			case ' ', '\n', '\r', '\t', ',', ':', ']', '}', '[', '{', '"':
				return nil
			}
		}
		if !r.more() {
			if errors.Is(r.err, io.EOF) {
				return nil
			}
			return r.err
		}
	}
}

// raw takes a value and returns it, valid until the next call.
func (r *Reader) raw() ([]byte, error) {
	if r.next() == 0 {
		return nil, r.fail("a zero byte")
	}
	r.keep = r.at
	defer func() { r.keep = -1 }()
	if err := r.skip(); err != nil {
		return nil, err
	}
	return r.buf[r.keep:r.at], nil
}

// Value decodes the value of the member at hand into v.
func (r *Reader) Value(v any) error {
	r.consumed = true
	b, err := r.raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		text := err.Error()
		if odd, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			text = "a " + odd.Value + " where something else is wanted"
		}
		return &SyntaxError{Offset: r.passed + int64(r.at-len(b)), Text: text}
	}
	return nil
}

// Object calls member with the name of each member of the object that the text is.
// member may read the value by Value or Inner; if it does not it is passed over. An
// error of member ends the reading and is returned, unless it is ErrEnough.
func (r *Reader) Object(member func(name string) error) error {
	err := r.object(member, 0)
	if errors.Is(err, ErrEnough) {
		return nil
	}
	return err
}

// Inner is Object for the value of the member at hand, which may be null: that has no
// members. ErrEnough of its members ends the Object around it, too.
func (r *Reader) Inner(member func(name string) error) error { return r.object(member, 1) }

func (r *Reader) object(member func(name string) error, depth int) error {
	r.consumed = true
	switch c := r.next(); c {
	case '{':
		r.at++
	case 'n':
		if depth == 0 {
			return r.fail("null where an object is wanted")
		}
		var nothing any
		return r.Value(&nothing)
	default:
		return r.fail("%q where an object is wanted", c)
	}
	if r.next() == '}' {
		r.at++
		return nil
	}
	for {
		if c := r.next(); c != '"' {
			return r.fail("%q where a name is wanted", c)
		}
		var name string
		if err := r.Value(&name); err != nil {
			return err
		}
		if c := r.next(); c != ':' {
			return r.fail("%q behind the name %q", c, name)
		}
		r.at++
		r.consumed = false
		if err := member(name); err != nil {
			return err
		}
		if !r.consumed {
			if err := r.skip(); err != nil {
				return err
			}
		}
		r.consumed = true
		switch c := r.next(); c {
		case ',':
			r.at++
		case '}':
			r.at++
			return nil
		default:
			return r.fail("%q behind the value of %q", c, name)
		}
	}
}
