package telemetry

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/signal"
)

// auditor is a sink that checks what every sink relies on.
type auditor struct {
	t      *testing.T
	series []signal.Series
	seen   map[signal.Series]bool
}

func (a *auditor) Declare(s signal.Series) int32 {
	if a.seen[s] {
		a.t.Errorf("declared twice: %+v", s)
	}
	a.seen[s] = true
	if (s.Signal == signal.None) == (s.Raw == "") {
		a.t.Errorf("neither a signal nor a raw name, or both: %+v", s)
	}
	if strings.ContainsAny(s.Labels, "\n\r") || math.IsNaN(s.Bound) {
		a.t.Errorf("%+v", s)
	}
	a.series = append(a.series, s)
	return int32(len(a.series) - 1)
}

func (a *auditor) Add(samples []signal.Sample) {
	for _, s := range samples {
		if int(s.Series) >= len(a.series) || !finite(s.Value) || s.Start > s.End {
			a.t.Errorf("%+v of %d series", s, len(a.series))
		}
	}
}

// FuzzPage reads any two bodies after each other: nothing may panic, and what comes out is always sound. Where the
// strict parser takes the whole page, the scanner says the same.
func FuzzPage(f *testing.F) {
	for _, name := range []string{"vllm_v0100_real_partial.prom", "vllm_v030_real_partial.prom", "sglang_smg_sidecar_real_partial.prom", "llamacpp_real_trimmed.prom", "dcgm_mig_labels.prom", "tpu_gke.prom"} {
		f.Add(readFile(f, name), readFile(f, "llamacpp.prom"), false)
	}
	for _, page := range []string{
		"", "\x00", "a 1", "a{} 1 2\n", "a{b=\"c\\\"d\"} NaN\n", "{\"a.b\",c=\"d\"} +Inf 1e3\n# EOF\n", "a{b=\"c} 1\nx 1\n", "a 1 # {x=\"y\"} 2 3\n",
		"# TYPE vllm:x histogram\nvllm:x_bucket{engine=\"0\",le=\"x\"} 1\nvllm:x_bucket{engine=\"0\",le=\"+Inf\"} 1\n",
		`[{"iter":1,"iterLatencyMS":2.5,"kvCacheStats":{"maxNumBlocks":5}}]`, `{"a":{"a":{"a":[1,2]}}}`, "{\"a\"} 1\n", "<html>", "a\t1\ta", "a{b=\"1\",b=\"2\"} 1\n",
	} {
		f.Add([]byte(page), []byte(page+"\na 5\n"), len(page)%2 == 0)
	}
	f.Fuzz(func(t *testing.T, first, second []byte, openMetrics bool) {
		contentType := ""
		if openMetrics {
			contentType = "application/openmetrics-text"
		}
		r, sink := NewReader(Options{WallZero: 1, MaxSeries: 1000, Raw: true}), &auditor{t: t, seen: map[signal.Series]bool{}}
		for i, body := range [][]byte{first, second, second} {
			kept := string(body[:len(body):cap(body)])
			info, err := r.Read(body, contentType, int64(i), int64(i)+1, sink)
			if err == nil && info.Series > 1000 {
				t.Errorf("%d series", info.Series)
			}
			if string(body) != kept {
				t.Error("the body was changed")
			}
			for name, v := range r.signals() {
				if !finite(v) {
					t.Errorf("%s is %v", name, v)
				}
			}
			for _, m := range r.Missing() {
				if m.Why == "" || m.Signal == "" || m.Source == "" {
					t.Errorf("%+v", m)
				}
			}
		}
		var strict, tolerant sampleLines
		if looksLike(first) == "" && parsePage(first, openMetrics, &strict) == nil {
			scanPage(first, openMetrics, &tolerant)
			if tolerant.bad > 0 {
				return // the parser also takes lines without a space before the value
			}
			if d := cmp.Diff(strict.got, tolerant.got); d != "" {
				t.Errorf("(-parser +scanner)\n%s", d)
			}
		}
	})
}

func FuzzSelector(f *testing.F) {
	for _, s := range []string{"a", "a_*", `a{b="c"}`, `a{b!="c",d=~"e|f", g!~"h.*" , }`, "vllm:*", `a{b="\"\\\n"}`, "{", `a{b=`, "*", `a{="x"}`, `a{b=~"("}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s, again Selector
		if s.UnmarshalText([]byte(text)) != nil {
			return
		}
		if err := again.UnmarshalText([]byte(s.String())); err != nil || again.String() != s.String() {
			t.Errorf("%q is read as %q, and that as %q, %v", text, s, again, err)
		}
		s.matchesName(text)
		s.matchesLabels(func(string) string { return text })
	})
}
