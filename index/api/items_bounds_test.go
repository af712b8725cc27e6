package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/search"
)

// huge is an entry whose strangers have written as much as they could.
func huge(t testing.TB, host string) *index.Entry {
	return entryFor(t, "https://"+host+"/card", "Title", "Text.", func(e *index.Entry, c *card.Card) {
		e.DisplayName, e.Description = strings.Repeat("题", 100_000), strings.Repeat("文", 100_000)
		for i := range 5000 {
			e.Tags = append(e.Tags, fmt.Sprint(i, strings.Repeat("t", 1000)))
			e.Evidence.Chain = append(e.Evidence.Chain, fmt.Sprintf("https://%s/%d", host, i))
		}
		for i := range 500 {
			c.Icons = append(c.Icons, card.Icon{Src: fmt.Sprintf("https://%s/%d.png", host, i), MimeType: "image/png"})
			c.Remotes = append(c.Remotes, card.Remote{Type: "streamable-http", URL: fmt.Sprintf("https://h%d.example.net/mcp", i)})
		}
	})
}

// An item is small, whatever its documents hold.
func TestItem_isBounded(t *testing.T) {
	it, _ := itemOf(huge(t, "a.example.com"))
	if n := utf8.RuneCountInString(it.Title); n != showTitle || !strings.HasSuffix(it.Title, "…") {
		t.Errorf("title of %d characters: %q", n, it.Title)
	}
	if n := utf8.RuneCountInString(it.Description); n != showDescription {
		t.Errorf("description of %d characters", n)
	}
	if len(it.Tags) != showTags || utf8.RuneCountInString(it.Tags[0]) != showTag || len(it.Icons) != showIcons || len(it.Remotes) != showLinks || len(it.Evidence.Chain) != showChain {
		t.Errorf("%d tags of %d, %d icons, %d remotes, %d links", len(it.Tags), len(it.Tags[0]), len(it.Icons), len(it.Remotes), len(it.Evidence.Chain))
	}
	for in, want := range map[string]string{"": "", "abc": "abc", "abcd": "abcd", "abcde": "abc…", "天气预报": "天气预报", "天气预报了": "天气预…", "a\u202Ebcd": "abcd", strings.Repeat("\u202E", 500) + "x": ""} {
		if got := cut(in, 4); got != want {
			t.Errorf("cut(%q) = %q, want %q", in, got, want)
		}
	}
	if got := cut(strings.Repeat("\u202E", 20)+"abcde", 4); got != "abc…" {
		t.Errorf("characters that are not shown count: %q", got)
	}
}

// What answers keep is counted in octets.
func TestItems_areBoundedByOctets(t *testing.T) {
	k := &items{most: 1 << 20}
	var entries []*index.Entry
	for i := range 2000 {
		entries = append(entries, entryFor(t, fmt.Sprintf("https://h%d.example.com/card", i), "Chess", strings.Repeat("Text. ", 16)))
	}
	for _, e := range entries {
		if _, err := k.of(e); err != nil {
			t.Fatal(err)
		}
		if _, err := k.of(entries[0]); err != nil {
			t.Fatal(err)
		}
		octets := 0
		for _, half := range []map[*index.Entry]*made{k.now, k.old} {
			for e, m := range half {
				octets += weight(e, m)
			}
		}
		if octets > 2*k.most {
			t.Fatalf("%d octets kept", octets)
		}
	}
	if len(k.now)+len(k.old) < 100 {
		t.Errorf("only %d are kept", len(k.now)+len(k.old))
	}
	if k.find(entries[0]) == nil || k.find(entries[1]) != nil {
		t.Error("what is asked for all the time goes, or what is not stays")
	}
}

// An item is made once, for lists and pages; a detail's tag is known after.
func TestItems_areMadeOnce(t *testing.T) {
	s := open(t, sample(t), nil)
	k := new(items)
	e, ok := s.search.Entry(index.ID("https://calendar.example.com/card"))
	if !ok {
		t.Fatal("no entry")
	}
	a, err := k.of(e)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := k.of(e); b != a {
		t.Error("a list makes an item again")
	}
	c, err := k.withDetail(e)
	if err != nil || c.tag != bodyTag(c.detail) || string(c.body) != string(a.body) {
		t.Fatalf("%v", err)
	}
	if d, _ := k.withDetail(e); d != c {
		t.Error("a detail is made again")
	}
	if b, _ := k.of(e); b != c {
		t.Error("a list makes an item again after a detail")
	}
}

