package mcpgate

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const friend = "https://host.example.com"

// newGate serves one tool, 日程, and counts its runs.
func newGate(t *testing.T, opts *Options) (*Gate, *int) {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "com.example/calendar", Version: "1.0.0"}, nil)
	runs := new(int)
	tool := func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		*runs++
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, nil
	}
	mcp.AddTool(s, &mcp.Tool{Name: "plan", Description: "Plan a week."}, tool)
	s.AddResource(&mcp.Resource{URI: "note://%E6%97%A5", Name: "note"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		*runs++
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "note://%E6%97%A5", Text: "hi"}}}, nil
	})
	if opts == nil {
		opts = &Options{Origins: []string{friend}}
	}
	g, err := New(s, opts)
	if err != nil {
		t.Fatal(err)
	}
	return g, runs
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

func call(tool string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + tool + `","arguments":{},` + meta + `}}`
}

// send makes one request. header lines are "Name: value".
func send(t *testing.T, h http.Handler, method, body string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "https://apps.example.com/mcp", strings.NewReader(body))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

var modernCall = []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: plan"}

func rpcCode(t *testing.T, res *http.Response) int {
	t.Helper()
	var msg struct {
		Error struct {
			Code int
			Data struct{ Supported []string }
		}
	}
	body, _ := io.ReadAll(res.Body)
	if err := json.Unmarshal(body, &msg); err != nil {
		t.Fatalf("answer %d is not JSON: %s", res.StatusCode, body)
	}
	if msg.Error.Code == mcp.CodeUnsupportedProtocolVersion && len(msg.Error.Data.Supported) == 0 {
		t.Errorf("no supported versions in %s", body)
	}
	return msg.Error.Code
}

func TestModernCall(t *testing.T) {
	g, runs := newGate(t, nil)
	res := send(t, g, "POST", call("plan"), modernCall...)
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "application/json" || *runs != 1 {
		t.Fatalf("status %d, type %q, %d runs: %s", res.StatusCode, res.Header.Get("Content-Type"), *runs, body)
	}
	if !strings.Contains(string(body), `"resultType":"complete"`) {
		t.Errorf("no resultType in %s", body)
	}
	if id := res.Header.Get("Mcp-Session-Id"); id != "" {
		t.Errorf("a modern answer mints session %q", id)
	}
}

// FO-19: who may call from a browser, before anything else is looked at.
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

// FO-19: a name that DNS points at loopback does not make a caller local.
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

// FO-10: the preflight comes before any sign-in, and errors can be read too.
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

// FO-18 and the deviations S1 to S4 and S8 of the SDK: what is refused runs nothing.
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

// A legacy call that never said initialize runs nothing, whatever the SDK's
// stateless handler would do (S2).
func TestLegacyCallNeedsSession(t *testing.T) {
	g, runs := newGate(t, nil)
	defer g.Close()
	res := send(t, g, "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"plan","arguments":{}}}`)
	body, _ := io.ReadAll(res.Body)
	if *runs != 0 || !strings.Contains(string(body), "error") {
		t.Errorf("status %d, %d runs: %s", res.StatusCode, *runs, body)
	}
}

// A session id and an event id mean nothing to a modern request (P6, S8).
func TestModernIgnoresSessions(t *testing.T) {
	g, runs := newGate(t, nil)
	res := send(t, g, "POST", call("plan"), append(modernCall, "Mcp-Session-Id: abc", "Last-Event-ID: 3")...)
	if res.StatusCode != 200 || *runs != 1 {
		t.Errorf("status %d, %d runs", res.StatusCode, *runs)
	}
}

// S1: names outside ASCII travel in Base64.
func TestBase64Name(t *testing.T) {
	g, runs := newGate(t, nil)
	uri := "note://%E6%97%A5"
	body := `{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"` + uri + `",` + meta + `}}`
	res := send(t, g, "POST", body, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: resources/read",
		"Mcp-Name: =?base64?"+base64.StdEncoding.EncodeToString([]byte(uri))+"?=")
	if res.StatusCode != 200 || *runs != 1 {
		t.Errorf("status %d, %d runs", res.StatusCode, *runs)
	}
}

// S6: progress and log messages need a stream.
func TestStreamWhenProgressIsAsked(t *testing.T) {
	g, _ := newGate(t, nil)
	body := strings.Replace(call("plan"), `"_meta":{`, `"_meta":{"progressToken":1,`, 1)
	res := send(t, g, "POST", body, modernCall...)
	if ct := res.Header.Get("Content-Type"); ct != "text/event-stream" || res.Header.Get("X-Accel-Buffering") != "no" {
		t.Errorf("status %d, type %q, buffering %q", res.StatusCode, ct, res.Header.Get("X-Accel-Buffering"))
	}
}

func TestSessionsAreBounded(t *testing.T) {
	g, _ := newGate(t, &Options{MaxSessions: 2})
	defer g.Close()
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	for i := range 3 {
		want := 200
		if i == 2 {
			want = 503
		}
		if res := send(t, g, "POST", initialize); res.StatusCode != want {
			t.Errorf("session %d: status %d, want %d", i, res.StatusCode, want)
		}
	}
}

func TestNewRefusesOrigins(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "n/x", Version: "1"}, nil)
	for _, o := range []string{
		"null", "*", "host.example.com", "https://host.example.com/", "https://host.example.com:443", "https://HOST.example.com", "ftp://a.example", "https://u@a.example", "",
		"https://例え.example", "https://%E4%BE%8B.example", "http://ex ample.example", "https://a.example:", "https://a.example?", "https://a.example#",
	} {
		if _, err := New(s, &Options{Origins: []string{o}}); err == nil {
			t.Errorf("origin %q was accepted", o)
		}
	}
	if _, err := New(s, &Options{Origins: []string{"https://host.example.com", "http://localhost:3000"}}); err != nil {
		t.Error(err)
	}
	// The message gives what a browser sends, to be copied.
	for o, want := range map[string]string{
		"https://例え.example":      "write https://xn--r8jz45g.example",
		"https://例え.example:8443": "write https://xn--r8jz45g.example:8443",
	} {
		if _, err := New(s, &Options{Origins: []string{o}}); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("origin %q: %v", o, err)
		}
	}
	if _, err := New(s, &Options{Origins: []string{"https://xn--r8jz45g.example"}}); err != nil {
		t.Error(err)
	}
	if _, err := New(nil, nil); err == nil {
		t.Error("no server was accepted")
	}
}

