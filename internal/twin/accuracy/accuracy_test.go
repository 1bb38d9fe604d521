package accuracy

import (
	"bytes"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The targets, held on the rows that the project ships.
func TestTargets(t *testing.T) {
	f, err := os.Open("testdata/rows.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := Read(f)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := Evaluate(t.Context(), rows)
	if err != nil {
		t.Fatal(err)
	}
	vllm := 0
	for _, g := range rep.Groups {
		if !g.Counts() {
			continue
		}
		t.Logf("%s: %d rows, TPOT %.1f %%, TTFT %.1f %%, E2E %.1f %%", g.Key, g.Used, 100*g.TPOT, 100*g.TTFT, 100*g.E2E)
		if g.Engine == "vllm" {
			vllm++
			if g.TPOT > 0.10 || g.E2E > 0.10 {
				t.Errorf("%s: TPOT is off by %.1f %%, E2E by %.1f %%; want 10 %%", g.Key, 100*g.TPOT, 100*g.E2E)
			}
		}
	}
	tpot, ttft, e2e, n := rep.Medians()
	if n < 6 || vllm < 1 {
		t.Errorf("%d groups count, %d of vLLM", n, vllm)
	}
	if !(tpot <= 0.12 && e2e <= 0.12 && ttft <= 0.25) {
		t.Errorf("medians: TPOT %.3f, E2E %.3f, TTFT %.3f; want 0.12, 0.12, 0.25", tpot, e2e, ttft)
	}
}

const table = `id,confidence,hardware,engine,engine_version,model,precision,mode,tp,num_gpus,load_kind,concurrency,rate_rps,isl_mean,osl_mean,isl_nominal,osl_nominal,ttft_mean_ms,tpot_mean_ms,spec_decode,notes
`

// Rows that cannot be used are named with the reason; nothing is lost silently.
func TestReasons(t *testing.T) {
	row := func(s string) string { return s + "\n" }
	in := table +
		row(`a,A,H100 SXM,vllm,0.12.0,llama-3.1-8b,bf16,agg,1,1,closed-loop concurrency,4,,512,64,512,64,50,8,,`) +
		row(`b,C,H100 SXM,vllm,0.12.0,llama-3.1-8b,bf16,agg,1,1,closed-loop concurrency,4,,512,64,512,64,50,8,,`) +
		row(`c,A,H100 SXM,vllm,0.12.0,llama-3.1-8b,bf16,agg,1,1,closed-loop concurrency,4,,512,64,512,64,50,8,eagle,`) +
		row(`d,A,H100 SXM,vllm,0.12.0,llama-3.1-8b,bf16,disagg,1,1,closed-loop concurrency,4,,512,64,512,64,50,8,,`) +
		row(`e,A,H100 SXM,vllm,0.12.0,llama-3.1-8b,bf16,agg,3,3,closed-loop concurrency,4,,512,64,512,64,50,8,,`) +
		row(`f,A,H100 SXM,vllm,0.12.0,llama-3.1-8b,bf16,agg,1,1,open-loop,,,512,64,512,64,50,8,,`) +
		row(`g,A,H100 SXM,vllm,0.12.0,llama-3.1-8b,bf16,agg,1,1,closed-loop concurrency,4,,512,64,512,64,50,8,,max_num_seqs 4`) +
		row(`h,A,H100 SXM,unknown,1,llama-3.1-8b,bf16,agg,1,1,closed-loop concurrency,4,,512,64,512,64,50,8,,`) +
		row(`i,A,H100 SXM,vllm,0.12.0,llama-3.1-8b,bf16,agg,1,1,closed-loop concurrency,4,,512,64,512,64,,,,`) +
		row(`j,C,H200 SXM,vllm,0.18.0,gpt-oss-120b,fp4,agg,1,1,closed-loop concurrency,4,,512,64,512,64,50,8,,`)
	var out bytes.Buffer
	if err := Run(t.Context(), strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# 10 rows read", "left out: 1 mode disagg, 1 no rate", "1 saturated in the twin", "1 speculative decoding", "1 tp 3 does not divide the 32 attention heads",
		`1 engine "unknown" is none of the twin's`, "# rows in no group: 1 neither TTFT nor TPOT", "# dense groups of confidence C or D", "median_ape tpot=NaN ttft=NaN e2e=NaN groups=0\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	// Mixtures of low confidence are not run, and so have no errors, least of all 0.
	if lines := regexp.MustCompile(`(?m)^H200 SXM .*$`).FindAllString(out.String(), -1); len(lines) != 1 || !strings.HasSuffix(lines[0], "rows=1   moe, confidence C or D") {
		t.Errorf("of the mixture it says %q", lines)
	}
}

func TestTablesThatAreNone(t *testing.T) {
	for in, want := range map[string]string{
		"":                                   "read the header: EOF",
		"id,confidence\n":                    `no column "hardware"`,
		table + "a,b\n":                      "read a row",
		strings.Replace(table, "tp,", "", 1): `no column "tp"`,
	} {
		if _, err := Read(strings.NewReader(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in it", in, err, want)
		}
	}
	rows, err := Read(strings.NewReader(table + `a,A,H100,vllm,0.12.0,m,bf16,agg,1e9,-1,closed-loop concurrency,inf,x,512,64,512,64,1,2,,` + "\n"))
	if err != nil || rows[0].TP != 0 || !math.IsNaN(rows[0].Concurrency) || !math.IsNaN(rows[0].Rate) {
		t.Errorf("%+v, %v", rows, err)
	}
}

// The overhead of a group is chosen by others only: other figures of its own leave
// its overhead as it was.
func TestGroupsDoNotChooseForThemselves(t *testing.T) {
	run := func(tpot string) (chosen bool, overhead float64) {
		in := table
		for i, model := range []string{"llama-3.1-8b", "qwen3-8b", "qwen3-14b", "mistral-7b"} {
			for _, c := range []string{"1", "2", "3", "4", "5"} {
				// A little slower than the twin, so that a larger overhead is better.
				measured := []string{tpot, "8.3", "13.6", "7.6"}[i]
				in += strings.Join([]string{model + c, "A", "H100 SXM", "trtllm", "1.0", model, "bf16", "agg", "1", "1", "closed-loop concurrency", c, "", "256", "64", "256", "64", "20", measured, "", ""}, ",") + "\n"
			}
		}
		rows, err := Read(strings.NewReader(in))
		if err != nil {
			t.Fatal(err)
		}
		rep, err := Evaluate(t.Context(), rows)
		if err != nil {
			t.Fatal(err)
		}
		return rep.Groups[0].Chosen, rep.Groups[0].Overhead
	}
	c1, o1 := run("3")
	c2, o2 := run("300")
	if !c1 || !c2 || o1 != o2 || o1 <= 600 {
		t.Errorf("others want more than 600 us; with a TPOT of 3 ms the overhead is %v us (%v), with 300 ms %v (%v)", o1, c1, o2, c2)
	}
}

func TestVersions(t *testing.T) {
	for version, want := range map[string]string{"0.8.4": "vllm-0.12", "v0.11.0": "vllm-0.12", "0.12.0": "vllm-0.12", "0.15.1 (per repo docs)": "vllm", "0.19.0": "vllm", "nightly-5b8c30d": "vllm", "": "vllm-0.12"} {
		if got := vllm(&Row{Version: version}); got != want {
			t.Errorf("vLLM %q: %s, want %s", version, got, want)
		}
	}
}
