package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// upstreamVar makes the test binary run as an upstream instead of the tests.
const upstreamVar = "TEST_UPSTREAM"

func TestMain(m *testing.M) {
	switch mode := os.Getenv(upstreamVar); mode {
	case "":
		os.Exit(m.Run())
	case "sdk":
		if err := testServer().Run(context.Background(), &mcp.StdioTransport{}); err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintln(os.Stderr, err)
		}
	default:
		rawUpstream(mode)
	}
}

// testServer is an upstream with one of everything.
func testServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "com.example/everything", Version: "2.1.0", Title: "Everything"}, &mcp.ServerOptions{
		Instructions: "Use it for tests.",
		Capabilities: &mcp.ServerCapabilities{Logging: &mcp.LoggingCapabilities{}, Extensions: map[string]any{"com.example/x": map[string]any{"a": 1.0}}},
		CompletionHandler: func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{r.Params.Argument.Value + "!", r.Params.Ref.URI}}}, nil
		},
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	text := func(format string, args ...any) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
	}
	add := func(name, schema string, h mcp.ToolHandler) {
		s.AddTool(&mcp.Tool{Name: name, Description: "Does " + name + ".", InputSchema: json.RawMessage(schema)}, h)
	}
	const anything = `{"type":"object"}`
	add("echo", anything, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		meta, err := json.Marshal(r.Params.Meta)
		res := text("%s", meta)
		res.StructuredContent = r.Params.Arguments
		res.Meta = mcp.Meta{"com.example/back": "pong"}
		return res, err
	})
	add("progress", anything, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := range 3 {
			_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: 3, Message: "step",
			})
		}
		return text("done"), nil
	})
	add("log", anything, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for _, level := range []mcp.LoggingLevel{"debug", "warning"} {
			_ = r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: level, Logger: "t", Data: map[string]any{"level": level}})
		}
		return text("logged"), nil
	})
	add("ask", anything, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		res, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Who?", RequestedSchema: json.RawMessage(
			`{"type":"object","properties":{"name":{"type":"string"}}}`)})
		if err != nil {
			return nil, &jsonrpc.Error{Code: -31999, Message: "elicit: " + err.Error()}
		}
		return text("%s %v", res.Action, res.Content["name"]), nil
	})
	add("sample", anything, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		res, err := r.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 5, Messages: []*mcp.SamplingMessage{
			{Role: "user", Content: &mcp.TextContent{Text: "hi"}},
		}})
		if err != nil {
			return nil, err
		}
		return text("%s: %s", res.Model, res.Content.(*mcp.TextContent).Text), nil
	})
	add("roots", anything, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		res, err := r.Session.ListRoots(ctx, nil)
		if err != nil {
			return nil, &jsonrpc.Error{Code: -31999, Message: "roots: " + err.Error()}
		}
		return text("%d roots", len(res.Roots)), nil
	})
	add("environment", anything, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("%s", strings.Join(os.Environ(), "\n")), nil
	})
	add("fail", anything, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var in struct{ Text string }
		_ = json.Unmarshal(r.Params.Arguments, &in)
		return nil, &jsonrpc.Error{Code: -31000, Message: in.Text, Data: json.RawMessage(`{"why":"because"}`)}
	})
	add("slow", anything, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var in struct{ File string }
		_ = json.Unmarshal(r.Params.Arguments, &in)
		_ = os.WriteFile(in.File+".started", nil, 0o600)
		select {
		case <-ctx.Done():
			return text("stopped"), os.WriteFile(in.File, []byte("cancelled"), 0o600)
		case <-time.After(time.Minute):
			return text("too late"), nil
		}
	})
	add("die", anything, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	})
	add("pid", anything, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("%d", os.Getpid()), nil
	})
	add("add", anything, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		add("added", anything, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("new"), nil })
		return text("ok"), nil
	})
	add("touch", anything, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("ok"), s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: "test://a"})
	})
	add("region", `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`,
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			header := ""
			if r.Extra != nil {
				header = r.Extra.Header.Get("Mcp-Param-Region")
			}
			return text("%s", header), nil
		})
	s.AddResource(&mcp.Resource{URI: "test://a", Name: "a", MIMEType: "text/plain"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "A", MIMEType: "text/plain"}}}, nil
		})
	s.AddResource(&mcp.Resource{URI: "test://日程", Name: "plan"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "P"}}}, nil
		})
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "test://items/{id}", Name: "item"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "I"}}}, nil
		})
	s.AddPrompt(&mcp.Prompt{Name: "greet", Arguments: []*mcp.PromptArgument{{Name: "who"}}},
		func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "Hello " + r.Params.Arguments["who"]}}}}, nil
		})
	return s
}

