package content

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/klippa-app/go-pdfium"
	pdfium_errors "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// Limits on what one PDF may cost.
const (
	// pdfPages bounds the pages of a PDF.
	pdfPages = 10_000
	// pdfMemory bounds the memory that PDFium has for one document, its file
	// included, in WebAssembly's pages of 64 KiB: 256 MiB.
	pdfMemory = 4096
	// pdfPatience is how long one document may take.
	pdfPatience = 2 * time.Minute
	// pdfCompile is from how many bytes of PDFs on PDFium is compiled, for some
	// four seconds of one core, and not interpreted: reading is twenty times as fast
	// then, which some thirty pages of text pay for.
	pdfCompile = 32 << 10
)

// errPDFSlow ends the reading of a document that takes longer than it may.
var errPDFSlow = errors.New("reading a PDF took too long")

// pdfReader reads PDFs with PDFium, as WebAssembly: whatever a file makes of it, it
// has no memory but its own, of bounded size, no file and no real clock, and it ends
// when it is told to. One goroutine at a time may use it; after a document that was
// given up for its time it reads no other.
type pdfReader struct {
	pool     pdfium.Pool
	ctx      context.Context
	cancel   context.CancelCauseFunc
	patience time.Duration
	page     int // that is read, from 1; 0 before the first
}

// newPDFReader starts PDFium, compiled or interpreted. A document that takes longer
// than patience is given up, and the reader with it. Close it.
func newPDFReader(compiled bool, patience time.Duration) (*pdfReader, error) {
	config := wazero.NewRuntimeConfigInterpreter()
	if compiled {
		config = wazero.NewRuntimeConfig() // a compiler where there is one
	}
	config = config.WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesExceptionHandling).
		WithCloseOnContextDone(true).WithMemoryLimitPages(pdfMemory)
	ctx, cancel := context.WithCancelCause(experimental.WithMemoryAllocator(context.Background(),
		experimental.MemoryAllocatorFunc(func(_, _ uint64) experimental.LinearMemory { return new(pdfBytes) })))
	pool, err := webassembly.Init(webassembly.Config{
		Context: ctx, MaxTotal: 1,
		FSConfig: wazero.NewFSConfig(), RuntimeConfig: config,
		Stdout: io.Discard, Stderr: io.Discard,
		RandomSource: bytes.NewReader(make([]byte, 1<<16)), // the same text every time
	})
	if err != nil {
		cancel(nil)
		return nil, fmt.Errorf("start the reader of PDFs: %w", err)
	}
	return &pdfReader{pool: pool, ctx: ctx, cancel: cancel, patience: patience}, nil
}

// pdfBytes is the memory of one document: 32 MiB, which does for most, and then all
// that it may have, so that nothing but the first is left behind by growing.
type pdfBytes []byte

// Reallocate returns size bytes that begin with those that were there, nil for more
// than there may be.
func (m *pdfBytes) Reallocate(size uint64) []byte {
	const first, most = 32 << 20, pdfMemory << 16
	if size > most {
		return nil
	}
	if have := uint64(len(*m)); size > have {
		if have = first; size > first {
			have = most
		}
		grown := make([]byte, have)
		copy(grown, *m)
		*m = grown
	}
	return (*m)[:size]
}

// Free gives the memory back.
func (m *pdfBytes) Free() { *m = nil }

// Close ends PDFium.
func (r *pdfReader) Close() error {
	r.cancel(nil)
	return r.pool.Close()
}

// text returns the text of a PDF, pages in their order with an empty line between
// them. It is whole or it is an error.
func (r *pdfReader) text(b []byte) ([]byte, error) {
	timer := time.AfterFunc(r.patience, func() { r.cancel(errPDFSlow) })
	defer timer.Stop()
	r.page = 0
	text, err := r.pages(b)
	switch {
	case err == nil:
		return text, nil
	case errors.Is(context.Cause(r.ctx), errPDFSlow):
		err = fmt.Errorf("not read within %v", r.patience)
	case errors.Is(err, pdfium_errors.ErrPassword):
		err = errors.New("it needs a password")
	case strings.Contains(err.Error(), "wasm error"):
		err = fmt.Errorf("it is broken or needs more than %d MiB of memory", pdfMemory>>4)
	}
	if r.page > 0 {
		err = fmt.Errorf("page %d: %w", r.page, err)
	}
	return nil, fmt.Errorf("PDF: %w; convert it to text first (pdftotext)", err)
}

func (r *pdfReader) pages(b []byte) ([]byte, error) {
	// An instance of its own: memory that one document leaves in a bad state harms
	// no other.
	in, err := r.pool.GetInstanceWithContext(r.ctx)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	doc, err := in.OpenDocument(&requests.OpenDocument{File: &b})
	if err != nil {
		return nil, err
	}
	count, err := in.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: doc.Document})
	if err != nil {
		return nil, err
	}
	if count.PageCount > pdfPages {
		return nil, fmt.Errorf("%d pages, more than %d", count.PageCount, pdfPages)
	}
	var out []byte
	for i := range count.PageCount {
		r.page = i + 1
		text, err := page(in, doc.Document, i)
		if err != nil {
			return nil, err
		}
		if text != "" {
			out = append(append(out, text...), "\n\n"...)
		}
		if len(out) > MaxFileBytes {
			return nil, fmt.Errorf("more than %d MiB of text", MaxFileBytes>>20)
		}
	}
	r.page = 0 // what follows is of all
	if len(out) == 0 {
		return nil, fmt.Errorf("no text on its pages (%d); pictures of text are not read", count.PageCount)
	}
	return out, nil
}

// page returns the text of a page, by its index from 0.
func page(in pdfium.Pdfium, doc references.FPDF_DOCUMENT, i int) (string, error) {
	p, err := in.FPDFText_LoadPage(&requests.FPDFText_LoadPage{Page: requests.Page{ByIndex: &requests.PageByIndex{Document: doc, Index: i}}})
	if err != nil {
		return "", err
	}
	n, err := in.FPDFText_CountChars(&requests.FPDFText_CountChars{TextPage: p.TextPage})
	if err != nil {
		return "", err
	}
	var text string
	if n.Count > 0 {
		got, err := in.FPDFText_GetText(&requests.FPDFText_GetText{TextPage: p.TextPage, Count: n.Count})
		if err != nil {
			return "", err
		}
		text = got.Text
	}
	if _, err := in.FPDFText_ClosePage(&requests.FPDFText_ClosePage{TextPage: p.TextPage}); err != nil {
		return "", err
	}
	return plain(text), nil
}

// plain ends lines with one byte and leaves out what is no text.
func plain(s string) string {
	return strings.TrimSpace(strings.Map(func(c rune) rune {
		if unicode.IsControl(c) && c != '\n' && c != '\t' || c&0xfffe == 0xfffe {
			return -1
		}
		return c
	}, s))
}
