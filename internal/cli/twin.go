package cli

import (
	"fmt"
	"net"
	"time"

	"plimsoll/internal/twin"
)

type twinCmd struct {
	Serve twinServeCmd `cmd:"" help:"Serve a simulated cluster in real time behind the OpenAI APIs."`
}

type twinServeCmd struct {
	Model        string        `name:"model" default:"llama-3.1-8b" placeholder:"NAME" help:"The model."`
	GPU          string        `name:"gpu" default:"h100" placeholder:"NAME" help:"The accelerator."`
	Engine       string        `name:"engine" default:"vllm" placeholder:"NAME" help:"The engine."`
	Precision    string        `name:"precision" enum:"bf16,fp8" default:"bf16" placeholder:"P" help:"Of the linear layers: bf16 or fp8."`
	TP           int           `name:"tp" default:"1" placeholder:"N" help:"Accelerators per replica that share each layer."`
	Replicas     int           `name:"replicas" default:"1" placeholder:"N" help:"Engines behind the address, used in turn."`
	MaxNumSeqs   int           `name:"max-num-seqs" placeholder:"N" help:"Sequences that run at once, per replica; the engine's default for the accelerator."`
	MaxNumTokens int           `name:"max-num-batched-tokens" placeholder:"N" help:"Tokens of one step, per replica; likewise."`
	MaxModelLen  int           `name:"max-model-len" placeholder:"N" help:"Longest sequence in tokens; the model's, or what fits the memory."`
	Memory       float64       `name:"gpu-memory-utilization" placeholder:"X" help:"Share of the accelerator's memory that the engine takes."`
	Step         time.Duration `name:"step" placeholder:"D" help:"Make every step this long, with unlimited memory: a load for tests of clients."`
	Seed         uint64        `name:"seed" placeholder:"N" help:"Equal seeds and requests make equal answers."`
	Listen       string        `name:"listen" default:"127.0.0.1:8000" placeholder:"ADDR" help:"Address to listen on."`
}

func (*twinServeCmd) Help() string {
	return "Nothing is computed: the time of each scheduler step comes from a model of the hardware. Chat and completions, /v1/models, /tokenize, /metrics and /health are served until Ctrl-C."
}

func (*twinServeCmd) Examples() []string {
	return []string{
		"plimsoll twin serve --model llama-3.1-8b --gpu h100 --replicas 2",
		"plimsoll twin serve --model llama-3.1-70b --gpu h200 --tp 2 --precision fp8",
		"plimsoll twin serve --step 50ms",
	}
}

func (c *twinServeCmd) Run(a *app) error {
	s, err := twin.NewServer(twin.ServerConfig{
		Model: c.Model, GPU: c.GPU, Engine: c.Engine, Precision: twin.Precision(c.Precision),
		TP: c.TP, Replicas: c.Replicas, MaxNumSeqs: c.MaxNumSeqs, MaxNumBatchedTokens: c.MaxNumTokens,
		MaxModelLen: c.MaxModelLen, MemoryUtilization: c.Memory, Step: c.Step, Seed: c.Seed,
	})
	if err != nil {
		return usagef("twin serve: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(a.ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("twin serve: %w", err)
	}
	fmt.Fprintf(a.env.Stdout, "serving %s\nat http://%s (Ctrl-C ends)\n", s.Describe(), l.Addr())
	// Ctrl-C is how a server is meant to end, so it is no interruption.
	if err := s.Serve(a.ctx, l); err != nil {
		return fmt.Errorf("twin serve: %w", err)
	}
	st := s.Stats()
	fmt.Fprintf(a.env.Stdout, "served %d requests: %d prompt and %d output tokens in %d steps, %d preemptions, %d clients left, %d were too slow\n",
		st.Requests, st.PromptTokens, st.OutputTokens, st.Steps, st.Preemptions, st.Aborted, st.SlowClients)
	if st.Steps > 0 {
		fmt.Fprintf(a.env.Stdout, "steps were late by p50 %v, p99 %v, at most %v\n",
			time.Duration(st.Late.Quantile(0.5)), time.Duration(st.Late.Quantile(0.99)), time.Duration(st.Late.Max()))
	}
	return nil
}
