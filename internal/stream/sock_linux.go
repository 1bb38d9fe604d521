package stream

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernelReader reads a socket by recvmsg, which also tells when the bytes
// arrived. It allocates nothing per read: the message header and the closure
// that the runtime's poller calls are made once.
type kernelReader struct {
	raw  syscall.RawConn
	call func(fd uintptr) bool

	hdr unix.Msghdr
	iov unix.Iovec
	oob [128]byte
	n   int
	err syscall.Errno
}

// stamping asks for the software receive time of segments.
const stamping = unix.SOF_TIMESTAMPING_RX_SOFTWARE | unix.SOF_TIMESTAMPING_SOFTWARE

// newKernelReader returns nil when c is not a socket that gives receive times.
func newKernelReader(c net.Conn) *kernelReader {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	var serr error
	if err := raw.Control(func(fd uintptr) {
		serr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPING, stamping)
	}); err != nil || serr != nil {
		return nil
	}
	k := &kernelReader{raw: raw}
	k.call = k.recv
	return k
}

// recv is one recvmsg; it returns false when the poller should wait.
func (k *kernelReader) recv(fd uintptr) bool {
	for {
		k.hdr.Control = &k.oob[0]
		k.hdr.SetControllen(len(k.oob))
		n, _, errno := unix.Syscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&k.hdr)), 0)
		switch errno {
		case 0:
			k.n, k.err = int(n), 0
			return true
		case unix.EINTR:
		case unix.EAGAIN:
			return false
		default:
			k.n, k.err = 0, errno
			return true
		}
	}
}

// read returns the bytes read and their stamp in unix ns, 0 without one.
func (k *kernelReader) read(p []byte) (n int, stamp int64, err error) {
	if len(p) == 0 {
		return 0, 0, nil
	}
	k.iov.Base = &p[0]
	k.iov.SetLen(len(p))
	k.hdr.Iov = &k.iov
	k.hdr.SetIovlen(1)
	err = k.raw.Read(k.call)
	k.iov.Base = nil
	switch {
	case err != nil:
		return 0, 0, err
	case k.err != 0:
		return 0, 0, os.NewSyscallError("recvmsg", k.err)
	case k.n == 0:
		return 0, 0, io.EOF
	}
	return k.n, k.stamp(), nil
}

// stamp finds the software receive time among the control messages.
func (k *kernelReader) stamp() int64 {
	oob := k.oob[:k.hdr.Controllen]
	for len(oob) >= unix.SizeofCmsghdr {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&oob[0]))
		size := int(h.Len)
		if size < unix.SizeofCmsghdr || size > len(oob) {
			return 0
		}
		if h.Level == unix.SOL_SOCKET && h.Type == unix.SCM_TIMESTAMPING &&
			size >= unix.CmsgLen(int(unsafe.Sizeof(unix.Timespec{}))) {
			ts := (*unix.Timespec)(unsafe.Pointer(&oob[unix.CmsgLen(0)]))
			return ts.Nano()
		}
		if size = unix.CmsgSpace(size - unix.CmsgLen(0)); size > len(oob) {
			return 0
		}
		oob = oob[size:]
	}
	return 0
}

// peerClosed reports whether the peer has closed or broken the connection, or
// sent something nobody asked for: a look that takes nothing away.
func (k *kernelReader) peerClosed() bool {
	closed := false
	err := k.raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		closed = !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
	})
	return closed || err != nil
}

// waiting reports whether bytes have come that were not read yet.
func (k *kernelReader) waiting() bool {
	n := 0
	if err := k.raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.SIOCINQ) }); err != nil {
		return false
	}
	return n > 0
}

// keepStamping opens a socket that asks for receive times and does nothing
// else. The kernel switches stamping on when the first socket asks, a moment
// later, and off with the last: without this one the first reads of a lone
// connection would come without a time. It waits for that moment by sending
// itself datagrams.
func keepStamping() io.Closer {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil
	}
	k := newKernelReader(conn)
	if k == nil {
		_ = conn.Close()
		return nil
	}
	var b [1]byte
	late := 0
	for range 100 {
		if _, err := conn.WriteTo(b[:], conn.LocalAddr()); err != nil {
			break
		}
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		_, stamp, err := k.read(b[:])
		if errors.Is(err, os.ErrDeadlineExceeded) && late < 10 {
			late++ // mostly this process, which was held up
			continue
		}
		if err != nil || stamp != 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return conn
}
