// Package strictyaml reads YAML into Go structs and says everything that is
// wrong at once, each error with its line, column, field and the nearest valid
// name. It owns the limits that keep a hostile file from being slow or fatal.
// It never knows what the fields mean: ranges and relations are checked by the
// caller, who asks it where a field was written.
//
// What it refuses although YAML allows it: several documents, duplicate keys,
// merge keys, tags, keys that are not plain names, tabs before the first
// letter of a line, and yes/no as booleans.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// The limits on one document. The lexer below needs about a microsecond for
// each mark and the parser time quadratic in the number of keys (52,000 keys
// took 8 s); what the limits allow is read in well under a second.
const (
	// MaxBytes is the largest document in bytes.
	MaxBytes = 256 << 10
	// MaxTokens is the most keys, values and punctuation marks together.
	MaxTokens = 20_000
	// MaxDepth is how deep values may be nested.
	MaxDepth = 64
	// MaxNodes is the most values there may be once aliases are written out.
	MaxNodes = 50_000
)

type kind uint8

const (
	null kind = iota
	scalar
	mapping
	sequence
)

// node is a value as it was written. Each has its own copy, also where the
// document uses an alias, because Interpolate and Set change nodes.
type node struct {
	Position
	kind kind
	// quoted says that the text was in quotes or a block, so that it is text
	// and no number.
	quoted bool
	text   string
	// raw is the text before interpolation; empty when nothing was replaced.
	raw     string
	entries []entry
	items   []*node
}

type entry struct {
	key       string
	line, col int
	value     *node
}

func (n *node) get(key string) *node {
	for i := range n.entries {
		if n.entries[i].key == key {
			return n.entries[i].value
		}
	}
	return nil
}

// Document is a parsed document whose values have no types yet.
type Document struct {
	file string
	root *node
	at   map[string]*node
}

// New returns a document without any value, for Set. File is only a name.
func New(file string) *Document {
	return &Document{file: file, root: &node{kind: mapping, Position: Position{File: file}}}
}

// Parse reads one document. File is the name for positions. The error is an
// Errors, with one entry: what follows a syntax error cannot be trusted.
func Parse(file string, data []byte) (*Document, error) {
	if err := precheck(file, data); err != nil {
		return nil, Errors{err}
	}
	text := strings.TrimPrefix(string(data), "\ufeff")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	tokens, tree, err := parse(file, text)
	if err != nil {
		return nil, Errors{err}
	}
	c := converter{file: file, anchors: map[string]ast.Node{}}
	var body ast.Node
	for _, doc := range tree.Docs {
		if doc.Body == nil {
			continue
		}
		switch doc.Body.(type) {
		case *ast.DirectiveNode, *ast.CommentGroupNode:
			continue
		}
		if body != nil {
			return nil, Errors{c.errorAt(doc.Body, "a second document begins here: want one document in a file; remove the --- line and what follows")}
		}
		body = doc.Body
	}
	if body == nil {
		if len(tokens) > 0 {
			return nil, Errors{{Position: Position{File: file, Line: 1, Col: 1}, Problem: "the document has no content: want fields"}}
		}
		return nil, Errors{{Position: Position{File: file, Line: 1, Col: 1}, Problem: "the document is empty: want fields"}}
	}
	root, err := c.convert(body, 0)
	if err != nil {
		return nil, Errors{err}
	}
	return &Document{file: file, root: root}, nil
}

// precheck refuses what is no YAML text at all, before any parser sees it.
func precheck(file string, data []byte) *Error {
	if len(data) > MaxBytes {
		return &Error{Position: Position{File: file}, Problem: fmt.Sprintf("the document has %d bytes: at most %d are read", len(data), MaxBytes)}
	}
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return &Error{Position: Position{File: file, Line: 1, Col: 1}, Problem: "it is UTF-16: save it as UTF-8"}
	}
	line, col := 1, 1
	indent := true
	var tab *Error // a tab seen in the indent of this line
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		at := Position{File: file, Line: line, Col: col}
		switch {
		case r == utf8.RuneError && size <= 1:
			return &Error{Position: at, Problem: fmt.Sprintf("byte 0x%02x is not UTF-8 text: is this a YAML file?", data[i])}
		case r == '\n':
			line, col, indent, tab = line+1, 0, true, nil
		case r == '\r':
			if i+1 >= len(data) || data[i+1] != '\n' {
				return &Error{Position: at, Problem: "a carriage return without a line feed: end lines with \\n or \\r\\n"}
			}
		case r == '\t':
			if indent && tab == nil {
				tab = &Error{Position: at, Problem: "a tab before the first letter of a line: indent with spaces"}
			}
		case r == '\ufeff' && i == 0:
			col--
		case r < ' ' || r >= 0x7f && r <= 0x9f:
			return &Error{Position: at, Problem: fmt.Sprintf("control character U+%04X: is this a YAML file?", r)}
		case r != ' ':
			indent = false
			if tab != nil {
				return tab
			}
		}
		i += size
		col++
	}
	return nil
}

