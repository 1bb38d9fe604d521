package scenario

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseDist(t *testing.T) {
	f := func(text string, want Dist, back string) {
		t.Helper()
		got, err := ParseDist(text)
		if err != nil || got != want || got.String() != back {
			t.Errorf("%q: %+v, %v, %s, want %+v, %s", text, got, err, got, want, back)
		}
	}
	f("512", Dist{Kind: Fixed, A: 512}, "512")
	f(" fixed: 512", Dist{Kind: Fixed, A: 512}, "512")
	f("uniform:100..900", Dist{Kind: Uniform, A: 100, B: 900}, "uniform:100..900")
	f("uniform: 7 .. 7", Dist{Kind: Uniform, A: 7, B: 7}, "uniform:7..7")
	f("normal:512,64", Dist{Kind: Normal, A: 512, B: 64}, "normal:512,64")
	f("normal:512.5, 0, max=600, min=1", Dist{Kind: Normal, A: 512.5, Min: 1, Max: 600}, "normal:512.5,0,min=1,max=600")
	f("lognormal:p50=400,p99=4000", Dist{Kind: LogNormal, A: 400, B: 4000}, "lognormal:p50=400,p99=4000")
	f("lognormal:p99=4000,max=8000,p50=400", Dist{Kind: LogNormal, A: 400, B: 4000, Max: 8000}, "lognormal:p50=400,p99=4000,max=8000")
	for _, bad := range []string{
		"", "x", "-1", "0", "1.5", "NaN", "inf", "1e9", "0x10", "1_0", "512 tokens", "uniform", "uniform:", "uniform:5", "uniform:9..1", "uniform:0..1", "uniform:1..2..3", "uniform:1.5..2",
		"normal:", "normal:5", "normal:5,x", "normal:5,-1", "normal:0,1", "normal:5,1,2", "normal:5,1,min=0", "normal:5,1,min=x", "lognormal:400,4000", "lognormal:p50=400", "lognormal:p50=9,p99=1",
		"lognormal:p50=0,p99=1", "lognormal:p50=1,p99=inf", "lognormal:p50=1,p99=2,p75=3", "gamma:1,2", "512,64", "normal:1,1,min=5,max=2",
	} {
		if d, err := ParseDist(bad); err == nil {
			t.Errorf("%q: no error, %+v", bad, d)
		}
	}
}

func TestDistTextReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, MaxTokens)
		a, b := float64(n.Draw(t, "a")), float64(n.Draw(t, "b"))
		d := Dist{Kind: rapid.SampledFrom([]string{Fixed, Uniform, Normal, LogNormal}).Draw(t, "kind"), A: min(a, b), B: max(a, b)}
		switch d.Kind {
		case Fixed:
			d.B = 0
		case Normal, LogNormal:
			d.A += rapid.SampledFrom([]float64{0, 0.25}).Draw(t, "part")
			d.B = max(d.A, d.B)
			if d.B > MaxTokens {
				d.A, d.B = 5, 6
			}
			d.Min = float64(rapid.IntRange(0, 10).Draw(t, "min"))
		}
		got, err := ParseDist(d.String())
		if err != nil || got != d {
			t.Fatalf("%+v is written %s and read %+v, %v", d, d, got, err)
		}
	})
}

func TestDistMean(t *testing.T) {
	f := func(text string, want float64) {
		t.Helper()
		d, err := ParseDist(text)
		if err != nil || math.Abs(d.Mean()-want) > 1e-3*want {
			t.Errorf("%s: mean %v, %v, want %v", text, d.Mean(), err, want)
		}
	}
	f("512", 512)
	f("uniform:100..900", 500)
	f("normal:512,64", 512)
	f("lognormal:p50=400,p99=400", 400)
	// sigma = ln(10)/2.32635 = 0.98978, mean = 400 exp(sigma²/2).
	f("lognormal:p50=400,p99=4000", 400*math.Exp(0.98978*0.98978/2))
}

func TestParseLimit(t *testing.T) {
	f := func(text string, want Limit, back string) {
		t.Helper()
		got, err := ParseLimit(text)
		if err != nil || got != want || got.String() != back {
			t.Errorf("%q: %+v, %v, %s, want %+v, %s", text, got, err, got, want, back)
		}
	}
	f("ttft.p95=500ms", Limit{"ttft", "p95", 500 * time.Millisecond}, "ttft.p95=500ms")
	f(" itl.max = 1m30s ", Limit{"itl", "max", 90 * time.Second}, "itl.max=1m30s")
	f("tpot.mean=40000us", Limit{"tpot", "mean", 40 * time.Millisecond}, "tpot.mean=40ms")
	for _, bad := range []string{"", "ttft", "ttft.p95", "ttft=1s", "ttft.p95=", "ttft.p95=5", "ttft.p95=0", "ttft.p95=0s", "ttft.p95=-1s", "ttft.p94=1s", "tokens.p95=1s", "ttft.p95.x=1s", "ttft.p95<=1s"} {
		if l, err := ParseLimit(bad); err == nil {
			t.Errorf("%q: no error, %+v", bad, l)
		}
	}
}
