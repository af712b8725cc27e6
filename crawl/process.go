package crawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/discovery"
	"github.com/openbot-build/openbot-go/index"
)

const wellKnownPath = catalog.WellKnownPath

// isWellKnown reports whether a URL in normal form is the place where only a
// catalog can be.
func isWellKnown(url string) bool { return url == wellKnownOf(url) }

func wellKnownOf(url string) string {
	rest := strings.TrimPrefix(url, "https://")
	host, _, _ := strings.Cut(rest, "/")
	return "https://" + host + wellKnownPath
}

// maxTold is how many skipped entries or warnings of one document a trace shows.
const maxTold = 5

// warn tells a publisher what readers put up with.
func (w *work) warn(warnings []string) {
	for _, s := range warnings[:min(len(warnings), maxTold)] {
		w.step("read", w.doc.URL, "warning", s)
	}
}

// result is what a visit makes of one document.
type result struct {
	code     index.Code
	sentence string
	reason   index.Reason // "" when it can be used
	text     string
	failed   bool
	waiting  bool
	changed  bool // the document is another than before
	moved    bool // its entry is another than before
	drop     bool
	edge     time.Time // when time alone changes something
}

// process reads one document, judges it by its kind and finishes it. The error
// is one of handBack or the store's: then nothing came of it.
func (v *visit) process(ctx context.Context, w *work) error {
	c, err := v.read(ctx, w)
	if err != nil {
		return err
	}
	w.stored = c.stored && !redirected(w.doc)
	if c.document != nil && int64(len(c.document.Body)) > small {
		v.open += int64(len(c.document.Body)) // until do ends
	}
	var r result
	isCard := false
	err = v.desk(ctx, c.size, func() error {
		if err := v.classify(ctx, w, &c); err != nil {
			return err
		}
		if isCard = w.doc.Kind == index.CardDoc; isCard {
			return nil // its evidence may have to be waited for
		}
		r, err = v.pointer(ctx, w, &c)
		return err
	})
	if isCard && err == nil {
		r, err = v.card(ctx, w, &c)
	}
	if errors.Is(err, errAskFirst) {
		*w.doc, w.ask, w.asked, w.pointers = w.was, true, false, nil
		return v.process(ctx, w)
	}
	if err != nil {
		return err
	}
	v.finish(w, r)
	return nil
}

// errAskFirst says that the stored copy of a card is too old to judge by: the
// entry would lose its standing, and the card may name other evidence by now
// (OB-134).
var errAskFirst = errors.New("the card is to be asked for first")

// classify makes a document what its answer says that it is: whoever named it
// first may have called it anything (D11, A4). At the well-known address only a
// catalog is expected. A document that was read before as what it is called
// gets a day to return to it, and an entry's card stays one: else a page of
// errors would end the entry's watch.
func (v *visit) classify(ctx context.Context, w *work, c *content) error {
	no, _ := c.noIndex(w.now)
	if no || c.document == nil || w.stored || isWellKnown(w.doc.URL) {
		return nil
	}
	want, _, err := discovery.Classify(c.document)
	if err != nil {
		if w.doc.Kind == index.Any {
			c.fault, c.text = faultOf(err, c.document.Body)
		}
		return nil
	}
	was, is := w.doc.Kind, kindOf(want)
	if is == was {
		return nil
	}
	if was != index.Any && w.was.Hash != "" && (usable(w.was.Fault) || w.now.Sub(w.was.FaultSince) < apart) {
		return nil
	}
	if was == index.CardDoc {
		prev, err := v.entry(ctx, w.doc.URL)
		if err != nil {
			return err
		}
		if (&check{prev: prev}).live() {
			return nil
		}
	}
	d := w.doc
	d.Kind, d.Needs = is, keepElsewhere(d)
	d.ETag, d.LastModified, d.Hash = "", "", ""
	d.Body, d.Link, d.Targets = nil, nil, nil
	return nil
}

