package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/internal/fakenet"
)

func validators(r fakenet.Request) string {
	return strings.TrimSpace(strings.Join(r.Header["If-None-Match"], ",") + " " + strings.Join(r.Header["If-Modified-Since"], ","))
}

// C1, FO-08: validators go back byte for byte, weak and unquoted ones too.
func TestRule_CrawlerC1_ValidatorsByteForByte(t *testing.T) { once(t, "byteForByte", byteForByte) }
func TestRule_FO08_ETagsChangeOnTheWay(t *testing.T) {
	once(t, "byteForByte", byteForByte)
	once(t, "sameBytesNewTag", sameBytesNewTag)
}

func byteForByte(t *testing.T) {
	for _, tag := range []string{`"abc"`, `W/"abc"`, `abc`, `"a b\c"`} {
		rule(t, func(t *testing.T, w *world) {
			w.page(catURL, "", catalogJSON(cardURL))
			w.page(cardURL, "ETag: "+tag+"\nLast-Modified: Fri, 31 Dec 1999 10:00:00 GMT", cardJSON("com.example/notes", ""))
			w.add("apps.example.com")
			w.until(30 * time.Hour)
			r := w.requests(cardURL)
			if len(r) != 2 || validators(r[0]) != "" || validators(r[1]) != tag+" Fri, 31 Dec 1999 10:00:00 GMT" {
				t.Errorf("%s: requests %v, validators %q", tag, r, validators(r[len(r)-1]))
			}
			w.wantState(cardURL, "listed")
		})
	}
}

// C2: validators are sent to the final URL only; a new one drops them.
func TestRule_CrawlerC2_OnlyToTheFinalURL(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page(catURL, "", catalogJSON(cardURL))
		w.page(cardURL, "302 /v1/card", "")
		w.page(appsHost+"/v1/card", `ETag: "1"`, cardJSON("com.example/notes", ""))
		w.page(appsHost+"/v2/card", `ETag: "1"`, cardJSON("com.example/notes2", ""))
		w.add("apps.example.com")
		w.until(30 * time.Hour)
		if r := w.requests(appsHost + "/v1/card"); len(r) != 2 || validators(r[1]) != `"1"` {
			t.Errorf("final URL: %v", r)
		}
		w.page(cardURL, "302 /v2/card", "")
		w.until(80 * time.Hour)
		for _, r := range append(w.requests(cardURL), w.requests(appsHost + "/v2/card")[0]) {
			if validators(r) != "" {
				t.Errorf("%s got the validators %s", r, validators(r))
			}
		}
		if e := w.entry(cardURL); e.Name != "com.example/notes2" || e.FinalURL != appsHost+"/v2/card" {
			t.Errorf("entry %+v", e)
		}
	})
}

// C3: a 200 with the same bytes is "unchanged"; its headers are read all the
// same.
func TestRule_CrawlerC3_SameBytes(t *testing.T) {
	once(t, "sameBytesNewTag", sameBytesNewTag)
	rule(t, func(t *testing.T, w *world) {
		w.published()
		w.page(cardURL, "X-Robots-Tag: noindex", cardJSON("com.example/notes", ""))
		w.until(30 * time.Hour)
		w.wantState(cardURL, "removed noindex")
	})
}

func sameBytesNewTag(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.published()
		seq := w.entry(cardURL).Seq
		w.page(catURL, `ETag: "cat-2"`, catalogJSON(cardURL))
		w.page(cardURL, `ETag: W/"card-2"`, cardJSON("com.example/notes", ""))
		w.until(30 * time.Hour)
		if w.outcome(cardURL) != "unchanged" || w.outcome(catURL) != "unchanged" || w.entry(cardURL).Seq != seq {
			t.Errorf("card %s, catalog %s, seq %d then %d", w.outcome(cardURL), w.outcome(catURL), seq, w.entry(cardURL).Seq)
		}
		if d := w.doc(cardURL); d.ETag != `W/"card-2"` {
			t.Errorf("stored tag %s", d.ETag)
		}
	})
}

// C4: a 304 to a request without validators is a failure.
func TestRule_CrawlerC4_UnaskedNotModified(t *testing.T) { once(t, "unasked304", unasked304) }
func TestRule_DocumentsR6_NotModified(t *testing.T) {
	once(t, "unasked304", unasked304)
	once(t, "thin304", thin304)
	once(t, "noIndexRoundTrip", noIndexRoundTrip)
}

func unasked304(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page(catURL, "", catalogJSON(cardURL))
		w.page(cardURL, "304", "")
		w.add("apps.example.com")
		w.until(30 * time.Minute)
		if w.outcome(cardURL) != "unreachable" || w.stands(cardURL) != "-" {
			t.Fatalf("outcome %s, entry %s", w.outcome(cardURL), w.stands(cardURL))
		}
		if n := len(w.requests(cardURL)); n > 2 {
			t.Errorf("asked %d times at once", n)
		}
	})
}

