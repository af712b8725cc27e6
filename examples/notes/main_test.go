package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/publisher"
)

func newTestApp(t *testing.T) *publisher.Publisher {
	t.Helper()
	app, err := newApp(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return app
}

// as sends a user's token with each request.
type as struct{ user string }

func (a as) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+a.user)
	return http.DefaultTransport.RoundTrip(r)
}

// The whole app, as clients of both eras use it, each user with their own notes.
func TestNotes(t *testing.T) {
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			app := newTestApp(t)
			srv := httptest.NewServer(auth.RequireBearerToken(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
				return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
			}, nil)(app))
			defer srv.Close()
			defer app.Close()
			sure, progress := false, make(chan string, 10)
			connect := func(user string) *mcp.ClientSession {
				client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
					Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}}},
					ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
						if r.Params.Message != "Delete 1 notes (1)? They cannot be brought back." {
							t.Errorf("asked %q", r.Params.Message)
						}
						return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"sure": sure}}, nil
					},
					ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress <- r.Params.Message },
				})
				session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
					Endpoint: srv.URL + "/mcp/notes", HTTPClient: &http.Client{Transport: as{user}}, DisableStandaloneSSE: true, MaxRetries: -1,
				}, &mcp.ClientSessionOptions{ProtocolVersion: version})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = session.Close() })
				return session
			}
			ada, bob := connect("ada"), connect("bob")
			call := func(session *mcp.ClientSession, name string, args any, want string) {
				t.Helper()
				params := &mcp.CallToolParams{Name: name, Arguments: args}
				params.SetProgressToken(name)
				res, err := session.CallTool(t.Context(), params)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if text := res.Content[0].(*mcp.TextContent).Text; text != want {
					t.Errorf("%s: %q, want %q", name, text, want)
				}
			}

			two := map[string]any{"texts": []string{"Buy tea", "Water plants"}, "key": "k1"}
			call(ada, "add_notes", two, "Added 2 notes.")
			call(ada, "add_notes", two, "Added 2 notes.") // once
			call(ada, "add_notes", map[string]any{"texts": []string{""}, "key": "k2"}, "a note needs a text")
			call(ada, "find_notes", nil, "1: Buy tea\n2: Water plants")
			call(ada, "find_notes", map[string]any{"text": "tea"}, "1: Buy tea")
			call(bob, "find_notes", nil, "No notes.")
			if got := <-progress; got != "added Buy tea" {
				t.Errorf("progress %q", got)
			}

			read, err := ada.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "notes://note/1"})
			if err != nil || read.Contents[0].Text != "Buy tea" {
				t.Errorf("read %v, %v", read, err)
			}
			if _, err := bob.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "notes://note/1"}); err == nil {
				t.Error("bob reads ada's note")
			}
			prompt, err := ada.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "summarize", Arguments: map[string]string{"topic": "tea"}})
			if err != nil || !strings.HasSuffix(prompt.Messages[0].Content.(*mcp.TextContent).Text, "about tea.") {
				t.Errorf("prompt %v, %v", prompt, err)
			}
			view, err := ada.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "ui://notes/list.html"})
			if err != nil || !strings.Contains(view.Contents[0].Text, "ui/notifications/tool-result") {
				t.Errorf("view %v, %v", view, err)
			}

			first := map[string]any{"ids": []string{"1"}}
			call(ada, "delete_notes", first, "Nothing was deleted.")
			sure = true
			call(bob, "delete_notes", first, "Deleted 0 notes.")
			call(ada, "delete_notes", first, "Deleted 1 notes.")
			call(ada, "find_notes", nil, "2: Water plants")
		})
	}
}

// The calls that the README prints work as printed, in their order.
func TestREADME(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	app := newTestApp(t)
	defer app.Close()
	wants := []string{`"text":"Added 1 notes."`, `"resultType":"input_required"`}
	blocks := strings.Split(string(readme), "```sh\n")
	var calls []string
	for _, b := range blocks[1:] {
		if b, _, _ = strings.Cut(b, "```"); strings.HasPrefix(b, "curl") {
			calls = append(calls, b)
		}
	}
	if len(calls) != len(wants) {
		t.Fatalf("README.md has %d calls", len(calls))
	}
	for i, block := range calls {
		_, rest, _ := strings.Cut(block, "--data '")
		body, _, _ := strings.Cut(rest, "'")
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp/notes", strings.NewReader(body))
		for line := range strings.Lines(block) {
			if _, header, ok := strings.Cut(line, "-H '"); ok {
				name, value, _ := strings.Cut(header[:strings.Index(header, "'")], ": ")
				r.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		app.ServeHTTP(w, r)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), wants[i]) {
			t.Errorf("call %d: status %d: %s", i+1, w.Code, w.Body)
		}
	}
}