// entry gives the entry of a card; nil when it has none.
func (v *visit) entry(ctx context.Context, url string) (*index.Entry, error) {
	e, err := v.c.store.ByCard(context.WithoutCancel(ctx), url) // see lookup
	if errors.Is(err, index.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up entry: %w", err)
	}
	if len(e.Document) > small {
		e.Document = nil // until it is written again: see refill
	}
	return e, nil
}

// card judges a card and its evidence.
func (v *visit) card(ctx context.Context, w *work, c *content) (result, error) {
	prev, err := v.entry(ctx, w.doc.URL)
	if err != nil {
		return result{}, err
	}
	in := &check{
		now: w.now, url: w.doc.URL, prev: prev,
		firstSeen: w.was.FirstSeen, fails: w.fails(), wasFault: w.was.Fault, faultSince: w.was.FaultSince,
		seen: w.now, targetSince: c.from.since,
		fault: c.fault, text: c.text, waitsFor: c.waitsFor,
	}
	switch {
	case c.from.url != "":
		in.seen = c.from.checked
	case !w.asked:
		in.seen = w.was.CheckedAt
	}
	w.live = in.live()
	if w.was.Fault == index.ReasonWaiting {
		in.waitSince = w.was.FaultSince
	}
	if in.fails >= leadFails {
		if in.needed, err = v.needed(ctx, w.doc); err != nil {
			return result{}, err
		}
	}
	var edge time.Time
	if c.fault == "" && c.waitsFor == "" {
		if edge, err = v.readCard(ctx, w, c, in); err != nil {
			return result{}, err
		}
	}
	j := judge(in)
	if !w.asked && !w.ask && w.live && j.entry != nil && worse(j.entry.State, prev.State) {
		return result{}, errAskFirst
	}
	if j.again && c.from.url != "" {
		v.find(index.NewDoc{
			URL: c.from.url, Kind: index.CardDoc, Class: v.evidenceClass(w, c.from.url), From: w.doc.URL,
			FoundBy: index.RegistrableDomain(v.host), Now: true,
		})
	}
	if j.entry != nil {
		if err := v.refill(ctx, j.entry, c); err != nil {
			return result{}, err
		}
		v.out.Entries = append(v.out.Entries, *j.entry)
	}
	w.step("judge", "", string(j.code), "")
	r := result{
		code: j.code, sentence: j.sentence, reason: j.fault, text: j.text, failed: j.failed, waiting: j.waiting,
		changed: w.was.Hash != w.doc.Hash, moved: j.changed, drop: j.drop, edge: earlier(edge, j.edge),
	}
	return r, nil
}

// worse reports whether an entry that goes from state was to state is loses by it.
func worse(is, was index.State) bool {
	rank := map[index.State]int{index.Listed: 0, index.Stale: 1, index.Hidden: 2, index.Removed: 3}
	return rank[is] > rank[was]
}

// readCard fills in what the document itself and its evidence say.
func (v *visit) readCard(ctx context.Context, w *work, c *content, in *check) (edge time.Time, err error) {
	no, edge := c.noIndex(w.now)
	w.doc.NoIndex = no
	if no {
		w.forget(c)
		in.fault, in.text = index.ReasonNoIndex, "its X-Robots-Tag asks not to be indexed ("+short(strings.Join(c.xRobots, ", "))+")"
		w.step("noindex", w.doc.URL, "noindex", strings.Join(c.xRobots, ", "))
		return edge, nil
	}
	var crd *card.Card // what evidence is looked for by
	if err := v.desk(ctx, c.size, func() (err error) { crd, err = v.parseCard(ctx, w, c, in); return err }); err != nil || crd == nil {
		return edge, err
	}
	d := c.document
	subject := &discovery.Subject{
		CardURL: w.doc.URL, Card: crd, Link: kept(d.Header.Values("Link")), ResponseURL: d.FinalURL,
		ReadCatalog: func(d *discovery.Document) (*catalog.Catalog, error) { return v.parsed(ctx, d) },
	}
	w.pointers = catalog.HeaderLinks(subject.Link, subject.ResponseURL)
	in.conf, err = discovery.Confirm(ctx, subject, v.evidence(w))
	if err = errors.Join(err, v.err, v.lost); err != nil {
		return edge, err
	}
	for _, f := range in.conf.Findings {
		detail := string(f.Kind)
		switch {
		case f.Status == discovery.Deferred:
			detail += ": it is read on a visit of its own host"
		case f.Err != nil:
			detail += ": " + whyUnread(f)
		}
		w.step("evidence", f.CatalogURL, string(f.Status), detail)
	}
	return edge, nil
}

