// Package discovery finds apps: it resolves a domain, app page, catalog or
// card address to the cards behind it, and confirms from a publisher's own
// documents that a card is theirs. Nothing is saved and nothing is run.
//
// A host calls [Resolver.Resolve] with what its user typed or scanned, shows
// the result, and lets the user choose. A crawler reads documents on its own
// terms, judges them with [ReadCatalog] and [ReadCard], and asks [Confirm] for
// publisher evidence through a [FetchFunc] that keeps robots.txt, gaps and
// leases. Both so share one judgement of what a document is and what proves a
// publisher.
//
// Every text that comes from a document is data: show it as plain text.
package discovery

import (
	"context"
	"errors"
	"fmt"

	"github.com/openbot-build/openbot-go/internal/fetch"
)

// Limits of one Resolve or Confirm (D7, OB-42).
const (
	maxDocuments = 50
	maxDepth     = 4 // levels of nested catalogs below a root
)

// Document is one answer: address as asked and final, redirects, status,
// headers, decoded body and its hash.
type Document = fetch.Document

// Want is what a caller of a FetchFunc hopes to get. It sets the Accept header.
type Want string

// What can be wanted.
const (
	WantAny     Want = ""
	WantCatalog Want = "catalog"
	WantCard    Want = "card"
	WantPage    Want = "page"
)

// FetchFunc reads one document from its address (absolute https, normal form).
// Confirm and Resolver judge what it returns; who may be asked, when and how
// often is the function's business. A document that was not modified comes
// with the stored body and the stored headers, updated (crawler C5).
//
// An error that FetchError does not know, for instance a crawler's own
// refusal, is kept: errors.Is finds it in what this package returns. A function
// given to a Resolver must be safe for concurrent use.
type FetchFunc func(ctx context.Context, url string, want Want) (*Document, error)

// ErrDeferred is what a FetchFunc returns for a document that it will read
// later: a crawler that does not hold that host's lease.
var ErrDeferred = errors.New("to be read later")

// get calls fetch and makes sure of what the rest of the package relies on: a
// document when there is no error, with both of its addresses.
func get(ctx context.Context, fetch FetchFunc, url string, want Want) (*Document, error) {
	d, err := fetch(ctx, url, want)
	if err != nil {
		return nil, FetchError(url, err)
	}
	if d == nil {
		return nil, FetchError(url, fmt.Errorf("fetch %s: no document and no error", url))
	}
	if d.URL == "" || d.FinalURL == "" {
		c := *d
		if c.URL == "" {
			c.URL = url
		}
		if c.FinalURL == "" {
			c.FinalURL = c.URL
		}
		d = &c
	}
	return d, nil
}

// trail is every address of a document: as asked, then where redirects led.
func trail(d *Document) []string {
	urls := []string{d.URL}
	for _, h := range d.Hops {
		urls = append(urls, h.Location)
	}
	return urls
}
