package discovery

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/internal/weburl"
)

// Subject is a card whose publisher is to be confirmed.
type Subject struct {
	CardURL     string // as asked, normal form
	Card        *card.Card
	Link        []string // Link header values of the card's own response
	ResponseURL string   // final URL of that response, against which Link resolves

	// ReadCatalog is used instead of the function of that name; nil uses that.
	// Who confirms many cards can keep the catalogs that it has read.
	ReadCatalog func(*Document) (*catalog.Catalog, error)
}

// Status is what one kind of evidence came to.
type Status string

// The statuses of a Finding.
const (
	Proven     Status = "proven"
	NotListed  Status = "not_listed" // complete, valid, and does not list the card
	Unreadable Status = "unreadable" // neither proof nor disproof
	Deferred   Status = "deferred"   // the fetch function will read it later
	NoPointer  Status = "no_pointer" // the card names no catalog in this way
)

// Finding is one catalog that was asked, or why a kind of evidence led to none.
type Finding struct {
	Kind   catalog.Kind
	Status Status

	// CatalogURL is the catalog, normal form: the well-known address as such;
	// another one where it was read, or as the card names it if it was not. It
	// is empty with NoPointer, and when the page that should name it was not read.
	CatalogURL string

	// Chain is every address that was read, redirects included, in order. With
	// Proven it leads straight to the document that lists the card.
	Chain []string

	// Err is why it is Unreadable or Deferred. With NoPointer it is set when the
	// card does name something, but nothing that could be a catalog.
	Err error
}

// Confirmation is the judgement on one card.
type Confirmation struct {
	Evidence *catalog.Evidence // nil: not proven
	Findings []Finding         // in the order tried; all kinds when Evidence is nil
}

