package search

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/openbot-build/openbot-go/index"
)

// Constants of ranking (index.md sections 4 and 5).
const (
	tierAll = 0 // every word of the query
	tierAny = 1 // some of them

	openBelow   = 20 // a tier opens while fewer entries are found (IX-26)
	boostTenths = 13 // IX-30
	pollEvery   = 4096
)

var tierNames = [...]string{tierAll: "all", tierAny: "any"}

// candidate is an entry that matches, by its number in the generation. A
// higher key is a better place: tier, then score.
type candidate struct {
	key  int64
	doc  uint32
	view uint32
}

func keyOf(tier int, score int64) int64 { return int64(tierAny-tier)<<48 | min(score, 1<<48-1) }

func (c candidate) tier() int    { return tierAny - int(c.key>>48) }
func (c candidate) score() int64 { return c.key & (1<<48 - 1) }

// match holds the scores of all entries that have a word of the query.
type match struct {
	g       *generation
	arrays  *arrays
	matched []candidate
	all     int // of tierAll
	anyOpen bool
	skip    func(candidate) bool // results that are not wanted; nil: all are
}

// arrays are the working memory of one query. slots has a place for each
// document, all zero between queries.
type arrays struct {
	slots []slot

	touched, once []uint32
	matched       []candidate
}

// slot is what a query knows of one document.
type slot struct {
	total int32 // of the words done
	best  int32 // of the word in hand
	words uint8 // required words that it has
	boost uint8
}

var arraysPool = sync.Pool{New: func() any { return new(arrays) }}

func borrowArrays(docs int) *arrays {
	a := arraysPool.Get().(*arrays)
	if len(a.slots) < docs {
		a.slots = make([]slot, docs+docs/8)
	}
	a.touched, a.once, a.matched = a.touched[:0], a.once[:0], a.matched[:0]
	return a
}

// release gives the working memory back. It is left out after an error or a
// panic: then the arrays are not clean.
func (m *match) release() { arraysPool.Put(m.arrays) }

// score works out the score of every result of q. The error is that of ctx.
//
// Often enough entries have all the words, and those with some of them are not
// asked for (IX-26). So a first pass begins with the rarest word and passes
// over what lacks another; only when few are left is everything scored.
func (g *generation) score(ctx context.Context, q *query) (*match, error) {
	a := borrowArrays(g.docs)
	words := slices.Clone(q.words)
	slices.SortStableFunc(words, func(x, y word) int { return cmp.Compare(x.cost(), y.cost()) })
	if err := g.add(ctx, a, words, true); err != nil {
		return nil, err
	}
	m := g.rank(a, q)
	enough := m.all >= openBelow
	if q.counts.kept != nil {
		enough = !q.counts.open
	}
	if len(words) < 2 || enough {
		return m, nil
	}
	a.touched, a.matched = a.touched[:0], a.matched[:0]
	if err := g.add(ctx, a, words, false); err != nil {
		return nil, err
	}
	return g.rank(a, q), nil
}

// add adds the scores of words to the slots. With narrow, a word counts only
// in documents that have all required words before it.
func (g *generation) add(ctx context.Context, a *arrays, words []word, narrow bool) error {
	need := uint8(0)
	for _, w := range words {
		a.once = a.once[:0]
		for _, alt := range w.alts {
			for i, v := range g.views {
				term, ok := v.term(alt.term)
				if !ok {
					continue
				}
				docs, parts := v.postings(term)
				for len(docs) > 0 {
					if err := ctx.Err(); err != nil {
						return err
					}
					n := min(len(docs), pollEvery)
					a.collect(docs[:n], parts[:n], uint32(g.bases[i]), alt.idf, need)
					docs, parts = docs[n:], parts[n:]
				}
			}
		}
		a.addWord(!w.extra)
		if narrow && !w.extra {
			need++
		}
	}
	return nil
}

// collect notes the best score of one word in each of docs that has the
// required words before it.
func (a *arrays) collect(docs []uint32, parts []uint16, base uint32, idf int64, need uint8) {
	for k, doc := range docs {
		doc += base
		s := &a.slots[doc]
		if s.words < need {
			continue
		}
		score := max(1, int32(idf*int64(parts[k])>>15))
		if s.best == 0 {
			a.once = append(a.once, doc)
		}
		s.best = max(s.best, score)
	}
}

// addWord adds the best scores of one word to the totals.
func (a *arrays) addWord(required bool) {
	var one uint8
	if required {
		one = 1
	}
	for _, doc := range a.once {
		s := &a.slots[doc]
		if s.total == 0 {
			a.touched = append(a.touched, doc)
		}
		s.total += s.best
		s.best = 0
		s.words += one
	}
}

