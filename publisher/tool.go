package publisher

import (
	"bytes"
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

// AddTool adds a tool to a server, as [mcp.AddTool] does and with the same
// handlers, but faults are an error at start, and every answer has a text that
// a person can read. A tool of the same name is replaced. t is copied.
//
// Input and output are Go values: structs or maps with string keys, or
// pointers to them. Their JSON Schemas are inferred unless t has its own; a
// field's `jsonschema` tag is its description, and one without omitempty or
// omitzero is required. In may be any, for a tool without input; Out may be
// any, for a tool that answers with a text alone.
//
// The handler gets input that fits the schema; other input is answered with a
// tool error that says what is wrong. What it returns becomes:
//
//   - the value: structuredContent, checked against the output schema;
//   - the result, which may be nil: content and _meta. It is copied, so one
//     value may serve many calls;
//   - an error: a tool error with the error's text, which the model reads and
//     may react to. So write it for the caller and keep internal detail out. An
//     error that is, or wraps, a *jsonrpc.Error fails the request instead.
//     Errors of [Ask] become questions to the user.
//
// Content without any text gets one in front (OB-53): the value's String method
// where it has one, else its members line by line, "name: value", nested ones
// indented, at most 8 KiB. [Text] gives your own, which is mostly better.
//
// The error joins every fault with what to do: a name outside
// [A-Za-z0-9_.-]{1,128}, an empty description, types or schemas that make no
// object, schemas of more than 64 KiB or 32 levels, with references to elsewhere
// or round in a circle, x-mcp-header annotations that hosts would drop, a view that is no
// ui:// address, an unknown visibility. Whether the view is there is looked at
// by [New], since it may be added later.
//
// Source: OpenBot App Protocol V1.1, OB-52 and OB-53; MCP 2026-07-28, tools.
func AddTool[In, Out any](s *mcp.Server, t *mcp.Tool, h mcp.ToolHandlerFor[In, Out]) error {
	if s == nil || t == nil || h == nil {
		return errors.New("add tool: server, tool and handler are required")
	}
	tool := *t
	tool.Meta = plainMeta(t.Meta)
	faults := checkTool(&tool)
	if uri, err := viewOf(&tool); err != nil {
		faults = append(faults, err)
	} else if uri != "" {
		faults = append(faults, checkViewURI(uri))
	}
	in, err := schemaOf[In](tool.InputSchema, true)
	if err != nil {
		faults = append(faults, fmt.Errorf("input: %w", err))
	}
	b := &boundTool[In, Out]{in: in, handle: h}
	if tool.OutputSchema != nil || reflect.TypeFor[Out]() != reflect.TypeFor[any]() {
		if b.out, err = schemaOf[Out](tool.OutputSchema, false); err != nil {
			faults = append(faults, fmt.Errorf("output: %w", err))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return within(fmt.Sprintf("add tool %q", t.Name), err)
	}
	tool.InputSchema = b.in.wire
	if b.out != nil {
		tool.OutputSchema = b.out.wire
	}
	return guard(fmt.Sprintf("add tool %q", t.Name), func() { s.AddTool(&tool, b.call) })
}

// Text is a result with one text and nothing else, for what a handler gives
// beside its value:
//
//	return publisher.Text("Free on Monday at 10:00."), out, nil
func Text(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// checkTool judges what can be judged of any tool by itself, also of one that
// was not added by AddTool.
func checkTool(t *mcp.Tool) (faults []error) {
	if !toolName.MatchString(t.Name) {
		faults = append(faults, errors.New("name it with letters, digits, '_', '.' and '-', at most 128"))
	}
	if strings.TrimSpace(t.Description) == "" {
		faults = append(faults, errors.New("has no description; say what it does"))
	}
	ui, _ := t.Meta["ui"].(map[string]any)
	if err := checkVisibility(ui["visibility"]); err != nil {
		faults = append(faults, err)
	}
	return append(faults, checkParamHeaders(t.InputSchema)...)
}

// plainMeta copies m with its ui member as JSON would give it back, whatever Go
// type it had.
func plainMeta(m mcp.Meta) mcp.Meta {
	m = maps.Clone(m)
	if ui, given := m["ui"]; given {
		var plain any
		if data, err := json.Marshal(ui); err == nil && json.Unmarshal(data, &plain) == nil {
			m["ui"] = plain
		}
	}
	return m
}

// checkVisibility judges _meta.ui.visibility (MCP Apps 2026-01-26). Absent is
// both; an empty list is nobody, which is odd but says what it means.
func checkVisibility(value any) error {
	list, ok := value.([]any)
	for _, w := range list {
		ok = ok && (w == "model" || w == "app")
	}
	if value != nil && !ok {
		return fmt.Errorf(`_meta.ui.visibility %v: list "model", "app" or both`, value)
	}
	return nil
}

// boundTool is a handler with the schemas of its types.
type boundTool[In, Out any] struct {
	in     *schema
	out    *schema // nil without an output schema
	handle mcp.ToolHandlerFor[In, Out]
}

func (b *boundTool[In, Out]) call(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in In
	if err := b.in.decode(r.Params.Arguments, &in); err != nil {
		return failed(fmt.Errorf("the arguments do not fit: %w", err)), nil
	}
	res, out, err := b.handle(ctx, r, in)
	if asked, ok := errors.AsType[*inputRequired](err); ok {
		return &mcp.CallToolResult{InputRequests: asked.requests, RequestState: asked.state}, nil
	}
	if protocol, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return nil, protocol
	}
	if err != nil {
		return failed(err), nil
	}
	return b.result(res, out)
}

// failed is a tool error (mcp P10).
func failed(err error) *mcp.CallToolResult {
	res := &mcp.CallToolResult{}
	if err.Error() == "" {
		res = Text("the tool failed and does not say why")
	}
	res.SetError(err)
	return res
}

// result makes the answer: always a value of its own, since the SDK writes to
// it after the handler has returned (mcp S12).
func (b *boundTool[In, Out]) result(given *mcp.CallToolResult, out Out) (*mcp.CallToolResult, error) {
	res := &mcp.CallToolResult{}
	if given != nil {
		*res = *given
		res.Meta = maps.Clone(given.Meta)
		res.Content = slices.Clone(given.Content)
	}
	if res.InputRequests != nil { // the handler's own question
		return res, nil
	}
	if res.IsError {
		if !hasText(res.Content) {
			res.Content = append(Text("the tool failed and does not say why").Content, res.Content...)
		}
		return res, nil
	}
	var value json.RawMessage
	if v := orElem(out); v != nil {
		var err error
		if value, err = json.Marshal(v); err != nil {
			return nil, internalError("encode the tool's output", err)
		}
		if b.out != nil {
			if value, err = b.out.check(value); err != nil {
				return nil, internalError("the tool's output does not fit its schema", err)
			}
		}
		res.StructuredContent = value
	} else if res.StructuredContent != nil {
		var err error
		if value, err = json.Marshal(res.StructuredContent); err != nil {
			return nil, internalError("encode the tool's output", err)
		}
	}
	if !hasText(res.Content) {
		res.Content = append(Text(describe(out, value)).Content, res.Content...)
	}
	return res, nil
}

// orElem gives out, and for a nil pointer the zero value of what it would
// point to: null is no object.
func orElem[T any](out T) any {
	v := reflect.ValueOf(&out).Elem()
	switch {
	case v.Kind() == reflect.Interface && v.IsNil():
		return nil
	case v.Kind() == reflect.Pointer && v.IsNil():
		return reflect.Zero(v.Type().Elem()).Interface()
	case v.Kind() == reflect.Map && v.IsNil():
		return struct{}{}
	}
	return out
}

func hasText(content []mcp.Content) bool {
	return slices.ContainsFunc(content, func(c mcp.Content) bool {
		t, ok := c.(*mcp.TextContent)
		return ok && strings.TrimSpace(t.Text) != ""
	})
}

func internalError(what string, err error) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: what + ": " + err.Error()}
}

