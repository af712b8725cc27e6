package mcpgate

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type echoIn struct {
	Text  string `json:"text"`
	Count int    `json:"count"`
}

type echoOut struct {
	Text  string `json:"text"`
	Count int    `json:"count"`
}

func echoServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "com.example/echo", Version: "1.0.0"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "Give back what came."},
		func(_ context.Context, _ *mcp.CallToolRequest, in echoIn) (*mcp.CallToolResult, echoOut, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, echoOut(in), nil
		})
	s.AddTool(&mcp.Tool{Name: "raw", Description: "Give back what came.", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "ok"}}, StructuredContent: r.Params.Arguments}, nil
		})
	s.AddResource(&mcp.Resource{URI: "ui://echo/view.html", Name: "view", MIMEType: "text/html;profile=mcp-app"},
		func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "ui://echo/view.html", Text: page}}}, nil
		})
	return s
}

var page = strings.Repeat(`<p class="x">"Hello" & welcome</p>`+"\n", 2000)

const echoMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}}`

func echoCall(tool string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + tool + `","arguments":{"text":"hello world","count":3},` + echoMeta + `}}`
}

// bare decodes a JSON body into a map and answers with JSON: the floor that
// endpoints are compared with.
var bare = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	var m map[string]any
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": m["id"], "result": m["params"]})
})

func plainSDK(jsonResponse bool) http.Handler {
	s := echoServer()
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: jsonResponse, PropagateRequestCancellation: true})
}

func benchGate(b testing.TB, opts *Options) *Gate {
	g, err := New(echoServer(), opts)
	if err != nil {
		b.Fatal(err)
	}
	return g
}

func request1(method, name, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "https://apps.example.com/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("MCP-Protocol-Version", Modern)
	r.Header.Set("Mcp-Method", method)
	if name != "" {
		r.Header.Set("Mcp-Name", name)
	}
	return r
}

func bench(b *testing.B, h http.Handler, method, name, body string) {
	b.Helper()
	proto := request1(method, name, body)
	b.ReportAllocs()
	for b.Loop() {
		r := proto.Clone(context.Background())
		r.Body = io.NopCloser(strings.NewReader(body))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 200 || !bytes.Contains(w.Body.Bytes(), []byte(`"result"`)) {
			b.Fatalf("status %d: %s", w.Code, w.Body)
		}
	}
}

func BenchmarkToolsCallBare(b *testing.B) { bench(b, bare, "tools/call", "echo", echoCall("echo")) }
func BenchmarkToolsCallPlainSDK(b *testing.B) {
	bench(b, plainSDK(true), "tools/call", "echo", echoCall("echo"))
}

func BenchmarkToolsCallTyped(b *testing.B) {
	bench(b, benchGate(b, nil), "tools/call", "echo", echoCall("echo"))
}

func BenchmarkToolsCallRaw(b *testing.B) {
	bench(b, benchGate(b, nil), "tools/call", "raw", echoCall("raw"))
}

func BenchmarkToolsCallThroughSDK(b *testing.B) {
	bench(b, benchGate(b, &Options{sdkOnly: true}), "tools/call", "echo", echoCall("echo"))
}

func simple(method, members string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":{` + members + echoMeta + `}}`
}

func BenchmarkDiscover(b *testing.B) {
	bench(b, benchGate(b, nil), "server/discover", "", simple("server/discover", ""))
}

func BenchmarkToolsList(b *testing.B) {
	bench(b, benchGate(b, nil), "tools/list", "", simple("tools/list", ""))
}

func BenchmarkResourceRead(b *testing.B) {
	bench(b, benchGate(b, nil), "resources/read", "ui://echo/view.html", simple("resources/read", `"uri":"ui://echo/view.html",`))
}

func BenchmarkResourceReadPlainSDK(b *testing.B) {
	bench(b, plainSDK(true), "resources/read", "ui://echo/view.html", simple("resources/read", `"uri":"ui://echo/view.html",`))
}
