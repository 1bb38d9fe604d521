package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestTally: whatever came before, what failed stands at the end.
func TestTally(t *testing.T) {
	event := func(action, pkg, test, output string) string {
		return fmt.Sprintf(`{"Action":%q,"Package":%q,"Test":%q,"Output":%q,"Elapsed":1.5}`+"\n", action, pkg, test, output)
	}
	in := "make: begins\n" +
		event("output", "a", "TestGood", "=== RUN TestGood\n") + event("output", "a", "TestGood", "chatter\n") + event("pass", "a", "TestGood", "") +
		event("output", "a", "TestNot", "    a_test.go:5: no pip here\n") + event("output", "a", "TestNot", "--- SKIP: TestNot (0.00s)\n") + event("skip", "a", "TestNot", "") +
		event("output", "a", "TestBad/one", "    a_test.go:9: 3, want 4\n") + event("fail", "a", "TestBad/one", "") +
		event("output", "a", "TestBad", "--- FAIL: TestBad (0.00s)\n") + event("fail", "a", "TestBad", "") +
		event("output", "a", "", "FAIL\n") + event("fail", "a", "", "") +
		event("output", "b", "TestCut", "panic: x\n") + event("fail", "b", "", "") +
		event("pass", "c", "", "") + "make: *** [race] Error 1\n"
	var out strings.Builder
	tally(strings.NewReader(in), &out)
	want := `make: begins
skip  a TestNot: a_test.go:5: no pip here
ok    c 1.5 s
make: *** [race] Error 1
FAIL  a TestBad/one
          a_test.go:9: 3, want 4
FAIL  a TestBad
      --- FAIL: TestBad (0.00s)
FAIL  a
      FAIL
FAIL  b
CUT   b TestCut
      panic: x
failed: a TestBad/one: a_test.go:9: 3, want 4
failed: b
failed: b TestCut: panic: x
tally: 1 passed, 2 failed, 1 skipped
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
