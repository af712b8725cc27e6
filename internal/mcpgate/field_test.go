package mcpgate

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestRule_FO19_OriginIsExact(t *testing.T) {
	g, runs := newGate(t, nil)
	refused := []string{
		"https://host.example.com.evil.example", "http://host.example.com", "null", "https://host.example.com:444",
		"https://HOST.example.com", "https://host.example.com/", "https://apps.example.com", "", "*",
	}
	for _, method := range []string{"POST", "OPTIONS", "GET", "DELETE", "PUT"} {
		for _, o := range refused {
			res := send(t, g, method, call("plan"), append(modernCall, "Origin: "+o)...)
			if res.StatusCode != http.StatusForbidden {
				t.Errorf("%s with Origin %q: status %d, want 403", method, o, res.StatusCode)
			}
			if res.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s with Origin %q may be read by the page", method, o)
			}
		}
	}
	if *runs != 0 {
		t.Errorf("a tool ran %d times", *runs)
	}
	if res := send(t, g, "POST", call("plan"), append(modernCall, "Origin: "+friend, "Origin: https://evil.example")...); res.StatusCode != 403 {
		t.Errorf("two Origin lines: status %d, want 403", res.StatusCode)
	}
	for _, extra := range [][]string{nil, {"Origin: " + friend}} {
		if res := send(t, g, "POST", call("plan"), append(modernCall, extra...)...); res.StatusCode != 200 {
			t.Errorf("%v: status %d, want 200", extra, res.StatusCode)
		}
	}
}

func TestRule_FO19_HostOnLoopback(t *testing.T) {
	g, _ := newGate(t, &Options{Hosts: []string{"apps.example.com"}})
	srv := httptest.NewServer(g)
	defer srv.Close()
	for host, want := range map[string]int{
		"": 200, "localhost:1234": 200, "[::1]:80": 200, "apps.example.com": 200, "APPS.example.com:8443": 200,
		"rebind.evil.example": 403, "apps.example.com.evil.example": 403, "192.168.1.2": 403,
	} {
		r, _ := http.NewRequestWithContext(t.Context(), "POST", srv.URL, strings.NewReader(call("plan")))
		r.Host = host
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "*/*")
		for _, line := range modernCall {
			name, value, _ := strings.Cut(line, ": ")
			r.Header.Set(name, value)
		}
		res, err := srv.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("Host %q: status %d, want %d", host, res.StatusCode, want)
		}
	}
}

func TestRule_FO10_Preflight(t *testing.T) {
	g, _ := newGate(t, nil)
	res := send(t, g, "OPTIONS", "", "Origin: "+friend, "Access-Control-Request-Method: POST",
		"Access-Control-Request-Headers: authorization,mcp-method,mcp-name,mcp-protocol-version,mcp-param-city,mcp-param-,x-other,mcp-param-a b")
	if res.StatusCode != 204 || res.Header.Get("Access-Control-Allow-Origin") != friend {
		t.Fatalf("status %d, headers %v", res.StatusCode, res.Header)
	}
	allowed := strings.Split(strings.ToLower(res.Header.Get("Access-Control-Allow-Headers")), ", ")
	want := "authorization content-type accept mcp-protocol-version mcp-method mcp-name mcp-session-id last-event-id mcp-param-city"
	if got := strings.Join(allowed, " "); got != want {
		t.Errorf("allowed headers\n got %s\nwant %s", got, want)
	}
	if got := res.Header.Get("Access-Control-Allow-Methods"); got != "POST, GET, DELETE" {
		t.Errorf("allowed methods %q", got)
	}

	for name, res := range map[string]*http.Response{
		"405":       send(t, g, "GET", "", "Origin: "+friend),
		"bad JSON":  send(t, g, "POST", "{", "Origin: "+friend),
		"bad type":  send(t, g, "POST", call("plan"), append(modernCall, "Origin: "+friend, "Content-Type: text/plain")...),
		"a success": send(t, g, "POST", call("plan"), append(modernCall, "Origin: "+friend)...),
	} {
		if res.Header.Get("Access-Control-Allow-Origin") != friend || !strings.Contains(res.Header.Get("Access-Control-Expose-Headers"), "WWW-Authenticate") {
			t.Errorf("%s cannot be read by the page: %v", name, res.Header)
		}
		if !strings.Contains(res.Header.Get("Vary"), "Origin") {
			t.Errorf("%s: no Vary: Origin", name)
		}
	}

	modern, _ := newGate(t, &Options{Origins: []string{friend}, ModernOnly: true})
	res = send(t, modern, "OPTIONS", "", "Origin: "+friend)
	if got := res.Header.Get("Access-Control-Allow-Methods"); got != "POST" {
		t.Errorf("modern only: allowed methods %q", got)
	}
	if strings.Contains(res.Header.Get("Access-Control-Allow-Headers"), "Session") {
		t.Error("modern only: sessions are allowed")
	}
}

