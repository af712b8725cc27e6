package publisher_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/publisher"
)

func asError[T error](err error, to *T) bool { return errors.As(err, to) }

// newTestLog is a log and what was written to it.
func newTestLog() (*slog.Logger, func() string) {
	var w lockedBuffer
	return slog.New(slog.NewTextHandler(&w, nil)), w.String
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

type slot struct {
	Day   string   `json:"day"`
	Hours []int    `json:"hours"`
	Note  *string  `json:"note,omitempty"`
	Busy  bool     `json:"busy"`
	Tags  []string `json:"tags,omitempty"`
}

type week struct {
	Week  string `json:"week"`
	Slots []slot `json:"slots"`
	Empty []slot `json:"empty"`
}

// spoken has a text of its own.
type spoken struct {
	Count int `json:"count"`
}

func (s *spoken) String() string { return fmt.Sprintf("%d slots are free.", s.Count) }

var someWeek = week{Week: "2026-W48", Slots: []slot{{Day: "Mon", Hours: []int{9, 10}}, {Day: "Tue", Hours: []int{}, Busy: true}}, Empty: []slot{}}

// OB-53: text always, and structured content where the tool has a value.
func TestRule_OB53_TextBesideEveryValue(t *testing.T) {
	picture := &mcp.ImageContent{Data: []byte("PNG"), MIMEType: "image/png"}
	add := func(t *testing.T, s *mcp.Server) {
		addTool(t, s, "own", func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, week, error) {
			return publisher.Text("Free on Monday."), someWeek, nil
		})
		addTool(t, s, "made", func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, week, error) {
			return nil, someWeek, nil
		})
		addTool(t, s, "stringer", func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, spoken, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: " "}}}, spoken{3}, nil
		})
		addTool(t, s, "nilpointer", func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, *spoken, error) {
			return nil, nil, nil
		})
		addTool(t, s, "nilmap", func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, map[string]int, error) {
			return nil, nil, nil
		})
		addTool(t, s, "picture", func(context.Context, *mcp.CallToolRequest, any) (*mcp.CallToolResult, spoken, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{picture}}, spoken{2}, nil
		})
		addTool(t, s, "nothing", func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return nil, nil, nil
		})
		addTool(t, s, "large", func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, map[string]string, error) {
			return nil, map[string]string{"text": strings.Repeat("ä", 1<<16)}, nil
		})
	}
	outline := strings.TrimPrefix(`
week: 2026-W48
slots:
  -
    day: Mon
    hours:
      - 9
      - 10
    busy: no
  -
    day: Tue
    hours: none
    busy: yes
empty: none`, "\n")
	eachEra(t, add, func(t *testing.T, app *testApp) {
		cs := app.connect("", nil)
		for name, want := range map[string]struct{ text, value string }{
			"own":        {"Free on Monday.", asJSON(t, someWeek)},
			"made":       {outline, asJSON(t, someWeek)},
			"stringer":   {"3 slots are free.\n--\n ", `{"count":3}`},
			"nilpointer": {"count: 0", `{"count":0}`},
			"nilmap":     {"Done.", `{}`},
			"picture":    {"2 slots are free.", `{"count":2}`},
			"nothing":    {"Done.", `null`},
		} {
			res := call(t, cs, name, nil)
			if d := cmp.Diff(want.text, textOf(res)); d != "" || res.IsError {
				t.Errorf("%s: error %v, text (-want +got):\n%s", name, res.IsError, d)
			}
			if got := asJSON(t, res.StructuredContent); !sameJSON(t, got, want.value) {
				t.Errorf("%s: value %s, want %s", name, got, want.value)
			}
		}
		if got := call(t, cs, "picture", nil).Content; len(got) != 2 {
			t.Errorf("picture: %s", asJSON(t, got))
		}
		if got := textOf(call(t, cs, "large", nil)); len(got) > 9<<10 || !strings.Contains(got, "more in the structured content") || strings.ContainsRune(got, '\uFFFD') {
			t.Errorf("large: %d bytes, ends in %q", len(got), got[len(got)-60:])
		}
		for tool, err := range cs.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if input := asJSON(t, tool.InputSchema); !strings.Contains(input, `"type":"object"`) {
				t.Errorf("%s: input schema %s", tool.Name, input)
			}
			if (tool.OutputSchema == nil) != (tool.Name == "nothing") {
				t.Errorf("%s: output schema %s", tool.Name, asJSON(t, tool.OutputSchema))
			}
		}
	})
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	norm := func(s string) string {
		var v any
		if err := json.Unmarshal([]byte(s), &v); err != nil {
			t.Fatal(err)
		}
		return asJSON(t, v)
	}
	return norm(a) == norm(b)
}

