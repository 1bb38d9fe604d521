package cli

import (
	"fmt"
	"strconv"

	"github.com/alecthomas/kong"

	"plimsoll/internal/strictyaml"
)

// toggle is a switch that may say no: --x, --x=false, and --x false as it was once
// written.
type toggle bool

// IsBool says that the flag needs no value.
func (toggle) IsBool() bool { return true }

// Decode reads the value of the flag, if it has one.
func (t *toggle) Decode(ctx *kong.DecodeContext) error {
	*t = true
	next := ctx.Scan.Peek()
	text, isText := next.Value.(string)
	yes, err := strconv.ParseBool(text)
	switch {
	case next.Type == kong.FlagValueToken && (!isText || err != nil):
		return fmt.Errorf("want true or false, got %s", strictyaml.Quote(fmt.Sprint(next.Value)))
	case next.Type == kong.FlagValueToken, next.Type == kong.UntypedToken && (text == "true" || text == "false"):
		ctx.Scan.Pop()
		*t = toggle(yes)
	}
	return nil
}
