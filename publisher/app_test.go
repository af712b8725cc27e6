package publisher_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/publisher"
)

// eras are the revisions that one URL serves (D30).
var eras = []string{"2026-07-28", "2025-11-25"}

// eachEra publishes what add registers and runs the test in both eras.
func eachEra(t *testing.T, add func(*testing.T, *mcp.Server), test func(t *testing.T, app *testApp)) {
	t.Helper()
	for _, version := range eras {
		t.Run(version, func(t *testing.T) {
			app := newTestApp(t, add)
			app.version = version
			test(t, app)
		})
	}
}

// testApp is one app.
type testApp struct {
	t       *testing.T
	srv     *httptest.Server
	version string // of clients
}

func newAppServer(t *testing.T, opts *mcp.ServerOptions) *mcp.Server {
	t.Helper()
	c := calendarCard()
	s, err := publisher.NewServer(&c, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newTestApp(t *testing.T, add func(*testing.T, *mcp.Server)) *testApp {
	t.Helper()
	s := newAppServer(t, nil)
	add(t, s)
	return serveApp(t, s)
}

// serveApp publishes s. A bearer token names its user; none is anybody.
func serveApp(t *testing.T, s *mcp.Server) *testApp {
	t.Helper()
	cfg := twoApps()
	cfg.Apps[0].Server = s
	p := mustNew(t, cfg)
	signedIn := auth.RequireBearerToken(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
	}, nil)(p)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			signedIn.ServeHTTP(w, r)
			return
		}
		p.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		_ = p.Close()
		srv.Close()
	})
	return &testApp{t: t, srv: srv, version: eras[0]}
}

// bearer sends a user's token with each request.
type bearer struct {
	user string
	next http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.user != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.user)
	}
	return b.next.RoundTrip(r)
}

// connect is a client of the app's era, signed in as user unless that is "".
func (a *testApp) connect(user string, opts *mcp.ClientOptions) *mcp.ClientSession {
	a.t.Helper()
	if opts == nil {
		opts = &mcp.ClientOptions{}
	}
	if opts.Capabilities == nil {
		opts.Capabilities = &mcp.ClientCapabilities{}
	}
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts).Connect(a.t.Context(), &mcp.StreamableClientTransport{
		Endpoint:             a.srv.URL + "/mcp/calendar",
		HTTPClient:           &http.Client{Transport: bearer{user, a.srv.Client().Transport}},
		DisableStandaloneSSE: true, MaxRetries: -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: a.version})
	if err != nil {
		a.t.Fatal(err)
	}
	if got := cs.InitializeResult().ProtocolVersion; got != a.version {
		a.t.Fatalf("speaks %s", got)
	}
	a.t.Cleanup(func() { _ = cs.Close() })
	return cs
}

func call(t *testing.T, cs *mcp.ClientSession, name string, args any) *mcp.CallToolResult {
	t.Helper()
	res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("call %s: %v", name, err)
	}
	return res
}

// textOf joins the texts of a result.
func textOf(res *mcp.CallToolResult) string {
	var texts []string
	for _, c := range res.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	return strings.Join(texts, "\n--\n")
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// addTool registers a tool that must be right.
func addTool[In, Out any](t *testing.T, s *mcp.Server, name string, h mcp.ToolHandlerFor[In, Out]) {
	t.Helper()
	if err := publisher.AddTool(s, &mcp.Tool{Name: name, Description: "Test " + name + "."}, h); err != nil {
		t.Fatal(err)
	}
}

// wantCode asks for a protocol error.
func wantCode(t *testing.T, err error, code int64, text string) *jsonrpc.Error {
	t.Helper()
	var protocol *jsonrpc.Error
	if err == nil || !asError(err, &protocol) || protocol.Code != code || !strings.Contains(protocol.Message, text) {
		t.Errorf("error %v, want %d %q", err, code, text)
		return &jsonrpc.Error{}
	}
	return protocol
}

// What NewServer says of an app is what its card says (mcp P5, P17; MA-2): no
// deprecated logging, views, one name.
func TestNewServer(t *testing.T) {
	for _, version := range eras {
		s := newAppServer(t, &mcp.ServerOptions{Instructions: "Ask for a week.", Capabilities: &mcp.ServerCapabilities{
			Extensions: map[string]any{"com.example/x": map[string]any{}},
		}})
		addTool(t, s, "t", func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return nil, nil, nil
		})
		app := serveApp(t, s)
		app.version = version
		got := app.connect("", nil).InitializeResult()
		if got.ServerInfo.Name != "com.example/calendar" || got.ServerInfo.Title != "Example Calendar" || got.ServerInfo.Version != "1.0.0" {
			t.Errorf("server %+v", got.ServerInfo)
		}
		if strings.Contains(asJSON(t, got.Capabilities), `"logging"`) || got.Capabilities.Tools == nil || got.Instructions == "" {
			t.Errorf("capabilities %s", asJSON(t, got.Capabilities))
		}
		for _, name := range []string{"io.modelcontextprotocol/ui", "com.example/x"} {
			if _, ok := got.Capabilities.Extensions[name]; !ok {
				t.Errorf("%s: no extension %s", version, name)
			}
		}
		app = serveApp(t, newAppServer(t, nil))
		app.version = version
		if got, want := app.connect("", nil).InitializeResult().Instructions, calendarCard().Description; got != want || want == "" {
			t.Errorf("%s: instructions %q, the card says %q", version, got, want)
		}
	}
}

