package telemetry

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"plimsoll/test/process"
)

// manyPages serves n pages of about series series each, under /0/metrics and so
// on: the twin's page after some load, filled up, with values that rise from reading to
// reading. It returns their URLs and what has been served so far.
func manyPages(t *testing.T, n, series int) (urls []string, readings *atomic.Int64, text func() []byte) {
	t.Helper()
	_, twin := process.Twin(t, "--step", "5ms", "--replicas", "1")
	measure(t, "--url", twin, "--users", "4", "--prompt-tokens", "50", "--output-tokens", "20", "--duration", "1s", "--warmup", "0s", "--telemetry", "none")
	type line struct {
		before string // all of a line without a value
		value  float64
		sample bool
		rises  bool
	}
	var lines []line
	samples := 0
	add := func(s string) {
		head, v, ok := cutLast(strings.TrimRight(s, "\n"))
		if strings.HasPrefix(s, "#") || !ok {
			lines = append(lines, line{before: s})
			return
		}
		f, err := strconv.ParseFloat(v, 64)
		if err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		name, _, _ := strings.Cut(head, "{")
		_, end, _ := strings.Cut(name, ":") // of vLLM's; the ends of names that count something
		rises := strings.HasSuffix(end, "_total") || strings.HasSuffix(end, "_sum") || strings.HasSuffix(end, "_bucket") || strings.HasSuffix(end, "_count")
		lines = append(lines, line{before: head + " ", value: f, sample: true, rises: rises})
		samples++
	}
	for l := range strings.Lines(get(t, twin+"/metrics")) {
		add(l)
	}
	for i := 0; samples < series; i++ {
		add(fmt.Sprintf("python_gc_objects_collected_total{generation=\"%d\",thread=\"%d\"} 17.0\n", i%3, i))
	}
	readings = new(atomic.Int64)
	text = func() []byte {
		b := make([]byte, 0, 96<<10)
		n := float64(readings.Load() / int64(n))
		for _, l := range lines {
			b = append(b, l.before...)
			if l.rises {
				l.value += n * 7
			}
			if l.sample {
				b = append(strconv.AppendFloat(b, l.value, 'f', -1, 64), '\n')
			}
		}
		return b
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{page}/metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", plainText)
		_, _ = w.Write(text())
		readings.Add(1)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	for i := range n {
		urls = append(urls, fmt.Sprintf("%s/%d/metrics", s.URL, i))
	}
	return urls, readings, text
}

func cutLast(s string) (head, tail string, ok bool) {
	i := strings.LastIndexByte(s, ' ')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// processor returns the processor time that this process has used.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// maxCost is how many times the processor time of a naive look at each line of a
// page and its number the reading of a page may cost, with everything: fetching,
// mapping, keeping on disk, putting on the grid at the end. 64 such pages a second
// took 10 % of one core at 42 times, where a naive look took 37 us.
const maxCost = 40

// 64 pages of 600 series, each read every second, cost little, and a busy machine
// does not change how little: what is compared was measured in the same minute.
func TestCostOfManySources(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 20 s")
	}
	const sources, series, seconds = 64, 600, 20
	_, twin := process.Twin(t, "--step", "50ms", "--replicas", "1")
	urls, readings, text := manyPages(t, sources, series)
	start := func(telemetry string) func() finished {
		return begin(t, "--url", twin, "--rate", "2", "--arrival", "constant", "--prompt-tokens", "20", "--output-tokens", "20", "--ignore-eos",
			"--duration", fmt.Sprintf("%ds", seconds), "--warmup", "0s", "--telemetry-interval", "1s", "--telemetry", telemetry)
	}
	alone, watching := start("none"), start(strings.Join(urls, ","))
	without, with := alone(), watching()
	read := int64(0)
	for _, s := range with.info.Telemetry {
		if read += s.Scrapes; !good(s) || s.Restarts > 0 {
			t.Errorf("source %+v", s)
		}
	}
	// A slow machine makes it read less often, but not only before and after.
	if read <= 2*sources || read > sources*(seconds+5) {
		t.Fatalf("%d readings of %d pages in %d s", read, sources, seconds)
	}
	cost := (with.CPU - without.CPU) / time.Duration(read)

	page := string(text())
	seen := map[string]int{}
	before := processor(t)
	const naive = 200
	for range naive {
		for l := range strings.Lines(page) {
			head, v, ok := cutLast(strings.TrimRight(l, "\n"))
			if strings.HasPrefix(l, "#") || !ok {
				continue
			}
			if _, err := strconv.ParseFloat(v, 64); err != nil {
				t.Fatal(err)
			}
			seen[head]++
		}
	}
	reference := (processor(t) - before) / naive
	t.Logf("a reading of %d series, %d KiB, costs %v of processor time, a naive one %v: %.1f times as much; %d pages a second take %.1f %% of one core (%d answers for their clocks included); %d MiB, without %d MiB",
		len(seen), len(page)>>10, cost, reference, float64(cost)/float64(reference), sources, 100*(with.CPU-without.CPU).Seconds()/seconds, readings.Load()-read, with.Memory>>20, without.Memory>>20)
	if cost > maxCost*reference {
		t.Errorf("a reading costs %v, more than %d times the %v of a naive one", cost, maxCost, reference)
	}
}
