package discovery_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/discovery"
	"github.com/openbot-build/openbot-go/internal/fetch"
)

// OB-40: everything that a review needs comes with the candidate.
func TestRule_OB40_Candidate(t *testing.T) {
	www := "https://www.example.com/card"
	w := newWeb(map[string]answer{
		known:   jsonCatalog(fmt.Sprintf(`{"identifier":"urn:air:example.com:mcp:calendar","displayName":"Calendar","type":%q,"url":"/mcp/server-card"}`, catalog.CardType)),
		cardURL: {to: www},
		www: jsonCard("calendar", `"title":"Calendar"`, remotes("2026-07-28"), `"_meta":{"openbot/presentation":{"version":"9","examples":[]}}`).
			with("ETag", `W/"abc"`).with("Last-Modified", "Mon, 30 Nov 2026 00:00:00 GMT").as("application/json"),
	})
	r, err := w.resolve(t, "apps.example.com", func(o *discovery.Options) { o.Confirm = true })
	if err != nil {
		t.Fatal(err)
	}
	c := r.Candidates[0]
	if c.CardURL != cardURL || c.FinalURL != www || c.NamedBy != known || c.ETag != `W/"abc"` || c.LastModified == "" || len(c.Hash) != 64 {
		t.Errorf("candidate: %+v", c)
	}
	if d := cmp.Diff([]fetch.Hop{{URL: cardURL, Status: 302, Location: www}}, c.Hops); d != "" {
		t.Error(d)
	}
	if c.Card.Title != "Calendar" || c.Endpoint == nil || c.Endpoint.URL != "https://apps.example.com/mcp" || c.Entry == nil || c.Entry.DisplayName != "Calendar" {
		t.Errorf("card %+v, endpoint %+v, entry %+v", c.Card, c.Endpoint, c.Entry)
	}
	if c.Presentation != nil || c.Ignored == nil || len(c.Warnings) != 2 {
		t.Errorf("presentation %+v, ignored %v, warnings %q", c.Presentation, c.Ignored, c.Warnings)
	}
	if c.Evidence == nil || c.Evidence.Kind != catalog.WellKnown || c.Evidence.Entry.Identifier != "urn:air:example.com:mcp:calendar" {
		t.Errorf("evidence: %+v", c.Evidence)
	}
	if r, err := w.resolve(t, "apps.example.com"); err != nil || r.Candidates[0].Evidence != nil {
		t.Errorf("evidence without being asked: %+v, %v", r, err)
	}
	r, err = w.resolve(t, cardURL)
	if err != nil || r.Candidates[0].NamedBy != "" || r.Candidates[0].Entry != nil {
		t.Errorf("a card address: %+v, %v", r, err)
	}
}

// A valid presentation block is handed on.
func TestPresentation(t *testing.T) {
	w := newWeb(map[string]answer{cardURL: jsonCard("x", `"_meta":{"openbot/presentation":{"version":"1","examples":[{"id":"a","title":"Plan","prompt":"Plan my week"}]}}`)})
	r, err := w.resolve(t, cardURL)
	if err != nil || r.Candidates[0].Ignored != nil || r.Candidates[0].Presentation == nil {
		t.Fatalf("%+v, %v", r, err)
	}
}

