package robots_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/temoto/robotstxt"

	"github.com/openbot-build/openbot-go/robots"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// match runs a table of targets against one file.
func match(t *testing.T, file string, want map[string]bool) {
	t.Helper()
	rules := robots.Parse([]byte(file), robots.Token)
	for target, allowed := range want {
		if got, rule, _ := rules.Match(target); got != allowed {
			t.Errorf("%q: allowed = %t by %q, want %t; file:\n%s", target, got, rule, allowed, file)
		}
	}
}

// R1: Parse keeps only what binds us.
func TestRule_CrawlerR1_KeepsOnlyWhatBindsUs(t *testing.T) {
	file := "User-agent: *\nDisallow: /star\n\nUser-agent: other\nDisallow: /other\n\n" +
		"User-agent: OpenBot\nDisallow: /ours\nCrawl-delay: 2\n\nSitemap: https://a.example.com/s.xml\n"
	text, err := robots.Parse([]byte(file), robots.Token).MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	if want := "User-agent: OpenBot\nCrawl-delay: 2\nDisallow: /ours\n"; string(text) != want {
		t.Errorf("kept %q, want %q", text, want)
	}
	text, _ = robots.Parse([]byte("User-agent: other\nDisallow: /\n"), robots.Token).MarshalText()
	if len(text) != 0 {
		t.Errorf("no group binds us, kept %q", text)
	}
}

// R2: one normal form for rules and targets.
func TestRule_CrawlerR2_OneNormalForm(t *testing.T) {
	for _, rule := range []string{"/{a}|b%7ec", "/%7Ba%7d%7cb~c"} {
		match(t, "User-agent: *\nDisallow: "+rule+"\n", map[string]bool{
			"/{a}|b~c": false, "/%7ba}|b%7Ec": false, "/a": true,
		})
	}
	match(t, "User-agent: *\nDisallow: /a%2Ab\nDisallow: /c%24\n", map[string]bool{
		"/aXb": true, "/a%2ab": false, "/c": true, "/c%24": false,
	})
}

// R2: a target is the raw path and query; a fragment and an empty path.
func TestRule_CrawlerR2_Target(t *testing.T) {
	match(t, "User-agent: *\nDisallow: /$\nDisallow: /?q\n", map[string]bool{
		"": false, "/": false, "/#top": false, "?q=1": false, "#top": false, "/a": true,
	})
}

// R3: duplicates cost nothing, and a file of patterns made to be slow is
// answered like any other. Times are measured by BenchmarkHostile.
func TestRule_CrawlerR3_HostilePatterns(t *testing.T) {
	same := "User-agent: OpenBot\n" + strings.Repeat("Disallow: /*a$\n", 30_000)
	rules := robots.Parse([]byte(same), robots.Token)
	if text, _ := rules.MarshalText(); len(text) > 100 {
		t.Errorf("30,000 equal rules are kept as %d octets", len(text))
	}
	if rules.Allowed("/bbba") || !rules.Allowed("/bbab") {
		t.Error("wrong answer")
	}
	var b strings.Builder
	b.WriteString("User-agent: OpenBot\n")
	for i := range 20_000 {
		fmt.Fprintf(&b, "Disallow: /*ab*a%xc*b\n", i)
	}
	b.WriteString("Allow: /*abab*b$\n")
	rules = robots.Parse([]byte(b.String()), robots.Token)
	if allowed, rule, _ := rules.Match("/" + strings.Repeat("ab", 4000)); !allowed || rule != "Allow: /*abab*b$" {
		t.Errorf("allowed = %t by %q", allowed, rule)
	}
	if allowed, rule, _ := rules.Match("/" + strings.Repeat("ab", 4000) + "a1f4cb"); allowed || rule != "Disallow: /*ab*a1f4c*b" {
		t.Errorf("allowed = %t by %q", allowed, rule)
	}
}

// R3: the longest rule decides, Allow before Disallow in a tie, whatever their
// order in the file.
func TestRule_CrawlerR3_LongestFirst(t *testing.T) {
	lines := []string{"Disallow: /a", "Allow: /a/b", "Disallow: /a/b/ce", "Allow: /a/b/*", "Disallow: /a/b/d", "Allow: /a/b/d"}
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		rnd.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		match(t, "User-agent: *\n"+strings.Join(lines, "\n"), map[string]bool{
			"/a": false, "/a/b": true, "/a/b/ce": false, "/a/b/c": true, "/a/b/d": true, "/x": true,
		})
	}
}

