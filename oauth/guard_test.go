package oauth

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/openbot-build/openbot-go/internal/fakenet"
)

func TestGuardFaults(t *testing.T) {
	_, err := NewGuard(&Protection{
		Resource:      "https://app.example.org/mcp#x",
		Documentation: "http://app.example.org/docs",
		Issuers: []Issuer{
			{URL: "http://as.example.org", Algorithms: []string{"HS256", "none"}, JWKS: "http://as.example.org/jwks"},
			{URL: "https://as.example.org?x", Algorithms: []string{}, Introspection: &Introspection{Endpoint: "file:///etc"}},
			{URL: guardIssuerURL},
			{URL: guardIssuerURL},
			{},
		},
		Scopes: Scopes{
			Basic: []string{"offline_access", "a b", ""}, Methods: map[string][]string{"": {"a"}},
			Tools: map[string][]string{"t": {`a"b`}}, Implies: map[string][]string{"ä": {"a"}},
		},
		Leeway: time.Hour, MaxBody: -1,
	})
	if err == nil {
		t.Fatal("no fault")
	}
	for _, field := range []string{
		"Resource: ", "Documentation: ", "Issuers[0].URL: ", "Issuers[0].Algorithms: algorithm \"HS256\"", "Issuers[0].Algorithms: algorithm \"none\"", "Issuers[0].JWKS: ",
		"Issuers[1].URL: ", "Issuers[1].Algorithms: ", "Issuers[1].Introspection.Endpoint: ", "Issuers[1].Introspection.ClientID: ", "Issuers[1].Introspection.ClientSecret: ",
		"Issuers[3].URL: ", "Issuers[4].URL: ", "Scopes.Basic: offline_access", `Scopes.Basic: "a b"`, `Scopes.Basic: ""`, "Scopes.Methods: ", "Scopes.Tools[t]: ", "Scopes.Implies: ",
		"Leeway: ", "MaxBody: ",
	} {
		if !strings.Contains("\n"+err.Error(), "\n"+field) {
			t.Errorf("no fault begins with %q in\n%v", field, err)
		}
	}
	if _, err := NewGuard(nil); err == nil {
		t.Error("no protection is enough")
	}
	for _, resource := range []string{"", "https://app.example.org/mcp?x", "https://user@app.example.org/", "HTTPS://app.example.org/", "https://app.example.org/ü", "https://app.example.org/a b", "mcp"} {
		if _, err := Protect(ok200, &Protection{Resource: resource, Issuers: []Issuer{{URL: guardIssuerURL}}, Scopes: Scopes{Basic: []string{"a"}}}); err == nil {
			t.Errorf("%q is a resource", resource)
		}
	}
}

// What a caller changes after NewGuard has no effect.
func TestGuardKeepsItsOwn(t *testing.T) {
	is := newGuardIssuer(t)
	var p *Protection
	g := is.guard(func(q *Protection) { p = q })
	p.Scopes.Basic[0], p.Scopes.Tools["list"], p.Issuers[0].URL = "x", []string{"x"}, "https://evil.example.org"
	delete(p.Scopes.Implies, "notes.write")
	h := g.Protect(ok200)
	expect(t, callTool(h, is.scoped("notes.write"), "list"), 200, "")
}

func TestIdentityReachesTools(t *testing.T) {
	is := newGuardIssuer(t)
	g := is.guard(nil)
	var got Identity
	var user string
	s := mcp.NewServer(&mcp.Implementation{Name: "n", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "who"}, func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		id, ok := IdentityFrom(r.Extra.TokenInfo)
		if !ok {
			t.Error("no identity")
		}
		if r.Extra.Header.Get("Authorization") != "" {
			t.Error("the tool sees the token")
		}
		got, user = id, r.Extra.TokenInfo.UserID
		return &mcp.CallToolResult{}, nil, nil
	})
	s.AddReceivingMiddleware(g.Middleware())
	server := httptest.NewServer(g.Protect(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)))
	defer server.Close()
	exp := time.Now().Unix() + 100
	token := is.token(map[string]any{"exp": exp, "scope": "notes.write other", "client_id": "https://host.example.org/client.json"})
	session := connect(t, server.URL, token)
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "who"}); err != nil {
		t.Fatal(err)
	}
	want := Identity{
		Issuer: guardIssuerURL, Subject: "alice", ClientID: "https://host.example.org/client.json",
		Scopes: []string{"notes.write", "other"}, Expires: time.Unix(exp, 0),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if user != guardIssuerURL+" alice" {
		t.Errorf("user %q", user)
	}
	if _, ok := IdentityFrom(nil); ok {
		t.Error("nobody has an identity")
	}
	if _, ok := IdentityFrom(&auth.TokenInfo{UserID: "x"}); ok {
		t.Error("a stranger's info has an identity")
	}
}