// guarded calls the YAML library, which has been seen to panic on hostile
// input: that becomes an error here and nowhere else.
func guarded(file string, call func()) (err *Error) {
	defer func() {
		if r := recover(); r != nil {
			err = &Error{Position: Position{File: file}, Problem: fmt.Sprintf("the YAML parser gave up on this text (%v)", r)}
		}
	}()
	call()
	return nil
}

func parse(file, text string) (tokens token.Tokens, tree *ast.File, err *Error) {
	if err := guarded(file, func() { tokens = lexer.Tokenize(text) }); err != nil {
		return nil, nil, err
	}
	tokens, err = mend(file, text, tokens)
	if err != nil {
		return nil, nil, err
	}
	if err := checkTokens(file, tokens); err != nil {
		return nil, nil, err
	}
	var perr error
	if err := guarded(file, func() { tree, perr = parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) }); err != nil {
		return nil, nil, err
	}
	if perr == nil {
		return tokens, tree, nil
	}
	e := &Error{Position: Position{File: file}, Problem: "not YAML"}
	var detail interface {
		GetMessage() string
		GetToken() *token.Token
	}
	if errors.As(perr, &detail) {
		message := detail.GetMessage()
		if len(message) > 200 {
			message = strings.ToValidUTF8(message[:200], "") + "…"
		}
		e.Problem += ": " + message
		switch {
		case strings.HasSuffix(message, "must be specified"):
			e.Problem += "; close it, or put a value with [ ] { } or , in it in quotes"
		case strings.HasSuffix(message, "is a reserved character"), strings.HasPrefix(message, "unexpected directive"), strings.HasPrefix(message, "invalid header option"):
			e.Problem += "; put a text that begins with it in quotes"
		case strings.HasPrefix(message, "found invalid tag"):
			e.Problem += "; put a text that begins with ! in quotes"
		case strings.HasPrefix(message, "mapping value is not allowed"):
			e.Problem += "; put a text with a colon and a blank in it in quotes"
		case strings.HasPrefix(message, "non-map value is specified"):
			e.Problem = "not YAML: a field needs a colon behind its name"
			if tk := detail.GetToken(); tk != nil && tk.Value != "" && len(tk.Value) < 60 {
				e.Problem = fmt.Sprintf("not YAML: a field needs a colon behind its name, as %s:", tk.Value)
			}
		}
		if tk := detail.GetToken(); tk != nil && tk.Position != nil {
			e.Line, e.Col = max(1, tk.Position.Line), max(1, tk.Position.Column)
		}
	}
	return nil, nil, e
}

// checkTokens bounds the number of tokens and how deep they nest, before the
// parser recurses on them.
func checkTokens(file string, tokens token.Tokens) *Error {
	if len(tokens) > MaxTokens {
		p := tokens[MaxTokens].Position
		return &Error{Position: Position{File: file, Line: p.Line, Col: p.Column}, Problem: fmt.Sprintf("the document has more than %d keys, values and marks", MaxTokens)}
	}
	flow, run := 0, 0
	var columns []int
	for i, tk := range tokens {
		switch tk.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow = max(0, flow-1)
		}
		switch tk.Type {
		case token.AnchorType, token.TagType:
			run++
		case token.StringType:
			// An anchor's name is a token of its own.
		default:
			run = 0
		}
		if flow == 0 && (tk.Type == token.SequenceEntryType || tk.Type == token.MappingKeyType ||
			i+1 < len(tokens) && tokens[i+1].Type == token.MappingValueType) {
			for len(columns) > 0 && columns[len(columns)-1] >= tk.Position.Column {
				columns = columns[:len(columns)-1]
			}
			columns = append(columns, tk.Position.Column)
		}
		if flow+len(columns) > 2*MaxDepth || run > MaxDepth {
			return &Error{Position: Position{File: file, Line: tk.Position.Line, Col: tk.Position.Column}, Problem: fmt.Sprintf("values are nested more than %d deep", MaxDepth)}
		}
	}
	return nil
}

// converter turns the library's tree into nodes.
type converter struct {
	file    string
	anchors map[string]ast.Node
	open    []string
	nodes   int
}

