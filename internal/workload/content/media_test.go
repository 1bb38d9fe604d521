package content

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
	"image"
	"testing"
)

func sum(b []byte) uint64 {
	h := fnv.New64a()
	h.Write(b)
	return h.Sum64()
}

func TestImages(t *testing.T) {
	type draw func([]byte, uint64, int, int) ([]byte, error)
	for name, f := range map[string]draw{"png": AppendPNG, "jpeg": AppendJPEG} {
		for _, size := range [][2]int{{1, 1}, {7, 3}, {64, 48}, {640, 480}} {
			a, err := f([]byte("before"), 5, size[0], size[1])
			if err != nil {
				t.Fatal(err)
			}
			b, err := f(nil, 5, size[0], size[1])
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(a[len("before"):], b) {
				t.Errorf("%s %v: two images of one seed", name, size)
			}
			img, kind, err := image.Decode(bytes.NewReader(b))
			if err != nil || kind != name {
				t.Fatalf("%s %v: decoded as %q, %v", name, size, kind, err)
			}
			if got := img.Bounds().Size(); got.X != size[0] || got.Y != size[1] {
				t.Errorf("%s: %v, want %v", name, got, size)
			}
			if other, _ := f(nil, 6, size[0], size[1]); size[0] > 7 && bytes.Equal(b, other) {
				t.Errorf("%s %v: one image of two seeds", name, size)
			}
		}
		for _, size := range [][2]int{{0, 5}, {5, -1}, {MaxSide + 1, 5}} {
			if _, err := f(nil, 1, size[0], size[1]); err == nil {
				t.Errorf("%s %v is drawn", name, size)
			}
		}
	}
}

// Pixels and samples are made of whole numbers alone, so that every machine makes
// the same.
func TestMediaArePinned(t *testing.T) {
	c, err := chart(9, 300, 200)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := sum(c.Pix), uint64(0x74025fa573985ce7); got != want {
		t.Errorf("chart %#x, want %#x", got, want)
	}
	s, err := scene(9, 300, 200)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := sum(append(append(s.Y, s.Cb...), s.Cr...)), uint64(0xf15d1239c5d30e30); got != want {
		t.Errorf("scene %#x, want %#x", got, want)
	}
	w, err := AppendWAV(nil, 9, 1500)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := sum(w), uint64(0xf14883bf7062f6c8); got != want {
		t.Errorf("sound %#x, want %#x", got, want)
	}
}

func TestSound(t *testing.T) {
	w, err := AppendWAV(nil, 3, 2000)
	if err != nil {
		t.Fatal(err)
	}
	if len(w) != 44+2*AudioRate*2 || string(w[:4]) != "RIFF" || int(binary.LittleEndian.Uint32(w[40:])) != len(w)-44 {
		t.Errorf("%d bytes, head % x", len(w), w[:44])
	}
	var loudest int
	for i := 44; i < len(w); i += 2 {
		loudest = max(loudest, int(int16(binary.LittleEndian.Uint16(w[i:]))))
	}
	if loudest < 1000 || loudest > 32000 {
		t.Errorf("loudest sample %d", loudest)
	}
	for _, ms := range []int{0, -1, MaxAudioMillis + 1} {
		if _, err := AppendWAV(nil, 1, ms); err == nil {
			t.Errorf("%d ms are made", ms)
		}
	}
}

func TestRoot(t *testing.T) {
	for v := range 10_000 {
		if r := root(v); r*r > v || (r+1)*(r+1) <= v {
			t.Fatalf("root of %d is %d", v, r)
		}
	}
}

func BenchmarkMedia(b *testing.B) {
	var buf []byte
	for name, f := range map[string]func() error{
		"png":  func() (err error) { buf, err = AppendPNG(buf[:0], 1, 1024, 1024); return err },
		"jpeg": func() (err error) { buf, err = AppendJPEG(buf[:0], 1, 1024, 1024); return err },
		"wav":  func() (err error) { buf, err = AppendWAV(buf[:0], 1, 10_000); return err },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(len(buf)))
		})
	}
}
