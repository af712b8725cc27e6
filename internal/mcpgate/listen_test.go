package mcpgate

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const listenBody = `{"jsonrpc":"2.0","id":"L1","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["note://1"]},` + echoMeta + `}}`

func listenServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "com.example/listen", Version: "1.0.0"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	rawTool(s, "one", done)
	s.AddResource(&mcp.Resource{URI: "note://1", Name: "note"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{}, nil
	})
	return s
}

// mcp P13: acknowledged first, each message with the subscription's id, a final
// result when the server ends it.
func TestRule_McpP13_Listen(t *testing.T) {
	s := listenServer()
	g := gateOf(t, s, nil)
	res := post(t.Context(), t, serveLive(t, g), "subscriptions/listen", "", listenBody)
	c := lines(res)
	id := func(m map[string]any, where string) any {
		inner, _ := m[where].(map[string]any)
		meta, _ := inner["_meta"].(map[string]any)
		return meta["io.modelcontextprotocol/subscriptionId"]
	}
	m := nextMessage(t, c)
	if m["method"] != "notifications/subscriptions/acknowledged" || id(m, "params") != "L1" {
		t.Errorf("first message %v", m)
	}
	rawTool(s, "two", done)
	if m := nextMessage(t, c); m["method"] != "notifications/tools/list_changed" || id(m, "params") != "L1" {
		t.Errorf("after a change: %v", m)
	}
	if err := s.ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: "note://1"}); err != nil {
		t.Fatal(err)
	}
	if m := nextMessage(t, c); m["method"] != "notifications/resources/updated" || id(m, "params") != "L1" {
		t.Errorf("after an update: %v", m)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	m = nextMessage(t, c)
	if r, _ := m["result"].(map[string]any); m["id"] != "L1" || r["resultType"] != "complete" || id(m, "result") != "L1" {
		t.Errorf("last message %v", m)
	}
	for line := range c {
		if line != "" {
			t.Errorf("%q after the end", line)
		}
	}
}

// mcp S13: streams are counted, capped, and end with the gate.
func TestRule_McpS13_ListensEnd(t *testing.T) {
	g := gateOf(t, listenServer(), &Options{MaxListens: 2})
	srv := serveLive(t, g)
	first := lines(post(t.Context(), t, srv, "subscriptions/listen", "", listenBody))
	nextMessage(t, first)
	ctx, leave := context.WithCancel(t.Context())
	second := post(ctx, t, srv, "subscriptions/listen", "", listenBody)
	nextMessage(t, lines(second))
	res := post(t.Context(), t, srv, "subscriptions/listen", "", listenBody)
	if body, _ := io.ReadAll(res.Body); res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || !json.Valid(body) {
		t.Errorf("one too many: status %d: %s", res.StatusCode, body)
	}
	leave()
	eventually(t, "a place after one left", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.listens) == 1
	})
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if m := nextMessage(t, first); m["result"] == nil {
		t.Errorf("last message %v", m)
	}
	if res := post(t.Context(), t, srv, "subscriptions/listen", "", listenBody); res.StatusCode != 503 {
		t.Errorf("after the end: status %d", res.StatusCode)
	}
	if res := post(t.Context(), t, srv, "tools/call", "one", callOne("")); res.StatusCode != 200 {
		t.Errorf("a call after the end: status %d", res.StatusCode)
	}

	ctx, cancel := context.WithCancel(t.Context())
	w := httptest.NewRecorder()
	time.AfterFunc(50*time.Millisecond, cancel)
	sdk(listenServer(), mcp.StreamableHTTPOptions{}).ServeHTTP(w, request1("subscriptions/listen", "", listenBody).WithContext(ctx))
	mended(t, !strings.Contains(w.Body.String(), `"result"`))
}

// A thousand streams that wait cost little and leave nothing behind.
func TestThousandIdleListens(t *testing.T) {
	if testing.Short() {
		t.Skip("needs two thousand file descriptors")
	}
	const streams = 1000
	g := gateOf(t, listenServer(), nil)
	srv := serveLive(t, g)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	var before, during runtime.MemStats
	goroutines := runtime.NumGoroutine()
	runtime.GC()
	runtime.ReadMemStats(&before)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var bodies []io.ReadCloser
	for i := range streams {
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL, strings.NewReader(listenBody))
		r.Header = request1("subscriptions/listen", "", listenBody).Header
		res, err := client.Do(r)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("stream %d: %v, %v", i, res, err)
		}
		bodies = append(bodies, res.Body)
	}
	runtime.GC()
	runtime.ReadMemStats(&during)
	used := int64(during.HeapAlloc+during.StackInuse) - int64(before.HeapAlloc+before.StackInuse)
	t.Logf("%d octets for a stream, client and server together", used/streams)
	if used > streams*128<<10 {
		t.Errorf("%d streams use %d octets", streams, used)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	for i, b := range bodies {
		text, err := io.ReadAll(b)
		if b.Close(); err != nil || strings.Count(string(text), `"resultType":"complete"`) != 1 {
			t.Fatalf("stream %d: %v: %s", i, err, text)
		}
	}
	client.CloseIdleConnections()
	eventually(t, "the end of all goroutines", func() bool { return runtime.NumGoroutine() <= goroutines+5 })
}
