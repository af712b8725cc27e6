package mcpgate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestRule_McpP10_StatusAndCode(t *testing.T) {
	g := wide(t, nil)
	codes := []float64{}
	for _, c := range []struct {
		what, method, name, members string
		status                      int
		code                        float64
	}{
		{"unknown method", "no/such", "", "", 404, -32601},
		{"removed method", "ping", "", "", 404, -32601},
		{"initialize", "initialize", "", "", 404, -32601},
		{"unknown tool", "tools/call", "nope", `"name":"nope",`, 400, -32602},
		{"no tool name", "tools/call", "nope", ``, 400, -32602},
		{"tool name is no string", "tools/call", "5", `"name":5,`, 400, -32602},
		{"arguments of a prompt", "prompts/get", "hello", `"name":"hello","arguments":{"who":5},`, 400, -32602},
		{"unknown prompt", "prompts/get", "nope", `"name":"nope",`, 400, -32602},
		{"unknown resource", "resources/read", "x://nope", `"uri":"x://nope",`, 400, -32602},
		{"bad cursor", "tools/list", "", `"cursor":"nope",`, 400, -32602},
		{"cursor is no string", "tools/list", "", `"cursor":5,`, 400, -32602},
		{"bad responses", "tools/call", "ask", `"name":"ask","inputResponses":{"name":{}},`, 400, -32602},
		{"undeclared capability", "tools/call", "no-capability", `"name":"no-capability",`, 400, -32021},
		{"bad tool input", "tools/call", "typed", `"name":"typed","arguments":{"text":5},`, 200, 0},
		{"tool failed", "tools/call", "typed", `"name":"typed","arguments":{"text":"x","count":-1},`, 200, 0},
	} {
		e := exchangeWith(t, g, c.method, c.name, simple(c.method, c.members))
		if e.Status != c.status || code(e) != c.code || !isJSON(e) {
			t.Errorf("%s: status %d, code %v: %v", c.what, e.Status, code(e), e.Body)
		}
		if c.status == 200 && result(e)["isError"] != true {
			t.Errorf("%s: %v", c.what, e.Body)
		}
		codes = append(codes, code(e))
	}
	for _, version := range []string{"2099-01-01", "1900-01-01", "x"} {
		e := exchangeWith(t, g, "tools/list", "", strings.Replace(simple("tools/list", ""), Modern, version, 1), "MCP-Protocol-Version: "+version)
		data := fmt.Sprint(e.Body)
		if e.Status != 400 || code(e) != -32022 || !strings.Contains(data, "requested:"+version) || !strings.Contains(data, "supported:[2026-07-28") {
			t.Errorf("version %s: status %d: %v", version, e.Status, e.Body)
		}
		codes = append(codes, code(e))
	}
	for _, c := range codes { // P11
		if c <= -32000 && c >= -32019 || c == -32042 {
			t.Errorf("code %v is of older revisions", c)
		}
	}
}

func TestRule_McpP11_NoOldCodes(t *testing.T) { TestRule_McpP10_StatusAndCode(t) }

func TestRule_McpP12_VersionsForOldClients(t *testing.T) {
	body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	e := exchangeWith(t, wide(t, &Options{ModernOnly: true}), "initialize", "", body, "MCP-Protocol-Version: -", "Mcp-Method: -")
	if data := fmt.Sprint(e.Body); code(e) != -32022 || !strings.Contains(data, "supported:[2026-07-28]") || !strings.Contains(data, "requested:2025-11-25") {
		t.Errorf("status %d: %v", e.Status, e.Body)
	}
}

func TestRule_McpP14_CacheMembers(t *testing.T) {
	s := wideServer(&mcp.ServerOptions{SetCacheable: func(_ context.Context, r mcp.Request, c *mcp.Cacheable) {
		c.TTLMs = 60_000
		if r.GetExtra().Header.Get("X-Own") != "" {
			c.CacheScope = "private"
		}
	}})
	g := gateOf(t, s, nil)
	for _, c := range everything {
		for header, scope := range map[string]string{"X-Own: -": "public", "X-Own: 1": "private"} {
			r := result(exchangeWith(t, g, c.method, c.name, simple(c.method, c.members), header))
			switch c.method {
			case "tools/call", "prompts/get", "completion/complete":
				if r["cacheScope"] != nil || r["ttlMs"] != nil {
					t.Errorf("%s: %v", c.method, r)
				}
			default:
				if r["cacheScope"] != scope || r["ttlMs"] != 60000.0 {
					t.Errorf("%s: %v for %v", c.method, r["ttlMs"], r["cacheScope"])
				}
			}
		}
	}
}

