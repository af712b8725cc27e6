package crawl

import (
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/internal/fakenet"
)

// A1: a daily cap on new hosts per registrable domain.
func TestRule_CrawlerA1_NewHostsADay(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		var cards []string
		for i := range 150 {
			cards = append(cards, fmt.Sprintf("https://h%d.victim.org/card", i))
		}
		// Ten lists, so that only the victim's own cap counts.
		for i := range 10 {
			host := fmt.Sprintf("list%d.net", i)
			w.page("https://"+host+"/.well-known/ai-catalog.json", "", catalogJSON(cards[i*15:(i+1)*15]...))
			w.add(host)
		}
		w.until(time.Hour)
		seen := map[string]bool{}
		for _, r := range w.requests("https://h") {
			seen[hostOf(r.URL)] = true
		}
		for _, name := range w.net.Lookups() {
			if strings.HasSuffix(name, ".victim.org.") {
				seen[strings.TrimSuffix(name, ".")] = true
			}
		}
		if len(seen) != 100 {
			t.Errorf("%d new hosts of one domain", len(seen))
		}
	})
}

// A2, A3, D39: at most 100 new cards on other hosts from one catalog a day;
// evidence looks at the whole catalog all the same; what was cut is an outcome.
func TestRule_CrawlerA2_ForeignCards(t *testing.T)         { once(t, "foreignCards", foreignCards) }
func TestRule_CrawlerA3_CapsLimitLeadsOnly(t *testing.T)   { once(t, "foreignCards", foreignCards) }
func TestRule_D39_ForeignCardsFromOneCatalog(t *testing.T) { once(t, "foreignCards", foreignCards) }

func foreignCards(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		var cards []string
		for i := range 120 {
			cards = append(cards, fmt.Sprintf("https://other.example.net/card/%d", i))
			w.page(cards[i], "404", "")
		}
		cards = append(cards, cardURL)
		w.page("https://lists.example.org/.well-known/ai-catalog.json", "", catalogJSON(cards...))
		w.page(cardURL, `Link: <https://lists.example.org/.well-known/ai-catalog.json>; rel=ai-catalog`, cardJSON("com.example/notes", ""))
		w.add("lists.example.org", cardURL)
		w.until(20 * time.Hour)
		seen := map[string]bool{}
		for _, r := range w.requests("https://other.example.net/card/") {
			seen[r.URL] = true
		}
		if n := len(seen); n != 100 {
			t.Errorf("%d leads followed on the first day", n)
		}
		w.wantState(cardURL, "listed") // the last entry of the catalog still proves
		o, err := w.store.Outcomes(t.Context(), "https://lists.example.org/.well-known/ai-catalog.json", 10)
		if err != nil {
			t.Fatal(err)
		}
		capped := false
		for i := range o {
			capped = capped || o[i].Code == index.OutcomeCapped
		}
		if !capped {
			t.Errorf("no outcome tells what was cut: %+v", o)
		}
		w.until(4 * day)
		for _, r := range w.requests("https://other.example.net/card/") {
			seen[r.URL] = true
		}
		if n := len(seen); n != 120 {
			t.Errorf("%d leads followed after 4 days: the rest did not wait for later runs", n)
		}
	})
}

// A4: addresses in other fields are never contacted; remotes are not probed.
func TestRule_CrawlerA4_OnlyLeads(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		foreignCopy(w)
	})
	rule(t, func(t *testing.T, w *world) {
		w.published()
		w.page(cardURL, "", cardJSON("com.example/notes", `, "repository": {"url": "https://git.example.net/r", "source": "git"}, "icons": [{"src": "https://img.example.net/i.png"}], "endpoint": "https://old.example.net/", "_meta": {"x/y": "https://meta.example.net/"}`))
		w.until(40 * time.Hour)
		for _, name := range w.net.Lookups() {
			if name != "apps.example.com." {
				t.Errorf("%s was looked up", name)
			}
		}
		if n := len(w.requests(appsHost + "/mcp")); n != 0 {
			t.Errorf("the endpoint got %d requests", n)
		}
	})
}

