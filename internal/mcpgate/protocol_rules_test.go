package mcpgate

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// wide is a gate before a server with something of everything.
func wide(t *testing.T, opts *Options) *Gate { return gateOf(t, wideServer(nil), opts) }

func TestRule_McpP1_Stateless(t *testing.T) {
	g := wide(t, nil)
	for _, method := range []string{
		"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "tasks/get", "roots/list", "sampling/createMessage", "elicitation/create",
	} {
		e := exchangeWith(t, g, method, "", simple(method, `"level":"info","uri":"note://1",`))
		if e.Status != 404 || code(e) != -32601 || !isJSON(e) {
			t.Errorf("%s: status %d: %v", method, e.Status, e.Body)
		}
	}
	e := exchangeWith(t, g, "tools/call", "seen", simple("tools/call", `"name":"seen",`), "Mcp-Session-Id: mine", "Last-Event-ID: 1")
	if e.Status != 200 || e.Header.Get("Mcp-Session-Id") != "" {
		t.Errorf("status %d, session %q", e.Status, e.Header.Get("Mcp-Session-Id"))
	}
	if e := exchangeWith(t, g, "tools/list", "", "["+simple("tools/list", "")+"]"); e.Status != 400 || code(e) != -32600 {
		t.Errorf("a batch: status %d: %v", e.Status, e.Body)
	}
	e = exchangeWith(t, g, "tools/call", "to-client", simple("tools/call", `"name":"to-client",`))
	if !strings.Contains(fmt.Sprint(e.Body), "stateless servers cannot make requests") {
		t.Errorf("a request to the client: %v", e.Body)
	}
}

func TestRule_McpP2_RequiredMeta(t *testing.T) {
	g := wide(t, nil)
	const version, caps = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`, `"io.modelcontextprotocol/clientCapabilities":{}`
	for meta, want := range map[string]float64{
		`"_meta":{` + version + `,` + caps + `}`: 0,
		`"_meta":{` + version + `}`:              -32602,
		`"_meta":{` + caps + `}`:                 -32602,
		`"_meta":{}`:                             -32602,
		`"x":1`:                                  -32602,
		`"_meta":5`:                              -32602,
		`"_meta":{"io.modelcontextprotocol/protocolVersion":20260728,` + caps + `}`:                     -32602,
		`"_meta":{` + version + `,"io.modelcontextprotocol/clientCapabilities":[]}`:                     -32602,
		`"_meta":{` + version + `,"io.modelcontextprotocol/clientCapabilities":null}`:                   -32602,
		`"_meta":{` + version + `,"io.modelcontextprotocol/clientCapabilities":{"roots":5}}`:            -32602,
		`"_meta":{` + version + `,` + caps + `,"io.modelcontextprotocol/clientInfo":"me"}`:              -32602,
		`"_meta":{` + version + `,` + caps + `,"io.modelcontextprotocol/clientInfo":null}`:              -32602,
		`"_meta":{` + version + `,` + caps + `,"io.modelcontextprotocol/clientInfo":{"name":5}}`:        -32602,
		`"_meta":{` + version + `,` + caps + `,"io.modelcontextprotocol/clientInfo":{"name":"me"}}`:     0,
		`"_meta":{` + version + `,` + caps + `,"io.modelcontextprotocol/logLevel":"shout"}`:             -32602,
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25",` + caps + `}`:                 -32020,
		`"_meta":{"IO.modelcontextprotocol/protocolVersion":"2026-07-28",` + caps + `}`:                 -32602,
		`"_meta":{` + version + `,` + caps + `},"_META":{}`:                                             0,
		`"_meta":{` + version + `,` + caps + `,"example.com/own":{"a":[1]}}`:                            0,
		`"_meta":{` + version + `,` + caps + `,"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`: -32600,
	} {
		e := exchangeWith(t, g, "tools/list", "", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+meta+`}}`)
		if code(e) != want || (want != 0) != (e.Status == 400) {
			t.Errorf("%s: status %d: %v", meta, e.Status, e.Body)
		}
	}
	for _, params := range []string{``, `,"params":null`, `,"params":[]`, `,"params":"x"`} {
		if e := exchangeWith(t, g, "tools/list", "", `{"jsonrpc":"2.0","id":1,"method":"tools/list"`+params+`}`); e.Status != 400 || code(e) != -32602 {
			t.Errorf("%q: status %d: %v", params, e.Status, e.Body)
		}
	}
	// The server says who it is in each result, and an upstream's word stands.
	for tool, want := range map[string]string{"empty": "com.example/wide", "named": "upstream"} {
		e := exchangeWith(t, g, "tools/call", tool, simple("tools/call", `"name":"`+tool+`",`))
		meta, _ := result(e)["_meta"].(map[string]any)
		info, _ := meta["io.modelcontextprotocol/serverInfo"].(map[string]any)
		if info["name"] != want {
			t.Errorf("%s: serverInfo %v", tool, info)
		}
	}
}

