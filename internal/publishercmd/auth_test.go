package publishercmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/oauth"
	"github.com/openbot-build/openbot-go/oauth/oauthtest"
	"github.com/openbot-build/openbot-go/publicnet"
)

const authIssuer = "https://signin.example.com"

// signInServer puts an authorization server for the app hello on net.
func signInServer(t *testing.T, net *fakenet.Net, opaque bool) *oauthtest.Server {
	t.Helper()
	network, err := publicnet.New(&publicnet.Options{UserAgent: "test", Below: net.Below()})
	if err != nil {
		t.Fatal(err)
	}
	s, err := oauthtest.New(&oauthtest.Options{
		Issuer: authIssuer, Resources: []string{"https://apps.example.com/mcp/hello"}, Scopes: []string{"say", "shout", "other"}, Network: network, Opaque: opaque,
	})
	if err != nil {
		t.Fatal(err)
	}
	net.Handle("signin.example.com", s)
	return s
}

func mint(t *testing.T, s *oauthtest.Server, scopes ...string) string {
	t.Helper()
	token, err := s.Token("ann", "https://apps.example.com/mcp/hello", scopes...)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// publishedOn is what a configuration serves to a network.
func publishedOn(t *testing.T, net *fakenet.Net, getenv func(string) string, log *slog.Logger, text string) *publication {
	t.Helper()
	config, err := parseConfig("c.yaml", t.TempDir(), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	started := config.connect(t.Context(), &connection{getenv: getenv, log: log, below: net.Below()})
	t.Cleanup(func() { _ = closeAll(started) })
	pub, err := config.publish(log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pub.Close() })
	return pub
}

// callModern calls a tool in one request of revision 2026-07-28.
func callModern(t *testing.T, h http.Handler, token, tool string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp/hello", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`",`+
		`"arguments":{"text":"good morning"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool,
	} {
		r.Header.Set(name, value)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	res := w.Result()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

const authConfigText = echoConfig + `    auth:
      issuers:
        - url: https://signin.example.com
          algorithms: [ES256]
      scopes:
        basic: [say]
        tools: {echo: [shout]}
        implies: {other: [shout]}
      documentation: https://apps.example.com/docs
      leeway: 10s
`

// An auth block is what the publisher does: tokens of the issuer, with the scopes
// of the tool, and nobody else.
func TestAuth(t *testing.T) {
	net := fakenet.New()
	defer net.Close()
	issuer := signInServer(t, net, false)
	pub := publishedOn(t, net, nil, nil, authConfigText)
	for name, tt := range map[string]struct {
		token  string
		status int
		scope  string
	}{
		"nobody":     {"", http.StatusUnauthorized, "say"},
		"too little": {mint(t, issuer, "say"), http.StatusForbidden, "say shout"},
		"enough":     {mint(t, issuer, "say", "shout"), http.StatusOK, ""},
		"implied":    {mint(t, issuer, "say", "other"), http.StatusOK, ""},
		"garbage":    {"garbage", http.StatusUnauthorized, "say"},
	} {
		res, body := callModern(t, pub, tt.token, "echo")
		c := oauth.ParseChallenge(res.Header)
		if res.StatusCode != tt.status || strings.Join(c.Scope, " ") != tt.scope || tt.status == http.StatusOK && !strings.Contains(body, "good morning") {
			t.Errorf("%s: status %d, challenge %+v: %s", name, res.StatusCode, c, body)
		}
	}
	w := httptest.NewRecorder()
	pub.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/.well-known/oauth-protected-resource/mcp/hello", nil))
	var m map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &m); err != nil {
		t.Fatal(err)
	}
	if m["resource"] != "https://apps.example.com/mcp/hello" || m["resource_name"] != "Hello" || m["resource_documentation"] != "https://apps.example.com/docs" {
		t.Errorf("metadata %v", m)
	}
}

// Opaque tokens are asked about, with a secret that is a variable and is nowhere
// else.
func TestAuthIntrospection(t *testing.T) {
	net := fakenet.New()
	defer net.Close()
	issuer := signInServer(t, net, true)
	secret := issuer.Introspection().ClientSecret.Reveal()
	var logged bytes.Buffer
	text := strings.Replace(authConfigText, "          algorithms: [ES256]\n", `          introspection: {client_id: `+issuer.Introspection().ClientID+`, client_secret: "${ASK}"}`+"\n", 1)
	pub := publishedOn(t, net, func(name string) string { return map[string]string{"ASK": secret}[name] },
		slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})), text)
	token := mint(t, issuer, "say", "shout")
	if res, body := callModern(t, pub, token, "echo"); res.StatusCode != http.StatusOK {
		t.Errorf("status %d: %s", res.StatusCode, body)
	}
	if res, _ := callModern(t, pub, token+"x", "echo"); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a made-up token: status %d", res.StatusCode)
	}
	if strings.Contains(logged.String(), secret) || strings.Contains(logged.String(), token) {
		t.Errorf("secrets are logged:\n%s", logged.String())
	}
}

