package crawl

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

// P6: a person's add goes before a flood of new hosts.
func TestRule_CrawlerP6_AddsGoFirst(t *testing.T) {
	inWorld(t, func(c *Config) { c.Workers = 1 }, func(t *testing.T, w *world) {
		var flood []index.NewDoc
		for i := range 200 {
			url := fmt.Sprintf("https://h%d.example.com/.well-known/ai-catalog.json", i)
			w.page(url, "", catalogJSON())
			flood = append(flood, index.NewDoc{URL: url, Kind: index.CatalogDoc, Class: index.ClassNew})
		}
		if _, err := w.store.AddSource(t.Context(), time.Now(), flood...); err != nil {
			t.Fatal(err)
		}
		w.page("https://mine.example.net/.well-known/ai-catalog.json", "", catalogJSON())
		w.add("mine.example.net")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := w.c.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if n := len(w.requests("https://mine.example.net/")); n != 2 {
			t.Errorf("%d requests to the added host after %d in all", n, len(w.net.Requests()))
		}
		if n := len(w.requests("https://h")); n == 0 {
			t.Error("new hosts were starved")
		}
	})
}

// F2: no request begins that could outlive its lease; the rest goes back.
func TestRule_CrawlerF2_LeaseEnds(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		many := make([]string, 30)
		for i := range many {
			many[i] = fmt.Sprintf("%s/card/%d", appsHost, i)
			w.page(many[i], "wait 1s", cardJSON("com.example/notes", ""))
		}
		w.page(catURL, "", catalogJSON(many...))
		w.add("apps.example.com")
		if err := w.c.Settle(t.Context(), 10*time.Second); err != nil {
			t.Fatal(err)
		}
		w.until(10 * time.Minute)
		for _, u := range many {
			w.wantState(u, "listed")
		}
		w.wantGaps(appsHost+"/card", 6*time.Second)
	})
	t.Run("one lease", func(t *testing.T) {
		rule(t, func(t *testing.T, w *world) {
			for i := range 30 {
				w.page(fmt.Sprintf("%s/p%d", appsHost, i), "wait 1s", "<html></html>")
				w.add(fmt.Sprintf("%s/p%d", appsHost, i))
			}
			l, err := w.store.Lease(t.Context(), index.LeaseRequest{Owner: "w1", Now: time.Now(), Hosts: 1})
			if err != nil || len(l) != 1 {
				t.Fatal(l, err)
			}
			v, _, err := w.c.visit(t.Context(), &l[0])
			if err != nil {
				t.Fatal(err)
			}
			reqs := w.net.Requests()
			if last := reqs[len(reqs)-1].Time; last.Add(10 * time.Second).After(l[0].Until) {
				t.Errorf("the last request began %s before the lease's end", l[0].Until.Sub(last))
			}
			if n := len(v.Docs); n < 5 || n > 9 || len(v.Found) != 0 {
				t.Errorf("%d documents, %d found", n, len(v.Found))
			}
		})
	})
}

// F3: a late worker's whole visit is dropped, entry and outcome included.
func TestRule_CrawlerF3_LateWorker(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page(catURL, "", catalogJSON(cardURL))
		w.page(cardURL, "", cardJSON("com.example/notes", ""))
		w.add("apps.example.com")
		lease := func(owner string) index.Lease {
			l, err := w.store.Lease(t.Context(), index.LeaseRequest{Owner: owner, Now: time.Now(), Hosts: 1})
			if err != nil || len(l) != 1 {
				t.Fatal(l, err)
			}
			return l[0]
		}
		first := lease("w1")
		late, _, err := w.c.visit(t.Context(), &first)
		if err != nil || len(late.Entries) != 1 {
			t.Fatal(late, err)
		}
		time.Sleep(2 * time.Minute)
		second := lease("w2")
		a, err := w.store.Apply(t.Context(), late)
		if err != nil || !a[0].Fenced {
			t.Fatal(a, err)
		}
		w.wantState(cardURL, "-")
		if got := w.outcome(catURL); got != "-" {
			t.Errorf("an outcome of the late visit was written: %s", got)
		}
		again, _, err := w.c.visit(t.Context(), &second)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := w.store.Apply(t.Context(), again, late); err != nil || a[0].Fenced || !a[1].Fenced {
			t.Fatal(a, err)
		}
		w.wantState(cardURL, "listed")
	})
}

// F4: visits are written whole, many at a time, within 200 ms.
func TestRule_CrawlerF4_Batches(t *testing.T) {
	calls := &countingStore{}
	inWorld(t, func(c *Config) { calls.Store = c.Store; c.Store = calls; c.Workers = 64 }, func(t *testing.T, w *world) {
		var hosts []string
		for i := range 64 {
			host := fmt.Sprintf("h%d.example.com", i)
			hosts = append(hosts, host)
			w.page("https://"+host+"/.well-known/ai-catalog.json", "", catalogJSON("https://"+host+"/card"))
			w.page("https://"+host+"/card", "", cardJSON("com.example/notes", ""))
		}
		w.add(hosts...)
		w.until(time.Minute)
		for _, h := range hosts {
			w.wantState("https://"+h+"/card", "listed")
		}
		if calls.applies > 24 {
			t.Errorf("%d transactions for %d visits", calls.applies, calls.visits)
		}
		if calls.visits < 64 {
			t.Errorf("%d visits", calls.visits)
		}
	})
}

// countingStore counts transactions, and can fail.
type countingStore struct {
	index.Store
	applies, visits int
	err             error
}

