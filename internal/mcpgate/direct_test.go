package mcpgate

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestDirectEqualsSDK sends the same requests through the gate's own dispatch
// and through the SDK's HTTP handler.
func TestDirectEqualsSDK(t *testing.T) {
	var cases []struct{ name, method, tool, body string }
	add := func(method, tool, members string) {
		for _, meta := range []string{
			echoMeta,
			strings.Replace(echoMeta, `"_meta":{`, `"_meta":{"progressToken":"p<1>","io.modelcontextprotocol/logLevel":"info","traceparent":"00-1","x":1.5,`, 1),
		} {
			body := `{"jsonrpc":"2.0","id":"a<b","method":"` + method + `","params":{` + members + meta + `}}`
			cases = append(cases, struct{ name, method, tool, body string }{fmt.Sprintf("%s %s %d", method, tool, len(cases)), method, tool, body})
		}
	}
	call := func(tool, arguments string) { add("tools/call", tool, `"name":"`+tool+`",`+arguments) }
	for _, tool := range []string{
		"seen", "structured", "named", "empty", "all-content", "plain-error", "bad-params", "no-method", "no-capability", "internal", "own-code",
		"wrapped-bad-params", "wrapped-no-method", "wrapped-no-capability", "wrapped-internal", "wrapped-own-code",
		"ask", "ask-nothing", "ask-and-tell", "to-client", "notify", "unknown",
	} {
		call(tool, "")
	}
	call("arguments", "")
	call("arguments", `"arguments":null,`)
	call("arguments", `"arguments":{"a":[1,2.50,"é\u00e9"],"b":{ "c":null}},`)
	call("arguments", `"arguments":[1],`)
	call("seen", `"inputResponses":{"x":{"action":"accept","content":{"a":1}}},"requestState":"opaque",`)
	call("seen", `"unknown":1,"Name":"other",`)
	call("ask", `"inputResponses":{"name":{"action":"accept","content":{"name":"Ada"}}},"requestState":"s",`)
	call("typed", `"arguments":{"text":"x","count":3},`)
	call("typed", `"arguments":{"text":"x","count":"3"},`)
	call("typed", `"arguments":{"text":"x","count":-1},`)
	call("typed", "")
	call("bound", `"arguments":{},`)
	add("prompts/get", "hello", `"name":"hello","arguments":{"who":"<Ada>"},`)
	add("prompts/get", "hello", `"name":"hello","arguments":{"who":"nobody"},`)
	add("prompts/get", "unknown", `"name":"unknown",`)
	for i := range 8 {
		uri := fmt.Sprintf("note://%d", i)
		add("resources/read", uri, `"uri":"`+uri+`",`)
	}
	add("resources/read", "note://none", `"uri":"note://none",`)
	add("resources/read", "day://2026-07-28", `"uri":"day://2026-07-28",`)
	for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list", "server/discover"} {
		add(method, "", "")
		add(method, "", `"cursor":"not one",`)
	}
	add("completion/complete", "", `"ref":{"type":"ref/prompt","name":"hello"},"argument":{"name":"who","value":"A"},`)
	add("own/method", "", "")
	add("ping", "", "")
	add("initialize", "", "")

	s := wideServer(nil)
	direct, err := New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	through, err := New(s, &Options{sdkOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []bool{false, true} {
		var a, b http.Handler = direct, through
		header := []string{"X-Own: yes"}
		if token {
			a, b = withToken(direct), withToken(through)
			header = append(header, "Authorization: Bearer x")
		}
		for round := range 3 { // cold, then from what is kept
			for _, c := range cases {
				want := exchangeWith(t, b, c.method, c.tool, c.body, header...)
				got := exchangeWith(t, a, c.method, c.tool, c.body, header...)
				if diff := cmp.Diff(normal(want), normal(got)); diff != "" {
					t.Errorf("%s, round %d, token %t: SDK -, direct +\n%s", c.name, round, token, diff)
				}
			}
		}
	}
}

// normal takes the one known difference out: the SDK sends "content": null with
// a result that asks for input, where there is none to send.
func normal(e exchange) exchange {
	for _, message := range e.Body {
		m, _ := message.(map[string]any)
		result, _ := m["result"].(map[string]any)
		if result["resultType"] == inputRequired {
			for _, name := range []string{"content", "messages", "contents"} {
				if v, there := result[name]; there && v == nil {
					delete(result, name)
				}
			}
		}
	}
	return e
}

// Pages are the same from both, all the way.
func TestDirectPages(t *testing.T) {
	s := wideServer(nil)
	for _, method := range []string{"tools/list", "resources/list"} {
		member := strings.TrimSuffix(method, "/list")
		var all [2][]any
		for i, sdkOnly := range []bool{true, false} {
			g, err := New(s, &Options{sdkOnly: sdkOnly})
			if err != nil {
				t.Fatal(err)
			}
			for cursor, pages := "", 0; ; pages++ {
				members := ""
				if cursor != "" {
					members = `"cursor":"` + cursor + `",`
				}
				e := exchangeWith(t, g, method, "", simple(method, members))
				result := e.Body[0].(map[string]any)["result"].(map[string]any)
				all[i] = append(all[i], result[member].([]any)...)
				next, more := result["nextCursor"].(string)
				if !more {
					if pages == 0 {
						t.Errorf("%s: one page only", method)
					}
					break
				}
				cursor = next
			}
		}
		if diff := cmp.Diff(all[0], all[1]); diff != "" {
			t.Errorf("%s: SDK -, direct +\n%s", method, diff)
		}
	}
}

// Middleware runs, whenever it was added, and may show each caller something
// else; what was encoded for one is not shown to another.
func TestDirectRunsLateMiddleware(t *testing.T) {
	s := wideServer(nil)
	g, err := New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	exchangeWith(t, g, "tools/list", "", simple("tools/list", ""))
	var methods []string
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			methods = append(methods, method)
			if req.GetExtra().Header.Get("X-Deny") != "" {
				return nil, &jsonrpc.Error{Code: 77, Message: "denied"}
			}
			result, err := next(ctx, method, req)
			if list, ok := result.(*mcp.ListToolsResult); ok && req.GetExtra().Header.Get("X-Few") != "" {
				list.Tools = slices.DeleteFunc(slices.Clone(list.Tools), func(t *mcp.Tool) bool { return t.Name != "arguments" })
			}
			return result, err
		}
	})
	count := func(header ...string) int {
		e := exchangeWith(t, g, "tools/list", "", simple("tools/list", ""), header...)
		result := e.Body[0].(map[string]any)["result"].(map[string]any)
		return len(result["tools"].([]any))
	}
	for range 3 {
		if all, few := count(), count("X-Few: 1"); all != 5 || few != 1 {
			t.Errorf("%d tools for all and %d for few", all, few)
		}
	}
	e := exchangeWith(t, g, "tools/call", "arguments", simple("tools/call", `"name":"arguments",`), "X-Deny: 1")
	if !strings.Contains(fmt.Sprint(e.Body), "denied") {
		t.Errorf("a later middleware was passed by: %v", e.Body)
	}
	if want := []string{"tools/list", "tools/list", "tools/list", "tools/list", "tools/list", "tools/list", "tools/call"}; !slices.Equal(methods, want) {
		t.Errorf("the middleware saw %q", methods)
	}
}

