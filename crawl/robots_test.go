package crawl

import (
	"strings"
	"testing"
	"time"
)

// OB-111: the crawler works under the token OpenBot and asks robots.txt first.
func TestRule_OB111_TokenAndRobotsFirst(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page(robotsAt, "200", "User-agent: *\nDisallow: /\nUser-agent: OpenBot\nAllow: /\n")
		w.published()
		all := w.net.Requests()
		if all[0].URL != robotsAt {
			t.Errorf("the first request is %s", all[0])
		}
		for _, r := range all {
			if !strings.HasPrefix(r.Header.Get("User-Agent"), "OpenBot/") || r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" {
				t.Errorf("%s has the header %v", r, r.Header)
			}
		}
	})
}

// OB-113: noindex on the card opts out.
func TestRule_OB113_NoIndexOptsOut(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.published()
		w.page(cardURL, "X-Robots-Tag: noindex", cardJSON("com.example/notes", ""))
		w.until(30 * time.Hour)
		w.wantState(cardURL, "removed noindex")
		w.wantSentence(cardURL, "noindex")
	})
}

// OB-119: X-Robots-Tag, as the crawler uses it.
func TestRule_OB119_XRobotsTag(t *testing.T) {
	for head, want := range map[string]string{
		"X-Robots-Tag: none":                                             "- noindex",
		"X-Robots-Tag: nofollow\nX-Robots-Tag: NoIndex":                  "- noindex",
		"X-Robots-Tag: otherbot: noindex":                                "listed listed",
		"X-Robots-Tag: otherbot: nofollow, openbot: noindex":             "- noindex",
		"X-Robots-Tag: noindexing":                                       "listed listed",
		"X-Robots-Tag: unavailable_after: Sat, 01 Jan 2000 03:00:00 GMT": "listed listed", // in one hour
		"X-Robots-Tag: unavailable_after: Fri, 31 Dec 1999 00:00:00 GMT": "- noindex",
	} {
		t.Run(head, func(t *testing.T) {
			rule(t, func(t *testing.T, w *world) {
				w.page(catURL, "", catalogJSON(cardURL))
				w.page(cardURL, head, cardJSON("com.example/notes", ""))
				w.add("apps.example.com")
				w.settle()
				if got := w.stands(cardURL) + " " + w.outcome(cardURL); got != want {
					t.Fatalf("got %q, want %q", got, want)
				}
			})
		})
	}
}

// A kept unavailable_after passes between two visits (crawler X3).
func TestRule_CrawlerX3_UnavailableAfterPasses(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page(catURL, "", catalogJSON(cardURL))
		w.page(cardURL, "X-Robots-Tag: unavailable_after: Sat, 01 Jan 2000 03:00:00 GMT", cardJSON("com.example/notes", ""))
		w.add("apps.example.com")
		w.settle()
		w.wantState(cardURL, "listed")
		w.until(3*time.Hour + time.Minute)
		w.wantState(cardURL, "removed noindex")
	})
}

// OB-121, crawler R7: robots.txt is asked for every URL, redirect targets too.
func TestRule_OB121_RobotsForEveryURL(t *testing.T) { once(t, "robotsEverywhere", robotsEverywhere) }

func TestRule_CrawlerR7_HopsUnderRobots(t *testing.T) { once(t, "robotsEverywhere", robotsEverywhere) }

func robotsEverywhere(t *testing.T) {
	t.Run("card", func(t *testing.T) {
		rule(t, func(t *testing.T, w *world) {
			w.published()
			w.page(robotsAt, "200", "User-agent: openbot\nDisallow: /card\n")
			w.until(60 * time.Hour)
			w.wantState(cardURL, "removed robots_disallow")
			w.wantSentence(cardURL, "robots.txt", "allow OpenBot")
		})
	})
	t.Run("hop on the same host", func(t *testing.T) {
		rule(t, func(t *testing.T, w *world) {
			w.page(robotsAt, "200", "User-agent: *\nDisallow: /secret\n")
			w.page(catURL, "", catalogJSON(cardURL))
			w.page(cardURL, "302 /secret/card", "")
			w.page(appsHost+"/secret/card", "", cardJSON("com.example/notes", ""))
			w.add("apps.example.com")
			w.settle()
			if n := len(w.requests(appsHost + "/secret")); n != 0 || w.outcome(cardURL) != "disallowed" {
				t.Fatalf("%d requests, outcome %s", n, w.outcome(cardURL))
			}
		})
	})
	t.Run("hop on another host", func(t *testing.T) {
		rule(t, func(t *testing.T, w *world) {
			w.page("https://cdn.example.net/robots.txt", "200", "User-agent: *\nDisallow: /card\n")
			w.page("https://cdn.example.net/card", "", cardJSON("com.example/notes", ""))
			w.page(catURL, "", catalogJSON(cardURL))
			w.page(cardURL, "302 https://cdn.example.net/card", "")
			w.add("apps.example.com")
			w.settle()
			if n := len(w.requests("https://cdn.example.net/card")); n != 0 || w.outcome(cardURL) != "disallowed" {
				t.Fatalf("%d requests, outcome %s", n, w.outcome(cardURL))
			}
		})
	})
}

