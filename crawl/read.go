package crawl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/discovery"
	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/internal/fetch"
	"github.com/openbot-build/openbot-go/internal/strictjson"
	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/robots"
)

const maxHops = 5 // redirects of one document (D12)

// work is one document on a visit.
type work struct {
	doc    *index.Doc // as it will be written
	was    index.Doc  // as it was
	now    time.Time
	steps  []index.Step
	asked  bool // its host was asked for it
	ask    bool // it is to be asked for, whatever its own time
	stored bool // its content is what the store holds of it

	live     bool     // a card that has an entry
	pointers []string // catalogs that its Link header names
}

func (w *work) step(what, url, result, detail string) {
	w.steps = append(w.steps, index.Step{At: time.Now(), What: what, URL: url, Result: result, Detail: short(detail)})
}

// content is what came of reading one document. With an empty fault it is
// answered in full: document is a 200, or the stored one after a 304.
type content struct {
	document *discovery.Document
	stored   bool  // document is what the store holds, not a new answer
	size     int64 // of the document's body, which is not here when it is stored and large
	xRobots  []string
	fault    index.Reason
	text     string
	waitsFor string // a redirect's target that is to be read first
	from     source // of fault, when it is that of a redirect's target
}

// source is a document whose fault stands for that of one redirected to it.
type source struct {
	url     string
	since   time.Time // when the fault was first seen
	checked time.Time // when it was last seen
}

func faulty(reason index.Reason, text string) content { return content{fault: reason, text: text} }

// noIndex reports whether the headers ask not to be indexed, and when they will.
func (c *content) noIndex(now time.Time) (bool, time.Time) {
	tag := robots.ParseTag(c.xRobots, robots.Token)
	if tag.NoIndexAt(now) {
		return true, time.Time{}
	}
	return false, tag.UnavailableAfter
}

// usable are the states of a stored document whose content counts: its own
// judgement may be open.
func usable(reason index.Reason) bool {
	return reason == "" || reason == index.ReasonUnconfirmed || reason == index.ReasonWaiting || reason == index.ReasonDelisted
}

// redirected reports whether d only points to another origin.
func redirected(d *index.Doc) bool {
	return d.Status/100 == 3 && d.FinalURL != "" && d.FinalURL != d.URL
}

// read gets a document of this host: as stored when that is fresh, else by a
// request that is conditional when there is a stored copy. It changes w.doc
// only as to what a response's status and redirects say; keep does the rest
// once the content has been judged. The error is one of handBack or the store's.
func (v *visit) read(ctx context.Context, w *work) (content, error) {
	u, err := weburl.Parse(w.doc.URL)
	if err != nil {
		w.asked = true
		return faulty(index.ReasonInvalid, oneLine(err)), nil
	}
	barred := v.allowed(ctx, u, &w.steps)
	if _, ok := errors.AsType[*refusal](barred); barred != nil && !ok {
		return content{}, barred
	}
	if !disallowed(barred) && !v.c.due(w) {
		if c, ok, err := v.asStored(ctx, w); ok || err != nil {
			return c, err
		}
	}
	w.asked = true
	w.doc.Status = 0 // until there is an answer
	if barred != nil {
		return refused(barred), nil
	}
	if v.down != nil {
		text := "its host could not be reached on this visit: " + oneLine(discovery.FetchError(u.String(), v.down))
		w.step("fetch", u.String(), "skipped", text)
		return faulty(index.ReasonUnreadable, text), nil
	}
	r := &fetch.Request{URL: u, Accept: accepts(w.doc.Kind)}
	if conditional(w) {
		r.Validators = fetch.Validators{FinalURL: w.was.FinalURL, ETag: w.was.ETag, LastModified: w.was.LastModified}
	}
	d, hops, err := v.get(ctx, &w.steps, r, false)
	var size int64
	if err == nil && d.NotModified {
		enough, n, lost := v.enough(ctx, w, d.Header)
		if lost != nil {
			return content{}, lost
		}
		size = n
		if !enough { // one plain fetch (C4)
			r.Validators = fetch.Validators{}
			d, hops, err = v.get(ctx, &w.steps, r, false)
		}
	}
	if err != nil {
		if handBack(ctx, err) {
			return content{}, err
		}
		if e, ok := errors.AsType[*elsewhere](err); ok {
			v.out.Fails = 0
			before, lost := v.hopsBefore(ctx, w.doc)
			if lost != nil {
				return content{}, lost
			}
			if before+len(hops) > maxHops {
				return faulty(index.ReasonUnreadable, tooManyHops(u.String())), nil
			}
			w.redirect(hops, e.url.String())
			return v.follow(ctx, w)
		}
		if _, ok := errors.AsType[*refusal](err); ok {
			return refused(err), nil
		}
		v.failed(err)
		return faulty(index.ReasonUnreadable, oneLine(discovery.FetchError(u.String(), err))), nil
	}
	v.out.Fails = 0
	w.doc.Status = d.Status
	if d.NotModified {
		w.refresh(d.Header)
		stored := asDocument(w.doc, w.doc.URL, nil)
		stored.FetchedAt = w.now
		return content{document: stored, stored: true, xRobots: w.doc.XRobots, size: size}, nil
	}
	if d.Status != http.StatusOK {
		reason, text := faultOf(&discovery.Error{Kind: discovery.HTTPStatus, URL: d.FinalURL, Status: d.Status}, nil)
		return faulty(reason, text), nil
	}
	return content{document: d, xRobots: kept(d.Header.Values("X-Robots-Tag")), size: int64(len(d.Body))}, nil
}

