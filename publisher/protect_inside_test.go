package publisher

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/internal/mcpgate"
	"github.com/openbot-build/openbot-go/oauth"
)

func scopedProtection(t *testing.T) *protection {
	t.Helper()
	guard, err := oauth.NewGuard(&oauth.Protection{
		Resource: "https://apps.example.com/mcp/a", Issuers: []oauth.Issuer{{URL: "https://signin.example.com"}},
		Scopes: oauth.Scopes{Basic: []string{"read"}, Tools: map[string][]string{"write": {"write"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &protection{guard: guard, metadata: "https://apps.example.com" + guard.MetadataPath()}
}

// The scopes hold inside the server too, where no header is believed (oauth S4,
// section 7).
func TestGuardedServer(t *testing.T) {
	p := scopedProtection(t)
	ran := 0
	once := guarded(func(context.Context, string, mcp.Request) (mcp.Result, error) {
		ran++
		return &mcp.CallToolResult{}, nil
	})
	h := guarded(once) // twice, by two publishers made at one time, does no harm
	ctx := context.WithValue(t.Context(), protectionKey{}, p)
	web := http.Header{"Mcp-Name": {"read"}}
	for name, tt := range map[string]struct {
		ctx   context.Context
		tool  string
		extra *mcp.RequestExtra
		runs  bool
	}{
		"enough":       {ctx, "write", &mcp.RequestExtra{Header: web, TokenInfo: &auth.TokenInfo{Scopes: []string{"read", "write"}}}, true},
		"another tool": {ctx, "look", &mcp.RequestExtra{Header: web, TokenInfo: &auth.TokenInfo{Scopes: []string{"read"}}}, true},
		"too little":   {ctx, "write", &mcp.RequestExtra{Header: web, TokenInfo: &auth.TokenInfo{Scopes: []string{"read"}}}, false},
		"nobody":       {ctx, "look", &mcp.RequestExtra{Header: web}, false},
		"no extra":     {ctx, "look", nil, false},
		"another door": {t.Context(), "look", &mcp.RequestExtra{Header: web, TokenInfo: &auth.TokenInfo{Scopes: []string{"read", "write"}}}, false},
		"in memory":    {t.Context(), "look", nil, false},
	} {
		before := ran
		_, err := h(tt.ctx, "tools/call", &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Name: tt.tool}, Extra: tt.extra})
		if (err == nil) != tt.runs || (ran > before) != tt.runs {
			t.Errorf("%s: ran %v, error %v", name, ran > before, err)
		}
	}
}

// What answers in place of the server is judged by what the gate has read, even
// if nothing before it was.
func TestModernIsJudgedByTheBody(t *testing.T) {
	p := scopedProtection(t)
	var asked []string
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req, _ := mcpgate.RequestFrom(r.Context())
		asked = append(asked, req.Name)
		w.WriteHeader(http.StatusOK)
	})
	gate, err := mcpgate.New(mcp.NewServer(&mcp.Implementation{Name: "a", Version: "1"}, nil), &mcpgate.Options{
		Modern: p.modern(next),
		Protect: func(next http.Handler) http.Handler { // one that knows nothing of scopes
			return auth.RequireBearerToken(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
				return &auth.TokenInfo{Scopes: strings.Split(token, "+")}, nil
			}, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(next)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	call := func(scopes, tool string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp/a", strings.NewReader(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"`+tool+`",`+
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28",
			"Mcp-Method": "tools/call", "Mcp-Name": tool, "Authorization": "Bearer " + scopes,
		} {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		gate.ServeHTTP(w, r)
		return w
	}
	if w := call("read+write", "write"); w.Code != http.StatusOK {
		t.Errorf("enough: status %d: %s", w.Code, w.Body)
	}
	w := call("read", "write")
	c := oauth.ParseChallenge(w.Header())
	if w.Code != http.StatusForbidden || c.Error != "insufficient_scope" || !slices.Equal(c.Scope, []string{"read", "write"}) ||
		c.ResourceMetadata != "https://apps.example.com/.well-known/oauth-protected-resource/mcp/a" || !strings.Contains(w.Body.String(), `"id":"x"`) {
		t.Errorf("too little: status %d, challenge %+v: %s", w.Code, c, w.Body)
	}
	if !slices.Equal(asked, []string{"write"}) {
		t.Errorf("asked %q", asked)
	}
	// Without the gate before it, it answers nothing.
	w = httptest.NewRecorder()
	p.modern(next).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp/a", nil))
	if w.Code == http.StatusOK {
		t.Error("answers a request that no gate has read")
	}
}
