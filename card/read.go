package card

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/openbot-build/openbot-go/internal/strictjson"
)

// reader turns a JSON document into a Card and notes every fault on the way.
// It handles the members in the order of the Card struct, whatever the order
// in the document, so that equal faults give equal lists.
type reader struct {
	faults Errors
	more   int
}

// maxFaults bounds the list: a hostile card of 1 MiB could have 100,000 faults.
const maxFaults = 100

// maxPointer is the longest pointer that a fault shows, in octets.
const maxPointer = 1000

func (r *reader) fault(pointer, format string, args ...any) {
	r.faultIn(pointer, "", format, args...)
}

// faultIn notes a fault of the member or element name of the value at. It
// builds the pointer only for a fault that is kept, and cuts it when a member
// name is absurdly long: 100,000 faults below a name of 500,000 octets must
// cost nothing.
func (r *reader) faultIn(at, name, format string, args ...any) {
	if len(r.faults) >= maxFaults {
		r.more++
		return
	}
	if name != "" {
		at += "/" + name
	}
	if len(at) > maxPointer {
		at = strings.ToValidUTF8(at[:maxPointer], "") + "..."
	}
	r.faults = append(r.faults, &Error{Pointer: at, Message: fmt.Sprintf(format, args...)})
}

func (r *reader) err() error {
	if len(r.faults) == 0 {
		return nil
	}
	if r.more > 0 {
		r.faults = append(r.faults, &Error{Message: fmt.Sprintf("there are %d more faults", r.more)})
	}
	return r.faults
}

// addMissing adds what Usable says, except where a fault is listed already.
func (r *reader) addMissing(err error) {
	listed := make(map[string]bool, len(r.faults))
	for _, f := range r.faults {
		listed[f.Pointer] = true
	}
	var missing Errors
	errors.As(err, &missing)
	for _, f := range missing {
		if f.Pointer == "/remotes" || !listed[f.Pointer] {
			r.fault(f.Pointer, "%s", f.Message)
		}
	}
}

func (r *reader) card(root strictjson.Value) *Card {
	c := &Card{}
	if !r.object(root, "") {
		return c
	}
	var schema, name, version, title, description, website, repository, icons, remotes, meta strictjson.Value
	old := "" // a member of the drafts before v1
	for key, v := range root.Members() {
		switch string(key) {
		case "$schema":
			schema = v
		case "name":
			name = v
		case "version":
			version = v
		case "title":
			title = v
		case "description":
			description = v
		case "websiteUrl":
			website = v
		case "repository":
			repository = v
		case "icons":
			icons = v
		case "remotes":
			remotes = v
		case "_meta":
			meta = v
		case "serverInfo", "transport", "endpoint":
			if old == "" {
				old = string(key)
			}
		}
	}

	var ok bool
	hint := ""
	if old != "" {
		hint = fmt.Sprintf(" (%q is a member of a draft before v1 and is not read)", old)
	}
	if c.Schema, ok = r.required(schema, "", "$schema", `set it to "`+SchemaURL+`"`); ok {
		r.checkSchema(c.Schema)
	}
	if c.Name, ok = r.required(name, "", "name", "write one such as com.example/calendar"+hint); ok {
		r.checkName(c.Name)
	}
	if c.Version, ok = r.required(version, "", "version", "write the app's exact version, such as 1.0.0"+hint); ok {
		if r.length(c.Version, "", "version", 255) && isRange(c.Version) {
			r.fault("/version", "is %s, a range of versions; write one exact version, such as 1.0.0", strictjson.Quote(c.Version))
		}
	}
	if c.Title, ok = r.text(title, "", "title"); ok {
		r.length(c.Title, "", "title", 100)
	}
	if c.Description, ok = r.required(description, "", "description", "say in at most 100 characters what the app does"+hint); ok {
		r.length(c.Description, "", "description", 100)
	}
	if c.WebsiteURL, ok = r.text(website, "", "websiteUrl"); ok {
		r.checkURI(c.WebsiteURL, "", "websiteUrl")
	}
	if repository.Kind() != strictjson.None {
		c.Repository = r.repository(repository, "/repository")
	}
	if r.array(icons, "/icons") {
		c.Icons = make([]Icon, 0, icons.Len())
		for i, v := range icons.Elements() {
			c.Icons = append(c.Icons, r.icon(v, "/icons/"+strconv.Itoa(i)))
		}
	}
	if r.array(remotes, "/remotes") {
		c.Remotes = make([]Remote, 0, remotes.Len())
		for i, v := range remotes.Elements() {
			c.Remotes = append(c.Remotes, r.remote(v, "/remotes/"+strconv.Itoa(i)))
		}
	}
	if meta.Kind() != strictjson.None && r.object(meta, "/_meta") {
		c.Meta = make(map[string]json.RawMessage, meta.Len())
		for key, v := range meta.Members() {
			if reason := checkMetaKey(string(key)); reason != "" {
				r.fault(strictjson.Member("/_meta", string(key)), "has a name that MCP does not allow: %s", reason)
			}
			c.Meta[string(key)] = v.Raw()
		}
	}
	return c
}

