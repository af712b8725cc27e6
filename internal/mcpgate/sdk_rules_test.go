package mcpgate

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The tests of this file stand for the deviations of the SDK that the gate makes
// good. Each asks the plain SDK too: when an upgrade has mended it, the log says
// so and our part may go.

// mended logs that the SDK does right by itself.
func mended(t *testing.T, deviates bool) {
	t.Helper()
	if !deviates {
		t.Log("the SDK does this by itself now: our part may go")
	}
}

// sdk is the handler of the SDK without the gate.
func sdk(s *mcp.Server, opts mcp.StreamableHTTPOptions) http.Handler {
	opts.Stateless = true
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &opts)
}

func gateOf(t *testing.T, s *mcp.Server, opts *Options) *Gate {
	t.Helper()
	g, err := New(s, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

func rawTool(s *mcp.Server, name string, h mcp.ToolHandler) {
	s.AddTool(&mcp.Tool{Name: name, Description: "A tool.", InputSchema: json.RawMessage(`{"type":"object"}`)}, h)
}

func toolServer(h mcp.ToolHandler) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "com.example/one", Version: "1.0.0"}, nil)
	rawTool(s, "one", h)
	return s
}

func done(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
}

func callOne(members string) string {
	return simple("tools/call", `"name":"one","arguments":{},`+members)
}

// withMeta adds members to the _meta of a message.
func withMeta(body, members string) string {
	return strings.Replace(body, `"_meta":{`, `"_meta":{`+members, 1)
}

func code(e exchange) float64 {
	for _, message := range e.Body {
		if m, _ := message.(map[string]any); m["error"] != nil {
			code, _ := m["error"].(map[string]any)["code"].(float64)
			return code
		}
	}
	return 0
}

func result(e exchange) map[string]any {
	if len(e.Body) == 0 {
		return nil
	}
	m, _ := e.Body[len(e.Body)-1].(map[string]any)
	r, _ := m["result"].(map[string]any)
	return r
}

func isJSON(e exchange) bool {
	_, ok := e.Body[0].(map[string]any)
	return ok && strings.HasPrefix(e.Header.Get("Content-Type"), "application/json")
}

func TestRule_McpS1_Base64Name(t *testing.T) {
	s := toolServer(done)
	body := callOne("")
	name := "Mcp-Name: =?base64?" + base64.StdEncoding.EncodeToString([]byte("one")) + "?="
	if e := exchangeWith(t, gateOf(t, s, nil), "tools/call", "", body, name); e.Status != 200 {
		t.Errorf("status %d: %v", e.Status, e.Body)
	}
	if e := exchangeWith(t, gateOf(t, s, nil), "tools/call", "", body, "Mcp-Name: =?base64?b25=?="); code(e) != -32020 {
		t.Errorf("bad Base64: %v", e.Body)
	}
	mended(t, exchangeWith(t, sdk(s, mcp.StreamableHTTPOptions{}), "tools/call", "", body, name).Status != 200)
}

func TestRule_McpS2_NoVersionRunsNothing(t *testing.T) {
	runs := 0
	s := mcp.NewServer(&mcp.Implementation{Name: "n", Version: "1"}, &mcp.ServerOptions{SupportedProtocolVersions: []string{Modern}})
	rawTool(s, "one", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		runs++
		return done(ctx, r)
	})
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one","arguments":{}}}`
	if e := exchangeWith(t, gateOf(t, s, nil), "tools/call", "one", body, "MCP-Protocol-Version: -"); e.Status != 400 || code(e) != -32020 || runs != 0 {
		t.Errorf("status %d, %d runs: %v", e.Status, runs, e.Body)
	}
	exchangeWith(t, sdk(s, mcp.StreamableHTTPOptions{}), "tools/call", "one", body, "MCP-Protocol-Version: -")
	mended(t, runs != 0)
}

func TestRule_McpS3_InitializeOfModernOnly(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "n", Version: "1"}, &mcp.ServerOptions{SupportedProtocolVersions: []string{Modern}})
	body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	for name, g := range map[string]*Gate{"server": gateOf(t, s, nil), "option": gateOf(t, toolServer(done), &Options{ModernOnly: true})} {
		e := exchangeWith(t, g, "initialize", "", body, "MCP-Protocol-Version: -", "Mcp-Method: -")
		if e.Status != 400 || code(e) != -32022 {
			t.Errorf("modern only by %s: status %d: %v", name, e.Status, e.Body)
		}
	}
	mended(t, exchangeWith(t, sdk(s, mcp.StreamableHTTPOptions{}), "initialize", "", body, "MCP-Protocol-Version: -").Status == 200)
}

