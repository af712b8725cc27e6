package robots

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Parse keeps the rules of a file that bind the crawler named token: those of
// its own groups or, when no group names it, those of the groups for "*".
//
// Any bytes are a file: a line that cannot be read costs that line and no
// other. Of a body over [MaxBytes] the whole lines within it count. Beyond
// RFC 9309, a few things that sites evidently mean are understood: a byte order
// mark, two words without the colon, common misspellings of the directives, a
// version after a crawler's name.
//
// Source: RFC 9309 section 2.2.
func Parse(body []byte, token string) *Rules {
	return parse(wholeLines(body, len(body) > MaxBytes), token)
}

func parse(body []byte, token string) *Rules {
	p := parser{token: token}
	p.read(string(body))
	return p.rules()
}

// wholeLines cuts a body at MaxBytes and, when it is only the beginning of a
// file, behind its last line end.
func wholeLines(body []byte, cut bool) []byte {
	if len(body) > MaxBytes {
		body = body[:MaxBytes]
	}
	if cut {
		body = body[:bytes.LastIndexAny(body, "\r\n")+1]
	}
	return body
}

// group is what the groups of one crawler add up to.
type group struct {
	named bool // a user-agent line names it
	here  bool // the group being read is one of its groups
	delay time.Duration
	lines []line
}

// line is an Allow or Disallow line, its path cut from the file.
type line struct {
	path  string
	allow bool
}

type parser struct {
	token   string
	own     group
	all     group // "*"
	agents  bool  // the last line that counts was a user-agent line
	delayed time.Duration
}

func (p *parser) read(s string) {
	for _, bom := range []byte("\xEF\xBB\xBF") { // a damaged mark too
		if s == "" || s[0] != bom {
			break
		}
		s = s[1:]
	}
	for s != "" {
		i := 0
		for i < len(s) && s[i] != '\n' && s[i] != '\r' {
			i++
		}
		if key, value, ok := fields(s[:i]); ok {
			p.line(key, value)
		}
		s = s[min(i+1, len(s)):]
	}
	p.endGroup()
}

// fields splits a line into directive and value, comment and white space
// removed. Without a colon the line must be two words.
func fields(l string) (key, value string, ok bool) {
	l, _, _ = strings.Cut(l, "#")
	if l = trim(l); l == "" {
		return "", "", false
	}
	if key, value, ok = strings.Cut(l, ":"); ok {
		return trim(key), trim(value), true
	}
	i := strings.IndexAny(l, " \t")
	if i < 0 {
		return "", "", false
	}
	key, value = l[:i], trim(l[i:])
	return key, value, !strings.ContainsAny(value, " \t")
}

