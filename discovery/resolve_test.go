package discovery_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/discovery"
	"github.com/openbot-build/openbot-go/publicnet"
)

const (
	appPage    = origin + "/apps/calendar"
	appCatalog = origin + "/apps/calendar/catalog.json"
	notesURL   = origin + "/mcp/notes/server-card"
)

// twoApps publishes as the protocol page does: every page links a catalog of
// its own app, the well-known catalog lists all.
func twoApps() *web {
	return newWeb(map[string]answer{
		known:      jsonCatalog(lists(cardURL), lists(notesURL)),
		appPage:    page(link("/apps/calendar/catalog.json")),
		appCatalog: jsonCatalog(lists(cardURL)),
		cardURL:    jsonCard("calendar"),
		notesURL:   jsonCard("notes"),
	})
}

// OB-30, OB-T5: domain, page, catalog and card all work.
func TestRule_OB30_FourInputs(t *testing.T) { testFourInputs(t) }
func TestRule_OBT5_FourInputs(t *testing.T) { testFourInputs(t) }

func testFourInputs(t *testing.T) {
	w := twoApps()
	w.wants(t, "apps.example.com", discovery.Multiple, cardURL, notesURL)
	w.wants(t, appPage, discovery.Single, cardURL)
	w.wants(t, appCatalog, discovery.Single, cardURL)
	w.wants(t, known, discovery.Multiple, cardURL, notesURL)
	w.wants(t, cardURL, discovery.Single, cardURL)
	w.wants(t, "  HTTPS://Apps.Example.com:443/mcp/./server-card#top \n", discovery.Single, cardURL)
}

// OB-31, documents L1: a domain means its well-known catalog and nothing else.
func TestRule_OB31_Domain(t *testing.T)        { testDomain(t) }
func TestRule_DocumentsL1_Domain(t *testing.T) { testDomain(t) }

func testDomain(t *testing.T) {
	w := newWeb(map[string]answer{
		origin + "/":                          page(link(appCatalog)).with("Link", "<"+appCatalog+">; rel=ai-catalog"),
		origin + catalog.ARDPath:              jsonCatalog(lists(cardURL)),
		"https://www.apps.example.com/":       page(link(appCatalog)),
		appCatalog:                            jsonCatalog(lists(cardURL)),
		cardURL:                               jsonCard("calendar"),
		origin + "/.well-known/mcp.json":      jsonCard("calendar"),
		"https://apps.example.com/robots.txt": {body: "User-agent: *\nDisallow: /"},
	})
	if e := w.fails(t, "apps.example.com", discovery.HTTPStatus); e.Status != 404 || e.URL != known {
		t.Errorf("%+v", e)
	}
	if !slices.Equal(w.asked, []string{known}) {
		t.Errorf("asked %v", w.asked)
	}
}

// OB-32, D11, documents L2, OB-T6: a page keeps its path; it never turns into
// its domain.
func TestRule_OB32_PageNeverFallsBack(t *testing.T) { testPageNeverFallsBack(t) }
func TestRule_D11_PageNeverFallsBack(t *testing.T)  { testPageNeverFallsBack(t); testLinkOrder(t) }
func TestRule_DocumentsL2_PageNeverFallsBack(t *testing.T) {
	testPageNeverFallsBack(t)
	testLinkOrder(t)
}
func TestRule_OBT6_PagePathKept(t *testing.T) { testPageNeverFallsBack(t) }

func testPageNeverFallsBack(t *testing.T) {
	w := twoApps()
	bare := origin + "/apps/notes"
	w.pages[bare] = page(`<meta http-equiv="refresh" content="0; url=/apps/calendar">`).with("Refresh", "0; url=/apps/calendar")
	if e := w.fails(t, bare, discovery.NoLink); e.URL != bare {
		t.Errorf("%+v", e)
	}
	w.pages[origin+"/"] = page("")
	w.fails(t, origin+"/", discovery.NoLink)
	for _, url := range []string{known, appPage, cardURL} {
		if w.saw(url) {
			t.Errorf("%s was read", url)
		}
	}
	w.wants(t, appPage, discovery.Single, cardURL) // the page's own app alone
	if w.saw(known) || w.saw(notesURL) {
		t.Errorf("asked %v", w.asked)
	}
}

// OB-T7: what a script would insert does not exist.
func TestRule_OBT7_ScriptsDoNotRun(t *testing.T) {
	w := twoApps()
	w.pages[appPage] = page(`<script>document.head.insertAdjacentHTML("beforeend", '` + link("/apps/calendar/catalog.json") + `')</script>`)
	w.fails(t, appPage, discovery.NoLink)
}

