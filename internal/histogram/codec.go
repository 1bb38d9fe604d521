package histogram

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// version is the first byte of the binary form.
const version = 1

// AppendBinary appends the binary form of h to b: version, count, sum, minimum
// and maximum, then per bucket that is not empty its distance from the last one
// and its count, all as varints. It never fails.
func (h *Histogram) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, version)
	b = binary.AppendUvarint(b, h.n)
	if h.n == 0 {
		return b, nil
	}
	b = binary.AppendUvarint(b, h.sumHi)
	b = binary.AppendUvarint(b, h.sumLo)
	b = binary.AppendUvarint(b, uint64(h.Min()))
	b = binary.AppendUvarint(b, uint64(h.max))
	last := -1
	for i := index(h.Min()); i <= index(h.max); i++ { // there is nothing beyond the extremes
		if c := h.counts[i]; c > 0 {
			b = binary.AppendUvarint(b, uint64(i-last))
			b = binary.AppendUvarint(b, c)
			last = i
		}
	}
	return b, nil
}

// MarshalBinary returns the binary form of h.
func (h *Histogram) MarshalBinary() ([]byte, error) { return h.AppendBinary(nil) }

// errMalformed is what all decoding errors wrap.
var errMalformed = errors.New("malformed histogram")

// UnmarshalBinary makes h the histogram whose binary form is b. It accepts
// nothing that AppendBinary could not have written from recorded values, and
// leaves h unchanged on an error.
func (h *Histogram) UnmarshalBinary(b []byte) error {
	if len(b) == 0 || b[0] != version {
		return fmt.Errorf("decode histogram: %w: version is not %d", errMalformed, version)
	}
	b = b[1:]
	bad := false
	next := func() uint64 {
		v, n := binary.Uvarint(b)
		// A varint with a final zero byte is a longer form of a shorter one.
		if n <= 0 || n > 1 && b[n-1] == 0 {
			bad = true
			return 0
		}
		b = b[n:]
		return v
	}
	var d Histogram
	d.n = next()
	if d.n == 0 {
		if bad || len(b) > 0 {
			return fmt.Errorf("decode histogram: %w: bytes after an empty one", errMalformed)
		}
		*h = d
		return nil
	}
	d.sumHi, d.sumLo = next(), next()
	low, high := next(), next()
	if bad || low > high || high > math.MaxInt64 {
		return fmt.Errorf("decode histogram: %w: head", errMalformed)
	}
	d.invMin, d.max = math.MaxInt64-int64(low), int64(high)
	d.grow(index(int64(high)))
	first, i := -1, -1
	var n uint64
	for len(b) > 0 {
		step, c := next(), next()
		if bad || step == 0 || step > uint64(len(d.counts)-1-i) || c == 0 || c > d.n-n {
			return fmt.Errorf("decode histogram: %w: bucket after %d", errMalformed, i)
		}
		i += int(step)
		if first < 0 {
			first = i
		}
		d.counts[i] = c
		n += c
	}
	if n != d.n || first != index(int64(low)) || i != index(int64(high)) {
		return fmt.Errorf("decode histogram: %w: buckets do not agree with the count or the extremes", errMalformed)
	}
	if !d.sumFits() {
		return fmt.Errorf("decode histogram: %w: sum that its buckets cannot have", errMalformed)
	}
	*h = d
	return nil
}

// MergeBinary adds the values of the histogram whose binary form b begins with, and
// returns what follows it. It needs no memory for a second histogram. After an error
// h is empty.
func (h *Histogram) MergeBinary(b []byte) (rest []byte, err error) {
	defer func() {
		if err != nil {
			*h = Histogram{} // some of it may have been added
		}
	}()
	if len(b) == 0 || b[0] != version {
		return nil, fmt.Errorf("merge histogram: %w: version is not %d", errMalformed, version)
	}
	b = b[1:]
	next := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			err = fmt.Errorf("merge histogram: %w: it ends early", errMalformed)
			return 0
		}
		b = b[n:]
		return v
	}
	n := next()
	if n == 0 {
		return b, err
	}
	sumHi, sumLo := next(), next()
	low, high := next(), next()
	if err != nil || low > high || high > math.MaxInt64 {
		return nil, fmt.Errorf("merge histogram: %w: head", errMalformed)
	}
	least, last := index(int64(low)), index(int64(high))
	if last >= len(h.counts) {
		h.grow(last)
	}
	i := -1
	for left := n; left > 0; {
		var step, c uint64
		if len(b) > 1 && b[0] < 0x80 && b[1] < 0x80 { // the usual case
			step, c, b = uint64(b[0]), uint64(b[1]), b[2:]
		} else {
			step, c = next(), next()
		}
		if err != nil || step == 0 || step > uint64(last-i) || c == 0 || c > left {
			return nil, fmt.Errorf("merge histogram: %w: bucket after %d", errMalformed, i)
		}
		if i += int(step); i < least {
			return nil, fmt.Errorf("merge histogram: %w: bucket %d below the minimum", errMalformed, i)
		}
		h.counts[i] += c
		left -= c
	}
	h.n += n
	var carry uint64
	h.sumLo, carry = bits.Add64(h.sumLo, sumLo, 0)
	h.sumHi, _ = bits.Add64(h.sumHi, sumHi, carry)
	h.max = max(h.max, int64(high))
	h.invMin = max(h.invMin, math.MaxInt64-int64(low))
	return b, nil
}

// MarshalText returns the binary form in base64, for use inside JSON.
func (h *Histogram) MarshalText() ([]byte, error) {
	b, err := h.MarshalBinary()
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.AppendEncode(nil, b), nil
}

// UnmarshalText reads what MarshalText wrote.
func (h *Histogram) UnmarshalText(text []byte) error {
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("decode histogram: %w", err)
	}
	return h.UnmarshalBinary(b)
}
