package search

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/index"
)

// app is an entry in short.
type app struct {
	URL, Name, Title, Description string
	Tags, Prompts                 []string
	DisplayName, CatalogText      string
	Catalog                       string // of the evidence; the well-known one of the card's origin by default
	Kind                          catalog.Kind
	State                         index.State
}

// entry makes the entry that a crawl of a would store.
func (a app) entry(t testing.TB) *index.Entry {
	t.Helper()
	if a.Description == "" {
		a.Description = "An app."
	}
	c := card.Card{
		Schema: card.SchemaURL, Name: a.Name, Version: "1.0.0", Title: a.Title, Description: a.Description,
		Remotes: []card.Remote{{Type: "streamable-http", URL: a.URL, Versions: []string{card.ProtocolVersion}}},
	}
	if len(a.Prompts) > 0 {
		p := card.Presentation{Version: "1"}
		for i, text := range a.Prompts {
			p.Examples = append(p.Examples, card.Example{ID: fmt.Sprint("e", i+1), Title: text, Prompt: text})
		}
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		c.Meta = map[string]json.RawMessage{card.PresentationKey: raw}
	}
	doc, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(a.URL)
	if err != nil {
		t.Fatal(err)
	}
	e := &index.Entry{
		ID: index.ID(a.URL), CardURL: a.URL, FinalURL: a.URL, Document: doc, Name: a.Name, Version: "1.0.0",
		DisplayName: a.DisplayName, Description: a.CatalogText, Tags: a.Tags,
		Evidence: &catalog.Evidence{Kind: catalog.WellKnown, CatalogURL: "https://" + u.Host + catalog.WellKnownPath},
		State:    index.Listed, UpdatedAt: time.Unix(1_800_000_000, 0).UTC(), CheckedAt: time.Unix(1_800_000_000, 0).UTC(),
	}
	if a.Catalog != "" {
		e.Evidence.CatalogURL = a.Catalog
	}
	if a.Kind != "" {
		e.Evidence.Kind = a.Kind
	}
	if a.State != "" {
		e.State = a.State
	}
	return e
}

// simple is an app with an address of its own and not much else.
func simple(host, title, description string) app {
	return app{URL: "https://" + host + "/card", Name: "org.example/app", Title: title, Description: description}
}

// indexOf gives an index that holds apps.
func indexOf(t testing.TB, apps ...app) *Index {
	t.Helper()
	var entries []*index.Entry
	for _, a := range apps {
		entries = append(entries, a.entry(t))
	}
	x := New(nil)
	x.gen.Store(load(index.Head{Epoch: "e", Seq: int64(len(apps))}, entries))
	return x
}

func generationOf(t testing.TB, apps ...app) *generation { return indexOf(t, apps...).gen.Load() }

// find gives the card URLs of the first limit results.
func find(t testing.TB, x *Index, text string, limit int) []string {
	t.Helper()
	return urls(search(t, x, Query{Text: text, Limit: limit}))
}

func search(t testing.TB, x *Index, q Query) *Page {
	t.Helper()
	page, err := x.Search(context.Background(), q)
	if err != nil {
		t.Fatalf("search %q: %v", q.Text, err)
	}
	return page
}

func urls(p *Page) []string {
	out := []string{}
	for _, h := range p.Hits {
		out = append(out, h.Entry.CardURL)
	}
	return out
}

// all walks every page of a query.
func all(t testing.TB, x *Index, text string, limit int) []string {
	t.Helper()
	out := []string{}
	for q := (Query{Text: text, Limit: limit}); ; {
		page := search(t, x, q)
		out = append(out, urls(page)...)
		if page.Next == nil {
			return out
		}
		q.After = page.Next
	}
}

// analyze makes a query for a first page.
func (g *generation) analyze(text string) *query {
	q, err := g.counts().analyze(context.Background(), text)
	if err != nil {
		panic(err)
	}
	return q
}

func (g *generation) idf(df int) int64 { return g.counts().idf(df) }
