package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"mime"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// panel serves the files of the front end.
type panel struct{ files map[string]*panelFile }

// panelFile is one file, compressed once.
type panelFile struct {
	kind, tag string
	plain     []byte
	zipped    []byte // nil when it is no smaller
	forever   bool   // its name has the hash of its content
}

// hashed are the names that vite gives: a hash of the content before the extension.
var hashed = regexp.MustCompile(`-[A-Za-z0-9_-]{8}\.[a-z0-9]+$`)

func newPanel(files map[string][]byte) *panel {
	p := &panel{files: make(map[string]*panelFile, len(files))}
	for name, data := range files {
		if plain, ok := strings.CutSuffix(name, ".gz"); ok && files[plain] != nil {
			continue // the other's compressed form
		}
		kind := mime.TypeByExtension(path.Ext(name))
		switch path.Ext(name) { // not what this machine has been told
		case ".js":
			kind = "text/javascript; charset=utf-8"
		case ".css":
			kind = "text/css; charset=utf-8"
		case ".html":
			kind = "text/html; charset=utf-8"
		case ".svg":
			kind = "image/svg+xml"
		case ".woff2":
			kind = "font/woff2"
		case "":
			kind = "application/octet-stream"
		}
		sum := sha256.Sum256(data)
		f := &panelFile{kind: kind, tag: `"` + hex.EncodeToString(sum[:8]) + `"`, plain: data, forever: hashed.MatchString(name)}
		if f.zipped = files[name+".gz"]; f.zipped == nil {
			if f.zipped = zipped(data, gzip.BestCompression); len(f.zipped) >= len(data)*9/10 {
				f.zipped = nil
			}
		}
		p.files[name] = f
	}
	return p
}

// zipped is data compressed.
func zipped(data []byte, level int) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, level) // the level is a valid one
	_, _ = z.Write(data)                   // a buffer takes everything
	_ = z.Close()
	return b.Bytes()
}

// ServeHTTP serves a file, and the page for every address that is none: which view
// it shows the page reads from its address.
func (p *panel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		(&Problem{Status: http.StatusMethodNotAllowed, Text: r.Method + " is not possible on " + r.URL.Path}).write(w)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	f := p.files[name]
	if f == nil {
		if strings.HasPrefix(name, "assets/") || path.Ext(name) != "" && !strings.Contains(name, "/") {
			(&Problem{Status: http.StatusNotFound, Text: "no such file: " + r.URL.Path}).write(w)
			return
		}
		f = p.files["index.html"]
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("ETag", f.tag)
	h.Set("Vary", "Accept-Encoding")
	if f.forever {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "no-cache")
	}
	if has(r.Header.Values("If-None-Match"), f.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	data := f.plain
	if f.zipped != nil && acceptsGzip(r) {
		data = f.zipped
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		_, _ = w.Write(data) // the connection is gone: nobody to tell
	}
}

// has says whether a client has a version already, by the tags that it names. A proxy that
// compresses calls a tag a weak one.
func has(lists []string, tag string) bool {
	for _, list := range lists {
		for one := range strings.SplitSeq(list, ",") {
			if one = strings.TrimSpace(one); one == "*" || strings.TrimPrefix(one, "W/") == tag {
				return true
			}
		}
	}
	return false
}

// acceptsGzip says whether an answer may be compressed.
func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, q, _ := strings.Cut(part, ";")
		if strings.TrimSpace(name) == "gzip" {
			q = strings.ReplaceAll(q, " ", "")
			return q != "q=0" && q != "q=0.0" && q != "q=0.00" && q != "q=0.000"
		}
	}
	return false
}
