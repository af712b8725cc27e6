package crawlercmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/openbot-build/openbot-go/crawl"
	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/sqlite"
)

type checkCommand struct {
	URL string `arg:"" name:"url" help:"Domain, or https address of an app page, catalog or card."`
	operator
	reachFlags
	Timeout time.Duration `default:"3m" placeholder:"TIME" help:"How long to look, at most; 3m unless set."`
}

// Help is the manual's page on check.
func (*checkCommand) Help() string {
	return `It visits the address and what its judgement rests on, under robots.txt and with the usual gaps, and prints what crawler why would print afterwards. Nothing is stored.

Exit status: 0 at least one app there would be listed; 1 none would be, or the work failed; 2 the command line is wrong; 130 it was stopped.

  crawler check apps.example.com --about https://crawler.example.com/ --contact crawler@example.com

With --connect-to an app can be tried before its name leads to it:

  crawler check apps.example.com --connect-to apps.example.com:443:127.0.0.1:8443 --ca ca.pem --about https://crawler.example.com/ --contact crawler@example.com`
}

func (c *checkCommand) run(ctx context.Context, env *Env) error {
	if err := c.operator.check(); err != nil {
		return err
	}
	if c.Timeout <= 0 {
		return badCallf("--timeout %s: give a time such as 3m", c.Timeout)
	}
	network, err := c.network(env.Below)
	if err != nil {
		return err
	}
	if _, err := source(c.URL, network.Ports); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "crawler-check-")
	if err != nil {
		return fmt.Errorf("make a place for the dry run: %w", err)
	}
	defer os.RemoveAll(dir)
	store, err := openStore(ctx, filepath.Join(dir, "check.db"), true, nil)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	visited := make(map[string]bool)
	report, err := crawl.Check(limited, &crawl.Config{
		Store: store, About: c.About, Contact: c.Contact, Version: version(), Workers: 8, Network: network,
		Visited: func(v *index.Visit) {
			for i := range v.Outcomes {
				o := &v.Outcomes[i]
				visited[o.URL] = true
				fmt.Fprintf(env.Stderr, "visited %s: %s\n", o.URL, o.Code)
			}
		},
	}, c.URL)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("not finished after %s; allow more time with --timeout", c.Timeout)
	}
	left := 0
	if err == nil {
		left, err = unvisited(ctx, store, visited)
	}
	if err = closed(store, err); err != nil {
		return err
	}
	return c.print(env, report, left)
}

// unvisited counts the documents that were heard of and not asked for.
func unvisited(ctx context.Context, store *sqlite.Store, visited map[string]bool) (int, error) {
	stats, err := store.Stats(ctx, time.Now())
	if err != nil {
		return 0, err
	}
	return max(int(stats.Documents)-len(visited), 0), nil
}

func (c *checkCommand) print(env *Env, report *crawl.Report, left int) error {
	listed := 0
	for i, x := range append([]*crawl.Explanation{report.Asked}, report.Cards...) {
		if i > 0 {
			fmt.Fprintln(env.Stdout)
		}
		x.Next = time.Time{} // a dry run does not come back
		if _, err := x.WriteTo(env.Stdout); err != nil {
			return fmt.Errorf("print: %w", err)
		}
		if x.Entry != nil && x.Entry.State == index.Listed {
			listed++
		}
	}
	if left > 0 {
		fmt.Fprintf(env.Stdout, "\nnot finished: %d of the documents were not visited, because their sites ask for a longer gap or a later time than a dry run waits for (Crawl-delay, Retry-After); a crawl reads them in time\n", left)
	}
	fmt.Fprintf(env.Stdout, "\napps that would be listed: %d\n", listed)
	if listed == 0 {
		return errNotListed
	}
	return nil
}