type withToken struct{ token string }

func (c withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+c.token)
	return http.DefaultTransport.RoundTrip(r)
}

func connect(t *testing.T, url, token string) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil)
	session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: withToken{token}}, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// The table is asked again inside, where a lying header changes nothing.
func TestMiddlewareChecksAgain(t *testing.T) {
	is := newGuardIssuer(t)
	g := is.guard(nil)
	ran := false
	s := mcp.NewServer(&mcp.Implementation{Name: "n", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "wipe"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		ran = true
		return &mcp.CallToolResult{}, nil, nil
	})
	s.AddReceivingMiddleware(g.Middleware())
	streamable := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true})
	// A gate that looks at basic scopes only, as one without a table would.
	edge := is.guard(func(p *Protection) { p.Scopes.Methods, p.Scopes.Tools = nil, nil })
	server := httptest.NewServer(edge.Protect(streamable))
	defer server.Close()
	session := connect(t, server.URL, is.scoped("notes.read"))
	_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "wipe"})
	var rpc *jsonrpc.Error
	if !errors.As(err, &rpc) || !strings.Contains(rpc.Message, "notes.admin notes.read notes.write") || !strings.Contains(string(rpc.Data), "insufficient_scope") {
		t.Errorf("error %v", err)
	}
	if ran {
		t.Error("it ran")
	}
	if _, err := connect(t, server.URL, is.scoped("notes.admin")).CallTool(t.Context(), &mcp.CallToolParams{Name: "wipe"}); err != nil || !ran {
		t.Errorf("with the scopes: %v", err)
	}
	// Nobody is let in, in memory neither.
	near, far := mcp.NewInMemoryTransports()
	if ss, err := s.Connect(t.Context(), far, nil); err != nil {
		t.Fatal(err)
	} else {
		defer ss.Close()
	}
	if _, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(t.Context(), near, nil); err == nil {
		t.Error("a call without an identity is let in")
	}
}

func TestCheck(t *testing.T) {
	g := newGuardIssuer(t).guard(nil)
	info := &auth.TokenInfo{Scopes: []string{"notes.read", "files.read"}}
	for _, c := range []struct {
		info         *auth.TokenInfo
		method, name string
		need         []string // nil is allowed
	}{
		{info, "tools/list", "", nil},
		{info, "tools/call", "list", nil},
		{info, "tools/call", "write", []string{"notes.read", "notes.write"}},
		{info, "prompts/get", "write", nil},
		{info, "resources/read", "", nil},
		{&auth.TokenInfo{Scopes: []string{"notes.read"}}, "resources/read", "", []string{"files.read", "notes.read"}},
		{&auth.TokenInfo{}, "ping", "", []string{"notes.read"}},
		{nil, "ping", "", []string{"notes.read"}},
	} {
		err := g.Check(c.info, c.method, c.name)
		var need *ScopeError
		if c.need == nil {
			if err != nil {
				t.Errorf("%s %s: %v", c.method, c.name, err)
			}
		} else if !errors.As(err, &need) || !slices.Equal(need.Need, c.need) || !strings.Contains(err.Error(), strings.Join(c.need, " ")) {
			t.Errorf("%s %s: %v, want %q", c.method, c.name, err, c.need)
		}
	}
}