// R4: 1 MiB is read, and of a longer file what was read counts, cut at a line
// end.
func TestRule_CrawlerR4_Size(t *testing.T) {
	pad := func(n int) string {
		line := "# " + strings.Repeat("x", 61) + "\n"
		return strings.Repeat(line, n/len(line)) + strings.Repeat("\n", n%len(line))
	}
	head := "User-agent: *\nDisallow: /a\n"
	late := "Disallow: /late\n"
	match(t, head+pad(512_000)+late, map[string]bool{"/a": false, "/late": false})
	match(t, head+pad(robots.MaxBytes-len(head)-len(late))+late, map[string]bool{"/late": false})
	match(t, head+pad(robots.MaxBytes-len(head)-5)+late, map[string]bool{"/a": false, "/late": true, "/Di": true})
	// A rule cut in its middle would close more than the site asked for.
	match(t, head+pad(robots.MaxBytes-len(head)-len("Disallow: /l"))+late, map[string]bool{"/lamp": true})

	cut := robots.Answer{Status: 200, Body: []byte(head + "Disallow: /b"), Truncated: true}
	f := robots.File{}.Next(cut, noon)
	for target, want := range map[string]robots.Verdict{"/a": robots.Disallow, "/b": robots.Allow} {
		if got, reason := f.Verdict(target, noon); got != want {
			t.Errorf("cut file, %s: %s (%s), want %s", target, got, reason, want)
		}
	}
	cut.Truncated = false
	if got, _ := (robots.File{}).Next(cut, noon).Verdict("/b", noon); got != robots.Disallow {
		t.Error("the last line of a complete file needs no line end")
	}
}

// R8: Crawl-delay is a gap of at most 300 s; nothing is skipped because of it.
func TestRule_CrawlerR8_CrawlDelay(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"0": 0, "1": time.Second, "2.5": 2500 * time.Millisecond, "300": 300 * time.Second, "301": 300 * time.Second,
		"86400": 300 * time.Second, strings.Repeat("9", 400): 300 * time.Second, ".5": time.Second / 2,
		"-1": 0, "+1": 0, "ten": 0, "": 0, "1e9": 0, "inf": 0, "NaN": 0, "0x10": 0, "1,5": 0, "5 s": 0, "1.2.3": 0, ".": 0,
	} {
		rules := robots.Parse([]byte("User-agent: OpenBot\nCrawl-delay: "+value+"\nDisallow: /a\n"), robots.Token)
		if got := rules.CrawlDelay(); got != want {
			t.Errorf("Crawl-delay %q: %v, want %v", value, got, want)
		}
		if rules.Allowed("/a") || !rules.Allowed("/b") {
			t.Errorf("Crawl-delay %q changes what is allowed", value)
		}
	}
	for file, want := range map[string]time.Duration{
		"Crawl-delay: 9\nUser-agent: *\nDisallow: /a\n":                             0, // before the first group
		"User-agent: *\nCrawl-delay: 9\n\nUser-agent: OpenBot\nDisallow: /a\n":      9 * time.Second,
		"User-agent: *\nCrawl-delay: 9\nDisallow:\nUser-agent: OpenBot\nAllow: /\n": 0, // not our group
		"User-agent: other\nCrawl-delay: 9\nAllow: /\nUser-agent: *\nAllow: /\n":    0,
		"User-agent: *\nCrawl-delay: 3\nCrawl-delay: 5\nCrawl-delay: 4\n":           5 * time.Second,
		"User-agent: *\ncrawl-delay:3\nDisallow: /\nUser-agent: *\nCrawl-Delay: 7":  7 * time.Second,
	} {
		if got := robots.Parse([]byte(file), robots.Token).CrawlDelay(); got != want {
			t.Errorf("%q: %v, want %v", file, got, want)
		}
	}
}

// OB-T22: robots for OpenBot, for all, a tie. The other parts of the list are
// in the table of answers.
func TestRule_OBT22_Robots(t *testing.T) {
	match(t, "User-agent: OpenBot\nDisallow: /a\n\nUser-agent: *\nDisallow: /b\n", map[string]bool{"/a": false, "/b": true})
	match(t, "User-agent: other\nDisallow: /a\n\nUser-agent: *\nDisallow: /b\n", map[string]bool{"/a": true, "/b": false})
	match(t, "User-agent: *\nDisallow: /a\nAllow: /a\n", map[string]bool{"/a": true})
	answerTable(t)
}

// RFC 9309 section 2.2.2: the rule that decided, as the file has it.
func TestMatchNamesTheRule(t *testing.T) {
	file := "User-agent: OpenBot\nDissallow: /雨/%7ex \nDisallow: /evil\x1b[31m\nDisallow: /\xff\n"
	rules := robots.Parse([]byte(file), robots.Token)
	for target, want := range map[string]string{
		"/%E9%9B%A8/~x": "Disallow: /雨/%7ex",
		"/evil%1B[31m":  "Disallow: /evil%1B[31m", // unfit to show as written
		"/%FF":          "Disallow: /%FF",
		"/other":        "",
	} {
		if _, rule, own := rules.Match(target); rule != want || !own {
			t.Errorf("%s: rule %q, own group %t; want %q", target, rule, own, want)
		}
	}
	if _, _, own := robots.Parse([]byte("User-agent: *\nDisallow: /"), robots.Token).Match("/"); own {
		t.Error("a rule for all counts as our own")
	}
	long := robots.File{}.Next(robots.Answer{Status: 200, Body: []byte("User-agent: *\nDisallow: /" + strings.Repeat("雨", 500))}, noon)
	if _, reason := long.Verdict("/"+strings.Repeat("雨", 500), noon); len(reason) > 400 || !strings.Contains(reason, "...") {
		t.Errorf("a reason of %d octets", len(reason))
	}
}

