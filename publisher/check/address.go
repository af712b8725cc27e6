package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/discovery"
	"github.com/openbot-build/openbot-go/internal/fetch"
	"github.com/openbot-build/openbot-go/internal/weburl"
)

// Address reads target (a domain, or the address of an app page, a catalog or a
// card) as a host does, and judges the documents behind it, their headers, what
// a conditional request gets, and whether a crawler can confirm the publisher.
// Each app's endpoint is asked server/discover, without any user's settings or
// sign-in, and what it says is held against the card (documents W10); then it is
// asked for its lists. If it wants a sign-in, what it says about that is followed
// to the authorization server's metadata, and server/discover is asked again with
// tokens that open nothing: one of an issuer that nobody can own, signed by a key
// that is made for it, and one in the address. No tool is run, no resource read,
// nothing registered, nobody signed in. client comes from publicnet.
//
// What is wrong with the target is in the report; the error is that of ctx, or
// of a client that is missing.
func Address(ctx context.Context, client *http.Client, target string) (*Report, error) {
	if client == nil {
		return nil, errors.New("check: no client")
	}
	w := &walk{client: client}
	resolver, err := discovery.NewResolver(&discovery.Options{Fetch: w.fetch, Confirm: true})
	if err != nil {
		return nil, fmt.Errorf("set up discovery: %w", err)
	}
	rep := &Report{Target: target}
	result, err := resolver.Resolve(ctx, target)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("check %s: %w", target, ctx.Err())
	}
	judged := map[string]bool{}
	var first *discovery.Document // is read alone
	if len(w.docs) > 0 {
		first = w.docs[0]
	}
	for _, d := range w.inOrder(first) {
		if d == first && looksLikeEndpoint(d) {
			continue
		}
		if w.judge(ctx, rep, d) {
			judged[d.URL] = true
		}
	}
	if err != nil {
		var e *discovery.Error
		if !errors.As(err, &e) {
			rep.Section("address", target).faultErr(err, func(string) string { return "OB-38" })
		} else if first != nil && looksLikeEndpoint(first) {
			rep.Section("address", target).fault("OB-30", "", "%s looks like an MCP endpoint: give the domain, the app's page or the card", first.URL)
		} else if !judged[e.URL] || !speaksOfBody(e.Kind) {
			rep.Section("address", target).fault(ruleOf(e), "", "%s", explain(e))
		}
		return rep, nil
	}
	answers := w.callEndpoints(ctx, result.Candidates)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("check %s: %w", target, ctx.Err())
	}
	w.judgeOrigins(ctx, rep)
	for i := range result.Candidates {
		judgeApp(rep, &result.Candidates[i], answers[i])
	}
	for _, e := range result.Failed {
		if !judged[e.URL] || !speaksOfBody(e.Kind) {
			rep.Section("address", e.URL).fault(ruleOf(e), "", "%s", explain(e))
		}
	}
	if result.Cut != "" {
		rep.Section("address", target).advise("OB-42", "", "%s", result.Cut)
	}
	return rep, nil
}

// walk reads documents for discovery, several at a time, and keeps each.
type walk struct {
	client *http.Client

	mu   sync.Mutex
	docs []*discovery.Document
}

// inOrder gives what was read in an order that does not depend on which answer
// came first: the target, then pages, catalogs and cards by address.
func (w *walk) inOrder(target *discovery.Document) []*discovery.Document {
	rank := func(d *discovery.Document) int {
		kind, _, _ := discovery.Classify(d) // what cannot be told comes first
		return slices.Index([]discovery.Want{discovery.WantPage, discovery.WantCatalog, discovery.WantCard}, kind)
	}
	docs := slices.Clone(w.docs)
	slices.SortStableFunc(docs, func(a, b *discovery.Document) int {
		switch {
		case a == target:
			return -1
		case b == target:
			return 1
		}
		return cmp.Or(rank(a)-rank(b), strings.Compare(a.URL, b.URL))
	})
	return docs
}

