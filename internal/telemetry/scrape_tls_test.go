package telemetry

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/clock"
)

// TestTLS reads over TLS: with the CA, with a client's certificate, without checking, and not with the system's roots.
func TestTLS(t *testing.T) {
	fake(t, func(t *testing.T, hosts *servers, c *clock.Clock) {
		server, client := certificate(t, "host"), certificate(t, "client")
		pool, roots := x509.NewCertPool(), x509.NewCertPool()
		pool.AddCert(client.Leaf)
		roots.AddCert(server.Leaf)
		hosts.serve(tls.NewListener(hosts.listen("host:443"), &tls.Config{
			Certificates: []tls.Certificate{server}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
		}), func(w http.ResponseWriter, _ *http.Request) { text(w, running(2)) })
		dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
			sleep(c, time.Duration(c.Now())+3*ms) // the way there
			return hosts.Dial(ctx, network, addr)
		}
		var sink sinkLog
		const url = "https://host/metrics"
		s := newScraper(t, Config{Clock: c, Sink: &sink, Dial: dial, Targets: []Target{
			{URL: url, TLS: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{client}}},
			{URL: url, TLS: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{client}}},
			{URL: url},
			{URL: url, TLS: &tls.Config{RootCAs: roots}},
		}})
		s.Baseline(t.Context())
		info := s.Info()
		for i := range 2 {
			if got := sink.of(i, "requests_running", "*"); len(got) != 1 || got[0] != (at{3 * ms, 3 * ms, 2}) || info[i].State != StateOK || info[i].RTT != int64(3*ms) {
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
	})
}

// certificate makes one of a host and of a client that is its own authority.
func certificate(t *testing.T, host string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
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

// TestAllKindsOfExporters has some that answer, refuse, hang, answer garbage and talk without end: none of them holds up
// another, and Close returns at once.
func TestAllKindsOfExporters(t *testing.T) {
	fake(t, func(t *testing.T, hosts *servers, c *clock.Clock) {
		hosts.handle("good:80", func(w http.ResponseWriter, _ *http.Request) { text(w, running(2)) })
		hosts.accept("silent:80", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
		hosts.accept("ssh:22", func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-x\r\n"); _ = c.Close() })
		hosts.accept("endless:80", func(conn net.Conn) {
			// An answer to a request: one that comes before it is another kind of fault.
			if _, err := conn.Read(make([]byte, 4096)); err != nil {
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
			for {
				if _, err := io.WriteString(conn, "# and so on and so on and so on\n"); err != nil {
					return
				}
				sleep(c, time.Duration(c.Now())+5*ms)
			}
		})
		var sink sinkLog
		s := newScraper(t, Config{Clock: c, Sink: &sink, Dial: hosts.Dial, Every: 50 * ms, Targets: []Target{
			{URL: "http://good/metrics"}, {URL: "http://dead/metrics"}, {URL: "http://silent/metrics"}, {URL: "http://ssh:22/metrics"}, {URL: "http://endless/metrics"},
		}})
		s.Start(t.Context())
		sleep(c, 530*ms)
		s.Close()
		if now := time.Duration(c.Now()); now != 530*ms {
			t.Errorf("Close waited until %v", now)
		}
		var want []at
		for i := range 10 {
			g := time.Duration(i+1) * 50 * ms
			want = append(want, at{g, g, 2})
		}
		if diff := cmp.Diff(want, sink.of(0, "requests_running", "*")); diff != "" {
			t.Errorf("good (-want +got):\n%s", diff)
		}
		info := s.Info()
		if info[0].State != StateOK || info[0].Scrapes != 10 || info[0].Failures != 0 {
			t.Errorf("good: %+v", info[0])
		}
		if info[1].State != StateError || info[1].Why != "nobody listens there" || info[1].Failures != 10 {
			t.Errorf("dead: %+v", info[1])
		}
		if info[3].State != StateError || info[3].Scrapes != 0 || info[3].Failures != 10 {
			t.Errorf("ssh: %+v", info[3])
		}
		for _, i := range []int{2, 4} {
			if info[i].State != StateUnread || info[i].Scrapes+info[i].Failures != 0 {
				t.Errorf("never read: %+v", info[i])
			}
		}
	})
}