// C5, FO-09: a 304 keeps stored headers that it does not send anew.
func TestRule_CrawlerC5_HeadersOf304(t *testing.T) {
	once(t, "thin304", thin304)
	once(t, "noIndexRoundTrip", noIndexRoundTrip)
}
func TestRule_FO09_ThinNotModified(t *testing.T) { once(t, "thin304", thin304) }

func thin304(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page(cardURL, "ETag: \"1\"\nCache-Control: max-age=7200\nLink: </c.json>; rel=ai-catalog", cardJSON("com.example/notes", ""))
		w.page(appsHost+"/c.json", "", catalogJSON(cardURL))
		w.add(cardURL)
		w.settle()
		w.wantState(cardURL, "listed")
		w.page(cardURL, "304", "")
		w.until(90 * time.Hour)
		w.wantState(cardURL, "listed")
		d := w.doc(cardURL)
		if d.CacheControl != "max-age=7200" || len(d.Link) != 1 || d.ETag != `"1"` || d.Body == nil {
			t.Errorf("stored: %+v", d)
		}
		for _, r := range w.requests(cardURL)[1:] {
			if validators(r) == "" {
				t.Errorf("%s at %s without validators", r, r.Time)
			}
		}
	})
}

// C6: while noindex is stored, a card is asked for without validators.
func TestRule_CrawlerC6_NoIndexWithoutValidators(t *testing.T) {
	once(t, "noIndexRoundTrip", noIndexRoundTrip)
}

// C7: a full GET at least once in 30 days.
func TestRule_CrawlerC7_FullGet(t *testing.T) { once(t, "fullGetEvery30Days", fullGetEvery30Days) }

func fullGetEvery30Days(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.published()
		w.until(120 * day)
		var last time.Time
		full := 0
		for _, r := range w.requests(cardURL) {
			if validators(r) != "" {
				continue
			}
			if !last.IsZero() && r.Time.Sub(last) > 30*day+8*day {
				t.Errorf("%s between two full GETs", r.Time.Sub(last))
			}
			last = r.Time
			full++
		}
		if full < 4 || full > 6 {
			t.Errorf("%d full GETs in 120 days", full)
		}
	})
}

// C8: a 304 proves a complete catalog only over stored bytes.
func TestRule_CrawlerC8_OverStoredBytes(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.published()
		w.until(60 * time.Hour)
		if d := w.doc(catURL); w.outcome(catURL) != "unchanged" || string(d.Body) != catalogJSON(cardURL)+"\n" || d.ETag != `"cat"` {
			t.Errorf("%s, %+v", w.outcome(catURL), d)
		}
		w.wantState(cardURL, "listed")
		// An error in between does not part tag and bytes.
		w.page(catURL, "500", "")
		w.until(120 * time.Hour)
		w.page(catURL, `ETag: "cat"`, catalogJSON(cardURL))
		w.until(12 * day)
		w.wantState(cardURL, "listed")
	})
}

// C9: with a tag that Apache has marked, ask for the plain answer.
func TestRule_CrawlerC9_GzipTags(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page(catURL, "", catalogJSON(cardURL))
		w.page(cardURL, `ETag: "abc-gzip"`, cardJSON("com.example/notes", ""))
		w.add("apps.example.com")
		w.until(30 * time.Hour)
		r := w.requests(cardURL)
		if r[0].Header.Get("Accept-Encoding") != "gzip" || r[1].Header.Get("Accept-Encoding") != "identity" {
			t.Errorf("Accept-Encoding %q then %q", r[0].Header.Get("Accept-Encoding"), r[1].Header.Get("Accept-Encoding"))
		}
	})
}

