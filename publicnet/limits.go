package publicnet

import (
	"context"
	"sync"
	"time"
)

// Limits are limits of requests that differ from the client's own. They travel
// in a request's context. A field that is zero leaves the client's limit.
type Limits struct {
	MaxBytes int64 // decoded bytes of one answer
	// Timeout is the time that all requests made with the context may take
	// together. It runs from before a request's name lookup until its body has
	// been read to the end or closed, and stands still between requests and
	// while Options.Acquire waits.
	Timeout time.Duration
	// Truncate delivers the first MaxBytes of a longer body; the read after
	// them gives ErrTooLarge. Without it an answer that announces a longer body
	// is refused before any of it is read.
	Truncate bool
	// Large, when set, is called once for an answer of more than SmallBody
	// decoded octets, before what lies behind them is read. size is the most
	// that the body may come to: what the answer announces, else MaxBytes. It
	// may wait; that time does not count against Timeout. An error ends the
	// answer and is found in the error of the body's Read with errors.Is.
	//
	// It is where a program that reads many answers at a time limits the memory
	// that all of them need.
	Large func(ctx context.Context, size int64) error
}

// SmallBody is how many octets of an answer are delivered without asking
// Limits.Large.
const SmallBody = 32 << 10

// WithLimits gives a context for requests with limits of their own, made one
// after another: the hops of one document, for instance. spent tells how much
// of the time they have used so far.
func WithLimits(ctx context.Context, limits Limits) (_ context.Context, spent func() time.Duration) {
	allowance := &allowance{limits: limits, clock: &clock{}}
	return context.WithValue(ctx, allowanceKey{}, allowance), allowance.clock.spent
}

type allowanceKey struct{}

// allowance is what a row of requests may use: limits and the time used up.
type allowance struct {
	limits Limits
	clock  *clock
}

func allowanceFrom(ctx context.Context) *allowance {
	a, _ := ctx.Value(allowanceKey{}).(*allowance)
	return a
}

// clock counts the time that requests take.
type clock struct {
	mu   sync.Mutex
	used time.Duration
	laps map[*lap]struct{} // that run now
}

func (c *clock) spent() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	used := c.used
	for l := range c.laps {
		used += time.Since(l.since)
	}
	return used
}

// lap is one request on a clock.
type lap struct {
	clock   *clock
	timeout time.Duration // of the clock
	expired func()        // called once the clock has used up timeout
	timer   *time.Timer
	since   time.Time // when it began to run, or went on
	ended   bool
}

// start begins a lap. expired is called from another goroutine.
func (c *clock) start(timeout time.Duration, expired func()) *lap {
	l := &lap{clock: c, timeout: timeout, expired: expired}
	l.resume()
	return l
}

// left is the time that the lap may still take.
func (l *lap) left() time.Duration { return l.timeout - l.clock.spent() }

func (l *lap) resume() {
	left := l.left()
	l.clock.mu.Lock()
	defer l.clock.mu.Unlock()
	if _, running := l.clock.laps[l]; running || l.ended {
		return
	}
	if l.clock.laps == nil {
		l.clock.laps = make(map[*lap]struct{})
	}
	l.clock.laps[l] = struct{}{}
	l.since = time.Now()
	l.timer = time.AfterFunc(left, l.expired)
}

func (l *lap) pause() {
	l.clock.mu.Lock()
	defer l.clock.mu.Unlock()
	l.stop()
}

func (l *lap) end() {
	l.clock.mu.Lock()
	defer l.clock.mu.Unlock()
	l.stop()
	l.ended = true
}

// stop needs the clock's lock.
func (l *lap) stop() {
	if _, running := l.clock.laps[l]; running {
		l.timer.Stop()
		l.clock.used += time.Since(l.since)
		delete(l.clock.laps, l)
	}
}
