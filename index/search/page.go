package search

import (
	"math"
	"slices"
)

// No publisher takes the whole first screen (IX-32).
const (
	capWithin  = 10 // of the first results,
	capEach    = 3  // so many from one publisher
	shownRunes = 16 // of an id, in Position.Shown
)

// start is the place before every result.
var start = Position{Score: math.MaxInt64}

// page gives one page of results.
//
// Plain order is tier, score, id. Among the first capWithin results at most
// capEach are of one publisher; what is passed over for that follows after
// them, in plain order. So that pages do not drift (IX-44), a position knows
// the first results by id, and all others by a place in plain order.
func (m *match) page(q *query, after *Position, limit int) *Page {
	page := &Page{Head: m.g.head, Tier: tierNames[tierAll]}
	if m.anyOpen {
		page.Tier = tierNames[tierAny]
	}
	for _, w := range q.words {
		page.Words = append(page.Words, w.text)
	}
	at := start
	if after != nil {
		at = m.now(*after)
	}
	limit = min(limit, MaxDepth-at.Depth)
	results, looked := m.next(q, at, limit+1)

	next := at
	if at.Depth < capWithin {
		next = start
	}
	next.Shown = slices.Clone(at.Shown)
	for i, c := range results[:min(limit, len(results))] {
		e := m.entry(c)
		p := Position{Tier: c.tier(), Score: c.score(), ID: e.ID, Depth: at.Depth + i + 1}
		page.Hits = append(page.Hits, Hit{Entry: e, Position: p})
		if p.Depth <= capWithin {
			next.Shown, next.Depth = append(next.Shown, short(e.ID)), p.Depth
		} else {
			p.Shown = next.Shown
			next = p
		}
	}
	if len(results) <= limit || next.Depth >= MaxDepth {
		return page
	}
	// What stands before the place needs no name any more.
	for _, c := range looked {
		if id := short(m.entry(c).ID); !m.after(c, &next) {
			next.Shown = slices.DeleteFunc(next.Shown, func(s string) bool { return s == id })
		}
	}
	page.Next = &next
	return page
}

// now moves a position to where its entry stands in this generation. Each
// change of the index shifts the weight of words a little, and with it every
// score; the order of the entries hardly ever. A position whose entry has gone
// stays where it was.
func (m *match) now(p Position) Position {
	v, d, ok := m.g.find(p.ID)
	if !ok {
		return p
	}
	doc := uint32(m.g.bases[v]) + d
	for _, c := range m.matched {
		if c.doc == doc {
			p.Tier, p.Score = c.tier(), c.score()
		}
	}
	return p
}

// next gives at least n results after a position if there are so many, and the
// candidates it looked at for that.
func (m *match) next(q *query, at Position, n int) (results, looked []candidate) {
	if at.Depth >= capWithin {
		looked = m.top(n+len(at.Shown), &at)
		return m.unshown(looked, at.Shown), looked
	}
	for look := n + 2*capWithin; ; look = MaxDepth + capWithin {
		looked = m.top(look, nil)
		results, ok := m.spread(q, looked, at, n)
		// Without enough from others, more of the plain order is looked at,
		// once: a query may match one publisher a thousand times.
		if ok || len(looked) < look || look > MaxDepth {
			return results, looked
		}
	}
}

// spread orders the results after a position among the first capWithin. ok
// tells that more candidates would not change the first n.
func (m *match) spread(q *query, looked []candidate, at Position, n int) (results []candidate, ok bool) {
	count := make(map[string]int)
	exempt := make(map[string]bool)
	for _, c := range looked {
		if e := m.entry(c); slices.Contains(at.Shown, short(e.ID)) {
			count[publisherDomain(e)]++
		}
	}
	var first, passed, rest []candidate
	for _, c := range m.unshown(looked, at.Shown) {
		if at.Depth+len(first) == capWithin {
			rest = append(rest, c)
			continue
		}
		e := m.entry(c)
		domain := publisherDomain(e)
		if domain != "" && count[domain] >= capEach {
			free, known := exempt[domain]
			if !known {
				free = q.names(e)
				exempt[domain] = free
			}
			if !free {
				passed = append(passed, c)
				continue
			}
		}
		count[domain]++
		first = append(first, c)
	}
	return slices.Concat(first, passed, rest), at.Depth+len(first) == capWithin || len(first) >= n
}

func (m *match) unshown(list []candidate, shown []string) []candidate {
	return slices.DeleteFunc(slices.Clone(list), func(c candidate) bool {
		return slices.Contains(shown, short(m.entry(c).ID))
	})
}

// short is enough of an id to know it again within one search.
func short(id string) string { return id[:min(shownRunes, len(id))] }
