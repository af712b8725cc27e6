package crawlercmd

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publicnet"
)

// reachFlags let a publisher see what a crawl will make of an app that is not
// deployed yet. They work below the guard, for one name.
type reachFlags struct {
	ConnectTo string `name:"connect-to" placeholder:"HOST:443:ADDR:PORT" help:"Reach HOST at ADDR:PORT, for an app that is not deployed yet. All other names are reached as usual."`
	CA        string `name:"ca" placeholder:"FILE" help:"Certificate authority in PEM that signed HOST's certificate. It counts for HOST only."`
}

const maxCA = 1 << 20

// network gives below, or what --connect-to and --ca make of it.
func (f *reachFlags) network(below publicnet.Below) (*publicnet.Options, error) {
	opts := &publicnet.Options{Below: below}
	if f.ConnectTo == "" {
		if f.CA != "" {
			return nil, badCallf("--ca needs --connect-to: it counts for that one name only")
		}
		return opts, nil
	}
	one, err := parseConnectTo(f.ConnectTo)
	if err != nil {
		return nil, err
	}
	one.below = below
	if one.below.Resolver == nil {
		one.below.Resolver = &net.Resolver{PreferGo: true}
	}
	if one.below.Dial == nil {
		one.below.Dial = new(net.Dialer).DialContext
	}
	opts.Below.Resolver, opts.Below.Dial = one, one.dial
	if one.port != 443 {
		opts.Ports = []int{one.port}
	}
	if f.CA != "" {
		if opts.Below.Roots, err = one.roots(f.CA); err != nil {
			return nil, err
		}
	}
	return opts, nil
}

// standIn is what the name resolves to on its way through the address check.
// It is a public address that nothing else uses; dial replaces it.
var standIn = netip.MustParseAddr("2a14:7c00:6f70:656e:626f:7400:0:1")

// nearby is one name that is reached at an address of the caller's choice.
type nearby struct {
	host   string
	port   int
	target string          // host:port to dial
	below  publicnet.Below // how all other names are reached
}

func parseConnectTo(s string) (*nearby, error) {
	bad := badCallf("--connect-to %s: write HOST:PORT:ADDR:PORT, for instance apps.example.com:443:127.0.0.1:8443", s)
	host, rest, _ := strings.Cut(s, ":")
	port, target, ok := strings.Cut(rest, ":")
	n, err := strconv.ParseUint(port, 10, 16)
	if !ok || err != nil || n == 0 {
		return nil, bad
	}
	name, ok := weburl.Domain(host)
	if !ok {
		return nil, bad
	}
	if h, p, err := net.SplitHostPort(target); err != nil || h == "" || p == "" {
		return nil, bad
	}
	return &nearby{host: name, port: int(n), target: target}, nil
}

// LookupNetIP implements publicnet.Resolver.
func (n *nearby) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if strings.TrimSuffix(host, ".") == n.host {
		return []netip.Addr{standIn}, nil
	}
	return n.below.Resolver.LookupNetIP(ctx, network, host)
}

// dial gets addresses that the guard has let through.
func (n *nearby) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(addr)
	switch near := err == nil && to.Addr() == standIn; {
	case near && int(to.Port()) == n.port:
		return new(net.Dialer).DialContext(ctx, "tcp", n.target)
	case near:
		return nil, errors.New("--connect-to names another port")
	case err == nil && to.Port() != 443:
		return nil, errors.New("the port of --connect-to is open for its own name only")
	}
	return n.below.Dial(ctx, network, addr)
}

// roots are the usual ones, and those of a file for certificates of the name.
func (n *nearby) roots(file string) (*x509.CertPool, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, badCallf("--ca %s: %v", file, cause(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxCA))
	if err != nil {
		return nil, badCallf("--ca %s: %v", file, cause(err))
	}
	pool := n.below.Roots
	if pool != nil {
		pool = pool.Clone()
	} else if pool, err = x509.SystemCertPool(); err != nil {
		return nil, fmt.Errorf("read the certificate authorities of this system: %w", err)
	}
	found := false
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			found = true
			pool.AddCertWithConstraint(cert, func(chain []*x509.Certificate) error {
				return chain[0].VerifyHostname(n.host)
			})
		}
	}
	if !found {
		return nil, badCallf("--ca %s: it holds no certificate in PEM", file)
	}
	return pool, nil
}

// cause is an error of the file system without the name of the file.
func cause(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}
