package discovery_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/discovery"
)

const (
	origin  = "https://apps.example.com"
	cardURL = origin + "/mcp/server-card"
	known   = origin + "/.well-known/ai-catalog.json"
	site    = "https://www.example.org/app"
	other   = "https://catalogs.example.net/c.json"
)

// subject is the card at cardURL.
func subject(website string, link ...string) *discovery.Subject {
	return &discovery.Subject{CardURL: cardURL, Card: &card.Card{WebsiteURL: website}, Link: link, ResponseURL: cardURL}
}

func (w *web) confirm(t testing.TB, s *discovery.Subject) *discovery.Confirmation {
	t.Helper()
	c, err := discovery.Confirm(t.Context(), s, w.fetch)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// proves confirms and checks the evidence.
func (w *web) proves(t *testing.T, s *discovery.Subject, kind catalog.Kind, catalogURL string, chain ...string) {
	t.Helper()
	c := w.confirm(t, s)
	if c.Evidence == nil {
		t.Fatalf("no evidence: %+v", c.Findings)
	}
	e := c.Evidence
	if e.Kind != kind || e.CatalogURL != catalogURL || !slices.Equal(e.Chain, chain) {
		t.Errorf("evidence is %s %s %v; want %s %s %v", e.Kind, e.CatalogURL, e.Chain, kind, catalogURL, chain)
	}
	if e.Entry.URL != s.CardURL || e.Entry.Identifier == "" || !e.CheckedAt.Equal(checked) {
		t.Errorf("entry %+v, checked at %v", e.Entry, e.CheckedAt)
	}
	last := c.Findings[len(c.Findings)-1]
	if last.Status != discovery.Proven || last.Kind != kind || !slices.Equal(last.Chain, chain) {
		t.Errorf("last finding: %+v", last)
	}
}

// finds confirms, wants no evidence, and checks kind and status of each finding.
func (w *web) finds(t *testing.T, s *discovery.Subject, want ...string) []discovery.Finding {
	t.Helper()
	c := w.confirm(t, s)
	if c.Evidence != nil {
		t.Errorf("evidence: %+v", c.Evidence)
	}
	var got []string
	for _, f := range c.Findings {
		got = append(got, fmt.Sprintf("%s %s", f.Kind, f.Status))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("findings (-want +got):\n%s", d)
	}
	return c.Findings
}

// nothing is what is found of a card that nobody lists and that names nothing.
var nothing = []string{"well-known unreadable", "link-header no_pointer", "website no_pointer"}

// OB-112: each kind of evidence proves alone; they are tried in order and the
// first proof ends the search.
func TestRule_OB112_ThreeKinds(t *testing.T) { testThreeKinds(t) }

func TestRule_DocumentsE1_ThreeKinds(t *testing.T) {
	testThreeKinds(t)
}

func testThreeKinds(t *testing.T) {
	w := newWeb(map[string]answer{known: jsonCatalog(lists(cardURL)), site: page(link(other)), other: jsonCatalog(lists(cardURL))})
	w.proves(t, subject(site, `<`+other+`>; rel="ai-catalog"`), catalog.WellKnown, known, known)
	if !slices.Equal(w.asked, []string{known}) {
		t.Errorf("asked %v after the first proof", w.asked)
	}

	w = newWeb(map[string]answer{known: jsonCatalog(), site: page(link(other)), other: jsonCatalog(lists(cardURL))})
	w.proves(t, subject(site, `<`+other+`>; rel="ai-catalog"`), catalog.LinkHeader, other, other)
	if w.saw(site) {
		t.Error("the website was read after a proof")
	}

	w = newWeb(map[string]answer{site: page(link(other)), other: jsonCatalog(lists(cardURL))})
	w.proves(t, subject(site), catalog.Website, other, site, other)

	w = newWeb(map[string]answer{site: page("").with("Link", `</c.json>; rel=ai-catalog`), "https://www.example.org/c.json": jsonCatalog(lists(cardURL))})
	w.proves(t, subject(site), catalog.Website, "https://www.example.org/c.json", site, "https://www.example.org/c.json")
}

// OB-T19: what is evidence and what is none.
func TestRule_OBT19_Evidence(t *testing.T) {
	t.Run("kinds", testThreeKinds)
	t.Run("foreign catalog", testForeignCatalog)
	t.Run("nested elsewhere", testNestedElsewhere)
	t.Run("ard.json", testARD)
	t.Run("anchor", testPlantedLinks)
	t.Run("redirected card", testRedirectedCard)
	t.Run("redirected well-known", testRedirectedWellKnown)
}

// OB-110, documents E2: a copy in someone else's catalog is only a lead.
func TestRule_OB110_ForeignCatalogIsALead(t *testing.T)       { testForeignCatalog(t) }
func TestRule_DocumentsE2_ForeignCatalogIsALead(t *testing.T) { testForeignCatalog(t) }

func testForeignCatalog(t *testing.T) {
	w := newWeb(map[string]answer{
		"https://list.example.net/.well-known/ai-catalog.json": jsonCatalog(lists(cardURL)),
	})
	w.finds(t, subject(""), nothing...)
	r, err := w.resolve(t, "list.example.net", func(o *discovery.Options) { o.Confirm = true })
	if err == nil {
		t.Errorf("the card does not exist, but: %+v", r)
	}
	w.pages[cardURL] = jsonCard("x")
	r, err = w.resolve(t, "list.example.net", func(o *discovery.Options) { o.Confirm = true })
	if err != nil || len(r.Candidates) != 1 || r.Candidates[0].Evidence != nil {
		t.Errorf("listed elsewhere: %+v, %v", r, err)
	}
}

// OB-116, documents E2: equality in normal form, and of nothing less.
func TestRule_OB116_Lists(t *testing.T)       { testLists(t) }
func TestRule_DocumentsE2_Lists(t *testing.T) { testLists(t) }

func testLists(t *testing.T) {
	for _, same := range []string{cardURL, "HTTPS://Apps.Example.com.:443/x/../mcp/server-card#top", "/mcp/server-card", "../mcp/server-card"} {
		w := newWeb(map[string]answer{known: jsonCatalog(lists(same))})
		w.proves(t, subject(""), catalog.WellKnown, known, known)
	}
	for _, different := range []string{cardURL + "/", cardURL + "?", origin + "/mcp/Server-Card", origin + "/mcp/server%2Dcard", "https://www.apps.example.com/mcp/server-card"} {
		w := newWeb(map[string]answer{known: jsonCatalog(lists(different))})
		w.finds(t, subject(""), "well-known not_listed", "link-header no_pointer", "website no_pointer")
	}
	w := newWeb(map[string]answer{known: jsonCatalog(entry(cardURL, "text/html"))})
	w.finds(t, subject(""), "well-known not_listed", "link-header no_pointer", "website no_pointer")
}

// OB-117, D34: the card names a catalog, and that catalog names the card; page
// and catalog may be anywhere. What a visitor could have written proves nothing.
func TestRule_OB117_Mutual(t *testing.T) {
	testThreeKinds(t)
	testPlantedLinks(t)
	testRedirectedCard(t)
}

func TestRule_D34_Mutual(t *testing.T) {
	testThreeKinds(t)
	testPlantedLinks(t)
	testRedirectedCard(t)
	testRedirectedWellKnown(t)
}

func testPlantedLinks(t *testing.T) {
	w := newWeb(map[string]answer{
		other: jsonCatalog(lists(cardURL)),
		site: {typ: "text/html", body: `<!doctype html><html><head><title>x</title><!-- ` + link(other) + ` --><script>"` + link(other) +
			`"</script></head><body>` + link(other) + `</body></html>`},
	})
	w.finds(t, subject(site, `<`+other+`>; rel="ai-catalog"; anchor="https://victim.example.org/"`), nothing...)
	if w.saw(other) {
		t.Error("the planted link was followed")
	}
	w = newWeb(map[string]answer{other: jsonCatalog(lists(cardURL)), site: page("").with("Link", `<`+other+`>; rel=ai-catalog; anchor="/elsewhere"`)})
	w.finds(t, subject(site), nothing...)
}

// E3, D6: a redirected card is judged by its asked URL and lends nothing to, and
// gets nothing from, where it leads.
func testRedirectedCard(t *testing.T) {
	target := "https://victim.example.org/card"
	victim := "https://victim.example.org/.well-known/ai-catalog.json"
	w := newWeb(map[string]answer{victim: jsonCatalog(lists(target))})
	s := subject("", `</.well-known/ai-catalog.json>; rel="ai-catalog"`)
	s.ResponseURL = target
	found := w.finds(t, s, "well-known unreadable", "link-header not_listed", "website no_pointer")
	if found[1].CatalogURL != victim {
		t.Errorf("Link resolved to %s", found[1].CatalogURL)
	}
}

// E3: the asked origin speaks, also through a redirect.
func TestRule_DocumentsE3_Redirects(t *testing.T) { testRedirectedCard(t); testRedirectedWellKnown(t) }

func testRedirectedWellKnown(t *testing.T) {
	www := "https://www.example.com/.well-known/ai-catalog.json"
	w := newWeb(map[string]answer{known: {to: www}, www: jsonCatalog(lists(cardURL))})
	w.proves(t, subject(""), catalog.WellKnown, known, known, www)
	// Relative entries follow the document, so these are other cards.
	w = newWeb(map[string]answer{known: {to: www}, www: jsonCatalog(lists("/mcp/server-card"))})
	w.finds(t, subject(""), "well-known not_listed", "link-header no_pointer", "website no_pointer")
}

func TestRule_D3_ARDIsNoEvidence(t *testing.T) { testARD(t) }

func testARD(t *testing.T) {
	ard := origin + catalog.ARDPath
	w := newWeb(map[string]answer{ard: jsonCatalog(lists(cardURL)), known: jsonCatalog(nests(ard)), site: page(link(ard))})
	f := w.finds(t, subject(site, `<`+ard+`>; rel="ai-catalog"`), "well-known not_listed", "link-header no_pointer", "website no_pointer")
	if w.saw(ard) || f[1].Err == nil || f[2].Err == nil {
		t.Errorf("asked %v, findings %+v", w.asked, f)
	}
}

// The fetch function decides when a document is read. OB-112.
func TestDeferred(t *testing.T) {
	later := answer{err: fmt.Errorf("host is leased: %w", discovery.ErrDeferred)}
	w := newWeb(map[string]answer{known: later, other: later, site: later})
	f := w.finds(t, subject(site, `<`+other+`>; rel=ai-catalog`), "well-known deferred", "link-header deferred", "website deferred")
	for _, f := range f {
		if !errors.Is(f.Err, discovery.ErrDeferred) {
			t.Errorf("%s: %v", f.Kind, f.Err)
		}
	}
	// A page that was read may name a catalog that is read later.
	w.pages[site] = page(link(other))
	f = w.finds(t, subject(site), "well-known deferred", "link-header no_pointer", "website deferred")
	if f[2].CatalogURL != other || !slices.Equal(f[2].Chain, []string{site, other}) {
		t.Errorf("%+v", f[2])
	}
}

var errNoIndex = errors.New("noindex")

// OB-120: what the crawler refuses (noindex on catalog or page, robots.txt) is
// neither proof nor disproof, and its reason stays.
func TestRule_OB120_NoindexOnCatalogOrPage(t *testing.T) {
	w := newWeb(map[string]answer{
		known: {err: fmt.Errorf("catalog: %w", errNoIndex)}, site: {err: fmt.Errorf("page: %w", errNoIndex)}, other: jsonCatalog(lists(cardURL)),
	})
	f := w.finds(t, subject(site), "well-known unreadable", "link-header no_pointer", "website unreadable")
	for _, i := range []int{0, 2} {
		if !errors.Is(f[i].Err, errNoIndex) || !errors.Is(f[i].Err, discovery.NotFetched) {
			t.Errorf("%s: %v", f[i].Kind, f[i].Err)
		}
	}
}

// The website of a card is an https page, or none.
func TestWebsite(t *testing.T) {
	w := newWeb(map[string]answer{
		known:                       jsonCatalog(),
		site:                        page(""),
		other:                       jsonCatalog(lists(cardURL)),
		"https://www.example.org/1": page(link(other)).as("application/json"),
		"https://www.example.org/2": {status: 404, typ: "text/html", body: page(link(other)).body},
		"https://www.example.org/3": {to: site},
	})
	for website, want := range map[string]string{
		"":                          "no_pointer",
		"http://www.example.org/":   "no_pointer",
		"not an address":            "no_pointer",
		site:                        "no_pointer",
		other:                       "unreadable", // a catalog is no page
		"https://www.example.org/1": "unreadable",
		"https://www.example.org/2": "unreadable",
		"https://www.example.org/3": "no_pointer",
	} {
		f := w.finds(t, subject(website), "well-known not_listed", "link-header no_pointer", "website "+want)[2]
		if want == "unreadable" && f.Err == nil {
			t.Errorf("%s: no reason", website)
		}
		if website == "http://www.example.org/" && !errors.Is(f.Err, discovery.NotHTTPS) {
			t.Errorf("%s: %v", website, f.Err)
		}
		if strings.HasSuffix(website, "/3") && !slices.Equal(f.Chain, []string{website, site}) {
			t.Errorf("%s: chain %v", website, f.Chain)
		}
	}
}

// Several catalogs of one kind are all asked; one address is read once.
func TestSeveralTargets(t *testing.T) {
	second := "https://catalogs.example.net/d.json"
	w := newWeb(map[string]answer{known: jsonCatalog(), other: {status: 500}, second: jsonCatalog(lists(cardURL)), site: page(link(other))})
	w.proves(t, subject(site, `<`+known+`>; rel=ai-catalog, <`+other+`>; rel=ai-catalog`, `<`+second+`>; rel=ai-catalog`), catalog.LinkHeader, second, second)
	if len(w.asked) != 3 {
		t.Errorf("asked %v", w.asked)
	}
	w.pages[second] = jsonCatalog()
	w.finds(t, subject(site, `<`+known+`>; rel=ai-catalog, <`+other+`>; rel=ai-catalog`, `<`+second+`>; rel=ai-catalog`),
		"well-known not_listed", "link-header not_listed", "link-header unreadable", "link-header not_listed", "website unreadable")
}

func TestConfirmContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	fetch := func(ctx context.Context, url string, _ discovery.Want) (*discovery.Document, error) {
		cancel()
		return nil, ctx.Err()
	}
	c, err := discovery.Confirm(ctx, subject(site), fetch)
	if c != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("Confirm = %v, %v", c, err)
	}
}

