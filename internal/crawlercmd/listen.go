package crawlercmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// bound are the listeners of a process. They are bound before a database is
// made or opened, so that a wrong address leaves nothing behind.
type bound struct {
	index   net.Listener
	metrics net.Listener // nil without --metrics
}

func (b *bound) close() {
	_ = b.index.Close() // closed already when it was served
	if b.metrics != nil {
		_ = b.metrics.Close()
	}
}

// checkAddrs refuses addresses that no listener can have.
func (f *nodeFlags) checkAddrs() error {
	if err := checkAddr("--listen", f.Listen); err != nil {
		return err
	}
	if f.Metrics == "" {
		return nil
	}
	return checkAddr("--metrics", f.Metrics)
}

// bind binds the addresses. One that is in use, or not for this user, is the
// machine's fault and not the command line's.
func (f *nodeFlags) bind(ctx context.Context) (*bound, error) {
	var b bound
	var err error
	if b.index, err = listen(ctx, f.Listen, "--listen"); err != nil {
		return nil, err
	}
	if f.Metrics != "" {
		if b.metrics, err = listen(ctx, loopback(f.Metrics), "--metrics"); err != nil {
			b.close()
			return nil, err
		}
	}
	return &b, nil
}

func checkAddr(flag, addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return badCallf("%s %s: write ADDRESS:PORT, for instance 127.0.0.1:8080", flag, addr)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return badCallf("%s %s: the port is a number from 0 to 65535", flag, addr)
	}
	return nil
}

func listen(ctx context.Context, addr, flag string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err == nil {
		return l, nil
	}
	return nil, listenFault(flag, addr, err)
}

func listenFault(flag, addr string, err error) error {
	at := flag + " " + addr + ": "
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return &faultText{at + "another program uses this port; give another one", err}
	case errors.Is(err, os.ErrPermission):
		return &faultText{at + "this user may not use the port; give one above 1023, or the right to use it (on Linux CAP_NET_BIND_SERVICE)", err}
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return &faultText{at + "this machine does not have that address; give one of its own, or 127.0.0.1", err}
	}
	if name, ok := errors.AsType[*net.DNSError](err); ok {
		return &faultText{at + "the name " + name.Name + " cannot be looked up; give an IP address of this machine, for instance 127.0.0.1", err}
	}
	cause := err
	if op, ok := errors.AsType[*net.OpError](err); ok {
		cause = op.Err // without the address, which is said
	}
	return fmt.Errorf("%s%w", at, cause)
}

// loopback completes an address without a host.
func loopback(addr string) string {
	if strings.HasPrefix(addr, ":") {
		return "127.0.0.1" + addr
	}
	return addr
}

// webAddr is where a person on this machine finds what listens at addr.
func webAddr(addr net.Addr) string {
	at, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return "http://" + addr.String() + "/"
	}
	if at.Addr().IsUnspecified() {
		at = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port())
	}
	return "http://" + at.String() + "/"
}

// openTo says who can reach addr, for the log.
func openTo(addr net.Addr) string {
	at, err := netip.ParseAddrPort(addr.String())
	switch {
	case err != nil:
		return addr.String()
	case at.Addr().IsLoopback():
		return "this machine"
	case at.Addr().IsUnspecified():
		return "all interfaces"
	}
	return at.Addr().String()
}

// checkPorts refuses what is no port.
func checkPorts(ports []int) error {
	for _, p := range ports {
		if p < 1 || p > 65535 {
			return badCallf("--ports %d: give port numbers from 1 to 65535", p)
		}
	}
	return nil
}
