package scenario

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestHardware(t *testing.T) {
	f := func(text string, want Hardware, saved string) {
		t.Helper()
		var h Hardware
		if err := h.UnmarshalText([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
			return
		}
		if d := cmp.Diff(want, h); d != "" || h.String() != saved {
			t.Errorf("%q is saved as %q, want %q (-want +got):\n%s", text, h, saved, d)
		}
	}
	f("h100", Hardware{GPUs: 1, GPU: "h100"}, "h100")
	f("1xh100", Hardware{GPUs: 1, GPU: "h100"}, "h100")
	f(" 8 x H200 SXM , fp8 ", Hardware{GPUs: 8, GPU: "H200 SXM", Precision: "fp8"}, "8xH200 SXM,fp8")
	// A name may begin with digits.
	f("4090", Hardware{GPUs: 1, GPU: "4090"}, "4090")
	f("2x4090,bf16", Hardware{GPUs: 2, GPU: "4090", Precision: "bf16"}, "2x4090,bf16")
	for _, bad := range []string{"", "2x", "0xh100", "99999xh100", "h100,", "h100,int3", ",fp8", "h100,fp8,fp8", "2x2xh100", "a\nb"} {
		var h Hardware
		if err := h.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q was read as %+v", bad, h)
		}
	}
}

func TestHardwareReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h, again Hardware
		if h.UnmarshalText([]byte(rapid.String().Draw(t, "text"))) != nil {
			t.Skip()
		}
		if err := again.UnmarshalText([]byte(h.String())); err != nil || again != h {
			t.Fatalf("%+v was saved as %q and read as %+v (%v)", h, h.String(), again, err)
		}
	})
}