// OB-122, D16, FO-32, R5: what the answer to the robots.txt request means.
func TestRule_OB122_RobotsAnswers(t *testing.T)   { once(t, "robotsAnswers", robotsAnswers) }
func TestRule_D16_RobotsToTheLetter(t *testing.T) { once(t, "robotsAnswers", robotsAnswers) }
func TestRule_CrawlerR5_Outcomes(t *testing.T)    { once(t, "robotsAnswers", robotsAnswers) }
func TestRule_OBT22_Robots(t *testing.T)          { once(t, "robotsAnswers", robotsAnswers) }
func TestRule_FO32_UnreadableRobots(t *testing.T) { once(t, "robotsAnswers", robotsAnswers) }

func robotsAnswers(t *testing.T) {
	const disallow = "User-agent: *\nDisallow: /card\n"
	for _, tt := range []struct{ name, robots, want string }{
		{"own group", "200\n\nUser-agent: *\nDisallow: /\nUser-agent: OpenBot\nDisallow: /x\n", "listed"},
		{"star", "200\n\n" + disallow, "- disallowed"},
		{"tie", "200\n\nUser-agent: *\nDisallow: /card\nAllow: /card\n", "listed"},
		{"404", "404\n\n" + disallow, "listed"},
		{"401", "401\n\n" + disallow, "listed"},
		{"403", "403\n\n" + disallow, "listed"},
		{"429", "429\n", "- unreachable"},
		{"503", "503\nContent-Type: text/html\n\n<html>" + disallow, "- unreachable"},
		{"timeout", "200\ntimeout\n", "- unreachable"},
		{"reset", "200\nreset\n", "- unreachable"},
		{"cut", "200\ncut\n\n" + disallow, "- unreachable"},
		{"redirect", "301 https://www.example.net/robots.txt\n", "- disallowed"},
		{"private redirect", "301 https://10.0.0.1/robots.txt\n", "- unreachable"},
		{"redirect nowhere", "301\n", "listed"},
		{"loop", "301 " + robotsAt + "\n", "listed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rule(t, func(t *testing.T, w *world) {
				w.load("-- GET " + robotsAt + " --\n" + tt.robots)
				w.page("https://www.example.net/robots.txt", "200", disallow)
				w.page(catURL, "", catalogJSON(cardURL))
				w.page(cardURL, "", cardJSON("com.example/notes", ""))
				w.add(cardURL)
				w.settle()
				got := w.stands(cardURL)
				if got == "-" {
					got += " " + w.outcome(cardURL)
					if n := len(w.requests(cardURL)); n != 0 {
						t.Errorf("the card was asked for %d times", n)
					}
				}
				if got != tt.want {
					t.Fatalf("got %q, want %q: %s", got, tt.want, w.sentence(cardURL))
				}
			})
		})
	}
	t.Run("503 with stored rules", func(t *testing.T) {
		rule(t, func(t *testing.T, w *world) {
			w.page(robotsAt, "200", "User-agent: *\nDisallow: /other\n")
			w.page(appsHost+"/other", "", cardJSON("com.example/other", ""))
			w.page(catURL, "", catalogJSON(cardURL, appsHost+"/other"))
			w.page(cardURL, "", cardJSON("com.example/notes", ""))
			w.add("apps.example.com")
			w.settle()
			w.page(robotsAt, "503", "")
			w.until(30 * day)
			w.wantState(cardURL, "listed")
			if n := len(w.requests(appsHost + "/other")); n != 0 {
				t.Errorf("a refused address was asked for %d times", n)
			}
			w.page(robotsAt, "200", "User-agent: *\nDisallow: /\n")
			w.until(45 * day)
			w.wantState(cardURL, "removed robots_disallow")
		})
	})
}

// D38: a stored "no robots.txt" counts for 7 days while it cannot be read.
func TestRule_D38_StoredNoneCountsSevenDays(t *testing.T) { once(t, "storedNone", storedNone) }

func TestRule_CrawlerR6_RulesSurvive(t *testing.T) {
	once(t, "storedNone", storedNone)
	once(t, "robotsAnswers", robotsAnswers)
}

func storedNone(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.published()
		w.page(robotsAt, "503", "")
		read := w.start.Add(0)
		w.until(20 * day)
		for _, r := range w.requests(cardURL) {
			if r.Time.Sub(read) > 8*day+2*time.Hour {
				t.Errorf("%s after %s without a robots.txt", r, r.Time.Sub(read))
			}
		}
		if len(w.requests(robotsAt)) < 5 {
			t.Errorf("robots.txt was tried %d times", len(w.requests(robotsAt)))
		}
		w.page(robotsAt, "404", "")
		w.until(40 * day)
		w.wantState(cardURL, "listed")
	})
}
