package telemetry

import (
	"fmt"
	"os"
	"testing"
)

func TestScratch(t *testing.T) {
	f := os.Getenv("PAGE")
	if f == "" {
		t.Skip()
	}
	b, _ := os.ReadFile(f)
	g, err := ReadPage(b, "")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(g.Sources, fmt.Sprintf("%+v", g.Info))
	for _, k := range sortedKeys(g.Signals) {
		fmt.Printf("  %-32s %v\n", k, g.Signals[k])
	}
	for _, m := range g.Missing {
		fmt.Printf("  - %-10s %-28s %s | %s\n", m.Source, m.Signal, m.Why, m.Enable)
	}
}

func BenchmarkScratch(b *testing.B) {
	for _, tol := range []bool{false, true} {
		b.Run(fmt.Sprint(tol), func(b *testing.B) {
			page := readFile(b, "vllm_v1.t1.prom")
			r, sink := NewReader(Options{}), &counting{}
			r.tolerant = tol
			r.Read(page, "", 0, 1, sink)
			for b.Loop() {
				r.Read(page, "", 0, 1, sink)
			}
		})
	}
}
