package crawl

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/discovery"
	"github.com/openbot-build/openbot-go/index"
)

// errNoIndex is why a document that could be read is no evidence (OB-120).
var errNoIndex = errors.New("its X-Robots-Tag asks not to be indexed, so nothing found only through it is")

// check is all that the judgement on one card rests on.
type check struct {
	now time.Time
	url string

	prev *index.Entry // as stored; nil when the card was never in the index

	// How the card document stood before this visit.
	firstSeen  time.Time
	fails      int // failed checks in a row, this one included if it fails
	wasFault   index.Reason
	faultSince time.Time
	waitSince  time.Time // zero unless it has been waiting
	needed     bool      // another document rests on it: not given up

	// When the document was looked at: earlier than now if its stored copy is
	// judged. Of a redirected card that is its target, whose fault may be
	// younger than faultSince.
	seen        time.Time
	targetSince time.Time

	// What this visit found. fault is "" for a card that can be used; text is a
	// clause that says what is wrong. waitsFor is a document that must be read
	// before the card itself can be.
	fault    index.Reason
	text     string
	waitsFor string
	read     *index.Entry // document facts of a usable card
	conf     *discovery.Confirmation
}

// verdict is what becomes of the card.
type verdict struct {
	code     index.Code
	sentence string
	entry    *index.Entry // to be written; nil: as it was
	changed  bool         // readers see a difference
	fault    index.Reason // "" only when listed
	text     string
	failed   bool      // counts as a failed check
	waiting  bool      // another document is to be read first
	again    bool      // the second look is due (D15)
	drop     bool      // the lead is given up
	edge     time.Time // when time alone changes the entry; zero: never
}

// judge applies the table of OB-133 to one card. It is a function of its
// argument alone.
//
// Source: OB-130 to OB-134; D14, D15.
func judge(c *check) verdict {
	if c.prev != nil && c.prev.State == index.Blocked {
		return verdict{code: index.OutcomeUnchanged, fault: index.ReasonBlocked, sentence: "Not in the index: its operator has blocked this card."}
	}
	switch c.fault {
	case index.ReasonNoIndex, index.ReasonDisallowed:
		return c.refused()
	case index.ReasonGone, index.ReasonInvalid:
		return c.broken()
	case "":
	default:
		return c.keep(index.OutcomeUnreachable, c.fault, c.text)
	}
	if c.waitsFor != "" {
		return c.wait([]string{c.waitsFor})
	}
	if c.conf.Evidence != nil {
		return c.listed()
	}
	var deferred []string
	for _, f := range c.conf.Findings {
		if f.Status == discovery.Deferred {
			deferred = append(deferred, named(f))
		}
	}
	if deferred != nil {
		return c.wait(deferred)
	}
	return c.unproven()
}

// live reports whether the card has an entry that can be kept or lost.
func (c *check) live() bool {
	return c.prev != nil && (c.prev.State == index.Listed || c.prev.State == index.Stale || c.prev.State == index.Hidden)
}

func (c *check) listed() verdict {
	e := *c.read
	ev := *c.conf.Evidence
	// Its texts are the entry's from here on, cut to their lengths; Raw would hold
	// the whole catalog.
	ev.Entry = catalog.Entry{Index: ev.Entry.Index, Identifier: ev.Entry.Identifier, Type: ev.Entry.Type, URL: ev.Entry.URL}
	e.Evidence = &ev
	e.State, e.Reason, e.StaleSince = index.Listed, "", time.Time{}
	listing := c.conf.Evidence.Entry
	e.Identifier, e.DisplayName = listing.Identifier, runes(listing.DisplayName, maxName)
	e.Description = runes(listing.Description, maxDescription)
	for _, t := range listing.Tags[:min(len(listing.Tags), maxTags)] {
		e.Tags = append(e.Tags, runes(t, maxTag))
	}
	e.FirstSeen, e.CheckedAt = c.now, c.now
	if c.prev != nil {
		e.FirstSeen = c.prev.FirstSeen
	}
	v := verdict{code: index.OutcomeListed, entry: &e, changed: true}
	if c.prev != nil {
		same := e
		same.CheckedAt = c.prev.UpdatedAt // being checked again is no change
		if !same.News(c.prev) {
			v.code, v.changed = index.OutcomeUnchanged, false
		}
	}
	v.sentence = fmt.Sprintf("In the index: %s lists it (%s).", ev.CatalogURL, kindWords(ev.Kind))
	return v
}

