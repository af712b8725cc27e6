package discovery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
)

// Classify tells what an answer is, by its type and shape, not by its address
// (OB-37, D8, D11): WantCatalog, WantCard or WantPage.
//
// The two exact media types and text/html speak for themselves. An answer with
// a generic type (application/json, application/octet-stream, text/plain) or
// none is judged by the members of its JSON object, and warning says so. A body
// that starts like HTML is a page whatever its type says; warning names the
// type when it is a wrong one.
//
// The error is *Error: HTTPStatus (anything but 200), TooLarge (a body that was
// cut), WrongType, or BadJSON. A page is a kind here, never an error.
func Classify(d *Document) (kind Want, warning string, err error) {
	if err := complete(d); err != nil {
		return "", "", err
	}
	t := d.ContentType()
	known := t == catalog.MediaType || t == card.MediaType
	switch {
	case t == pageType:
		return WantPage, "", nil
	case (known || isGeneric(t)) && startsLikeHTML(d.Body):
		return WantPage, fmt.Sprintf("%s is a web page but is served as %s", d.FinalURL, typeName(t)), nil
	case t == catalog.MediaType:
		return WantCatalog, "", nil
	case t == card.MediaType:
		return WantCard, "", nil
	case !isGeneric(t):
		return "", "", wrongType(d, "a page, a catalog or a card")
	}
	members, err := topMembers(d.Body)
	if err != nil {
		return "", "", &Error{Kind: BadJSON, URL: d.FinalURL, Detail: err.Error(), Err: err}
	}
	switch {
	case members["specVersion"] && members["entries"]:
		return WantCatalog, genericWarning(d, catalog.MediaType), nil
	case members["$schema"], members["name"] && members["remotes"]:
		return WantCard, genericWarning(d, card.MediaType), nil
	}
	return "", "", &Error{Kind: WrongType, URL: d.FinalURL, Detail: fmt.Sprintf(
		"it is served as %s and is neither a catalog (specVersion and entries) nor a card ($schema, name and remotes)", typeName(t))}
}

// ReadCatalog judges an answer where a catalog is due, and reads it. What a
// reader should be told, for instance a generic media type, stands in the
// catalog's Warnings. Entries are resolved against the final URL.
//
// Errors are *Error: HTTPStatus (anything but 200), TooLarge (a body that was
// cut), WrongType, WebPage, BadJSON, InvalidCatalog.
func ReadCatalog(d *Document) (*catalog.Catalog, error) {
	warning, err := due(d, "catalog", catalog.MediaType)
	if err != nil {
		return nil, err
	}
	c, err := catalog.Parse(d.Body, d.FinalURL)
	if err != nil {
		kind := InvalidCatalog
		if catalog.IsNotJSON(err) {
			kind = BadJSON
		}
		return nil, &Error{Kind: kind, URL: d.FinalURL, Detail: oneLine(err), Err: err}
	}
	if warning != "" {
		c.Warnings = append(c.Warnings, warning)
	}
	return c, nil
}

// ReadCard judges an answer where a card is due, and reads it. The card is a
// valid v1 card; Usable is the next question. What a reader should be told
// stands in the card's Warnings.
//
// Errors are *Error: HTTPStatus (anything but 200), TooLarge (a body that was
// cut), WrongType, WebPage, BadJSON, InvalidCard (which wraps card.Errors).
func ReadCard(d *Document) (*card.Card, error) {
	warning, err := due(d, "card", card.MediaType)
	if err != nil {
		return nil, err
	}
	c, err := card.Parse(d.Body)
	if err != nil {
		kind := InvalidCard
		if card.IsNotJSON(err) {
			kind = BadJSON
		}
		return nil, &Error{Kind: kind, URL: d.FinalURL, Detail: oneLine(err), Err: err}
	}
	if warning != "" {
		c.Warnings = append(c.Warnings, warning)
	}
	return c, nil
}

const pageType = "text/html"