func (w *walk) fetch(ctx context.Context, url string, want discovery.Want) (*discovery.Document, error) {
	u, err := weburl.Parse(url)
	if err != nil {
		return nil, err
	}
	accept := map[discovery.Want]string{discovery.WantCatalog: catalog.MediaType, discovery.WantCard: card.MediaType, discovery.WantPage: "text/html"}[want]
	d, err := fetch.Get(ctx, w.client, &fetch.Request{URL: u, Accept: accept})
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.docs = append(w.docs, d)
	return d, nil
}

// speaksOfBody tells the errors that the judgement of the document itself has
// already listed, with pointers.
func speaksOfBody(k discovery.Kind) bool {
	switch k {
	case discovery.BadJSON, discovery.InvalidCatalog, discovery.InvalidCard, discovery.UnsupportedVersion, discovery.NoCards:
		return true
	}
	return false
}

// judgeApp says what a host and a crawler make of one app, whose endpoint gave
// an answer.
func judgeApp(rep *Report, a *discovery.Candidate, live *answer) {
	name := a.Card.Title
	if name == "" {
		name = a.Card.Name
	}
	s := rep.Section("app", name)
	s.fact("card %s", a.CardURL)
	if a.FinalURL != a.CardURL {
		s.fact("the card is answered from %s", a.FinalURL)
	}
	if a.Endpoint != nil {
		s.fact("endpoint %s", a.Endpoint.URL)
	}
	live.judge(s, a.Card, a.Endpoint, pointerTo(a.Card, a.Endpoint))
	if a.Presentation != nil {
		s.fact("examples: %d", len(a.Presentation.Examples))
	}
	if a.Evidence != nil {
		s.pass("OB-112", "publisher confirmed: %s, %s", evidenceWords[a.Evidence.Kind], a.Evidence.CatalogURL)
	} else {
		s.advise("OB-112", "", "a crawler cannot confirm that its publisher lists this card, so no public index will: list it in the catalog at %s of the card's own origin, or in one that the card's Link header or website names", catalog.WellKnownPath)
	}
}

func pointerTo(c *card.Card, remote *card.Remote) string {
	for i := range c.Remotes {
		if &c.Remotes[i] == remote {
			return fmt.Sprintf("/remotes/%d", i)
		}
	}
	return "/remotes"
}

var evidenceWords = map[catalog.Kind]string{
	catalog.WellKnown:  "listed in the catalog of the card's own origin",
	catalog.LinkHeader: "listed in the catalog that the card's Link header names",
	catalog.Website:    "listed in the catalog that the card's website links",
}

// judge looks at one document's headers, at its body, and at what a
// conditional request gets. It reports whether the body was judged.
func (w *walk) judge(ctx context.Context, rep *Report, d *discovery.Document) bool {
	kind, _, err := discovery.Classify(d)
	if err != nil || d.Status != 200 {
		return false // the resolver's own error says it
	}
	var want string
	switch kind {
	case discovery.WantCatalog:
		want = catalog.MediaType
	case discovery.WantCard:
		want = card.MediaType
	default:
		s := rep.Section("page", d.URL)
		links := append(catalog.HeaderLinks(d.Header.Values("Link"), d.FinalURL), catalog.PageLinks(d.Body, d.Header.Get("Content-Type"), d.FinalURL)...)
		slices.Sort(links)
		for _, l := range slices.Compact(links) {
			s.fact("links %s", l)
		}
		if len(links) > 0 {
			s.pass("OB-32", "the page leads to its catalog")
		}
		return false
	}
	s := rep.Section(string(kind), d.URL)
	for _, h := range d.Hops {
		s.fact("redirected (%d) to %s", h.Status, h.Location)
	}
	w.judgeHeaders(ctx, s, d, kind, want)
	w.judgeBrowser(ctx, s, d, kind)
	if kind == discovery.WantCatalog {
		judgeCatalog(s, d.Body, d.FinalURL)
	} else {
		judgeCard(s, d.Body)
	}
	return true
}

