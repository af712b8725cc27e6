package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/openbot-build/openbot-go/internal/fakenet"
)

func readMetadata(t *testing.T, h http.Handler, path string) *oauthex.ProtectedResourceMetadata {
	t.Helper()
	w := send(h, "GET", "https://app.example.org"+path, "")
	m := &oauthex.ProtectedResourceMetadata{}
	if err := json.Unmarshal(w.Body.Bytes(), m); err != nil || w.Code != 200 {
		t.Fatalf("status %d, %v", w.Code, err)
	}
	return m
}

func TestRule_OauthS1_MetadataNamesAuthorizationServers(t *testing.T) {
	g := newGuardIssuer(t).guard(func(p *Protection) {
		p.Issuers = append(p.Issuers, Issuer{URL: "https://second.example.org/"})
		p.Name, p.Documentation = "Notes", "https://app.example.org/docs"
	})
	m := readMetadata(t, g.Metadata(), g.MetadataPath())
	if !slices.Equal(m.AuthorizationServers, []string{guardIssuerURL, "https://second.example.org/"}) {
		t.Errorf("authorization_servers %q", m.AuthorizationServers)
	}
	if m.ResourceName != "Notes" || m.ResourceDocumentation != "https://app.example.org/docs" || !slices.Equal(m.BearerMethodsSupported, []string{"header"}) {
		t.Errorf("%+v", m)
	}
	if _, err := NewGuard(&Protection{Resource: guardResource, Scopes: Scopes{Basic: []string{"a"}}}); err == nil || !strings.Contains(err.Error(), "Issuers: ") {
		t.Errorf("no issuer: %v", err)
	}
}

func TestRule_OauthS2_MetadataIsFoundByChallengeAndByPath(t *testing.T) {
	for resource, path := range map[string]string{
		guardResource:                        "/.well-known/oauth-protected-resource/mcp/notes",
		"https://app.example.org/mcp/notes/": "/.well-known/oauth-protected-resource/mcp/notes/",
		"https://app.example.org/a%20b":      "/.well-known/oauth-protected-resource/a%20b",
		"https://app.example.org":            "/.well-known/oauth-protected-resource",
		"https://app.example.org/":           "/.well-known/oauth-protected-resource",
		"https://app.example.org:8443/x":     "/.well-known/oauth-protected-resource/x",
	} {
		p := &Protection{Resource: resource, Issuers: []Issuer{{URL: guardIssuerURL}}, Scopes: Scopes{Basic: []string{"a"}}}
		h, err := Protect(ok200, p)
		if err != nil {
			t.Fatal(err)
		}
		origin, _ := splitTarget(resource)
		c := ParseChallenge(send(h, "POST", resource, "").Header())
		if c.ResourceMetadata != origin+path {
			t.Errorf("%s: challenged with %s", resource, c.ResourceMetadata)
		}
		// The resource is told exactly as it was configured.
		if m := readMetadata(t, h, path); m.Resource != resource {
			t.Errorf("%s: resource is %s", resource, m.Resource)
		}
		// The other form describes another resource, and is not served.
		for _, other := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"} {
			if other != path {
				if w := send(h, "GET", origin+other, ""); w.Code != 401 {
					t.Errorf("%s: status %d at %s", resource, w.Code, other)
				}
			}
		}
	}
}

func TestRule_OauthS3_ChallengeAndMetadataAskForTheBasicScopes(t *testing.T) {
	g := newGuardIssuer(t).guard(nil)
	h := g.Protect(ok200)
	expect(t, send(h, "POST", guardResource, "{}", "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: wipe"), 401, "", "notes.read")
	if m := readMetadata(t, g.Metadata(), g.MetadataPath()); !slices.Equal(m.ScopesSupported, []string{"notes.read"}) {
		t.Errorf("scopes_supported %q", m.ScopesSupported)
	}
}

func TestRule_OauthS4_OnlyTokensOfThisResourceAndNoneGoesOn(t *testing.T) {
	is := newGuardIssuer(t)
	ran := 0
	h := is.guard(nil).Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ran++
		if v := r.Header["Authorization"]; v != nil {
			t.Error("the token goes on")
		}
		if r.Header.Get("X-Other") != "kept" {
			t.Error("another header is gone")
		}
	}))
	for _, aud := range []any{nil, "https://app.example.org", guardResource + "/", "https://app.example.org/mcp/mail", []string{"x"}, strings.ToUpper(guardResource)} {
		expect(t, send(h, "POST", guardResource, "", "Authorization: Bearer "+is.token(map[string]any{"aud": aud})), 401, "invalid_token", "notes.read")
	}
	if ran != 0 {
		t.Fatal("something ran")
	}
	r := httptest.NewRequest("GET", guardResource, nil)
	r.Header.Set("Authorization", "Bearer "+is.token(nil))
	r.Header.Set("X-Other", "kept")
	h.ServeHTTP(httptest.NewRecorder(), r)
	if ran != 1 || r.Header.Get("Authorization") == "" {
		t.Error("not served, or the caller's own request was changed")
	}
}

