package crawl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(10)
		soon := func() time.Time { return time.Now().Add(time.Minute) }
		if err := r.take(t.Context(), 8, soon()); err != nil {
			t.Fatal(err)
		}
		if r.try(3) || !r.try(2) {
			t.Error("try does not keep to what is free")
		}
		served := make(chan int64, 3)
		for _, n := range []int64{6, 1, 1} {
			go func() {
				if err := r.take(t.Context(), n, soon()); err == nil {
					served <- n
				}
			}()
			synctest.Wait()
		}
		r.give(2)
		synctest.Wait()
		if len(served) != 0 || r.try(1) {
			t.Error("somebody was served before the first")
		}
		r.give(4)
		synctest.Wait()
		if len(served) != 1 || <-served != 6 || r.free != 0 {
			t.Errorf("the first was not served first, %d are free", r.free)
		}
		r.give(4)
		synctest.Wait()
		if len(served) != 2 || r.free != 2 {
			t.Errorf("%d more were served, %d are free", len(served), r.free)
		}
		r.claim(5)
		began := time.Now()
		if err := r.take(t.Context(), 1, soon()); !errors.Is(err, errLater) || time.Since(began) != time.Minute {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.take(ctx, 1, soon()); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		// Who gives up does not keep those behind it waiting.
		r.give(4)
		go func() { _ = r.take(t.Context(), 5, time.Now().Add(time.Second)) }()
		synctest.Wait()
		if err := r.take(t.Context(), 1, soon()); err != nil || len(r.waiting) != 0 {
			t.Error(err, len(r.waiting))
		}
	})
}

// wantRoom wants all room back once nothing is under way.
func (w *world) wantRoom() {
	w.t.Helper()
	for _, r := range []struct {
		name string
		room *room
		all  int64
	}{{"room", w.c.room, roomBytes}, {"desk", w.c.desk, deskBytes}, {"cache", w.c.cache, cacheBytes}} {
		if r.room.free != r.all || len(r.room.waiting) != 0 {
			w.t.Errorf("%s: %d of %d octets are free, %d wait", r.name, r.room.free, r.all, len(r.room.waiting))
		}
	}
}

// Many large documents at a time share little room: each gets its turn, none is
// called unreadable because it had to wait, and all is given back.
func TestRule_CrawlerT3_LargeDocumentsTakeTurns(t *testing.T) {
	const sites = 40
	inWorld(t, func(cfg *Config) { cfg.Workers = sites }, func(t *testing.T, w *world) {
		w.c.room.claim(roomBytes - 1<<20)
		defer w.c.room.give(roomBytes - 1<<20)
		padding := fmt.Sprintf(`, "padding": %q`, strings.Repeat("x", 600<<10))
		card := func(i int) string { return fmt.Sprintf("https://s%d.example.com/card", i) }
		for i := range sites {
			host := fmt.Sprintf("s%d.example.com", i)
			catalog := catalogJSON(card(i))
			w.page("https://"+host+wellKnownPath, "", catalog[:len(catalog)-1]+padding+"}")
			w.page(card(i), "", cardJSON("com.example/app", padding))
			w.add(host)
		}
		w.until(30 * time.Minute)
		for i := range sites {
			w.wantState(card(i), "listed")
			if n := len(w.requests(card(i))); n > 5 {
				t.Errorf("%s was asked for %d times", card(i), n)
			}
			if got := w.entry(card(i)); len(got.Document) < 600<<10 {
				t.Errorf("%s: %d octets are stored", card(i), len(got.Document))
			}
		}
		// The stored copies are judged again without being held.
		w.until(80 * time.Hour)
		for i := range sites {
			w.wantState(card(i), "listed")
			if got := w.entry(card(i)); len(got.Document) < 600<<10 {
				t.Errorf("%s: %d octets are stored", card(i), len(got.Document))
			}
		}
	})
}

// Rules that are too many to be held for a whole visit bind like others.
func TestRule_CrawlerT3_LargeRulesBind(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		var b strings.Builder
		b.WriteString("User-agent: *\nCrawl-delay: 20\n")
		for i := range 5000 {
			fmt.Fprintf(&b, "Disallow: /closed/%d\n", i)
		}
		closed := appsHost + "/closed/4999"
		w.page(robotsAt, `ETag: "r"`, b.String())
		w.page(catURL, "", catalogJSON(cardURL, closed))
		w.page(cardURL, "", cardJSON("com.example/notes", ""))
		w.page(closed, "", cardJSON("com.example/closed", ""))
		w.add("apps.example.com")
		w.until(10 * time.Minute)
		w.wantState(cardURL, "listed")
		if got := w.outcome(closed); got != "disallowed" || len(w.requests(closed)) != 0 {
			t.Errorf("%s: %s, %v", closed, got, w.requests(closed))
		}
		w.until(80 * time.Hour)
		w.wantState(cardURL, "listed")
		if n := len(w.requests(closed)); n != 0 {
			t.Errorf("%s was asked for %d times", closed, n)
		}
		if n := len(w.requests(robotsAt)); n < 3 {
			t.Errorf("robots.txt was asked for %d times", n)
		}
		w.wantGaps(appsHost, 20*time.Second)
	})
}

// Whoever waits for room stands in the way of others at the same address, so
// the wait is short and the host comes back later.
func TestRoomIsNotWaitedForLong(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		v := &visit{c: w.c, host: "apps.example.com", startBy: time.Now().Add(time.Minute)}
		w.c.room.claim(roomBytes)
		defer w.c.room.give(roomBytes)
		began := time.Now()
		if err := v.grow(t.Context(), 1); !errors.Is(err, errLater) || time.Since(began) != crowdWait {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		if v.held != 0 || time.Until(v.next) < crowdDelay*8/10 {
			t.Errorf("%d are held, the host comes back after %s", v.held, time.Until(v.next))
		}
	})
}
