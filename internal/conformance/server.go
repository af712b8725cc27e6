package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/publisher"
)

// publicOrigin is where the apps of this program claim to be. They are served
// on loopback only, where nobody asks for that name.
const publicOrigin = "https://apps.example.com"

// endpoint is one app behind the publisher, on a loopback port of its own.
type endpoint struct {
	url       string
	server    *http.Server
	publisher *publisher.Publisher
	served    chan error
}

var appCard = card.Card{Name: "com.example/app", Title: "App", Version: "1.0.0", Description: "An app for tests."}

// publish serves one app through the publisher's whole handler.
func publish(ctx context.Context, app publisher.App) (*endpoint, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	app.Slug = "app"
	app.Card = appCard
	app.AllowedOrigins = []string{"http://" + l.Addr().String()}
	p, err := publisher.New(&publisher.Config{Origin: publicOrigin, Apps: []publisher.App{app}})
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	e := &endpoint{
		url:       "http://" + l.Addr().String() + "/mcp/app",
		server:    &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second},
		publisher: p,
		served:    make(chan error, 1),
	}
	go func() { e.served <- e.server.Serve(l) }()
	return e, nil
}

// published serves what the suite is run against.
func published(ctx context.Context) (*endpoint, error) {
	s, err := newServer()
	if err != nil {
		return nil, err
	}
	return publish(ctx, publisher.App{Server: s})
}

// close ends the app and waits for its server.
func (e *endpoint) close() error {
	err := errors.Join(e.publisher.Close(), e.server.Close())
	if served := <-e.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// features collects what the suite asks a server for, and what is wrong with it.
type features struct {
	server *mcp.Server
	asker  *publisher.Asker
	errs   []error
}

// newServer has what the official suite asks a server for, under the names that
// the suite looks for, written as an app in Go would be.
func newServer() (*mcp.Server, error) {
	s, err := publisher.NewServer(&appCard, &mcp.ServerOptions{
		Instructions:       "Each tool shows one part of the protocol.",
		Capabilities:       &mcp.ServerCapabilities{Logging: &mcp.LoggingCapabilities{}}, //nolint:staticcheck // older revisions have it
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		CompletionHandler: func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{r.Params.Argument.Value + "-1", r.Params.Argument.Value + "-2"}, Total: 2}}, nil
		},
	})
	if err != nil {
		return nil, err
	}
	f := &features{server: s}
	if f.asker, err = publisher.NewAsker(nil); err != nil {
		return nil, err
	}
	f.addContent()
	f.addProcesses()
	f.addQuestions()
	f.addRounds()
	f.addResources()
	f.addPrompts()
	f.addChanges()
	return s, errors.Join(f.errs...)
}

// must keeps a fault for the end.
func (f *features) must(err error) { f.errs = append(f.errs, err) }

// handler is a tool without arguments.
type handler func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error)

func (f *features) tool(name, description string, h handler) {
	f.must(publisher.AddTool(f.server, &mcp.Tool{Name: name, Description: description}, func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		res, err := h(ctx, r)
		return res, nil, err
	}))
}

// addChanges adds two tools that change the server's lists.
func (f *features) addChanges() {
	var mu sync.Mutex
	var extraTool, extraPrompt bool
	f.tool("test_trigger_tool_change", "Add a tool, or take it away again.", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		mu.Lock()
		defer mu.Unlock()
		if extraTool = !extraTool; !extraTool {
			f.server.RemoveTools("test_extra_tool")
			return publisher.Text("removed"), nil
		}
		return publisher.Text("added"), publisher.AddTool(f.server, &mcp.Tool{Name: "test_extra_tool", Description: "Come and go."},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				return publisher.Text("here"), nil, nil
			})
	})
	f.tool("test_trigger_prompt_change", "Add a prompt, or take it away again.", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		mu.Lock()
		defer mu.Unlock()
		if extraPrompt = !extraPrompt; !extraPrompt {
			f.server.RemovePrompts("test_extra_prompt")
			return publisher.Text("removed"), nil
		}
		return publisher.Text("added"), publisher.AddPrompt(f.server, &mcp.Prompt{Name: "test_extra_prompt", Description: "Come and go."},
			func(context.Context, *mcp.GetPromptRequest, struct{}) (string, error) { return "here", nil })
	})
}
