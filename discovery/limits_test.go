package discovery_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openbot-build/openbot-go/discovery"
)

// OB-42, D7: levels, documents, each address once; what was cut is told.
func TestRule_OB42_NestedLimits(t *testing.T) { testNestedLimits(t) }
func TestRule_D7_NestedLimits(t *testing.T)   { testNestedLimits(t) }

func testNestedLimits(t *testing.T) {
	level := func(i int) string { return fmt.Sprintf("%s/level%d.json", origin, i) }
	pages := map[string]answer{}
	for i := range 7 {
		pages[level(i)] = jsonCatalog(lists(fmt.Sprintf("/card%d", i)), nests(level(i+1)), nests(level(0)), nests(other))
		pages[fmt.Sprintf("%s/card%d", origin, i)] = jsonCard("x")
	}
	pages[other] = jsonCatalog(nests(level(0))) // other origins may be named, but not lent evidence
	w := newWeb(pages)
	r, err := w.resolve(t, level(0))
	if err != nil || len(r.Candidates) != 5 || r.Shape != discovery.Multiple || !strings.Contains(r.Cut, "too deep") {
		t.Fatalf("%+v, %v", r, err)
	}
	for i, c := range r.Candidates {
		if c.NamedBy != level(i) {
			t.Errorf("candidate %d is named by %s", i, c.NamedBy)
		}
	}
	seen := map[string]bool{}
	for _, url := range w.asked {
		if seen[url] {
			t.Errorf("%s was read twice", url)
		}
		seen[url] = true
	}
	if !seen[level(4)] || seen[level(5)] || !seen[other] {
		t.Errorf("asked %v", w.asked)
	}
	r, err = w.resolve(t, level(0), func(o *discovery.Options) { o.MaxDepth = -1 })
	if err != nil || len(r.Candidates) != 1 || r.Shape != discovery.Multiple || r.Cut == "" {
		t.Errorf("without nesting: %+v, %v", r, err)
	}
}

