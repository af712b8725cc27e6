package search

import (
	"slices"
	"testing"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/internal/webtest"
)

type relevance struct {
	Cards []struct {
		URL, Name, Title, Description, Publisher string
		Tags, Prompts                            []string
	}
	Queries []struct {
		ID, Kind, Q string
		Relevant    []string
	}
}

// laterKinds are found by parts of the engine that are not built yet. Once one
// of them is, its line goes.
var laterKinds = map[string]string{
	"typo":    "typo tolerance (IX-24) is a later part of the engine",
	"synonym": "synonyms (IX-25) are a later part of the engine",
}

// Each relevant card is among the first ten results, in noise of 2,000 cards
// (IX-66 in small).
func TestRelevanceVectors(t *testing.T) {
	for _, v := range webtest.Vectors[relevance](t, "relevance.json") {
		if len(v.Queries) == 0 {
			t.Error("no queries")
		}
		x := New(nil)
		x.gen.Store(load(index.Head{}, corpus(t, v, 2000)))
		found, first, relevant, queries := 0, 0.0, 0, 0
		for _, q := range v.Queries {
			t.Run(q.ID+" "+q.Kind, func(t *testing.T) {
				if why, later := laterKinds[q.Kind]; later {
					t.Skip(why)
				}
				got := find(t, x, q.Q, 10)
				rank := 0
				for _, u := range q.Relevant {
					relevant++
					i := slices.Index(got, u)
					if i < 0 {
						t.Errorf("%q: %s is not among the first ten: %q", q.Q, u, got)
						continue
					}
					found++
					if rank == 0 || i+1 < rank {
						rank = i + 1
					}
				}
				queries++
				if rank > 0 {
					first += 1 / float64(rank)
				}
			})
		}
		if mrr := first / float64(queries); mrr < 0.93 {
			t.Errorf("MRR %.3f", mrr)
		} else {
			t.Logf("recall@10 %d of %d, MRR %.3f", found, relevant, mrr)
		}
	}
}

// corpus puts the cards of v at even distances into n cards of noise.
func corpus(t testing.TB, v relevance, n int) []*index.Entry {
	z := newNoise(1)
	var out []*index.Entry
	every := n / (len(v.Cards) + 1)
	for i := range n {
		out = append(out, z.app().entry(t))
		if k := i / every; i%every == 0 && k < len(v.Cards) {
			c := v.Cards[k]
			a := app{URL: c.URL, Name: c.Name, Title: c.Title, Description: c.Description, Tags: c.Tags, Prompts: c.Prompts}
			a.Catalog = "https://" + c.Publisher + "/.well-known/ai-catalog.json"
			out = append(out, a.entry(t))
		}
	}
	return out
}