func (r *reader) repository(v strictjson.Value, at string) *Repository {
	repo := &Repository{}
	if !r.object(v, at) {
		return repo
	}
	var url, source, subfolder, id strictjson.Value
	for key, v := range v.Members() {
		switch string(key) {
		case "url":
			url = v
		case "source":
			source = v
		case "subfolder":
			subfolder = v
		case "id":
			id = v
		}
	}
	var ok bool
	if repo.URL, ok = r.required(url, at, "url", "write the address of the repository"); ok {
		r.checkURI(repo.URL, at, "url")
	}
	repo.Source, _ = r.required(source, at, "source", `name the hosting service, such as "github"`)
	repo.Subfolder, _ = r.text(subfolder, at, "subfolder")
	repo.ID, _ = r.text(id, at, "id")
	return repo
}

func (r *reader) icon(v strictjson.Value, at string) (icon Icon) {
	if !r.object(v, at) {
		return icon
	}
	var src, mimeType, sizes, theme strictjson.Value
	for key, v := range v.Members() {
		switch string(key) {
		case "src":
			src = v
		case "mimeType":
			mimeType = v
		case "sizes":
			sizes = v
		case "theme":
			theme = v
		}
	}
	var ok bool
	if icon.Src, ok = r.required(src, at, "src", "write the picture's https address"); ok {
		r.checkURI(icon.Src, at, "src")
	}
	icon.MimeType, _ = r.text(mimeType, at, "mimeType")
	icon.Sizes = r.texts(sizes, at+"/sizes")
	if icon.Theme, ok = r.text(theme, at, "theme"); ok {
		r.oneOf(icon.Theme, at, "theme", "light", "dark")
	}
	return icon
}

func (r *reader) remote(v strictjson.Value, at string) (remote Remote) {
	if !r.object(v, at) {
		return remote
	}
	var kind, url, headers, variables, versions strictjson.Value
	for key, v := range v.Members() {
		switch string(key) {
		case "type":
			kind = v
		case "url":
			url = v
		case "headers":
			headers = v
		case "variables":
			variables = v
		case "supportedProtocolVersions":
			versions = v
		}
	}
	var ok bool
	if remote.Type, ok = r.required(kind, at, "type", `write "streamable-http"`); ok {
		r.oneOf(remote.Type, at, "type", streamableHTTP, "sse")
	}
	if remote.URL, ok = r.required(url, at, "url", "write the endpoint's https address"); ok && !isEndpointURL(remote.URL) {
		r.fault(at+"/url", "is %s; it must begin with https:// and hold no white space", strictjson.Quote(remote.URL))
	}
	if r.array(headers, at+"/headers") {
		remote.Headers = make([]Header, 0, headers.Len())
		for i, v := range headers.Elements() {
			remote.Headers = append(remote.Headers, r.header(v, at+"/headers/"+strconv.Itoa(i)))
		}
	}
	remote.Variables = r.inputs(variables, at+"/variables")
	remote.Versions = r.texts(versions, at+"/supportedProtocolVersions")
	return remote
}

