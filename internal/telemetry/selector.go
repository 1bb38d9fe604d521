package telemetry

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Selector names series as PromQL does: a name, or a beginning of names with *, and
// matchers of labels in braces: x, x_*, x{a="1"}, x{a!="1",b=~"p|q",c!~"r.*"}.
// A label that a series lacks is empty, and patterns match whole values.
type Selector struct {
	// Name is the name, without the *.
	Name string
	// Prefix says that every name that begins with Name is meant.
	Prefix bool
	// Matchers must all hold.
	Matchers []Matcher
}

// Matcher is one condition on a label.
type Matcher struct {
	// Label is the label's name.
	Label string
	// Op is =, !=, =~ or !~.
	Op string
	// Value is the value or pattern.
	Value string

	re *regexp.Regexp
}

// Matches says whether a label's value fulfils the condition; empty for a label that is not there.
func (m *Matcher) Matches(value string) bool {
	switch m.Op {
	case "=":
		return value == m.Value
	case "!=":
		return value != m.Value
	case "=~":
		return m.re.MatchString(value)
	default:
		return !m.re.MatchString(value)
	}
}

// String returns the selector as it is written.
func (s Selector) String() string {
	var b strings.Builder
	b.WriteString(s.Name)
	if s.Prefix {
		b.WriteByte('*')
	}
	for i, m := range s.Matchers {
		b.WriteByte("{,"[min(i, 1)])
		b.WriteString(m.Label + m.Op + strconv.Quote(m.Value))
	}
	if len(s.Matchers) > 0 {
		b.WriteByte('}')
	}
	return b.String()
}

// MarshalText writes the selector as UnmarshalText reads it.
func (s Selector) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a selector.
func (s *Selector) UnmarshalText(text []byte) error {
	in := string(text)
	name, rest, braces := strings.Cut(in, "{")
	name = strings.TrimSpace(name)
	out := Selector{Name: name}
	if strings.HasSuffix(name, "*") {
		out.Name, out.Prefix = name[:len(name)-1], true
	}
	if strings.ContainsAny(out.Name, "*}\"=, \t\n") {
		return fmt.Errorf("want a name, or the beginning of names and *, as in vllm:*")
	}
	if out.Name == "" {
		return fmt.Errorf("want the name of series before the labels")
	}
	if braces {
		rest = strings.TrimSpace(rest)
		for rest != "}" {
			m, after, err := matcher(rest)
			if err != nil {
				return err
			}
			out.Matchers = append(out.Matchers, m)
			rest = strings.TrimSpace(after)
			if strings.HasPrefix(rest, ",") {
				rest = strings.TrimSpace(rest[1:])
			} else if rest != "}" {
				return errBraces
			}
		}
	}
	*s = out
	return nil
}

var errBraces = fmt.Errorf(`want labels as {name="value",other=~"a|b"}; a selector with a comma must be an item of a list`)

// matcher reads one condition from the beginning of in.
func matcher(in string) (Matcher, string, error) {
	i := strings.IndexAny(in, "=!")
	if i <= 0 {
		return Matcher{}, "", errBraces
	}
	m := Matcher{Label: strings.TrimSpace(in[:i])}
	in = in[i:]
	for _, op := range []string{"=~", "!~", "!=", "="} {
		if strings.HasPrefix(in, op) {
			m.Op, in = op, strings.TrimSpace(in[len(op):])
			break
		}
	}
	quoted, err := strconv.QuotedPrefix(in)
	if m.Op == "" || err != nil || strings.ContainsAny(m.Label, "{}\", ") {
		return Matcher{}, "", errBraces
	}
	if m.Value, err = strconv.Unquote(quoted); err != nil {
		return Matcher{}, "", errBraces
	}
	if strings.HasSuffix(m.Op, "~") {
		// RE2: linear in the value, whatever the pattern.
		if _, err := regexp.Compile(m.Value); err != nil {
			return Matcher{}, "", fmt.Errorf("label %s: want a regular expression: %w", m.Label, err)
		}
		if m.re, err = regexp.Compile("^(?s:" + m.Value + ")$"); err != nil {
			return Matcher{}, "", fmt.Errorf("label %s: want a shorter regular expression: %w", m.Label, err)
		}
	}
	return m, in[len(quoted):], nil
}

// matchesName says whether the selector means series of this name.
func (s *Selector) matchesName(name string) bool {
	if s.Prefix {
		return strings.HasPrefix(name, s.Name)
	}
	return s.Name == name
}

// matchesLabels says whether the labels fulfil every condition.
func (s *Selector) matchesLabels(get func(label string) string) bool {
	for i := range s.Matchers {
		if !s.Matchers[i].Matches(get(s.Matchers[i].Label)) {
			return false
		}
	}
	return true
}
