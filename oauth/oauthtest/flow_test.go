package oauthtest_test

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/openbot-build/openbot-go/oauth"
	"github.com/openbot-build/openbot-go/oauth/oauthtest"
)

// app is a resource server behind a Guard, on the world's network.
func (w *world) app(t *testing.T, opaque bool) {
	t.Helper()
	is := oauth.Issuer{URL: issuer}
	if opaque {
		is.Introspection = w.Introspection()
	}
	h, err := oauth.Protect(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(rw, "hello")
	}), &oauth.Protection{
		Resource: notes, Issuers: []oauth.Issuer{is}, Network: w.network,
		Scopes: oauth.Scopes{
			Basic: []string{"notes.read"}, Tools: map[string][]string{"write": {"notes.write"}},
			Implies: map[string][]string{"notes.write": {"notes.read"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.net.Handle("apps.example.com", h)
}

// call calls a tool with a token; "" is none.
func (w *world) call(t *testing.T, tool string, token oauth.Secret) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, notes, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool,
	} {
		req.Header.Set(name, value)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	resp, err := w.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp
}

// refused gives the challenge of an answer.
func refused(t *testing.T, resp *http.Response, status int) *oauth.Challenge {
	t.Helper()
	if resp.StatusCode != status {
		t.Fatalf("status %d, want %d (%s)", resp.StatusCode, status, resp.Header.Get("WWW-Authenticate"))
	}
	c := oauth.ParseChallenge(resp.Header)
	c.Status = status
	return &c
}

// Host, app and authorization server of this module, from the first 401 to the
// end of a connection.
func TestWholeFlow(t *testing.T) {
	for name, opaque := range map[string]bool{"JWT": false, "opaque": true} {
		t.Run(name, func(t *testing.T) { wholeFlow(t, opaque) })
	}
}

func wholeFlow(t *testing.T, opaque bool) {
	w := newWorld(t, func(o *oauthtest.Options) { o.Opaque = opaque })
	w.app(t, opaque)
	ctx := t.Context()
	store := oauth.NewMemoryStore()
	host, err := oauth.NewClient(&oauth.ClientOptions{Network: w.network, Store: store, ClientID: clientID, RedirectURI: loopback})
	if err != nil {
		t.Fatal(err)
	}
	conn := oauth.Connection{ID: "c-1", User: "ada", CardURL: "https://apps.example.com/mcp/notes/server-card", Endpoint: notes}
	if err := store.Add(ctx, conn); err != nil {
		t.Fatal(err)
	}
	signIn := func(c *oauth.Challenge) {
		t.Helper()
		s, err := host.Begin(ctx, conn, &oauth.BeginOptions{Challenge: c})
		if err != nil {
			t.Fatal(err)
		}
		if s.Issuer != issuer || s.Resource != notes {
			t.Errorf("sign-in at %s for %s", s.Issuer, s.Resource)
		}
		to, err := w.Approve(ctx, nil, s.URL, "ada")
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(to)
		if err != nil || u.Host != "127.0.0.1:43117" {
			t.Fatalf("redirect to %s, %v", u.Host, err)
		}
		if _, err := host.Finish(ctx, "ada", u.RawQuery); err != nil {
			t.Fatal(err)
		}
	}
	token := func() oauth.Secret {
		t.Helper()
		tok, err := host.Token(ctx, conn)
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}

	signIn(refused(t, w.call(t, "list", ""), http.StatusUnauthorized))
	first := token()
	if resp := w.call(t, "list", first); resp.StatusCode != 200 {
		t.Fatalf("a call with the token: %d %s", resp.StatusCode, resp.Header.Get("WWW-Authenticate"))
	}

	more := refused(t, w.call(t, "write", first), http.StatusForbidden) // step-up
	if more.Error != "insufficient_scope" {
		t.Errorf("challenge %+v", more)
	}
	signIn(more)
	if resp := w.call(t, "write", token()); resp.StatusCode != 200 {
		t.Fatalf("a call after step-up: %d %s", resp.StatusCode, resp.Header.Get("WWW-Authenticate"))
	}

	before, err := store.Tokens(ctx, conn)
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Refresh(ctx, conn); err != nil {
		t.Fatal(err)
	}
	if resp := w.call(t, "write", token()); resp.StatusCode != 200 {
		t.Errorf("a call after refresh: %d", resp.StatusCode)
	}

	// A thief replays the refresh token that was replaced: the host is signed
	// out, and finds out with its next refresh.
	if status, tok := w.post(t, "/token", refresh(before.Refresh.Reveal())); status != 400 || tok.Error != "invalid_grant" {
		t.Errorf("replay: %d %s", status, tok.Error)
	}
	var required *oauth.SignInRequired
	if err := host.Refresh(ctx, conn); !errors.As(err, &required) {
		t.Errorf("refresh after a replay: %v", err)
	}

	signIn(nil)
	last, err := store.Tokens(ctx, conn)
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Revoke(ctx, conn); err != nil {
		t.Errorf("revocation: %v", err)
	}
	if w.introspect(t, last.Access.Reveal()).Active {
		t.Error("the access token outlives its connection")
	}
	if status, tok := w.post(t, "/token", refresh(last.Refresh.Reveal())); status != 400 || tok.Error != "invalid_grant" {
		t.Errorf("the refresh token after the connection: %d %s", status, tok.Error)
	}
	if _, err := host.Token(ctx, conn); err == nil {
		t.Error("a deleted connection gave a token")
	}
	for where, n := range w.Requests() {
		if n == 0 {
			t.Errorf("%s was never asked", where)
		}
	}
}

// A user who refuses ends the sign-in, and the host can say why.
func TestRefusedSignIn(t *testing.T) {
	w := newWorld(t, nil)
	w.app(t, false)
	store := oauth.NewMemoryStore()
	host, err := oauth.NewClient(&oauth.ClientOptions{Network: w.network, Store: store, ClientID: clientID, RedirectURI: loopback})
	if err != nil {
		t.Fatal(err)
	}
	conn := oauth.Connection{ID: "c-1", User: "ada", CardURL: "https://apps.example.com/card", Endpoint: notes}
	if err := store.Add(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	s, err := host.Begin(t.Context(), conn, nil)
	if err != nil {
		t.Fatal(err)
	}
	to, err := w.Refuse(t.Context(), nil, s.URL)
	if err != nil {
		t.Fatal(err)
	}
	_, query, _ := strings.Cut(to, "?")
	if _, err := host.Finish(t.Context(), "ada", query); err == nil || !strings.Contains(err.Error(), "access_denied") {
		t.Errorf("error %v", err)
	}
}

// What the server says of a bad request shows nothing of what was sent.
func TestNothingSecretIsShown(t *testing.T) {
	w := newWorld(t, nil)
	tok := w.signIn(t)
	code := w.approve(t, authorization()).Get("code")
	for endpoint, v := range map[string]url.Values{
		"/token":      with(exchange(code), "code_verifier", "short"),
		"/revoke":     {"token": {tok.Refresh}, "client_id": {"nobody"}},
		"/introspect": {"token": {tok.Access}, "client_id": {clientID}},
	} {
		status, out := w.post(t, endpoint, v)
		if status == 200 || out.Error == "" {
			t.Errorf("%s: %d %s", endpoint, status, out.Error)
		}
		for _, secret := range []string{code, tok.Access, tok.Refresh} {
			if strings.Contains(out.Error+out.Description, secret) {
				t.Errorf("%s shows a secret", endpoint)
			}
		}
	}
	if status, out := w.post(t, "/token", refresh(tok.Refresh)); status != 200 {
		t.Errorf("the refresh token after all that: %d %s", status, out.Error)
	}
}
