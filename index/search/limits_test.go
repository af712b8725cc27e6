package search

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openbot-build/openbot-go/index"
)

// IX-34: a reader holds one generation, while updates go on.
func TestRule_IX34_GenerationsDoNotMix(t *testing.T) {
	x := indexOf(t, simple("a.example", "Chess one", ""), simple("b.example", "Chess one", ""))
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				page, err := x.Search(context.Background(), Query{Text: "chess", Limit: 10})
				if err != nil || len(page.Hits) != 2 {
					t.Errorf("%v, %v", page, err)
					return
				}
				// Both entries change in each step: a page with two titles has
				// seen two generations.
				if page.Hits[0].Entry.DisplayName != page.Hits[1].Entry.DisplayName {
					t.Error("a page of two generations")
					return
				}
			}
		})
	}
	g := x.gen.Load()
	for i := range 300 {
		var changes []index.Change
		for _, host := range []string{"a.example", "b.example"} {
			a := simple(host, "Chess", "")
			a.DisplayName = fmt.Sprint("n", i)
			e := a.entry(t)
			changes = append(changes, index.Change{Seq: int64(i), Op: index.Upsert, ID: e.ID, Entry: e})
		}
		if i == 0 {
			g = newGeneration(index.Head{}, nil)
			x.gen.Store(g.apply(index.Head{}, changes))
			g = x.gen.Load()
			continue
		}
		g = g.apply(index.Head{Seq: int64(i)}, changes)
		x.gen.Store(g)
	}
	close(stop)
	wg.Wait()
	if len(g.views) > 6 {
		t.Errorf("%d segments for two entries", len(g.views))
	}
}

func TestRule_IX39_LimitsAtNAndOneMore(t *testing.T) {
	x := indexOf(t, simple("a.example", "Chess", ""))
	at := &Position{Depth: MaxDepth - 1, ID: "x"}
	beyond := &Position{Depth: MaxDepth, ID: "x"}
	for _, tc := range []struct {
		name string
		q    Query
		ok   bool
	}{
		{"200 characters", Query{Text: strings.Repeat("棋", 200), Limit: 1}, true},
		{"201 characters", Query{Text: strings.Repeat("棋", 201), Limit: 1}, false},
		{"limit 100", Query{Text: "a", Limit: 100}, true},
		{"limit 101", Query{Text: "a", Limit: 101}, false},
		{"limit 0", Query{Text: "a"}, false},
		{"depth 999", Query{Text: "a", Limit: 1, After: at}, true},
		{"depth 1000", Query{Text: "a", Limit: 1, After: beyond}, false},
		{"depth of a listing", Query{Limit: 1, After: beyond}, true},
	} {
		_, err := x.Search(t.Context(), tc.q)
		if tc.ok != (err == nil) || !tc.ok && !errors.Is(err, ErrQuery) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}

	// Of more than twelve words, those that the fewest entries hold.
	var apps []app
	var ws []string
	for i := range 14 {
		w := fmt.Sprintf("word%c", 'a'+i)
		ws = append(ws, w)
		for k := range i + 1 {
			apps = append(apps, simple(fmt.Sprintf("h%d-%d.example", i, k), w, ""))
		}
	}
	page := search(t, indexOf(t, apps...), Query{Text: strings.Join(ws, " "), Limit: 1})
	if !cmp.Equal(page.Words, ws[:MaxTerms]) {
		t.Errorf("words used: %q", page.Words)
	}
	// No search goes deeper than MaxDepth.
	apps = apps[:0]
	for i := range MaxDepth + 50 {
		apps = append(apps, simple(fmt.Sprintf("h%d.example", i), "Chess", ""))
	}
	x = indexOf(t, apps...)
	if n := len(all(t, x, "chess", 93)); n != MaxDepth {
		t.Errorf("depth of a search: %d", n)
	}
	if n := len(all(t, x, "", 93)); n != MaxDepth+50 {
		t.Errorf("depth of a listing: %d", n)
	}
}

