package robots_test

import (
	"strings"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/robots"
)

func FuzzParse(f *testing.F) {
	for _, file := range []string{"", "User-agent: *\nDisallow: /\n", "\xef\xbbUser-agent OpenBot\nAllow: /a$b*c$\ncrawl-delay: 3\rDisallow: /%7e%zz\xff#x", "user-agent: OpenBot\nDisallow: /*a*aa*aaaaaaaaaaaa*b"} {
		for _, target := range []string{"", "/~x", "?a#b", "/a%24b*\xffc", "/aaaaaaaaaaaaaaaaaaaaaaaaab"} {
			f.Add([]byte(file), target)
		}
	}
	f.Fuzz(func(t *testing.T, file []byte, target string) {
		rules := robots.Parse(file, robots.Token)
		if allowed, rule, _ := rules.Match(target); !allowed && rule == "" {
			t.Error("disallowed without a rule")
		} else if strings.ContainsAny(rule, "\r\n\x1b") {
			t.Errorf("rule %q is not fit to show", rule)
		}
		if !rules.Allowed("/robots.txt") {
			t.Error("/robots.txt is closed")
		}
		if d := rules.CrawlDelay(); d < 0 || d > robots.MaxCrawlDelay {
			t.Errorf("crawl delay %v", d)
		}
		if err := sameRules(rules, roundTrip(t, rules), []string{target, target + "x", "/" + target}); err != nil {
			t.Errorf("stored rules differ: %v", err)
		}
	})
}

func FuzzParseTag(f *testing.F) {
	for _, v := range []string{"noindex", "otherbot: none, OpenBot: nofollow", "unavailable_after: Thu, 25 Jun 2026 15:00:00 GMT, noindex", ":,;:*:", "OpenBot/: noindex", "unavailable_after:,,,"} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, value string) {
		now := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
		tag := robots.ParseTag([]string{value}, robots.Token)
		if tag.NoIndexAt(now) && !tag.NoIndexAt(now.Add(time.Hour)) {
			t.Error("a past date comes back")
		}
		// Lines add up: an own noindex cannot be taken back by another line.
		if !robots.ParseTag([]string{value, "OpenBot: noindex"}, robots.Token).NoIndex {
			t.Error("another line hides a noindex")
		}
		if tag.NoIndex && !strings.Contains(strings.ToLower(value), "no") {
			t.Error("noindex out of nothing")
		}
	})
}
