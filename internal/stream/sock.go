package stream

import (
	"net"
	"time"
)

// sock is the connection below TLS. Each read keeps when its bytes arrived. It
// is read by one goroutine at a time; the fields belong to that one.
type sock struct {
	net.Conn
	epoch   epoch
	kernel  *kernelReader                              // nil: no kernel times
	stamper interface{ LastStamp() (time.Time, bool) } // a test's connection that stamps

	seq     uint64 // reads that returned bytes
	batch   uint32 // see read.batch
	at      int64  // arrival of the newest byte of the last read
	userAt  int64  // when that read returned
	stamped bool   // at is a receive time
	stepped bool   // the stamp was impossible
	stamp   int64  // the raw stamp, unix ns
	full    bool   // the last read filled its buffer
}

// epoch is the instant that times count from.
type epoch struct{ start time.Time }

// now returns the time since the epoch, and the wall clock at the same moment.
func (e epoch) now() (mono, wall int64) {
	t := time.Now()
	return int64(t.Sub(e.start)), t.UnixNano()
}

// maxStampAge is the age above which a receive stamp is taken for the product
// of a stepped wall clock.
const maxStampAge = int64(time.Minute)

// Read reads what has arrived.
func (s *sock) Read(p []byte) (int, error) {
	var (
		n     int
		err   error
		stamp int64
		ok    bool
	)
	if s.kernel != nil {
		n, stamp, err = s.kernel.read(p)
		ok = stamp != 0
	} else {
		n, err = s.Conn.Read(p)
		if s.stamper != nil && n > 0 {
			var t time.Time
			if t, ok = s.stamper.LastStamp(); ok {
				stamp = t.UnixNano()
			}
		}
	}
	if n <= 0 {
		return n, err
	}
	mono, wall := s.epoch.now()
	s.seq++
	before := s.at
	s.userAt, s.at = mono, mono
	s.stepped = false
	if ok {
		switch age := wall - stamp; {
		case age < 0 || age > maxStampAge:
			ok, s.stepped = false, true
		case s.stamped && stamp == s.stamp:
			s.at = before
		case s.stamped && stamp > s.stamp:
			// Each mapping is good to some 50 ns; order is not to suffer from it.
			s.at = max(mono-age, before)
		default:
			s.at = mono - age
		}
	}
	// One batch is what the kernel gave one time to: reads with the same stamp
	// are pieces of one merged segment. Without stamps, a read that follows one
	// that filled its buffer may have waited with it.
	same := s.full
	if ok {
		same = s.stamped && stamp == s.stamp
	}
	if !same {
		s.batch++
	}
	s.stamped, s.stamp, s.full = ok, stamp, n == len(p)
	return n, err
}

// newSock wraps a fresh connection.
func newSock(c net.Conn, e epoch, kernelTimes bool) *sock {
	s := &sock{Conn: c, epoch: e}
	if !kernelTimes {
		return s
	}
	if t, ok := c.(interface{ LastStamp() (time.Time, bool) }); ok {
		s.stamper = t
	} else {
		s.kernel = newKernelReader(c)
	}
	return s
}
