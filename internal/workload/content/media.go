package content

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"math"
	"math/bits"

	"plimsoll/internal/message"
	"plimsoll/internal/random"
)

// Limits on media.
const (
	// MaxSide bounds an image's width and height in pixels.
	MaxSide = 8192
	// MaxAudioMillis bounds a sound's length: one hour.
	MaxAudioMillis = 3600_000
	// AudioRate is the samples per second of a sound, which speech models expect.
	AudioRate = 16_000
)

// AppendMedia appends the file of m in base64. Sizes are within the limits above,
// which who describes media checks.
func (r *Renderer) AppendMedia(dst []byte, m *message.Media) []byte {
	var file []byte
	var err error
	switch {
	case m.Kind == message.Audio:
		file, err = AppendWAV(nil, m.Seed, max(1, int(math.Round(m.Seconds*1000))))
	case m.PNG:
		file, err = AppendPNG(nil, m.Seed, m.Width, m.Height)
	default:
		file, err = AppendJPEG(nil, m.Seed, m.Width, m.Height)
	}
	if err != nil {
		panic("BUG: media passed validation: " + err.Error())
	}
	return base64.StdEncoding.AppendEncode(dst, file)
}

// appender is an io.Writer that appends.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

var _ io.Writer = (*appender)(nil)

// AppendPNG appends an image of width x height pixels in PNG: a chart with a
// grid, bars, a course and a legend of noise, drawn by seed. Equal (seed, width,
// height) give equal pixels everywhere, and equal bytes from one build of the
// program.
func AppendPNG(dst []byte, seed uint64, width, height int) ([]byte, error) {
	img, err := chart(seed, width, height)
	if err != nil {
		return dst, fmt.Errorf("draw PNG: %w", err)
	}
	out := &appender{dst}
	e := png.Encoder{CompressionLevel: png.BestSpeed}
	if err := e.Encode(out, img); err != nil {
		return dst, fmt.Errorf("draw PNG: %w", err)
	}
	return out.b, nil
}

// AppendJPEG appends an image of width x height pixels in JPEG at quality 80: a
// shaded scene with objects and grain, drawn by seed, as AppendPNG's otherwise.
func AppendJPEG(dst []byte, seed uint64, width, height int) ([]byte, error) {
	img, err := scene(seed, width, height)
	if err != nil {
		return dst, fmt.Errorf("draw JPEG: %w", err)
	}
	out := &appender{dst}
	if err := jpeg.Encode(out, img, &jpeg.Options{Quality: 80}); err != nil {
		return dst, fmt.Errorf("draw JPEG: %w", err)
	}
	return out.b, nil
}

func checkSides(width, height int) error {
	if width < 1 || height < 1 || width > MaxSide || height > MaxSide {
		return fmt.Errorf("%d x %d pixels, want 1 to %d each way", width, height, MaxSide)
	}
	return nil
}

// chart draws with 16 colours. All arithmetic is on whole numbers: floating point
// may be fused differently from one machine to the next.
func chart(seed uint64, width, height int) (*image.Paletted, error) {
	if err := checkSides(width, height); err != nil {
		return nil, err
	}
	s := &state{rng: random.Derive(seed, 0x706e67)}
	palette := color.Palette{color.RGBA{255, 255, 255, 255}, color.RGBA{225, 225, 225, 255}}
	for len(palette) < 16 {
		x := s.next()
		palette = append(palette, color.RGBA{byte(x), byte(x >> 8), byte(x >> 16), 255})
	}
	img := image.NewPaletted(image.Rect(0, 0, width, height), palette)
	fill := func(x0, y0, x1, y1 int, c uint8) {
		for y := max(y0, 0); y < min(y1, height); y++ {
			row := img.Pix[y*img.Stride:]
			for x := max(x0, 0); x < min(x1, width); x++ {
				row[x] = c
			}
		}
	}
	step := max(8, height/12)
	for y := step; y < height; y += step {
		fill(0, y, width, y+1, 1)
	}
	bars := 6 + s.below(20)
	for i := range bars {
		x := i * width / bars
		fill(x+2, height-s.below(height)-1, x+max(3, width/bars*2/3), height, uint8(2+s.below(5)))
	}
	y := height / 2
	thick := max(1, height/200)
	for x := range width {
		y = min(max(y+s.below(2*thick+1)-thick, 0), height-1)
		fill(x, y, x+1, y+thick, 7)
	}
	// A band of noise, the seed's own: no two images are near duplicates.
	band := max(1, height/16)
	for y := range band {
		row := img.Pix[y*img.Stride : y*img.Stride+width]
		for x := 0; x < width; x += 16 {
			v := s.next()
			for k := x; k < min(x+16, width); k++ {
				row[k] = uint8(v & 15)
				v >>= 4
			}
		}
	}
	return img, nil
}

