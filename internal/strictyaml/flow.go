package strictyaml

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/token"
)

// mend puts plain values together that the lexer parted at a colon: within braces it
// takes each colon for the one behind a key, also that of http://h:1 in a list, where a
// key ends with a colon and a blank. Text is what was read. Tokens are changed in place.
// What YAML takes for text and the lexer for something else, such as the alias *b in
// [a:*b], is refused: nobody can tell what was meant.
func mend(file, text string, tokens token.Tokens) (token.Tokens, *Error) {
	var open []token.Type
	lines := strings.Split(text, "\n")
	after := func(tk *token.Token) byte {
		if tk.Position.Line < 1 || tk.Position.Line > len(lines) {
			return 0
		}
		line := []rune(lines[tk.Position.Line-1])
		if tk.Position.Column >= len(line) {
			return 0
		}
		if r := line[tk.Position.Column]; r < 0x80 {
			return byte(r)
		}
		return 'x'
	}
	out := tokens[:0]
	for i := 0; i < len(tokens); i++ {
		tk := tokens[i]
		switch tk.Type {
		case token.SequenceStartType, token.MappingStartType:
			open = append(open, tk.Type)
		case token.SequenceEndType, token.MappingEndType:
			open = open[:max(0, len(open)-1)]
		case token.MappingValueType:
			if len(open) == 0 || len(out) == 0 || i+1 == len(tokens) || !plain(out[len(out)-1]) {
				break
			}
			if next := tokens[i+1]; marks(next) && next.Position.Line == tk.Position.Line && next.Position.Column == tk.Position.Column+1 {
				p := out[len(out)-1].Position
				return nil, &Error{Position: Position{File: file, Line: p.Line, Col: p.Column}, Problem: fmt.Sprintf(
					"%s… may be a text or a key with its value: put the text in quotes, or a blank behind the colon of the key", short(out[len(out)-1].Value+":"+string(after(tk))))}
			} else if !plain(next) || open[len(open)-1] != token.SequenceStartType {
				break
			}
			if c := after(tk); c == 0 || strings.IndexByte(" \t,[]{}", c) >= 0 {
				break
			}
			key, rest := out[len(out)-1], tokens[i+1]
			whole := token.String(key.Value+":"+rest.Value, key.Origin+tk.Origin+rest.Origin, key.Position)
			out[len(out)-1] = whole
			i++
			continue
		}
		out = append(out, tk)
	}
	for i, tk := range out {
		tk.Prev, tk.Next = nil, nil
		if i > 0 {
			tk.Prev, out[i-1].Next = out[i-1], tk
		}
	}
	return out, nil
}

// plain says whether a token is a value without quotes.
func plain(tk *token.Token) bool {
	switch tk.Type {
	case token.StringType, token.IntegerType, token.FloatType, token.BoolType, token.NullType, token.InfinityType, token.NanType,
		token.BinaryIntegerType, token.OctetIntegerType, token.HexIntegerType:
		return true
	}
	return false
}

// marks says whether a token is one that only begins what is no text.
func marks(tk *token.Token) bool {
	switch tk.Type {
	case token.AliasType, token.AnchorType, token.TagType, token.LiteralType, token.FoldedType, token.DirectiveType, token.InvalidType:
		return true
	}
	return false
}
