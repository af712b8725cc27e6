package oauth

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/openbot-build/openbot-go/internal/accesstoken"
)

// Error codes of RFC 6750 section 3.1.
const (
	errorRequest = "invalid_request"
	errorToken   = "invalid_token"
	errorScope   = "insufficient_scope"
)

// retryAfter is in seconds: keys are asked for again after so long.
const retryAfter = "30"

// refusal is a prepared answer. Its text is fixed: nothing of the request or of
// an internal error gets into it (G16). Texts that begin with a brace are JSON.
type refusal struct {
	status    int
	challenge string // the WWW-Authenticate header; "" for none
	text      string
}

// Refusals that are the same for every resource.
var (
	outage   = &refusal{http.StatusServiceUnavailable, "", "access tokens cannot be checked now\n"}
	tooLarge = &refusal{http.StatusRequestEntityTooLarge, "", "the request is too large\n"}
	encoded  = &refusal{http.StatusUnsupportedMediaType, "", "send the request without a content encoding\n"}
	form     = &refusal{http.StatusUnsupportedMediaType, "", "this resource takes no forms\n"}
	notJSON  = &refusal{http.StatusBadRequest, "", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the request is not well-formed JSON"}}` + "\n"}
	notRPC   = &refusal{http.StatusBadRequest, "", `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the request is no JSON-RPC message"}}` + "\n"}
)

// prepare makes the refusals, so that a request costs none of this.
func (g *Guard) prepare() {
	challenge := func(code string, scopes []string) string {
		var b strings.Builder
		b.WriteString("Bearer ")
		if code != "" {
			b.WriteString(`error="` + code + `", `)
		}
		if scopes != nil {
			b.WriteString(`scope="` + strings.Join(scopes, " ") + `", `)
		}
		b.WriteString(`resource_metadata="` + g.metadataURL + `"`)
		return b.String()
	}
	basic := g.scopes.basic.scopes
	g.nobody = &refusal{http.StatusUnauthorized, challenge("", basic), "sign in to use this resource\n"}
	g.badRequest = &refusal{http.StatusBadRequest, challenge(errorRequest, nil), "send one access token, in the header Authorization\n"}
	g.badToken = &refusal{http.StatusUnauthorized, challenge(errorToken, basic), "the access token does not open this resource\n"}
	less := func(n *need) {
		n.refusal = &refusal{http.StatusForbidden, challenge(errorScope, n.scopes), "this operation needs more access\n"}
	}
	less(g.scopes.basic)
	for _, by := range []map[string]*need{g.scopes.methods, g.scopes.tools} {
		for _, n := range by {
			less(n)
		}
	}
	g.scopes.refusal = less
}

// Protect lets requests with a good token through to next: the identity is in
// their context (auth.TokenInfoFromContext, and so RequestExtra.TokenInfo of the
// tools), and the token is gone from their headers, so that nothing behind can
// log it or send it on (S4, S10). Preflights pass without one, and bring nothing
// that could be taken for more: neither Authorization nor a body.
//
// Where operations differ in scopes, next is relied on for one thing. Requests of
// revision 2026-07-28 are judged by their headers, so next must refuse those
// whose body says something else, as this module's endpoints and the SDK's
// handler (since v1.8.0) do; with another handler put Middleware into the server,
// or call Check before an operation. All other requests are judged by their body,
// which must be JSON that can be read in one way only, or next does not see it;
// GET, HEAD, DELETE and OPTIONS have none.
func (g *Guard) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isPreflight(r) {
			r = r.WithContext(r.Context()) // a copy
			r.Header = maps.Clone(r.Header)
			delete(r.Header, "Authorization")
			dropBody(r)
			next.ServeHTTP(w, r)
			return
		}
		token, no := g.credentials(r)
		if no != nil {
			g.refuse(w, r, no)
			return
		}
		result, err := g.verifier.Verify(r.Context(), token)
		if err != nil {
			if errors.Is(err, accesstoken.ErrInvalid) {
				// The caller learns no more than that; who runs the app has to
				// see what an issuer does otherwise than it should.
				g.log.InfoContext(r.Context(), "a token was refused", "reason", err)
				g.refuse(w, r, g.badToken)
			} else {
				g.log.WarnContext(r.Context(), "a token cannot be judged", "reason", err)
				g.refuse(w, r, outage)
			}
			return
		}
		c := result.Bound.(*caller)
		if basic := g.scopes.basic; !g.scopes.enough(result.Scopes, basic.scopes) && g.scopes.one() {
			g.refuse(w, r, basic.refusal)
			return
		}
		r = r.WithContext(&callerContext{Context: r.Context(), caller: c.ctx})
		r.Header = maps.Clone(r.Header)
		delete(r.Header, "Authorization")
		if !g.scopes.one() {
			n, no := g.operation(r)
			if no == nil && !g.scopes.enough(result.Scopes, n.scopes) {
				no = n.refusal
			}
			if no != nil {
				g.refuse(w, r, no)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// isPreflight: a browser sends no token with it (S14).
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header["Origin"] != nil && r.Header["Access-Control-Request-Method"] != nil
}

// credentials finds the token (S11). Other schemes count as no credentials, and
// so does a token in the query alone: we take none from there (C13).
func (g *Guard) credentials(r *http.Request) (token string, no *refusal) {
	values := r.Header["Authorization"]
	if len(values) > 1 {
		return "", g.badRequest
	}
	if len(values) == 0 {
		return "", g.nobody
	}
	token, isBearer, ok := bearer(values[0])
	switch {
	case !isBearer:
		return "", g.nobody
	case !ok, r.URL.RawQuery != "" && hasToken(r.URL.RawQuery):
		return "", g.badRequest
	case isForm(r.Header["Content-Type"]):
		return "", form
	}
	return token, nil
}

// hasToken reports whether a query has an access token. It parts at semicolons
// too, and looks over what is malformed: somebody behind us may.
func hasToken(query string) bool {
	for pair := range strings.FieldsFuncSeq(query, func(c rune) bool { return c == '&' || c == ';' }) {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil && plain == "access_token" {
			return true
		}
	}
	return false
}

// isForm reports a body that may hold a second token (RFC 6750 section 2.2),
// and is never MCP.
func isForm(types []string) bool {
	for _, t := range types {
		t, _, _ = strings.Cut(t, ";")
		if strings.EqualFold(strings.TrimSpace(t), "application/x-www-form-urlencoded") {
			return true
		}
	}
	return false
}

// dropBody takes the body from a request that has no use for one. The server
// still has its own hold of it.
func dropBody(r *http.Request) {
	r.Body, r.ContentLength, r.TransferEncoding = http.NoBody, 0, nil
}

// bearer reads an Authorization header (RFC 6750 section 2.1). ok is false for
// one that has no well-formed token. Long ones are not looked through: the
// verifier refuses them by their length.
func bearer(header string) (token string, isBearer, ok bool) {
	const scheme = "bearer"
	header = strings.Trim(header, " \t")
	if len(header) < len(scheme) || !strings.EqualFold(header[:len(scheme)], scheme) {
		return "", false, false
	}
	token = header[len(scheme):]
	if token == "" {
		return "", true, false
	}
	if token[0] != ' ' {
		return "", token[0] == '\t', false // another scheme, whose name begins like this
	}
	token = strings.TrimLeft(token, " ")
	if len(token) > accesstoken.MaxToken {
		return token, true, true
	}
	end := len(strings.TrimRight(token, "="))
	for i := range end {
		if !tokenOctet[token[i]] {
			return "", true, false
		}
	}
	return token, true, end > 0
}

// tokenOctet tells which octets a token has, but for its padding.
var tokenOctet = func() (set [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/") {
		set[c] = true
	}
	return set
}()

// refuse answers. A browser can read it, unless something before us has judged
// its origin (S14).
func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, no *refusal) {
	h := w.Header()
	if no.challenge != "" {
		h.Set("WWW-Authenticate", no.challenge)
	}
	if no.status == http.StatusServiceUnavailable {
		h.Set("Retry-After", retryAfter)
	}
	if r.Header["Origin"] != nil && h["Access-Control-Allow-Origin"] == nil {
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Expose-Headers", "WWW-Authenticate, Retry-After")
	}
	if no == encoded {
		h.Set("Accept-Encoding", "identity") // RFC 9110 section 15.5.16
	}
	if no.text[0] == '{' {
		h.Set("Content-Type", "application/json")
	} else {
		h.Set("Content-Type", "text/plain; charset=utf-8")
	}
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(no.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte(no.text)) // who asked may be gone
	}
}