func (c *converter) errorAt(n ast.Node, problem string) *Error {
	return &Error{Position: c.position(n), Problem: problem}
}

func (c *converter) position(n ast.Node) Position {
	p := Position{File: c.file}
	if n == nil {
		return p
	}
	switch m := n.(type) {
	case *ast.MappingValueNode: // its own token is the colon
		return c.position(m.Key)
	case *ast.MappingNode:
		if len(m.Values) > 0 && !m.IsFlowStyle {
			return c.position(m.Values[0].Key)
		}
	}
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		p.Line, p.Col = tk.Position.Line, tk.Position.Column
	}
	return p
}

func (c *converter) convert(n ast.Node, depth int) (*node, *Error) {
	if depth > MaxDepth {
		return nil, c.errorAt(n, fmt.Sprintf("values are nested more than %d deep", MaxDepth))
	}
	if c.nodes++; c.nodes > MaxNodes {
		return nil, c.errorAt(n, fmt.Sprintf("the document has more than %d values once its aliases are written out", MaxNodes))
	}
	out := &node{Position: c.position(n)}
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return out, nil
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		// The text as written: what type it is, the wanted type decides.
		out.kind, out.text = scalar, n.GetToken().Value
		return out, nil
	case *ast.StringNode:
		out.kind, out.text = scalar, n.Value
		out.quoted = n.Token.Type == token.SingleQuoteType || n.Token.Type == token.DoubleQuoteType
		return out, nil
	case *ast.LiteralNode:
		out.kind, out.quoted = scalar, true
		if n.Value != nil {
			out.text = n.Value.Value
		}
		return out, nil
	case *ast.MappingValueNode:
		out.kind = mapping
		return out, c.add(out, n, depth)
	case *ast.MappingNode:
		out.kind = mapping
		for _, v := range n.Values {
			if err := c.add(out, v, depth); err != nil {
				return nil, err
			}
		}
		return out, nil
	case *ast.SequenceNode:
		out.kind = sequence
		for _, v := range n.Values {
			item, err := c.convert(v, depth+1)
			if err != nil {
				return nil, err
			}
			if item.Line == 0 {
				item.Position = out.Position
			}
			out.items = append(out.items, item)
		}
		return out, nil
	case *ast.AnchorNode:
		name := nodeText(n.Name)
		c.anchors[name] = n.Value
		c.open = append(c.open, name)
		out, err := c.convert(n.Value, depth+1)
		c.open = c.open[:len(c.open)-1]
		return out, err
	case *ast.AliasNode:
		name := nodeText(n.Value)
		target, ok := c.anchors[name]
		if !ok {
			return nil, c.errorAt(n, fmt.Sprintf("alias *%s has no anchor &%s above it; put a text that begins with * in quotes", short(name), short(name)))
		}
		if slices.Contains(c.open, name) {
			return nil, c.errorAt(n, fmt.Sprintf("alias *%s contains itself", short(name)))
		}
		c.open = append(c.open, name)
		copied, err := c.convert(target, depth+1)
		c.open = c.open[:len(c.open)-1]
		return copied, err
	case *ast.TagNode:
		return nil, c.errorAt(n, "tags (!) are not supported: remove it")
	default:
		return nil, c.errorAt(n, fmt.Sprintf("a %s is not supported here", strings.ToLower(n.Type().YAMLName())))
	}
}

func short(s string) string {
	if len(s) > 40 {
		return strings.ToValidUTF8(s[:40], "") + "…"
	}
	return s
}

func (c *converter) add(m *node, v *ast.MappingValueNode, depth int) *Error {
	var key ast.Node = v.Key
	if k, ok := key.(*ast.MappingKeyNode); ok {
		key = k.Value
	}
	if a, ok := key.(*ast.AnchorNode); ok {
		c.anchors[nodeText(a.Name)] = a.Value
		key = a.Value
	}
	switch key.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
	case *ast.MergeKeyNode:
		return c.errorAt(v.Key, "merge keys (<<) are not supported: write the fields out")
	default:
		return c.errorAt(v.Key, "want a plain name as the key")
	}
	p := c.position(key)
	value, err := c.convert(v.Value, depth+1)
	if err != nil {
		return err
	}
	if value.Line == 0 {
		value.Position = p
	}
	m.entries = append(m.entries, entry{key: nodeText(key), line: p.Line, col: p.Col, value: value})
	return nil
}

// nodeText returns the text of a scalar node without formatting it.
func nodeText(n ast.Node) string {
	switch n := n.(type) {
	case nil:
		return ""
	case *ast.StringNode:
		return n.Value
	default:
		if tk := n.GetToken(); tk != nil {
			return tk.Value
		}
		return ""
	}
}

