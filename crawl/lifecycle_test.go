package crawl

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

// OB-114, D14, FO-38: a card taken out of the catalog leaves at the next check;
// a catalog that cannot be read is no removal.
func TestRule_OB114_UnreachableIsNotRemoval(t *testing.T) {
	once(t, "unreachableCatalogs", unreachableCatalogs)
}

func TestRule_D14_OnlyACompleteCatalogRemoves(t *testing.T) {
	once(t, "unreachableCatalogs", unreachableCatalogs)
}

func TestRule_OB137_NeverAnEmptyCatalog(t *testing.T) {
	once(t, "unreachableCatalogs", unreachableCatalogs)
}

func TestRule_FO38_OneFailedFetch(t *testing.T) { once(t, "unreachableCatalogs", unreachableCatalogs) }

func TestRule_OBT20_DelistedAndUnreadable(t *testing.T) {
	once(t, "unreachableCatalogs", unreachableCatalogs)
	once(t, "staleEdges", staleEdges)
	once(t, "delisted", delisted)
}

func unreachableCatalogs(t *testing.T) {
	full := catalogJSON(cardURL)
	for name, answer := range map[string]string{
		"401":           "401\n",
		"403":           "403\n",
		"404":           "404\n",
		"410":           "410\n",
		"429":           "429\n",
		"500":           "500\n",
		"html":          "Content-Type: text/html\n\n<html></html>",
		"html as json":  "Content-Type: application/json\n\n<!doctype html><html></html>",
		"wrong type":    "Content-Type: image/png\n\n" + catalogJSON(),
		"bad json":      "Content-Type: application/json\n\n{\"specVersion\": }",
		"cut json":      "Content-Type: application/json\n\n" + full[:len(full)/2],
		"cut":           "cut\n\n" + full,
		"oversize":      "Content-Type: application/json\n\n" + catalogJSON() + strings.Repeat(" ", 1<<20),
		"higher major":  `{"specVersion": "2.0", "entries": []}`,
		"duplicates":    `{"specVersion": "1.0", "entries": [], "entries": []}`,
		"timeout":       "timeout\n",
		"reset":         "reset\n",
		"loop":          "302 " + catURL + "\n",
		"private":       "302 https://localhost/c.json\n",
		"robots refuse": "",
	} {
		t.Run(name, func(t *testing.T) {
			rule(t, func(t *testing.T, w *world) {
				w.published()
				if name == "robots refuse" {
					w.page(robotsAt, "200", "User-agent: *\nDisallow: /.well-known\n")
				} else {
					w.load("-- GET " + catURL + " --\n" + answer)
				}
				w.until(60 * time.Hour)
				if e := w.entry(cardURL); e.State != index.Stale {
					t.Fatalf("the entry is %s (%s): %s", e.State, e.Reason, w.sentence(cardURL))
				}
				w.load("-- GET " + robotsAt + " --\n404\n-- GET " + catURL + " --\n" + full)
				w.until(20 * day)
				w.wantState(cardURL, "listed")
			})
		})
	}
}

func delisted(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.published()
		w.page(catURL, "", catalogJSON()) // empty entries, too (FO-38)
		w.until(30 * time.Hour)
		w.wantState(cardURL, "removed delisted")
		w.wantSentence(catURL, "lists no MCP App")
		if e := w.entry(cardURL); e.Document != nil || e.Evidence != nil || e.Name != "com.example/notes" {
			t.Errorf("tombstone %+v", e)
		}
		w.page(catURL, "", catalogJSON(cardURL))
		w.until(12 * day)
		w.wantState(cardURL, "listed")
	})
}

// OB-130: a lead is dropped after three failed checks over seven days, and the
// catalog that names it does not bring it back at once.
func TestRule_OB130_LeadsAreGivenUp(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page("https://lists.example.net/.well-known/ai-catalog.json", `ETag: "1"`, catalogJSON(cardURL))
		w.page(cardURL, "500", "")
		w.add("lists.example.net")
		w.until(7*day - time.Hour)
		if w.doc(cardURL).Fails < 3 || w.outcome(cardURL) != "unreachable" {
			t.Fatalf("%+v", w.doc(cardURL))
		}
		w.until(13 * day)
		if w.outcome(cardURL) != "dropped" {
			t.Fatalf("outcome %s", w.outcome(cardURL))
		}
		w.wantSentence(cardURL, "submit it again")
		n := len(w.requests(cardURL))
		w.until(14 * day)
		if more := len(w.requests(cardURL)) - n; more != 0 {
			t.Errorf("%d requests after it was given up", more)
		}
		w.add(cardURL) // a person may
		w.settle()
		if len(w.requests(cardURL)) == n {
			t.Error("not visited after it was added again")
		}
	})
}

