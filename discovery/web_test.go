package discovery_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/discovery"
	"github.com/openbot-build/openbot-go/internal/fetch"
	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publicnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// web is a small Internet behind a FetchFunc: no network, no limits of its own.
type web struct {
	pages map[string]answer
	delay func(url string)

	mu    sync.Mutex
	asked []string
}

type answer struct {
	status int    // 0: 200
	typ    string // Content-Type
	body   string
	header http.Header
	to     string // redirect
	err    error
}

var checked = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func newWeb(pages map[string]answer) *web { return &web{pages: pages} }

func (w *web) fetch(ctx context.Context, url string, _ discovery.Want) (*discovery.Document, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d := &discovery.Document{URL: url, FetchedAt: checked}
	for {
		w.mu.Lock()
		w.asked = append(w.asked, url)
		w.mu.Unlock()
		if w.delay != nil {
			w.delay(url)
		}
		a, ok := w.pages[url]
		if !ok {
			a = answer{status: 404, typ: "text/plain", body: "nothing here"}
		}
		if a.err != nil {
			return nil, a.err
		}
		if a.to != "" {
			base, err := weburl.Parse(url)
			if err != nil {
				return nil, err
			}
			next, err := base.Resolve(a.to)
			if err != nil {
				return nil, fmt.Errorf("redirect %d, from %s: %w", len(d.Hops)+1, url, err)
			}
			if len(d.Hops) == publicnet.DefaultMaxRedirects {
				return nil, fmt.Errorf("redirect %d: %w", len(d.Hops)+1, publicnet.ErrTooManyRedirects)
			}
			d.Hops = append(d.Hops, fetch.Hop{URL: url, Status: 302, Location: next.String()})
			url = next.String()
			continue
		}
		if len(a.body) > publicnet.DefaultMaxBytes {
			return nil, publicnet.ErrTooLarge
		}
		d.FinalURL, d.Status, d.Body, d.Header = url, a.status, []byte(a.body), a.header.Clone()
		if d.Status == 0 {
			d.Status = 200
		}
		if d.Header == nil {
			d.Header = http.Header{}
		}
		if a.typ != "" {
			d.Header.Set("Content-Type", a.typ)
		}
		return d, nil
	}
}

func (w *web) saw(url string) bool { return slices.Contains(w.asked, url) }

func (w *web) resolver(t testing.TB, set ...func(*discovery.Options)) *discovery.Resolver {
	t.Helper()
	opts := &discovery.Options{Fetch: w.fetch}
	for _, f := range set {
		f(opts)
	}
	r, err := discovery.NewResolver(opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (w *web) resolve(t testing.TB, input string, set ...func(*discovery.Options)) (*discovery.Result, error) {
	t.Helper()
	return w.resolver(t, set...).Resolve(t.Context(), input)
}

// found resolves and gives the card URLs; it fails the test on an error.
func (w *web) found(t testing.TB, input string) (discovery.Shape, []string) {
	t.Helper()
	r, err := w.resolve(t, input)
	if err != nil {
		t.Fatalf("Resolve(%s): %v", input, err)
	}
	var urls []string
	for _, c := range r.Candidates {
		urls = append(urls, c.CardURL)
	}
	return r.Shape, urls
}

// wants resolves and fails the test unless exactly these cards come out.
func (w *web) wants(t testing.TB, input string, shape discovery.Shape, urls ...string) {
	t.Helper()
	if gotShape, got := w.found(t, input); gotShape != shape || !slices.Equal(got, urls) {
		t.Errorf("Resolve(%s) = %s %v; want %s %v", input, gotShape, got, shape, urls)
	}
}

// fails resolves and fails the test unless the error has this kind and only it.
func (w *web) fails(t testing.TB, input string, kind discovery.Kind) *discovery.Error {
	t.Helper()
	r, err := w.resolve(t, input)
	e, ok := errors.AsType[*discovery.Error](err)
	if !ok || e.Kind != kind {
		t.Fatalf("Resolve(%s) = %v, %v; want kind %s", input, r, err, kind)
	}
	return e
}

func jsonCard(name string, members ...string) answer {
	return answer{typ: card.MediaType, body: cardText(name, members...)}
}

// cardText is a usable card; members replace the remotes when they name some.
func cardText(name string, members ...string) string {
	all := strings.Join(members, ",")
	if !strings.Contains(all, `"remotes"`) {
		members = append(members, remotes(card.ProtocolVersion))
	}
	return fmt.Sprintf(`{"$schema":%q,"name":"com.example/%s","version":"1.0.0","description":"An app."`, card.SchemaURL, name) +
		"," + strings.Join(members, ",") + "}"
}

func remotes(version string) string {
	return fmt.Sprintf(`"remotes":[{"type":"streamable-http","url":"https://apps.example.com/mcp","supportedProtocolVersions":[%q]}]`, version)
}

func jsonCatalog(entries ...string) answer {
	return answer{typ: catalog.MediaType, body: catalogText(entries...)}
}

func catalogText(entries ...string) string {
	return `{"specVersion":"1.0","entries":[` + strings.Join(entries, ",") + `]}`
}

// lists is an entry of card type; nests one of catalog type.
func lists(url string) string { return entry(url, catalog.CardType) }
func nests(url string) string { return entry(url, catalog.MediaType) }
func entry(url, typ string) string {
	return fmt.Sprintf(`{"identifier":"urn:air:example.com:mcp:x","type":%q,"url":%q}`, typ, url)
}

func page(head string) answer {
	return answer{typ: "text/html; charset=utf-8", body: "<!doctype html><html><head><title>App</title>" + head + "</head><body>An app</body></html>"}
}

func link(href string) string { return fmt.Sprintf(`<link rel="ai-catalog" href=%q>`, href) }

func (a answer) with(name, value string) answer {
	a.header = a.header.Clone()
	if a.header == nil {
		a.header = http.Header{}
	}
	a.header.Add(name, value)
	return a
}

func (a answer) as(typ string) answer { a.typ = typ; return a }