// scene draws in luminance and two colours of half the resolution, which is what
// JPEG keeps.
func scene(seed uint64, width, height int) (*image.YCbCr, error) {
	if err := checkSides(width, height); err != nil {
		return nil, err
	}
	s := &state{rng: random.Derive(seed, 0x6a706567)}
	img := image.NewYCbCr(image.Rect(0, 0, width, height), image.YCbCrSubsampleRatio420)
	top, bottom := 120+s.below(120), 20+s.below(120)
	for y := range height {
		base := top + (bottom-top)*y/height
		row := img.Y[y*img.YStride : y*img.YStride+width]
		for x := 0; x < width; x += 8 {
			v := s.next()
			for k := x; k < min(x+8, width); k++ {
				row[k] = uint8(min(max(base+int(v&15)-8, 0), 255)) // grain
				v >>= 8
			}
		}
	}
	for i := range img.Cb {
		img.Cb[i], img.Cr[i] = uint8(118+i*20/len(img.Cb)), uint8(122+i*10/len(img.Cr))
	}
	for range 8 + s.below(24) {
		cx, cy, r := s.below(width), s.below(height), 1+s.below(max(2, min(width, height)/4))
		light, cb, cr := s.below(256), uint8(s.below(256)), uint8(s.below(256))
		for y := max(cy-r, 0); y < min(cy+r, height); y++ {
			half := root(r*r - (y-cy)*(y-cy))
			for x := max(cx-half, 0); x < min(cx+half, width); x++ {
				shade := light - 60*(x-cx+r)/(2*r)
				img.Y[y*img.YStride+x] = uint8(min(max(shade, 0), 255))
				o := img.COffset(x, y)
				img.Cb[o], img.Cr[o] = cb, cr
			}
		}
	}
	return img, nil
}

// root is the square root of v >= 0, rounded down.
func root(v int) int {
	if v <= 0 {
		return 0
	}
	x := 1 << ((bits.Len(uint(v)) + 1) / 2)
	for {
		y := (x + v/x) / 2
		if y >= x {
			return x
		}
		x = y
	}
}

// AppendWAV appends a sound of millis thousandths of a second: 16-bit mono PCM
// at AudioRate, with syllables of a changing pitch and pauses, as speech has, made
// by seed. It says no words.
func AppendWAV(dst []byte, seed uint64, millis int) ([]byte, error) {
	if millis < 1 || millis > MaxAudioMillis {
		return dst, fmt.Errorf("make WAV: %d ms, want 1 to %d", millis, MaxAudioMillis)
	}
	samples := millis * (AudioRate / 1000)
	le := binary.LittleEndian
	dst = le.AppendUint32(append(dst, "RIFF"...), uint32(36+2*samples))
	dst = le.AppendUint32(append(dst, "WAVEfmt "...), 16)
	dst = le.AppendUint16(le.AppendUint16(dst, 1), 1)
	dst = le.AppendUint32(le.AppendUint32(dst, AudioRate), 2*AudioRate)
	dst = le.AppendUint16(le.AppendUint16(dst, 2), 16)
	dst = le.AppendUint32(append(dst, "data"...), uint32(2*samples))

	s := &state{rng: random.Derive(seed, 0x776176)}
	var phase, second uint32
	for left := samples; left > 0; {
		// A syllable of 80 to 300 ms of 90 to 260 Hz, with one formant; every sixth
		// is a pause.
		n := min(left, (80+s.below(220))*AudioRate/1000)
		step := uint32((90 + s.below(170)) * (1 << 16) / AudioRate)
		formant := step * uint32(3+s.below(9))
		loud := 3000 + s.below(9000)
		if s.below(6) == 0 {
			loud = 0
		}
		for i := range n {
			// The volume rises and falls within the syllable.
			env := loud * min(i, n-i) / (n/2 + 1)
			v := env*(triangle(phase)+triangle(second)/2)/98304 + s.below(65) - 32
			dst = le.AppendUint16(dst, uint16(int16(v)))
			phase, second = phase+step, second+formant
		}
		left -= n
	}
	return dst, nil
}

// triangle is a wave of period 2^16 between -32768 and 32767.
func triangle(phase uint32) int {
	p := int(phase & 0xffff)
	if p >= 1<<15 {
		p = 0xffff - p
	}
	return 2*p - 1<<15
}
