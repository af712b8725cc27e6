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

	// CatalogURL is the catalog as the card names it, normal form. It is empty
	// with NoPointer, and when the page that should name it was not read.
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
// linked from the card's websiteUrl page. It stops at the first proof; without
// one it has tried all.
//
// Every judgement is for the card URL as asked: where a card is redirected
// proves nothing for the target (D6). A redirected catalog still speaks for the
// address that was asked. Nested catalogs count when their address lies on the
// origin of their root's address, at most 4 levels and 50 documents in all
// (D7), each read once. A catalog of which such a part could not be read may
// prove a card, but is Unreadable or Deferred, never NotListed (OB-134). An
// ard.json is not evidence and is not asked for (D3).
//
// fetch is called once an address, one call at a time. Its errors are kept in
// the Findings, where errors.Is finds them; ErrDeferred makes a Finding
// Deferred. The error of Confirm is that of ctx only.
func Confirm(ctx context.Context, s *Subject, fetch FetchFunc) (*Confirmation, error) {
	c := &confirmer{subject: s, fetch: fetch, read: make(map[string]reading)}
	for _, try := range []func(context.Context) []Finding{c.wellKnown, c.linkHeader, c.website} {
		found := try(ctx)
		if err := ctx.Err(); err != nil && c.out.Evidence == nil {
			return nil, fmt.Errorf("confirm %s: %w", s.CardURL, err)
		}
		c.out.Findings = append(c.out.Findings, found...)
		if c.out.Evidence != nil {
			break
		}
	}
	return &c.out, nil
}

// confirmer is one run of Confirm.
type confirmer struct {
	subject *Subject
	fetch   FetchFunc
	read    map[string]reading // by address as asked
	out     Confirmation
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

func (c *confirmer) wellKnown(ctx context.Context) []Finding {
	u, err := weburl.Parse(c.subject.CardURL)
	if err != nil {
		return []Finding{{Kind: catalog.WellKnown, Status: NoPointer, Err: inputError(c.subject.CardURL, err)}}
	}
	return c.ask(ctx, catalog.WellKnown, []string{u.Origin() + catalog.WellKnownPath}, nil)
}

func (c *confirmer) linkHeader(ctx context.Context) []Finding {
	return c.ask(ctx, catalog.LinkHeader, catalog.HeaderLinks(c.subject.Link, c.subject.ResponseURL), nil)
}

// website reads the page that the card calls its own. Link headers of that page
// count like its link elements, as they do for any app page (OB-32).
func (c *confirmer) website(ctx context.Context) []Finding {
	f := Finding{Kind: catalog.Website, Status: NoPointer}
	if c.subject.Card == nil || c.subject.Card.WebsiteURL == "" {
		return []Finding{f}
	}
	u, err := weburl.Parse(c.subject.Card.WebsiteURL)
	if err != nil {
		f.Err = fmt.Errorf("websiteUrl: %w", inputError(c.subject.Card.WebsiteURL, err))
		return []Finding{f}
	}
	d, err := c.get(ctx, u.String(), WantPage)
	if err != nil {
		f.Status, f.Err, f.Chain = unread(err), err, []string{u.String()}
		return []Finding{f}
	}
	f.Chain = trail(d)
	links, err := readPage(d)
	if err != nil {
		f.Status, f.Err = Unreadable, err
		return []Finding{f}
	}
	found := c.ask(ctx, catalog.Website, links, f.Chain)
	if len(found) == 1 && found[0].Status == NoPointer {
		found[0].Chain = f.Chain
	}
	return found
}

// ask reads each catalog that the card names in one way. before is what was
// read to get there.
func (c *confirmer) ask(ctx context.Context, kind catalog.Kind, targets, before []string) []Finding {
	var out []Finding
	for _, url := range targets {
		if isARD(url) {
			continue
		}
		f := c.search(ctx, kind, url, before)
		out = append(out, f)
		if f.Status == Proven || ctx.Err() != nil {
			return out
		}
	}
	if out == nil {
		f := Finding{Kind: kind, Status: NoPointer}
		if len(targets) > 0 {
			f.Err = fmt.Errorf("%s: an ard.json is no evidence", targets[0])
		}
		return []Finding{f}
	}
	return out
}

// place is a catalog to be read: how it was reached, and how deep it lies.
type place struct {
	url   string
	chain []string
	depth int
}

// search looks for the card in one catalog and in its nested catalogs, those
// nearest to the root first.
func (c *confirmer) search(ctx context.Context, kind catalog.Kind, root string, before []string) Finding {
	f := Finding{Kind: kind, Status: NotListed, CatalogURL: root, Chain: before}
	origin := originOf(root)
	seen := map[string]bool{root: true}
	for queue := []place{{url: root, chain: before}}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		d, err := c.get(ctx, at.url, WantCatalog)
		var cat *catalog.Catalog
		if err == nil {
			at.chain = join(at.chain, trail(d)...)
			f.Chain = join(f.Chain, trail(d)...)
			cat, err = ReadCatalog(d)
		} else {
			f.Chain = join(f.Chain, at.url)
		}
		if err != nil {
			f.incomplete(unread(err), err)
			continue
		}
		if entry, ok := cat.Lists(c.subject.CardURL); ok {
			c.out.Evidence = &catalog.Evidence{
				Kind: kind, CatalogURL: root, Chain: at.chain, Entry: entry, CheckedAt: d.FetchedAt,
			}
			return Finding{Kind: kind, Status: Proven, CatalogURL: root, Chain: at.chain}
		}
		for n := range cat.Nested() {
			switch {
			case originOf(n.URL) != origin || isARD(n.URL) || seen[n.URL]:
			case at.depth == maxDepth:
				f.incomplete(Unreadable, &Error{Kind: NotFetched, URL: n.URL, Detail: fmt.Sprintf("it lies more than %d levels below %s", maxDepth, root)})
			default:
				seen[n.URL] = true
				queue = append(queue, place{n.URL, at.chain, at.depth + 1})
			}
		}
	}
	return f
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