// Clients of older revisions say in the body alone what they want.
func TestOperationOfOldRevisions(t *testing.T) {
	is := newGuardIssuer(t)
	var served string
	h := is.guard(func(p *Protection) { p.MaxBody = 1000 }).Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		served = string(body)
	}))
	const (
		write = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write"}}`
		list  = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
		read  = `{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"x"}}`
	)
	token := "Authorization: Bearer " + is.scoped("notes.read")
	modernHeaders := []string{token, "MCP-Protocol-Version: 2026-07-28"}
	for name, c := range map[string]struct {
		body    string
		headers []string
		need    string // "" is served
	}{
		"call":                      {write, nil, "notes.read notes.write"},
		"list":                      {list, nil, ""},
		"batch":                     {"[" + list + "," + write + "]", nil, "notes.read notes.write"},
		"batch of two":              {"[" + read + "," + list + "," + write + "]", nil, "files.read notes.read notes.write"},
		"batch without":             {"[" + list + "," + list + "]", nil, ""},
		"method twice":              {`{"method":"tools/list","method":"tools/call","params":{"name":"write"}}`, nil, "notes.read notes.write"},
		"name twice":                {`{"method":"tools/call","params":{"name":"list","name":"write"}}`, nil, "notes.read notes.write"},
		"params twice":              {`{"method":"tools/call","params":{"name":"write"},"params":{"name":"list"}}`, nil, "notes.read notes.write"},
		"another case":              {`{"Method":"tools/call","Params":{"Name":"write"}}`, nil, "notes.read notes.write"},
		"escaped":                   {`{"m\u0065thod":"tools/c\u0061ll","params":{"name":"writ\u0065"}}`, nil, "notes.read notes.write"},
		"name in arguments":         {`{"method":"tools/call","params":{"name":"list","arguments":{"name":"write"}}}`, nil, ""},
		"a response":                {`{"jsonrpc":"2.0","id":1,"result":{}}`, nil, ""},
		"empty":                     {``, nil, ""},
		"old version, headers":      {write, []string{"MCP-Protocol-Version: 2025-11-25", "Mcp-Method: tools/list"}, "notes.read notes.write"},
		"no version, headers":       {write, []string{"Mcp-Method: tools/list"}, "notes.read notes.write"},
		"new version, no method":    {write, modernHeaders[1:], "notes.read notes.write"},
		"new version, no name":      {write, append(modernHeaders[1:2:2], "Mcp-Method: tools/call"), "notes.read notes.write"},
		"method twice in headers":   {write, append(modernHeaders[1:2:2], "Mcp-Method: tools/list", "Mcp-Method: tools/list"), "notes.read notes.write"},
		"name that is no Base64":    {write, append(modernHeaders[1:2:2], "Mcp-Method: tools/call", "Mcp-Name: =?base64?x?="), "notes.read notes.write"},
		"version of tomorrow":       {write, []string{"MCP-Protocol-Version: 2027-01-01", "Mcp-Method: tools/list"}, "notes.read notes.write"},
		"new version, both headers": {write, append(modernHeaders[1:2:2], "Mcp-Method: tools/call", "Mcp-Name: write"), "notes.read notes.write"},
		"name as Base64": {
			write, append(modernHeaders[1:2:2], "Mcp-Method: tools/call", "Mcp-Name: =?base64?"+base64.StdEncoding.EncodeToString([]byte("write"))+"?="), "notes.read notes.write",
		},
	} {
		t.Run(name, func(t *testing.T) {
			served = "nothing"
			w := send(h, "POST", guardResource, c.body, append(c.headers, token)...)
			if c.need != "" {
				expect(t, w, 403, "insufficient_scope", strings.Fields(c.need)...)
				return
			}
			expect(t, w, 200, "")
			if served != c.body {
				t.Errorf("the body is %q behind the guard", served)
			}
		})
	}
	expect(t, send(h, "POST", guardResource, strings.Repeat(" ", 1001), token), 413, "")
	r := httptest.NewRequest("POST", guardResource, io.MultiReader(strings.NewReader(strings.Repeat(" ", 1001)))) // of no known length
	r.Header.Set("Authorization", strings.TrimPrefix(token, "Authorization: "))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	expect(t, w, 413, "")
	expect(t, send(h, "GET", guardResource, "", token), 200, "")
}

// An issuer that is asked in vain is a 503, and one that redirects its keys
// inside is not followed there.
func TestGuardReachesThePublicNetworkOnly(t *testing.T) {
	is := newGuardIssuer(t)
	is.net.SetDNS("inside.example.org", fakenet.DNS{Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}})
	g := is.guard(func(p *Protection) { p.Issuers[0].JWKS = "https://inside.example.org/keys" })
	expect(t, callTool(g.Protect(ok200), is.token(nil), "list"), 503, "")
	is.net.Set("https://as.example.org/.well-known/oauth-authorization-server/tenant", fakenet.Answer{Body: `{"issuer":"https://evil.example.org"}`})
	expect(t, callTool(is.guard(nil).Protect(ok200), is.token(nil), "list"), 503, "")
}

