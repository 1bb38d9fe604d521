package strictyaml

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Options change what Decode says.
type Options struct {
	// Reserved are fields that are known but cannot be used, by path, with the
	// text to say instead of "unknown field".
	Reserved map[string]string
	// Secret says whether the value at a path must not appear in an error.
	Secret func(path string) bool
}

// Unmarshal reads one document into v, a pointer to a struct. The error is an
// Errors with everything that is wrong. File is the name for positions.
func Unmarshal(file string, data []byte, v any) error {
	d, err := Parse(file, data)
	if err != nil {
		return err
	}
	return d.Decode(v, Options{})
}

// Decode fills v, a pointer to a struct, map or slice, with the values of the
// document; what is not in the document keeps its value. The error is an
// Errors with everything that is wrong, and the fields without error are
// filled all the same.
//
// Field names are those of the yaml tag (yaml:"name"), yaml:"-" hides a field,
// an embedded struct without a tag gives its fields. A single value where a
// list is wanted is a list of the parts between its commas, and one where a
// struct is wanted is that of its field with the option short (yaml:"url,short").
// Durations need a unit. Types with UnmarshalText read a scalar of any form; the text of their
// error is the problem shown.
func (d *Document) Decode(v any, o Options) error {
	rv := reflect.ValueOf(v)
	if rv.Kind() != reflect.Pointer || rv.IsNil() {
		panic("BUG: strictyaml.Decode wants a pointer")
	}
	if d.at == nil {
		d.at = map[string]*node{}
	}
	clear(d.at)
	dec := decoder{doc: d, options: o, root: rv.Elem().Type()}
	dec.value(d.root, rv.Elem(), "")
	if len(dec.errs) == 0 {
		return nil
	}
	dec.errs.Sort()
	return dec.errs
}

type decoder struct {
	doc     *Document
	options Options
	root    reflect.Type
	errs    Errors
}

// maxErrors bounds what a document of nothing but errors costs.
const maxErrors = 1000

// fail records an error about n. A value that is secret, or came from a
// variable, is not shown.
func (d *decoder) fail(n *node, path, problem, value string) {
	if n.kind == scalar && d.options.Secret != nil && d.options.Secret(path) {
		value = ""
	} else if n.raw != "" && value != "" {
		value = Quote(n.raw)
	}
	d.report(n.Position, path, problem, value, "")
}

func (d *decoder) report(p Position, path, problem, value, nearest string) {
	if len(d.errs) >= maxErrors {
		return
	}
	d.errs = append(d.errs, &Error{Position: p, Path: path, Problem: problem, Value: value, Nearest: nearest})
}

