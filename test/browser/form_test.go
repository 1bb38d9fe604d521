package browser

import (
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"plimsoll/test/process"
)

// simulated is a folder with one predicted run, and its id: a few seconds of work
// of a simulated engine, at once.
func simulated(t *testing.T, name string, args ...string) (runs, id string) {
	t.Helper()
	runs = t.TempDir()
	id = ran(t, runs, []int{0, 3}, append([]string{"twin", "predict", "--name", name, "--users", "8", "--requests", "400", "--prompt-tokens", "lognormal:p50=400,p99=4000", "--output-tokens", "uniform:20..200", "--slo", "ttft.p95=50ms"}, args...)...)
	return runs, id
}

// TestLanguagesAndSizes shows the pages in Chinese, on a phone and on a very large
// screen, in both themes: nothing hangs over the sides, and everything has a name.
func TestLanguagesAndSizes(t *testing.T) {
	runs, id := simulated(t, "模型/é 对比测试")
	again := id + "-again"
	if err := os.CopyFS(filepath.Join(runs, again), os.DirFS(filepath.Join(runs, id))); err != nil {
		t.Fatal(err)
	}
	base := panel(t, runs)
	for name, l := range map[string]look{
		"chinese": {desktop, "dark", "zh"}, "phone-dark": {phone, "dark", "en"}, "phone-light-chinese": {phone, "light", "zh"}, "large-light": {size{3840, 2160}, "light", "en"},
	} {
		for _, path := range []string{"/", "/runs/" + id, "/runs/" + id + "?view=1-2", "/workloads", "/twin", "/scenarios", "/settings", "/compare?runs=" + id + "," + again} {
			b := open(t, base, path, l)
			b.has("h1, .run-head")
			b.wait("no skeleton", "!document.querySelector('.bone')")
			b.painted()
			if strings.Contains(path, "view=") {
				// The drain and the end of the steady window lie right of what is shown.
				b.wait("only what is in sight is laid out", "[...document.querySelectorAll('.phase')].some(e => e.hidden) && document.querySelector('.lane canvas')")
			}
			where := name + strings.NewReplacer("/", "-", ","+again, "", id, "run", "?runs=", "-", "?", "-").Replace(path)
			b.shot(where)
			b.fits(where, l.width)
			b.accessible(where)
			b.reachable(where)
			if l.lang == "zh" {
				if lang := eval[string](b, "document.documentElement.lang"); !strings.HasPrefix(lang, "zh") {
					t.Errorf("%s: the page says that it is in %q", where, lang)
				}
				if !eval[bool](b, `/\p{Script=Han}{2}/u.test(document.querySelector('main').innerText)`) {
					t.Errorf("%s: no Chinese on the page", where)
				}
			}
		}
	}
}

// english are the texts on a page of three words of Latin letters in a row and more, in
// sight or for those who hear it, but for code, names, models' output, and what is typed.
const english = `(() => {
	const sentence = /\p{Script=Latin}{2,}(?:[ ,;:]+\p{Script=Latin}{2,}){2,}/u
	const out = []
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
	while (texts.nextNode()) {
		const e = texts.currentNode.parentElement
		if (e && !e.closest('code, pre, kbd, textarea, script, style, noscript, .mono, .cm-editor, [lang=en]') && sentence.test(texts.currentNode.nodeValue)) out.push(texts.currentNode.nodeValue.trim())
	}
	for (const e of document.querySelectorAll('[title], [aria-label], [placeholder], [data-text]'))
		for (const a of ['title', 'aria-label', 'placeholder', 'data-text']) if (!e.closest('[spellcheck=false]') && sentence.test(e.getAttribute(a) ?? '')) out.push(a + ': ' + e.getAttribute(a))
	return [...new Set(out)]
})()`

// chinese fails when a page in Chinese has a sentence in English. The dictionary of what
// the server says is read when the page is there: until then English stands.
func (b *tab) chinese(where string) {
	b.t.Helper()
	var left []string
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(100 * time.Millisecond) {
		if left = eval[[]string](b, english); len(left) == 0 {
			return
		}
	}
	for _, s := range left {
		b.t.Errorf("%s: in English: %s", where, s)
	}
}

