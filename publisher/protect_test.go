package publisher_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/internal/webtest"
	"github.com/openbot-build/openbot-go/oauth"
	"github.com/openbot-build/openbot-go/publisher"
)

// protectedServer has a tool that all users may call, and one that needs more.
func protectedServer(t *testing.T) *mcp.Server {
	t.Helper()
	s := newAppServer(t, nil)
	say := func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, struct{}, error) {
		if r.Extra.Header.Get("Authorization") != "" {
			return nil, struct{}{}, fmt.Errorf("the tool sees the token")
		}
		return publisher.Text(r.Params.Name + " for " + publisher.User(r)), struct{}{}, nil
	}
	for _, name := range []string{"who", "write"} {
		if err := publisher.AddTool(s, &mcp.Tool{Name: name, Description: "Say for whom."}, say); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// protectedApp is the first app of twoApps, protected.
func protectedApp(t *testing.T, in *issuer) *publisher.Config {
	t.Helper()
	cfg := twoApps()
	cfg.Apps[0].Server = protectedServer(t)
	cfg.Apps[0].Protection = in.protection()
	return cfg
}

// modernCall makes one request of revision 2026-07-28.
func modernCall(t *testing.T, h http.Handler, path, token, method, name string, header ...string) (*http.Response, string) {
	t.Helper()
	params := ""
	if name != "" {
		params = `"name":"` + name + `","arguments":{},`
		header = append(header, "Mcp-Name: "+name)
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	if token != "" {
		header = append(header, "Authorization: Bearer "+token)
	}
	for _, line := range append(header, "Content-Type: application/json", "Accept: application/json, text/event-stream", "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: "+method) {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	res := w.Result()
	out, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(out)
}

func want(t *testing.T, res *http.Response, body string, status int, text string) {
	t.Helper()
	if res.StatusCode != status || !strings.Contains(body, text) {
		t.Errorf("status %d, want %d; body %q, want %q in it", res.StatusCode, status, body, text)
	}
}

// OB-60: a call without a token leads to metadata that names issuer and scopes.
func TestRule_OB60_ProtectedAppLeadsToItsIssuer(t *testing.T) {
	p := mustNew(t, protectedApp(t, newIssuer(t)))
	res, _ := modernCall(t, p, "/mcp/calendar", "", "server/discover", "")
	c := oauth.ParseChallenge(res.Header)
	if res.StatusCode != http.StatusUnauthorized || c.ResourceMetadata != origin+metadataPath || c.Error != "" || !slices.Equal(c.Scope, []string{"read"}) {
		t.Errorf("status %d, challenge %+v", res.StatusCode, c)
	}
	res, body := ask(t, p, http.MethodGet, metadataPath)
	var m struct {
		Resource string   `json:"resource"`
		Name     string   `json:"resource_name"`
		Servers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported"`
	}
	if err := json.Unmarshal([]byte(body), &m); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v: %s", res.StatusCode, err, body)
	}
	if m.Resource != resource || m.Name != "Calendar" && m.Name == "" || !slices.Equal(m.Servers, []string{issuerURL}) || !slices.Equal(m.Scopes, []string{"read"}) {
		t.Errorf("metadata %+v", m)
	}
	// The other app is as open as before, and has no metadata.
	if res, body := modernCall(t, p, "/mcp/notes", "", "tools/list", ""); res.StatusCode != http.StatusOK {
		t.Errorf("the other app: status %d: %s", res.StatusCode, body)
	}
	if res, _ := ask(t, p, http.MethodGet, "/.well-known/oauth-protected-resource/mcp/notes"); res.StatusCode != http.StatusNotFound {
		t.Errorf("metadata of the other app: status %d", res.StatusCode)
	}
}

// OB-60: an app that needs sign-in is found by everybody: its documents need
// none, and its page says where its users sign in.
func TestRule_OB60_DocumentsStayPublic(t *testing.T) {
	p := mustNew(t, protectedApp(t, newIssuer(t)))
	for path := range documents {
		if res, _ := ask(t, p, http.MethodGet, path); res.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d", path, res.StatusCode)
		}
	}
	_, page := ask(t, p, http.MethodGet, "/apps/calendar")
	if !strings.Contains(page, "Needs sign-in at") || !strings.Contains(page, "signin.example.com") {
		t.Error("the page does not speak of the sign-in")
	}
	if _, page := ask(t, p, http.MethodGet, "/apps/notes"); strings.Contains(page, "需要登录") {
		t.Error("the page of an open app speaks of a sign-in")
	}
}

// oauth S2, FO-13: the resource is the card's remote, byte for byte, and the
// metadata of one resource is served for no other.
func TestRule_FO13_ResourceIsTheRemoteAsWritten(t *testing.T) {
	in := newIssuer(t)
	written := origin + ":443/mcp/calendar"
	cfg := protectedApp(t, in)
	cfg.Apps[0].Card.Remotes = []card.Remote{{Type: "streamable-http", URL: written, Versions: []string{card.ProtocolVersion}}}
	p := mustNew(t, cfg)
	if _, body := ask(t, p, http.MethodGet, metadataPath); !strings.Contains(body, `"`+written+`"`) {
		t.Errorf("metadata %s", body)
	}
	res, body := modernCall(t, p, "/mcp/calendar", in.token("ann", written, "read"), "tools/list", "")
	want(t, res, body, http.StatusOK, "who")
	res, body = modernCall(t, p, "/mcp/calendar", in.token("ann", resource, "read"), "tools/list", "")
	want(t, res, body, http.StatusUnauthorized, "")
	for _, path := range []string{"/.well-known/oauth-protected-resource", metadataPath + "/"} {
		if res, _ := ask(t, p, http.MethodGet, path); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: status %d", path, res.StatusCode)
		}
	}
	// Even a GET, which no host sends, shows the way.
	if res, _ := ask(t, p, http.MethodGet, "/mcp/calendar"); res.StatusCode != http.StatusUnauthorized || oauth.ParseChallenge(res.Header).ResourceMetadata == "" {
		t.Errorf("GET: status %d", res.StatusCode)
	}
}

