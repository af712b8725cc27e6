package sqlite

import (
	"context"
	"sync"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

// pollEvery is how often other processes' commits are looked for while
// somebody watches.
const pollEvery = time.Second

// watchers are the receivers of hints. The poll runs only while there are any.
type watchers struct {
	mu     sync.Mutex
	chans  map[chan struct{}]bool
	cancel context.CancelFunc // ends the poll
	polls  sync.WaitGroup
	closed bool
}

// Watch implements index.Store. After Close nothing comes any more, but the
// channel is closed only when ctx ends.
func (s *Store) Watch(ctx context.Context) <-chan struct{} {
	w := &s.watch
	ch := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.chans == nil {
		w.chans = make(map[chan struct{}]bool)
	}
	w.chans[ch] = true
	if len(w.chans) == 1 && !w.closed {
		polling, cancel := context.WithCancel(context.Background())
		w.cancel = cancel
		w.polls.Go(func() { s.poll(polling) })
	}
	context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.chans, ch)
		close(ch)
		if len(w.chans) == 0 && w.cancel != nil {
			w.cancel()
			w.cancel = nil
		}
	})
	return ch
}

// poll looks at the end of the feed, which moves whoever writes.
func (s *Store) poll(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var last index.Head // so that the first look always gives a hint
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		h, err := s.Head(ctx)
		if err == nil && h != last {
			last = h
			s.watch.notify()
		}
	}
}

// notify leaves a hint with every watcher; one that has a hint already needs
// no second.
func (w *watchers) notify() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ch := range w.chans {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// close ends the poll and waits for it.
func (w *watchers) close() {
	w.mu.Lock()
	w.closed = true
	if w.cancel != nil {
		w.cancel()
		w.cancel = nil
	}
	w.mu.Unlock()
	w.polls.Wait()
}
