package phrase

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	late = New("test.late", "p99 of the {what} is {lag}, {share} of {what}")
	bare = New("test.bare", "nothing happened")
)

func TestSay(t *testing.T) {
	if got := late.Holes(); !slices.Equal(got, []string{"what", "lag", "share"}) {
		t.Errorf("holes are %q", got)
	}
	text, said := late.Say(Text("send {lag}"), Number(12.345, "ms"), Share(0.0625))
	if want := "p99 of the send {lag} is 12.3 ms, 6.25 % of send {lag}"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
	b, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"code":"test.late","values":{"lag":{"number":12.345,"unit":"ms"},"share":{"number":0.0625,"unit":"1"},"what":{"text":"send {lag}"}}}`
	if got := string(b); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	text, said = bare.Say()
	if diff := cmp.Diff(Said{Code: "test.bare"}, said); text != "nothing happened" || diff != "" {
		t.Errorf("%q (-want +got):\n%s", text, diff)
	}
}

func TestValue(t *testing.T) {
	f := func(v Value, want string) {
		t.Helper()
		if got := v.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	f(Count(0), "0")
	f(Count(1234567), "1234567")
	f(Number(3.14159, ""), "3.14")
	f(Number(1234.5, "ms"), "1.23 s")
	f(Number(999.4, "ms"), "999 ms")
	f(Number(999.5, "ms"), "1.00 s")
	f(Number(-1058, "ms"), "-1.06 s")
	f(Number(1234567, "ms"), "1235 s")
	f(Number(100, "ms"), "100 ms")
	f(Share(1), "100 %")
	f(Number(math.NaN(), "ms"), "–")
	f(Number(math.Inf(1), "ms"), "–")
	f(Text(""), "")
	f(Quote("a name"), "a name")
}

func TestBugs(t *testing.T) {
	f := func(why string, do func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("no panic: %s", why)
			}
		}()
		do()
	}
	f("a code that is taken", func() { New("test.late", "x") })
	f("too few values", func() { late.Say(Text("x")) })
	f("too many values", func() { bare.Say(Text("x")) })
}

func TestAll(t *testing.T) {
	var codes []string
	for _, p := range All() {
		codes = append(codes, p.Code())
		if p.Text() == "" {
			t.Errorf("%s says nothing", p.Code())
		}
	}
	if !slices.IsSorted(codes) || !slices.Contains(codes, "test.bare") {
		t.Errorf("codes are %q", codes)
	}
}
