package publisher_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/publisher"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const origin = "https://apps.example.com"

func calendarCard() card.Card {
	return card.Card{Name: "com.example/calendar", Title: "Example Calendar", Version: "1.0.0", Description: "Look up schedules and create calendar events."}
}

func notesCard() card.Card {
	return card.Card{Name: "com.example/notes", Title: "示例笔记", Version: "1.0.0", Description: "记录、查找和整理笔记。"}
}

type planIn struct {
	Week string `json:"week" jsonschema:"ISO week, for instance 2026-W48"`
}

type planOut struct {
	Slots []string `json:"slots"`
}

// newServer has a tool, a resource and a prompt, and counts what runs.
func newServer(runs *int) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "com.example/calendar", Version: "1.0.0"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "plan_week", Description: "Find free time in a week."},
		func(_ context.Context, _ *mcp.CallToolRequest, in planIn) (*mcp.CallToolResult, planOut, error) {
			*runs++
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "Free on Monday of " + in.Week}}}, planOut{Slots: []string{"Mon 10:00"}}, nil
		})
	s.AddResource(&mcp.Resource{URI: "calendar://today", Name: "today", Description: "Today."},
		func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			*runs++
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "calendar://today", Text: "nothing"}}}, nil
		})
	s.AddPrompt(&mcp.Prompt{Name: "agenda", Description: "Draft an agenda."},
		func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			*runs++
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "Draft an agenda."}}}}, nil
		})
	return s
}

func twoApps() *publisher.Config {
	return &publisher.Config{
		Origin: origin,
		Host:   &catalog.Host{DisplayName: "Example Inc."},
		Apps: []publisher.App{
			{Slug: "calendar", Card: calendarCard(), Server: newServer(new(int)), AllowedOrigins: []string{"https://host.example.com"}},
			{Slug: "notes", Card: notesCard(), Server: newServer(new(int)), Lang: "zh-CN"},
		},
	}
}

func mustNew(t *testing.T, cfg *publisher.Config) *publisher.Publisher {
	t.Helper()
	p, err := publisher.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// ask makes one request. header lines are "Name: value".
func ask(t *testing.T, h http.Handler, method, target string, header ...string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, nil)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	res := w.Result()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// documents are the paths of twoApps and their types.
var documents = map[string]string{
	"/.well-known/ai-catalog.json": catalog.MediaType,
	"/.well-known/ard.json":        catalog.MediaType,
	"/apps/calendar/catalog.json":  catalog.MediaType,
	"/apps/notes/catalog.json":     catalog.MediaType,
	"/mcp/calendar/server-card":    card.MediaType,
	"/mcp/notes/server-card":       card.MediaType,
	"/apps/calendar":               "text/html; charset=utf-8",
	"/apps/notes":                  "text/html; charset=utf-8",
	"/":                            "text/html; charset=utf-8",
}

// OB-1, OB-2, OB-10; documents W2, W7; FO-04: everything is where it should
// be, with its exact type.
func testServedTypes(t *testing.T) {
	p := mustNew(t, twoApps())
	for path, want := range documents {
		res, body := ask(t, p, "GET", path)
		if res.StatusCode != 200 || res.Header.Get("Content-Type") != want || body == "" {
			t.Errorf("%s: status %d, type %q, want %q", path, res.StatusCode, res.Header.Get("Content-Type"), want)
		}
		if res.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: no nosniff", path)
		}
		if got := res.Header.Get("Cache-Control"); got != "public, max-age=3600" {
			t.Errorf("%s: Cache-Control %q", path, got)
		}
	}
	files := p.Files()
	if len(files) != len(documents) {
		t.Errorf("%d files, want %d", len(files), len(documents))
	}
	for _, f := range files {
		res, body := ask(t, p, "GET", f.Path)
		if body != string(f.Body) {
			t.Errorf("%s: file and answer differ", f.Path)
		}
		if d := cmp.Diff(res.Header, f.Header); d != "" {
			t.Errorf("%s: headers differ: %s", f.Path, d)
		}
	}
}

func TestRule_OB1_CatalogAtTheWellKnownPlace(t *testing.T) { testServedTypes(t) }
func TestRule_OB10_CardTypeAndEndpoint(t *testing.T) {
	testServedTypes(t)
	p := mustNew(t, twoApps())
	_, body := ask(t, p, "GET", "/mcp/calendar/server-card")
	c, err := card.Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	remote, _, err := c.Usable()
	if err != nil || remote.URL != origin+"/mcp/calendar" {
		t.Errorf("remote %+v, error %v", remote, err)
	}
}
func TestRule_DocumentsW2_ExactTypes(t *testing.T) { testServedTypes(t) }
func TestRule_FO04_ExactTypes(t *testing.T)        { testServedTypes(t) }
func TestRule_OBT1_TypesTagsAnd304(t *testing.T)   { testServedTypes(t); testConditional(t) }