func TestRule_OauthS5_StatusTellsWhoIsAtFault(t *testing.T) {
	is := newGuardIssuer(t)
	g := is.guard(func(p *Protection) {
		p.Issuers[0].Introspection = &Introspection{ClientID: "rs", ClientSecret: "s"}
	})
	is.net.SetMethod("POST", "https://as.example.org/ask", fakenet.Answer{Status: 500})
	h := g.Protect(ok200)
	expect(t, send(h, "POST", guardResource, ""), 401, "", "notes.read")
	expect(t, send(h, "POST", guardResource, "", "Authorization: Bearer "+is.token(map[string]any{"exp": 1})), 401, "invalid_token", "notes.read")
	expect(t, send(h, "POST", guardResource, "", "Authorization: Bearer"), 400, "invalid_request")
	expect(t, send(h, "POST", guardResource, "", "Authorization: Bearer "+is.scoped("other")), 403, "insufficient_scope", "notes.read")
	w := send(h, "POST", guardResource, "", "Authorization: Bearer opaque")
	expect(t, w, 503, "")
	if w.Header().Get("Retry-After") == "" || w.Header().Get("WWW-Authenticate") != "" {
		t.Errorf("headers %v", w.Header())
	}
	// The same when the keys cannot be had.
	down := newGuardIssuer(t)
	down.net.Set("https://as.example.org/keys", fakenet.Answer{Status: 500})
	expect(t, send(down.guard(nil).Protect(ok200), "POST", guardResource, "", "Authorization: Bearer "+down.token(nil)), 503, "")
}

func TestRule_OauthS6_InsufficientScopeNamesAllThatIsNeeded(t *testing.T) {
	is := newGuardIssuer(t)
	h := is.guard(nil).Protect(ok200)
	expect(t, callTool(h, is.scoped("notes.read"), "write"), 403, "insufficient_scope", "notes.read", "notes.write")
	expect(t, callTool(h, is.scoped("notes.read"), "wipe"), 403, "insufficient_scope", "notes.admin", "notes.read", "notes.write")
	expect(t, callTool(h, is.scoped("other"), "write"), 403, "insufficient_scope", "notes.read", "notes.write")
	expect(t, callTool(h, is.scoped("notes.read"), "list"), 200, "")
}

func TestRule_OauthS7_ScopesAreHierarchicalAndCaseSensitive(t *testing.T) {
	is := newGuardIssuer(t)
	h := is.guard(nil).Protect(ok200)
	expect(t, callTool(h, is.scoped("notes.write"), "write"), 200, "")
	expect(t, callTool(h, is.scoped("notes.admin"), "write"), 200, "") // over two steps
	expect(t, callTool(h, is.scoped("notes.admin"), "list"), 200, "")
	expect(t, callTool(h, is.scoped("notes.write"), "wipe"), 403, "insufficient_scope", "notes.admin", "notes.read", "notes.write")
	expect(t, callTool(h, is.scoped("Notes.Read"), "list"), 403, "insufficient_scope", "notes.read")
	// A circle ends.
	g := is.guard(func(p *Protection) { p.Scopes.Implies = map[string][]string{"a": {"b"}, "b": {"a", "notes.read"}} })
	expect(t, callTool(g.Protect(ok200), is.scoped("a"), "list"), 200, "")
}

