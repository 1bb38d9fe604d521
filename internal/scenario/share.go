package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"plimsoll/internal/strictyaml"
)

// Share is a workload and its part of the users or sessions of a run. Its text
// forms are NAME and NAME=WEIGHT; NAME alone has the weight 1.
type Share struct {
	Name   string
	Weight float64
}

// maxWeight bounds a weight.
const maxWeight = 1e6

// ParseShare reads the text form of a share. The error says what was expected,
// without the text itself.
func ParseShare(text string) (Share, error) {
	name, weight, given := strings.Cut(strings.TrimSpace(text), "=")
	s := Share{Name: strings.TrimSpace(name), Weight: 1}
	if given {
		var err error
		if s.Weight, err = strconv.ParseFloat(strings.TrimSpace(weight), 64); err != nil {
			return Share{}, fmt.Errorf("want NAME=WEIGHT with a number behind the =, got %s", strictyaml.Quote(weight))
		}
	}
	return s, s.check()
}

func (s Share) check() error {
	switch {
	case s.Name == "":
		return fmt.Errorf("want the name of a workload, as in %s or %s=1", Synthetic, Synthetic)
	case !(s.Weight > 0 && s.Weight <= maxWeight):
		return fmt.Errorf("want a weight above 0 and at most %g, got %v", float64(maxWeight), s.Weight)
	}
	return nil
}

// String returns the text form.
func (s Share) String() string {
	if s.Weight == 1 {
		return s.Name
	}
	return s.Name + "=" + strconv.FormatFloat(s.Weight, 'f', -1, 64)
}

// MarshalText returns the text form.
func (s Share) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the text form.
func (s *Share) UnmarshalText(b []byte) error {
	x, err := ParseShare(string(b))
	if err == nil {
		*s = x
	}
	return err
}
