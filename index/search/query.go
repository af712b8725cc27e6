package search

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/openbot-build/openbot-go/index"
)

// Bounds and factors of the ways a query word finds entries.
const (
	maxPrefixTerms = 64 // IX-23
	maxGramTerms   = 64 // of all one-character words together
	minPrefixRunes = 2
	exactTenths    = 10
	prefixTenths   = 6
)

// word is one word of a query with everything that may stand for it in an
// entry. The best alternative counts (IX-27).
type word struct {
	text string
	alts []alt
	// extra words are the parts of a camelCase word: they add to a score, but
	// tier "all" does not ask for them.
	extra bool
}

// cost is how many postings a word has; extra words come last.
func (w *word) cost() int {
	n := 0
	if w.extra {
		n = 1 << 40
	}
	for _, a := range w.alts {
		n += a.df
	}
	return n
}

// alt is a term of the dictionary.
type alt struct {
	term string
	df   int
	idf  int64 // factor included
}

// query is a query text made ready for one generation.
type query struct {
	words  []word
	phrase string // the text as one key, for the boosts
	counts *counts
}

// required is how many words an entry of tier "all" has.
func (q *query) required() int {
	n := 0
	for _, w := range q.words {
		if !w.extra {
			n++
		}
	}
	return n
}

// names reports whether every word that q asks for stands in the publisher
// field of e: then the publisher itself is looked for.
func (q *query) names(e *index.Entry) bool {
	a, terms := newAnalyzer(), make(map[string]bool)
	for _, text := range textsOf(e).fields[fieldPublisher] {
		a.tokens(text, func(t token) bool {
			terms[t.text], terms[t.stem] = true, true
			return true
		})
	}
	for _, w := range q.words {
		if !w.extra && !slices.ContainsFunc(w.alts, func(a alt) bool { return terms[a.term] }) {
			return false
		}
	}
	return true
}

// df is the number of live entries that hold a term.
func (g *generation) df(term string) int {
	n := 0
	for _, v := range g.views {
		if i, ok := v.term(term); ok {
			n += v.df(i)
		}
	}
	return n
}

// idf is the weight of a term that df of live entries hold: log2 of
// (2N + 2) / (2 df + 1), in 1/65536, at least 1. It is BM25's
// ln(1 + (N - df + 0.5) / (df + 0.5)) to another base.
func (c *counts) idf(df int) int64 {
	return max(1, log2(uint64(2*c.live+2))-log2(uint64(2*df+1)))
}

// log2 gives the logarithm of x > 0 in 1/65536, by squaring. The functions of
// package math round differently on different processors (IX-29).
func log2(x uint64) int64 {
	n := bits.Len64(x) - 1
	out := int64(n)
	m := x << (63 - n) >> 32 // 1 <= m < 2 in units of 1<<31
	for range 16 {
		m = m * m >> 31
		out <<= 1
		if m >= 1<<32 {
			m >>= 1
			out |= 1
		}
	}
	return out
}

// analyze makes the words of a query and their alternatives. text is at most
// MaxQueryRunes long. The error is that of ctx.
func (c *counts) analyze(ctx context.Context, text string) (*query, error) {
	a := newAnalyzer()
	q := &query{phrase: a.phrase(text), counts: c}
	var tokens []token
	seen := make(map[string]bool)
	a.tokens(text, func(t token) bool {
		// A run of several characters is asked for by its bigrams; its last
		// character is there for queries of one character.
		if (!t.single || t.alone) && !seen[t.text] {
			seen[t.text] = true
			tokens = append(tokens, t)
		}
		return true
	})
	if slices.ContainsFunc(tokens, func(t token) bool { return !isStop(t.text) }) {
		tokens = slices.DeleteFunc(tokens, func(t token) bool { return isStop(t.text) })
	}
	alone := 0
	for _, t := range tokens {
		if t.alone {
			alone++
		}
	}
	var extras []word
	for i, t := range tokens {
		var err error
		w := word{text: t.text}
		c.addExact(&w, t.text)
		if t.stem != "" {
			c.addExact(&w, t.stem)
		}
		switch {
		case t.alone:
			err = c.addGrams(ctx, &w, max(1, maxGramTerms/min(alone, MaxTerms)))
		case !t.gram && i == len(tokens)-1:
			err = c.addPrefix(ctx, &w)
		}
		if err != nil {
			return nil, err
		}
		q.words = append(q.words, w)
		for _, part := range t.parts {
			p := word{text: part, extra: true}
			c.addExact(&p, part)
			if s := stem(part); s != part {
				c.addExact(&p, s)
			}
			extras = append(extras, p)
		}
	}
	for _, p := range extras {
		if !seen[p.text] {
			seen[p.text] = true
			q.words = append(q.words, p)
		}
	}
	q.words = fewest(q.words)
	return q, nil
}

