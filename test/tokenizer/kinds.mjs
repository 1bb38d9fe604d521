// kinds.mjs FOLDER: writes ../../internal/tokenizer/testdata/kinds anew: small tokenizers of every kind that is known,
// made here, each with what the reference implementation makes of strings.json (see goldens.mjs, also for FOLDER).
import { createRequire } from "module";
import fs from "fs";
import path from "path";

const { Tokenizer } = createRequire(path.resolve(process.argv[2]) + "/")("@anush008/tokenizers");
const out = path.join(path.dirname(new URL(import.meta.url).pathname), "../../internal/tokenizer/testdata/kinds");
fs.rmSync(out, { recursive: true, force: true });
fs.mkdirSync(out, { recursive: true });

const corpus =
  "the tenant shall pay the rent on the first day of each month and the landlord shall give the tenant a receipt it's what they'd said they'll do HTTP server handles requests " +
  "in 2024 2025 1234 1000 items for item in range(10): return the value of the function naïve café déjà vu 東京都 漢字 かな カタカナ это тест теста привет 안녕 <td>a</td> a_b a-b x=1; y=2; ";

// alphabet: the character that stands for each byte in byte-level vocabularies.
const alphabet = (() => {
  const own = (b) => (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
  const list = [];
  let n = 0;
  for (let b = 0; b < 256; b++) list.push(String.fromCharCode(own(b) ? b : 256 + n++));
  return list;
})();
const byteLevel = (s) => [...Buffer.from(s)].map((b) => alphabet[b]).join("");

// bpe trains a little: words as lists of symbols, the most frequent pair first.
function bpe(words, first, count) {
  const vocab = [...first];
  const seen = new Set(vocab);
  const merges = [];
  const list = words.map((w) => [...w]);
  for (const w of list) for (const c of w) if (!seen.has(c) && first.length > 0 && first.open) { seen.add(c); vocab.push(c); }
  while (merges.length < count) {
    const pairs = new Map();
    for (const w of list) for (let i = 0; i + 1 < w.length; i++) if (seen.has(w[i]) && seen.has(w[i + 1])) { const k = w[i] + "\u0000" + w[i + 1]; pairs.set(k, (pairs.get(k) ?? 0) + 1); }
    let best = null;
    for (const [k, n] of pairs) if (best === null || n > pairs.get(best)) best = k;
    if (best === null) break;
    const [a, b] = best.split("\u0000");
    merges.push([a, b]);
    if (!seen.has(a + b)) { seen.add(a + b); vocab.push(a + b); }
    for (const w of list) for (let i = 0; i + 1 < w.length; i++) if (w[i] === a && w[i + 1] === b) w.splice(i, 2, a + b);
  }
  return { vocab: Object.fromEntries(vocab.map((t, i) => [t, i])), merges };
}
const bytesModel = (extra = {}, count = 90) => {
  const words = corpus.split(/(?= )/).map(byteLevel);
  return { type: "BPE", dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null, fuse_unk: false, byte_fallback: false, ignore_merges: false, ...bpe(words, alphabet, count), ...extra };
};
const charsModel = (extra = {}, special = ["<unk>", "<s>", "</s>"], bytes = true, count = 90) => {
  const first = [...special];
  if (bytes) for (let b = 0; b < 256; b++) first.push("<0x" + b.toString(16).toUpperCase().padStart(2, "0") + ">");
  first.push("▁");
  first.open = true;
  const words = corpus.split(/(?= )/).map((w) => w.replaceAll(" ", "▁"));
  return { type: "BPE", dropout: null, unk_token: "<unk>", continuing_subword_prefix: null, end_of_word_suffix: null, fuse_unk: true, byte_fallback: bytes, ignore_merges: false, ...bpe(words, first, count), ...extra };
};
const token = (id, content, flags = {}) => ({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true, ...flags });
const split = (Regex, behavior = "Isolated", invert = false) => ({ type: "Split", pattern: { Regex }, behavior, invert });
const byteLevelPre = (add_prefix_space = false, use_regex = false) => ({ type: "ByteLevel", add_prefix_space, trim_offsets: true, use_regex });
const sequence = (...pretokenizers) => ({ type: "Sequence", pretokenizers });
const size = (m) => Object.keys(m.vocab).length;
const llama3 = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const qwen = llama3.replace("{1,3}", "");
const o200k = "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const kimi = "[\\p{Han}]+|" + o200k.split("|\\p{N}{1,3}")[0].replaceAll("\\p{M}]", "\\p{M}&&[^\\p{Han}]]") + "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const template = (id, name) => ({ type: "TemplateProcessing", single: [{ SpecialToken: { id: name, type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }], pair: [{ Sequence: { id: "A", type_id: 0 } }, { Sequence: { id: "B", type_id: 1 } }], special_tokens: { [name]: { id: name, ids: [id], tokens: [name] } } });
const replaceSpace = { type: "Replace", pattern: { String: " " }, content: "▁" };

const b = bytesModel(), c = charsModel(), few = charsModel({}, ["<unk>"], false, 40);
const at = size(b);
const kinds = {
  "bytelevel": { model: b, pre_tokenizer: byteLevelPre(false, true) },
  "bytelevel-prefix": { model: b, pre_tokenizer: byteLevelPre(true, true), added_tokens: [token(at, "<mask>", { lstrip: true }), token(at + 1, "<end>", { rstrip: true }), token(at + 2, "word", { single_word: true, special: false })] },
  "bytelevel-no-alphabet": { model: (() => { const m = bytesModel(); const vocab = {}; for (const [t, id] of Object.entries(m.vocab)) if (t !== "x" && t !== "Ċ") vocab[t] = id; return { ...m, vocab }; })(), pre_tokenizer: byteLevelPre(false, true) },
  "llama3": { model: bytesModel({ ignore_merges: true, merges: b.merges.slice(0, 60).map((m) => m.join(" ")) }), pre_tokenizer: sequence(split(llama3), byteLevelPre()), post_processor: { type: "Sequence", processors: [byteLevelPre(), template(at, "<bos>")] }, added_tokens: [token(at, "<bos>"), token(at + 1, "<|eot|>")] },
  "qwen": { model: b, normalizer: { type: "NFC" }, pre_tokenizer: sequence(split(qwen), byteLevelPre()), added_tokens: [token(at, "<|im_start|>"), token(at + 1, "<|im_end|>"), token(at + 2, "<tool_call>", { special: false }), token(at + 3, "é", { special: false, normalized: true }), token(at + 4, "the tenant", { special: false })] },
  "o200k": { model: b, pre_tokenizer: sequence(split(o200k), byteLevelPre()) },
  "kimi": { model: b, pre_tokenizer: sequence(split(kimi), byteLevelPre()) },
  "deepseek": { model: b, normalizer: { type: "Sequence", normalizers: [] }, pre_tokenizer: sequence(split("\\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"), byteLevelPre()), added_tokens: [token(at, "<|EOT|>", { normalized: true }), token(at + 1, "<｜User｜>", { normalized: true, special: false })] },
  "general": { model: b, pre_tokenizer: sequence(split("(?<=[a-z])(?=[A-Z])|\\d+|[\\p{Han}]"), split("[,;.]", "MergedWithPrevious"), byteLevelPre(false, true)) },
  "split-removed": { model: b, pre_tokenizer: sequence(split("\\s+", "Removed"), byteLevelPre()) },
  "split-inverted": { model: b, pre_tokenizer: sequence(split("[\\p{L}\\p{N}]+|[^\\p{L}\\p{N}\\s]+", "Removed", true), byteLevelPre()) },
  "split-contiguous": { model: b, pre_tokenizer: sequence(split("[a-z0-9]", "Contiguous"), byteLevelPre()) },
  "split-next": { model: b, pre_tokenizer: sequence(split("[ \\n]", "MergedWithNext"), byteLevelPre()) },
  "split-previous": { model: b, pre_tokenizer: sequence({ type: "Split", pattern: { String: "a" }, behavior: "MergedWithPrevious", invert: false }, byteLevelPre()) },
  "starcoder": { model: b, pre_tokenizer: sequence({ type: "Digits", individual_digits: true }, byteLevelPre(false, true)) },
  "falcon": { model: b, pre_tokenizer: sequence({ type: "Punctuation", behavior: "Contiguous" }, byteLevelPre(false, true), ) },
  "digits": { model: b, pre_tokenizer: sequence({ type: "Digits", individual_digits: false }, { type: "Punctuation", behavior: "Isolated" }, byteLevelPre()) },
  "whitespace": { model: few, pre_tokenizer: { type: "Whitespace" } },
  "whitespace-split": { model: few, pre_tokenizer: { type: "WhitespaceSplit" } },
  "gemma": { model: c, normalizer: replaceSpace, pre_tokenizer: { type: "Split", pattern: { String: " " }, behavior: "MergedWithPrevious", invert: false }, added_tokens: [token(1, "<s>"), token(2, "</s>"), ...["\n", "\n\n", "\n\n\n", "▁▁", "▁▁▁", "<td>", "</td>", "<unused0>", "<unused01>"].map((t, i) => token(size(c) + i, t, { special: false }))] },
  "llama2": { model: c, normalizer: { type: "Sequence", normalizers: [{ type: "Prepend", prepend: "▁" }, replaceSpace] }, pre_tokenizer: null, post_processor: template(1, "<s>"), added_tokens: [token(0, "<unk>"), token(1, "<s>"), token(2, "</s>")] },
  "metaspace-always": { model: c, pre_tokenizer: { type: "Metaspace", replacement: "▁", prepend_scheme: "always", split: true }, added_tokens: [token(1, "<s>")] },
  "metaspace-first": { model: c, pre_tokenizer: { type: "Metaspace", replacement: "▁", prepend_scheme: "first", split: false }, added_tokens: [token(1, "<s>")] },
  "metaspace-never": { model: c, pre_tokenizer: { type: "Metaspace", replacement: "▁", prepend_scheme: "never", split: true } },
  "metaspace-legacy": { model: c, pre_tokenizer: { type: "Metaspace", replacement: "▁", add_prefix_space: true } },
  "unknown-fused": { model: few, normalizer: replaceSpace },
  "unknown": { model: { ...few, fuse_unk: false }, normalizer: replaceSpace },
  "unknown-dropped": { model: { ...few, unk_token: null }, normalizer: replaceSpace },
  "ignore-merges-characters": { model: { ...c, ignore_merges: true }, normalizer: replaceSpace },
  "nfd": { model: b, normalizer: { type: "NFD" }, pre_tokenizer: byteLevelPre(false, true) },
  "nfkc": { model: b, normalizer: { type: "Sequence", normalizers: [{ type: "NFKC" }, { type: "Replace", pattern: { Regex: " {2,}" }, content: " " }] }, pre_tokenizer: byteLevelPre(false, true), added_tokens: [token(at, "ﬁn", { normalized: true, special: false })] },
  "nfkd": { model: b, normalizer: { type: "NFKD" }, pre_tokenizer: byteLevelPre(false, true) },
};

const all = JSON.parse(fs.readFileSync(path.join(path.dirname(new URL(import.meta.url).pathname), "testdata/strings.json")));
const strings = all.filter((s, i) => s.length < 130 && (i < 330 || i % 12 === 0));
for (const extra of ["a <mask> b", "a  <mask>  b", "<mask>", "x<end>  y", "<end>\n\n<mask>  <end>", "word", "a word b", "words", "aword", "word.word", "word word", "éword", "the tenant pays", "<s>", "a<s>b", " <s> b", "<s> the<s>the", "<|EOT|>x", "ﬁn fin ﬁnal", "<|im_start|>user\nIt's e\u0301 é<|im_end|>", "<tool_call>é</tool_call>", "<td>  the\n\n\n\n  </td>", "<unused01> <unused0> <unused", "the tenant the tenant ".repeat(6)]) strings.push(extra);
fs.writeFileSync(path.join(out, "strings.json"), JSON.stringify(strings).replaceAll('","', '",\n"') + "\n");
for (const [name, k] of Object.entries(kinds)) {
  const file = { version: "1.0", truncation: null, padding: null, added_tokens: [], normalizer: null, pre_tokenizer: null, post_processor: null, decoder: null, ...k };
  const t = Tokenizer.fromString(JSON.stringify(file));
  const ids = [];
  for (const s of strings) ids.push((await t.encode(s, null, { addSpecialTokens: false })).getIds());
  const extra = (await t.encode("", null, { addSpecialTokens: true })).getIds().length;
  fs.writeFileSync(path.join(out, name + ".json"), JSON.stringify({ extra, tokenizer: file, ids: ids.map((l) => l.join(" ")) }) + "\n");
}
console.log(Object.keys(kinds).length, "kinds,", strings.length, "strings");
