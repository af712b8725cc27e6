package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/publisher"
)

// addQuestions adds tools that ask a client of an older revision while its call
// waits.
func (f *features) addQuestions() {
	type samplingIn struct {
		Prompt string `json:"prompt" jsonschema:"what to ask the model"`
	}
	f.must(publisher.AddTool(f.server, &mcp.Tool{Name: "test_sampling", Description: "Ask the client's model."}, func(ctx context.Context, r *mcp.CallToolRequest, in samplingIn) (*mcp.CallToolResult, any, error) {
		answer, err := r.Session.CreateMessage(ctx, question(in.Prompt)) //nolint:staticcheck // older revisions have it
		if err != nil {
			return nil, nil, err
		}
		return publisher.Text(fmt.Sprintf("The model said: %s", show(answer.Content))), nil, nil
	}))
	type elicitIn struct {
		Message string `json:"message" jsonschema:"what to show the user"`
	}
	type person struct {
		Username string `json:"username" jsonschema:"name of the user"`
		Email    string `json:"email" jsonschema:"address of the user"`
	}
	f.must(publisher.AddTool(f.server, &mcp.Tool{Name: "test_elicitation", Description: "Ask the user."}, func(ctx context.Context, r *mcp.CallToolRequest, in elicitIn) (*mcp.CallToolResult, any, error) {
		p, err := publisher.Ask[person](ctx, f.asker, r, "person", in.Message)
		if err != nil {
			return nil, nil, err
		}
		return publisher.Text(fmt.Sprintf("%s <%s>", p.Username, p.Email)), nil, nil
	}))
	elicit := func(ctx context.Context, r *mcp.CallToolRequest, message, schema string) (*mcp.CallToolResult, error) {
		answer, err := f.asker.Elicit(ctx, r, "form", &mcp.ElicitParams{Message: message, RequestedSchema: json.RawMessage(schema)})
		if err != nil {
			return nil, err
		}
		return publisher.Text(fmt.Sprintf("action %s, content %s", answer.Action, show(answer.Content))), nil
	}
	f.tool("test_elicitation_sep1034_defaults", "Ask the user with defaults.", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return elicit(ctx, r, "Check these values.", `{"type":"object","properties":{
			"name":{"type":"string","default":"John Doe"},
			"age":{"type":"integer","default":30},
			"score":{"type":"number","default":95.5},
			"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},
			"verified":{"type":"boolean","default":true}}}`)
	})
	f.tool("test_elicitation_sep1330_enums", "Ask the user to choose.", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return elicit(ctx, r, "Choose.", `{"type":"object","properties":{
			"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
			"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"One"},{"const":"value2","title":"Two"},{"const":"value3","title":"Three"}]},
			"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["One","Two","Three"]},
			"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},
			"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"One"},{"const":"value2","title":"Two"},{"const":"value3","title":"Three"}]}}}}`)
	})
}