// C10: no-store on a card: it is public all the same.
func TestRule_CrawlerC10_NoStore(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page(catURL, "", catalogJSON(cardURL))
		w.page(cardURL, "Cache-Control: no-store, private", cardJSON("com.example/notes", ""))
		w.add("apps.example.com")
		w.settle()
		w.wantState(cardURL, "listed")
		if at := w.doc(cardURL).NextAt.Sub(w.start); at < 20*time.Hour {
			t.Errorf("next check after %s", at)
		}
	})
}

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
		var own []fakenet.Request
		for _, r := range w.requests(www + "/") {
			if r.URL != www+"/robots.txt" {
				own = append(own, r)
			}
		}
		for i := 1; i < len(own); i++ {
			if d := own[i].Time.Sub(own[i-1].Time); d < 7*time.Second {
				t.Errorf("%s came %s after %s", own[i], d, own[i-1])
			}
		}
		if n := len(own); n > 60 {
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

// P6: a person's add goes before a flood of new hosts.
func TestRule_CrawlerP6_AddsGoFirst(t *testing.T) {
	inWorld(t, func(c *Config) { c.Workers = 1 }, func(t *testing.T, w *world) {
		var flood []index.NewDoc
		for i := range 200 {
			url := fmt.Sprintf("https://h%d.example.com/.well-known/ai-catalog.json", i)
			w.page(url, "", catalogJSON())
			flood = append(flood, index.NewDoc{URL: url, Kind: index.CatalogDoc, Class: index.ClassNew})
		}
		if _, err := w.store.AddSource(t.Context(), time.Now(), flood...); err != nil {
			t.Fatal(err)
		}
		w.page("https://mine.example.net/.well-known/ai-catalog.json", "", catalogJSON())
		w.add("mine.example.net")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := w.c.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if n := len(w.requests("https://mine.example.net/")); n != 2 {
			t.Errorf("%d requests to the added host after %d in all", n, len(w.net.Requests()))
		}
		if n := len(w.requests("https://h")); n == 0 {
			t.Error("new hosts were starved")
		}
	})
}

// F2: no request begins that could outlive its lease; the rest goes back.
func TestRule_CrawlerF2_LeaseEnds(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		many := make([]string, 30)
		for i := range many {
			many[i] = fmt.Sprintf("%s/card/%d", appsHost, i)
			w.page(many[i], "wait 1s", cardJSON("com.example/notes", ""))
		}
		w.page(catURL, "", catalogJSON(many...))
		w.add("apps.example.com")
		if err := w.c.Settle(t.Context(), 10*time.Second); err != nil {
			t.Fatal(err)
		}
		w.until(10 * time.Minute)
		for _, u := range many {
			w.wantState(u, "listed")
		}
		w.wantGaps(appsHost+"/card", 6*time.Second)
	})
	t.Run("one lease", func(t *testing.T) {
		rule(t, func(t *testing.T, w *world) {
			for i := range 30 {
				w.page(fmt.Sprintf("%s/p%d", appsHost, i), "wait 1s", "<html></html>")
				w.add(fmt.Sprintf("%s/p%d", appsHost, i))
			}
			l, err := w.store.Lease(t.Context(), index.LeaseRequest{Owner: "w1", Now: time.Now(), Hosts: 1})
			if err != nil || len(l) != 1 {
				t.Fatal(l, err)
			}
			v, err := w.c.visit(t.Context(), &l[0])
			if err != nil {
				t.Fatal(err)
			}
			reqs := w.net.Requests()
			if last := reqs[len(reqs)-1].Time; last.Add(10 * time.Second).After(l[0].Until) {
				t.Errorf("the last request began %s before the lease's end", l[0].Until.Sub(last))
			}
			if n := len(v.Docs); n < 5 || n > 9 || len(v.Found) != 0 {
				t.Errorf("%d documents, %d found", n, len(v.Found))
			}
		})
	})
}

// F3: a late worker's whole visit is dropped, entry and outcome included.
func TestRule_CrawlerF3_LateWorker(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page(catURL, "", catalogJSON(cardURL))
		w.page(cardURL, "", cardJSON("com.example/notes", ""))
		w.add("apps.example.com")
		lease := func(owner string) index.Lease {
			l, err := w.store.Lease(t.Context(), index.LeaseRequest{Owner: owner, Now: time.Now(), Hosts: 1})
			if err != nil || len(l) != 1 {
				t.Fatal(l, err)
			}
			return l[0]
		}
		first := lease("w1")
		late, err := w.c.visit(t.Context(), &first)
		if err != nil || len(late.Entries) != 1 {
			t.Fatal(late, err)
		}
		time.Sleep(2 * time.Minute)
		second := lease("w2")
		a, err := w.store.Apply(t.Context(), late)
		if err != nil || !a[0].Fenced {
			t.Fatal(a, err)
		}
		w.wantState(cardURL, "-")
		if got := w.outcome(catURL); got != "-" {
			t.Errorf("an outcome of the late visit was written: %s", got)
		}
		again, err := w.c.visit(t.Context(), &second)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := w.store.Apply(t.Context(), again, late); err != nil || a[0].Fenced || !a[1].Fenced {
			t.Fatal(a, err)
		}
		w.wantState(cardURL, "listed")
	})
}

// F4: visits are written whole, many at a time, within 200 ms.
func TestRule_CrawlerF4_Batches(t *testing.T) {
	calls := &countingStore{}
	inWorld(t, func(c *Config) { calls.Store = c.Store; c.Store = calls; c.Workers = 64 }, func(t *testing.T, w *world) {
		var hosts []string
		for i := range 64 {
			host := fmt.Sprintf("h%d.example.com", i)
			hosts = append(hosts, host)
			w.page("https://"+host+"/.well-known/ai-catalog.json", "", catalogJSON("https://"+host+"/card"))
			w.page("https://"+host+"/card", "", cardJSON("com.example/notes", ""))
		}
		w.add(hosts...)
		w.until(time.Minute)
		for _, h := range hosts {
			w.wantState("https://"+h+"/card", "listed")
		}
		if calls.applies > 24 {
			t.Errorf("%d transactions for %d visits", calls.applies, calls.visits)
		}
		if calls.visits < 64 {
			t.Errorf("%d visits", calls.visits)
		}
	})
}

