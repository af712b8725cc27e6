package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// upstreams are the ways in which the same server can be one: every behaviour
// that does not depend on the transport is tested through each.
var upstreams = map[string]func(t *testing.T) *Options{
	"command": func(t *testing.T) *Options { return command(t, "sdk") },
	"modern": func(t *testing.T) *Options {
		return serveHTTP(t, mcp.NewStreamableHTTPHandler(same(testServer()), &mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true}))
	},
	"legacy": func(t *testing.T) *Options {
		return serveHTTP(t, mcp.NewStreamableHTTPHandler(same(testServer()), nil))
	},
	"sse": func(t *testing.T) *Options { return serveHTTP(t, mcp.NewSSEHandler(same(testServer()), nil)) },
}

func same(s *mcp.Server) func(*http.Request) *mcp.Server {
	return func(*http.Request) *mcp.Server { return s }
}

func serveHTTP(t *testing.T, h http.Handler) *Options {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return &Options{URL: srv.URL}
}

func each(t *testing.T, test func(t *testing.T, era string, g *Gateway, url string)) {
	for _, era := range []string{"command", "modern", "legacy", "sse"} {
		t.Run(era, func(t *testing.T) {
			noLeaks(t)
			g := open(t, upstreams[era](t))
			test(t, era, g, front(t, g))
		})
	}
}

func TestInfo(t *testing.T) {
	each(t, func(t *testing.T, era string, g *Gateway, url string) {
		info, guide := g.Info()
		if info.Name != "com.example/everything" || info.Version != "2.1.0" || guide != "Use it for tests." {
			t.Errorf("info %+v, %q", info, guide)
		}
		if (g.Modern() != nil) != (era == "modern") {
			t.Errorf("Modern is %v", g.Modern())
		}
		if err := g.Ready(); err != nil {
			t.Errorf("ready: %v", err)
		}
		r := post(t, url, methodDiscover, `{}`, nil)
		if got := r.result.text("instructions"); got != guide {
			t.Errorf("instructions %q in %s", got, r.raw)
		}
		if x := r.result.object("capabilities").object("extensions")["com.example/x"]; string(x) != `{"a":1}` {
			t.Errorf("extension %s", x)
		}
		if name := r.result.object("_meta").object(metaServer).text("title"); name != "Everything" {
			t.Errorf("server info in %s", r.raw)
		}
	})
}

func TestCall(t *testing.T) {
	each(t, func(t *testing.T, era string, _ *Gateway, url string) {
		r := post(t, url, methodCall, `{"name":"echo","arguments":{"n":12345678901234567890,"s":"<é>"},"_meta":{"traceparent":"00-ab","com.example/k":{"v":1}}}`,
			map[string]any{metaClient: map[string]any{"name": "c", "version": "1"}})
		if got := string(r.result["structuredContent"]); !strings.Contains(got, "12345678901234567890") || !strings.Contains(got, "é") {
			t.Errorf("arguments %s", got)
		}
		var meta object
		if err := json.Unmarshal([]byte(r.text(t)), &meta); err != nil {
			t.Fatal(err)
		}
		if meta.text("traceparent") != "00-ab" || string(meta["com.example/k"]) != `{"v":1}` {
			t.Errorf("_meta at the upstream: %v", meta)
		}
		if _, ok := meta[metaCapabilities]; ok != (era == "modern") {
			t.Errorf("hop keys at a %s upstream: %v", era, meta)
		}
		if r.result.object("_meta").text("com.example/back") != "pong" || r.result.text("resultType") != "complete" {
			t.Errorf("result %s", r.raw)
		}
		if name := r.result.object("_meta").object(metaServer).text("name"); name != "com.example/everything" {
			t.Errorf("serverInfo in %s", r.raw)
		}

		old := legacy(t, url, nil)
		res, err := old.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"a": 1}})
		if err != nil || res.Meta["com.example/back"] != "pong" {
			t.Errorf("older client: %v, %v", res, err)
		}
	})
}

func TestErrorsPass(t *testing.T) {
	each(t, func(t *testing.T, _ string, _ *Gateway, url string) {
		r := post(t, url, methodCall, `{"name":"fail","arguments":{"text":"no luck"}}`, nil)
		if r.err == nil || r.err.Code != -31000 || r.err.Message != "no luck" || r.err.Data.text("why") != "because" {
			t.Errorf("error %+v", r.err)
		}
		if r := post(t, url, methodCall, `{"name":"nothing"}`, nil); r.err == nil || r.err.Code != -32602 {
			t.Errorf("unknown tool: %+v", r.err)
		}
	})
}

func TestProgress(t *testing.T) {
	each(t, func(t *testing.T, _ string, _ *Gateway, url string) {
		for _, token := range []any{"tok", 7.0} {
			r := post(t, url, methodCall, callTool("progress"), map[string]any{progressToken: token})
			if r.text(t) != "done" || len(r.notes) != 3 {
				t.Fatalf("%d notifications, %s", len(r.notes), r.raw)
			}
			for i, m := range r.notes {
				var p struct {
					ProgressToken   any
					Progress, Total float64
					Message         string
				}
				_ = json.Unmarshal(m.Params, &p)
				if p.ProgressToken != token || p.Progress != float64(i+1) || p.Total != 3 || p.Message != "step" {
					t.Errorf("progress %s", m.Params)
				}
			}
		}
		got := make(chan float64, 10)
		old := legacy(t, url, &mcp.ClientOptions{
			Capabilities: &mcp.ClientCapabilities{},
			ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
				got <- r.Params.Progress
			},
		})
		params := &mcp.CallToolParams{Name: "progress", Arguments: map[string]any{}}
		params.SetProgressToken("x")
		if _, err := old.CallTool(t.Context(), params); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			select {
			case n := <-got:
				if n != float64(i+1) {
					t.Errorf("older client got %v", n)
				}
			case <-time.After(5 * time.Second):
				t.Fatal("older client got no progress")
			}
		}
	})
}

