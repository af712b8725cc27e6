package oauth

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/publicnet"
)

// What the protocol's own page adds (oauth.md O1 to O7, openbot.md OB-60 to
// OB-75), the halves of the host. Some rules stand in both lists.

func TestRule_OauthO1_ClientDocumentIsTheClientID(t *testing.T)     { testClientDocument(t) }
func TestRule_OB61_ClientDocumentIsTheClientID(t *testing.T)        { testClientDocument(t) }
func TestRule_D21_OrderOfClients(t *testing.T)                      { TestRule_OauthC9_OrderOfClients(t) }
func TestRule_OauthO2_ResourceIsExact(t *testing.T)                 { testExactResource(t) }
func TestRule_OB62_S256AndTheExactResource(t *testing.T)            { testExactResource(t) }
func TestRule_OauthO3_ChallengeLeadsToServerAndScopes(t *testing.T) { testChallengeLeads(t) }
func TestRule_OB60_ChallengeLeadsToServerAndScopes(t *testing.T)    { testChallengeLeads(t) }
func TestRule_OauthO4_NewTargetGetsNoOldToken(t *testing.T)         { testNewTarget(t) }
func TestRule_OB71_OldTokenNeverMoves(t *testing.T)                 { testNewTarget(t) }
func TestRule_OauthO6_SecretsOfEachUser(t *testing.T)               { testUsersApart(t) }
func TestRule_OB70_SecretsOfEachUser(t *testing.T)                  { testUsersApart(t) }
func TestRule_OB73_KeyOfATokenIsAllOfIt(t *testing.T)               { testTokenKey(t) }
func TestRule_D22_KeyOfATokenIsAllOfIt(t *testing.T)                { testTokenKey(t) }
func TestRule_OB64_ScopesAuthMethodsAndIssuers(t *testing.T)        { testAuthMethods(t) }
func TestRule_D19_BytesAndNoFallback(t *testing.T)                  { testNoFallback(t) }
func TestRule_OB64_BytesAndNoFallback(t *testing.T)                 { testNoFallback(t) }
func TestRule_D20_OneStepUp(t *testing.T)                           { testStepUp(t) }
func TestRule_OB64_OneStepUp(t *testing.T)                          { testStepUp(t) }

func testClientDocument(t *testing.T) {
	w := newWorld(t)
	w.signIn()
	if got := w.as.sent("/token")[0]; got.Get("client_id") != testClientID || got.Has("client_secret") {
		t.Errorf("sent %v", got)
	}
	if n := len(w.as.sent("/register")); n != 0 {
		t.Errorf("registered %d times", n)
	}
}

func testExactResource(t *testing.T) {
	for _, endpoint := range []string{"https://apps.example.com/mcp/notes/", "https://apps.example.com/mcp/Notes?a=%2f", "https://apps.example.com", "https://apps.example.com/"} {
		w := newWorld(t)
		w.conn.ID, w.conn.Endpoint = "c2", endpoint
		if err := w.store.Add(t.Context(), w.conn); err != nil {
			t.Fatal(err)
		}
		probes, err := resourceProbes(endpoint, "", false)
		if err != nil {
			t.Fatal(err)
		}
		w.net.Set(probes[0].URL, answerJSON(map[string]any{"resource": endpoint, "authorization_servers": []string{testIssuer}}))
		s := w.begin(nil)
		if q := query(t, s.URL); s.Resource != endpoint || q.Get("resource") != endpoint || q.Get("code_challenge_method") != "S256" {
			t.Errorf("%s: %s", endpoint, s.URL)
		}
		if _, err := w.client.Finish(t.Context(), "alice", w.as.approve(t, s.URL)); err != nil {
			t.Fatal(err)
		}
		if got := w.as.sent("/token")[0].Get("resource"); got != endpoint {
			t.Errorf("the token is for %q", got)
		}
	}
}

func testChallengeLeads(t *testing.T) {
	w := newWorld(t)
	newGuardedApp(w)
	_, err := w.connect(t.Context())
	r := wantRequired(t, err)
	s := w.begin(&BeginOptions{Challenge: &r.Challenge})
	if s.Issuer != testIssuer || !slices.Equal(s.Scopes, []string{"notes.read"}) {
		t.Errorf("%+v", s)
	}
	// A 403 leads there as well when nobody is signed in.
	req, resp := refused(403, `Bearer scope="notes.read", resource_metadata="`+testPRM+`"`)
	if r := wantRequired(t, w.client.Handler(w.conn).Authorize(t.Context(), req, resp)); r.StepUp {
		t.Errorf("a step-up of nobody: %+v", r)
	}
}

