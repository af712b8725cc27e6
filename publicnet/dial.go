package publicnet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	maxDials = 4               // addresses of one name that are tried (G4)
	minDial  = 2 * time.Second // for each, if the time left allows
)

// dialTLS is connect for http.Transport.
func (n *Network) dialTLS(ctx context.Context, _, addr string) (net.Conn, error) {
	call := callFrom(ctx)
	if call == nil {
		return nil, errors.New("dial without a request")
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	secure, _, err := n.connect(call, host, port)
	if err != nil {
		return nil, err // not a nil *tls.Conn in an interface
	}
	return secure, nil
}

// connect looks a name up, checks every address, connects to one of the
// checked addresses and makes the TLS connection. There is no second lookup
// that could answer otherwise (G4). An empty port is 443.
//
// It ends with its request, although http.Transport would let a dial outlive
// the request that asked for it: a silent address must not hold its place.
func (n *Network) connect(call *call, host, portText string) (*tls.Conn, *placedConn, error) {
	ctx, port := call.ctx, uint16(443)
	if portText != "" {
		p, err := strconv.ParseUint(portText, 10, 16)
		if err != nil {
			return nil, nil, fmt.Errorf("dial %s: %w", host, err)
		}
		port = uint16(p)
	}
	addrs, err := n.lookup(ctx, host, port)
	if err != nil {
		return nil, nil, err
	}

	var faults []error
	for i, a := range addrs {
		conn, err := n.dialOne(ctx, call, netip.AddrPortFrom(a, port), len(addrs)-i)
		if err != nil {
			if ctx.Err() != nil || !errors.Is(err, ErrConnect) {
				return nil, nil, err
			}
			faults = append(faults, err)
			continue
		}
		secure, err := n.shake(ctx, conn, host)
		if err != nil {
			return nil, nil, err
		}
		return secure, conn, nil
	}
	return nil, nil, errors.Join(faults...)
}

// shake makes a connection secure. HandshakeContext would start a goroutine to
// watch ctx; the end of ctx closes the connection all the same.
func (n *Network) shake(ctx context.Context, conn *placedConn, host string) (*tls.Conn, error) {
	config := n.tls.Clone()
	config.ServerName = host
	secure := tls.Client(conn, config)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	err := secure.HandshakeContext(context.WithoutCancel(ctx))
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("%w: %s: %w", ErrTLS, host, err)
	}
	return secure, nil
}

// lookup gives the addresses of host that may be dialled, at most maxDials. A
// name with any forbidden address has none (D12).
func (n *Network) lookup(ctx context.Context, host string, port uint16) ([]netip.Addr, error) {
	found, err := n.opts.Below.Resolver.LookupNetIP(ctx, "ip", host+".")
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDNS, host, err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: %s has no address", ErrDNS, host)
	}
	var first, second []netip.Addr // families, in the order of their first address
	for _, a := range found {
		a = a.Unmap() // Go's lookups give IPv4 in its mapped form
		if err := n.checkAddr(host, networkOf(a), netip.AddrPortFrom(a, port)); err != nil {
			return nil, err
		}
		if len(first) == 0 || first[0].Is4() == a.Is4() {
			first = append(first, a)
		} else {
			second = append(second, a)
		}
	}
	// Alternate, so that a family that does not work here cannot use up all tries.
	var addrs []netip.Addr
	for i := range max(len(first), len(second)) {
		for _, family := range [][]netip.Addr{first, second} {
			if i < len(family) && len(addrs) < maxDials && !slices.Contains(addrs, family[i]) {
				addrs = append(addrs, family[i])
			}
		}
	}
	return addrs, nil
}

// dialOne connects to a checked address. remaining counts the addresses left to
// try, this one included: a silent one may use up its share of the time only.
func (n *Network) dialOne(ctx context.Context, call *call, dest netip.AddrPort, remaining int) (*placedConn, error) {
	place, err := n.acquire(ctx, call, dest.Addr())
	if err != nil {
		return nil, err
	}
	if remaining > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(minDial, call.lap.left()/time.Duration(remaining)))
		defer cancel()
	}
	conn, err := n.dial(ctx, networkOf(dest.Addr()), dest.String())
	if err != nil {
		place.free()
		if errors.Is(err, ErrNotPublic) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %s: %w", ErrConnect, dest, err)
	}
	return &placedConn{Conn: conn, addr: dest.Addr(), place: place}, nil
}

func networkOf(a netip.Addr) string {
	if a.Is4() {
		return "tcp4"
	}
	return "tcp6"
}

// acquire asks Options.Acquire for a place, with the request's clock stopped.
func (n *Network) acquire(ctx context.Context, call *call, addr netip.Addr) (*place, error) {
	if n.opts.Acquire == nil {
		return nil, nil
	}
	call.lap.pause()
	defer call.lap.resume()
	release, err := n.opts.Acquire(ctx, addr)
	if err != nil {
		err = fmt.Errorf("wait for a place at %s: %w", addr, err)
		call.cancel(err) // it says nothing about the answer, see explain
		return nil, err
	}
	return &place{release: release}, nil
}

// place is a place at an address. Free gives it back, once; a nil place is
// none.
type place struct {
	once    sync.Once
	release func()
}

func (p *place) free() {
	if p != nil && p.release != nil {
		p.once.Do(p.release)
	}
}

// placedConn is a connection with the place of the request that it carries.
type placedConn struct {
	net.Conn
	addr  netip.Addr
	mu    sync.Mutex
	place *place
}

// hold is called when a request takes the connection. A new connection comes
// with its place; a kept one needs another.
func (c *placedConn) hold(p *place) *place {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p != nil {
		c.place = p
	}
	return c.place
}

// errCut ends a connection that the other side, or somebody between, closed
// without the leave that TLS takes (RFC 8446 section 6.1). Package tls lets that
// pass where a record ends; an answer without a length would seem whole.
var errCut = fmt.Errorf("the connection was closed below TLS: %w", io.ErrUnexpectedEOF)

func (c *placedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n == 0 && errors.Is(err, io.EOF) {
		err = errCut
	}
	return n, err
}

func (c *placedConn) Close() error {
	err := c.Conn.Close()
	c.hold(nil).free()
	return err
}
