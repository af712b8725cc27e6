package crawl

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"
)

// errLater says that a request could not begin in time to end before its
// lease. Whatever needed it goes back to the frontier as it was.
var errLater = errors.New("no time left on this visit")

// places hands out a limited number of places for each key, over all visits of
// the process: one at a time for an origin (P1), two for an address (P3). A
// place may be closed until some time, which is how gaps are kept.
type places[K comparable] struct {
	each int // places for a key

	mu   sync.Mutex
	keys map[K]*place
}

type place struct {
	free chan struct{} // holds a token for each taken place
	refs int           // takers and waiters; at 0 and open it can be forgotten
	next time.Time     // not before
}

func newPlaces[K comparable](each int) *places[K] {
	return &places[K]{each: each, keys: make(map[K]*place)}
}

// take waits for a place, and until it is open, but not beyond startBy.
// Errors: errLater, or that of ctx.
func (p *places[K]) take(ctx context.Context, key K, startBy time.Time) error {
	pl := p.hold(key)
	late := time.NewTimer(time.Until(startBy))
	defer late.Stop()
	select {
	case pl.free <- struct{}{}:
	case <-late.C:
		p.drop(pl)
		return errLater
	case <-ctx.Done():
		p.drop(pl)
		return ctx.Err()
	}
	p.mu.Lock()
	next := pl.next
	p.mu.Unlock()
	if next.After(startBy) || time.Now().After(startBy) {
		p.done(key, time.Time{})
		return errLater
	}
	if err := sleepUntil(ctx, next); err != nil {
		p.done(key, time.Time{})
		return err
	}
	return nil
}

// done gives a place back. No place of the key opens before next.
func (p *places[K]) done(key K, next time.Time) {
	p.mu.Lock()
	pl := p.keys[key]
	if next.After(pl.next) {
		pl.next = next
	}
	p.mu.Unlock()
	<-pl.free
	p.drop(pl)
}

// closeUntil keeps a key's places closed until next.
func (p *places[K]) closeUntil(key K, next time.Time) {
	if !next.After(time.Now()) {
		return
	}
	pl := p.hold(key)
	p.mu.Lock()
	if next.After(pl.next) {
		pl.next = next
	}
	p.mu.Unlock()
	p.drop(pl)
}

// opens is the time before which a key's places stay closed.
func (p *places[K]) opens(key K) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pl := p.keys[key]; pl != nil {
		return pl.next
	}
	return time.Time{}
}

func (p *places[K]) hold(key K) *place {
	p.mu.Lock()
	defer p.mu.Unlock()
	pl := p.keys[key]
	if pl == nil {
		if len(p.keys) > 0 && len(p.keys)%4096 == 0 {
			p.sweep()
		}
		pl = &place{free: make(chan struct{}, p.each)}
		p.keys[key] = pl
	}
	pl.refs++
	return pl
}

func (p *places[K]) drop(pl *place) {
	p.mu.Lock()
	pl.refs--
	p.mu.Unlock()
}

// sweep forgets what nobody uses and nothing closes. It needs the lock.
func (p *places[K]) sweep() {
	now := time.Now()
	for key, pl := range p.keys {
		if pl.refs == 0 && !pl.next.After(now) {
			delete(p.keys, key)
		}
	}
}

// addressKey is what counts as one address: an IPv4 address or an IPv6 /64.
func addressKey(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 64
	if a.Is4() {
		bits = 32
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

func sleepUntil(ctx context.Context, t time.Time) error {
	d := time.Until(t)
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
