package twin

import (
	"strings"
	"testing"
)

// A cluster's line counts every device of a replica, however they are used.
func TestDescribeCountsDevices(t *testing.T) {
	for _, tt := range []struct {
		cfg  ClusterConfig
		want string
	}{
		{ClusterConfig{}, "on h100,"},
		{ClusterConfig{GPU: "NVIDIA H100 SXM 80 GB"}, "on h100,"}, // however it is spelled
		{ClusterConfig{TP: 2}, "on 2 x h100,"},
		{ClusterConfig{PP: 2}, "on 2 x h100,"},
		{ClusterConfig{Model: "deepseek-v3", GPU: "h200", Precision: FP8, DP: 8, EP: 8, Replicas: 2}, "on 2 replicas of 8 x h200,"},
	} {
		cl, err := NewCluster(tt.cfg)
		if err != nil || !strings.Contains(cl.Describe(), tt.want) {
			t.Errorf("%+v: %v, %v, want %q in it", tt.cfg, cl.Describe(), err, tt.want)
		}
	}
}

// Without a precision the weights are what the name says, else as published.
func TestPrecisionOfNames(t *testing.T) {
	for name, want := range map[string]Precision{
		"llama-3.1-8b": BF16, "nvidia/Llama-3.1-8B-Instruct-FP8": FP8, "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic": FP8,
		"gpt-oss-20b": FP4, "qwen3-8b": BF16, "Qwen/Qwen3-8B-FP8": FP8Block, "Qwen/Qwen3-8B-AWQ": INT4,
	} {
		cl, err := NewCluster(ClusterConfig{Model: name})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if cl.Layout.Precision != want {
			t.Errorf("%s: %s, want %s", name, cl.Layout.Precision, want)
		}
	}
	cl, err := NewCluster(ClusterConfig{Model: "gpt-oss-20b", Precision: BF16})
	if err != nil || cl.Layout.Precision != BF16 {
		t.Errorf("a precision that is given: %v, %v", cl, err)
	}
	m := &Model{Checkpoint: FP8}
	if p := m.published("./My-AWQ-Models/x/config.json"); p != FP8 {
		t.Errorf("the words of a path name the precision %s", p)
	}
}
