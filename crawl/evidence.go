package crawl

import (
	"context"
	"fmt"
	"slices"

	"github.com/openbot-build/openbot-go/discovery"
	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/internal/weburl"
)

// maxPointers is how many catalogs one card or page may name: the crawler must
// not be an amplifier against third parties (A2).
const maxPointers = 8

// maxForeign is how many of them may lie on other registrable domains.
const maxForeign = 3

// maxNeeds is how many octets the addresses that one judgement rests on may
// have.
const maxNeeds = 64 << 10

// faultError is why a document cannot be used.
type faultError struct {
	reason index.Reason
	text   string
	from   source
}

func (e *faultError) Error() string { return e.text }

// evidence gives discovery.Confirm the documents that a card's judgement rests
// on. Those of this host are read on this visit when they are due; those of
// other hosts come from the store, or later. Every one is noted in the card's
// Needs, so that its news brings the card back.
func (v *visit) evidence(w *work) discovery.FetchFunc {
	return func(ctx context.Context, url string, want discovery.Want) (*discovery.Document, error) {
		u, err := weburl.Parse(url)
		if err != nil {
			return nil, fmt.Errorf("read evidence: %w", err)
		}
		if url == w.doc.URL {
			return nil, &faultError{reason: index.ReasonInvalid, text: url + " is the card itself and neither a catalog nor a page"}
		}
		if slices.Contains(w.pointers, url) && !slices.Contains(v.followed(w.pointers), url) {
			text := fmt.Sprintf("%s is not read: %s names more than %d catalogs, or more than %d on other domains", url, w.doc.URL, maxPointers, maxForeign)
			return nil, &faultError{reason: index.ReasonUnreadable, text: text}
		}
		if !w.need(url) {
			return nil, &faultError{reason: index.ReasonUnreadable, text: fmt.Sprintf("%.300s is not read: %s leads to too many or too long addresses", url, w.doc.URL)}
		}
		if u.Authority() == v.host {
			if err := v.readHere(ctx, w, url, want); err != nil {
				return nil, err
			}
		}
		start, err := v.known(ctx, w, url, kindOf(want))
		if err != nil {
			return nil, err
		}
		d, xRobots, err := v.stored(ctx, w, start, url)
		if err != nil {
			return nil, err
		}
		c := content{xRobots: xRobots}
		if no, _ := c.noIndex(w.now); no {
			return nil, errNoIndex
		}
		return d, nil
	}
}

// followed are those of the catalogs that a document of this host names which
// count: the first few, and fewer on other domains.
func (v *visit) followed(urls []string) []string {
	var out []string
	foreign := 0
	for _, u := range urls {
		if len(out) == maxPointers {
			break
		}
		if v.foreign(u) {
			if foreign == maxForeign {
				continue
			}
			foreign++
		}
		out = append(out, u)
	}
	return out
}

// foreign reports whether a document lies on another registrable domain.
func (v *visit) foreign(url string) bool {
	return index.RegistrableDomain(hostOf(url)) != index.RegistrableDomain(v.host)
}

// need notes that w rests on a document. It reports false when there are too
// many.
func (w *work) need(url string) bool {
	if slices.Contains(w.doc.Needs, url) {
		return true
	}
	size := len(url)
	for _, u := range w.doc.Needs {
		size += len(u)
	}
	if size > maxNeeds {
		return false
	}
	w.doc.Needs = append(w.doc.Needs, url)
	return true
}

// readHere visits a document of this host that evidence needs, if it is due.
// Errors: ErrDeferred when it cannot be visited now, or the store's.
func (v *visit) readHere(ctx context.Context, w *work, url string, want discovery.Want) error {
	d := v.docs[url]
	if d == nil {
		stored, err := v.lookup(ctx, url)
		switch {
		case err != nil:
			v.err = err
			return err
		case stored == nil:
			d = v.newDoc(index.NewDoc{Kind: kindOf(want), Class: v.evidenceClass(w, url), URL: url, From: w.doc.URL, FoundBy: index.RegistrableDomain(v.host)})
		case stored.NextAt.After(w.now) && !v.tooOld(w, stored):
			return nil
		default:
			d = stored
		}
		v.docs[url] = d
	}
	if v.stage[url] == queued {
		if d.Hash == "" && !isWellKnown(url) {
			d.Kind = kindOf(want) // whatever a stranger called it
		}
		v.do(ctx, d)
	}
	if s := v.stage[url]; s != done {
		if s == handedBack {
			v.find(index.NewDoc{URL: url, Kind: d.Kind, Class: v.evidenceClass(w, url), From: d.From, FoundBy: d.FoundBy, Now: true})
		}
		return fmt.Errorf("%s: %w", url, discovery.ErrDeferred)
	}
	return nil
}

