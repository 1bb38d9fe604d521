package content

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"plimsoll/internal/random"
)

// filePrefix begins the name of a generator that reads the user's documents.
const filePrefix = "file:"

// ReadsFiles says whether a generator's name stands for documents of the user's.
func ReadsFiles(name string) bool { return strings.HasPrefix(name, filePrefix) }

// Limits on the user's documents.
const (
	// MaxFileBytes bounds one document, MaxFilesBytes all that one name stands
	// for, MaxFiles their number.
	MaxFileBytes  = 64 << 20
	MaxFilesBytes = 256 << 20
	MaxFiles      = 10_000
	// fewestBytes is the least text that windows are cut from.
	fewestBytes = 64
)

// kindsOfText are the ends of the names of documents that are text.
var kindsOfText = []string{".txt", ".text", ".md", ".markdown", ".csv", ".json", ".jsonl"}

// Files are the user's documents, under one folder: the scenario's own. No path
// leads out of it, by .. or by a link. It may be used from many goroutines.
type Files struct {
	root *os.Root
	mu   sync.RWMutex
	sets map[string]*fileSet
}

// OpenFiles opens the folder that the paths of "file:" are relative to. Close it
// when no more names will be loaded; what is loaded stays.
func OpenFiles(folder string) (*Files, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("open folder of documents: %w", err)
	}
	return &Files{root: root, sets: map[string]*fileSet{}}, nil
}

// Close closes the folder.
func (f *Files) Close() error { return f.root.Close() }

// Load reads the documents that a path or a pattern (such as "docs/*.md") stands
// for, once. Documents are .txt and .md as they are, .csv with its header before
// each window, .json and .jsonl: the text of an array's or a line's strings, or
// of the fields text, content or body of its objects, and otherwise the JSON
// itself; .pdf: the text of its pages, for which a second of processor time is the
// least.
func (f *Files) Load(pattern string) error {
	if f.find(pattern) != nil {
		return nil
	}
	set, err := f.read(pattern)
	if err != nil {
		return fmt.Errorf("read documents %q: %w", pattern, err)
	}
	f.mu.Lock()
	f.sets[pattern] = set
	f.mu.Unlock()
	return nil
}

func (f *Files) find(pattern string) *fileSet {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.sets[pattern]
}