// catalogOf parses the catalog at a path.
func catalogOf(t *testing.T, p http.Handler, path string) *catalog.Catalog {
	t.Helper()
	_, body := ask(t, p, "GET", path)
	c, err := catalog.Parse([]byte(body), origin+path)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return c
}

func cardURLs(c *catalog.Catalog) []string {
	var urls []string
	for e := range c.Cards() {
		urls = append(urls, e.URL)
	}
	return urls
}

func TestRule_OB2_CardsOnOtherDomains(t *testing.T) {
	cfg := twoApps()
	cfg.Hosted = []publisher.HostedCard{{CardURL: "https://cards.example.net/maps", DisplayName: "Maps", Identifier: "urn:air:apps.example.com:mcp:maps"}}
	p := mustNew(t, cfg)
	want := []string{origin + "/mcp/calendar/server-card", origin + "/mcp/notes/server-card", "https://cards.example.net/maps"}
	if d := cmp.Diff(want, cardURLs(catalogOf(t, p, catalog.WellKnownPath))); d != "" {
		t.Error(d)
	}
	if len(p.Files()) != len(documents) {
		t.Error("something of a hosted card is served here")
	}
}

func TestRule_OB3_EachAppHasItsOwnCardURL(t *testing.T) {
	cfg := twoApps()
	cfg.Apps[1].Card.Name = cfg.Apps[0].Card.Name // the same name stays two apps
	cfg.Apps[0].Identifier, cfg.Apps[1].Identifier = "Any text: {opaque}", "Any text: {opaque}"
	p := mustNew(t, cfg)
	c := catalogOf(t, p, catalog.WellKnownPath)
	if got := cardURLs(c); len(got) != 2 || got[0] == got[1] {
		t.Errorf("cards %v", got)
	}
	for e := range c.Cards() {
		if e.Identifier != "Any text: {opaque}" {
			t.Errorf("identifier %q was changed", e.Identifier)
		}
	}
	cfg.Apps[1].CardURL = cfg.Apps[0].CardURL + "/mcp/calendar/server-card"
	if _, err := publisher.New(cfg); err == nil {
		t.Error("two apps share one card URL")
	}
}

func TestRule_OB9_DisplayNameAndARD(t *testing.T) {
	p := mustNew(t, twoApps())
	_, a := ask(t, p, "GET", catalog.WellKnownPath)
	_, b := ask(t, p, "GET", catalog.ARDPath)
	if a != b {
		t.Error("ard.json has other bytes")
	}
	for e := range catalogOf(t, p, catalog.WellKnownPath).Cards() {
		if e.DisplayName != "Example Calendar" && e.DisplayName != "示例笔记" {
			t.Errorf("display name %q", e.DisplayName)
		}
	}
	cfg := twoApps()
	cfg.NoARD = true
	if res, _ := ask(t, mustNew(t, cfg), "GET", catalog.ARDPath); res.StatusCode != 404 {
		t.Errorf("ard.json is off, yet status %d", res.StatusCode)
	}
}

func TestRule_D3_OneCatalogForBothReaders(t *testing.T) { TestRule_OB9_DisplayNameAndARD(t) }

