package content

// pinned are hashes (FNV-1a) of four texts of 20,000 tokens each.
var pinned = map[string]uint64{
	"caselaw":     0x56f9c0e603d1040b,
	"caselaw/zh":  0x20801f3e4fc77e84,
	"code":        0xe4df8a28080925ae,
	"code/zh":     0x7fd3435cd00824da,
	"contract":    0x94e734d4a22ab88e,
	"contract/zh": 0xf13cf70581747394,
	"filing":      0xf73709e4265d7abd,
	"filing/zh":   0x6aaab6a31839d393,
	"paper":       0xe471626cc683407e,
	"paper/zh":    0x5f9e86e0aefc2a2f,
	"patient":     0xcd56474017391419,
	"patient/zh":  0x691291276db41731,
	"prose":       0xb81659804275a4e8,
	"prose/zh":    0x6869201ed3de90b8,
	"ticks":       0x326ad1738bd273af,
	"ticks/zh":    0x5edf19196b08ba9f,
}