// told asks the server from the page until it says what is wanted.
func (b *tab) told(what, js string, args ...any) {
	b.t.Helper()
	for begin := time.Now(); !eval[bool](b, js, args...); time.Sleep(100 * time.Millisecond) {
		if time.Since(begin) > 2*time.Minute {
			b.t.Fatalf("never: %s", what)
		}
	}
}

// TestChineseOfTrouble looks at what is seldom seen: runs that were refused or stopped, a
// request in full, and what a server that is not there is told of.
func TestChineseOfTrouble(t *testing.T) {
	runs := t.TempDir()
	base := panel(t, runs)
	zh := look{desktop, "light", "zh"}
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	defer failing.Close()
	failed := ran(t, runs, []int{1}, "run", "--url", failing.URL, "--model", "m", "--users", "3", "--duration", "5s", "--telemetry", "none")
	b := open(t, base, "/runs/"+failed, zh)
	b.has(".verdict")
	b.chinese("failed")
	b.shot("chinese-failed")

	id := b.start("name: stopped\ntarget: {url: " + engine(t) + ", ignore-eos: true}\nusers: {prompt-tokens: 100, output-tokens: 20}\nload: {users: 2, duration: 10m, drain: 1s}\n")
	b.told("a request", "fetch('/api/runs/' + $1 + '/requests').then(r => r.json()).then(r => r.total > 4)", id)
	eval[string](b, "fetch('/api/runs/' + encodeURIComponent($1) + '/stop', {method: 'POST'}).then(r => r.text())", id)
	b.told("the end", "fetch('/api/runs/' + $1).then(r => r.json()).then(r => !r.live && r.run.state === 'interrupted')", id)
	b.run(chromedp.Navigate(base + "/runs/" + id + "?n=1"))
	b.has(".verdict")
	b.has(".rq-one details")
	eval[bool](b, "(document.querySelectorAll('details').forEach(d => { d.open = true }), true)")
	b.chinese("interrupted")
	b.shot("chinese-interrupted")
	if n := eval[int](b, "[...document.querySelectorAll('.mark-at')].filter(e => /interrupted/.test(e.dataset.text)).length"); n > 0 {
		t.Errorf("%d marks say in English that the run was interrupted", n)
	}
	if said := b.text(".rq-one details"); strings.Contains(said, "first_event") || !strings.Contains(said, "首个") {
		t.Errorf("clock points in Chinese: %q", said)
	}

	b.run(chromedp.Navigate(base + "/scenarios"))
	b.wait("a button", "document.querySelector('.button.primary')?.disabled === false")
	b.expected = append(b.expected, "502")
	eval[bool](b, "(document.querySelector('.button.primary').click(), true)")
	b.has(".trouble")
	b.chinese("refused")
	b.shot("chinese-refused")
	if said := b.text(".trouble"); !strings.Contains(said, "connect_refused") && !strings.Contains(said, "8000") {
		t.Errorf("a start that is refused says %q", said)
	}
}

// fits fails when a page is wider than its screen. A phone's browser has a window as
// wide as what is in it, so that asks nothing.
func (b *tab) fits(where string, width int64) {
	b.t.Helper()
	over := eval[[]string](b, `document.documentElement.scrollWidth <= $1 + 1 ? [] :
		[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > $1 + 1).slice(0, 5).map(e => e.tagName + '.' + e.className + ' ' + e.innerText?.slice(0, 40))`, width)
	for _, o := range over {
		b.t.Errorf("%s: hangs over the side: %s", where, o)
	}
}

// reachable fails when what a run can be asked for has no place on the page.
func (b *tab) reachable(where string) {
	b.t.Helper()
	for _, gone := range eval[[]string](b, `[...document.querySelectorAll('.rn-table button, .run-actions > *')].filter(e => {
		const r = e.getBoundingClientRect()
		return r.width === 0 || r.left < 0 || r.right > document.documentElement.clientWidth + 1
	}).map(e => e.innerText || e.outerHTML.slice(0, 80))`) {
		b.t.Errorf("%s: out of reach: %s", where, gone)
	}
}

