package content

import (
	"math/rand/v2"
	"strings"
	"sync"

	"plimsoll/internal/message"
	"plimsoll/internal/random"
)

// WordsName is the name of the generator of plain English sentences.
const WordsName = "words"

// saltWords is the length of the salt in words; each holds 8 bits.
const saltWords = 8

// Words renders parts as English sentences of everyday words. It is safe for
// concurrent use and never fails: given text is used as it is, and a part whose
// generator it does not know is rendered as words too.
//
// Length. Until the model's own tokenizer is at hand, length is counted in
// pieces, one piece a token: a word together with the space before it is one
// piece, and so is a comma or a full stop. The words are so common that the
// byte-pair vocabularies of today's models hold each of them, with its space,
// as one token. What a server's chat template adds is not counted.
//
// Salt. The text starts with eight words that spell the part's seed, 64 bits,
// one to one: texts of different seeds differ within their first eight tokens,
// so that a prefix cache finds nothing but what was declared as shared. A text
// of n < 8 tokens has room for 8n bits of it only.
type Words struct{}

// AppendText appends the text of p.
func (Words) AppendText(dst []byte, p *message.Part) []byte {
	if p.Text != "" {
		return append(dst, p.Text...)
	}
	return appendWords(dst, p.Seed, p.Tokens)
}

// phrase is a piece of a sentence with the space before it.
type phrase struct {
	text  string
	words int
}

// The number of phrases of each kind is a power of two, so that a draw is a
// mask of random bits.
const (
	nounPhrases   = 1 << 11
	verbPhrases   = 1 << 10
	placePhrases  = 1 << 10
	links         = 1 << 4
	longestPhrase = 4
	// longestSentence is the most pieces of a sentence of two clauses,
	// longestClause of one of three phrases.
	longestSentence = 7*longestPhrase + 3
	longestClause   = 3*longestPhrase + 1
)

type grammar struct {
	salt    [256]string
	opening [nounPhrases]phrase // capitalised
	thing   [nounPhrases]phrase
	act     [verbPhrases]phrase
	place   [placePhrases]phrase
	link    [links]phrase
}

// tables is the grammar. It is the same in every process: its phrases are drawn
// with a fixed seed from the lists below.
var tables = sync.OnceValue(func() *grammar {
	g := new(grammar)
	n, a := strings.Fields(nouns), strings.Fields(adjectives)
	v, p := strings.Fields(verbs), strings.Fields(prepositions)
	adv := strings.Fields(adverbs)
	if len(n)+len(a) != len(g.salt) {
		panic("BUG: the salt needs 256 words")
	}
	for i, w := range append(append([]string(nil), n...), a...) {
		g.salt[i] = " " + w
	}
	r := random.Stream(0x776f726473) // "words"
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	make1 := func(words ...string) phrase {
		return phrase{" " + strings.Join(words, " "), len(words)}
	}
	for i := range g.thing {
		d := pick([]string{"the", "the", "this", "our", "their", "every", "that", "another"})
		switch r.IntN(4) {
		case 0:
			g.thing[i] = make1(d, pick(n))
		case 1:
			g.thing[i] = make1(d, pick(n), "of", pick(n))
		default:
			g.thing[i] = make1(d, pick(a), pick(n))
		}
		t := g.thing[i].text
		g.opening[i] = phrase{" " + strings.ToUpper(t[1:2]) + t[2:], g.thing[i].words}
	}
	for i := range g.act {
		switch r.IntN(4) {
		case 0:
			g.act[i] = make1(pick(adv), pick(v))
		case 1:
			g.act[i] = make1("had", pick(adv), pick(v))
		default:
			g.act[i] = make1(pick(v))
		}
	}
	for i := range g.place {
		if r.IntN(2) == 0 {
			g.place[i] = make1(pick(p), "the", pick(n))
		} else {
			g.place[i] = make1(pick(p), "the", pick(a), pick(n))
		}
	}
	for i, w := range strings.Fields("and but while because so although when before after until where since and but as if") {
		g.link[i] = make1(w)
	}
	return g
})

