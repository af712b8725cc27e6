package mcpgate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// wideServer has something of everything that a handler may do.
func wideServer(opts *mcp.ServerOptions) *mcp.Server {
	if opts == nil {
		opts = &mcp.ServerOptions{}
	}
	opts.Instructions = "Use <all> of it."
	opts.PageSize = 5
	opts.CompletionHandler = func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
		return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{r.Params.Argument.Value + "!"}}}, nil
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "com.example/wide", Title: "Wide <one>", Version: "1.0.0"}, opts)
	raw := func(name string, h mcp.ToolHandler) {
		s.AddTool(&mcp.Tool{Name: name, Description: "Tool <" + name + ">.", InputSchema: json.RawMessage(`{"type":"object"}`)}, h)
	}
	text := func(format string, args ...any) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
	}
	raw("arguments", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("%s", r.Params.Arguments), nil
	})
	raw("seen", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		init := r.Session.InitializeParams()
		caps, _ := json.Marshal(init.Capabilities)
		own, _ := json.Marshal(r.ClientCapabilities())
		meta, _ := json.Marshal(r.Params.Meta)
		user := ""
		if r.Extra.TokenInfo != nil {
			user = r.Extra.TokenInfo.UserID
		}
		var name, ownName string
		if init.ClientInfo != nil {
			name = init.ClientInfo.Name
		}
		if r.ClientInfo() != nil {
			ownName = r.ClientInfo().Name
		}
		responses, _ := json.Marshal(r.Params.InputResponses)
		return text("%s|%s|%s|%s|%s|%s|%s|%q|%s|%v|%s|%s|%q|%T", init.ProtocolVersion, r.ProtocolVersion(), name, ownName, caps, own, meta, user,
			r.Extra.Header.Get("X-Own"), r.Params.GetProgressToken(), r.Params.RequestState, responses, r.Session.ID(), r.Extra.CloseSSEStream), nil
	})
	raw("structured", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Meta: mcp.Meta{"own": "<x>"}, StructuredContent: map[string]any{"a": []int{1, 2}, "b": nil}, IsError: true}, nil
	})
	raw("named", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Meta: mcp.Meta{mcp.MetaKeyServerInfo: map[string]any{"name": "upstream"}}}, nil
	})
	raw("empty", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{}, nil
	})
	raw("all-content", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		size := int64(3)
		return &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.TextContent{Text: "a", Meta: mcp.Meta{"k": 1}, Annotations: &mcp.Annotations{Priority: 0.5}},
			&mcp.ImageContent{Data: []byte{1, 2}, MIMEType: "image/png"}, &mcp.AudioContent{Data: []byte{3}, MIMEType: "audio/wav"},
			&mcp.ResourceLink{URI: "file:///x", Name: "x", Size: &size}, &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///y", Text: "y"}},
		}}, nil
	})
	raw("plain-error", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, errors.New("it did not work")
	})
	for code, name := range map[int64]string{-32602: "bad-params", -32601: "no-method", -32021: "no-capability", -32603: "internal", 42: "own-code"} {
		raw(name, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, &jsonrpc.Error{Code: code, Message: "refused", Data: json.RawMessage(`{"why":[1]}`)}
		})
		raw("wrapped-"+name, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, fmt.Errorf("deep: %w", &jsonrpc.Error{Code: code, Message: "refused", Data: json.RawMessage(`{"why":[1]}`)})
		})
	}
	raw("ask", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if a, ok := r.Params.InputResponses["name"].(*mcp.ElicitResult); ok {
			return text("%s %v %s", a.Action, a.Content["name"], r.Params.RequestState), nil
		}
		return &mcp.CallToolResult{RequestState: "s", InputRequests: mcp.InputRequestMap{
			"name": &mcp.ElicitParams{Message: "Who?", RequestedSchema: json.RawMessage(`{"type":"object"}`)},
		}}, nil
	})
	raw("ask-nothing", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{RequestState: "s", InputRequests: mcp.InputRequestMap{}}, nil
	})
	raw("ask-and-tell", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		res := text("x")
		res.InputRequests = mcp.InputRequestMap{}
		return res, nil
	})
	raw("to-client", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		_, elicit := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Who?"})
		_, roots := r.Session.ListRoots(ctx, nil)
		ping := r.Session.Ping(ctx, nil)
		return text("%v|%v|%v", elicit, roots, ping), nil
	})
	raw("notify", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		token := r.Params.GetProgressToken()
		progress := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1, Message: "<half>"})
		detached := r.Session.NotifyProgress(context.Background(), &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 2})
		debug := r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "debug", Data: "low"})
		warning := r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "warning", Data: map[string]any{"a": 1}})
		return text("%t %t %t %t", progress == nil, detached == nil, debug == nil, warning == nil), nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "typed", Description: "Typed."}, func(_ context.Context, _ *mcp.CallToolRequest, in echoIn) (*mcp.CallToolResult, echoOut, error) {
		if in.Count < 0 {
			return nil, echoOut{}, errors.New("count is below zero")
		}
		return nil, echoOut(in), nil
	})
	s.AddTool(&mcp.Tool{Name: "bound", Description: "Bound.", InputSchema: json.RawMessage(`{"type":"object","properties":{
		"city":{"type":"string","x-mcp-header":"City"},"deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"},"on":{"type":"boolean","x-mcp-header":"On"}}}}}`)},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text("%s", r.Params.Arguments), nil
		})

	s.AddPrompt(&mcp.Prompt{Name: "hello", Description: "Greets.", Arguments: []*mcp.PromptArgument{{Name: "who", Required: true}}},
		func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			if r.Params.Arguments["who"] == "nobody" {
				return &mcp.GetPromptResult{InputRequests: mcp.InputRequestMap{"n": &mcp.ElicitParams{Message: "Who?"}}}, nil
			}
			return &mcp.GetPromptResult{Description: "d", Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "Hello " + r.Params.Arguments["who"]}}}}, nil
		})
	read := func(text string) mcp.ResourceHandler {
		return func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{Text: text, Meta: mcp.Meta{"ui": map[string]any{"prefersBorder": true}}}, {URI: "x://b", Blob: []byte{0, 1}}}}, nil
		}
	}
	for i := range 7 {
		uri := fmt.Sprintf("note://%d", i)
		s.AddResource(&mcp.Resource{URI: uri, Name: fmt.Sprint("note ", i), MIMEType: "text/html"}, read(strings.Repeat("<p>\"é\u2028\" & ", 1+i*100)))
	}
	s.AddResource(&mcp.Resource{URI: "note://none", Name: "none"}, func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return nil, mcp.ResourceNotFoundError(r.Params.URI)
	})
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "day://{date}", Name: "day"}, read("a day"))
	return s
}