// OB-62: only tokens for exactly this endpoint open it.
func TestRule_OB62_AudienceIsTheEndpoint(t *testing.T) {
	in := newIssuer(t)
	p := mustNew(t, protectedApp(t, in))
	for _, audience := range []string{origin, resource + "/", origin + "/mcp/notes", strings.ToUpper(resource), "", origin + "/mcp/calendar2"} {
		res, body := modernCall(t, p, "/mcp/calendar", in.token("ann", audience, "read"), "tools/list", "")
		want(t, res, body, http.StatusUnauthorized, "")
		if c := oauth.ParseChallenge(res.Header); c.Error != "invalid_token" {
			t.Errorf("audience %q: challenge %+v", audience, c)
		}
	}
	res, body := modernCall(t, p, "/mcp/calendar", in.token("ann", resource, "read"), "tools/list", "")
	want(t, res, body, http.StatusOK, "who")
}

// FO-15: at a new endpoint the tokens of the old one are worth nothing.
func TestRule_FO15_OldTokenAtTheNewEndpoint(t *testing.T) {
	in := newIssuer(t)
	cfg := protectedApp(t, in)
	cfg.Apps[0].MCPURL = "/mcp2"
	p := mustNew(t, cfg)
	res, body := modernCall(t, p, "/mcp2", in.token("ann", resource, "read"), "tools/list", "")
	want(t, res, body, http.StatusUnauthorized, "")
	res, body = modernCall(t, p, "/mcp2", in.token("ann", origin+"/mcp2", "read"), "tools/list", "")
	want(t, res, body, http.StatusOK, "who")
}

// FO-14: the answer to too little scope names all that the operation needs, so
// that one more sign-in is enough.
func TestRule_FO14_TooLittleScopeNamesAll(t *testing.T) {
	in := newIssuer(t)
	p := mustNew(t, protectedApp(t, in))
	res, body := modernCall(t, p, "/mcp/calendar", in.token("ann", resource, "read"), "tools/call", "write")
	want(t, res, body, http.StatusForbidden, "")
	c := oauth.ParseChallenge(res.Header)
	if c.Error != "insufficient_scope" || !slices.Equal(c.Scope, []string{"admin", "read", "write"}) || c.ResourceMetadata != origin+metadataPath {
		t.Errorf("challenge %+v", c)
	}
	res, body = modernCall(t, p, "/mcp/calendar", in.token("ann", resource, c.Scope...), "tools/call", "write")
	want(t, res, body, http.StatusOK, "write for "+issuerURL+" ann")
}

