package browser

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"plimsoll/internal/stats"
	"plimsoll/test/process"
)

// mixed is a scenario of users of three kinds, the second of them in bursts. It is
// the load of most pictures.
const mixed = `name: %[2]s
target:
  url: %[1]s
load:
  workloads:
    - {workload: healthcare/patient-summary, rate: %[3]s}
    - {workload: finance/strategy-simulation, rate: %[4]s, shape: "on-off:on=15s,off=15s"}
    - {workload: synthetic, rate: %[5]s}
  duration: %[6]s
  warmup: %[7]s
guards:
  slo: [ttft.p95=%[8]s, tpot.p95=30ms]
data:
  telemetry: ["%[1]s/metrics", "%[1]s/dcgm/metrics", "%[1]s/node/metrics"]
`

// TestPictures makes the pictures of the documentation in the folder that
// PLIMSOLL_PICTURES names: each from a real run against a simulated cluster. It
// proves nothing beyond that the pages open; who runs it looks at what it made.
func TestPictures(t *testing.T) {
	dir := os.Getenv("PLIMSOLL_PICTURES")
	if dir == "" {
		t.Skip("PLIMSOLL_PICTURES is not set: make pictures makes them")
	}
	dir, err := filepath.Abs(filepath.Join("..", "..", dir))
	if err != nil {
		t.Fatal(err)
	}
	runs, work := t.TempDir(), t.TempDir()
	base := panel(t, runs)
	_, node := process.Twin(t, "--model", "llama-3.1-70b", "--gpu", "h200", "--tp", "8")
	album := func(path, theme string, width, height int64, act string, names ...string) *tab {
		b := open(t, base, path, look{size{width, height}, theme, "en"})
		b.has(".lane canvas, .page")
		time.Sleep(2500 * time.Millisecond) // what a picture shows: figures and plots have arrived
		if act != "" {
			eval[bool](b, act+", true")
			time.Sleep(1200 * time.Millisecond)
		}
		for _, name := range names {
			b.picture(dir, name)
		}
		return b
	}
	measure := func(scenario string, codes []int) string {
		t.Helper()
		file := filepath.Join(work, "scenario.yaml")
		if err := os.WriteFile(file, []byte(scenario), 0o644); err != nil {
			t.Fatal(err)
		}
		return "/runs/" + ran(t, runs, codes, "run", file)
	}

	// Other work on this machine makes its client late: then the run is made again.
	id := ""
	for range 3 {
		live := open(t, base, "/", look{size{1280, 800}, "dark", "en"})
		live.has("h1")
		id = live.start(fmt.Sprintf(mixed, node, "three kinds of users", "0.08", "0.12", "1", "45s", "12s", "1500ms"))
		live.run(chromedp.Navigate(base + "/runs/" + id))
		live.has(".run-head")
		live.picture(dir, "before")
		time.Sleep(9 * time.Second)
		live.picture(dir, "warm-up")
		time.Sleep(33 * time.Second)
		live.picture(dir, "steady")
		live.wait("the end", `document.querySelector('.run-line .verdict') && !/left|steady|drain/.test(document.querySelector('.run-line').innerText)`)
		if summary(t, runs, id).Run.Verdict == stats.Valid {
			break
		}
	}
	finished := "/runs/" + id
	album(finished+"?lanes=inflight,arrivals,ttft,tpot,output,queue,kv,sm", "light", 1280, 1000, "", "finished")
	album(finished+"?sel=20-32", "light", 1280, 800, "", "range")
	album(finished, "dark", 1280, 900, `document.querySelector('.run-requests').scrollIntoView(), scrollBy(0, -100)`, "requests")
	phone := look{size{360, 780}, "dark", "en"}
	small := open(t, base, finished, phone)
	do(small, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: phone.width, Height: phone.height, DeviceScaleFactor: 2, Mobile: true})
	small.has(".lane canvas")
	time.Sleep(2500 * time.Millisecond) // as above
	small.picture(dir, "phone")

	missed := ""
	for range 3 {
		missed = measure(fmt.Sprintf(mixed, node, "the same users, twice as many", "0.3", "0.5", "2", "35s", "8s", "400ms"), []int{0, 3, 4})
		if summary(t, runs, filepath.Base(missed)).Run.Verdict == stats.Valid {
			break
		}
	}
	album(missed, "dark", 1280, 800, "", "slo-missed")
	album("/compare?runs="+strings.TrimPrefix(finished, "/runs/")+","+strings.TrimPrefix(missed, "/runs/"), "light", 1280, 1000, "scrollTo(0, 9e9)", "overlay")

	// More requests than one small machine can send in time, which also simulates their server.
	bound := measure("name: more than this client can send\ntarget: {url: "+node+"}\nusers: {prompt-tokens: 32, output-tokens: 8}\n"+
		"load: {rate: 2500, duration: 12s, warmup: 2s, max-in-flight: 5000}\n", []int{0, 1, 3, 4})
	album(bound, "light", 1280, 800, "", "client-bound")

	server, gone := process.Twin(t, "--model", "llama-3.1-8b", "--gpu", "h100")
	end := time.AfterFunc(18*time.Second, func() { server.Signal(syscall.SIGKILL) })
	defer end.Stop()
	failing := measure("name: an endpoint that goes away\ntarget: {url: "+gone+"}\nusers: {prompt-tokens: 200, output-tokens: 'uniform:50..150'}\n"+
		"load: {rate: 6, duration: 25s, warmup: 4s}\nguards: {slo: [ttft.p95=250ms], max-error-share: 1}\n", []int{0, 1, 3, 4})
	album(failing+"?lanes=inflight,arrivals,ttft,output,good,errors,queue", "dark", 1280, 800, "", "failing")
	album(failing, "light", 1280, 800, `scrollTo(0, document.querySelector('.lane-missing').getBoundingClientRect().top + scrollY - 420)`, "telemetry-missing")

	file := filepath.Join(work, "stopped.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, mixed, node, "stopped by its user", "0.08", "0.12", "1", "60s", "5s", "1500ms"), 0o644); err != nil {
		t.Fatal(err)
	}
	stopped := process.Start(t, work, "run", file, "--out", runs, "--quiet")
	time.Sleep(25 * time.Second)
	stopped.Signal(syscall.SIGINT)
	stopped.Wait(30 * time.Second)
	entries, err := os.ReadDir(runs)
	if err != nil {
		t.Fatal(err)
	}
	album("/runs/"+entries[len(entries)-1].Name(), "light", 1280, 800, "", "interrupted")

	_, fleet := process.Twin(t, "--model", "llama-3.1-70b", "--gpu", "h200", "--tp", "8", "--replicas", "30")
	gpus := measure("name: 30 replicas, 240 GPUs\ntarget: {url: "+fleet+"}\nusers: {prompt-tokens: 'lognormal:p50=600,p99=6000', output-tokens: 'uniform:50..150'}\n"+
		"load: {rate: 12, duration: 25s, warmup: 4s}\nguards: {slo: [ttft.p95=250ms]}\ndata:\n  telemetry: ['"+fleet+"/metrics', '"+fleet+"/dcgm/metrics']\n", []int{0, 3, 4})
	album(gpus+"?lanes=users,ttft,queue,sm,tensor,dram,gpumem,power", "dark", 1280, 900, "", "gpus")
}