// OB-4, OB-7; documents W1, W5, W6; FO-08, FO-09: tags from the content, and a
// 304 that is as rich as the 200.
func testConditional(t *testing.T) {
	cfg := twoApps()
	cfg.Apps[0].NoIndex = true
	p, replica := mustNew(t, cfg), mustNew(t, cfg)
	for path := range documents {
		full, body := ask(t, p, "GET", path)
		tag := full.Header.Get("ETag")
		if !regexp.MustCompile(`^"[0-9a-f]{32}"$`).MatchString(tag) {
			t.Errorf("%s: ETag %q", path, tag)
		}
		if other, _ := ask(t, replica, "GET", path); other.Header.Get("ETag") != tag {
			t.Errorf("%s: another replica says %q", path, other.Header.Get("ETag"))
		}
		bare := strings.Trim(tag, `"`)
		for match, want := range map[string]int{
			tag: 304, "W/" + tag: 304, `"zzz", ` + tag: 304, "*": 304, `W/"a",W/` + tag + ` , "b"`: 304,
			`"` + bare: 200, bare: 200, `"zzz"`: 200, `"` + bare + `-gzip"`: 200, "": 200, ",,,": 200,
		} {
			for _, method := range []string{"GET", "HEAD"} {
				res, got := ask(t, p, method, path, "If-None-Match: "+match, "If-Modified-Since: Mon, 30 Nov 2099 00:00:00 GMT")
				if res.StatusCode != want {
					t.Errorf("%s %s If-None-Match: %s: status %d, want %d", method, path, match, res.StatusCode, want)
				}
				if want == 200 && method == "GET" && got != body {
					t.Errorf("%s %s: another body", method, match)
				}
				if want == 304 {
					checkRich304(t, full, res, got)
				}
			}
		}
		head, none := ask(t, p, "HEAD", path)
		if none != "" {
			t.Errorf("HEAD %s has a body", path)
		}
		if d := cmp.Diff(full.Header, head.Header); d != "" {
			t.Errorf("HEAD %s: headers differ from GET: %s", path, d)
		}
		if res, part := ask(t, p, "GET", path, "Range: bytes=0-0"); res.StatusCode != 206 || part != body[:1] {
			t.Errorf("%s range: status %d", path, res.StatusCode)
		}
		if res, _ := ask(t, p, "GET", path, `If-Match: "other"`); res.StatusCode != 412 || res.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s If-Match: status %d, headers %v", path, res.StatusCode, res.Header)
		}
		if res, _ := ask(t, p, "GET", path, `If-None-Match: "zzz"`, "If-None-Match: "+tag); res.StatusCode != 304 {
			t.Errorf("%s two lines: status %d", path, res.StatusCode)
		}
		if res, _ := ask(t, p, "GET", path, `If-Match: `+tag, "If-None-Match: "+tag); res.StatusCode != 304 {
			t.Errorf("%s both: status %d", path, res.StatusCode)
		}
	}
}

func checkRich304(t *testing.T, full, res *http.Response, body string) {
	t.Helper()
	if body != "" {
		t.Error("a 304 with a body")
	}
	for name := range maps.Keys(full.Header) {
		switch name {
		case "Content-Type", "Content-Length", "Accept-Ranges", "Last-Modified":
			continue
		}
		if d := cmp.Diff(full.Header[name], res.Header[name]); d != "" {
			t.Errorf("304 differs in %s: %s", name, d)
		}
	}
}

func TestRule_OB4_ConditionalRequests(t *testing.T) { testConditional(t) }
func TestRule_OB7_TagsFromContent(t *testing.T) {
	testConditional(t)
	testMethods(t)
	testUnknownPaths(t)
}
func TestRule_OBT2_IfNoneMatchForms(t *testing.T)            { testConditional(t) }
func TestRule_DocumentsW1_OneTagOnAllReplicas(t *testing.T)  { testConditional(t); testMethods(t) }
func TestRule_DocumentsW5_WeakComparison(t *testing.T)       { testConditional(t) }
func TestRule_DocumentsW6_The304RepeatsHeaders(t *testing.T) { testConditional(t) }
func TestRule_FO08_ETagForms(t *testing.T)                   { testConditional(t) }
func TestRule_FO09_RichNotModified(t *testing.T)             { testConditional(t) }

// testMethods: only GET and HEAD, with CORS on every refusal.
func testMethods(t *testing.T) {
	p := mustNew(t, twoApps())
	for path := range documents {
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "PROPFIND"} {
			res, _ := ask(t, p, method, path)
			if res.StatusCode != 405 || res.Header.Get("Allow") != "GET, HEAD, OPTIONS" || res.Header.Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("%s %s: status %d, headers %v", method, path, res.StatusCode, res.Header)
			}
		}
	}
}

// OB-8; documents W3, W4; FO-10.
func testCORS(t *testing.T) {
	p := mustNew(t, twoApps())
	want := map[string]string{
		"Access-Control-Allow-Origin":   "*",
		"Access-Control-Allow-Methods":  "GET, HEAD",
		"Access-Control-Allow-Headers":  "Content-Type, If-None-Match",
		"Access-Control-Expose-Headers": "ETag",
	}
	check := func(what string, res *http.Response, status int) {
		t.Helper()
		if res.StatusCode != status {
			t.Errorf("%s: status %d, want %d", what, res.StatusCode, status)
		}
		for name, value := range want {
			if got := res.Header.Get(name); got != value {
				t.Errorf("%s: %s is %q, want %q", what, name, got, value)
			}
		}
	}
	for path := range documents {
		res, _ := ask(t, p, "GET", path, "Origin: https://anybody.example")
		check("GET "+path, res, 200)
		not, _ := ask(t, p, "GET", path, "If-None-Match: "+res.Header.Get("ETag"))
		check("304 "+path, not, 304)
		pre, body := ask(t, p, "OPTIONS", path, "Origin: https://anybody.example", "Access-Control-Request-Method: GET", "Access-Control-Request-Headers: if-none-match")
		check("OPTIONS "+path, pre, 204)
		if body != "" {
			t.Error("a preflight with a body")
		}
		if res, _ := ask(t, p, "POST", path); true {
			check("POST "+path, res, 405)
		}
	}
	res, _ := ask(t, p, "GET", "/.well-known/other")
	check("404", res, 404)
}