// exchange is what a client sees.
type exchange struct {
	Status int
	Header http.Header
	Body   []any // the JSON messages, those of an event stream in their order
}

// ask makes one request of revision 2026-07-28.
func exchangeWith(t *testing.T, h http.Handler, method, name, body string, header ...string) exchange {
	t.Helper()
	r := request1(method, name, body).WithContext(t.Context())
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		if value == "-" {
			r.Header.Del(name)
			continue
		}
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	out := exchange{Status: w.Code, Header: w.Header().Clone()}
	out.Header.Del("Content-Length") // of the same JSON in another spelling
	out.Header.Del("Connection")
	out.Header.Del("X-Content-Type-Options")
	for _, text := range jsonTexts(w.Header(), w.Body.Bytes()) {
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			v = string(text)
		}
		out.Body = append(out.Body, v)
	}
	return out
}

// jsonTexts splits an answer into its messages.
func jsonTexts(h http.Header, body []byte) [][]byte {
	if h.Get("Content-Type") != "text/event-stream" {
		return [][]byte{body}
	}
	var texts [][]byte
	for line := range bytes.SplitSeq(body, []byte("\n")) {
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			texts = append(texts, data)
		}
	}
	return texts
}

// withToken puts a verified token where the SDK's middleware would.
func withToken(h http.Handler) http.Handler {
	verify := func(context.Context, string, *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: "ada", Expiration: farFuture}, nil
	}
	return auth.RequireBearerToken(verify, nil)(h)
}
