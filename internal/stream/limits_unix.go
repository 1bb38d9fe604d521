//go:build linux || darwin

package stream

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// CheckDescriptors makes sure that need descriptors can be open at once, and
// raises the soft limit where the hard one allows it. The number to ask for is
// the most requests in flight plus 64 for files, scrapes and the runtime. Go
// raises the soft limit at start-up by itself; a process that was started by
// another Go program may find it lowered again.
func CheckDescriptors(need int) error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	want, err := raiseTo(uint64(need), uint64(l.Cur), uint64(l.Max))
	if err != nil || want == 0 {
		return err
	}
	set := l
	set.Cur = want
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &set); err != nil {
		return fmt.Errorf("raise the limit of open files from %d to %d (ulimit -n): %w", l.Cur, want, err)
	}
	return nil
}

// raiseTo returns the soft limit to set, 0 when it is high enough.
func raiseTo(need, soft, hard uint64) (uint64, error) {
	switch {
	case need <= soft:
		return 0, nil
	case need > hard:
		return 0, fmt.Errorf("the run needs %d open files, the hard limit is %d: raise it (ulimit -Hn %d, LimitNOFILE= in a unit) or use fewer users", need, hard, need)
	}
	return hard, nil
}
