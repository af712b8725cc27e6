package oauth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"golang.org/x/oauth2"

	"github.com/openbot-build/openbot-go/internal/strictjson"
)

// Handler gives what the SDK's client transport asks for tokens. It never opens
// a browser: where the user has to act its error is a *SignInRequired, which
// errors.As finds in the error of a call.
//
// Put Transport under the same session as well: the SDK asks the handler once a
// request, and without it the second 401 of a request is a plain error.
func (c *Client) Handler(conn Connection) auth.OAuthHandler { return &handler{c: c, conn: conn} }

type handler struct {
	c    *Client
	conn Connection
}

// TokenSource gives no source for a connection that is signed out: the request
// goes without a token, and the app's challenge says what to ask for.
func (h *handler) TokenSource(ctx context.Context) (oauth2.TokenSource, error) {
	access, err := h.c.Token(ctx, h.conn)
	if required := (*SignInRequired)(nil); errors.As(err, &required) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return oauth2.StaticTokenSource(&oauth2.Token{AccessToken: access.Reveal(), TokenType: "Bearer"}), nil
}

// Authorize gives nil when the request is worth sending again with another token.
func (h *handler) Authorize(ctx context.Context, req *http.Request, resp *http.Response) error {
	ch := challengeOf(resp)
	if resp.StatusCode == http.StatusForbidden {
		return h.c.after403(ctx, h.conn, ch)
	}
	return h.c.after401(ctx, h.conn, bearerOf(req), ch)
}

// challengeOf reads an answer's challenge and lets go of its body.
func challengeOf(resp *http.Response) Challenge {
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer)
	_ = resp.Body.Close()
	ch := ParseChallenge(resp.Header)
	ch.Status = resp.StatusCode
	return ch
}

func bearerOf(req *http.Request) Secret {
	token, _ := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	return Secret(token)
}

// Transport is what lies under the SDK's transport, beside Handler: as the
// Transport of its HTTP client, one for each session. next makes the requests. It
//
//   - sends nothing anywhere but to the connection's endpoint, byte for byte, with
//     a token or without, and follows no redirect: neither a token nor what is
//     said to the app goes to another target, nor comes from one (C13, D22);
//   - makes the 401 to a token that was refreshed a moment ago, because the app
//     had refused the one before, a *SignInRequired;
//   - keeps the challenge of a refused server/discover: the SDK follows it with an
//     initialize, whose answer would take its place;
//   - answers a 401 to a GET with one refresh: of those the SDK tells its handler
//     nothing. If it does not help, the stream fails with the 401, and the next
//     request of the session or of a new one is the *SignInRequired.
func (c *Client) Transport(conn Connection, next http.RoundTripper) http.RoundTripper {
	endpoint := conn.Endpoint
	if u, err := url.Parse(endpoint); err == nil {
		endpoint = u.String() // as net/http writes it: letters outside ASCII escaped
	}
	return &transport{c: c, conn: conn, endpoint: endpoint, next: next}
}

type transport struct {
	c        *Client
	conn     Connection
	endpoint string
	next     http.RoundTripper

	mu      sync.Mutex
	refused *refusedDiscover // for the request after it
}

// refusedDiscover is the app's 401 to a server/discover.
type refusedDiscover struct {
	required *SignInRequired
	token    [32]byte // hash of what was sent
}

// afterDiscover gives the error of a request that follows a refused
// server/discover with the same token, or none.
func (t *transport) afterDiscover(req *http.Request, token [32]byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.refused
	t.refused = nil
	if r != nil && r.token == token && req.Header.Get("Mcp-Method") != discoverMethod {
		return r.required
	}
	return nil
}

const discoverMethod = "server/discover"

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := bearerOf(req)
	if req.URL.String() != t.endpoint {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, fmt.Errorf("send a request to the app %s: %s is not its endpoint", shown(t.conn.Endpoint), strictjson.Quote(shown(req.URL.Redacted())))
	}
	hash := sha256.Sum256([]byte(sent.Reveal()))
	if err := t.afterDiscover(req, hash); err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if to := resp.Header.Get("Location"); resp.StatusCode/100 == 3 && to != "" {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("the app %s answered %d, and a redirect is not followed; it leads to %s", shown(t.conn.Endpoint), resp.StatusCode, strictjson.Quote(redirectTarget(req.URL, to)))
	}
	if resp.StatusCode == http.StatusUnauthorized && req.Method == http.MethodGet && sent != "" {
		return t.getAgain(req, resp, sent)
	}
	if resp.StatusCode == http.StatusUnauthorized && req.Header.Get("Mcp-Method") == discoverMethod {
		ch := ParseChallenge(resp.Header)
		ch.Status = resp.StatusCode
		t.mu.Lock()
		t.refused = &refusedDiscover{&SignInRequired{Connection: t.conn, Challenge: ch}, hash}
		t.mu.Unlock()
	}
	if sent == "" || !t.c.isDoubted(t.conn, sent) {
		return resp, nil
	}
	if resp.StatusCode == http.StatusUnauthorized {
		return nil, &SignInRequired{Connection: t.conn, Challenge: challengeOf(resp)}
	}
	t.c.trust(t.conn)
	return resp, nil
}

// getAgain repeats a refused GET, which opens or resumes a stream, with another
// token if a refresh brings one. A 401 that stays is the answer: an error would
// make the SDK try for many seconds, and it keeps the text of one only.
func (t *transport) getAgain(req *http.Request, resp *http.Response, sent Secret) (*http.Response, error) {
	ch := ParseChallenge(resp.Header)
	ch.Status = resp.StatusCode
	if t.c.after401(req.Context(), t.conn, sent, ch) != nil {
		return resp, nil
	}
	token, err := t.c.Token(req.Context(), t.conn)
	if err != nil {
		return resp, nil
	}
	_ = resp.Body.Close()
	again := req.Clone(req.Context())
	again.Header.Set("Authorization", "Bearer "+token.Reveal())
	resp, err = t.next.RoundTrip(again)
	if err == nil && resp.StatusCode != http.StatusUnauthorized {
		t.c.trust(t.conn)
	}
	return resp, err
}

// redirectTarget is where a redirect leads, without its query.
func redirectTarget(from *url.URL, location string) string {
	to, err := from.Parse(location)
	if err != nil {
		return "an address that is none"
	}
	to.User, to.Fragment, to.RawFragment = nil, "", ""
	return shown(to.String())
}
