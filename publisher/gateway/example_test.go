package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/publisher"
	"github.com/openbot-build/openbot-go/publisher/gateway"
)

// A server that exists already, here one over HTTP, is published with the name
// and version that it gives itself. A command takes Options.Command instead of
// Options.URL.
func Example() {
	existing := mcp.NewServer(&mcp.Implementation{Name: "com.example/weather", Version: "3.0.1", Title: "Weather"}, nil)
	existing.AddTool(&mcp.Tool{Name: "wetter heute", Description: "Today's weather.", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "Sunny."}}}, nil
		})
	upstream := httptest.NewServer(mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return existing }, &mcp.StreamableHTTPOptions{Stateless: true}))
	defer upstream.Close()

	g, err := gateway.New(context.Background(), &gateway.Options{
		URL:    upstream.URL,
		Header: http.Header{"Authorization": {"Bearer for-the-upstream-only"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer g.Close()
	for _, c := range g.Corrections() {
		fmt.Printf("%s %q is offered as %q: %s\n", c.Kind, c.From, c.To, c.Why)
	}

	info, _ := g.Info()
	p, err := publisher.New(&publisher.Config{
		Origin: "https://apps.example.com",
		Apps: []publisher.App{{
			Slug:   "weather",
			Card:   card.Card{Name: info.Name, Title: info.Title, Version: info.Version, Description: "The weather, anywhere."},
			Server: g.Server(),
			Modern: g.Modern(),
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	for _, f := range p.Files() {
		if f.Path == "/mcp/weather/server-card" {
			fmt.Println(f.Path)
		}
	}
	fmt.Println("ready:", g.Ready() == nil)
	// Output:
	// tool "wetter heute" is offered as "wetter_heute_85b54b9a": a tool's name has letters, digits, '_', '.' and '-' only, at most 128
	// /mcp/weather/server-card
	// ready: true
}
