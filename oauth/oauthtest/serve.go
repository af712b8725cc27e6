package oauthtest

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/luikyv/go-oidc/pkg/goidc"

	"github.com/openbot-build/openbot-go/oauth/cimd"
)

const (
	maxForm  = 64 << 10
	maxQuery = 16 << 10
)

// The well-known names of the metadata (oauth A1); both give the same document.
var wellKnown = []string{"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	full := r.URL.EscapedPath()
	if strings.HasPrefix(full, s.path+"/authorize") { // whatever comes of it
		setPolicy(w.Header(), "style-src 'none'", "'none'")
	}
	path, ok := s.endpoint(full)
	if !ok {
		http.NotFound(w, r)
		return
	}
	counted := path
	if strings.HasPrefix(path, "/authorize/") {
		counted = "/authorize/"
	}
	s.mu.Lock()
	s.requests[counted]++
	fault := s.faults[counted]
	s.mu.Unlock()
	if fault != nil {
		fault.ServeHTTP(w, r)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	switch {
	case path == wellKnown[0] || path == wellKnown[1]:
		s.serveMetadata(w, r)
	case path == "/authorize":
		s.authorize(w, r)
	case counted == "/authorize/":
		s.answered(w, r, path)
	default:
		s.back(w, r, path)
	}
}

// endpoint gives the path below the issuer of an endpoint that there is.
func (s *Server) endpoint(full string) (string, bool) {
	for _, name := range wellKnown {
		if full == name+s.path || full == s.path+name {
			return name, true
		}
	}
	path, ok := strings.CutPrefix(full, s.path)
	if !ok {
		return "", false
	}
	switch {
	case path == "/authorize" || path == "/token" || path == "/revoke" || path == "/introspect" || path == "/jwks":
		return path, true
	case strings.HasPrefix(path, "/authorize/"):
		return path, strings.Count(path, "/") == 2
	case path == "/register":
		return path, s.opts.Registration
	}
	return "", false
}

// pass hands a request on to the protocol, which knows nothing of our path.
func (s *Server) pass(w http.ResponseWriter, r *http.Request, path string) {
	r = r.Clone(r.Context())
	r.URL.Path, r.URL.RawPath = path, ""
	s.inner.ServeHTTP(w, r)
}

// back serves the endpoints that programs use, not browsers' windows. Hosts that
// run in a browser may ask them too.
func (s *Server) back(w http.ResponseWriter, r *http.Request, path string) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Method == http.MethodOptions {
		h.Set("Access-Control-Allow-Methods", "GET, POST, OPTIONS")
		h.Set("Access-Control-Allow-Headers", "authorization, content-type, mcp-protocol-version")
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if r.Method != http.MethodPost || path == "/register" {
		s.pass(w, r, path)
		return
	}
	if err := r.ParseForm(); err != nil {
		writeError(w, http.StatusBadRequest, goidc.ErrorCodeInvalidRequest, "the form cannot be read")
		return
	}
	if r.URL.RawQuery != "" {
		writeError(w, http.StatusBadRequest, goidc.ErrorCodeInvalidRequest, "parameters belong in the body")
		return
	}
	if name := repeated(r.PostForm); name != "" {
		writeError(w, http.StatusBadRequest, goidc.ErrorCodeInvalidRequest, name+" is repeated")
		return
	}
	if len(r.PostForm["resource"]) > 1 {
		writeError(w, http.StatusBadRequest, goidc.ErrorCodeInvalidTarget, "a token is for one resource")
		return
	}
	ctx := context.WithValue(r.Context(), pathKey{}, path)
	id, ok := clientOf(r)
	if ok && cimd.CheckID(id) == nil { // the network is used before anybody waits for us
		c, err := s.client(ctx, id)
		if err != nil {
			writeError(w, http.StatusUnauthorized, goidc.ErrorCodeInvalidClient, err.Error())
			return
		}
		ctx = context.WithValue(ctx, clientKey{}, c)
	}
	if path != "/introspect" {
		s.exchange.Lock()
		defer s.exchange.Unlock()
	}
	s.pass(w, r.WithContext(ctx), path)
}

func writeError(w http.ResponseWriter, status int, code goidc.ErrorCode, description string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(goidc.NewError(code, description))
}

// repeated gives a parameter that stands more than once (RFC 6749 section 3.1).
// Only resource may.
func repeated(form map[string][]string) string {
	for name, values := range form {
		if len(values) > 1 && name != "resource" {
			return name
		}
	}
	return ""
}

func (s *Server) serveMetadata(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "no-store") // a server under development changes
		if r.Method == http.MethodGet {
			_, _ = w.Write(s.metadata) //nolint:gosec // JSON, sent as such
		}
	case http.MethodOptions:
		h.Set("Access-Control-Allow-Methods", "GET, HEAD, OPTIONS")
		h.Set("Access-Control-Allow-Headers", "*")
		w.WriteHeader(http.StatusNoContent)
	default:
		h.Set("Allow", "GET, HEAD, OPTIONS")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
	}
}

// describe makes the metadata: RFC 8414, with what OpenID Connect Discovery
// requires besides.
func (s *Server) describe() []byte {
	methods := []string{"none", "private_key_jwt"}
	m := map[string]any{
		"issuer":                 s.opts.Issuer,
		"authorization_endpoint": s.opts.Issuer + "/authorize",
		"token_endpoint":         s.opts.Issuer + "/token",
		"revocation_endpoint":    s.opts.Issuer + "/revoke",
		"introspection_endpoint": s.opts.Issuer + "/introspect",
		"jwks_uri":               s.opts.Issuer + "/jwks",

		"scopes_supported":                 append([]string{}, s.opts.Scopes...),
		"protected_resources":              s.opts.Resources,
		"response_types_supported":         []string{"code"},
		"response_modes_supported":         []string{"query"},
		"grant_types_supported":            []string{"authorization_code", "refresh_token"},
		"code_challenge_methods_supported": []string{"S256"},

		"authorization_response_iss_parameter_supported": true,
		"client_id_metadata_document_supported":          true,

		"subject_types_supported":               []string{"public"},
		"id_token_signing_alg_values_supported": []string{"ES256"},
	}
	if s.opts.Registration {
		m["registration_endpoint"] = s.opts.Issuer + "/register"
		methods = append(methods, "client_secret_basic", "client_secret_post")
	}
	for _, endpoint := range []string{"token", "revocation"} {
		m[endpoint+"_endpoint_auth_methods_supported"] = methods
		m[endpoint+"_endpoint_auth_signing_alg_values_supported"] = clientAlgorithms
	}
	m["introspection_endpoint_auth_methods_supported"] = []string{"client_secret_basic"}
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		panic(err) // strings and lists of them
	}
	return append(b, '\n')
}
