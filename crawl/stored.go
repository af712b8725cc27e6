package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/discovery"
	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/internal/fetch"
)

// This file is about documents as earlier visits left them in the store.

// due reports whether a document's own time to be asked for has come, or a
// person's wish. A visit may come earlier, when another document's news wakes
// whoever needs it, or because time alone changes an entry: then the stored copy
// is judged, and a document that wakes others often costs no requests (D17).
func (c *Crawler) due(w *work) bool {
	d := &w.was
	switch {
	case w.ask, d.CheckedAt.IsZero(), w.now.Before(d.CheckedAt):
		return true
	case d.Class == index.ClassUser && (!usable(d.Fault) || d.NoIndex || w.now.Sub(d.ReadAt) >= askedAgain):
		return true
	}
	return !w.now.Before(c.ownTime(d))
}

// ownTime is when a document that was asked for is to be asked for again.
func (c *Crawler) ownTime(d *index.Doc) time.Time {
	if d.Fails == 0 {
		interval := d.Interval
		if interval == 0 {
			interval = firstInterval
		}
		return d.ReadAt.Add(c.spread(interval, d.URL, d.ReadAt))
	}
	next := d.CheckedAt.Add(c.spread(failureDelay(d.Fails), d.URL, d.CheckedAt))
	if second := d.FaultSince.Add(apart); removes(d.Fault) && d.CheckedAt.Before(second) {
		next = earlier(next, second) // the second look (D15)
	}
	return next
}

// asStored gives a document that need not be asked for yet as the last visit
// left it: its content, or what was wrong with it. ok is false when too much of
// it is gone to judge by.
func (v *visit) asStored(ctx context.Context, w *work) (c content, ok bool, err error) {
	if redirected(w.doc) {
		c, err = v.follow(ctx, w)
		return c, err == nil, err
	}
	switch w.was.Fault {
	case index.ReasonGone, index.ReasonInvalid, index.ReasonUnreadable:
		w.step("read", w.was.URL, "stored", "asked for at "+w.was.CheckedAt.UTC().Format(time.DateTime+"Z"))
		return faulty(w.was.Fault, w.was.FaultText), true, nil
	case index.ReasonNoIndex:
		d := &discovery.Document{URL: w.doc.URL, FinalURL: w.doc.FinalURL, FetchedAt: w.was.ReadAt}
		return content{document: d, stored: true, xRobots: w.doc.XRobots}, len(w.doc.XRobots) > 0, nil
	}
	if !usable(w.was.Fault) || w.was.ReadAt.IsZero() {
		return content{}, false, nil
	}
	var size int64
	ok = w.doc.Kind == index.PageDoc && w.doc.Hash != ""
	if !ok {
		if size, ok, err = v.load(ctx, w.doc); err != nil || !ok {
			return content{}, false, err
		}
	}
	w.step("read", w.was.URL, "stored", "read at "+w.was.ReadAt.UTC().Format(time.DateTime+"Z"))
	return content{document: asDocument(w.doc, w.doc.URL, nil), stored: true, xRobots: w.doc.XRobots, size: size}, true, nil
}

// enough reports whether a 304 with these headers leaves a document to judge:
// the stored copy is there, and of a page, of which only the catalogs that it
// names are kept, the headers name no others.
func (v *visit) enough(ctx context.Context, w *work, h http.Header) (ok bool, size int64, err error) {
	if w.doc.Kind == index.PageDoc {
		link := kept(h.Values("Link"))
		return len(link) == 0 || slices.Equal(link, w.doc.Link), 0, nil
	}
	size, ok, err = v.load(ctx, w.doc)
	return ok, size, err
}

// hopsBefore counts the redirects over other hosts that led to d, as far as
// more of them than are allowed would show: each was stored on a visit of its
// own, and names the next (D12).
func (v *visit) hopsBefore(ctx context.Context, d *index.Doc) (n int, err error) {
	for n <= maxHops && d.From != "" {
		from, err := v.lookup(ctx, d.From)
		if err != nil {
			return 0, err
		}
		if from == nil || !redirected(from) || from.FinalURL != d.URL {
			break
		}
		n += max(len(from.Chain)-1, 1)
		d = from
	}
	return n, nil
}

func tooManyHops(url string) string {
	return fmt.Sprintf("%s is redirected more than %d times", url, maxHops)
}

