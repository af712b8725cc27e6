package oauth

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// guardedApp is a real MCP server behind a guard that a test steers.
type guardedApp struct {
	http.Handler
	accept    func(token string) bool
	challenge func(w http.ResponseWriter, r *http.Request) bool // answers instead; false goes on
	called    atomic.Int32
}

func newGuardedApp(w *world) *guardedApp {
	g := &guardedApp{}
	server := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "read"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, struct{}, error) {
		g.called.Add(1)
		return nil, struct{}{}, nil
	})
	next := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
	g.accept = func(token string) bool {
		w.as.mu.Lock()
		defer w.as.mu.Unlock()
		return w.as.access[token]
	}
	g.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		switch {
		case !ok:
			rw.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+testPRM+`", scope="notes.read"`)
			rw.WriteHeader(401)
		case !g.accept(token):
			rw.Header().Set("WWW-Authenticate", `Bearer error="invalid_token", resource_metadata="`+testPRM+`", scope="notes.read"`)
			rw.WriteHeader(401)
		case g.challenge != nil && g.challenge(rw, r):
		default:
			next.ServeHTTP(rw, r)
		}
	})
	w.app.mcp = g
	return g
}

// connect opens a session of the SDK's client as a host does.
func (w *world) connect(ctx context.Context) (*mcp.ClientSession, error) {
	hc := w.opts.Network.Client()
	hc.Transport = w.client.Transport(w.conn, hc.Transport)
	w.t.Cleanup(hc.CloseIdleConnections)
	client := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil)
	return client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: testEndpoint, HTTPClient: hc, OAuthHandler: w.client.Handler(w.conn), MaxRetries: -1, DisableStandaloneSSE: true,
	}, nil)
}

func (w *world) session() *mcp.ClientSession {
	w.t.Helper()
	s, err := w.connect(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = s.Close() })
	return s
}

func call(ctx context.Context, s *mcp.ClientSession) error {
	_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "read", Arguments: map[string]any{}})
	return err
}

func wantRequired(t *testing.T, err error) *SignInRequired {
	t.Helper()
	var required *SignInRequired
	if !errors.As(err, &required) {
		t.Fatalf("error is no *SignInRequired: %v", err)
	}
	return required
}

// OB-60, O3 on the host: what a caller of the SDK sees of a 401 and a 403.
func TestHandler_SignInRequiredReachesTheCaller(t *testing.T) {
	w := newWorld(t)
	app := newGuardedApp(w)

	_, err := w.connect(t.Context())
	r := wantRequired(t, err)
	if r.StepUp || r.Challenge.Status != 401 || r.Challenge.ResourceMetadata != testPRM || r.Connection != w.conn {
		t.Errorf("connecting: %+v", r)
	}
	if got := w.asked(testIssuer); got != 0 {
		t.Errorf("a refused call asked the authorization server %d times", got)
	}

	w.signIn()
	s := w.session()
	if err := call(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	app.challenge = func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="notes.read notes.write", resource_metadata="`+testPRM+`"`)
		rw.WriteHeader(403)
		return true
	}
	r = wantRequired(t, call(t.Context(), s))
	if !r.StepUp || r.Asked || r.Challenge.Status != 403 {
		t.Errorf("403: %+v", r)
	}
	app.challenge = nil
	if err := call(t.Context(), s); err != nil {
		t.Errorf("the session does not outlive a 403: %v", err)
	}
	if err := w.store.RemoveTokens(t.Context(), w.conn, w.tokens().Version); err != nil {
		t.Fatal(err)
	}
	wantRequired(t, call(t.Context(), s))
	w.signIn()
	if err := call(t.Context(), s); err != nil {
		t.Errorf("the session does not outlive a sign-in: %v", err)
	}
}

// A server that wants a token for its first request only: the SDK's second
// attempt to connect does not hide the challenge.
func TestHandler_ChallengeOfTheFirstRequestIsKept(t *testing.T) {
	w := newWorld(t)
	app := newGuardedApp(w)
	guarded := app.Handler
	app.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") != "server/discover" && r.Header.Get("Authorization") == "" {
			rw.WriteHeader(400)
			return
		}
		guarded.ServeHTTP(rw, r)
	})
	_, err := w.connect(t.Context())
	if r := wantRequired(t, err); r.Challenge.ResourceMetadata != testPRM {
		t.Errorf("challenge %+v", r.Challenge)
	}
	w.signIn()
	if err := call(t.Context(), w.session()); err != nil {
		t.Error(err)
	}
}

// A token that the app calls invalid is refreshed once; if the next one is
// refused too, the user is needed.
func TestHandler_OneRefreshAfterA401(t *testing.T) {
	w := newWorld(t)
	app := newGuardedApp(w)
	w.signIn()
	s := w.session()
	first := w.tokens().Access.Reveal()
	app.accept = func(token string) bool { return token != first }
	if err := call(t.Context(), s); err != nil {
		t.Fatalf("a 401 was not answered with a refresh: %v", err)
	}
	if n := len(w.as.sent("/token")); n != 2 {
		t.Errorf("%d token requests, want 2", n)
	}
	app.accept = func(string) bool { return false }
	wantRequired(t, call(t.Context(), s)) // refreshed once more, because the app took the one before
	wantRequired(t, call(t.Context(), s)) // and not again
	if n := len(w.as.sent("/token")); n != 3 {
		t.Errorf("%d token requests, want 3", n)
	}
	app.accept = func(string) bool { return true }
	if err := call(t.Context(), s); err != nil {
		t.Errorf("the session does not outlive a 401: %v", err)
	}
}

// Without a break in between, the second 401 of one request, which the SDK does
// not show to its handler.
func TestHandler_SecondUnauthorizedOfOneRequest(t *testing.T) {
	w := newWorld(t)
	app := newGuardedApp(w)
	w.signIn()
	s := w.session()
	app.accept = func(string) bool { return false }
	wantRequired(t, call(t.Context(), s))
	if n := len(w.as.sent("/token")); n != 2 {
		t.Errorf("%d token requests, want 2", n)
	}
	app.accept = func(string) bool { return true }
	if err := call(t.Context(), s); err != nil {
		t.Errorf("the session does not outlive it: %v", err)
	}
}

func TestRule_OauthG12_ParallelRefusalsAreOneSignIn(t *testing.T) {
	w := newWorld(t)
	newGuardedApp(w)
	var wg sync.WaitGroup
	states := make([]string, 5)
	for i := range states {
		wg.Go(func() {
			_, err := w.connect(t.Context())
			var required *SignInRequired
			if !errors.As(err, &required) {
				t.Errorf("no *SignInRequired: %v", err)
				return
			}
			s, err := w.client.Begin(t.Context(), required.Connection, &BeginOptions{Challenge: &required.Challenge})
			if err != nil {
				t.Error(err)
				return
			}
			states[i] = s.State
		})
	}
	wg.Wait()
	for _, s := range states {
		if s != states[0] {
			t.Fatalf("several sign-ins: %q", states)
		}
	}
	if n := w.asked(testPRM); n != 1 {
		t.Errorf("metadata was read %d times", n)
	}
}
