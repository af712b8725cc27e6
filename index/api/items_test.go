package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/search"
	"github.com/openbot-build/openbot-go/internal/webtest"
)

// OB-140: the routes, ETags on reads, order. The scripts have the details.
func TestRule_OB140_Routes(t *testing.T) {
	s := open(t, sample(t), func(o *Options) { o.Now = time.Now })
	id := index.ID("https://calendar.example.com/card")
	for _, path := range []string{"/v1/apps", "/v1/apps?q=weather", "/v1/apps/" + id, "/v1/apps/by-card?url=https://calendar.example.com/card", "/v1/stats", "/openapi.json", "/", "/apps/" + id} {
		w := s.get(path)
		tag := w.Header().Get("ETag")
		if w.Code != http.StatusOK || !strings.HasPrefix(tag, `W/"`) {
			t.Errorf("%s: %d, ETag %q", path, w.Code, tag)
		}
		if w := s.get(path, "If-None-Match", tag); w.Code != http.StatusNotModified || w.Body.Len() > 0 || w.Header().Get("ETag") != tag {
			t.Errorf("%s with its ETag: %d, %d bytes", path, w.Code, w.Body.Len())
		}
		if w := s.do(http.MethodHead, path, ""); w.Code != http.StatusOK {
			t.Errorf("HEAD %s: %d", path, w.Code)
		}
	}
	for _, path := range []string{"/healthz", "/v1/healthz", "/readyz"} {
		if w := s.get(path); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	webtest.Run(t, open(t, sample(t), nil), "testdata/search.txt")
}

// OB-141: what an item has, and that no number looks like trust.
func TestRule_OB141_Items(t *testing.T) {
	s := open(t, sample(t), nil)
	v := object(t, s.get("/v1/apps"))
	items := v["items"].([]any)
	if len(items) != 3 {
		t.Fatalf("%d items", len(items))
	}
	for _, it := range items {
		it := it.(map[string]any)
		for _, name := range []string{"id", "cardUrl", "origin", "name", "version", "title", "description", "remotes", "websiteUrl", "evidence", "state", "checkedAt"} {
			if it[name] == nil {
				t.Errorf("%v has no %s", it["title"], name)
			}
		}
		for name, value := range it {
			if _, number := value.(float64); number {
				t.Errorf("%s is a number", name)
			}
		}
		if it["title"] == "Weather" && (it["state"] != "stale" || it["staleSince"] != "2026-11-20T12:00:00Z" || it["reason"] != "unconfirmed") {
			t.Errorf("stale item: %v", it)
		}
	}
}

// The title is the catalog's, else the card's, else a name (K2). Addresses that
// are no https ones are left out; templates give the origin they have.
func TestItem_fallbacksAndAddresses(t *testing.T) {
	e := entryFor(t, "https://a.example.com/card", "", "Text", func(e *index.Entry, c *card.Card) {
		e.FinalURL = "https://cdn.example.com/card"
		e.DisplayName = "From the catalog"
		c.Remotes = append(c.Remotes,
			card.Remote{Type: "sse", URL: "https://b.example.com:8443/{tenant}/sse"},
			card.Remote{Type: "streamable-http", URL: "https://{tenant}.example.com/mcp"},
			card.Remote{Type: "streamable-http", URL: "https://a.example.com/other"},
			card.Remote{Type: "streamable-http", URL: "http://plain.example.com/"})
		e.Document, _ = json.Marshal(c) // also what a validator might refuse
	})
	it, _ := itemOf(e)
	if it.Title != "From the catalog" || it.FinalURL != "https://cdn.example.com/card" || it.Origin != "https://a.example.com" {
		t.Errorf("%+v", it)
	}
	for in, want := range map[string]string{
		"https://b.example.com:8443/{tenant}/sse": "https://b.example.com:8443", "https://{tenant}.example.com/mcp": "",
		"http://plain.example.com/": "", "https://A.example.com?x": "https://a.example.com", "https://10.0.0.1/": "",
	} {
		e := entryFor(t, "https://a.example.com/card", "A", "Text", func(e *index.Entry, c *card.Card) {
			c.Remotes = []card.Remote{{Type: "streamable-http", URL: in}}
			e.Document, _ = json.Marshal(c)
		})
		if it, c := itemOf(e); c != nil && strings.Join(it.Remotes, " ") != want {
			t.Errorf("origin of %s is %q, want %q", in, it.Remotes, want)
		}
	}
	for in, want := range map[string]string{"javascript:alert(1)": "", "http://a.example.com/": "", "data:image/png,x": "", "https://A.example.com/x": "https://a.example.com/x", "": ""} {
		if got := httpsURL(in); got != want {
			t.Errorf("httpsURL(%q) = %q, want %q", in, got, want)
		}
	}
	e.DisplayName, e.Name = "", "com.example/app"
	if it, _ := itemOf(e); it.Title != "com.example/app" {
		t.Errorf("title %q", it.Title)
	}
	e.Name, e.Identifier = "", "urn:x:calendar"
	if it, _ := itemOf(e); it.Title != "calendar" {
		t.Errorf("title %q", it.Title)
	}
	if it, c := itemOf(&index.Entry{Document: []byte("{")}); c != nil || it.Title != "(no title)" || it.Remotes == nil {
		t.Errorf("%+v", it)
	}
}

// Each spliced body decodes into its type, with nothing left over (IX-60).
func TestRule_IX60_BodiesFitTheirTypes(t *testing.T) {
	s := open(t, sample(t), func(o *Options) { o.Now = time.Now })
	id := index.ID("https://calendar.example.com/card")
	for path, v := range map[string]any{
		"/v1/apps?limit=1": &appsPage{}, "/v1/apps?q=calendar": &appsPage{}, "/v1/apps/" + id: &detail{}, "/v1/stats": &statistics{},
		"/healthz": &health{}, "/readyz": &readiness{}, "/v1/apps?x": &problem{}, "/v1/apps/by-card?url=https://old.example.com/card": &problem{},
	} {
		w := s.get(path)
		dec := json.NewDecoder(w.Body)
		dec.DisallowUnknownFields()
		if err := dec.Decode(v); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if strings.Contains(path, "$schema") {
			t.Error("$schema")
		}
		if reflect.ValueOf(v).Elem().IsZero() {
			t.Errorf("%s: empty", path)
		}
	}
	webtest.Run(t, open(t, sample(t), nil), "testdata/errors.txt")
}

// D18: every result shows true origin and evidence; equal names stay apart.
func TestRule_D18_OriginAndEvidence(t *testing.T) {
	m := newMemory()
	m.put(entryFor(t, "https://one.example.com/card", "Same", "Text."), entryFor(t, "https://two.example.com/card", "Same", "Text."))
	s := open(t, m, nil)
	v := object(t, s.get("/v1/apps?q=same"))
	hosts := hostsOf(v)
	slices.Sort(hosts)
	if !slices.Equal(hosts, []string{"one.example.com", "two.example.com"}) {
		t.Errorf("hosts %q", hosts)
	}
	page := s.get("/?q=same").Body.String()
	for _, host := range hosts {
		if !strings.Contains(page, "<span>https://</span>"+host) || !strings.Contains(page, "https://"+host+"/.well-known/ai-catalog.json") {
			t.Errorf("the page does not show origin and evidence of %s", host)
		}
	}
}

// FO-35: one name, two apps; the card's address is the key.
func TestRule_FO35_CardURLIsTheKey(t *testing.T) {
	TestRule_D18_OriginAndEvidence(t)
	m := newMemory()
	m.put(entryFor(t, "https://one.example.com/card", "Same", "Old."))
	m.put(entryFor(t, "https://one.example.com/card", "Same", "New."))
	s := open(t, m, nil)
	v := object(t, s.get("/v1/apps?q=same"))
	if items := v["items"].([]any); len(items) != 1 || items[0].(map[string]any)["description"] != "New." {
		t.Errorf("items %v", items)
	}
}

func TestRule_FO36_ChineseTextIsFound(t *testing.T) {
	s := open(t, sample(t), nil)
	for _, q := range []string{"待办", "整理待办", "笔记", "记", "办事"} {
		if got := hostsOf(object(t, s.get("/v1/apps?q="+escape(q)))); !slices.Equal(got, []string{"notes.example.com"}) {
			t.Errorf("%s finds %q", q, got)
		}
	}
}

func TestRule_FO37_RelevanceFirst(t *testing.T) {
	m := newMemory()
	m.put(entryFor(t, "https://text.example.com/card", "App", "Plays chess."), entryFor(t, "https://title.example.com/card", "Chess", "Text."),
		entryFor(t, "https://stuffed.example.com/card", "Chess Chess Chess Chess", "Chess chess chess."), entryFor(t, "https://part.example.com/card", "Chessboard", "Text."))
	s := open(t, m, nil)
	want := []string{"title.example.com", "stuffed.example.com", "part.example.com", "text.example.com"}
	got := hostsOf(object(t, s.get("/v1/apps?q=chess")))
	if got[0] != want[0] || len(got) != 4 || slices.Index(got, "stuffed.example.com") == 0 {
		t.Errorf("order %q", got)
	}
	if s := s.get("/v1/apps?q=chess").Body.String(); strings.Contains(s, "score") {
		t.Error("a score is shown")
	}
}

// A removed or hidden app is a 410 with its reason while the tombstone stays;
// one that the store has but the search index does not yet is served.
func TestRemovedAndFresh(t *testing.T) {
	m := newMemory()
	m.put(removed("https://hidden.example.com/c", index.Hidden, index.ReasonUnconfirmed), removed("https://blocked.example.com/c", index.Blocked, index.ReasonBlocked))
	s := open(t, m, nil)
	for host, state := range map[string]string{"hidden": "hidden", "blocked": "blocked"} {
		w := s.get("/v1/apps/by-card?url=https://" + host + ".example.com/c")
		if v := object(t, w); w.Code != http.StatusGone || v["removed"].(map[string]any)["state"] != state {
			t.Errorf("%s: %d %v", host, w.Code, v)
		}
		if w := s.get("/apps/" + index.ID("https://"+host+".example.com/c")); w.Code != http.StatusGone || !strings.Contains(w.Body.String(), "has left the index") {
			t.Errorf("%s page: %d", host, w.Code)
		}
	}
	for _, r := range []index.Reason{index.ReasonDelisted, index.ReasonNoIndex, index.ReasonDisallowed, index.ReasonGone, index.ReasonInvalid, index.ReasonExpired, index.ReasonBlocked} {
		if !strings.HasSuffix(reasonText(r), ".") {
			t.Errorf("%s has no sentence", r)
		}
	}
	h := handlerOf(t, &site{store: m, search: search.New(nil)}, nil)
	e := entryFor(t, "https://fresh.example.com/c", "Fresh", "Text.")
	m.put(e)
	if got, p := h.entry(t.Context(), e.ID); p != nil || got != e {
		t.Errorf("fresh: %v %v", got, p)
	}
	m.fail = errors.New("away")
	if _, p := h.entry(t.Context(), e.ID); p == nil || p.Status != http.StatusServiceUnavailable {
		t.Errorf("lost store: %v", p)
	}
}