func testNewTarget(t *testing.T) {
	// Another endpoint or card: a review, and the old tokens are gone.
	for _, change := range []func(*Connection){
		func(c *Connection) { c.Endpoint = "https://apps.example.com/mcp/notes2" },
		func(c *Connection) { c.CardURL += "x" },
	} {
		w := newWorld(t)
		w.signIn()
		now := w.conn
		change(&now)
		if token, err := w.client.Token(t.Context(), now); !errors.Is(err, ErrReview) || token != "" {
			t.Errorf("another target got a token: %v", err)
		}
		if _, err := w.client.Begin(t.Context(), now, nil); !errors.Is(err, ErrReview) {
			t.Errorf("a sign-in without a review: %v", err)
		}
		_, err := w.client.Token(t.Context(), w.conn)
		if !errors.Is(err, ErrGone) {
			wantRequired(t, err)
		}
	}
	// Another provider: the tokens of the old one are dropped.
	w := newWorld(t)
	w.signIn()
	other := newFakeServer("https://as2.example.com")
	w.net.Handle("as2.example.com", other)
	w.app.metadata["authorization_servers"] = []string{other.issuer}
	if s := w.begin(nil); s.Issuer != other.issuer || s.FormerIssuer != testIssuer {
		t.Errorf("%+v", s)
	}
	_, err := w.client.Token(t.Context(), w.conn)
	wantRequired(t, err)
}

func testUsersApart(t *testing.T) {
	w := newWorld(t)
	w.signIn()
	bob := w.conn
	bob.User = "bob" // under alice's connection
	if token, err := w.client.Token(t.Context(), bob); !errors.Is(err, ErrReview) || token != "" {
		t.Errorf("bob got alice's token: %v", err)
	}
	if err := w.client.Revoke(t.Context(), bob); err == nil {
		t.Error("bob ended alice's connection")
	}
	if err := w.client.Refresh(t.Context(), bob); err == nil {
		t.Error("bob refreshed alice's tokens")
	}
}

func testTokenKey(t *testing.T) {
	for name, change := range map[string]func(*world){
		"client id": func(w *world) { w.opts.ClientID = "https://host.example.com/oauth/client2.json" },
		"no client": func(w *world) { w.opts.ClientID = "" },
		"issuer": func(w *world) {
			w.opts.ClientID = ""
			w.opts.Registered = []Registration{{Issuer: testIssuer + "/", ClientID: testClientID}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.signIn()
			change(w)
			_, err := w.another().Token(t.Context(), w.conn)
			wantRequired(t, err)
			if _, err := w.store.Tokens(t.Context(), w.conn); !errors.Is(err, ErrNotFound) {
				t.Errorf("the tokens of another key are still there: %v", err)
			}
		})
	}
	testNewTarget(t)
}

func testAuthMethods(t *testing.T) {
	for name, c := range map[string]struct {
		client  Registration
		offered any
		want    string // "none", "basic" or "post"
	}{
		"nothing offered is basic": {Registration{Secret: "SECRET-%+ /"}, nil, "basic"},
		"basic offered":            {Registration{Secret: "SECRET-x"}, []string{"client_secret_post", "client_secret_basic"}, "basic"},
		"post offered":             {Registration{Secret: "SECRET-x"}, []string{"none", "client_secret_post"}, "post"},
		"as registered":            {Registration{Secret: "SECRET-x", AuthMethod: "client_secret_post"}, nil, "post"},
		"no secret":                {Registration{}, []string{"client_secret_basic"}, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			c.client.Issuer, c.client.ClientID = testIssuer, "a client:%"
			w := newWorld(t, func(w *world) { w.opts.Registered = []Registration{c.client} })
			if c.offered != nil {
				w.as.metadata["token_endpoint_auth_methods_supported"] = c.offered
			}
			w.signIn()
			if err := w.client.Refresh(t.Context(), w.conn); err != nil {
				t.Fatal(err)
			}
			if err := w.client.Revoke(t.Context(), w.conn); err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{"/token", "/revoke"} {
				for i, f := range w.as.sent(path) {
					r := http.Request{Header: w.as.headers[path][i]}
					id, secret, basic := r.BasicAuth()
					id, _ = url.QueryUnescape(id)
					secret, _ = url.QueryUnescape(secret)
					got := "none"
					switch {
					case basic && id == c.client.ClientID && secret == c.client.Secret.Reveal() && !f.Has("client_id") && !f.Has("client_secret"):
						got = "basic"
					case f.Get("client_secret") == c.client.Secret.Reveal() && f.Has("client_secret") && f.Get("client_id") == c.client.ClientID && !basic:
						got = "post"
					case basic || f.Has("client_secret") || f.Get("client_id") != c.client.ClientID:
						got = "something else"
					}
					if got != c.want {
						t.Errorf("%s: %s, want %s: %v", path, got, c.want, f)
					}
				}
			}
		})
	}
}