var (
	durationType    = reflect.TypeFor[time.Duration]()
	unmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// what names what was written, for "got".
func (n *node) what() string {
	switch n.kind {
	case null:
		return "nothing"
	case mapping:
		return "a group of fields"
	case sequence:
		return "a list"
	default:
		return Quote(n.text)
	}
}

func (d *decoder) value(n *node, v reflect.Value, path string) {
	d.doc.at[path] = n
	t := v.Type()
	if t.Kind() == reflect.Pointer {
		if n.kind == null {
			v.SetZero()
			return
		}
		p := reflect.New(t.Elem())
		if !v.IsNil() {
			p.Elem().Set(v.Elem())
		}
		d.value(n, p.Elem(), path)
		v.Set(p)
		return
	}
	if t == durationType {
		if text, ok := d.scalar(n, path, "want a duration with a unit, as in 30s"); ok {
			x, problem := parseDuration(text)
			if problem != "" {
				d.fail(n, path, problem, Quote(text))
				return
			}
			v.SetInt(int64(x))
		}
		return
	}
	if v.CanAddr() && reflect.PointerTo(t).Implements(unmarshalerType) {
		if text, ok := d.scalar(n, path, "want a single value"); ok {
			fresh := reflect.New(t)
			if err := fresh.Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)); err != nil {
				d.fail(n, path, err.Error(), Quote(text))
				return
			}
			v.Set(fresh.Elem())
		}
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		d.structure(n, v, path)
	case reflect.Map:
		d.mapping(n, v, path)
	case reflect.Slice:
		d.slice(n, v, path)
	case reflect.Interface:
		if t.NumMethod() != 0 {
			panic("BUG: strictyaml cannot fill a " + t.String())
		}
		if x := d.any(n, path); x != nil {
			v.Set(reflect.ValueOf(x))
		} else {
			v.SetZero()
		}
	case reflect.String:
		if text, ok := d.scalar(n, path, "want text"); ok {
			v.SetString(text)
		}
	case reflect.Bool:
		if text, ok := d.scalar(n, path, "want true or false"); ok {
			switch {
			case !n.quoted && (text == "true" || text == "false"):
				v.SetBool(text == "true")
			case n.quoted && (text == "true" || text == "false"):
				d.fail(n, path, "want true or false without quotes", strconv.Quote(text))
			default:
				d.fail(n, path, "want true or false", Quote(text))
				if len(d.errs) > 0 {
					d.errs[len(d.errs)-1].Nearest = truth(text)
				}
			}
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if text, ok := d.number(n, path, "want a whole number"); ok {
			x, err := strconv.ParseInt(text, 10, t.Bits())
			if problem := wholeProblem(text, err); problem != "" {
				d.fail(n, path, problem, Quote(text))
				return
			}
			v.SetInt(x)
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if text, ok := d.number(n, path, "want a whole number of at least 0"); ok {
			x, err := strconv.ParseUint(text, 10, t.Bits())
			problem := wholeProblem(text, err)
			if problem != "" && strings.HasPrefix(text, "-") {
				problem = "want a whole number of at least 0"
			}
			if problem != "" {
				d.fail(n, path, problem, Quote(text))
				return
			}
			v.SetUint(x)
		}
	case reflect.Float32, reflect.Float64:
		if text, ok := d.number(n, path, "want a number"); ok {
			x, ok := parseFloat(text)
			if !ok {
				d.fail(n, path, "want a number", Quote(text))
				return
			}
			v.SetFloat(x)
		}
	default:
		panic("BUG: strictyaml cannot fill a " + t.String())
	}
}

// scalar returns the text of a single value, or records that it is none.
func (d *decoder) scalar(n *node, path, want string) (string, bool) {
	if n.kind == scalar {
		return n.text, true
	}
	d.fail(n, path, want, n.what())
	return "", false
}

func (d *decoder) number(n *node, path, want string) (string, bool) {
	text, ok := d.scalar(n, path, want)
	if ok && n.quoted {
		d.fail(n, path, want+" without quotes", strconv.Quote(text))
		return "", false
	}
	return text, ok
}

func truth(text string) string {
	switch strings.ToLower(text) {
	case "yes", "y", "on", "1", "true":
		return "true"
	case "no", "n", "off", "0", "false":
		return "false"
	}
	return Nearest(text, []string{"true", "false"})
}

func wholeProblem(text string, err error) string {
	digits := strings.TrimLeft(text, "+-")
	switch {
	case err == nil && len(digits) > 1 && digits[0] == '0':
		return "want a whole number without leading zeros"
	case err == nil:
		return ""
	default:
		if e, ok := err.(*strconv.NumError); ok && e.Err == strconv.ErrRange {
			return "the number is too large"
		}
		return "want a whole number"
	}
}

// parseFloat reads a decimal number, also .nan and .inf: whether those make
// sense is for the caller to say, as it is for negative ones.
func parseFloat(text string) (float64, bool) {
	switch strings.ToLower(text) {
	case ".nan", "nan":
		return math.NaN(), true
	case ".inf", "+.inf", "inf", "+inf":
		return math.Inf(1), true
	case "-.inf", "-inf":
		return math.Inf(-1), true
	}
	for _, r := range text {
		if (r < '0' || r > '9') && r != '.' && r != '-' && r != '+' && r != 'e' && r != 'E' {
			return 0, false
		}
	}
	x, err := strconv.ParseFloat(text, 64)
	return x, err == nil
}

// parseDuration reads 1h30m, 500ms and the like, or says what to write instead.
func parseDuration(text string) (time.Duration, string) {
	x, err := time.ParseDuration(text)
	if _, bare := parseFloat(text); bare {
		return 0, fmt.Sprintf("want a duration with a unit (ns, us, ms, s, m, h): write %ss", text)
	}
	if err == nil {
		return x, ""
	}
	if squeezed := strings.ReplaceAll(text, " ", ""); squeezed != text {
		if _, err := time.ParseDuration(squeezed); err == nil {
			return 0, fmt.Sprintf("want a duration without spaces: write %s", squeezed)
		}
	}
	number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	unit := strings.ToLower(strings.TrimSpace(strings.TrimPrefix(text, number)))
	if f, ok := parseFloat(number); ok {
		short := ""
		switch unit {
		case "sec", "secs", "second", "seconds":
			short = "s"
		case "min", "mins", "minute", "minutes":
			short = "m"
		case "hr", "hrs", "hour", "hours":
			short = "h"
		case "msec", "msecs", "millis", "millisecond", "milliseconds":
			short = "ms"
		case "usec", "micros", "microsecond", "microseconds":
			short = "us"
		case "ns", "us", "ms", "s", "m", "h":
			if text != strings.ToLower(text) {
				short = unit
				break
			}
			return 0, "the duration is too long"
		case "d", "day", "days":
			return 0, fmt.Sprintf("want a duration in ns, us, ms, s, m or h: write %sh", strconv.FormatFloat(f*24, 'f', -1, 64))
		}
		if short != "" {
			return 0, fmt.Sprintf("want a duration in ns, us, ms, s, m or h: write %s%s", number, short)
		}
	}
	return 0, "want a duration with a unit (ns, us, ms, s, m, h), as in 30s"
}

// field is one named field of a struct.
type field struct {
	name  string
	index []int
	typ   reflect.Type
	short bool
}

// hasShort says whether t has a field that a single value fills.
func hasShort(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && shortField(fields(t)) != nil
}

// shortField returns the field that a single value fills instead of a group, or nil.
func shortField(fs []field) *field {
	for i := range fs {
		if fs[i].short {
			return &fs[i]
		}
	}
	return nil
}

// fields lists the fields of a struct under their YAML names, in their order.
func fields(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, rest, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name == "-" {
			continue
		}
		if f.Anonymous && (name == "" || strings.Contains(rest, "inline")) && f.Type.Kind() == reflect.Struct {
			for _, inner := range fields(f.Type) {
				inner.index = append([]int{i}, inner.index...)
				out = append(out, inner)
			}
			continue
		}
		if !f.IsExported() {
			continue
		}
		if name == "" {
			name = strings.ToLower(f.Name)
		}
		out = append(out, field{name: name, index: f.Index, typ: f.Type, short: strings.Contains(rest, "short")})
	}
	return out
}