// parseCard reads the card itself and notes what of it the judgement and the
// index need. The card that it gives is no more than that; nil is one that
// cannot be used. The error is the store's, or errLater.
func (v *visit) parseCard(ctx context.Context, w *work, c *content, in *check) (*card.Card, error) {
	d, err := v.whole(ctx, c.document)
	if err != nil {
		return nil, err
	}
	crd, err := discovery.ReadCard(d)
	if err == nil {
		_, _, err = crd.Usable()
	}
	if err != nil {
		if errs, ok := errors.AsType[card.Errors](err); ok && crd != nil {
			err = &discovery.Error{Kind: discovery.InvalidCard, URL: d.FinalURL, Detail: oneLine(errs), Err: errs}
		}
		in.fault, in.text = faultOf(err, d.Body)
		w.step("read", w.doc.URL, "fault", in.text)
		return nil, nil
	}
	w.step("read", w.doc.URL, "card", crd.Name+" "+crd.Version)
	w.warn(crd.Warnings)
	if _, err := crd.Presentation(); err != nil {
		w.warn([]string{"its examples are ignored: " + oneLine(err)})
	}
	w.keep(c)
	w.doc.Needs = keepElsewhere(w.doc)
	in.read = &index.Entry{
		ID: index.ID(w.doc.URL), CardURL: w.doc.URL, FinalURL: d.FinalURL,
		Document: c.document.Body, Hash: d.Hash, Name: crd.Name, Version: crd.Version,
	}
	if len(d.Hops) > 0 {
		in.read.Chain = []string{d.URL}
		for _, h := range d.Hops {
			in.read.Chain = append(in.read.Chain, h.Location)
		}
	}
	return &card.Card{Name: crd.Name, Version: crd.Version, WebsiteURL: crd.WebsiteURL}, nil
}

// needed reports whether some document rests on d, such as one that is
// redirected to it, or names it still.
func (v *visit) needed(ctx context.Context, d *index.Doc) (bool, error) {
	needed, err := v.c.store.Needed(ctx, d.URL)
	if err != nil {
		return false, fmt.Errorf("ask who needs %s: %w", d.URL, err)
	}
	if needed || d.From == "" {
		return needed, nil
	}
	from, err := v.lookup(ctx, d.From)
	return from != nil && (slices.Contains(from.Needs, d.URL) || slices.Contains(from.Targets, d.URL)), err
}

// fails is how many checks in a row have failed, if this one does.
func (w *work) fails() int {
	if w.asked {
		return w.was.Fails + 1
	}
	return w.was.Fails
}

// lookup gives what is known of a document: from this visit, else from the
// store; nil when it is unknown. So short a look goes on when the crawl is being
// stopped: database/sql and its driver start a goroutine each to watch a context
// that can end.
func (v *visit) lookup(ctx context.Context, url string) (*index.Doc, error) {
	if d := v.docs[url]; d != nil {
		return d, nil
	}
	d, err := v.c.store.Doc(context.WithoutCancel(ctx), url)
	if errors.Is(err, index.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", url, err)
	}
	return d, nil
}

// forget drops the stored copy of a document that asks not to be indexed: it
// is asked for without validators until it asks no more (C6).
func (w *work) forget(c *content) {
	if !redirected(w.doc) {
		w.doc.XRobots = c.xRobots
		w.doc.FinalURL = c.document.FinalURL
		w.doc.Chain = nil
	}
	w.doc.ETag, w.doc.LastModified, w.doc.Hash = "", "", ""
	w.doc.Body, w.doc.Link, w.doc.Targets = nil, nil, nil
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func hostOf(url string) string {
	rest := strings.TrimPrefix(url, "https://")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
