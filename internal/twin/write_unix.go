//go:build unix

package twin

import "syscall"

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
