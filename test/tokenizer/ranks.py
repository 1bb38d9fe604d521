#!/usr/bin/env python3
"""Writes ../../internal/tokenizer/testdata/ranks anew: a small file of tiktoken ranks, trained here, and what tiktoken
0.14.0 (pip install tiktoken==0.14.0) makes of strings.json with it, by the pattern of each encoding."""

import base64
import json
import pathlib

import tiktoken
from tiktoken_ext import openai_public

here = pathlib.Path(__file__).parent
kinds = here / "../../internal/tokenizer/testdata/kinds"
out = here / "../../internal/tokenizer/testdata/ranks"
out.mkdir(parents=True, exist_ok=True)

# Ranks from a small BPE over bytes: bytes first, in an order of their own, then merges by how often they occur.
words = [[bytes([b]) for b in w.encode()] for s in json.loads((kinds / "strings.json").read_text()) for w in s.replace(" ", "\n ").split("\n")]
ranks = {bytes([(b * 7 + 33) % 256]): b for b in range(256)}
while len(ranks) < 700:
    count = {}
    for w in words:
        for pair in zip(w, w[1:]):
            count[pair] = count.get(pair, 0) + 1
    a, b = max(count, key=lambda p: (count[p], p))
    ranks.setdefault(a + b, len(ranks))
    for w in words:
        i = 0
        while i + 1 < len(w):
            if w[i] == a and w[i + 1] == b:
                w[i : i + 2] = [a + b]
            i += 1
# Tokens that only some of the encodings can make.
for t in ["\n ", "\n  ", "漢", "a漢", "漢字", "漢字k", "!\n", "!\n/", "12", "123", "1234", "aA"]:
    b = t.encode()
    for n in range(2, len(b) + 1):
        ranks.setdefault(b[:n], len(ranks))
strings = json.loads((kinds / "strings.json").read_text())
(out / "small.tiktoken").write_bytes(b"".join(base64.b64encode(t) + b" %d\n" % r for t, r in ranks.items()))

source = pathlib.Path(openai_public.__file__).read_text()
assert "o200k_base" in source
o200k = "|".join(
    [
        r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
        r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
        r"""\p{N}{1,3}""",
        r""" ?[^\s\p{L}\p{N}]+[\r\n/]*""",
        r"""\s*[\r\n]+""",
        r"""\s+(?!\S)""",
        r"""\s+""",
    ]
)
llama3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
patterns = {
    "r50k": openai_public.r50k_pat_str,
    "cl100k": r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s""",
    "o200k": o200k,
    "llama3": llama3,
    "qwen": llama3.replace("{1,3}", ""),
    "kimi": r"[\p{Han}]+|" + o200k.replace(r"\p{M}]", r"\p{M}&&[^\p{Han}]]").replace(r"[\r\n/]*", r"[\r\n]*"),
}
assert patterns["cl100k"] in source
for name, pattern in patterns.items():
    e = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    ids = [" ".join(map(str, e.encode_ordinary(s))) for s in strings]
    (out / f"{name}.json").write_text(json.dumps(ids).replace('", "', '",\n"') + "\n")
print(len(ranks), "ranks,", len(patterns), "encodings")
