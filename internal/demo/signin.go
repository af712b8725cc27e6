package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/oauth"
	"github.com/openbot-build/openbot-go/oauth/cimd"
	"github.com/openbot-build/openbot-go/oauth/oauthtest"
	"github.com/openbot-build/openbot-go/publicnet"
)

// Who takes part in signing in to the notes app, besides the app itself.
const (
	signInHost = "signin.example.com" // the authorization server
	agentHost  = "host.example.com"   // the host, whose client document is there

	notesEndpoint = "https://notes.example.com/mcp/notes"
	notesCard     = notesEndpoint + "/server-card"
	notesRead     = "notes.read"
	notesWrite    = "notes.write"

	clientDocument = "https://" + agentHost + "/client.json"
	callback       = "https://" + agentHost + "/callback"
)

// protectNotes says who may use the notes app: users of the demo's authorization
// server, and who may write in it.
func protectNotes(network *publicnet.Network) *oauth.Protection {
	return &oauth.Protection{
		Issuers: []oauth.Issuer{{URL: "https://" + signInHost}},
		Scopes: oauth.Scopes{
			Basic:   []string{notesRead},
			Tools:   map[string][]string{"add_note": {notesWrite}},
			Implies: map[string][]string{notesWrite: {notesRead}},
		},
		Network: network,
	}
}

// publishSignIn starts the authorization server and publishes the document that
// the host is known by there.
func (d *demo) publishSignIn(network *publicnet.Network) (err error) {
	d.issuer, err = oauthtest.New(&oauthtest.Options{
		Issuer: "https://" + signInHost, Resources: []string{notesEndpoint}, Scopes: []string{notesRead, notesWrite}, Network: network,
	})
	if err != nil {
		return err
	}
	document, err := cimd.New(clientDocument, "Demo host", callback)
	if err != nil {
		return err
	}
	client, err := document.Handler()
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/client.json", client)
	return errors.Join(d.serve(signInHost, d.issuer), d.serve(agentHost, mux))
}

// checkChallenge looks at what the notes app says to somebody who has not signed
// in, and follows it one step.
func (d *demo) checkChallenge(ctx context.Context, c *http.Client) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, notesEndpoint, strings.NewReader("{}"))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.Do(r)
	if err != nil {
		return err
	}
	_ = answer.Body.Close()
	challenge := oauth.ParseChallenge(answer.Header)
	if answer.StatusCode != http.StatusUnauthorized || !slices.Equal(challenge.Scope, []string{notesRead}) || challenge.ResourceMetadata == "" {
		return fmt.Errorf("status %d, challenge %+v", answer.StatusCode, challenge)
	}
	status, _, body, err := get(ctx, c, challenge.ResourceMetadata, "")
	if err != nil {
		return err
	}
	for _, want := range []string{`"` + notesEndpoint + `"`, `"https://` + signInHost + `"`, `"` + notesRead + `"`} {
		if status != http.StatusOK || !strings.Contains(string(body), want) {
			return fmt.Errorf("metadata: status %d, no %s in %s", status, want, body)
		}
	}
	return nil
}

