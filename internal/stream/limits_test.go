//go:build linux || darwin

package stream

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRaiseTo is case 067 and its neighbours.
func TestRaiseTo(t *testing.T) {
	tests := []struct {
		need, soft, hard, want uint64
		err                    string
	}{
		{2064, 1024, 524288, 524288, ""},
		{1024, 1024, 524288, 0, ""},
		{1025, 1024, 1025, 1025, ""},
		{5000, 1024, 4096, 0, "needs 5000 open files, the hard limit is 4096"},
	}
	for _, tt := range tests {
		got, err := raiseTo(tt.need, tt.soft, tt.hard)
		if got != tt.want || (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("raiseTo(%d, %d, %d) = %d, %v", tt.need, tt.soft, tt.hard, got, err)
		}
	}
}

// TestCheckDescriptors lowers the soft limit, as a parent process may have done.
func TestCheckDescriptors(t *testing.T) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if old.Max < 600 {
		t.Skip("the hard limit is too low to test with")
	}
	low := old
	low.Cur = 512
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &old) }()
	if err := CheckDescriptors(600); err != nil {
		t.Fatal(err)
	}
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &now); err != nil || now.Cur < 600 {
		t.Errorf("soft limit %d after asking for 600, %v", now.Cur, err)
	}
	if err := CheckDescriptors(1 << 40); err == nil {
		t.Error("a need above the hard limit passed")
	}
}
