package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/oauth"
	"github.com/openbot-build/openbot-go/oauth/cimd"
	"github.com/openbot-build/openbot-go/publicnet"
	"github.com/openbot-build/openbot-go/publisher"
)

// flow is one run of the whole sign-in.
type flow struct {
	*testing.T
	*authority
	net     *loopback
	network *publicnet.Network
	http    *http.Client // the product's
	opaque  bool
	store   oauth.Store
}

func (f *flow) run() {
	f.serveHost()
	f.serveApps()
	v := f.visitor()
	f.first(v)
	f.otherResources(v)
	f.stepUp(v)
	f.refresh(v)
	f.revoke(v)
}

// must ends the test: each step stands on the one before.
func (f *flow) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// serveHost publishes the host's document. It lists no port on loopback, where
// the host takes whichever is free.
func (f *flow) serveHost() {
	d, err := cimd.New(hostsFile, "A host of tests", "http://127.0.0.1/callback")
	f.must(err)
	h, err := d.Handler()
	f.must(err)
	f.net.serve("host.example.com", h)
}

// serveApps publishes two apps on one host. Each call begins with empty caches.
func (f *flow) serveApps() {
	f.Helper()
	i := oauth.Issuer{URL: issuer, Algorithms: []string{"ES256"}}
	if f.opaque {
		i.Introspection = f.introspection
	}
	config := &publisher.Config{Origin: "https://apps.example.com"}
	for _, slug := range []string{"notes", "mail"} {
		c := card.Card{Name: "com.example/" + slug, Title: slug, Version: "1.0.0", Description: "An app with users."}
		s, err := publisher.NewServer(&c, nil)
		f.must(err)
		for _, name := range []string{"list", "add"} {
			f.must(publisher.AddTool(s, &mcp.Tool{Name: name, Description: "Say who calls."}, func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, oauth.Identity, error) {
				id, ok := oauth.IdentityFrom(r.Extra.TokenInfo)
				if !ok {
					return nil, id, errors.New("nobody calls")
				}
				return publisher.Text(id.Subject), id, nil
			}))
		}
		config.Apps = append(config.Apps, publisher.App{Slug: slug, Card: c, Server: s, Protection: &oauth.Protection{
			Issuers: []oauth.Issuer{i}, Network: f.network,
			Scopes: oauth.Scopes{Basic: []string{"notes.read"}, Tools: map[string][]string{"add": {"notes.write"}}},
		}})
	}
	p, err := publisher.New(config)
	f.must(err)
	f.Cleanup(func() { _ = p.Close() })
	f.net.serve("apps.example.com", p)
}

func (f *flow) visitor() *visitor {
	f.store = oauth.NewMemoryStore()
	c, err := oauth.NewClient(&oauth.ClientOptions{Network: f.network, Store: f.store, ClientID: hostsFile, RedirectURI: redirectURI})
	f.must(err)
	v := &visitor{http: f.network.Client(), oauth: c, conn: oauth.Connection{ID: "notes", User: user, CardURL: "https://apps.example.com/mcp/notes/server-card", Endpoint: notesApp}, browse: f.approve}
	v.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	f.Cleanup(v.http.CloseIdleConnections)
	f.must(f.store.Add(f.Context(), v.conn))
	return v
}