// A tool knows its user, in both eras, and nobody may keep one user's answer
// for another.
func TestProtectedToolKnowsItsUser(t *testing.T) {
	in := newIssuer(t)
	p := mustNew(t, protectedApp(t, in))
	srv := httptest.NewServer(p)
	defer srv.Close()
	defer p.Close()
	for _, era := range eras {
		app := &testApp{t: t, srv: srv, version: era}
		for user, other := range map[string]string{"ann": "bob", "bob": "ann"} {
			cs := app.connect(in.token(user, resource, "read"), nil)
			if got := textOf(call(t, cs, "who", nil)); !strings.HasSuffix(got, " "+user) || strings.Contains(got, other) {
				t.Errorf("%s: %q for %s", era, got, user)
			}
			if _, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "write"}); err == nil {
				t.Errorf("%s: %s writes without the scope", era, user)
			}
		}
	}
	// Also where the server says something else.
	cfg := protectedApp(t, in)
	cfg.Apps[0].Protection.Scopes.Tools = nil
	cfg.Apps[0].Server = mcp.NewServer(&mcp.Implementation{Name: "com.example/calendar", Version: "1"}, &mcp.ServerOptions{
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "public" },
	})
	_, body := modernCall(t, mustNew(t, cfg), "/mcp/calendar", in.token("ann", resource, "read"), "server/discover", "")
	if !strings.Contains(body, `"cacheScope":"private"`) || strings.Contains(body, "public") {
		t.Errorf("not private: %s", body)
	}
}

// OB-63: who signed in may still be told no, by the app's own rules, and that is
// a result like others.
func TestRule_OB63_AppMayWantAPlan(t *testing.T) {
	in := newIssuer(t)
	cfg := protectedApp(t, in)
	if err := publisher.AddTool(cfg.Apps[0].Server, &mcp.Tool{Name: "report", Description: "Needs a plan."},
		func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, struct{}, error) {
			if !strings.HasSuffix(publisher.User(r), " ann") {
				return nil, struct{}{}, fmt.Errorf("reports belong to the plan Pro")
			}
			return publisher.Text("report"), struct{}{}, nil
		}); err != nil {
		t.Fatal(err)
	}
	p := mustNew(t, cfg)
	res, body := modernCall(t, p, "/mcp/calendar", in.token("ann", resource, "read"), "tools/call", "report")
	want(t, res, body, http.StatusOK, `"report"`)
	res, body = modernCall(t, p, "/mcp/calendar", in.token("bob", resource, "read"), "tools/call", "report")
	want(t, res, body, http.StatusOK, `"isError":true`)
	if len(res.Header["Www-Authenticate"]) > 0 {
		t.Error("a missing plan asks for a sign-in")
	}
}

// OB-65: keys are fetched through the address guard, and an issuer that cannot be
// asked signs nobody out.
func TestRule_OB65_KeysAreFetchedThroughTheGuard(t *testing.T) {
	in := newIssuer(t)
	token := in.token("ann", resource, "read")
	in.net.SetDNS("signin.example.com", fakenet.DNS{Addrs: []netip.Addr{netip.MustParseAddr("169.254.169.254")}})
	p := mustNew(t, protectedApp(t, in))
	res, body := modernCall(t, p, "/mcp/calendar", token, "tools/list", "")
	want(t, res, body, http.StatusServiceUnavailable, "")
	if len(res.Header["Www-Authenticate"]) > 0 {
		t.Error("an outage asks for a sign-in")
	}
	if got := in.net.Requests(); len(got) > 0 {
		t.Errorf("asked %v", got)
	}
}

