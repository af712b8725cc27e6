package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/robots"
)

// margin is the time that a visit keeps for writing its results, after the
// last moment at which its last request may end (F2).
const margin = 2 * time.Second

// dialled is what acquire learns for a visit. Connections are made in goroutines
// of the transport's own, so it has a lock.
type dialled struct {
	startBy time.Time // as in visit

	mu      sync.Mutex
	key     string // the address last asked for a place
	crowded bool   // it had none in time
}

type dialledKey struct{} // context key of the *dialled of a request's visit

func (d *dialled) note(key string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.key = key
	d.crowded = d.crowded || errors.Is(err, errLater)
}

func (d *dialled) get() (key string, crowded bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.key, d.crowded
}

// visit is one lease being worked off. It is used by one goroutine.
type visit struct {
	c       *Crawler
	host    string
	client  *http.Client
	startBy time.Time // no request begins later
	dialled *dialled
	robots  robots.File
	robot   []index.Step // how robots.txt was read on this visit
	// hopDelay is the gap of the other origins that its redirects led to.
	hopDelay map[string]time.Duration
	down     error // the host cannot be reached: no more attempts
	silent   int   // requests without an answer

	next time.Time // no request before: gap or Retry-After

	queue []string
	docs  map[string]*index.Doc // of this host, by URL: leased, found, or written
	stage map[string]stage
	found map[string]int // place in out.Found
	news  map[string]int // of documents with news: place in out.Docs
	err   error          // of the store: it ends the crawl
	lost  error          // why a document on hand could not be worked on; it ends the visit
	over  bool           // no more requests on this visit

	held   int64             // of the room that visits share
	kept   int64             // octets in out, about
	open   int64             // those of large bodies of documents under way
	atDesk bool              // a large document is being taken apart
	deskBy time.Time         // no such work begins later
	rules  bool              // robots holds no rules: they are large, and in the store
	delay  time.Duration     // Crawl-delay of the rules
	where  map[string]string // large stored bodies that were left there: URL, by hash

	looked   int // leads that were looked up
	capped   int // leads that out has no room for
	leads    int // octets of the addresses in out.Found
	catalogs map[[3]string]*catalog.Catalog
	cached   int64 // octets of those in catalogs

	out index.Visit
}

const (
	lookups    = 64      // leads that a visit looks up one by one
	visitBytes = 1 << 20 // octets after which a visit ends: the rest stays due
	maxLeads   = 1 << 20 // octets of the addresses that strangers may bring to one visit
)

// stage is how far a document of the visit has come.
type stage int

const (
	queued stage = iota
	busy
	done
	handedBack
)

// visit works off one lease and gives what is to be written. Documents that
// there was no time for are not in it: they stay due. The error is the store's.
// held is the room that it holds, to be given back once it is written.
func (c *Crawler) visit(ctx context.Context, l *index.Lease) (out index.Visit, held int64, err error) {
	v := &visit{
		c: c, host: l.Host.Name, client: c.network.Client(),
		startBy: l.Until.Add(-c.timeout - margin), deskBy: l.Until.Add(-margin),
		dialled: &dialled{startBy: l.Until.Add(-c.timeout - margin)},
		robots:  l.Host.Robots,
		docs:    make(map[string]*index.Doc), stage: make(map[string]stage), found: make(map[string]int), news: make(map[string]int),
		catalogs: make(map[[3]string]*catalog.Catalog),
		out: index.Visit{
			Host: l.Host.Name, Owner: l.Owner, No: l.No,
			Gap: l.Host.Gap, NotBefore: l.Host.NotBefore, Fails: l.Host.Fails, IPKey: l.Host.IPKey,
		},
	}
	defer v.client.CloseIdleConnections()
	defer func() {
		if p := recover(); p != nil {
			c.panicked(ctx, v.host, p)
			v.next = time.Now().Add(minInterval)
		}
		out = v.end()
		v.open = 0
		v.settle()
		c.cache.give(v.cached)
		held, err = v.held, v.err
	}()
	ctx = context.WithValue(ctx, dialledKey{}, v.dialled)
	c.origins.closeUntil(v.host, l.Host.NotBefore)
	v.leaveRules()
	l.Host.Robots.Rules = nil

	for i := range l.Docs {
		d := l.Docs[i]
		if isWellKnown(d.URL) {
			d.Kind = index.CatalogDoc // whoever called it anything else
		}
		v.docs[d.URL] = &d
		v.queue = append(v.queue, d.URL)
	}
	slices.SortStableFunc(v.queue, func(a, b string) int { return rank(v.docs[a].Kind) - rank(v.docs[b].Kind) })
	if v.readRobots(ctx) != nil {
		return // completed by the deferred call
	}
	for len(v.queue) > 0 && !v.over && v.err == nil && ctx.Err() == nil {
		url := v.queue[0]
		v.queue = v.queue[1:]
		if v.stage[url] == queued {
			v.do(ctx, v.docs[url])
		}
	}
	return
}

