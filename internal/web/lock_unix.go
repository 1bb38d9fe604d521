//go:build unix

package web

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks an open folder until it is closed, and says whether it could: another
// may have locked it.
func tryLock(d *os.File) (bool, error) {
	for {
		switch err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.EBADF):
			return true, nil // some file systems of a network lock no folders
		default:
			return false, err
		}
	}
}