// checkSignIn signs a user in as a host does, reads, and asks for more when the
// app does.
func (d *demo) checkSignIn(ctx context.Context, c *http.Client) error {
	network, err := d.network()
	if err != nil {
		return err
	}
	store := oauth.NewMemoryStore()
	host, err := oauth.NewClient(&oauth.ClientOptions{Network: network, Store: store, ClientID: clientDocument, RedirectURI: callback})
	if err != nil {
		return err
	}
	conn := oauth.Connection{ID: "notes-of-ann", User: "ann", CardURL: notesCard, Endpoint: notesEndpoint}
	if err := store.Add(ctx, conn); err != nil {
		return err
	}
	// Every call has to be answered by a person's decision, not by a browser that
	// opens by itself: signed out, a call only says what is needed.
	required, err := d.useNotes(ctx, c, host, conn, readNotes)
	if err != nil || required == nil || required.StepUp {
		return fmt.Errorf("signed out: %w; sign-in required: %w", orNothing(err), orNone(required))
	}
	if err := d.agree(ctx, host, conn, required.Challenge, notesRead); err != nil {
		return fmt.Errorf("sign in: %w", err)
	}
	if required, err = d.useNotes(ctx, c, host, conn, readNotes); err != nil || required != nil {
		return fmt.Errorf("read: %w; sign-in required: %w", orNothing(err), orNone(required))
	}
	required, err = d.useNotes(ctx, c, host, conn, writeNote)
	if err != nil || required == nil || !required.StepUp {
		return fmt.Errorf("write with too little: %w; sign-in required: %w", orNothing(err), orNone(required))
	}
	if err := d.agree(ctx, host, conn, required.Challenge, notesRead, notesWrite); err != nil {
		return fmt.Errorf("ask for more: %w", err)
	}
	if required, err = d.useNotes(ctx, c, host, conn, writeNote); err != nil || required != nil {
		return fmt.Errorf("write: %w; sign-in required: %w", orNothing(err), orNone(required))
	}
	if err := host.Revoke(ctx, conn); err != nil {
		return fmt.Errorf("sign out: %w", err)
	}
	if _, err := host.Token(ctx, conn); err == nil {
		return errors.New("signed out, and there is still a token")
	}
	return nil
}

// orNothing is an error for a sentence that has another reason.
func orNothing(err error) error {
	if err == nil {
		return errors.New("no error")
	}
	return err
}

func orNone(required *oauth.SignInRequired) error {
	if required == nil {
		return errors.New("none")
	}
	return required
}

// agree plays the user: the authorization server asks for consent, and ann gives
// it. want are the scopes that she is asked for.
func (d *demo) agree(ctx context.Context, host *oauth.Client, conn oauth.Connection, challenge oauth.Challenge, want ...string) error {
	signIn, err := host.Begin(ctx, conn, &oauth.BeginOptions{Challenge: &challenge})
	if err != nil {
		return err
	}
	if !slices.Equal(slices.Sorted(slices.Values(signIn.Scopes)), want) {
		return fmt.Errorf("asks for %q, want %q", signIn.Scopes, want)
	}
	redirect, err := d.issuer.Approve(ctx, nil, signIn.URL, conn.User)
	if err != nil {
		return err
	}
	back, err := url.Parse(redirect)
	if err != nil {
		return err
	}
	_, err = host.Finish(ctx, conn.User, back.RawQuery)
	return err
}

// useNotes connects to the notes app and does one thing. required is set when
// that wants its user.
func (d *demo) useNotes(ctx context.Context, c *http.Client, host *oauth.Client, conn oauth.Connection, do func(context.Context, *mcp.ClientSession) error) (required *oauth.SignInRequired, err error) {
	guarded := *c
	guarded.Transport = host.Transport(conn, c.Transport)
	client := mcp.NewClient(&mcp.Implementation{Name: "demo", Version: "1.0.0"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: conn.Endpoint, HTTPClient: &guarded, OAuthHandler: host.Handler(conn), DisableStandaloneSSE: true, MaxRetries: -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: "2026-07-28"})
	if err == nil {
		defer func() { _ = session.Close() }()
		err = do(ctx, session)
	}
	if errors.As(err, &required) {
		return required, nil
	}
	return nil, err
}

func readNotes(ctx context.Context, session *mcp.ClientSession) error {
	result, err := session.ReadResource(ctx, &mcp.ReadResourceParams{URI: "notes://all"})
	if err != nil {
		return err
	}
	if len(result.Contents) != 1 || !strings.Contains(result.Contents[0].Text, "团队周会") {
		return fmt.Errorf("read %+v", result.Contents)
	}
	return nil
}

func writeNote(ctx context.Context, session *mcp.ClientSession) error {
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "add_note", Arguments: map[string]any{"text": "买茶"}})
	if err != nil {
		return err
	}
	if result.IsError {
		return fmt.Errorf("add_note failed: %+v", result.Content)
	}
	return nil
}
