package crawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/index"
)

// pointer handles what leads to cards: a catalog, a page, or an address that
// has not told yet what it is.
func (v *visit) pointer(ctx context.Context, w *work, c *content) (result, error) {
	switch {
	case c.fault != "":
		return v.lostPointer(ctx, w, badPointer(w, c.fault, c.text))
	case c.waitsFor != "":
		text := "waiting until " + c.waitsFor + ", to which it is redirected, has been read on a visit of its own"
		return result{code: index.OutcomeWaiting, reason: index.ReasonWaiting, text: text, sentence: upper(text) + ".", waiting: true}, nil
	}
	no, edge := c.noIndex(w.now)
	w.doc.NoIndex = no
	if no {
		w.forget(c)
		w.step("noindex", w.doc.URL, "noindex", strings.Join(c.xRobots, ", "))
		r := badPointer(w, index.ReasonNoIndex, errNoIndex.Error())
		r.failed = false // it was read; it comes round as usual
		return r, nil
	}
	if idle, err := v.unneeded(ctx, w); idle || err != nil {
		return result{
			code: index.OutcomeDropped, drop: true, text: "nothing rests on it",
			sentence: "It was read, but nothing rests on it any more, and it is not visited again.",
		}, err
	}
	if w.doc.Kind == index.PageDoc {
		return v.page(w, c, edge), nil
	}
	cat, err := v.parsed(ctx, c.document)
	if v.lost != nil {
		return result{}, v.lost
	}
	if err != nil {
		reason, text := faultOf(err, c.document.Body)
		w.step("read", w.doc.URL, "fault", text)
		return v.lostPointer(ctx, w, badPointer(w, reason, text))
	}
	return v.catalog(ctx, w, c, cat, edge)
}

// unneeded reports whether a document that some other document led to, a month
// ago or more, serves nobody any more: the target of a redirect that leads
// elsewhere by now, a catalog that no card names any longer.
func (v *visit) unneeded(ctx context.Context, w *work) (bool, error) {
	if !w.asked || w.doc.From == "" || isWellKnown(w.doc.URL) || w.now.Sub(w.was.FirstSeen) < pointerTime {
		return false, nil
	}
	needed, err := v.needed(ctx, w.doc)
	return !needed, err
}

// lostPointer gives a document up that could not be used for a month and that
// nothing rests on. One that a person named may fail for longer once it could
// be read.
func (v *visit) lostPointer(ctx context.Context, w *work, r result) (result, error) {
	since := w.was.FirstSeen
	if w.was.ReadAt.After(since) {
		since = w.was.ReadAt
	}
	switch {
	case w.doc.From == "" && !w.was.ReadAt.IsZero(), w.fails() < leadFails, w.now.Sub(since) < pointerTime:
		return r, nil
	}
	needed, err := v.needed(ctx, w.doc)
	if err == nil && !needed {
		r.code, r.drop = index.OutcomeDropped, true
		r.sentence = upper(r.text) + ". It has been so for a month, nothing rests on it, and it is not visited any more."
	}
	return r, err
}

func badPointer(w *work, reason index.Reason, text string) result {
	r := result{code: index.OutcomeUnreachable, reason: reason, text: text, failed: true}
	switch reason {
	case index.ReasonGone:
		r.code = index.OutcomeGone
	case index.ReasonInvalid:
		r.code = index.OutcomeInvalid
	case index.ReasonDisallowed:
		r.code = index.OutcomeDisallowed
	case index.ReasonNoIndex:
		r.code = index.OutcomeNoIndex
	}
	r.sentence = "It cannot be used now: " + text + "."
	if !w.was.ReadAt.IsZero() {
		r.sentence += restsOnIt
	}
	if reason == index.ReasonNoIndex {
		r.sentence = "It was read, but " + text + "."
	}
	return r
}

