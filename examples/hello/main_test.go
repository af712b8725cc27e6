package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/card"
)

// The app is found, and its tool answers.
func TestHello(t *testing.T) {
	app, err := newApp()
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close()
	srv := httptest.NewServer(app)
	defer srv.Close()

	res, err := srv.Client().Get(srv.URL + "/mcp/server-card")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	c, err := card.Parse(body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v", res.StatusCode, err)
	}
	if remote, _, err := c.Usable(); err != nil || remote.URL != origin+"/mcp" {
		t.Errorf("remote %+v, %v", remote, err)
	}

	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: srv.URL + "/mcp", HTTPClient: srv.Client(), DisableStandaloneSSE: true, MaxRetries: -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: card.ProtocolVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	got, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "hello", Arguments: map[string]any{"name": "Ada"}})
	if err != nil {
		t.Fatal(err)
	}
	if text := got.Content[0].(*mcp.TextContent).Text; text != "Hello, Ada" {
		t.Errorf("text %q", text)
	}
	if s, _ := got.StructuredContent.(map[string]any); s["greeting"] != "Hello, Ada" {
		t.Errorf("structured content %v", got.StructuredContent)
	}
}

// The call that the README prints works as printed.
func TestREADME(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(readme), "--data '")
	body, _, ok2 := strings.Cut(rest, "'")
	if !ok || !ok2 {
		t.Fatal("README.md has no call")
	}
	app, err := newApp()
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(body))
	for line := range strings.Lines(string(readme)) {
		if _, header, ok := strings.Cut(line, "-H '"); ok {
			name, value, _ := strings.Cut(header[:strings.Index(header, "'")], ": ")
			r.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	app.ServeHTTP(w, r)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"greeting":"Hello, Ada"`) {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}
