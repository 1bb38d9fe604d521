package telemetry

import (
	"fmt"
	"testing"
)

// Names that change with every page of JSON do not fill the memory, and totals
// stand while the names around them come and go.
func TestChangingNamesOfJSONAreForgotten(t *testing.T) {
	x := table(t, `source: x
format: json
detect: iter
signals:
  generation_tokens: {from: gen}
`)
	r := NewReader(Options{Tables: []*Table{x}})
	for page := range 20 {
		body := `[{"iter":1,"gen":2`
		for i := range 1000 {
			body += fmt.Sprintf(`,"k%d_%d":1`, page, i)
		}
		if _, err := r.Read([]byte(body+"}]"), "application/json", int64(page), int64(page), nil); err != nil {
			t.Fatal(err)
		}
		if len(r.all) > 5000 {
			t.Fatalf("page %d: %d names are kept, of pages of 1,002", page, len(r.all))
		}
	}
	if got := r.plan[0].course.total; got != 40 {
		t.Errorf("total %v, want 40", got)
	}
}
