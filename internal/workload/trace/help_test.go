package trace

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"

	"plimsoll/internal/random"
)

func stream(seed uint64) *rand.Rand { return random.Stream(seed) }

func jsonCompact(dst *bytes.Buffer, src []byte) error { return json.Compact(dst, src) }

// jsonCompactLine writes one row as one line.
func jsonCompactLine(w interface{ WriteString(string) (int, error) }, row json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Compact(&b, row); err != nil {
		return err
	}
	_, err := w.WriteString(b.String() + "\n")
	return err
}