// OB-131: what is stored of a listed card.
func TestRule_OB131_WhatIsStored(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.published()
		e, d := w.entry(cardURL), w.doc(cardURL)
		if e.Evidence.CatalogURL != catURL || len(e.Hash) != 64 || e.Hash != d.Hash || e.CheckedAt.IsZero() || e.FirstSeen.IsZero() ||
			string(e.Document) != string(d.Body) || e.Identifier != "urn:air:example.com:mcp:app1" || e.Name != "com.example/notes" || e.ID != index.ID(cardURL) {
			t.Errorf("entry %+v", e)
		}
		if d.ETag != `"card"` || d.FinalURL != cardURL || d.ReadAt.IsZero() || d.FullGetAt.IsZero() || d.NextAt.IsZero() {
			t.Errorf("doc %+v", d)
		}
	})
}

// OB-132: stale is hidden after 30 days in that state and dropped after 90.
func TestRule_OB132_StaleHiddenDropped(t *testing.T) { once(t, "staleEdges", staleEdges) }

func staleEdges(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.published()
		w.page(catURL, "500", "")
		w.until(2 * day)
		w.wantState(cardURL, "stale unconfirmed")
		since := w.entry(cardURL).StaleSince.Sub(w.start)
		w.until(since + 30*day - time.Minute)
		w.wantState(cardURL, "stale unconfirmed")
		w.until(since + 30*day + time.Minute)
		w.wantState(cardURL, "hidden unconfirmed")
		w.until(since + 90*day - time.Minute)
		w.wantState(cardURL, "hidden unconfirmed")
		w.until(since + 90*day + time.Minute)
		w.wantState(cardURL, "removed stale_90_days")
		w.page(catURL, "", catalogJSON(cardURL))
		w.until(since + 120*day)
		w.wantState(cardURL, "listed")
	})
}

// OB-133, D15: what the card's own answers do.
func TestRule_OB133_CardAnswers(t *testing.T) { once(t, "cardAnswers", cardAnswers) }

func TestRule_D15_TheCardItself(t *testing.T) {
	once(t, "cardAnswers", cardAnswers)
	once(t, "noIndexRoundTrip", noIndexRoundTrip)
}

func cardAnswers(t *testing.T) {
	full := cardJSON("com.example/notes", "")
	for _, tt := range []struct{ name, answer, first, later string }{
		{"404", "404\n", "stale card_gone", "removed card_gone"},
		{"410", "410\n", "stale card_gone", "removed card_gone"},
		{"invalid", `{"$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json", "name": "x"}`, "stale card_invalid", "removed card_invalid"},
		{"no usable remote", strings.Replace(full, "2026-07-28", "2025-11-25", 1), "stale card_invalid", "removed card_invalid"},
		{"401", "401\n", "stale card_unreachable", "stale card_unreachable"},
		{"403", "403\n", "stale card_unreachable", "stale card_unreachable"},
		{"429", "429\n", "stale card_unreachable", "stale card_unreachable"},
		{"500", "500\n", "stale card_unreachable", "stale card_unreachable"},
		{"html", "<html></html>", "stale card_unreachable", "stale card_unreachable"},
		{"cut json", "Content-Type: application/mcp-server-card+json\n\n" + full[:len(full)/2], "stale card_unreachable", "stale card_unreachable"},
		{"oversize", full + strings.Repeat(" ", 1<<20), "stale card_unreachable", "stale card_unreachable"},
		{"reset", "reset\n", "stale card_unreachable", "stale card_unreachable"},
		{"noindex", "X-Robots-Tag: noindex\n\n" + full, "removed noindex", "removed noindex"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rule(t, func(t *testing.T, w *world) {
				w.published()
				w.load("-- GET " + cardURL + " --\n" + tt.answer)
				w.until(27 * time.Hour)
				w.wantState(cardURL, tt.first)
				w.until(80 * time.Hour)
				w.wantState(cardURL, tt.later)
			})
		})
	}
	t.Run("robots unreachable without rules", func(t *testing.T) {
		rule(t, func(t *testing.T, w *world) { // D38: a stored 404 counts for 7 days, then nothing is fetched
			w.published()
			w.page(robotsAt, "503", "")
			w.until(7 * day)
			w.wantState(cardURL, "listed")
			w.until(16 * day)
			w.wantState(cardURL, "stale card_unreachable")
		})
	})
}