// OB-33, OB-T9: several cards are a choice; nothing is chosen here.
func TestRule_OB33_SeveralCards(t *testing.T) { testSeveral(t) }
func TestRule_OBT9_SeveralCards(t *testing.T) { testSeveral(t) }

func testSeveral(t *testing.T) {
	w := twoApps()
	w.wants(t, known, discovery.Multiple, cardURL, notesURL)
	// The same card twice is one app (K3).
	w.pages[known] = jsonCatalog(lists(cardURL), lists("/mcp/server-card"), nests(appCatalog))
	w.wants(t, known, discovery.Single, cardURL)
}

// OB-T10: the card URL is the identity, not the name.
func TestRule_OBT10_OneNameTwoApps(t *testing.T) {
	w := twoApps()
	w.pages[notesURL] = jsonCard("calendar")
	w.wants(t, known, discovery.Multiple, cardURL, notesURL)
}

// OB-34: Single means one app and nothing else to choose.
func TestRule_OB34_Shape(t *testing.T) {
	missing, nested, broken := origin+"/missing", origin+"/nested.json", origin+"/broken.json"
	for name, tt := range map[string]struct {
		catalog answer
		want    discovery.Shape
	}{
		"one card":                      {jsonCatalog(lists(cardURL)), discovery.Single},
		"one card among other entries":  {jsonCatalog("null", entry(origin+"/", "website"), lists(cardURL)), discovery.Single},
		"one card, one inline":          {jsonCatalog(lists(cardURL), fmt.Sprintf(`{"identifier":"x","type":%q,"data":{}}`, card.MediaType)), discovery.Single},
		"one card in a nested catalog":  {jsonCatalog(nests(nested)), discovery.Single},
		"two cards":                     {jsonCatalog(lists(cardURL), lists(notesURL)), discovery.Multiple},
		"two cards, one at fault":       {jsonCatalog(lists(missing), lists(cardURL)), discovery.Multiple},
		"one card, unreadable catalog":  {jsonCatalog(lists(cardURL), nests(broken)), discovery.Multiple},
		"one card and one below":        {jsonCatalog(lists(notesURL), nests(nested)), discovery.Multiple},
		"the same card once more below": {jsonCatalog(lists(cardURL), nests(nested)), discovery.Single},
	} {
		w := twoApps()
		w.pages[origin+"/c.json"], w.pages[nested] = tt.catalog, jsonCatalog(lists(cardURL))
		if got, _ := w.found(t, origin+"/c.json"); got != tt.want {
			t.Errorf("%s: %s; want %s", name, got, tt.want)
		}
	}
}

// OB-35, OB-T14, OB-T23: resolving reads documents only. It never meets the
// endpoint, and being no crawl it asks for no robots.txt (OB-123, D13).
func TestRule_OB35_NothingRuns(t *testing.T)          { testNothingRuns(t) }
func TestRule_OBT14_NothingIsSent(t *testing.T)       { testNothingRuns(t) }
func TestRule_OBT23_NoRobots(t *testing.T)            { testNothingRuns(t) }
func TestRule_OB123_LookupReadsNoRobots(t *testing.T) { testNothingRuns(t) }
func TestRule_D13_LookupReadsNoRobots(t *testing.T)   { testNothingRuns(t) }

func testNothingRuns(t *testing.T) {
	w := twoApps()
	w.pages[origin+"/robots.txt"] = answer{typ: "text/plain", body: "User-agent: *\nDisallow: /\n"}
	if _, err := w.resolve(t, appPage, func(o *discovery.Options) { o.Confirm = true }); err != nil {
		t.Fatal(err)
	}
	if want := []string{appPage, appCatalog, cardURL, known}; !slices.Equal(w.asked, want) {
		t.Errorf("asked %v; want %v", w.asked, want)
	}
}

// OB-36: network and rules are separate pieces. The limits of one document are
// the client's; a Resolver works without any network.
func TestRule_OB36_LimitsAndRulesApart(t *testing.T) {
	if publicnet.DefaultMaxBytes != 1<<20 || publicnet.DefaultTimeout != 10*time.Second || publicnet.DefaultMaxRedirects != 5 {
		t.Error("the defaults are not those of the protocol")
	}
	twoApps().wants(t, cardURL, discovery.Single, cardURL)
	if _, err := discovery.NewResolver(nil); err == nil {
		t.Error("a resolver without client and fetch function was made")
	}
}

