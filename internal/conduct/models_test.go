package conduct

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// One odd field does not make a list of models unreadable.
func TestModelList(t *testing.T) {
	got := parseModels(page{status: 200, body: []byte(`{"object":"list","data":[
		{"id":"a","owned_by":"vllm","max_model_len":8192},
		{"id":"b","owned_by":7,"max_model_len":1e30},
		{"id":"c","owned_by":null,"max_model_len":"4096"},
		{"id":"d","max_model_len":-5},
		{"id":"e","max_model_len":null}]}`)})
	want := []Model{{ID: "a", OwnedBy: "vllm", MaxContext: new(int64(8192))}, {ID: "b"}, {ID: "c"}, {ID: "d"}, {ID: "e"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, body := range []string{`{"data":null}`, `[]`, `<html>`, `{"data":{}}`, ``} {
		if got := parseModels(page{status: 200, body: []byte(body)}); got != nil {
			t.Errorf("%s is a list: %v", body, got)
		}
	}
}