// Interpolate replaces ${NAME} and ${NAME:-default} in every value by what
// lookup says of NAME, and $$ by $; a $ before anything else stays. It works on
// values after parsing, so that a variable can never add fields. A variable
// that is unset or empty and has no default is an error; its value is never in
// an error.
func (d *Document) Interpolate(lookup func(name string) (string, bool)) error {
	var errs Errors
	d.root.interpolate("", lookup, &errs)
	if len(errs) == 0 {
		return nil
	}
	errs.Sort()
	return errs
}

func (n *node) interpolate(path string, lookup func(string) (string, bool), errs *Errors) {
	switch n.kind {
	case mapping:
		for i := range n.entries {
			n.entries[i].value.interpolate(Join(path, n.entries[i].key), lookup, errs)
		}
	case sequence:
		for i, item := range n.items {
			item.interpolate(fmt.Sprintf("%s[%d]", path, i), lookup, errs)
		}
	case scalar:
		if n.raw != "" || !strings.Contains(n.text, "$") {
			return
		}
		text, replaced, problem := interpolate(n.text, lookup)
		if problem != "" {
			*errs = append(*errs, &Error{Position: n.Position, Path: path, Problem: problem})
			return
		}
		if replaced {
			n.raw = n.text
			// A number that comes from a variable is a number, however the
			// reference was quoted.
			n.quoted = false
		}
		n.text = text
	}
}

func interpolate(s string, lookup func(string) (string, bool)) (text string, replaced bool, problem string) {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 {
			b.WriteString(s)
			return b.String(), replaced, ""
		}
		b.WriteString(s[:i])
		s = s[i:]
		switch {
		case strings.HasPrefix(s, "$$"):
			b.WriteByte('$')
			s = s[2:]
		case strings.HasPrefix(s, "${"):
			end := strings.IndexByte(s, '}')
			if end < 0 {
				return "", false, "${ without }: write ${NAME}, or $$ for a dollar sign"
			}
			name, def, hasDef := strings.Cut(s[2:end], ":-")
			if !isName(name) {
				return "", false, "want ${NAME} or ${NAME:-default} with a variable's name, or $$ for a dollar sign"
			}
			value, ok := lookup(name)
			switch {
			case ok && value != "":
			case hasDef:
				value = def
			case ok:
				return "", false, fmt.Sprintf("environment variable %s is empty: fill it, or write ${%s:-default}", name, name)
			default:
				return "", false, fmt.Sprintf("environment variable %s is not set: set it, or write ${%s:-default}", name, name)
			}
			b.WriteString(value)
			replaced = true
			s = s[end+1:]
		default:
			b.WriteByte('$')
			s = s[1:]
		}
	}
}

func isName(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != "" && len(s) <= 200
}

// Join returns the path of the field called key inside path. A key that is not
// made of letters, digits, - and _ is quoted in brackets.
func Join(path, key string) string {
	plain := key != "" && len(key) <= 100 && !strings.ContainsFunc(key, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	switch {
	case !plain:
		return fmt.Sprintf("%s[%s]", path, quoteKey(key))
	case path == "":
		return key
	default:
		return path + "." + key
	}
}

func quoteKey(key string) string {
	if len(key) > 100 {
		key = strings.ToValidUTF8(key[:100], "") + "…"
	}
	return fmt.Sprintf("%q", key)
}

// At returns where the field at path was written, or where the nearest field
// above it was; ok is false when none was, as for a default. It knows the
// fields that Decode has seen.
func (d *Document) At(path string) (Position, bool) {
	for path != "" {
		if n := d.at[path]; n != nil {
			return n.Position, true
		}
		path = parent(path)
	}
	return Position{File: d.file}, false
}

// Has says whether the field at path itself was written.
func (d *Document) Has(path string) bool { return d.at[path] != nil }

// Raws returns the text before Interpolate of every field in which something
// was replaced, by path.
func (d *Document) Raws() map[string]string {
	out := map[string]string{}
	for path, n := range d.at {
		if n.raw != "" {
			out[path] = n.raw
		}
	}
	return out
}

// parent returns path without its last part.
func parent(path string) string {
	if strings.HasSuffix(path, `"]`) {
		// A quoted key may hold any character: its opening bracket is the last
		// [" that a valid quoted string follows, which is the last one at all,
		// because quotes inside are escaped.
		if i := strings.LastIndex(path, `["`); i >= 0 {
			return path[:i]
		}
		return ""
	}
	if i := strings.LastIndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return ""
}
