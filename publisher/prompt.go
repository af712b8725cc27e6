package publisher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/internal/strictjson"
)

// AddPrompt adds a prompt to a server. One with the same name is replaced. p is
// copied.
//
// In is a struct whose fields are strings, struct{} for none: its fields are
// the prompt's arguments, described by their `jsonschema` tag, and required
// without omitempty or omitzero. p.Arguments stays empty. The handler returns
// the text of one message of the user, or a whole *mcp.GetPromptResult.
//
// A missing argument fails the request before the handler runs. So does an
// error of the handler: a *jsonrpc.Error as it is, any other as an internal
// error with its text. [Ask] works as it does in tools.
//
// The error joins every fault: no name, no description, another In.
//
// Source: MCP 2026-07-28, prompts.
func AddPrompt[In any, Out string | *mcp.GetPromptResult](s *mcp.Server, p *mcp.Prompt, h func(context.Context, *mcp.GetPromptRequest, In) (Out, error)) error {
	if s == nil || p == nil || h == nil {
		return errors.New("add prompt: server, prompt and handler are required")
	}
	prompt := *p
	prompt.Meta = maps.Clone(p.Meta)
	var faults []error
	if !toolName.MatchString(prompt.Name) {
		faults = append(faults, errors.New("name it with letters, digits, '_', '.' and '-', at most 128"))
	}
	if strings.TrimSpace(prompt.Description) == "" {
		faults = append(faults, errors.New("has no description; say what it is for"))
	}
	if len(prompt.Arguments) > 0 {
		faults = append(faults, errors.New("leave Arguments empty: they come from the type of the input"))
	}
	var err error
	if prompt.Arguments, err = argumentsOf[In](); err != nil {
		faults = append(faults, err)
	}
	what := fmt.Sprintf("add prompt %q", prompt.Name)
	if err := errors.Join(faults...); err != nil {
		return within(what, err)
	}
	required := prompt.Arguments
	return guard(what, func() {
		s.AddPrompt(&prompt, func(ctx context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			in, err := promptInput[In](required, r.Params.Arguments)
			if err != nil {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
			}
			out, err := h(ctx, r, in)
			if asked, ok := errors.AsType[*inputRequired](err); ok {
				return &mcp.GetPromptResult{InputRequests: asked.requests, RequestState: asked.state}, nil
			}
			if err != nil {
				return nil, requestError(err, nil)
			}
			return promptResult(any(out))
		})
	})
}

// argumentsOf gives the arguments that a struct of strings stands for.
func argumentsOf[In any]() ([]*mcp.PromptArgument, error) {
	t := reflect.TypeFor[In]()
	var s *jsonschema.Schema
	if t.Kind() == reflect.Struct {
		var err error
		if s, err = jsonschema.ForType(t, &jsonschema.ForOptions{}); err != nil {
			return nil, fmt.Errorf("input: no schema for %v: %w", t, err)
		}
	}
	if s == nil || s.Type != "object" {
		return nil, fmt.Errorf("input: %v is no struct of strings, which a prompt's arguments are", t)
	}
	var arguments []*mcp.PromptArgument
	for _, name := range s.PropertyOrder {
		field := s.Properties[name]
		if field.Type != "string" {
			return nil, fmt.Errorf("input: %q is no string; a prompt's arguments are", name)
		}
		arguments = append(arguments, &mcp.PromptArgument{
			Name: name, Description: field.Description, Required: slices.Contains(s.Required, name),
		})
	}
	return arguments, nil
}

func promptInput[In any](known []*mcp.PromptArgument, given map[string]string) (in In, err error) {
	use := map[string]string{}
	for _, a := range known {
		value, ok := given[a.Name]
		if !ok && a.Required {
			return in, fmt.Errorf("argument %q is missing", a.Name)
		}
		if ok {
			use[a.Name] = value
		}
	}
	data, err := json.Marshal(use)
	if err != nil {
		return in, err
	}
	return in, strictjson.Unmarshal(data, &in)
}

// promptResult makes the answer, always a value of its own (mcp S12).
func promptResult(out any) (*mcp.GetPromptResult, error) {
	if text, ok := out.(string); ok {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}}, nil
	}
	given, _ := out.(*mcp.GetPromptResult)
	if given == nil {
		return nil, internalError("get the prompt", errors.New("its handler gave nothing"))
	}
	res := *given
	res.Meta = maps.Clone(given.Meta)
	res.Messages = slices.Clone(given.Messages)
	return &res, nil
}