func ask(message, field string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Mode: "form", Message: message, RequestedSchema: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%q:{"type":"string"}},"required":[%q]}`, field, field))}
}

func question(prompt string) *mcp.CreateMessageParams { //nolint:staticcheck // still in the revision
	return &mcp.CreateMessageParams{ //nolint:staticcheck // still in the revision
		Messages:  []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: prompt}}}, //nolint:staticcheck // still in the revision
		MaxTokens: 100,
	}
}

func roots() *mcp.ListRootsParams { return &mcp.ListRootsParams{} } //nolint:staticcheck // still in the revision

// hasModel reports whether the client offers one.
func hasModel(r *mcp.CallToolRequest) bool {
	c := r.ClientCapabilities()
	return c != nil && c.Sampling != nil //nolint:staticcheck // still in the revision
}

func show(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// addRounds adds tools that need the client's input and remember nothing
// between its calls (mcp P15): by Ask, which seals what the client keeps, and by
// the members of the result for what Ask has not.
func (f *features) addRounds() {
	type person struct {
		Name string `json:"name" jsonschema:"what people call you"`
	}
	type color struct {
		Color string `json:"color" jsonschema:"the one that you like"`
	}
	type consent struct {
		OK bool `json:"ok" jsonschema:"whether to go on"`
	}
	for _, name := range []string{"test_input_required_result_request_state", "test_input_required_result_tampered_state"} {
		f.tool(name, "Ask for a confirmation.", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if _, err := publisher.Ask[consent](ctx, f.asker, r, "confirm", "Please confirm."); err != nil {
				return nil, err
			}
			return publisher.Text("state-ok"), nil // the word that the suite looks for
		})
	}
	f.tool("test_input_required_result_multi_round", "Ask twice, one thing after the other.", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		p, err := publisher.Ask[person](ctx, f.asker, r, "step1", "What is your name?")
		if err != nil {
			return nil, err
		}
		c, err := publisher.Ask[color](ctx, f.asker, r, "step2", "Which color do you like?")
		if err != nil {
			return nil, err
		}
		return publisher.Text(p.Name + " likes " + c.Color), nil
	})
	f.tool("test_streaming_elicitation", "Ask for a name, then greet.", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		p, err := publisher.Ask[person](ctx, f.asker, r, "user_name", "What is your name?")
		if err != nil {
			return nil, err
		}
		return publisher.Text("Hello, " + p.Name + "!"), nil
	})
	f.must(publisher.AddPrompt(f.server, &mcp.Prompt{Name: "test_input_required_result_prompt", Description: "Ask for a context first."},
		func(ctx context.Context, r *mcp.GetPromptRequest, _ struct{}) (string, error) {
			type topic struct {
				Context string `json:"context" jsonschema:"what the prompt is about"`
			}
			in, err := publisher.Ask[topic](ctx, f.asker, r, "user_context", "Which context?")
			if err != nil {
				return "", err
			}
			return "In this context: " + in.Context, nil
		}))

	wants := func(name, description string, wanted func(r *mcp.CallToolRequest) mcp.InputRequestMap) {
		f.tool(name, description, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			open := wanted(r)
			for key, answer := range r.Params.InputResponses {
				if e, form := answer.(*mcp.ElicitResult); !form || e.Action != "accept" || e.Content["name"] != nil {
					delete(open, key)
				}
			}
			if len(open) == 0 {
				return publisher.Text("answered: " + show(r.Params.InputResponses)), nil
			}
			return &mcp.CallToolResult{InputRequests: open, RequestState: "nothing depends on it"}, nil
		})
	}
	const who = "What is your name?"
	wants("test_input_required_result_elicitation", "Ask for a name.", func(*mcp.CallToolRequest) mcp.InputRequestMap {
		return mcp.InputRequestMap{"user_name": ask(who, "name")}
	})
	wants("test_input_required_result_sampling", "Ask the client's model.", func(*mcp.CallToolRequest) mcp.InputRequestMap {
		return mcp.InputRequestMap{"capital_question": question("What is the capital of France?")}
	})
	wants("test_input_required_result_list_roots", "Ask for the client's roots.", func(*mcp.CallToolRequest) mcp.InputRequestMap {
		return mcp.InputRequestMap{"client_roots": roots()}
	})
	wants("test_input_required_result_multiple_inputs", "Ask for three things at once.", func(*mcp.CallToolRequest) mcp.InputRequestMap {
		return mcp.InputRequestMap{"user_name": ask(who, "name"), "greeting": question("Write a greeting."), "client_roots": roots()}
	})
	wants("test_input_required_result_capabilities", "Ask for what the client can give.", func(r *mcp.CallToolRequest) mcp.InputRequestMap {
		open := mcp.InputRequestMap{}
		if c := r.ClientCapabilities(); c != nil && c.Elicitation != nil {
			open["user_name"] = ask(who, "name")
		}
		if hasModel(r) {
			open["greeting"] = question("Write a greeting.")
		}
		return open
	})
	f.tool("test_missing_capability", "Work only with a client that has a model.", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if !hasModel(r) {
			return nil, &jsonrpc.Error{Code: mcp.CodeMissingRequiredClientCapabilities, Message: "this tool needs the capability sampling", Data: json.RawMessage(`{"requiredCapabilities":{"sampling":{}}}`)}
		}
		return publisher.Text("the client has a model"), nil
	})
}