// Confirm looks for publisher evidence (OB-112, D34): the well-known catalog of
// the card's origin, a catalog in the card response's Link header, a catalog
// linked from the card's websiteUrl page. The first proof in this order is the
// answer; without one it has tried all. Nested catalogs are read after the roots
// of all kinds, so that many of them cannot hide the other evidence.
//
// Every judgement is for the card URL as asked: where a card is redirected
// proves nothing for the target (D6). A redirected well-known catalog still
// speaks for the origin that was asked; another one speaks for where it was
// read, for an address that redirects anywhere says nothing about its owner.
// Nested catalogs count when their address lies on the origin of their root's
// address as named, at most 4 levels and 50 documents in all (D7), each read
// once. A catalog of which such a part could not be read may
// prove a card, but is Unreadable or Deferred, never NotListed (OB-134). An
// ard.json is not evidence and is not asked for (D3).
//
// fetch is called once an address, one call at a time. Its errors are kept in
// the Findings, where errors.Is finds them; ErrDeferred makes a Finding
// Deferred. The error of Confirm is that of ctx only.
func Confirm(ctx context.Context, s *Subject, fetch FetchFunc) (*Confirmation, error) {
	c := &confirmer{subject: s, fetch: fetch, read: make(map[string]reading)}
	var all []*search
	settled := func() bool { return all != nil && all[len(all)-1].proof != nil || ctx.Err() != nil }
	for _, named := range []func(context.Context) []*search{c.wellKnown, c.linkHeader, c.website} {
		if settled() {
			break
		}
		for _, f := range named(ctx) {
			c.root(ctx, f)
			if all = append(all, f); settled() {
				break
			}
		}
	}
	out := &Confirmation{}
	for _, f := range all {
		c.nested(ctx, f)
		out.Findings = append(out.Findings, f.Finding)
		if out.Evidence = f.proof; out.Evidence != nil {
			return out, nil
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("confirm %s: %w", s.CardURL, err)
	}
	return out, nil
}

// confirmer is one run of Confirm.
type confirmer struct {
	subject *Subject
	fetch   FetchFunc
	read    map[string]reading // by address as asked
}

// reading is what came of one address.
type reading struct {
	doc *Document
	err error
}

func (c *confirmer) get(ctx context.Context, url string, want Want) (*Document, error) {
	if r, ok := c.read[url]; ok {
		return r.doc, r.err
	}
	if len(c.read) >= maxDocuments {
		return nil, &Error{Kind: NotFetched, URL: url, Detail: fmt.Sprintf("%d documents were read already", maxDocuments)}
	}
	d, err := get(ctx, c.fetch, url, want)
	c.read[url] = reading{d, err}
	return d, err
}

// search is the search for the card in one catalog and in those nested in it.
type search struct {
	Finding
	root   string // the catalog as named; "" when there is none
	origin string // of root
	queue  []place
	seen   map[string]bool
	proof  *catalog.Evidence
}

func without(f Finding) []*search { return []*search{{Finding: f}} }

func (c *confirmer) wellKnown(context.Context) []*search {
	u, err := weburl.Parse(c.subject.CardURL)
	if err != nil {
		return without(Finding{Kind: catalog.WellKnown, Status: NoPointer, Err: inputError(c.subject.CardURL, err)})
	}
	return c.named(catalog.WellKnown, []string{u.Origin() + catalog.WellKnownPath}, nil)
}

func (c *confirmer) linkHeader(context.Context) []*search {
	return c.named(catalog.LinkHeader, catalog.HeaderLinks(c.subject.Link, c.subject.ResponseURL), nil)
}

// website reads the page that the card calls its own. Link headers of that page
// count like its link elements, as they do for any app page (OB-32).
func (c *confirmer) website(ctx context.Context) []*search {
	f := Finding{Kind: catalog.Website, Status: NoPointer}
	if c.subject.Card == nil || c.subject.Card.WebsiteURL == "" {
		return without(f)
	}
	u, err := weburl.Parse(c.subject.Card.WebsiteURL)
	if err != nil {
		f.Err = fmt.Errorf("websiteUrl: %w", inputError(c.subject.Card.WebsiteURL, err))
		return without(f)
	}
	d, err := c.get(ctx, u.String(), WantPage)
	if err != nil {
		f.Status, f.Err, f.Chain = unread(err), err, []string{u.String()}
		return without(f)
	}
	f.Chain = trail(d)
	links, err := readPage(d)
	if err != nil {
		f.Status, f.Err = Unreadable, err
		return without(f)
	}
	return c.named(catalog.Website, links, f.Chain)
}

// named are the catalogs that the card names in one way. before is what was
// read to get there.
func (c *confirmer) named(kind catalog.Kind, targets, before []string) []*search {
	var out []*search
	for _, url := range targets {
		if isARD(url) {
			continue
		}
		out = append(out, &search{
			Finding: Finding{Kind: kind, Status: NotListed, CatalogURL: url, Chain: before},
			root:    url, origin: originOf(url), seen: map[string]bool{url: true},
		})
	}
	if out == nil {
		f := Finding{Kind: kind, Status: NoPointer, Chain: before}
		if len(targets) > 0 {
			f.Err = fmt.Errorf("%s: an ard.json is no evidence", targets[0])
		}
		return without(f)
	}
	return out
}

// place is a catalog to be read: how it was reached, and how deep it lies.
type place struct {
	url   string
	chain []string
	depth int
}

// root looks for the card in the catalog itself.
func (c *confirmer) root(ctx context.Context, f *search) {
	if f.root != "" {
		c.look(ctx, f, place{url: f.root, chain: f.Chain})
	}
}

// nested looks for the card in the catalogs within it, those nearest to the
// root first.
func (c *confirmer) nested(ctx context.Context, f *search) {
	for ; len(f.queue) > 0 && f.proof == nil && ctx.Err() == nil; f.queue = f.queue[1:] {
		c.look(ctx, f, f.queue[0])
	}
}

func (c *confirmer) look(ctx context.Context, f *search, at place) {
	d, err := c.get(ctx, at.url, WantCatalog)
	var cat *catalog.Catalog
	if err == nil {
		at.chain = join(at.chain, trail(d)...)
		f.Chain = join(f.Chain, trail(d)...)
		cat, err = c.readCatalog(d)
	} else {
		f.Chain = join(f.Chain, at.url)
	}
	if err != nil {
		f.incomplete(unread(err), err)
		return
	}
	if at.depth == 0 && f.Kind != catalog.WellKnown {
		f.CatalogURL = d.FinalURL
	}
	if entry, ok := cat.Lists(c.subject.CardURL); ok {
		f.proof = &catalog.Evidence{Kind: f.Kind, CatalogURL: f.CatalogURL, Chain: at.chain, Entry: entry, CheckedAt: d.FetchedAt}
		f.Finding = Finding{Kind: f.Kind, Status: Proven, CatalogURL: f.CatalogURL, Chain: at.chain}
		return
	}
	for n := range cat.Nested() {
		switch {
		case originOf(n.URL) != f.origin || isARD(n.URL) || f.seen[n.URL]:
		case len(f.queue) >= maxDocuments:
			f.incomplete(Unreadable, &Error{Kind: NotFetched, URL: f.root, Detail: fmt.Sprintf("it names more than %d catalogs", maxDocuments)})
			return
		case at.depth == maxDepth:
			f.incomplete(Unreadable, &Error{Kind: NotFetched, URL: n.URL, Detail: fmt.Sprintf("it lies more than %d levels below %s", maxDepth, f.root)})
		default:
			f.seen[n.URL] = true
			f.queue = append(f.queue, place{n.URL, at.chain, at.depth + 1})
		}
	}
}

func (c *confirmer) readCatalog(d *Document) (*catalog.Catalog, error) {
	if c.subject.ReadCatalog != nil {
		return c.subject.ReadCatalog(d)
	}
	return ReadCatalog(d)
}

// incomplete notes a document that could not be read. One that will be read
// later decides: then the whole catalog is to be asked again.
func (f *Finding) incomplete(s Status, err error) {
	if f.Status != Deferred {
		f.Status = s
	}
	f.Err = errors.Join(f.Err, err)
}

func unread(err error) Status {
	if errors.Is(err, ErrDeferred) {
		return Deferred
	}
	return Unreadable
}

// readPage gives the catalogs that a page names, Link headers first (OB-39).
func readPage(d *Document) ([]string, error) {
	if err := complete(d); err != nil {
		return nil, err
	}
	if d.ContentType() != pageType {
		return nil, wrongType(d, "a web page ("+pageType+")")
	}
	return pageLinks(d), nil
}

func pageLinks(d *Document) []string {
	links := catalog.HeaderLinks(d.Header.Values("Link"), d.FinalURL)
	seen := make(map[string]bool)
	for _, l := range links {
		seen[l] = true
	}
	for _, l := range catalog.PageLinks(d.Body, d.Header.Get("Content-Type"), d.FinalURL) {
		if !seen[l] {
			links = append(links, l)
		}
	}
	return links
}

func originOf(url string) string {
	u, err := weburl.Parse(url)
	if err != nil {
		return ""
	}
	return u.Origin()
}

func isARD(url string) bool {
	u, err := weburl.Parse(url)
	if err != nil {
		return false
	}
	path, _, _ := strings.Cut(u.Target(), "?")
	return path == catalog.ARDPath
}

// join adds to a list that others may hold.
func join(list []string, more ...string) []string {
	return append(list[:len(list):len(list)], more...)
}
