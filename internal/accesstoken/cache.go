package accesstoken

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"
)

// tokenID stands for a token wherever one is kept: nobody gets the token from
// it.
type tokenID = [sha256.Size]byte

const shards = 16

// cache keeps results by token. It is cut into shards so that requests do not
// wait for each other; a full shard gives up an entry that nobody asked for
// lately.
type cache struct {
	shards [shards]shard
}

type shard struct {
	mu      sync.RWMutex
	entries map[tokenID]*entry
	ring    []tokenID // the keys of entries
	hand    int
}

type entry struct {
	result *Result
	until  time.Time
	epoch  epoch
	used   atomic.Bool // since the hand passed
}

// epoch is a time between two changes of an issuer's keys: what was judged in
// one is judged again in the next. The zero epoch does not end.
type epoch struct {
	changes *atomic.Uint64
	count   uint64
}

func (e epoch) over() bool { return e.changes != nil && e.changes.Load() != e.count }

func newCache(most int) *cache {
	c := &cache{}
	for i := range c.shards {
		c.shards[i].entries = map[tokenID]*entry{}
		c.shards[i].ring = make([]tokenID, 0, max(most/shards, 1))
	}
	return c
}

// get gives a result that still counts, or nil.
func (c *cache) get(id tokenID, now time.Time) *Result {
	s := &c.shards[id[0]%shards]
	s.mu.RLock()
	e := s.entries[id]
	s.mu.RUnlock()
	if e == nil || e.epoch.over() || !now.Before(e.until) {
		return nil
	}
	if !e.used.Load() {
		e.used.Store(true)
	}
	return e.result
}

// had reports whether a token is remembered at all, even if its result counts
// no more.
func (c *cache) had(id tokenID) bool {
	s := &c.shards[id[0]%shards]
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.entries[id] != nil
}

func (c *cache) put(id tokenID, r *Result, until time.Time, epoch epoch) {
	s := &c.shards[id[0]%shards]
	e := &entry{result: r, until: until, epoch: epoch}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.entries[id]; !there {
		if len(s.ring) < cap(s.ring) {
			s.ring = append(s.ring, id)
		} else {
			s.evict()
			s.ring[s.hand] = id
			s.hand = (s.hand + 1) % len(s.ring)
		}
	}
	s.entries[id] = e
}

// evict moves the hand to an entry that was not used since it passed the last
// time, and removes it. Entries of an epoch that is over go first come, first gone.
func (s *shard) evict() {
	for {
		id := s.ring[s.hand]
		e := s.entries[id]
		if e.epoch.over() || !e.used.Swap(false) {
			delete(s.entries, id)
			return
		}
		s.hand = (s.hand + 1) % len(s.ring)
	}
}

// len is the number of entries.
func (c *cache) len() int {
	n := 0
	for i := range c.shards {
		c.shards[i].mu.RLock()
		n += len(c.shards[i].entries)
		c.shards[i].mu.RUnlock()
	}
	return n
}
