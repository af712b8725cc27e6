// Package catalog owns the AI Catalog: parse, validate, build, which links
// name a catalog, and evidence ("does this catalog list that card?"). It is
// pure: no I/O of any kind.
//
// A catalog is read leniently: an entry that cannot be used costs only itself
// (D4), entries of other types are no fault, and unknown members are ignored.
// It is written strictly: see [Build]. [Check] is advice for its publisher.
package catalog

import (
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/internal/weburl"
)

// Names of the standard.
const (
	MediaType     = "application/ai-catalog+json"
	CardType      = "application/mcp-server-card+json"
	WellKnownPath = "/.well-known/ai-catalog.json"
	ARDPath       = "/.well-known/ard.json"
	LinkRel       = "ai-catalog"
	SpecVersion   = "1.0" // what Build writes (D1)
)

// Catalog is a catalog as read.
type Catalog struct {
	SpecVersion string    // as written; major 0 or 1
	Host        *Host     // nil when the catalog names none, or none that can be read
	Entries     []Entry   // usable entries, in document order, other types included
	Skipped     []Skipped // entries that cannot be used, in document order; at most 1000, a warning counts the rest
	Warnings    []string  // what a reader should be told; at most 100
}

// Host is who publishes the catalog, in their own words.
type Host struct {
	DisplayName      string `json:"displayName"`
	Identifier       string `json:"identifier,omitempty"`
	DocumentationURL string `json:"documentationUrl,omitempty"`
	LogoURL          string `json:"logoUrl,omitempty"`
}

// Entry is one usable entry. URL is resolved against the catalog's final URL
// and, for cards and nested catalogs, in the normal form of D5. For any other
// type it may be of any scheme, and is empty when the entry has inline data.
// Identifier is opaque and only ever compared byte for byte (D2). All texts
// are the publisher's word, and data.
type Entry struct {
	Index       int // position in the document's entries, from 0
	Identifier  string
	Type        string // as written
	URL         string
	DisplayName string // "" when the entry has none: see Label
	Description string
	Version     string
	Tags        []string
	UpdatedAt   time.Time       // zero when absent or no RFC 3339 date-time
	Raw         json.RawMessage // the entry's own bytes
}

// IsCard reports whether the entry is a Server Card.
func (e *Entry) IsCard() bool { return isType(e.Type, CardType) }

// IsCatalog reports whether the entry is a catalog itself.
func (e *Entry) IsCatalog() bool { return isType(e.Type, MediaType) }

// isType compares a media type without case and parameters.
func isType(written, want string) bool {
	essence, _, _ := strings.Cut(written, ";")
	return strings.EqualFold(strings.TrimSpace(essence), want)
}

// Label is the name to show for the entry (K2): its own displayName, else the
// card's title, else the card's name, else the last segment of the identifier.
// cardTitle and cardName may be empty.
func (e *Entry) Label(cardTitle, cardName string) string {
	for _, name := range []string{e.DisplayName, cardTitle, cardName} {
		if name != "" {
			return name
		}
	}
	return lastSegment(e.Identifier)
}

func lastSegment(identifier string) string {
	if i := strings.LastIndexByte(identifier, ':'); i+1 < len(identifier) {
		return identifier[i+1:]
	}
	return identifier
}

// Skipped is an entry that costs only itself (D4).
//
// Reason is one of these codes, looked for in this order: not_an_object,
// duplicate_member (D9), old_media_type (mediaType of an older draft and no
// type), missing_type, missing_identifier, url_and_data, inline_card (OB-6),
// inline_catalog (K6), no_url, bad_url (user-info, an IP address, ...),
// not_https (K5). The codes are stable; the details are not.
type Skipped struct {
	Index      int    // position in the document's entries, from 0
	Reason     string // a code
	Detail     string // a sentence for the publisher
	Identifier string // the entry's identifier, when it has a readable one
}

// Error is one fault of the catalog as a whole.
type Error struct {
	Pointer string // JSON Pointer, RFC 6901
	Message string // a sentence for the publisher
	notJSON bool
}

func (e *Error) Error() string {
	if e.Pointer == "" {
		return e.Message
	}
	return e.Pointer + ": " + e.Message
}

// IsNotJSON reports whether err came from bytes that are no strict JSON at all.
func IsNotJSON(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.notJSON
}

// Cards gives the entries of card type, in order. The same card URL twice is
// given once (K3).
func (c *Catalog) Cards() iter.Seq[Entry] { return c.once((*Entry).IsCard) }

// Nested gives the entries that are catalogs themselves (K6), each URL once.
func (c *Catalog) Nested() iter.Seq[Entry] { return c.once((*Entry).IsCatalog) }

func (c *Catalog) once(is func(*Entry) bool) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		seen := make(map[string]bool)
		for i := range c.Entries {
			e := &c.Entries[i]
			if !is(e) || seen[e.URL] {
				continue
			}
			seen[e.URL] = true
			if !yield(*e) {
				return
			}
		}
	}
}

// Others is the number of usable entries that are neither card nor catalog.
// They are no fault (FO-05).
func (c *Catalog) Others() int {
	n := 0
	for i := range c.Entries {
		if e := &c.Entries[i]; !e.IsCard() && !e.IsCatalog() {
			n++
		}
	}
	return n
}

// Lists reports whether the catalog lists exactly this card URL, in normal
// form (OB-116), and gives the first such entry. Nested catalogs are not
// looked into.
func (c *Catalog) Lists(cardURL string) (Entry, bool) {
	u, err := weburl.Parse(cardURL)
	if err != nil {
		return Entry{}, false
	}
	want := u.String()
	for i := range c.Entries {
		if e := &c.Entries[i]; e.URL == want && e.IsCard() {
			return *e, true
		}
	}
	return Entry{}, false
}

// Kind is a kind of publisher evidence (OB-112).
type Kind string

// The kinds of evidence.
const (
	WellKnown  Kind = "well-known"  // the catalog of the card's own origin
	LinkHeader Kind = "link-header" // a catalog named by the card response's Link header
	Website    Kind = "website"     // a catalog linked from the card's websiteUrl page
)

// Evidence is the proof that a publisher listed a card: which catalog does,
// and how the card names that catalog (D34).
type Evidence struct {
	Kind       Kind      `json:"kind"`
	CatalogURL string    `json:"catalog"`         // as the card names it, normal form
	Chain      []string  `json:"chain,omitempty"` // every URL from the card's word to the listing document, redirects and nested catalogs included
	Entry      Entry     `json:"-"`               // the entry that lists the card
	CheckedAt  time.Time `json:"checkedAt"`
}