// U1 to U3: User-Agent, token and mailbox.
func TestRule_CrawlerU1_UserAgent(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.published()
		for _, r := range w.net.Requests() {
			if got := r.Header.Get("User-Agent"); got != "OpenBot/1.2 (+https://crawler.example.org/about)" {
				t.Errorf("%s: User-Agent %q", r, got)
			}
		}
	})
	for _, bad := range []string{"", "http://crawler.example.org/", "crawler.example.org", "https://u@h.example.org/"} {
		if _, err := New(&Config{Store: &countingStore{}, About: bad, Contact: "c@example.org"}); err == nil || !strings.Contains(err.Error(), "About") {
			t.Errorf("About %q: %v", bad, err)
		}
	}
}

func TestRule_CrawlerU2_OneToken(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page(robotsAt, "200", "User-agent: OpenBot\nDisallow: /other\n")
		w.page(catURL, "", catalogJSON(cardURL, appsHost+"/other"))
		w.page(cardURL, "X-Robots-Tag: OpenBot: noindex", cardJSON("com.example/notes", ""))
		w.add("apps.example.com")
		w.settle()
		if w.outcome(cardURL) != "noindex" || w.outcome(appsHost+"/other") != "disallowed" {
			t.Errorf("%s, %s", w.outcome(cardURL), w.outcome(appsHost+"/other"))
		}
	})
}

func TestRule_CrawlerU3_From(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.published()
		for _, r := range w.net.Requests() {
			if got := r.Header.Get("From"); got != "crawler@example.org" {
				t.Errorf("%s: From %q", r, got)
			}
		}
	})
	for _, bad := range []string{"", "nobody", "Crawler <c@example.org>", "a@b, c@d"} {
		if _, err := New(&Config{Store: &countingStore{}, About: "https://crawler.example.org/", Contact: bad}); err == nil || !strings.Contains(err.Error(), "Contact") {
			t.Errorf("Contact %q: %v", bad, err)
		}
	}
}

// FO-34: no way leads into the private network.
func TestRule_FO34_PrivateNetwork(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		private := netip.MustParseAddr("10.0.0.1")
		w.page("https://mixed.example.com/.well-known/ai-catalog.json", "", catalogJSON())
		w.net.SetDNS("mixed.example.com", fakenet.DNS{Addrs: []netip.Addr{netip.MustParseAddr("93.184.216.34"), private}})
		w.page("https://hop.example.com/.well-known/ai-catalog.json", "302 https://[::ffff:169.254.169.254]/", "")
		w.page("https://rebind.example.com/.well-known/ai-catalog.json", "", catalogJSON())
		w.net.SetDNS("rebind.example.com", fakenet.DNS{Addrs: []netip.Addr{netip.MustParseAddr("93.184.216.35")}}, fakenet.DNS{Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}})
		w.add("mixed.example.com", "hop.example.com", "rebind.example.com")
		w.until(2 * day)
		for _, d := range w.net.Dials() {
			if d.Addr().IsPrivate() || d.Addr().IsLoopback() || d.Addr().IsLinkLocalUnicast() {
				t.Errorf("%s was dialled", d)
			}
		}
		for _, h := range []string{"mixed", "hop"} {
			if got := w.outcome("https://" + h + ".example.com/.well-known/ai-catalog.json"); got != "unreachable" {
				t.Errorf("%s: %s", h, got)
			}
		}
	})
}

