package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A server of the Go SDK v1.8.0 refuses the Base64 form of Mcp-Name: its names
// outside ASCII can be used all the same. This test shows when the SDK has
// learned it.
func TestRule_McpS1_UpstreamThatKnowsNoBase64(t *testing.T) {
	noLeaks(t)
	var refused atomic.Int32
	sdk := mcp.NewStreamableHTTPHandler(same(testServer()), &mcp.StreamableHTTPOptions{Stateless: true})
	g := open(t, serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Mcp-Name"), base64Prefix) {
			refused.Add(1)
		}
		sdk.ServeHTTP(w, r)
	})))
	url := front(t, g)
	uri := g.lists.Load().offered["test://日程"]
	if r := post(t, url, methodRead, fmt.Sprintf(`{"uri":%q}`, uri), nil); r.err != nil || !strings.Contains(r.raw, `"P"`) || !strings.Contains(r.raw, uri) {
		t.Errorf("2026-07-28: %s %+v", r.raw, r.err)
	}
	old := legacy(t, url, nil)
	if r, err := old.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err != nil || r.Contents[0].Text != "P" {
		t.Errorf("an older client: %+v, %v", r, err)
	}
	if refused.Load() != 2 {
		t.Errorf("the Base64 form was sent %d times", refused.Load())
	}
}

// A header that is refused for another reason is not sent twice, and the answer
// comes as it is.
func TestNameIsSentOnceMoreOnlyForItsForm(t *testing.T) {
	noLeaks(t)
	up := &scripted{call: func(w http.ResponseWriter, _ *http.Request, m *message) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		code := -32020
		if m.Method == methodCall {
			code = -32602
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"no"}}`, m.ID, code)
	}}
	g := open(t, up.options(t))
	url := front(t, g)
	offered := g.Corrections()[0].To // of 日
	if r := post(t, url, methodCall, callTool(offered), nil); r.err == nil || r.err.Code != -32602 || up.calls.Load() != 1 {
		t.Errorf("%d calls: %s %+v", up.calls.Load(), r.raw, r.err)
	}
	if r := post(t, url, methodRead, `{"uri":"test://plain"}`, nil); r.err == nil || r.err.Code != -32603 || up.calls.Load() != 2 {
		t.Errorf("%d calls: %s %+v", up.calls.Load(), r.raw, r.err)
	}
}