func names(fs []field) []string {
	out := make([]string, len(fs))
	for i, f := range fs {
		out[i] = f.name
	}
	return out
}

func (d *decoder) structure(n *node, v reflect.Value, path string) {
	fs := fields(v.Type())
	if n.kind == null {
		return // all that was in the group is commented out
	}
	if short := shortField(fs); short != nil && n.kind == scalar {
		d.value(n, v.FieldByIndex(short.index), path)
		return
	}
	if n.kind != mapping {
		problem := "want a group of fields (" + list(names(fs)) + ")"
		if short := shortField(fs); short != nil {
			problem = "want a value (" + short.name + ") or a group of fields (" + list(names(fs)) + ")"
		}
		if n.kind == scalar && !n.quoted && strings.Contains(n.text, ":") {
			problem += " with a space after each colon"
		}
		d.report(n.Position, path, problem, n.what(), elsewhere(d.root, path, lastName(path), true))
		return
	}
	seen := map[string]int{}
	for _, e := range n.entries {
		p := Join(path, e.key)
		at := Position{File: n.File, Line: e.line, Col: e.col, Origin: e.value.Origin}
		if d.twice(seen, e, at, p) {
			continue
		}
		var f *field
		for i := range fs {
			if fs[i].name == e.key {
				f = &fs[i]
			}
		}
		if f == nil {
			d.unknown(at, path, p, e.key, names(fs))
			continue
		}
		d.value(e.value, v.FieldByIndex(f.index), p)
	}
}

// twice reports a key that the same mapping has already had.
func (d *decoder) twice(seen map[string]int, e entry, at Position, path string) bool {
	if first, ok := seen[e.key]; ok {
		d.report(at, path, fmt.Sprintf("given twice, first in line %d: remove one", first), "", "")
		return true
	}
	seen[e.key] = e.line
	return false
}

func (d *decoder) unknown(at Position, parent, path, key string, siblings []string) {
	if text, ok := d.options.Reserved[path]; ok {
		d.report(at, path, text, "", "")
		return
	}
	near := Nearest(key, siblings)
	if near != "" && parent != "" {
		near = Join(parent, near)
	}
	if near == "" {
		near = elsewhere(d.root, path, key, false)
	}
	problem := "unknown field"
	if near == "" {
		problem += ": want one of " + list(siblings)
	}
	d.report(at, path, problem, "", near)
}

// elsewhere returns the path of a field that has or nearly has this name in
// another group, or "".
func elsewhere(root reflect.Type, path, key string, exact bool) string {
	var leaves, lasts []string
	for _, p := range Paths(root) {
		if p == path {
			continue
		}
		last := lastName(p)
		if last == fold(key) {
			return p
		}
		leaves, lasts = append(leaves, p), append(lasts, last)
	}
	if exact {
		return ""
	}
	if near := Nearest(key, lasts); near != "" {
		for i, l := range lasts {
			if l == near {
				return leaves[i]
			}
		}
	}
	return ""
}

func lastName(path string) string {
	return path[strings.LastIndexByte(path, '.')+1:]
}

