// Package publicnet gives an HTTP client for the public Internet only. Every
// address is checked when it is dialled, on every hop and retry; size, time
// and redirects are limited; no proxy, cookie or Referer is ever used. No
// switch turns the guard off: tests put a resolver, a dialer and root
// certificates below it.
//
// Make one [Network] for a program and one client from it for each visit:
//
//	network, err := publicnet.New(&publicnet.Options{UserAgent: "Example/1.0 (+https://example.com/bot)"})
//	client := network.Client()
//	defer client.CloseIdleConnections()
//	resp, err := client.Get("https://example.org/")
//
// The rules are those of D12: https on port 443 unless Options.Ports says
// more, TLS 1.2 or later and always verified, HTTP/1.1, one MiB of decoded
// body, ten seconds from before the name lookup to the last octet, five
// redirects.
package publicnet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"code.dny.dev/ssrf"
)

// Limits of a client that sets none (D12).
const (
	DefaultMaxBytes     = 1 << 20
	DefaultTimeout      = 10 * time.Second
	DefaultMaxRedirects = 5
)

// Conditions that a caller acts on. Every error of a client's request that is
// one of these is found with errors.Is; the cause stays in the chain.
var (
	ErrNotPublic        = errors.New("address is not on the public Internet")
	ErrTooLarge         = errors.New("answer is too large")
	ErrTooManyRedirects = errors.New("too many redirects")
	ErrBadAnswer        = errors.New("answer breaks the rules of HTTP") // encoding not offered, data after gzip, body cut off, 206 or 304 unasked, ...
	ErrDNS              = errors.New("name cannot be resolved")
	ErrConnect          = errors.New("cannot connect") // or the connection broke
	ErrTLS              = errors.New("secure connection failed")
	ErrTimeout          = errors.New("took too long")
)

// Resolver looks a name up. Names are absolute (they end in a dot).
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Below is what lies under the guard. The zero value is the real network.
type Below struct {
	// Resolver answers lookups. Nil is Go's own resolver, which reads
	// resolv.conf and never the C library.
	Resolver Resolver
	// Dial connects to an address that has been checked: network is "tcp4" or
	// "tcp6", addr an IP address and port. Nil is net.Dialer, which checks the
	// address once more at the socket.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Roots are the certificate authorities. Nil are those of the system.
	Roots *x509.CertPool
}

// Options configure a Network. UserAgent is required.
type Options struct {
	UserAgent    string
	From         string         // a mailbox for the From header; none when empty
	Ports        []int          // ports besides 443 that may be dialled
	MaxBytes     int64          // decoded bytes of one answer; 0 is DefaultMaxBytes
	Timeout      time.Duration  // of a request with all its redirects, see Limits; 0 is DefaultTimeout
	MaxRedirects int            // of a plain client; 0 is DefaultMaxRedirects
	Deny         []netip.Prefix // more prefixes that are never dialled, for instance the operator's own
	// NAT64 are the /96 prefixes (RFC 6052) through which this machine reaches
	// IPv4. An address in one of them is judged by the IPv4 address inside it.
	// Without a prefix here such addresses are refused (OB-152).
	NAT64 []netip.Prefix
	// Acquire, when set, is asked for a place at an address: before the address
	// is dialled, and before a kept connection to it carries one more request.
	// It may wait; that time does not count against Timeout. release is called
	// exactly once, when the request that needed the place has ended (its body
	// read to the end or closed) or the connection has closed. An error ends
	// the request and is found in its error with errors.Is.
	//
	// It is where a crawler limits the requests at a time per address.
	Acquire func(ctx context.Context, addr netip.Addr) (release func(), err error)
	Below   Below
}

// Network is a checked way to the public Internet, made once. It is safe for
// use by several goroutines.
type Network struct {
	opts  Options
	ports []uint16 // with 443
	guard *ssrf.Guardian
	tls   *tls.Config
	dial  func(ctx context.Context, network, addr string) (net.Conn, error)
}

// New checks opts and gives a Network. It does no I/O.
func New(opts *Options) (*Network, error) {
	if opts == nil {
		return nil, errors.New("make network: options are required: UserAgent names who asks")
	}
	n := &Network{opts: *opts, ports: []uint16{443}}
	o := &n.opts
	if strings.TrimSpace(o.UserAgent) == "" {
		return nil, errors.New("make network: UserAgent is empty; say who asks and where to read about it")
	}
	if !isHeaderText(o.UserAgent) || !isHeaderText(o.From) {
		return nil, errors.New("make network: UserAgent and From must be printable ASCII on one line")
	}
	for _, port := range o.Ports {
		if port < 1 || port > 65535 {
			return nil, fmt.Errorf("make network: port %d is not between 1 and 65535", port)
		}
		n.ports = append(n.ports, uint16(port))
	}
	if o.MaxBytes < 0 || o.Timeout < 0 || o.MaxRedirects < 0 {
		return nil, errors.New("make network: MaxBytes, Timeout and MaxRedirects must not be negative")
	}
	for _, prefix := range o.NAT64 {
		if prefix.Bits() != 96 || !prefix.Addr().Is6() || prefix.Addr().Is4In6() {
			return nil, fmt.Errorf("make network: NAT64 prefix %s is no IPv6 prefix of 96 bits", prefix)
		}
	}
	for _, prefix := range o.Deny {
		if !prefix.IsValid() {
			return nil, errors.New("make network: a prefix in Deny is not valid")
		}
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MaxRedirects == 0 {
		o.MaxRedirects = DefaultMaxRedirects
	}
	if o.Below.Resolver == nil {
		o.Below.Resolver = realResolver()
	}
	o.Ports = nil // n.ports from here on
	o.Deny = slices.Clone(o.Deny)
	o.NAT64 = slices.Clone(o.NAT64)
	n.guard = newGuardian(n.ports, o.Deny)
	n.tls = &tls.Config{
		MinVersion: tls.VersionTLS12,
		RootCAs:    o.Below.Roots,
		NextProtos: []string{"http/1.1"},
	}
	n.dial = o.Below.Dial
	if n.dial == nil {
		n.dial = (&net.Dialer{Control: n.control}).DialContext
	}
	return n, nil
}

// Client gives a client with connections of its own. It follows redirects
// within the limits, checking every hop; the package that reads documents
// follows them by hand instead. Close its idle connections when done.
//
// A client is cheap: certificates, guard and resolver are shared. Its time
// limit is kept by its transport over all hops and covers reading the body, so
// the Timeout field stays zero.
func (n *Network) Client() *http.Client {
	return &http.Client{CheckRedirect: n.checkRedirect, Transport: &transport{network: n}}
}

func (n *Network) newTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		// Proxy stays nil: the environment does not decide where we go.
		DialContext:            refusePlain,
		DialTLSContext:         n.dialTLS,
		Protocols:              protocols,
		DisableCompression:     true, // decoded in body.go, against the limits
		MaxResponseHeaderBytes: maxHeader,
		MaxIdleConnsPerHost:    1,
		IdleConnTimeout:        idleTime,
	}
}

// realResolver never asks the C library, whose getaddrinfo takes "0x7f.1" for
// an address (crawler G3).
func realResolver() *net.Resolver { return &net.Resolver{PreferGo: true} }

// refusePlain is for connections without TLS. None is ever asked for: the
// transport refuses other schemes before.
func refusePlain(context.Context, string, string) (net.Conn, error) {
	return nil, fmt.Errorf("%w: connections without TLS are not made", ErrNotPublic)
}

func isHeaderText(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