func (r *reader) header(v strictjson.Value, at string) (h Header) {
	if !r.object(v, at) {
		return h
	}
	name, variables := r.input(v, at, &h.Input)
	h.Name, _ = r.required(name, at, "name", "name the header")
	h.Variables = r.inputs(variables, at+"/variables")
	return h
}

func (r *reader) inputs(v strictjson.Value, at string) map[string]Input {
	if v.Kind() == strictjson.None || !r.object(v, at) {
		return nil
	}
	m := make(map[string]Input, v.Len())
	for key, v := range v.Members() {
		var in Input
		if below := strictjson.Member(at, string(key)); r.object(v, below) {
			r.input(v, below, &in)
		}
		m[string(key)] = in
	}
	return m
}

// input reads the members of an Input. name and variables are those that a
// Header has besides.
func (r *reader) input(v strictjson.Value, at string, in *Input) (name, variables strictjson.Value) {
	for key, v := range v.Members() {
		var ok bool
		switch string(key) {
		case "name":
			name = v
		case "variables":
			variables = v
		case "description":
			in.Description, _ = r.text(v, at, "description")
		case "isRequired":
			in.IsRequired = r.boolean(v, at, "isRequired")
		case "isSecret":
			in.IsSecret = r.boolean(v, at, "isSecret")
		case "format":
			if in.Format, ok = r.text(v, at, "format"); ok {
				r.oneOf(in.Format, at, "format", "string", "number", "boolean", "filepath")
			}
		case "default":
			in.Default, _ = r.text(v, at, "default")
		case "placeholder":
			in.Placeholder, _ = r.text(v, at, "placeholder")
		case "value":
			in.Value, _ = r.text(v, at, "value")
		case "choices":
			in.Choices = r.texts(v, at+"/choices")
		}
	}
	return name, variables
}

// The helpers below note a wrong type as a fault. A value that is not there
// is no fault, unless it is required.

// object reports whether v is an object; a duplicate in it is a fault.
func (r *reader) object(v strictjson.Value, at string) bool {
	if kind := v.Kind(); kind != strictjson.Object {
		if at == "" {
			r.fault("", "the card must be an object, not %s", kind)
		} else {
			r.fault(at, "must be an object, not %s", kind)
		}
		return false
	}
	if name, ok := v.Duplicate(); ok {
		r.fault(strictjson.Member(at, name), "is given more than once; keep one")
	}
	return true
}

func (r *reader) array(v strictjson.Value, at string) bool {
	switch kind := v.Kind(); kind {
	case strictjson.None:
		return false
	case strictjson.Array:
		return true
	default:
		r.fault(at, "must be an array, not %s", kind)
		return false
	}
}

func (r *reader) text(v strictjson.Value, at, name string) (string, bool) {
	switch kind := v.Kind(); kind {
	case strictjson.None:
		return "", false
	case strictjson.String:
		return v.Text(), true
	default:
		r.faultIn(at, name, "must be a string, not %s", kind)
		return "", false
	}
}

func (r *reader) required(v strictjson.Value, at, name, advice string) (string, bool) {
	if v.Kind() == strictjson.None {
		r.faultIn(at, name, "is missing; %s", advice)
		return "", false
	}
	return r.text(v, at, name)
}

func (r *reader) texts(v strictjson.Value, at string) []string {
	if !r.array(v, at) {
		return nil
	}
	list := make([]string, 0, v.Len())
	for i, v := range v.Elements() {
		if s, ok := r.text(v, at, strconv.Itoa(i)); ok {
			list = append(list, s)
		}
	}
	return list
}

func (r *reader) boolean(v strictjson.Value, at, name string) bool {
	if kind := v.Kind(); kind != strictjson.Bool {
		r.faultIn(at, name, "must be true or false, not %s", kind)
	}
	return v.True()
}

// length checks that s has 1 to most characters. Characters are Unicode code
// points (OB-27).
func (r *reader) length(s, at, name string, most int) bool {
	switch n := utf8.RuneCountInString(s); {
	case n == 0:
		r.faultIn(at, name, "is empty; write 1 to %d characters", most)
	case n > most:
		r.faultIn(at, name, "is %d characters; at most %d are allowed, shorten it by %d", n, most, n-most)
	default:
		return true
	}
	return false
}