func TestRule_OB8_CORSAndDefaults(t *testing.T)           { testCORS(t); testServedTypes(t) }
func TestRule_DocumentsW3_CORSOnEveryAnswer(t *testing.T) { testCORS(t) }
func TestRule_DocumentsW4_PreflightIs204(t *testing.T)    { testCORS(t) }
func TestRule_FO10_DocumentsPreflight(t *testing.T)       { testCORS(t) }

// FO-03; documents W7: what is not there is a real 404.
func testUnknownPaths(t *testing.T) {
	p := mustNew(t, twoApps())
	for _, path := range []string{
		"/.well-known/", "/.well-known/agent-card.json", "/.well-known/oauth-protected-resource", "/.well-known/AI-Catalog.json",
		"/.well-known/ai-catalog.json/", "/robots.txt", "/apps", "/apps/", "/apps/calendar/", "/apps/other", "/mcp", "/mcp/calendar/", "/mcp/calendar/server-card/",
		"//", "/%2e%2e/", "/apps/calendar/assets/x.png", "/apps%2Fcalendar",
	} {
		res, body := ask(t, p, "GET", "http://apps.example.com"+path)
		if res.StatusCode != 404 || strings.Contains(body, "<") {
			t.Errorf("%s: status %d, body %q", path, res.StatusCode, body)
		}
	}
}

func TestRule_FO03_UnknownWellKnownIs404(t *testing.T) { testUnknownPaths(t) }

func TestRule_DocumentsW7_Addresses(t *testing.T) {
	testUnknownPaths(t)
	p := mustNew(t, twoApps())
	res, _ := ask(t, p, "GET", "/mcp/calendar")
	if res.StatusCode != 405 {
		t.Errorf("GET on the endpoint: status %d", res.StatusCode)
	}
	res, _ = ask(t, p, "GET", "/mcp/calendar/server-card")
	links := catalog.HeaderLinks(res.Header.Values("Link"), origin+"/mcp/calendar/server-card")
	if d := cmp.Diff([]string{origin + "/apps/calendar/catalog.json"}, links); d != "" {
		t.Error(d)
	}
}

// Documents carry no sign-in and need no TLS of their own behind a proxy.
func TestRule_DocumentsW8_DocumentsArePublic(t *testing.T) {
	p := mustNew(t, twoApps())
	for path := range documents {
		res, _ := ask(t, p, "GET", path, "Authorization: Bearer nonsense", "Cookie: a=b")
		if res.StatusCode != 200 || res.Header.Get("Set-Cookie") != "" || res.Header.Get("WWW-Authenticate") != "" {
			t.Errorf("%s: status %d, headers %v", path, res.StatusCode, res.Header)
		}
	}
}

func testNoIndex(t *testing.T) {
	cfg := twoApps()
	cfg.Apps[0].NoIndex = true
	p := mustNew(t, cfg)
	for path := range documents {
		res, _ := ask(t, p, "GET", path)
		want := ""
		if path == "/mcp/calendar/server-card" {
			want = "noindex"
		}
		if got := res.Header.Get("X-Robots-Tag"); got != want {
			t.Errorf("%s: X-Robots-Tag %q, want %q", path, got, want)
		}
	}
}

func TestRule_DocumentsW9_NoIndexOnTheCard(t *testing.T) { testNoIndex(t) }
func TestRule_OBT3_NoIndexOnlyWhenAsked(t *testing.T)    { testNoIndex(t) }

// documents W11; OB-32: the page leads to its app alone, and to its evidence.
func testPages(t *testing.T) {
	p := mustNew(t, twoApps())
	for _, slug := range []string{"calendar", "notes"} {
		page := origin + "/apps/" + slug
		res, body := ask(t, p, "GET", page)
		own := []string{origin + "/apps/" + slug + "/catalog.json"}
		if d := cmp.Diff(own, catalog.PageLinks([]byte(body), res.Header.Get("Content-Type"), page)); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(own, catalog.HeaderLinks(res.Header.Values("Link"), page)); d != "" {
			t.Error(d)
		}
		want := []string{origin + "/mcp/" + slug + "/server-card"}
		if d := cmp.Diff(want, cardURLs(catalogOf(t, p, "/apps/"+slug+"/catalog.json"))); d != "" {
			t.Error(d)
		}
		_, doc := ask(t, p, "GET", "/mcp/"+slug+"/server-card")
		c, err := card.Parse([]byte(doc))
		if err != nil || c.WebsiteURL != page {
			t.Errorf("website %q, error %v", c.WebsiteURL, err)
		}
	}
	if got := cardURLs(catalogOf(t, p, catalog.WellKnownPath)); len(got) != 2 {
		t.Errorf("the well-known catalog lists %v", got)
	}
}

