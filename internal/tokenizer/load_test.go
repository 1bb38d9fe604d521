package tokenizer

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// change returns the tokenizer of a kind with fields of it replaced.
func change(t testing.TB, name string, fields map[string]string) []byte {
	t.Helper()
	var k struct {
		Tokenizer map[string]json.RawMessage `json:"tokenizer"`
	}
	readFile(t, "testdata/kinds/"+name+".json", &k)
	var model map[string]json.RawMessage
	if err := json.Unmarshal(k.Tokenizer["model"], &model); err != nil {
		t.Fatal(err)
	}
	for path, v := range fields {
		if inner, ok := strings.CutPrefix(path, "model."); ok {
			model[inner] = json.RawMessage(v)
		} else {
			k.Tokenizer[path] = json.RawMessage(v)
		}
	}
	b, err := json.Marshal(model)
	if err != nil {
		t.Fatal(err)
	}
	if fields["model"] == "" {
		k.Tokenizer["model"] = b
	}
	b, err = json.Marshal(k.Tokenizer)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRefuse refuses what it does not know by its name, and says what it knows.
func TestRefuse(t *testing.T) {
	byteLevel := func(field, v string) []byte { return change(t, "llama3", map[string]string{field: v}) }
	gemma := func(field, v string) []byte { return change(t, "gemma", map[string]string{field: v}) }
	sentencePiece, _ := os.ReadFile("testdata/kinds/strings.json")
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"unigram":           {byteLevel("model", `{"type":"Unigram","vocab":[["a",-1.5]]}`), `model "Unigram" is not supported; supported: BPE`},
		"wordpiece":         {byteLevel("model", `{"type":"WordPiece","vocab":{"a":0}}`), `model "WordPiece" is not supported; supported: BPE`},
		"wordlevel":         {byteLevel("model", `{"type":"WordLevel","vocab":{"a":0}}`), `model "WordLevel"`},
		"two of one id":     {byteLevel("model", `{"type":"BPE","vocab":{"b":1,"z":0,"a":0},"merges":[]}`), `vocab: tokens "a" and "z" have the same id, 0`},
		"normalizer":        {byteLevel("normalizer", `{"type":"BertNormalizer"}`), `normalizer "BertNormalizer" is not supported; supported: NFC, `},
		"inner normalizer":  {byteLevel("normalizer", `{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Precompiled"}]}`), `normalizer "Precompiled"`},
		"no normalizer":     {byteLevel("normalizer", `{}`), `normalizer: no type is given`},
		"pre-tokenizer":     {byteLevel("pre_tokenizer", `{"type":"UnicodeScripts"}`), `pre-tokenizer "UnicodeScripts" is not supported; supported: ByteLevel, `},
		"post-processor":    {byteLevel("post_processor", `{"type":"Odd"}`), `post-processor "Odd"`},
		"behavior":          {byteLevel("pre_tokenizer", `{"type":"Split","pattern":{"String":"a"},"behavior":"Odd"}`), `behavior "Odd"`},
		"no pattern":        {byteLevel("pre_tokenizer", `{"type":"Split","behavior":"Isolated"}`), `want a pattern`},
		"empty pattern":     {byteLevel("pre_tokenizer", `{"type":"Split","pattern":{"String":""},"behavior":"Isolated"}`), `want a pattern`},
		"regex":             {byteLevel("pre_tokenizer", `{"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated"}`), `regular expression "(a"`},
		"regex &&":          {byteLevel("pre_tokenizer", `{"type":"Split","pattern":{"Regex":"[a-z&&[^b]]"},"behavior":"Isolated"}`), `&& is not supported`},
		"regex word":        {byteLevel("pre_tokenizer", `{"type":"Split","pattern":{"Regex":"\\w+"},"behavior":"Isolated"}`), `\w is not supported`},
		"behind ByteLevel":  {byteLevel("pre_tokenizer", `{"type":"Sequence","pretokenizers":[{"type":"ByteLevel","add_prefix_space":false},{"type":"Digits"}]}`), `Digits behind ByteLevel`},
		"late prefix":       {byteLevel("pre_tokenizer", `{"type":"Sequence","pretokenizers":[{"type":"Digits"},{"type":"ByteLevel","add_prefix_space":true}]}`), `ByteLevel that adds a prefix`},
		"metaspace":         {gemma("pre_tokenizer", `{"type":"Metaspace","replacement":"ab"}`), `replacement "ab": want one character`},
		"metaspace scheme":  {gemma("pre_tokenizer", `{"type":"Metaspace","replacement":"a","prepend_scheme":"odd"}`), `prepend_scheme "odd"`},
		"prefix":            {byteLevel("model.continuing_subword_prefix", `"##"`), `continuing_subword_prefix "##" is not supported`},
		"suffix":            {byteLevel("model.end_of_word_suffix", `"</w>"`), `end_of_word_suffix "</w>" is not supported`},
		"dropout":           {byteLevel("model.dropout", `0.1`), `dropout 0.1 is not supported`},
		"unknown":           {byteLevel("model.unk_token", `"<odd>"`), `unk_token "<odd>" is not in the vocab`},
		"merge":             {byteLevel("model.merges", `["a b","qq zz"]`), `merges: entry`},
		"merge of three":    {byteLevel("model.merges", `["a b c"]`), `merges: entry 0: want "a b"`},
		"merge of a number": {byteLevel("model.merges", `[7]`), `merges: entry 0`},
		"merges":            {byteLevel("model.merges", `{}`), `merges: want a list`},
		"vocab":             {byteLevel("model.vocab", `["a"]`), `vocab: want an object`},
		"no vocab":          {byteLevel("model.vocab", `{}`), `vocab: missing or empty`},
		"id":                {byteLevel("model.vocab", `{"a":-1}`), `token "a": id "-1`},
		"huge id":           {byteLevel("model.vocab", `{"a":4294967296}`), `token "a": id`},
		"fallback":          {gemma("model.vocab", `{"a":0,"<unk>":1}`), ``},
		"config":            {[]byte(`{"tokenizer_class":"X"}`), `give the tokenizer.json beside it`},
		"tekken":            {[]byte(`{"config":{},"vocab":[]}`), `tekken.json`},
		"no model":          {[]byte(`{}`), `model: missing`},
		"syntax":            {[]byte(`{"model":{]`), `byte 11`},
		"empty":             {nil, `the file is empty`},
		"list":              {sentencePiece, `neither a tokenizer.json nor`},
		"sentencepiece":     {[]byte("\n\x0e\n\x05<unk>\x15\x00"), `SentencePiece`},
		"lfs":               {[]byte("version https://git-lfs.github.com/spec/v1\noid sha256:00\n"), `Git LFS`},
		"ranks":             {ranks(), `do not say how text is split; write ENCODING:file with one of r50k, cl100k, o200k`},
	} {
		t.Run(name, func(t *testing.T) {
			tok, err := Load("file", c.data)
			if err == nil {
				t.Fatalf("loaded: %v", tok.Encode(nil, "a text"))
			}
			if !strings.HasPrefix(err.Error(), "load tokenizer file: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwant %s", err, c.want)
			}
		})
	}
	for name, c := range map[string]struct{ file, data, want string }{
		"JSON with an encoding": {"kimi:file", `{"model":{"type":"BPE"}}`, "this is JSON"},
		"no rank":               {"kimi:file", "QQ== 1\nQg==\n", "line 2: want a token"},
		"no base64":             {"kimi:file", "QQ== 1\n*** 2\n", `line 2: token "***": want base64`},
		"twice":                 {"kimi:file", "QQ== 1\n\nQQ== 2\n", `line 3: token "A" is there twice`},
		"rank twice":            {"kimi:file", "QQ== 1\nQg== 1\n", "line 2: rank 1 is also on line 1"},
		"negative rank":         {"kimi:file", "QQ== 1\nQg== -1\n", `line 2: rank "-1"`},
		"bytes missing":         {"kimi:file", "QQ== 1\n", "byte 0x00 has no token"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Load(c.file, []byte(c.data)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwant %s", err, c.want)
			}
		})
	}
}