// Hostile links and texts cost one document: what cannot be an address is left
// out, and long texts are cut before they are stored.
func TestHostileTexts(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page(catURL, "", catalogJSON(cardURL, "https://localhost/card", "https://10.0.0.1/card", "https://box.internal/card"))
		w.page(cardURL, "Link: <https://localhost/c.json>; rel=ai-catalog, <https://Other.Example.NET.:443/a/../c.json#x>; rel=ai-catalog",
			`{"$schema": "x", "name": "`+strings.Repeat("\u202e", 5000)+`", "remotes": [`+strings.Repeat(`{}, `, 2000)+`{}]}`)
		w.add("apps.example.com")
		w.settle()
		o, err := w.store.Outcomes(t.Context(), cardURL, 1)
		if err != nil || len(o) != 1 || o[0].Code != index.OutcomeInvalid || len(o[0].Sentence) > 2100 {
			t.Fatalf("%v, %+v", err, o)
		}
		for _, s := range o[0].Steps {
			if len(s.Detail) > 400 {
				t.Errorf("a step of %d octets", len(s.Detail))
			}
		}
		w.page(cardURL, "Link: <https://localhost/c.json>; rel=ai-catalog, <https://Other.Example.NET.:443/a/../c.json#x>; rel=ai-catalog", cardJSON("com.example/notes", ""))
		w.page("https://other.example.net/c.json", "", catalogJSON(cardURL))
		w.page(catURL, "404", "")
		w.until(3 * day)
		w.wantState(cardURL, "listed")
		for _, name := range w.net.Lookups() {
			if name != "apps.example.com." && name != "other.example.net." {
				t.Errorf("%s was looked up", name)
			}
		}
	})
}

// What only led to a lead that was given up is given up, too, after a month.
func TestUnneededPointersAreGivenUp(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page("https://lists.example.net/.well-known/ai-catalog.json", "", catalogJSON(cardURL))
		w.page(cardURL, "", cardJSON("com.example/notes", ""))
		w.add("lists.example.net")
		w.until(6 * time.Hour)
		w.page("https://lists.example.net/.well-known/ai-catalog.json", "", catalogJSON())
		w.until(60 * day)
		for _, url := range []string{cardURL, catURL} {
			if got := w.outcome(url); got != "dropped" {
				t.Errorf("%s: %s", url, got)
			}
		}
		if n := len(w.requests(appsHost)); n > 40 {
			t.Errorf("%d requests to a host that has no app", n)
		}
	})
}

// A2: the pointers of one card do not make an amplifier of the crawler.
func TestManyPointers(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		var links []string
		for i := range 40 {
			links = append(links, fmt.Sprintf(`<https://victim.example.net/%d>; rel="ai-catalog"`, i))
		}
		w.net.Host("victim.example.net")
		w.page(cardURL, "Link: "+strings.Join(links, ", "), cardJSON("com.example/notes", ""))
		w.add(cardURL)
		w.until(10 * time.Minute)
		if n := len(w.requests("https://victim.example.net/")); n < 2 || n > maxPointers+1 {
			t.Errorf("%d requests to a third party", n)
		}
	})
}

// T3: sockets and memory stay bounded however many hosts are slow at once.
func TestRule_CrawlerT3_BoundedAt256(t *testing.T) {
	inWorld(t, func(c *Config) { c.Workers = 256 }, func(t *testing.T, w *world) {
		var hosts []string
		for i := range 300 {
			host := fmt.Sprintf("h%d.example%d.com", i, i)
			w.page("https://"+host+"/robots.txt", "200\nwait 8s", "")
			hosts = append(hosts, host)
		}
		w.add(hosts...)
		ended := make(chan error)
		go func() { ended <- w.c.Settle(t.Context(), time.Second) }()
		time.Sleep(5 * time.Second) // the first requests are all under way
		if n := len(w.net.Dials()); n != 256 {
			t.Errorf("%d connections at once", n)
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if m.HeapInuse > 150<<20 { // the servers' half of each connection included
			t.Errorf("%d MiB in use", m.HeapInuse>>20)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		w.until(10 * time.Minute) // after such answers gaps are long
		for _, h := range hosts {
			if got := w.outcome("https://" + h + wellKnownPath); got != "gone" {
				t.Errorf("%s: %s", h, got)
			}
		}
	})
}
