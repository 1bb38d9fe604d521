package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"plimsoll/internal/stats"
	"plimsoll/test/process"
)

var (
	dark  = look{desktop, "dark", "en"}
	light = look{desktop, "light", "en"}
)

// panel serves the runs of a folder and returns the address.
func panel(t *testing.T, runs string, flags ...string) string {
	t.Helper()
	if browser == nil {
		t.Skip("no browser: make browser runs these tests")
	}
	if _, err := os.Stat(filepath.Join("..", "..", "internal", "assets", "files", "dist", "index.html")); err != nil {
		t.Skip("no front end: make web builds it, with Node.js")
	}
	p := process.Start(t, t.TempDir(), append([]string{"serve", "--runs", runs, "--listen", "127.0.0.1:0"}, flags...)...)
	return strings.TrimSuffix(p.Panel(), "/")
}

// ran carries out a run with the command line and returns its id.
func ran(t *testing.T, runs string, codes []int, args ...string) string {
	t.Helper()
	res := process.Run(t, t.TempDir(), 4*time.Minute, append(args, "--out", runs, "--quiet")...)
	ok := false
	for _, c := range codes {
		ok = ok || res.Code == c
	}
	if !ok {
		t.Fatalf("plimsoll %s: exit code %d\n%s%s", strings.Join(args, " "), res.Code, res.Stdout, res.Stderr)
	}
	entries, err := os.ReadDir(runs)
	if err != nil || len(entries) == 0 {
		t.Fatalf("no run in %s: %v", runs, err)
	}
	return entries[len(entries)-1].Name()
}