// list joins names, at most a dozen of them.
func list(names []string) string {
	const most = 40
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

func (d *decoder) mapping(n *node, v reflect.Value, path string) {
	t := v.Type()
	if t.Key().Kind() != reflect.String {
		panic("BUG: strictyaml cannot fill a " + t.String())
	}
	if n.kind == null {
		return
	}
	if n.kind != mapping {
		d.fail(n, path, "want a group of names with values", n.what())
		return
	}
	out := reflect.MakeMapWithSize(t, len(n.entries))
	seen := map[string]int{}
	for _, e := range n.entries {
		p := Join(path, e.key)
		if d.twice(seen, e, Position{File: n.File, Line: e.line, Col: e.col, Origin: e.value.Origin}, p) {
			continue
		}
		x := reflect.New(t.Elem()).Elem()
		d.value(e.value, x, p)
		out.SetMapIndex(reflect.ValueOf(e.key).Convert(t.Key()), x)
	}
	v.Set(out)
}

func (d *decoder) slice(n *node, v reflect.Value, path string) {
	items := n.items
	itemPath := func(i int) string { return fmt.Sprintf("%s[%d]", path, i) }
	switch n.kind {
	case null:
		d.fail(n, path, "want a list or a value", n.what())
		return
	case scalar:
		// One value is a list of one, and "1,2,4" one of three, as flags give
		// them. A value with commas in it needs the list form.
		items = split(n)
	case mapping:
		items = []*node{n}
	}
	if len(items) == 1 && (n.kind == scalar || n.kind == mapping && !hasShort(v.Type().Elem())) {
		itemPath = func(int) string { return path }
	}
	out := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		d.value(item, out.Index(i), itemPath(i))
	}
	v.Set(out)
}

func split(n *node) []*node {
	if !strings.Contains(n.text, ",") {
		return []*node{n}
	}
	var out []*node
	for part := range strings.SplitSeq(n.text, ",") {
		out = append(out, &node{Position: n.Position, kind: scalar, text: strings.TrimSpace(part), raw: n.raw})
	}
	return out
}

func (d *decoder) any(n *node, path string) any {
	d.doc.at[path] = n
	switch n.kind {
	case mapping:
		out := make(map[string]any, len(n.entries))
		seen := map[string]int{}
		for _, e := range n.entries {
			p := Join(path, e.key)
			if d.twice(seen, e, Position{File: n.File, Line: e.line, Col: e.col, Origin: e.value.Origin}, p) {
				continue
			}
			out[e.key] = d.any(e.value, p)
		}
		return out
	case sequence:
		out := make([]any, len(n.items))
		for i, item := range n.items {
			out[i] = d.any(item, fmt.Sprintf("%s[%d]", path, i))
		}
		return out
	case scalar:
		return resolve(n)
	default:
		return nil
	}
}

// resolve gives a value the type that YAML 1.2 gives it.
func resolve(n *node) any {
	if n.quoted {
		return n.text
	}
	switch n.text {
	case "null", "~", "Null", "NULL", "":
		return nil
	case "true", "True", "TRUE":
		return true
	case "false", "False", "FALSE":
		return false
	case ".nan", ".NaN", ".NAN":
		return math.NaN()
	case ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF":
		return math.Inf(1)
	case "-.inf", "-.Inf", "-.INF":
		return math.Inf(-1)
	}
	if x, err := strconv.ParseInt(n.text, 10, 64); err == nil && wholeProblem(n.text, nil) == "" {
		return x
	}
	if x, err := strconv.ParseUint(n.text, 10, 64); err == nil && wholeProblem(n.text, nil) == "" {
		return x
	}
	if c := n.text[0]; c == '-' || c == '+' || c == '.' || c >= '0' && c <= '9' {
		if x, ok := parseFloat(n.text); ok && !math.IsNaN(x) && !math.IsInf(x, 0) && !leadingZero(n.text) {
			return x
		}
	}
	return n.text
}

// leadingZero says whether text is like 007, which is a name rather than a
// number.
func leadingZero(text string) bool {
	digits := strings.TrimLeft(text, "+-")
	return len(digits) > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9'
}

// Paths lists every field of type t that holds a value rather than a group, in
// order, as load.users.
func Paths(t reflect.Type) []string {
	var out []string
	var walk func(t reflect.Type, path string, depth int)
	walk = func(t reflect.Type, path string, depth int) {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(unmarshalerType) || depth > 16 {
			if path != "" {
				out = append(out, path)
			}
			return
		}
		for _, f := range fields(t) {
			walk(f.typ, Join(path, f.name), depth+1)
		}
	}
	walk(t, "", 0)
	return out
}
