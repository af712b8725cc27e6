package robots_test

import (
	"errors"
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

var (
	closed = robots.Answer{Status: 200, Body: []byte("User-agent: *\nDisallow: /\n"), ETag: `W/"r1"`, LastModified: "Sun, 01 Nov 2026 00:00:00 GMT", FinalURL: "https://a.example.com/robots.txt"}
	open   = robots.Answer{Status: 200, Body: []byte("User-agent: *\nDisallow:\n")}
	gone   = robots.Answer{Status: 404}
)

// answers is the table of what an answer means, with nothing stored and with
// rules stored that close all but robots.txt.
var answers = []struct {
	name          string
	answer        robots.Answer
	fresh, stored robots.Verdict
}{
	{"200 closed", closed, robots.Disallow, robots.Disallow},
	{"200 open", open, robots.Allow, robots.Allow},
	{"204", robots.Answer{Status: 204}, robots.Allow, robots.Allow},
	{"304", robots.Answer{Status: 304}, robots.Unread, robots.Disallow},
	{"sixth redirect", robots.Answer{Err: fmt.Errorf("fetch: %w", robots.ErrTooManyHops)}, robots.Allow, robots.Allow},
	{"no Location", robots.Answer{Err: fmt.Errorf("fetch: %w", robots.ErrNoLocation)}, robots.Allow, robots.Allow},
	{"302 as an answer", robots.Answer{Status: 302}, robots.Allow, robots.Allow},
	{"400", robots.Answer{Status: 400}, robots.Allow, robots.Allow},
	{"401", robots.Answer{Status: 401}, robots.Allow, robots.Allow},
	{"403", robots.Answer{Status: 403}, robots.Allow, robots.Allow},
	{"404", gone, robots.Allow, robots.Allow},
	{"410", robots.Answer{Status: 410}, robots.Allow, robots.Allow},
	{"429", robots.Answer{Status: 429}, robots.Unread, robots.Disallow},
	{"451", robots.Answer{Status: 451}, robots.Allow, robots.Allow},
	{"500", robots.Answer{Status: 500}, robots.Unread, robots.Disallow},
	{"503 with a body", robots.Answer{Status: 503, Body: []byte("<h1>sorry</h1>")}, robots.Unread, robots.Disallow},
	{"dns", robots.Answer{Err: errors.New("no such host")}, robots.Unread, robots.Disallow},
	{"cut body", robots.Answer{Err: errors.New("unexpected EOF"), Body: []byte("User-agent: *\n")}, robots.Unread, robots.Disallow},
	{"redirect that the guard refuses", robots.Answer{Err: errors.New("not a public address")}, robots.Unread, robots.Disallow},
	{"no status at all", robots.Answer{}, robots.Unread, robots.Disallow},
}

// R5, D16, OB-122, FO-32: every row of the table.
func answerTable(t *testing.T) {
	t.Helper()
	for _, a := range answers {
		old := robots.File{}.Next(closed, noon.Add(-48*time.Hour))
		for name, from := range map[string]struct {
			file robots.File
			want robots.Verdict
		}{"nothing stored": {robots.File{}, a.fresh}, "rules stored": {old, a.stored}} {
			f := from.file.Next(a.answer, noon)
			v, reason := f.Verdict("/card", noon)
			if v != from.want {
				t.Errorf("%s, %s: %s (%s), want %s", a.name, name, v, reason, from.want)
			}
			if f.TriedAt != noon {
				t.Errorf("%s, %s: TriedAt is %v", a.name, name, f.TriedAt)
			}
			if f.Unreachable != (f.Problem != "") || f.Unreachable && (f.State != from.file.State || f.ReadAt != from.file.ReadAt) {
				t.Errorf("%s, %s: an unreachable file is kept as an answer: %+v", a.name, name, f)
			}
			if v == robots.Unread && reason == "" {
				t.Errorf("%s, %s: no reason", a.name, name)
			}
		}
	}
}

func TestRule_CrawlerR5_AnswerTable(t *testing.T)             { answerTable(t) }
func TestRule_D16_UnreachableKeepsLastGoodRules(t *testing.T) { answerTable(t) }
func TestRule_OB122_AnswerTable(t *testing.T)                 { answerTable(t) }

// FO-32: 503 with a web page, once with stored rules and once with none, later
// 200 with rules that close the site.
func TestRule_FO32_BrokenSiteIsNotOpen(t *testing.T) {
	broken := robots.Answer{Status: 503, Body: []byte("<!doctype html><title>Oops</title>")}
	f := robots.File{}
	steps := []struct {
		answer robots.Answer
		want   robots.Verdict
	}{{broken, robots.Unread}, {broken, robots.Unread}, {closed, robots.Disallow}, {broken, robots.Disallow}, {open, robots.Allow}, {broken, robots.Allow}, {closed, robots.Disallow}}
	at := noon
	for i, s := range steps {
		at = at.Add(25 * time.Hour)
		f = f.Next(s.answer, at)
		if v, reason := f.Verdict("/x", at); v != s.want {
			t.Errorf("step %d: %s (%s), want %s", i, v, reason, s.want)
		}
	}
}

// R6: 24 h, then a conditional request; old rules survive a failure without
// limit of time.
func TestRule_CrawlerR6_Refresh(t *testing.T) {
	retry := time.Hour
	if !(robots.File{}).Due(noon, retry) {
		t.Error("a file that was never asked for is not due")
	}
	f := robots.File{}.Next(closed, noon)
	for age, want := range map[time.Duration]bool{0: false, 24*time.Hour - time.Second: false, 24 * time.Hour: true, 400 * time.Hour: true, -time.Hour: true} {
		if got := f.Due(noon.Add(age), retry); got != want {
			t.Errorf("age %v: due = %t", age, got)
		}
	}
	if f.ETag != closed.ETag || f.LastModified != closed.LastModified || f.FinalURL != closed.FinalURL {
		t.Errorf("validators are not kept: %+v", f)
	}

	later := noon.Add(25 * time.Hour)
	same := f.Next(robots.Answer{Status: 304}, later)
	if same.Due(later.Add(23*time.Hour), retry) || same.Rules != f.Rules || same.ETag != f.ETag || same.FinalURL != f.FinalURL || same.LastModified != f.LastModified {
		t.Errorf("304 does not renew what is stored: %+v", same)
	}
	retagged := f.Next(robots.Answer{Status: 304, ETag: `"r2"`, FinalURL: "https://b.example.com/robots.txt"}, later)
	if retagged.ETag != `"r2"` || retagged.FinalURL != "https://b.example.com/robots.txt" {
		t.Errorf("304 with new validators keeps the old ones: %+v", retagged)
	}

	failed := f.Next(robots.Answer{Status: 500}, later)
	if failed.Due(later.Add(59*time.Minute), retry) || !failed.Due(later.Add(time.Hour), retry) {
		t.Error("a failed attempt is not repeated after the retry time")
	}
	if failed.ETag != f.ETag {
		t.Error("a failure drops the validators")
	}
	year := noon.Add(365 * 24 * time.Hour)
	if v, _ := failed.Next(robots.Answer{Status: 500}, year).Verdict("/x", year); v != robots.Disallow {
		t.Errorf("stored rules end with time: %s", v)
	}
	none := f.Next(gone, later)
	if none.ETag != "" || none.Rules != nil || none.Due(later.Add(23*time.Hour), retry) || !none.Due(later.Add(24*time.Hour), retry) {
		t.Errorf("404 is kept for 24 h and drops what was stored: %+v", none)
	}
	if next := none.Next(robots.Answer{Status: 304}, later); !next.Unreachable {
		t.Error("304 without stored rules is taken for an answer")
	}
}

// D38: a stored 404 counts for 7 days while the file cannot be read.
func noneForAWeek(t *testing.T) {
	t.Helper()
	f := robots.File{}.Next(gone, noon)
	for _, c := range []struct {
		after time.Duration
		want  robots.Verdict
	}{{time.Hour, robots.Allow}, {7 * 24 * time.Hour, robots.Allow}, {7*24*time.Hour + time.Second, robots.Unread}} {
		at := noon.Add(c.after)
		g := f.Next(robots.Answer{Status: 503}, at)
		if v, reason := g.Verdict("/x", at); v != c.want || !strings.Contains(reason, "503") {
			t.Errorf("%v after the 404: %s (%s), want %s", c.after, v, reason, c.want)
		}
		if v, _ := g.Next(gone, at).Verdict("/x", at); v != robots.Allow {
			t.Errorf("%v: a new 404 does not count", c.after)
		}
	}
}

func TestRule_D38_NoneCountsForAWeek(t *testing.T)       { noneForAWeek(t) }
func TestRule_CrawlerR6_NoneCountsForAWeek(t *testing.T) { noneForAWeek(t) }

// R7 and OB-121 are the crawler's; what this package owes them is that
// robots.txt itself is always allowed, whatever is known, and nothing else is.
func TestRule_CrawlerR7_RobotsTxtItself(t *testing.T) {
	for name, f := range map[string]robots.File{
		"never read": {},
		"closed":     robots.File{}.Next(closed, noon),
		"failed":     robots.File{}.Next(robots.Answer{Status: 500}, noon),
	} {
		if v, _ := f.Verdict("/robots.txt", noon); v != robots.Allow {
			t.Errorf("%s: /robots.txt: %s", name, v)
		}
		if v, _ := f.Verdict("/robots.txt.bak", noon); v == robots.Allow {
			t.Errorf("%s: /robots.txt.bak: %s", name, v)
		}
	}
}

// OB-121: the verdict tells a refusal by the publisher, which removes, from a
// file that could not be read, which does not.
func TestRule_OB121_RefusalIsNotUnreachable(t *testing.T) {
	refused, why := robots.File{}.Next(closed, noon).Verdict("/card", noon)
	unread, whyNot := robots.File{}.Next(robots.Answer{Status: 503}, noon).Verdict("/card", noon)
	if refused != robots.Disallow || unread != robots.Unread {
		t.Errorf("refused: %s, unreadable: %s", refused, unread)
	}
	if !strings.Contains(why, "Disallow: /") || !strings.Contains(why, "all crawlers") || !strings.Contains(whyNot, "503") {
		t.Errorf("reasons: %q, %q", why, whyNot)
	}
	own := robots.Answer{Status: 200, Body: []byte("User-agent: openbot\nDisallow: /c\nAllow: /c/d")}
	f := robots.File{}.Next(own, noon)
	if v, why := f.Verdict("/card", noon); v != robots.Disallow || !strings.Contains(why, "for OpenBot") {
		t.Errorf("%s: %s", v, why)
	}
	if v, why := f.Verdict("/c/d", noon); v != robots.Allow || !strings.Contains(why, "allows it for OpenBot") {
		t.Errorf("%s: %s", v, why)
	}
	if v, why := f.Verdict("/x", noon); v != robots.Allow || !strings.Contains(why, "no rule") {
		t.Errorf("%s: %s", v, why)
	}
	if v, why := (robots.File{}).Verdict("/x", noon); v != robots.Unread || !strings.Contains(why, "not read yet") {
		t.Errorf("%s: %s", v, why)
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
	words := []string{"User-agent: OpenBot", "User-agent: *", "User-agent: other", "user-agent openbot/2", "Disallow: /a", "Allow: /a/b", "Disallow:",
		"Disallow: /*b$", "Allow: *", "Disallow: /a$b$", "Disallow: /%61/%2a%2F%zz", "Disallow: /x\xff\x01y", "Allow: /雨 z", "disalow: /{}", "Crawl-delay: 0.333333333",
		"Crawl-delay: 12", "Crawl-delay: x", "Sitemap: x", "# n", "", "Disallow: b", "Allow: /a", "Disallow: /a*/**c"}
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
