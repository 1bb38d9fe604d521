package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"plimsoll/internal/plainjson"
	"plimsoll/internal/report"
	"plimsoll/internal/strictyaml"
)

// The exit codes of the contract.
const (
	exitDone        = 0   // done, and every SLO that the user named is met
	exitFailed      = 1   // nothing could be measured, or too many errors
	exitUsage       = 2   // wrong usage or scenario
	exitMissed      = 3   // an SLO was missed
	exitInvalid     = 4   // client-bound or invalid
	exitInterrupted = 130 // stopped by the user; what was measured is saved
)

// coded is an error with the exit code that it leads to.
type coded struct {
	code int
	err  error
	// hint is a line that says how to go on, "" for none.
	hint string
}

func (e *coded) Error() string { return e.err.Error() }
func (e *coded) Unwrap() error { return e.err }

// usagef is an error of the user's input.
func usagef(format string, args ...any) error {
	return &coded{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// exitCode is an error without a text: everything has been said.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// app is what a command runs with.
type app struct {
	env *Env
	// ctx ends at the first interrupt, hard at the second: a command that has
	// something to finish in between goes by hard.
	ctx, hard context.Context
}

// patience is how long a command may take to end after the second interrupt.
const patience = 3 * time.Second

// Main runs one invocation and returns its exit code. The first interrupt asks
// the command to end, the second to end at once. At the third, or when that takes
// too long, Main returns while the command may still be running: the caller is
// expected to exit.
func Main(env *Env) int {
	ctx, soft := context.WithCancel(context.Background())
	defer soft()
	hardCtx, hard := context.WithCancel(context.Background())
	defer hard()
	env.ended = ctx.Done()
	done := make(chan int, 1)
	go func() { done <- execute(&app{env: env, ctx: ctx, hard: hardCtx}) }()
	var late <-chan time.Time
	for {
		select {
		case code := <-done:
			return code
		case <-late:
			return exitInterrupted
		case <-env.Interrupts:
			switch {
			case ctx.Err() == nil:
				soft()
			case hardCtx.Err() == nil:
				hard()
				late = time.After(patience)
			default:
				return exitInterrupted
			}
		}
	}
}

// helped is what a call for help panics with inside kong, which has no other way
// to stop parsing.
type helped struct{}

func execute(a *app) (code int) {
	args := a.env.Args
	if len(args) > 0 && args[0] == completeCommand {
		complete(a.env.Stdout, args[1:])
		return exitDone
	}
	g := new(grammar)
	k := newParser(g, a.env.Stdout, a.env.Stderr)
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(helped); !ok {
				panic(r)
			}
			code = exitDone
		}
	}()
	if len(args) == 0 {
		printHelp(a.env.Stderr, k.Model.Node)
		return exitUsage
	}
	kctx, err := parse(k, joinNegative(args))
	if err == nil {
		err = kctx.Run(a, kctx)
	} else {
		err = &coded{code: exitUsage, err: err, hint: "see " + helpCommand(err, kctx)}
	}
	return a.fail(err)
}

// joinNegative makes one argument of a flag and the negative number after it,
// which would pass for a short flag, so that the number is refused as what it is.
func joinNegative(args []string) []string {
	out := make([]string, 0, len(args))
	for i, arg := range args {
		negative := len(arg) > 1 && arg[0] == '-' && (arg[1] == '.' || (arg[1] >= '0' && arg[1] <= '9'))
		if negative && i > 0 && strings.HasPrefix(args[i-1], "--") && !strings.Contains(args[i-1], "=") {
			out[len(out)-1] += "=" + arg
			continue
		}
		out = append(out, arg)
	}
	return out
}

// fail prints err, if there is something to print, and returns its exit code.
func (a *app) fail(err error) int {
	if err == nil {
		return exitDone
	}
	if c, ok := errors.AsType[exitCode](err); ok {
		return int(c)
	}
	if errors.Is(err, context.Canceled) && a.ctx.Err() != nil {
		fmt.Fprintln(a.env.Stderr, "plimsoll: interrupted")
		return exitInterrupted
	}
	code, hint := exitFailed, ""
	if c, ok := errors.AsType[*coded](err); ok {
		code, hint = c.code, c.hint
	}
	fmt.Fprintln(a.env.Stderr, "plimsoll: "+report.PrintableLines(err.Error()))
	if hint != "" {
		fmt.Fprintln(a.env.Stderr, hint)
	}
	return code
}

