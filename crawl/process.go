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
	if w.doc.Kind == index.Any && c.fault == "" && c.waitsFor == "" {
		want, _, err := discovery.Classify(c.document)
		if err != nil {
			c.fault, c.text = faultOf(err, c.document.Body)
		}
		w.doc.Kind = kindOf(want)
	}
	var r result
	if w.doc.Kind == index.CardDoc {
		r, err = v.card(ctx, w, &c)
	} else {
		r, err = v.pointer(ctx, w, &c)
	}
	if err != nil {
		return err
	}
	v.finish(w, r)
	return nil
}

// card judges a card and its evidence.
func (v *visit) card(ctx context.Context, w *work, c *content) (result, error) {
	prev, err := v.c.store.ByCard(ctx, w.doc.URL)
	if err != nil && !errors.Is(err, index.ErrNotFound) {
		return result{}, fmt.Errorf("look up entry: %w", err)
	}
	in := &check{
		now: w.now, url: w.doc.URL, prev: prev,
		firstSeen: w.was.FirstSeen, fails: w.was.Fails, wasFault: w.was.Fault, faultSince: w.was.FaultSince,
		fault: c.fault, text: c.text, waitsFor: c.waitsFor,
	}
	w.live = in.live()
	if strings.HasPrefix(w.was.FaultText, waitText) {
		in.waitSince = w.was.FaultSince
	}
	if in.fails+1 >= leadFails {
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
	if j.entry != nil {
		v.out.Entries = append(v.out.Entries, *j.entry)
	}
	w.step("judge", "", string(j.code), "")
	r := result{
		code: j.code, sentence: j.sentence, reason: j.fault, text: j.text, failed: j.failed, waiting: j.waiting,
		changed: w.was.Hash != w.doc.Hash, moved: j.changed, drop: j.drop, edge: earlier(edge, j.edge),
	}
	return r, nil
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
	crd, err := discovery.ReadCard(c.document)
	if err == nil {
		_, _, err = crd.Usable()
	}
	if err != nil {
		if errs, ok := errors.AsType[card.Errors](err); ok && crd != nil {
			err = &discovery.Error{Kind: discovery.InvalidCard, URL: c.document.FinalURL, Detail: oneLine(errs), Err: errs}
		}
		in.fault, in.text = faultOf(err, c.document.Body)
		w.step("read", w.doc.URL, "fault", in.text)
		return edge, nil
	}
	w.step("read", w.doc.URL, "card", crd.Name+" "+crd.Version)
	w.warn(crd.Warnings)
	if _, err := crd.Presentation(); err != nil {
		w.warn([]string{"its examples are ignored: " + oneLine(err)})
	}
	w.keep(c)
	w.doc.Needs = keepElsewhere(w.doc)
	d := c.document
	in.read = &index.Entry{
		ID: index.ID(w.doc.URL), CardURL: w.doc.URL, FinalURL: d.FinalURL,
		Document: d.Body, Hash: d.Hash, Name: crd.Name, Version: crd.Version,
	}
	if len(d.Hops) > 0 {
		in.read.Chain = []string{d.URL}
		for _, h := range d.Hops {
			in.read.Chain = append(in.read.Chain, h.Location)
		}
	}
	subject := &discovery.Subject{CardURL: w.doc.URL, Card: crd, Link: d.Header.Values("Link"), ResponseURL: d.FinalURL}
	w.pointers = catalog.HeaderLinks(subject.Link, subject.ResponseURL)
	in.conf, err = discovery.Confirm(ctx, subject, v.evidence(w))
	if err = errors.Join(err, v.err); err != nil {
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

// needed reports whether the document that led to d rests on it: the target
// of a redirect stays as long as something is redirected to it.
func (v *visit) needed(ctx context.Context, d *index.Doc) (bool, error) {
	if d.From == "" {
		return false, nil
	}
	from, err := v.lookup(ctx, d.From)
	return from != nil && slices.Contains(from.Needs, d.URL), err
}

// lookup gives what is known of a document: from this visit, else from the
// store; nil when it is unknown.
func (v *visit) lookup(ctx context.Context, url string) (*index.Doc, error) {
	if d := v.docs[url]; d != nil {
		return d, nil
	}
	d, err := v.c.store.Doc(ctx, url)
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