// conditional reports whether stored validators may be sent: there is a copy
// for them to speak of, noindex is not stored (C6), and the visit after this
// one, whenever it is, comes in time for the next full GET (C7).
func conditional(w *work) bool {
	return w.was.Hash != "" && !w.was.NoIndex && !redirected(&w.was) && w.now.Sub(w.was.FullGetAt) < fullGet-maxInterval
}

// disallowed reports whether robots.txt says no, in so many words.
func disallowed(err error) bool {
	e, ok := errors.AsType[*refusal](err)
	return ok && e.verdict == robots.Disallow
}

// refused is the content of an address that robots.txt does not let us fetch.
func refused(err error) content {
	e, _ := errors.AsType[*refusal](err)
	if disallowed(err) {
		return faulty(index.ReasonDisallowed, e.Error())
	}
	return faulty(index.ReasonUnreadable, e.Error()+"; without its rules nothing is fetched there")
}

// refresh takes over the headers of a 304; those it does not send stay as they
// were (C5).
func (w *work) refresh(h http.Header) {
	set := func(to *string, name string) {
		if v := usual(h.Get(name)); v != "" {
			*to = v
		}
	}
	set(&w.doc.ETag, "ETag")
	set(&w.doc.LastModified, "Last-Modified")
	set(&w.doc.CacheControl, "Cache-Control")
	if v := h.Values("Link"); len(v) > 0 {
		w.doc.Link = kept(v)
	}
	if v := h.Values("X-Robots-Tag"); len(v) > 0 {
		w.doc.XRobots = kept(v)
	}
	w.doc.Status = http.StatusOK
}

// keep stores a new answer that can be used (C8).
func (w *work) keep(c *content) {
	d := c.document
	switch {
	case redirected(w.doc): // the document is its target's; only the hash is ours, to see changes by
		w.doc.Hash = d.Hash
		return
	case c.stored:
		return
	}
	w.doc.FinalURL, w.doc.Chain = d.FinalURL, nil
	for _, h := range d.Hops {
		w.doc.Chain = append(w.doc.Chain, h.URL)
	}
	if w.doc.Chain != nil {
		w.doc.Chain = append(w.doc.Chain, d.FinalURL)
	}
	get := func(name string) string { return usual(d.Header.Get(name)) }
	w.doc.ETag, w.doc.LastModified = get("ETag"), get("Last-Modified")
	w.doc.ContentType, w.doc.CacheControl = get("Content-Type"), get("Cache-Control")
	w.doc.Link, w.doc.XRobots = kept(d.Header.Values("Link")), c.xRobots
	w.doc.Hash, w.doc.Body, w.doc.FullGetAt = d.Hash, d.Body, w.now
}

// redirect notes that the document lies on another origin.
func (w *work) redirect(hops []hop, target string) {
	d := w.doc
	d.Chain = nil
	for _, h := range hops {
		d.Chain = append(d.Chain, h.url)
		d.Status = h.status
	}
	d.Chain = append(d.Chain, target)
	d.FinalURL = target
	d.ETag, d.LastModified, d.ContentType, d.CacheControl = "", "", "", ""
	d.Link, d.XRobots, d.Targets, d.Body = nil, nil, nil, nil
	if !redirected(&w.was) {
		d.Hash = "" // with it the stored copy goes
	}
	d.FullGetAt = w.now
}

func accepts(k index.Kind) string {
	switch k {
	case index.CatalogDoc:
		return catalog.MediaType
	case index.CardDoc:
		return card.MediaType
	case index.PageDoc:
		return "text/html"
	}
	return ""
}

// faultOf sorts an error of reading or judging a document: gone, invalid, or
// anything else, which is neither a word of the publisher nor its absence. body
// tells JSON that is wrong from JSON that was cut off.
func faultOf(err error, body []byte) (index.Reason, string) {
	e := discovery.FetchError("", err)
	text := strings.TrimSuffix(oneLine(e), ".")
	switch e.Kind {
	case discovery.HTTPStatus:
		answered := strings.TrimSpace(fmt.Sprintf("%s answered with status %d %s", e.URL, e.Status, http.StatusText(e.Status)))
		if e.Status == http.StatusNotFound || e.Status == http.StatusGone {
			return index.ReasonGone, answered
		}
		return index.ReasonUnreadable, answered
	case discovery.InvalidCard, discovery.InvalidCatalog, discovery.UnsupportedVersion, discovery.WrongType:
		return index.ReasonInvalid, text
	case discovery.BadJSON:
		_, err := strictjson.Parse(bytes.TrimSpace(body))
		if e, ok := errors.AsType[*strictjson.Error](err); !ok || !e.Truncated {
			return index.ReasonInvalid, text
		}
		return index.ReasonUnreadable, fmt.Sprintf("%s; it seems to be cut off after %d bytes", text, len(body))
	}
	return index.ReasonUnreadable, text
}
