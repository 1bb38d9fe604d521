package web

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// limits are those on connections. One that sends its header slowly, or nothing, is
// closed; so is one beyond the number.
type limits struct {
	connections, streams int
	header, body, idle   time.Duration
	// beat is how often a stream without news says that it is there: proxies close
	// what is silent.
	beat time.Duration
	// event bounds the writing of one event: a client that reads nothing for so long is
	// gone. It may come back, and gets what is still kept.
	event time.Duration
	// predict is what the points of a prediction share: it must be there before a person
	// notices that it was made.
	predict time.Duration
}

var usual = limits{
	connections: 256, streams: 64, header: 5 * time.Second, body: 20 * time.Second, idle: time.Minute, beat: 15 * time.Second, event: 30 * time.Second,
	predict: 700 * time.Millisecond,
}

const (
	maxHeader = 16 << 10
	// endTime is how long open answers may take when the server ends.
	endTime = 2 * time.Second
)

// Serve answers what comes in on l until ctx ends, then closes l and, after a
// moment for answers under way, all connections.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	h := &http.Server{
		Handler: s, ReadHeaderTimeout: s.limits.header, ReadTimeout: s.limits.body, IdleTimeout: s.limits.idle, MaxHeaderBytes: maxHeader,
		// What browsers do to connections is not news.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ctx.Done():
		case <-stop:
		}
		s.end()
		within, cancel := context.WithTimeout(context.Background(), endTime)
		defer cancel()
		if h.Shutdown(within) != nil {
			_ = h.Close()
		}
	}()
	err := h.Serve(&bounded{Listener: l, free: make(chan struct{}, s.limits.connections)})
	close(stop)
	<-done
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// bounded is a listener with a bounded number of open connections. One more is closed
// at once: those who work go on.
type bounded struct {
	net.Listener
	free chan struct{} // a place for each open connection
}

// Accept returns the next connection that finds a free place.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case b.free <- struct{}{}:
			return &counted{Conn: c, leave: sync.OnceFunc(func() { <-b.free })}, nil
		default:
			_ = c.Close()
		}
	}
}

// counted is a connection that has a place.
type counted struct {
	net.Conn
	leave func()
}

// Close closes the connection and leaves its place.
func (c *counted) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
