// Command hello is the smallest app that publishes itself: one tool, one card,
// and everything that hosts and crawlers need to find them.
package main

import (
	"context"
	"log"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/publisher"
)

const origin = "https://apps.example.com" // your own: the card's address is the app's identity

type input struct {
	Name string `json:"name" jsonschema:"whom to greet"`
}

type output struct {
	Greeting string `json:"greeting"`
}

func hello(_ context.Context, _ *mcp.CallToolRequest, in input) (*mcp.CallToolResult, output, error) {
	out := output{Greeting: "Hello, " + in.Name}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: out.Greeting}}}, out, nil
}

func newApp() (*publisher.Publisher, error) {
	server := mcp.NewServer(&mcp.Implementation{Name: "com.example/hello", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "hello", Description: "Greet somebody by name."}, hello)
	return publisher.New(&publisher.Config{
		Origin: origin,
		Apps: []publisher.App{{
			Slug:           "hello",
			Card:           card.Card{Name: "com.example/hello", Version: "1.0.0", Description: "Say hello."},
			CardURL:        origin + "/mcp/server-card",
			CatalogURL:     origin + "/.well-known/ai-catalog.json",
			MCPURL:         origin + "/mcp",
			AllowedOrigins: []string{"https://host.example.com"},
			Server:         server,
		}},
	})
}

func main() {
	app, err := newApp()
	if err != nil {
		log.Fatal(err)
	}
	// Plain HTTP on loopback, for a try or for a proxy that ends TLS.
	s := &http.Server{Addr: "127.0.0.1:8080", Handler: app, ReadHeaderTimeout: 10 * time.Second}
	log.Println("hello at http://127.0.0.1:8080/apps/hello")
	log.Fatal(s.ListenAndServe())
}