// TestWorkloadsScroll shows a workload in full: no scroll bar lies within another.
func TestWorkloadsScroll(t *testing.T) {
	base := panel(t, t.TempDir())
	b := open(t, base, "/workloads?w=legal/contract-review", look{size{1440, 1200}, "light", "en"})
	b.has(".wl-yaml pre")
	b.painted()
	nested := eval[[]string](b, `(() => {
		const moves = e => e.scrollHeight > e.clientHeight + 1 && (e === document.documentElement || /auto|scroll/.test(getComputedStyle(e).overflowY))
		const up = e => e === null ? false : moves(e) || up(e.parentElement)
		return [...document.querySelectorAll('main, main *')].filter(e => moves(e) && up(e.parentElement)).map(e => e.tagName + '.' + e.className)
	})()`)
	if len(nested) > 0 {
		t.Errorf("scrolls within what scrolls: %q", nested)
	}
}

// audit is what is wrong with a page for those who do not see it, or not well: what
// can be worked without a name, a wrong or double reference, text of too little
// contrast (WCAG 2.2 AA: 4.5 to 1, 3 to 1 for large text).
const audit = `(() => {
	const bad = []
	const say = (e, what) => bad.push(what + ': ' + e.outerHTML.slice(0, 140))
	const seen = e => { const r = e.getBoundingClientRect(); const s = getComputedStyle(e); return r.width > 0 && r.height > 0 && s.visibility !== 'hidden' && s.display !== 'none' }
	const named = e => (e.getAttribute('aria-label') || (e.getAttribute('aria-labelledby') ?? '').split(' ').map(id => document.getElementById(id)?.innerText ?? '').join('') || e.innerText || e.title || e.labels?.[0]?.innerText || e.placeholder || '').trim()
	if (!document.documentElement.lang) bad.push('no language')
	if (!document.title) bad.push('no title')
	if (document.querySelectorAll('h1').length !== 1) bad.push('headings of the first rank: ' + document.querySelectorAll('h1').length)
	if (!document.querySelector('main')) bad.push('no main')
	for (const e of document.querySelectorAll('button, a[href], input, select, textarea, [role=button], [role=slider], [role=group], [role=dialog], [tabindex="0"]'))
		if (seen(e) && !e.closest('[aria-hidden=true]') && !named(e)) say(e, 'no name')
	for (const e of document.querySelectorAll('img, svg, canvas'))
		if (seen(e) && !e.closest('[aria-hidden=true]') && !named(e) && e.getAttribute('role') !== 'presentation' && !e.closest('[role=img], [aria-label], button, a')) say(e, 'a picture without a name')
	for (const e of document.querySelectorAll('table'))
		if (seen(e) && !e.caption?.textContent.trim() && !e.getAttribute('aria-label')) say(e, 'a table without a name')
	const ids = new Set()
	for (const e of document.querySelectorAll('[id]')) { if (ids.has(e.id)) say(e, 'id twice'); ids.add(e.id) }
	for (const e of document.querySelectorAll('[aria-controls], [aria-labelledby], [aria-describedby], label[for]'))
		for (const a of ['aria-controls', 'aria-labelledby', 'aria-describedby', 'for']) if (a !== 'aria-controls' || e.getAttribute('aria-expanded') !== 'false')
			for (const id of (e.getAttribute(a) ?? '').split(' ').filter(Boolean)) if (!document.getElementById(id)) say(e, a + ' of nothing')
	for (const e of document.querySelectorAll('[tabindex]')) if (e.tabIndex > 0) say(e, 'tabindex above 0')
	const part = c => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4 }
	const light = c => 0.2126 * part(c[0]) + 0.7152 * part(c[1]) + 0.0722 * part(c[2])
	const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true})
	const color = text => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1); const d = canvas.getImageData(0, 0, 1, 1).data; return [d[0], d[1], d[2], d[3] / 255] }
	const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3]))
	const ground = e => { const list = []; for (let x = e; x; x = x.parentElement) { const c = color(getComputedStyle(x).backgroundColor); if (c[3] > 0) list.push(c); if (c[3] === 1) break } let at = [255, 255, 255]; for (const c of list.reverse()) at = over(c, at); return at }
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
	const told = new Set()
	while (texts.nextNode()) {
		const e = texts.currentNode.parentElement
		if (!texts.currentNode.nodeValue.trim() || !e || !seen(e) || e.closest('[aria-hidden=true], [disabled], .visually-hidden, script, style')) continue
		const s = getComputedStyle(e)
		let opacity = 1
		for (let x = e; x; x = x.parentElement) opacity *= Number(getComputedStyle(x).opacity)
		if (opacity === 0) continue
		const under = ground(e)
		const c = color(s.color); c[3] *= opacity
		const [a, b] = [light(over(c, under)), light(under)]
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)
		const size = parseFloat(s.fontSize)
		const least = size >= 24 || size >= 18.66 && Number(s.fontWeight) >= 700 ? 3 : 4.5
		const key = e.className + s.color + under
		if (ratio < least - 0.01 && !told.has(key)) { told.add(key); say(e, 'contrast ' + ratio.toFixed(2) + ' of ' + s.color + ' on ' + under.map(Math.round)) }
	}
	return bad
})()`

