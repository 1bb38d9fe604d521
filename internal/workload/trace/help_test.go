package trace

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"

	"plimsoll/internal/random"
)

func stream(seed uint64) *rand.Rand { return random.Stream(seed) }

func jsonCompact(dst *bytes.Buffer, src []byte) error { return json.Compact(dst, src) }
