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