// FO-10: the order is origin, preflight, sign-in; what a page may read it can
// read, refusals too.
func TestRule_FO10_PreflightBeforeSignIn(t *testing.T) {
	p := mustNew(t, protectedApp(t, newIssuer(t)))
	res, _ := ask(t, p, http.MethodOptions, "/mcp/calendar", "Origin: https://host.example.com", "Access-Control-Request-Method: POST",
		"Access-Control-Request-Headers: authorization,mcp-method,mcp-name,mcp-protocol-version")
	if res.StatusCode != http.StatusNoContent || !strings.Contains(res.Header.Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("preflight: status %d, %v", res.StatusCode, res.Header)
	}
	res, _ = modernCall(t, p, "/mcp/calendar", "", "server/discover", "", "Origin: https://host.example.com")
	if res.StatusCode != http.StatusUnauthorized || res.Header.Get("Access-Control-Allow-Origin") != "https://host.example.com" ||
		!strings.Contains(res.Header.Get("Access-Control-Expose-Headers"), "WWW-Authenticate") {
		t.Errorf("call: status %d, %v", res.StatusCode, res.Header)
	}
	for _, method := range []string{http.MethodOptions, http.MethodPost} {
		res, _ := ask(t, p, method, "/mcp/calendar", "Origin: https://evil.example.com")
		if res.StatusCode != http.StatusForbidden || res.Header.Get("WWW-Authenticate") != "" {
			t.Errorf("%s of a foreign page: status %d, %v", method, res.StatusCode, res.Header)
		}
	}
}