// FO-39, oauth S4: a server behind the publisher gets calls of those who signed
// in, and neither their tokens nor those of anybody else.
func TestRule_FO39_UpstreamGetsNoToken(t *testing.T) {
	net := fakenet.New()
	defer net.Close()
	issuer := signInServer(t, net, false)
	behind := mcp.NewServer(&mcp.Implementation{Name: "com.example/hello", Version: "1.0.0"}, &mcp.ServerOptions{
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "public" },
	})
	for _, name := range []string{"echo", "list"} {
		mcp.AddTool(behind, &mcp.Tool{Name: name, Description: "Say it back."}, func(_ context.Context, _ *mcp.CallToolRequest, in echoIn) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil, nil
		})
	}
	var mu sync.Mutex
	var seen []string
	inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return behind }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Header.Values("Authorization")...)
		mu.Unlock()
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close) // after the gateway, which listens to it
	upstream := "    upstream: {url: \"" + srv.URL + "\", headers: {Authorization: \"Bearer ${OWN}\"}}\n"
	pub := publishedOn(t, net, func(string) string { return "own-key" }, nil, strings.Replace(authConfigText, "    builtin: echo\n", upstream, 1))
	for scopes, status := range map[string]int{"say": http.StatusForbidden, "say shout": http.StatusOK} {
		if res, body := callModern(t, pub, mint(t, issuer, strings.Fields(scopes)...), "echo"); res.StatusCode != status {
			t.Errorf("%s: status %d: %s", scopes, res.StatusCode, body)
		}
	}
	if res, body := callModern(t, pub, mint(t, issuer, "say"), "list"); res.StatusCode != http.StatusOK {
		t.Errorf("status %d: %s", res.StatusCode, body)
	}
	mu.Lock()
	defer mu.Unlock()
	if seen = slices.Compact(slices.Sorted(slices.Values(seen))); !slices.Equal(seen, []string{"Bearer own-key"}) {
		t.Errorf("the upstream saw %d kinds of credentials", len(seen))
	}
}

// An upstream is started anew when its app begins to want a sign-in: what it lets
// clients keep is another thing then.
func TestAuthChangesTheUpstream(t *testing.T) {
	keys := map[string]bool{}
	for _, auth := range []string{"", "    auth: {issuers: [{url: \"https://signin.example.com\"}], scopes: {basic: [say]}}\n"} {
		config, err := parseConfig("c.yaml", t.TempDir(), []byte(upstreamConfigText+auth))
		if err != nil {
			t.Fatal(err)
		}
		_ = config.connect(t.Context(), &connection{getenv: demoEnv().Getenv, offline: true})
		keys[config.upstreams[0].key] = true
	}
	if len(keys) != 2 {
		t.Error("the same upstream serves both")
	}
}

