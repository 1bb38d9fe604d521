package workload

import (
	"reflect"
	"strings"
	"testing"

	"plimsoll/internal/scenario"
)

// TestGroupsAreNoFields: who sets a field of a workload on a scenario is told where it
// belongs, whatever group it is of.
func TestGroupsAreNoFields(t *testing.T) {
	groups := 0
	for f := range reflect.TypeFor[File]().Fields() {
		k := f.Type
		for k.Kind() == reflect.Pointer || k.Kind() == reflect.Slice {
			k = k.Elem()
		}
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if k.Kind() != reflect.Struct || name == "" {
			continue
		}
		groups++
		_, err := scenario.Parse("x.yaml", []byte("target: {url: 'http://h'}\nload: {users: 1}\n"), []string{name + ".anything=1"})
		if err == nil || !strings.Contains(err.Error(), "load.steps") {
			t.Errorf("%s is refused by %v, want that it says where it belongs", name, err)
		}
	}
	if groups < 9 {
		t.Errorf("%d groups were looked at, want at least 9", groups)
	}
}
