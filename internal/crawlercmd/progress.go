package crawlercmd

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/openbot-build/openbot-go/crawl"
	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/sqlite"
)

// tally counts what the crawl has done, for people.
type tally struct {
	mu                sync.Mutex
	since             time.Time
	hosts, docs, news int
	failed            *failures
}

func (t *tally) add(v *index.Visit) {
	t.failed.note(v)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hosts++
	t.docs += len(v.Outcomes)
	for i := range v.Outcomes {
		if v.Outcomes[i].Code == index.OutcomeListed {
			t.news++
		}
	}
}

func (t *tally) get() (hosts, docs, news int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hosts, t.docs, t.news
}

func summary(ctx context.Context, log *slog.Logger, store *sqlite.Store, seen *tally) {
	hosts, docs, news := seen.get()
	args := []any{"visits", hosts, "documents", docs, "newly_listed", news, "took", time.Since(seen.since).Round(time.Second).String()}
	if stats, err := store.Stats(ctx, time.Now()); err == nil {
		args = append(args, "listed", stats.Entries[index.Listed], "stale", stats.Entries[index.Stale], "due", stats.Due)
	}
	log.Info("stopped", args...)
}

// failures logs visits that brought nothing, a few of them: a crawl of many
// sites meets many. Calls come one at a time.
type failures struct {
	log   *slog.Logger // nil: the crawl itself logs every visit
	some  *rate.Limiter
	quiet int // left out since the last line
}

func newFailures(log *slog.Logger, all bool) *failures {
	f := &failures{some: rate.NewLimiter(1, 20)}
	if !all {
		f.log = log
	}
	return f
}

func (f *failures) note(v *index.Visit) {
	if f.log == nil {
		return
	}
	for i := range v.Outcomes {
		o := &v.Outcomes[i]
		switch o.Code { //nolint:exhaustive // all others are failures
		case index.OutcomeListed, index.OutcomeUnchanged, index.OutcomeRead, index.OutcomeWaiting:
			continue
		}
		if !f.some.Allow() {
			f.quiet++
			continue
		}
		args := []any{"url", o.URL, "outcome", string(o.Code), "why", crawl.Short(o)}
		if f.quiet > 0 {
			args = append(args, "not_logged", f.quiet)
			f.quiet = 0
		}
		f.log.Info("visited", args...)
	}
}

// What the index holds is counted by looking through it, which takes long when
// it is large: not more often than this, nor for more than a twentieth of the
// time.
const countEvery = 10 * time.Second

// report shows progress: one line that is updated on a terminal, a log line
// now and then elsewhere.
func report(ctx context.Context, s *screen, log *slog.Logger, store *sqlite.Store, seen *tally) {
	every := 30 * time.Second
	if s.terminal {
		every = time.Second
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var held *index.Stats
	var again time.Time
	for last := -1; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		hosts, docs, _ := seen.get()
		if !s.terminal && hosts == last {
			continue
		}
		last = hosts
		if now := time.Now(); !now.Before(again) {
			stats, err := store.Stats(ctx, now)
			if err != nil {
				continue // the crawl meets it, too, and ends
			}
			held, again = stats, time.Now().Add(max(countEvery, 20*time.Since(now)))
		}
		if s.terminal {
			s.status(fmt.Sprintf("visits %d · documents %d · listed %d · stale %d · leads %d · due %d",
				hosts, docs, held.Entries[index.Listed], held.Entries[index.Stale], held.Entries[index.Lead], held.Due))
			continue
		}
		log.Info("progress", "visits", hosts, "documents", docs, "listed", held.Entries[index.Listed],
			"stale", held.Entries[index.Stale], "leads", held.Entries[index.Lead], "due", held.Due)
	}
}
