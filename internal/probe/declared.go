package probe

import (
	"strconv"

	"plimsoll/internal/scenario"
	"plimsoll/internal/workload"
)

// fileOf returns the workload of a step as it was sent. A file of the user's own
// cannot be a probe.
func fileOf(d *data, step int) *workload.File {
	var set []scenario.Setting
	for p, v := range d.steps[step].Set {
		set = append(set, scenario.Setting{Path: p, Value: v})
	}
	f, err := workload.Lookup(d.scenario.Users.Workload[0].Name, set...)
	if err != nil {
		return nil
	}
	return f
}

// declaredReuse is the part of a step's prompts that is everybody's.
func declaredReuse(d *data, step int) (float64, bool) {
	f := fileOf(d, step)
	if f == nil || !fixedLength(f.Prompt.System.Tokens) || !fixedLength(f.Prompt.Turn.Tokens) {
		return 0, false
	}
	shared := f.Prompt.System.Tokens.A
	if all := shared + f.Prompt.Turn.Tokens.A; all > 0 {
		return shared / all, true
	}
	return 0, false
}

func fixedLength(t scenario.Dist) bool { return t.Kind == "" || t.Kind == scenario.Fixed }

// groupOf is the number of texts of a step's group and the length of each.
func groupOf(d *data, step int) (sets int, tokens float64) {
	if f := fileOf(d, step); f != nil {
		return f.Prompt.Group.Sets, f.Prompt.Group.Tokens.A
	}
	return 0, 0
}

// count writes a number with its thousands set off.
func count(x float64) string {
	s := strconv.FormatFloat(x, 'f', 0, 64)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
