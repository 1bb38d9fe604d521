package twin

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"plimsoll/internal/memconn"
)

// inMemory has the listeners of the servers that run in fake time (synctest) and what
// speaks to them, by host; numbers keeps their names apart.
var (
	inMemory sync.Map
	numbers  atomic.Int64
)

type memory struct {
	l      *memconn.Listener
	client *http.Client
}

// listen returns a listener in memory, until the bubble ends.
func listen(t testing.TB) net.Listener {
	l := memconn.Listen(fmt.Sprintf("memory-%d:80", numbers.Add(1)))
	tr := &http.Transport{DialContext: l.Dial}
	inMemory.Store(l.Addr().String(), &memory{l, &http.Client{Transport: tr}})
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		inMemory.Delete(l.Addr().String())
	})
	return l
}

// startFake serves cfg in memory until the bubble ends.
func startFake(t testing.TB, cfg ServerConfig) (s *Server, url string) {
	t.Helper()
	return startOn(t, cfg, listen(t))
}

func hostOf(url string) string {
	host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	return host
}

// clientOf returns what speaks HTTP to a server of start or startFake.
func clientOf(url string) *http.Client {
	if m, ok := inMemory.Load(hostOf(url)); ok {
		return m.(*memory).client
	}
	return http.DefaultClient
}

// dial connects to a server of start or startFake.
func dial(t testing.TB, url string) net.Conn {
	t.Helper()
	var nc net.Conn
	var err error
	if m, ok := inMemory.Load(hostOf(url)); ok {
		nc, err = m.(*memory).l.Dial(t.Context(), "tcp", hostOf(url))
	} else {
		nc, err = net.Dial("tcp", hostOf(url))
	}
	if err != nil {
		t.Fatal(err)
	}
	return nc
}
