package tokenizer

import "testing"

// FuzzEncode holds what every kind of tokenizer says of one text to itself.
func FuzzEncode(f *testing.F) {
	all, texts := kinds(f)
	toks := make([]*Tokenizer, len(all))
	for i, k := range all {
		toks[i] = k.load(f)
		f.Add(uint8(i), texts[(i*37)%len(texts)], uint8(i))
	}
	f.Add(uint8(0), "\xff\xf0\x9f a\u0301\u0301 <mask>  <end>\xed\xa0\x80", uint8(3))
	f.Fuzz(func(t *testing.T, which uint8, text string, n uint8) {
		if len(text) > 300 {
			return
		}
		tok := toks[int(which)%len(toks)]
		check(t, tok, text)
		if p, want := tok.Cut(text, int(n)), cuts(tok, text, int(n))[n]; p != want {
			t.Errorf("%s: %q to %d tokens: cut at %d, want %d", all[int(which)%len(toks)].name, text, n, p, want)
		}
		// What was learned changes nothing, nor does what stands before a text that
		// shares no piece with it.
		if ids := tok.Encode([]int32{-5}, text); len(ids) != tok.Count(text)+1 || ids[0] != -5 {
			t.Errorf("%q: %d", text, ids)
		}
	})
}

// FuzzLoad reads anything as a file. What loads must encode.
func FuzzLoad(f *testing.F) {
	// Small ones: the fuzzer would spend its time on making large ones smaller.
	for _, seed := range []string{
		`{"added_tokens":[{"content":"b","normalized":true,"lstrip":true,"single_word":true}],"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"_"},{"type":"Replace","pattern":{"Regex":"a*"},"content":""}]},"pre_tokenizer":{"type":"Split","pattern":{"Regex":"b?"},"behavior":"MergedWithNext","invert":true},"model":{"type":"BPE","unk_token":"a","vocab":{"a":0,"b":1,"ab":2},"merges":[["a","b"]]}}`,
		`{"normalizer":{"type":"NFKC"},"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Digits"},{"type":"ByteLevel","add_prefix_space":false}]},"model":{"type":"BPE","vocab":{"a":0,"\u0120":7,"\u0120a":2},"merges":["\u0120 a"]}}`,
		`{"added_tokens":[{"content":"<s>","rstrip":true}],"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"first"},"model":{"ignore_merges":true,"vocab":{"▁":1,"a":2,"▁a":3},"merges":["▁ a"]},"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}],"special_tokens":{"x":{"ids":[1]}}}}`,
		`{"normalizer":{"type":"Replace","pattern":{"String":" "},"content":"▁"},"pre_tokenizer":{"type":"WhitespaceSplit"},"model":{"type":"BPE","unk_token":"b","fuse_unk":true,"vocab":{"▁":0,"b":1},"merges":[]}}`,
	} {
		f.Add("tokenizer.json", []byte(seed))
	}
	f.Add("x", []byte("QQ== 1\nQg== 2"))
	f.Add("x", []byte(`{"model":{"vocab":{"\ud800":1},"merges":[["\ud800"]]}}`))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		tok, err := Load(name, data)
		if (tok == nil) == (err == nil) {
			t.Fatalf("tokenizer %v and error %v", tok, err)
		}
		if err != nil {
			return
		}
		for _, text := range []string{"", "a b", "aab 1", "\xffé\u0301▁", "b\n b"} {
			check(t, tok, text)
			if p := tok.Cut(text, 2); tok.Count(text[:p]) > 2 {
				t.Errorf("%q to 2 tokens: cut at %d", text, p)
			}
		}
	})
}
