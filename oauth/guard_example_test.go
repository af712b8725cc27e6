package oauth_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/openbot-build/openbot-go/oauth"
)

func ExampleProtect() {
	notes := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id, ok := oauth.IdentityFrom(auth.TokenInfoFromContext(r.Context())); ok {
			fmt.Fprintf(w, "notes of %s\n", id.Subject)
		}
	})
	h, err := oauth.Protect(notes, &oauth.Protection{
		Resource: "https://app.example.com/mcp/notes",
		Issuers:  []oauth.Issuer{{URL: "https://login.example.com"}},
		Scopes: oauth.Scopes{
			Basic:   []string{"notes.read"},
			Tools:   map[string][]string{"add_note": {"notes.write"}},
			Implies: map[string][]string{"notes.write": {"notes.read"}},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "https://app.example.com/mcp/notes", http.NoBody))
	fmt.Println(w.Code, w.Header().Get("WWW-Authenticate"))

	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "https://app.example.com/.well-known/oauth-protected-resource/mcp/notes", http.NoBody))
	fmt.Print(w.Body)
	// Output:
	// 401 Bearer scope="notes.read", resource_metadata="https://app.example.com/.well-known/oauth-protected-resource/mcp/notes"
	// {
	//   "resource": "https://app.example.com/mcp/notes",
	//   "authorization_servers": [
	//     "https://login.example.com"
	//   ],
	//   "scopes_supported": [
	//     "notes.read"
	//   ],
	//   "bearer_methods_supported": [
	//     "header"
	//   ]
	// }
}

func ExampleNewGuard() {
	_, err := oauth.NewGuard(&oauth.Protection{
		Resource: "https://app.example.com/mcp/notes",
		Issuers:  []oauth.Issuer{{URL: "http://login.example.com", Algorithms: []string{"HS256"}}},
		Scopes:   oauth.Scopes{Basic: []string{"offline_access"}},
	})
	fmt.Println(err != nil)
	// Output: true
}

func ExampleGuard_Check() {
	g, err := oauth.NewGuard(&oauth.Protection{
		Resource: "https://app.example.com/mcp/notes",
		Issuers:  []oauth.Issuer{{URL: "https://login.example.com"}},
		Scopes:   oauth.Scopes{Basic: []string{"notes.read"}, Tools: map[string][]string{"add_note": {"notes.write"}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	reader := &auth.TokenInfo{Scopes: []string{"notes.read"}}
	fmt.Println(g.Check(reader, "tools/call", "list_notes"))
	fmt.Println(g.Check(reader, "tools/call", "add_note"))
	// Output:
	// <nil>
	// this operation needs the scopes notes.read notes.write
}
