package content

// calibration is the mean length of a token of each kind of text, in
// thousandths of a byte.
var calibration = map[string][2]int{
	"words": {5500, 0}, "contract": {5200, 4600}, "caselaw": {4600, 4500}, "filing": {4000, 4000}, "patient": {3900, 3900},
	"paper": {4700, 4500}, "ticks": {2300, 2300}, "code": {3700, 3500}, "prose": {4500, 4300},
}