func TestRule_DocumentsW11_PageLeadsToItsAppAlone(t *testing.T) { testPages(t) }
func TestRule_OB32_PageLinksItsCatalog(t *testing.T)            { testPages(t) }

// OB-35: the page hands out its own plain https address, in text and as a code.
func TestRule_OB35_PlainAddressAndCode(t *testing.T) {
	p := mustNew(t, twoApps())
	_, body := ask(t, p, "GET", "/apps/calendar?utm=1")
	if plain := strings.ReplaceAll(body, "<wbr>", ""); !strings.Contains(plain, `<code class="address">https://apps.example.com/apps/calendar</code>`) {
		t.Error("the page does not show its address")
	}
	if !strings.Contains(body, "https://<wbr>apps.example.com/<wbr>apps/<wbr>calendar</code>") {
		t.Error("the address does not break at its slashes")
	}
	if !strings.Contains(body, `<a href="/">All apps published here</a>`) {
		t.Error("the page does not lead to the list of apps")
	}
	if strings.Count(body, `<svg class="qr"`) != 1 {
		t.Error("the page has no QR code")
	}
	_, again := ask(t, p, "GET", "/apps/calendar")
	if body != again {
		t.Error("the page repeats something of the request")
	}
}

// The protocol page's own sample, address by address (OB-5).
func TestRule_OB5_ThePublicationOfTheProtocolPage(t *testing.T) {
	runs := 0
	modified := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	p := mustNew(t, &publisher.Config{Origin: origin, Apps: []publisher.App{{
		Slug: "hello",
		Card: card.Card{
			Schema: card.SchemaURL, Name: "com.example/hello", Version: "1.0.0", Description: "Say hello.",
			Remotes: []card.Remote{{Type: "streamable-http", URL: origin + "/mcp", Versions: []string{card.ProtocolVersion}}},
		},
		CardURL: origin + "/mcp/server-card", CatalogURL: origin + "/.well-known/ai-catalog.json", MCPURL: origin + "/mcp",
		AllowedOrigins: []string{"https://host.example.com"},
		Server:         newServer(&runs),
		ETag:           `"v1"`, LastModified: modified, CacheControl: "public, max-age=60", NoIndex: true,
	}}})
	res, _ := ask(t, p, "GET", "/mcp/server-card")
	for name, want := range map[string]string{
		"ETag": `"v1"`, "Last-Modified": "Sun, 01 Nov 2026 12:00:00 GMT", "Cache-Control": "public, max-age=60", "X-Robots-Tag": "noindex", "Content-Type": card.MediaType,
	} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for line, want := range map[string]int{
		`If-None-Match: "v1"`: 304, "If-Modified-Since: Sun, 01 Nov 2026 12:00:00 GMT": 304, "If-Modified-Since: Sun, 01 Nov 2026 11:59:59 GMT": 200, "If-Modified-Since: nonsense": 200,
	} {
		if res, _ := ask(t, p, "GET", "/mcp/server-card", line); res.StatusCode != want {
			t.Errorf("%s: status %d, want %d", line, res.StatusCode, want)
		}
	}
	if res, _ := ask(t, p, "GET", "/mcp/server-card", `If-None-Match: "v0"`, "If-Modified-Since: Sun, 01 Nov 2026 12:00:00 GMT"); res.StatusCode != 200 {
		t.Errorf("If-None-Match must win: status %d", res.StatusCode)
	}
	testForeignOrigin(t, p, "/mcp", &runs)
	if _, err := publisher.New(&publisher.Config{}); err == nil {
		t.Error("an empty configuration was accepted")
	}
}

func testForeignOrigin(t *testing.T, p http.Handler, path string, runs *int) {
	t.Helper()
	before := *runs
	for _, o := range []string{"https://evil.example", "null", "https://host.example.com:444", "http://host.example.com"} {
		for _, method := range []string{"POST", "OPTIONS"} {
			if res, _ := ask(t, p, method, path, "Origin: "+o); res.StatusCode != 403 {
				t.Errorf("%s with Origin %s: status %d, want 403", method, o, res.StatusCode)
			}
		}
	}
	if *runs != before {
		t.Error("a tool ran")
	}
	if res, _ := ask(t, p, "OPTIONS", path, "Origin: https://host.example.com"); res.StatusCode != 204 {
		t.Errorf("preflight of the allowed origin: status %d", res.StatusCode)
	}
}