// summary reads what a run came to.
func summary(t *testing.T, runs, id string) *stats.Summary {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(runs, id, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := stats.ParseSummary(b)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// says waits until the first element of a selector says what it has to: parts of a page
// come one after the other.
func (b *tab) says(what, selector, want string) {
	b.t.Helper()
	const text = `(document.querySelector($1)?.innerText ?? '').replace(/[\u2009\n]/g, ' ').trim()`
	b.wait(fmt.Sprintf("%s: %q", what, want), text+" === $2", selector, want)
}

// digits writes a value as the panel does: three significant digits.
func digits(v float64) string {
	if v == 0 {
		return "0"
	}
	if v >= 999.5 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	whole, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', 2, 64), "e")
	power, err := strconv.Atoi(exponent)
	if err != nil {
		panic("BUG: " + whole + "e" + exponent)
	}
	r, _ := strconv.ParseFloat(whole+"e"+exponent, 64) // as it was just written
	return strconv.FormatFloat(r, 'f', 2-power, 64)
}

// figure is a value in units that a power of 1000 lies between, as the panel writes it: a
// busy machine may bring forth any.
func figure(v *float64, units ...string) string {
	if v == nil {
		return "–"
	}
	x, unit := *v, units[0]
	for _, next := range units[1:] {
		if x < 999.5 {
			break
		}
		x, unit = x/1000, next
	}
	return strings.TrimSpace(digits(x) + " " + unit)
}

// TestFinished holds the numbers on the screen against summary.json.
func TestFinished(t *testing.T) {
	runs := t.TempDir()
	base := panel(t, runs)
	id := ran(t, runs, []int{0, 3, 4}, "demo", "--duration", "8s") // what a busy machine makes of it is all the same here
	s := summary(t, runs, id)
	b := open(t, base, "/runs/"+id, dark)
	b.has(".lane canvas")
	b.wait("figures", `document.querySelector('[data-figure="ttft"] dd')?.innerText.match(/[0-9]/)`)
	time.Sleep(300 * time.Millisecond) // what a picture shows: the plots are drawn by now
	b.shot("finished-dark")
	for key, want := range map[string]string{
		"ttft": figure(s.Latency.TTFT.P95, "ms", "s"), "tpot": figure(s.Latency.TPOT.P95, "ms", "s"), "output": figure(s.Tokens.OutputPerS, "/s", "k/s"),
		"failures": fmt.Sprint(s.Requests.Error + s.Requests.Incomplete), "goodput": figure(s.SLO.GoodputRPS, "/s", "k/s"),
		"inflight": figure(s.Load.RequestsInFlight.Mean, ""),
	} {
		b.says(key+" as in summary.json", `[data-figure="`+key+`"] dd`, want)
	}
	// The lanes' values of the whole window are those of the summary, not sums of cells that
	// lie across its ends.
	for lane, want := range map[string]string{
		"output": figure(s.Tokens.OutputPerS, "/s", "k/s"), "good": figure(s.Load.CompletedRPS, "/s"), "inflight": figure(s.Load.RequestsInFlight.Mean, ""),
		"arrivals": figure(s.Load.AchievedRPS, "/s"),
	} {
		b.says("lane "+lane+" as in summary.json", `.lane[data-lane="`+lane+`"] .lane-value`, want)
	}
	if got := eval[string](b, "document.querySelector('.run-what').title"); !strings.Contains(got, "llama") || !strings.Contains(got, "127.0.0.1") {
		t.Errorf("the head says of what is measured: %q", got)
	}
	b.says("the verdict as in summary.json", ".verdict", string(s.Run.Verdict))
	lanes := eval[[]string](b, "[...document.querySelectorAll('.lane')].map(e => e.getAttribute('aria-label'))")
	if len(lanes) < 8 {
		t.Errorf("lanes %q", lanes)
	}
	b.run(chromedp.ScrollIntoView(chromedp.CSS(".lane:last-of-type")))
	b.painted()
	b.shot("finished-lanes")
	bright := open(t, base, "/runs/"+id, light)
	bright.has(".lane canvas")
	bright.painted()
	bright.shot("finished-light")
}

// TestLanes works lanes by the mouse: the edge that is drawn is the edge that is got
// hold of, and what was chosen is there after the page was loaded again.
func TestLanes(t *testing.T) {
	runs, id := simulated(t, "lanes")
	base := panel(t, runs)
	b := open(t, base, "/runs/"+id, light)
	b.has(".lane[data-lane=users] canvas")
	height := "document.querySelector('.lane[data-lane=users]').offsetHeight"
	before := eval[int](b, height)
	if !eval[bool](b, `(() => {
		const grip = document.querySelector('.lane[data-lane=users] .lane-grip')
		const r = grip.getBoundingClientRect()
		const [x, y] = [r.left + 300, r.top + r.height / 2]
		for (let at = r.top + 1; at < r.bottom; at++) if (document.elementFromPoint(x, at) !== grip) return false
		const fire = (type, by) => grip.dispatchEvent(new PointerEvent(type, {bubbles: true, pointerId: 1, clientX: x, clientY: y + by, buttons: 1}))
		grip.setPointerCapture = () => {}
		fire('pointerdown', 0); fire('pointermove', 70); fire('pointerup', 70)
		return true
	})()`) {
		t.Error("another element covers the edge of a lane")
	}
	b.wait("a higher lane", height+" === $1", before+70)
	b.run(chromedp.Navigate(base + "/runs/" + id))
	b.has(".lane[data-lane=users] canvas")
	b.wait("a lane as high when the page was loaded again", height+" === $1", before+70)
	// The table has every second of what is shown in a row, and follows the view.
	eval[bool](b, "(document.querySelector('.lane[data-lane=ttft] [data-table]').click(), true)")
	const rows = "[...document.querySelectorAll('.lane[data-lane=ttft] .lane-table tbody th')].map(e => e.innerText)"
	b.wait("rows of the table", rows+".length > 1")
	all := eval[[]string](b, rows)
	if s := summary(t, runs, id); s.Run.DurationS == nil || float64(len(all)) < *s.Run.DurationS-1 || all[0] != "0:00" || all[7] != "0:07" {
		t.Errorf("rows of the table of a run of %v: %q", s.Run, all)
	}
	eval[bool](b, "(document.dispatchEvent(new KeyboardEvent('keydown', {key: '+', bubbles: true})), true)")
	b.wait("fewer rows of a part", rows+".length > 1 && "+rows+".length < $1", len(all))
	eval[bool](b, "(document.dispatchEvent(new KeyboardEvent('keydown', {key: '0', bubbles: true})), document.querySelector('.lane[data-lane=ttft] [data-table]').click(), true)")
	// A line of the legend goes and comes; a map stands in the address, the usual does not.
	toggle := "document.querySelector('.lane[data-lane=ttft] .legend button')"
	eval[bool](b, "("+toggle+".click(), true)")
	b.wait("the line is off", toggle+".getAttribute('aria-pressed') === 'false'")
	heat := "([...document.querySelectorAll('.lane[data-lane=ttft] .lane-more button')][0].click(), true)"
	eval[bool](b, heat)
	b.wait("a map in the address", "/lanes=[^&]*ttft~h/.test(location.search)")
	eval[bool](b, heat)
	b.wait("the usual is not in the address", "!location.search.includes('lanes')")
}

// TestEmpty opens a folder without runs.
func TestEmpty(t *testing.T) {
	base := panel(t, t.TempDir())
	b := open(t, base, "/", dark)
	b.wait("what to type", "document.body.innerText.includes('plimsoll demo')")
	b.shot("empty")
}

// TestWithoutRequests looks at runs that sent nothing: they say why, and draw no axes
// on which there is nothing.
func TestWithoutRequests(t *testing.T) {
	runs := t.TempDir()
	base := panel(t, runs)
	target := engine(t)
	id := ran(t, runs, []int{1}, "run", "--url", target, "--rate", "0.0001", "--duration", "2s", "--telemetry", "none", "--name", "nothing due")
	b := open(t, base, "/runs/"+id, light)
	b.wait("why", "document.querySelector('.empty')?.innerText.includes('none was due in its 2.00')")
	if eval[bool](b, "!!document.querySelector('.stage, canvas:not(.spark)')") {
		t.Error("axes with nothing on them")
	}
	b.shot("no-requests")
	b.accessible("no requests")
	live := b.start("name: awaited\ntarget: {url: " + target + "}\nusers: {prompt-tokens: 100, output-tokens: 10}\nload: {stages: ['1h:0', '1s:4'], arrival: constant}\ndata: {telemetry: none}\n")
	b.run(chromedp.Navigate(base + "/runs/" + live))
	b.wait("what it waits for", "document.querySelector('.lane[data-lane=ttft] .lane-note')?.innerText === 'Waiting for the first request'")
	b.shot("before-the-first")
	eval[string](b, "fetch('/api/runs/' + encodeURIComponent($1) + '/stop', {method: 'POST'}).then(r => r.text())", live)
	b.wait("why it has none", "document.querySelector('.empty')?.innerText.includes('before its first request')")
}

// TestFailed looks at a run whose endpoint fails, and whose errors try to be markup.
func TestFailed(t *testing.T) {
	runs := t.TempDir()
	base := panel(t, runs)
	const markup = `</script><script>window.pwned=1</script><img src=x onerror="window.pwned=1">`
	bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": markup}}) // a client that is gone
	}))
	defer bad.Close()
	id := ran(t, runs, []int{1}, "run", "--url", bad.URL, "--model", markup, "--name", markup, "--tag", "x="+markup, "--users", "3", "--duration", "5s", "--telemetry", "none")
	b := open(t, base, "/runs/"+id, dark)
	b.has(".verdict")
	b.wait("why there are no latencies", "/none of \\d+ requests succeeded[^]*Time to first token/.test(document.querySelector('.stage')?.innerText)")
	if n := eval[int](b, "document.querySelectorAll('.lane[data-lane=ttft], .lane[data-lane=itl]').length"); n > 0 {
		t.Errorf("%d lanes of latencies without any latency", n)
	}
	b.wait("why there are no dots", "/None of these \\d+ requests has ttft/.test(document.querySelector('.rq')?.innerText)")
	if eval[bool](b, "!!document.querySelector('.rq-plot')") {
		t.Error("axes of a figure that no request has")
	}
	b.shot("failed")
	b.run(chromedp.Navigate(base + "/"))
	b.wait("the run's name", "document.body.innerText.includes('window.pwned')")
	b.shot("failed-list")
	b.run(chromedp.Navigate(base + "/runs/" + id))
	b.wait("a request", "document.body.innerText.includes('http_status')")
	if eval[bool](b, "window.pwned === 1 || [...document.querySelectorAll('img,script')].some(e => e.outerHTML.includes('pwned'))") {
		t.Error("what a server answered became markup")
	}
}

// TestTokenAgain: whoever closes the question for the token can have it again.
func TestTokenAgain(t *testing.T) {
	base := panel(t, t.TempDir())
	b := open(t, base, "/", light)
	b.expected = append(b.expected, "401")
	b.has("h1")
	// As a server that was started anew with a token: none that the page knows is right.
	eval[bool](b, `(window.fetch = () => Promise.resolve(new Response('{"error":{"text":"a token is needed"}}', {status: 401})), true)`)
	b.has("dialog[open]")
	b.press(kb.Escape)
	b.wait("it is closed, and can be opened", "!document.querySelector('dialog') && document.querySelector('.foot .button.small')")
	eval[bool](b, "(document.querySelector('.foot .button.small').click(), true)")
	b.has("dialog[open] input")
}