func TestRule_FO18_RefusedMeansNotRun(t *testing.T) {
	both, modernOnly := &Options{}, &Options{ModernOnly: true}
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	old := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"plan","arguments":{}}}`
	tests := []struct {
		name   string
		opts   *Options
		method string
		body   string
		header []string
		status int
		code   int // 0: not looked at
	}{
		{"other tool in header", both, "POST", call("plan"), []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: other"}, 400, -32020},
		{"no tool in header", both, "POST", call("plan"), []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call"}, 400, -32020},
		{"no version in header", both, "POST", call("plan"), []string{"Mcp-Method: tools/call", "Mcp-Name: plan"}, 400, -32020},
		{"bad Base64", both, "POST", call("plan"), []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: =?base64?%%?="}, 400, -32020},
		{"old unknown version", both, "POST", call("plan"), []string{"MCP-Protocol-Version: 1900-01-01"}, 400, -32022},
		{"future version", both, "POST", call("plan"), []string{"MCP-Protocol-Version: 2099-01-01"}, 400, -32022},
		{"removed method", both, "POST", strings.Replace(call("plan"), "tools/call", "ping", 1), []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: ping"}, 404, -32601},
		{"initialize with modern header", both, "POST", strings.Replace(call("plan"), "tools/call", "initialize", 1), []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: initialize"}, 404, -32601},
		{"modern batch", both, "POST", "[" + call("plan") + "]", modernCall, 400, -32600},
		{"malformed", both, "POST", `{"jsonrpc":`, modernCall, 400, -32700},
		{"empty", both, "POST", ``, modernCall, 400, -32700},
		{"not UTF-8", both, "POST", "{\"a\":\"\xff\"}", modernCall, 400, -32700},
		{"a member twice", both, "POST", strings.Replace(call("plan"), `"name":"plan"`, `"name":"plan","name":"other"`, 1), modernCall, 400, -32600},
		{"a key twice", both, "POST", strings.Replace(call("plan"), `"_meta":{`, `"_meta":{"progressToken":1,"progressToken":1,`, 1), modernCall, 400, -32600},
		{"too large", &Options{MaxBody: 100}, "POST", call("plan"), modernCall, 413, -32600},
		{"GET", both, "GET", "", nil, 405, 0},
		{"DELETE", both, "DELETE", "", nil, 405, 0},
		{"PUT", both, "PUT", "", nil, 405, 0},
		{"HEAD", both, "HEAD", "", nil, 405, 0},
		{"GET with session, modern only", modernOnly, "GET", "", []string{"Mcp-Session-Id: x"}, 405, 0},
		{"unknown session", both, "GET", "", []string{"Mcp-Session-Id: x", "Accept: text/event-stream"}, 404, 0},
		{"initialize, modern only", modernOnly, "POST", initialize, nil, 400, -32022},
		{"old call, modern only", modernOnly, "POST", old, nil, 400, -32020},
		{"old call with old version, modern only", modernOnly, "POST", old, []string{"MCP-Protocol-Version: 2025-11-25"}, 400, -32022},
		{"old batch, modern only", modernOnly, "POST", "[" + old + "]", nil, 400, -32600},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, runs := newGate(t, tt.opts)
			defer g.Close()
			res := send(t, g, tt.method, tt.body, tt.header...)
			if res.StatusCode != tt.status {
				body, _ := io.ReadAll(res.Body)
				t.Fatalf("status %d, want %d: %s", res.StatusCode, tt.status, body)
			}
			if tt.code != 0 {
				if got := rpcCode(t, res); got != tt.code {
					t.Errorf("code %d, want %d", got, tt.code)
				}
			}
			if tt.status == 405 && res.Header.Get("Allow") == "" {
				t.Error("405 without Allow")
			}
			if *runs != 0 {
				t.Errorf("something ran %d times", *runs)
			}
		})
	}
}

func TestRule_FO01_ExactCase(t *testing.T) {
	g, runs := newGate(t, nil)
	body := strings.Replace(call("plan"), `"name":"plan"`, `"name":"plan","Name":"other"`, 1)
	if res := send(t, g, "POST", body, modernCall...); res.StatusCode != 200 || *runs != 1 {
		t.Errorf("status %d, %d runs", res.StatusCode, *runs)
	}
}

func TestRule_FO17_AcceptForms(t *testing.T) {
	g, _ := newGate(t, nil)
	for accept, want := range map[string]int{
		"text/event-stream;q=0.5, application/json": 200,
		"*/*": 200, "application/*, text/*": 200, "Application/JSON, TEXT/event-stream; charset=utf-8": 200,
		"application/json|text/event-stream": 200, // two lines
		"application/json":                   400, "text/html": 400,
	} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "https://apps.example.com/mcp", strings.NewReader(call("plan")))
		r.Header.Set("Content-Type", "application/json")
		for line := range strings.SplitSeq(accept, "|") {
			r.Header.Add("Accept", line)
		}
		for _, line := range modernCall {
			name, value, _ := strings.Cut(line, ": ")
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("Accept %s: status %d, want %d", accept, w.Code, want)
		}
	}
}

func TestRule_FO25_DisconnectCancels(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "com.example/slow", Version: "1.0.0"}, nil)
	began, ended := make(chan struct{}), make(chan error, 1)
	mcp.AddTool(s, &mcp.Tool{Name: "plan", Description: "Take long."}, func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		close(began)
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, nil, ctx.Err()
	})
	g, err := New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(g)
	defer srv.Close()
	ctx, cancel := context.WithCancel(t.Context())
	r, _ := http.NewRequestWithContext(ctx, "POST", srv.URL, strings.NewReader(call("plan")))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "*/*")
	for _, line := range modernCall {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if res, err := srv.Client().Do(r); err == nil {
			res.Body.Close()
		}
	}()
	<-began
	cancel()
	<-done
	if err := <-ended; err == nil {
		t.Error("the call was not cancelled")
	}
}

// FO-10: sign-in comes after Origin and preflight and before all else, and a page
// can read its refusal.
func TestRule_FO10_PreflightBeforeSignIn(t *testing.T) {
	runs := 0
	s := toolServer(func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		runs++
		if r.Extra.TokenInfo == nil || r.Extra.TokenInfo.UserID != "ada" {
			t.Errorf("the tool sees token %v", r.Extra.TokenInfo)
		}
		return done(ctx, r)
	})
	for name, opts := range map[string]*Options{"direct": {}, "through the SDK": {sdkOnly: true}} {
		opts.Origins, opts.Protect = []string{friend}, withToken
		g := gateOf(t, s, opts)
		res := send(t, g, "OPTIONS", "", "Origin: "+friend, "Access-Control-Request-Method: POST",
			"Access-Control-Request-Headers: authorization,mcp-method,mcp-name,mcp-protocol-version")
		if res.StatusCode != 204 || !strings.Contains(res.Header.Get("Access-Control-Allow-Headers"), "Authorization") {
			t.Errorf("%s: preflight: status %d, headers %v", name, res.StatusCode, res.Header)
		}
		for _, method := range []string{"POST", "GET", "DELETE"} {
			res := send(t, g, method, strings.Repeat("x", 2<<20), "Origin: "+friend)
			if res.StatusCode != 401 || res.Header.Get("Access-Control-Allow-Origin") != friend || res.Header.Get("Access-Control-Expose-Headers") == "" {
				t.Errorf("%s: %s without a token: status %d, headers %v", name, method, res.StatusCode, res.Header)
			}
		}
		if res := send(t, g, "POST", callOne(""), "Origin: https://evil.example", "Authorization: Bearer x"); res.StatusCode != 403 {
			t.Errorf("%s: a foreign origin with a token: status %d", name, res.StatusCode)
		}
		if e := exchangeWith(t, g, "tools/call", "one", callOne(""), "Origin: "+friend, "Authorization: Bearer x"); e.Status != 200 || runs != 1 {
			t.Errorf("%s: status %d, %d runs: %v", name, e.Status, runs, e.Body)
		}
		runs = 0
	}
}