// The browser's half of the shared vectors, through a publisher.
func TestVectorsCORS(t *testing.T) {
	p := mustNew(t, protectedApp(t, newIssuer(t)))
	n := 0
	for _, file := range webtest.Vectors[struct {
		Vectors []struct {
			ID, Op string
			Input  json.RawMessage
			Want   json.RawMessage
		}
	}](t, "oauth-vectors.json") {
		for _, v := range file.Vectors {
			if v.Op != "scenario.cors" {
				continue
			}
			n++
			t.Run(v.ID, func(t *testing.T) {
				var in struct {
					Method, Path, Origin string
					Headers              string `json:"access_control_request_headers"`
				}
				var out struct {
					Status int
					Origin string   `json:"allow_origin"`
					Allow  []string `json:"allow_headers_include"`
				}
				if err := json.Unmarshal(v.Input, &in); err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(v.Want, &out); err != nil {
					t.Fatal(err)
				}
				from := "https://anybody.example.com"
				if in.Origin == "allowed" {
					from = "https://host.example.com"
				}
				res, _ := ask(t, p, in.Method, in.Path, "Origin: "+from, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: "+in.Headers)
				if res.StatusCode != out.Status || out.Origin != "" && res.Header.Get("Access-Control-Allow-Origin") != out.Origin {
					t.Errorf("status %d, %v", res.StatusCode, res.Header)
				}
				allowed := strings.Split(strings.ToLower(strings.ReplaceAll(res.Header.Get("Access-Control-Allow-Headers"), " ", "")), ",")
				for _, name := range out.Allow {
					if !slices.Contains(allowed, name) {
						t.Errorf("%s is not allowed: %q", name, allowed)
					}
				}
			})
		}
	}
	if n == 0 {
		t.Fatal("no case of scenario.cors")
	}
}

// FO-16: a token that its issuer has revoked ends within the time that an answer
// is kept, when the issuer is asked about each.
func TestRule_FO16_RevokedTokenEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newIssuer(t)
		var live atomic.Bool
		live.Store(true)
		in.net.Handle("signin.example.com", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			id, secret, _ := r.BasicAuth()
			if r.URL.Path != "/t/ask" || id != "app" || secret != "SENTINEL-42" {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"active":%v,"iss":"%s","aud":"%s","sub":"ann","scope":"read","exp":%d}`, live.Load(), issuerURL, resource, time.Now().Add(time.Hour).Unix())
		}))
		cfg := protectedApp(t, in)
		cfg.Apps[0].Protection.Issuers[0].Introspection = &oauth.Introspection{Endpoint: issuerURL + "/ask", ClientID: "app", ClientSecret: "SENTINEL-42"}
		p := mustNew(t, cfg)
		res, body := modernCall(t, p, "/mcp/calendar", "opaque-1", "tools/call", "who")
		want(t, res, body, http.StatusOK, "who for "+issuerURL+" ann")
		live.Store(false)
		time.Sleep(31 * time.Second)
		res, body = modernCall(t, p, "/mcp/calendar", "opaque-1", "tools/call", "who")
		want(t, res, body, http.StatusUnauthorized, "")
		_ = p.Close()
	})
}

// FO-39: no token gets into logs or answers, and none gets as far as a tool.
func TestRule_FO39_TokensStayOutOfLogs(t *testing.T) {
	in := newIssuer(t)
	var logged bytes.Buffer
	cfg := protectedApp(t, in)
	cfg.Log = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug - 8}))
	p := mustNew(t, cfg)
	good := in.token("ann", resource, "read")
	var said strings.Builder
	for _, token := range []string{good, good[:len(good)-4] + "AAAA", in.token("ann", origin, "read"), "SENTINEL-42", "SENTINEL-42.SENTINEL-42.SENTINEL-42"} {
		for _, name := range []string{"who", "write"} {
			res, body := modernCall(t, p, "/mcp/calendar", token, "tools/call", name)
			fmt.Fprint(&said, res.Header, body)
		}
		res, body := ask(t, p, http.MethodPost, "/mcp/calendar?access_token="+token)
		fmt.Fprint(&said, res.Header, body)
	}
	if !strings.Contains(said.String(), "who for "+issuerURL+" ann") {
		t.Error("the good token opened nothing")
	}
	signature := good[strings.LastIndexByte(good, '.')+1:]
	for _, secret := range []string{"SENTINEL-42", signature, good[:60]} {
		if strings.Contains(logged.String(), secret) {
			t.Errorf("a token is in the log:\n%s", logged.String())
		}
		if strings.Contains(said.String(), secret) {
			t.Error("a token is in an answer")
		}
	}
}

// A protected server has no second door: not the SDK's handler beside the
// publisher, and not by a new publisher that lets fewer in.
func TestProtectedServerHasOneDoor(t *testing.T) {
	in := newIssuer(t)
	cfg := protectedApp(t, in)
	old := mustNew(t, cfg)
	beside := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return cfg.Apps[0].Server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	res, body := modernCall(t, beside, "/", "", "tools/call", "who")
	if res.StatusCode == http.StatusOK && !strings.Contains(body, `"error"`) {
		t.Errorf("beside the publisher: status %d: %s", res.StatusCode, body)
	}
	token := in.token("ann", resource, "read")
	strict := *cfg
	strict.Apps = slices.Clone(cfg.Apps)
	strict.Apps[0].Protection = in.protection()
	strict.Apps[0].Protection.Scopes.Tools = map[string][]string{"who": {"more"}}
	next := mustNew(t, &strict)
	for range 2 { // each by its own rules, whichever came last
		res, body = modernCall(t, old, "/mcp/calendar", token, "tools/call", "who")
		want(t, res, body, http.StatusOK, "who for")
		res, body = modernCall(t, next, "/mcp/calendar", token, "tools/call", "who")
		want(t, res, body, http.StatusForbidden, "")
	}
	near, far := mcp.NewInMemoryTransports()
	if _, err := cfg.Apps[0].Server.Connect(t.Context(), far, nil); err != nil {
		t.Fatal(err)
	}
	if cs, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), near, nil); err == nil {
		_ = cs.Close()
		t.Error("a connection in memory is let in")
	}
}

// Whatever answers in place of the server is behind the same scopes.
func TestProtectionOfModern(t *testing.T) {
	in := newIssuer(t)
	cfg := protectedApp(t, in)
	var asked []string
	cfg.Apps[0].Modern = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("Mcp-Name")+r.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]}}`)
	})
	p := mustNew(t, cfg)
	token := in.token("ann", resource, "read")
	for name, status := range map[string]int{"who": http.StatusOK, "write": http.StatusForbidden} {
		res, body := modernCall(t, p, "/mcp/calendar", token, "tools/call", name)
		want(t, res, body, status, "")
	}
	res, body := modernCall(t, p, "/mcp/calendar", "", "tools/call", "who")
	want(t, res, body, http.StatusUnauthorized, "")
	if !slices.Equal(asked, []string{"who"}) {
		t.Errorf("asked %q", asked)
	}
}

