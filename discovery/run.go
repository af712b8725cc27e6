package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/internal/fetch"
	"github.com/openbot-build/openbot-go/internal/weburl"
)

// atOnce is how many documents of one Resolve are read at the same time.
const atOnce = 4

// run is one Resolve. Only get runs in several goroutines.
type run struct {
	opts   *Options
	result Result

	planned map[string]bool // catalogs, each address once
	level   []place         // catalogs to read next
	listed  map[string]bool // cards, each address once
	failed  int             // catalogs that could not be read
	skipped []error         // entries that cost themselves, of all catalogs
	first   bool            // the first catalog has been read
	left    []string        // what a limit left out

	mu    sync.Mutex
	docs  int
	bytes int64
	read  map[string]reading
}

func newRun(r *Resolver) *run {
	return &run{opts: &r.opts, planned: make(map[string]bool), listed: make(map[string]bool), read: make(map[string]reading)}
}

// get reads one document within the limits of the run. A document that was read
// before comes from memory.
func (run *run) get(ctx context.Context, url string, want Want) (*Document, error) {
	if r, done := run.reserve(ctx, url); done {
		return r.doc, r.err
	}
	return run.load(ctx, url, want)
}

// reserve takes the room for one document, or gives what is known of it.
func (run *run) reserve(ctx context.Context, url string) (r reading, done bool) {
	run.mu.Lock()
	defer run.mu.Unlock()
	if r, ok := run.read[url]; ok {
		return r, true
	}
	var limit string
	switch {
	case run.docs >= run.opts.MaxDocuments:
		limit = fmt.Sprintf("limit of %d documents", run.opts.MaxDocuments)
	case run.bytes >= run.opts.MaxBytes:
		limit = fmt.Sprintf("limit of %d bytes", run.opts.MaxBytes)
	case ctx.Err() != nil:
		limit = fmt.Sprintf("limit of %s", run.opts.Timeout)
	default:
		run.docs++
		return reading{}, false
	}
	return reading{err: &Error{Kind: NotFetched, URL: url, Detail: limit, Err: errLimit}}, true
}

func (run *run) load(ctx context.Context, url string, want Want) (*Document, error) {
	fetch := run.opts.Fetch
	if fetch == nil {
		fetch = run.fetch
	}
	d, err := get(ctx, fetch, url, want)

	run.mu.Lock()
	defer run.mu.Unlock()
	run.read[url] = reading{d, err}
	if err != nil {
		run.opts.Log.DebugContext(ctx, "document not read", "url", url, "error", err)
		return nil, err
	}
	run.bytes += int64(len(d.Body))
	run.opts.Log.DebugContext(ctx, "document read", "url", url, "final_url", d.FinalURL, "status", d.Status, "bytes", len(d.Body))
	return d, nil
}

// errLimit marks what the limits of the run left out.
var errLimit = errors.New("limit of the run")

// fetch reads with the client of the options. An error names the address that
// was asked last, which a redirect may have led to.
func (run *run) fetch(ctx context.Context, url string, want Want) (*Document, error) {
	u, err := weburl.Parse(url)
	if err != nil {
		return nil, err
	}
	at := url
	d, err := fetch.Get(ctx, run.opts.Client, &fetch.Request{
		URL:    u,
		Accept: accept(want),
		Before: func(_ context.Context, u weburl.URL, _ int) error { at = u.String(); return nil },
	})
	if err != nil {
		e := FetchError(at, err)
		switch {
		case at == url:
		case e.Detail == "":
			e.Detail = "redirected there from " + url
		default:
			e.Detail += " (redirected there from " + url + ")"
		}
		return nil, e
	}
	return d, nil
}

func accept(want Want) string {
	switch want {
	case WantCatalog:
		return catalog.MediaType
	case WantCard:
		return card.MediaType
	case WantPage:
		return pageType
	}
	return ""
}

// plan notes a catalog to be read, once.
func (run *run) plan(p place) {
	if !run.planned[p.url] {
		run.planned[p.url] = true
		run.level = append(run.level, p)
	}
}

// entryOf is a listed card and the catalog that lists it.
type entryOf struct {
	catalog.Entry
	by string
}

// walk reads the planned catalogs level by level, and the cards of each level
// before the catalogs below it.
func (run *run) walk(ctx context.Context) {
	for len(run.level) > 0 {
		places := run.level
		run.level = nil
		urls := make([]string, len(places))
		for i, p := range places {
			urls[i] = p.url
		}
		var cards []entryOf
		for i, r := range run.readAll(ctx, urls, WantCatalog) {
			if errors.Is(r.err, errLimit) {
				continue
			}
			var c *catalog.Catalog
			if r.err == nil {
				c, r.err = ReadCatalog(r.doc)
			}
			if r.err != nil {
				run.failed++
				run.fail(places[i].url, r.err)
				continue
			}
			cards = append(cards, run.open(c, places[i])...)
		}
		run.readCards(ctx, cards)
	}
}