func TestRule_McpS4_UnknownOldVersion(t *testing.T) {
	s := toolServer(done)
	e := exchangeWith(t, gateOf(t, s, nil), "tools/call", "one", callOne(""), "MCP-Protocol-Version: 1900-01-01")
	if e.Status != 400 || code(e) != -32022 || !strings.Contains(fmt.Sprint(e.Body), "supported:[2026-07-28 2025-11-25") {
		t.Errorf("status %d: %v", e.Status, e.Body)
	}
	mended(t, !isJSON(exchangeWith(t, sdk(s, mcp.StreamableHTTPOptions{}), "tools/call", "one", callOne(""), "MCP-Protocol-Version: 1900-01-01")))
}

func TestRule_McpS5_LateErrorIsFramed(t *testing.T) {
	s := toolServer(func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: "p", Progress: 1})
		return nil, &jsonrpc.Error{Code: -32602, Message: "no such day"}
	})
	body := withMeta(callOne(""), `"progressToken":"p",`)
	for name, opts := range map[string]*Options{"direct": {}, "through the SDK": {sdkOnly: true}} {
		e := exchangeWith(t, gateOf(t, s, opts), "tools/call", "one", body)
		if e.Status != 200 || len(e.Body) != 2 || code(e) != -32602 || e.Body[1].(map[string]any)["id"] != 7.0 {
			t.Errorf("%s: status %d: %v", name, e.Status, e.Body)
		}
	}
	mended(t, len(exchangeWith(t, sdk(s, mcp.StreamableHTTPOptions{}), "tools/call", "one", body).Body) != 2)
}

func TestRule_McpS6_ProgressAndLogNeedAStream(t *testing.T) {
	s := toolServer(func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if token := r.Params.GetProgressToken(); token != nil {
			_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1})
		}
		_ = r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "error", Data: "bad"})
		return done(ctx, r)
	})
	for meta, want := range map[string]int{
		``: 1, `"progressToken":1,`: 2, `"progressToken":null,`: 1, `"io.modelcontextprotocol/logLevel":"debug",`: 2,
		`"io.modelcontextprotocol/logLevel":"critical",`: 1, `"progressToken":"a","io.modelcontextprotocol/logLevel":"error",`: 3,
	} {
		e := exchangeWith(t, gateOf(t, s, nil), "tools/call", "one", withMeta(callOne(""), meta))
		if len(e.Body) != want || result(e)["resultType"] != "complete" {
			t.Errorf("%s: %d messages: %v", meta, len(e.Body), e.Body)
		}
	}
	e := exchangeWith(t, sdk(s, mcp.StreamableHTTPOptions{JSONResponse: true}), "tools/call", "one", withMeta(callOne(""), `"progressToken":1,`))
	mended(t, len(e.Body) != 2)
}

func TestRule_McpS7_BrowserAndProxyHeaders(t *testing.T) {
	s := toolServer(done)
	g := gateOf(t, s, &Options{Origins: []string{friend}})
	body := withMeta(callOne(""), `"progressToken":1,`)
	if e := exchangeWith(t, g, "tools/call", "one", body, "Origin: https://evil.example"); e.Status != 403 {
		t.Errorf("foreign origin: status %d", e.Status)
	}
	e := exchangeWith(t, g, "tools/call", "one", body, "Origin: "+friend)
	if e.Header.Get("Access-Control-Allow-Origin") != friend || e.Header.Get("X-Accel-Buffering") != "no" {
		t.Errorf("headers %v", e.Header)
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, request1("tools/call", "one", body))
	if !strings.HasPrefix(w.Body.String(), ":") {
		t.Errorf("the stream does not begin with a comment: %q", w.Body)
	}
	e = exchangeWith(t, sdk(s, mcp.StreamableHTTPOptions{}), "tools/call", "one", body, "Origin: https://evil.example")
	mended(t, e.Status == 200 || e.Header.Get("X-Accel-Buffering") == "")
}

