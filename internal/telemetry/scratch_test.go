package telemetry

import (
	"bytes"
	"fmt"
	"runtime"
	"time"
	"math/rand/v2"
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

func TestScratchParity(t *testing.T) {
	if os.Getenv("PARITY") == "" {
		t.Skip()
	}
	parts := []string{"a", "b:c", "le", "{", "}", "=", "\"", "\"x\"", "\"a\\\"b\"", ",", " ", "\t", "1", "2.5", "NaN", "+Inf", "-Inf", "inf", "1e3", "0x1p2", "1_0", "#", "# ", "\n", "\n", "\r", "\\", "{a=\"b\"}", " 1\n", " 1 2\n", "é", "\xff", "# HELP a b\n", "# TYPE a gauge\n", "# EOF\n", "{\"q.r\"}", "{\"q.r\",a=\"b\"} 3\n", "\x00", ".", "-", "nan", "1e400", " # {a=\"b\"} 1\n"}
	rng := rand.New(rand.NewPCG(7, uint64(os.Getpid())))
	bad := 0
	ok := 0
	for i := 0; i < 3000000 && bad < 15; i++ {
		var b []byte
		for range 1 + rng.IntN(9) {
			b = append(b, parts[rng.IntN(len(parts))]...)
		}
		var x, y sampleLines
		if looksLike(b) != "" {
			continue
		}
		om := rng.IntN(4) == 0
		if parsePage(b, om, &x) != nil {
			continue
		}
		ok++
		scanPage(b, om, &y)
		if y.bad > 0 {
			continue
		}
		if fmt.Sprint(x.got) != fmt.Sprint(y.got) {
			bad++
			fmt.Printf("%q om=%v\n  parser %q\n  scanner %q\n", b, om, x.got, y.got)
		}
	}
	fmt.Println(ok, "accepted")
}

func TestScratchHostile(t *testing.T) {
	if os.Getenv("HOSTILE") == "" {
		t.Skip()
	}
	const size = 32 << 20
	rep := func(s string) []byte { return bytes.Repeat([]byte(s), size/len(s)) }
	var many bytes.Buffer
	for i := 0; many.Len() < size; i++ {
		fmt.Fprintf(&many, "vllm:num_requests_running{engine=\"%d\",model_name=\"some model or other\"} %d\n", i, i)
	}
	for name, b := range map[string][]byte{
		"one label": append([]byte("a{b=\""), rep("x")...), "dup": rep("a 1\n"), "malformed": rep("!\n"), "newlines": rep("\n"), "many": many.Bytes(),
		"open json": rep("["), "json objs": rep("{\"a\":1}"), "json deep": append([]byte("[{\"a\":"), rep("[")...), "labels": append([]byte("a"), rep("{a=\"b\",")...), "quotes": rep("\""), "hash": rep("# HELP a b\n"),
		"many labels": append(append([]byte("a{"), rep("a=\"b\",")...), "} 1\n"...), "backslash": append(append([]byte("a{b=\""), rep("\\\\")...), "\"} 1\n"...),
	} {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		before := m.TotalAlloc
		start := time.Now()
		r := NewReader(Options{})
		info, err := r.Read(b, "", 0, 1, &counting{})
		d := time.Since(start)
		runtime.ReadMemStats(&m)
		s := fmt.Sprint(err)
		fmt.Printf("%-12s %8v alloc %4d MB series %d mal %d dup %d err %.80s\n", name, d.Round(time.Millisecond), (m.TotalAlloc-before)>>20, info.Series, info.Malformed, info.Duplicate, s)
	}
}