func (f *Files) read(pattern string) (*fileSet, error) {
	if pattern == "" {
		return nil, errors.New("no path; write file:NAME, relative to the workload file's folder")
	}
	if path.IsAbs(pattern) || strings.Contains(pattern, `\`) || slices.Contains(strings.Split(pattern, "/"), "..") {
		return nil, errors.New("the path must be relative to the workload file's folder, with slashes and no way up")
	}
	names := []string{path.Clean(pattern)}
	if strings.ContainsAny(pattern, "*?[") {
		var err error
		if names, err = fs.Glob(f.root.FS(), path.Clean(pattern)); err != nil {
			return nil, err
		}
		if len(names) == 0 {
			return nil, errors.New("no file matches")
		}
		if len(names) > MaxFiles {
			return nil, fmt.Errorf("%d files match, more than %d", len(names), MaxFiles)
		}
		slices.Sort(names)
	}
	files := make([][]byte, len(names))
	total, pdfs, inPDFs := 0, 0, 0
	for i, name := range names {
		b, err := f.one(name, MaxFilesBytes-total)
		if err != nil {
			return nil, err
		}
		files[i], total = b, total+len(b)
		if isPDF(name) {
			pdfs++
			inPDFs += len(b)
		}
	}
	var reader *pdfReader
	if pdfs > 0 {
		var err error
		if reader, err = newPDFReader(inPDFs >= pdfCompile, pdfPatience); err != nil {
			return nil, err
		}
		defer reader.Close()
	}
	set := new(fileSet)
	for i, name := range names {
		var docs []text
		var err error
		if isPDF(name) {
			var body []byte
			body, err = reader.text(files[i])
			docs = []text{{body: body}}
		} else {
			docs, err = documents(name, files[i])
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		files[i] = nil
		for _, d := range docs {
			set.total += len(d.body)
		}
		if set.docs = append(set.docs, docs...); set.total > MaxFilesBytes {
			return nil, fmt.Errorf("more than %d MiB of text in all", MaxFilesBytes>>20)
		}
	}
	if set.total < fewestBytes {
		return nil, fmt.Errorf("only %d bytes of text, want at least %d", set.total, fewestBytes)
	}
	return set, nil
}

// one reads one regular file of at most room bytes. It is looked at before it is
// opened: to open a pipe or a device may block or act, and what is refused is not read.
func (f *Files) one(name string, room int) ([]byte, error) {
	info, err := f.root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no %s in the workload file's folder", name)
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder; name its files, such as %s/*.md", name, name)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file (%s)", name, info.Mode().Type())
	case !isPDF(name) && !slices.Contains(kindsOfText, strings.ToLower(path.Ext(name))):
		return nil, fmt.Errorf("%s: unknown kind %q, want %s or .pdf", name, path.Ext(name), strings.Join(kindsOfText, ", "))
	case info.Size() > MaxFileBytes:
		return nil, fmt.Errorf("%s has %d bytes, more than %d MiB", name, info.Size(), MaxFileBytes>>20)
	case info.Size() > int64(room):
		return nil, fmt.Errorf("more than %d MiB in all, with %s", MaxFilesBytes>>20, name)
	}
	file, err := f.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	most := min(MaxFileBytes, room)
	b, err := io.ReadAll(io.LimitReader(file, int64(most)+1))
	if err == nil && len(b) > most {
		err = fmt.Errorf("%s has grown beyond %d bytes while it was read", name, most)
	}
	return b, err
}

// text is one document.
type text struct {
	// head stands before each window: the header of a table.
	head, body []byte
}

// documents takes the texts out of a file that is no PDF.
func documents(name string, b []byte) ([]text, error) {
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	b = bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
	if !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 {
		return nil, errors.New("not UTF-8 text; convert it first (such as with iconv)")
	}
	switch strings.ToLower(path.Ext(name)) {
	case ".csv":
		return table(b)
	case ".json", ".jsonl":
		return jsonTexts(b)
	}
	return []text{{body: b}}, nil
}

func isPDF(name string) bool { return strings.EqualFold(path.Ext(name), ".pdf") }

// table checks a CSV file and parts its header from its rows.
func table(b []byte) ([]text, error) {
	r := csv.NewReader(bytes.NewReader(b))
	r.ReuseRecord = true
	if _, err := r.Read(); err != nil {
		return nil, err
	}
	at := r.InputOffset()
	for {
		if _, err := r.Read(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
	}
	return []text{{head: b[:at], body: b[at:]}}, nil
}

// jsonTexts takes the texts out of JSON values.
func jsonTexts(b []byte) ([]text, error) {
	var out []text
	for d := json.NewDecoder(bytes.NewReader(b)); ; {
		var raw json.RawMessage
		if err := d.Decode(&raw); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("JSON at byte %d: %w", d.InputOffset(), err)
		}
		items := []json.RawMessage{raw}
		if raw[0] == '[' {
			if err := json.Unmarshal(raw, &items); err != nil {
				return nil, err
			}
		}
		for _, item := range items {
			out = append(out, text{body: jsonText(item)})
		}
	}
	return out, nil
}

func jsonText(item json.RawMessage) []byte {
	var s string
	if json.Unmarshal(item, &s) == nil && s != "" {
		return []byte(s)
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(item, &fields) == nil {
		for _, k := range []string{"text", "content", "body"} {
			if json.Unmarshal(fields[k], &s) == nil && s != "" {
				return []byte(s)
			}
		}
	}
	return item
}

// fileSet is a Generator of windows of documents.
type fileSet struct {
	docs  []text
	total int
}

// BytesPerToken is that of prose: what the user's documents are is not known. A
// tokenizer, or a calibration against the server, knows better.
func (f *fileSet) BytesPerToken(Lang) int { return calibrations["prose"][English].mean }

func (f *fileSet) Append(dst []byte, seed uint64, tokens int, lang Lang) []byte {
	return f.appendBytes(dst, seed, bytesOf(tokens, f.BytesPerToken(lang)), lang)
}

// appendBytes appends a window that begins at a line or word chosen by seed, and
// goes on with the next document, around to the first. The number before it
// tells the windows of different seeds apart, however few the documents.
func (f *fileSet) appendBytes(dst []byte, seed uint64, n int, _ Lang) []byte {
	if n <= 0 {
		return dst
	}
	from := len(dst)
	limit := from + n
	dst = append(appendSalt(dst, seed^0x66696c65), "\n\n"...)
	at := int(random.Derive(seed, 0x66696c65) % uint64(f.total))
	i := 0
	for at >= len(f.docs[i].body) {
		at -= len(f.docs[i].body)
		i++
	}
	at = wordStart(f.docs[i].body, at, f.docs[i].head != nil)
	for len(dst) < limit {
		d := &f.docs[i]
		dst = append(dst, d.head...)
		rest := d.body[at:]
		dst = append(dst, rest[:min(len(rest), max(0, limit-len(dst)+utf8.UTFMax))]...)
		dst = append(dst, '\n')
		if i++; i == len(f.docs) {
			i = 0
		}
		at = 0
	}
	return cut(dst, from, limit)
}

// wordStart returns the beginning of the word, or of the line, that follows at.
func wordStart(b []byte, at int, line bool) int {
	for i := at; i < len(b); i++ {
		switch c := b[i]; {
		case i == 0, c == '\n' && i+1 < len(b):
			if i > 0 {
				i++
			}
			return i
		case line:
		case c == ' ' && i+1 < len(b):
			return i + 1
		case c >= utf8.RuneSelf && utf8.RuneStart(c):
			return i
		}
	}
	return 0
}