// rawUpstream speaks by hand, so that it can do what no SDK does.
func rawUpstream(mode string) {
	if mode == "stubborn" {
		signal.Ignore(syscall.SIGTERM)
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := func(format string, args ...any) { fmt.Fprintf(os.Stdout, format+"\n", args...) }
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			if mode == "stubborn" {
				select {}
			}
			return
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Name            string
				Meta            json.RawMessage `json:"_meta"`
				ProtocolVersion string
				Arguments       json.RawMessage
			}
		}
		if json.Unmarshal(line, &m) != nil || m.ID == nil {
			continue
		}
		answer := func(result string) { out(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result) }
		switch m.Method {
		case "initialize":
			if mode == "modern" {
				out(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"old","data":{"supported":["2026-07-28"],"requested":"x"}}}`, m.ID)
				continue
			}
			if mode == "garbage" {
				out("Welcome to the server!")
				out(`{"jsonrpc":"2.0","id":`)
			}
			answer(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"resources":{}},"serverInfo":{"name":"raw","version":"1"}}`)
		case "server/discover":
			answer(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"public",` +
				`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"raw","version":"2"}}}`)
		case "tools/list":
			switch mode {
			case "odd":
				answer(`{"tools":[{"name":"读 文件","description":"Read.","inputSchema":{"type":"object"},"x-kept":[1,{"b":2}]},` +
					`{"name":"a b","inputSchema":{"type":"object"}},{"name":"a_b","title":"A B","description":" ","inputSchema":{}},` +
					`{"name":"view","description":"V.","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://界面","visibility":["app"]},"k":1}},` +
					`{"name":"hidden","description":"H.","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://hidden"}}}]}`)
			case "endless":
				answer(`{"tools":[{"name":"a","description":"A.","inputSchema":{"type":"object"}},{"name":"b","description":"B.","inputSchema":{"type":"object"}},` +
					`{"name":"c","description":"C.","inputSchema":{"type":"object"}}],"nextCursor":""}`)
			default:
				answer(`{"tools":[{"name":"t","description":"T.","inputSchema":{"type":"object"}}]}`)
			}
		case "resources/list":
			if mode == "odd" {
				answer(`{"resources":[{"uri":"ui://界面","name":"v"},{"uri":"file:///a b","name":"s"},{"uri":"file:///a%20b","name":"taken"}]}`)
				continue
			}
			answer(`{"resources":[]}`)
		case "resources/templates/list":
			if mode == "odd" {
				answer(`{"resourceTemplates":[{"uriTemplate":"x://日/{id}","name":"t"},{"uriTemplate":"x://{日}","name":"u"}]}`)
				continue
			}
			out(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
		case "resources/read":
			out(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32002,"message":"no such resource"}}`, m.ID)
		case "ping":
			if mode != "hung" {
				answer(`{}`)
			}
		case "tools/call":
			switch mode {
			case "hung":
				time.Sleep(time.Hour)
			case "flood":
				line := bytes.Repeat([]byte("x"), 100<<10)
				for range 2000 {
					_, _ = os.Stderr.Write(append(line, '\n'))
				}
				answer(`{"content":[]}`)
			case "big":
				out(`{"result":{"content":[{"type":"text","text":"%s"}]},"jsonrpc":"2.0","id":%s}`, strings.Repeat("x", 50<<20), m.ID)
			case "200k":
				answer(`{"content":[{"type":"text","text":"` + strings.Repeat("y", 200<<10) + `"}]}`)
			case "notobject":
				answer(`[1,2]`)
			case "pages":
				out(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"open","data":{"elicitations":[`+
					`{"mode":"url","message":"Sign in","url":"https://example.com/in","elicitationId":"e1"}]}}}`, m.ID)
			case "modern":
				answer(fmt.Sprintf(`{"resultType":"complete","content":[],"structuredContent":%s}`, m.Params.Meta))
			default:
				answer(fmt.Sprintf(`{"content":[{"type":"future","z":1.50,"a":"<&>"}],"x-new":{"k":[1]},"name":%q,"_meta":{"b":12345678901234567890}}`, m.Params.Name))
			}
		default:
			out(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
		}
	}
}