// knock asks an app for its tools with a token, or none, and gives the answer.
func (f *flow) knock(app string, token oauth.Secret) (int, oauth.Challenge) {
	f.Helper()
	r, err := http.NewRequestWithContext(f.Context(), http.MethodPost, app, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"`+modern+`","io.modelcontextprotocol/clientCapabilities":{}}}}`))
	f.must(err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("MCP-Protocol-Version", modern)
	r.Header.Set("Mcp-Method", "tools/list")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	answer, err := f.http.Do(r)
	f.must(err)
	f.must(answer.Body.Close())
	return answer.StatusCode, oauth.ParseChallenge(answer.Header)
}

// begin begins a sign-in and gives what it asks the user to open, taken apart.
func (f *flow) begin(v *visitor, need *oauth.SignInRequired) (*oauth.SignIn, *url.URL, url.Values) {
	f.Helper()
	s, err := v.oauth.Begin(f.Context(), v.conn, &oauth.BeginOptions{Challenge: &need.Challenge})
	f.must(err)
	u, err := url.Parse(s.URL)
	f.must(err)
	return s, u, u.Query()
}

// finish lets the user agree and the host finish, and gives the tokens.
func (f *flow) finish(v *visitor, s *oauth.SignIn) *oauth.Tokens {
	f.Helper()
	redirect, err := f.approve(f.Context(), s.URL)
	f.must(err)
	query, back := strings.CutPrefix(redirect, redirectURI+"?")
	if !back {
		f.Fatalf("the user ends at %s", redirect)
	}
	if values, err := url.ParseQuery(query); err != nil || len(values["iss"]) != 1 || values.Get("iss") != issuer {
		f.Errorf("iss of the answer is %q: %v", values["iss"], err)
	}
	conn, err := v.oauth.Finish(f.Context(), user, query)
	f.must(err)
	if *conn != v.conn {
		f.Errorf("connection %v", conn)
	}
	return f.tokens(v)
}

func (f *flow) tokens(v *visitor) *oauth.Tokens {
	f.Helper()
	tokens, err := f.store.Tokens(f.Context(), v.conn)
	f.must(err)
	return tokens
}

// identify calls a tool and gives who called it.
func (f *flow) identify(v *visitor, tool string) (oauth.Identity, error) {
	f.Helper()
	result, err := v.session.CallTool(f.Context(), &mcp.CallToolParams{Name: tool})
	if err != nil {
		return oauth.Identity{}, err
	}
	text, err := json.Marshal(result.StructuredContent)
	f.must(err)
	var id oauth.Identity
	f.must(json.Unmarshal(text, &id))
	return id, nil
}

// first signs in: the app's challenge, its metadata and those of the server,
// the host's document, S256, resource and iss; then a call.
func (f *flow) first(v *visitor) {
	status, ch := f.knock(notesApp, "")
	if status != http.StatusUnauthorized || ch.Error != "" || strings.Join(ch.Scope, " ") != "notes.read" {
		f.Errorf("without a token: %d, %+v", status, ch)
	}
	need := new(oauth.SignInRequired)
	if err := v.connect(f.Context()); !errors.As(err, &need) || need.StepUp {
		f.Fatalf("signed out: %v", err)
	}
	s, u, q := f.begin(v, need)
	if s.Issuer != issuer || s.Resource != notesApp || u.Scheme+"://"+u.Host != issuer {
		f.Errorf("sign-in at %s for %s at %s", s.Issuer, s.Resource, s.URL)
	}
	for name, want := range map[string]string{
		"response_type": "code", "client_id": hostsFile, "redirect_uri": redirectURI, "resource": notesApp,
		"code_challenge_method": "S256", "state": s.State,
	} {
		if got := q[name]; len(got) != 1 || got[0] != want {
			f.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if len(q.Get("code_challenge")) != 43 || !strings.Contains(" "+q.Get("scope")+" ", " notes.read ") || strings.Contains(q.Get("scope"), "notes.write") {
		f.Errorf("code_challenge and scope of %s", s.URL)
	}

	// The path of a redirect must be registered; nobody is sent to another.
	f.refuses(u, q, "redirect_uri", "http://127.0.0.1:8787/elsewhere", "")
	// The server gives tokens for resources that it knows.
	f.refuses(u, q, "resource", otherApp, "invalid_target")

	tokens := f.finish(v, s)
	f.checkToken(tokens.Access)
	if tokens.Refresh == "" {
		f.Fatal("no refresh token")
	}
	f.must(v.connect(f.Context()))
	id, err := f.identify(v, "list")
	f.must(err)
	if id.Issuer != issuer || id.Subject == "" || id.ClientID != hostsFile || strings.Join(id.Scopes, " ") != "notes.read" {
		f.Errorf("called by %+v", id)
	}
}

// refuses changes one parameter of an authorization URL. The answer is an error
// at the host's redirect, or with code "" no redirect at all.
func (f *flow) refuses(u *url.URL, q url.Values, name, value, code string) {
	f.Helper()
	changed, other := *u, url.Values{}
	for k, v := range q {
		other[k] = v
	}
	other.Set(name, value)
	changed.RawQuery = other.Encode()
	redirect, err := f.approve(f.Context(), changed.String())
	if code == "" {
		if err == nil {
			f.Errorf("with another %s the user ends at %s", name, redirect)
		}
		return
	}
	f.must(err)
	query, back := strings.CutPrefix(redirect, redirectURI+"?")
	values, err := url.ParseQuery(query)
	if !back || err != nil || values.Get("error") != code || values.Get("code") != "" || values.Get("iss") != issuer {
		f.Errorf("with another %s the user ends at %s", name, redirect)
	}
}

// checkToken looks at the form of an access token.
func (f *flow) checkToken(token oauth.Secret) {
	f.Helper()
	parts := strings.Split(token.Reveal(), ".")
	if f.opaque {
		if len(parts) == 3 {
			f.Error("an opaque token is a JWT")
		}
		return
	}
	if len(parts) != 3 {
		f.Fatal("the token is no JWT")
	}
	var header struct{ Typ, Alg string }
	text, err := base64.RawURLEncoding.DecodeString(parts[0])
	f.must(err)
	f.must(json.Unmarshal(text, &header))
	if header.Typ != "at+jwt" || header.Alg != "ES256" {
		f.Errorf("header %+v", header)
	}
}

// otherResources shows that a token opens its own resource alone.
func (f *flow) otherResources(v *visitor) {
	access := f.tokens(v).Access
	if status, _ := f.knock(notesApp, access); status != http.StatusOK {
		f.Errorf("at its own resource: %d", status)
	}
	if status, ch := f.knock(mailApp, access); status != http.StatusUnauthorized || ch.Error != "invalid_token" {
		f.Errorf("at another resource: %d, %+v", status, ch)
	}
}

// stepUp calls a tool that needs more.
func (f *flow) stepUp(v *visitor) {
	need := new(oauth.SignInRequired)
	if _, err := f.identify(v, "add"); !errors.As(err, &need) || !need.StepUp || need.Asked {
		f.Fatalf("without the scope: %v", err)
	}
	if got := strings.Join(need.Challenge.Scope, " "); got != "notes.read notes.write" {
		f.Errorf("the challenge is for %s", got)
	}
	if _, err := f.identify(v, "list"); err != nil {
		f.Errorf("what needed no more: %v", err)
	}
	s, _, q := f.begin(v, need)
	for _, scope := range scopes {
		if !strings.Contains(" "+q.Get("scope")+" ", " "+scope+" ") {
			f.Errorf("%s is not asked for", scope)
		}
	}
	f.finish(v, s)
	id, err := f.identify(v, "add")
	f.must(err)
	if got := strings.Join(id.Scopes, " "); got != "notes.read notes.write" {
		f.Errorf("scopes %s", got)
	}
}

// token makes a refresh request of its own and gives the status and the error
// code.
func (f *flow) token(t *oauth.Tokens) (int, string) {
	f.Helper()
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {t.Refresh.Reveal()}, "client_id": {hostsFile}, "resource": {notesApp}}
	r, err := http.NewRequestWithContext(f.Context(), http.MethodPost, t.TokenEndpoint, strings.NewReader(form.Encode()))
	f.must(err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := f.http.Do(r)
	f.must(err)
	var body struct{ Error string }
	f.must(errors.Join(json.NewDecoder(answer.Body).Decode(&body), answer.Body.Close()))
	return answer.StatusCode, body.Error
}

// refresh replaces the tokens; the old refresh token, shown again, ends all that
// came from the same sign-in.
func (f *flow) refresh(v *visitor) {
	old := f.tokens(v)
	f.must(v.oauth.Refresh(f.Context(), v.conn))
	fresh := f.tokens(v)
	if fresh.Access == old.Access || fresh.Refresh == old.Refresh || fresh.Refresh == "" {
		f.Error("the tokens are the same")
	}
	f.checkToken(fresh.Access)
	id, err := f.identify(v, "add")
	if err != nil || strings.Join(id.Scopes, " ") != "notes.read notes.write" {
		f.Errorf("after the refresh: %+v, %v", id, err)
	}
	if status, code := f.token(old); status != http.StatusBadRequest || code != "invalid_grant" {
		f.Errorf("replay of a refresh token: %d %s", status, code)
	}
	need := new(oauth.SignInRequired)
	if err := v.oauth.Refresh(f.Context(), v.conn); !errors.As(err, &need) || need.StepUp {
		f.Errorf("after the replay: %v", err)
	}
	if _, err := f.store.Tokens(f.Context(), v.conn); !errors.Is(err, oauth.ErrNotFound) {
		f.Errorf("tokens after the replay: %v", err)
	}
}

// revoke signs in once more and ends the connection.
func (f *flow) revoke(v *visitor) {
	f.must(v.call(f.Context(), v.connect))
	last := f.tokens(v)
	f.must(v.oauth.Revoke(f.Context(), v.conn))
	if _, err := f.store.Tokens(f.Context(), v.conn); !errors.Is(err, oauth.ErrGone) {
		f.Errorf("tokens after the end: %v", err)
	}
	if err := v.connect(f.Context()); !errors.Is(err, oauth.ErrGone) {
		f.Errorf("a call after the end: %v", err)
	}
	if status, code := f.token(last); status != http.StatusBadRequest || code != "invalid_grant" {
		f.Errorf("a revoked refresh token: %d %s", status, code)
	}
	// A JWT is good until it expires, wherever it is judged without asking. An
	// opaque one ends when the app asks again.
	f.serveApps()
	want := http.StatusOK
	if f.opaque {
		want = http.StatusUnauthorized
	}
	if status, _ := f.knock(notesApp, last.Access); status != want {
		f.Errorf("a revoked access token: %d, want %d", status, want)
	}
}