// rank puts catalogs and pages before the cards that they may prove.
func rank(k index.Kind) int {
	switch k {
	case index.CatalogDoc:
		return 0
	case index.PageDoc:
		return 1
	case index.CardDoc:
		return 3
	}
	return 2
}

// do visits one document and notes what came of it, unless there is no time.
func (v *visit) do(ctx context.Context, d *index.Doc) {
	v.stage[d.URL] = busy
	open := v.open
	w := &work{doc: d, was: *d, now: time.Now().Truncate(time.Microsecond), steps: slices.Clone(v.robot)}
	steps := len(v.out.Entries)
	defer func() {
		defer func() {
			v.open = open
			v.settle()
		}()
		if p := recover(); p != nil {
			v.c.panicked(ctx, d.URL, p)
			v.out.Entries = v.out.Entries[:steps]
			*d = w.was
			w.asked = true
			v.finish(w, result{
				code: index.OutcomeUnreachable, reason: index.ReasonUnreadable, failed: true,
				text: "internal error", sentence: "This document could not be worked on because of an internal error of the crawler; its operator has been told.",
			})
		}
	}()
	if err := v.process(ctx, w); err != nil {
		*d = w.was
		v.stage[d.URL] = handedBack
		if handBack(ctx, err) {
			v.over = true
		} else {
			v.err = err
		}
	}
}

func (c *Crawler) panicked(ctx context.Context, what string, p any) {
	c.count.panics.Add(ctx, 1)
	c.log.ErrorContext(ctx, "internal error on a visit", "at", what, "error", fmt.Sprint(p), "stack", string(debug.Stack()))
}

// end completes the visit: what was found but not reached becomes a lead, and
// whoever was judged before some news came up is due again.
func (v *visit) end() index.Visit {
	out := &v.out
	out.At = time.Now()
	if key, crowded := v.dialled.get(); key != "" {
		out.IPKey = key
		if crowded {
			v.comeBack(out.At.Add(v.c.spread(crowdDelay, v.host, out.At)))
		}
	}
	if v.next.After(out.NotBefore) {
		out.NotBefore = v.next
	}
	for url, d := range v.docs {
		if s := v.stage[url]; d.CheckedAt.IsZero() && (s == queued || s == handedBack) && !v.leased(d) {
			v.find(index.NewDoc{URL: d.URL, Kind: d.Kind, Class: d.Class, From: d.From, FoundBy: d.FoundBy})
		}
	}
	for i := range out.Docs {
		if d := &out.Docs[i]; slices.ContainsFunc(d.Needs, func(url string) bool { return v.news[url] > i }) {
			d.NextAt = out.At
		}
	}
	slices.SortFunc(out.Found, func(a, b index.NewDoc) int { return rank(a.Kind) - rank(b.Kind) })
	return *out
}

// leased reports whether the store knows d already. Documents made on this
// visit have no time yet.
func (v *visit) leased(d *index.Doc) bool { return !d.NextAt.IsZero() }

// find notes a document that was heard of, unless it could never be visited.
func (v *visit) find(n index.NewDoc) {
	u, err := weburl.Parse(n.URL)
	if err != nil || v.c.network.CheckURL(n.URL) != nil {
		return
	}
	n.URL = u.String()
	if isWellKnown(n.URL) {
		n.Kind = index.CatalogDoc
	}
	if i, ok := v.found[n.URL]; ok {
		v.out.Found[i].Now = v.out.Found[i].Now || n.Now
		v.out.Found[i].Class = min(v.out.Found[i].Class, n.Class)
		return
	}
	if n.Class == index.ClassNew && (len(v.out.Found) >= index.MaxFound || v.leads+len(n.URL) > maxLeads) {
		v.capped++
		return
	}
	v.leads += len(n.URL)
	v.kept += weighFound(&n)
	v.found[n.URL] = len(v.out.Found)
	v.out.Found = append(v.out.Found, n)
}

// enqueue puts a document of this host, heard of just now, on this visit. One
// that the store knows keeps its own time, unless it is fresh and only another
// host's documents had named it.
func (v *visit) enqueue(ctx context.Context, n index.NewDoc, fresh bool) error {
	if v.docs[n.URL] != nil {
		return nil
	}
	if v.looked >= lookups { // more than a visit can hold
		v.find(n)
		return nil
	}
	v.looked++
	d, err := v.lookup(ctx, n.URL)
	switch {
	case err != nil:
		return err
	case d == nil:
		d = v.newDoc(n)
	case fresh && d.ReadAt.IsZero() && d.From != "" && hostOf(d.From) != v.host:
		d.Kind, d.From, d.FoundBy, d.CheckedAt = n.Kind, n.From, n.FoundBy, time.Time{}
	default:
		return nil
	}
	v.docs[n.URL] = d
	v.queue = append(v.queue, n.URL)
	return nil
}

func (v *visit) newDoc(n index.NewDoc) *index.Doc {
	if isWellKnown(n.URL) {
		n.Kind = index.CatalogDoc
	}
	return &index.Doc{
		URL: n.URL, Host: v.host, Kind: n.Kind, Class: n.Class, From: n.From, FoundBy: n.FoundBy, FirstSeen: time.Now(),
	}
}