func (s *countingStore) Apply(ctx context.Context, v ...index.Visit) ([]index.Applied, error) {
	if s.err != nil {
		return nil, s.err
	}
	s.applies++
	s.visits += len(v)
	return s.Store.Apply(ctx, v...)
}

// A full disk ends the crawl with an error; what is stored stays.
func TestRunEndsWithTheStoresError(t *testing.T) {
	calls := &countingStore{}
	inWorld(t, func(c *Config) { calls.Store = c.Store; c.Store = calls }, func(t *testing.T, w *world) {
		w.published()
		calls.err = fmt.Errorf("write: %w", index.ErrFull)
		time.Sleep(2 * day)
		if err := w.c.Run(t.Context()); !errors.Is(err, index.ErrFull) {
			t.Fatalf("Run gave %v", err)
		}
		w.wantState(cardURL, "listed")
	})
}

// When ctx ends, visits are handed back and what is complete is written.
func TestRunStopsCleanly(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page(catURL, "", catalogJSON(cardURL))
		w.page(cardURL, "timeout", "")
		w.add("apps.example.com")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := w.c.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if since := time.Since(w.start); since > 6*time.Second {
			t.Errorf("it took %s to stop", since)
		}
		if w.outcome(catURL) != "read" || w.outcome(cardURL) != "-" {
			t.Errorf("catalog %s, card %s", w.outcome(catURL), w.outcome(cardURL))
		}
		if d := w.doc(cardURL); !d.CheckedAt.IsZero() || d.NextAt.After(time.Now()) {
			t.Errorf("the card that was given up: %+v", d)
		}
		w.page(cardURL, "", cardJSON("com.example/notes", ""))
		w.until(time.Minute)
		w.wantState(cardURL, "listed")
	})
}

// A panic costs one document of one visit.
func TestPanicCostsOneDocument(t *testing.T) {
	inWorld(t, func(c *Config) { c.Store = &panickyStore{Store: c.Store, on: cardURL} }, func(t *testing.T, w *world) {
		w.page(catURL, "", catalogJSON(cardURL, appsHost+"/other"))
		w.page(cardURL, "", cardJSON("com.example/notes", ""))
		w.page(appsHost+"/other", "", cardJSON("com.example/other", ""))
		w.add("apps.example.com")
		w.settle()
		w.wantState(appsHost+"/other", "listed")
		if w.outcome(cardURL) != "unreachable" {
			t.Errorf("outcome %s", w.outcome(cardURL))
		}
		w.wantSentence(cardURL, "internal error")
	})
}

type panickyStore struct {
	index.Store
	on string
}

func (s *panickyStore) ByCard(ctx context.Context, url string) (*index.Entry, error) {
	if url == s.on {
		panic("a fault of ours")
	}
	return s.Store.ByCard(ctx, url)
}

// D35: one transaction for all that a visit changes.
func TestRule_D35_OneTransaction(t *testing.T) {
	calls := &countingStore{}
	inWorld(t, func(c *Config) { calls.Store = c.Store; c.Store = calls }, func(t *testing.T, w *world) {
		w.page(catURL, "", catalogJSON(cardURL))
		w.page(cardURL, "", cardJSON("com.example/notes", ""))
		w.add("apps.example.com")
		calls.err = fmt.Errorf("write: %w", index.ErrFull)
		if err := w.c.Settle(t.Context(), time.Second); !errors.Is(err, index.ErrFull) {
			t.Fatal(err)
		}
		if w.stands(cardURL) != "-" || w.outcome(catURL) != "-" || !w.doc(catURL).CheckedAt.IsZero() {
			t.Error("part of a visit was written")
		}
		calls.err = nil
		w.until(5 * time.Minute)
		w.wantState(cardURL, "listed")
	})
}

// A visit that the store refuses costs its host an hour, and no other visit.
func TestRefusedVisitPutsItsHostOff(t *testing.T) {
	refusing := &refusingStore{host: "apps.example.com"}
	inWorld(t, func(c *Config) { refusing.Store = c.Store; c.Store = refusing }, func(t *testing.T, w *world) {
		w.page(catURL, "", catalogJSON(cardURL))
		w.page(cardURL, "", cardJSON("com.example/notes", ""))
		w.page("https://b.example.net"+wellKnownPath, "", catalogJSON("https://b.example.net/card"))
		w.page("https://b.example.net/card", "", cardJSON("com.example/b", ""))
		w.add("apps.example.com", "b.example.net")
		w.until(30 * time.Minute)
		w.wantState("https://b.example.net/card", "listed")
		w.wantState(cardURL, "-")
		if refusing.refused != 1 {
			t.Errorf("%d visits refused in half an hour", refusing.refused)
		}
		refusing.host = ""
		w.until(2 * time.Hour)
		w.wantState(cardURL, "listed")
	})
}

// refusingStore refuses the visits of one host, unless they only end a lease.
type refusingStore struct {
	index.Store
	host    string
	refused int
}

func (s *refusingStore) Apply(ctx context.Context, visits ...index.Visit) ([]index.Applied, error) {
	out := make([]index.Applied, len(visits))
	for i := range visits {
		if visits[i].Host == s.host && len(visits[i].Docs) > 0 {
			s.refused++
			out[i].Err = errors.New("a row that cannot be")
			continue
		}
		a, err := s.Store.Apply(ctx, visits[i])
		if err != nil {
			return nil, err
		}
		out[i] = a[0]
	}
	return out, nil
}
