//go:build unix

package twin

import (
	"syscall"
	"time"
)

// writeNow writes what the kernel takes of p without waiting and returns how
// much that was, -1 on an error. The descriptor is the runtime's and does not
// block.
func writeNow(fd uintptr, p []byte) int {
	for {
		n, err := syscall.Write(int(fd), p)
		switch err {
		case nil:
			return n
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0
		default:
			return -1
		}
	}
}

// processTime returns the processor time that this process has taken.
func processTime() (time.Duration, bool) {
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
		return 0, false
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano()), true
}