// OB-41: what cannot be used costs only itself; when nothing is left each
// reason is told.
func TestRule_OB41_NoCards(t *testing.T) {
	bad, old, gone := origin+"/bad", origin+"/old", origin+"/gone"
	w := twoApps()
	w.pages[bad] = answer{typ: card.MediaType, body: "{}"}
	w.pages[old] = jsonCard("old", remotes("2025-11-25"))
	w.pages[known] = jsonCatalog(lists(bad), lists(cardURL), lists(old), lists(gone))
	r, err := w.resolve(t, known)
	if err != nil || r.Shape != discovery.Multiple || len(r.Candidates) != 1 || len(r.Failed) != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	for i, want := range []discovery.Kind{discovery.InvalidCard, discovery.UnsupportedVersion, discovery.HTTPStatus} {
		if r.Failed[i].Kind != want {
			t.Errorf("failed %d: %v; want %s", i, r.Failed[i], want)
		}
	}

	w.pages[known] = jsonCatalog(lists(bad), lists(old), lists(gone))
	e := w.fails(t, known, discovery.NoCards)
	for _, want := range []discovery.Kind{discovery.InvalidCard, discovery.UnsupportedVersion, discovery.HTTPStatus} {
		if !errors.Is(e, want) {
			t.Errorf("%s is not in %v", want, e)
		}
	}
	for _, want := range []string{known, bad, old, gone} {
		if !strings.Contains(e.Error(), want) {
			t.Errorf("%s is not in the message: %v", want, e)
		}
	}

	w.pages[known] = jsonCatalog(entry(origin+"/", "text/html"))
	if e := w.fails(t, known, discovery.NoCards); !strings.Contains(e.Error(), "valid catalog, no MCP App listed") {
		t.Errorf("message: %v", e)
	}
	w.pages[known] = jsonCatalog(fmt.Sprintf(`{"identifier":"x","type":%q,"data":{}}`, card.MediaType))
	if e := w.fails(t, known, discovery.NoCards); !strings.Contains(e.Error(), "entry 0") || e.Err == nil {
		t.Errorf("message: %v", e)
	}
	// A card address has the card's own fault.
	w.fails(t, bad, discovery.InvalidCard)
	w.fails(t, old, discovery.UnsupportedVersion)
	w.pages[bad] = jsonCard("bad", `"remotes":[]`)
	w.fails(t, bad, discovery.InvalidCard)
	w.pages[bad] = jsonCard("bad", `"remotes":[{"type":"streamable-http","url":"https://{host}/mcp","supportedProtocolVersions":["2025-11-25"]}]`)
	w.fails(t, bad, discovery.InvalidCard)
}

// D10: an endpoint that declares no versions is left to a probe by the host.
func TestRule_D10_ProbeIsLeftToTheHost(t *testing.T) {
	w := newWeb(map[string]answer{cardURL: jsonCard("x", `"remotes":[{"type":"streamable-http","url":"https://apps.example.com/mcp"}]`)})
	r, err := w.resolve(t, cardURL)
	if err != nil || r.Candidates[0].Endpoint != nil || len(r.Candidates[0].Warnings) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if len(w.asked) != 1 {
		t.Errorf("asked %v", w.asked)
	}
}