// appendWords appends a text of exactly tokens pieces, made of seed.
func appendWords(dst []byte, seed uint64, tokens int) []byte {
	g := tables()
	salt := random.Derive(seed) // without labels one to one
	n := min(tokens, saltWords)
	for i := range n {
		w := g.salt[salt&0xff]
		if i == 0 {
			w = w[1:] // the text starts with a word, not with its space
		}
		dst = append(dst, w...)
		salt >>= 8
	}
	left := tokens - n
	if n == saltWords && left > 0 {
		dst = append(dst, '.')
		left--
	}
	var r rand.PCG
	s := random.Derive(seed, uint64(tokens))
	r.Seed(s, ^s)
	for left > longestClause {
		long := left > longestSentence
		x := r.Uint64()
		o, a, t := &g.opening[x&(nounPhrases-1)], &g.act[x>>11&(verbPhrases-1)], &g.thing[x>>21&(nounPhrases-1)]
		dst = append(dst, o.text...)
		dst = append(dst, a.text...)
		dst = append(dst, t.text...)
		left -= o.words + a.words + t.words
		if long && x>>60&1 == 0 {
			p := &g.place[x>>32&(placePhrases-1)]
			dst = append(dst, p.text...)
			left -= p.words
		}
		if long && x>>62 == 0 {
			y := r.Uint64()
			l, t := &g.link[x>>42&(links-1)], &g.thing[y&(nounPhrases-1)]
			a, p := &g.act[y>>11&(verbPhrases-1)], &g.place[y>>21&(placePhrases-1)]
			dst = append(dst, ',')
			dst = append(dst, l.text...)
			dst = append(dst, t.text...)
			dst = append(dst, a.text...)
			dst = append(dst, p.text...)
			left -= 1 + l.words + t.words + a.words + p.words
		}
		dst = append(dst, '.')
		left--
	}
	// The rest is a list of words, so that the length is exact.
	for ; left > 1; left-- {
		dst = append(dst, g.salt[r.Uint64()&0xff]...)
	}
	if left == 1 {
		if dst[len(dst)-1] == '.' {
			dst = append(dst, g.salt[r.Uint64()&0xff]...)
		} else {
			dst = append(dst, '.')
		}
	}
	return dst
}

const nouns = `
	account action address advice age agency agent agreement air amount animal answer area army art article
	author balance bank base battle bed bill bird board boat body book border bottle box bridge
	brother budget building business call camera car card care case cause cell center century chair chance
	change chapter charge child choice church circle city class club coast college color company computer concept
	condition contract control copy corner cost council country county couple course court cover credit crime crowd
	culture cup customer data date daughter day deal death debate decision degree design detail device difference
	dinner direction discussion disease doctor document dog door doubt dream driver economy edge editor education effort
	election energy engine entry event evidence example exchange experience expert eye face fact failure family farm
	father feature field figure film finger fire firm fish flight floor flower food foot force forest
	form frame friend front fund future game garden gas girl glass goal government grade ground group`

const adjectives = `
	able actual ancient angry annual basic beautiful big bitter black blue brief bright broad broken brown
	busy calm capable careful central cheap civil clean clear clever close cold common complex constant cool
	correct critical dark dead deep dry early eastern easy empty equal exact fair famous fast final
	fine first flat foreign formal free fresh full general gentle good gray great green hard heavy
	high huge human ideal important joint junior key large late legal light local long loose loud
	low main major modern narrow national natural new nice normal northern old open plain poor public`

const verbs = `
	accepted added adopted allowed answered approved asked avoided believed bought brought built called carried caught changed
	checked chose cleared closed collected compared completed considered contained continued covered created crossed decided defended described
	designed discovered discussed divided doubted dropped earned entered established examined expected explained faced filled finished followed
	forced formed found gave guided handled held helped hid improved included increased joined judged kept knew`

const adverbs = `
	again almost already always carefully clearly directly easily finally gently hardly largely mostly nearly never often
	once partly perhaps quickly quietly rarely really recently simply slowly soon still usually widely`

const prepositions = `
	about above across after against along among around behind below beside beyond during inside near over
	past through toward under with within without for`
