package search

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
)

// counts are what the weight of a word is made of: how many entries are live,
// and how many of them hold a term. Those of a first page hold for all pages
// after it, else each change of the index would move every score a little, and
// with it the place of a cursor among entries that have not changed (IX-44).
type counts struct {
	g    *generation
	live int
	kept map[uint32]int // by hash of the term; nil: those of g
	open bool           // with kept: tier "any" was open
}

func (g *generation) counts() *counts { return &counts{g: g, live: g.live} }

// hashOf names a term in a position. Two terms of one hash would only share a
// number.
func hashOf(term string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(term)) // a hash takes all
	return h.Sum32()
}

// df is the number of entries that hold a term.
func (c *counts) df(term string) int {
	if c.kept != nil {
		return c.kept[hashOf(term)]
	}
	return c.g.df(term)
}

var errCounts = errors.New("counts are broken")

// keepCounts writes the counts that q was weighed by: at most seven octets or
// so for each alternative, of which there are at most 2 * MaxTerms and
// maxBeginning.
func (q *query) keepCounts(open bool) []byte {
	out := []byte{0}
	if open {
		out[0] = 1
	}
	out = binary.AppendUvarint(out, uint64(q.counts.live))
	seen := make(map[uint32]bool)
	for _, w := range q.words {
		for _, a := range w.alts {
			if h := hashOf(a.term); !seen[h] {
				seen[h] = true
				out = binary.LittleEndian.AppendUint32(out, h)
				out = binary.AppendUvarint(out, uint64(a.df))
			}
		}
	}
	return out
}

// countsOf gives the counts for a page: of g, or those that a position kept.
func (g *generation) countsOf(p *Position) (*counts, error) {
	if p == nil || len(p.Counts) == 0 {
		return g.counts(), nil
	}
	c := &counts{g: g, kept: make(map[uint32]int), open: p.Counts[0] == 1}
	data := p.Counts[1:]
	number := func() (int, bool) {
		v, n := binary.Uvarint(data)
		if n <= 0 || v > 1<<31 {
			return 0, false
		}
		data = data[n:]
		return int(v), true
	}
	var ok bool
	if c.live, ok = number(); !ok {
		return nil, fmt.Errorf("%w: %w", ErrQuery, errCounts)
	}
	for len(data) > 0 {
		if len(data) < 5 {
			return nil, fmt.Errorf("%w: %w", ErrQuery, errCounts)
		}
		h := binary.LittleEndian.Uint32(data)
		data = data[4:]
		if c.kept[h], ok = number(); !ok {
			return nil, fmt.Errorf("%w: %w", ErrQuery, errCounts)
		}
	}
	return c, nil
}

// beginning gives at most n terms that begin with p: those of most entries
// first, then by alphabet. A short beginning may have a million terms, so it
// walks the sorted dictionaries side by side, keeps the best n in a heap, and
// looks at ctx on the way (IX-40, IX-41).
func (c *counts) beginning(ctx context.Context, p string, n int, keep func(term string) bool) ([]alt, error) {
	type span struct {
		view
		at, to int
	}
	var spans []span
	for _, v := range c.g.views {
		if from, to := v.prefix(p); from < to {
			spans = append(spans, span{v, from, to})
		}
	}
	best := make([]alt, 0, n) // a heap with the worst at its root
	for steps := 0; len(spans) > 0; steps++ {
		if steps%pollEvery == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		term := spans[0].terms[spans[0].at]
		for i := 1; i < len(spans); i++ {
			term = min(term, spans[i].terms[spans[i].at])
		}
		df, ended := 0, false
		for i := range spans {
			s := &spans[i]
			if s.terms[s.at] == term {
				df += s.df(s.at)
				s.at++
				ended = ended || s.at == s.to
			}
		}
		if ended {
			spans = slices.DeleteFunc(spans, func(s span) bool { return s.at == s.to })
		}
		if df > 0 && c.kept != nil {
			df = c.kept[hashOf(term)]
		}
		// Terms come in the order of the alphabet: one of as many entries as
		// the worst that is kept is no better.
		if df == 0 || len(best) == n && df <= best[0].df || !keep(term) {
			continue
		}
		best = pushBest(best, n, alt{term: term, df: df})
	}
	slices.SortFunc(best, byEntries)
	return best, nil
}

func byEntries(a, b alt) int {
	return cmp.Or(cmp.Compare(b.df, a.df), strings.Compare(a.term, b.term))
}

// pushBest adds a to a heap of at most n, in place of the worst if it is full.
func pushBest(heap []alt, n int, a alt) []alt {
	worse := func(i, k int) bool { return byEntries(heap[i], heap[k]) > 0 }
	if len(heap) < n {
		heap = append(heap, a)
		for i := len(heap) - 1; i > 0 && worse(i, (i-1)/2); i = (i - 1) / 2 {
			heap[i], heap[(i-1)/2] = heap[(i-1)/2], heap[i]
		}
		return heap
	}
	heap[0] = a
	for i := 0; ; {
		k := 2*i + 1
		if k >= len(heap) {
			return heap
		}
		if k+1 < len(heap) && worse(k+1, k) {
			k++
		}
		if !worse(k, i) {
			return heap
		}
		heap[i], heap[k] = heap[k], heap[i]
		i = k
	}
}
