// Package index owns the values of a public index of apps: entries and their
// evidence, the frontier of documents to visit, outcomes, and the Store
// contract that keeps them together. Values only; the stores are in its
// subpackages.
package index

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/openbot-build/openbot-go/catalog"
)

// State is where an entry stands (openbot.md section 12).
type State string

// The states. A lead has no entry yet; it is a card document in the frontier.
const (
	Lead    State = "lead"
	Listed  State = "listed"
	Stale   State = "stale"   // evidence or card cannot be read now; searchable, flagged
	Hidden  State = "hidden"  // stale for 30 days: not searchable, may come back
	Removed State = "removed" // a tombstone, with a reason
	Blocked State = "blocked" // the operator's word
)

// Searchable reports whether readers see an entry in this state.
func (s State) Searchable() bool { return s == Listed || s == Stale }

// Reason says why an entry is stale, hidden or removed.
type Reason string

// The reasons.
const (
	ReasonDelisted    Reason = "delisted"         // a readable catalog lists it no more, and no other kind of evidence proves it
	ReasonNoIndex     Reason = "noindex"          // X-Robots-Tag
	ReasonDisallowed  Reason = "robots_disallow"  // robots.txt refuses the card
	ReasonGone        Reason = "card_gone"        // 404 or 410, twice a day apart
	ReasonInvalid     Reason = "card_invalid"     // complete but invalid, twice a day apart
	ReasonExpired     Reason = "stale_90_days"    // never readable for 90 days
	ReasonUnreadable  Reason = "card_unreachable" // stale: the card cannot be read
	ReasonUnconfirmed Reason = "unconfirmed"      // stale: no evidence can be read
	ReasonBlocked     Reason = "blocked"
	ReasonWaiting     Reason = "waiting" // of a document, never of an entry: another one is to be read first
)

// ID is the id of a card URL in normal form: hex SHA-256 (OB-140).
func ID(cardURL string) string {
	sum := sha256.Sum256([]byte(cardURL))
	return hex.EncodeToString(sum[:])
}

// Entry is one app in the index. Everything in it comes from public documents.
type Entry struct {
	ID       string // ID(CardURL)
	CardURL  string // normal form; the app's identity
	FinalURL string // where the card was read; CardURL when not redirected
	Chain    []string

	Document []byte // the card, exact bytes; nil once removed
	Hash     string // hex SHA-256 of Document
	Name     string // the card's name and version: kept in a tombstone
	Version  string

	// What the catalog entry that proves it says (IX-6).
	Identifier  string
	DisplayName string
	Description string
	Tags        []string

	Evidence   *catalog.Evidence // nil once removed
	State      State
	Reason     Reason
	StaleSince time.Time // zero unless stale or hidden

	FirstSeen time.Time
	CheckedAt time.Time // last visit that could judge it
	UpdatedAt time.Time // set by the store together with Seq; never runs backwards (IX-15)
	Seq       int64     // set by the store
}

// CheckedNews is how long after its last change an entry's CheckedAt alone is
// published again (IX-8).
const CheckedNews = 7 * 24 * time.Hour

// News reports whether e, written over old, is a change that readers can see:
// document, catalog members, evidence or state. A newer CheckedAt alone is
// news once in 7 days (IX-8). old may be nil.
//
// While readers do not see the entry, neither before nor after, only another
// state or reason is news. Documents are compared by Hash.
func (e *Entry) News(old *Entry) bool {
	switch {
	case old == nil, e.State != old.State, e.Reason != old.Reason:
		return true
	case !e.State.Searchable():
		return false
	}
	return e.Hash != old.Hash ||
		e.FinalURL != old.FinalURL || !slices.Equal(e.Chain, old.Chain) ||
		e.Identifier != old.Identifier ||
		e.DisplayName != old.DisplayName ||
		e.Description != old.Description ||
		!slices.Equal(e.Tags, old.Tags) ||
		!sameEvidence(e.Evidence, old.Evidence) ||
		e.CheckedAt.Sub(old.UpdatedAt) >= CheckedNews
}

// sameEvidence leaves out when it was checked, and the catalog's entry, whose
// members an Entry carries itself.
func sameEvidence(a, b *catalog.Evidence) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Kind == b.Kind && a.CatalogURL == b.CatalogURL && slices.Equal(a.Chain, b.Chain)
}

// Tombstone is what stays of e once it is removed or blocked: identity, name,
// version, state, reason and times. Document, texts and evidence are gone
// (IX-10).
func (e *Entry) Tombstone() Entry {
	return Entry{
		ID: e.ID, CardURL: e.CardURL, Name: e.Name, Version: e.Version,
		State: e.State, Reason: e.Reason,
		FirstSeen: e.FirstSeen, CheckedAt: e.CheckedAt,
		UpdatedAt: e.UpdatedAt, Seq: e.Seq,
	}
}

// Change is the step of the feed that e, as last published, stands for.
func (e *Entry) Change() Change {
	c := Change{Seq: e.Seq, Op: Delete, ID: e.ID, CardURL: e.CardURL, Reason: e.Reason, At: e.UpdatedAt}
	if e.State.Searchable() {
		c.Op, c.Entry = Upsert, e
	}
	return c
}

// Op is what a change does to a reader's copy.
type Op string

// The operations.
const (
	Upsert Op = "upsert"
	Delete Op = "delete" // removed, hidden or blocked
)

// Change is one step of the feed. Seq follows commit order (IX-14).
type Change struct {
	Seq     int64
	Op      Op
	ID      string
	CardURL string
	Reason  Reason
	At      time.Time
	Entry   *Entry // nil on Delete
}

// Head is the end of the feed.
type Head struct {
	Epoch     string // new for a new or restored database (IX-16)
	Seq       int64
	UpdatedAt time.Time
}

// Stats are counts for operators and GET /v1/stats.
type Stats struct {
	Head
	Entries   map[State]int64 // Lead counts card documents without an entry
	Hosts     int64
	Documents int64
	Due       int64 // documents whose time has come
}