// OB-155: documents, bytes and time of one Resolve are limited, and what was
// left out is told. The order of the answer is the catalog's all the same.
func TestRule_OB155_RunLimits(t *testing.T) {
	const cards = 60
	crowd := func() *web {
		var entries []string
		pages := map[string]answer{}
		for i := range cards {
			url := fmt.Sprintf("%s/card%02d", origin, i)
			entries = append(entries, lists(url))
			pages[url] = jsonCard(fmt.Sprintf("app%02d", i))
		}
		pages[known] = jsonCatalog(entries...)
		return newWeb(pages)
	}
	t.Run("documents", func(t *testing.T) {
		w := crowd()
		r, err := w.resolve(t, known)
		if err != nil || len(r.Candidates) != 49 || len(w.asked) != 50 || r.Cut != "11 of 60 cards were not read (limit of 50 documents)" {
			t.Fatalf("%d candidates, %d asked, %v, %v", len(r.Candidates), len(w.asked), r.Cut, err)
		}
		for i, c := range r.Candidates {
			if c.CardURL != fmt.Sprintf("%s/card%02d", origin, i) {
				t.Errorf("candidate %d is %s", i, c.CardURL)
			}
		}
		r, err = w.resolve(t, known, func(o *discovery.Options) { o.MaxDocuments = 2; o.Confirm = true })
		if err != nil || len(r.Candidates) != 1 || r.Candidates[0].Evidence == nil {
			t.Errorf("evidence from what was read: %+v, %v", r, err)
		}
		r, err = w.resolve(t, origin+"/card00", func(o *discovery.Options) { o.MaxDocuments = 1; o.Confirm = true })
		if err != nil || r.Shape != discovery.Single || r.Candidates[0].Evidence != nil || r.Cut == "" {
			t.Errorf("no room for evidence: %+v, %v", r, err)
		}
		if _, err := w.resolve(t, known, func(o *discovery.Options) { o.MaxDocuments = 1 }); !errors.Is(err, discovery.NoCards) || !strings.Contains(err.Error(), "60 of 60 cards were not read") {
			t.Errorf("no room for cards: %v", err)
		}
	})
	t.Run("bytes", func(t *testing.T) {
		w := crowd()
		r, err := w.resolve(t, known, func(o *discovery.Options) { o.MaxBytes = int64(len(w.pages[known].body)) + 1 })
		if err != nil || len(r.Candidates) == 0 || len(r.Candidates) > 8 || !strings.Contains(r.Cut, "bytes") {
			t.Errorf("%+v, %v", r, err)
		}
	})
	t.Run("time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := crowd()
			slow := func(o *discovery.Options) {
				o.Fetch = func(ctx context.Context, url string, want discovery.Want) (*discovery.Document, error) {
					select {
					case <-ctx.Done():
						return nil, ctx.Err()
					case <-time.After(7 * time.Second):
						return w.fetch(ctx, url, want)
					}
				}
			}
			began := time.Now()
			r, err := w.resolve(t, known, slow)
			if err != nil || len(r.Candidates) != 28 || len(r.Failed) != 4 || time.Since(began) != time.Minute {
				t.Fatalf("%+v, %v after %s", r, err, time.Since(began))
			}
			if r.Failed[0].Kind != discovery.Timeout || r.Cut != "28 of 60 cards were not read (limit of 1m0s)" {
				t.Errorf("%v, %s", r.Failed[0], r.Cut)
			}
		})
	})
	t.Run("time for evidence", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := twoApps()
			r, err := w.resolve(t, appCatalog, func(o *discovery.Options) {
				o.Confirm = true
				o.Fetch = func(ctx context.Context, url string, want discovery.Want) (*discovery.Document, error) {
					if url == known {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return w.fetch(ctx, url, want)
				}
			})
			if err != nil || r.Shape != discovery.Single || r.Candidates[0].Evidence != nil || r.Cut != "not all evidence of 1 apps was looked for" {
				t.Errorf("%+v, %v", r, err)
			}
		})
	})
	t.Run("at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := crowd()
			var mu sync.Mutex
			now, most := 0, 0
			w.delay = func(string) {
				mu.Lock()
				now++
				most = max(most, now)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				now--
				mu.Unlock()
			}
			if _, err := w.resolve(t, known); err != nil || most != 4 {
				t.Errorf("%d at once, %v", most, err)
			}
		})
	})
}

func TestOptions(t *testing.T) {
	w := twoApps()
	for name, o := range map[string]*discovery.Options{
		"nil": nil, "empty": {}, "documents": {Fetch: w.fetch, MaxDocuments: -1}, "bytes": {Fetch: w.fetch, MaxBytes: -1}, "time": {Fetch: w.fetch, Timeout: -1},
	} {
		if r, err := discovery.NewResolver(o); err == nil || r != nil {
			t.Errorf("%s: accepted", name)
		}
	}
	// The options are copied.
	o := &discovery.Options{Fetch: w.fetch}
	r, err := discovery.NewResolver(o)
	if err != nil {
		t.Fatal(err)
	}
	o.Fetch = nil
	if _, err := r.Resolve(t.Context(), cardURL); err != nil {
		t.Error(err)
	}
}

func TestResolveContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := twoApps()
	w.delay = func(url string) {
		if url == cardURL {
			cancel()
		}
	}
	r, err := w.resolver(t).Resolve(ctx, known)
	if r != nil || !errors.Is(err, discovery.Timeout) || !errors.Is(err, context.Canceled) {
		t.Errorf("Resolve = %+v, %v", r, err)
	}
	if _, err := w.resolver(t).Resolve(ctx, known); !errors.Is(err, context.Canceled) {
		t.Errorf("Resolve after the end: %v", err)
	}
}

// A Resolver may be used by several goroutines.
func TestConcurrentUse(t *testing.T) {
	r := twoApps().resolver(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got, err := r.Resolve(t.Context(), known); err != nil || len(got.Candidates) != 2 {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	wg.Wait()
}
