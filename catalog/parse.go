package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/internal/strictjson"
	"github.com/openbot-build/openbot-go/internal/weburl"
)

// Parse reads a catalog that was fetched from base (its final URL, absolute
// https). The catalog keeps a copy of data. A catalog that can be read has a
// nil error, however many of its entries are Skipped.
//
// The error is an *Error or a joined list of them: no object, a duplicate
// member in the root or in host, no or a higher specVersion, no entries.
// [IsNotJSON] tells bytes that are no strict JSON.
//
// Source: documents section 2, K1 to K7, R1; OB-1, OB-6, OB-15, OB-16; D1, D4, D9.
func Parse(data []byte, base string) (*Catalog, error) {
	from, err := weburl.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("read catalog: %w", err)
	}
	doc, err := strictjson.Parse(bytes.Clone(data))
	if err != nil {
		var e *strictjson.Error
		errors.As(err, &e)
		return nil, &Error{Pointer: e.Pointer, Message: "this is no strict JSON: " + e.Message, notJSON: true}
	}
	root := doc.Root()
	if root.Kind() != strictjson.Object {
		return nil, &Error{Message: "the catalog must be an object, not " + root.Kind().String()}
	}

	r := reader{base: from, catalog: &Catalog{}}
	if doc.BOM() {
		r.warn("the catalog begins with a UTF-8 byte order mark, which other readers refuse; save it without one")
	}
	if name, ok := root.Duplicate(); ok {
		r.fault(strictjson.Member("", name), "is given more than once; keep one")
	}
	var version, host, entries strictjson.Value
	for key, v := range root.Members() {
		switch string(key) {
		case "specVersion":
			version = v
		case "host":
			host = v
		case "entries":
			entries = v
		}
	}
	r.specVersion(version)
	r.host(host)
	switch kind := entries.Kind(); kind {
	case strictjson.Array:
	case strictjson.None:
		r.fault("/entries", "is missing; write an array, which may be empty")
	default:
		r.fault("/entries", "must be an array, not %s", kind)
	}
	if len(r.faults) > 0 {
		return nil, errors.Join(r.faults...)
	}
	for i, v := range entries.Elements() {
		r.entry(i, v)
	}
	if r.moreWarn > 0 {
		r.catalog.Warnings = append(r.catalog.Warnings, fmt.Sprintf("there are %d more warnings", r.moreWarn))
	}
	if r.moreSkipped > 0 {
		r.catalog.Warnings = append(r.catalog.Warnings, fmt.Sprintf("there are %d more entries that cannot be used", r.moreSkipped))
	}
	return r.catalog, nil
}

// The reasons for which an entry is skipped: see Skipped.
const (
	reasonNotObject         = "not_an_object"
	reasonDuplicateMember   = "duplicate_member"
	reasonOldMediaType      = "old_media_type"
	reasonMissingType       = "missing_type"
	reasonMissingIdentifier = "missing_identifier"
	reasonURLAndData        = "url_and_data"
	reasonInlineCard        = "inline_card"
	reasonInlineCatalog     = "inline_catalog"
	reasonNoURL             = "no_url"
	reasonBadURL            = "bad_url"
	reasonNotHTTPS          = "not_https"
)

// A hostile catalog of 1 MiB can have 500,000 bad entries; these bound what is
// told about them.
const (
	maxSkipped  = 1000
	maxWarnings = 98 // and up to two that count the rest

	// maxURLs is how many octets the addresses of all entries may have once they
	// are resolved: a short one against a base of 8 KiB has 8 KiB, too.
	maxURLs = 4 << 20
)

type reader struct {
	base        weburl.URL
	catalog     *Catalog
	faults      []error
	moreWarn    int // warnings that were left out
	moreSkipped int // skipped entries that were left out
	urls        int // octets of the addresses so far
	plainBase   *url.URL
}