// A faulty auth block is refused with its reasons while the app stays as
// protected as it was; a good one counts for the next call.
func TestReloadAuth(t *testing.T) {
	file := write(t, "c.yaml", authConfigText)
	log, stop := start(t, "serve", "--config", file, "--listen", "127.0.0.1:0")
	defer stop()
	addr := log.wait(t, `msg=serving addr=(\S+)`)
	scope := func() string {
		t.Helper()
		res, err := http.Post("http://"+addr+"/mcp/hello", "application/json", strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized {
			t.Errorf("status %d", res.StatusCode)
		}
		return strings.Join(oauth.ParseChallenge(res.Header).Scope, " ")
	}
	if got := scope(); got != "say" {
		t.Errorf("scope %q", got)
	}
	rewrite(t, file, strings.Replace(authConfigText, "algorithms: [ES256]", "algorithms: [none]", 1))
	hangUp(t)
	log.wait(t, `msg="fault of the new configuration" fault=".*c.yaml:13: apps\[0\].auth.issuers\[0\].algorithms: `)
	if got := scope(); got != "say" {
		t.Errorf("after a faulty file: scope %q", got)
	}
	rewrite(t, file, strings.Replace(authConfigText, "basic: [say]", "basic: [shout]", 1))
	hangUp(t)
	log.wait(t, `msg="the configuration was read again" apps=1`)
	if got := scope(); got != "shout" {
		t.Errorf("after a good file: scope %q", got)
	}
}

// What publisher protects passes publisher check, with a real authorization
// server behind it.
func TestCheckOfAProtectedApp(t *testing.T) {
	net := fakenet.New()
	defer net.Close()
	signInServer(t, net, false)
	net.Handle("apps.example.com", publishedOn(t, net, nil, nil, authConfigText))
	code, out, errOut := runCheck(t, net.Below(), "apps.example.com")
	if code != exitOK || !strings.Contains(out, "\nno faults\n") {
		t.Errorf("exit %d\n%s%s", code, out, errOut)
	}
	for _, want := range []string{
		"✓ a made-up token is refused (401, invalid_token) [OB-60]", "✓ PKCE with S256 [OB-62]", "✓ takes a client id metadata document [OB-61]", "✓ says in its answers who it is (iss) [OB-64]",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

// Without an auth block that can be read nothing is served: a spoiled one never
// opens an app.
func TestSpoiledAuthNeverOpens(t *testing.T) {
	for _, auth := range []string{"    auth: true\n", "    auth: []\n", "    auth: {}\n", "    auth: {issuers: {}}\n", "    auth: {issuers: [null]}\n"} {
		config, err := parseConfig("c.yaml", t.TempDir(), []byte(echoConfig+auth))
		if err == nil {
			_, err = config.publish(nil)
		}
		if list, ok := errors.AsType[faultList](err); !ok || !strings.Contains(list.Error(), "apps[0].auth") {
			t.Errorf("%q: %v", auth, err)
		}
	}
}

// Before anything is served, check --config says whether hosts can sign in at the
// issuer.
func TestCheckAsksTheIssuers(t *testing.T) {
	net := fakenet.New()
	defer net.Close()
	issuer := signInServer(t, net, false)
	file := write(t, "c.yaml", authConfigText)
	code, out, errOut := runCheck(t, net.Below(), "--config", file)
	if code != exitOK || !strings.Contains(out, "issuer "+authIssuer) || !strings.Contains(out, "✓ takes a client id metadata document [OB-61]") {
		t.Errorf("exit %d\n%s%s", code, out, errOut)
	}
	issuer.Fault("/.well-known/oauth-authorization-server", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"issuer":"`+authIssuer+`/"}`)
	}))
	code, out, _ = runCheck(t, net.Below(), "--config", file)
	if code != exitFailed || !strings.Contains(out, "✗ the authorization server calls itself \""+authIssuer+"/\"") {
		t.Errorf("another issuer: exit %d\n%s", code, out)
	}
	code, out, _ = runCheck(t, net.Below(), "--offline", "--config", file)
	if code != exitOK || strings.Contains(out, "issuer "+authIssuer) {
		t.Errorf("offline: exit %d\n%s", code, out)
	}
	code, out, _ = runCheck(t, fakenet.New().Below(), "--config", file)
	if code != exitOK || !strings.Contains(out, "! its metadata cannot be read from here") {
		t.Errorf("out of reach: exit %d\n%s", code, out)
	}
}

// What protects nothing is said before anybody calls.
func TestAuthThatProtectsNothing(t *testing.T) {
	const issuer = "      issuers: [{url: \"https://signin.example.com\"}]\n"
	for text, want := range map[string]string{
		"    auth:\n":   "apps[0].auth: is empty",
		"    auth: ~\n": "apps[0].auth: is empty",
		"    auth:\n" + issuer + "      scopes: {basic: [a], methods: {resources/reed: [b]}}\n":          `"resources/reed" is no method of MCP`,
		"    auth:\n" + issuer + "      scopes: {basic: [a], methods: {Tools/List: [b]}}\n":              `"Tools/List" is no method of MCP`,
		"    auth:\n" + issuer + "      scopes: {basic: [a], tools: {echo: []}}\n":                       "scopes.tools.echo: name at least one scope",
		"    auth:\n" + issuer + "      scopes: {basic: [a], tools: {echo: }}\n":                         "scopes.tools.echo: name at least one scope",
		"    auth:\n      issuers: [{url: \"https://keycloak.internal\"}]\n      scopes: {basic: [a]}\n": "apps[0].auth.issuers[0].url: keycloak.internal is under .internal",
	} {
		code, out, errOut := runCheck(t, fakenet.New().Below(), "--offline", "--config", write(t, "c.yaml", echoConfig+text))
		if code != exitFailed || !strings.Contains(out+errOut, want) {
			t.Errorf("%s\nexit %d, want %q:\n%s%s", text, code, want, out, errOut)
		}
	}
	code, out, _ := runCheck(t, fakenet.New().Below(), "--offline", "--config", write(t, "c.yaml", echoConfig+"    auth:\n"+issuer+"      scopes: {basic: [a], methods: {acme/own: [b], resources/read: [c]}}\n"))
	if code != exitOK {
		t.Errorf("a method of an upstream's own is refused:\n%s", out)
	}
}

// A reload that opens an app says so.
func TestReloadThatOpensAnApp(t *testing.T) {
	const auth = "    auth: {issuers: [{url: \"https://signin.example.com\"}], scopes: {basic: [a]}}\n"
	file := write(t, "c.yaml", echoConfig+auth)
	log, stop := startIn(t, &Env{Below: fakenet.New().Below()}, "serve", "--config", file, "--listen", "127.0.0.1:0")
	log.wait(t, `msg=serving addr=(\S+)`)
	rewrite(t, file, echoConfig)
	if app := log.wait(t, `no longer protected\S* .*app=(\S+)`); app != "hello" {
		t.Errorf("app %q", app)
	}
	stop()
}