// What is never contacted is a fault at once: every token would wait for it.
func TestGuardIssuersThatAreNeverAsked(t *testing.T) {
	for address, want := range map[string]string{
		"https://localhost": "is under .localhost", "https://keycloak.internal": "is under .internal", "https://keycloak": "is a single word",
		"https://as.example.org:8443": "port 8443", "https://10.0.0.1": "",
	} {
		for _, p := range []*Protection{
			{Issuers: []Issuer{{URL: address}}},
			{Issuers: []Issuer{{URL: "https://as.example.org", JWKS: address + "/keys"}}},
			{Issuers: []Issuer{{URL: "https://as.example.org", Introspection: &Introspection{Endpoint: address + "/ask", ClientID: "a", ClientSecret: "b"}}}},
		} {
			p.Resource, p.Scopes.Basic = "https://app.example.com/mcp", []string{"a"}
			if _, err := NewGuard(p); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", address, err)
			}
		}
	}
}

func TestGuardLeavesNoGoroutines(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Run("use", func(t *testing.T) {
		is := newGuardIssuer(t)
		h := is.guard(nil).Protect(ok200)
		for range 10 {
			expect(t, callTool(h, is.token(nil), "list"), 200, "")
			expect(t, callTool(h, is.token(nil)+"x", "list"), 401, "invalid_token", "notes.read")
		}
	})
	goleak.VerifyNone(t, before)
}

// A kept token costs few allocations (oauth section 10).
func TestGuardAllocations(t *testing.T) {
	is := newGuardIssuer(t)
	h := is.guard(nil).Protect(ok200)
	r := httptest.NewRequest("POST", guardResource, nil)
	r.Header = http.Header{
		"Authorization": {"Bearer " + is.token(nil)}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"list"}, "User-Agent": {"x"}, "Accept-Encoding": {"gzip"}, "Content-Length": {"100"},
	}
	w := httptest.NewRecorder()
	count := func(h http.Handler) float64 { return testing.AllocsPerRun(100, func() { h.ServeHTTP(w, r) }) }
	if more := count(h) - count(ok200); math.Round(more) > 8 {
		t.Errorf("%v more allocations", more)
	} else {
		t.Logf("%v more allocations", more)
	}
}

func TestSecretIsNeverPrinted(t *testing.T) {
	p := &Protection{Issuers: []Issuer{{Introspection: &Introspection{ClientSecret: "canary"}}}}
	if _, err := NewGuard(p); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("error %v", err)
	}
}

func FuzzBearer(f *testing.F) {
	for _, s := range []string{"", "Bearer", "Bearer x", "bearer  x==", "Bearer\tx", "Bearer a, Bearer b", "Basic x", "BearerX y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		token, isBearer, ok := bearer(header)
		if ok && (!isBearer || token == "" || !strings.HasSuffix(strings.TrimRight(header, " \t"), token)) {
			t.Fatalf("%q: %q %t", header, token, isBearer)
		}
		if ok && len(token) <= 8<<10 && strings.ContainsAny(token, " \t\r\n,\"") {
			t.Fatalf("%q is a token", token)
		}
	})
}

func FuzzOperation(f *testing.F) {
	f.Add([]byte(`{"method":"tools/call","params":{"name":"write"}}`))
	f.Add([]byte(`[{"method":"resources/read"},1]`))
	table := newScopeTable(&Scopes{Basic: []string{"b"}, Methods: map[string][]string{"resources/read": {"r"}}, Tools: map[string][]string{"write": {"w"}}})
	table.refusal = func(n *need) { n.refusal = &refusal{} }
	table.basic.refusal = &refusal{}
	f.Fuzz(func(t *testing.T, body []byte) {
		n, no := table.inBody(body)
		if (n == nil) == (no == nil) || n != nil && (!slices.Contains(n.scopes, "b") || n.refusal == nil) {
			t.Fatalf("%+v, %+v", n, no)
		}
		// What the SDK runs was looked at.
		if msg, err := jsonrpc.DecodeMessage(body); err == nil && n != nil {
			r, isRequest := msg.(*jsonrpc.Request)
			if isRequest && r.Method == "resources/read" && !slices.Contains(n.scopes, "r") {
				t.Fatalf("%q needs %q", body, n.scopes)
			}
		}
	})
}
