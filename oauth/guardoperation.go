package oauth

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/openbot-build/openbot-go/internal/strictjson"
)

// modern is the revision whose requests say in headers what they are.
const modern = "2026-07-28"

// operation gives what a request needs. Requests of revision 2026-07-28 say in
// their headers what they are, and next refuses those whose body says something
// else; of all others the body is read, and put back. What cannot be told is
// refused.
func (g *Guard) operation(r *http.Request) (*need, *refusal) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodDelete, http.MethodOptions:
		dropBody(r) // nobody has looked at it
		return g.scopes.basic, nil
	}
	for _, coding := range r.Header["Content-Encoding"] {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return nil, encoded
		}
	}
	if method, name, ok := fromHeaders(r.Header); ok {
		return g.scopes.of(method, name), nil
	}
	if r.Body == nil {
		return g.scopes.basic, nil
	}
	if r.ContentLength > g.maxBody {
		return nil, tooLarge
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, g.maxBody+1))
	if err != nil {
		return nil, g.badRequest // the client is gone, or a limit was met before
	}
	if int64(len(body)) > g.maxBody {
		return nil, tooLarge
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{bytes.NewReader(body), r.Body}
	return g.scopes.inBody(body)
}

// fromHeaders reads Mcp-Method and Mcp-Name. ok is false when they do not tell
// all.
func fromHeaders(h http.Header) (method, name string, ok bool) {
	versions, methods, names := h["Mcp-Protocol-Version"], h["Mcp-Method"], h["Mcp-Name"]
	if len(versions) != 1 || versions[0] != modern || len(methods) != 1 || methods[0] == "" {
		return "", "", false
	}
	if methods[0] != methodCall {
		return methods[0], "", true
	}
	if len(names) != 1 || names[0] == "" {
		return "", "", false
	}
	name, ok = decodeName(names[0])
	return methods[0], name, ok
}

// decodeName undoes the Base64 form of a header value (MCP 2026-07-28,
// Streamable HTTP).
func decodeName(v string) (string, bool) {
	rest, ok := strings.CutPrefix(v, "=?base64?")
	if !ok {
		return v, true
	}
	coded, ok := strings.CutSuffix(rest, "?=")
	if !ok {
		return v, true
	}
	plain, err := base64.StdEncoding.DecodeString(coded)
	return string(plain), err == nil && utf8.Valid(plain)
}

// inBody gives what a body needs: all that its messages need, if it is a batch.
// Whoever reads it later may prefer the first or the last of two members, or
// ignore case; so all of them count here. And whoever reads it later may read
// what we do not: bytes that are no UTF-8, a half of a surrogate pair, deep
// nesting, a second text behind the first. So what is not strictly JSON is
// refused; an empty body says nothing, and needs the basic scopes.
func (t *scopeTable) inBody(body []byte) (*need, *refusal) {
	if len(body) == 0 {
		return t.basic, nil
	}
	doc, err := strictjson.Parse(body)
	if err != nil || doc.BOM() {
		return nil, notJSON
	}
	all := t.basic
	add := func(n *need) {
		if n == all || n == t.basic {
			return
		}
		if all == t.basic {
			all = n
			return
		}
		all = &need{scopes: union(all.scopes, n.scopes)}
	}
	switch doc.Root().Kind() {
	case strictjson.Object:
		t.inMessage(doc.Root(), add)
	case strictjson.Array:
		for _, m := range doc.Root().Elements() {
			if m.Kind() != strictjson.Object {
				return nil, notRPC
			}
			t.inMessage(m, add)
		}
	default:
		return nil, notRPC
	}
	if all.refusal == nil {
		t.refusal(all)
	}
	return all, nil
}

func (t *scopeTable) inMessage(m strictjson.Value, add func(*need)) {
	var methods, names []string
	for member, v := range m.Members() {
		switch {
		case strings.EqualFold(string(member), "method"):
			methods = append(methods, v.Text())
		case strings.EqualFold(string(member), "params"):
			for member, v := range v.Members() {
				if strings.EqualFold(string(member), "name") {
					names = append(names, v.Text())
				}
			}
		}
	}
	for _, method := range methods {
		add(t.of(method, ""))
		for _, name := range names {
			add(t.of(method, name))
		}
	}
}
