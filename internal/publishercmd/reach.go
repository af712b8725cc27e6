package publishercmd

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publicnet"
)

// userAgent names the tool. A check is a person's own look at one address and
// no crawling (D13).
const userAgent = "OpenBot-publisher-check/1"

// client reaches the public Internet and, with --connect-to, one name at an
// address of the caller's.
func (c *checkCommand) client(env *Env) (*http.Client, error) {
	world, err := publicnet.New(&publicnet.Options{UserAgent: userAgent, Below: env.Below})
	if err != nil {
		return nil, err
	}
	if c.ConnectTo == "" {
		return world.Client(), nil
	}
	one, err := parseConnectTo(c.ConnectTo)
	if err != nil {
		return nil, err
	}
	below := publicnet.Below{Resolver: one, Dial: one.dial, Roots: env.Below.Roots}
	if c.CA != "" {
		pem, err := readLimited(c.CA, maxDocument)
		if err != nil {
			return nil, fileError("--ca", c.CA, err)
		}
		below.Roots = x509.NewCertPool()
		if !below.Roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--ca %s: holds no certificate in PEM", c.CA)
		}
	}
	near, err := publicnet.New(&publicnet.Options{UserAgent: userAgent, Ports: []int{one.port}, Below: below})
	if err != nil {
		return nil, err
	}
	client, nearClient := world.Client(), near.Client()
	client.Transport = &split{one: one, near: nearClient.Transport, far: client.Transport}
	return client, nil
}

// standIn is what the name resolves to on its way through the address check.
// It is a public address that nothing else uses; the dialer below the check
// replaces it with the caller's.
var standIn = netip.MustParseAddr("2a14:7c00:6f70:656e:626f:7400:0:1")

// nearby is one name that is reached at an address of the caller's choice.
type nearby struct {
	host   string
	port   int
	target string // host:port to dial
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
func (n *nearby) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if strings.TrimSuffix(host, ".") != n.host {
		return nil, errors.New("not the name of --connect-to") // cannot happen: split sends only that name here
	}
	return []netip.Addr{standIn}, nil
}

func (n *nearby) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", n.target)
}

// split sends requests for the one name near, and all others far.
type split struct {
	one       *nearby
	used      atomic.Bool // the one name was asked
	near, far http.RoundTripper
}

func (s *split) RoundTrip(r *http.Request) (*http.Response, error) {
	port := r.URL.Port()
	if port == "" {
		port = "443"
	}
	if strings.EqualFold(strings.TrimSuffix(r.URL.Hostname(), "."), s.one.host) && port == strconv.Itoa(s.one.port) {
		s.used.Store(true)
		return s.near.RoundTrip(r)
	}
	return s.far.RoundTrip(r)
}

// CloseIdleConnections is found by http.Client.
func (s *split) CloseIdleConnections() {
	for _, t := range []http.RoundTripper{s.near, s.far} {
		if c, ok := t.(interface{ CloseIdleConnections() }); ok {
			c.CloseIdleConnections()
		}
	}
}
