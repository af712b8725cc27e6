// Package robots reads what a site asks of crawlers: robots.txt (RFC 9309) and
// the X-Robots-Tag header.
//
// It owns the reader and matcher of one file ([Rules]), what is known of an
// origin's robots.txt over time ([File]) and the header ([Tag]). It does no
// I/O: a crawler fetches, hands the answer to [File.Next], and asks
// [File.Verdict] before each request.
//
// A file costs what it says to us and no more. Only the rules of one crawler
// are kept, and neither the size of a file nor the shape of its patterns can
// make a match slow.
package robots

import (
	"encoding"
	"strings"
	"time"
)

// Token is the product token that robots.txt files and headers know us by.
//
// Source: OpenBot App Protocol V1.1.
const Token = "OpenBot"

// MaxBytes is how much of a robots.txt is read: 1 MiB, where RFC 9309 section
// 2.5 asks for at least 500 KiB. What lies behind it is ignored.
const MaxBytes = 1 << 20

// MaxCrawlDelay is the longest Crawl-delay that is honoured; a longer one
// counts as this (D16).
const MaxCrawlDelay = 300 * time.Second

// Rules is what one file asks of one crawler. The zero value allows all. Once
// made it is only read, so it may be used by many goroutines.
type Rules struct {
	agent string // of the group that binds: the crawler's token, "*", or "" for none
	own   bool   // agent is the crawler's own token
	delay time.Duration
	rules []rule // longest first, allow before disallow, none twice
	text  string // in place of rules that are very many: they as MarshalText writes them
}

var (
	_ encoding.TextMarshaler   = (*Rules)(nil)
	_ encoding.TextUnmarshaler = (*Rules)(nil)
)

// rule is one Allow or Disallow line with a path.
type rule struct {
	pattern string // normal form; '*' and a last '$' are special. Its length ranks the rule
	match   string // the same for matching: a '$' that is no anchor is %24
	text    string // as written, or pattern when that would not be fit to show
	allow   bool
}

func (r rule) String() string {
	if r.allow {
		return "Allow: " + r.text
	}
	return "Disallow: " + r.text
}

// Allowed reports whether a target may be fetched. A target is the path and
// query as they are sent; "" is "/", and a fragment does not count.
//
// The longest matching rule decides, Allow before Disallow when two are equally
// long; without one the target is allowed, and so is always /robots.txt.
//
// Source: RFC 9309 section 2.2.2.
func (r *Rules) Allowed(target string) bool {
	allowed, _, _ := r.Match(target)
	return allowed
}

// Match is [Rules.Allowed] with the rule that decided and whether it stood in
// the crawler's own group, not in the one for all ("*"). The rule is
// "Disallow: /path" or "Allow: /path" with the path as the file has it; it is
// one line of printable text that may be long, and "" when no rule matched.
func (r *Rules) Match(target string) (allowed bool, rule string, own bool) {
	if r == nil {
		return true, "", false
	}
	rules := r.unpacked()
	if len(rules) == 0 || exempt(target) {
		return true, "", r.own
	}
	if i := find(rules, normalTarget(target)); i >= 0 {
		return rules[i].allow, rules[i].String(), r.own
	}
	return true, "", r.own
}

// packFrom is the size from which on stored rules stay text. The largest file
// there can be has 100,000 rules, which take ten times their text.
const packFrom = 64 << 10

const ruleSize = 56 // octets of a rule beside its texts

// pack makes large rules small, at the price of reading them at each match.
func (r *Rules) pack() {
	if r.Size() >= packFrom {
		text, _ := r.MarshalText() // never fails
		r.rules, r.text = nil, string(text)
	}
}

func (r *Rules) unpacked() []rule {
	if r.text == "" {
		return r.rules
	}
	return parse([]byte(r.text), product(r.agent)).rules
}

// Size is about how many octets the rules take in memory. Those of most sites
// take a few hundred.
func (r *Rules) Size() int {
	if r == nil {
		return 0
	}
	n := len(r.text)
	for i := range r.rules {
		n += ruleSize + len(r.rules[i].text) + len(r.rules[i].pattern)
	}
	return n
}

// exempt reports whether the target is robots.txt itself, which no rule can
// close (RFC 9309 section 2.2.2).
func exempt(target string) bool {
	target, _, _ = strings.Cut(target, "#")
	return target == "/robots.txt"
}

// CrawlDelay is the gap between two requests that the group asks for, at most
// [MaxCrawlDelay]; 0 is none. RFC 9309 does not know it; we honour it (D16).
func (r *Rules) CrawlDelay() time.Duration {
	if r == nil {
		return 0
	}
	return r.delay
}
