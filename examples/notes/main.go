// Command notes is a small but complete app: tools that read, write, ask and
// report progress, resources, a prompt and a view, published with everything
// that hosts and crawlers need to find them. notes.go is the app; this file
// publishes it.
package main

import (
	"context"
	"errors"
	"log"
	"log/slog"
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

func newApp(logger *slog.Logger) (*publisher.Publisher, error) {
	c := card.Card{Name: "com.example/notes", Title: "Notes", Version: "1.0.0", Description: "Keep, find and delete short notes."}
	server, err := publisher.NewServer(&c, &mcp.ServerOptions{Logger: logger})
	if err != nil {
		return nil, err
	}
	asker, err := publisher.NewAsker(nil) // give Keys when several copies of the program run
	if err != nil {
		return nil, err
	}
	n := &notebooks{asker: asker, once: &publisher.MemoryStore{}, byUser: map[string]*notebook{}}
	if err := n.register(server); err != nil {
		return nil, err
	}
	return publisher.New(&publisher.Config{
		Origin: origin,
		Log:    logger,
		Apps:   []publisher.App{{Slug: "notes", Card: c, Server: server}},
	})
}

func main() {
	// The SDK logs each request at level info.
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if err := run(logger); err != nil {
		log.Fatal(err)
	}
}

// run serves plain HTTP on loopback, for a try or for a proxy that ends TLS.
func run(logger *slog.Logger) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	app, err := newApp(logger)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:8081")
	if err != nil {
		return err
	}
	log.Println("notes at http://127.0.0.1:8081/apps/notes")
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
