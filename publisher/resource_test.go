package publisher_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/publisher"
)

func addResource[T any](t *testing.T, s *mcp.Server, uri string, read func(context.Context, *mcp.ReadResourceRequest) (T, error)) {
	t.Helper()
	if err := publisher.AddResource(s, &mcp.Resource{URI: uri, Name: "x", Description: "X."}, read); err != nil {
		t.Fatal(err)
	}
}

// Go values become contents by their type, and errors MCP's.
func TestAddResource(t *testing.T) {
	eachEra(t, func(t *testing.T, s *mcp.Server) {
		addResource(t, s, "notes://text", func(context.Context, *mcp.ReadResourceRequest) (string, error) { return "hello", nil })
		addResource(t, s, "notes://bytes", func(context.Context, *mcp.ReadResourceRequest) ([]byte, error) { return []byte{0, 1}, nil })
		addResource(t, s, "notes://json", func(context.Context, *mcp.ReadResourceRequest) (spoken, error) { return spoken{3}, nil })
		addResource(t, s, "notes://whole", func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{MIMEType: "text/markdown", Text: "# a"}, {URI: "notes://more", Text: "b"}}}, nil
		})
		addResource(t, s, "notes://note/{id}", func(_ context.Context, r *mcp.ReadResourceRequest) (string, error) {
			return "", fmt.Errorf("note %s: %w", r.Params.URI, fs.ErrNotExist)
		})
		addResource(t, s, "notes://broken", func(context.Context, *mcp.ReadResourceRequest) (string, error) { return "", errors.New("disk is full") })
		addResource(t, s, "notes://own", func(context.Context, *mcp.ReadResourceRequest) (string, error) {
			return "", fmt.Errorf("wrapped: %w", &jsonrpc.Error{Code: 4711, Message: "of our own"})
		})
		addResource(t, s, "notes://nil", func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) { return nil, nil })
		addResource(t, s, "notes://nojson", func(context.Context, *mcp.ReadResourceRequest) (chan int, error) { return nil, nil })
	}, func(t *testing.T, app *testApp) {
		cs := app.connect("", nil)
		for uri, want := range map[string]string{
			"notes://text":  `[{"uri":"notes://text","mimeType":"text/plain","text":"hello"}]`,
			"notes://bytes": `[{"uri":"notes://bytes","mimeType":"application/octet-stream","blob":"` + base64.StdEncoding.EncodeToString([]byte{0, 1}) + `"}]`,
			"notes://json":  `[{"uri":"notes://json","mimeType":"application/json","text":"{\"count\":3}"}]`,
			"notes://whole": `[{"uri":"notes://whole","mimeType":"text/markdown","text":"# a"},{"uri":"notes://more","text":"b"}]`,
		} {
			res, err := cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
			if err != nil {
				t.Errorf("%s: %v", uri, err)
				continue
			}
			if got := asJSON(t, res.Contents); !sameJSON(t, got, want) {
				t.Errorf("%s: %s", uri, got)
			}
		}
		for uri, want := range map[string]struct {
			code int64
			text string
		}{
			"notes://note/7": {jsonrpc.CodeInvalidParams, "Resource not found"},
			"notes://broken": {jsonrpc.CodeInternalError, "disk is full"},
			"notes://own":    {4711, "of our own"},
			"notes://nil":    {jsonrpc.CodeInternalError, "gave nothing"},
			"notes://nojson": {jsonrpc.CodeInternalError, "encode the resource"},
		} {
			_, err := cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
			wantCode(t, err, want.code, want.text)
		}
		templates, err := cs.ListResourceTemplates(t.Context(), nil)
		if err != nil || len(templates.ResourceTemplates) != 1 || templates.ResourceTemplates[0].URITemplate != "notes://note/{id}" {
			t.Errorf("templates %s, %v", asJSON(t, templates), err)
		}
	})
}

// mcp S16, P16: a URI is absolute, in RFC 3986's ASCII.
func TestRule_McpS16_AddressesAreASCII(t *testing.T) {
	for uri, want := range map[string]string{
		"notes://today":            "",
		"notes://note/{id}{?lang}": "",
		"":                         "has no URI",
		"notes://日程":               "percent-encode what is not ASCII",
		"notes://日/{id}":           "percent-encode what is not ASCII",
		"notes://a b":              "percent-encode spaces",
		"today":                    "is not absolute",
		"://today":                 "is not absolute",
		"notes://%zz":              "does not parse",
		"notes://note/{id":         `add resource "notes://note/{id": `,
		"ui://a/b.html":            "is of type text/html;profile=mcp-app; AddView makes one",
	} {
		err := publisher.AddResource(newAppServer(t, nil), &mcp.Resource{URI: uri, Name: "x", Description: "X."},
			func(context.Context, *mcp.ReadResourceRequest) (string, error) { return "", nil })
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", uri, err)
		}
	}
	read := func(context.Context, *mcp.ReadResourceRequest) (string, error) { return "", nil }
	err := publisher.AddResource(newAppServer(t, nil), &mcp.Resource{URI: "notes://x"}, read)
	if err == nil || !strings.Contains(err.Error(), "no name") || !strings.Contains(err.Error(), "no description") {
		t.Errorf("error %v", err)
	}
	if publisher.AddResource(nil, &mcp.Resource{}, read) == nil || publisher.AddResource[string](newAppServer(t, nil), nil, nil) == nil {
		t.Error("nothing at all is no resource")
	}
}