func TestRule_McpS8_ErrorsAreJSON(t *testing.T) {
	s := toolServer(done)
	g, plain := gateOf(t, s, nil), sdk(s, mcp.StreamableHTTPOptions{})
	if e := exchangeWith(t, g, "tools/call", "one", callOne(""), "Last-Event-ID: 3", "Mcp-Session-Id: x"); e.Status != 200 {
		t.Errorf("Last-Event-ID: status %d: %v", e.Status, e.Body)
	}
	deviates := exchangeWith(t, plain, "tools/call", "one", callOne(""), "Last-Event-ID: 3").Status != 200
	for name, c := range map[string]struct {
		body string
		code float64
	}{
		"malformed":      {`{"jsonrpc":`, -32700},
		"byte order":     {"\ufeff" + callOne(""), -32700},
		"null id":        {strings.Replace(callOne(""), `"id":7`, `"id":null`, 1), -32600},
		"object id":      {strings.Replace(callOne(""), `"id":7`, `"id":{}`, 1), -32600},
		"fraction id":    {strings.Replace(callOne(""), `"id":7`, `"id":1.5`, 1), -32600},
		"no id":          {strings.Replace(callOne(""), `"id":7,`, ``, 1), -32600},
		"a text":         {`"hello"`, -32600},
		"null":           {`null`, -32600},
		"number method":  {strings.Replace(callOne(""), `"tools/call"`, `5`, 1), -32600},
		"other JSON-RPC": {strings.Replace(callOne(""), `"2.0"`, `"1.0"`, 1), -32600},
		"log level":      {withMeta(callOne(""), `"io.modelcontextprotocol/logLevel":"loud",`), -32602},
		"log level type": {withMeta(callOne(""), `"io.modelcontextprotocol/logLevel":5,`), -32602},
		"a response":     {`{"jsonrpc":"2.0","id":1,"result":{}}`, -32600},
		"only an id":     {`{"jsonrpc":"2.0"}`, -32600},
		"duplicate":      {callOne(`"requestState":"a","requestState":"b",`), -32600},
		"in arguments":   {strings.Replace(callOne(""), `"arguments":{}`, `"arguments":{"a":[{"b":1,"b":2}]}`, 1), -32600},
		"escaped twin":   {strings.Replace(callOne(""), `"arguments":{}`, `"arguments":{"a":1,"\u0061":2}`, 1), -32600},
	} {
		e := exchangeWith(t, g, "tools/call", "one", c.body)
		if e.Status != 400 || !isJSON(e) || code(e) != c.code {
			t.Errorf("%s: status %d, %s: %v", name, e.Status, e.Header.Get("Content-Type"), e.Body)
		}
		if p := exchangeWith(t, plain, "tools/call", "one", c.body); p.Status == 200 || !isJSON(p) {
			deviates = true
		}
	}
	mended(t, deviates)
}

func TestRule_McpS9_AskOnlyForWhatIsDeclared(t *testing.T) {
	elicit := &mcp.ElicitParams{Message: "Who?"}
	byURL := &mcp.ElicitParams{Message: "Who?", URL: "https://a.example", ElicitationID: "1"}
	sample := &mcp.CreateMessageParams{MaxTokens: 1}
	withTools := &mcp.CreateMessageWithToolsParams{MaxTokens: 1, Tools: []*mcp.Tool{{Name: "x"}}}
	for name, c := range map[string]struct {
		ask      mcp.InputRequest
		declared string
		required string // "" when it may be asked
	}{
		"form, nothing":    {elicit, `{}`, `{"elicitation":{"form":{}}}`},
		"form, empty":      {elicit, `{"elicitation":{}}`, ""},
		"form, only URL":   {elicit, `{"elicitation":{"url":{}}}`, `{"elicitation":{"form":{}}}`},
		"form, form":       {elicit, `{"elicitation":{"form":{},"url":{}}}`, ""},
		"URL, empty":       {byURL, `{"elicitation":{}}`, `{"elicitation":{"url":{}}}`},
		"URL, URL":         {byURL, `{"elicitation":{"url":{}}}`, ""},
		"sampling, none":   {sample, `{"elicitation":{}}`, `{"sampling":{}}`},
		"sampling":         {sample, `{"sampling":{}}`, ""},
		"tools, sampling":  {withTools, `{"sampling":{}}`, `{"sampling":{"tools":{}}}`},
		"tools, tools":     {withTools, `{"sampling":{"tools":{}}}`, ""},
		"roots, none":      {&mcp.ListRootsParams{}, `{}`, `{"roots":{}}`},
		"roots":            {&mcp.ListRootsParams{}, `{"roots":{"listChanged":true}}`, ""},
		"case is another":  {elicit, `{"Elicitation":{}}`, `{"elicitation":{"form":{}}}`},
		"null is no thing": {elicit, `{"elicitation":null}`, `{"elicitation":{"form":{}}}`},
	} {
		s := toolServer(func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"k": c.ask}, RequestState: "s"}, nil
		})
		body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"one","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + c.declared + `}}}`
		e := exchangeWith(t, gateOf(t, s, nil), "tools/call", "one", body)
		if c.required == "" {
			if e.Status != 200 || result(e)["resultType"] != "input_required" || result(e)["inputRequests"] == nil {
				t.Errorf("%s: status %d: %v", name, e.Status, e.Body)
			}
			continue
		}
		data, _ := e.Body[0].(map[string]any)["error"].(map[string]any)["data"].(map[string]any)
		required, _ := json.Marshal(data["requiredCapabilities"])
		if e.Status != 400 || code(e) != -32021 || string(required) != c.required {
			t.Errorf("%s: status %d, required %s: %v", name, e.Status, required, e.Body)
		}
		mended(t, code(exchangeWith(t, sdk(s, mcp.StreamableHTTPOptions{}), "tools/call", "one", body)) != -32021)
	}

	s := toolServer(func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{RequestState: "s"}, nil
	})
	e := exchangeWith(t, gateOf(t, s, nil), "tools/call", "one", callOne(""))
	if r := result(e); r["resultType"] != "input_required" || r["requestState"] != "s" {
		t.Errorf("a state alone: %v", e.Body)
	}
	mended(t, result(exchangeWith(t, sdk(s, mcp.StreamableHTTPOptions{}), "tools/call", "one", callOne("")))["resultType"] != "input_required")
}

