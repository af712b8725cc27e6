package crawl

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/sqlite"
	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/publicnet"
)

func (w *world) explained(url string) string {
	w.t.Helper()
	x, err := Explain(w.t.Context(), w.store, url)
	if err != nil {
		w.t.Fatal(err)
	}
	var b strings.Builder
	if _, err := x.WriteTo(&b); err != nil {
		w.t.Fatal(err)
	}
	return b.String()
}

func TestExplain(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		want := func(url string, parts ...string) {
			t.Helper()
			got := w.explained(url)
			for _, p := range parts {
				if !strings.Contains(got, p) {
					t.Errorf("why %s does not say %q:\n%s", url, p, got)
				}
			}
		}
		want("nobody.example.com", "It is not known here")
		w.page(catURL, "", catalogJSON(cardURL))
		w.page(cardURL, "", cardJSON("com.example/notes", ""))
		w.add("apps.example.com")
		want("apps.example.com", "was not visited yet", "next visit due since "+stamp(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)))
		w.settle()
		want("apps.example.com", "The catalog was read: 1 card.", "see also", cardURL+": In the index", "robots", "fetch     200")
		want(cardURL, "entry     listed, listed by "+catURL, "evidence  proven", "last visit")
		w.page(catURL, "500", "")
		w.page(robotsAt, "503", "")
		w.until(60 * time.Hour)
		want(cardURL, "marked as stale", "entry     stale (unconfirmed)", "earlier")
		want("apps.example.com", "answered with status 500 Internal Server Error. Entries that rest on it are kept, marked as stale.", "robots.txt of apps.example.com: robots.txt answered 503 (tried ")
	})
	if _, err := Explain(t.Context(), nil, "http://x"); err == nil {
		t.Error("an http address was explained")
	}
}

func TestExplainGivenUp(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page(cardURL, "500", "")
		w.add(cardURL)
		w.until(15 * day)
		if got := w.explained(cardURL); w.outcome(cardURL) != "unreachable" || strings.Contains(got, "next visit none") {
			t.Errorf("%s", got)
		}
		w.until(45 * day) // nobody's document names it, and it never could be read
		if got := w.explained(cardURL); w.outcome(cardURL) != "dropped" || !strings.Contains(got, "next visit none") {
			t.Errorf("%s", got)
		}
	})
}

// What strangers wrote cannot steer a terminal.
func TestPlain(t *testing.T) {
	if got := Plain("a\x1b[2Jb\u202ec\u200bd\r\ne\U000e0041"); strings.ContainsAny(got, "\x1b\u202e\u200b\r\n\U000e0041") {
		t.Errorf("%q", got)
	}
	if got := Plain("日程 notes é"); got != "日程 notes é" {
		t.Errorf("%q", got)
	}
}

// One fact is told once: what happened, what can be done, and when the next
// try is.
func TestExplainHostFault(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		const url = "https://nowhere.example.org/.well-known/ai-catalog.json"
		w.add("nowhere.example.org")
		w.settle()
		got := w.explained(url)
		want := url + "\nThe name nowhere.example.org cannot be looked up.\nCheck its spelling; the next try is at "
		if !strings.HasPrefix(got, want) || strings.Count(got, "looked up") != 1 || strings.Contains(got, "next visit") || strings.Contains(got, "rest on it") {
			t.Errorf("got %s", got)
		}
		x, err := Explain(t.Context(), w.store, url)
		if err != nil {
			t.Fatal(err)
		}
		if x.Indexed() || Short(&x.Outcomes[0]) != "the name nowhere.example.org cannot be looked up" {
			t.Errorf("in the index: %t; short: %s", x.Indexed(), Short(&x.Outcomes[0]))
		}
	})
}

func TestExplainRobots(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page(robotsAt, "503", "")
		w.add("apps.example.com")
		w.settle()
		want := catURL + "\nThe robots.txt of apps.example.com answered 503, and without its rules nothing is fetched there.\n" +
			"Its owner must answer with the file, or with status 404 if there is none; the next try is at "
		if got := w.explained(catURL); !strings.HasPrefix(got, want) {
			t.Errorf("got %s\nwant %s", got, want)
		}
	})
}

// An app's own page that the crawler never had to read leads to its card.
func TestExplainPage(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		const page = appsHost + "/notes"
		w.page(catURL, "", catalogJSON(cardURL))
		w.page(cardURL, "", cardJSON("com.example/notes", `, "title": "Notes\u001b[2J", "websiteUrl": "https://APPS.example.com/notes"`))
		w.add("apps.example.com")
		w.settle()
		got := w.explained(page)
		if want := page + "\nThe page of Notes\uFFFD[2J, which is in the index: " + cardURL + "\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		for url, want := range map[string]bool{page: true, "apps.example.com": true, cardURL: true, appsHost + "/other": false} {
			x, err := Explain(t.Context(), w.store, url)
			if err != nil {
				t.Fatal(err)
			}
			if x.Indexed() != want {
				t.Errorf("%s in the index: %t", url, x.Indexed())
			}
		}
	})
}

func TestAddSource(t *testing.T) {
	for in, want := range map[string]string{
		"apps.example.com":           catURL + " catalog",
		" APPS.Example.com. ":        catURL + " catalog",
		"https://apps.example.com":   "https://apps.example.com/ ",
		catURL:                       catURL + " catalog",
		"https://apps.example.com/a": "https://apps.example.com/a ",
		"":                           "error",
		"http://apps.example.com/":   "error",
		"ftp://x":                    "error",
		"10.0.0.1":                   "error",
		"a b":                        "error",
		"apps.example.com:8443":      "error",
	} {
		d, err := AddSource(in)
		got := d.URL + " " + string(d.Kind)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: got %q (%v), want %q", in, got, err, want)
		}
		if err == nil && (!d.Now || d.Class != index.ClassUser) {
			t.Errorf("%q: %+v", in, d)
		}
	}
}

// A dry run judges as a crawl does.
func TestCheck(t *testing.T) {
	file := filepath.Join(t.TempDir(), "check.db")
	synctest.Test(t, func(t *testing.T) {
		net := fakenet.New()
		defer net.Close()
		w := &world{t: t, net: net}
		w.page(catURL, "", catalogJSON(cardURL, appsHost+"/bad"))
		w.page(cardURL, "", cardJSON("com.example/notes", ""))
		w.page(appsHost+"/bad", "", `{"name": "x"}`)
		w.page(robotsAt, "200", "User-agent: *\nCrawl-delay: 15\n")
		store, err := sqlite.Open(t.Context(), file, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		r, err := Check(t.Context(), &Config{
			Store: store, About: "https://crawler.example.org/", Contact: "c@example.org", Network: &publicnet.Options{Below: net.Below()},
		}, "apps.example.com")
		if err != nil {
			t.Fatal(err)
		}
		if r.Asked.URL != catURL || len(r.Cards) != 2 || r.Cards[0].URL != appsHost+"/bad" || r.Cards[0].Entry != nil || r.Cards[1].Entry.State != index.Listed {
			t.Errorf("%+v", r)
		}
		w.wantGaps(appsHost, 15*time.Second)
	})
}
