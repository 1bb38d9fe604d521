package signal

import (
	"regexp"
	"strings"
	"testing"
)

func TestCatalogueIsWhole(t *testing.T) {
	name := regexp.MustCompile(`^(client\.|gateway\.)?[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	seen := map[string]bool{}
	for i, d := range All() {
		switch {
		case int(d.ID) != i+1:
			t.Errorf("%s: identifier %d at place %d", d.Name, d.ID, i+1)
		case !name.MatchString(d.Name):
			t.Errorf("%q is not a canonical name", d.Name)
		case seen[d.Name]:
			t.Errorf("%s is there twice", d.Name)
		case d.Unit == "" || d.Help == "" || strings.HasSuffix(d.Help, "."):
			t.Errorf("%s: unit %q, help %q", d.Name, d.Unit, d.Help)
		case (d.Kind == Ratio) != (d.Part != None && d.Whole != None):
			t.Errorf("%s: a ratio has two counters, and nothing else has", d.Name)
		case strings.HasPrefix(d.Name, "client.") != (d.Group == Client):
			t.Errorf("%s is in the wrong group", d.Name)
		case strings.HasPrefix(d.Name, "gateway.") != (d.Group == Gateway):
			t.Errorf("%s is in the wrong group", d.Name)
		}
		if d.Kind == Ratio {
			for _, id := range []ID{d.Part, d.Whole} {
				if id.Def().Kind != Counter || id.Def().Group != d.Group {
					t.Errorf("%s is made of %s", d.Name, id)
				}
			}
		}
		if d.Unit == "1" && d.Combine == Sum {
			t.Errorf("%s: ratios are never added", d.Name)
		}
		seen[d.Name] = true
		if id, ok := Lookup(d.Name); !ok || id != d.ID || id.Def().Name != d.Name || id.String() != d.Name {
			t.Errorf("%s is not found under its name", d.Name)
		}
	}
	if id, ok := Lookup("nothing"); ok || id != None || None.String() != "" {
		t.Error("an unknown name is no signal")
	}
}

// TestHighest: the highest of several has a name that no other signal has.
func TestHighest(t *testing.T) {
	for id, want := range map[ID]string{KVCacheUsage: "kv_cache_usage_max", MemClock: "mem_clock_max", SMClock: "", SMClockMax: "", Power: "", XID: ""} {
		if got := id.Def().Highest(); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
	for _, d := range All() {
		if _, taken := Lookup(d.Highest()); taken {
			t.Errorf("%s: %s is another signal", d.Name, d.Highest())
		}
	}
}
