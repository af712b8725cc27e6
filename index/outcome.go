package index

import "time"

// Code is what came of a visit to one document.
type Code string

// The outcomes.
const (
	OutcomeListed      Code = "listed"      // card valid, evidence proven: in the index
	OutcomeUnchanged   Code = "unchanged"   // nothing new
	OutcomeRead        Code = "read"        // a catalog or page was read
	OutcomeWaiting     Code = "waiting"     // evidence on another host is still to be read
	OutcomeUnconfirmed Code = "unconfirmed" // card valid, but no document of its publisher lists it
	OutcomeDisallowed  Code = "disallowed"  // robots.txt says no
	OutcomeNoIndex     Code = "noindex"
	OutcomeInvalid     Code = "invalid"     // complete, but not what it should be
	OutcomeGone        Code = "gone"        // 404 or 410
	OutcomeUnreachable Code = "unreachable" // everything that keeps the entry (D14)
	OutcomeStale       Code = "stale"
	OutcomeHidden      Code = "hidden"
	OutcomeRemoved     Code = "removed"
	OutcomeDropped     Code = "dropped" // a lead given up (OB-130)
	OutcomeCapped      Code = "capped"  // leads turned away by Limits
)

// Outcome is stored for every visit to every document, so that "why is it not
// in the index?" is a query.
type Outcome struct {
	URL      string
	At       time.Time
	Code     Code
	Sentence string // for people: what happened and what to do about it
	Steps    []Step
	NextAt   time.Time // zero: never again
}

// Step is one line of the trace.
type Step struct {
	At     time.Time     `json:"at"`
	What   string        `json:"what"` // "robots", "fetch", "read", "noindex", "evidence", "judge"
	URL    string        `json:"url,omitempty"`
	Status int           `json:"status,omitempty"`
	Took   time.Duration `json:"took,omitempty"`
	Result string        `json:"result"` // one word: "allow", "200", "304", "proven", "not_listed", "deferred", an error kind
	Detail string        `json:"detail,omitempty"`
}
