package oauth_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/oauth"
	"github.com/openbot-build/openbot-go/oauth/oauthtest"
	"github.com/openbot-build/openbot-go/publicnet"
)

// A guard and a real authorization server, found by its metadata: JWTs, and
// opaque tokens by introspection.
func TestGuardWithServer(t *testing.T) {
	for _, opaque := range []bool{false, true} {
		t.Run(fmt.Sprintf("opaque %t", opaque), func(t *testing.T) {
			const issuer, resource = "https://as.example.org", "https://app.example.org/mcp/notes"
			n := fakenet.New()
			t.Cleanup(n.Close)
			network, err := publicnet.New(&publicnet.Options{UserAgent: "test", Below: n.Below()})
			if err != nil {
				t.Fatal(err)
			}
			server, err := oauthtest.New(&oauthtest.Options{
				Issuer: issuer, Resources: []string{resource, resource + "2"}, Scopes: []string{"notes.read", "notes.write"}, Network: network, Opaque: opaque,
			})
			if err != nil {
				t.Fatal(err)
			}
			n.Handle("as.example.org", server)
			p := &oauth.Protection{
				Resource: resource, Issuers: []oauth.Issuer{{URL: issuer}}, Network: network,
				Scopes: oauth.Scopes{Basic: []string{"notes.read"}, Tools: map[string][]string{"write": {"notes.write"}}},
			}
			if opaque {
				p.Issuers[0].Introspection = server.Introspection()
			}
			h, err := oauth.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				id, _ := oauth.IdentityFrom(auth.TokenInfoFromContext(r.Context()))
				_, _ = io.WriteString(w, id.Issuer+" "+id.Subject)
			}), p)
			if err != nil {
				t.Fatal(err)
			}
			call := func(user, resource, tool string, scopes ...string) *httptest.ResponseRecorder {
				token, err := server.Token(user, resource, scopes...)
				if err != nil {
					t.Fatal(err)
				}
				if strings.Count(token, ".") == 2 == opaque {
					t.Errorf("the token is of the other kind")
				}
				r := httptest.NewRequest(http.MethodPost, resource, http.NoBody)
				r.Header = http.Header{
					"Authorization": {"Bearer " + token}, "Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {tool},
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				return w
			}
			if w := call("alice", resource, "list", "notes.read"); w.Code != 200 || w.Body.String() != issuer+" alice" {
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
			if w := call("alice", resource, "write", "notes.read"); w.Code != 403 {
				t.Errorf("too little scope: status %d", w.Code)
			}
			if w := call("alice", resource, "write", "notes.read", "notes.write"); w.Code != 200 {
				t.Errorf("enough scope: status %d", w.Code)
			}
			if w := call("alice", resource+"2", "list", "notes.read"); w.Code != 401 {
				t.Errorf("another resource: status %d", w.Code)
			}
		})
	}
}