// The zero value and nil allow all.
func TestZeroRules(t *testing.T) {
	var none *robots.Rules
	for _, r := range []*robots.Rules{none, {}} {
		if !r.Allowed("/x") || r.CrawlDelay() != 0 {
			t.Errorf("%+v does not allow all", r)
		}
		if text, err := r.MarshalText(); err != nil || len(text) != 0 {
			t.Errorf("MarshalText: %q, %v", text, err)
		}
	}
}

// randomFile makes files of many shapes from a few words.
func randomFile(rnd *rand.Rand) string {
	words := []string{
		"User-agent: OpenBot", "User-agent: *", "User-agent: other", "user-agent openbot/2", "Disallow: /a", "Allow: /a/b", "Disallow:",
		"Disallow: /*b$", "Allow: *", "Disallow: /a$b$", "Disallow: /%61/%2a%2F%zz", "Disallow: /x\xff\x01y", "Allow: /雨 z", "disalow: /{}", "Crawl-delay: 0.333333333",
		"Crawl-delay: 12", "Crawl-delay: x", "Sitemap: x", "# n", "", "Disallow: b", "Allow: /a", "Disallow: /a*/**c",
	}
	var b strings.Builder
	for range rnd.IntN(14) {
		b.WriteString(words[rnd.IntN(len(words))])
		b.WriteString([]string{"\n", "\r\n", "\r", " # c\n"}[rnd.IntN(4)])
	}
	return b.String()
}

var someTargets = []string{"", "/", "/a", "/a/b", "/a/bc", "/a$b", "/a%24b", "/a/*%2f%25zz", "/x%FF%01y", "/%E9%9B%A8%20z", "/{}", "/a/xc", "/b", "/?b", "/雨 z/b"}

// sameRules compares all that a Rules tells.
func sameRules(a, b *robots.Rules, targets []string) error {
	if a.CrawlDelay() != b.CrawlDelay() {
		return fmt.Errorf("crawl delay %v and %v", a.CrawlDelay(), b.CrawlDelay())
	}
	for _, target := range targets {
		a1, a2, a3 := a.Match(target)
		b1, b2, b3 := b.Match(target)
		if a1 != b1 || a2 != b2 || a3 != b3 {
			return fmt.Errorf("%q: %t %q %t and %t %q %t", target, a1, a2, a3, b1, b2, b3)
		}
	}
	return nil
}

// R6: what a store keeps means the same when read back, by UnmarshalText and as
// a robots.txt.
func TestRoundTrip(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		file := randomFile(rnd)
		rules := robots.Parse([]byte(file), robots.Token)
		text, _ := rules.MarshalText()
		for _, again := range []*robots.Rules{roundTrip(t, rules), robots.Parse(text, robots.Token)} {
			if err := sameRules(rules, again, someTargets); err != nil {
				t.Fatalf("%v; file:\n%s\nstored as:\n%s", err, file, text)
			}
			if second, _ := again.MarshalText(); string(second) != string(text) {
				t.Fatalf("stored as %q, then as %q", text, second)
			}
		}
	}
	// More than 1 MiB when written out: nothing is lost on the way back.
	var b strings.Builder
	b.WriteString("User-agent:OpenBot\n")
	for i := 0; b.Len() < robots.MaxBytes-40; i++ {
		fmt.Fprintf(&b, "Allow:/%05d\n", i)
	}
	b.WriteString("Disallow:/z\n")
	rules := robots.Parse([]byte(b.String()), robots.Token)
	if text, _ := rules.MarshalText(); len(text) <= robots.MaxBytes || roundTrip(t, rules).Allowed("/z") {
		t.Errorf("a large file loses rules in the store (%d octets)", len(text))
	}
}

// D36: on files without the things that it is known to miss, another reader
// agrees with ours.
func TestRule_D36_SecondOpinionAgrees(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	pick := func(words ...string) string { return words[rnd.IntN(len(words))] }
	path := func() string {
		var b strings.Builder
		for range 1 + rnd.IntN(4) {
			b.WriteString("/" + pick("a", "b", "ab", "ba", "aab"))
		}
		return b.String()
	}
	for range 3000 {
		var b strings.Builder
		for _, agent := range []string{"other", pick("OpenBot", "openbot", "third"), "*"} {
			b.WriteString("User-agent: " + agent + "\n")
			seen := map[string]bool{} // it lets the order decide a tie
			for range 1 + rnd.IntN(4) {
				if p := path(); !seen[p] {
					seen[p] = true
					b.WriteString(pick("Allow: ", "Disallow: ") + p + "\n")
				}
			}
			b.WriteString("\n")
		}
		target := path()
		other, err := robotstxt.FromString(b.String())
		if err != nil {
			t.Fatal(err)
		}
		want := other.TestAgent(target, robots.Token)
		if got, rule, _ := robots.Parse([]byte(b.String()), robots.Token).Match(target); got != want {
			t.Fatalf("%s: allowed = %t by %q, temoto says %t; file:\n%s", target, got, rule, want, b.String())
		}
	}
}
