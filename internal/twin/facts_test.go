package twin

import "testing"

// By hand: Llama 3.1 8B has 32 layers of 8 KV heads of 128 and 32 query heads, and
// its active parameters are all but the embedding of 128256 x 4096.
func TestFactsOfModels(t *testing.T) {
	m, err := Builtin().Model("llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	f := m.Facts("")
	near(t, "KV bytes", f.KVBytes, 32*8*(128+128)*2, 1e-9)
	near(t, "FLOPs of a pair", f.PairFLOPs, 32*2*32*256, 1e-9)
	near(t, "active parameters", f.ActiveParams, 8.03e9-128256*4096, 1e-3)
	near(t, "bytes of a step", f.StepBytes, 2*f.ActiveParams, 1e-3)
	if f.Window != 0 || f.WindowKVBytes != 0 {
		t.Errorf("a window of %d", f.Window)
	}
	// gpt-oss-120b: every other layer sees 128 tokens; 4 of 128 experts a token, so
	// that 32 tokens read 64 % of them.
	if m, err = Builtin().Model("gpt-oss-120b"); err != nil {
		t.Fatal(err)
	}
	f = m.Facts("")
	near(t, "KV bytes", f.KVBytes, 18*8*(64+64)*2, 1e-9)
	near(t, "KV bytes in the window", f.WindowKVBytes, f.KVBytes, 1e-9)
	if f.Window != 128 {
		t.Errorf("a window of %d, want 128", f.Window)
	}
	if share := f.StepBytes / (0.57 * m.Params()); share < 0.6 || share > 0.75 {
		t.Errorf("a step reads %.2f of the weights", share)
	}
}