type echoIn struct {
	Name  string `json:"name" jsonschema:"whom"`
	Times int64  `json:"times,omitempty"`
}

// OB-52, mcp P10: what the caller did wrong and what failed are tool errors
// with a text; protocol errors stay what they are.
func TestRule_OB52_ErrorsAreMCPs(t *testing.T) {
	ran := 0
	add := func(t *testing.T, s *mcp.Server) {
		addTool(t, s, "echo", func(_ context.Context, _ *mcp.CallToolRequest, in echoIn) (*mcp.CallToolResult, echoIn, error) {
			ran++
			return nil, in, nil
		})
		addTool(t, s, "fails", func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, echoIn, error) {
			return publisher.Text("unused"), echoIn{}, fmt.Errorf("find the calendar: %w", errors.New("no such calendar"))
		})
		addTool(t, s, "silent", func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, echoIn, error) {
			return nil, echoIn{}, errors.New("")
		})
		addTool(t, s, "marked", func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, echoIn, error) {
			return &mcp.CallToolResult{IsError: true}, echoIn{}, nil
		})
		addTool(t, s, "protocol", func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, echoIn, error) {
			return nil, echoIn{}, fmt.Errorf("wrapped: %w", &jsonrpc.Error{Code: 4711, Message: "of our own"})
		})
		if err := publisher.AddTool(s, &mcp.Tool{Name: "misfit", Description: "M.", OutputSchema: map[string]any{"type": "object", "required": []string{"x"}}},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, map[string]any, error) {
				return nil, map[string]any{}, nil
			}); err != nil {
			t.Fatal(err)
		}
	}
	eachEra(t, add, func(t *testing.T, app *testApp) {
		cs := app.connect("", nil)
		ran = 0
		for _, args := range []map[string]any{
			{}, {"name": 7}, {"Name": "Ada"}, {"name": "Ada", "NAME": "Bob"}, {"name": "Ada", "more": 1},
		} {
			res := call(t, cs, "echo", args)
			if !res.IsError || !strings.HasPrefix(textOf(res), "the arguments do not fit: ") {
				t.Errorf("%v: %s", args, asJSON(t, res))
			}
		}
		if ran != 0 {
			t.Errorf("ran %d times", ran)
		}
		if got := call(t, cs, "echo", map[string]any{"name": "Ada", "times": int64(1)<<60 + 1}); !strings.Contains(textOf(got), "times: 1152921504606846977") {
			t.Errorf("a large number: %s", textOf(got))
		}
		for name, want := range map[string]string{
			"fails":  "find the calendar: no such calendar",
			"silent": "the tool failed and does not say why",
			"marked": "the tool failed and does not say why",
		} {
			res := call(t, cs, name, nil)
			if !res.IsError || textOf(res) != want || res.StructuredContent != nil {
				t.Errorf("%s: %s", name, asJSON(t, res))
			}
		}
		_, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "protocol"})
		wantCode(t, err, 4711, "of our own")
		_, err = cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "misfit"})
		wantCode(t, err, jsonrpc.CodeInternalError, "does not fit its schema")
	})
}

// mcp S12: the SDK writes to results, so a handler's own value is not it.
func TestRule_McpS12_FreshResults(t *testing.T) {
	shared := &mcp.CallToolResult{Meta: mcp.Meta{"com.example/x": 1}, Content: []mcp.Content{&mcp.ImageContent{Data: []byte("PNG"), MIMEType: "image/png"}}}
	read := &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{Text: "x"}}}
	got := &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "x"}}}}
	add := func(t *testing.T, s *mcp.Server) {
		addTool(t, s, "shared", func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, spoken, error) {
			return shared, spoken{1}, nil
		})
		if err := publisher.AddResource(s, &mcp.Resource{URI: "notes://x", Name: "x", Description: "X.", MIMEType: "text/x"},
			func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) { return read, nil }); err != nil {
			t.Fatal(err)
		}
		if err := publisher.AddPrompt(s, &mcp.Prompt{Name: "p", Description: "P."},
			func(context.Context, *mcp.GetPromptRequest, struct{}) (*mcp.GetPromptResult, error) { return got, nil }); err != nil {
			t.Fatal(err)
		}
	}
	eachEra(t, add, func(t *testing.T, app *testApp) {
		var wg sync.WaitGroup
		for range 8 {
			cs := app.connect("", nil)
			wg.Go(func() {
				for range 5 {
					res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "shared"})
					if err != nil || len(res.Content) != 2 {
						t.Errorf("%v, %v", res, err)
					}
					if _, err := cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "notes://x"}); err != nil {
						t.Error(err)
					}
					if _, err := cs.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "p"}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	})
	if len(shared.Content) != 1 || shared.StructuredContent != nil || len(shared.Meta) != 1 || read.Contents[0].URI != "" || len(read.Meta)+len(got.Meta) > 0 {
		t.Errorf("the handlers' values changed: %s, %s", asJSON(t, shared), asJSON(t, read))
	}
}

