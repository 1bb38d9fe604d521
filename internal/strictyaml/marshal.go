package strictyaml

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Marshal writes v, a struct or a pointer to one, as a document that Unmarshal
// reads back equal: fields in their order, names of maps sorted, empty fields
// with omitempty left out. Replace, which may be nil, gives the text to write
// instead of the value at a path. With escape, $ is written as $$ where
// Interpolate would otherwise replace something.
func Marshal(v any, replace map[string]string, escape bool) ([]byte, error) {
	m := marshaler{replace: replace, escape: escape}
	rv := reflect.ValueOf(v)
	for rv.Kind() == reflect.Pointer && !rv.IsNil() {
		rv = rv.Elem()
	}
	if rv.Kind() != reflect.Struct {
		return nil, fmt.Errorf("marshal %T as yaml: want a struct", v)
	}
	m.group(rv, "", 0)
	if m.err != nil {
		return nil, m.err
	}
	return []byte(m.b.String()), nil
}

type marshaler struct {
	b       strings.Builder
	replace map[string]string
	escape  bool
	err     error
}

// str writes a string value.
func (m *marshaler) str(s string) string {
	if m.escape && (strings.Contains(s, "$$") || strings.Contains(s, "${")) {
		s = strings.ReplaceAll(s, "$", "$$")
	}
	return text(s)
}

func (m *marshaler) group(v reflect.Value, path string, indent int) {
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		name, rest, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name == "-" {
			continue
		}
		if f.Anonymous && (name == "" || strings.Contains(rest, "inline")) && f.Type.Kind() == reflect.Struct {
			m.group(v.Field(i), path, indent)
			continue
		}
		if !f.IsExported() {
			continue
		}
		if name == "" {
			name = strings.ToLower(f.Name)
		}
		if strings.Contains(rest, "omitempty") && empty(v.Field(i)) {
			continue
		}
		m.pair(name, v.Field(i), Join(path, name), indent)
	}
}

// short returns the field that alone says all of a struct, and false when there is
// none or others have something to say.
func (m *marshaler) short(v reflect.Value, path string) (reflect.Value, bool) {
	var one reflect.Value
	for _, f := range fields(v.Type()) {
		x := v.FieldByIndex(f.index)
		switch {
		case f.short:
			if _, replaced := m.replace[Join(path, f.name)]; replaced {
				return one, false
			}
			one = x
		case !empty(x):
			return one, false
		}
	}
	return one, one.IsValid()
}

func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	default:
		return v.IsZero()
	}
}

func (m *marshaler) pair(name string, v reflect.Value, path string, indent int) {
	m.b.WriteString(strings.Repeat(" ", indent) + text(name) + ":")
	m.value(v, path, indent)
}

// value writes what follows "name:" or "-".
func (m *marshaler) value(v reflect.Value, path string, indent int) {
	if raw, ok := m.replace[path]; ok {
		m.b.WriteString(" " + text(raw) + "\n")
		return
	}
	dynamic := v.Kind() == reflect.Interface
	for (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && !v.IsNil() {
		v = v.Elem()
	}
	t := v.Type()
	if v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		m.b.WriteString(" null\n")
		return
	}
	if t == durationType {
		m.b.WriteString(" " + FormatDuration(time.Duration(v.Int())) + "\n")
		return
	}
	if tm, ok := textMarshaler(v); ok {
		b, err := tm.MarshalText()
		if err != nil && m.err == nil {
			m.err = fmt.Errorf("marshal %s as yaml: %w", path, err)
		}
		m.b.WriteString(" " + plainOrQuoted(string(b)) + "\n")
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		if short, ok := m.short(v, path); ok {
			m.value(short, path, indent)
			return
		}
		m.b.WriteByte('\n')
		before := m.b.Len()
		m.group(v, path, indent+2)
		if m.b.Len() == before {
			// Nothing in it was worth writing: an empty group reads back so.
			m.b.WriteString(strings.Repeat(" ", indent+2) + "{}\n")
		}
	case reflect.Map:
		if v.Len() == 0 {
			m.b.WriteString(" {}\n")
			return
		}
		m.b.WriteByte('\n')
		byName := map[string]reflect.Value{}
		for it := v.MapRange(); it.Next(); {
			byName[it.Key().String()] = it.Value()
		}
		for _, k := range slices.Sorted(maps.Keys(byName)) {
			m.pair(k, byName[k], Join(path, k), indent+2)
		}
	case reflect.Slice:
		if v.Len() == 0 {
			m.b.WriteString(" []\n")
			return
		}
		m.b.WriteByte('\n')
		for i := range v.Len() {
			m.b.WriteString(strings.Repeat(" ", indent+2) + "-")
			m.value(v.Index(i), fmt.Sprintf("%s[%d]", path, i), indent+2)
		}
	case reflect.String:
		m.b.WriteString(" " + m.str(v.String()) + "\n")
	case reflect.Bool:
		m.b.WriteString(" " + strconv.FormatBool(v.Bool()) + "\n")
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		m.b.WriteString(" " + strconv.FormatInt(v.Int(), 10) + "\n")
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		m.b.WriteString(" " + strconv.FormatUint(v.Uint(), 10) + "\n")
	case reflect.Float32, reflect.Float64:
		m.b.WriteString(" " + formatFloat(v.Float(), t.Bits(), dynamic) + "\n")
	default:
		panic("BUG: strictyaml cannot write a " + t.String())
	}
}

