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
//   - sends no token anywhere but to the connection's endpoint, byte for byte, so
//     that no redirect carries one away (C13);
//   - makes the 401 to a token that was refreshed a moment ago, because the app
//     had refused the one before, a *SignInRequired;
//   - keeps the challenge of a refused server/discover: the SDK follows it with an
//     initialize, whose answer would take its place.
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
	if sent != "" && req.URL.String() != t.endpoint {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, fmt.Errorf("send a request with a token: the address is not the endpoint %s that the token is for", t.conn.Endpoint)
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