func TestRule_McpP15_AskAndRepeat(t *testing.T) {
	g := wide(t, nil)
	ask := func(members string) map[string]any {
		return result(exchangeWith(t, g, "tools/call", "ask", simple("tools/call", `"name":"ask",`+members)))
	}
	r := ask("")
	if r["resultType"] != "input_required" || r["requestState"] != "s" || r["inputRequests"].(map[string]any)["name"] == nil {
		t.Errorf("first round: %v", r)
	}
	if _, there := r["content"]; there {
		t.Errorf("content beside a question: %v", r)
	}
	if r := ask(`"inputResponses":{},"requestState":"s",`); r["resultType"] != "input_required" {
		t.Errorf("no answer: %v", r)
	}
	if r := ask(`"inputResponses":{"name":{"action":"accept","content":{"name":"Ada"}}},"requestState":"s",`); !strings.Contains(fmt.Sprint(r["content"]), "accept Ada s") {
		t.Errorf("second round: %v", r)
	}
	t.Run("declared", TestRule_McpS9_AskOnlyForWhatIsDeclared)
}

func TestRule_McpP16_StableOrderAndAnyStructure(t *testing.T) {
	names := func() (names []string) {
		for _, tool := range result(exchangeWith(t, wide(t, nil), "tools/list", "", simple("tools/list", "")))["tools"].([]any) {
			names = append(names, tool.(map[string]any)["name"].(string))
		}
		return names
	}
	if a, b := names(), names(); !slices.Equal(a, b) || len(a) == 0 {
		t.Errorf("two lists differ: %q, %q", a, b)
	}
	for _, v := range []string{`{"a":1}`, `[1,"2",null]`, `"text"`, `5`, `true`, `12345678901234567890`} {
		s := toolServer(func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{StructuredContent: json.RawMessage(v)}, nil
		})
		w := httptest.NewRecorder()
		gateOf(t, s, nil).ServeHTTP(w, request1("tools/call", "one", callOne("")))
		if !strings.Contains(w.Body.String(), `"structuredContent":`+v) {
			t.Errorf("%s became %s", v, w.Body)
		}
	}
}

// Options.Modern gets what the gate has read, and its errors travel as they are.
func TestOtherHandler(t *testing.T) {
	var got *Request
	var body string
	g := gateOf(t, toolServer(done), &Options{Modern: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ = RequestFrom(r.Context())
		text, _ := io.ReadAll(r.Body)
		body = string(text)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, `{"own":true}`)
	})})
	sent := withMeta(callOne(""), `"progressToken":5,"io.modelcontextprotocol/logLevel":"info",`)
	e := exchangeWith(t, g, "tools/call", "one", sent, "Mcp-Session-Id: x")
	if e.Status != http.StatusTeapot || !isJSON(e) || body != sent {
		t.Errorf("status %d: %v; body %s", e.Status, e.Body, body)
	}
	if got == nil || string(got.ID) != "7" || got.Method != "tools/call" || got.Name != "one" || string(got.ProgressToken) != "5" || got.LogLevel != "info" ||
		!strings.HasPrefix(string(got.ClientCapabilities), `{"elicitation"`) || !strings.HasPrefix(string(got.Params), `{"name"`) || string(got.Body) != sent {
		t.Errorf("%+v", got)
	}
	got = nil
	old := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	if res := send(t, g, "POST", old); res.StatusCode != 200 || got != nil {
		t.Errorf("an older client: status %d, %+v", res.StatusCode, got)
	}
}

// mcp P17: what older revisions had beside Streamable HTTP is not served, and a
// log message is sent to nobody who did not ask.
func TestRule_McpP17_DeprecatedTransport(t *testing.T) {
	g := wide(t, nil)
	if res := send(t, g, "GET", "", "Accept: text/event-stream"); res.StatusCode != 405 {
		t.Errorf("HTTP+SSE: status %d", res.StatusCode)
	}
	e := exchangeWith(t, g, "tools/call", "notify", withMeta(simple("tools/call", `"name":"notify",`), `"progressToken":1,`))
	if len(e.Body) != 2 {
		t.Errorf("%d messages without a log level: %v", len(e.Body), e.Body)
	}
}

// FO-22: the last page has no nextCursor, not even an empty one.
func TestRule_FO22_LastPageHasNoCursor(t *testing.T) {
	g := wide(t, nil)
	for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
		pages := 0
		for members := ""; ; pages++ {
			r := result(exchangeWith(t, g, method, "", simple(method, members)))
			next, there := r["nextCursor"]
			if !there {
				break
			}
			if next == "" || next == nil || pages > 20 {
				t.Fatalf("%s, page %d: nextCursor %v", method, pages, next)
			}
			members = `"cursor":"` + next.(string) + `",`
		}
	}
}
