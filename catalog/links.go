package catalog

import (
	"strings"

	"github.com/openbot-build/openbot-go/internal/weburl"
)

// maxTargets is how many addresses one document can name as its catalogs. A
// hostile one of 1 MiB, at an address of 8 KiB, could name 30,000 of 8 KiB each.
const maxTargets = 1000

// targets collects addresses in normal form, each once, in order, at most
// maxTargets.
type targets struct {
	list []string
	seen map[string]bool
}

// add resolves ref against base. What does not end as an https address without
// user-info is left out.
func (t *targets) add(base weburl.URL, ref string) {
	if len(t.list) >= maxTargets {
		return
	}
	u, err := base.Resolve(ref)
	if err != nil || t.seen[u.String()] {
		return
	}
	if t.seen == nil {
		t.seen = make(map[string]bool)
	}
	t.seen[u.String()] = true
	t.list = append(t.list, u.String())
}

// HeaderLinks gives the https targets of links with rel=ai-catalog in Link
// header values, resolved against base, each once, in order (L3, X4). values
// are the header lines as they came; base is the final URL of the response.
// The targets are in normal form.
//
// A link with an anchor proves nothing and is left out, whatever the anchor is
// (D34). An element that breaks the grammar costs only itself.
//
// Source: RFC 8288 section 3, documents L3, crawler X4.
func HeaderLinks(values []string, base string) []string {
	from, err := weburl.Parse(base)
	if err != nil {
		return nil
	}
	var t targets
	for _, value := range values {
		r := linkReader{rest: value}
		for {
			link, more := r.next()
			if link.ok && !link.anchor && hasWord(link.rel, LinkRel) {
				t.add(from, link.target)
			}
			if !more {
				break
			}
		}
	}
	return t.list
}

// hasWord reports whether list, words between white space, holds the word,
// without case.
func hasWord(list, word string) bool {
	for _, w := range strings.FieldsFunc(list, isSpace) {
		if strings.EqualFold(w, word) {
			return true
		}
	}
	return false
}

// isSpace is white space as HTML and HTTP know it; a no-break space is none.
func isSpace(c rune) bool {
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f'
}

// link is one element of a Link header.
type link struct {
	target string
	rel    string // of the first rel parameter
	anchor bool   // it has an anchor parameter
	ok     bool   // it follows the grammar
}

// linkReader reads the elements of one header line.
type linkReader struct{ rest string }

func (r *linkReader) space() { r.rest = strings.TrimLeft(r.rest, " \t") }

// next reads one element; it may be empty. more is false after the last one.
func (r *linkReader) next() (l link, more bool) {
	r.space()
	if strings.HasPrefix(r.rest, "<") {
		target, rest, closed := strings.Cut(r.rest[1:], ">")
		if !closed {
			return link{}, false
		}
		l.target, l.ok, r.rest = strings.TrimSpace(target), true, rest
	}
	hasRel := false
	for {
		r.space()
		switch {
		case r.rest == "":
			return l, false
		case r.rest[0] == ',':
			r.rest = r.rest[1:]
			return l, true
		case r.rest[0] != ';':
			// Not what the grammar has here: the element is lost, and what
			// follows is read up to its comma, quotes respected.
			l.ok = false
			if _, ok := r.value(); !ok {
				return link{}, false
			}
			continue
		}
		r.rest = r.rest[1:]
		r.space()
		name := r.token()
		r.space()
		value := ""
		if strings.HasPrefix(r.rest, "=") {
			r.rest = r.rest[1:]
			r.space()
			var ok bool
			if value, ok = r.value(); !ok {
				return link{}, false
			}
		}
		switch strings.ToLower(name) {
		case "rel":
			if !hasRel {
				l.rel, hasRel = value, true
			}
		case "anchor", "anchor*":
			l.anchor = true
		}
	}
}

// token reads up to the next delimiter.
func (r *linkReader) token() string {
	i := strings.IndexAny(r.rest, " \t=;,\"")
	if i < 0 {
		i = len(r.rest)
	}
	token := r.rest[:i]
	r.rest = r.rest[i:]
	return token
}

// value reads a quoted string or a token, at least one octet if there is one.
// ok is false for a quoted string that does not end.
func (r *linkReader) value() (value string, ok bool) {
	if !strings.HasPrefix(r.rest, `"`) {
		if value = r.token(); value == "" && r.rest != "" && r.rest[0] == '=' {
			r.rest = r.rest[1:]
		}
		return value, true
	}
	var b strings.Builder
	for i := 1; i < len(r.rest); i++ {
		switch c := r.rest[i]; {
		case c == '"':
			r.rest = r.rest[i+1:]
			return b.String(), true
		case c == '\\' && i+1 < len(r.rest):
			i++
			b.WriteByte(r.rest[i])
		default:
			b.WriteByte(c)
		}
	}
	r.rest = ""
	return "", false
}
