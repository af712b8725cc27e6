package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/host/sqlite"
	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/oauth"
	"github.com/openbot-build/openbot-go/oauth/cimd"
	"github.com/openbot-build/openbot-go/oauth/oauthtest"
	"github.com/openbot-build/openbot-go/publicnet"
	"github.com/openbot-build/openbot-go/publisher"
)

type note struct {
	Text string `json:"text" jsonschema:"what to keep"`
}

func addNote(_ context.Context, r *mcp.CallToolRequest, in note) (*mcp.CallToolResult, note, error) {
	who, _ := oauth.IdentityFrom(r.Extra.TokenInfo)
	fmt.Printf("kept for %s: %s\n", who.Subject, in.Text)
	return publisher.Text("kept"), in, nil
}

func protectedNotes(network *publicnet.Network) (*publisher.Publisher, error) {
	about := card.Card{Name: "com.example/notes", Title: "Notes", Version: "1.0.0", Description: "Notes of a team."}
	server, err := publisher.NewServer(&about, nil)
	if err != nil {
		return nil, err
	}
	if err := publisher.AddTool(server, &mcp.Tool{Name: "add_note", Description: "Keep a note."}, addNote); err != nil {
		return nil, err
	}
	return publisher.New(&publisher.Config{
		Origin: "https://apps.example.com",
		Apps: []publisher.App{{
			Slug:   "notes",
			Card:   about,
			Server: server,
			Protection: &oauth.Protection{
				Issuers: []oauth.Issuer{{URL: "https://signin.example.com"}},
				Scopes: oauth.Scopes{
					Basic:   []string{"notes.read"},
					Tools:   map[string][]string{"add_note": {"notes.write"}},
					Implies: map[string][]string{"notes.write": {"notes.read"}},
				},
				Network: network, // nil is the Internet
			},
		}},
	})
}

// addMilk calls a tool. Where the user has to act first, show gets the sign-in
// and nothing was opened.
func addMilk(ctx context.Context, signIn *oauth.Client, app oauth.Connection, network *publicnet.Network, show func(*oauth.SignIn)) error {
	session, err := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1.0.0"}, nil).Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint:             app.Endpoint,
		OAuthHandler:         signIn.Handler(app),
		HTTPClient:           &http.Client{Transport: signIn.Transport(app, network.Client().Transport)},
		DisableStandaloneSSE: true,
		MaxRetries:           -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: "2026-07-28"})
	if err == nil {
		defer session.Close()
		_, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "add_note", Arguments: map[string]any{"text": "Milk"}})
	}
	var needed *oauth.SignInRequired
	if !errors.As(err, &needed) {
		return err
	}
	next, err := signIn.Begin(ctx, app, &oauth.BeginOptions{Challenge: &needed.Challenge})
	if err != nil {
		return err
	}
	show(next) // the issuer, the scopes, and a link to next.URL: the user decides
	return nil
}

// callback is the page at ClientOptions.RedirectURI. user tells who is signed in
// at the host in the browser that came back.
func callback(signIn *oauth.Client, user func(*http.Request) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := signIn.Finish(r.Context(), user(r), r.URL.RawQuery); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest) // has no token in it
			return
		}
		fmt.Fprintln(w, "Signed in.")
	}
}

func openStore(ctx context.Context, dir string) (*sqlite.Store, error) {
	return sqlite.Open(ctx, filepath.Join(dir, "host.db"), &sqlite.Options{
		MasterKey: sqlite.KeyFile(filepath.Join(dir, "host.key")),
	})
}

func developmentServer(network *publicnet.Network) (*oauthtest.Server, error) {
	return oauthtest.New(&oauthtest.Options{
		Issuer:    "https://signin.example.com",
		Resources: []string{"https://apps.example.com/mcp/notes"},
		Scopes:    []string{"notes.read", "notes.write"},
		Network:   network,
	})
}

// A user signs in to a protected app, is asked for more by a call that writes,
// and ends the connection. App, authorization server and host live in an
// Internet in memory.
func Example() {
	if err := wholeStory(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// https://signin.example.com asks for [notes.read]
	// Signed in.
	// https://signin.example.com asks for [notes.read notes.write]
	// Signed in.
	// kept for alice: Milk
	// ended; another call: true
}

func wholeStory(ctx context.Context) error {
	internet := fakenet.New()
	network, err := publicnet.New(&publicnet.Options{UserAgent: "example", Below: internet.Below()})
	if err != nil {
		return err
	}
	app, err := protectedNotes(network)
	if err != nil {
		return err
	}
	defer app.Close()
	authority, err := developmentServer(network)
	if err != nil {
		return err
	}
	me, err := cimd.New("https://host.example.com/client.json", "Example Host", "https://host.example.com/callback")
	if err != nil {
		return err
	}
	mine, err := me.Handler()
	if err != nil {
		return err
	}
	internet.Handle("apps.example.com", app)
	internet.Handle("signin.example.com", authority)
	internet.Handle("host.example.com", mine)

	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	store, err := openStore(ctx, dir)
	if err != nil {
		return err
	}
	defer store.Close()
	signIn, err := oauth.NewClient(&oauth.ClientOptions{
		Network: network, Store: store, ClientID: me.ClientID, RedirectURI: me.RedirectURIs[0],
	})
	if err != nil {
		return err
	}
	notes := oauth.Connection{
		ID: "1", User: "alice", CardURL: "https://apps.example.com/mcp/notes/server-card", Endpoint: "https://apps.example.com/mcp/notes",
	}
	if err := store.Add(ctx, notes); err != nil {
		return err
	}
	// browser is alice, who agrees.
	browser := func(s *oauth.SignIn) {
		fmt.Println(s.Issuer, "asks for", s.Scopes)
		back, err := authority.Approve(ctx, nil, s.URL, "alice")
		if err != nil {
			fmt.Println(err)
			return
		}
		u, err := url.Parse(back)
		if err != nil {
			fmt.Println(err)
			return
		}
		page := httptest.NewRecorder()
		callback(signIn, func(*http.Request) string { return "alice" })(page, httptest.NewRequest(http.MethodGet, u.RequestURI(), nil))
		fmt.Print(page.Body)
	}
	for range 3 { // sign in; need more; call
		if err := addMilk(ctx, signIn, notes, network, browser); err != nil {
			return err
		}
	}
	if err := signIn.Revoke(ctx, notes); err != nil {
		return err
	}
	_, err = signIn.Token(ctx, notes)
	fmt.Println("ended; another call:", errors.Is(err, oauth.ErrGone))
	return nil
}
