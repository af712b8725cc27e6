package discovery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/internal/fetch"
	"github.com/openbot-build/openbot-go/internal/weburl"
)

// Options configure a Resolver. Client is required unless Fetch is set; it
// should come from publicnet, whose limits for one document then hold (D12).
type Options struct {
	Client       *http.Client
	Fetch        FetchFunc     // instead of Client
	MaxDocuments int           // of one Resolve, evidence included; 0: 50 (D7)
	MaxDepth     int           // levels of nested catalogs below the first; 0: 4 (D7), negative: none
	MaxBytes     int64         // of one Resolve, all documents; 0: 16 MiB (OB-155). No document is begun beyond it
	Timeout      time.Duration // of one Resolve; 0: 60 s
	Confirm      bool          // also look for publisher evidence of each card
	Log          *slog.Logger  // nil: nothing is logged
}

// Resolver resolves addresses. It is safe for concurrent use.
type Resolver struct{ opts Options }

// NewResolver checks opts. It does no I/O.
func NewResolver(opts *Options) (*Resolver, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Client == nil && o.Fetch == nil {
		return nil, errors.New("new resolver: Options.Client is not set; take one from publicnet")
	}
	if o.MaxDocuments < 0 || o.MaxBytes < 0 || o.Timeout < 0 {
		return nil, errors.New("new resolver: MaxDocuments, MaxBytes and Timeout cannot be negative")
	}
	if o.MaxDocuments == 0 {
		o.MaxDocuments = maxDocuments
	}
	if o.MaxDepth == 0 {
		o.MaxDepth = maxDepth
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 16 << 20
	}
	if o.Timeout == 0 {
		o.Timeout = 60 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Resolver{o}, nil
}

// Shape is whether an address leads to one app or asks a person to choose.
type Shape string

// The shapes.
const (
	Single   Shape = "single"
	Multiple Shape = "multiple"
)

// Result is what an address leads to: at least one candidate.
//
// Shape is Single when the address leads to one app and nothing else: it is a
// card, or everything it names was read and lists one card in all. Otherwise it
// is Multiple, and the person chooses, also when all but one of several cards
// cannot be used: a choice that was offered must not be made by a fault
// (OB-33, OB-34, OB-41). Entries that are no card addresses do not count.
type Result struct {
	Shape      Shape
	Candidates []Candidate       // in document order, those of nested catalogs after those above them
	Failed     []*Error          // cards and catalogs that could not be used, in the same order
	Skipped    []catalog.Skipped // entries of the first catalog that cost only themselves
	Others     int               // entries of other types, no fault of anybody
	Warnings   []string
	Cut        string // what a limit left out; "" when nothing
}

// Candidate is one usable app (OB-40).
type Candidate struct {
	CardURL      string // as asked, normal form: the identity
	FinalURL     string
	Hops         []fetch.Hop
	NamedBy      string // the catalog that named it, as asked; "" for a card address
	Hash         string // hex SHA-256 of the card's bytes
	ETag         string
	LastModified string
	Card         *card.Card
	Endpoint     *card.Remote       // the remote to use (OB-57); nil if only a probe could tell
	Presentation *card.Presentation // nil when absent or at fault
	Ignored      error              // why the presentation block was ignored
	Entry        *catalog.Entry     // what the catalog says of it; nil for a card address
	Evidence     *catalog.Evidence  // nil: not looked for, or none found
	Warnings     []string
}

// Resolve takes a domain, the address of an app page, of a catalog or of a
// card, and gives the apps behind it.
//
// input is a host name, which means its well-known catalog and nothing else
// (OB-31, OB-38), or an https address. An address is what it answers with, not
// what it is called (OB-37). A page names its catalogs in Link headers, then in
// link elements of its head; all of them are read, and a page that names none
// is NoLink: its domain's well-known catalog is never asked instead (D11).
//
// The error is *Error. When nothing usable was found it is the fault of the one
// document that the address leads to, or NoCards, whose cause joins the faults
// of all cards, catalogs and entries (OB-41).
//
// Source: OpenBot App Protocol V1.1, discovery; OB-30 to OB-44.
func (r *Resolver) Resolve(ctx context.Context, input string) (*Result, error) {
	input = strings.TrimSpace(input)
	url, want := input, WantAny
	if host, ok := weburl.Domain(input); ok {
		url, want = "https://"+host+catalog.WellKnownPath, WantCatalog
	}
	u, err := weburl.Parse(url)
	if err != nil {
		return nil, inputError(input, err)
	}
	url = u.String()

	run := newRun(r)
	limited, cancel := context.WithTimeout(ctx, r.opts.Timeout)
	defer cancel()
	if err := run.start(limited, url, want); err != nil && ctx.Err() == nil {
		return nil, err
	}
	run.walk(limited)
	run.result.Shape = run.shape()
	if r.opts.Confirm {
		run.confirm(limited)
	}
	if err := ctx.Err(); err != nil {
		return nil, FetchError(url, fmt.Errorf("resolve %s: %w", url, err))
	}
	if len(run.result.Candidates) == 0 {
		return nil, run.nothing(url)
	}
	run.result.Cut = strings.Join(run.left, "; ")
	return &run.result, nil
}

// start reads the first document and decides what it is.
func (run *run) start(ctx context.Context, url string, want Want) error {
	d, err := run.get(ctx, url, want)
	if err != nil {
		return err
	}
	if want == WantAny {
		if want, _, err = Classify(d); err != nil {
			return err
		}
	}
	switch want {
	case WantCard:
		c, err := readApp(d)
		if err != nil {
			return err
		}
		c.CardURL = url
		run.listed[url] = true
		run.result.Candidates = []Candidate{*c}
		return nil
	case WantPage:
		if d.ContentType() != pageType { // labelled as a document, which it is not (FO-03)
			return &Error{Kind: WebPage, URL: d.FinalURL}
		}
		links := pageLinks(d)
		if len(links) == 0 {
			return &Error{Kind: NoLink, URL: d.FinalURL}
		}
		for _, l := range links {
			run.plan(place{url: l})
		}
	default:
		run.plan(place{url: url})
	}
	return nil
}

// readApp judges an answer where the card of a usable app is due.
func readApp(d *Document) (*Candidate, error) {
	c, err := ReadCard(d)
	if err != nil {
		return nil, err
	}
	remote, probe, err := c.Usable()
	if err != nil && probe == nil {
		kind := InvalidCard
		if onlyVersion(c) {
			kind = UnsupportedVersion
		}
		return nil, &Error{Kind: kind, URL: d.FinalURL, Detail: oneLine(err), Err: err}
	}
	out := &Candidate{
		CardURL: d.URL, FinalURL: d.FinalURL, Hops: d.Hops, Hash: hash(d),
		ETag: d.Header.Get("ETag"), LastModified: d.Header.Get("Last-Modified"),
		Card: c, Endpoint: remote, Warnings: slices.Clone(c.Warnings),
	}
	if remote == nil {
		out.Warnings = append(out.Warnings, "the card does not say that its endpoint speaks MCP "+card.ProtocolVersion+"; only asking the endpoint can tell")
	}
	if out.Presentation, err = c.Presentation(); err != nil {
		out.Ignored = err
		out.Warnings = append(out.Warnings, "the examples of the card are left out: "+oneLine(err))
	}
	return out, nil
}

// onlyVersion reports whether an unusable card would be usable if only its
// remotes declared the revision.
func onlyVersion(c *card.Card) bool {
	fixed := *c
	fixed.Remotes = slices.Clone(c.Remotes)
	for i := range fixed.Remotes {
		fixed.Remotes[i].Versions = []string{card.ProtocolVersion}
	}
	_, _, err := fixed.Usable()
	return err == nil
}

// hash is that of the document, or made here for a FetchFunc that gives none.
func hash(d *Document) string {
	if d.Hash != "" {
		return d.Hash
	}
	sum := sha256.Sum256(d.Body)
	return hex.EncodeToString(sum[:])
}
