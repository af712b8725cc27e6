package mcpgate

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/internal/strictjson"
)

// ask judges a result that may wait for the client's input (P15): its type, and
// the JSON of what it asks for. Whoever asks for what the client did not declare
// gets an error that names it (P10, S9), and a result that has only a state
// waits for input too.
func ask(needsInput bool, requests mcp.InputRequestMap, state string, empty bool, client *mcp.ClientCapabilities) (string, asks, error) {
	if requests == nil {
		if needsInput || state != "" && empty {
			return inputRequired, asks{}, nil
		}
		return complete, asks{}, nil
	}
	if missing := undeclared(requests, client); missing != nil {
		data, err := json.Marshal(map[string]any{"requiredCapabilities": missing})
		if err != nil {
			return "", asks{}, fmt.Errorf("encode required capabilities: %w", err)
		}
		return "", asks{}, &jsonrpc.Error{
			Code:    mcp.CodeMissingRequiredClientCapabilities,
			Message: "the server needs input that the client did not declare to give",
			Data:    data,
		}
	}
	text, err := json.Marshal(requests)
	return inputRequired, asks{text}, err
}

// undeclared gives what the requests need and the client did not declare, in the
// shape of client capabilities; nil for nothing.
func undeclared(requests mcp.InputRequestMap, client *mcp.ClientCapabilities) map[string]map[string]any {
	need := map[string]map[string]any{}
	require := func(capability, part string) {
		if need[capability] == nil {
			need[capability] = map[string]any{}
		}
		if part != "" {
			need[capability][part] = struct{}{}
		}
	}
	for _, request := range requests {
		switch p := request.(type) {
		case *mcp.ElicitParams:
			have := client.Elicitation
			byURL := p.Mode == "url" || p.Mode == "" && (p.URL != "" || p.ElicitationID != "")
			switch {
			case byURL && (have == nil || have.URL == nil):
				require("elicitation", "url")
			case !byURL && (have == nil || have.Form == nil && have.URL != nil): // an empty declaration means forms
				require("elicitation", "form")
			}
		case *mcp.CreateMessageParams:
			if client.Sampling == nil {
				require("sampling", "")
			}
		case *mcp.CreateMessageWithToolsParams:
			tools := len(p.Tools) > 0 || p.ToolChoice != nil
			switch {
			case tools && (client.Sampling == nil || client.Sampling.Tools == nil):
				require("sampling", "tools")
			case client.Sampling == nil:
				require("sampling", "")
			}
		case *mcp.ListRootsParams:
			if client.RootsV2 == nil {
				require("roots", "")
			}
		}
	}
	if len(need) == 0 {
		return nil
	}
	return need
}

// bindings gives the input properties of a tool that travel in headers too. The
// server is asked each time, so that a tool which is replaced is never judged by
// the old one's schema; it is asked below its middleware, as the SDK's handler
// does.
func (g *Gate) bindings(ctx context.Context, session *mcp.ServerSession, extra *mcp.RequestExtra, name string) ([]binding, error) {
	for cursor := ""; ; {
		result, err := g.base(ctx, "tools/list", &mcp.ListToolsRequest{
			Session: session, Params: &mcp.ListToolsParams{Cursor: cursor}, Extra: extra,
		})
		if err != nil {
			return nil, fmt.Errorf("look up tool: %w", err)
		}
		page := result.(*mcp.ListToolsResult)
		for _, tool := range page.Tools {
			if tool.Name == name {
				return g.bindingsOf(tool), nil
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			return nil, nil
		}
	}
}

// bindingsOf reads the annotations of a tool, once.
func (g *Gate) bindingsOf(tool *mcp.Tool) []binding {
	const most = 4096
	g.mu.Lock()
	known, ok := g.bound[tool]
	g.mu.Unlock()
	if ok {
		return known
	}
	var found []binding
	if schema, err := json.Marshal(tool.InputSchema); err == nil && strings.Contains(string(schema), "x-mcp-header") {
		if doc, err := strictjson.Parse(schema); err == nil {
			found = annotations(doc.Root(), nil, nil)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.bound) == most {
		clear(g.bound)
	}
	g.bound[tool] = found
	return found
}

// annotations collects the x-mcp-header annotations below the properties of a
// schema.
func annotations(schema strictjson.Value, path []string, found []binding) []binding {
	for name, property := range member(schema, "properties").Members() {
		below := append(path[:len(path):len(path)], string(name))
		if header := member(property, "x-mcp-header").Text(); header != "" {
			found = append(found, binding{below, paramPrefix + header})
		}
		found = annotations(property, below, found)
	}
	return found
}
