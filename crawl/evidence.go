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

// faultError is why a document cannot be used.
type faultError struct {
	reason index.Reason
	text   string
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
			return nil, &faultError{index.ReasonInvalid, url + " is the card itself and neither a catalog nor a page"}
		}
		if !slices.Contains(w.doc.Needs, url) {
			w.doc.Needs = append(w.doc.Needs, url)
		}
		if slices.Index(w.pointers, url) >= maxPointers {
			return nil, &faultError{index.ReasonUnreadable, fmt.Sprintf("%s is not read: %s names more than %d catalogs", url, w.doc.URL, maxPointers)}
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
			d = v.newDoc(index.NewDoc{Kind: kindOf(want), Class: w.evidenceClass(), URL: url, From: w.doc.URL, FoundBy: index.RegistrableDomain(v.host)})
		case stored.NextAt.After(w.now) && !tooOld(w, stored):
			return nil
		default:
			d = stored
		}
		v.docs[url] = d
	}
	if v.stage[url] == queued && (d.Kind == index.CatalogDoc || d.Kind == index.PageDoc) {
		v.do(ctx, d)
	}
	if s := v.stage[url]; s != done {
		if s == handedBack {
			v.find(index.NewDoc{URL: url, Kind: d.Kind, Class: w.evidenceClass(), From: d.From, FoundBy: d.FoundBy, Now: true})
		}
		return fmt.Errorf("%s: %w", url, discovery.ErrDeferred)
	}
	return nil
}

// evidenceClass is how urgent a document is that the card w needs (P6).
func (w *work) evidenceClass() index.Class {
	switch {
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
		return nil, &faultError{index.ReasonUnreadable, oneLine(discovery.FetchError(url, err))}
	}
	n := index.NewDoc{URL: url, Kind: kind, Class: w.evidenceClass(), From: w.doc.URL, FoundBy: index.RegistrableDomain(v.host)}
	d, err := v.lookup(ctx, url)
	switch {
	case err != nil:
		v.err = err
		return nil, err
	case d == nil:
	case d.CheckedAt.IsZero():
	case tooOld(w, d):
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
func tooOld(w *work, d *index.Doc) bool {
	return w.was.Class == index.ClassUser && w.now.Sub(d.CheckedAt) > askedAgain
}

// stored gives the content of a stored document, following its redirects over
// other hosts from one stored document to the next. Errors: *faultError,
// ErrDeferred, the store's.
func (v *visit) stored(ctx context.Context, w *work, d *index.Doc, asked string) (*discovery.Document, []string, error) {
	var chain []string
	for redirected(d) {
		chain = append(chain, d.Chain[:max(len(d.Chain)-1, 0)]...)
		if len(chain) > maxHops {
			return nil, nil, &faultError{index.ReasonUnreadable, fmt.Sprintf("%s is redirected more than %d times", asked, maxHops)}
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
		return nil, nil, &faultError{d.Fault, d.FaultText}
	}
	return asDocument(d, asked, chain), d.XRobots, nil
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