// An app whose endpoint runs elsewhere on the origin gets its metadata served,
// among the files too; one on another origin only says it on its page.
func TestProtectionOfAnEndpointElsewhere(t *testing.T) {
	in := newIssuer(t)
	for endpoint, served := range map[string]bool{"/calls": true, "https://mcp.example.net/calls": false} {
		p := mustNew(t, &publisher.Config{Origin: origin, Apps: []publisher.App{{Slug: "calendar", Card: calendarCard(), MCPURL: endpoint, Protection: in.protection()}}})
		const path = "/.well-known/oauth-protected-resource/calls"
		if res, body := ask(t, p, http.MethodGet, path); (res.StatusCode == http.StatusOK) != served {
			t.Errorf("%s: status %d: %s", endpoint, res.StatusCode, body)
		}
		i := slices.IndexFunc(p.Files(), func(f publisher.File) bool { return f.Path == path })
		if (i >= 0) != served {
			t.Errorf("%s: file %d", endpoint, i)
		}
		if i >= 0 {
			if f := p.Files()[i]; f.Header.Get("Content-Type") != "application/json" || !bytes.Contains(f.Body, []byte(`"`+origin+endpoint+`"`)) {
				t.Errorf("file %+v", f)
			}
		}
		if _, page := ask(t, p, http.MethodGet, "/apps/calendar"); !strings.Contains(page, "Needs sign-in at") {
			t.Errorf("%s: the page does not say it", endpoint)
		}
	}
}

// Every fault of a Protection is told at the start, under its field, and leaves
// the server as it was.
func TestProtectionFaults(t *testing.T) {
	in := newIssuer(t)
	for _, tt := range []struct {
		name   string
		change func(*publisher.Config)
		want   []string
	}{
		{"issuers", func(c *publisher.Config) { c.Apps[0].Protection.Issuers = nil }, []string{"Apps[0].Protection.Issuers: "}},
		{"several", func(c *publisher.Config) {
			p := c.Apps[0].Protection
			p.Issuers[0].URL, p.Issuers[0].Algorithms, p.Scopes.Basic = "http://signin.example.com", []string{"none"}, []string{"offline_access"}
		}, []string{"Apps[0].Protection.Issuers[0].URL: ", "Apps[0].Protection.Issuers[0].Algorithms: ", "Apps[0].Protection.Scopes.Basic: "}},
		{"resource", func(c *publisher.Config) { c.Apps[0].Protection.Resource = resource + "/" }, []string{"Apps[0].Protection.Resource: \"" + resource + "/\" is not the endpoint of the card, \"" + resource + "\""}},
		{"unknown tool", func(c *publisher.Config) { c.Apps[0].Protection.Scopes.Tools["wirte"] = []string{"write"} }, []string{`Apps[0].Protection.Scopes.Tools: the server has no tool "wirte": its tools are who, write`}},
		{"taken path", func(c *publisher.Config) { c.Apps[1].PageURL = metadataPath }, []string{"Apps[1].PageURL: " + metadataPath + " is already used by Apps[0].Protection"}},
		{"shared server", func(c *publisher.Config) { c.Apps[1].Server = c.Apps[0].Server }, []string{"Apps[1].Server: is that of Apps[0], which needs sign-in"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := protectedApp(t, in)
			cfg.Apps[0].Protection.Scopes.Tools = maps.Clone(cfg.Apps[0].Protection.Scopes.Tools)
			tt.change(cfg)
			_, err := publisher.New(cfg)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no %q in:\n%v", want, err)
				}
			}
			if got := strings.Count(err.Error(), "\n") + 1; got != len(tt.want) {
				t.Errorf("%d faults:\n%v", got, err)
			}
			beside := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return cfg.Apps[0].Server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
			if res, body := modernCall(t, beside, "/", "", "tools/list", ""); strings.Contains(body, `"error"`) {
				t.Errorf("the server was changed: status %d: %s", res.StatusCode, body)
			}
		})
	}
}
