package publisher_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/publisher"
)

// OB-51 to OB-53: the SDK's client discovers, lists, calls and reads through
// the publisher; every tool answers with text and structured content.
func TestRule_OB53_ToolsOverTheEndpoint(t *testing.T) {
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			runs := 0
			cfg := twoApps()
			cfg.Apps[0].Server = newServer(&runs)
			p := mustNew(t, cfg)
			srv := httptest.NewTLSServer(p)
			defer srv.Close()
			defer p.Close()

			ctx := t.Context()
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
			cs, err := client.Connect(ctx, &mcp.StreamableClientTransport{
				Endpoint: srv.URL + "/mcp/calendar", HTTPClient: srv.Client(), DisableStandaloneSSE: true, MaxRetries: -1,
			}, &mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			defer cs.Close()
			if got := cs.InitializeResult().ProtocolVersion; got != version {
				t.Errorf("speaks %s", got)
			}
			if got := cs.InitializeResult().ServerInfo.Name; got != "com.example/calendar" {
				t.Errorf("server %q", got)
			}

			tools, err := cs.ListTools(ctx, nil)
			if err != nil || len(tools.Tools) != 1 {
				t.Fatalf("tools %v, error %v", tools, err)
			}
			tool := tools.Tools[0]
			if tool.Name != "plan_week" || tool.Description == "" || tool.InputSchema == nil || tool.OutputSchema == nil {
				t.Errorf("tool %+v", tool)
			}
			res, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: "plan_week", Arguments: map[string]any{"week": "2026-W48"}})
			if err != nil || res.IsError {
				t.Fatalf("call: %+v, %v", res, err)
			}
			if len(res.Content) == 0 || !strings.Contains(res.Content[0].(*mcp.TextContent).Text, "2026-W48") {
				t.Error("no clear text")
			}
			if res.StructuredContent == nil {
				t.Error("no structured content")
			}
			bad, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: "plan_week", Arguments: map[string]any{"week": 7}})
			if err != nil || !bad.IsError {
				t.Errorf("bad input: %+v, %v", bad, err)
			}

			resources, err := cs.ListResources(ctx, nil)
			if err != nil || len(resources.Resources) != 1 {
				t.Fatalf("resources %v, error %v", resources, err)
			}
			read, err := cs.ReadResource(ctx, &mcp.ReadResourceParams{URI: "calendar://today"})
			if err != nil || read.Contents[0].Text != "nothing" {
				t.Errorf("read %v, error %v", read, err)
			}
			prompts, err := cs.ListPrompts(ctx, nil)
			if err != nil || len(prompts.Prompts) != 1 {
				t.Fatalf("prompts %v, error %v", prompts, err)
			}
			prompt, err := cs.GetPrompt(ctx, &mcp.GetPromptParams{Name: "agenda"})
			if err != nil || len(prompt.Messages) != 1 {
				t.Errorf("prompt %v, error %v", prompt, err)
			}
			if runs != 3 {
				t.Errorf("%d runs, want 3", runs)
			}
		})
	}
}

// An app behind sign-in can say that what it answers is one user's own.
func TestRule_McpS11_PrivateApp(t *testing.T) {
	for _, private := range []bool{false, true} {
		runs := 0
		cfg := twoApps()
		cfg.Apps[0].Server, cfg.Apps[0].Private = newServer(&runs), private
		p := mustNew(t, cfg)
		defer p.Close()
		r := httptest.NewRequestWithContext(t.Context(), "POST", "https://apps.example.com/mcp/calendar", strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list",
		} {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		if got := strings.Contains(w.Body.String(), `"cacheScope":"private"`); w.Code != 200 || got != private {
			t.Errorf("private %v: status %d, %s", private, w.Code, w.Body)
		}
	}
	cfg := twoApps()
	cfg.Apps[0].MaxBody, cfg.Apps[0].MaxListens = -1, -1
	if _, err := publisher.New(cfg); err == nil || !strings.Contains(err.Error(), "MaxBody") || !strings.Contains(err.Error(), "MaxListens") {
		t.Errorf("error %v", err)
	}
}