func textMarshaler(v reflect.Value) (encoding.TextMarshaler, bool) {
	if v.CanAddr() {
		if tm, ok := v.Addr().Interface().(encoding.TextMarshaler); ok {
			return tm, true
		}
	}
	tm, ok := v.Interface().(encoding.TextMarshaler)
	return tm, ok
}

// formatFloat writes a float; with mark so that it reads back as one into any.
func formatFloat(x float64, bits int, mark bool) string {
	s := strconv.FormatFloat(x, 'g', -1, bits)
	switch s {
	case "NaN":
		return ".nan"
	case "+Inf":
		return ".inf"
	case "-Inf":
		return "-.inf"
	}
	if mark && !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// plainOrQuoted writes the text form of a type that reads any scalar: bare
// where that is safe, so that 512 stays 512.
func plainOrQuoted(s string) string {
	if isPlain(s) {
		return s
	}
	return quote(s)
}

// isPlain says whether s can stand without quotes as some scalar.
func isPlain(s string) bool {
	if s == "" {
		return false
	}
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '/'
		inner := r == '-' || r == '.' || r == '+' || r == '=' || r == ','
		// A colon is safe before anything but a space or the end.
		colon := r == ':' && i > 0 && i < len(s)-1
		if !letter && !(inner && (i > 0 || r == '.')) && !colon {
			return false
		}
	}
	return s != "---" && s != "..."
}

// text writes a string so that it reads back as that string, whatever is asked
// for. Double quotes of YAML know the escapes that JSON strings have.
func text(s string) string {
	if isPlain(s) && !strings.HasSuffix(s, ":") {
		if _, isText := resolve(&node{kind: scalar, text: s}).(string); isText && !oldBool(s) {
			return s
		}
	}
	return quote(s)
}

// oldBool names the words that other YAML readers take for booleans.
func oldBool(s string) bool {
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf":
		return true
	}
	return false
}

func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < ' ' || r >= 0x7f && r <= 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfeff:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// FormatDuration writes a duration in its shortest form with whole units:
// 90s is 1m30s, 60s is 1m.
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return strings.Replace(s, "µ", "u", 1)
}

// Leaf is one value of a struct as one line of text.
type Leaf struct {
	// Path is the field, as in load.users or target.header.X-Team.
	Path string
	// Text is the value as it would stand in a document, lists between commas.
	Text string
}

// Leaves lists what Marshal would write, one leaf for each field or name of a
// mapping, in the same order.
func Leaves(v any, replace map[string]string) []Leaf {
	rv := reflect.ValueOf(v)
	for rv.Kind() == reflect.Pointer && !rv.IsNil() {
		rv = rv.Elem()
	}
	m := marshaler{replace: replace}
	var out []Leaf
	m.leaves(rv, "", &out)
	return out
}

func (m *marshaler) leaves(v reflect.Value, path string, out *[]Leaf) {
	for (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && !v.IsNil() {
		v = v.Elem()
	}
	if _, replaced := m.replace[path]; !replaced {
		_, isText := textMarshaler(v)
		switch {
		case isText:
		case v.Kind() == reflect.Struct:
			if short, ok := m.short(v, path); ok {
				m.leaves(short, path, out)
				return
			}
			for i := range v.NumField() {
				f := v.Type().Field(i)
				name, rest, _ := strings.Cut(f.Tag.Get("yaml"), ",")
				switch {
				case name == "-" || strings.Contains(rest, "omitempty") && empty(v.Field(i)):
				case f.Anonymous && (name == "" || strings.Contains(rest, "inline")) && f.Type.Kind() == reflect.Struct:
					m.leaves(v.Field(i), path, out)
				case f.IsExported():
					if name == "" {
						name = strings.ToLower(f.Name)
					}
					m.leaves(v.Field(i), Join(path, name), out)
				}
			}
			return
		case v.Kind() == reflect.Map:
			byName := map[string]reflect.Value{}
			for it := v.MapRange(); it.Next(); {
				byName[it.Key().String()] = it.Value()
			}
			for _, k := range slices.Sorted(maps.Keys(byName)) {
				m.leaves(byName[k], Join(path, k), out)
			}
			return
		case v.Kind() == reflect.Slice:
			var parts []string
			for i := range v.Len() {
				var inner []Leaf
				m.leaves(v.Index(i), fmt.Sprintf("%s[%d]", path, i), &inner)
				for _, l := range inner {
					name := strings.TrimPrefix(l.Path, fmt.Sprintf("%s[%d]", path, i))
					if name != "" {
						name = strings.TrimPrefix(name, ".") + "="
					}
					parts = append(parts, name+l.Text)
				}
			}
			*out = append(*out, Leaf{Path: path, Text: strings.Join(parts, ", ")})
			return
		}
	}
	one := marshaler{replace: m.replace}
	one.value(v, path, 0)
	*out = append(*out, Leaf{Path: path, Text: strings.TrimSpace(one.b.String())})
}
