package crawl

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

const (
	evilHost = "https://evil.example.net"
	evilCat  = evilHost + wellKnownPath
)

func nestedJSON(urls ...string) string {
	entries := make([]string, len(urls))
	for i, u := range urls {
		entries[i] = fmt.Sprintf(`{"identifier": "n%d", "type": "application/ai-catalog+json", "url": %q}`, i, u)
	}
	return `{"specVersion": "1.0", "entries": [` + strings.Join(entries, ", ") + `]}`
}

// A4, D11, OB-37: what a stranger calls a document is only a hint; its answer
// decides, before the publisher is known and after.
func TestRule_CrawlerA4_KindIsAHint(t *testing.T)      { once(t, "kindIsAHint", kindIsAHint) }
func TestRule_D11_TheAnswerTellsTheKind(t *testing.T)  { once(t, "kindIsAHint", kindIsAHint) }
func TestRule_OB37_ClassifiedByItsAnswer(t *testing.T) { once(t, "kindIsAHint", kindIsAHint) }
func TestRule_OB110_StrangersCannotBlock(t *testing.T) { once(t, "kindIsAHint", kindIsAHint) }

func kindIsAHint(t *testing.T) {
	const site = appsHost + "/site"
	for _, tt := range []struct {
		name, evil, url string
		kind            index.Kind
	}{
		{"catalog called a card", catalogJSON(catURL), catURL, index.CatalogDoc},
		{"card called a catalog", nestedJSON(cardURL), cardURL, index.CardDoc},
		{"page called a card", catalogJSON(site), site, index.PageDoc},
	} {
		for _, early := range []bool{true, false} { // whether the stranger comes before the publisher's pages
			t.Run(fmt.Sprintf("%s, early %t", tt.name, early), func(t *testing.T) {
				rule(t, func(t *testing.T, w *world) {
					publish := func() {
						if tt.url == site {
							w.page(site, "Content-Type: text/html", `<html><head><link rel="ai-catalog" href="/c.json"></head></html>`)
							w.page(appsHost+"/c.json", "", catalogJSON(cardURL))
						} else {
							w.page(catURL, "", catalogJSON(cardURL))
						}
						w.page(cardURL, "", cardJSON("com.example/notes", fmt.Sprintf(`, "websiteUrl": %q`, site)))
					}
					w.page(evilCat, "", tt.evil)
					if !early {
						publish()
					}
					w.add("evil.example.net")
					w.until(time.Hour)
					publish()
					w.add("apps.example.com", cardURL)
					w.until(2 * time.Hour)
					w.wantState(cardURL, "listed")
					if d := w.doc(tt.url); d.Kind != tt.kind {
						t.Errorf("%s is a %q", tt.url, d.Kind)
					}
				})
			})
		}
	}
}

// D15, OB-133: an entry's card that answers like a page for a time stays a card.
func TestRule_D15_APageOfErrorsIsNoNewKind(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.published()
		w.page(cardURL, "Content-Type: text/html", "<html>down</html>")
		w.until(40 * day)
		w.wantState(cardURL, "hidden card_unreachable")
		w.page(cardURL, "", cardJSON("com.example/notes", ""))
		w.until(50 * day)
		w.wantState(cardURL, "listed")
	})
}

// G9, D12: five redirects in all, over any number of visits; nothing spins.
func TestRule_CrawlerG9_ChainsOverVisits(t *testing.T)  { once(t, "endlessChains", endlessChains) }
func TestRule_D12_FiveRedirectsOverVisits(t *testing.T) { once(t, "endlessChains", endlessChains) }

func endlessChains(t *testing.T) {
	pair := func(w *world, to func(other string, n int64) string) {
		var n atomic.Int64
		for host, other := range map[string]string{"a.example.net": "b.example.org", "b.example.org": "a.example.net"} {
			w.net.Handle(host, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				target := to(other, n.Add(1))
				switch {
				case r.URL.Path == "/robots.txt":
					http.NotFound(rw, r)
				case target == "":
					http.Error(rw, "x", http.StatusInternalServerError)
				default:
					http.Redirect(rw, r, target, http.StatusFound)
				}
			}))
		}
		w.net.Handle("victim.example.com", http.NotFoundHandler())
	}
	for name, to := range map[string]func(other string, n int64) string{
		"ever new": func(other string, n int64) string { return fmt.Sprintf("https://%s/x?%d", other, n) },
		"now and then": func(other string, n int64) string {
			if n%2 == 0 {
				return ""
			}
			return "https://" + other + "/x"
		},
		"to a third party": func(_ string, n int64) string { return fmt.Sprintf("https://victim.example.com/search?q=%d", n) },
	} {
		t.Run(name, func(t *testing.T) {
			rule(t, func(t *testing.T, w *world) {
				pair(w, to)
				w.add("https://a.example.net/x")
				w.until(6 * time.Hour)
				if n := len(w.net.Requests()); n > 40 {
					t.Errorf("%d requests in six hours", n)
				}
				st, err := w.store.Stats(t.Context(), time.Now())
				if err != nil || st.Documents > 12 {
					t.Errorf("%d documents, %v", st.Documents, err)
				}
			})
		})
	}
}

