package telemetry

import (
	"reflect"
	"testing"
)

// TestCloneSharesNothing: what a reader holds must not change while the scraper goes on.
func TestCloneSharesNothing(t *testing.T) {
	var in SourceInfo
	v := reflect.ValueOf(&in).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Slice {
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		}
	}
	out := reflect.ValueOf(in.clone())
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Slice && f.Pointer() == out.Field(i).Pointer() {
			t.Errorf("%s is shared", v.Type().Field(i).Name)
		}
	}
}