// A tool's own schemas, and their defaults.
func TestToolSchemas(t *testing.T) {
	in, err := jsonschema.For[echoIn](nil)
	if err != nil {
		t.Fatal(err)
	}
	in.Properties["times"].Default = []byte(`2`)
	in.Properties["name"].Extra = map[string]any{"x-mcp-header": "Whom"}
	tool := &mcp.Tool{Name: "echo", Description: "Echo.", InputSchema: in, Meta: mcp.Meta{"com.example/x": true}}
	eachEra(t, func(t *testing.T, s *mcp.Server) {
		if err := publisher.AddTool(s, tool, func(_ context.Context, _ *mcp.CallToolRequest, in *echoIn) (*mcp.CallToolResult, echoIn, error) {
			return nil, *in, nil
		}); err != nil {
			t.Fatal(err)
		}
	}, func(t *testing.T, app *testApp) {
		cs := app.connect("", nil)
		list, err := cs.ListTools(t.Context(), nil) // the client sends Mcp-Param-Whom from here on
		if err != nil || !strings.Contains(asJSON(t, list.Tools[0].InputSchema), `"x-mcp-header":"Whom"`) {
			t.Fatalf("%s, %v", asJSON(t, list), err)
		}
		if got := asJSON(t, call(t, cs, "echo", map[string]any{"name": "Ada"}).StructuredContent); !sameJSON(t, got, `{"name":"Ada","times":2}`) {
			t.Errorf("got %s", got)
		}
	})
	if tool.OutputSchema != nil || tool.InputSchema != any(in) {
		t.Error("the tool was changed")
	}
}

// mcp P16: lists come in a stable order.
func TestRule_McpP16_StableOrder(t *testing.T) {
	app := newTestApp(t, func(t *testing.T, s *mcp.Server) {
		for _, name := range []string{"c", "a", "b"} {
			addTool(t, s, name, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				return nil, nil, nil
			})
		}
	})
	cs := app.connect("", nil)
	for range 3 {
		list, err := cs.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
		}
		if !slices.IsSorted(names) || len(names) != 3 {
			t.Errorf("order %v", names)
		}
	}
}

// deep nests n arrays.
func deep(n int) map[string]any {
	s := map[string]any{"type": "string"}
	for range n {
		s = map[string]any{"type": "array", "items": s}
	}
	return map[string]any{"type": "object", "properties": map[string]any{"x": s}}
}

func property(s map[string]any) map[string]any {
	return map[string]any{"type": "object", "properties": map[string]any{"x": s}}
}

