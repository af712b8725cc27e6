package publishercmd

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// builtins are servers to try a publication with before there is a real one.
var builtins = map[string]func(name, version string) *mcp.Server{"echo": echoServer}

type echoIn struct {
	Text string `json:"text" jsonschema:"what to say back"`
}

type echoOut struct {
	Text string `json:"text"`
}

// echoServer has one tool that says back what it is told.
func echoServer(name, version string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: name, Version: version}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{},
		Instructions: "A server to try hosts with. It keeps nothing.",
	})
	mcp.AddTool(s, &mcp.Tool{
		Name: "echo", Description: "Say the given text back.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, func(_ context.Context, _ *mcp.CallToolRequest, in echoIn) (*mcp.CallToolResult, echoOut, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, echoOut(in), nil
	})
	return s
}