func TestRule_McpS11_PrivateScope(t *testing.T) {
	s := wideServer(nil)
	g := gateOf(t, s, &Options{Private: true})
	for method, c := range map[string][2]string{
		"server/discover": {}, "tools/list": {}, "prompts/list": {}, "resources/list": {}, "resources/templates/list": {},
		"resources/read": {"note://1", `"uri":"note://1",`},
	} {
		e := exchangeWith(t, g, method, c[0], simple(method, c[1]))
		if result(e)["cacheScope"] != "private" {
			t.Errorf("%s: cacheScope %v", method, result(e)["cacheScope"])
		}
	}
	mended(t, result(exchangeWith(t, sdk(s, mcp.StreamableHTTPOptions{}), "tools/list", "", simple("tools/list", "")))["cacheScope"] != "private")
}

func TestRule_McpS12_SharedResults(t *testing.T) {
	shared := &mcp.ListToolsResult{Tools: []*mcp.Tool{{Name: "one", InputSchema: json.RawMessage(`{"type":"object"}`)}}}
	s := toolServer(done)
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == "tools/list" {
				return shared, nil
			}
			return next(ctx, method, req)
		}
	})
	g := gateOf(t, s, nil)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			w := httptest.NewRecorder()
			g.ServeHTTP(w, request1("tools/list", "", simple("tools/list", "")))
			if !strings.Contains(w.Body.String(), `"com.example/one"`) || !strings.Contains(w.Body.String(), `"resultType":"complete"`) {
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
		})
	}
	wait.Wait()
	if shared.Meta != nil {
		t.Errorf("the handler's value was changed: %v", shared.Meta)
	}
	exchangeWith(t, sdk(s, mcp.StreamableHTTPOptions{}), "tools/list", "", simple("tools/list", ""))
	mended(t, shared.Meta != nil)
}

func TestRule_McpS15_OneDecoding(t *testing.T) {
	s := toolServer(done)
	allocated := func(h http.Handler) uint64 {
		var before, after runtime.MemStats
		for i := range 60 {
			if i == 10 {
				runtime.ReadMemStats(&before)
			}
			h.ServeHTTP(httptest.NewRecorder(), request1("tools/call", "one", callOne("")))
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / 50
	}
	direct, plain := allocated(gateOf(t, s, nil)), allocated(sdk(s, mcp.StreamableHTTPOptions{JSONResponse: true}))
	if direct > 64<<10 {
		t.Errorf("a call allocates %d octets", direct)
	}
	t.Logf("octets allocated for a call: %d by the gate, %d by the plain SDK", direct, plain)
	mended(t, plain > 4*direct)
}

func TestRule_McpS16_TextStaysItself(t *testing.T) {
	const text = "<b>&\u2028é</b>"
	s := toolServer(func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, StructuredContent: map[string]any{"t": text}}, nil
	})
	e := exchangeWith(t, gateOf(t, s, nil), "tools/call", "one", callOne(""))
	r := result(e)
	if got := r["content"].([]any)[0].(map[string]any)["text"]; got != text || r["structuredContent"].(map[string]any)["t"] != text {
		t.Errorf("got %q in %v", got, r)
	}
}

// within waits for what should come soon.
func within[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(10 * time.Second):
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}