func newParser(g *grammar, stdout, stderr io.Writer) *kong.Kong {
	k, err := kong.New(g,
		kong.Name("plimsoll"),
		kong.Description("How much load can an inference service carry, and what holds it there."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { panic(helped{}) }),
		kong.Help(func(_ kong.HelpOptions, ctx *kong.Context) error {
			n := ctx.Selected()
			if n == nil {
				n = ctx.Model.Node
			}
			printHelp(ctx.Stdout, n)
			return nil
		}),
		kong.ExplicitGroups(flagGroups),
	)
	if err != nil {
		panic("BUG: command grammar: " + err.Error())
	}
	return k
}

// parse reads the arguments. Errors are the user's and are phrased for the user;
// the context is the one reached, nil when not even a command was.
func parse(k *kong.Kong, args []string) (*kong.Context, error) {
	ctx, err := k.Parse(args)
	if err == nil {
		return ctx, nil
	}
	var kctx *kong.Context
	if pe, ok := errors.AsType[*kong.ParseError](err); ok {
		kctx = pe.Context
	}
	n := k.Model.Node
	if kctx != nil && kctx.Selected() != nil {
		n = kctx.Selected()
	}
	return kctx, explain(n, err)
}

// explain phrases what kong says about wrong arguments in the terms of a user.
func explain(n *kong.Node, err error) error {
	text := err.Error()
	where := ""
	if p := n.Path(); p != "" {
		where = p + ": "
	}
	if w, ok := strings.CutPrefix(text, "unexpected argument "); ok {
		w, _, _ = strings.Cut(w, ", did you mean")
		if len(n.Children) == 0 {
			return fmt.Errorf("%sunexpected argument %q", where, w)
		}
		return fmt.Errorf("%sunknown command %q%s", where, w, nearest(w, commandNames(n)))
	}
	if w, ok := strings.CutPrefix(text, "unknown flag "); ok {
		w, _, _ = strings.Cut(w, ", did you mean")
		var names []string
		for _, group := range n.AllFlags(true) {
			for _, f := range group {
				names = append(names, "--"+f.Name)
			}
		}
		return fmt.Errorf("%sunknown flag %s%s", where, w, nearest(w, names))
	}
	if strings.HasPrefix(text, "expected one of ") || (strings.HasPrefix(text, "expected ") && len(n.Children) > 0) {
		return fmt.Errorf("%swant a command: %s", where, strings.Join(commandNames(n), ", "))
	}
	if w, ok := strings.CutPrefix(text, `expected "<`); ok {
		name, _, _ := strings.Cut(w, ">")
		for _, v := range n.Positional {
			if v.Name == name && v.Enum != "" {
				return fmt.Errorf("%swant %s: %s", where, strings.ToUpper(name), strings.Join(v.EnumSlice(), ", "))
			}
		}
		return fmt.Errorf("%swant %s", where, strings.ToUpper(name)) // of several of it the first
	}
	vs := n.Positional
	for _, fs := range n.AllFlags(true) {
		for _, f := range fs {
			vs = append(vs, f.Value)
		}
	}
	for _, v := range vs {
		_, got, ok := strings.Cut(text, v.ShortSummary()+" must be one of ")
		if v.Enum == "" || !ok {
			continue
		}
		got = got[strings.LastIndex(got, " but got ")+len(" but got "):]
		word := strings.Trim(got, `"`)
		name := v.ShortSummary()
		if v.Flag == nil {
			name = strings.ToUpper(v.Name)
		}
		return fmt.Errorf("%s%s %q: want %s%s", where, name, word,
			strings.Join(v.EnumSlice(), " or "), maybe(word, v.EnumSlice()))
	}
	return fmt.Errorf("%s%s", where, text)
}

func commandNames(n *kong.Node) []string {
	var names []string
	for _, c := range n.Children {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	return names
}

func helpCommand(_ error, ctx *kong.Context) string {
	if ctx != nil && ctx.Selected() != nil {
		return ctx.Selected().FullPath() + " --help"
	}
	return "plimsoll --help"
}

// nearest returns "; did you mean X?" for the name that is closest to got, or a
// list of them all when none is close.
func nearest(got string, names []string) string {
	if s := maybe(got, names); s != "" {
		return s
	}
	if len(names) == 0 || len(names) > 15 {
		return ""
	}
	return "; want one of " + strings.Join(names, ", ")
}

// maybe returns "; did you mean X?" for the name that is close to got, or "".
func maybe(got string, names []string) string {
	if n := strictyaml.Nearest(got, names); n != "" {
		return fmt.Sprintf("; did you mean %s?", n)
	}
	return ""
}

// printJSON writes v as indented JSON.
func (a *app) printJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := a.env.Stdout.Write(plainjson.Escape(b.Bytes()))
	return err
}
