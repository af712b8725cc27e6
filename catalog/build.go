package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/openbot-build/openbot-go/internal/strictjson"
	"github.com/openbot-build/openbot-go/internal/weburl"
)

// Item is one app to be written into a catalog.
type Item struct {
	Identifier  string // required, opaque (D2)
	DisplayName string // the card's title by default (D3); "" is the identifier's last segment
	Type        string // "" is CardType
	URL         string // required, absolute https
}

// written is the closed form that Build writes (K8): readers with a closed
// schema refuse any other member of the root.
type written struct {
	SpecVersion string         `json:"specVersion"`
	Host        *Host          `json:"host,omitempty"`
	Entries     []writtenEntry `json:"entries"`
}

type writtenEntry struct {
	Identifier  string `json:"identifier"`
	DisplayName string `json:"displayName"`
	Type        string `json:"type"`
	URL         string `json:"url"`
}

// Build writes a catalog (K8): specVersion, optional host, and entries with
// identifier, displayName, type and url (in normal form), in the order given;
// indented, ending in a newline. The same items give the same bytes, and ARD
// readers accept them too if the identifiers have ARD's form (see [Check]).
//
// The error joins one *Error for each fault, whose pointer names item and
// field as they would stand in the catalog: an empty or repeated field that
// must not be, text that is not UTF-8, an address that is not absolute https.
func Build(host *Host, items []Item) ([]byte, error) {
	var faults []error
	fault := func(pointer, format string, args ...any) {
		faults = append(faults, &Error{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
	}
	text := func(pointer, s string) {
		if !utf8.ValidString(s) {
			fault(pointer, "is not UTF-8 text")
		}
	}
	out := written{SpecVersion: SpecVersion, Host: host, Entries: make([]writtenEntry, 0, len(items))}
	if host != nil {
		if host.DisplayName == "" {
			fault("/host/displayName", "is empty; name the publisher, or leave the host out")
		}
		text("/host/displayName", host.DisplayName)
		text("/host/identifier", host.Identifier)
		for _, f := range []struct{ name, address string }{{"documentationUrl", host.DocumentationURL}, {"logoUrl", host.LogoURL}} {
			if f.address == "" {
				continue
			}
			if _, err := weburl.Parse(f.address); err != nil {
				fault("/host/"+f.name, "cannot be used: %v", err)
			}
		}
	}
	seen := make(map[string]int)
	for i, item := range items {
		at := fmt.Sprintf("/entries/%d", i)
		e := writtenEntry{Identifier: item.Identifier, DisplayName: item.DisplayName, Type: item.Type}
		if e.Type == "" {
			e.Type = CardType
		}
		if e.Identifier == "" {
			fault(at+"/identifier", "is empty; give the app a text of its own, such as urn:air:apps.example.com:mcp:calendar")
		}
		if e.DisplayName == "" {
			e.DisplayName = lastSegment(e.Identifier)
		}
		text(at+"/identifier", e.Identifier)
		text(at+"/displayName", e.DisplayName)
		text(at+"/type", e.Type)
		u, err := weburl.Parse(item.URL)
		if err != nil {
			fault(at+"/url", "cannot be used: %v", err)
		}
		e.URL = u.String()
		if first, ok := seen[e.URL]; ok && err == nil {
			fault(at+"/url", "is %s like that of entry %d; list each address once", strictjson.Quote(e.URL), first)
		} else if err == nil {
			seen[e.URL] = i
		}
		out.Entries = append(out.Entries, e)
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(out); err != nil {
		return nil, fmt.Errorf("encode catalog: %w", err)
	}
	return b.Bytes(), nil
}

// Check is advice to the publisher of a catalog that can be read: what its
// readers will leave out or may misunderstand. base is as for [Parse], whose
// error it returns. The order is that of the entries.
//
// It tells each skipped entry, each warning of Parse, a relative address, one
// card URL listed twice, one identifier listed twice in one version or both
// with and without a version, and what readers of the ARD formats refuse:
// another specVersion, no displayName, an identifier of another form.
//
// Source: documents K1 to K5, sections 2, 7 and 9.
func Check(data []byte, base string) ([]*Error, error) {
	c, err := Parse(data, base)
	if err != nil {
		return nil, err
	}
	var list []*Error
	add := func(pointer, format string, args ...any) {
		list = append(list, &Error{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
	}
	for _, w := range c.Warnings {
		pointer, message, ok := strings.Cut(w, ": ")
		if !ok || !strings.HasPrefix(pointer, "/") {
			pointer, message = "", w
		}
		add(pointer, "%s", message)
	}
	if c.SpecVersion != SpecVersion {
		add("/specVersion", "is %s; readers of the ARD formats want %q", strictjson.Quote(c.SpecVersion), SpecVersion)
	}
	skipped := c.Skipped
	skip := func(before int) {
		for len(skipped) > 0 && skipped[0].Index < before {
			add(fmt.Sprintf("/entries/%d", skipped[0].Index), "is left out by readers (%s): %s", skipped[0].Reason, skipped[0].Detail)
			skipped = skipped[1:]
		}
	}
	urls := map[string]int{}
	versions := map[string]*listed{}
	for i := range c.Entries {
		e := &c.Entries[i]
		skip(e.Index)
		at := fmt.Sprintf("/entries/%d", e.Index)
		first, again := urls[e.URL]
		again = again && e.IsCard()
		if again {
			add(at+"/url", "is that of entry %d too; one address is one app, list it once", first)
		} else if e.IsCard() {
			urls[e.URL] = e.Index
		}
		if e.IsCard() || e.IsCatalog() {
			var as struct {
				URL string `json:"url"`
			}
			if strictjson.Unmarshal(e.Raw, &as) == nil && !strings.Contains(as.URL, "://") {
				add(at+"/url", "is relative; write it in full, other readers may not resolve it: %s", e.URL)
			}
		}
		if !again { // what is to be removed clashes with nothing
			if versions[e.Identifier] == nil {
				versions[e.Identifier] = &listed{first: map[string]int{}, has: map[bool]int{}}
			}
			if clash := versions[e.Identifier].add(e); clash != "" {
				add(at+"/identifier", "%s", clash)
			}
		}
		if !isARDIdentifier(e.Identifier) {
			add(at+"/identifier", "is %s; readers of the ARD formats want a form such as urn:air:apps.example.com:mcp:calendar", strictjson.Quote(e.Identifier))
		}
		if e.DisplayName == "" {
			add(at+"/displayName", "is missing; readers of the ARD formats want one")
		}
	}
	skip(math.MaxInt)
	return list, nil
}

// listed is the entries of one identifier. Readers tell them apart by their
// versions, so each needs one and no two the same (documents sections 2 and 9).
type listed struct {
	first map[string]int // version -> index of the first entry that has it
	has   map[bool]int   // whether it has a version -> index of the first such entry
}

// add says how e clashes with the entries before it; "" is not at all.
func (l *listed) add(e *Entry) (clash string) {
	versioned := e.Version != ""
	if first, ok := l.first[e.Version]; ok {
		if versioned {
			return fmt.Sprintf("is that of entry %d too, in the same version; give each its own, or another version", first)
		}
		return fmt.Sprintf("is that of entry %d too; give each its own, or tell them apart by version", first)
	}
	l.first[e.Version] = e.Index
	if _, ok := l.has[versioned]; ok {
		return ""
	}
	l.has[versioned] = e.Index
	if other, ok := l.has[!versioned]; ok {
		return fmt.Sprintf("is that of entry %d too, and only one of the two has a version; give both one, or each an identifier of its own", other)
	}
	return ""
}

// isARDIdentifier reports whether s is an identifier as ARD wants it:
// urn:air:, a publisher of letters, digits, '.' and '-', then one segment or
// more of these and '_' (K1).
func isARDIdentifier(s string) bool {
	rest, ok := strings.CutPrefix(s, "urn:air:")
	publisher, names, more := strings.Cut(rest, ":")
	if !ok || !more || !isWord(publisher, ".-") {
		return false
	}
	for name := range strings.SplitSeq(names, ":") {
		if !isWord(name, "._-") {
			return false
		}
	}
	return true
}

// isWord reports whether s is not empty and has ASCII letters, digits and the
// others only.
func isWord(s, others string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9') && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return s != ""
}
