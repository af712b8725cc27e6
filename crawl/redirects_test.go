package crawl

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

// P4: a hop or evidence on another origin is read on that host's own visit,
// with its own robots.txt and gaps.
func TestRule_CrawlerP4_OtherOrigins(t *testing.T) { once(t, "apexToWWW", apexToWWW) }

func TestRule_FO07_ApexToWWW(t *testing.T) {
	once(t, "apexToWWW", apexToWWW)
	once(t, "badRedirects", badRedirects)
}

func TestRule_DocumentsR7_HopsUnderRobots(t *testing.T) {
	once(t, "apexToWWW", apexToWWW)
	once(t, "robotsEverywhere", robotsEverywhere)
}

func apexToWWW(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		const apex, www = "https://example.com", "https://www.example.com"
		w.page(www+"/robots.txt", "200", "User-agent: *\nCrawl-delay: 7\n")
		for _, path := range []string{"/.well-known/ai-catalog.json", "/card", "/robots.txt"} {
			w.page(apex+path, "307 "+www+path, "")
		}
		w.page(www+"/.well-known/ai-catalog.json", "", catalogJSON(apex+"/card"))
		w.page(www+"/card", "", cardJSON("com.example/notes", ""))
		w.add("example.com")
		w.settle()
		w.wantState(apex+"/card", "listed")
		w.wantState(www+"/card", "-") // it lends nothing to its target (D6)
		e := w.entry(apex + "/card")
		if e.FinalURL != www+"/card" || strings.Join(e.Chain, " ") != apex+"/card "+www+"/card" {
			t.Errorf("final %s, chain %v", e.FinalURL, e.Chain)
		}
		if e.Evidence.CatalogURL != apex+"/.well-known/ai-catalog.json" || len(e.Evidence.Chain) != 2 {
			t.Errorf("evidence %+v", e.Evidence)
		}
		w.until(40 * day)
		w.wantState(apex+"/card", "listed")
		w.wantGaps(apex, 7*time.Second)
		// The hops of a robots.txt count too, once the file with the delay is known.
		own := w.requests(www + "/")
		for i := 2; i < len(own); i++ {
			if d := own[i].Time.Sub(own[i-1].Time); d < 7*time.Second {
				t.Errorf("%s came %s after %s", own[i], d, own[i-1])
			}
		}
		if n := len(own); n > 130 { // half of them for robots.txt
			t.Errorf("%d requests to www in 40 days", n)
		}
	})
}

// R9, D6: a redirected card keeps the asked URL as its identity.
func TestRule_DocumentsR9_RedirectedCard(t *testing.T) { once(t, "apexToWWW", apexToWWW) }
func TestRule_D6_RedirectedCard(t *testing.T)          { once(t, "apexToWWW", apexToWWW) }

// G9, D12: at most five redirects, over all hosts; https at each hop.
func TestRule_CrawlerG9_Redirects(t *testing.T) { once(t, "badRedirects", badRedirects) }

func badRedirects(t *testing.T) {
	t.Run("five hops over hosts", func(t *testing.T) {
		rule(t, func(t *testing.T, w *world) { hopsOverHosts(w, 5); w.wantState(cardURL, "listed") })
	})
	t.Run("six hops over hosts", func(t *testing.T) {
		rule(t, func(t *testing.T, w *world) {
			hopsOverHosts(w, 6)
			w.wantState(cardURL, "-")
			w.wantSentence(cardURL, "redirected more than 5 times")
		})
	})
	t.Run("ring over hosts", func(t *testing.T) {
		rule(t, func(t *testing.T, w *world) {
			w.page(catURL, "", catalogJSON(cardURL))
			w.page(cardURL, "302 https://b.example.net/card", "")
			w.page("https://b.example.net/card", "302 "+cardURL, "")
			w.add(cardURL)
			w.until(12 * time.Hour)
			w.wantState(cardURL, "-")
			if n := len(w.requests(cardURL)); n > 12 || w.visits > 60 {
				t.Errorf("asked %d times on %d visits in half a day", n, w.visits)
			}
		})
	})
	for name, to := range map[string]string{
		"downgrade": "http://apps.example.com/x", "lost slash": "https://apps.example.well-known/ai-catalog.json",
		"user-info": "https://u:p@apps.example.com/x", "private": "https://169.254.169.254/", "empty": "",
	} {
		t.Run(name, func(t *testing.T) {
			rule(t, func(t *testing.T, w *world) {
				w.published()
				w.page(catURL, "302 "+to, "")
				w.until(3 * day)
				if e := w.entry(cardURL); e.State != index.Stale {
					t.Fatalf("%s: %s", e.State, w.sentence(catURL))
				}
			})
		})
	}
}

func hopsOverHosts(w *world, n int) {
	w.page(catURL, "", catalogJSON(cardURL))
	at := cardURL
	for i := range n {
		next := fmt.Sprintf("https://h%d.example.net/card", i)
		w.page(at, "302 "+next, "")
		at = next
	}
	w.page(at, "", cardJSON("com.example/notes", ""))
	w.add("apps.example.com")
	w.until(3 * day)
}

