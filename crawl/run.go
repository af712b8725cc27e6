package crawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

const (
	batchDocs = 512                    // at most so many documents in one batch, about: visits stay whole (F4)
	batchWait = 200 * time.Millisecond // at most so long until a visit is written
	visitDocs = 48                     // documents of one lease: a gap of a second leaves time for no more
	leaseWait = 100 * time.Millisecond // between two claims while visits are under way: idle workers share one
	pollEvery = time.Second            // for work that another process has added
	writeTime = 30 * time.Second       // for one batch: longer than a store waits for a lock of its database
	batchSize = 4 << 20                // octets of one batch, about
	claimMost = 64                     // hosts in one claim
	tidyEvery = day                    // between two rounds of Compact
)

// Run crawls until ctx ends or the store fails. When ctx ends, requests under
// way are given up, their documents go back to the frontier as they were, what
// is complete is written, and the error is nil if it could be. Otherwise it is
// the store's: index.ErrFull, index.ErrCorrupt and the like. Meanwhile the store
// is compacted, at the start and once a day.
func (c *Crawler) Run(ctx context.Context) error {
	return c.run(ctx, nil)
}

// Settle crawls like Run until nothing is due within the given time. It is
// for dry runs, demonstrations and tests.
func (c *Crawler) Settle(ctx context.Context, within time.Duration) error {
	return c.run(ctx, &within)
}

func (c *Crawler) run(parent context.Context, settle *time.Duration) error {
	ctx, stop := context.WithCancelCause(parent)
	defer stop(nil)
	r := &running{c: c, leases: make(chan index.Lease), visits: make(chan written), free: make(chan struct{}, 1), stop: stop}
	var workers, writer sync.WaitGroup
	for range c.workers {
		workers.Go(func() { r.work(ctx) })
	}
	// The writer outlives ctx: what is complete is still written.
	var failed error
	writer.Go(func() { failed = r.write(context.WithoutCancel(parent)) })
	if settle == nil {
		workers.Go(func() { r.tidy(ctx) })
	}
	r.claim(ctx, settle)
	close(r.leases)
	workers.Wait()
	close(r.visits)
	writer.Wait()
	if failed != nil {
		return failed
	}
	if err := context.Cause(ctx); parent.Err() == nil && err != nil && !errors.Is(err, errSettled) {
		return err
	}
	return nil
}

// tidy drops what nobody need know any more, at the start and once a day.
func (r *running) tidy(ctx context.Context) {
	for ctx.Err() == nil {
		n, err := r.c.store.Compact(ctx, time.Now().Add(-index.KeepTombstones))
		switch {
		case err != nil && ctx.Err() == nil:
			r.c.log.WarnContext(ctx, "the database could not be compacted", "error", err)
		case n > 0:
			r.c.log.InfoContext(ctx, "the database was compacted", "dropped", n)
		}
		_ = sleepUntil(ctx, time.Now().Add(tidyEvery))
	}
}

var errSettled = errors.New("nothing is due")

// written is a visit that is to be written, and the room that it holds.
type written struct {
	index.Visit
	held int64
}

// running is one call of Run.
type running struct {
	c      *Crawler
	leases chan index.Lease
	visits chan written
	open   atomic.Int64  // leases handed out whose visit is not written yet
	idle   atomic.Int64  // workers without a lease; filled by the workers
	next   time.Time     // of the claim loop: no claim before, see leaseWait
	free   chan struct{} // holds a token when the claim loop should look again
	stop   context.CancelCauseFunc
}

func (r *running) nudge() {
	select {
	case r.free <- struct{}{}:
	default:
	}
}

// claim leases as many hosts as there are idle workers, no more: a lease that
// waits for a worker runs out (F2).
func (r *running) claim(ctx context.Context, settle *time.Duration) {
	for ctx.Err() == nil {
		wait, err := r.lease(ctx, settle)
		if err != nil {
			r.fail(ctx, err)
			return
		}
		if wait == 0 {
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-r.free:
		}
		timer.Stop()
	}
}

// lease hands hosts that are due to idle workers, and says how long nothing
// more can be expected unless a nudge comes.
func (r *running) lease(ctx context.Context, settle *time.Duration) (wait time.Duration, err error) {
	n := int(r.idle.Load())
	if n == 0 {
		return pollEvery, nil
	}
	if left := time.Until(r.next); left > 0 && n < r.c.workers {
		return left, nil
	}
	r.next = time.Now().Add(leaseWait)
	open := r.open.Load()                                     // before NextDue: what is written in between shows there
	due, err := r.c.store.NextDue(context.WithoutCancel(ctx)) // see visit.lookup
	if err != nil {
		return 0, fmt.Errorf("look for work: %w", err)
	}
	if left := time.Until(due); due.IsZero() || left > 0 {
		if settle != nil && open == 0 && (due.IsZero() || left > *settle) {
			r.stop(errSettled)
		}
		if due.IsZero() {
			return pollEvery, nil
		}
		return min(left, pollEvery), nil
	}
	leases, err := r.c.store.Lease(ctx, index.LeaseRequest{Owner: r.c.owner, Now: time.Now(), Hosts: min(n, claimMost), Docs: visitDocs})
	if err != nil {
		return 0, fmt.Errorf("lease: %w", err)
	}
	for i := range leases {
		r.open.Add(1)
		r.idle.Add(-1)
		r.leases <- leases[i]
	}
	switch len(leases) {
	case 0:
		return batchWait, nil
	case claimMost: // there is more
		r.next = time.Time{}
	}
	return 0, nil
}

