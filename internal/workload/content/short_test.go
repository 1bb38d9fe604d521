package content

import (
	"math"
	"testing"

	"plimsoll/internal/message"
)

// The number at the beginning of a text counts much more than its bytes: short texts
// that left that aside were up to twice as long as asked for.
func TestShortTextsLeaveRoomForTheirNumber(t *testing.T) {
	compared := 0
	for _, name := range []string{"prose", "contract", "caselaw", "filing", "paper", "code"} {
		g, lang, err := Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		milli := g.BytesPerToken(lang)
		for _, n := range []int{5, 10, 19, 20, 40, 80, 200, 1000} {
			var mean float64
			const seeds = 40
			for seed := range uint64(seeds) {
				text := new(Renderer).AppendText(nil, &message.Part{Generator: name, Seed: seed, Tokens: n})
				head := min(len(text), saltBytes)
				mean += (float64(head)*saltTokens/saltBytes + float64(len(text)-head)*1000/float64(milli)) / seeds
			}
			compared++
			// A text ends with a whole word.
			if math.Abs(mean-float64(n)) > 2.5 {
				t.Errorf("%s of %d tokens: %.1f on average", name, n, mean)
			}
		}
	}
	if compared < 40 {
		t.Errorf("%d lengths", compared)
	}
}

// What Fit takes for the template of a server without one is the number of each text.
func TestNumberTokensAreNoTemplate(t *testing.T) {
	for name, want := range map[string]float64{"prose": 19 - 24/4.596, "contract": 19 - 24/4.852, "": 0, "words": 0} {
		g, lang := new(Renderer).find(name)
		milli := g.BytesPerToken(lang)
		var samples []Sample
		for _, n := range []int{100, 400, 1600} {
			bytes := len(new(Renderer).AppendText(nil, &message.Part{Generator: name, Seed: 7, Tokens: n}))
			tokens := float64(bytes) * 1000 / float64(milli)
			if want > 0 {
				tokens = saltTokens + float64(bytes-saltBytes)*1000/float64(milli)
			}
			samples = append(samples, Sample{Bytes: bytes, Tokens: int(math.Round(tokens))})
		}
		fitted, over, err := Fit(samples)
		if err != nil {
			t.Fatal(err)
		}
		if got := NumberTokens(name, milli); math.Abs(got-want) > 0.01 {
			t.Errorf("%q: %.2f, want %.2f", name, got, want)
		}
		if left := over - NumberTokens(name, fitted); math.Abs(left) > 1 {
			t.Errorf("%q: a template of %.2f tokens, and there is none", name, left)
		}
	}
}
