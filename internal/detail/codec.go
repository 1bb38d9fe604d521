package detail

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
)

// The files of a run's detail are made from its records and cells, and made again
// whenever they are not what they should be. Each begins with its kind, the version
// of this code and what the run was when it was made, and ends with a CRC-32C of
// everything before.

// version changes with the format and with what goes into it.
const version = 3

var (
	errStale   = errors.New("of another version or state of the run")
	errDamaged = errors.New("damaged")

	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// stamp identifies the state of a run.
type stamp [32]byte

// aside is what the name of a file ends with that is not complete.
const aside = ".tmp"

// kindBytes is the length of the name of a kind of file.
const kindBytes = 16

// writer writes a file aside. The first error is kept and told at the end.
type writer struct {
	f   *os.File
	b   *bufio.Writer
	sum hash.Hash32
	at  int64
	err error
	num [binary.MaxVarintLen64]byte
}

// create begins the file called name of a kind.
func create(name, kind string, of stamp) (*writer, error) {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*"+aside)
	if err != nil {
		return nil, err
	}
	w := &writer{f: f, b: bufio.NewWriterSize(f, 256<<10), sum: crc32.New(castagnoli)}
	head := make([]byte, kindBytes)
	copy(head, kind)
	w.bytes(head)
	w.bytes(binary.LittleEndian.AppendUint32(nil, version))
	w.bytes(of[:])
	return w, nil
}

func (w *writer) bytes(p []byte) {
	if w.err != nil {
		return
	}
	_, _ = w.sum.Write(p) // a hash takes everything
	w.at += int64(len(p))
	_, w.err = w.b.Write(p)
}

func (w *writer) uint(v uint64) { w.bytes(binary.AppendUvarint(w.num[:0], v)) }
func (w *writer) int(v int64)   { w.bytes(binary.AppendVarint(w.num[:0], v)) }

func (w *writer) text(s string) {
	w.uint(uint64(len(s)))
	w.bytes([]byte(s))
}

// number is what a column is made of.
type number interface {
	~uint8 | ~uint16 | ~uint32 | ~int32 | ~uint64 | ~int64
}

// column writes the length of list and its values.
func column[T number](w *writer, list []T) {
	w.uint(uint64(len(list)))
	size := binary.Size(T(0))
	b := make([]byte, 0, 8<<10)
	for _, v := range list {
		switch size {
		case 1:
			b = append(b, byte(v))
		case 2:
			b = binary.LittleEndian.AppendUint16(b, uint16(v))
		case 4:
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		default:
			b = binary.LittleEndian.AppendUint64(b, uint64(v))
		}
		if len(b) > 8<<10-8 {
			w.bytes(b)
			b = b[:0]
		}
	}
	w.bytes(b)
}

// commit completes the file and gives it its name; on an error nothing is left.
func (w *writer) commit(name string) error {
	end := w.sum.Sum32()
	if w.err == nil {
		_, w.err = w.b.Write(binary.LittleEndian.AppendUint32(nil, end))
	}
	if w.err == nil {
		w.err = w.b.Flush()
	}
	if w.err == nil {
		w.err = w.f.Chmod(0o644)
	}
	w.err = errors.Join(w.err, w.f.Close())
	if w.err == nil {
		w.err = os.Rename(w.f.Name(), name)
	}
	if w.err != nil {
		_ = os.Remove(w.f.Name()) // what matters is the first error
	}
	return w.err
}

// reader reads a file from its beginning to its end. Once something is wrong it gives
// zeros, and end tells what it was. Nothing is made larger than the file allows.
type reader struct {
	f    io.Reader
	b    *bufio.Reader
	sum  hash.Hash32
	left int64 // bytes before the checksum
	err  error
	buf  []byte
}

// newReader begins to read a file of size bytes, which must be of a kind and a state.
func newReader(f io.Reader, size int64, kind string, of stamp) *reader {
	r := readerOf(f, size-4)
	head := r.bytes(kindBytes + 4 + int64(len(of)))
	if r.err != nil {
		return r
	}
	want := make([]byte, kindBytes)
	copy(want, kind)
	if string(head[:kindBytes]) != string(want) || binary.LittleEndian.Uint32(head[kindBytes:]) != version || string(head[kindBytes+4:]) != string(of[:]) {
		r.err = errStale
	}
	return r
}

// readerOf reads n bytes of f.
func readerOf(f io.Reader, n int64) *reader {
	r := &reader{f: f, sum: crc32.New(castagnoli), left: n, buf: make([]byte, 64<<10)}
	r.b = bufio.NewReaderSize(io.TeeReader(io.LimitReader(f, n), r.sum), 256<<10)
	return r
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: "+format, append([]any{errDamaged}, args...)...)
	}
}