// What a careless fetch function or caller gives is a finding, not a panic.
func TestConfirmBadCallers(t *testing.T) {
	nilDocument := func(context.Context, string, discovery.Want) (*discovery.Document, error) { return nil, nil }
	c, err := discovery.Confirm(t.Context(), subject(site), nilDocument)
	if err != nil || c.Evidence != nil || len(c.Findings) != 3 || c.Findings[0].Status != discovery.Unreadable {
		t.Errorf("Confirm = %+v, %v", c, err)
	}
	bare := func(context.Context, string, discovery.Want) (*discovery.Document, error) {
		return &discovery.Document{Status: 200, Header: http.Header{"Content-Type": {catalog.MediaType}}, Body: []byte(catalogText(lists("/mcp/server-card")))}, nil
	}
	c, err = discovery.Confirm(t.Context(), subject(""), bare)
	if err != nil || c.Evidence == nil {
		t.Errorf("Confirm = %+v, %v", c, err)
	}
	c, err = discovery.Confirm(t.Context(), &discovery.Subject{CardURL: "nothing"}, bare)
	if err != nil || c.Evidence != nil || c.Findings[0].Status != discovery.NoPointer || c.Findings[0].Err == nil {
		t.Errorf("Confirm = %+v, %v", c, err)
	}
}