// load fetches the stored copy of a catalog or card, which a lease leaves out.
// A large one is only looked for: body gives it where there is room.
func (v *visit) load(ctx context.Context, d *index.Doc) (size int64, held bool, err error) {
	if d.Body != nil || d.Hash == "" || d.Kind == index.PageDoc || redirected(d) {
		return int64(len(d.Body)), d.Body != nil, nil
	}
	stored, err := v.c.store.Doc(ctx, d.URL)
	if errors.Is(err, index.ErrNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("load %s: %w", d.URL, err)
	}
	if stored.Hash != d.Hash || stored.Body == nil {
		return 0, false, nil
	}
	if size = int64(len(stored.Body)); size <= small {
		d.Body = stored.Body
	} else {
		if v.where == nil {
			v.where = make(map[string]string)
		}
		v.where[d.Hash] = d.URL
	}
	return size, true, nil
}

// body gives a large stored body that load has found. The error is the store's,
// or errLater when it is another by now.
func (v *visit) body(ctx context.Context, hash string) ([]byte, error) {
	url := v.where[hash]
	if url == "" {
		return nil, nil
	}
	d, err := v.c.store.Doc(ctx, url)
	switch {
	case errors.Is(err, index.ErrNotFound), err == nil && d.Hash != hash:
		return nil, errLater
	case err != nil:
		return nil, fmt.Errorf("load %s: %w", url, err)
	}
	return d.Body, nil
}

// whole gives a document with its body. It is for work at a desk.
func (v *visit) whole(ctx context.Context, d *discovery.Document) (*discovery.Document, error) {
	if d.Body != nil || d.Hash == "" {
		return d, nil
	}
	body, err := v.body(ctx, d.Hash)
	if err != nil || body == nil {
		return d, err
	}
	full := *d
	full.Body = body
	return &full, nil
}

// follow gives the content at the end of a redirect to another origin, as that
// host's own visit left it.
func (v *visit) follow(ctx context.Context, w *work) (content, error) {
	w.doc.Needs = []string{w.doc.FinalURL}
	d, xRobots, err := v.stored(ctx, w, w.doc, w.doc.URL)
	if e, ok := errors.AsType[*faultError](err); ok {
		w.step("read", w.doc.FinalURL, "stored", e.text)
		c := faulty(e.reason, w.doc.URL+" is redirected to "+w.doc.FinalURL+"; "+e.text)
		c.from = e.from
		return c, nil
	}
	if errors.Is(err, discovery.ErrDeferred) {
		w.step("read", w.doc.FinalURL, "deferred", "it lies on another host and is read on that host's own visit")
		return content{waitsFor: w.doc.FinalURL}, nil
	}
	if err != nil {
		return content{}, err
	}
	w.step("read", d.FinalURL, "stored", "read at "+d.FetchedAt.UTC().Format(time.DateTime+"Z"))
	size := int64(len(d.Body))
	if d.Body == nil && v.where[d.Hash] != "" {
		size = deskBytes
	}
	return content{document: d, stored: true, xRobots: xRobots, size: size}, nil
}

// asDocument gives a stored document the form of an answer. A page's body is
// not kept: its targets stand in for it, as Link headers.
func asDocument(d *index.Doc, asked string, before []string) *discovery.Document {
	h := make(http.Header)
	if d.ContentType != "" {
		h.Set("Content-Type", d.ContentType)
	}
	if d.CacheControl != "" {
		h.Set("Cache-Control", d.CacheControl)
	}
	for _, l := range d.Link {
		h.Add("Link", l)
	}
	if d.Kind == index.PageDoc {
		h.Del("Link")
		for _, t := range d.Targets {
			h.Add("Link", "<"+t+`>; rel="`+catalog.LinkRel+`"`)
		}
	}
	out := &discovery.Document{
		URL: asked, FinalURL: d.FinalURL, Status: http.StatusOK, Header: h, Body: d.Body, Hash: d.Hash, FetchedAt: d.ReadAt,
	}
	if out.FinalURL == "" {
		out.FinalURL = d.URL
	}
	chain := d.Chain
	if len(chain) == 0 {
		chain = []string{d.URL}
	}
	chain = append(before[:len(before):len(before)], chain...)
	for i := range len(chain) - 1 {
		out.Hops = append(out.Hops, fetch.Hop{URL: chain[i], Location: chain[i+1]})
	}
	return out
}