func testNoFallback(t *testing.T) {
	for name, change := range map[string]func(*world){
		"no resource metadata":    func(w *world) { w.app.metadata = nil },
		"no server":               func(w *world) { delete(w.app.metadata, "authorization_servers") },
		"no server metadata":      func(w *world) { w.as.metadata = nil },
		"no endpoints":            func(w *world) { delete(w.as.metadata, "token_endpoint") },
		"no S256":                 func(w *world) { delete(w.as.metadata, "code_challenge_methods_supported") },
		"resource with a slash":   func(w *world) { w.app.metadata["resource"] = testEndpoint + "/" },
		"issuer with a slash":     func(w *world) { w.as.metadata["issuer"] = testIssuer + "/" },
		"resource in upper case":  func(w *world) { w.app.metadata["resource"] = "https://APPS.example.com/mcp/notes" },
		"resource with a port":    func(w *world) { w.app.metadata["resource"] = "https://apps.example.com:443/mcp/notes" },
		"server with a query":     func(w *world) { w.app.metadata["authorization_servers"] = []string{testIssuer + "?x"} },
		"only implicit flow":      func(w *world) { w.as.metadata["response_types_supported"] = []string{"token"} },
		"the app is named itself": func(w *world) { w.app.metadata["authorization_servers"] = []string{"https://apps.example.com"} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			change(w)
			if s, err := w.client.Begin(t.Context(), w.conn, nil); err == nil {
				t.Fatalf("a sign-in all the same: %s", s.URL)
			}
			if name != "the app is named itself" && w.asked("https://apps.example.com"+wellKnownServer)+w.asked("https://apps.example.com"+wellKnownOpenID) != 0 {
				t.Error("the app's own origin was taken for its authorization server")
			}
			if n := len(w.as.sent("/authorize")) + len(w.as.sent("/token")); n != 0 {
				t.Error("an endpoint was guessed")
			}
		})
	}
}

func testStepUp(t *testing.T) {
	w := newWorld(t)
	app := newGuardedApp(w)
	w.signIn()
	s := w.session()
	answer := ""
	app.challenge = func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.Header().Set("WWW-Authenticate", answer)
		rw.WriteHeader(403)
		return true
	}
	// Only a lack of scopes leads to the user.
	for _, other := range []string{`Bearer error="invalid_request", scope="notes.write"`, `Bearer error="access_denied"`, `Bearer`, `Basic realm="x"`} {
		answer = other
		err := call(t.Context(), s)
		var required *SignInRequired
		if !errors.Is(err, ErrDenied) || errors.As(err, &required) {
			t.Errorf("%s: %v", other, err)
		}
	}
	answer = `Bearer scope="notes.write"`
	r := wantRequired(t, call(t.Context(), s))
	if !r.StepUp || r.Asked {
		t.Fatalf("%+v", r)
	}
	next := w.begin(&BeginOptions{Challenge: &r.Challenge})
	if !slices.Equal(next.Scopes, []string{"notes.read", "notes.write"}) {
		t.Errorf("scopes %q", next.Scopes)
	}
	if _, err := w.client.Finish(t.Context(), "alice", w.as.approve(t, next.URL)); err != nil {
		t.Fatal(err)
	}
	r = wantRequired(t, call(t.Context(), s))
	if !r.StepUp || !r.Asked || !strings.Contains(r.Error(), "needs more access") {
		t.Errorf("the second 403: %+v", r)
	}
	if n := len(w.as.sent("/token")); n != 2 {
		t.Errorf("%d token requests: a step-up is never a refresh", n)
	}
}

