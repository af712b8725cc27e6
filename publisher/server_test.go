package publisher_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/internal/webtest"
	"github.com/openbot-build/openbot-go/publisher"
)

// What a host could not use is a fault at start (OB-5, OB-53).
func TestServersAreLookedAt(t *testing.T) {
	runs := 0
	s := newServer(&runs)
	tool := func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return nil, errors.New("no") }
	schema := map[string]any{"type": "object"}
	s.AddTool(&mcp.Tool{Name: "silent", InputSchema: schema}, tool)
	s.AddPrompt(&mcp.Prompt{Name: "mute"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return nil, errors.New("no")
	})
	read := func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return nil, errors.New("no")
	}
	s.AddResource(&mcp.Resource{URI: "note://日程", Name: "n"}, read)
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "note://日/{x}", Name: "t"}, read)
	cfg := twoApps()
	cfg.Apps[1].Server = s
	_, err := publisher.New(cfg)
	for _, want := range []string{`tool "silent": has no description`, `prompt "mute"`, `resource "note://日程"`, `resource template "note://日/{x}"`} {
		if err == nil || !strings.Contains(err.Error(), "Apps[1].Server: "+want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
	if runs != 0 {
		t.Errorf("looking ran something %d times", runs)
	}
}

// A tool's view is a resource that the server has (mcp section 4).
func TestViewsAreThere(t *testing.T) {
	tool := func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return nil, errors.New("no") }
	read := func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return nil, errors.New("no")
	}
	for _, tt := range []struct {
		name string
		meta mcp.Meta
		want string // of the fault; "" is none
	}{
		{"none", nil, ""},
		{"there", mcp.Meta{"ui": map[string]any{"resourceUri": "ui://calendar/week.html"}}, ""},
		{"there, flat", mcp.Meta{"ui/resourceUri": "ui://calendar/week.html"}, ""},
		{"by template", mcp.Meta{"ui": map[string]any{"resourceUri": "ui://skins/dark.html"}}, ""},
		{"missing", mcp.Meta{"ui": map[string]any{"resourceUri": "ui://calendar/weak.html"}}, `tool "t": its view is the resource "ui://calendar/weak.html", which the server does not have`},
		{"missing, flat", mcp.Meta{"ui/resourceUri": "ui://other"}, `its view is the resource "ui://other"`},
		{"the flat one is not read", mcp.Meta{"ui": map[string]any{"resourceUri": "ui://calendar/week.html"}, "ui/resourceUri": "ui://other"}, ""},
		{"no text", mcp.Meta{"ui": map[string]any{"resourceUri": 7}}, `tool "t": _meta.ui.resourceUri is no URI`},
		{"visibility alone", mcp.Meta{"ui": map[string]any{"visibility": []string{"app"}}}, ""},
	} {
		s := newServer(new(int))
		s.AddTool(&mcp.Tool{Name: "t", Description: "T.", InputSchema: map[string]any{"type": "object"}, Meta: tt.meta}, tool)
		s.AddResource(&mcp.Resource{URI: "ui://calendar/week.html", Name: "week"}, read)
		s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "ui://skins/{skin}.html", Name: "skin"}, read)
		cfg := twoApps()
		cfg.Apps[1].Server = s
		_, err := publisher.New(cfg)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}

	// A server without any resource has no view either.
	s := mcp.NewServer(&mcp.Implementation{Name: "com.example/notes", Version: "1.0.0"}, &mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{}})
	s.AddTool(&mcp.Tool{Name: "t", Description: "T.", InputSchema: map[string]any{"type": "object"}, Meta: mcp.Meta{"ui/resourceUri": "ui://other"}}, tool)
	cfg := twoApps()
	cfg.Apps[1].Server = s
	if _, err := publisher.New(cfg); err == nil || !strings.Contains(err.Error(), "ui://other") {
		t.Errorf("a server without resources: %v", err)
	}
}

// A server that keeps its lists from strangers is published all the same.
func TestServersMayKeepTheirLists(t *testing.T) {
	s := newServer(new(int))
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if strings.HasSuffix(method, "/list") {
				return nil, errors.New("sign in first")
			}
			return next(ctx, method, r)
		}
	})
	cfg := twoApps()
	cfg.Apps[1].Server = s
	mustNew(t, cfg)
}

// The documents as a script tells them.
func TestWebScripts(t *testing.T) { webtest.Run(t, mustNew(t, twoApps()), "testdata/*.txt") }

// CheckAsset judges a file as a request for it would be.
func TestCheckAsset(t *testing.T) {
	files := fstest.MapFS{"a.png": {Data: []byte("PNG")}, "notes.txt": {Data: []byte("x")}, "dir.png": {Mode: fs.ModeDir}}
	for name, want := range map[string]string{"a.png": "", "b.png": "no such file", "notes.txt": "no picture", "../a.png": "no picture", ".a.png": "no picture", "dir.png": "is no file"} {
		err := publisher.CheckAsset(files, name)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