func (r *running) fail(ctx context.Context, err error) {
	if ctx.Err() == nil {
		r.stop(err)
	}
}

func (r *running) work(ctx context.Context) {
	r.idle.Add(1)
	r.nudge()
	for l := range r.leases {
		r.c.count.active.Add(ctx, 1)
		v, held, err := r.c.visit(ctx, &l)
		r.c.count.active.Add(ctx, -1)
		if err != nil {
			r.fail(ctx, fmt.Errorf("visit %s: %w", l.Host.Name, err))
		}
		r.visits <- written{v, held}
		r.idle.Add(1)
		r.nudge()
	}
}

// write puts visits into the store, many in one transaction. After an error it
// only takes what is still coming.
func (r *running) write(ctx context.Context) (failed error) {
	var batch []index.Visit
	var docs int
	var size, held int64
	var after <-chan time.Time
	flush := func() {
		after = nil
		if len(batch) == 0 {
			return
		}
		if failed == nil {
			if failed = r.apply(ctx, batch); failed != nil {
				r.stop(failed)
			}
		}
		r.open.Add(-int64(len(batch)))
		r.c.room.give(held)
		batch, docs, size, held = nil, 0, 0, 0
		r.nudge()
	}
	for {
		select {
		case v, ok := <-r.visits:
			if !ok {
				flush()
				return failed
			}
			n := weigh(&v.Visit)
			if size+n > batchSize {
				flush()
			}
			batch = append(batch, v.Visit)
			size += n
			held += v.held
			docs += 1 + len(v.Docs) + len(v.Entries) + len(v.Found)
			if docs >= batchDocs || size >= batchSize {
				flush()
			} else if after == nil {
				after = time.After(batchWait)
			}
		case <-after:
			flush()
		}
	}
}

// apply writes a batch, in halves when the whole takes too long. A single visit
// that still does is dropped: its documents come round again.
func (r *running) apply(ctx context.Context, batch []index.Visit) error {
	timed, cancel := context.WithTimeout(ctx, writeTime)
	applied, err := r.c.store.Apply(timed, batch...)
	cancel()
	switch n := len(batch); {
	case err == nil:
	case !errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("write visits: %w", err)
	case n > 1:
		r.c.log.WarnContext(ctx, "visits took too long to write; they are tried in halves", "visits", n)
		if err := r.apply(ctx, batch[:n/2]); err != nil {
			return err
		}
		return r.apply(ctx, batch[n/2:])
	default:
		r.c.log.ErrorContext(ctx, "a visit took too long to write and was dropped", "host", batch[0].Host)
		return nil
	}
	told := r.c.log.Enabled(ctx, slog.LevelDebug)
	for i := range applied {
		v := &batch[i]
		if err := applied[i].Err; err != nil {
			r.c.log.ErrorContext(ctx, "a visit could not be written; its host is put off", "host", v.Host, "error", err)
			if err := r.putOff(ctx, v); err != nil {
				return err
			}
			continue
		}
		if applied[i].Fenced {
			r.c.count.fenced.Add(ctx, 1)
			r.c.log.WarnContext(ctx, "a visit came too late and was dropped", "host", v.Host)
			continue
		}
		r.c.count.visited(ctx, v)
		for j := 0; told && j < len(v.Outcomes); j++ {
			o := &v.Outcomes[j]
			r.c.log.DebugContext(ctx, "visited", "url", o.URL, "outcome", string(o.Code), "why", o.Sentence)
		}
		for _, ch := range applied[i].Changes {
			r.c.log.InfoContext(ctx, "index changed", "op", string(ch.Op), "card", ch.CardURL, "reason", string(ch.Reason))
		}
		if n := len(applied[i].Capped); n > 0 {
			r.c.log.InfoContext(ctx, "leads turned away by the daily limits", "host", v.Host, "leads", n)
		}
		if r.c.visited != nil {
			r.c.visited(v)
		}
	}
	return nil
}

// putOff ends the lease of a visit that the store refused, so that its host is
// not visited again at once.
func (r *running) putOff(ctx context.Context, v *index.Visit) error {
	_, err := r.c.store.Apply(ctx, index.Visit{
		Host: v.Host, Owner: v.Owner, No: v.No, At: v.At, Gap: v.Gap, NotBefore: v.At.Add(minInterval), Fails: v.Fails + 1, IPKey: v.IPKey,
	})
	if err != nil {
		return fmt.Errorf("put host off: %w", err)
	}
	return nil
}
