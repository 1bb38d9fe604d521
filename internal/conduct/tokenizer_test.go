package conduct

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"plimsoll/internal/record"
	"plimsoll/internal/run"
)

// writeRanks writes a tokenizer in which every byte is a token.
func writeRanks(t *testing.T) string {
	t.Helper()
	var b []byte
	for i := range 256 {
		b = fmt.Appendf(b, "%s %d\n", base64.StdEncoding.EncodeToString([]byte{byte(i)}), i)
	}
	path := filepath.Join(t.TempDir(), "ranks")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestTokenizer counts what a server does not, keeps no answer for it, and notes
// where both count and differ.
func TestTokenizer(t *testing.T) {
	url, ranks := serveTwin(t), writeRanks(t)
	for usage, server := range map[string]bool{"none": false, "final": true} {
		s := plan(t, "target.url="+url, "target.usage="+usage, "target.tokenizer=r50k:"+ranks, "load.users=2", "load.requests=6", "users.output-tokens=4")
		res, err := Run(context.Background(), config(t, s))
		if err != nil {
			t.Fatal(err)
		}
		saved, err := run.Open(res.Folder)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for r := range saved.Requests() {
			n++
			source, output := record.SourceTokenizer, int32(r.TextBytes)
			if server {
				source, output = record.SourceServer, 4
			}
			if r.TextBytes < 5 || r.TokenizerOutput != int32(r.TextBytes) || r.Source != source || r.Output != output {
				t.Errorf("usage %s: %d bytes, %d tokens by the tokenizer, %d by %s", usage, r.TextBytes, r.TokenizerOutput, r.Output, r.Source)
			}
			if len(r.Text) > 0 {
				t.Errorf("usage %s: the answer %q is kept", usage, r.Text)
			}
		}
		if n < 6 {
			t.Errorf("%d records", n)
		}
		if got := res.Summary.Tokens.Source; server && got.Server == 0 || !server && got.Tokenizer == 0 {
			t.Errorf("usage %s: sources %+v", usage, got)
		}
		for _, c := range res.Summary.Run.Checks {
			if c.Check == "token_count" && server != (c.Value != nil && !c.OK) {
				t.Errorf("usage %s: check %+v", usage, c)
			}
		}
	}
}

// TestTokenizerRefused says what is wrong with the file before anything is sent.
func TestTokenizerRefused(t *testing.T) {
	for _, name := range []string{"/nowhere/tokenizer.json", writeRanks(t)} {
		_, err := Run(context.Background(), config(t, plan(t, "target.url=http://127.0.0.1:1", "target.model=m", "target.tokenizer="+name, "load.users=1")))
		if _, ok := errors.AsType[*UsageError](err); !ok {
			t.Errorf("%s: %v, want an error of usage", name, err)
		}
	}
}
