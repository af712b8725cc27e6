package publisher_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/publisher"
)

// Whatever a client hands back as requestState: it is refused, or is no state
// and the question is asked. Nothing passes for an answer.
func FuzzRequestState(f *testing.F) {
	asker, err := publisher.NewAsker(nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"", "AAAA", "???", "eyJ4IjoxfQ", "gh3Zc3Q0Y1k2bT8wMTIzNDU2Nzg5YWJjZGVmZ2hpamtsbW5vcA"} {
		f.Add(seed, []byte(`{}`))
	}
	f.Add("", []byte(`{`))
	f.Add("", []byte(`{"a":1e999}`))
	f.Fuzz(func(t *testing.T, state string, args []byte) {
		r := &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{
			Name: "t", Arguments: args, RequestState: state,
			InputResponses: mcp.InputResponseMap{"sure": accept("sure", true)},
			Meta:           mcp.Meta{mcp.MetaKeyProtocolVersion: "2026-07-28", mcp.MetaKeyClientCapabilities: map[string]any{"elicitation": map[string]any{}}},
		}}
		answer, err := publisher.Ask[confirm](context.Background(), asker, r, "sure", "Sure?")
		var protocol *jsonrpc.Error
		if err == nil || answer.Sure || state != "" && json.Valid(args) && (!errors.As(err, &protocol) || protocol.Code != jsonrpc.CodeInvalidParams) {
			t.Errorf("answer %v, error %v", answer, err)
		}
	})
}

// Any JSON as a schema is taken or refused, and one that was taken serves calls.
func FuzzToolSchema(f *testing.F) {
	for _, seed := range []string{
		`{"type":"object"}`, `{}`, `null`, `[]`, `7`, `{"type":["object","null"]}`,
		`{"type":"object","properties":{"x":{"$ref":"#/$defs/y"}},"$defs":{"y":{"$ref":"#/$defs/y"}}}`,
		`{"type":"object","properties":{"x":{"type":"string","x-mcp-header":"X","default":"y"}}}`,
		`{"type":"object","items":[{"type":"string"}],"pattern":"("}`,
	} {
		f.Add([]byte(seed), []byte(`{"x":"y"}`))
	}
	f.Fuzz(func(t *testing.T, schema, args []byte) {
		if !json.Valid(schema) {
			return
		}
		s := mcp.NewServer(&mcp.Implementation{Name: "x", Version: "1"}, nil)
		tool := &mcp.Tool{Name: "t", Description: "T.", InputSchema: json.RawMessage(schema), OutputSchema: json.RawMessage(schema)}
		err := publisher.AddTool(s, tool, func(_ context.Context, _ *mcp.CallToolRequest, in map[string]any) (*mcp.CallToolResult, map[string]any, error) {
			return nil, in, nil
		})
		if err != nil {
			return
		}
		var handle mcp.MethodHandler
		s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler { handle = next; return next })
		_, far := mcp.NewInMemoryTransports()
		session, err := s.Connect(context.Background(), far, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		res, err := handle(context.Background(), "tools/call", &mcp.CallToolRequest{Session: session, Params: &mcp.CallToolParamsRaw{Name: "t", Arguments: args}})
		if err != nil {
			return // its output does not fit: defaults may do that
		}
		if got := res.(*mcp.CallToolResult); !got.IsError && (got.StructuredContent == nil || textOf(got) == "") {
			t.Errorf("schema %s, arguments %s: %s", schema, args, asJSON(t, got))
		}
	})
}
