package robots

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// State is what is known of an origin's robots.txt.
type State string

// The states of a File.
const (
	Unknown State = ""      // never read
	Found   State = "rules" // a file was read
	None    State = "none"  // the origin has none (4xx and the like): no rules
)

const (
	fresh   = 24 * time.Hour     // how long an answer is used before it is asked for again (RFC 9309 section 2.4)
	noneFor = 7 * 24 * time.Hour // how long "there is none" counts while the file cannot be read (D38)
)

// ErrNoLocation and ErrTooManyHops are what an [Answer]'s Err holds for a
// redirect that leads nowhere. Both mean that there are no rules, which RFC
// 9309 section 2.3.1.2 permits.
var (
	ErrNoLocation  = errors.New("redirect without a Location")
	ErrTooManyHops = errors.New("sixth redirect")
)

// File is an origin's robots.txt over time: the last good answer and how
// reading it went since. It is a value; a store keeps it. The zero value is a
// file that was never asked for.
type File struct {
	State        State
	Rules        *Rules    // those of the last good answer; nil unless State is Found
	ReadAt       time.Time // last good answer: 2xx, 304 or one that means None
	TriedAt      time.Time // last attempt
	Unreachable  bool      // the last attempt failed; State and Rules are from before
	Problem      string    // why it failed, for people
	ETag         string    // byte for byte as it came
	LastModified string
	FinalURL     string // where the validators belong
}

// Answer is what came of one attempt to read robots.txt, redirects followed.
type Answer struct {
	Status       int // 0 when Err is set
	Err          error
	Body         []byte // decoded
	Truncated    bool   // Body is the beginning of a longer file; a last line without its end is ignored
	ETag         string
	LastModified string
	FinalURL     string
}

// Next gives the file after an attempt at time now.
//
//	2xx                                 Found with the new rules
//	304 when there are stored rules     the same rules, fresh again
//	4xx except 429, a redirect that
//	leads nowhere                       None
//	everything else                     Unreachable: what was known before stays
//
// Everything else is 5xx, 429, a 304 with nothing stored, and any error: DNS,
// TLS, timeouts, a body that was cut, a redirect that the address guard
// refuses. Such a file is neither a refusal nor a permission and is never kept
// as one.
//
// Source: RFC 9309 section 2.3.1; D16.
func (f File) Next(a Answer, now time.Time) File {
	good := File{ReadAt: now, TriedAt: now, ETag: a.ETag, LastModified: a.LastModified, FinalURL: a.FinalURL}
	none := File{State: None, ReadAt: now, TriedAt: now}
	switch {
	case errors.Is(a.Err, ErrNoLocation), errors.Is(a.Err, ErrTooManyHops):
		return none
	case a.Err != nil:
		return f.failed(now, "robots.txt could not be read: "+a.Err.Error())
	case 200 <= a.Status && a.Status <= 299:
		good.State = Found
		good.Rules = Parse(wholeLines(a.Body, a.Truncated), Token)
		return good
	case a.Status == 304 && f.State == Found && f.Rules != nil:
		good.State, good.Rules = Found, f.Rules
		if a.ETag == "" && a.LastModified == "" {
			good.ETag, good.LastModified = f.ETag, f.LastModified
		}
		if a.FinalURL == "" {
			good.FinalURL = f.FinalURL
		}
		return good
	case a.Status == 304:
		return f.failed(now, "robots.txt answered 304 though no rules are stored")
	case 300 <= a.Status && a.Status <= 399:
		return none
	case 400 <= a.Status && a.Status <= 499 && a.Status != 429:
		return none
	}
	return f.failed(now, fmt.Sprintf("robots.txt answered %d", a.Status))
}

func (f File) failed(now time.Time, problem string) File {
	f.TriedAt, f.Unreachable, f.Problem = now, true, problem
	return f
}

// Due reports whether the file must be read (again) before it is used: it was
// never read, the last answer is 24 h old, or the last attempt failed at least
// retry ago. An answer from the future, after a clock was set back, is due.
func (f File) Due(now time.Time, retry time.Duration) bool {
	if f.TriedAt.IsZero() {
		return true
	}
	if f.Unreachable {
		return due(f.TriedAt, now, retry)
	}
	return f.State == Unknown || due(f.ReadAt, now, fresh)
}

func due(last, now time.Time, after time.Duration) bool {
	age := now.Sub(last)
	return age < 0 || age >= after
}

// Verdict is what a crawler may do with one target.
type Verdict string

// The verdicts.
const (
	Allow    Verdict = "allow"
	Disallow Verdict = "disallow"    // the publisher's word
	Unread   Verdict = "unreachable" // neither refusal nor permission: fetch nothing (D16)
)

// maxReason is how many octets of a rule a reason shows.
const maxReason = 200

// Verdict judges one target at time now; see [Rules.Allowed] for the target.
// reason is a sentence for people that names the rule or the problem.
//
// Rules stay in force for as long as the file cannot be read. That there are
// none counts for 7 days from the answer that said so (D38). /robots.txt itself
// may always be fetched.
func (f File) Verdict(target string, now time.Time) (v Verdict, reason string) {
	if exempt(target) {
		return Allow, "robots.txt itself may always be read"
	}
	switch {
	case f.State == Found:
		allowed, rule, own := f.Rules.Match(target)
		v = Disallow
		if allowed {
			v = Allow
		}
		return v, f.since(because(v, rule, own))
	case f.State == None && now.Sub(f.ReadAt) <= noneFor:
		return Allow, f.since("the site has no robots.txt")
	case f.State == None:
		return Unread, "that the site has no robots.txt was last seen more than 7 days ago; " + f.problem()
	}
	return Unread, f.problem()
}

func because(v Verdict, rule string, own bool) string {
	if rule == "" {
		return "no rule of robots.txt matches"
	}
	if len(rule) > maxReason {
		rule = strings.ToValidUTF8(rule[:maxReason], "") + "..."
	}
	whom := "all crawlers"
	if own {
		whom = Token
	}
	does := "allows"
	if v == Disallow {
		does = "disallows"
	}
	return fmt.Sprintf("robots.txt %s it for %s (%s)", does, whom, rule)
}

// since adds how old the knowledge is when the file cannot be read now.
func (f File) since(reason string) string {
	if !f.Unreachable {
		return reason
	}
	return fmt.Sprintf("%s, as of %s; %s", reason, f.ReadAt.UTC().Format(time.DateTime+"Z"), f.problem())
}

func (f File) problem() string {
	if f.Problem == "" {
		return "robots.txt was not read yet"
	}
	return f.Problem
}