func TestRule_McpP17_NoLoggingUnlessAsked(t *testing.T) { TestNewServer(t) }

// What the SDK would panic on is an error.
func TestNewServerFaults(t *testing.T) {
	c := calendarCard()
	for want, opts := range map[string]*mcp.ServerOptions{
		"PageSize":           {PageSize: -1},
		"UnsubscribeHandler": {SubscribeHandler: func(context.Context, *mcp.SubscribeRequest) error { return nil }},
		"1999-01-01":         {SupportedProtocolVersions: []string{"1999-01-01"}},
	} {
		if _, err := publisher.NewServer(&c, opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := publisher.NewServer(nil, nil); err == nil {
		t.Error("no card, no error")
	}
}

// A panic is logged, answered, and costs nothing else.
func TestPanicsAreLogged(t *testing.T) {
	log, text := newTestLog()
	for _, version := range eras {
		s := newAppServer(t, &mcp.ServerOptions{Logger: log})
		addTool(t, s, "boom", func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			panic("of the tool")
		})
		app := serveApp(t, s)
		app.version = version
		cs := app.connect("", nil)
		_, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "boom"})
		wantCode(t, err, jsonrpc.CodeInternalError, "internal error")
		if _, err := cs.ListTools(t.Context(), nil); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	}
	if got := text(); strings.Count(got, "of the tool") < 2 || !strings.Contains(got, "app_test.go") {
		t.Errorf("log: %s", got)
	}
}

// mcp P14, S11: what may differ by user is private; the rest is as it was set.
func TestRule_McpP14_AnswersToATokenArePrivate(t *testing.T) {
	s := newAppServer(t, &mcp.ServerOptions{SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.TTLMs = 5000 }})
	if err := publisher.AddResource(s, &mcp.Resource{URI: "notes://today", Name: "today", Description: "Today."},
		func(context.Context, *mcp.ReadResourceRequest) (string, error) { return "nothing", nil }); err != nil {
		t.Fatal(err)
	}
	app := serveApp(t, s)
	for user, want := range map[string]string{"": "public", "ada": "private"} {
		cs := app.connect(user, nil)
		read, err := cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "notes://today"})
		if err != nil {
			t.Fatal(err)
		}
		list, err := cs.ListResources(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{read.CacheScope, list.CacheScope}
		if !slices.Equal(got, []string{want, want}) || read.TTLMs != 5000 || list.TTLMs != 5000 {
			t.Errorf("user %q: scopes %v, times %d and %d", user, got, read.TTLMs, list.TTLMs)
		}
	}
}

func TestRule_McpS11_CacheScopeIsAlwaysSet(t *testing.T) {
	TestRule_McpP14_AnswersToATokenArePrivate(t)
}

// post sends one modern request by hand. params are members of params, each
// with a comma after it; caps are the client's capabilities.
func (a *testApp) post(method, name, params, caps string) (status int, body string) {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), http.MethodPost, a.srv.URL+"/mcp/calendar", strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":`+caps+`}}}`))
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("MCP-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", method)
	if name != "" {
		r.Header.Set("Mcp-Name", name)
	}
	res, err := a.srv.Client().Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return res.StatusCode, string(data)
}

// OB-50: publishing, adding and looking run nothing; running needs a call.
func TestRule_OB50_OnlyACallRuns(t *testing.T) {
	runs := 0
	app := newTestApp(t, func(t *testing.T, s *mcp.Server) {
		addTool(t, s, "t", func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			runs++
			return publisher.Text("ran"), nil, nil
		})
		addResource(t, s, "notes://x", func(context.Context, *mcp.ReadResourceRequest) (string, error) { runs++; return "x", nil })
		if err := publisher.AddPrompt(s, &mcp.Prompt{Name: "p", Description: "P."}, func(context.Context, *mcp.GetPromptRequest, struct{}) (string, error) {
			runs++
			return "p", nil
		}); err != nil {
			t.Fatal(err)
		}
	})
	for _, path := range []string{"/.well-known/ai-catalog.json", "/apps/calendar", "/mcp/calendar/server-card"} {
		res, err := app.srv.Client().Get(app.srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
	for _, method := range []string{"server/discover", "tools/list", "resources/list", "prompts/list"} {
		if status, body := app.post(method, "", "", "{}"); status != http.StatusOK {
			t.Errorf("%s: %d %s", method, status, body)
		}
	}
	if runs != 0 {
		t.Errorf("looking ran something %d times", runs)
	}
	if status, body := app.post("tools/call", "t", `"name":"t",`, "{}"); status != http.StatusOK || runs != 1 {
		t.Errorf("%d runs: %d %s", runs, status, body)
	}
}