// A change on the server is seen at once, in lists, texts and header rules.
func TestDirectSeesChangesAtOnce(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "com.example/x", Version: "1"}, &mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}})
	ok := func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{}, nil
	}
	g, err := New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	list := func() string { return fmt.Sprint(exchangeWith(t, g, "tools/list", "", simple("tools/list", "")).Body) }
	if strings.Contains(list(), "one") {
		t.Error("a tool before there is one")
	}
	for i, schema := range []string{`{"type":"object"}`, `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}`, `{"type":"object"}`} {
		s.AddTool(&mcp.Tool{Name: "one", Description: fmt.Sprint("Version ", i), InputSchema: json.RawMessage(schema)}, ok)
		if !strings.Contains(list(), fmt.Sprint("Version ", i)) {
			t.Errorf("version %d is not listed", i)
		}
		want := 200
		if strings.Contains(schema, "x-mcp-header") {
			want = 400
		}
		if e := exchangeWith(t, g, "tools/call", "one", simple("tools/call", `"name":"one","arguments":{"a":"x"},`)); e.Status != want {
			t.Errorf("version %d: status %d, want %d", i, e.Status, want)
		}
	}
	s.RemoveTools("one")
	if strings.Contains(list(), "one") {
		t.Error("a removed tool is listed")
	}
}

