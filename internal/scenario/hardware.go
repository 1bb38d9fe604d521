package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Hardware is what one replica of the service runs on, as the user declares it.
// The zero value says nothing.
type Hardware struct {
	// GPUs is the number of accelerators, GPU the name of their model.
	GPUs int
	GPU  string
	// Precision is that of the weights: bf16, fp8 or fp4; empty means bf16.
	Precision string
}

// precisions are those of weights that a Hardware may have.
var precisions = []string{"bf16", "fp8", "fp4"}

// maxGPUs bounds the accelerators of one replica.
const maxGPUs = 4096

// UnmarshalText reads [Nx]NAME[,PRECISION].
func (h *Hardware) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	out := Hardware{GPUs: 1}
	s, out.Precision, _ = strings.Cut(s, ",")
	out.Precision = strings.TrimSpace(out.Precision)
	if strings.Contains(string(text), ",") && !slices.Contains(precisions, out.Precision) {
		return fmt.Errorf("want a precision of %s behind the comma", strings.Join(precisions, ", "))
	}
	s = strings.TrimSpace(s)
	if n, name, ok := counted(s); ok {
		count, err := strconv.Atoi(n)
		if err != nil || count < 1 || count > maxGPUs {
			return fmt.Errorf("want a number of GPUs from 1 to %d before the x", maxGPUs)
		}
		out.GPUs, s = count, name
	}
	if _, _, twice := counted(s); s == "" || twice || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return errors.New("want the GPUs of one replica, as in h100, 2xh100 or 8xh200,fp8")
	}
	out.GPU = s
	*h = out
	return nil
}

// counted takes 2xNAME apart.
func counted(s string) (n, name string, ok bool) {
	rest := strings.TrimLeft(s, "0123456789")
	n = s[:len(s)-len(rest)]
	name, ok = strings.CutPrefix(strings.TrimSpace(rest), "x")
	return n, strings.TrimSpace(name), ok && n != ""
}

// MarshalText writes what UnmarshalText reads.
func (h Hardware) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// String returns h as it stands in a file, and nothing for the zero value.
func (h Hardware) String() string {
	s := h.GPU
	if h.GPUs > 1 {
		s = strconv.Itoa(h.GPUs) + "x" + s
	}
	if h.Precision != "" {
		s += "," + h.Precision
	}
	return s
}