// testRegistration: what hosts could not use is refused with what to do, and
// nothing panics (mcp section 4).
func testRegistration(t *testing.T, only string) {
	type m = map[string]any
	header := func(name any, kind string) m { return m{"type": kind, "x-mcp-header": name} }
	tests := []struct {
		rule string
		tool mcp.Tool
		want string // of the error; "" is none
	}{
		{"", mcp.Tool{}, ""},
		{"", mcp.Tool{Name: "plan week"}, "name it with letters, digits"},
		{"", mcp.Tool{Name: strings.Repeat("x", 129)}, "at most 128"},
		{"", mcp.Tool{Name: "日程"}, "name it with letters"},
		{"", mcp.Tool{Description: " \n"}, "has no description; say what it does"},
		{"", mcp.Tool{InputSchema: m{"type": "array"}}, "input: "},
		{"", mcp.Tool{InputSchema: make(chan int)}, "input: encode the schema"},
		{"", mcp.Tool{InputSchema: m{"type": 7}}, "input: the schema is no JSON Schema"},
		{"", mcp.Tool{OutputSchema: m{"type": "object", "$ref": "#/$defs/none"}}, "output: the schema does not resolve"},

		{"P16", mcp.Tool{InputSchema: deep(20)}, ""},
		{"P16", mcp.Tool{InputSchema: deep(40)}, "input: the schema is nested deeper than 32 levels"},
		{"P16", mcp.Tool{OutputSchema: m{"type": "object", "description": strings.Repeat("x", 1<<16)}}, "output: the schema has 65570 bytes; 65536 are the limit"},
		{"P16", mcp.Tool{InputSchema: property(m{"$ref": "https://example.com/s.json"})}, `/properties/x/$ref: "https://example.com/s.json" is elsewhere`},
		{"P16", mcp.Tool{InputSchema: m{"type": "object", "properties": m{"x": m{"$ref": "#/$defs/y"}}, "$defs": m{"y": m{"type": "string"}}}}, ""},

		// References may lead into the value, and not around it.
		{"P16", mcp.Tool{InputSchema: property(m{"$ref": "#"})}, ""},
		{"P16", mcp.Tool{InputSchema: m{"type": "object", "properties": m{"x": m{"$ref": "#/$defs/y"}}, "$defs": m{"y": m{"items": m{"$ref": "#/$defs/y"}}}}}, ""},
		{"P16", mcp.Tool{InputSchema: m{"type": "object", "$ref": "#"}}, "leads back to itself"},
		{"P16", mcp.Tool{InputSchema: m{"type": "object", "properties": m{"x": m{"$ref": "#/$defs/y"}}, "$defs": m{"y": m{"$ref": "#/$defs/y"}}}}, "input: /$defs/y: this reference leads back to itself"},
		{"P16", mcp.Tool{InputSchema: m{"type": "object", "allOf": []any{m{"not": m{"$ref": "#"}}}}}, "leads back to itself"},
		{"P16", mcp.Tool{InputSchema: m{"type": "object", "$defs": m{"a/b": m{"anyOf": []any{m{"$ref": "#c"}}}, "d": m{"$anchor": "c", "$ref": "#/$defs/a~1b"}}}}, "leads back to itself"},
		{"P16", mcp.Tool{InputSchema: m{"type": "object", "$defs": m{"a b": m{"if": m{"$ref": "#/$defs/a%20b"}}}}}, "leads back to itself"},
		{"P16", mcp.Tool{InputSchema: m{"type": "object", "$dynamicAnchor": "n", "dependentSchemas": m{"x": m{"$dynamicRef": "#n"}}}}, "leads back to itself"},
		{"P16", mcp.Tool{InputSchema: property(m{"$id": "https://example.com/x", "type": "string"})}, "/properties/x/$id"},

		{"P7", mcp.Tool{InputSchema: property(header("Region", "string"))}, ""},
		{"P7", mcp.Tool{InputSchema: property(property(header("Region", "integer")))}, ""},
		{"P7", mcp.Tool{InputSchema: property(m{"type": "string", "examples": []any{m{"x-mcp-header": 1}}})}, ""},
		{"P7", mcp.Tool{InputSchema: property(header("Region", "number"))}, "/properties/x/x-mcp-header: only a string, integer or boolean"},
		{"P7", mcp.Tool{InputSchema: property(header("Region", "object"))}, "only a string, integer or boolean"},
		{"P7", mcp.Tool{InputSchema: property(header("", "string"))}, "is no header name"},
		{"P7", mcp.Tool{InputSchema: property(header("a b", "string"))}, "is no header name"},
		{"P7", mcp.Tool{InputSchema: property(header("Größe", "string"))}, "is no header name"},
		{"P7", mcp.Tool{InputSchema: property(header(7, "string"))}, "7 is no header name"},
		{"P7", mcp.Tool{InputSchema: m{"type": "object", "properties": m{"a": header("x", "string"), "b": header("X", "string")}}}, `/properties/b/x-mcp-header: "X" is already the header of /properties/a`},
		{"P7", mcp.Tool{InputSchema: property(m{"type": "array", "items": header("X", "string")})}, "/properties/x/items/x-mcp-header: only a property that is reached through properties alone"},
		{"P7", mcp.Tool{InputSchema: m{"type": "object", "x-mcp-header": "X"}}, "reached through properties alone"},
		{"P7", mcp.Tool{InputSchema: m{"type": "object", "anyOf": []any{property(header("X", "string"))}}}, "/anyOf/0/properties/x/x-mcp-header"},

		{"FO29", mcp.Tool{Meta: mcp.Meta{"ui": m{"visibility": []string{"model", "app"}}}}, ""},
		{"FO29", mcp.Tool{Meta: mcp.Meta{"ui": m{"visibility": []string{}}}}, ""},
		{"FO29", mcp.Tool{Meta: mcp.Meta{"ui": m{"visibility": []any{"model", "internal"}}}}, `_meta.ui.visibility [model internal]: list "model", "app" or both`},
		{"FO29", mcp.Tool{Meta: mcp.Meta{"ui": m{"visibility": "app"}}}, `_meta.ui.visibility app: list`},
		{"FO29", mcp.Tool{Meta: mcp.Meta{"ui": struct {
			Visibility []int `json:"visibility"`
		}{[]int{1}}}}, "_meta.ui.visibility [1]"},

		{"view", mcp.Tool{Meta: mcp.Meta{"ui": m{"resourceUri": "ui://a/b.html"}}}, ""},
		{"view", mcp.Tool{Meta: mcp.Meta{"ui": m{"resourceUri": "https://a.example/b.html"}}}, `"https://a.example/b.html" is no address of a view: write ui://`},
		{"view", mcp.Tool{Meta: mcp.Meta{"ui": m{"resourceUri": "ui://a/日.html"}}}, "percent-encode what is not ASCII"},
		{"view", mcp.Tool{Meta: mcp.Meta{"ui": m{"resourceUri": "ui://a/{x}"}}}, "is a template"},
		{"view", mcp.Tool{Meta: mcp.Meta{"ui": m{"resourceUri": 7}}}, "_meta.ui.resourceUri is no URI"},
	}
	for _, tt := range tests {
		if only != "" && tt.rule != only {
			continue
		}
		tool := tt.tool
		if tool.Name == "" {
			tool.Name = "t"
		}
		if tool.Description == "" {
			tool.Description = "T."
		}
		err := publisher.AddTool(newAppServer(t, nil), &tool,
			func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, map[string]any, error) {
				return nil, nil, nil
			})
		if (err == nil) != (tt.want == "") || err != nil && (!strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), fmt.Sprintf("add tool %q: ", tool.Name))) {
			t.Errorf("%s: error %v, want %q", asJSON(t, tool.Meta), err, tt.want)
		}
	}
}