// bytes returns the next n bytes.
func (r *reader) bytes(n int64) []byte {
	if r.err == nil && (n < 0 || n > r.left) {
		r.fail("%d bytes wanted where there are %d", n, r.left)
	}
	if r.err != nil {
		return nil
	}
	p := make([]byte, n)
	r.into(p)
	return p
}

func (r *reader) into(p []byte) {
	if r.err == nil && int64(len(p)) > r.left {
		r.fail("it ends early")
	}
	if r.err != nil {
		return
	}
	if _, err := io.ReadFull(r.b, p); err != nil {
		r.fail("%v", err)
		return
	}
	r.left -= int64(len(p))
}

// ReadByte makes r a reader of varints.
func (r *reader) ReadByte() (byte, error) {
	if r.err != nil {
		return 0, r.err
	}
	c, err := r.b.ReadByte()
	if err == nil {
		r.left--
	}
	return c, err
}

func (r *reader) uint() uint64 {
	v, err := binary.ReadUvarint(r)
	if err != nil {
		r.fail("%v", err)
		return 0
	}
	return v
}

func (r *reader) int() int64 {
	v, err := binary.ReadVarint(r)
	if err != nil {
		r.fail("%v", err)
		return 0
	}
	return v
}

// count reads a number of things that take at least size bytes each.
func (r *reader) count(size int64) int {
	n := r.uint()
	if r.err == nil && (n > math.MaxInt32 || int64(n)*size > r.left) {
		r.fail("%d things where there are %d bytes", n, r.left)
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

func (r *reader) text() string { return string(r.bytes(int64(r.count(1)))) }

// readColumn reads what column wrote.
func readColumn[T number](r *reader) []T {
	size := binary.Size(T(0))
	n := r.count(int64(size))
	if r.err != nil || n == 0 {
		return nil
	}
	out := make([]T, n)
	per := len(r.buf) / size
	for at := 0; at < n; {
		k := min(per, n-at)
		b := r.buf[:k*size]
		r.into(b)
		if r.err != nil {
			return nil
		}
		to := out[at : at+k]
		switch size {
		case 1:
			for i := range to {
				to[i] = T(b[i])
			}
		case 2:
			for i := range to {
				to[i] = T(binary.LittleEndian.Uint16(b[2*i:]))
			}
		case 4:
			for i := range to {
				to[i] = T(binary.LittleEndian.Uint32(b[4*i:]))
			}
		default:
			for i := range to {
				to[i] = T(binary.LittleEndian.Uint64(b[8*i:]))
			}
		}
		at += k
	}
	return out
}

// end returns what was wrong, of a file that should have been read to its end.
func (r *reader) end() error {
	if r.err == nil && r.left != 0 {
		r.fail("%d bytes too many", r.left)
	}
	if r.err != nil {
		return r.err
	}
	var sum [4]byte
	if _, err := io.ReadFull(r.f, sum[:]); err != nil {
		return fmt.Errorf("%w: %v", errDamaged, err)
	}
	if got, want := binary.LittleEndian.Uint32(sum[:]), r.sum.Sum32(); got != want {
		return fmt.Errorf("%w: its checksum is %08x, want %08x", errDamaged, got, want)
	}
	return nil
}