// evidenceClass is how urgent a document is that the card w needs (P6). On
// another domain it is never more urgent than that domain's own documents: any
// stranger's card can name it.
func (v *visit) evidenceClass(w *work, url string) index.Class {
	switch {
	case v.foreign(url):
		return index.ClassNew
	case w.was.Class == index.ClassUser:
		return index.ClassUser
	case w.live:
		return index.ClassRemoval
	}
	return index.ClassNew
}

// known gives the stored state of a document that w needs. One that was not
// read yet, or too long ago, is asked for: then the error is ErrDeferred.
func (v *visit) known(ctx context.Context, w *work, url string, kind index.Kind) (*index.Doc, error) {
	if d := v.docs[url]; d != nil && v.stage[url] == done {
		return d, nil
	}
	if err := v.c.network.CheckURL(url); err != nil {
		return nil, &faultError{reason: index.ReasonUnreadable, text: oneLine(discovery.FetchError(url, err))}
	}
	n := index.NewDoc{URL: url, Kind: kind, Class: v.evidenceClass(w, url), From: w.doc.URL, FoundBy: index.RegistrableDomain(v.host)}
	d, err := v.lookup(ctx, url)
	switch {
	case err != nil:
		v.err = err
		return nil, err
	case d == nil:
	case d.CheckedAt.IsZero():
	case v.tooOld(w, d):
		n.Now = true
	case !d.NextAt.IsZero() && w.now.Sub(d.NextAt) > overdueFor:
		n.Now = true
	default:
		return d, nil
	}
	v.find(n)
	return nil, fmt.Errorf("%s: %w", url, discovery.ErrDeferred)
}

// tooOld reports whether a person's wish to have w judged anew needs d anew.
// Documents of other domains keep their own time.
func (v *visit) tooOld(w *work, d *index.Doc) bool {
	return w.was.Class == index.ClassUser && !v.foreign(d.URL) && w.now.Sub(d.CheckedAt) > askedAgain
}

// stored gives the content of a stored document, following its redirects over
// other hosts from one stored document to the next. Errors: *faultError,
// ErrDeferred, the store's.
func (v *visit) stored(ctx context.Context, w *work, d *index.Doc, asked string) (*discovery.Document, []string, error) {
	var chain []string
	for redirected(d) {
		if d != w.doc && !usable(d.Fault) { // where it points now is not known
			return nil, nil, faultIn(d)
		}
		chain = append(chain, d.Chain[:max(len(d.Chain)-1, 0)]...)
		if len(chain) > maxHops {
			return nil, nil, &faultError{reason: index.ReasonUnreadable, text: tooManyHops(asked)}
		}
		next, err := v.known(ctx, w, d.FinalURL, d.Kind)
		if err != nil {
			return nil, nil, err
		}
		d = next
	}
	if d.NoIndex {
		return &discovery.Document{URL: asked, FinalURL: d.URL, FetchedAt: d.CheckedAt}, d.XRobots, nil
	}
	if !usable(d.Fault) {
		return nil, nil, faultIn(d)
	}
	if _, _, err := v.load(ctx, d); err != nil {
		v.err = err
		return nil, nil, err
	}
	return asDocument(d, asked, chain), d.XRobots, nil
}

func faultIn(d *index.Doc) *faultError {
	return &faultError{d.Fault, d.FaultText, source{url: d.URL, since: d.FaultSince, checked: d.CheckedAt}}
}

func kindOf(w discovery.Want) index.Kind {
	switch w {
	case discovery.WantCatalog:
		return index.CatalogDoc
	case discovery.WantCard:
		return index.CardDoc
	case discovery.WantPage:
		return index.PageDoc
	}
	return index.Any
}
