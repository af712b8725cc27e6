package crawl

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

const (
	batchDocs = 512                    // at most so many documents in one batch, about: visits stay whole (F4)
	batchWait = 200 * time.Millisecond // at most so long until a visit is written
	visitDocs = 48                     // documents of one lease: a gap of a second leaves time for no more
	pollEvery = time.Second            // for work that another process has added
	lastWrite = 10 * time.Second       // for what is in hand when the crawl ends
)

// Run crawls until ctx ends or the store fails. When ctx ends, requests under
// way are given up, their documents go back to the frontier as they were, what
// is complete is written, and the error is nil. Otherwise it is the store's:
// index.ErrFull, index.ErrCorrupt and the like.
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
	r := &running{c: c, leases: make(chan index.Lease), visits: make(chan index.Visit), free: make(chan struct{}, 1), stop: stop}
	var workers, writer sync.WaitGroup
	for range c.workers {
		workers.Go(func() { r.work(ctx) })
	}
	// The writer outlives ctx: what is complete is still written.
	writer.Go(func() { r.write(context.WithoutCancel(parent)) })
	r.claim(ctx, settle)
	close(r.leases)
	workers.Wait()
	close(r.visits)
	writer.Wait()
	if err := context.Cause(ctx); parent.Err() == nil && err != nil && !errors.Is(err, errSettled) {
		return err
	}
	return nil
}

var errSettled = errors.New("nothing is due")

// running is one call of Run.
type running struct {
	c      *Crawler
	leases chan index.Lease
	visits chan index.Visit
	open   atomic.Int64  // leases handed out whose visit is not written yet
	idle   atomic.Int64  // workers without a lease; filled by the workers
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
	open := r.open.Load() // before NextDue: what is written in between shows there
	due, err := r.c.store.NextDue(ctx)
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
	leases, err := r.c.store.Lease(ctx, index.LeaseRequest{Owner: r.c.owner, Now: time.Now(), Hosts: n, Docs: visitDocs})
	if err != nil {
		return 0, fmt.Errorf("lease: %w", err)
	}
	for i := range leases {
		r.open.Add(1)
		r.idle.Add(-1)
		r.leases <- leases[i]
	}
	if len(leases) == 0 {
		return batchWait, nil
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
		v, err := r.c.visit(ctx, &l)
		r.c.count.active.Add(ctx, -1)
		if err != nil {
			r.fail(ctx, fmt.Errorf("visit %s: %w", l.Host.Name, err))
		}
		r.visits <- v
		r.idle.Add(1)
		r.nudge()
	}
}

// write puts visits into the store, many in one transaction.
func (r *running) write(ctx context.Context) {
	var batch []index.Visit
	var docs int
	failed := false
	var after <-chan time.Time
	flush := func() {
		after = nil
		if len(batch) == 0 {
			return
		}
		if !failed {
			if err := r.apply(ctx, batch); err != nil {
				failed = true
				r.stop(err)
			}
		}
		r.open.Add(-int64(len(batch)))
		batch, docs = nil, 0
		r.nudge()
	}
	for {
		select {
		case v, ok := <-r.visits:
			if !ok {
				flush()
				return
			}
			batch = append(batch, v)
			docs += len(v.Docs) + 1
			if docs >= batchDocs {
				flush()
			} else if after == nil {
				after = time.After(batchWait)
			}
		case <-after:
			flush()
		}
	}
}

func (r *running) apply(ctx context.Context, batch []index.Visit) error {
	ctx, cancel := context.WithTimeout(ctx, lastWrite)
	defer cancel()
	applied, err := r.c.store.Apply(ctx, batch...)
	if err != nil {
		return fmt.Errorf("write visits: %w", err)
	}
	for i := range applied {
		v := &batch[i]
		if applied[i].Fenced {
			r.c.count.fenced.Add(ctx, 1)
			r.c.log.WarnContext(ctx, "a visit came too late and was dropped", "host", v.Host)
			continue
		}
		r.c.count.visited(ctx, v)
		for j := range v.Outcomes {
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