// A panic costs one call.
func TestDirectPanic(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "com.example/x", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "panics", Description: "x", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		panic("oh")
	})
	s.AddTool(&mcp.Tool{Name: "nothing", Description: "x", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, nil
	})
	g, err := New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"panics", "nothing"} {
		e := exchangeWith(t, g, "tools/call", tool, simple("tools/call", `"name":"`+tool+`",`))
		if e.Status != 200 || !strings.Contains(fmt.Sprint(e.Body), "-32603") {
			t.Errorf("%s: %d %v", tool, e.Status, e.Body)
		}
	}
	if n := len(slices.Collect(s.Sessions())); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

// Each call has a session of its own, that ends with it, and what is sent after
// the answer is refused.
func TestDirectSessionEndsWithCall(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "com.example/x", Version: "1"}, nil)
	sessions := make(chan *mcp.ServerSession, 2)
	var saved context.Context
	s.AddTool(&mcp.Tool{Name: "x", Description: "x", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		sessions <- r.Session
		saved = ctx
		return &mcp.CallToolResult{}, nil
	})
	g, err := New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	body := strings.Replace(simple("tools/call", `"name":"x",`), `"_meta":{`, `"_meta":{"progressToken":1,`, 1)
	for range 2 {
		exchangeWith(t, g, "tools/call", "x", body)
	}
	a, b := <-sessions, <-sessions
	if a == b {
		t.Error("two calls share a session")
	}
	if err := b.Wait(); err != nil {
		t.Errorf("wait: %v", err)
	}
	if err := b.NotifyProgress(context.WithoutCancel(saved), &mcp.ProgressNotificationParams{ProgressToken: 1}); err == nil {
		t.Error("progress after the answer was taken")
	}
	if saved.Err() == nil {
		t.Error("the call's context goes on")
	}
}

// The types that the gate writes by itself are those of the SDK, member for
// member, and the handler's value is not changed.
func TestDirectLeavesResultAlone(t *testing.T) {
	g, err := New(wideServer(nil), &Options{Private: true})
	if err != nil {
		t.Fatal(err)
	}
	m := &message{Request: Request{ID: json.RawMessage("1")}}
	for _, make := range []func() mcp.Result{
		func() mcp.Result { return &mcp.CallToolResult{Meta: mcp.Meta{"a": 1}, RequestState: "s"} },
		func() mcp.Result { return &mcp.GetPromptResult{Meta: mcp.Meta{"a": 1}, RequestState: "s"} },
		func() mcp.Result {
			return &mcp.ReadResourceResult{Meta: mcp.Meta{"a": 1}, Contents: []*mcp.ResourceContents{{Text: strings.Repeat("x", 2000)}}}
		},
		func() mcp.Result { return &mcp.DiscoverResult{Meta: mcp.Meta{"a": 1}} },
		func() mcp.Result { return &mcp.ListToolsResult{Meta: mcp.Meta{"a": 1}} },
		func() mcp.Result { return &mcp.ListPromptsResult{Meta: mcp.Meta{"a": 1}} },
		func() mcp.Result { return &mcp.ListResourcesResult{Meta: mcp.Meta{"a": 1}} },
		func() mcp.Result { return &mcp.ListResourceTemplatesResult{Meta: mcp.Meta{"a": 1}} },
	} {
		r := make()
		if err := newAnswer().(*answer).encode(g, m, r, &mcp.ClientCapabilities{}); err != nil {
			t.Errorf("%T: %v", r, err)
		}
		if !reflect.DeepEqual(r, make()) {
			t.Errorf("%T was changed to %+v", r, r)
		}
	}
}