func TestRule_IX40_EveryClassOfQuery(t *testing.T) {
	x := indexOf(t, simple("a.example", "The chess app", "棋"), simple("b.example", "Go", ""))
	for q, n := range map[string]int{
		"": 2, "the": 1, "a": 1, "x": 0, "ch": 1, "棋": 1, "象棋": 0, "nobody": 0, "  ": 2, "+-*/": 0, "🎉": 0, "an app": 2,
	} {
		if got := len(find(t, x, q, 10)); got != n {
			t.Errorf("%q finds %d, want %d", q, got, n)
		}
	}
}

// A search looks at its deadline while it reads postings.
func TestRule_IX41_Deadline(t *testing.T) {
	x := indexOf(t, simple("a.example", "Chess", ""))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := x.Search(ctx, Query{Text: "chess", Limit: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("search after its context ended: %v", err)
	}
	g := x.gen.Load()
	if _, err := g.score(ctx, g.analyze("chess")); !errors.Is(err, context.Canceled) {
		t.Errorf("postings loop: %v", err)
	}
	// The next search is none the worse for it.
	want(t, find(t, x, "chess", 5), "a.example")
	if _, err := New(nil).Search(t.Context(), Query{Text: "chess", Limit: 1}); !errors.Is(err, ErrNotLoaded) {
		t.Errorf("not loaded: %v", err)
	}
}

// Entries that come and go between two pages move nothing.
func TestRule_IX44_PagesDoNotDrift(t *testing.T) {
	var apps []app
	for i := range 40 {
		apps = append(apps, simple(fmt.Sprintf("h%d-a.com", i), "Chess", ""))
	}
	x := indexOf(t, apps...)
	for _, text := range []string{"chess", ""} {
		x.gen.Store(generationOf(t, apps...))
		before := all(t, x, text, 100)
		for _, limit := range []int{4, 10, 15} {
			x.gen.Store(generationOf(t, apps...))
			page := search(t, x, Query{Text: text, Limit: limit})
			got := urls(page)
			// One shown and one not yet shown go, others come everywhere.
			changes := []index.Change{
				{Op: index.Delete, ID: index.ID(got[1])},
				{Op: index.Delete, ID: index.ID(before[30])},
			}
			for i := range 5 {
				e := simple(fmt.Sprintf("new%d.com", i), "Chess", "").entry(t)
				changes = append(changes, index.Change{Op: index.Upsert, ID: e.ID, Entry: e})
			}
			x.gen.Store(x.gen.Load().apply(index.Head{Seq: 99}, changes))
			for page.Next != nil {
				page = search(t, x, Query{Text: text, Limit: limit, After: page.Next})
				got = append(got, urls(page)...)
			}
			got = slices.DeleteFunc(got, func(u string) bool { return strings.Contains(u, "//new") })
			expect := slices.DeleteFunc(slices.Clone(before), func(u string) bool { return u == before[30] })
			if diff := cmp.Diff(expect, got); diff != "" {
				t.Errorf("%q, pages of %d (-want +got):\n%s", text, limit, diff)
			}
		}
	}
}

// D37: search is in the process, fed by values alone; no store is asked.
func TestRule_D37_SearchWithoutAStore(t *testing.T) {
	x := indexOf(t, simple("a.example", "Chess", ""))
	want(t, find(t, x, "chess", 1), "a.example")
}

// An entry whose text trips a bug costs itself only.
func TestHostileEntryCostsItselfOnly(t *testing.T) {
	broken := simple("b.example", "Chess", "").entry(t)
	broken.Document = []byte("{")
	broken.Evidence = nil
	x := New(nil)
	x.gen.Store(load(index.Head{}, []*index.Entry{simple("a.example", "Chess", "").entry(t), broken}))
	want(t, find(t, x, "chess", 5), "a.example")
	if n := len(find(t, x, "", 5)); n != 2 {
		t.Errorf("listing has %d", n)
	}
	if got := newAnalyzer().terms(nil); got != nil { // it panics inside
		t.Errorf("terms %v", got)
	}
}
