package search

import (
	"math/bits"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/openbot-build/openbot-go/index"
)

// generation is the whole index at one moment. It is immutable: a query holds
// one from start to end, and an update makes the next (IX-34).
type generation struct {
	head  index.Head
	views []view
	bases []int // number of each view's first document, among all
	docs  int   // dead ones included
	live  int
}

func newGeneration(head index.Head, views []view) *generation {
	g := &generation{head: head, views: views, bases: make([]int, len(views))}
	for i, v := range views {
		g.bases[i] = g.docs
		g.docs += len(v.entries)
		g.live += v.live()
	}
	return g
}

// chunk is how many entries of a snapshot one goroutine analyzes at a time.
const chunk = 4096

// load makes a generation of a whole snapshot. Entries may come in any order,
// each id once.
func load(head index.Head, entries []*index.Entry) *generation {
	slices.SortFunc(entries, func(a, b *index.Entry) int { return strings.Compare(a.ID, b.ID) })
	var views []view
	for part := range slices.Chunk(entries, chunk) {
		views = append(views, view{segment: &segment{entries: slices.Clone(part)}})
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range views {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			views[i].segment = buildSegment(views[i].entries)
		})
	}
	wg.Wait()
	if len(views) > 1 {
		views = []view{{segment: merge(views)}}
	}
	return newGeneration(head, views)
}

// find gives the live document of an id.
func (g *generation) find(id string) (v int, doc uint32, ok bool) {
	for v := range g.views {
		if doc, ok := g.views[v].doc(id); ok && !g.views[v].isDead(doc) {
			return v, doc, true
		}
	}
	return 0, 0, false
}

// viewOf gives the view that holds a document, by its number among all.
func (g *generation) viewOf(doc int) int {
	i, ok := slices.BinarySearch(g.bases, doc)
	if !ok {
		i--
	}
	return i
}

// apply gives the generation after changes, which are in the order of the
// feed. An update is a delete and an add in this one step (IX-35).
func (g *generation) apply(head index.Head, changes []index.Change) *generation {
	last := make(map[string]*index.Entry, len(changes))
	for _, c := range changes {
		last[c.ID] = nil
		if c.Op == index.Upsert && c.Entry != nil && c.Entry.State.Searchable() {
			last[c.ID] = c.Entry
		}
	}
	dead := make(map[int][]uint32)
	var fresh []*index.Entry
	for id, e := range last {
		if v, doc, ok := g.find(id); ok {
			dead[v] = append(dead[v], doc)
		}
		if e != nil {
			fresh = append(fresh, e)
		}
	}
	views := slices.Clone(g.views)
	a := newAnalyzer()
	for v, docs := range dead {
		views[v] = views[v].without(docs, a)
	}
	if len(fresh) > 0 {
		slices.SortFunc(fresh, func(a, b *index.Entry) int { return strings.Compare(a.ID, b.ID) })
		views = append(views, view{segment: buildSegment(fresh)})
	}
	return newGeneration(head, tidy(views))
}

// mergeAt is how many segments of one size class are merged into one.
const mergeAt = 4

// tidy drops empty segments, rewrites those with a quarter of dead documents,
// and merges those of one size class when there are too many. A query meets at
// most mergeAt-1 segments a class, each class four times the one before.
func tidy(views []view) []view {
	views = slices.DeleteFunc(views, func(v view) bool { return v.live() == 0 })
	for i, v := range views {
		if v.dead != nil && v.dead.n*4 >= len(v.entries) {
			views[i] = view{segment: merge(views[i : i+1])}
		}
	}
	for {
		classes := make(map[int][]view)
		class := func(v view) int { return bits.Len(uint(v.live())) / 2 }
		full := -1
		for _, v := range views {
			c := class(v)
			classes[c] = append(classes[c], v)
			if len(classes[c]) >= mergeAt && (full < 0 || c < full) {
				full = c
			}
		}
		if full < 0 {
			return views
		}
		merged := view{segment: merge(classes[full])}
		views = slices.DeleteFunc(views, func(v view) bool { return class(v) == full })
		views = append(views, merged)
	}
}