func plannerView() *publisher.View {
	border := false
	return &publisher.View{
		URI: "ui://calendar/week.html", Name: "week", HTML: "<!doctype html><title>Week</title>",
		ConnectDomains:  []string{"https://api.example.com", "wss://live.example.com:8443"},
		ResourceDomains: []string{"https://*.cdn.example.com"},
		Permissions:     []string{"clipboardWrite"},
		PrefersBorder:   &border,
	}
}

// A tool's view: linked, listed, read, with what it asks of hosts on its
// content (MA-2, MA-3, MA-5; D25).
func TestAddView(t *testing.T) {
	eachEra(t, func(t *testing.T, s *mcp.Server) {
		v := plannerView()
		if err := publisher.AddTool(s, &mcp.Tool{Name: "plan_week", Description: "Find free time.", Meta: v.Meta("model", "app")},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, spoken, error) {
				return nil, spoken{1}, nil
			}); err != nil {
			t.Fatal(err)
		}
		if err := publisher.AddView(s, v); err != nil {
			t.Fatal(err)
		}
		v.ConnectDomains[0], v.HTML = "https://changed.example", "changed"
	}, func(t *testing.T, app *testApp) {
		cs := app.connect("", nil)
		tools, err := cs.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := asJSON(t, tools.Tools[0].Meta); got != `{"ui":{"resourceUri":"ui://calendar/week.html","visibility":["model","app"]}}` {
			t.Errorf("tool _meta %s", got)
		}
		read, err := cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "ui://calendar/week.html"})
		if err != nil {
			t.Fatal(err)
		}
		c := read.Contents[0]
		want := `{"ui":{"csp":{"connectDomains":["https://api.example.com","wss://live.example.com:8443"],"resourceDomains":["https://*.cdn.example.com"]},"permissions":{"clipboardWrite":{}},"prefersBorder":false}}`
		if d := cmp.Diff(want, asJSON(t, c.Meta)); d != "" || c.MIMEType != "text/html;profile=mcp-app" || !strings.Contains(c.Text, "<title>Week") {
			t.Errorf("content %s (-want +got):\n%s", asJSON(t, c), d)
		}
	})
	if got := asJSON(t, plannerView().Meta()); got != `{"ui":{"resourceUri":"ui://calendar/week.html"}}` {
		t.Errorf("without visibility %s", got)
	}
}

