package mcpgate

import (
	"errors"
	"net/http/httptest"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Two gates of one server, as while a configuration is replaced: closing one
// leaves the sessions that were opened through the other.
func TestCloseEndsOwnSessionsOnly(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "com.example/two", Version: "1.0.0"}, nil)
	var gates []*Gate
	var clients []*mcp.ClientSession
	for range 2 {
		g, err := New(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		srv := httptest.NewServer(g)
		defer srv.Close()
		c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
		cs, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{
			Endpoint: srv.URL, HTTPClient: srv.Client(), MaxRetries: -1, DisableStandaloneSSE: true,
		}, &mcp.ClientSessionOptions{ProtocolVersion: legacyVersion})
		if err != nil {
			t.Fatal(err)
		}
		defer cs.Close()
		gates, clients = append(gates, g), append(clients, cs)
	}
	if err := gates[0].Close(); err != nil {
		t.Fatal(err)
	}
	if err := clients[0].Ping(t.Context(), nil); err == nil {
		t.Error("the closed gate's session is still there")
	}
	if err := clients[1].Ping(t.Context(), nil); err != nil {
		t.Errorf("the other gate's session: %v", err)
	}
	if n := gates[1].countSessions(); n != 1 || len(gates[1].sessions) != 1 {
		t.Errorf("%d sessions, %d of the gate's own", n, len(gates[1].sessions))
	}
	if err := gates[1].Close(); err != nil {
		t.Fatal(err)
	}
	if n := gates[1].countSessions(); n != 0 || len(gates[1].sessions) != 0 {
		t.Errorf("%d sessions, %d of the gate's own, after the end", n, len(gates[1].sessions))
	}
}

// What a handler or a middleware refuses has the status that belongs to its
// code (mcp P10).
func TestRule_McpP10_StatusOfHandlersErrors(t *testing.T) {
	for code, want := range map[int64]int{
		mcp.CodeHeaderMismatch: 400, mcp.CodeMissingRequiredClientCapabilities: 400, mcp.CodeUnsupportedProtocolVersion: 400,
		jsonrpc.CodeInvalidParams: 400, jsonrpc.CodeMethodNotFound: 404, jsonrpc.CodeInternalError: 200, 1234: 200,
	} {
		if f := failure(&message{}, &jsonrpc.Error{Code: code}); f.status != want {
			t.Errorf("code %d: status %d, want %d", code, f.status, want)
		}
	}
	if f := failure(&message{}, errors.New("x")); f.status != 200 {
		t.Errorf("plain error: status %d", f.status)
	}
}