func TestRule_OBT4_ForeignOriginGets403(t *testing.T) {
	runs := 0
	cfg := twoApps()
	cfg.Apps[0].Server = newServer(&runs)
	testForeignOrigin(t, mustNew(t, cfg), "/mcp/calendar", &runs)
}
func TestRule_FO19_ForeignOriginGets403(t *testing.T) { TestRule_OBT4_ForeignOriginGets403(t) }

// OB-12, OB-T12: a picture can carry a script; it never gets to run.
func testAssets(t *testing.T) {
	const svg = `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`
	cfg := twoApps()
	cfg.Apps[0].Assets = fstest.MapFS{
		"icon.svg":     {Data: []byte(svg)},
		"icon.png":     {Data: []byte("\x89PNG"), ModTime: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		"图标.webp":      {Data: []byte("RIFF")},
		"page.html":    {Data: []byte("<script>alert(1)</script>")},
		".hidden.png":  {Data: []byte("x")},
		"sub/icon.png": {Data: []byte("x")},
	}
	p := mustNew(t, cfg)
	for i := range 2 { // the second time the tag is known
		res, body := ask(t, p, "GET", "/apps/calendar/assets/icon.svg")
		if res.StatusCode != 200 || body != svg || res.Header.Get("Content-Type") != "image/svg+xml" || res.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Fatalf("round %d: status %d, headers %v", i, res.StatusCode, res.Header)
		}
		csp := res.Header.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "sandbox") || strings.Contains(csp, "allow-scripts") {
			t.Errorf("policy %q lets scripts run", csp)
		}
		tag := res.Header.Get("ETag")
		if not, _ := ask(t, p, "GET", "/apps/calendar/assets/icon.svg", "If-None-Match: "+tag); not.StatusCode != 304 || tag == "" {
			t.Errorf("tag %q: status %d", tag, not.StatusCode)
		}
	}
	if res, _ := ask(t, p, "GET", "/apps/calendar/assets/icon.png"); res.Header.Get("Last-Modified") != "Fri, 02 Jan 2026 03:04:05 GMT" {
		t.Errorf("headers %v", res.Header)
	}
	for path, want := range map[string]int{
		"/apps/calendar/assets/%E5%9B%BE%E6%A0%87.webp": 200,
		"/apps/calendar/assets/":                        404,
		"/apps/calendar/assets/none.png":                404,
		"/apps/calendar/assets/page.html":               404,
		"/apps/calendar/assets/.hidden.png":             404,
		"/apps/calendar/assets/sub/icon.png":            404,
		"/apps/calendar/assets/sub%2Ficon.png":          404,
		"/apps/calendar/assets/%2e%2e%2ficon.png":       404,
		"/apps/notes/assets/icon.png":                   404,
	} {
		if res, _ := ask(t, p, "GET", path); res.StatusCode != want {
			t.Errorf("%s: status %d, want %d", path, res.StatusCode, want)
		}
	}
	if res, _ := ask(t, p, "DELETE", "/apps/calendar/assets/icon.png"); res.StatusCode != 405 {
		t.Errorf("DELETE: status %d", res.StatusCode)
	}
}

func TestRule_OBT12_SVGNeverRuns(t *testing.T)       { testAssets(t) }
func TestRule_OB12_PicturesArePictures(t *testing.T) { testAssets(t) }

