package crawlercmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/crawl"
	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/publicnet"
)

type addCommand struct {
	DB  string   `name:"db" required:"" placeholder:"FILE" help:"Database; it is made if there is none."`
	URL []string `arg:"" name:"url" help:"Domain, or https address of an app page, catalog or card."`
}

// Help is the manual's page on add.
func (*addCommand) Help() string {
	return `The addresses are visited next by the crawler that uses the same database, now or when it is started. Then crawler why tells what came of them.`
}

func (a *addCommand) run(ctx context.Context, env *Env) error {
	docs := make([]index.NewDoc, len(a.URL))
	for i, input := range a.URL {
		d, err := crawl.AddSource(input)
		if err != nil {
			return badCallf("%v", err)
		}
		docs[i] = d
	}
	store, err := openStore(ctx, a.DB, true, nil)
	if err != nil {
		return err
	}
	_, err = store.AddSource(ctx, time.Now(), docs...)
	if err = errors.Join(err, store.Close()); err != nil {
		return err
	}
	for _, d := range docs {
		fmt.Fprintf(env.Stdout, "added %s\n", d.URL)
	}
	return nil
}

type whyCommand struct {
	DB  string `name:"db" required:"" placeholder:"FILE" help:"Database."`
	URL string `arg:"" name:"url" help:"Domain, or https address of an app page, catalog or card."`
}

// Help is the manual's page on why.
func (*whyCommand) Help() string {
	return `It prints one sentence, then the trace of the last visit: what robots.txt says, each fetch, the evidence tried, the outcome, and when the next visit is due.`
}

func (y *whyCommand) run(ctx context.Context, env *Env) error {
	if _, err := crawl.AddSource(y.URL); err != nil {
		return badCallf("%v", err)
	}
	store, err := openStore(ctx, y.DB, false, nil)
	if err != nil {
		return err
	}
	x, err := crawl.Explain(ctx, store, y.URL)
	if err = errors.Join(err, store.Close()); err != nil {
		return err
	}
	if _, err := x.WriteTo(env.Stdout); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// operator is who answers for requests to strangers.
type operator struct {
	About   string `required:"" placeholder:"URL" help:"https address of a page that tells what this crawler does, how to refuse it and how to reach you. It is sent with each request."`
	Contact string `required:"" placeholder:"MAILBOX" help:"Mailbox that you read. It is sent with each request."`
}

// check refuses values that no crawler can be made with.
func (o *operator) check() error {
	err := (&crawl.Config{About: o.About, Contact: o.Contact}).Validate()
	if e, ok := errors.AsType[*crawl.ConfigError](err); ok {
		return badCallf("--%s: %s", strings.ToLower(e.Field), e.Message)
	}
	return err
}

type checkCommand struct {
	URL string `arg:"" name:"url" help:"Domain, or https address of an app page, catalog or card."`
	operator
	Timeout time.Duration `default:"3m" placeholder:"TIME" help:"How long to look, at most; 3m unless set."`
}

// Help is the manual's page on check.
func (*checkCommand) Help() string {
	return `It visits the address and what its judgement rests on, under robots.txt and with the usual gaps, and prints what crawler why would print afterwards. Nothing is stored. Exit status 1 means that no app there would be listed.`
}

func (c *checkCommand) run(ctx context.Context, env *Env) error {
	if _, err := crawl.AddSource(c.URL); err != nil {
		return badCallf("%v", err)
	}
	if err := c.operator.check(); err != nil {
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
	cfg := &crawl.Config{
		Store: store, About: c.About, Contact: c.Contact, Version: version(), Workers: 8,
		Network: &publicnet.Options{Below: env.Below},
		Visited: func(v *index.Visit) {
			for i := range v.Outcomes {
				fmt.Fprintf(env.Stderr, "visited %s: %s\n", v.Outcomes[i].URL, v.Outcomes[i].Code)
			}
		},
	}
	report, err := crawl.Check(limited, cfg, c.URL)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("not done after %s; allow more time with --timeout", c.Timeout)
	}
	if err = errors.Join(err, store.Close()); err != nil {
		return err
	}
	listed := 0
	for i, x := range append([]*crawl.Explanation{report.Asked}, report.Cards...) {
		if i > 0 {
			fmt.Fprintln(env.Stdout)
		}
		if _, err := x.WriteTo(env.Stdout); err != nil {
			return fmt.Errorf("print: %w", err)
		}
		if x.Entry != nil && x.Entry.State == index.Listed {
			listed++
		}
	}
	fmt.Fprintf(env.Stdout, "\napps that would be listed: %d\n", listed)
	if listed == 0 {
		return errNotListed
	}
	return nil
}