func TestRule_McpP3_PlainKeysReachTheTool(t *testing.T) {
	e := exchangeWith(t, wide(t, nil), "tools/call", "seen",
		withMeta(simple("tools/call", `"name":"seen",`), `"progressToken":"p1","traceparent":"00-a-b-01","tracestate":"x=1","baggage":"k=v",`))
	text := fmt.Sprint(result(e)["content"])
	for _, want := range []string{`"traceparent":"00-a-b-01"`, `"tracestate":"x=1"`, `"baggage":"k=v"`, "|p1|"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
}

// everything is one call of each method that has a result.
var everything = []struct{ method, name, members string }{
	{"server/discover", "", ""},
	{"tools/list", "", ""},
	{"prompts/list", "", ""},
	{"resources/list", "", ""},
	{"resources/templates/list", "", ""},
	{"tools/call", "empty", `"name":"empty",`},
	{"tools/call", "typed", `"name":"typed",`},
	{"prompts/get", "hello", `"name":"hello",`},
	{"resources/read", "note://1", `"uri":"note://1",`},
	{"completion/complete", "", `"ref":{"type":"ref/prompt","name":"hello"},"argument":{"name":"who","value":"A"},`},
}

func TestRule_McpP4_ResultType(t *testing.T) {
	g := wide(t, nil)
	for _, c := range everything {
		if e := exchangeWith(t, g, c.method, c.name, simple(c.method, c.members)); result(e)["resultType"] != "complete" {
			t.Errorf("%s %s: %v", c.method, c.name, e.Body)
		}
	}
	// Also of a result that middleware made, which the SDK leaves without.
	s := toolServer(done)
	s.AddReceivingMiddleware(func(mcp.MethodHandler) mcp.MethodHandler {
		return func(context.Context, string, mcp.Request) (mcp.Result, error) { return &mcp.CallToolResult{}, nil }
	})
	e := exchangeWith(t, gateOf(t, s, nil), "tools/call", "one", callOne(""))
	if r := result(e); r["resultType"] != "complete" || fmt.Sprint(r["content"]) != "[]" {
		t.Errorf("of middleware: %v", e.Body)
	}
}

func TestRule_McpP5_Discover(t *testing.T) {
	for name, c := range map[string]struct {
		opts *Options
		want string
	}{
		"both":   {nil, "[2026-07-28 2025-11-25 2025-06-18 2025-03-26 2024-11-05]"},
		"modern": {&Options{ModernOnly: true}, "[2026-07-28]"},
	} {
		r := result(exchangeWith(t, wide(t, c.opts), "server/discover", "", simple("server/discover", "")))
		if got := fmt.Sprint(r["supportedVersions"]); got != c.want {
			t.Errorf("%s: versions %s", name, got)
		}
		meta, _ := r["_meta"].(map[string]any)
		if r["capabilities"] == nil || r["instructions"] != "Use <all> of it." || r["ttlMs"] == nil || r["cacheScope"] == nil || meta["io.modelcontextprotocol/serverInfo"] == nil {
			t.Errorf("%s: %v", name, r)
		}
	}
}

func TestRule_McpP6_OneMessageAPost(t *testing.T) {
	g := wide(t, nil)
	for _, method := range []string{"GET", "DELETE", "PUT", "PATCH", "HEAD"} {
		res := send(t, g, method, "", "MCP-Protocol-Version: 2026-07-28")
		if res.StatusCode != 405 || !strings.Contains(res.Header.Get("Allow"), "POST") {
			t.Errorf("%s: status %d, Allow %q", method, res.StatusCode, res.Header.Get("Allow"))
		}
	}
	note := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	w := httptest.NewRecorder()
	g.ServeHTTP(w, request1("notifications/cancelled", "", note))
	if w.Code != 202 || w.Body.Len() != 0 {
		t.Errorf("a notification: status %d: %q", w.Code, w.Body)
	}
	body := simple("tools/list", "")
	for header, want := range map[string]int{
		"Accept: text/event-stream, application/json": 200, "Accept: application/json": 400, "Accept: -": 400,
		"Content-Type: application/json; charset=utf-8": 200, "Content-Type: text/plain": 415, "Content-Type: -": 415,
	} {
		if e := exchangeWith(t, g, "tools/list", "", body, header); e.Status != want || !isJSON(e) {
			t.Errorf("%s: status %d, want %d: %v", header, e.Status, want, e.Body)
		}
	}
}

func TestRule_McpP7_HeadersMatchTheBody(t *testing.T) {
	ran := 0
	s := wideServer(nil)
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			ran++
			return next(ctx, method, req)
		}
	})
	modern := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { ran++ })
	bound := simple("tools/call", `"name":"bound","arguments":{"city":"Oslo","deep":{"n":42,"on":true}},`)
	for name, g := range map[string]*Gate{"direct": gateOf(t, s, nil), "through the SDK": gateOf(t, s, &Options{sdkOnly: true}), "other": gateOf(t, s, &Options{Modern: modern})} {
		for _, c := range []struct {
			what, method, tool, body string
			header                   []string
		}{
			{"no version", "tools/call", "empty", simple("tools/call", `"name":"empty",`), []string{"MCP-Protocol-Version: -"}},
			{"no method", "tools/call", "empty", simple("tools/call", `"name":"empty",`), []string{"Mcp-Method: -"}},
			{"other method", "tools/list", "empty", simple("tools/call", `"name":"empty",`), nil},
			{"method in another case", "Tools/Call", "empty", simple("tools/call", `"name":"empty",`), nil},
			{"no name", "tools/call", "", simple("tools/call", `"name":"empty",`), nil},
			{"other name", "tools/call", "seen", simple("tools/call", `"name":"empty",`), nil},
			{"name in another case", "tools/call", "Empty", simple("tools/call", `"name":"empty",`), nil},
			{"other URI", "resources/read", "note://2", simple("resources/read", `"uri":"note://1",`), nil},
			{"no URI", "resources/read", "", simple("resources/read", `"uri":"note://1",`), nil},
			{"other prompt", "prompts/get", "bye", simple("prompts/get", `"name":"hello",`), nil},
			{"no parameters", "tools/call", "bound", bound, nil},
			{"one parameter", "tools/call", "bound", bound, []string{"Mcp-Param-City: Oslo", "Mcp-Param-N: 42"}},
			{"other parameter", "tools/call", "bound", bound, []string{"Mcp-Param-City: Rome", "Mcp-Param-N: 42", "Mcp-Param-On: true"}},
			{"other number", "tools/call", "bound", bound, []string{"Mcp-Param-City: Oslo", "Mcp-Param-N: 43", "Mcp-Param-On: true"}},
			{"other truth", "tools/call", "bound", bound, []string{"Mcp-Param-City: Oslo", "Mcp-Param-N: 42", "Mcp-Param-On: True"}},
			{"parameter not in the body", "tools/call", "bound", simple("tools/call", `"name":"bound",`), []string{"Mcp-Param-City: Oslo"}},
			{"null in the body", "tools/call", "bound", simple("tools/call", `"name":"bound","arguments":{"city":null},`), []string{"Mcp-Param-City: Oslo"}},
			{"bad Base64", "tools/call", "bound", simple("tools/call", `"name":"bound","arguments":{"city":"Oslo"},`), []string{"Mcp-Param-City: =?base64?T3?="}},
		} {
			if e := exchangeWith(t, g, c.method, c.tool, c.body, c.header...); e.Status != 400 || code(e) != -32020 || !isJSON(e) {
				t.Errorf("%s, %s: status %d: %v", name, c.what, e.Status, e.Body)
			}
		}
		for _, header := range []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: bound", "Mcp-Param-City: Oslo", "Mcp-Param-Other: x"} {
			r := request1("tools/call", "bound", bound)
			r.Header.Set("Mcp-Param-City", "Oslo")
			r.Header.Set("Mcp-Param-N", "42")
			r.Header.Set("Mcp-Param-On", "true")
			r.Header.Set("Mcp-Param-Other", "x")
			field, value, _ := strings.Cut(header, ": ")
			r.Header.Add(field, value)
			w := httptest.NewRecorder()
			g.ServeHTTP(w, r)
			if w.Code != 400 || !strings.Contains(w.Body.String(), "-32020") {
				t.Errorf("%s: %s twice: status %d: %s", name, field, w.Code, w.Body)
			}
		}
		if ran != 0 {
			t.Errorf("%s: something ran %d times", name, ran)
		}
		if e := exchangeWith(t, g, "tools/call", "bound", bound, "Mcp-Param-City: Oslo", "Mcp-Param-N: 42", "Mcp-Param-On: true"); e.Status != 200 {
			t.Errorf("%s: all as it must be: status %d: %v", name, e.Status, e.Body)
		}
		ran = 0
	}
}

