package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/publisher"
)

func decode(s string) []byte {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		panic(err) // a constant below
	}
	return b
}

// The smallest picture, one dot, and a sound of no length.
var (
	picture = decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
	sound   = decode("UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=")
)

func embedded(uri, mime, body string) mcp.Content {
	return &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: uri, MIMEType: mime, Text: body}}
}

// addContent adds a tool for each kind of content.
func (f *features) addContent() {
	give := func(name, description string, content func() []mcp.Content) {
		f.tool(name, description, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: content()}, nil // a fresh value: the SDK changes results
		})
	}
	give("test_simple_text", "Answer with text.", func() []mcp.Content { return []mcp.Content{&mcp.TextContent{Text: "A short text."}} })
	give("test_image_content", "Answer with a picture.", func() []mcp.Content {
		return []mcp.Content{&mcp.ImageContent{Data: picture, MIMEType: "image/png"}}
	})
	give("test_audio_content", "Answer with a sound.", func() []mcp.Content {
		return []mcp.Content{&mcp.AudioContent{Data: sound, MIMEType: "audio/wav"}}
	})
	give("test_embedded_resource", "Answer with a resource.", func() []mcp.Content {
		return []mcp.Content{embedded("test://embedded-resource", "text/plain", "The text of a resource.")}
	})
	give("test_multiple_content_types", "Answer with several kinds of content.", func() []mcp.Content {
		return []mcp.Content{
			&mcp.TextContent{Text: "Three kinds of content."},
			&mcp.ImageContent{Data: picture, MIMEType: "image/png"},
			embedded("test://mixed-content-resource", "application/json", `{"kind":"resource"}`),
		}
	})
	f.tool("test_error_handling", "Fail.", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, errors.New("this tool always fails")
	})
	f.must(publisher.AddTool(f.server, &mcp.Tool{Name: "json_schema_2020_12_tool", Description: "Take arguments under a schema with many keywords.", InputSchema: json.RawMessage(richSchema)},
		func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, any, error) {
			return publisher.Text("taken"), nil, nil
		}))
	f.must(publisher.AddTool(f.server, &mcp.Tool{Name: "test_x_mcp_header", Description: "Take an argument that clients repeat in a header.", InputSchema: json.RawMessage(headerSchema)},
		func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, any, error) {
			return publisher.Text("taken"), nil, nil
		}))
}

// richSchema has the keywords of JSON Schema 2020-12 that a server must not
// lose.
const richSchema = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
	"properties": {
		"name": {"type": "string"},
		"address": {"$ref": "#/$defs/address"},
		"contactMethod": {"type": "string", "enum": ["phone", "email"]},
		"phone": {"type": "string"},
		"email": {"type": "string"}
	},
	"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
	"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
	"then": {"required": ["phone"]},
	"else": {"required": ["email"]},
	"additionalProperties": false
}`

const headerSchema = `{
	"type": "object",
	"properties": {
		"region": {"type": "string", "x-mcp-header": "Region"},
		"priority": {"type": "integer", "x-mcp-header": "Priority"},
		"verbose": {"type": "boolean", "x-mcp-header": "Verbose"},
		"query": {"type": "string"}
	}
}`

// addProcesses adds tools that tell how far they are.
func (f *features) addProcesses() {
	f.tool("test_tool_with_progress", "Take a moment and report progress.", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		report := publisher.Progress(r)
		for i := range 3 {
			report(ctx, float64(50*i), 100, "") // at most ten a second are sent
			if err := pause(ctx, 120*time.Millisecond); err != nil {
				return nil, err
			}
		}
		return publisher.Text("finished"), nil
	})
	logging := func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for _, step := range []string{"started", "under way", "finished"} {
			if err := r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: step}); err != nil { //nolint:staticcheck // older revisions have it
				return nil, err
			}
			if err := pause(ctx, 30*time.Millisecond); err != nil {
				return nil, err
			}
		}
		return publisher.Text("finished"), nil
	}
	f.tool("test_tool_with_logging", "Take a moment and write log messages.", logging)
	f.tool("test_logging_tool", "Take a moment and write log messages.", logging)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// addResources adds the resources that the suite reads.
func (f *features) addResources() {
	f.must(publisher.AddResource(f.server, &mcp.Resource{URI: "test://static-text", Name: "text", Description: "A text that stays."},
		func(context.Context, *mcp.ReadResourceRequest) (string, error) {
			return "The same text each time.", nil
		}))
	f.must(publisher.AddResource(f.server, &mcp.Resource{URI: "test://static-binary", Name: "picture", Description: "A picture that stays.", MIMEType: "image/png"},
		func(context.Context, *mcp.ReadResourceRequest) ([]byte, error) { return picture, nil }))
	f.must(publisher.AddResource(f.server, &mcp.Resource{URI: "test://watched-resource", Name: "watched", Description: "A text to watch."},
		func(context.Context, *mcp.ReadResourceRequest) (string, error) { return "Watched.", nil }))
	f.must(publisher.AddResource(f.server, &mcp.Resource{URI: "test://template/{id}/data", Name: "template", Description: "Data for each id."},
		func(_ context.Context, r *mcp.ReadResourceRequest) (map[string]string, error) {
			return map[string]string{"id": strings.TrimSuffix(strings.TrimPrefix(r.Params.URI, "test://template/"), "/data")}, nil
		}))
}

// addPrompts adds the prompts that the suite gets.
func (f *features) addPrompts() {
	type none = struct{}
	f.must(publisher.AddPrompt(f.server, &mcp.Prompt{Name: "test_simple_prompt", Description: "Say one sentence."},
		func(context.Context, *mcp.GetPromptRequest, none) (string, error) { return "One sentence.", nil }))
	type two struct {
		First  string `json:"arg1" jsonschema:"the first"`
		Second string `json:"arg2" jsonschema:"the second"`
	}
	f.must(publisher.AddPrompt(f.server, &mcp.Prompt{Name: "test_prompt_with_arguments", Description: "Repeat both arguments."},
		func(_ context.Context, _ *mcp.GetPromptRequest, in two) (string, error) {
			return fmt.Sprintf("First %s, then %s.", in.First, in.Second), nil
		}))
	type address struct {
		URI string `json:"resourceUri" jsonschema:"address of the resource"`
	}
	messages := func(content mcp.Content, then string) *mcp.GetPromptResult {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: content}, {Role: "user", Content: &mcp.TextContent{Text: then}}}}
	}
	f.must(publisher.AddPrompt(f.server, &mcp.Prompt{Name: "test_prompt_with_embedded_resource", Description: "Show a resource."},
		func(_ context.Context, _ *mcp.GetPromptRequest, in address) (*mcp.GetPromptResult, error) {
			return messages(embedded(in.URI, "text/plain", "The text of a resource."), "Use the resource above."), nil
		}))
	f.must(publisher.AddPrompt(f.server, &mcp.Prompt{Name: "test_prompt_with_image", Description: "Show a picture."},
		func(context.Context, *mcp.GetPromptRequest, none) (*mcp.GetPromptResult, error) {
			return messages(&mcp.ImageContent{Data: picture, MIMEType: "image/png"}, "Look at the picture above."), nil
		}))
}
