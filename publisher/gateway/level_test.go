package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// An older client sets its level once; an upstream of 2026-07-28 wants it with
// each call, and is told it only for who has set one.
func TestLevelOfOlderClientReachesModernUpstream(t *testing.T) {
	noLeaks(t)
	up := &scripted{call: func(w http.ResponseWriter, r *http.Request, m *message) {
		note := `event: message
data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"%s","data":"d"}}

`
		answer := fmt.Sprintf("event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"resultType\":\"complete\",\"content\":[]}}\n\n", m.ID)
		sse(w, fmt.Sprintf(note, "debug"), fmt.Sprintf(note, "error"), answer)
	}}
	up.capabilities = `{"tools":{},"resources":{},"logging":{}}`
	url := front(t, open(t, up.options(t)))
	levels := make(chan mcp.LoggingLevel, 10)
	loud := legacy(t, url, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}, LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
		levels <- r.Params.Level
	}})
	quiet := legacy(t, url, nil)
	if err := loud.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "warning"}); err != nil {
		t.Fatal(err)
	}
	call := func(c *mcp.ClientSession) string {
		t.Helper()
		if _, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "t", Arguments: map[string]any{}}); err != nil {
			t.Fatal(err)
		}
		_, body := up.seen()
		return body
	}
	if body := call(loud); !strings.Contains(body, `"io.modelcontextprotocol/logLevel":"warning"`) {
		t.Errorf("no level in %s", body)
	}
	if level := <-levels; level != "error" {
		t.Errorf("got a message of level %s", level)
	}
	if body := call(quiet); strings.Contains(body, "logLevel") {
		t.Errorf("a client that set none: %s", body)
	}
}