// Both eras of the SDK's own client work through one gate (D30).
func TestRule_D30_BothErasOnOneURL(t *testing.T) {
	for _, version := range []string{"2026-07-28", "2025-11-25", "2025-06-18"} {
		t.Run(version, func(t *testing.T) {
			g, runs := newGate(t, nil)
			srv := httptest.NewServer(g)
			defer srv.Close()
			c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
			cs, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: srv.URL, HTTPClient: srv.Client(), MaxRetries: -1}, &mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			if got := cs.InitializeResult().ProtocolVersion; got != version {
				t.Errorf("speaks %s", got)
			}
			if _, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "plan", Arguments: map[string]any{}}); err != nil {
				t.Error(err)
			}
			if *runs != 1 {
				t.Errorf("%d runs", *runs)
			}
			if err := cs.Close(); err != nil {
				t.Error(err)
			}
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func FuzzPeek(f *testing.F) {
	for _, s := range []string{call("plan"), `[{}]`, `null`, `{"params":[]}`, `{"params":{"_meta":7}}`, `{"id":`, ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := peek(body)
		if err == nil && !json.Valid(bytes.TrimPrefix(body, []byte("\ufeff"))) {
			t.Errorf("%q is no JSON and was accepted as %+v", body, m)
		}
	})
}

// FO-01: a member in another case is another member.
func TestRule_FO01_ExactCase(t *testing.T) {
	g, runs := newGate(t, nil)
	body := strings.Replace(call("plan"), `"name":"plan"`, `"name":"plan","Name":"other"`, 1)
	if res := send(t, g, "POST", body, modernCall...); res.StatusCode != 200 || *runs != 1 {
		t.Errorf("status %d, %d runs", res.StatusCode, *runs)
	}
}

// FO-17: both types are wanted, in any order and form.
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

// FO-25, mcp P9: a client that goes away cancels its call.
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

// A tool may take longer than the server gives one request.
func TestSlowToolOutlivesTheWriteTime(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "com.example/slow", Version: "1.0.0"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "plan", Description: "Take long."}, func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		select {
		case <-time.After(300 * time.Millisecond):
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, nil
	})
	g, err := New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(g)
	srv.Config.ReadTimeout, srv.Config.WriteTimeout = 100*time.Millisecond, 100*time.Millisecond
	srv.Start()
	defer srv.Close()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	cs, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: srv.URL, HTTPClient: srv.Client(), MaxRetries: -1}, &mcp.ClientSessionOptions{ProtocolVersion: Modern})
	if err != nil {
		t.Fatal(err)
	}
	defer cs.Close()
	if res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "plan", Arguments: map[string]any{}}); err != nil || res.IsError {
		t.Errorf("%+v, %v", res, err)
	}
}
