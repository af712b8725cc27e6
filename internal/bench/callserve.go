package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/publisher"
	"github.com/openbot-build/openbot-go/publisher/gateway"
)

type echoText struct {
	Text string `json:"text" jsonschema:"a text"`
}

func echo(_ context.Context, _ *mcp.CallToolRequest, in echoText) (*mcp.CallToolResult, echoText, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, in, nil
}

func echoTool() *mcp.Tool { return &mcp.Tool{Name: "echo", Description: "Say a text again."} }

// echoServer has the tool as an app for the publisher is written.
func echoServer() (*mcp.Server, error) {
	c := exampleCard()
	s, err := publisher.NewServer(&c, nil)
	if err != nil {
		return nil, err
	}
	return s, publisher.AddTool(s, echoTool(), echo)
}

// plainServer has the same tool on the SDK alone.
func plainServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "com.example/echo", Version: "1.0.0"}, nil)
	mcp.AddTool(s, echoTool(), echo)
	return s
}

// published is the whole of a publisher with one app.
func published(app publisher.App) (http.Handler, error) {
	app.Slug, app.Card = "app", exampleCard()
	return publisher.New(&publisher.Config{Origin: "https://apps.example.com", Apps: []publisher.App{app}})
}

// serveCalls is a server process of calls.
func serveCalls(role string) error {
	var h http.Handler
	var err error
	switch role {
	case roleCallOurs:
		s, fault := echoServer()
		if fault != nil {
			return fault
		}
		h, err = published(publisher.App{Server: s})
	case roleCallMixed:
		h, err = published(publisher.App{Server: plainServer()})
	case roleCallBare:
		h = http.HandlerFunc(bareEcho)
	case roleCallSDK:
		s := plainServer()
		h = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	case roleCallGateway:
		var upstream string
		if err := json.NewDecoder(os.Stdin).Decode(&upstream); err != nil {
			return fmt.Errorf("read the upstream: %w", err)
		}
		g, fault := gateway.New(context.Background(), &gateway.Options{URL: upstream})
		if fault != nil {
			return fault
		}
		h, err = published(publisher.App{Server: g.Server(), Modern: g.Modern()})
	}
	if err != nil {
		return err
	}
	var w where
	if w.Addr, err = listen(h); err != nil {
		return err
	}
	w.Used, err = listen(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, cpuTime().String()) }))
	if err != nil {
		return err
	}
	return tell(w)
}

// listen serves h on a loopback port until the process ends.
func listen(h http.Handler) (addr string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	return l.Addr().String(), nil
}

// bareEcho is the least that any server does for a call: it decodes the body
// and encodes an answer of the same members.
func bareEcho(w http.ResponseWriter, r *http.Request) {
	var in map[string]any
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	params, _ := in["params"].(map[string]any)
	arguments, _ := params["arguments"].(map[string]any)
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": in["id"], "result": map[string]any{
		"resultType":        "complete",
		"content":           []any{map[string]any{"type": "text", "text": arguments["text"]}},
		"structuredContent": map[string]any{"text": arguments["text"]},
		"_meta":             map[string]any{"io.modelcontextprotocol/serverInfo": map[string]any{"name": "com.example/echo", "version": "1.0.0"}},
	}})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}
