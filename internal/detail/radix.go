package detail

import "math"

// digitBits is how many bits of a key one pass of sortByKey looks at.
const digitBits = 11

// sortByKey sorts rows by their keys, those of equal keys staying as they are. Digits
// that are the same in all keys cost nothing. keys and rows are of one length; what they
// hold afterwards in keys is in no order.
func sortByKey(keys []uint64, rows []uint32) []uint32 {
	if len(rows) == 0 {
		return rows
	}
	least, most := keys[0], keys[0]
	for _, k := range keys {
		least, most = min(least, k), max(most, k)
	}
	otherKeys, otherRows := make([]uint64, len(keys)), make([]uint32, len(rows))
	for shift := 0; shift < 64 && (most-least)>>shift > 0; shift += digitBits {
		var starts [1 << digitBits]int
		digit := func(k uint64) uint64 { return (k - least) >> shift & (1<<digitBits - 1) }
		for _, k := range keys {
			starts[digit(k)]++
		}
		at := 0
		for i, n := range starts {
			starts[i] = at
			at += n
		}
		for i, k := range keys {
			to := &starts[digit(k)]
			otherKeys[*to], otherRows[*to] = k, rows[i]
			*to++
		}
		keys, otherKeys, rows, otherRows = otherKeys, keys, otherRows, rows
	}
	return rows
}

// keyOf returns a key that grows with v, which is a number.
func keyOf(v float64) uint64 {
	b := math.Float64bits(v + 0) // there is one zero
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}