// FO-28: what a host would not let into a policy is refused at start.
func TestRule_FO28_OnlyOriginsEnter(t *testing.T) {
	for name, change := range map[string]func(*publisher.View){
		`connectDomains: hosts refuse "data:"`:            func(v *publisher.View) { v.ConnectDomains = []string{"data:"} },
		`hosts refuse "https://x.example; script-src *"`:  func(v *publisher.View) { v.ConnectDomains = []string{"https://x.example; script-src *"} },
		`resourceDomains: hosts refuse "*"`:               func(v *publisher.View) { v.ResourceDomains = []string{"*"} },
		`resourceDomains: hosts refuse "wss://a.example"`: func(v *publisher.View) { v.ResourceDomains = []string{"wss://a.example"} },
		`frameDomains: hosts refuse "https://a.example/p"`: func(v *publisher.View) {
			v.FrameDomains = []string{"https://a.example/p"}
		},
		`baseUriDomains: hosts refuse "http://a.example"`: func(v *publisher.View) { v.BaseURIDomains = []string{"http://a.example"} },
		`hosts refuse "https://ä.example"`:                func(v *publisher.View) { v.BaseURIDomains = []string{"https://ä.example"} },
		`hosts refuse "https://u@a.example"`:              func(v *publisher.View) { v.BaseURIDomains = []string{"https://u@a.example"} },
		`permission "usb"`:                                func(v *publisher.View) { v.Permissions = []string{"usb"} },
		`is no address of a view`:                         func(v *publisher.View) { v.URI = "https://a.example/v.html" },
		`has no name`:                                     func(v *publisher.View) { v.Name = "" },
		`has no HTML`:                                     func(v *publisher.View) { v.HTML = "" },
		`hosts show at most 2097152`:                      func(v *publisher.View) { v.HTML = strings.Repeat("x", 2<<20+1) },
	} {
		v := plannerView()
		change(v)
		if err := publisher.AddView(newAppServer(t, nil), v); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	v := plannerView()
	v.FrameDomains, v.BaseURIDomains, v.Domain = []string{"https://player.example"}, []string{"https://[::1]:8443"}, "week"
	if err := publisher.AddView(newAppServer(t, nil), v); err != nil {
		t.Error(err)
	}
	if publisher.AddView(nil, v) == nil {
		t.Error("no server, no error")
	}
}

type agendaIn struct {
	Topic string `json:"topic" jsonschema:"what the meeting is about"`
	Tone  string `json:"tone,omitempty"`
}

// Prompts take Go strings, and say what is missing.
func TestAddPrompt(t *testing.T) {
	eachEra(t, func(t *testing.T, s *mcp.Server) {
		add := func(name string, h func(context.Context, *mcp.GetPromptRequest, agendaIn) (string, error)) {
			if err := publisher.AddPrompt(s, &mcp.Prompt{Name: name, Description: "Draft an agenda."}, h); err != nil {
				t.Fatal(err)
			}
		}
		add("agenda", func(_ context.Context, _ *mcp.GetPromptRequest, in agendaIn) (string, error) {
			return fmt.Sprintf("Draft an agenda about %s.%s", in.Topic, in.Tone), nil
		})
		add("broken", func(context.Context, *mcp.GetPromptRequest, agendaIn) (string, error) {
			return "", errors.New("no ink")
		})
		if err := publisher.AddPrompt(s, &mcp.Prompt{Name: "nil", Description: "N."}, func(context.Context, *mcp.GetPromptRequest, struct{}) (*mcp.GetPromptResult, error) {
			return nil, nil
		}); err != nil {
			t.Fatal(err)
		}
	}, func(t *testing.T, app *testApp) {
		cs := app.connect("", nil)
		list, err := cs.ListPrompts(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := asJSON(t, list.Prompts[0].Arguments); got != `[{"name":"topic","description":"what the meeting is about","required":true},{"name":"tone"}]` {
			t.Errorf("arguments %s", got)
		}
		res, err := cs.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "agenda", Arguments: map[string]string{"topic": "tea", "other": "x"}})
		if err != nil || res.Messages[0].Role != "user" || res.Messages[0].Content.(*mcp.TextContent).Text != "Draft an agenda about tea." {
			t.Errorf("%s, %v", asJSON(t, res), err)
		}
		_, err = cs.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "agenda", Arguments: map[string]string{"Topic": "tea"}})
		wantCode(t, err, jsonrpc.CodeInvalidParams, `argument "topic" is missing`)
		_, err = cs.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "broken", Arguments: map[string]string{"topic": "tea"}})
		wantCode(t, err, jsonrpc.CodeInternalError, "no ink")
		_, err = cs.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "nil"})
		wantCode(t, err, jsonrpc.CodeInternalError, "gave nothing")
	})
}

func TestPromptFaults(t *testing.T) {
	s := newAppServer(t, nil)
	check := func(err error, want ...string) {
		t.Helper()
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("error %v, want %q", err, w)
			}
		}
	}
	check(publisher.AddPrompt(s, &mcp.Prompt{Name: "a b", Arguments: []*mcp.PromptArgument{{Name: "x"}}},
		func(context.Context, *mcp.GetPromptRequest, struct{ N int }) (string, error) { return "", nil }),
		"name it with", "has no description", "leave Arguments empty", `"N" is no string`)
	check(publisher.AddPrompt(s, &mcp.Prompt{Name: "a", Description: "A."},
		func(context.Context, *mcp.GetPromptRequest, map[string]string) (string, error) { return "", nil }), "is no struct of strings")
	check(publisher.AddPrompt[struct{}, string](nil, nil, nil), "required")
}

// OB-51: what an app registered is there for the steps after adding: discover,
// lists, calls, in this order and in one connection.
func TestRule_OB51_DiscoverListCall(t *testing.T) {
	app := newTestApp(t, func(t *testing.T, s *mcp.Server) {
		addTool(t, s, "t", func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return publisher.Text("ok"), nil, nil
		})
		addResource(t, s, "notes://x", func(context.Context, *mcp.ReadResourceRequest) (string, error) { return "x", nil })
		if err := publisher.AddPrompt(s, &mcp.Prompt{Name: "p", Description: "P."}, func(context.Context, *mcp.GetPromptRequest, struct{}) (string, error) { return "p", nil }); err != nil {
			t.Fatal(err)
		}
	})
	for i, step := range []struct{ method, name, params, want string }{
		{"server/discover", "", "", `"supportedVersions":["2026-07-28"`},
		{"tools/list", "", "", `"name":"t"`},
		{"resources/list", "", "", `"uri":"notes://x"`},
		{"prompts/list", "", "", `"name":"p"`},
		{"tools/call", "t", `"name":"t","arguments":{},`, `"text":"ok"`},
		{"resources/read", "notes://x", `"uri":"notes://x",`, `"text":"x"`},
		{"prompts/get", "p", `"name":"p",`, `"text":"p"`},
	} {
		status, body := app.post(step.method, step.name, step.params, "{}")
		if status != http.StatusOK || !strings.Contains(body, step.want) || !strings.Contains(body, `"resultType":"complete"`) {
			t.Errorf("step %d %s: %d %s", i+1, step.method, status, body)
		}
	}
}
