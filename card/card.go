// Package card owns the MCP Server Card v1: parse, validate, the presentation
// block, and what changed between two cards. It is pure: no I/O of any kind.
//
// Three verdicts are kept apart. [Parse] and [Validate] say whether a card is
// a valid v1 card. [Card.Usable] says whether a valid card is an app that a
// host can use (D10). [Findings] is advice to the publisher of a card that is
// both. A faulty presentation block costs only itself: see [Card.Presentation].
//
// A card is what its publisher says. Nothing in it grants access or is an
// instruction to the reader, and all its texts are data (OB-14, OB-90).
package card

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/openbot-build/openbot-go/internal/strictjson"
)

// What a card is served as, the schema it names, and the revision it must offer.
const (
	MediaType       = "application/mcp-server-card+json"
	SchemaURL       = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
	ProtocolVersion = "2026-07-28"
)

// Card is a Server Card v1 as published. Unknown members are not in it; the
// exact bytes are kept in Raw.
type Card struct {
	Schema      string                     `json:"$schema"`
	Name        string                     `json:"name"`
	Version     string                     `json:"version"`
	Title       string                     `json:"title,omitempty"`
	Description string                     `json:"description"`
	WebsiteURL  string                     `json:"websiteUrl,omitempty"`
	Repository  *Repository                `json:"repository,omitempty"`
	Icons       []Icon                     `json:"icons,omitempty"`
	Remotes     []Remote                   `json:"remotes,omitempty"`
	Meta        map[string]json.RawMessage `json:"_meta,omitempty"`

	Raw      []byte   `json:"-"` // the document as read; nil for a card built in Go
	Warnings []string `json:"-"` // what a reader should be told, for instance a byte order mark
}

// Repository is where the source is.
type Repository struct {
	URL       string `json:"url"`
	Source    string `json:"source"`
	Subfolder string `json:"subfolder,omitempty"`
	ID        string `json:"id,omitempty"`
}

// Icon is one picture of the app. Only a Src that is https or a data: URI is
// used; SVG is shown as an image, never as a document (OB-12).
type Icon struct {
	Src      string   `json:"src"`
	MimeType string   `json:"mimeType,omitempty"`
	Sizes    []string `json:"sizes,omitempty"`
	Theme    string   `json:"theme,omitempty"`
}

// Remote is one endpoint. URL may be a template with {variables}; see
// [Remote.Origin]. Versions is empty when the card declares none.
type Remote struct {
	Type      string           `json:"type"`
	URL       string           `json:"url"`
	Headers   []Header         `json:"headers,omitempty"`
	Variables map[string]Input `json:"variables,omitempty"`
	Versions  []string         `json:"supportedProtocolVersions,omitempty"`
}

// Header is a header that the endpoint asks for. Its Value may hold
// {variables}. See [Header.Forbidden].
type Header struct {
	Name string `json:"name"`
	Input
	Variables map[string]Input `json:"variables,omitempty"`
}

// Input is a value that a person, or the card itself, gives. A Value is fixed:
// the user cannot change it.
type Input struct {
	Description string   `json:"description,omitempty"`
	IsRequired  bool     `json:"isRequired,omitempty"`
	IsSecret    bool     `json:"isSecret,omitempty"`
	Format      string   `json:"format,omitempty"`
	Default     string   `json:"default,omitempty"`
	Placeholder string   `json:"placeholder,omitempty"`
	Value       string   `json:"value,omitempty"`
	Choices     []string `json:"choices,omitempty"`
}

// Error is one fault of a card: where, and what to do about it.
type Error struct {
	Pointer string // JSON Pointer, RFC 6901; for a missing member, where it belongs
	Message string // a sentence for the publisher
	notJSON bool
}

func (e *Error) Error() string {
	if e.Pointer == "" {
		return e.Message
	}
	return e.Pointer + ": " + e.Message
}

// Errors is every fault of one card, in the order of the card's members (as in
// the Card struct). errors.As finds it; its Unwrap gives each *Error. It holds
// at most 100 faults and then one that counts the rest.
type Errors []*Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, fault := range e {
		lines[i] = fault.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives each fault.
func (e Errors) Unwrap() []error {
	list := make([]error, len(e))
	for i, fault := range e {
		list[i] = fault
	}
	return list
}

// Parse reads a card of at most the caller's size limit and validates it
// against v1. The card keeps a copy of data.
//
// The error is Errors when the bytes are JSON and the card is at fault. It
// lists every fault, and also what the card lacks to be usable, so that a
// publisher sees all there is to do at once (D10). Bytes that are no strict
// JSON give a single *Error: see [IsNotJSON]. A valid v1 card may still not be
// a usable app: see [Card.Usable].
//
// Source: Server Card v1, OB-13, OB-15, documents section 3.
func Parse(data []byte) (*Card, error) {
	raw := bytes.Clone(data)
	doc, err := strictjson.Parse(raw)
	if err != nil {
		return nil, notJSON("", err)
	}
	var r reader
	c := r.card(doc.Root())
	if len(r.faults) > 0 {
		if _, _, err := c.Usable(); err != nil {
			r.addMissing(err)
		}
		return nil, r.err()
	}
	c.Raw = raw
	if doc.BOM() {
		c.Warnings = append(c.Warnings, "the card begins with a UTF-8 byte order mark, which other readers refuse; save it without one")
	}
	return c, nil
}

// notJSON turns an error of strictjson into one of this package, below at.
func notJSON(at string, err error) *Error {
	var e *strictjson.Error
	if !errors.As(err, &e) {
		return &Error{Pointer: at, Message: err.Error(), notJSON: true}
	}
	return &Error{Pointer: at + e.Pointer, Message: "this is no strict JSON: " + e.Message, notJSON: true}
}

// Validate gives every fault of a card built in Go, as Errors, or nil. Empty
// optional members count as absent; Raw and Warnings are not looked at.
func Validate(c *Card) error {
	data, err := json.Marshal(c)
	if err != nil {
		return Errors{{Pointer: "/_meta", Message: "holds a value that is no JSON: " + err.Error()}}
	}
	doc, err := strictjson.Parse(data)
	if err != nil {
		return Errors{notJSON("", err)}
	}
	var r reader
	r.card(doc.Root())
	return r.err()
}

// IsNotJSON reports whether err came from bytes that are no strict JSON at all.
func IsNotJSON(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.notJSON
}

// Encode gives the card's JSON, indented, ending in a newline. The same card
// gives the same bytes. It does not validate, and unknown members of a card
// that was read are only in Raw.
func (c *Card) Encode() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(c); err != nil {
		return nil, fmt.Errorf("encode card: %w", err)
	}
	return b.Bytes(), nil
}