// refused is the publisher's word, and holds at once.
func (c *check) refused() verdict {
	advice := "to be listed, take the noindex away"
	code := index.OutcomeNoIndex
	if c.fault == index.ReasonDisallowed {
		code, advice = index.OutcomeDisallowed, "to be listed, allow OpenBot in robots.txt"
	}
	return c.remove(code, c.fault, c.text+"; "+advice)
}

// broken is a card that is gone or invalid: believed the second time, a day
// after the first.
func (c *check) broken() verdict {
	code := index.OutcomeGone
	if c.fault == index.ReasonInvalid {
		code = index.OutcomeInvalid
	}
	since, first := c.now, c.targetSince
	if c.wasFault == c.fault {
		since = c.faultSince
	}
	if first.IsZero() {
		first = since
	}
	if c.seen.Sub(first) >= apart && c.now.Sub(since) >= apart {
		return c.remove(code, c.fault, c.text)
	}
	if first.After(since) {
		since = first
	}
	v := c.keep(code, c.fault, c.text)
	if v.entry != nil && v.entry.State != index.Removed {
		second := since.Add(apart)
		v.sentence += fmt.Sprintf(" If that is still so after %s, it is removed.", second.UTC().Format(time.DateTime+"Z"))
		if v.again = !c.now.Before(second); !v.again {
			v.edge = earlier(v.edge, second)
		}
	}
	return v
}

func (c *check) unproven() verdict {
	if !c.live() {
		return c.keep(index.OutcomeUnconfirmed, index.ReasonUnconfirmed, c.missing())
	}
	last := c.prev.Evidence
	for _, f := range c.conf.Findings {
		if last == nil || f.CatalogURL != last.CatalogURL && !slices.Contains(last.Chain, f.CatalogURL) {
			continue
		}
		switch {
		case f.Status == discovery.NotListed:
			return c.remove(index.OutcomeUnconfirmed, index.ReasonDelisted,
				last.CatalogURL+" lists it no more, and no other catalog of its publisher does; to return, list it there again")
		case allNoIndex(f.Err):
			return c.remove(index.OutcomeUnconfirmed, index.ReasonNoIndex, last.CatalogURL+" cannot count: "+errNoIndex.Error())
		}
		return c.keep(index.OutcomeUnconfirmed, index.ReasonUnconfirmed, "the catalog that lists it cannot be used: "+whyUnread(f))
	}
	text := "nothing that the card names leads to the catalog that listed it"
	if last != nil {
		text = "nothing that the card names leads to " + last.CatalogURL + " any more"
	}
	return c.keep(index.OutcomeUnconfirmed, index.ReasonUnconfirmed, text+"; "+c.missing())
}

// missing says for each kind of evidence why it proves nothing.
func (c *check) missing() string {
	var b strings.Builder
	b.WriteString("no document of its publisher lists exactly " + c.url)
	for _, f := range c.conf.Findings {
		switch f.Status {
		case discovery.NotListed:
			fmt.Fprintf(&b, "; %s does not", f.CatalogURL)
		case discovery.Unreadable:
			fmt.Fprintf(&b, "; %s", whyUnread(f))
		}
	}
	b.WriteString("; list it in the catalog at " + wellKnownOf(c.url) + ", or in one that the card's Link header or the page at its websiteUrl names")
	return b.String()
}

// wait changes nothing but what time changes.
func (c *check) wait(urls []string) verdict {
	text := "waiting until " + strings.Join(urls, " and ") + " has been read on a visit of its own"
	if c.live() && !c.waitSince.IsZero() && c.now.Sub(c.waitSince) >= waitingFor {
		v := c.keep(index.OutcomeWaiting, index.ReasonUnconfirmed, text)
		v.fault, v.waiting, v.failed = index.ReasonWaiting, true, false
		return v
	}
	v := verdict{code: index.OutcomeWaiting, fault: index.ReasonWaiting, text: text, waiting: true}
	if c.live() && c.prev.State != index.Listed {
		v = c.keep(index.OutcomeWaiting, c.prev.Reason, text)
		v.fault, v.waiting, v.failed = index.ReasonWaiting, true, false
	}
	v.sentence = c.standing(v.entry) + ": " + text + "."
	if !c.live() && !c.waitSince.IsZero() && c.now.Sub(c.waitSince) >= pointerTime {
		v.code, v.drop = index.OutcomeDropped, true
		v.sentence += " It has waited for a month and is not visited any more; submit it again."
	}
	return v
}

