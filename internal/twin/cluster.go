package twin

import (
	"fmt"
	"strconv"
	"time"
)

// ClusterConfig names a cluster. Zero fields take defaults.
type ClusterConfig struct {
	// Model, GPU and Engine are names of the catalogue; llama-3.1-8b, h100 and
	// vllm by default.
	Model, GPU, Engine string
	// Precision is that of the linear layers; by default the one that the model's name
	// as given ends with (-FP8), else the one that it is published in.
	Precision Precision
	// TP is the number of devices per replica, Replicas the number of engines; 1
	// by default.
	TP, Replicas int
	// PP, DP and EP are as in Layout; 1 by default. KVFP8 keeps keys and values in
	// fp8.
	PP, DP, EP int
	KVFP8      bool
	// MaxNumSeqs and MaxNumBatchedTokens are by default what vLLM takes for the
	// device.
	MaxNumSeqs, MaxNumBatchedTokens int
	// MaxModelLen is the longest sequence in tokens, by default the model's
	// context or what the KV memory holds, whichever is less.
	MaxModelLen int
	// MemoryUtilization is the engine's share of a device's memory.
	MemoryUtilization float64
	// Stages, when not nil, is what the way around each engine takes instead of what
	// the engine's profile says; fixed steps have none.
	Stages *StageCosts
	// NoPrefixCache turns the prefix cache off, which all engines have on by default.
	NoPrefixCache bool
	// Step, when above 0, makes every step that long, with unlimited memory and,
	// unless they are given, unlimited sequences and tokens per step.
	Step time.Duration
	// Slowdown is a fault: by which share every step lasts longer for each minute
	// since the cluster was started, 0 for none.
	Slowdown float64 `json:",omitempty"`
}

// Spread shares out a number of accelerators: with a TP over as many replicas as they
// make, else over the devices of each replica. 0 leaves everything as it is. The error
// says what the other fields come to when that is another number.
func (c *ClusterConfig) Spread(gpus int) error {
	if gpus == 0 {
		return nil
	}
	layers, replicas := max(c.PP, 1)*max(c.DP, 1), max(c.Replicas, 1)
	switch {
	case c.TP == 0:
		c.TP = max(1, gpus/(layers*replicas))
	case c.Replicas == 0:
		replicas = max(1, gpus/(layers*c.TP))
		c.Replicas = replicas
	}
	if n := c.TP * layers * replicas; n != gpus {
		return fmt.Errorf("gpus %d: tp %d x pp %d x dp %d x replicas %d are %d; the first must be what the others come to", gpus, c.TP, max(c.PP, 1), max(c.DP, 1), replicas, n)
	}
	return nil
}

// Cluster is a cluster that is possible: what serve and predict are made of.
type Cluster struct {
	// Config is what was asked for, with the defaults filled in.
	Config ClusterConfig
	Model  *Model
	// Layout is nil with fixed steps.
	Layout *Layout
	Memory Memory
	// Engine is the configuration of each replica's engine.
	Engine EngineConfig
	// Stages is what the way around each engine takes.
	Stages StageCosts
	// Context is the longest sequence in tokens.
	Context int
}

