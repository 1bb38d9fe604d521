//go:build unix

package web

import "syscall"

// makePipe makes a named pipe, which nobody writes to.
func makePipe(name string) error { return syscall.Mkfifo(name, 0o644) }