// complete refuses an answer whose body is no whole document.
func complete(d *Document) error {
	switch {
	case d.NotModified && d.Body != nil:
	case d.Status != http.StatusOK:
		return &Error{Kind: HTTPStatus, URL: d.FinalURL, Status: d.Status}
	}
	if d.Truncated {
		return &Error{Kind: TooLarge, URL: d.FinalURL}
	}
	return nil
}

// due judges an answer where a document of mediaType, called what, must be.
func due(d *Document, what, mediaType string) (warning string, err error) {
	if err := complete(d); err != nil {
		return "", err
	}
	t := d.ContentType()
	switch {
	case t == pageType, (t == mediaType || isGeneric(t)) && startsLikeHTML(d.Body):
		return "", &Error{Kind: WebPage, URL: d.FinalURL, Detail: what}
	case t == mediaType:
		return "", nil
	case isGeneric(t):
		return genericWarning(d, mediaType), nil
	}
	return "", wrongType(d, "a "+what+" ("+mediaType+")")
}

func wrongType(d *Document, due string) *Error {
	return &Error{Kind: WrongType, URL: d.FinalURL, Detail: fmt.Sprintf("it is served as %s where %s is due", typeName(d.ContentType()), due)}
}

func isGeneric(t string) bool {
	switch t {
	case "", "application/json", "application/octet-stream", "text/plain":
		return true
	}
	return false
}

func genericWarning(d *Document, want string) string {
	return fmt.Sprintf("%s is served as %s instead of %s", d.FinalURL, typeName(d.ContentType()), want)
}

// typeName is a media type from a stranger's header, fit for a sentence.
func typeName(t string) string {
	if t == "" {
		return "no media type"
	}
	if len(t) > 80 {
		t = t[:80] + "..."
	}
	return strings.Trim(fmt.Sprintf("%+q", t), `"`)
}

var bom = []byte("\xef\xbb\xbf")

// startsLikeHTML reports whether a body begins as a web page does. No JSON
// begins with "<", so a list of the usual first tags is enough to tell a page
// from some other text that is labelled as JSON.
func startsLikeHTML(body []byte) bool {
	b := bytes.TrimLeft(bytes.TrimPrefix(body, bom), " \t\r\n\f")
	if len(b) == 0 || b[0] != '<' {
		return false
	}
	if bytes.HasPrefix(b, []byte("<!--")) {
		return true
	}
	head := bytes.ToLower(b[1:min(len(b), 32)])
	name := head
	if i := bytes.IndexAny(head, " \t\r\n\f/>"); i >= 0 {
		name = head[:i]
	}
	switch string(name) {
	case "!doctype":
		rest, _ := bytes.CutPrefix(bytes.TrimLeft(head[len(name):], " \t\r\n\f"), []byte("html"))
		return len(rest) < len(bytes.TrimLeft(head[len(name):], " \t\r\n\f"))
	case "html", "head", "body", "title", "meta", "link", "base", "script", "noscript", "style", "iframe",
		"div", "p", "a", "b", "h1", "h2", "br", "center", "font", "table", "main", "header", "section", "span":
		return true
	}
	return false
}

// topMembers gives the names of the members of a JSON object, in exact case.
// It only tells documents apart: whoever reads the document checks it strictly.
func topMembers(body []byte) (map[string]bool, error) {
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(body, bom)))
	t, err := dec.Token()
	if err != nil {
		return nil, errors.New("it cannot be read as JSON")
	}
	if t != json.Delim('{') {
		return nil, nil // a document of another kind
	}
	members := make(map[string]bool)
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, errors.New("it cannot be read as JSON")
		}
		var skip json.RawMessage
		if err := dec.Decode(&skip); err != nil {
			return nil, errors.New("it cannot be read as JSON")
		}
		if s, ok := name.(string); ok {
			members[s] = true
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, errors.New("it ends too early")
	}
	return members, nil
}

// oneLine is the text of an error that may list several faults.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
