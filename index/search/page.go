package search

import (
	"math"
	"slices"

	"github.com/openbot-build/openbot-go/index"
)

// No publisher takes the whole first screen (IX-32).
const (
	capWithin  = 10 // of the first results,
	capEach    = 3  // so many from one publisher
	shownRunes = 16 // of an id, in Position.Shown
	seenBytes  = 32 // of Position.Seen
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
		at = *after
	}
	limit = min(limit, MaxDepth-at.Depth)
	results := m.next(q, at, limit+1)

	next := at
	if at.Depth < capWithin {
		next = start
	}
	shown, seen := slices.Clone(at.Shown), make([]byte, seenBytes)
	copy(seen, at.Seen)
	for i, c := range results[:min(limit, len(results))] {
		e := m.entry(c)
		p := Position{Tier: c.tier(), Score: c.score(), ID: e.ID, Depth: at.Depth + i + 1}
		page.Hits = append(page.Hits, Hit{Entry: e, Position: p})
		octet, bit := seenBit(e.ID)
		seen[octet] |= bit
		if p.Depth <= capWithin {
			shown, next.Depth = append(shown, short(e.ID)), p.Depth
		} else {
			next = p
		}
	}
	if len(results) <= limit || next.Depth >= MaxDepth {
		return page
	}
	next.Shown, next.Seen = shown, seen
	next.Epoch, next.Since, next.Counts = at.Epoch, at.Since, at.Counts
	if len(at.Counts) == 0 {
		next.Epoch, next.Since, next.Counts = m.g.head.Epoch, m.g.head.Seq, q.keepCounts(m.anyOpen)
	}
	page.Next = &next
	return page
}

// next gives at least n results after a position if there are so many.
func (m *match) next(q *query, at Position, n int) []candidate {
	if at.Depth >= capWithin {
		m.skip = func(c candidate) bool { return isShown(m.entry(c), &at, m.g.head.Epoch) }
		return m.top(n, &at)
	}
	for look := n + 2*capWithin; ; look = MaxDepth + capWithin {
		looked := m.top(look, nil)
		results, ok := m.spread(q, looked, at, n)
		// Without enough from others, more of the plain order is looked at,
		// once: a query may match one publisher a thousand times.
		if ok || len(looked) < look || look > MaxDepth {
			return results
		}
	}
}

// isShown reports whether a result behind a position was shown before it: one
// of the first ten, or one that has changed since and stands lower now. Of the
// latter a few may be missed that were not shown; none comes twice.
func isShown(e *index.Entry, at *Position, epoch string) bool {
	if slices.Contains(at.Shown, short(e.ID)) {
		return true
	}
	if e.Seq <= at.Since || at.Epoch != epoch || len(at.Seen) != seenBytes {
		return false
	}
	octet, bit := seenBit(e.ID)
	return at.Seen[octet]&bit != 0
}

// seenBit is the place of an id in Position.Seen.
func seenBit(id string) (octet int, bit byte) {
	n := hashOf(id) % (seenBytes * 8)
	return int(n / 8), 1 << (n % 8)
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
