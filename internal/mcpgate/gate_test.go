package mcpgate

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if name := os.Getenv("MCPGATE_BENCH_SERVER"); name != "" {
		benchServer(name)
		return
	}
	goleak.VerifyTestMain(m)
}

var farFuture = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

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
// FO-19: a name that DNS points at loopback does not make a caller local.
// FO-10: the preflight comes before any sign-in, and errors can be read too.
// FO-18 and the deviations S1 to S4 and S8 of the SDK: what is refused runs nothing.
// A legacy call that never said initialize runs nothing, whatever the SDK's
// handlers would do (S2): it is told what is served, in an answer that a client
// cannot take for a good one.
func TestLegacyCallNeedsSession(t *testing.T) {
	g, runs := newGate(t, nil)
	defer g.Close()
	only, _ := newGate(t, &Options{ModernOnly: true})
	const bare = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"plan","arguments":{}}}`
	for _, tt := range []struct {
		name   string
		gate   *Gate
		body   string
		header []string
		code   int
		words  string
	}{
		{"no version", g, bare, nil, mcp.CodeHeaderMismatch, `"supported":["2026-07-28","2025-11-25"`},
		{"no version, in words", g, bare, nil, mcp.CodeHeaderMismatch, "or begin with initialize; served are 2026-07-28, 2025-11-25"},
		{"no version, one era", only, bare, nil, mcp.CodeHeaderMismatch, `"supported":["2026-07-28"]`},
		{"a notification", g, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil, mcp.CodeHeaderMismatch, "served are"},
		{"a response", g, `{"jsonrpc":"2.0","id":1,"result":{}}`, nil, mcp.CodeHeaderMismatch, "served are"},
		{"a batch", g, "[" + bare + "]", nil, mcp.CodeHeaderMismatch, "served are"},
		{"an old version", g, bare, []string{"MCP-Protocol-Version: 2025-11-25"}, jsonrpc.CodeInvalidRequest, "begins with initialize"},
	} {
		res := send(t, tt.gate, "POST", tt.body, tt.header...)
		body, _ := io.ReadAll(res.Body)
		var msg struct{ Error struct{ Code int } }
		if err := json.Unmarshal(body, &msg); err != nil {
			t.Errorf("%s: %v: %s", tt.name, err, body)
		}
		if res.StatusCode != http.StatusBadRequest || msg.Error.Code != tt.code || !strings.Contains(string(body), tt.words) {
			t.Errorf("%s: status %d: %s", tt.name, res.StatusCode, body)
		}
		if n := tt.gate.countSessions(); n != 0 {
			t.Errorf("%s: %d sessions are open", tt.name, n)
		}
	}
	if *runs != 0 {
		t.Errorf("%d runs", *runs)
	}
	// The first revision with sessions had no such header.
	opened := send(t, g, "POST", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	session := "Mcp-Session-Id: " + opened.Header.Get("Mcp-Session-Id")
	if res := send(t, g, "POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session); res.StatusCode != http.StatusAccepted {
		t.Errorf("initialized: status %d", res.StatusCode)
	}
	if res := send(t, g, "POST", bare, session); res.StatusCode != http.StatusOK || *runs != 1 {
		t.Errorf("a call of 2025-03-26: status %d, %d runs", res.StatusCode, *runs)
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

// FO-01: a member in another case is another member.
// FO-17: both types are wanted, in any order and form.
// FO-25, mcp P9: a client that goes away cancels its call.
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
