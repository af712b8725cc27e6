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

SIGINT and SIGTERM stop it, with exit status 0: visits under way are handed back, and what is complete is stored.

  crawler run --db index.db --listen 127.0.0.1:8080 --about https://crawler.example.com/ --contact crawler@example.com --seeds seeds.txt`
}

func (r *runCommand) run(ctx context.Context, env *Env) (err error) {
	seeds, err := r.check()
	if err != nil {
		return err
	}
	b, err := r.bind(ctx)
	if err != nil {
		return err
	}
	defer b.close()
	screen := newScreen(env)
	log := newLogger(screen, r.LogFormat, r.Verbose)
	store, err := openStore(ctx, r.DB, true, log)
	if err != nil {
		return err
	}
	defer func() { err = closed(store, err) }()
	n, err := r.open(ctx, b, store, log, &r.operator)
	if err != nil {
		return err
	}
	defer n.close()

	seen := &tally{since: time.Now(), failed: newFailures(log, r.Verbose)}
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
	log.Info("crawling", "db", r.DB, "seeds", len(seeds), "workers", r.Workers, "addr", n.listener.Addr().String(), "open_to", openTo(n.listener.Addr()))
	log.Info("to look at it", "url", webAddr(n.listener.Addr()))
	for _, flag := range r.examples() {
		log.Warn("this is an example of the manual; give your own before you crawl anybody", "flag", flag)
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var together sync.WaitGroup
	var served error
	together.Go(func() {
		defer cancel() // without its API the process is not what was asked for
		served = n.serve(ctx)
	})
	together.Go(func() { report(ctx, screen, log, store, seen) })
	together.Go(func() { keepMemory(ctx, env.Getenv) })
	err = crawler.Run(ctx)
	cancel()
	together.Wait()
	screen.done()
	if err = errors.Join(err, served); err == nil {
		summary(context.WithoutCancel(ctx), log, store, seen)
	}
	return err
}

// check refuses every value that cannot be used before anything is made, and
// gives the seeds.
func (r *runCommand) check() ([]index.NewDoc, error) {
	if r.Workers < 1 || r.Workers > 512 {
		return nil, badCallf("--workers %d: give a number from 1 to 512", r.Workers)
	}
	if err := checkPorts(r.Ports); err != nil {
		return nil, err
	}
	if err := r.operator.check(); err != nil {
		return nil, err
	}
	if err := r.checkAddrs(); err != nil {
		return nil, err
	}
	return readSeeds(r.Seeds)
}

// maxFaults is how many wrong lines of a file are named.
const maxFaults = 20

// readSeeds reads a file of addresses. Lines that are none are named.
func readSeeds(file string) ([]index.NewDoc, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, badCallf("--seeds %s: %v", file, cause(err))
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > maxSeeds {
		return nil, badCallf("--seeds %s: it is larger than %d MiB; split it, and add its parts with crawler add", file, maxSeeds>>20)
	}
	var docs []index.NewDoc
	var faults []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<10)
	n := 1
	for ; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		d, err := crawl.AddSource(text)
		if err != nil {
			faults = append(faults, fmt.Sprintf("--seeds %s:%d: %v", file, n, err))
			continue
		}
		d.Now = false // a restart is no wish to have everything visited anew
		docs = append(docs, d)
	}
	if err := lines.Err(); err != nil {
		faults = append(faults, fmt.Sprintf("--seeds %s:%d: %v", file, n, cause(err)))
	}
	if more := len(faults) - maxFaults; more > 0 {
		faults = append(faults[:maxFaults], fmt.Sprintf("--seeds %s: and %d more lines", file, more))
	}
	if faults != nil {
		return nil, badCallf("%s", strings.Join(faults, "\n"))
	}
	return docs, nil
}