// Log messages come only when the client asked for them, and from its level up.
func TestLog(t *testing.T) {
	each(t, func(t *testing.T, _ string, _ *Gateway, url string) {
		if r := post(t, url, methodCall, callTool("log"), map[string]any{progressToken: 1}); len(r.notes) != 0 {
			t.Errorf("not asked for: %+v", r.notes)
		}
		r := post(t, url, methodCall, callTool("log"), map[string]any{metaLogLevel: "info"})
		if len(r.notes) != 1 || !strings.Contains(string(r.notes[0].Params), `"data":{"level":"warning"}`) {
			t.Errorf("from info up: %+v", r.notes)
		}
	})
}

func TestResourcesAndPrompts(t *testing.T) {
	each(t, func(t *testing.T, era string, g *Gateway, url string) {
		r := post(t, url, methodRead, `{"uri":"test://a"}`, nil)
		if !strings.Contains(string(r.result["contents"]), `"A"`) || r.result.text("cacheScope") == "" || r.result["ttlMs"] == nil {
			t.Errorf("read %s", r.raw)
		}
		if r := post(t, url, methodRead, `{"uri":"test://items/7"}`, nil); !strings.Contains(r.raw, "test://items/7") {
			t.Errorf("template %s", r.raw)
		}
		// A corrected address works both ways.
		const to = "test://%E6%97%A5%E7%A8%8B"
		// The SDK's server refuses an encoded Mcp-Name (mcp S1); raw_test.go has one
		// that does not.
		if r := post(t, url, methodRead, `{"uri":"`+to+`"}`, nil); era != "modern" && (!strings.Contains(r.raw, to) || !strings.Contains(r.raw, `"P"`)) {
			t.Errorf("corrected %s %+v", r.raw, r.err)
		}
		if r := post(t, url, methodRead, `{"uri":"test://none"}`, nil); r.err == nil || r.err.Code != -32602 {
			t.Errorf("unknown resource: %+v", r.err)
		}
		if r := post(t, url, methodPrompt, `{"name":"greet","arguments":{"who":"Eve"}}`, nil); !strings.Contains(r.raw, "Hello Eve") {
			t.Errorf("prompt %s %+v", r.raw, r.err)
		}
		r = post(t, url, methodComplete, `{"ref":{"type":"ref/resource","uri":"`+to+`"},"argument":{"name":"id","value":"v"}}`, nil)
		if !strings.Contains(r.raw, `"v!"`) || !strings.Contains(r.raw, "test://日程") {
			t.Errorf("completion %s %+v", r.raw, r.err)
		}
		want := []Correction{
			{"prompt", "greet", "greet", "it has no description: hosts need one, so a plain sentence stands in"},
			{"resource", "test://日程", to, "an address is ASCII: other characters are percent-encoded"},
		}
		if diff := cmp.Diff(want, g.Corrections()); diff != "" {
			t.Error(diff)
		}
	})
}

// A change of a list reaches listen streams and older sessions, and a resource
// update those who follow the resource.
func TestChangesReachListeners(t *testing.T) {
	each(t, func(t *testing.T, _ string, g *Gateway, url string) {
		told := make(chan string, 10)
		old := legacy(t, url, &mcp.ClientOptions{
			Capabilities:           &mcp.ClientCapabilities{},
			ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { told <- "tools" },
			ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { told <- r.Params.URI },
		})
		if err := old.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "test://a"}); err != nil {
			t.Fatal(err)
		}
		l := listen(t, url, `{"toolsListChanged":true,"resourceSubscriptions":["test://a"]}`)
		eventually(t, "the update comes", func() bool { // the upstream's own stream may not be open yet
			post(t, url, methodCall, callTool("touch"), nil)
			select {
			case m := <-l.notes:
				return m.Method == "notifications/resources/updated" && strings.Contains(string(m.Params), `"test://a"`) &&
					strings.Contains(string(m.Params), `"io.modelcontextprotocol/subscriptionId":"l"`)
			default:
				return false
			}
		})
		eventually(t, "the older client hears of it", func() bool { return <-told == "test://a" })

		post(t, url, methodCall, callTool("add"), nil)
		eventually(t, "the change comes", func() bool { return l.next(t).Method == "notifications/tools/list_changed" })
		eventually(t, "the older client hears of it", func() bool { return <-told == "tools" })
		if r := post(t, url, "tools/list", `{}`, nil); !strings.Contains(r.raw, `"added"`) {
			t.Errorf("list %s", r.raw)
		}
		if r := post(t, url, methodCall, callTool("added"), nil); r.text(t) != "new" {
			t.Errorf("call %s", r.raw)
		}
	})
}