// accessible fails for what is wrong with a page by audit.
func (b *tab) accessible(where string) {
	b.t.Helper()
	for _, p := range eval[[]string](b, audit) {
		b.t.Errorf("%s: %s", where, p)
	}
}

// TestAuditCanFail shows a page with one of each fault.
func TestAuditCanFail(t *testing.T) {
	base := panel(t, t.TempDir())
	b := open(t, base, "/", dark)
	b.has("h1")
	eval[bool](b, `(() => {
		const add = (tag, set) => { const e = document.createElement(tag); Object.assign(e, set); document.querySelector('main').append(e); return e }
		add('button', {}).style.cssText = 'width:20px;height:20px'
		add('canvas', {})
		add('table', {innerText: 'x'})
		add('p', {id: 'two', innerText: 'x'}); add('p', {id: 'two', innerText: 'x'})
		add('p', {innerText: 'faint'}).style.cssText = 'color:#777;background:#888'
		add('h1', {innerText: 'second'})
		add('div', {innerText: 'x', tabIndex: 3})
		add('label', {htmlFor: 'nothing', innerText: 'x'})
		return true
	})()`)
	got := strings.Join(eval[[]string](b, audit), "\n")
	for _, want := range []string{"no name: <button", "a picture without a name", "a table without a name", "id twice", "contrast", "headings of the first rank: 2", "tabindex above 0", "for of nothing"} {
		if !strings.Contains(got, want) {
			t.Errorf("the audit does not find %q:\n%s", want, got)
		}
	}
}

// TestPrint prints a run of which most lanes were never in sight, some as heat maps:
// all are on the paper, in the colours of paper.
func TestPrint(t *testing.T) {
	runs, id := simulated(t, "paper")
	base := panel(t, runs)
	b := open(t, base, "/runs/"+id+"?lanes=users,inflight,arrivals,output,itl,ttft~h,tpot~h,e2e~h", look{size{1200, 480}, "dark", "en"})
	b.has(".lane canvas")
	b.wait("the maps are read", "performance.getEntriesByType('resource').filter(e => e.name.includes('/heat')).length >= 3")
	if n := eval[int](b, "[...document.querySelectorAll('canvas.heat')].filter(c => c.getBoundingClientRect().top < innerHeight).length"); n > 0 {
		t.Fatalf("%d maps are in sight, want none", n)
	}
	// The last to be told of the printer sees what it takes: for each canvas the number
	// of inked pixels, and whether the strongest blue is that of paper.
	eval[bool](b, `(window.__ink = [], matchMedia('print').addEventListener('change', e => {
		if (e.matches) window.__ink = [...document.querySelectorAll('.lane canvas')].map(c => {
			const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data
			let inked = 0, paper = 0
			for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 0) { inked++; if (d[i + 3] > 200 && d[i] < 60 && d[i + 2] > 180 && d[i + 2] < 230) paper++ }
			return {lane: c.closest('.lane').dataset.lane, heat: c.classList.contains('heat'), inked, paper}
		})
	}), true)`)
	type canvas struct {
		Lane   string `json:"lane"`
		Heat   bool   `json:"heat"`
		Inked  int    `json:"inked"`
		Colour int    `json:"paper"`
	}
	// That the last answer has been taken in shows on paper only.
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		late := time.Since(began) > time.Minute
		if _, err := chromedp.Run(b.ctx, chromedp.PrintToPDF()); err != nil {
			t.Fatal(err)
		}
		inks := eval[[]canvas](b, "window.__ink")
		if len(inks) != 8 {
			t.Fatalf("%d lanes on paper, want 8: %+v", len(inks), inks)
		}
		pale := slices.DeleteFunc(inks, func(c canvas) bool { return c.Inked >= 500 && c.Colour >= 50 })
		if len(pale) == 0 {
			return
		}
		if late {
			for _, c := range pale {
				t.Errorf("lane %s on paper (a map: %v): %d inked pixels, of these %d in the blue of paper", c.Lane, c.Heat, c.Inked, c.Colour)
			}
			return
		}
	}
}