// FO-02: `mediaType` is an older draft's; OB-T27: each entry has its reason.
func TestRule_FO02_MediaType(t *testing.T) {
	w := newWeb(map[string]answer{
		known:   jsonCatalog(`{"identifier":"urn:air:a.example:mcp:old","mediaType":"application/mcp-server-card+json","url":"https://apps.example.com/old"}`, lists(cardURL)),
		cardURL: jsonCard("new"),
	})
	r, err := w.resolve(t, known)
	if err != nil || r.Shape != discovery.Single || len(r.Skipped) != 1 || r.Skipped[0].Index != 0 || !strings.Contains(r.Skipped[0].Detail, "mediaType") {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRule_OBT27_EntriesCostThemselves(t *testing.T) {
	inline := fmt.Sprintf(`{"identifier":"x","type":%q,"data":{}}`, card.MediaType)
	w := twoApps()
	w.pages[known] = jsonCatalog(inline, `{"identifier":"x","mediaType":"a/b","url":"/x"}`, "null", lists(cardURL), "7", lists(notesURL))
	r, err := w.resolve(t, known)
	if err != nil || len(r.Candidates) != 2 || len(r.Skipped) != 4 {
		t.Fatalf("%+v, %v", r, err)
	}
	for i, index := range []int{0, 1, 2, 4} {
		if s := r.Skipped[i]; s.Index != index || s.Reason == "" || s.Detail == "" {
			t.Errorf("skipped %d: %+v", i, s)
		}
	}
	// Those of another catalog are counted.
	w.pages[origin+"/all.json"] = jsonCatalog(nests(known))
	r, err = w.resolve(t, origin+"/all.json")
	if err != nil || len(r.Skipped) != 0 || !slices.Contains(r.Warnings, known+": 4 entries cannot be used") {
		t.Errorf("%+v, %v", r, err)
	}
}

// FO-05: other types are nobody's fault.
func TestRule_FO05_OtherEntries(t *testing.T) {
	w := newWeb(map[string]answer{
		known:   {typ: catalog.MediaType, body: `{"specVersion":"1.0","x-note":1,"entries":[null,"hi",{"identifier":"urn:air:a.example:doc:map","type":"application/xml","url":"https://a.example/sitemap.xml"},{"identifier":"u","type":"website","url":"https://a.example/"},{"identifier":"urn:air:a.example:mcp:x","type":"Application/MCP-Server-Card+JSON; v=1","url":"https://apps.example.com/mcp/server-card","capabilities":["a"],"representativeQueries":["b"]}]}`},
		cardURL: jsonCard("x"),
	})
	r, err := w.resolve(t, known)
	if err != nil || r.Shape != discovery.Single || r.Others != 2 || len(r.Skipped) != 2 || len(r.Warnings) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// OB-43, D6, documents R9: a redirected card keeps its asked address.
func TestRule_OB43_RedirectedCard(t *testing.T)        { testRedirectedIdentity(t) }
func TestRule_D6_RedirectedCard(t *testing.T)          { testRedirectedIdentity(t) }
func TestRule_DocumentsR9_RedirectedCard(t *testing.T) { testRedirectedIdentity(t) }

func testRedirectedIdentity(t *testing.T) {
	first, target := origin+"/c", "https://www.example.net/card"
	w := newWeb(map[string]answer{
		first: {to: "/c2"}, origin + "/c2": {to: target}, target: jsonCard("x"),
		"https://www.example.net/.well-known/ai-catalog.json": jsonCatalog(lists(target), lists(first)),
	})
	r, err := w.resolve(t, first, func(o *discovery.Options) { o.Confirm = true })
	if err != nil {
		t.Fatal(err)
	}
	c := r.Candidates[0]
	if c.CardURL != first || c.FinalURL != target || len(c.Hops) != 2 || c.Evidence != nil {
		t.Errorf("%+v", c)
	}
}

// FO-07: apex to www works, downgrades and lost slashes name their place.
func TestRule_FO07_Redirects(t *testing.T) {
	apex, www := "https://example.com/.well-known/ai-catalog.json", "https://www.example.com/.well-known/ai-catalog.json"
	w := newWeb(map[string]answer{apex: {to: www}, www: jsonCatalog(lists("/card")), "https://www.example.com/card": jsonCard("x")})
	w.wants(t, "example.com", discovery.Single, "https://www.example.com/card")

	w.pages[apex] = answer{to: "http://www.example.com/.well-known/ai-catalog.json"}
	if e := w.fails(t, "example.com", discovery.NotHTTPS); !strings.Contains(e.Error(), apex) || !strings.Contains(e.Error(), "redirect 1") {
		t.Errorf("message: %v", e)
	}
	for i := range 7 {
		w.pages[fmt.Sprintf("%s/%d", origin, i)] = answer{to: fmt.Sprintf("/%d", i+1)}
	}
	w.fails(t, origin+"/1", discovery.TooManyRedirects)
	w.pages[origin+"/7"] = jsonCard("x")
	w.wants(t, origin+"/2", discovery.Single, origin+"/2")
}

// What a generic type costs is a warning; documents and entries keep theirs.
func TestWarnings(t *testing.T) {
	w := newWeb(map[string]answer{known: jsonCatalog(lists(cardURL)).as("application/json"), cardURL: jsonCard("x").as("")})
	r, err := w.resolve(t, known)
	if err != nil || len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], known) || len(r.Candidates[0].Warnings) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}
