package crawl

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/internal/fakenet"
)

// P1, D16, FO-33: one request at a time an origin, with a gap of max(1 s, 5 x
// the last answer's time, Crawl-delay).
func TestRule_CrawlerP1_Gaps(t *testing.T)       { once(t, "gaps", gaps) }
func TestRule_CrawlerR8_CrawlDelay(t *testing.T) { once(t, "gaps", gaps) }

func gaps(t *testing.T) {
	many := make([]string, 12)
	for i := range many {
		many[i] = fmt.Sprintf("%s/card/%d", appsHost, i)
	}
	for _, tt := range []struct {
		name, robots, head string
		min                time.Duration
		within             time.Duration
	}{
		{"quick", "", "", time.Second, time.Minute},
		{"slow answers", "", "wait 2s", 10 * time.Second, 5 * time.Minute},
		{"Crawl-delay", "User-agent: *\nCrawl-delay: 20\n", "", 20 * time.Second, 10 * time.Minute},
		{"long Crawl-delay", "User-agent: *\nCrawl-delay: 9000\n", "", 300 * time.Second, 3 * time.Hour},
		{"unreadable Crawl-delay", "User-agent: *\nCrawl-delay: -3\n", "", time.Second, time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rule(t, func(t *testing.T, w *world) {
				w.page(robotsAt, strings.TrimSpace("200\n"+tt.head), tt.robots)
				w.page(catURL, tt.head, catalogJSON(many...))
				for _, u := range many {
					w.page(u, tt.head, cardJSON("com.example/notes", ""))
				}
				w.add("apps.example.com")
				w.until(tt.within)
				for _, u := range many {
					w.wantState(u, "listed")
				}
				w.wantGaps(appsHost, tt.min)
			})
		})
	}
}

// P2, FO-33: Retry-After on 429 and 503 delays the whole origin.
func TestRule_CrawlerP2_RetryAfter(t *testing.T) { once(t, "retryAfterOrigin", retryAfterOrigin) }

func TestRule_FO33_TheRudeCrawler(t *testing.T) {
	once(t, "retryAfterOrigin", retryAfterOrigin)
	once(t, "gaps", gaps)
}

func retryAfterOrigin(t *testing.T) {
	many := make([]string, 50)
	for i := range many {
		many[i] = fmt.Sprintf("%s/card/%d", appsHost, i)
	}
	for _, head := range []string{
		"429\nRetry-After: 120",
		"503\nRetry-After: 120",
		"429\nRetry-After: Sat, 01 Jan 2000 00:02:05 GMT",
		"429",
	} {
		t.Run(head, func(t *testing.T) {
			rule(t, func(t *testing.T, w *world) {
				for _, u := range many {
					w.page(u, head, "")
				}
				w.add(many...)
				w.until(2 * time.Minute)
				if n := len(w.requests(appsHost + "/card/")); n != 1 {
					t.Fatalf("%d requests in the first two minutes", n)
				}
				w.until(30 * time.Minute)
				if n := len(w.requests(appsHost + "/card/")); n > 15 {
					t.Errorf("%d requests in half an hour", n)
				}
			})
		})
	}
}

// P3: at most 2 requests at a time per IPv4 address or IPv6 /64.
func TestRule_CrawlerP3_PerAddress(t *testing.T) {
	for name, addr := range map[string]func(i int) netip.Addr{
		"IPv4":     func(int) netip.Addr { return netip.MustParseAddr("93.184.216.34") },
		"IPv6 /64": func(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("2606:2800:220:1::%d", i+1)) },
	} {
		t.Run(name, func(t *testing.T) {
			rule(t, func(t *testing.T, w *world) {
				var hosts []string
				for i := range 8 {
					host := fmt.Sprintf("h%d.example.com", i)
					hosts = append(hosts, host)
					w.page("https://"+host+"/robots.txt", "404\nwait 5s", "")
					w.page("https://"+host+"/.well-known/ai-catalog.json", "wait 5s", catalogJSON())
					w.net.SetDNS(host, fakenet.DNS{Addrs: []netip.Addr{addr(i)}})
				}
				w.add(hosts...)
				w.until(30 * time.Minute)
				all := w.net.Requests()
				for i, r := range all {
					n := 1
					for _, o := range all[:i] {
						if d := r.Time.Sub(o.Time); d < 5*time.Second {
							n++
						}
					}
					if n > 2 {
						t.Fatalf("%d requests under way at %s", n, r.Time)
					}
				}
				for _, h := range hosts {
					if got := w.outcome("https://" + h + "/.well-known/ai-catalog.json"); got != "read" {
						t.Errorf("%s: %s", h, got)
					}
				}
				if h, err := w.store.Host(t.Context(), hosts[0]); err != nil || h.IPKey != addressKey(addr(0)).String() {
					t.Errorf("ip_key %q, %v", h.IPKey, err)
				}
			})
		})
	}
}

// P5, D17: recheck times spread around 24 h, grow while nothing changes and
// shrink when something does; failures back off to 7 days.
func TestRule_CrawlerP5_Recheck(t *testing.T) { once(t, "recheck", recheck) }
func TestRule_D17_Recheck(t *testing.T)       { once(t, "recheck", recheck) }

