package card

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/openbot-build/openbot-go/internal/strictjson"
)

// Findings is advice to the publisher of a card: what readers will leave out
// or may misunderstand, although v1 allows it. None of it is a fault, and a
// card with findings is used all the same. The order is that of the card's
// members.
//
// Source: documents V4 to V8, OB-11, OB-12.
func Findings(c *Card) []*Error {
	var f findings
	if c.Title == "" {
		f.add("/title", "is missing; people will see the name %s instead", strictjson.Quote(c.Name))
	}
	if c.WebsiteURL != "" && !isHTTPS(c.WebsiteURL) {
		f.add("/websiteUrl", "is not https and so is not used")
	}
	f.icons(c.Icons)
	for i := range c.Remotes {
		f.remote(&c.Remotes[i], "/remotes/"+strconv.Itoa(i))
	}
	for _, key := range slices.Sorted(maps.Keys(c.Meta)) {
		if isReservedMetaKey(key) {
			f.add(strictjson.Member("/_meta", key), "has a prefix that is reserved for MCP; use one of your own domain")
		}
	}
	_, err := c.Presentation()
	var faults Errors
	if errors.As(err, &faults) {
		for _, e := range faults {
			f.add(e.Pointer, "%s; until then the whole presentation block is ignored", e.Message)
		}
	}
	return f
}

type findings []*Error

func (f *findings) add(pointer, format string, args ...any) {
	*f = append(*f, &Error{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
}

func isHTTPS(s string) bool {
	return len(s) >= 8 && strings.EqualFold(s[:8], "https://")
}

func (f *findings) icons(icons []Icon) {
	simple := false // one that every reader can show
	for i, icon := range icons {
		at := "/icons/" + strconv.Itoa(i)
		scheme, _, _ := strings.Cut(icon.Src, ":")
		if !isHTTPS(icon.Src) && !strings.EqualFold(scheme, "data") {
			f.add(at+"/src", "is neither https nor a data: address and so is not shown")
		}
		switch mimeType := strings.ToLower(icon.MimeType); mimeType {
		case "image/png", "image/jpeg", "": // unknown may be either
			simple = true
		case "image/webp", "image/svg+xml":
		default:
			f.add(at+"/mimeType", "is %s, which few readers show; use PNG, JPEG, WebP or SVG", strictjson.Quote(icon.MimeType))
		}
		for j, size := range icon.Sizes {
			if !isIconSize(size) {
				f.add(at+"/sizes/"+strconv.Itoa(j), `is %s; write it like "48x48", or "any"`, strictjson.Quote(size))
			}
		}
	}
	if len(icons) > 0 && !simple {
		f.add("/icons", "holds neither a PNG nor a JPEG, the only types that every reader must show; add one")
	}
}

func isIconSize(s string) bool {
	w, h, ok := strings.Cut(s, "x")
	digits := func(s string) bool { return s != "" && s[0] != '0' && strings.Trim(s, "0123456789") == "" }
	return s == "any" || ok && digits(w) && digits(h)
}

func (f *findings) remote(r *Remote, at string) {
	if r.Type != streamableHTTP {
		f.add(at+"/type", "is %s; hosts use %q only", strictjson.Quote(r.Type), streamableHTTP)
	}
	if _, err := r.Origin(); err != nil {
		f.add(at+"/url", "%v", err)
	}
	used := map[string]bool{}
	f.template(used, r.URL, at+"/url", r.Variables)
	for i := range r.Headers {
		h, at := &r.Headers[i], at+"/headers/"+strconv.Itoa(i)
		if err := h.Check(); err != nil {
			f.add(at+"/name", "%v", err)
		}
		f.input(&h.Input, at)
		here := map[string]bool{}
		f.template(here, h.Value, at+"/value", h.Variables, r.Variables)
		maps.Copy(used, here)
		f.inputs(h.Variables, at+"/variables", here)
	}
	f.inputs(r.Variables, at+"/variables", used)
}

// template reports each {variable} in s that none of the maps declares, and
// adds all of them to used.
func (f *findings) template(used map[string]bool, s, at string, declared ...map[string]Input) {
	for _, name := range placeholders(s) {
		known := func(m map[string]Input) bool { _, ok := m[name]; return ok }
		if !slices.ContainsFunc(declared, known) {
			f.add(at, "uses {%s}, which no variables declare; declare it, or hosts cannot fill it", name)
		}
		used[name] = true
	}
}

func (f *findings) inputs(inputs map[string]Input, at string, used map[string]bool) {
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		in, below := inputs[name], strictjson.Member(at, name)
		if !used[name] {
			f.add(below, "is declared, but nothing uses {%s}", name)
		}
		f.input(&in, below)
	}
}

func (f *findings) input(in *Input, at string) {
	if len(in.Choices) > 0 {
		if in.Default != "" && !slices.Contains(in.Choices, in.Default) {
			f.add(at+"/default", "is not one of the choices")
		}
		if in.Value != "" && !slices.Contains(in.Choices, in.Value) && !strings.Contains(in.Value, "{") {
			f.add(at+"/value", "is not one of the choices")
		}
	}
	if in.IsSecret && in.Default != "" {
		f.add(at+"/default", "publishes a value that is marked as secret; everybody can read a card, so remove it")
	}
	if in.IsSecret && in.Value != "" && len(placeholders(in.Value)) == 0 {
		f.add(at+"/value", "publishes a value that is marked as secret; everybody can read a card, so remove it")
	}
}
