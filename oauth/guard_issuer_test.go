package oauth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/openbot-build/openbot-go/internal/fakenet"
)

const (
	guardIssuerURL = "https://as.example.org/tenant"
	guardResource  = "https://app.example.org/mcp/notes"
	guardMetadata  = "https://app.example.org/.well-known/oauth-protected-resource/mcp/notes"
)

// guardIssuer signs tokens for tests of the resource side, and publishes its
// metadata and keys on an Internet in memory.
type guardIssuer struct {
	t   testing.TB
	net *fakenet.Net
	key jose.JSONWebKey
}

func newGuardIssuer(t testing.TB) *guardIssuer {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	is := &guardIssuer{t: t, net: fakenet.New(), key: jose.JSONWebKey{Key: k, KeyID: "k1", Algorithm: "ES256", Use: "sig"}}
	t.Cleanup(is.net.Close)
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{is.key.Public()}})
	if err != nil {
		t.Fatal(err)
	}
	is.net.Set("https://as.example.org/keys", fakenet.Answer{Body: string(set)})
	is.net.Set("https://as.example.org/.well-known/oauth-authorization-server/tenant", fakenet.Answer{Body: fmt.Sprintf(`{
		"issuer": %q, "jwks_uri": "https://as.example.org/keys", "introspection_endpoint": "https://as.example.org/ask",
		"authorization_endpoint": "https://as.example.org/authorize", "token_endpoint": "https://as.example.org/token",
		"response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"]}`, guardIssuerURL)})
	return is
}

// token gives an access token; changes of nil remove a claim.
func (is *guardIssuer) token(changes map[string]any) string {
	c := map[string]any{
		"iss": guardIssuerURL, "aud": guardResource, "sub": "alice", "client_id": "c", "jti": rand.Text(),
		"iat": time.Now().Unix(), "exp": time.Now().Unix() + 300, "scope": "notes.read",
	}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: is.key.Key},
		(&jose.SignerOptions{}).WithType("at+jwt").WithHeader("kid", is.key.KeyID))
	if err != nil {
		is.t.Fatal(err)
	}
	text, err := json.Marshal(c)
	if err != nil {
		is.t.Fatal(err)
	}
	signed, err := s.Sign(text)
	if err != nil {
		is.t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		is.t.Fatal(err)
	}
	return token
}

func (is *guardIssuer) scoped(scopes string) string { return is.token(map[string]any{"scope": scopes}) }

// guard gives one with scopes for every purpose; change may be nil.
func (is *guardIssuer) guard(change func(*Protection)) *Guard {
	is.t.Helper()
	p := &Protection{
		Resource: guardResource,
		Issuers:  []Issuer{{URL: guardIssuerURL}},
		Scopes: Scopes{
			Basic:   []string{"notes.read"},
			Methods: map[string][]string{"resources/read": {"files.read"}},
			Tools:   map[string][]string{"write": {"notes.write"}, "wipe": {"notes.write", "notes.admin"}},
			Implies: map[string][]string{"notes.admin": {"notes.write"}, "notes.write": {"notes.read"}},
		},
	}
	if change != nil {
		change(p)
	}
	return makeGuard(is.t, is.net, p, nil)
}

// send sends one request; headers are "Name: value".
func send(h http.Handler, method, url, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, url, strings.NewReader(body))
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// callTool sends a tools/call of revision 2026-07-28, as its headers tell it.
func callTool(h http.Handler, token, tool string) *httptest.ResponseRecorder {
	return send(h, "POST", guardResource, "{}", "Authorization: Bearer "+token,
		"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: "+tool)
}

// expect judges status and challenge of an answer.
func expect(t *testing.T, w *httptest.ResponseRecorder, status int, code string, scope ...string) {
	t.Helper()
	if w.Code != status {
		t.Fatalf("status %d, want %d: %s", w.Code, status, w.Body)
	}
	c := ParseChallenge(w.Header())
	if c.Error != code {
		t.Errorf("error %q, want %q", c.Error, code)
	}
	if strings.Join(c.Scope, " ") != strings.Join(scope, " ") {
		t.Errorf("scope %q, want %q", c.Scope, scope)
	}
	if challenged := status == 400 || status == 401 || status == 403; challenged && c.ResourceMetadata != guardMetadata {
		t.Errorf("resource_metadata %q", c.ResourceMetadata)
	}
}