func recheck(t *testing.T) {
	intervals := func(w *world, url string) (out []time.Duration) {
		var last time.Time
		for _, r := range w.requests(url) {
			if !last.IsZero() {
				out = append(out, r.Time.Sub(last))
			}
			last = r.Time
		}
		return out
	}
	near := func(got, want time.Duration) bool {
		return got >= want*9/10-time.Minute && got <= want*11/10+time.Minute
	}
	t.Run("unchanged", func(t *testing.T) {
		rule(t, func(t *testing.T, w *world) {
			w.published()
			w.until(30 * day)
			got := intervals(w, cardURL)
			want := 24 * time.Hour
			for i, d := range got {
				if !near(d, want) {
					t.Errorf("interval %d is %s, want about %s", i, d, want)
				}
				want = min(want*14/10, 7*day)
			}
		})
	})
	t.Run("changing", func(t *testing.T) {
		rule(t, func(t *testing.T, w *world) {
			w.published()
			for i := range 8 {
				w.page(cardURL, "", cardJSON("com.example/notes", fmt.Sprintf(`, "title": "%d"`, i)))
				w.until(w.doc(cardURL).NextAt.Sub(w.start) + time.Minute)
			}
			want := 24 * time.Hour
			for i, d := range intervals(w, cardURL) {
				if !near(d, want) {
					t.Errorf("interval %d is %s, want about %s", i, d, want)
				}
				want = want * 8 / 10
			}
		})
	})
	t.Run("failing", func(t *testing.T) {
		rule(t, func(t *testing.T, w *world) {
			w.published()
			w.page(cardURL, "500", "")
			w.until(29 * day)
			got := intervals(w, cardURL)
			for i, want := range []time.Duration{day, time.Hour, 4 * time.Hour, day, 3 * day, 7 * day, 7 * day} {
				if !near(got[i], want) {
					t.Errorf("interval %d is %s, want about %s", i, got[i], want)
				}
			}
		})
	})
	t.Run("max-age", func(t *testing.T) {
		rule(t, func(t *testing.T, w *world) {
			w.page(catURL, "Cache-Control: max-age=864000", catalogJSON(cardURL))
			w.page(cardURL, "Cache-Control: max-age=5", cardJSON("com.example/notes", ""))
			w.add("apps.example.com")
			w.settle()
			if at := w.doc(catURL).NextAt.Sub(w.start); !near(at, 7*day) {
				t.Errorf("catalog at %s", at)
			}
			if at := w.doc(cardURL).NextAt.Sub(w.start); !near(at, time.Hour) {
				t.Errorf("card at %s", at)
			}
		})
	})
}

// G8: 10 s for a document, all hops included; gaps do not count.
func TestRule_CrawlerG8_TenSeconds(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page(robotsAt, "200", "User-agent: *\nCrawl-delay: 8\n")
		w.page(catURL, "302 /a", "")
		w.page(appsHost+"/a", "302 /b", "")
		w.page(appsHost+"/b", "", catalogJSON(cardURL, appsHost+"/slow"))
		w.page(cardURL, "wait 9s", cardJSON("com.example/notes", ""))
		w.page(appsHost+"/slow", "wait 11s", cardJSON("com.example/slow", ""))
		w.add("apps.example.com")
		w.until(10 * time.Minute)
		w.wantState(cardURL, "listed")
		if w.outcome(appsHost+"/slow") != "unreachable" {
			t.Errorf("slow: %s", w.outcome(appsHost+"/slow"))
		}
	})
}

// documents E4: stale and removed entries follow D14 to D17.
func TestRule_DocumentsE4_Lifecycle(t *testing.T) {
	once(t, "staleEdges", staleEdges)
	once(t, "delisted", delisted)
	once(t, "cardAnswers", cardAnswers)
	once(t, "recheck", recheck)
}

// A robots.txt that is redirected to a host that asks for a pause waits for it,
// and does not spin.
func TestRobotsHopWaitsForTheOtherOrigin(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page("https://www.example.com/robots.txt", "503\nRetry-After: 3600", "")
		w.page("https://example.com/robots.txt", "301 https://www.example.com/robots.txt", "")
		w.page("https://example.com/.well-known/ai-catalog.json", "", catalogJSON())
		w.add("www.example.com")
		w.settle()
		w.add("example.com")
		w.until(50 * time.Minute)
		if n := len(w.requests("https://www.example.com/")); n != 1 || w.visits > 8 {
			t.Errorf("%d requests to www on %d visits", n, w.visits)
		}
		w.page("https://www.example.com/robots.txt", "404", "")
		w.until(3 * time.Hour)
		if got := w.outcome("https://example.com/.well-known/ai-catalog.json"); got != "read" {
			t.Errorf("outcome %s", got)
		}
	})
}

// P4, P1: a hop of robots.txt on another origin keeps that origin's gap, and no
// worker stands waiting for it.
func TestRule_CrawlerP4_RobotsHopsKeepTheGap(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		const www = "https://www.example.com"
		w.page(www+"/robots.txt", "200", "User-agent: *\nCrawl-delay: 60\n")
		w.page(www+wellKnownPath, "", catalogJSON())
		w.add("www.example.com")
		w.until(10 * time.Minute)
		w.page("https://busy.example.net"+wellKnownPath, "", catalogJSON())
		for i := range 10 {
			host := fmt.Sprintf("h%d.example.org", i)
			w.page("https://"+host+"/robots.txt", "301 "+www+"/robots.txt", "")
			w.page("https://"+host+wellKnownPath, "", catalogJSON())
			w.add(host)
		}
		w.until(12 * time.Minute)
		w.add("busy.example.net")
		w.settle()
		if n := len(w.requests("https://busy.example.net/")); n != 2 {
			t.Errorf("%d requests to a host that has nothing to do with it", n)
		}
		w.until(2 * time.Hour)
		all := w.requests(www + "/")
		for i := 1; i < len(all); i++ {
			if d := all[i].Time.Sub(all[i-1].Time); d < 60*time.Second {
				t.Errorf("%s came %s after %s", all[i], d, all[i-1])
			}
		}
		for i := range 10 {
			if got := w.outcome(fmt.Sprintf("https://h%d.example.org%s", i, wellKnownPath)); got != "read" {
				t.Errorf("h%d: %s", i, got)
			}
		}
	})
}