// A2, P6: the cards of one domain send few requests to another domain, and
// none that go before that domain's own documents.
func TestRule_CrawlerA2_CardsAreNoAmplifier(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		var cards []string
		for i := range 60 {
			u := fmt.Sprintf("%s/c/%d", evilHost, i)
			cards = append(cards, u)
			var links []string
			for j := range 8 {
				links = append(links, fmt.Sprintf(`<https://victim.example.org/%d/%d>; rel="ai-catalog"`, i, j))
			}
			w.page(u, "Link: "+strings.Join(links, ", "), cardJSON("net.example/x", ""))
		}
		w.net.Handle("victim.example.org", http.NotFoundHandler())
		w.page(evilCat, "", catalogJSON(cards...))
		w.add("evil.example.net")
		w.until(3 * time.Hour)
		seen := map[string]bool{}
		for _, r := range w.requests("https://victim.example.org/") {
			seen[r.URL] = true
		}
		if n := len(seen); n > 101 { // and robots.txt
			t.Errorf("%d addresses of a third party", n)
		}
		for url := range seen {
			if d, err := w.store.Doc(t.Context(), url); err == nil && d.Class < index.ClassRecheck {
				t.Errorf("%s has class %d", url, d.Class)
			}
		}
	})
}

func TestRule_CrawlerP6_ForeignWishesAreNotUrgent(t *testing.T) {
	v := &visit{host: "evil.example.net"}
	for _, tt := range []struct {
		url  string
		was  index.Class
		live bool
		want index.Class
	}{
		{"https://victim.example.org/c.json", index.ClassRecheck, true, index.ClassNew},
		{"https://victim.example.org/c.json", index.ClassUser, false, index.ClassNew},
		{"https://www.example.net/c.json", index.ClassRecheck, true, index.ClassRemoval},
		{"https://www.example.net/c.json", index.ClassUser, false, index.ClassUser},
		{"https://evil.example.net/c.json", index.ClassRecheck, false, index.ClassNew},
	} {
		if got := v.evidenceClass(&work{was: index.Doc{Class: tt.was}, live: tt.live}, tt.url); got != tt.want {
			t.Errorf("%+v: class %d", tt, got)
		}
	}
	urls := []string{"https://victim.example.org/0", "https://evil.example.net/0"}
	for i := range 9 {
		urls = append(urls, fmt.Sprintf("https://victim.example.org/%d", i+1))
	}
	if got := v.followed(urls); len(got) != 4 || got[1] != "https://evil.example.net/0" {
		t.Errorf("followed: %v", got)
	}
}

// D34, E3: an address that redirects anywhere says nothing about its owner: the
// evidence is named after the document that lists the card.
func TestRule_DocumentsE3_OpenRedirect(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page("https://bank.example.com/r", "302 "+evilHost+"/c.json", "")
		w.page(evilHost+"/card", `Link: <https://bank.example.com/r>; rel="ai-catalog"`, cardJSON("com.bank/app", ""))
		w.page(evilHost+"/c.json", "", catalogJSON(evilHost+"/card"))
		w.add(evilHost + "/card")
		w.until(time.Hour)
		w.wantState(evilHost+"/card", "listed")
		if e := w.entry(evilHost + "/card"); e.Evidence.CatalogURL != evilHost+"/c.json" || len(e.Evidence.Chain) != 2 {
			t.Errorf("evidence %+v", e.Evidence)
		}
		// It can be taken back there.
		w.page(evilHost+"/c.json", "", catalogJSON())
		w.until(3 * day)
		w.wantState(evilHost+"/card", "removed delisted")
	})
}

// What an entry takes over from a catalog is cut to a length fit for a list.
func TestLongTextsAreCut(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		tags := strings.Repeat(`"`+strings.Repeat("é", 100)+`", `, 50) + `"z"`
		more := fmt.Sprintf(`"displayName": %q, "description": %q, "tags": [%s], "url"`, strings.Repeat("名", 500), strings.Repeat("d", 5000), tags)
		w.page(catURL, "", strings.Replace(catalogJSON(cardURL), `"url"`, more, 1))
		w.page(cardURL, "", cardJSON("com.example/notes", ""))
		w.add("apps.example.com")
		w.settle()
		e := w.entry(cardURL)
		if e.DisplayName != strings.Repeat("名", 200) || len(e.Description) != 1000 || len(e.Tags) != 32 || e.Tags[0] != strings.Repeat("é", 64) {
			t.Errorf("%d, %d, %d tags", len(e.DisplayName), len(e.Description), len(e.Tags))
		}
		seq := e.Seq
		w.until(3 * day)
		if e = w.entry(cardURL); e.Seq != seq {
			t.Errorf("published again: %d after %d", e.Seq, seq)
		}
	})
}