func TestRule_OauthS8_OfflineAccessIsNeverAskedFor(t *testing.T) {
	for _, s := range []Scopes{
		{Basic: []string{"a", "offline_access"}},
		{Basic: []string{"a"}, Tools: map[string][]string{"t": {"offline_access"}}},
		{Basic: []string{"a"}, Methods: map[string][]string{"m": {"offline_access"}}},
	} {
		if _, err := NewGuard(&Protection{Resource: guardResource, Issuers: []Issuer{{URL: guardIssuerURL}}, Scopes: s}); err == nil || !strings.Contains(err.Error(), "offline_access") {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

func TestRule_OauthS9_AHandleIsNoAuthentication(t *testing.T) {
	is := newGuardIssuer(t)
	s := mcp.NewServer(&mcp.Implementation{Name: "n", Version: "1"}, nil)
	h := is.guard(nil).Protect(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	media := []string{"Content-Type: application/json", "Accept: application/json, text/event-stream"}
	alice, bob := "Authorization: Bearer "+is.token(nil), "Authorization: Bearer "+is.token(map[string]any{"sub": "bob"})
	w := send(h, "POST", guardResource, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
		append(media, alice)...)
	handle := w.Header().Get("Mcp-Session-Id")
	if w.Code != 200 || handle == "" {
		t.Fatalf("status %d, session %q: %s", w.Code, handle, w.Body)
	}
	ping := func(headers ...string) int {
		return send(h, "POST", guardResource, `{"jsonrpc":"2.0","id":2,"method":"ping"}`,
			slices.Concat(media, headers, []string{"Mcp-Session-Id: " + handle, "MCP-Protocol-Version: 2025-06-18"})...).Code
	}
	if code := ping(); code != 401 {
		t.Errorf("handle alone: status %d", code)
	}
	if code := ping(bob); code == 200 {
		t.Error("another user goes on with the handle")
	}
	if code := ping(alice); code != 200 {
		t.Errorf("its user: status %d", code)
	}
	if w := send(h, "DELETE", guardResource, "", alice, "Mcp-Session-Id: "+handle); w.Code >= 300 {
		t.Errorf("end the session: %d", w.Code)
	}
}

func TestRule_OauthS10_NoTokenInLogsOrAnswers(t *testing.T) {
	is := newGuardIssuer(t)
	var log bytes.Buffer
	g := is.guard(func(p *Protection) {
		p.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		p.Issuers[0].Introspection = &Introspection{ClientID: "rs", ClientSecret: "secret-canary"}
	})
	h := g.Protect(ok200)
	tokens := []string{is.token(nil), is.token(map[string]any{"aud": "x"}), "opaque-canary", is.token(nil) + "AAAA", "a.b.c-canary"}
	for _, token := range tokens {
		w := send(h, "POST", guardResource, "", "Authorization: Bearer "+token)
		if strings.Contains(w.Body.String()+w.Header().Get("WWW-Authenticate"), token) {
			t.Error("an answer holds a token")
		}
	}
	if log.Len() == 0 {
		t.Fatal("nothing was logged")
	}
	for _, token := range append(tokens, "secret-canary", "canary") {
		if strings.Contains(log.String(), token) {
			t.Errorf("the log holds a token or a secret")
		}
	}
}

func TestRule_OauthS11_ErrorCodes(t *testing.T) {
	is := newGuardIssuer(t)
	h := is.guard(nil).Protect(ok200)
	token := is.token(nil)
	for name, c := range map[string]struct {
		url     string
		headers []string
		status  int
		code    string
	}{
		"none":                {"", nil, 401, ""},
		"empty":               {"", []string{"Authorization: "}, 401, ""},
		"another scheme":      {"", []string{"Authorization: Basic dTpw"}, 401, ""},
		"a longer scheme":     {"", []string{"Authorization: BearerX " + token}, 401, ""},
		"query alone":         {"?access_token=" + token, nil, 401, ""},
		"bad":                 {"", []string{"Authorization: Bearer x"}, 401, "invalid_token"},
		"header and query":    {"?access_token=x", []string{"Authorization: Bearer " + token}, 400, "invalid_request"},
		"query, other case":   {"?access%5Ftoken=x", []string{"Authorization: Bearer " + token}, 400, "invalid_request"},
		"two headers":         {"", []string{"Authorization: Bearer " + token, "Authorization: Bearer " + token}, 400, "invalid_request"},
		"two in one":          {"", []string{"Authorization: Bearer " + token + ", Bearer " + token}, 400, "invalid_request"},
		"Bearer alone":        {"", []string{"Authorization: Bearer"}, 400, "invalid_request"},
		"Bearer and a blank":  {"", []string{"Authorization: Bearer  "}, 400, "invalid_request"},
		"padding alone":       {"", []string{"Authorization: Bearer =="}, 400, "invalid_request"},
		"not a token":         {"", []string{"Authorization: Bearer a\"b"}, 400, "invalid_request"},
		"lower case":          {"", []string{"Authorization: bearer " + token}, 200, ""},
		"more blanks":         {"", []string{"Authorization: Bearer   " + token}, 200, ""},
		"another query":       {"?x=1", []string{"Authorization: Bearer " + token}, 200, ""},
		"longer than allowed": {"", []string{"Authorization: Bearer " + strings.Repeat("x", 9<<10)}, 401, "invalid_token"},
	} {
		t.Run(name, func(t *testing.T) {
			var scope []string
			if c.status == 401 {
				scope = []string{"notes.read"}
			}
			expect(t, send(h, "POST", guardResource+c.url, "", c.headers...), c.status, c.code, scope...)
		})
	}
}

func TestRule_OauthS12_ProfileOfJWTs(t *testing.T) {
	is := newGuardIssuer(t)
	h := is.guard(nil).Protect(ok200)
	good := is.token(nil)
	expect(t, callTool(h, good, "list"), 200, "")
	for name, v := range map[string]any{"iss": guardIssuerURL + "/", "exp": nil, "aud": nil, "sub": nil} {
		expect(t, callTool(h, is.token(map[string]any{name: v}), "list"), 401, "invalid_token", "notes.read")
	}
	// alg none, with the rest of a good token.
	part := strings.Split(good, ".")
	expect(t, callTool(h, "eyJhbGciOiJub25lIiwidHlwIjoiYXQrand0In0."+part[1]+".", "list"), 401, "invalid_token", "notes.read")
}

func TestRule_OauthS13_IntrospectionIsAuthenticatedAndChecked(t *testing.T) {
	is := newGuardIssuer(t)
	secret := Secret("s:/ %")
	answer := map[string]any{"active": true, "aud": guardResource, "iss": guardIssuerURL, "sub": "alice", "scope": "notes.read", "exp": time.Now().Unix() + 60}
	is.net.Handle("as.example.org", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id, got, ok := r.BasicAuth(); !ok || id != "rs+1" || got != "s%3A%2F+%25" || r.Method != "POST" || r.URL.RawQuery != "" {
			t.Errorf("asked as %q by %s %s", id, r.Method, r.URL)
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	h := is.guard(func(p *Protection) {
		p.Issuers[0].Introspection = &Introspection{ClientID: "rs 1", ClientSecret: secret}
	}).Protect(ok200)
	expect(t, callTool(h, "opaque-1", "list"), 200, "")
	for i, change := range []map[string]any{{"active": "true"}, {"active": 1}, {"aud": "x"}, {"aud": nil}, {"exp": 1}, {"iss": "https://evil.example.org"}} {
		for name, v := range change {
			old := answer[name]
			answer[name] = v
			if v == nil {
				delete(answer, name)
			}
			expect(t, callTool(h, "opaque-bad"+strings.Repeat("x", i), "list"), 401, "invalid_token", "notes.read")
			answer[name] = old
		}
	}
	for _, in := range []*Introspection{{ClientID: "a"}, {ClientSecret: "b"}} {
		_, err := NewGuard(&Protection{Resource: guardResource, Issuers: []Issuer{{URL: guardIssuerURL, Introspection: in}}, Scopes: Scopes{Basic: []string{"a"}}})
		if err == nil || !strings.Contains(err.Error(), "Issuers[0].Introspection.Client") {
			t.Errorf("%+v: %v", in.ClientID, err)
		}
	}
}

func TestRule_OauthS14_BrowsersMayAskWithoutToken(t *testing.T) {
	is := newGuardIssuer(t)
	g := is.guard(nil)
	preflights := 0
	h := g.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		preflights++
		w.WriteHeader(http.StatusNoContent)
	}))
	if w := send(h, "OPTIONS", guardResource, "", "Origin: https://host.example.org", "Access-Control-Request-Method: POST"); w.Code != 204 || preflights != 1 {
		t.Errorf("preflight: %d", w.Code)
	}
	expect(t, send(h, "OPTIONS", guardResource, "", "Origin: https://host.example.org"), 401, "", "notes.read")
	expect(t, send(h, "OPTIONS", guardResource, ""), 401, "", "notes.read")
	for _, headers := range [][]string{{}, {"Authorization: Bearer x"}, {"Authorization: Bearer"}, {"Authorization: Bearer " + is.scoped("x")}} {
		w := send(h, "POST", guardResource, "", append(headers, "Origin: https://host.example.org")...)
		if w.Header().Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(w.Header().Get("Access-Control-Expose-Headers"), "WWW-Authenticate") {
			t.Errorf("%d: headers %v", w.Code, w.Header())
		}
		if w := send(h, "POST", guardResource, "", headers...); w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Error("CORS for a caller that is no browser")
		}
	}
	// Whoever judged the origin before has the last word.
	outer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "https://host.example.org")
		h.ServeHTTP(w, r)
	})
	if w := send(outer, "POST", guardResource, "", "Origin: https://host.example.org"); w.Header().Get("Access-Control-Allow-Origin") != "https://host.example.org" {
		t.Errorf("headers %v", w.Header())
	}
}

