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
	"math/big"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/publicnet"
)

// network makes the demo's sites look like hosts of the public Internet to
// whatever runs on top of it: names resolve to public addresses, and what is
// dialled there ends at a listener on loopback. It lies below the address
// guard, which stays as it is.
type network struct {
	authority *x509.Certificate
	key       *ecdsa.PrivateKey
	addrs     map[string]netip.Addr // host -> what its name resolves to
	ports     map[string]string     // "address:443" -> loopback listener
}

func newNetwork() (*network, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "OpenBot demo authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	authority, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &network{authority: authority, key: key, addrs: map[string]netip.Addr{}, ports: map[string]string{}}, nil
}

// listen opens a TLS listener on loopback that answers for host.
func (n *network) listen(host string) (net.Listener, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(int64(2 + len(n.addrs))), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, n.authority, &key.PublicKey, n.key)
	if err != nil {
		return nil, err
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"h2", "http/1.1"},
		Certificates: []tls.Certificate{{Certificate: [][]byte{der, n.authority.Raw}, PrivateKey: key}},
	})
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", host, err)
	}
	// Addresses that the guard takes for public; nothing is ever sent to them.
	addr := netip.AddrFrom4([4]byte{93, 184, 216, byte(10 + len(n.addrs))})
	n.addrs[host] = addr
	n.ports[netip.AddrPortFrom(addr, 443).String()] = l.Addr().String()
	return l, nil
}

// below is what goes under the guard of publicnet.
func (n *network) below() publicnet.Below {
	roots := x509.NewCertPool()
	roots.AddCert(n.authority)
	return publicnet.Below{Resolver: n, Dial: n.dial, Roots: roots}
}

// LookupNetIP knows the demo's hosts and nothing else.
func (n *network) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	addr, ok := n.addrs[strings.TrimSuffix(host, ".")]
	if !ok {
		return nil, &net.DNSError{Err: "no such host in the demo", Name: host, IsNotFound: true}
	}
	return []netip.Addr{addr}, nil
}

func (n *network) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	port, ok := n.ports[addr]
	if !ok {
		return nil, fmt.Errorf("nothing listens at %s in the demo", addr)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", port)
}

// rootPEM is the authority's certificate, for curl --cacert.
func (n *network) rootPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: n.authority.Raw})
}
