package run

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
)

// A part holds a checksum of itself. Parquet's own checksums cover the pages but
// neither their headers nor the footer, and one flipped bit there can name
// another compression and make a reader ask for all memory. The checksum is a
// metadata entry of the footer, so that other programs read a part as it is: the
// CRC-32C of the whole file in which its own eight digits are zeros.
const (
	checksumKey    = "plimsoll.checksum"
	checksumMarker = "plimsoll-crc32c:"
	checksumDigits = 8
	checksumZeros  = "00000000"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksumValue is the metadata entry of a part with so many rows, before its
// checksum is known.
func checksumValue(rows int64) string {
	return checksumMarker + checksumZeros + ":" + strconv.FormatInt(rows, 10) + ";"
}

// summer passes bytes on, sums them up and finds the marker among them.
type summer struct {
	w   io.Writer
	sum uint32
	n   int64
	// at is where the digits begin, -1 while the marker has not come by. Only
	// the last one counts: text of the user might hold another.
	at   int64
	tail []byte // the last bytes, in which a marker may have begun
}

func newSummer(w io.Writer) *summer { return &summer{w: w, at: -1} }

func (s *summer) Write(b []byte) (int, error) {
	n, err := s.w.Write(b)
	b = b[:n]
	s.sum = crc32.Update(s.sum, castagnoli, b)
	const before = len(checksumMarker) - 1
	// A marker that begins in the tail ends within the next few bytes.
	start := s.n - int64(len(s.tail))
	joint := append(s.tail, b[:min(len(b), before)]...)
	if i := bytes.LastIndex(joint, []byte(checksumMarker)); i >= 0 {
		s.at = start + int64(i+len(checksumMarker))
	}
	if bytes.Contains(b, []byte(checksumMarker)) { // a search forwards is several times faster
		i := bytes.LastIndex(b, []byte(checksumMarker))
		s.at = s.n + int64(i+len(checksumMarker))
	}
	if len(b) >= before {
		joint = append(joint[:0], b[len(b)-before:]...)
	} else if len(joint) > before {
		joint = append(joint[:0], joint[len(joint)-before:]...)
	}
	s.tail = joint
	s.n += int64(n)
	return n, err
}

// seal writes the checksum of all bytes that have passed into f.
func (s *summer) seal(f io.WriterAt) error {
	if s.at < 0 {
		return errors.New("BUG: a part was written without a place for its checksum")
	}
	_, err := fmt.Fprintf(io.NewOffsetWriter(f, s.at), "%08x", s.sum)
	return err
}

var errDamaged = errors.New("damaged")

// verify returns an error unless the part of so many bytes is as it was
// written. rows is the number of rows it says to have, -1 when it says nothing.
func verify(f io.ReaderAt, size int64) (rows int64, err error) {
	const end = 8 // length of the footer, and the magic number
	var last [end]byte
	if size < 2*end {
		return -1, fmt.Errorf("%w: only %d bytes", errDamaged, size)
	}
	if _, err := f.ReadAt(last[:], size-end); err != nil {
		return -1, err
	}
	if string(last[4:]) != "PAR1" {
		return -1, fmt.Errorf("%w: no end of a Parquet file", errDamaged)
	}
	length := int64(binary.LittleEndian.Uint32(last[:]))
	if length > size-end {
		return -1, fmt.Errorf("%w: a footer of %d bytes in a file of %d", errDamaged, length, size)
	}
	footer := make([]byte, length)
	if _, err := f.ReadAt(footer, size-end-length); err != nil {
		return -1, err
	}
	i := bytes.LastIndex(footer, []byte(checksumMarker))
	if i < 0 || len(footer)-i < len(checksumMarker)+checksumDigits+2 {
		return -1, fmt.Errorf("%w: no checksum", errDamaged)
	}
	i += len(checksumMarker)
	digits := footer[i : i+checksumDigits]
	want, err := strconv.ParseUint(string(digits), 16, 32)
	if err != nil {
		return -1, fmt.Errorf("%w: checksum %q", errDamaged, digits)
	}
	rows = -1
	if text, _, ok := bytes.Cut(footer[i+checksumDigits+1:], []byte(";")); ok {
		if n, err := strconv.ParseInt(string(text), 10, 64); err == nil && n >= 0 {
			rows = n
		}
	}
	at := size - end - length + int64(i)
	h := crc32.New(castagnoli)
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, at)); err != nil {
		return rows, err
	}
	_, _ = io.WriteString(h, checksumZeros) // a hash takes everything
	if _, err := io.Copy(h, io.NewSectionReader(f, at+checksumDigits, size-at-checksumDigits)); err != nil {
		return rows, err
	}
	if h.Sum32() != uint32(want) {
		return rows, fmt.Errorf("%w: checksum is %08x, want %08x", errDamaged, h.Sum32(), want)
	}
	return rows, nil
}
