package probe

import (
	"strconv"
	"time"

	"plimsoll/internal/scenario"
)

// topUsers is the last rung of a ladder of users.
const topUsers = 1024

// interferencePrefill is the workload whose prompts break into the steady decoding.
const interferencePrefill = "gpu-hbm/interference-prefill"

// decodeSteps doubles the users. Each has one answer to decode beside the others;
// small numbers have several, so that there is a median.
func decodeSteps() []scenario.LoadStep {
	var out []scenario.LoadStep
	for n := 1; n <= topUsers; n *= 2 {
		out = append(out, scenario.LoadStep{Users: n, Requests: n * ((n + 5) / n)})
	}
	return out
}

// interferenceSteps are steady decoding alone and beside a prefill every few
// seconds.
func interferenceSteps() []scenario.LoadStep {
	const decoding = 16
	return []scenario.LoadStep{
		{Users: decoding, Duration: 20 * time.Second},
		{Users: decoding + 1, Duration: time.Minute, Parts: []scenario.StepPart{{Weight: decoding}, {Workload: interferencePrefill}}},
	}
}

// capacitySteps double the tokens of all contexts together. Lengths differ, so that
// what is left of the memory is filled well, and answers are long enough for all
// contexts to be open at once before the first ends, with a server that computes
// 1,024 tokens of prompts beside each token of the answers, or 2,048 where there is
// memory for more than half a million.
func capacitySteps() []scenario.LoadStep {
	var out []scenario.LoadStep
	for total := 32 << 10; total <= 8<<20; total *= 2 {
		users := 64
		if total > 256<<10 {
			users = min(256, total>>12)
		}
		length := total / users
		answer := min(max(32, total>>10), max(512, total>>11))
		out = append(out, scenario.LoadStep{
			Users: users, Requests: max(2*users, 192),
			Set: map[string]string{
				"prompt.turn": "uniform:" + strconv.Itoa(length/2) + ".." + strconv.Itoa(length*3/2),
				"output":      strconv.Itoa(answer),
			},
		})
	}
	return out
}

// evictionSteps double the number of texts, which are revisited in order and at
// random, three times each on average.
func evictionSteps() []scenario.LoadStep {
	var out []scenario.LoadStep
	for sets := 4; sets <= 512; sets *= 2 {
		for _, order := range []string{"cycle", "random"} {
			out = append(out, scenario.LoadStep{Users: 1, Requests: 3 * sets, Set: map[string]string{
				"prompt.group.sets": strconv.Itoa(sets), "prompt.group.order": order,
			}})
		}
	}
	return out
}

// growthSteps is one steady load for an hour.
func growthSteps() []scenario.LoadStep {
	return []scenario.LoadStep{{Users: 8, Duration: time.Hour}}
}

// fanOutSteps are more and more streams.
func fanOutSteps() []scenario.LoadStep {
	var out []scenario.LoadStep
	for n := 16; n <= topUsers; n *= 4 {
		out = append(out, scenario.LoadStep{Users: n, Duration: 20 * time.Second})
	}
	return out
}

// churnSteps are short requests of more and more users.
func churnSteps() []scenario.LoadStep {
	var out []scenario.LoadStep
	for _, n := range []int{1, 16, 64} {
		out = append(out, scenario.LoadStep{Users: n, Duration: 15 * time.Second})
	}
	return out
}

// routingSteps are the domains of the file one after another, and then all of them
// at once.
func routingSteps() []scenario.LoadStep {
	const users = 16
	step := scenario.LoadStep{Users: users, Requests: 2 * users}
	var out []scenario.LoadStep
	mixed := step
	for _, domain := range []string{"contract", "code", "patient", "paper/zh"} {
		set := map[string]string{"prompt.turn.content": domain}
		one := step
		one.Set = set
		out = append(out, one)
		mixed.Parts = append(mixed.Parts, scenario.StepPart{Set: set})
	}
	random := step
	random.Set = map[string]string{"prompt.turn.content": "words"}
	return append(out, mixed, random)
}
