// Package check reads what a publisher published as a host and a crawler read
// it, and tells for each rule of the protocol whether it is kept, and what is
// wrong, where, and what to do about it. An MCP endpoint is asked what it is
// and what it lists, or where to sign in and whether a made-up token opens it;
// no tool is run.
//
// A report quotes what strangers wrote. Whoever prints it must make control
// characters visible.
package check

import (
	"errors"
	"fmt"
	"strings"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/internal/strictjson"
	"github.com/openbot-build/openbot-go/publicnet"
)

// Report is what a check found, in the order it was met.
type Report struct {
	Target   string     `json:"target"`
	Sections []*Section `json:"sections"`
}

// Section is one thing that was looked at.
type Section struct {
	Kind     string    `json:"kind"` // catalog, card, page, app, issuer, file, address; callers add their own
	Name     string    `json:"name"` // address, file or title
	Facts    []string  `json:"facts,omitempty"`
	Findings []Finding `json:"findings,omitempty"`
}

// Level tells a broken rule from a hint.
type Level string

// The levels of a Finding.
const (
	Fault  Level = "fault"  // breaks a rule of the protocol or of a standard behind it
	Advice Level = "advice" // works, and could be better
	Pass   Level = "pass"   // a rule that was looked at and is kept
)

// Finding is one thing to know.
type Finding struct {
	Level   Level  `json:"level"`
	Rule    string `json:"rule,omitempty"`    // of the protocol, for instance OB-10; "" for what is no rule of it
	Where   string `json:"where,omitempty"`   // file and line, when the section does not say it
	Pointer string `json:"pointer,omitempty"` // JSON Pointer into the document
	Message string `json:"message"`
}

// String is where, pointer, message and rule, as far as there are any.
func (f Finding) String() string {
	var parts []string
	for _, s := range []string{f.Where, f.Pointer, f.Message} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	text := strings.Join(parts, ": ")
	if f.Rule != "" {
		text += " [" + f.Rule + "]"
	}
	return text
}

// Count gives the number of findings of a level.
func (r *Report) Count(level Level) int {
	n := 0
	for _, s := range r.Sections {
		for _, f := range s.Findings {
			if f.Level == level {
				n++
			}
		}
	}
	return n
}

// Section begins a new section.
func (r *Report) Section(kind, name string) *Section {
	s := &Section{Kind: kind, Name: name}
	r.Sections = append(r.Sections, s)
	return s
}

func (s *Section) fact(format string, args ...any) {
	s.Facts = append(s.Facts, fmt.Sprintf(format, args...))
}

func (s *Section) add(level Level, rule, pointer, format string, args []any) {
	s.Findings = append(s.Findings, Finding{Level: level, Rule: rule, Pointer: pointer, Message: fmt.Sprintf(format, args...)})
}

func (s *Section) fault(rule, pointer, format string, args ...any) {
	s.add(Fault, rule, pointer, format, args)
}

func (s *Section) advise(rule, pointer, format string, args ...any) {
	s.add(Advice, rule, pointer, format, args)
}

func (s *Section) pass(rule, format string, args ...any) { s.add(Pass, rule, "", format, args) }

// faultErr adds every fault that err joins, each under the rule of its place.
// The documents' errors all read "pointer: message".
func (s *Section) faultErr(err error, rule func(pointer string) string) {
	if refused, ok := errors.AsType[*publicnet.AddrError](err); ok { // its causes alone do not say what to do
		s.fault("OB-150", "", "%s", refused)
		return
	}
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range list.Unwrap() {
			s.faultErr(e, rule)
		}
		return
	}
	msg := err.Error()
	if strings.HasPrefix(msg, "/") {
		if pointer, rest, ok := strings.Cut(msg, ": "); ok {
			s.fault(rule(pointer), pointer, "%s", rest)
			return
		}
	}
	s.fault(rule(""), "", "%s", msg)
}

