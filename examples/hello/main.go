// Command hello is the smallest app that publishes itself: one tool, one card,
// and everything that hosts and crawlers need to find them.
package main

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
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
			Slug:   "hello",
			Card:   card.Card{Name: "com.example/hello", Title: "Hello", Version: "1.0.0", Description: "Say hello."},
			MCPURL: "/mcp", // so the card, the app's identity, is at /mcp/server-card
			Server: server,
		}},
	})
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// run serves plain HTTP on loopback, for a try or for a proxy that ends TLS.
func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	app, err := newApp()
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:8080")
	if err != nil {
		return err
	}
	log.Println("hello at http://127.0.0.1:8080/apps/hello")
	server := &http.Server{Handler: app, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() {
		_ = app.Close()
		_ = server.Close()
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