// page notes the catalogs that a page names.
func (v *visit) page(w *work, c *content, edge time.Time) result {
	d := c.document
	if !c.stored && d.ContentType() != "text/html" {
		text := fmt.Sprintf("%s is served as %.80q and is no web page", d.FinalURL, d.ContentType())
		return badPointer(w, index.ReasonInvalid, text)
	}
	before := w.was.Targets
	w.keep(c)
	w.doc.Body, w.doc.Needs = nil, keepElsewhere(w.doc)
	links := d.Header.Values("Link")
	if !c.stored {
		links = kept(links)
	}
	targets := catalog.HeaderLinks(links, d.FinalURL)
	for _, t := range catalog.PageLinks(d.Body, d.Header.Get("Content-Type"), d.FinalURL) {
		if !slices.Contains(targets, t) {
			targets = append(targets, t)
		}
	}
	if few := v.followed(targets); len(few) < len(targets) {
		w.step("read", w.doc.URL, "cut", fmt.Sprintf("it names %d catalogs; %d count", len(targets), len(few)))
		targets = few
	}
	if !redirected(w.doc) {
		w.doc.Targets = targets
	}
	for _, t := range w.doc.Targets {
		v.find(index.NewDoc{URL: t, Kind: index.CatalogDoc, Class: index.ClassNew, From: w.doc.URL, FoundBy: index.RegistrableDomain(v.host)})
	}
	r := result{code: index.OutcomeRead, edge: edge, changed: !slices.Equal(before, w.doc.Targets) || w.was.Hash != w.doc.Hash}
	switch n := len(targets); n {
	case 0:
		r.sentence = `The page was read; it names no catalog. Its owner can add <link rel="ai-catalog" href="..."> to its head.`
	case 1:
		r.sentence = "The page was read; it names the catalog " + targets[0] + "."
	default:
		r.sentence = fmt.Sprintf("The page was read; it names %d catalogs: %s.", n, short(strings.Join(targets, ", ")))
	}
	w.step("read", w.doc.URL, "page", fmt.Sprintf("%d catalogs named", len(targets)))
	return r
}

// catalog notes what a catalog lists.
func (v *visit) catalog(ctx context.Context, w *work, c *content, cat *catalog.Catalog, edge time.Time) (result, error) {
	w.keep(c)
	w.doc.Kind, w.doc.Needs = index.CatalogDoc, keepElsewhere(w.doc)
	r := result{code: index.OutcomeRead, edge: edge, changed: w.was.Hash != w.doc.Hash}
	cards := slices.Collect(cat.Cards())
	detail := count(len(cards), "card", "cards")
	if len(cat.Skipped) > 0 {
		detail += ", " + count(len(cat.Skipped), "entry", "entries") + " skipped"
	}
	for _, s := range cat.Skipped[:min(len(cat.Skipped), maxTold)] {
		w.step("read", w.doc.URL, "skipped", fmt.Sprintf("entry %d, %s: %s", s.Index, s.Reason, s.Detail))
	}
	w.step("read", w.doc.URL, "catalog", detail)
	w.warn(cat.Warnings)
	r.sentence = "The catalog was read: " + detail + "."
	if len(cards) == 0 && len(cat.Skipped) == 0 {
		r.sentence = "The catalog was read: it is valid and lists no MCP App."
	}
	if before := w.was; r.changed && len(cards) == 0 && before.Hash != "" {
		if _, _, err := v.load(ctx, &before); err != nil {
			return result{}, err
		}
		if before.Body == nil {
			var err error
			if before.Body, err = v.body(ctx, before.Hash); err != nil && !errors.Is(err, errLater) {
				return result{}, err
			}
		}
		if old, err := catalog.Parse(before.Body, before.FinalURL); err == nil {
			if n := len(slices.Collect(old.Cards())); n > 1 {
				// Honoured, for it is the publisher's word, but worth a look (FO-38).
				v.c.log.WarnContext(ctx, "a catalog lists no cards any more", "catalog", w.doc.URL, "before", n)
			}
		}
	}
	if !redirected(w.doc) { // what lies elsewhere is announced by its own visit
		if err := v.announce(ctx, w, cat, cards, r.changed); err != nil {
			return result{}, err
		}
	}
	if !r.changed && w.was.Fault == "" {
		r.code = index.OutcomeUnchanged
	}
	return r, nil
}

// announce makes leads of what a catalog lists. They are only leads: nothing is
// believed because somebody listed it (A4). Of a catalog that has not changed,
// and of which nothing was turned away lately, a share is looked at on each day
// for leads that were given up; one that was so lately is not followed again.
func (v *visit) announce(ctx context.Context, w *work, cat *catalog.Catalog, cards []catalog.Entry, changed bool) error {
	if !w.asked {
		return v.nested(ctx, w, cat)
	}
	all := changed
	if !all {
		var err error
		if all, err = v.wasCapped(ctx, w.doc.URL); err != nil {
			return err
		}
	}
	every := max(1, len(cards)/lookups)
	today := int(w.now.Unix()/int64(day/time.Second)) % every
	capped := v.capped
	for i, e := range cards {
		n := index.NewDoc{URL: e.URL, Kind: index.CardDoc, Class: index.ClassNew, From: w.doc.URL, FoundBy: index.RegistrableDomain(v.host)}
		if !all {
			if i%every != today {
				continue
			}
			skip, err := v.givenUp(ctx, w, e.URL)
			if err != nil {
				return err
			}
			if skip {
				continue
			}
		}
		if err := v.lead(ctx, n, changed); err != nil {
			return err
		}
	}
	if n := v.capped - capped; n > 0 {
		w.step("limit", w.doc.URL, string(index.OutcomeCapped), fmt.Sprintf("%d leads wait for a later visit", n))
	}
	return v.nested(ctx, w, cat)
}

