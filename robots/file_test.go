package robots_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/robots"
)

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
