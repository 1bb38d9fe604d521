package content

// perToken is the length of a token of one kind of text, in thousandths of a byte.
type perToken struct {
	// mean is the mean over five vocabularies; low and high are the least and the
	// greatest of the five.
	mean, low, high int
}

// calibrations were measured on 24 texts of each kind (8 each of 2, 12 and 60
// kB; the two longer sizes count) with the reference implementation of Hugging
// Face's tokenizers and the vocabularies of Llama 3.1, Qwen 3, gpt-oss, DeepSeek
// V3 and Gemma 3. From one text of 12 kB to the next, the deviation is at most 3 %
// (contracts in Chinese 4 %, otherwise below). Between vocabularies it is what low
// and high say: digits are one token each for Qwen and Gemma, and three a token
// for the others, which is why market data differs most.
var calibrations = map[string][2]perToken{
	"caselaw":  {{4055, 3756, 4281}, {3710, 3293, 4421}},
	"code":     {{3289, 2794, 3522}, {3152, 2716, 3345}},
	"contract": {{4852, 4726, 4955}, {3591, 3222, 4239}},
	"filing":   {{3743, 3479, 3932}, {3274, 2964, 3838}},
	"findings": {{2993, 2813, 3132}, {2918, 2632, 3468}},
	"paper":    {{4129, 3832, 4393}, {3215, 2904, 3857}},
	"patient":  {{3089, 2879, 3236}, {2916, 2661, 3487}},
	"prose":    {{4596, 4550, 4646}, {3595, 3154, 4149}},
	"ticks":    {{1533, 1121, 1793}, {1792, 1336, 2138}},
	"words":    {{5539, 5530, 5542}, {}},
}