// open takes from a catalog what is to be read next.
func (run *run) open(c *catalog.Catalog, p place) (cards []entryOf) {
	res := &run.result
	for _, s := range c.Skipped {
		run.skipped = append(run.skipped, fmt.Errorf("%s: %s", p.url, s.Detail))
	}
	if !run.first {
		run.first = true
		res.Skipped = c.Skipped
	} else if len(c.Skipped) > 0 {
		res.Warnings = append(res.Warnings, fmt.Sprintf("%s: %d entries cannot be used", p.url, len(c.Skipped)))
	}
	for _, w := range c.Warnings {
		if !strings.Contains(w, p.url) {
			w = p.url + ": " + w
		}
		res.Warnings = append(res.Warnings, w)
	}
	for _, e := range c.Entries {
		if !isType(e.Type, catalog.CardType) && !isType(e.Type, catalog.MediaType) {
			res.Others++
		}
	}
	for e := range c.Cards() {
		if !run.listed[e.URL] {
			run.listed[e.URL] = true
			cards = append(cards, entryOf{e, p.url})
		}
	}
	deep := 0
	for e := range c.Nested() {
		switch {
		case run.planned[e.URL]:
		case p.depth >= run.opts.MaxDepth:
			deep++
		default:
			run.plan(place{url: e.URL, depth: p.depth + 1})
		}
	}
	if deep > 0 {
		run.left = append(run.left, fmt.Sprintf("%d catalogs named by %s lie too deep (limit %d levels)", deep, p.url, max(run.opts.MaxDepth, 0)))
	}
	return cards
}

func (run *run) readCards(ctx context.Context, cards []entryOf) {
	urls := make([]string, len(cards))
	for i, e := range cards {
		urls[i] = e.URL
	}
	for i, r := range run.readAll(ctx, urls, WantCard) {
		if errors.Is(r.err, errLimit) {
			continue
		}
		var c *Candidate
		if r.err == nil {
			c, r.err = readApp(r.doc)
		}
		if r.err != nil {
			run.fail(cards[i].URL, r.err)
			continue
		}
		c.CardURL, c.NamedBy, c.Entry = cards[i].URL, cards[i].by, &cards[i].Entry
		run.result.Candidates = append(run.result.Candidates, *c)
	}
}

// readAll reads several documents, a few at once, and gives what came of each,
// in the order of urls. What the limits of the run leave out is noted.
func (run *run) readAll(ctx context.Context, urls []string, want Want) []reading {
	out := make([]reading, len(urls))
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, url := range urls {
		slots <- struct{}{}
		// Room is taken in order, so that the same documents are left out each time.
		if r, done := run.reserve(ctx, url); done {
			out[i] = r
			<-slots
			continue
		}
		wg.Go(func() {
			defer func() { <-slots }()
			out[i].doc, out[i].err = run.load(ctx, url, want)
		})
	}
	wg.Wait()

	n, limit := 0, ""
	for _, r := range out {
		if errors.Is(r.err, errLimit) {
			n++
			limit = r.err.(*Error).Detail //nolint:errorlint // made by reserve
		}
	}
	if n > 0 {
		what := "catalogs"
		if want == WantCard {
			what = "cards"
		}
		run.left = append(run.left, fmt.Sprintf("%d of %d %s were not read (%s)", n, len(urls), what, limit))
	}
	return out
}

// fail notes a card or catalog that could not be used.
func (run *run) fail(url string, err error) {
	run.result.Failed = append(run.result.Failed, FetchError(url, err))
}

// shape decides whether there is anything to choose.
func (run *run) shape() Shape {
	if len(run.listed) == 1 && len(run.result.Candidates) == 1 && run.failed == 0 && len(run.left) == 0 {
		return Single
	}
	return Multiple
}

// confirm looks for evidence of each candidate, within the limits of the run.
func (run *run) confirm(ctx context.Context) {
	missed := 0
	for i := range run.result.Candidates {
		c := &run.result.Candidates[i]
		s := &Subject{CardURL: c.CardURL, Card: c.Card, ResponseURL: c.FinalURL}
		if r := run.read[c.CardURL]; r.doc != nil {
			s.Link = r.doc.Header.Values("Link")
		}
		got, err := Confirm(ctx, s, run.get)
		if err != nil {
			missed += len(run.result.Candidates) - i
			break
		}
		c.Evidence = got.Evidence
		if c.Evidence == nil && slices.ContainsFunc(got.Findings, func(f Finding) bool { return errors.Is(f.Err, errLimit) }) {
			missed++
		}
	}
	if missed > 0 {
		run.left = append(run.left, fmt.Sprintf("not all evidence of %d apps was looked for", missed))
	}
}

// nothing is the error of a run without a candidate.
func (run *run) nothing(url string) *Error {
	failed := run.result.Failed
	if len(run.planned) == 1 && len(failed) == 1 && run.failed == 1 {
		return failed[0] // the only document that the address leads to
	}
	var reasons []error
	var texts []string
	for _, e := range failed {
		reasons = append(reasons, e)
		short := *e
		if len(failed) > 1 {
			short.Detail = "" // the cause has it
		}
		found, _ := short.words()
		texts = append(texts, found)
	}
	for _, err := range run.skipped {
		reasons, texts = append(reasons, err), append(texts, err.Error())
	}
	if run.left != nil {
		texts = append(texts, run.left...)
	}
	e := &Error{Kind: NoCards, URL: url, Detail: "valid catalog, no MCP App listed", Err: errors.Join(reasons...)}
	if len(run.listed) > 0 {
		e.Detail = "none of the apps listed there can be used"
	} else if run.failed > 0 {
		e.Detail = "no MCP App is listed in what could be read"
	}
	const shown = 5
	if more := len(texts) - shown; more > 0 {
		texts = append(texts[:shown:shown], fmt.Sprintf("and %d more", more))
	}
	if len(texts) > 0 {
		e.Detail += " (" + strings.Join(texts, "; ") + ")"
	}
	return e
}

func isType(t, want string) bool {
	t, _, _ = strings.Cut(t, ";")
	return strings.EqualFold(strings.TrimSpace(t), want)
}