func TestRule_OauthO7_NothingOpensByItself(t *testing.T) {
	w := newWorld(t)
	newGuardedApp(w)
	for range 3 {
		_, err := w.connect(t.Context())
		wantRequired(t, err)
		_, err = w.client.Token(t.Context(), w.conn)
		wantRequired(t, err)
	}
	for _, r := range w.net.Requests() {
		if r.URL != testEndpoint {
			t.Errorf("a call asked %s", r.URL)
		}
	}
}

// A plan or rights that the app demands are a refusal like any other.
func TestRule_OB63_RefusalForAPlanIsNoSignIn(t *testing.T) {
	w := newWorld(t)
	app := newGuardedApp(w)
	w.signIn()
	s := w.session()
	app.challenge = func(rw http.ResponseWriter, _ *http.Request) bool { rw.WriteHeader(403); return true }
	if err := call(t.Context(), s); !errors.Is(err, ErrDenied) {
		t.Errorf("error %v", err)
	}
}

func TestRule_OB65_EveryFetchIsGuarded(t *testing.T) {
	private := fakenet.DNS{Addrs: addrs("192.168.0.1")}
	steps := map[string]func(*world) error{
		"metadata": func(w *world) error {
			w.net.SetDNS("apps.example.com", private)
			_, err := w.client.Begin(t.Context(), w.conn, nil)
			return err
		},
		"code": func(w *world) error {
			q := w.as.approve(t, w.begin(nil).URL)
			w.net.SetDNS("as.example.com", private)
			_, err := w.client.Finish(t.Context(), "alice", q)
			return err
		},
		"refresh": func(w *world) error {
			w.signIn()
			w.net.SetDNS("as.example.com", private)
			return w.client.Refresh(t.Context(), w.conn)
		},
		"revocation": func(w *world) error {
			w.signIn()
			w.net.SetDNS("as.example.com", private)
			return w.client.Revoke(t.Context(), w.conn)
		},
		"registration": func(w *world) error {
			w.opts.ClientID, w.opts.Dynamic = "", &DynamicRegistration{}
			registering(w, nil)
			w.as.metadata["registration_endpoint"] = "https://register.example.com/r"
			w.net.SetDNS("register.example.com", private)
			_, err := w.another().Begin(t.Context(), w.conn, nil)
			return err
		},
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if err := step(w); !errors.Is(err, publicnet.ErrNotPublic) {
				t.Errorf("error %v", err)
			}
			for _, d := range w.net.Dials() {
				if d.Addr().IsPrivate() {
					t.Errorf("dialled %s", d)
				}
			}
		})
	}
}

// A 403 of an app with no scopes of its own and an outage in a callback.
func TestFinish_ServerErrors(t *testing.T) {
	for code, want := range map[string]error{"access_denied": ErrDenied, "invalid_scope": ErrDenied, "server_error": ErrUnavailable, "temporarily_unavailable": ErrUnavailable} {
		w := newWorld(t)
		q := url.Values{"state": {w.begin(nil).State}, "iss": {testIssuer}, "error": {code}, "error_description": {"because"}}
		_, err := w.client.Finish(t.Context(), "alice", q.Encode())
		if !errors.Is(err, want) || !strings.Contains(err.Error(), `"because"`) {
			t.Errorf("%s: %v", code, err)
		}
	}
}

func TestBegin_ServerThatTheAppDoesNotName(t *testing.T) {
	w := newWorld(t)
	if _, err := w.client.Begin(t.Context(), w.conn, &BeginOptions{Issuer: "https://evil.example.net"}); err == nil || !strings.Contains(err.Error(), testIssuer) {
		t.Errorf("want an error that names the servers, got %v", err)
	}
	// Of several the first with S256 and a client of ours, not the first.
	plain := newFakeServer("https://plain.example.com")
	plain.metadata["client_id_metadata_document_supported"] = false
	w.net.Handle("plain.example.com", plain)
	w.app.metadata["authorization_servers"] = []string{plain.issuer, testIssuer}
	if s := w.begin(nil); s.Issuer != testIssuer {
		t.Errorf("issuer %s", s.Issuer)
	}
}
