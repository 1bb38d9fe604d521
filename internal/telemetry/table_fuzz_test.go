package telemetry

import (
	"math"
	"testing"
)

// FuzzTable reads a page by a table that anybody may have written: an error or figures, never anything else.
func FuzzTable(f *testing.F) {
	page := "x_total{a=\"1\",b=\"2\"} 3\nx_total{a=\"2\"} NaN\ny_sum 4\ny_count 2\ny_bucket{le=\"+Inf\"} 2\nz_info{n=\"16\",m=\"400 Gb/sec\"} 1\n"
	for _, table := range []string{
		"source: a\ndetect: x_*\nsignals: {prompt_tokens: x_total, ttft: y, kv_capacity: {from: z_info, labels: [n, m]}}\n",
		"source: a\ndetect: ['x_total{a=~\"1|2\"}']\nkeep: {i: [a, b]}\nrepeats: [b]\nsignals: {kv_cache_usage: {from: x_total, over: y_count, factor: 0.01, combine: mean}}\n",
		"source: a\ndetect: y_count\nsignals: {queue_time: {total: [y_sum, x_total], count: y_count, factor: 1e-6}, throttled: {sum: [y_count, x_total], mask: \"0xec\"}}\n",
		"source: a\nlike: vllm\ndetect: x_*\nalias: [{from: x_, to: 'vllm:'}]\nraw: [y_*]\nyields: [vllm]\n",
		"source: a\nformat: json\ndetect: p.q\nsignals: {engine_steps: {from: p.q, last: true}, itl: {total: p.q, count: p.r}, step_time: {sum: [p.q, p.r]}}\n",
	} {
		f.Add(table, page)
		f.Add(table, `[{"p":{"q":1,"r":2}},{"p":{"q":3}}]`)
	}
	f.Fuzz(func(t *testing.T, table, page string) {
		x, err := LoadTable("own.yaml", []byte(table))
		if err != nil {
			return
		}
		r := NewReader(Options{Tables: []*Table{x}})
		for range 2 { // a second page takes the ways that the first has prepared
			info, err := r.Read([]byte(page), "", 0, 1, nil)
			if err != nil {
				return
			}
			if info.Samples < 0 || info.Series < 0 {
				t.Fatalf("impossible: %+v", info)
			}
		}
		for name, v := range r.signals() {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("%s is %v", name, v)
			}
		}
		r.Missing()
		x.Families()
	})
}
