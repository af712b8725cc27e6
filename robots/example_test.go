package robots_test

import (
	"fmt"
	"time"

	"github.com/openbot-build/openbot-go/robots"
)

// A crawler keeps one File an origin and asks it before each request.
func Example() {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	var file robots.File
	fmt.Println(file.Due(now, time.Hour))

	file = file.Next(robots.Answer{Status: 200, Body: []byte("User-agent: OpenBot\nCrawl-delay: 5\nDisallow: /private\n")}, now)
	for _, target := range []string{"/.well-known/ai-catalog.json", "/private/card"} {
		verdict, reason := file.Verdict(target, now)
		fmt.Printf("%s: %s: %s\n", target, verdict, reason)
	}
	fmt.Println("gap:", file.Rules.CrawlDelay())

	// The next day the site is down. Its rules stay in force.
	now = now.Add(25 * time.Hour)
	file = file.Next(robots.Answer{Status: 503}, now)
	verdict, reason := file.Verdict("/private/card", now)
	fmt.Printf("%s: %s\n", verdict, reason)

	// Output:
	// true
	// /.well-known/ai-catalog.json: allow: no rule of robots.txt matches
	// /private/card: disallow: robots.txt disallows it for OpenBot (Disallow: /private)
	// gap: 5s
	// disallow: robots.txt disallows it for OpenBot (Disallow: /private), as of 2026-11-29 12:00:00Z; robots.txt answered 503
}

// A header line can speak to several crawlers.
func ExampleParseTag() {
	tag := robots.ParseTag([]string{"otherbot: noindex", "nofollow, OpenBot: none"}, robots.Token)
	fmt.Println(tag.NoIndex)
	// Output: true
}
