package conduct

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"

	"plimsoll/internal/record"
	"plimsoll/internal/scenario"
	"plimsoll/internal/tokenizer"
)

// loadTokenizer reads the tokenizer that a target names, nil when it names none.
func loadTokenizer(t *scenario.Target, readFile func(string) ([]byte, error)) (record.Counter, error) {
	if t.Tokenizer == "" {
		return nil, nil
	}
	data, err := readFile(tokenizer.Path(t.Tokenizer))
	if errors.Is(err, fs.ErrNotExist) {
		err = cmp.Or(tokenizer.CheckName(t.Tokenizer), err)
	}
	if err != nil {
		return nil, fmt.Errorf("target.tokenizer: %w", err)
	}
	tok, err := tokenizer.Load(t.Tokenizer, data)
	if err != nil {
		return nil, fmt.Errorf("target.tokenizer: %w", err)
	}
	return tok, nil
}
