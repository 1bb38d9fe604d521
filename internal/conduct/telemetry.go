package conduct

import (
	"fmt"

	"plimsoll/internal/telemetry"
)

// Tables reads the user's own telemetry tables; none give nil.
func Tables(files []string, readFile func(string) ([]byte, error)) ([]*telemetry.Table, error) {
	var out []*telemetry.Table
	for _, name := range files {
		data, err := readFile(name)
		if err != nil {
			return nil, fmt.Errorf("data.telemetry-tables: %w", err)
		}
		t, err := telemetry.LoadTable(name, data)
		if err != nil {
			return nil, fmt.Errorf("data.telemetry-tables: %w", err)
		}
		out = append(out, t)
	}
	return out, nil
}
