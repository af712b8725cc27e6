package publicnet

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"

	"code.dny.dev/ssrf"
	"golang.org/x/net/publicsuffix"

	"github.com/openbot-build/openbot-go/internal/weburl"
)

// AddrError is an address, a name or a port that is never contacted. It wraps
// ErrNotPublic.
type AddrError struct {
	Host   string     // name as looked up, without trailing dot
	Addr   netip.Addr // the address that was refused; zero when name or port was
	Reason string     // a clause that goes on from the host, with what to do
	cause  error
}

func (e *AddrError) Error() string { return e.Host + " " + e.Reason }

// Unwrap gives ErrNotPublic and the guard's own error.
func (e *AddrError) Unwrap() []error {
	if e.cause == nil {
		return []error{ErrNotPublic}
	}
	return []error{ErrNotPublic, e.cause}
}

// azureHost is the address of Azure's virtual public IP for its platform: a
// metadata service behind an address that looks public.
var azureHost = netip.MustParsePrefix("168.63.129.16/32")

func newGuardian(ports []uint16, deny []netip.Prefix) *ssrf.Guardian {
	deny4, deny6 := []netip.Prefix{azureHost}, []netip.Prefix(nil)
	for _, prefix := range deny {
		if prefix.Addr().Is4() {
			deny4 = append(deny4, prefix)
		} else {
			deny6 = append(deny6, prefix)
		}
	}
	return ssrf.New(ssrf.WithPorts(ports...), ssrf.WithDeniedV4Prefixes(deny4...), ssrf.WithDeniedV6Prefixes(deny6...))
}

var defaultGuardian = sync.OnceValue(func() *ssrf.Guardian { return newGuardian([]uint16{443}, nil) })

// IsPublic reports whether an address may be dialled by default. IPv4 inside
// IPv6 ("::ffff:1.1.1.1") and addresses with a zone may not; unmap an address
// first if it came from a lookup.
func IsPublic(a netip.Addr) bool {
	return a.IsValid() && a.Zone() == "" && defaultGuardian().SafeAddr(a) == nil
}

// CheckURL applies the rules that need no network (G1, G2): form, scheme,
// port, and names that no public host has. The error wraps ErrNotPublic (an
// *AddrError), or is a *weburl.Error when the address has no usable form.
func (n *Network) CheckURL(url string) error {
	u, err := weburl.Parse(url)
	if err != nil {
		return err
	}
	return n.checkHost(u)
}

func (n *Network) checkHost(u weburl.URL) error {
	if reason := hostReason(u.Host()); reason != "" {
		return &AddrError{Host: u.Host(), Reason: reason}
	}
	if !slices.Contains(n.ports, uint16(u.Port())) {
		return &AddrError{Host: u.Host(), Reason: fmt.Sprintf("is asked for on port %d; only these ports are contacted: %s", u.Port(), joinPorts(n.ports))}
	}
	return nil
}

func joinPorts(ports []uint16) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ports), " ", ", "), "[]")
}

// specialNames are top-level names that are never delegated, and home.arpa:
// RFC 6761, 6762, 7686, 8375, 9476, and ICANN's reservation of "internal".
var specialNames = []string{"localhost", "local", "internal", "home.arpa", "onion", "alt", "test", "invalid", "example"}

// hostReason tells why no public host can have this ASCII name, or nothing.
func hostReason(host string) string {
	for _, special := range specialNames {
		if host == special || strings.HasSuffix(host, special) && host[len(host)-len(special)-1] == '.' {
			return "is under ." + special + ", which never names a public host; use a public domain name"
		}
	}
	if strings.IndexByte(host, '.') < 0 {
		return "is a single word; a full domain name such as apps.example.com is needed"
	}
	suffix, icann := publicsuffix.PublicSuffix(host)
	if !icann && strings.IndexByte(suffix, '.') < 0 {
		return "is under ." + suffix + ", which is no top-level domain of the public Internet"
	}
	if suffix == host {
		return "is a public suffix, under which others register names, and no host of its own"
	}
	return ""
}

// RegistrableDomain is the public suffix and one label of an ASCII host,
// private section of the list included ("a.github.io" is one). For a host that
// is itself a public suffix it is the host.
func RegistrableDomain(host string) string {
	domain, err := publicsuffix.EffectiveTLDPlusOne(host)
	if err != nil {
		return host
	}
	return domain
}

// control is the second check, at the socket itself.
func (n *Network) control(network, address string, _ syscall.RawConn) error {
	dest, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotPublic, err)
	}
	return n.checkAddr(address, network, dest)
}

// checkAddr is the judgement of one address and port (G5).
func (n *Network) checkAddr(host, network string, dest netip.AddrPort) error {
	addr := dest.Addr()
	if addr.Zone() != "" {
		return &AddrError{Host: host, Addr: addr, Reason: "points to " + addr.String() + ", an address of a local network interface"}
	}
	judged := dest
	for _, prefix := range n.opts.NAT64 {
		if network == "tcp6" && prefix.Contains(addr) {
			all := addr.As16()
			judged = netip.AddrPortFrom(netip.AddrFrom4([4]byte(all[12:])), dest.Port())
			network = "tcp4"
			break
		}
	}
	if err := n.guard.Safe(network, judged.String(), nil); err != nil {
		reason := fmt.Sprintf("points to %s, %s; only addresses of the public Internet are contacted", addr, kindOf(judged.Addr()))
		return &AddrError{Host: host, Addr: addr, Reason: reason, cause: err}
	}
	return nil
}

// kindOf names a refused address for people.
func kindOf(a netip.Addr) string {
	switch {
	case a.IsLoopback():
		return "the machine itself"
	case a.IsPrivate():
		return "an address of a private network"
	case a.IsLinkLocalUnicast():
		return "an address of the local link, where cloud metadata services are"
	case a.IsMulticast():
		return "a multicast address"
	case a.Is4In6():
		return "an IPv4 address inside IPv6"
	default:
		return "an address set aside for special purposes"
	}
}