// Every fault is found at once and names its field.
func TestFaultsNameTheirField(t *testing.T) {
	good := func() *publisher.Config { return twoApps() }
	tests := []struct {
		name string
		edit func(*publisher.Config)
		want []string // each is in some line of the error
	}{
		{"no origin", func(c *publisher.Config) { c.Origin = "" }, []string{"Origin: is required"}},
		{"http origin", func(c *publisher.Config) { c.Origin = "http://apps.example.com" }, []string{"Origin: "}},
		{"origin with path", func(c *publisher.Config) { c.Origin = "https://apps.example.com/x" }, []string{"Origin: "}},
		{"private origin", func(c *publisher.Config) { c.Origin = "https://localhost" }, []string{"Origin: "}},
		{"address as origin", func(c *publisher.Config) { c.Origin = "https://192.168.1.1" }, []string{"Origin: "}},
		{"nothing", func(c *publisher.Config) { c.Apps = nil }, []string{"Apps: nothing to publish"}},
		{"no slug", func(c *publisher.Config) { c.Apps[0].Slug = "" }, []string{"Apps[0].Slug: is required"}},
		{"bad slug", func(c *publisher.Config) { c.Apps[1].Slug = "A/b" }, []string{"Apps[1].Slug: "}},
		{"same slug", func(c *publisher.Config) { c.Apps[1].Slug = "calendar" }, []string{"Apps[1].Slug: \"calendar\" is already the slug of Apps[0]"}},
		{"empty card", func(c *publisher.Config) { c.Apps[0].Card = card.Card{} }, []string{"Apps[0].Card: /name", "Apps[0].Card: /version", "Apps[0].Card: /description"}},
		{"two faults in two apps", func(c *publisher.Config) {
			c.Apps[0].Card.Description = strings.Repeat("x", 101)
			c.Apps[1].Card.Name = "plain"
		}, []string{"Apps[0].Card: /description", "Apps[1].Card: /name"}},
		{"remote that is another", func(c *publisher.Config) {
			c.Apps[0].Card.Remotes = []card.Remote{{Type: "streamable-http", URL: "https://else.example.com/mcp", Versions: []string{"2026-07-28"}}}
		}, []string{"Apps[0].Card: /remotes: none of them is the app's endpoint"}},
		{"endpoint that is not in the card", func(c *publisher.Config) {
			c.Apps[0].Server, c.Apps[0].AllowedOrigins, c.Apps[0].MCPURL = nil, nil, "https://mcp.example.net/a"
			c.Apps[0].Card.Remotes = []card.Remote{{Type: "streamable-http", URL: "https://mcp.example.net/b", Versions: []string{"2026-07-28"}}}
		}, []string{"Apps[0].Card: /remotes: none of them is the app's endpoint"}},
		{"old remote", func(c *publisher.Config) {
			c.Apps[0].Card.Remotes = []card.Remote{{Type: "streamable-http", URL: origin + "/mcp/calendar", Versions: []string{"2025-11-25"}}}
		}, []string{"Apps[0].Card: /remotes"}},
		{"bad examples", func(c *publisher.Config) {
			c.Apps[0].Card.Meta = map[string]json.RawMessage{card.PresentationKey: json.RawMessage(`{"version":"2","examples":[]}`)}
		}, []string{"Apps[0].Card: /_meta/openbot~1presentation"}},
		{"card elsewhere", func(c *publisher.Config) { c.Apps[0].CardURL = "https://else.example.com/c" }, []string{"Apps[0].CardURL: https://else.example.com/c is not on the origin"}},
		{"page elsewhere", func(c *publisher.Config) { c.Apps[0].PageURL = "https://else.example.com/c" }, []string{"Apps[0].PageURL"}},
		{"catalog elsewhere", func(c *publisher.Config) { c.Apps[0].CatalogURL = "https://else.example.com/c" }, []string{"Apps[0].CatalogURL"}},
		{"endpoint elsewhere", func(c *publisher.Config) { c.Apps[0].MCPURL = "https://else.example.com/c" }, []string{"Apps[0].MCPURL"}},
		{"shared catalog", func(c *publisher.Config) { c.Apps[0].CatalogURL = catalog.WellKnownPath }, []string{"Apps[0].CatalogURL: the well-known catalog lists other apps too"}},
		{"query", func(c *publisher.Config) { c.Apps[0].CardURL = "/card?v=1" }, []string{"Apps[0].CardURL"}},
		{"same address", func(c *publisher.Config) { c.Apps[0].PageURL = "/p"; c.Apps[1].CardURL = "/p" }, []string{"Apps[1].CardURL: /p is already used by Apps[0].PageURL"}},
		{"no endpoint", func(c *publisher.Config) { c.Apps[1].Server = nil }, []string{"Apps[1].MCPURL: is missing"}},
		{"bad tag", func(c *publisher.Config) { c.Apps[0].ETag = "v1" }, []string{"Apps[0].ETag"}},
		{"bad cache", func(c *publisher.Config) { c.CacheControl = "a\nb" }, []string{"CacheControl"}},
		{"bad app cache", func(c *publisher.Config) { c.Apps[1].CacheControl = "a\nb" }, []string{"Apps[1].CacheControl"}},
		{"bad lang", func(c *publisher.Config) { c.Lang = "english please"; c.Apps[0].Lang = "1" }, []string{"Lang: ", "Apps[0].Lang: "}},
		{"bad allowed origin", func(c *publisher.Config) { c.Apps[0].AllowedOrigins = []string{"https://a.example/"} }, []string{"Apps[0].AllowedOrigins"}},
		{"hosted", func(c *publisher.Config) { c.Hosted = []publisher.HostedCard{{CardURL: "http://a.example/c"}} }, []string{"Hosted[0].CardURL", "Hosted[0].DisplayName", "Hosted[0].Identifier"}},
		{"hosted twice", func(c *publisher.Config) {
			c.Hosted = []publisher.HostedCard{{CardURL: origin + "/mcp/notes/server-card", DisplayName: "N", Identifier: "n"}}
		}, []string{"Hosted[0].CardURL: https://apps.example.com/mcp/notes/server-card is already the card of Apps[1]"}},
		{"host without a name", func(c *publisher.Config) { c.Host = &catalog.Host{Identifier: "x"} }, []string{"Host"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := good()
			tt.edit(cfg)
			_, err := publisher.New(cfg)
			if err == nil {
				t.Fatal("accepted")
			}
			if !errors.As(err, new(*publisher.Error)) {
				t.Errorf("%T holds no *publisher.Error", err)
			}
			lines := strings.Split(err.Error(), "\n")
			for _, want := range tt.want {
				if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, want) }) {
					t.Errorf("no line begins with %q in:\n%v", want, err)
				}
			}
		})
	}
}

