package telemetry

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll/internal/clock"
	"plimsoll/internal/play"
)

// TestTLS reads over TLS: with the CA, with a client's certificate, without checking, and not with the system's roots.
func TestTLS(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { text(w, running(2)) }))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	client := certificate(t)
	pool := x509.NewCertPool()
	pool.AddCert(client.Leaf)
	srv.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	srv.StartTLS()
	defer srv.Close()
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	var sink sinkLog
	s := newScraper(t, Config{Clock: clock.New(), Sink: &sink, Targets: []Target{
		{URL: srv.URL + "/metrics", TLS: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{client}}},
		{URL: srv.URL + "/metrics", TLS: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{client}}},
		{URL: srv.URL + "/metrics"},
		{URL: srv.URL + "/metrics", TLS: &tls.Config{RootCAs: roots}},
	}})
	s.Baseline(t.Context())
	info := s.Info()
	for i := range 2 {
		if got := sink.of(i, "requests_running", "*"); len(got) != 1 || got[0].Value != 2 || info[i].State != StateOK || info[i].RTT <= 0 {
			t.Errorf("%d: %v %+v", i, got, info[i])
		}
	}
	for i := 2; i < 4; i++ {
		if info[i].State != StateError || info[i].Up || info[i].Why == "" {
			t.Errorf("%d: %+v", i, info[i])
		}
	}
	if !strings.Contains(info[2].Why, "certificate") {
		t.Errorf("%+v", info[2])
	}
}

// certificate makes a client's certificate that is its own authority.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "client"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// TestSockets has real exporters that answer, refuse, hang, answer garbage and talk without end: none of them holds up
// another, and Close returns at once.
func TestSockets(t *testing.T) {
	raw := func(f func(c net.Conn)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go f(c)
			}
		}()
		return "http://" + l.Addr().String() + "/metrics"
	}
	var reads atomic.Int64
	good := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { reads.Add(1); text(w, running(2)) }))
	defer good.Close()
	dead := "http://" + play.Nobody(t) + "/metrics"
	var sink sinkLog
	c := clock.New()
	s := newScraper(t, Config{Clock: c, Sink: &sink, Every: 50 * time.Millisecond, Timeout: time.Minute, Targets: []Target{
		{URL: good.URL + "/metrics"},
		{URL: dead},
		{URL: raw(func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })},
		{URL: raw(func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-x\r\n"); _ = c.Close() })},
		{URL: raw(func(c net.Conn) {
			// An answer to a request: one that comes before it is another kind of fault.
			if _, err := c.Read(make([]byte, 4096)); err != nil {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
			for {
				if _, err := io.WriteString(c, "# and so on and so on and so on\n"); err != nil {
					return
				}
				time.Sleep(5 * time.Millisecond) // real time: a server that drips
			}
		})},
	}})
	s.Start(t.Context())
	began := time.Now()
	for reads.Load() < 10 {
		if time.Since(began) > 30*time.Second {
			t.Fatalf("%d readings in %v", reads.Load(), time.Since(began))
		}
		time.Sleep(5 * time.Millisecond) // real time: sockets
	}
	began = time.Now()
	s.Close()
	if took := time.Since(began); took > 30*time.Second { // half of what a reading may take
		t.Errorf("Close took %v", took)
	}
	info := s.Info()
	if info[0].State != StateOK || info[0].Scrapes < 9 {
		t.Errorf("%+v", info[0])
	}
	if info[1].State != StateError || info[1].Why != "nobody listens there" {
		t.Errorf("%+v", info[1])
	}
	if info[3].State != StateError || info[3].Scrapes != 0 {
		t.Errorf("%+v", info[3])
	}
	for _, i := range []int{2, 4} {
		if info[i].State != StateUnread || info[i].Scrapes != 0 {
			t.Errorf("%+v", info[i])
		}
	}
	for _, a := range sink.of(0, "requests_running", "*") {
		if a.Start < 0 || a.End < a.Start || a.Value != 2 {
			t.Errorf("%v", a)
		}
	}
}