// schema is one JSON Schema, ready to check values.
type schema struct {
	wire     json.RawMessage // encoded once: the SDK encodes what it lists again and again
	resolved *jsonschema.Resolved
	defaults bool // it has defaults, so checked values may differ from given ones
}

// schemaOf infers the schema of T unless one is given.
func schemaOf[T any](given any, input bool) (*schema, error) {
	t := reflect.TypeFor[T]()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var err error
	switch {
	case given == nil && input && t == reflect.TypeFor[any]():
		given = json.RawMessage(`{"type":"object"}`)
	case given == nil:
		if given, err = jsonschema.ForType(t, &jsonschema.ForOptions{}); err != nil {
			return nil, fmt.Errorf("no schema for %v: %w", t, err)
		}
	}
	s := &schema{}
	if s.wire, err = json.Marshal(given); err != nil {
		return nil, fmt.Errorf("encode the schema: %w", err)
	}
	if s.defaults, err = checkSchema(s.wire); err != nil {
		return nil, err
	}
	parsed := &jsonschema.Schema{}
	if err := json.Unmarshal(s.wire, parsed); err != nil {
		return nil, fmt.Errorf("the schema is no JSON Schema: %w", err)
	}
	if parsed.Type != "object" {
		return nil, fmt.Errorf("%v makes no object: use a struct, or a map with string keys; hosts pass objects, and older ones read nothing else", t)
	}
	if s.resolved, err = parsed.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true}); err != nil {
		return nil, fmt.Errorf("the schema does not resolve: %w", err)
	}
	return s, nil
}

// check validates data and fills in defaults; absent data is an empty object.
func (s *schema) check(data json.RawMessage) (json.RawMessage, error) {
	if len(data) == 0 || bytes.Equal(data, []byte("null")) {
		data = json.RawMessage(`{}`)
	}
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return nil, err
	}
	if s.defaults {
		if err := s.resolved.ApplyDefaults(&value); err != nil {
			return nil, err
		}
	}
	if err := s.resolved.Validate(value); err != nil {
		return nil, err
	}
	if !s.defaults {
		return data, nil
	}
	return json.Marshal(value)
}

// decode checks data and stores it. Members match in exact case and stand once,
// so that what was checked is what is stored.
func (s *schema) decode(data json.RawMessage, to any) error {
	data, err := s.check(data)
	if err != nil {
		return err
	}
	return strictjson.Unmarshal(data, to)
}

// within puts what was being done before each fault that err joins.
func within(what string, err error) error {
	list, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return fmt.Errorf("%s: %w", what, err)
	}
	var faults []error
	for _, e := range list.Unwrap() {
		faults = append(faults, within(what, e))
	}
	return errors.Join(faults...)
}

// guard makes an error of a panic in the SDK's registration, which refuses so
// what it cannot take.
func guard(what string, add func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: %v", what, p)
		}
	}()
	add()
	return nil
}
