package memconn

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestMergesAndStamps writes three times while nobody reads: one read gets all
// of it with the time of the newest byte, a short one the time of its own.
func TestMergesAndStamps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := Pipe()
		start := time.Now()
		for _, text := range []string{"one", "two", "three"} {
			time.Sleep(time.Second)
			if _, err := s.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		buf := make([]byte, 100)
		for _, want := range []struct {
			n    int
			text string
			at   time.Duration
		}{{2, "on", 1}, {4, "etwo", 2}, {3, "thr", 3}, {100, "ee", 3}} {
			n, err := c.Read(buf[:want.n])
			at, ok := c.LastStamp()
			if err != nil || string(buf[:n]) != want.text || !ok || at.Sub(start) != want.at*time.Second {
				t.Errorf("read %q at %v, %v; want %q at %d s", buf[:n], at.Sub(start), err, want.text, want.at)
			}
		}
	})
}

// TestEnds closes and breaks connections in every way.
func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		buf := make([]byte, 10)
		c, s := Pipe()
		_, _ = s.Write([]byte("bye"))
		_ = s.Close()
		if n, err := c.Read(buf); n != 3 || err != nil {
			t.Errorf("what was on the way: %d, %v", n, err)
		}
		if _, err := c.Read(buf); err != io.EOF {
			t.Errorf("after a close: %v", err)
		}
		if _, err := c.Write(buf); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write to a closed peer: %v", err)
		}
		if _, err := s.Read(buf); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read of an own closed end: %v", err)
		}
		if err := s.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("second close: %v", err)
		}

		c, s = Pipe()
		_, _ = c.Write([]byte("unread"))
		_ = s.Close()
		if _, err := c.Read(buf); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("closed with unread bytes: %v", err)
		}

		c, s = Pipe()
		_, _ = s.Write([]byte("x"))
		_ = s.Reset()
		if n, err := c.Read(buf); n != 1 || err != nil {
			t.Errorf("what came before a reset: %d, %v", n, err)
		}
		if _, err := c.Read(buf); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("after a reset: %v", err)
		}

		c, s = Pipe()
		_ = c.CloseWrite()
		if _, err := s.Read(buf); err != io.EOF {
			t.Errorf("after CloseWrite: %v", err)
		}
		if _, err := s.Write([]byte("still")); err != nil {
			t.Errorf("the other direction: %v", err)
		}
		if n, err := c.Read(buf); n != 5 || err != nil {
			t.Errorf("the other direction: %d, %v", n, err)
		}
	})
}

// TestDeadlines ends reads and writes that wait, and lets later ones through.
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := Pipe()
		start := time.Now()
		_ = c.SetReadDeadline(start.Add(time.Second))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("read: %v after %v", err, time.Since(start))
		}
		_ = c.SetDeadline(time.Time{})
		c.SetBuffer(10)
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		if n, err := c.Write(make([]byte, 15)); n != 10 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write: %d, %v", n, err)
		}
		_ = c.SetWriteDeadline(time.Time{})
		go func() {
			time.Sleep(time.Second)
			_, _ = io.ReadFull(s, make([]byte, 15))
		}()
		if n, err := c.Write(make([]byte, 5)); n != 5 || err != nil {
			t.Errorf("write with room: %d, %v", n, err)
		}
		synctest.Wait()
	})
}

// TestListener connects, transfers more than the buffer and refuses.
func TestListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Listen("here:1")
		go func() {
			conn, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}()
		conn, err := l.Dial(t.Context(), "tcp", "any:1")
		if err != nil {
			t.Fatal(err)
		}
		sent := bytes.Repeat([]byte("abc"), DefaultBuffer)
		go func() {
			_, _ = conn.Write(sent)
			_ = conn.(*Conn).CloseWrite()
		}()
		got, err := io.ReadAll(conn)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("echo of %d bytes: %d, %v", len(sent), len(got), err)
		}
		waiting, _ := l.Dial(t.Context(), "tcp", "any:1")
		_ = l.Close()
		if _, err := waiting.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("never accepted: %v", err)
		}
		if _, err := l.Dial(t.Context(), "tcp", "any:1"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial after close: %v", err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept after close: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.Dial(ctx, "tcp", "any:1"); !errors.Is(err, context.Canceled) {
			t.Errorf("dial after cancel: %v", err)
		}
	})
}
