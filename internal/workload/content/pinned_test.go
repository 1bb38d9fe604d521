package content

// pinned are hashes (FNV-1a) of four texts of 20,000 tokens each.
var pinned = map[string]uint64{
	"caselaw":     0x56f9c0e603d1040b,
	"caselaw/zh":  0x20801f3e4fc77e84,
	"code":        0x2c8ed78cc17d108c,
	"code/zh":     0xcd8dacf35089f328,
	"contract":    0x94e734d4a22ab88e,
	"contract/zh": 0xf13cf70581747394,
	"filing":      0x51eb12bfec3b4550,
	"filing/zh":   0xfc972bfbe423c9c5,
	"paper":       0x4ff2b9af56bf5e8d,
	"paper/zh":    0xff79a4c0b295a325,
	"patient":     0x3ddaca9312335cd0,
	"patient/zh":  0xe09ae29f1446c938,
	"prose":       0xb81659804275a4e8,
	"prose/zh":    0x6869201ed3de90b8,
	"ticks":       0x326ad1738bd273af,
	"ticks/zh":    0x5edf19196b08ba9f,
}
