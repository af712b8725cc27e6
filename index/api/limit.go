package api

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Default rates a minute (IX-63, OB-143).
const (
	defaultSearch = 120
	defaultRead   = 600
	defaultSubmit = 10
)

// maxClients bounds the memory of one limiter: of so many clients, and as many
// of the time before, it knows what they did.
const maxClients = 1 << 14

func rateOr(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// limits are the limiters of one node.
type limits struct{ search, read, submit *limiter }

func newLimits(r Rates) limits {
	return limits{
		search: newLimiter(rateOr(r.Search, defaultSearch)),
		read:   newLimiter(rateOr(r.Read, defaultRead)),
		submit: newLimiter(rateOr(r.Submit, defaultSubmit)),
	}
}

// limiter counts requests by key: n at once, and n a minute.
type limiter struct {
	n int // negative: no limit

	mu       sync.Mutex
	now, old map[string]*rate.Limiter
}

func newLimiter(n int) *limiter { return &limiter{n: n, now: make(map[string]*rate.Limiter)} }

// take takes one token, or says how long to wait for it. The reservation, nil
// without a limit, can be given back.
func (l *limiter) take(key string, at time.Time) (*rate.Reservation, time.Duration) {
	if l.n < 0 {
		return nil, 0
	}
	r := l.of(key).ReserveN(at, 1)
	if wait := r.DelayFrom(at); wait > 0 {
		r.CancelAt(at)
		return nil, wait
	}
	return r, 0
}

func (l *limiter) of(key string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one, ok := l.now[key]; ok {
		return one
	}
	one, ok := l.old[key]
	if !ok {
		one = rate.NewLimiter(rate.Limit(l.n)/60, l.n)
	}
	if len(l.now) >= maxClients {
		l.old, l.now = l.now, make(map[string]*rate.Limiter)
	}
	l.now[key] = one
	return one
}

// client gives the prefix by which a client is counted: its IPv4 address or
// the /64 of its IPv6 address. A forwarded address counts only as far as it was
// written by trusted proxies.
func client(r *http.Request, trusted []netip.Prefix) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return "unknown"
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && isTrusted(addr, trusted); i-- {
		next, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		addr = next
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		p, err := addr.Prefix(64)
		if err == nil {
			return p.String()
		}
	}
	return addr.String()
}

func isTrusted(a netip.Addr, trusted []netip.Prefix) bool {
	a = a.Unmap().WithZone("")
	for _, p := range trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
