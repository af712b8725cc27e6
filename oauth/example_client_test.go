package oauth_test

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/oauth"
	"github.com/openbot-build/openbot-go/publicnet"
)

// The three steps of a web host: a call that is refused, the user's click that
// begins a sign-in, and the address that the user comes back to.
func ExampleClient() {
	network, err := publicnet.New(&publicnet.Options{UserAgent: "Example/1.0 (+https://host.example.com/)"})
	if err != nil {
		panic(err)
	}
	store := oauth.NewMemoryStore() // a host that restarts keeps a database
	client, err := oauth.NewClient(&oauth.ClientOptions{
		Network: network, Store: store,
		ClientID: "https://host.example.com/oauth/client.json", RedirectURI: "https://host.example.com/oauth/callback",
	})
	if err != nil {
		panic(err)
	}

	call := func(w http.ResponseWriter, r *http.Request, conn oauth.Connection) {
		calls := network.Client()
		calls.Transport = client.Transport(conn, calls.Transport)
		host := mcp.NewClient(&mcp.Implementation{Name: "example", Version: "1"}, nil)
		_, err := host.Connect(r.Context(), &mcp.StreamableClientTransport{Endpoint: conn.Endpoint, HTTPClient: calls, OAuthHandler: client.Handler(conn)}, nil)
		var required *oauth.SignInRequired
		if errors.As(err, &required) {
			fmt.Fprintf(w, "Sign in to %s?", required.Connection.Endpoint) // keep required.Challenge for the click
		}
	}
	clicked := func(w http.ResponseWriter, r *http.Request, required *oauth.SignInRequired) {
		signIn, err := client.Begin(r.Context(), required.Connection, &oauth.BeginOptions{Challenge: &required.Challenge})
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		http.Redirect(w, r, signIn.URL, http.StatusSeeOther)
	}
	callback := func(w http.ResponseWriter, r *http.Request, user string) {
		conn, err := client.Finish(r.Context(), user, r.URL.RawQuery)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, "Signed in to %s.", conn.Endpoint)
	}
	_, _, _ = call, clicked, callback
}
