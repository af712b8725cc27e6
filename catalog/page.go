package catalog

import (
	"bufio"
	"bytes"
	"io"
	"net/url"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"

	"github.com/openbot-build/openbot-go/internal/weburl"
)

// PageLinks gives the https targets of link elements with rel=ai-catalog in
// the head of an HTML page fetched from base, each once, in order (L4, L5,
// X5 to X8). contentType is the Content-Type header; a page that is not HTML
// has none. Without a Content-Type, a body that begins with "<" is HTML. The
// targets are in normal form.
//
// Only the head counts, because visitors' text may stand in the body. Nothing
// is run or followed, and no tree is built: memory is a small multiple of the
// longest tag.
//
// Source: documents L4, L5, crawler X5 to X8, D36.
func PageLinks(body []byte, contentType, base string) []string {
	from, err := weburl.Parse(base)
	if err != nil || !isHTML(body, contentType) {
		return nil
	}
	head := readHead(decoded(body, contentType))
	relative := from
	if head.hasBase {
		relative = head.baseURL(from)
	}
	var t targets
	for _, ref := range head.refs {
		if relative.IsZero() && !isAbsolute(ref) {
			continue
		}
		t.add(relative, ref)
	}
	return t.list
}

var utf8BOM = []byte("\xef\xbb\xbf")

func isHTML(body []byte, contentType string) bool {
	if strings.TrimSpace(contentType) != "" {
		return isType(contentType, "text/html")
	}
	return bytes.HasPrefix(bytes.TrimSpace(bytes.TrimPrefix(body, utf8BOM)), []byte("<"))
}

// decoded gives the page as UTF-8. What its charset is, a byte order mark says
// first, then the header, then a meta element in the first 1 KiB.
func decoded(body []byte, contentType string) io.Reader {
	encoding, _, _ := charset.DetermineEncoding(body[:min(len(body), 1024)], contentType)
	page := bufio.NewReader(encoding.NewDecoder().Reader(bytes.NewReader(body)))
	if start, _ := page.Peek(len(utf8BOM)); bytes.Equal(start, utf8BOM) {
		_, _ = page.Discard(len(utf8BOM)) // cannot fail after Peek
	}
	return page
}

// head is what the head of a page says.
type head struct {
	refs    []string // href of each link to a catalog, not empty
	base    string   // href of the first base element that has one
	hasBase bool
}

// baseURL is the address against which the page's links are resolved. The
// zero URL means that relative ones lead nowhere that we go.
func (h *head) baseURL(page weburl.URL) weburl.URL {
	u, err := url.Parse(h.base)
	if err != nil || u.Scheme == "data" || u.Scheme == "javascript" {
		return page // as if there were no such element (HTML, section 4.2.3)
	}
	base, err := page.Resolve(h.base)
	if err != nil {
		return weburl.URL{}
	}
	return base
}

// isAbsolute reports whether ref has a scheme of its own.
func isAbsolute(ref string) bool {
	i := strings.IndexAny(ref, ":/?#")
	return i > 0 && ref[i] == ':'
}

// readHead reads the tokens of a page up to where its body begins, written or
// implied, by the rules of HTML section 13.2.6.4: text, or any element that
// may not stand in a head, begins the body.
func readHead(page io.Reader) (h head) {
	z := html.NewTokenizer(page)
	var (
		templates  int  // depth of template elements, whose content is inert
		inNoscript bool // no script runs here, so noscript is content
		ignore     bool // until the end of a noscript that holds body content
		rawText    bool // the next text is that of a title, script or style
	)
	for {
		kind := z.Next()
		inText := rawText
		rawText = false
		switch kind {
		case html.ErrorToken:
			return h
		case html.TextToken:
			if inText || templates > 0 || ignore || len(bytes.TrimFunc(z.Text(), isSpace)) == 0 {
				continue
			}
			if !inNoscript {
				return h
			}
			ignore = true
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			tag := atom.Lookup(name)
			switch tag {
			case atom.Noscript:
				z.NextIsNotRawText()
				inNoscript = inNoscript || templates == 0
				continue
			case atom.Title, atom.Script, atom.Style, atom.Noframes:
				rawText = true
				continue
			case atom.Template:
				templates++
				continue
			}
			if templates > 0 || ignore && tag != atom.Body {
				continue
			}
			switch tag {
			case atom.Html, atom.Head, atom.Meta, atom.Basefont, atom.Bgsound:
			case atom.Base, atom.Link:
				h.element(z, tag, more)
			case atom.Body, atom.Frameset:
				return h
			default:
				if !inNoscript {
					return h
				}
				ignore = true
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			switch atom.Lookup(name) {
			case atom.Template:
				templates = max(templates-1, 0)
			case atom.Noscript:
				if templates == 0 {
					inNoscript, ignore = false, false
				}
			case atom.Html, atom.Body, atom.Br:
				if templates == 0 && !inNoscript {
					return h
				}
			}
		}
	}
}

// element notes a base or link element; the first of two equal attributes
// counts.
func (h *head) element(z *html.Tokenizer, tag atom.Atom, more bool) {
	var rel, href string
	var hasRel, hasHref bool
	for more {
		var key, value []byte
		key, value, more = z.TagAttr()
		switch {
		case !hasRel && string(key) == "rel":
			rel, hasRel = string(value), true
		case !hasHref && string(key) == "href":
			href, hasHref = strings.TrimFunc(string(value), isSpace), true
		}
	}
	switch {
	case !hasHref:
	case tag == atom.Base && !h.hasBase:
		h.base, h.hasBase = href, true
	case tag == atom.Link && href != "" && hasWord(rel, LinkRel):
		h.refs = append(h.refs, href)
	}
}