// TestPrintedWhole prints a run and its report from windows of every width on upright A4:
// nothing is wider than the paper, the plots are drawn for it with shade and marks where
// they belong, and of the requests there are rows and no empty room.
func TestPrintedWhole(t *testing.T) {
	runs, id := simulated(t, "whole")
	base := panel(t, runs)
	for _, at := range []struct {
		path  string
		width int64
	}{{"/runs/" + id, 3840}, {"/runs/" + id, 360}, {"/api/runs/" + id + "/report.html", 1440}} {
		b := open(t, base, at.path, look{size{at.width, 900}, "dark", "en"})
		b.has(".lane canvas")
		b.has(".rq-rows .rq-row")
		b.has(".rq-plot canvas")
		b.has(".shade")
		b.has(".phase.drain")
		b.has(".axis .tick")
		b.painted()
		eval[bool](b, `(window.__paper = null, matchMedia('print').addEventListener('change', e => {
			if (!e.matches) return
			const all = s => [...document.querySelectorAll(s)].filter(x => !x.hidden)
			const box = x => x.getBoundingClientRect()
			const page = document.documentElement.clientWidth
			const plot = box(document.querySelector('.lane canvas'))
			const [left, right] = [plot.left + 60, plot.right - 16]
			const over = all('body *').filter(x => box(x).right > page + 1).map(x => x.tagName + '.' + x.className)
			const scaled = all('.lane canvas, .rq-plot canvas').filter(c => Math.abs(box(c).width * devicePixelRatio - c.width) > 1).map(c => c.className + ' ' + box(c).width + ' of ' + c.width)
			const last = all('.shade').at(-1), phase = all('.phase.drain').at(-1)
			const c = document.querySelector('.rq-plot canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data
			let ink = 0
			for (let i = 3; i < d.length; i += 4) if (d[i] > 0) ink++
			window.__paper = {page, over: over.slice(0, 5), scaled, ink,
				plot: [box(document.querySelector('.stage')).right - plot.right, plot.width],
				shade: [box(last).right - right, box(last).left - box(phase).left, Number(getComputedStyle(last).printColorAdjust === 'exact')],
				ticks: all('.axis .tick').filter(x => box(x).right < left || box(x).left > right).length,
				rows: box(document.querySelector('.rq-rows')).height - all('.rq-rows .rq-row').reduce((n, x) => n + box(x).height, 0)}
		}), true)`)
		if _, err := chromedp.Call(b.ctx, page.PrintToPDF, page.PrintToPDFParams{PaperWidth: 8.27, PaperHeight: 11.69}); err != nil {
			t.Fatal(err)
		}
		got := eval[*struct {
			Page   float64   `json:"page"`
			Over   []string  `json:"over"`
			Scaled []string  `json:"scaled"`
			Ink    int       `json:"ink"`
			Plot   []float64 `json:"plot"`
			Shade  []float64 `json:"shade"`
			Ticks  int       `json:"ticks"`
			Rows   float64   `json:"rows"`
		}](b, "window.__paper")
		where := fmt.Sprintf("%s from a window of %d", strings.ReplaceAll(at.path, id, "ID"), at.width)
		if got == nil {
			t.Fatalf("%s: the page was not told of the printer", where)
		}
		// A4 between margins of 1 cm is 718 wide; a browser makes the page wider when something hangs over.
		if got.Page > 725 || len(got.Over) > 0 {
			t.Errorf("%s: the page is %.0f wide, over its side hang %q", where, got.Page, got.Over)
		}
		if len(got.Scaled) > 0 || math.Abs(got.Plot[0]) > 2 || got.Plot[1] < 500 {
			t.Errorf("%s: plots end %.0f before the page and are %.0f wide; not drawn for the paper: %q", where, got.Plot[0], got.Plot[1], got.Scaled)
		}
		if math.Abs(got.Shade[0]) > 2 || math.Abs(got.Shade[1]) > 2 || got.Shade[2] != 1 {
			t.Errorf("%s: the shade of the drain ends %.1f behind the plots and begins %.1f behind its word (it is printed: %v)", where, got.Shade[0], got.Shade[1], got.Shade[2] == 1)
		}
		if got.Ticks > 0 || got.Rows >= 26 || got.Ink < 500 {
			t.Errorf("%s: %d times beside the axis, %.0f of empty room in the table, %d inked pixels of requests", where, got.Ticks, got.Rows, got.Ink)
		}
		if at.width > 1000 {
			b.wait("the plots have the width of the screen again", "document.querySelector('.lane canvas').getBoundingClientRect().width > 1000")
		}
	}
}

