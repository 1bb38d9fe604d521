package cli

import (
	"io"
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/scenario"
)

// Flags of one name are written the same way in all commands, and those of the cluster
// say the same of it.
func TestFlagsAgree(t *testing.T) {
	// Names that mean something of their own in a command.
	own := map[string][]string{
		"out": {"trace convert"}, "turns": {"workloads preview"}, "format": {"report"},
	}
	// What the two commands of the twin say differently on purpose.
	differs := []string{"replicas", "step", "model", "seed"}
	type use struct {
		command, placeholder, help string
		isBool                     bool
	}
	all := map[string]use{}
	k := newParser(new(grammar), io.Discard, io.Discard)
	compared := 0
	for _, leaf := range k.Model.Leaves(false) {
		command := leaf.Path()
		for _, group := range leaf.AllFlags(false) {
			for _, f := range group {
				u := use{command, f.PlaceHolder, f.Help, f.IsBool()}
				if s := flagHelp(f); strings.Count(s, "(default") > 1 {
					t.Errorf("%s --%s says its default twice: %s", command, f.Name, s)
				}
				if slices.Contains(own[f.Name], command) {
					continue
				}
				first, ok := all[f.Name]
				if !ok {
					all[f.Name] = u
					continue
				}
				compared++
				if u.isBool != first.isBool || u.placeholder != first.placeholder {
					t.Errorf("--%s is a switch in %s: %v, in %s: %v; placeholders are %q and %q", f.Name, first.command, first.isBool, command, u.isBool, first.placeholder, u.placeholder)
				}
				if strings.HasPrefix(first.command, "twin") && strings.HasPrefix(command, "twin") && first.help != u.help && !slices.Contains(differs, f.Name) {
					t.Errorf("--%s is said to be\n%s: %s\n%s: %s", f.Name, first.command, first.help, command, u.help)
				}
			}
		}
	}
	if compared < 50 {
		t.Errorf("only %d flags are in several commands", compared)
	}
}

// A switch that may say no is written alike everywhere.
func TestToggle(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		for _, command := range [][]string{{"run"}, {"twin", "predict"}} {
			k := newParser(new(grammar), io.Discard, io.Discard)
			kctx, err := k.Parse(append(slices.Clone(command), args...))
			if err != nil {
				t.Errorf("%v %v: %v", command, args, err)
				continue
			}
			sets, err := settings(kctx)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(sets, func(s scenario.Setting) bool { return s.Path == "target.ignore-eos" })
			if i < 0 || sets[i].Value != want {
				t.Errorf("%v %v: settings are %+v", command, args, sets)
			}
		}
	}
	f("true", "--ignore-eos")
	f("true", "--ignore-eos=true")
	f("false", "--ignore-eos=false")
	f("false", "--ignore-eos", "false", "--seed", "1")
	f("true", "--ignore-eos", "true")
	f("true", "--ignore-eos", "chat.yaml")
	f("true", "--ignore-eos", "--users", "3")
	for _, command := range []string{"run", "twin predict"} {
		k := newParser(new(grammar), io.Discard, io.Discard)
		_, err := k.Parse(append(strings.Fields(command), "--ignore-eos=maybe"))
		if err == nil || !strings.Contains(err.Error(), `want true or false, got "maybe"`) {
			t.Errorf("%s: error is %v", command, err)
		}
	}
}
