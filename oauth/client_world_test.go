package oauth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/publicnet"
)

// world is an app, its authorization server and a host, on an Internet in memory.
type world struct {
	t      testing.TB
	net    *fakenet.Net
	as     *fakeServer
	app    *fakeApp
	store  Store
	client *Client
	opts   ClientOptions
	log    *lockedBuffer
	conn   Connection
}

const (
	testEndpoint = "https://apps.example.com/mcp/notes"
	testIssuer   = "https://as.example.com"
	testClientID = "https://host.example.com/oauth/client.json"
	testRedirect = "https://host.example.com/oauth/callback"
	testPRM      = "https://apps.example.com/.well-known/oauth-protected-resource/mcp/notes"
)

// newWorld makes one. Inside a synctest bubble, call it inside.
func newWorld(t testing.TB, change ...func(*world)) *world {
	t.Helper()
	w := &world{t: t, net: fakenet.New(), store: NewMemoryStore(), log: &lockedBuffer{}}
	t.Cleanup(w.net.Close)
	w.conn = Connection{ID: "c1", User: "alice", CardURL: "https://apps.example.com/mcp/notes/server-card", Endpoint: testEndpoint}
	w.as = newFakeServer(testIssuer)
	w.app = &fakeApp{metadata: map[string]any{"resource": testEndpoint, "authorization_servers": []string{testIssuer}, "scopes_supported": []string{"notes.read"}}}
	network, err := publicnet.New(&publicnet.Options{UserAgent: "test/1.0 (+https://www.example.com/)", Below: w.net.Below()})
	if err != nil {
		t.Fatal(err)
	}
	w.opts = ClientOptions{
		Network: network, Store: w.store, ClientID: testClientID, RedirectURI: testRedirect,
		Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, c := range change {
		c(w)
	}
	w.net.Handle("as.example.com", w.as)
	w.net.Handle("apps.example.com", w.app)
	w.client = w.another()
	if err := w.store.Add(t.Context(), w.conn); err != nil {
		t.Fatal(err)
	}
	return w
}

// another is a second Client over the same store: another process.
func (w *world) another() *Client {
	w.t.Helper()
	c, err := NewClient(&w.opts)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) begin(o *BeginOptions) *SignIn {
	w.t.Helper()
	s, err := w.client.Begin(w.t.Context(), w.conn, o)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// signIn runs the whole flow.
func (w *world) signIn() {
	w.t.Helper()
	if _, err := w.client.Finish(w.t.Context(), w.conn.User, w.as.approve(w.t, w.begin(nil).URL)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) tokens() *Tokens {
	w.t.Helper()
	t, err := w.store.Tokens(w.t.Context(), w.conn)
	if err != nil {
		w.t.Fatal(err)
	}
	return t
}

// asked counts the requests to an address.
func (w *world) asked(prefix string) int {
	n := 0
	for _, r := range w.net.Requests() {
		if strings.HasPrefix(r.URL, prefix) {
			n++
		}
	}
	return n
}

// fakeApp answers the metadata; what is not set is 404.
type fakeApp struct {
	mu       sync.Mutex
	metadata map[string]any // at the path form
	mcp      http.Handler   // at everything else
}

func (a *fakeApp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	metadata, mcp := a.metadata, a.mcp
	a.mu.Unlock()
	switch {
	case r.URL.Path == strings.TrimPrefix(testPRM, "https://apps.example.com") && metadata != nil:
		writeJSON(w, 200, metadata)
	case mcp != nil && !strings.HasPrefix(r.URL.Path, "/.well-known/"):
		mcp.ServeHTTP(w, r)
	default:
		http.NotFound(w, r)
	}
}

// fakeServer is an authorization server that does what a test tells it.
type fakeServer struct {
	mu       sync.Mutex
	issuer   string
	metadata map[string]any
	codes    map[string]url.Values // by code: the authorization request
	refresh  map[string]bool       // tokens that are good
	access   map[string]bool
	forms    map[string][]url.Values // by path: what was sent
	headers  map[string][]http.Header
	n        int

	// Answers of a test instead of the server's own; nil is its own.
	token, revoke, register http.HandlerFunc
	noRefresh, sendNoScope  bool
	lifetime                int
}

func newFakeServer(issuer string) *fakeServer {
	return &fakeServer{
		issuer: issuer, codes: map[string]url.Values{}, refresh: map[string]bool{}, access: map[string]bool{}, forms: map[string][]url.Values{},
		headers: map[string][]http.Header{}, lifetime: 300,
		metadata: map[string]any{
			"issuer": issuer, "authorization_endpoint": issuer + "/authorize", "token_endpoint": issuer + "/token",
			"revocation_endpoint": issuer + "/revoke", "jwks_uri": issuer + "/jwks", "response_types_supported": []string{"code"},
			"code_challenge_methods_supported": []string{"S256"}, "client_id_metadata_document_supported": true,
			"authorization_response_iss_parameter_supported": true, "scopes_supported": []string{"notes.read", "notes.write"},
		},
	}
}

// approve plays the browser and the user; it gives the query of the redirect.
func (s *fakeServer) approve(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	code := fmt.Sprintf("SECRET-code-%d", s.n)
	s.codes[code] = q
	return url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {s.issuer}}.Encode()
}

func (s *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := new(bytes.Buffer)
	_, _ = body.ReadFrom(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body.Bytes())) // for own
	form, _ := url.ParseQuery(body.String())
	if r.URL.Path == "/register" {
		form = url.Values{"body": {body.String()}}
	}
	s.mu.Lock()
	s.forms[r.URL.Path] = append(s.forms[r.URL.Path], form)
	s.headers[r.URL.Path] = append(s.headers[r.URL.Path], r.Header.Clone())
	own := map[string]http.HandlerFunc{"/token": s.token, "/revoke": s.revoke, "/register": s.register}[r.URL.Path]
	s.mu.Unlock()
	if own != nil {
		own(w, r)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server":
		if s.metadata == nil {
			http.NotFound(w, r)
			return
		}
		writeJSON(w, 200, s.metadata)
	case "/token":
		s.answerToken(w, form)
	case "/revoke":
		delete(s.refresh, form.Get("token"))
		delete(s.access, form.Get("token"))
		w.WriteHeader(200)
	default:
		http.NotFound(w, r)
	}
}

func (s *fakeServer) answerToken(w http.ResponseWriter, form url.Values) {
	refuse := func(code, why string) {
		writeJSON(w, 400, map[string]any{"error": code, "error_description": why})
	}
	scope := ""
	switch form.Get("grant_type") {
	case "authorization_code":
		asked, ok := s.codes[form.Get("code")]
		delete(s.codes, form.Get("code"))
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		switch {
		case !ok:
			refuse("invalid_grant", "the code is not known")
			return
		case asked.Get("code_challenge_method") != "S256" || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]):
			refuse("invalid_grant", "the verifier does not fit")
			return
		case asked.Get("resource") != form.Get("resource") || asked.Get("redirect_uri") != form.Get("redirect_uri"):
			refuse("invalid_target", "resource or redirect_uri differ")
			return
		}
		scope = asked.Get("scope")
	case "refresh_token":
		if !s.refresh[form.Get("refresh_token")] {
			refuse("invalid_grant", "the token "+form.Get("refresh_token")+" is not known")
			return
		}
		delete(s.refresh, form.Get("refresh_token"))
	default:
		refuse("unsupported_grant_type", "")
		return
	}
	s.n++
	answer := map[string]any{"access_token": fmt.Sprintf("SECRET-access-%d", s.n), "token_type": "Bearer", "expires_in": s.lifetime}
	s.access[answer["access_token"].(string)] = true
	if !s.noRefresh {
		answer["refresh_token"] = fmt.Sprintf("SECRET-refresh-%d", s.n)
		s.refresh[answer["refresh_token"].(string)] = true
	}
	if scope != "" && !s.sendNoScope {
		answer["scope"] = scope
	}
	writeJSON(w, 200, answer)
}

// sent gives the forms that a path received.
func (s *fakeServer) sent(path string) []url.Values {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.forms[path])
}

func (s *fakeServer) set(change func(*fakeServer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func addrs(list ...string) []netip.Addr {
	out := make([]netip.Addr, len(list))
	for i, s := range list {
		out[i] = netip.MustParseAddr(s)
	}
	return out
}

func contextCancelled(t testing.TB) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx, cancel
}