// OB-38: a bare word is a domain or nothing; all else must be https.
func TestRule_OB38_Inputs(t *testing.T) {
	w := newWeb(nil)
	for in, want := range map[string]discovery.Kind{
		"":                           discovery.BadInput,
		"apps.example.com/apps":      discovery.BadInput,
		"127.0.0.1":                  discovery.BadInput,
		"[::1]":                      discovery.BadInput,
		"user@example.com":           discovery.BadInput,
		"ex ample.com":               discovery.BadInput,
		"//apps.example.com/":        discovery.BadInput,
		"/apps":                      discovery.BadInput,
		"https://u:p@example.com/":   discovery.BadInput,
		"https://127.0.0.1/":         discovery.BadInput,
		"https://":                   discovery.BadInput,
		"http://apps.example.com/":   discovery.NotHTTPS,
		"apps.example.com:443":       discovery.NotHTTPS,
		"openbot://apps.example.com": discovery.NotHTTPS,
		"javascript:alert(1)":        discovery.NotHTTPS,
		"file:///etc/passwd":         discovery.NotHTTPS,
	} {
		if e := w.fails(t, in, want); !strings.Contains(e.Error(), "https://") {
			t.Errorf("%s: the message does not say what to give: %v", in, e)
		}
	}
	if len(w.asked) != 0 {
		t.Errorf("asked %v", w.asked)
	}
	for in, host := range map[string]string{"Bücher.Example.com.": "xn--bcher-kva.example.com", "日历.example.com": "xn--jmr704b.example.com"} {
		if e := w.fails(t, in, discovery.HTTPStatus); e.URL != "https://"+host+catalog.WellKnownPath {
			t.Errorf("%s: asked %s", in, e.URL)
		}
	}
}

// OB-39, OB-T8, FO-12, documents L3 to L5: header links first, then elements,
// all kept, each once, resolved against the final URL or the first base.
func TestRule_OB39_Links(t *testing.T)       { testLinkOrder(t); testLinkBase(t) }
func TestRule_OBT8_HeaderFirst(t *testing.T) { testLinkOrder(t) }
func TestRule_DocumentsL5_Base(t *testing.T) { testLinkBase(t) }
func TestRule_FO12_LinkOnPage(t *testing.T)  { testLinkOrder(t); testLinkBase(t) }

func testLinkOrder(t *testing.T) {
	w := newWeb(map[string]answer{
		appPage: page(link("one.json")+link("/two.json")+link("/two.json")).
			with("Link", `<https://a.example.com/x?f=a,b>; title="one, two"; rel="preload", </two.json>; rel="describedby ai-catalog"`).
			with("Link", `<three.json>; rel="ai-catalog", <http://apps.example.com/plain.json>; rel="ai-catalog", </planted.json>; rel="ai-catalog"; anchor="/"`),
		origin + "/two.json":        jsonCatalog(lists("/2")),
		origin + "/apps/three.json": jsonCatalog(lists("/3")),
		origin + "/apps/one.json":   jsonCatalog(lists("/1")),
		origin + "/planted.json":    jsonCatalog(lists("/4")),
		origin + "/1":               jsonCard("one"),
		origin + "/2":               jsonCard("two"),
		origin + "/3":               jsonCard("three"),
	})
	w.wants(t, appPage, discovery.Multiple, origin+"/2", origin+"/3", origin+"/1")
	if w.saw(origin+"/planted.json") || w.saw("https://a.example.com/x?f=a,b") {
		t.Errorf("asked %v", w.asked)
	}
	// One catalog at fault leaves the others; that all are is the page's fault.
	delete(w.pages, origin+"/two.json")
	w.wants(t, appPage, discovery.Multiple, origin+"/3", origin+"/1")
	delete(w.pages, origin+"/apps/three.json")
	w.pages[origin+"/apps/one.json"] = page("")
	if e := w.fails(t, appPage, discovery.NoCards); !errors.Is(e, discovery.HTTPStatus) || !errors.Is(e, discovery.WebPage) || e.URL != appPage {
		t.Errorf("%+v", e)
	}
}

func testLinkBase(t *testing.T) {
	w := newWeb(map[string]answer{
		origin + "/go":                              {to: "https://www.example.com/apps/cal/"},
		"https://www.example.com/apps/cal/":         {typ: "text/html", body: `<!-- <link rel="ai-catalog" href="/bad.json"> --><base href="/apps/"><base href="/wrong/"><link REL="AI-Catalog" href=catalog.json>`},
		"https://www.example.com/apps/catalog.json": jsonCatalog(lists(cardURL)),
		cardURL: jsonCard("x"),
	})
	w.wants(t, origin+"/go", discovery.Single, cardURL)
}