// NewCluster finds the names in the catalogue and checks that what they describe
// can be. The error says with numbers what cannot.
func NewCluster(cfg ClusterConfig) (*Cluster, error) {
	if cfg.Model == "" {
		cfg.Model = "llama-3.1-8b"
	}
	if cfg.GPU == "" {
		cfg.GPU = "h100"
	}
	if cfg.TP == 0 {
		cfg.TP = 1
	}
	if cfg.Replicas == 0 {
		cfg.Replicas = 1
	}
	switch {
	case cfg.Replicas < 1 || cfg.Replicas > 10_000:
		return nil, fmt.Errorf("replicas %d: want 1 to 10000", cfg.Replicas)
	case cfg.MaxNumSeqs < 0 || cfg.MaxNumSeqs > 1<<20:
		return nil, fmt.Errorf("max-num-seqs %d: want 1 to %d", cfg.MaxNumSeqs, 1<<20)
	case cfg.MaxNumBatchedTokens < 0 || cfg.MaxNumBatchedTokens > 1<<20:
		return nil, fmt.Errorf("max-num-batched-tokens %d: want 1 to %d", cfg.MaxNumBatchedTokens, 1<<20)
	case cfg.MaxModelLen < 0:
		return nil, fmt.Errorf("max-model-len %d: want at least 1", cfg.MaxModelLen)
	case cfg.Step < 0:
		return nil, fmt.Errorf("step %v: want more than 0", cfg.Step)
	}
	c := Builtin()
	cl := &Cluster{Config: cfg}
	var err error
	if cl.Model, err = c.Model(cfg.Model); err != nil {
		return nil, err
	}
	if cl.Config.Precision == "" {
		cl.Config.Precision = cl.Model.published(cfg.Model)
	}
	if !(cfg.Slowdown >= 0 && cfg.Slowdown <= MaxSlowdown) {
		return nil, fmt.Errorf("slowdown %v: want a share of 0 to %v a minute", cfg.Slowdown, float64(MaxSlowdown))
	}
	ec := EngineConfig{MaxNumSeqs: cfg.MaxNumSeqs, MaxNumBatchedTokens: cfg.MaxNumBatchedTokens, Slowdown: cfg.Slowdown}
	if cfg.Step > 0 {
		ec.Timer, ec.Blocks = FixedStep(cfg.Step), Unlimited
		if ec.MaxNumSeqs == 0 {
			ec.MaxNumSeqs = Unlimited
		}
		if ec.MaxNumBatchedTokens == 0 {
			ec.MaxNumBatchedTokens = Unlimited
		}
		cl.Context = cl.Model.Context
	} else {
		l := &Layout{
			Model: cl.Model, Precision: cl.Config.Precision, TP: cfg.TP, PP: cfg.PP, DP: cfg.DP, EP: cfg.EP,
			KVFP8: cfg.KVFP8, MemoryUtilization: cfg.MemoryUtilization,
		}
		if l.GPU, err = c.GPU(cfg.GPU); err != nil {
			return nil, err
		}
		if l.Engine, err = c.Engine(cfg.Engine); err != nil {
			return nil, err
		}
		seqs, tokens := defaultLimits(l.GPU)
		if ec.MaxNumBatchedTokens == 0 {
			ec.MaxNumBatchedTokens = max(tokens, ec.MaxNumSeqs)
		}
		if ec.MaxNumSeqs == 0 {
			ec.MaxNumSeqs = min(seqs, ec.MaxNumBatchedTokens)
		}
		l.MaxNumSeqs, l.MaxNumBatchedTokens = ec.MaxNumSeqs, ec.MaxNumBatchedTokens
		if err := l.check(); err != nil {
			return nil, err
		}
		if cl.Memory, err = l.memory(); err != nil {
			return nil, err
		}
		ec.Policy = Policy(l.Engine.Policy)
		ec.PrefixCache = !cfg.NoPrefixCache
		ec.BlockTokens = ec.Policy.blockTokens()
		full, window, bytes := l.kvShares()
		left := cl.Memory.Usable - cl.Memory.Weights - cl.Memory.Activations - cl.Memory.Other
		ec.Blocks = int(left/bytes) * l.DP / ec.BlockTokens
		if window > 0 {
			ec.Window, ec.FullBlocks, ec.WindowBlocks = l.Model.Attention.Window, full, window
			ec.PrefixCache = ec.PrefixCache && full > 0
		}
		if ec.Policy == VLLM && ec.Blocks > 1 {
			ec.Blocks-- // the first is the null block, which nobody gets
		}
		cl.Context = min(cl.Model.Context, ec.Longest())
		if cl.Context < 1 {
			return nil, l.tooSmall(cl.Memory)
		}
		ec.Timer = NewRoofline(c, l)
		cl.Stages = l.Engine.Stages()
		cl.Layout = l
	}
	if cfg.Stages != nil {
		cl.Stages = *cfg.Stages
	}
	if err := cl.Stages.check(); err != nil {
		return nil, err
	}
	if n := cfg.MaxModelLen; n > cl.Model.Context {
		return nil, fmt.Errorf("max-model-len %d: the context of %s is %d tokens", n, cl.Model.Name, cl.Model.Context)
	} else if n > cl.Context {
		return nil, fmt.Errorf("max-model-len %d: the KV memory holds %d tokens", n, cl.Context)
	} else if n > 0 {
		cl.Context = n
	}
	cl.Engine = ec
	return cl, nil
}

// KVTokens is the number of tokens that the KV memory of a replica holds; of a model
// with windows, of sequences as long as the context.
func (c *Cluster) KVTokens() int {
	e := &c.Engine
	if e.Window == 0 {
		return e.Blocks * max(e.BlockTokens, 1)
	}
	return int(float64(e.Blocks) / float64(e.most(c.Context)) * float64(c.Context))
}

// thousands writes a count as reports do: 452,000.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Describe says in one line what the cluster is.
func (c *Cluster) Describe() string {
	if c.Config.Step > 0 {
		return fmt.Sprintf("%s, %d x fixed steps of %v, context %s", c.Model.Name, c.Config.Replicas, c.Config.Step, thousands(c.Context))
	}
	on, each := c.Layout.GPU.Name, ""
	if n := c.Config.TP * max(c.Config.PP, 1) * max(c.Config.DP, 1); n > 1 {
		on = fmt.Sprintf("%d x %s", n, on)
	}
	if c.Config.Replicas > 1 {
		on, each = fmt.Sprintf("%d replicas of %s", c.Config.Replicas, on), " each"
	}
	return fmt.Sprintf("%s in %s on %s, %s KV tokens%s, context %s",
		c.Model.Name, c.Config.Precision, on, thousands(c.KVTokens()), each, thousands(c.Context))
}
