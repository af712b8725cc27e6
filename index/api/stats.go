package api

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

// statsCache keeps the counts for a moment: they cost the store a scan. One
// request at a time asks for new ones; others are answered by the old.
type statsCache struct {
	mu      sync.Mutex
	body    []byte
	at      time.Time
	running chan struct{} // closed when the request that asks is done; nil: none asks
}

const statsKept = 5 * time.Second

func (h *handler) getStats(ctx context.Context, in *statsInput) (*document, error) {
	body, p := h.statistics(ctx)
	if p != nil {
		return nil, p
	}
	return answer(in.Have, bodyTag(body), func() ([]byte, error) { return body, nil })
}

// statistics gives the counts as JSON.
func (h *handler) statistics(ctx context.Context) ([]byte, *problem) {
	unreadable := later(http.StatusServiceUnavailable, 5*time.Second, "the index cannot read its store at present")
	c, now := &h.stats, h.opts.Now()
	c.mu.Lock()
	body, running := c.body, c.running
	if age := now.Sub(c.at); body != nil && (running != nil || age >= 0 && age <= statsKept) {
		c.mu.Unlock()
		return body, nil
	}
	if running != nil { // the first of all
		c.mu.Unlock()
		ctx, cancel := storeTime(ctx)
		defer cancel()
		select {
		case <-running:
		case <-ctx.Done():
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.body == nil {
			return nil, unreadable
		}
		return c.body, nil
	}
	running = make(chan struct{})
	c.running = running
	c.mu.Unlock()

	var fresh []byte
	defer func() { // also when the store panics
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.running = nil; fresh != nil {
			c.body, c.at = fresh, now
		}
		close(running)
	}()
	ctx, cancel := storeTime(ctx)
	defer cancel()
	s, err := h.opts.Store.Stats(ctx, now)
	if err == nil {
		fresh, err = encode(statisticsOf(s))
	}
	if err != nil {
		h.log.Error("index API cannot read counts", slog.Any("error", err))
		return nil, unreadable
	}
	return fresh, nil
}

func statisticsOf(s *index.Stats) *statistics {
	out := &statistics{
		Entries: make(map[string]int64), Tombstones: s.Entries[index.Removed], Hosts: s.Hosts, Documents: s.Documents,
		Epoch: s.Epoch, Seq: s.Seq,
	}
	if !s.UpdatedAt.IsZero() {
		at := s.UpdatedAt.UTC()
		out.UpdatedAt = &at
	}
	for _, state := range []index.State{index.Lead, index.Listed, index.Stale, index.Hidden, index.Removed, index.Blocked} {
		out.Entries[string(state)] = s.Entries[state]
	}
	return out
}