// Document judges the bytes of a catalog or a card, told apart by their members
// (documents R3), and adds a section to the report. name is for the section; an
// https address resolves relative addresses in a catalog.
//
// The caller limits the size of data.
func Document(r *Report, name string, data []byte) {
	s := r.Section("file", name)
	switch shapeOf(data) {
	case "catalog":
		s.Kind = "catalog"
		judgeCatalog(s, data, name)
	case "card":
		s.Kind = "card"
		judgeCard(s, data)
	default:
		if _, err := strictjson.Parse(data); err != nil {
			s.faultErr(err, cardRule)
		} else {
			s.fault("OB-37", "", "neither a catalog (members specVersion and entries) nor a card (members $schema, name and remotes)")
		}
	}
}

// shapeOf tells a catalog from a card by the members (documents R3).
func shapeOf(data []byte) string {
	doc, err := strictjson.Parse(data)
	if err != nil {
		return ""
	}
	has := map[string]bool{}
	for name := range doc.Root().Members() {
		has[string(name)] = true
	}
	switch {
	case has["$schema"], has["name"], has["remotes"], has["serverInfo"]:
		return "card"
	case has["entries"], has["specVersion"]:
		return "catalog"
	}
	return ""
}

// judgeCard finds every fault of a card and what its publisher should know.
func judgeCard(s *Section, data []byte) {
	c, err := card.Parse(data)
	if err != nil {
		s.faultErr(err, cardRule)
		var partial card.Card // what can be read shows the faults of its examples too
		if strictjson.Unmarshal(data, &partial) == nil {
			if _, err := partial.Presentation(); err != nil {
				s.faultErr(err, cardRule)
			}
		}
		return
	}
	s.fact("%s %s, %s", c.Name, c.Version, orNone(c.Title, "without a title"))
	s.pass("OB-13", "the card is valid")
	if _, probe, err := c.Usable(); err != nil {
		s.faultErr(err, cardRule)
		if probe != nil {
			s.advise("OB-10", "/remotes", "a remote that declares no versions is only tried on a user's word: add supportedProtocolVersions")
		}
	} else {
		s.pass("OB-10", "names an https endpoint for %s", card.ProtocolVersion)
	}
	if p, err := c.Presentation(); err != nil {
		s.faultErr(err, cardRule)
	} else if p != nil {
		s.pass("OB-20", "the examples are valid")
	}
	for _, w := range c.Warnings {
		s.advise("OB-15", "", "%s", w)
	}
	for _, f := range card.Findings(c) {
		s.advise(cardRule(f.Pointer), f.Pointer, "%s", f.Message)
	}
}

// judgeCatalog finds every fault of a catalog. base is its address, or anything
// else for a file.
func judgeCatalog(s *Section, data []byte, base string) {
	if !strings.HasPrefix(base, "https://") {
		base = "https://catalog.example" + catalog.WellKnownPath
	}
	c, err := catalog.Parse(data, base)
	if err != nil {
		s.faultErr(err, catalogRule)
		return
	}
	s.pass("OB-1", "the catalog is valid")
	skipped := map[string]bool{}
	for _, e := range c.Skipped {
		pointer := fmt.Sprintf("/entries/%d", e.Index)
		skipped[pointer] = true
		if e.Reason == "inline_card" || e.Reason == "inline_catalog" {
			s.advise("OB-6", pointer, "%s", e.Detail)
		} else {
			s.fault("OB-16", pointer, "%s", e.Detail)
		}
	}
	n := 0
	for e := range c.Cards() {
		n++
		s.fact("lists %s", e.URL)
	}
	if n == 0 {
		s.advise("OB-41", "/entries", "valid catalog, no MCP App listed")
	}
	found, err := catalog.Check(data, base)
	if err != nil {
		s.faultErr(err, catalogRule)
	}
	for _, f := range found {
		if entry := strings.Join(strings.SplitN(f.Pointer, "/", 4)[:min(3, strings.Count(f.Pointer, "/")+1)], "/"); !skipped[entry] {
			s.advise(catalogRule(f.Pointer), f.Pointer, "%s", f.Message)
		}
	}
}

func orNone(s, none string) string {
	if s == "" {
		return none
	}
	return fmt.Sprintf("%q", s)
}