func TestRegistration(t *testing.T)                          { testRegistration(t, "") }
func TestRule_McpP16_SchemasAreBounded(t *testing.T)         { testRegistration(t, "P16") }
func TestRule_McpP7_HeaderAnnotationsAreJudged(t *testing.T) { testRegistration(t, "P7") }
func TestRule_FO29_UnknownVisibilityIsRefused(t *testing.T)  { testRegistration(t, "FO29") }
func TestRule_OB53_ToolsSayWhatTheyDo(t *testing.T)          { testRegistration(t, "") }

// Types that make no object, and what is missing altogether.
func TestRegistrationOfTypes(t *testing.T) {
	s, tool := newAppServer(t, nil), &mcp.Tool{Name: "t", Description: "T."}
	check := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	check(publisher.AddTool(s, tool, func(context.Context, *mcp.CallToolRequest, string) (*mcp.CallToolResult, any, error) {
		return nil, nil, nil
	}), "input: string makes no object")
	check(publisher.AddTool(s, tool, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, []int, error) {
		return nil, nil, nil
	}), "output: []int makes no object")
	check(publisher.AddTool(s, tool, func(context.Context, *mcp.CallToolRequest, struct{ F func() }) (*mcp.CallToolResult, any, error) {
		return nil, nil, nil
	}), "input: no schema for")
	h := func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return nil, nil, nil
	}
	check(publisher.AddTool(nil, tool, h), "required")
	check(publisher.AddTool(s, nil, h), "required")
	check(publisher.AddTool[any, any](s, tool, nil), "required")

	// Several faults are told at once.
	err := publisher.AddTool(s, &mcp.Tool{}, func(context.Context, *mcp.CallToolRequest, string) (*mcp.CallToolResult, any, error) {
		return nil, nil, nil
	})
	if n := len(strings.Split(fmt.Sprint(err), "\n")); n != 3 {
		t.Errorf("%d faults: %v", n, err)
	}
}

// A server that was made with the SDK alone is judged the same way by New.
func TestRule_FO29_OtherServersAreLookedAt(t *testing.T) {
	s := newServer(new(int))
	s.AddTool(&mcp.Tool{Name: "t", Description: "T.", InputSchema: map[string]any{"type": "object"}, Meta: mcp.Meta{"ui": map[string]any{"visibility": "app"}}},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return nil, errors.New("no") })
	cfg := twoApps()
	cfg.Apps[0].Server = s
	if _, err := publisher.New(cfg); err == nil || !strings.Contains(err.Error(), `Apps[0].Server: tool "t": _meta.ui.visibility app`) {
		t.Errorf("error %v", err)
	}
}