// fewest keeps the MaxTerms words that the fewest entries hold, in the order of
// the query (IX-39). Words that no entry holds go first: they find nothing.
func fewest(words []word) []word {
	if len(words) <= MaxTerms {
		return words
	}
	df := func(w word) int {
		n := 0
		for _, alt := range w.alts {
			n = max(n, alt.df)
		}
		if n == 0 || w.extra {
			return 1 << 62
		}
		return n
	}
	order := make([]int, len(words))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, k int) int { return cmp.Compare(df(words[i]), df(words[k])) })
	order = order[:MaxTerms]
	slices.Sort(order)
	out := make([]word, 0, MaxTerms)
	for _, i := range order {
		out = append(out, words[i])
	}
	return out
}

func (c *counts) addExact(w *word, term string) {
	if df := c.df(term); df > 0 {
		w.alts = append(w.alts, alt{term, df, c.idf(df) * exactTenths / 10})
	}
}

// addPrefix adds the terms that begin with a word, those of most entries
// first. None weighs more than the whole word does, however rare it is: a
// whole word stands before a substring (FO-37).
func (c *counts) addPrefix(ctx context.Context, w *word) error {
	if utf8.RuneCountInString(w.text) < minPrefixRunes {
		return nil
	}
	highest := int64(1 << 62)
	if df := c.df(w.text); df > 0 {
		highest = c.idf(df)
	}
	found, err := c.beginning(ctx, w.text, maxPrefixTerms, func(term string) bool {
		return !slices.ContainsFunc(w.alts, func(a alt) bool { return a.term == term })
	})
	for _, a := range found {
		a.idf = min(c.idf(a.df), highest) * prefixTenths / 10
		w.alts = append(w.alts, a)
	}
	return err
}

// addGrams adds the bigrams that begin with the one character of w, those of
// most entries first (IX-22).
func (c *counts) addGrams(ctx context.Context, w *word, most int) error {
	found, err := c.beginning(ctx, w.text, most, func(term string) bool {
		return term != w.text && utf8.RuneCountInString(term) == 2
	})
	for _, a := range found {
		a.idf = c.idf(a.df)
		w.alts = append(w.alts, a)
	}
	return err
}

// check applies the limits of IX-39 to a query. Errors wrap ErrQuery.
func (q *Query) check() error {
	switch n := utf8.RuneCountInString(q.Text); {
	case n > MaxQueryRunes:
		return fmt.Errorf("%w: a query has at most %d characters, not %d", ErrQuery, MaxQueryRunes, n)
	case q.Limit < 1 || q.Limit > MaxLimit:
		return fmt.Errorf("%w: a page has 1 to %d results, not %d", ErrQuery, MaxLimit, q.Limit)
	case q.After != nil && q.Text != "" && (q.After.Depth < 1 || q.After.Depth >= MaxDepth):
		return fmt.Errorf("%w: a search shows its first %d results; a narrower query shows others", ErrQuery, MaxDepth)
	case q.After != nil && (len(q.After.Shown) > capWithin || len(q.After.Counts) > maxCounts):
		return fmt.Errorf("%w: a position is longer than any that a page gave", ErrQuery)
	}
	return nil
}
