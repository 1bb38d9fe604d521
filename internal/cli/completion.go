package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// completeCommand is what the shells' scripts call: the words typed so far, the
// last one being the one to complete. It is no part of the grammar, so that it
// shows up nowhere.
const completeCommand = "__complete"

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (*completionCmd) Help() string {
	return "The script asks this program for the candidates, so it need not be made anew for a new version."
}

func (*completionCmd) Examples() []string {
	return []string{
		"source <(plimsoll completion bash)",
		"plimsoll completion zsh > \"${fpath[1]}/_plimsoll\"",
		"plimsoll completion fish > ~/.config/fish/completions/plimsoll.fish",
	}
}

var completionScripts = map[string]string{
	"bash": `_plimsoll() {
  local IFS=$'\n'
  COMPREPLY=($(plimsoll __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  if [ ${#COMPREPLY[@]} -eq 0 ]; then compopt -o default; fi
}
complete -F _plimsoll plimsoll
`,
	"zsh": `#compdef plimsoll
_plimsoll() {
  local -a found
  found=(${(f)"$(plimsoll __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( ${#found} )); then compadd -a found; else _files; fi
}
compdef _plimsoll plimsoll
`,
	"fish": `function __plimsoll_complete
  set -l words (commandline -opc) (commandline -ct)
  plimsoll __complete $words[2..-1] 2>/dev/null
end
complete -c plimsoll -a '(__plimsoll_complete)'
`,
}

func (c *completionCmd) Run(a *app) error {
	_, err := io.WriteString(a.env.Stdout, completionScripts[c.Shell])
	return err
}

// complete prints the candidates for the last of words, one a line. It never
// fails: there is nothing useful that a shell could do about it.
func complete(w io.Writer, words []string) {
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	n := newParser(new(grammar), io.Discard, io.Discard).Model.Node
	var pending *kong.Flag // a flag that waits for its value
	for _, word := range words[:len(words)-1] {
		if pending != nil {
			pending = nil
			continue
		}
		if name, ok := strings.CutPrefix(word, "--"); ok {
			if f := findFlag(n, name); f != nil && !f.IsBool() {
				pending = f
			}
			continue
		}
		for _, c := range n.Children {
			if c.Name == word {
				n = c
				break
			}
		}
	}
	var out []string
	add := func(s string) {
		if strings.HasPrefix(s, last) {
			out = append(out, s)
		}
	}
	flagName, _, hasValue := strings.Cut(last, "=")
	switch {
	case pending != nil:
		for _, v := range values(pending.Value) {
			add(v)
		}
	case hasValue && strings.HasPrefix(last, "--"):
		if f := findFlag(n, flagName[2:]); f != nil {
			for _, v := range values(f.Value) {
				add(flagName + "=" + v)
			}
		}
	case strings.HasPrefix(last, "-"):
		for _, fs := range n.AllFlags(true) {
			for _, f := range fs {
				add("--" + f.Name)
			}
		}
	default:
		for _, c := range n.Children {
			if !c.Hidden {
				add(c.Name)
			}
		}
		for _, p := range n.Positional {
			for _, v := range values(p) {
				add(v)
			}
		}
	}
	for _, s := range out {
		fmt.Fprintln(w, s)
	}
}

func values(v *kong.Value) []string {
	if v.Enum != "" {
		return v.EnumSlice()
	}
	return nil
}

func findFlag(n *kong.Node, name string) *kong.Flag {
	for _, fs := range n.AllFlags(true) {
		for _, f := range fs {
			if f.Name == name {
				return f
			}
		}
	}
	return nil
}