// OB-134: all kinds of evidence are tried before a removal; moving from one
// kind to another is none.
func TestRule_OB134_AllKindsFirst(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.published()
		w.page(cardURL, `Link: <https://lists.example.net/c.json>; rel="ai-catalog"`, cardJSON("com.example/notes", ""))
		w.page("https://lists.example.net/c.json", "", catalogJSON(cardURL))
		w.page(catURL, "", catalogJSON())
		for h := range 60 {
			w.until(time.Duration(h) * time.Hour)
			w.wantState(cardURL, "listed")
		}
		if e := w.entry(cardURL); e.Evidence.Kind != "link-header" {
			t.Errorf("evidence %+v", e.Evidence)
		}
	})
	t.Run("nested parts unread", func(t *testing.T) {
		rule(t, func(t *testing.T, w *world) {
			w.page(catURL, "", `{"specVersion": "1.0", "entries": [{"identifier": "n", "type": "application/ai-catalog+json", "url": "/part.json"}]}`)
			w.page(appsHost+"/part.json", "", catalogJSON(cardURL))
			w.page(cardURL, "", cardJSON("com.example/notes", ""))
			w.add("apps.example.com")
			w.settle()
			w.wantState(cardURL, "listed")
			w.page(appsHost+"/part.json", "500", "")
			w.until(60 * time.Hour)
			w.wantState(cardURL, "stale unconfirmed")
			w.page(appsHost+"/part.json", "", catalogJSON())
			w.until(12 * day)
			w.wantState(cardURL, "removed delisted")
		})
	})
}

// OB-135: a ping moves a check forward, at most once in ten minutes an origin.
func TestRule_OB135_RecheckAndPing(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.published()
		n := len(w.requests(appsHost))
		ping := func() {
			if _, err := w.store.AddSource(t.Context(), time.Now(), index.NewDoc{URL: cardURL, Kind: index.CardDoc, Class: index.ClassUser, Ping: true}); err != nil {
				t.Fatal(err)
			}
			w.settle()
		}
		w.until(2 * time.Hour)
		ping()
		if len(w.requests(cardURL)) != 2 {
			t.Fatalf("requests after a ping: %v", w.requests(cardURL))
		}
		for range 5 {
			ping()
		}
		if got := len(w.requests(cardURL)); got != 2 {
			t.Errorf("%d requests for the card after six pings", got)
		}
		if got := len(w.requests(appsHost)) - n; got > 3 {
			t.Errorf("a ping cost %d requests", got)
		}
	})
}

// OB-136, C5, C6, C7, documents R6.
func TestRule_OB136_Conditional(t *testing.T) {
	once(t, "noIndexRoundTrip", noIndexRoundTrip)
	once(t, "fullGetEvery30Days", fullGetEvery30Days)
}

func noIndexRoundTrip(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.published()
		w.page(cardURL, "ETag: \"card\"\nX-Robots-Tag: noindex", cardJSON("com.example/notes", "")) // a 304 with a new header
		w.until(30 * time.Hour)
		w.wantState(cardURL, "removed noindex")
		from := len(w.requests(cardURL))
		w.page(cardURL, `ETag: "card"`, cardJSON("com.example/notes", ""))
		w.until(60 * time.Hour)
		w.wantState(cardURL, "listed")
		if r := w.requests(cardURL)[from]; r.Header.Get("If-None-Match") != "" {
			t.Errorf("validators were sent while noindex was stored: %v", r.Header)
		}
	})
}

func TestRule_OBT21_NoIndexAndGone(t *testing.T) {
	once(t, "noIndexRoundTrip", noIndexRoundTrip)
	once(t, "cardAnswers", cardAnswers)
}

// OB-138, D35: entry, outcome and next visit come together, and the outcome
// explains itself.
func TestRule_OB138_OutcomesExplain(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.published()
		x, err := Explain(t.Context(), w.store, cardURL)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if _, err := x.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"In the index: " + catURL + " lists it", "robots", "allow", "fetch", "200", "evidence", "proven", "next visit"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("no %q in\n%s", want, b.String())
			}
		}
		if x.Outcomes[0].NextAt != x.Doc.NextAt {
			t.Errorf("outcome says %s, the frontier %s", x.Outcomes[0].NextAt, x.Doc.NextAt)
		}
	})
}

// FO-35: equal names never merge; one leaves, only that one goes.
func TestRule_FO35_EqualNames(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		for i, host := range []string{"a.example.com", "b.example.net"} {
			url := "https://" + host
			w.page(url+"/.well-known/ai-catalog.json", "", catalogJSON(url+"/c"))
			w.page(url+"/c", "", cardJSON("com.acme/notes", fmt.Sprintf(`, "title": "Notes %d"`, i)))
			w.add(host)
		}
		w.settle()
		w.wantState("https://a.example.com/c", "listed")
		w.wantState("https://b.example.net/c", "listed")
		w.page("https://a.example.com/.well-known/ai-catalog.json", "", catalogJSON())
		w.until(30 * time.Hour)
		w.wantState("https://a.example.com/c", "removed delisted")
		w.wantState("https://b.example.net/c", "listed")
	})
}
