package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"plimsoll/internal/report"
)

// exampler is a command that shows how it is used.
type exampler interface{ Examples() []string }

const helpColumn = 26 // where the text beside a flag begins

// printHelp writes the help of one command: what it does, its commands or
// flags by group, and examples.
func printHelp(w io.Writer, n *kong.Node) {
	var b strings.Builder
	b.WriteString("Usage: " + usage(n) + "\n\n")
	for _, l := range report.Wrap(n.Help, report.Width-1) {
		b.WriteString(l + "\n")
	}
	if n.Detail != "" {
		for par := range strings.SplitSeq(n.Detail, "\n\n") {
			b.WriteString("\n")
			for _, l := range report.Wrap(par, report.Width-1) {
				b.WriteString(l + "\n")
			}
		}
	}
	if len(n.Children) > 0 {
		b.WriteString("\nCommands\n")
		for _, c := range n.Children {
			if !c.Hidden {
				helpLine(&b, 16, c.Name, c.Help)
			}
		}
	}
	if len(n.Positional) > 0 {
		b.WriteString("\nArguments\n")
		for _, p := range n.Positional {
			helpLine(&b, helpColumn, strings.ToUpper(p.Name), p.Help)
		}
	}
	var order []string
	groups := map[string][]*kong.Flag{}
	var help *kong.Flag
	for _, fs := range n.AllFlags(true) {
		for _, f := range fs {
			if f.Name == "help" {
				help = f
				continue
			}
			title := "Flags"
			if f.Group != nil {
				title = f.Group.Title
			}
			if _, ok := groups[title]; !ok {
				order = append(order, title)
			}
			groups[title] = append(groups[title], f)
		}
	}
	// What is the command's own comes first, the call for help last.
	for i, t := range order {
		if t == "Flags" {
			order = append([]string{t}, append(order[:i:i], order[i+1:]...)...)
			break
		}
	}
	if help != nil {
		if len(order) == 0 {
			order = []string{"Flags"}
		}
		last := order[len(order)-1]
		groups[last] = append(groups[last], help)
	}
	for _, t := range order {
		b.WriteString("\n" + t + "\n")
		for _, f := range groups[t] {
			helpLine(&b, helpColumn, flagUsage(f), flagHelp(f))
		}
	}
	if n.Target.IsValid() && n.Target.CanAddr() {
		if e, ok := n.Target.Addr().Interface().(exampler); ok {
			b.WriteString("\nExamples\n")
			for _, l := range e.Examples() {
				b.WriteString("  " + l + "\n")
			}
		}
	}
	if n.Type == kong.ApplicationNode {
		b.WriteString("\nplimsoll COMMAND --help says more about each command.\n")
	}
	_, _ = io.WriteString(w, b.String())
}

func usage(n *kong.Node) string {
	s := n.FullPath()
	for _, p := range n.Positional {
		name := strings.ToUpper(p.Name)
		if p.IsCumulative() {
			name += "..."
		}
		if !p.Required {
			name = "[" + name + "]"
		}
		s += " " + name
	}
	if len(n.Children) > 0 {
		return s + " COMMAND"
	}
	return s + " [FLAGS]"
}

func flagUsage(f *kong.Flag) string {
	s := "--" + f.Name
	if f.IsBool() {
		return s
	}
	if f.PlaceHolder != "" {
		return s + " " + f.PlaceHolder
	}
	return s + " VALUE"
}

func flagHelp(f *kong.Flag) string {
	s := f.Help
	if f.Name == "help" {
		return "This help."
	}
	// Some texts say it themselves, as they stand where the default is made elsewhere too.
	if f.HasDefault && f.Default != "" && !f.IsBool() && !strings.Contains(s, "(default") {
		s = strings.TrimSuffix(s, ".") + fmt.Sprintf(" (default %s).", f.Default)
	}
	return s
}

// helpLine writes a name and its text in two columns.
func helpLine(b *strings.Builder, column int, name, text string) {
	lines := report.Wrap(text, report.Width-column-1)
	left := "  " + name
	if len(left) > column-2 {
		b.WriteString(left + "\n")
		left = ""
	}
	for i, l := range lines {
		if i > 0 {
			left = ""
		}
		b.WriteString(report.Pad(left, column) + l + "\n")
	}
	if len(lines) == 0 && left != "" {
		b.WriteString(left + "\n")
	}
}
