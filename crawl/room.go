package crawl

import (
	"context"
	"sync"
	"time"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/publicnet"
)

// Memory that all visits of a process share (T3). What strangers can make large
// is counted, so that 256 of them at once cannot fill the machine.
const (
	// roomBytes is for what visits keep until it is written: bodies of more than
	// small octets, and what comes of them.
	roomBytes = 12 << 20
	// cacheBytes is for catalogs that are kept for the next card of a visit.
	cacheBytes = 4 << 20
	// deskBytes is for documents that are being taken apart, each of which takes
	// many times its size meanwhile. One of the largest fits.
	deskBytes = 1 << 20
	// small is what nobody counts.
	small = publicnet.SmallBody
)

// room is a number of octets that visits share. Whoever waits is served in
// order. Nobody waits who holds some: holders end, and give it back.
type room struct {
	mu      sync.Mutex
	free    int64 // may be negative: see claim
	waiting []*waiter
}

type waiter struct {
	n    int64
	done chan struct{} // closed when the octets are the waiter's
}

func newRoom(n int64) *room { return &room{free: n} }

// take waits for n octets, but not beyond until. Errors: errLater, or that of
// ctx.
func (r *room) take(ctx context.Context, n int64, until time.Time) error {
	r.mu.Lock()
	if len(r.waiting) == 0 && r.free >= n {
		r.free -= n
		r.mu.Unlock()
		return nil
	}
	w := &waiter{n: n, done: make(chan struct{})}
	r.waiting = append(r.waiting, w)
	r.mu.Unlock()
	late := time.NewTimer(time.Until(until))
	defer late.Stop()
	err := errLater
	select {
	case <-w.done:
		return nil
	case <-late.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, other := range r.waiting {
		if other == w {
			r.waiting = append(r.waiting[:i:i], r.waiting[i+1:]...)
			r.serve() // others may have waited behind it
			return err
		}
	}
	return nil // it was served meanwhile
}

// try takes n octets if they are free.
func (r *room) try(n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) > 0 || r.free < n {
		return false
	}
	r.free -= n
	return true
}

// claim takes n octets that are in use already, free or not.
func (r *room) claim(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free -= n
}

// give gives n octets back.
func (r *room) give(n int64) {
	if n == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free += n
	r.serve()
}

// serve needs the lock.
func (r *room) serve() {
	for len(r.waiting) > 0 && r.waiting[0].n <= r.free {
		w := r.waiting[0]
		r.waiting = r.waiting[1:]
		r.free -= w.n
		close(w.done)
	}
}

// grow makes room for a large answer, or error: errLater or that of ctx. While
// it waits the host is left waiting, too, with its clock stopped, and others at
// its address with it: not for long.
func (v *visit) grow(ctx context.Context, n int64) error {
	if v.held > 0 {
		if !v.c.room.try(n) {
			return errLater
		}
	} else {
		until := v.startBy
		if soon := time.Now().Add(crowdWait); soon.Before(until) {
			until = soon
		}
		if err := v.c.room.take(ctx, n, until); err != nil {
			now := time.Now()
			v.comeBack(now.Add(v.c.spread(crowdDelay, v.host, now)))
			return err
		}
	}
	v.held += n
	return nil
}

// shrink gives back room that was made for an answer and is not needed.
func (v *visit) shrink(n int64) {
	v.held -= n
	v.c.room.give(n)
}

// settle makes the visit hold as much room as it keeps octets. A visit that
// keeps many, or finds no more room, is over: once written it keeps none.
func (v *visit) settle() {
	n := v.kept + v.open
	if n <= small {
		n = 0
	}
	switch {
	case n < v.held:
		v.shrink(v.held - n)
	case n > v.held:
		if !v.c.room.try(n - v.held) {
			v.c.room.claim(n - v.held)
			v.over = true
		}
		v.held = n
	}
	if v.kept > visitBytes {
		v.over = true
	}
}

// desk runs work on a document of n octets, large ones one after another. Work
// within such work goes on at the same desk. The error is work's, errLater, or
// that of ctx.
//
// Nothing at a desk waits for the network or for room.
func (v *visit) desk(ctx context.Context, n int64, work func() error) error {
	if n <= small || v.atDesk {
		return work()
	}
	n = min(n, deskBytes)
	if err := v.c.desk.take(ctx, n, v.deskBy); err != nil {
		return err
	}
	v.atDesk = true
	defer func() {
		v.atDesk = false
		v.c.desk.give(n)
	}()
	return work()
}

// weigh is about how many octets a visit has that strangers can make many.
func weigh(v *index.Visit) (n int64) {
	for i := range v.Docs {
		n += weighDoc(&v.Docs[i])
	}
	for i := range v.Entries {
		n += int64(len(v.Entries[i].Document))
	}
	for i := range v.Found {
		n += weighFound(&v.Found[i])
	}
	for i := range v.Outcomes {
		n += weighOutcome(&v.Outcomes[i])
	}
	return n
}

func weighDoc(d *index.Doc) int64 {
	n := len(d.Body) + len(d.URL) + len(d.FinalURL) + len(d.From) + len(d.ETag) + len(d.FaultText)
	for _, list := range [...][]string{d.Chain, d.Link, d.XRobots, d.Targets, d.Needs} {
		for _, s := range list {
			n += len(s)
		}
	}
	return int64(n)
}

// weighFound counts the places that a lead takes beside its address.
func weighFound(n *index.NewDoc) int64 { return int64(len(n.URL)) + 160 }

func weighOutcome(o *index.Outcome) int64 {
	n := len(o.Sentence)
	for i := range o.Steps {
		n += 128 + len(o.Steps[i].URL) + len(o.Steps[i].Detail)
	}
	return int64(n)
}