// picture writes what is on the screen as a picture of few colours and so of few bytes.
func (b *tab) picture(dir, name string) {
	b.t.Helper()
	shot, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	full, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		b.t.Fatal(err)
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, fewColours(full)); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), out.Bytes(), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// fewColours draws an image with its 200 most frequent colours; each other one becomes
// the nearest of these. Pages of flat colours and thin lines look the same.
func fewColours(full image.Image) *image.Paletted {
	bounds := full.Bounds()
	number := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(full.At(x, y)).(color.RGBA) }
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			number[at(x, y)]++
		}
	}
	colours := make([]color.RGBA, 0, len(number))
	for c := range number {
		colours = append(colours, c)
	}
	slices.SortFunc(colours, func(a, b color.RGBA) int {
		return cmp.Or(number[b]-number[a], int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	})
	var palette color.Palette
	for _, c := range colours {
		// A colour as good as one that is there already takes no place.
		near := func(o color.Color) bool {
			p := o.(color.RGBA)
			return max(apart(p.R, c.R), apart(p.G, c.G), apart(p.B, c.B)) < 9
		}
		if len(palette) < 200 && !slices.ContainsFunc(palette, near) {
			palette = append(palette, c)
		}
	}
	few := image.NewPaletted(bounds, palette)
	index := map[color.RGBA]uint8{}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			c := at(x, y)
			i, ok := index[c]
			if !ok {
				i = uint8(palette.Index(c))
				index[c] = i
			}
			few.SetColorIndex(x, y, i)
		}
	}
	return few
}

func apart(a, b uint8) int { return max(int(a), int(b)) - min(int(a), int(b)) }