func (r *reader) fault(pointer, format string, args ...any) {
	r.faults = append(r.faults, &Error{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
}

func (r *reader) warn(format string, args ...any) {
	if len(r.catalog.Warnings) >= maxWarnings {
		r.moreWarn++
		return
	}
	r.catalog.Warnings = append(r.catalog.Warnings, fmt.Sprintf(format, args...))
}

// specVersion reads "Major.Minor" (K7).
func (r *reader) specVersion(v strictjson.Value) {
	const at = "/specVersion"
	switch kind := v.Kind(); kind {
	case strictjson.String:
	case strictjson.None:
		r.fault(at, `is missing; write "%s"`, SpecVersion)
		return
	default:
		r.fault(at, `must be a string such as "%s", not %s`, SpecVersion, kind)
		return
	}
	s := v.Text()
	major, minor, _ := strings.Cut(s, ".")
	if !digits(major) || !digits(minor) {
		r.fault(at, `is %s; it must be two numbers with a dot between, such as "%s"`, strictjson.Quote(s), SpecVersion)
		return
	}
	if m := strings.TrimLeft(major, "0"); m != "" && m != "1" {
		r.fault(at, "is %s, a version that this reader does not know; it reads 0.x and 1.x", strictjson.Quote(s))
		return
	}
	r.catalog.SpecVersion = s
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// host reads who publishes the catalog. It is only shown, so what is wrong
// with it costs only the host; but a duplicate member is refused (D9).
func (r *reader) host(v strictjson.Value) {
	switch kind := v.Kind(); kind {
	case strictjson.None, strictjson.Null:
		return
	case strictjson.Object:
	default:
		r.warn("/host: must be an object, not %s; it is ignored", kind)
		return
	}
	if name, ok := v.Duplicate(); ok {
		r.fault(strictjson.Member("/host", name), "is given more than once; keep one")
		return
	}
	var h Host
	for key, v := range v.Members() {
		switch string(key) {
		case "displayName":
			h.DisplayName = r.text(v, "/host", "displayName")
		case "identifier":
			h.Identifier = r.text(v, "/host", "identifier")
		case "documentationUrl":
			h.DocumentationURL = r.text(v, "/host", "documentationUrl")
		case "logoUrl":
			h.LogoURL = r.text(v, "/host", "logoUrl")
		}
	}
	if h.DisplayName == "" {
		r.warn("/host/displayName: is missing; the host is ignored")
		return
	}
	r.catalog.Host = &h
}

// text reads an optional string. null is like absent; another kind is ignored
// with a warning.
func (r *reader) text(v strictjson.Value, at, name string) string {
	switch kind := v.Kind(); kind {
	case strictjson.None, strictjson.Null, strictjson.String:
		return v.Text()
	default:
		r.warn("%s/%s: must be a string, not %s; it is ignored", at, name, kind)
		return ""
	}
}

// entry adds one entry to Entries or to Skipped.
func (r *reader) entry(i int, v strictjson.Value) {
	e := Entry{Index: i, Raw: v.Raw()}
	skip := func(reason, format string, args ...any) {
		if len(r.catalog.Skipped) >= maxSkipped {
			r.moreSkipped++
			return
		}
		r.catalog.Skipped = append(r.catalog.Skipped, Skipped{
			Index: i, Reason: reason, Identifier: e.Identifier,
			Detail: fmt.Sprintf("entry %d ", i) + fmt.Sprintf(format, args...),
		})
	}
	if kind := v.Kind(); kind != strictjson.Object {
		skip(reasonNotObject, "is %s; write an object with identifier, type and url", kind)
		return
	}
	var identifier, kind, mediaType, address, data, displayName, description, version, tags, updatedAt strictjson.Value
	for key, v := range v.Members() {
		switch string(key) {
		case "identifier":
			identifier = v
		case "type":
			kind = v
		case "mediaType":
			mediaType = v
		case "url":
			address = v
		case "data":
			data = v
		case "displayName":
			displayName = v
		case "description":
			description = v
		case "version":
			version = v
		case "tags":
			tags = v
		case "updatedAt":
			updatedAt = v
		}
	}
	e.Identifier, e.Type = identifier.Text(), kind.Text()
	if name, ok := v.Duplicate(); ok {
		skip(reasonDuplicateMember, "gives %s more than once; keep one", strictjson.Quote(name))
		return
	}
	switch {
	case e.Type != "":
	case kind.Kind() == strictjson.None && mediaType.Kind() != strictjson.None:
		skip(reasonOldMediaType, "has the member mediaType of an older draft; rename it to type")
		return
	default:
		skip(reasonMissingType, "has no type; write its media type, for a card %q", CardType)
		return
	}
	if e.Identifier == "" {
		skip(reasonMissingIdentifier, "has no identifier; give it a text of its own")
		return
	}

	if reason, detail := r.target(&e, address, data); reason != "" {
		skip(reason, "%s", detail)
		return
	}

	at := "/entries/" + strconv.Itoa(i)
	e.DisplayName = r.text(displayName, at, "displayName")
	e.Description = r.text(description, at, "description")
	e.Version = r.text(version, at, "version")
	if k := tags.Kind(); k != strictjson.None && k != strictjson.Null && k != strictjson.Array {
		r.warn("%s/tags: must be an array of strings, not %s; it is ignored", at, k)
	}
	for j, tag := range tags.Elements() {
		if s := r.text(tag, at+"/tags", strconv.Itoa(j)); s != "" {
			e.Tags = append(e.Tags, s)
		}
	}
	if s := r.text(updatedAt, at, "updatedAt"); s != "" {
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			r.warn("%s/updatedAt: is %s; it must be a date and time like 2026-11-29T10:00:00Z; it is ignored", at, strictjson.Quote(s))
		}
		e.UpdatedAt = t
	}
	r.catalog.Entries = append(r.catalog.Entries, e)
}

// target sets the entry's URL, or says why it has none that can be used.
// Exactly one of url and data may be there; null is like absent.
func (r *reader) target(e *Entry, address, data strictjson.Value) (reason, detail string) {
	given := func(v strictjson.Value) bool { return v.Kind() != strictjson.None && v.Kind() != strictjson.Null }
	switch {
	case given(address) && given(data):
		return reasonURLAndData, "has both url and data; keep url"
	case given(data) && e.IsCard():
		return reasonInlineCard, "holds its card in data; serve the card at an address of its own and name that in url"
	case given(data) && e.IsCatalog():
		return reasonInlineCatalog, "holds a catalog in data; serve it at an address of its own and name that in url"
	case given(data):
		return "", ""
	case !given(address):
		return reasonNoURL, "has no url; write the https address of what it lists"
	case address.Kind() != strictjson.String:
		return reasonBadURL, "has a url that is " + address.Kind().String() + "; write an https address"
	}
	ref := address.Text()
	if r.urls > maxURLs {
		return reasonBadURL, "has a url that cannot be used: the addresses before it are too long to read more; write fewer or shorter ones"
	}
	defer func() { r.urls += len(e.URL) }()
	if !e.IsCard() && !e.IsCatalog() {
		e.URL = r.resolveAny(ref)
		return "", ""
	}
	if strings.TrimSpace(ref) == "" {
		return reasonBadURL, "has an empty url; write an https address"
	}
	u, err := r.base.Resolve(ref)
	var bad *weburl.Error
	switch {
	case err == nil:
		e.URL = u.String()
		return "", ""
	case errors.As(err, &bad) && bad.Reason == weburl.NotHTTPS:
		reason = reasonNotHTTPS
	default:
		reason = reasonBadURL
	}
	return reason, "has a url that cannot be used: " + err.Error()
}

// resolveAny resolves the address of something that we do not read; what
// cannot be resolved stays as written.
func (r *reader) resolveAny(ref string) string {
	if r.plainBase == nil {
		b, err := url.Parse(r.base.String())
		if err != nil {
			return ref
		}
		r.plainBase = b
	}
	u, err := r.plainBase.Parse(ref)
	if err != nil {
		return ref
	}
	return u.String()
}