// countingStore counts transactions, and can fail.
type countingStore struct {
	index.Store
	applies, visits int
	err             error
}

func (s *countingStore) Apply(ctx context.Context, v ...index.Visit) ([]index.Applied, error) {
	if s.err != nil {
		return nil, s.err
	}
	s.applies++
	s.visits += len(v)
	return s.Store.Apply(ctx, v...)
}

// A full disk ends the crawl with an error; what is stored stays.
func TestRunEndsWithTheStoresError(t *testing.T) {
	calls := &countingStore{}
	inWorld(t, func(c *Config) { calls.Store = c.Store; c.Store = calls }, func(t *testing.T, w *world) {
		w.published()
		calls.err = fmt.Errorf("write: %w", index.ErrFull)
		time.Sleep(2 * day)
		if err := w.c.Run(t.Context()); !errors.Is(err, index.ErrFull) {
			t.Fatalf("Run gave %v", err)
		}
		w.wantState(cardURL, "listed")
	})
}

// When ctx ends, visits are handed back and what is complete is written.
func TestRunStopsCleanly(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page(catURL, "", catalogJSON(cardURL))
		w.page(cardURL, "timeout", "")
		w.add("apps.example.com")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := w.c.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if since := time.Since(w.start); since > 6*time.Second {
			t.Errorf("it took %s to stop", since)
		}
		if w.outcome(catURL) != "read" || w.outcome(cardURL) != "-" {
			t.Errorf("catalog %s, card %s", w.outcome(catURL), w.outcome(cardURL))
		}
		if d := w.doc(cardURL); !d.CheckedAt.IsZero() || d.NextAt.After(time.Now()) {
			t.Errorf("the card that was given up: %+v", d)
		}
		w.page(cardURL, "", cardJSON("com.example/notes", ""))
		w.until(time.Minute)
		w.wantState(cardURL, "listed")
	})
}

// A panic costs one document of one visit.
func TestPanicCostsOneDocument(t *testing.T) {
	inWorld(t, func(c *Config) { c.Store = &panickyStore{Store: c.Store, on: cardURL} }, func(t *testing.T, w *world) {
		w.page(catURL, "", catalogJSON(cardURL, appsHost+"/other"))
		w.page(cardURL, "", cardJSON("com.example/notes", ""))
		w.page(appsHost+"/other", "", cardJSON("com.example/other", ""))
		w.add("apps.example.com")
		w.settle()
		w.wantState(appsHost+"/other", "listed")
		if w.outcome(cardURL) != "unreachable" {
			t.Errorf("outcome %s", w.outcome(cardURL))
		}
		w.wantSentence(cardURL, "internal error")
	})
}

type panickyStore struct {
	index.Store
	on string
}

func (s *panickyStore) ByCard(ctx context.Context, url string) (*index.Entry, error) {
	if url == s.on {
		panic("a fault of ours")
	}
	return s.Store.ByCard(ctx, url)
}

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
			if len(seen) != 50 {
				t.Errorf("%d nested catalogs read", len(seen))
			}
		})
	})
}

// documents E4: stale and removed entries follow D14 to D17.
func TestRule_DocumentsE4_Lifecycle(t *testing.T) {
	once(t, "staleEdges", staleEdges)
	once(t, "delisted", delisted)
	once(t, "cardAnswers", cardAnswers)
	once(t, "recheck", recheck)
}

// D35: one transaction for all that a visit changes.
func TestRule_D35_OneTransaction(t *testing.T) {
	calls := &countingStore{}
	inWorld(t, func(c *Config) { calls.Store = c.Store; c.Store = calls }, func(t *testing.T, w *world) {
		w.page(catURL, "", catalogJSON(cardURL))
		w.page(cardURL, "", cardJSON("com.example/notes", ""))
		w.add("apps.example.com")
		calls.err = fmt.Errorf("write: %w", index.ErrFull)
		if err := w.c.Settle(t.Context(), time.Second); !errors.Is(err, index.ErrFull) {
			t.Fatal(err)
		}
		if w.stands(cardURL) != "-" || w.outcome(catURL) != "-" || !w.doc(catURL).CheckedAt.IsZero() {
			t.Error("part of a visit was written")
		}
		calls.err = nil
		w.until(5 * time.Minute)
		w.wantState(cardURL, "listed")
	})
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