// TestKeyboard walks through the panel without a mouse.
func TestKeyboard(t *testing.T) {
	runs, id := simulated(t, "keys")
	base := panel(t, runs)
	b := open(t, base, "/", dark)
	b.has(".rn-table a")
	b.pressUntil("/", "the search has the focus", "document.activeElement.type === 'search'")
	// The browser's protocol types the slash although the panel took the key.
	eval[bool](b, "(document.activeElement.value = '', true)")
	b.press("keys")
	b.wait("the search in the address", "location.search.includes('q=keys')")
	// Tab reaches the run.
	reached := false
	for range 40 {
		b.press("\t")
		if reached = eval[bool](b, "document.activeElement?.getAttribute('href')?.includes($1) ?? false", "/runs/"+id); reached {
			break
		}
	}
	if !reached {
		t.Fatal("Tab does not reach the run")
	}
	if outline := eval[string](b, "getComputedStyle(document.activeElement).outlineStyle"); outline == "none" {
		t.Error("one does not see what has the focus")
	}
	b.press("\r")
	b.wait("the run", "location.pathname === $1", "/runs/"+id)
	b.has(".lane canvas")
	b.pressUntil("jj", "a lane is chosen", "document.querySelector('.lane.current')")
	height := eval[float64](b, "document.querySelector('.lane.current').offsetHeight")
	b.press("f")
	b.wait("the lane is enlarged", "document.querySelector('.lane.current').offsetHeight > $1 + 50", height)
	b.press("?")
	b.has("dialog, [role=dialog]")
	b.shot("keyboard-help")
	b.press("\u001b")
	b.wait("the help is closed", "!document.querySelector('dialog[open]')")
	for _, to := range []struct{ letter, path string }{{"w", "/workloads"}, {"t", "/twin"}, {"s", "/scenarios"}, {"r", "/"}} {
		// It counts as one when the second comes within 1.5 s.
		b.pressUntil("g"+to.letter, "the page of g "+to.letter, "location.pathname === $1", to.path)
	}
}