func trim(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// directives are the line types that we read, misspelt ones included. Anything
// else, Sitemap for instance, is as if it were not there and so ends no group
// (section 2.2.4).
var directives = []struct{ key, is string }{
	{"disallow", "disallow"},
	{"allow", "allow"},
	{"user-agent", "user-agent"},
	{"crawl-delay", "crawl-delay"},
	{"useragent", "user-agent"},
	{"user agent", "user-agent"},
	{"dissallow", "disallow"},
	{"dissalow", "disallow"},
	{"disalow", "disallow"},
	{"diasllow", "disallow"},
	{"disallaw", "disallow"},
}

func directive(key string) string {
	for _, d := range directives {
		if len(d.key) == len(key) && strings.EqualFold(d.key, key) {
			return d.is
		}
	}
	return ""
}

func (p *parser) line(key, value string) {
	switch d := directive(key); d {
	case "user-agent":
		if !p.agents {
			p.endGroup()
			p.agents = true
		}
		switch {
		case value == "*" || strings.HasPrefix(value, "* ") || strings.HasPrefix(value, "*\t"):
			p.all.named, p.all.here = true, true
		case p.token != "" && strings.EqualFold(product(value), p.token):
			p.own.named, p.own.here = true, true
		}
	case "allow", "disallow":
		p.agents = false
		if value == "" {
			break // restricts nothing, but it is a rule and ends the agent lines
		}
		l := line{value, d == "allow"}
		if p.own.here {
			p.own.lines = append(p.own.lines, l)
		}
		if p.all.here && !p.own.named {
			p.all.lines = append(p.all.lines, l)
		}
	case "crawl-delay":
		// Belongs to the group but is none of its rules: agent lines may follow.
		p.delayed = max(p.delayed, delay(value))
	}
}

// endGroup closes the group being read. Its Crawl-delay counts for all agents
// of the group, also those named after it.
func (p *parser) endGroup() {
	for _, g := range []*group{&p.own, &p.all} {
		if g.here {
			g.delay = max(g.delay, p.delayed)
		}
		g.here = false
	}
	p.delayed = 0
}

// product is the crawler's name in a user-agent value: "OpenBot/2.1" is
// OpenBot's group, "OpenBot-News" another crawler's.
func product(value string) string {
	for i := range len(value) {
		c := value[i]
		if c|0x20 < 'a' || c|0x20 > 'z' {
			if c != '-' && c != '_' {
				return value[:i]
			}
		}
	}
	return value
}

// delay reads a Crawl-delay in seconds; what cannot be read is 0.
func delay(value string) time.Duration {
	if strings.Trim(value, "0123456789.") != "" {
		return 0
	}
	s, err := strconv.ParseFloat(value, 64)
	switch {
	case errors.Is(err, strconv.ErrRange) || s > MaxCrawlDelay.Seconds():
		return MaxCrawlDelay
	case err != nil:
		return 0
	}
	return time.Duration(math.Round(s * float64(time.Second)))
}

// rules makes what is kept, all of it copied out of the file.
func (p *parser) rules() *Rules {
	g, r := &p.own, &Rules{agent: p.token, own: true}
	if !p.own.named {
		g, r = &p.all, &Rules{agent: "*"}
		if !p.all.named {
			return &Rules{}
		}
	}
	r.delay = g.delay
	if len(g.lines) == 0 {
		return r
	}
	rules := make([]rule, len(g.lines))
	for i, l := range g.lines {
		rules[i] = newRule(l.path, l.allow)
	}
	slices.SortFunc(rules, func(a, b rule) int {
		if c := cmp.Compare(len(b.pattern), len(a.pattern)); c != 0 {
			return c
		}
		if a.allow != b.allow {
			if a.allow {
				return -1
			}
			return 1
		}
		if c := strings.Compare(a.pattern, b.pattern); c != 0 {
			return c
		}
		return strings.Compare(a.text, b.text)
	})
	rules = slices.CompactFunc(rules, func(a, b rule) bool {
		return a.pattern == b.pattern && a.allow == b.allow
	})
	r.rules = keep(rules)
	return r
}

// keep copies rules out of the file, so that they do not hold on to all of it.
func keep(rules []rule) []rule {
	size := 0
	for _, r := range rules {
		size += len(r.pattern)
		if r.text != r.pattern {
			size += len(r.text)
		}
		if r.match != r.pattern {
			size += len(r.match)
		}
	}
	var b strings.Builder
	b.Grow(size)
	add := func(s string) string {
		b.WriteString(s)
		return b.String()[b.Len()-len(s):]
	}
	kept := make([]rule, len(rules))
	for i, r := range rules {
		k := rule{pattern: add(r.pattern), allow: r.allow}
		k.text, k.match = k.pattern, k.pattern
		if r.text != r.pattern {
			k.text = add(r.text)
		}
		if r.match != r.pattern {
			k.match = add(r.match)
		}
		kept[i] = k
	}
	return kept
}

// MarshalText gives the rules as a small robots.txt of one group, which parses
// to the same rules for the same token; it is what a store keeps. It is "" when
// no group binds the crawler. The error is always nil.
func (r *Rules) MarshalText() ([]byte, error) {
	if r == nil || r.agent == "" {
		return []byte{}, nil
	}
	if r.text != "" {
		return []byte(r.text), nil
	}
	b := append([]byte("User-agent: "), r.agent...)
	b = append(b, '\n')
	if r.delay > 0 {
		b = append(b, "Crawl-delay: "...)
		b = strconv.AppendFloat(b, r.delay.Seconds(), 'f', -1, 64)
		b = append(b, '\n')
	}
	for _, l := range r.rules {
		b = append(b, l.String()...)
		b = append(b, '\n')
	}
	return b, nil
}

// UnmarshalText reads what [Rules.MarshalText] wrote. Any other text is read as
// a robots.txt for the crawler that its first user-agent line names. Very many
// rules stay text, so that a program can hold those of many hosts; they are read
// again at each [Rules.Match]. The error is always nil.
func (r *Rules) UnmarshalText(data []byte) error {
	first, _, _ := bytes.Cut(data, []byte("\n"))
	_, agent, _ := fields(string(first))
	*r = *parse(data, product(agent))
	r.pack()
	return nil
}

// printable reports whether a path can be shown to people as it is.
func printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }) < 0
}