// Items are made within the search's place and time.
func TestFind_makesItemsInItsPlace(t *testing.T) {
	s := open(t, sample(t), nil)
	h := handlerOf(t, s, func(o *Options) { o.MaxSearches = 1 })
	h.items.mu.Lock()
	done := make(chan *problem)
	go func() {
		_, p := h.find(t.Context(), ask{q: "weather"})
		done <- p
	}()
	for len(h.slots) == 0 {
		time.Sleep(time.Millisecond)
	}
	if _, p := h.find(t.Context(), ask{q: "weather"}); p == nil || p.Status != http.StatusServiceUnavailable {
		t.Errorf("a second search while the first makes its items: %v", p)
	}
	h.items.mu.Unlock()
	if p := <-done; p != nil {
		t.Error(p)
	}
	// A client that has the answer makes no work.
	f, p := h.find(t.Context(), ask{q: "weather"})
	if p != nil || len(f.items) != 1 {
		t.Fatal(p)
	}
	if f, p := h.find(t.Context(), ask{q: "weather", have: f.tag}); p != nil || len(f.items) != 0 {
		t.Errorf("%v, %d items", p, len(f.items))
	}
}

// A store that hangs costs a request three seconds, and stats only one.
func TestStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		store := &slow{memory: newMemory()}
		store.get = func(ctx context.Context) (*index.Entry, error) { return nil, hang(ctx) }
		store.head = hang
		h := handlerOf(t, &site{store: store.memory, search: search.New(nil)}, nil)
		h.opts.Store = store
		begin := time.Now()
		if _, p := h.entry(t.Context(), strings.Repeat("0", 64)); p == nil || p.Status != http.StatusServiceUnavailable {
			t.Errorf("%v", p)
		}
		if took := time.Since(begin); took != storeDeadline {
			t.Errorf("waited %v", took)
		}
		// Readiness does not wait so long that a probe gives up.
		begin = time.Now()
		if d, err := h.getReady(t.Context(), nil); err != nil || d == nil || time.Since(begin) > readyDeadline {
			t.Errorf("readiness: %v after %v", err, time.Since(begin))
		}
		first, p := h.statistics(t.Context())
		if p != nil {
			t.Fatal(p)
		}
		time.Sleep(time.Minute)
		store.stats = func(ctx context.Context) (*index.Stats, error) { return nil, hang(ctx) }
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, p := h.statistics(t.Context()); p == nil {
				t.Error("a store that hangs gave counts")
			}
		})
		synctest.Wait()
		begin = time.Now()
		for range 5 {
			if body, p := h.statistics(t.Context()); p != nil || string(body) != string(first) || time.Since(begin) != 0 {
				t.Errorf("while one asks: %v after %v", p, time.Since(begin))
			}
		}
		wg.Wait()
		// The first of all: the others wait for it.
		h.stats.body = nil
		asked := 0
		store.stats = func(ctx context.Context) (*index.Stats, error) {
			asked++
			time.Sleep(time.Second)
			return store.memory.Stats(ctx, time.Now())
		}
		for range 5 {
			wg.Go(func() {
				if body, p := h.statistics(t.Context()); p != nil || string(body) != string(first) {
					t.Errorf("%s %v", body, p)
				}
			})
		}
		wg.Wait()
		if asked != 1 {
			t.Errorf("the store was asked %d times", asked)
		}
		// A store that answers no more, a body that is there: an error, soon.
		store.stats = func(context.Context) (*index.Stats, error) { return nil, errors.New("away") }
		time.Sleep(time.Minute)
		if _, p := h.statistics(t.Context()); p == nil {
			t.Error("old counts are given for new ones")
		}
	})
}

// K2 and the words of the catalog: they win for display when present.
func TestRule_DocumentsK2_CatalogWordsWin(t *testing.T) {
	e := entryFor(t, "https://a.example.com/card", "Card title", "Card text.", func(e *index.Entry, _ *card.Card) {
		e.DisplayName, e.Description = "Catalog name", "Catalog text."
	})
	if it, _ := itemOf(e); it.Title != "Catalog name" || it.Description != "Catalog text." {
		t.Errorf("%q, %q", it.Title, it.Description)
	}
	e.DisplayName, e.Description = " \u202E", " "
	if it, _ := itemOf(e); it.Title != "Card title" || it.Description != "Card text." {
		t.Errorf("%q, %q", it.Title, it.Description)
	}
}
