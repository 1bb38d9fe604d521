package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"plimsoll/test/process"
)

// browser is the one browser of all tests.
var browser context.Context

func TestMain(m *testing.M) {
	path := os.Getenv("PLIMSOLL_BROWSER")
	if path == "" {
		os.Exit(process.Main(m)) // the tests say that they are skipped
	}
	opts := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1440, 900), chromedp.WSURLReadTimeout(process.Patience))
	alloc, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	var end context.CancelFunc
	browser, end = chromedp.NewContext(alloc)
	if err := chromedp.Do(browser); err != nil {
		fmt.Fprintln(os.Stderr, "start the browser:", err)
		os.Exit(1)
	}
	code := process.Main(m)
	end()
	stop()
	os.Exit(code)
}

// tab is a page in the browser. Whatever goes wrong in it fails the test: an error
// on the console, a breach of the content security policy, a request to elsewhere.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu       sync.Mutex
	problems []string
	// expected are problems that the test brings about.
	expected []string
}

// size of a window in CSS pixels.
type size struct{ width, height int64 }

var (
	desktop = size{1440, 900}
	phone   = size{360, 740}
)

// look is how a page is shown.
type look struct {
	size
	theme string // dark or light
	lang  string // en or zh
}

// open opens a page of the panel at base. It is closed when the test ends.
func open(t *testing.T, base, path string, l look) *tab {
	t.Helper()
	if browser == nil {
		t.Skip("no browser: make browser runs these tests")
	}
	ctx, cancel := chromedp.NewContext(browser)
	ctx, stop := context.WithTimeout(ctx, 8*time.Minute)
	b := &tab{t: t, ctx: ctx, base: base}
	home, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	err = chromedp.Listen(ctx, func(ev any) {
		switch e := ev.(type) {
		case *cdplog.EventEntryAdded:
			if e.Entry.Level == cdplog.EntryLevelError || strings.Contains(e.Entry.Text, "Content Security Policy") {
				b.problem(e.Entry.Text + " " + e.Entry.URL)
			}
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
				var args []string
				for _, a := range e.Args {
					args = append(args, string(a.Value)+a.Description)
				}
				b.problem("console: " + strings.Join(args, " "))
			}
		case *runtime.EventExceptionThrown:
			text := e.ExceptionDetails.Text
			if x := e.ExceptionDetails.Exception; x != nil {
				text += " " + x.Description
			}
			b.problem("exception: " + text)
		case *network.EventRequestWillBeSent:
			u, err := url.Parse(e.Request.URL)
			if err == nil && u.Host != home.Host && u.Scheme != "data" && u.Scheme != "about" {
				b.problem("request to " + e.Request.URL)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, p := range b.problems {
			ok := false
			for _, e := range b.expected {
				ok = ok || strings.Contains(p, e)
			}
			if !ok {
				t.Errorf("in the browser: %s", p)
			}
		}
	})
	lang := "en-US"
	if l.lang == "zh" {
		lang = "zh-CN"
	}
	do(b, cdplog.Enable, cdp.Empty{})
	do(b, runtime.Enable, cdp.Empty{})
	do(b, network.Enable, network.EnableParams{})
	do(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: l.width, Height: l.height, DeviceScaleFactor: 1, Mobile: l.width < 500})
	do(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.theme}}})
	do(b, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{UserAgent: "Mozilla/5.0 (X11; Linux x86_64) test", AcceptLanguage: lang})
	b.run(chromedp.Navigate(base + path))
	return b
}

// do sends one command to the page.
func do[P, R any](b *tab, cmd cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, cmd, params); err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) problem(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, text)
}

func (b *tab) run(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// eval evaluates an expression in the page.
func eval[T any](b *tab, expression string, args ...any) T {
	b.t.Helper()
	out, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expand(b.t, expression, args), chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%v in %s", err, expression)
	}
	return out
}

// expand puts arguments as JSON in the places of $1, $2, ...
func expand(t *testing.T, expression string, args []any) string {
	t.Helper()
	for i, a := range args {
		v, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		expression = strings.ReplaceAll(expression, fmt.Sprintf("$%d", i+1), string(v))
	}
	return expression
}

// wait waits until an expression is true in the page.
func (b *tab) wait(what, expression string, args ...any) {
	b.t.Helper()
	text := expand(b.t, expression, args)
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		late := time.Since(began) > process.Patience
		if eval[bool](b, "!!("+text+")") {
			return
		}
		if late {
			b.shot("failed-" + b.t.Name())
			b.t.Fatalf("waited for %s: %s\nthe page says: %.1500s", what, text, b.text("body"))
		}
	}
}

// pressUntil presses keys until an expression is true: for keys that do no harm twice, of
// which the first may come before somebody listens, or the second too long after the first.
func (b *tab) pressUntil(keys, what, expression string, args ...any) {
	b.t.Helper()
	text := "!!(" + expand(b.t, expression, args) + ")"
	for began := time.Now(); time.Since(began) < process.Patience; {
		for _, k := range keys {
			b.press(string(k))
		}
		for range 20 {
			if eval[bool](b, text) {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	b.wait(what, expression, args...)
}

// has waits until a selector finds something.
func (b *tab) has(selector string) {
	b.t.Helper()
	b.wait(selector, "document.querySelector($1)", selector)
}

// text is what the first element of a selector says, as it is read.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, "document.querySelector($1)?.innerText ?? ''", selector)
}

// press presses keys, one after another.
func (b *tab) press(keys string) {
	b.t.Helper()
	b.run(chromedp.KeyEvent(keys))
}

var unsafeName = regexp.MustCompile(`[^A-Za-z0-9-]+`)

// shot takes a picture of what is on the screen.
func (b *tab) shot(name string) {
	b.t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	root, err := filepath.Abs(filepath.Join("..", "..", ".screenshots"))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, unsafeName.ReplaceAllString(name, "-")+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// painted waits until what has changed is on the screen.
func (b *tab) painted() {
	b.t.Helper()
	eval[bool](b, "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
}
