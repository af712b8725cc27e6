package oauth

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/publicnet"
)

// A redirect of the endpoint takes neither the token nor the call along, and its
// target's words are not taken for the app's.
func TestRule_OauthC13_NoCallFollowsARedirect(t *testing.T) {
	for _, to := range []string{"https://evil.example.net/mcp?key=SECRET", "https://apps.example.com/mcp/other?key=SECRET"} {
		for _, code := range []int{301, 302, 303, 307, 308} {
			w := newWorld(t)
			app := newGuardedApp(w)
			w.signIn()
			w.net.Handle("evil.example.net", http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="evil"`)
				rw.WriteHeader(403)
			}))
			s := w.session()
			app.challenge = func(rw http.ResponseWriter, r *http.Request) bool {
				http.Redirect(rw, r, to, code)
				return true
			}
			err := call(t.Context(), s)
			var required *SignInRequired
			where, _, _ := strings.Cut(to, "?")
			if err == nil || errors.As(err, &required) || !strings.Contains(err.Error(), where) || strings.Contains(err.Error(), "SECRET") {
				t.Errorf("%d: %v", code, err)
			}
			if n := w.asked(where); n != 0 {
				t.Errorf("%d: %d requests reached %s", code, n, where)
			}
			app.challenge = nil
			if err := call(t.Context(), s); err != nil {
				t.Errorf("%d: the session does not outlive it: %v", code, err)
			}
		}
	}
	// Without a token too, and whoever follows it.
	w := newWorld(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, testEndpoint+"/other", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.Transport(w.conn, http.DefaultTransport).RoundTrip(req); err == nil || !strings.Contains(err.Error(), "not its endpoint") {
		t.Errorf("error %v", err)
	}
}

// A 403 that names no scopes is asked for once, with all that the app lists.
func TestRule_D20_ChallengeWithoutScopesIsNoLoop(t *testing.T) {
	for name, header := range map[string]string{
		"none":     `Bearer error="insufficient_scope"`,
		"too long": `Bearer error="insufficient_scope", x="` + strings.Repeat("x", maxChallenges) + `", scope="notes.write"`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			app := newGuardedApp(w)
			w.signIn()
			w.app.metadata["scopes_supported"] = []string{"notes.list", "notes.read"}
			s := w.session()
			app.challenge = func(rw http.ResponseWriter, _ *http.Request) bool {
				rw.Header().Set("WWW-Authenticate", header)
				rw.WriteHeader(403)
				return true
			}
			r := wantRequired(t, call(t.Context(), s))
			if !r.StepUp || r.Asked {
				t.Fatalf("%+v", r)
			}
			next := w.begin(&BeginOptions{Challenge: &r.Challenge})
			if !slices.Equal(next.Scopes, []string{"notes.list", "notes.read"}) {
				t.Errorf("scopes %q", next.Scopes)
			}
			if _, err := w.client.Finish(t.Context(), "alice", w.as.approve(t, next.URL)); err != nil {
				t.Fatal(err)
			}
			if r := wantRequired(t, call(t.Context(), s)); !r.StepUp || !r.Asked {
				t.Errorf("the user is sent round again: %+v", r)
			}
		})
	}
}

// An error that cannot be read is another error, not none.
func TestRule_D20_UnreadableErrorIsNoStepUp(t *testing.T) {
	for _, header := range []string{
		`Bearer error="plan too small", scope="x"`, `Bearer error="` + strings.Repeat("e", maxErrorCode+1) + `", scope="x"`, `Bearer error="a", error="b", scope="x"`,
		`Bearer error="access_denied, scope="x"`, `Bearer scope="x", error="access`, `Bearer scope="x", error=a b, y=z`, `Bearer scope="x", ERROR=`,
		`Bearer error="insufficient_scope", error="access_denied", scope="x"`, `Bearer scope="x", y="` + strings.Repeat("y", maxChallenges) + `", error="access_denied"`,
	} {
		w := newWorld(t)
		w.signIn()
		req, resp := refused(403, header)
		err := w.client.Handler(w.conn).Authorize(t.Context(), req, resp)
		var required *SignInRequired
		if !errors.Is(err, ErrDenied) || errors.As(err, &required) {
			t.Errorf("%.60s: %v", header, err)
		}
	}
	ch := ParseChallenge(http.Header{"Www-Authenticate": {`Bearer error="", scope="x"`}})
	if ch.Status = 403; !ch.asksForMore() {
		t.Error("an empty error says nothing")
	}
}

// Every refusal of a refresh is one that a host can act on, and none but
// invalid_grant takes the tokens.
func TestRefresh_EveryRefusalIsTold(t *testing.T) {
	plain := func(status int, kind, body string) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", kind)
			rw.Header().Set("Location", "https://as2.example.com/token")
			rw.WriteHeader(status)
			_, _ = io.WriteString(rw, body)
		}
	}
	for name, c := range map[string]struct {
		answer  http.HandlerFunc
		sign    bool   // *SignInRequired, else ErrUnavailable
		because string // in the error
	}{
		"invalid_client":      {plain(401, "application/json", `{"error":"invalid_client"}`), true, "invalid_client"},
		"unauthorized_client": {plain(400, "application/json", `{"error":"unauthorized_client"}`), true, "unauthorized_client"},
		"invalid_target":      {plain(400, "application/json", `{"error":"invalid_target"}`), true, "invalid_target"},
		"404":                 {plain(404, "text/html", "no"), true, "404"},
		"grant as text":       {plain(400, "text/plain", `{"error":"invalid_grant"}`), true, "400"},
		"moved":               {plain(308, "text/plain", ""), true, "redirect"},
		"found":               {plain(302, "text/plain", ""), false, "redirect"},
		"408":                 {plain(408, "text/plain", ""), false, "408"},
		"outage with a code":  {plain(503, "application/json", `{"error":"invalid_grant"}`), false, "503"},
		"page":                {plain(200, "text/html", "<html>"), false, "no JSON"},
		"no token":            {plain(200, "application/json", "{}"), false, "token_type"},
	} {
		t.Run(name, func(t *testing.T) {
			w := refreshWorld(t, "R1")
			newGuardedApp(w)
			w.as.token = c.answer
			_, err := w.client.Token(t.Context(), w.conn)
			after := w.client.after401(t.Context(), w.conn, "A1", Challenge{Status: 401, Scope: []string{"x"}})
			for _, err := range []error{err, after} {
				var required *SignInRequired
				if errors.As(err, &required) != c.sign || errors.Is(err, ErrUnavailable) == c.sign || !strings.Contains(err.Error(), c.because) {
					t.Errorf("error %v", err)
				}
				if c.sign {
					if said := (*serverError)(nil); !errors.As(err, &said) {
						t.Errorf("the cause is lost: %v", err)
					}
				}
			}
			if c.sign && len(wantRequired(t, after).Challenge.Scope) != 1 {
				t.Error("the challenge is lost")
			}
			if w.tokens().Refresh != "R1" {
				t.Error("the tokens are gone")
			}
		})
	}
}

// A client that its server has forgotten leads to a sign-in with another one.
func TestRefresh_LostClientIsRegisteredAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.opts.ClientID, w.opts.Dynamic = "", &DynamicRegistration{ClientName: "Host"} })
		registering(w, nil)
		w.signIn()
		time.Sleep(time.Hour)
		w.as.set(func(s *fakeServer) {
			s.token = func(rw http.ResponseWriter, _ *http.Request) {
				writeJSON(rw, 401, map[string]any{"error": "invalid_client"})
			}
		})
		_, err := w.client.Token(t.Context(), w.conn)
		wantRequired(t, err)
		w.as.set(func(s *fakeServer) { s.token = nil })
		w.signIn()
		if n := len(w.as.sent("/register")); n != 2 {
			t.Errorf("%d registrations", n)
		}
	})
}

// However long a request has to wait for its turn on the network, a second
// process does not send the same refresh token meanwhile.
func TestRefresh_LeaseOutlastsItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := refreshWorld(t, "R1")
		w.as.refresh["R1"] = true
		var n atomic.Int32
		network, err := publicnet.New(&publicnet.Options{
			UserAgent: "test/1.0 (+https://www.example.com/)", Below: w.net.Below(),
			Acquire: func(ctx context.Context, _ netip.Addr) (func(), error) {
				if n.Add(1) == 1 {
					select {
					case <-time.After(leaseTime + 5*time.Second):
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
				return func() {}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		w.opts.Network = network
		ended := make(chan error)
		go func() {
			_, err := w.another().Token(t.Context(), w.conn)
			ended <- err
		}()
		time.Sleep(time.Second)
		if _, err := w.another().Token(t.Context(), w.conn); err != nil {
			t.Errorf("the second process: %v", err)
		}
		if err := <-ended; err != nil && !errors.Is(err, ErrUnavailable) {
			t.Errorf("the first process: %v", err)
		}
		if sent := w.as.sent("/token"); len(sent) != 1 {
			t.Errorf("the refresh token was sent %d times", len(sent))
		}
	})
}

// What a process waits for the others is not taken from its own request: the last
// of a queue stores what it gets.
func TestRefresh_QueueLosesNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := refreshWorld(t, "R1")
		var n atomic.Int32
		w.as.token = func(rw http.ResponseWriter, _ *http.Request) {
			if n.Add(1) <= 4 {
				time.Sleep(9900 * time.Millisecond)
				rw.WriteHeader(503)
				return
			}
			time.Sleep(7 * time.Second)
			writeJSON(rw, 200, map[string]any{"access_token": "A2", "refresh_token": "R2", "token_type": "Bearer", "expires_in": 300})
		}
		var wg sync.WaitGroup
		var good atomic.Int32
		for range 5 {
			c := w.another()
			wg.Go(func() {
				if _, err := c.Token(t.Context(), w.conn); err == nil {
					good.Add(1)
				} else if !errors.Is(err, ErrUnavailable) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if w.tokens().Refresh != "R2" || good.Load() != 1 || n.Load() != 5 {
			t.Errorf("%d requests, %d got a token", n.Load(), good.Load())
		}
	})
}

// slowStore takes its time.
type slowStore struct {
	Store
	tokens, release time.Duration
	leased          atomic.Int32
}

func (s *slowStore) Tokens(ctx context.Context, c Connection) (*Tokens, error) {
	if s.leased.Load() == 1 { // between the lease and the request
		time.Sleep(s.tokens)
	}
	return s.Store.Tokens(ctx, c)
}

func (s *slowStore) Lease(ctx context.Context, c Connection, holder string, d time.Duration) (bool, error) {
	s.leased.Add(1)
	return s.Store.Lease(ctx, c, holder, d)
}

func (s *slowStore) Release(ctx context.Context, c Connection, holder string) error {
	select {
	case <-time.After(s.release):
		return s.Store.Release(ctx, c, holder)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestRefresh_LeaseIsTakenAnewBeforeALateRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := refreshWorld(t, "R1")
		w.as.refresh["R1"] = true
		s := &slowStore{Store: w.store, tokens: 20 * time.Second, release: time.Hour}
		w.opts.Store = s
		start := time.Now()
		if _, err := w.another().Token(t.Context(), w.conn); err != nil {
			t.Fatal(err)
		}
		if s.leased.Load() != 2 {
			t.Errorf("%d leases", s.leased.Load())
		}
		if took := time.Since(start); took > 20*time.Second+releaseTimeout+time.Second {
			t.Errorf("took %s: giving the lease back has no end", took)
		}
	})
}

// A store that stumbles costs no tokens, and one that fails leaves none at the
// server.
func TestFinish_StoreThatFails(t *testing.T) {
	for failures, ok := range map[int]bool{1: true, 2: true, 100: false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.opts.Store = &failingStore{w.store, failures}
			w.client = w.another()
			_, err := w.client.Finish(t.Context(), "alice", w.as.approve(t, w.begin(nil).URL))
			if ok != (err == nil) {
				t.Errorf("%d failures: %v", failures, err)
			}
			if ok && w.tokens().Access == "" || !ok && len(w.as.refresh)+len(w.as.access) != 0 {
				t.Errorf("%d failures: %d tokens are left at the server", failures, len(w.as.refresh)+len(w.as.access))
			}
		})
	}
}

// Short lifetimes cost a refresh now and then and not at each use, and a token
// that was just given is used.
func TestTokens_ShortLifetimes(t *testing.T) {
	for _, lifetime := range []int{-1, 0, 1, 5, 10} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.as.lifetime = lifetime
			w.signIn()
			for range 5 {
				if _, err := w.client.Token(t.Context(), w.conn); err != nil {
					t.Error(err)
				}
			}
			if n := len(w.as.sent("/token")); n != 1 {
				t.Errorf("%d s: %d token requests at once", lifetime, n)
			}
			time.Sleep(time.Duration(max(lifetime, 4)) * time.Second)
			if _, err := w.client.Token(t.Context(), w.conn); err != nil {
				t.Error(err)
			}
			if n := len(w.as.sent("/token")); n != 2 {
				t.Errorf("%d s: %d token requests after its time", lifetime, n)
			}
		})
	}
	w := newWorld(t)
	w.as.lifetime, w.as.noRefresh = 5, true
	w.signIn()
	if _, err := w.client.Token(t.Context(), w.conn); err != nil {
		t.Errorf("a sign-in leads to the next: %v", err)
	}
}

// A server that quotes the credentials as they were sent.
func TestRule_OauthC16_QuotedCredentialsAreHidden(t *testing.T) {
	const secret = "s3cr+t/abc=&x y"
	for _, method := range []string{"client_secret_basic", "client_secret_post"} {
		w := newWorld(t, func(w *world) {
			w.opts.Registered = []Registration{{Issuer: testIssuer, ClientID: "cl:id", Secret: secret, AuthMethod: method}}
		})
		w.as.token = func(rw http.ResponseWriter, r *http.Request) {
			_, sent, _ := r.BasicAuth()
			body, _ := io.ReadAll(r.Body)
			writeJSON(rw, 401, map[string]any{"error": "invalid_client", "error_description": "bad " + sent + secret + url.QueryEscape(secret) + r.Header.Get("Authorization") + string(body)})
		}
		_, err := w.client.Finish(t.Context(), "alice", w.as.approve(t, w.begin(nil).URL))
		if err == nil {
			t.Fatal("no error")
		}
		for _, s := range []string{secret, url.QueryEscape(secret), base64.StdEncoding.EncodeToString([]byte("cl%3Aid:" + url.QueryEscape(secret)))} {
			if strings.Contains(err.Error(), s) {
				t.Errorf("%s: shown: %v", method, err)
			}
		}
	}
}

// Under verbs that do not fit, fmt calls no methods of what pointers inside a
// value lead to.
func TestSecretsBehindPointersAreNotPrinted(t *testing.T) {
	client := Registration{ClientID: "id", Secret: "SECRET"}
	for _, v := range []any{
		[]*Registration{&client},
		[]*Tokens{{Client: client, Access: "SECRET", Refresh: "SECRET"}},
		map[string]*Attempt{"a": {Verifier: "SECRET", Client: client}},
		&Protection{Issuers: []Issuer{{URL: "u", Introspection: &Introspection{ClientSecret: "SECRET"}}}},
		struct{ T *Tokens }{&Tokens{Access: "SECRET"}},
		[]Tokens{{Access: "SECRET"}},
		(*Tokens)(nil),
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%t", "%z"} {
			if out := fmt.Sprintf(verb, v); strings.Contains(out, "SECRET") || strings.Contains(out, fmt.Sprintf("%x", "SECRET")) {
				t.Errorf("%s of %T: %s", verb, v, out)
			}
		}
	}
	if out := fmt.Sprintf("%+v", client); !strings.Contains(out, "ClientID:id") || !strings.Contains(out, hidden) {
		t.Errorf("printed as %s", out)
	}
}

// A stream that breaks is resumed with a GET, of whose 401 the SDK tells its
// handler nothing.
func TestHandler_RefusedResumption(t *testing.T) {
	for _, mends := range []bool{true, false} { // whether a refresh helps
		t.Run(fmt.Sprintf("refresh helps %t", mends), func(t *testing.T) {
			w := newWorld(t)
			app := newGuardedApp(w)
			w.signIn()
			var id atomic.Value
			next := app.challenge
			app.challenge = func(rw http.ResponseWriter, r *http.Request) bool {
				if next != nil && next(rw, r) {
					return true
				}
				resumed := r.Method == http.MethodGet && r.Header.Get("Last-Event-ID") != ""
				if !resumed && r.Header.Get("Mcp-Method") != "tools/call" {
					return false
				}
				rw.Header().Set("Content-Type", "text/event-stream")
				if !resumed {
					body, _ := io.ReadAll(r.Body)
					_, rest, _ := strings.Cut(string(body), `"id":`)
					number, _, _ := strings.Cut(rest, ",")
					id.Store(number)
					_, _ = io.WriteString(rw, "id: 1\nretry: 10\ndata:\n\n")
					rw.(http.Flusher).Flush()
					w.as.set(func(s *fakeServer) { s.access = map[string]bool{} }) // the token ends
					return true
				}
				_, _ = fmt.Fprintf(rw, "id: 2\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"resultType\":\"complete\",\"content\":[]}}\n\n", id.Load())
				return true
			}
			session := w.resuming()
			if !mends {
				accept := app.accept
				app.accept = func(token string) bool { return accept(token) && len(w.as.sent("/token")) < 2 }
			}
			err := call(t.Context(), session)
			switch {
			case mends && err != nil:
				t.Errorf("error %v", err)
			case !mends:
				if err == nil {
					t.Error("no error")
				}
				_, err = w.connect(t.Context()) // the SDK breaks a session with its stream
				wantRequired(t, err)
			}
			if n := len(w.as.sent("/token")); n != 2 {
				t.Errorf("%d token requests", n)
			}
		})
	}
}

// resuming is a session that resumes broken streams.
func (w *world) resuming() *mcp.ClientSession {
	w.t.Helper()
	hc := w.opts.Network.Client()
	hc.Transport = w.client.Transport(w.conn, hc.Transport)
	w.t.Cleanup(hc.CloseIdleConnections)
	s, err := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil).Connect(w.t.Context(), &mcp.StreamableClientTransport{
		Endpoint: testEndpoint, HTTPClient: hc, OAuthHandler: w.client.Handler(w.conn), MaxRetries: 1, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = s.Close() })
	return s
}
