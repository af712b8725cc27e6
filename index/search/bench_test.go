package search

import (
	"fmt"
	"sync"
	"testing"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/internal/webtest"
)

const benchCards = 100_000

var benchIndex = sync.OnceValue(func() *Index {
	t := &testing.B{}
	v := webtest.Vectors[relevance](t, "relevance.json")[0]
	x := New(nil)
	x.gen.Store(load(index.Head{}, corpus(t, v, benchCards)))
	return x
})

// BenchmarkSearch measures one page of 20 at 100,000 cards, by class of query.
func BenchmarkSearch(b *testing.B) {
	x := benchIndex()
	g := x.gen.Load()
	b.Logf("%d entries, %d terms, %d postings", g.live, len(g.views[0].terms), len(g.views[0].docs))
	for _, c := range []struct{ class, q string }{
		{"word", "warehouse"},
		{"common", "list"},
		{"words", "warehouse report export"},
		{"long", "export the latest warehouse list for my task"},
		{"prefix2", "wa"},
		{"prefix", "wareh"},
		{"zh1", "库"},
		{"zh2", "仓库"},
		{"zhphrase", "创建仓库记录"},
		{"mixed", "仓库 export"},
		{"nobody", "xyzzyplugh"},
		{"stop", "the"},
		{"everything", "com server api"},
		{"listing", ""},
	} {
		b.Run(c.class, func(b *testing.B) {
			for b.Loop() {
				if _, err := x.Search(b.Context(), Query{Text: c.q, Limit: 20}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkApply measures one change in an index of 100,000 cards.
func BenchmarkApply(b *testing.B) {
	g := benchIndex().gen.Load()
	z := newNoise(2)
	for b.Loop() {
		e := z.app().entry(b)
		g = g.apply(index.Head{}, []index.Change{{Op: index.Upsert, ID: e.ID, Entry: e}})
	}
}

// BenchmarkLoad measures the load of 10,000 cards.
func BenchmarkLoad(b *testing.B) {
	z := newNoise(3)
	var entries []*index.Entry
	for range 10_000 {
		entries = append(entries, z.app().entry(b))
	}
	for b.Loop() {
		load(index.Head{}, entries)
	}
}

// BenchmarkBeginning measures a word that a million terms begin with, in one
// segment and in eight.
func BenchmarkBeginning(b *testing.B) {
	for _, segments := range []int{1, 8} {
		g := vocabularyOf(1_000_000, segments)
		b.Run(fmt.Sprintf("segments%d", segments), func(b *testing.B) {
			for b.Loop() {
				if _, err := g.counts().beginning(b.Context(), "zz", maxPrefixTerms, func(string) bool { return true }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkNextPage measures the second page of a search, whose counts come
// with the position.
func BenchmarkNextPage(b *testing.B) {
	x := benchIndex()
	for _, q := range []string{"warehouse report export", "wa", "库"} {
		page, err := x.Search(b.Context(), Query{Text: q, Limit: 20})
		if err != nil || page.Next == nil {
			b.Fatal(page, err)
		}
		b.Run(q, func(b *testing.B) {
			for b.Loop() {
				if _, err := x.Search(b.Context(), Query{Text: q, Limit: 20, After: page.Next}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