// D7, documents K6: nested catalogs, 4 levels and 50 documents.
func TestRule_D7_NestedCatalogs(t *testing.T) {
	nest := func(url string) string {
		return fmt.Sprintf(`{"identifier": "n", "type": "application/ai-catalog+json", "url": %q}`, url)
	}
	t.Run("levels", func(t *testing.T) {
		rule(t, func(t *testing.T, w *world) {
			at := catURL
			for i := range 8 {
				next := fmt.Sprintf("%s/level/%d", appsHost, i+1)
				w.page(at, "", `{"specVersion": "1.0", "entries": [`+nest(next)+`]}`)
				at = next
			}
			w.add("apps.example.com")
			w.until(2 * day)
			if n := len(w.requests(appsHost + "/level/")); n == 0 || len(w.requests(appsHost+"/level/4")) == 0 || len(w.requests(appsHost+"/level/5")) != 0 {
				t.Errorf("requests %v", w.requests(appsHost+"/level/"))
			}
		})
	})
	t.Run("documents", func(t *testing.T) {
		rule(t, func(t *testing.T, w *world) {
			var entries []string
			for i := range 80 {
				url := fmt.Sprintf("%s/part/%d", appsHost, i)
				w.page(url, "", catalogJSON())
				entries = append(entries, nest(url))
			}
			w.page(catURL, "", `{"specVersion": "1.0", "entries": [`+strings.Join(entries, ",")+`]}`)
			w.add("apps.example.com")
			w.until(day / 2)
			seen := map[string]bool{}
			for _, r := range w.requests(appsHost + "/part/") {
				seen[r.URL] = true
			}
			if len(seen) != 49 { // and the root
				t.Errorf("%d nested catalogs read", len(seen))
			}
		})
	})
}

// An apex page that is redirected to www leads to the catalog that www names.
func TestRedirectedPage(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page("https://example.com/notes", "301 https://www.example.com/notes", "")
		w.page("https://www.example.com/notes", "", "<html><head><link rel=ai-catalog href=/c.json></head></html>")
		w.page("https://www.example.com/c.json", "", catalogJSON(cardURL))
		w.page(cardURL, "", cardJSON("com.example/notes", `, "websiteUrl": "https://example.com/notes"`))
		w.add("https://example.com/notes")
		w.settle()
		w.wantState(cardURL, "listed")
		w.wantSentence("https://example.com/notes", "it names the catalog https://www.example.com/c.json")
		if e := w.entry(cardURL); e.Evidence.Kind != "website" || len(e.Evidence.Chain) != 3 {
			t.Errorf("evidence %+v", e.Evidence)
		}
	})
}

// A card that names itself, or a sibling card, as its website is only without
// evidence; it neither waits for ever nor spins.
func TestCardsThatNameCards(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		other := appsHost + "/other"
		w.page(cardURL, "", cardJSON("com.example/notes", fmt.Sprintf(`, "websiteUrl": %q`, cardURL)))
		w.page(other, "", cardJSON("com.example/other", fmt.Sprintf(`, "websiteUrl": %q`, cardURL)))
		w.add(cardURL, other)
		w.until(30 * time.Minute)
		if w.outcome(cardURL) != "unconfirmed" || w.outcome(other) != "unconfirmed" || w.visits > 12 {
			t.Errorf("%s, %s, %d visits", w.outcome(cardURL), w.outcome(other), w.visits)
		}
	})
}

// A page that asks not to be indexed is followed no further, also behind a
// redirect.
func TestNoIndexPageBehindARedirect(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page("https://example.com/notes", "301 https://www.example.com/notes", "")
		w.page("https://www.example.com/notes", "X-Robots-Tag: noindex", "<html><head><link rel=ai-catalog href=/c.json></head></html>")
		w.page("https://www.example.com/c.json", "", catalogJSON(cardURL))
		w.add("https://example.com/notes")
		w.settle()
		if a, b := w.outcome("https://example.com/notes"), w.outcome("https://www.example.com/notes"); a != "noindex" || b != "noindex" {
			t.Errorf("%s, %s", a, b)
		}
		if n := len(w.requests("https://www.example.com/c.json")); n != 0 {
			t.Errorf("%d requests for its catalog", n)
		}
	})
}

// A redirected catalog speaks for the asked origin only while that origin says
// so itself.
func TestRedirectThatCannotBeReadProvesNothing(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page("https://example.com"+wellKnownPath, "302 https://www.example.net/c.json", "")
		w.page("https://www.example.net/c.json", "", catalogJSON(cardURL))
		w.page(cardURL, `Link: <https://example.com/.well-known/ai-catalog.json>; rel=ai-catalog`, cardJSON("com.example/notes", ""))
		w.add(cardURL)
		w.settle()
		w.wantState(cardURL, "listed")
		w.net.SetConnect("example.com", "refused")
		w.until(3 * day)
		w.wantState(cardURL, "stale unconfirmed")
		w.net.SetConnect("example.com", "ok")
		w.until(14 * day)
		w.wantState(cardURL, "listed")
	})
}
