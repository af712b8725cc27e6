// Package search is the full-text index of an API node. It lives in the
// process, is built from a snapshot of the store and follows its change feed
// (D37, IX-1): ranking is BM25F over an analyzer of its own, in integers, the
// same on every node.
package search

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

// Limits of one query (IX-39).
const (
	MaxQueryRunes = 200
	MaxTerms      = 12
	MaxLimit      = 100
	MaxDepth      = 1000
)

// RankerVersion is one number for analyzer, weights and tables (IX-33).
const RankerVersion = 2

// Conditions that a caller acts on.
var (
	ErrNotLoaded = errors.New("the search index is not loaded yet")
	ErrQuery     = errors.New("query out of range") // wrapped with a sentence that names the limit
)

// Source is what an Index follows: the reading half of a store.
type Source interface {
	Snapshot(ctx context.Context, fn func(*index.Entry) error) (index.Head, error)
	Changes(ctx context.Context, after int64, n int) ([]index.Change, error)
	Head(ctx context.Context) (index.Head, error)
	Watch(ctx context.Context) <-chan struct{}
}

// Options configure an Index.
type Options struct {
	Log *slog.Logger // nil logs nothing
}

// Index is safe for concurrent use: no query waits for an update, and a query
// sees one generation from start to end. One Follow at a time feeds it.
type Index struct {
	log *slog.Logger
	gen atomic.Pointer[generation] // nil until loaded

	mu       sync.Mutex
	syncedAt time.Time
	problem  string
}

// New gives an empty index. opts may be nil.
func New(opts *Options) *Index {
	x := &Index{log: slog.New(slog.DiscardHandler)}
	if opts != nil && opts.Log != nil {
		x.log = opts.Log
	}
	return x
}

// Query is one search or, with an empty Text, one page of the listing by id.
type Query struct {
	Text  string // at most MaxQueryRunes; as CleanQuery gives it, which Search does itself
	Limit int    // 1 to MaxLimit
	After *Position
}

// Position is where a page ended. Going on means "after this position", so
// entries added, changed or removed meanwhile move nothing (IX-44): scores are
// absolute, and those of a later page are worked out by the counts of the
// first. An entry that has not changed comes once; one that has changed since
// the first page comes once, or not at all.
//
// The first ten results are known by id, in Shown, because at most three of
// them are of one publisher (IX-32) and so not all in the order of tier, score
// and id. A caller keeps a Position and gives it back as it is.
type Position struct {
	Tier   int
	Score  int64
	ID     string
	Depth  int      // results before and up to this position
	Shown  []string // the first ten results: the first 16 characters of their ids
	Seen   []byte   // of all results so far: a filter of 32 octets, for those that change
	Counts []byte   // what the words weighed on the first page; at most maxCounts
	Epoch  string   // of the generation that gave the first page
	Since  int64    // its last change
}

// maxCounts is the most octets of a Position's Counts: flag, number of entries,
// and each alternative with its hash and number.
const maxCounts = 1 + 5 + (2*MaxTerms+max(maxPrefixTerms, maxGramTerms))*(4+5)

// Hit is one result. Entry is shared and must not be changed.
type Hit struct {
	Entry *index.Entry
	Position
}

// Page is an answer. Words are the query's terms as used.
type Page struct {
	Hits  []Hit
	Next  *Position // nil on the last page
	Tier  string
	Words []string
	Head  index.Head // generation that answered
}

// Search answers q. Errors wrap ErrQuery, ErrNotLoaded or the error of ctx,
// which is looked at while postings are read (IX-41).
//
// Every word of the query is asked for (tier "all"): as it stands, by its
// stem, the last one also as a beginning. While fewer than 20 entries have
// them all, entries with some of the words follow (tier "any", IX-26).
func (x *Index) Search(ctx context.Context, q Query) (*Page, error) {
	q.Text = CleanQuery(q.Text)
	if err := q.check(); err != nil {
		return nil, err
	}
	g := x.gen.Load()
	if g == nil {
		return nil, ErrNotLoaded
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	if q.Text == "" {
		return g.listing(q.After, q.Limit), nil
	}
	page, err := g.search(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	return page, nil
}

func (g *generation) search(ctx context.Context, q Query) (*Page, error) {
	c, err := g.countsOf(q.After)
	if err != nil {
		return nil, err
	}
	words, err := c.analyze(ctx, q.Text)
	if err != nil {
		return nil, err
	}
	m, err := g.score(ctx, words)
	if err != nil {
		return nil, err
	}
	page := m.page(words, q.After, q.Limit)
	m.release()
	return page, nil
}

// Entry gives a live entry by id.
func (x *Index) Entry(id string) (*index.Entry, bool) {
	g := x.gen.Load()
	if g == nil {
		return nil, false
	}
	v, doc, ok := g.find(id)
	if !ok {
		return nil, false
	}
	return g.views[v].entries[doc], true
}

// Status is how current an index is (IX-13).
type Status struct {
	Loaded   bool
	Head     index.Head // what it holds
	Live     int        // entries
	SyncedAt time.Time  // when it last knew itself to be at the store's head
	Problem  string     // why it could not follow, last; "" when it could
}

// Status reports how current the index is.
func (x *Index) Status() Status {
	x.mu.Lock()
	s := Status{SyncedAt: x.syncedAt, Problem: x.problem}
	x.mu.Unlock()
	if g := x.gen.Load(); g != nil {
		s.Loaded, s.Head, s.Live = true, g.head, g.live
	}
	return s
}
