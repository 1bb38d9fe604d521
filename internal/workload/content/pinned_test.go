package content

// pinned are hashes (FNV-1a) of four texts of 20,000 tokens each.
var pinned = map[string]uint64{
	"caselaw":     0xbb56201455446b4c,
	"caselaw/zh":  0x5b09af930faa1d99,
	"code":        0x23e8e3d9025e7c7b,
	"code/zh":     0x7785b15137b1f0ad,
	"contract":    0x23b73786c5ddc17d,
	"contract/zh": 0xe8a4dd30321f85c0,
	"filing":      0xce06a0af9c81c3b6,
	"filing/zh":   0x3007acc2720afa24,
	"findings":    0x74bdbb7678d0d780,
	"findings/zh": 0x5cfce1870f608b07,
	"paper":       0xec5396b37bb276a7,
	"paper/zh":    0xaed07203be7694e4,
	"patient":     0xac82a5202754b716,
	"patient/zh":  0x88a2548f4b810a99,
	"prose":       0x9077d5d1caa28ba,
	"prose/zh":    0x3360d9f820fa452b,
	"ticks":       0x155c1f1a5ddaa488,
	"ticks/zh":    0x36db6900b532b840,
}
