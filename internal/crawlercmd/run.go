package crawlercmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/openbot-build/openbot-go/crawl"
	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/sqlite"
	"github.com/openbot-build/openbot-go/publicnet"
)

const maxSeeds = 64 << 20 // bytes of a seeds file

type runCommand struct {
	nodeFlags
	operator
	Seeds   string `placeholder:"FILE" help:"Addresses to begin with, one a line; # begins a comment."`
	Workers int    `default:"256" placeholder:"N" help:"Sites visited at a time; 256 unless set. Most of them wait for their gaps."`
	Ports   []int  `placeholder:"PORT" help:"Ports besides 443 that may be visited."`
}

// Help is the manual's page on run.
func (*runCommand) Help() string {
	return `Every request names OpenBot, its version, --about and --contact. robots.txt is obeyed; a site gets one request at a time, with a gap of at least a second.

SIGINT and SIGTERM stop it: visits under way are handed back, and what is complete is stored.`
}

func (r *runCommand) run(ctx context.Context, env *Env) (err error) {
	if r.Workers < 1 || r.Workers > 512 {
		return badCallf("--workers %d: give a number from 1 to 512", r.Workers)
	}
	if err := r.operator.check(); err != nil {
		return err
	}
	seeds, err := readSeeds(r.Seeds)
	if err != nil {
		return err
	}
	screen := newScreen(env)
	log := newLogger(screen, r.LogFormat, r.Verbose)
	store, err := openStore(ctx, r.DB, true, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	n, err := r.open(ctx, store, log, &r.operator)
	if err != nil {
		return err
	}
	defer n.close()

	seen := &tally{since: time.Now()}
	crawler, err := crawl.New(&crawl.Config{
		Store: store, About: r.About, Contact: r.Contact, Version: version(), Workers: r.Workers,
		Network: &publicnet.Options{Ports: r.Ports, Below: env.Below},
		Log:     log, Meter: n.metrics.provider.Meter("crawl"), Visited: seen.add,
	})
	if err != nil {
		return err
	}
	if _, err := store.AddSource(ctx, time.Now(), seeds...); err != nil {
		return err
	}
	log.Info("crawling", "db", r.DB, "seeds", len(seeds), "workers", r.Workers, "index", "http://"+n.addr()+"/")

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var together sync.WaitGroup
	var served error
	together.Go(func() {
		defer cancel() // without its API the process is not what was asked for
		served = n.serve(ctx)
	})
	together.Go(func() { report(ctx, screen, log, store, seen) })
	err = crawler.Run(ctx)
	cancel()
	together.Wait()
	screen.done()
	if err = errors.Join(err, served); err == nil {
		summary(context.WithoutCancel(ctx), log, store, seen)
	}
	return err
}

// readSeeds reads a file of addresses. Every line that is none is named.
func readSeeds(file string) ([]index.NewDoc, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read seeds: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > maxSeeds {
		return nil, fmt.Errorf("read seeds: %s is larger than %d MiB; split it, and add its parts with crawler add", file, maxSeeds>>20)
	}
	var docs []index.NewDoc
	var faults []error
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<10)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		d, err := crawl.AddSource(text)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s:%d: %w", file, n, err))
			continue
		}
		d.Now = false // a restart is no wish to have everything visited anew
		docs = append(docs, d)
	}
	if err := lines.Err(); err != nil {
		faults = append(faults, fmt.Errorf("read %s: %w", file, err))
	}
	return docs, errors.Join(faults...)
}

// tally counts what the crawl has done, for people.
type tally struct {
	mu                sync.Mutex
	since             time.Time
	hosts, docs, news int
}

func (t *tally) add(v *index.Visit) {
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

// report shows progress: one line that is updated on a terminal, a log line
// now and then elsewhere.
func report(ctx context.Context, s *screen, log logger, store *sqlite.Store, seen *tally) {
	every := 30 * time.Second
	if s.terminal {
		every = time.Second
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
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
		stats, err := store.Stats(ctx, time.Now())
		if err != nil {
			continue // the crawl meets it, too, and ends
		}
		if s.terminal {
			s.status(fmt.Sprintf("visits %d · documents %d · listed %d · stale %d · leads %d · due %d",
				hosts, docs, stats.Entries[index.Listed], stats.Entries[index.Stale], stats.Entries[index.Lead], stats.Due))
			continue
		}
		log.Info("progress", "visits", hosts, "documents", docs, "listed", stats.Entries[index.Listed],
			"stale", stats.Entries[index.Stale], "leads", stats.Entries[index.Lead], "due", stats.Due)
	}
}

type logger interface{ Info(msg string, args ...any) }

func summary(ctx context.Context, log logger, store *sqlite.Store, seen *tally) {
	hosts, docs, news := seen.get()
	args := []any{"visits", hosts, "documents", docs, "newly_listed", news, "took", time.Since(seen.since).Round(time.Second).String()}
	if stats, err := store.Stats(ctx, time.Now()); err == nil {
		args = append(args, "listed", stats.Entries[index.Listed], "stale", stats.Entries[index.Stale], "due", stats.Due)
	}
	log.Info("stopped", args...)
}
