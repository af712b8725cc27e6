package robots

import (
	"strings"
	"time"
)

// Tag is what X-Robots-Tag headers ask of one crawler. The zero value asks for
// nothing.
type Tag struct {
	NoIndex          bool
	UnavailableAfter time.Time // the earliest date given; zero: none
}

// NoIndexAt reports whether the tag forbids indexing at time now: by noindex,
// or because its unavailable_after has come.
func (t Tag) NoIndexAt(now time.Time) bool {
	return t.NoIndex || !t.UnavailableAfter.IsZero() && !now.Before(t.UnavailableAfter)
}

// words are the rules without a value. None of them names a crawler.
var words = map[string]bool{ // rule: forbids indexing
	"noindex": true, "none": true,
	"all": false, "index": false, "follow": false, "nofollow": false, "noarchive": false, "nocache": false,
	"nosnippet": false, "noimageindex": false, "notranslate": false, "indexifembedded": false,
	"nositelinkssearchbox": false, "noodp": false, "noydir": false, "noai": false, "noimageai": false,
}

// ParseTag reads the values of all X-Robots-Tag header lines for the crawler
// named token.
//
// Each line is a list of its own. A crawler's name before a colon covers what
// follows it in that line, until the next name; what stands before any name,
// or behind "*:", is for all. The rules for all and those for token add up, so
// the stricter wins. An unknown rule, a date that cannot be read and a rule for
// another crawler are ignored.
//
// Source: the header has no standard; OpenBot App Protocol V1.1 names it, the
// form is the one that search engines document.
func ParseTag(values []string, token string) Tag {
	var t Tag
	for _, v := range values {
		t.readLine(v, token)
	}
	return t
}

func (t *Tag) readLine(line, token string) {
	parts := strings.Split(line, ",")
	ours := true // no name yet: for all
	for i := 0; i < len(parts); i++ {
		part := trim(parts[i])
		for {
			name, rest, colon := strings.Cut(part, ":")
			if !colon {
				break
			}
			name = strings.ToLower(trim(name))
			if _, rule := words[name]; rule {
				part = name // "noindex: yes"
				break
			}
			if name == "unavailable_after" {
				at, used := date(rest, parts[i+1:])
				if i += used; ours && !at.IsZero() && (t.UnavailableAfter.IsZero() || at.Before(t.UnavailableAfter)) {
					t.UnavailableAfter = at
				}
				part = ""
				break
			}
			whose, isName := crawler(name, token)
			if !isName {
				part = ""
				break
			}
			ours, part = whose, trim(rest)
		}
		if ours && forbids(part) {
			t.NoIndex = true
		}
	}
}

// crawler reads what stands before a colon, in lower case: whether it names a
// crawler at all and, if so, whether the rules behind it are ours to obey.
func crawler(name, token string) (ours, ok bool) {
	if name == "*" {
		return true, true
	}
	if strings.HasPrefix(name, "max-") { // max-snippet and its like are rules
		return false, false
	}
	if p := product(name); strings.EqualFold(p, token) && (p == name || strings.ContainsRune("/ \t", rune(name[len(p)]))) {
		return true, true
	}
	// A piece of a date, or no name: leave the names that went before.
	return false, name != "" && !strings.ContainsAny(name, " \t") && strings.Trim(name, "0123456789-.") != ""
}

// forbids reports whether one element of the list is a noindex. White space or
// a semicolon between rules is a common slip; it counts when nothing but rules
// stands there.
func forbids(element string) bool {
	found := false
	for _, w := range strings.FieldsFunc(element, func(c rune) bool { return strings.ContainsRune("; \t", c) }) {
		no, known := words[strings.ToLower(w)]
		if !known {
			return false
		}
		found = found || no
	}
	return found
}

// maxDateParts is how many more list elements a date can take: it may hold
// two commas ("Thursday, June 25, 2026").
const maxDateParts = 2

// date reads the value of unavailable_after, which may hold the list's own
// commas; used is how many of the next parts belong to it. Zero: unreadable.
func date(value string, next []string) (at time.Time, used int) {
	for {
		if at = oneDate(trim(value)); !at.IsZero() {
			return at, used
		}
		if used == maxDateParts || used == len(next) {
			return time.Time{}, 0
		}
		value += "," + next[used]
		used++
	}
}

var dateLayouts = []string{
	"2 Jan 2006 15:04:05 -0700", "2 Jan 2006 15:04:05", "2 Jan 2006 15:04 -0700", "2 Jan 2006 15:04", "2 Jan 2006",
	"2 January 2006 15:04:05 -0700", "2 January 2006 15:04:05", "2 January 2006",
	"2-Jan-2006 15:04:05 -0700", "2-Jan-2006 15:04:05", "2-Jan-2006", "2-Jan-06 15:04:05 -0700",
	"Jan 2 15:04:05 2006", "Jan 2, 2006 15:04:05 -0700", "Jan 2, 2006 15:04:05", "Jan 2, 2006",
	"January 2, 2006 15:04:05 -0700", "January 2, 2006 15:04:05", "January 2, 2006",
	"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04Z07:00",
	"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 -0700",
	"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02",
}

// zones are the named zones of RFC 822; time.Parse would take them as UTC.
var zones = map[string]string{
	"UT": "+0000", "UTC": "+0000", "GMT": "+0000", "Z": "+0000",
	"EST": "-0500", "EDT": "-0400", "CST": "-0600", "CDT": "-0500",
	"MST": "-0700", "MDT": "-0600", "PST": "-0800", "PDT": "-0700",
}

func oneDate(s string) time.Time {
	s = strings.Join(strings.FieldsFunc(s, func(c rune) bool { return strings.ContainsRune("; \t", c) }), " ")
	if i := strings.LastIndexByte(s, ' '); i >= 0 {
		if offset, ok := zones[strings.ToUpper(s[i+1:])]; ok {
			s = s[:i+1] + offset
		}
	}
	if day, rest, ok := strings.Cut(s, " "); ok && weekday(strings.TrimSuffix(day, ",")) {
		s = rest
	}
	for _, layout := range dateLayouts {
		if at, err := time.Parse(layout, s); err == nil {
			return at.UTC()
		}
	}
	return time.Time{}
}

func weekday(s string) bool {
	for d := range 7 {
		name := time.Weekday(d).String()
		if strings.EqualFold(s, name) || strings.EqualFold(s, name[:3]) {
			return true
		}
	}
	return false
}