func TestRule_OauthO3_TheChallengeLeadsToServerAndScopes(t *testing.T) {
	h, err := Protect(ok200, &Protection{Resource: guardResource, Issuers: []Issuer{{URL: guardIssuerURL}}, Scopes: Scopes{Basic: []string{"b", "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	c := ParseChallenge(send(h, "POST", guardResource, "{}").Header())
	m := readMetadata(t, h, strings.TrimPrefix(c.ResourceMetadata, "https://app.example.org"))
	if len(m.AuthorizationServers) != 1 || !slices.Equal(m.ScopesSupported, []string{"a", "b"}) {
		t.Errorf("%+v", m)
	}
	if _, err := NewGuard(&Protection{Resource: guardResource, Issuers: []Issuer{{URL: guardIssuerURL}}}); err == nil || !strings.Contains(err.Error(), "Scopes.Basic: ") {
		t.Errorf("no scopes: %v", err)
	}
}

func TestRule_OauthG16_ScopesByOperationAndFixedTexts(t *testing.T) {
	is := newGuardIssuer(t)
	h := is.guard(nil).Protect(ok200)
	token := is.scoped("notes.write")
	expect(t, callTool(h, token, "write"), 200, "")
	expect(t, callTool(h, token, "wipe"), 403, "insufficient_scope", "notes.admin", "notes.read", "notes.write")
	if body := callTool(h, "x", "list").Body.String(); body != "the access token does not open this resource\n" {
		t.Errorf("body %q", body)
	}
	// The SDK's middleware has one set of scopes, tells its errors, and makes a
	// 500 of an outage.
	sdk := auth.RequireBearerToken(func(context.Context, string, *http.Request) (*auth.TokenInfo, error) {
		return nil, errors.New("internal detail")
	}, nil)(ok200)
	if w := callTool(sdk, "x", "list"); w.Code != 500 || !strings.Contains(w.Body.String(), "internal detail") {
		t.Errorf("the SDK answers %d %q now", w.Code, w.Body)
	}
}

func TestRule_OauthG17_MetadataHandler(t *testing.T) {
	g := newGuardIssuer(t).guard(nil)
	h, url := g.Metadata(), guardMetadata
	get := send(h, "GET", url, "")
	etag := get.Header().Get("ETag")
	if get.Code != 200 || etag == "" || get.Header().Get("Cache-Control") == "" || get.Header().Get("Access-Control-Allow-Origin") != "*" || get.Header().Get("Content-Type") != "application/json" {
		t.Errorf("GET: %d %v", get.Code, get.Header())
	}
	if w := send(h, "HEAD", url, ""); w.Code != 200 || w.Body.Len() != 0 || w.Header().Get("Content-Length") != get.Header().Get("Content-Length") {
		t.Errorf("HEAD: %d %v", w.Code, w.Header())
	}
	for _, tag := range []string{etag, "W/" + etag, `"x", ` + etag, "*"} {
		if w := send(h, "GET", url, "", "If-None-Match: "+tag); w.Code != 304 || w.Body.Len() != 0 || w.Header().Get("ETag") != etag || w.Header().Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %d", tag, w.Code)
		}
	}
	if w := send(h, "GET", url, "", `If-None-Match: "x"`); w.Code != 200 {
		t.Errorf("another tag: %d", w.Code)
	}
	preflight := []string{"Origin: https://host.example.org", "Access-Control-Request-Method: GET", "Access-Control-Request-Headers: mcp-protocol-version"}
	w := send(h, "OPTIONS", url, "", preflight...)
	allowed := strings.ToLower(w.Header().Get("Access-Control-Allow-Headers"))
	for _, name := range []string{"authorization", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name"} {
		if !strings.Contains(allowed, name) {
			t.Errorf("preflight does not allow %s", name)
		}
	}
	if w.Code != 204 || !strings.Contains(w.Header().Get("Access-Control-Allow-Methods"), "HEAD") {
		t.Errorf("preflight: %d %v", w.Code, w.Header())
	}
	if w := send(h, "POST", url, ""); w.Code != 405 || w.Header().Get("Allow") == "" {
		t.Errorf("POST: %d", w.Code)
	}
	sdk := auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{})
	if w := send(sdk, "HEAD", url, ""); w.Code != 405 {
		t.Errorf("the SDK answers HEAD with %d now", w.Code)
	}
	if w := send(sdk, "OPTIONS", url, "", preflight...); w.Header().Get("Access-Control-Allow-Headers") != "Content-Type" {
		t.Errorf("the SDK allows %s now", w.Header().Get("Access-Control-Allow-Headers"))
	}
	if w := send(sdk, "GET", url, ""); w.Header().Get("ETag") != "" {
		t.Error("the SDK sends an ETag now")
	}
}
