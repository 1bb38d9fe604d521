package content

// pinned are hashes (FNV-1a) of four texts of 20,000 tokens each.
var pinned = map[string]uint64{
	"caselaw":     0x40d3e45789948e4d,
	"caselaw/zh":  0xe3a8be010b785ce4,
	"code":        0xac80d311e7fdad9c,
	"code/zh":     0x96de34511ef4158b,
	"contract":    0x1e455b0b9b05d0c5,
	"contract/zh": 0x50d817b8a0168c3e,
	"filing":      0x13f7fb39ac788f9,
	"filing/zh":   0x58e759d3ced035f0,
	"paper":       0xc2e017529919ec49,
	"paper/zh":    0x3a6f9127ec491fd0,
	"patient":     0x2f65054a5f44cdb,
	"patient/zh":  0x23ea426d7889a1c9,
	"prose":       0x8e94e42f447d6e69,
	"prose/zh":    0x94fb17726997d928,
	"ticks":       0x25a7fac8ba3bdbcf,
	"ticks/zh":    0x3a7a925f1eafc5b3,
}
