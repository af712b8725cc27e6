package publishercmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// checkAddr refuses a value of flag that is no address to listen on.
func checkAddr(flag, addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return badCallf("%s %s: write ADDR:PORT, for instance 127.0.0.1:8080; a port is a number up to 65535", flag, addr)
	}
	return nil
}

// listen opens a listener at the address that flag names.
func listen(ctx context.Context, flag, addr string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err == nil {
		return l, nil
	}
	var reason string
	_, wrongName := errors.AsType[*net.DNSError](err)
	_, wrongAddr := errors.AsType[*net.AddrError](err)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		reason = "another program uses this port; give another one"
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		reason = "this program may not use this port (those under 1024 need rights); give a higher one, or the right to bind it"
	case errors.Is(err, syscall.EADDRNOTAVAIL), wrongName, wrongAddr:
		reason = "this machine has no such address"
	default:
		if op, ok := errors.AsType[*net.OpError](err); ok {
			err = op.Err
		}
		return nil, fmt.Errorf("%s %s: %w", flag, addr, err)
	}
	return nil, fmt.Errorf("%s %s: %s", flag, addr, reason)
}