// rank makes the candidates and leaves the arrays clean.
func (g *generation) rank(a *arrays, q *query) *match {
	g.boost(a, keyTitle+q.phrase)
	g.boost(a, keyPublisher+q.phrase)
	m, required := &match{g: g, arrays: a}, q.required()
	view, from, to := 0, uint32(1), uint32(0) // documents from:to are of view
	for _, doc := range a.touched {
		if doc < from || doc >= to {
			view = g.viewOf(int(doc))
			from = uint32(g.bases[view])
			to = from + uint32(len(g.views[view].entries))
		}
		v := g.views[view]
		s := &a.slots[doc]
		score, tier := int64(s.total), tierAny
		if int(s.words) == required {
			tier = tierAll
		}
		for range s.boost {
			score = score * boostTenths / 10
		}
		score = score * int64(v.standing[doc-from]) / 100
		*s = slot{}
		if v.isDead(doc - from) {
			continue
		}
		if tier == tierAll {
			m.all++
		}
		a.matched = append(a.matched, candidate{keyOf(tier, score), doc, uint32(view)})
	}
	m.matched = a.matched
	m.anyOpen = m.all < openBelow && m.all < len(m.matched)
	if q.counts.kept != nil {
		m.anyOpen = q.counts.open // all pages of a search see the tiers of its first
	}
	if !m.anyOpen && m.all < len(m.matched) {
		m.matched = slices.DeleteFunc(m.matched, func(c candidate) bool { return c.tier() != tierAll })
	}
	return m
}

// boost notes the entries that a key of the dictionary names, if they match.
func (g *generation) boost(a *arrays, key string) {
	if len(key) == 1 {
		return
	}
	for i, v := range g.views {
		if term, ok := v.term(key); ok {
			docs, _ := v.postings(term)
			for _, d := range docs {
				if s := &a.slots[uint32(g.bases[i])+d]; s.total > 0 {
					s.boost++
				}
			}
		}
	}
}

// compare is the order of results: tier, score, id (IX-29). Documents of one
// segment are in the order of their ids.
func (m *match) compare(a, b candidate) int {
	switch {
	case a.key != b.key:
		return cmp.Compare(b.key, a.key)
	case a.view == b.view:
		return cmp.Compare(a.doc, b.doc)
	}
	return strings.Compare(m.entry(a).ID, m.entry(b).ID)
}

func (m *match) entry(c candidate) *index.Entry {
	return m.g.views[c.view].entries[int(c.doc)-m.g.bases[c.view]]
}

// after reports whether c stands after a position.
func (m *match) after(c candidate, p *Position) bool {
	if key := keyOf(p.Tier, p.Score); c.key != key {
		return c.key < key
	}
	return m.entry(c).ID > p.ID
}

// top gives the first n candidates after p, in order; p may be nil. It keeps
// the n best in a heap with the worst at its root.
func (m *match) top(n int, p *Position) []candidate {
	heap := make([]candidate, 0, min(n, len(m.matched)))
	worse := func(i, k int) bool { return m.compare(heap[i], heap[k]) > 0 }
	down := func(i int) {
		for {
			k := 2*i + 1
			if k >= len(heap) {
				return
			}
			if k+1 < len(heap) && worse(k+1, k) {
				k++
			}
			if !worse(k, i) {
				return
			}
			heap[i], heap[k] = heap[k], heap[i]
			i = k
		}
	}
	for _, c := range m.matched {
		if p != nil && !m.after(c, p) {
			continue
		}
		if len(heap) == n && m.compare(c, heap[0]) > 0 || m.skip != nil && m.skip(c) {
			continue
		}
		switch {
		case len(heap) < n:
			heap = append(heap, c)
			for i := len(heap) - 1; i > 0 && worse(i, (i-1)/2); i = (i - 1) / 2 {
				heap[i], heap[(i-1)/2] = heap[(i-1)/2], heap[i]
			}
		default:
			heap[0] = c
			down(0)
		}
	}
	slices.SortFunc(heap, m.compare)
	return heap
}

// listing gives a page of all live entries by id, after an id.
func (g *generation) listing(after *Position, limit int) *Page {
	page := &Page{Head: g.head}
	depth, from := 0, ""
	if after != nil {
		depth, from = after.Depth, after.ID
	}
	next := make([]int, len(g.views))
	for i, v := range g.views {
		doc, found := v.doc(from)
		next[i] = int(doc)
		if found {
			next[i]++
		}
	}
	for {
		var least *index.Entry
		for i, v := range g.views {
			for next[i] < len(v.entries) && v.isDead(uint32(next[i])) {
				next[i]++
			}
			if next[i] < len(v.entries) && (least == nil || v.entries[next[i]].ID < least.ID) {
				least = v.entries[next[i]]
			}
		}
		if least == nil {
			return page
		}
		if len(page.Hits) == limit {
			last := page.Hits[limit-1].Position
			page.Next = &last
			return page
		}
		depth++
		page.Hits = append(page.Hits, Hit{Entry: least, Position: Position{ID: least.ID, Depth: depth}})
		for i, v := range g.views {
			if next[i] < len(v.entries) && v.entries[next[i]] == least {
				next[i]++
			}
		}
	}
}