func (w *walk) judgeHeaders(ctx context.Context, s *Section, d *discovery.Document, kind discovery.Want, want string) {
	h := d.Header
	typeRule := "OB-10"
	if kind == discovery.WantCatalog {
		typeRule = "OB-1"
	}
	if got := d.ContentType(); got != want {
		s.fault(typeRule, "", "Content-Type is %s: serve it as %s", orNone(h.Get("Content-Type"), "missing"), want)
	} else {
		s.pass(typeRule, "Content-Type %s", want)
	}
	etag, modified := h.Get("ETag"), h.Get("Last-Modified")
	switch {
	case etag == "" && modified == "":
		s.fault("OB-4", "", "neither ETag nor Last-Modified: send one, so that readers need not fetch it again and again")
	default:
		if etag != "" {
			s.pass("OB-4", "ETag %s", etag)
		} else {
			s.pass("OB-4", "Last-Modified %s", modified)
		}
		w.judgeConditional(ctx, s, d, etag, modified)
	}
	if got := h.Get("Access-Control-Allow-Origin"); got != "*" {
		const cors = "Access-Control-Allow-Origin is %s: send *, or hosts that run in a browser cannot read it"
		if kind == discovery.WantCard {
			s.fault("OB-8", "", cors, orNone(got, "missing"))
		} else {
			s.advise("OB-8", "", cors, orNone(got, "missing"))
		}
	} else {
		s.pass("OB-8", "readable for browsers (CORS)")
	}
	if etag != "" && !hasWord(h.Values("Access-Control-Expose-Headers"), "etag") {
		s.advise("OB-8", "", "Access-Control-Expose-Headers does not name ETag: hosts that run in a browser cannot see it")
	}
	if cache := h.Get("Cache-Control"); cache == "" {
		s.advise("OB-8", "", "no Cache-Control: send for instance public, max-age=3600")
	} else {
		s.pass("OB-8", "Cache-Control %s", cache)
	}
	if robots := h.Values("X-Robots-Tag"); len(robots) > 0 {
		s.fact("X-Robots-Tag %s: public indexes act on it", strings.Join(robots, ", "))
		if noIndex(robots) {
			s.advise("OB-113", "", "this app will not be listed in public indexes: X-Robots-Tag says so")
		}
	}
}

// judgeConditional asks once more with the document's validators.
func (w *walk) judgeConditional(ctx context.Context, s *Section, d *discovery.Document, etag, modified string) {
	u, err := weburl.Parse(d.URL)
	if err != nil {
		return // it has just been read from there
	}
	again, err := fetch.Get(ctx, w.client, &fetch.Request{
		URL: u, Accept: d.ContentType(),
		Validators: fetch.Validators{FinalURL: d.FinalURL, ETag: etag, LastModified: modified},
	})
	switch {
	case err != nil:
		s.fault("OB-4", "", "a conditional request failed: %s", explain(discovery.FetchError(d.URL, err)))
	case !again.NotModified:
		s.fault("OB-4", "", "a conditional request for the unchanged document got status %d: answer 304", again.Status)
	default:
		s.pass("OB-4", "304 on a conditional request")
		for _, name := range []string{"Cache-Control", "Access-Control-Allow-Origin", "X-Robots-Tag"} {
			if d.Header.Get(name) != "" && again.Header.Get(name) == "" {
				s.advise("OB-7", "", "the 304 leaves out %s: repeat the headers of the 200", name)
			}
		}
	}
}

func hasWord(values []string, word string) bool {
	for _, v := range values {
		for w := range strings.SplitSeq(v, ",") {
			if w = strings.TrimSpace(w); w == "*" || strings.EqualFold(w, word) {
				return true
			}
		}
	}
	return false
}