// TestBudget holds first paint and script to what was promised. The time is the best of
// up to 20 tries, and no verdict where this machine had other things to do in all of them.
func TestBudget(t *testing.T) {
	runs, id := simulated(t, "budget")
	base := panel(t, runs)
	const want = 300
	const paint = "performance.getEntriesByName('first-contentful-paint')[0]"
	best, proven := process.Best(t, 20, want, func() float64 {
		b := open(t, base, "/runs/"+id, dark)
		b.has(".lane canvas")
		b.wait("the first paint", paint)
		took := eval[float64](b, paint+".startTime")
		// The least that a page can be, a picture of one circle.
		c := open(t, base, "/mark.svg", dark)
		c.expected = []string{"favicon.ico"} // a picture names no other for its tab
		c.wait("the first paint", paint)
		plain := eval[float64](c, paint+".startTime")
		t.Logf("first contentful paint after %.0f ms, of a page with next to nothing after %.0f ms", took, plain)
		return took / max(1, plain/60) // where even that takes more than 60 ms, other work has this machine
	})
	if best > want && proven {
		t.Errorf("first contentful paint after %.0f ms, want at most %d", best, want)
	}
	dist := filepath.Join("..", "..", "internal", "assets", "files", "dist")
	script := int64(0)
	err := filepath.WalkDir(dist, func(path string, d fs.DirEntry, err error) error {
		// The report is a page of its own, and the dictionary is loaded where Chinese is spoken.
		name := filepath.Base(path)
		if err == nil && strings.HasSuffix(name, ".js.gz") && name != "report.js.gz" && !strings.HasPrefix(name, "zh-") {
			fi, err := d.Info()
			if err != nil {
				return err
			}
			script += fi.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes of compressed script", script)
	if script == 0 || script > 150<<10 {
		t.Errorf("%d bytes of compressed script, want at most %d", script, 150<<10)
	}
}

// TestMillion opens a run of a million requests and pans over it.
func TestMillion(t *testing.T) {
	if os.Getenv("PLIMSOLL_SLOW") == "" {
		t.Skip("slow: make slow runs it")
	}
	runs, id := simulated(t, "million", "--users", "200", "--requests", "1000000", "--prompt-tokens", "50", "--output-tokens", "8")
	base := panel(t, runs)
	first := open(t, base, "/runs/"+id, dark)
	began := time.Now()
	first.has(".lane canvas")
	t.Logf("the first opening makes the files beside the run: %v", time.Since(began).Round(time.Millisecond))
	base = panel(t, runs) // another process, that has nothing in memory
	var b *tab
	const opens = 1500
	best, proven := process.Best(t, 6, opens, func() float64 {
		b = open(t, base, "/runs/"+id, dark)
		b.wait("figures and lanes", `document.querySelector('.lane canvas') && /[1-9]/.test(document.querySelector('[data-figure="ttft"] dd')?.innerText ?? '') && (window.__drawn ??= performance.now())`)
		return eval[float64](b, "window.__drawn")
	})
	t.Logf("open after %.0f ms", best)
	if best > opens && proven {
		t.Errorf("a run of a million requests opens in %.0f ms, want at most %d", best, opens)
	}
	// Zoom in, then pan by the wheel; the longest time between two frames is what a
	// person feels.
	box := eval[struct {
		X float64 `json:"x"`
		Y float64 `json:"y"`
	}](b, `(() => { const r = document.querySelector('.lane canvas').getBoundingClientRect(); return {x: r.left + r.width / 2, y: r.top + r.height / 2} })()`)
	const frame = 50
	zoom := true // at first
	// A frame also waits for whoever else uses this machine.
	worst, proven := process.Best(t, 10, frame, func() float64 {
		eval[bool](b, `(window.__frames = [], (function tick(t) { window.__frames.push(t); if (window.__frames.length < 2000) requestAnimationFrame(tick) })(performance.now()), true)`)
		eval[bool](b, `new Promise(done => {
			const at = document.elementFromPoint($1, $2)
			let n = 0
			const wheel = () => {
				const zoom = n < 10 && $3
				at.dispatchEvent(new WheelEvent('wheel', {bubbles: true, cancelable: true, clientX: $1, clientY: $2, ctrlKey: zoom, shiftKey: !zoom, deltaY: zoom ? -120 : 60, deltaX: zoom ? 0 : 60}))
				if (++n < 70) requestAnimationFrame(wheel); else done(true)
			}
			requestAnimationFrame(wheel)
		})`, box.X, box.Y, zoom)
		zoom = false
		gaps := eval[[]float64](b, `(() => { const f = window.__frames; window.__frames = Array(2000); return f.slice(1).map((t, i) => t - f[i]) })()`)
		return slices.Max(gaps)
	})
	b.wait("a view in the address: the wheel zooms and pans", "location.search.includes('view=')")
	t.Logf("longest frame %.0f ms", worst)
	if worst > frame && proven {
		t.Errorf("a frame of %.0f ms while panning, want at most %d", worst, frame)
	}
	b.shot("million")
}