// keep is what happens when neither presence nor absence was shown: an entry
// stays, flagged, hidden or dropped by its age; a lead may be given up.
func (c *check) keep(code index.Code, reason index.Reason, text string) verdict {
	v := verdict{code: code, fault: reason, text: text, failed: true}
	if !c.live() {
		return c.lead(v)
	}
	e := *c.prev
	if e.State == index.Listed {
		e.State, e.StaleSince = index.Stale, c.now
		v.code, v.changed = index.OutcomeStale, true
	}
	e.Reason = reason
	switch age := c.now.Sub(e.StaleSince); {
	case age >= dropAfter:
		v = c.remove(code, index.ReasonExpired, fmt.Sprintf("it could not be confirmed for 90 days (since %s): %s", e.StaleSince.UTC().Format(time.DateOnly), text))
		v.fault, v.text = reason, text
		return v
	case age >= hideAfter:
		if e.State != index.Hidden {
			v.code, v.changed = index.OutcomeHidden, true
		}
		e.State = index.Hidden
		v.edge = e.StaleSince.Add(dropAfter)
	default:
		v.edge = e.StaleSince.Add(hideAfter)
	}
	v.entry = &e
	v.sentence = c.standing(&e) + ": " + text + "."
	return v
}

// remove leaves a tombstone where there was an entry.
func (c *check) remove(code index.Code, reason index.Reason, text string) verdict {
	v := verdict{code: code, fault: reason, text: text, failed: true}
	if !c.live() {
		return c.lead(v)
	}
	v.code, v.changed = index.OutcomeRemoved, true
	e := c.prev.Tombstone()
	e.State, e.Reason, e.CheckedAt = index.Removed, reason, c.now
	v.entry = &e
	v.sentence = "Removed from the index: " + text + "."
	return v
}

// lead gives a card without an entry up after three failed checks over a week
// (OB-130).
func (c *check) lead(v verdict) verdict {
	v.sentence = "Not in the index: " + v.text + "."
	since := c.firstSeen
	if c.prev != nil && c.prev.UpdatedAt.After(since) {
		since = c.prev.UpdatedAt
	}
	if !c.needed && c.fails >= leadFails && c.now.Sub(since) >= leadTime {
		v.code, v.drop = index.OutcomeDropped, true
		v.sentence += " It has failed for a week and is not visited any more; submit it again when it is repaired."
	}
	return v
}

// standing says where the entry is, for the start of a sentence.
func (c *check) standing(e *index.Entry) string {
	if e == nil {
		e = c.prev
	}
	switch {
	case e == nil, e.State == index.Removed:
		return "Not in the index"
	case e.State == index.Hidden:
		return "Hidden from search since it could not be confirmed for 30 days"
	case e.State == index.Stale:
		return "In the index, marked as stale"
	}
	return "In the index"
}

// whyUnread says in a clause why a finding is neither proof nor disproof.
func whyUnread(f discovery.Finding) string {
	switch fault, ok := errors.AsType[*faultError](f.Err); {
	case errors.Is(f.Err, errNoIndex):
		return named(f) + " does not count: " + errNoIndex.Error()
	case ok:
		return fault.text
	}
	return oneLine(f.Err)
}

func named(f discovery.Finding) string {
	if f.CatalogURL != "" {
		return f.CatalogURL
	}
	if len(f.Chain) > 0 {
		return f.Chain[len(f.Chain)-1]
	}
	return "a document"
}

func kindWords(k catalog.Kind) string {
	switch k {
	case catalog.WellKnown:
		return "the catalog of its own origin"
	case catalog.LinkHeader:
		return "named by the card's Link header"
	case catalog.Website:
		return "named by the page at its websiteUrl"
	}
	return string(k)
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// allNoIndex reports whether noindex alone is why a catalog is not evidence: it
// says so itself, or every part of it that is missing does. A part that could
// not be read might have listed the card (OB-134).
func allNoIndex(err error) bool {
	if parts, ok := err.(interface{ Unwrap() []error }); ok { // the list itself
		return !slices.ContainsFunc(parts.Unwrap(), func(e error) bool { return !allNoIndex(e) })
	}
	return errors.Is(err, errNoIndex)
}

// What an entry takes over from a catalog, in characters; the rest is cut off.
const (
	maxName        = 200
	maxDescription = 1000
	maxTags        = 32
	maxTag         = 64
)

// runes gives the first n characters of s.
func runes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return strings.Clone(s[:i]) // s may be very long
		}
		n--
	}
	return s
}

func oneLine(err error) string {
	if err == nil {
		return "no reason given"
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}