// The configuration is read once and left as it was.
func TestNewKeepsNothing(t *testing.T) {
	cfg := twoApps()
	p := mustNew(t, cfg)
	if cfg.Apps[0].Card.Schema != "" || cfg.Apps[0].Card.Remotes != nil || cfg.Apps[0].Card.WebsiteURL != "" {
		t.Errorf("the caller's card was filled: %+v", cfg.Apps[0].Card)
	}
	cfg.Apps[0].AllowedOrigins[0] = "https://evil.example"
	if res, _ := ask(t, p, "OPTIONS", "/mcp/calendar", "Origin: https://evil.example"); res.StatusCode != 403 {
		t.Errorf("a later change took effect: status %d", res.StatusCode)
	}
}

// An endpoint that runs elsewhere: everything but the endpoint is here.
func TestEndpointElsewhere(t *testing.T) {
	p := mustNew(t, &publisher.Config{Origin: origin, Apps: []publisher.App{{Slug: "calendar", Card: calendarCard(), MCPURL: "https://mcp.example.net/calendar"}}})
	_, doc := ask(t, p, "GET", "/mcp/calendar/server-card")
	c, err := card.Parse([]byte(doc))
	if err != nil || c.Remotes[0].URL != "https://mcp.example.net/calendar" {
		t.Errorf("remotes %+v, error %v", c.Remotes, err)
	}
	if res, _ := ask(t, p, "POST", "/mcp/calendar"); res.StatusCode != 404 {
		t.Errorf("status %d", res.StatusCode)
	}
}

func TestRootPage(t *testing.T) {
	_, body := ask(t, mustNew(t, twoApps()), "GET", "/")
	if !strings.Contains(body, `href="/apps/calendar"`) || !strings.Contains(body, "示例笔记") || !strings.Contains(body, "<h1>Example Inc.</h1>") {
		t.Errorf("root page: %s", body)
	}
	cfg := twoApps()
	cfg.Apps[0].PageURL = "/"
	_, body = ask(t, mustNew(t, cfg), "GET", "/")
	if !strings.Contains(body, "<h1>Example Calendar</h1>") {
		t.Errorf("root page: %s", body)
	}
}

func BenchmarkCard(b *testing.B) {
	p, err := publisher.New(twoApps())
	if err != nil {
		b.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/mcp/calendar/server-card", nil)
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	r304 := r.Clone(b.Context())
	r304.Header.Set("If-None-Match", w.Header().Get("ETag"))
	for name, r := range map[string]*http.Request{"200": r, "304": r304} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.ServeHTTP(&discard{header: http.Header{}}, r)
			}
		})
	}
}

type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

// A header that hosts would drop never leaves this publisher (OB-5, OB-11).
func TestRule_DocumentsV6_NoHeaderThatHostsDrop(t *testing.T) {
	cfg := twoApps()
	c := &cfg.Apps[1].Card
	c.Remotes = []card.Remote{{Type: "streamable-http", URL: origin + "/mcp/notes", Versions: []string{card.ProtocolVersion}}}
	names := []string{"X-Api-Key", "authorization", "Accept", "CONTENT-TYPE", "Host", "Mcp-Session-Id", "X Key", ""}
	for _, name := range names {
		c.Remotes[0].Headers = append(c.Remotes[0].Headers, card.Header{Name: name})
	}
	_, err := publisher.New(cfg)
	if err == nil {
		t.Fatal("was published")
	}
	for i, name := range names {
		want := "Apps[1].Card: /remotes/0/headers/" + strconv.Itoa(i) + "/name: is " + strconv.Quote(name)
		if got := strings.Contains(err.Error(), want); got != (i > 0) {
			t.Errorf("%q is told: %v\n%v", want, got, err)
		}
	}
	c.Remotes[0].Headers = c.Remotes[0].Headers[:1]
	mustNew(t, cfg)
}
