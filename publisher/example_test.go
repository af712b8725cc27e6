package publisher_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/oauth"
	"github.com/openbot-build/openbot-go/publisher"
)

// A card that has not changed costs its reader a 304.
func Example() {
	p, err := publisher.New(&publisher.Config{
		Origin: "https://apps.example.com",
		Apps: []publisher.App{{
			Slug:   "hello",
			Card:   card.Card{Name: "com.example/hello", Title: "Hello", Version: "1.0.0", Description: "Say hello."},
			MCPURL: "https://mcp.example.com/hello", // runs elsewhere; or give Server
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewTLSServer(p)
	defer server.Close()

	get := func(etag string) *http.Response {
		r, _ := http.NewRequest(http.MethodGet, server.URL+"/mcp/hello/server-card", nil)
		if etag != "" {
			r.Header.Set("If-None-Match", etag)
		}
		res, err := server.Client().Do(r)
		if err != nil {
			panic(err)
		}
		res.Body.Close()
		return res
	}
	first := get("")
	fmt.Println(first.StatusCode, first.Header.Get("Content-Type"))
	again := get(first.Header.Get("ETag"))
	fmt.Println(again.StatusCode, again.Header.Get("Cache-Control"))
	// Output:
	// 200 application/mcp-server-card+json
	// 304 public, max-age=3600
}

// An app whose users sign in with the identity provider that they have already.
// Who comes without a token is told where that is.
func ExampleApp_protection() {
	about := card.Card{Name: "com.example/notes", Title: "Notes", Version: "1.0.0", Description: "Notes of one person."}
	server, err := publisher.NewServer(&about, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	type note struct {
		Text string `json:"text" jsonschema:"what to keep"`
	}
	err = publisher.AddTool(server, &mcp.Tool{Name: "add_note", Description: "Keep a note."},
		func(_ context.Context, r *mcp.CallToolRequest, in note) (*mcp.CallToolResult, note, error) {
			return publisher.Text("kept for " + publisher.User(r)), in, nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := publisher.New(&publisher.Config{
		Origin: "https://apps.example.com",
		Apps: []publisher.App{{
			Slug: "notes", Card: about, Server: server,
			Protection: &oauth.Protection{
				Issuers: []oauth.Issuer{{URL: "https://signin.example.com"}},
				Scopes: oauth.Scopes{
					Basic: []string{"notes.read"},
					Tools: map[string][]string{"add_note": {"notes.write"}},
				},
			},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()

	answer := httptest.NewRecorder()
	p.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/mcp/notes", nil))
	fmt.Println(answer.Code)
	challenge := oauth.ParseChallenge(answer.Header())
	fmt.Println(challenge.Scope, challenge.ResourceMetadata)
	// Output:
	// 401
	// [notes.read] https://apps.example.com/.well-known/oauth-protected-resource/mcp/notes
}

// Every fault is reported at once, each with its field.
func ExampleNew_faults() {
	_, err := publisher.New(&publisher.Config{
		Origin: "https://apps.example.com",
		Apps: []publisher.App{{
			Slug:         "Hello World",
			Card:         card.Card{Name: "com.example/hello", Title: "Hello", Version: "1.0.0", Description: "Say hello."},
			MCPURL:       "https://mcp.example.com/hello",
			CacheControl: "no-cache",
			ETag:         "v1",
		}},
	})
	fmt.Println(err)
	// Output:
	// Apps[0].Slug: "Hello World": use lower-case letters, digits and inner hyphens, at most 63
	// Apps[0].ETag: "v1": write an entity tag with its quotes, for instance "v1" or W/"v1"
}