// wasCapped reports whether leads of a catalog wait because of the limits.
func (v *visit) wasCapped(ctx context.Context, url string) (bool, error) {
	last, err := v.c.store.Outcomes(ctx, url, 3)
	if err != nil {
		return false, fmt.Errorf("look up outcomes of %s: %w", url, err)
	}
	return slices.ContainsFunc(last, func(o index.Outcome) bool {
		return o.Code == index.OutcomeCapped || slices.ContainsFunc(o.Steps, func(s index.Step) bool { return s.Result == string(index.OutcomeCapped) })
	}), nil
}

// lead notes a document that was heard of. fresh is whether whoever names it
// has just said so: then a stranger's earlier word about a document of this
// host, which nobody could read yet, does not put it off.
func (v *visit) lead(ctx context.Context, n index.NewDoc, fresh bool) error {
	if hostOf(n.URL) == v.host {
		return v.enqueue(ctx, n, fresh)
	}
	v.find(n)
	return nil
}

// givenUp reports whether the store knows a card already, or has given it up
// within the last days.
func (v *visit) givenUp(ctx context.Context, w *work, url string) (bool, error) {
	if d, err := v.lookup(ctx, url); d != nil || err != nil {
		return true, err
	}
	last, err := v.c.store.Outcomes(ctx, url, 1)
	if err != nil || len(last) == 0 {
		return false, err
	}
	return last[0].Code == index.OutcomeDropped && w.now.Sub(last[0].At) < leadPause, nil
}

// nested follows the catalogs within a catalog: 4 levels, 50 documents, each
// once (D7). Only a root does; those inside are read on their own visits and
// wake it with their news.
func (v *visit) nested(ctx context.Context, w *work, root *catalog.Catalog) error {
	const levels, documents = 4, 50 // the root included, as discovery.Confirm counts
	inner, err := v.isNested(ctx, w)
	if err != nil || inner {
		return err
	}
	seen := map[string]bool{w.doc.URL: true}
	level := nestedIn(root, documents)
	for range levels {
		var next []string
		for _, url := range level {
			if seen[url] {
				continue
			}
			if len(seen) >= documents || !w.need(url) {
				w.step("read", url, "cut", fmt.Sprintf("more than %d catalogs within one another, or too long addresses; the rest is left out", documents))
				return nil
			}
			seen[url] = true
			n := index.NewDoc{URL: url, Kind: index.CatalogDoc, Class: index.ClassNew, From: w.doc.URL, FoundBy: index.RegistrableDomain(v.host)}
			if err := v.lead(ctx, n, false); err != nil {
				return err
			}
			d, err := v.lookup(ctx, url)
			if err != nil {
				return err
			}
			if d == nil || !usable(d.Fault) {
				continue
			}
			_, held, err := v.load(ctx, d)
			if err != nil {
				return err
			}
			if !held {
				continue
			}
			inside, err := v.parsed(ctx, asDocument(d, d.URL, nil))
			if v.lost != nil {
				return v.lost
			}
			if err == nil {
				next = append(next, nestedIn(inside, documents)...)
			}
		}
		level = next
	}
	return nil
}

// isNested reports whether a catalog is known only as part of another. What a
// root is redirected to is no part of it.
func (v *visit) isNested(ctx context.Context, w *work) (bool, error) {
	for d, hops := w.doc, 0; d.From != "" && hops <= maxHops && !isWellKnown(d.URL); hops++ {
		from, err := v.lookup(ctx, d.From)
		if err != nil || from == nil || from.Kind != index.CatalogDoc {
			return false, err
		}
		if !redirected(from) || from.FinalURL != d.URL {
			return true, nil
		}
		d = from
	}
	return false, nil
}

// keepElsewhere is what a redirect needs, without last time's nested catalogs.
func keepElsewhere(d *index.Doc) []string {
	if redirected(d) {
		return []string{d.FinalURL}
	}
	return nil
}