func TestRule_McpP8_EncodedHeaders(t *testing.T) {
	g := wide(t, nil)
	b64 := func(s string) string { return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?=" }
	for _, c := range []struct {
		city, n string
		want    int
		header  []string
	}{
		{`"日程"`, `42`, 200, []string{b64("日程"), "42"}},
		{`" outer "`, `42`, 200, []string{b64(" outer "), "42.0"}},
		{`"Oslo"`, `4.2e1`, 200, []string{b64("Oslo"), "42"}},
		{`"=?base64?eA==?="`, `-1`, 200, []string{b64("=?base64?eA==?="), "-1"}},
		{`"=?base64?eA==?="`, `1`, 400, []string{"=?base64?eA==?=", "1"}},
		{`""`, `0`, 200, []string{"", "-0"}},
		{`"a"`, `9007199254740993`, 400, []string{"a", "9007199254740992"}},
		{`"a"`, `1.5`, 400, []string{"a", "1.5"}},
		{`"a"`, `16`, 400, []string{"a", "0x10"}},
		{`"a"`, `1`, 400, []string{"a", b64("x")}},
		{`"a"`, `"1"`, 200, []string{"a", "1"}},
		{`"\u0061"`, `1`, 200, []string{"a", "1"}},
	} {
		r := request1("tools/call", "bound", simple("tools/call", `"name":"bound","arguments":{"city":`+c.city+`,"deep":{"n":`+c.n+`}},`))
		r.Header.Set("Mcp-Param-City", c.header[0])
		r.Header.Set("Mcp-Param-N", c.header[1])
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s, %s with %q: status %d, want %d: %s", c.city, c.n, c.header, w.Code, c.want, w.Body)
		}
	}
	s := toolServer(done)
	uri := "note://%E6%97%A5"
	s.AddResource(&mcp.Resource{URI: uri, Name: "x"}, func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{Text: r.Extra.Header.Get("Mcp-Name")}}}, nil
	})
	e := exchangeWith(t, gateOf(t, s, nil), "resources/read", b64(uri), simple("resources/read", `"uri":"`+uri+`",`))
	if !strings.Contains(fmt.Sprint(e.Body), "text:"+uri) {
		t.Errorf("the handler sees %v", e.Body)
	}
}

func TestRule_McpP9_OriginStreamAndLeaving(t *testing.T) {
	t.Run("origin", TestRule_FO19_OriginIsExact)
	t.Run("stream", TestRule_FO20_StreamsAreKeptAlive)
	t.Run("leaving", TestRule_FO25_LeavingCancels)
}
