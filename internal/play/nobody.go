//go:build unix

package play

import (
	"net"
	"strconv"
	"syscall"
)

// Nobody returns a loopback address that refuses every connection until the test
// ends: its port is taken, and nobody listens on it. A port that was merely free a
// moment ago may be given to any other program.
func Nobody(t interface {
	Helper()
	Cleanup(f func())
	Fatal(args ...any)
},
) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal("make a socket:", err)
	}
	syscall.CloseOnExec(fd)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal("take a port:", err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal("look up a port:", err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(at.(*syscall.SockaddrInet4).Port))
}
