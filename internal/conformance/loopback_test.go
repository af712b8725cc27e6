package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/publicnet"
)

// loopback is an Internet of servers on this machine: public names, real
// sockets on 127.0.0.1 and a certificate authority of the test. It lies below
// publicnet, whose checks all see a public name, a public address and port 443.
type loopback struct {
	roots *x509.CertPool
	cert  *x509.Certificate
	key   *ecdsa.PrivateKey
	own   netip.AddrPort // the listener of this process

	mu       sync.Mutex
	hosts    map[string]host
	handlers map[string]http.Handler
}

// host is where a name leads: the address that publicnet judges, and what is
// dialled for it.
type host struct {
	public netip.Addr
	real   netip.AddrPort
}

func newLoopback(t *testing.T) *loopback {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Authority of a test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	n := &loopback{roots: x509.NewCertPool(), key: key, hosts: map[string]host{}, handlers: map[string]http.Handler{}}
	if n.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	n.roots.AddCert(n.cert)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n.own = l.Addr().(*net.TCPAddr).AddrPort()
	server := &http.Server{
		Handler: n, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) { return n.certificate(hello.ServerName) }},
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.ServeTLS(l, "", "")
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return n
}

// certificate is one for a name.
func (n *loopback) certificate(name string) (*tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{name},
		NotBefore: n.cert.NotBefore, NotAfter: n.cert.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, n.cert, &n.key.PublicKey, n.key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: n.key}, nil
}

// pems is a certificate for a name, its key, and the authority behind it.
func (n *loopback) pems(t *testing.T, name string) (cert, key, authority string) {
	t.Helper()
	c, err := n.certificate(name)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(n.key)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return text("CERTIFICATE", c.Certificate[0]), text("PRIVATE KEY", der), text("CERTIFICATE", n.cert.Raw)
}

// place makes a name lead to a port of this machine.
func (n *loopback) place(name string, port uint16) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[name] = host{
		public: netip.AddrFrom4([4]byte{93, 184, 1, byte(len(n.hosts) + 1)}),
		real:   netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port),
	}
}

// serve makes a name lead to a handler.
func (n *loopback) serve(name string, h http.Handler) {
	n.place(name, n.own.Port())
	n.mu.Lock()
	defer n.mu.Unlock()
	n.handlers[name] = h
}

func (n *loopback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	h := n.handlers[r.Host]
	n.mu.Unlock()
	if h == nil {
		h = http.NotFoundHandler()
	}
	h.ServeHTTP(w, r)
}

// LookupNetIP is the resolver below publicnet.
func (n *loopback) LookupNetIP(_ context.Context, _, name string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h, ok := n.hosts[strings.TrimSuffix(name, ".")]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return []netip.Addr{h.public}, nil
}

// dial is the dialer below publicnet.
func (n *loopback) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, h := range n.hosts {
		if h.public == at.Addr() && at.Port() == 443 {
			return new(net.Dialer).DialContext(ctx, "tcp4", h.real.String())
		}
	}
	return nil, fmt.Errorf("nobody is at %s", addr)
}

// network is the product's way to these servers.
func (n *loopback) network(t *testing.T) *publicnet.Network {
	t.Helper()
	network, err := publicnet.New(&publicnet.Options{
		UserAgent: "openbot-conformance/1.0",
		Below:     publicnet.Below{Resolver: n, Dial: n.dial, Roots: n.roots},
	})
	if err != nil {
		t.Fatal(err)
	}
	return network
}

// browser is the user's: it keeps cookies, and does not follow redirects by
// itself.
func (n *loopback) browser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: n.roots},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			name, port, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			at, err := n.LookupNetIP(ctx, "ip4", name)
			if err != nil {
				return nil, err
			}
			return n.dial(ctx, network, net.JoinHostPort(at[0].String(), port))
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport: transport, Jar: jar, Timeout: 10 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
