package search

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

// How Follow reads the feed.
const (
	pollInterval = time.Second // when no hint comes (IX-18)
	feedPage     = 1000
	maxBackoff   = 30 * time.Second
	gather       = 20 * time.Millisecond // after a hint, so that changes come in batches
)

// errReload says that what the index holds does not belong to the store's feed
// any more.
var errReload = errors.New("the feed has a new epoch, or no longer reaches back")

// Follow loads a snapshot, then follows the feed until ctx ends, at which it
// returns ctx.Err(). A store that fails is tried again with backoff while the
// index goes on answering from what it holds (IX-4). A new epoch or
// index.ErrCompact makes it load anew (IX-17); the old state serves meanwhile.
func (x *Index) Follow(ctx context.Context, src Source) error {
	hint := src.Watch(ctx)
	loaded := false
	var backoff time.Duration
	for ctx.Err() == nil {
		step := x.catchUp
		if !loaded {
			step = x.load
		}
		err := step(ctx, src)
		switch {
		case err == nil:
			loaded, backoff = true, 0
			x.note(time.Now(), "")
			hint = await(ctx, hint)
		case ctx.Err() != nil:
		case errors.Is(err, errReload) || errors.Is(err, index.ErrCompact):
			loaded = false
			x.log.Info("search index loads anew", slog.Any("reason", err))
		default:
			backoff = min(max(pollInterval, 2*backoff), maxBackoff)
			x.note(time.Time{}, err.Error())
			x.log.Warn("search index cannot follow the store", slog.Any("error", err), slog.Duration("again_in", backoff))
			sleep(ctx, backoff) // no hint shortens it
		}
	}
	return ctx.Err()
}

// await waits for the next poll or a hint. It gives the channel to wait for
// next; a closed one is none any more, as the poll is the truth.
func await(ctx context.Context, hint <-chan struct{}) <-chan struct{} {
	timer := time.NewTimer(pollInterval)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case _, ok := <-hint:
		if !ok {
			hint = nil
		}
		sleep(ctx, gather)
	}
	return hint
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// load replaces the index with a snapshot.
func (x *Index) load(ctx context.Context, src Source) error {
	begin := time.Now()
	var entries []*index.Entry
	head, err := src.Snapshot(ctx, func(e *index.Entry) error {
		entries = append(entries, e)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	g := load(head, entries)
	x.gen.Store(g)
	x.log.Info("search index loaded", slog.Int("entries", g.live), slog.Int64("seq", head.Seq), slog.Duration("took", time.Since(begin)))
	return nil
}

// catchUp applies the changes up to the store's head. The head is read first:
// a change up to it that Changes does not give is none.
func (x *Index) catchUp(ctx context.Context, src Source) error {
	g := x.gen.Load()
	head, err := src.Head(ctx)
	if err != nil {
		return fmt.Errorf("read head of feed: %w", err)
	}
	if head.Epoch != g.head.Epoch || head.Seq < g.head.Seq {
		return errReload
	}
	for g.head.Seq < head.Seq {
		changes, err := src.Changes(ctx, g.head.Seq, feedPage)
		if err != nil {
			return fmt.Errorf("read changes: %w", err)
		}
		to := head
		if n := len(changes); n > 0 && (n == feedPage || changes[n-1].Seq > head.Seq) {
			to.Seq, to.UpdatedAt = changes[n-1].Seq, changes[n-1].At
		}
		if to.Seq <= g.head.Seq {
			return fmt.Errorf("read changes: the feed went back from %d to %d", g.head.Seq, to.Seq)
		}
		g = g.apply(to, changes)
		x.gen.Store(g)
	}
	return nil
}

// note records how following goes. The zero time leaves SyncedAt as it is.
func (x *Index) note(at time.Time, problem string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !at.IsZero() {
		x.syncedAt = at
	}
	x.problem = problem
}
