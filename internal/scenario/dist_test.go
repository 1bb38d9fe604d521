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
	f("gamma:mean=400,cv=0.5,max=900", Dist{Kind: Gamma, A: 400, B: 0.5, Max: 900}, "gamma:mean=400,cv=0.5,max=900")
	f("zipf: s=1.1, max=64", Dist{Kind: Zipf, A: 1, B: 1.1, Max: 64}, "zipf:s=1.1,max=64")
	f("file:lengths.txt,max=64", Dist{Kind: Empirical, Text: "lengths.txt", Max: 64}, "file:lengths.txt,max=64")
	f("mix: 0.7*512 | 0.3*lognormal:p50=40,p99=90,max=80", Dist{Kind: Mixture, Text: "0.7*512|0.3*lognormal:p50=40,p99=90,max=80"}, "mix:0.7*512|0.3*lognormal:p50=40,p99=90,max=80")
	f("uniform:100..900,max=500", Dist{Kind: Uniform, A: 100, B: 900, Max: 500}, "uniform:100..900,max=500")
	for _, bad := range []string{
		"gamma:mean=400", "gamma:mean=0,cv=1", "gamma:mean=4,cv=-1", "gamma:mean=4,cv=101", "zipf:s=1", "zipf:max=4", "zipf:s=1,max=4.5", "file:", "mix:", "mix:512", "mix:0*512", "mix:1*mix:1*5", "mix:1*0",
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

func TestParseCountAndDelay(t *testing.T) {
	count := func(text, want, problem string) {
		t.Helper()
		c, err := ParseCount(text)
		if problem != "" {
			if err == nil || err.Error() != problem {
				t.Errorf("%q: %v, want %q", text, err, problem)
			}
			return
		}
		if err != nil || c.String() != want {
			t.Errorf("%q: %v, %v, want %s", text, c, err, want)
		}
	}
	count("4", "4", "")
	count("uniform:4..8", "uniform:4..8", "")
	count("zipf:s=1.1,max=9", "zipf:s=1.1,max=9", "")
	count("0", "", "want a whole number of at least 1")
	count("uniform:8..4", "", "uniform: the low end 8 is above the high end 4")
	count("unifrom:4..8", "", `unknown distribution "unifrom", did you mean uniform? want 4, uniform:4..8, normal:6,2 or lognormal:p50=6,p99=20`+more)
	delay := func(text, want, problem string) {
		t.Helper()
		c, err := ParseDelay(text)
		if problem != "" {
			if err == nil || err.Error() != problem {
				t.Errorf("%q: %v, want %q", text, err, problem)
			}
			return
		}
		if err != nil || c.String() != want {
			t.Errorf("%q: %v, %v, want %s", text, c, err, want)
		}
	}
	delay("1s", "1s", "")
	delay("uniform:2s..5s", "uniform:2s..5s", "")
	delay("lognormal:p50=20s,p99=1m30s,max=3m", "lognormal:p50=20s,p99=1m30s,max=3m", "")
	delay("gamma:mean=400ms,cv=1", "gamma:mean=400ms,cv=1", "")
	delay("mix:1*1s|2*uniform:2s..3s", "mix:1*1s|2*uniform:2s..3s", "")
	delay("20", "", "want a duration with a unit: write 20s")
	delay("uniform:2..5", "", "uniform: low: want a duration with a unit: write 2s")
	delay("-1s", "", "want durations of at least 0")
	delay("zipf:s=1,max=4s", "", "zipf: it is of whole numbers, not of durations")
}
