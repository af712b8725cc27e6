package crawl

import (
	"context"
	"slices"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

// settleFor is how long a dry run waits for what is due next: a Crawl-delay, or
// a moment's Retry-After.
const settleFor = 40 * time.Second

// Report is what a dry run came to.
type Report struct {
	Asked *Explanation
	Cards []*Explanation // every other card that was found and visited, by URL
}

// Check judges an address as a crawl would, under robots.txt and politeness,
// and gives the reasons. cfg.Store must be an empty store of its own that is
// thrown away afterwards: nothing may be left of a dry run.
//
// Errors: those of New and AddSource, of ctx, and of the store.
func Check(ctx context.Context, cfg *Config, input string) (*Report, error) {
	asked, err := AddSource(input)
	if err != nil {
		return nil, err
	}
	var urls []string
	copied := *cfg
	copied.Visited = func(v *index.Visit) {
		for i := range v.Outcomes {
			urls = append(urls, v.Outcomes[i].URL)
		}
		if cfg.Visited != nil {
			cfg.Visited(v)
		}
	}
	c, err := New(&copied)
	if err != nil {
		return nil, err
	}
	if _, err := c.store.AddSource(ctx, time.Now(), asked); err != nil {
		return nil, err
	}
	if err := c.Settle(ctx, settleFor); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := &Report{}
	if r.Asked, err = Explain(ctx, c.store, asked.URL); err != nil {
		return nil, err
	}
	slices.Sort(urls)
	for _, url := range slices.Compact(urls) {
		if url == asked.URL {
			continue
		}
		x, err := Explain(ctx, c.store, url)
		if err != nil {
			return nil, err
		}
		if x.Kind == index.CardDoc {
			r.Cards = append(r.Cards, x)
		}
	}
	return r, nil
}
