package oauth

import (
	"context"
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
// Put Transport under the same connection as well: the SDK asks the handler once
// a request, and without it the second 401 of a request is a plain error.
//
// Make one for each session. While a session connects, the SDK follows a
// server/discover that was refused with an initialize; its answer would hide the
// challenge, so the handler refuses that one in the same words.
func (c *Client) Handler(conn Connection) auth.OAuthHandler { return &handler{c: c, conn: conn} }

type handler struct {
	c    *Client
	conn Connection

	mu      sync.Mutex
	refused *SignInRequired // of a server/discover, for the request after it
}

// TokenSource gives no source for a connection that is signed out: the request
// goes without a token, and the app's challenge says what to ask for.
func (h *handler) TokenSource(ctx context.Context) (oauth2.TokenSource, error) {
	access, err := h.c.Token(ctx, h.conn)
	h.mu.Lock()
	refused := h.refused
	h.refused = nil
	h.mu.Unlock()
	if required := (*SignInRequired)(nil); errors.As(err, &required) {
		if refused != nil {
			return nil, refused
		}
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
	err := h.c.after401(ctx, h.conn, bearerOf(req), ch)
	if required := (*SignInRequired)(nil); req.Header.Get("Mcp-Method") == "server/discover" && errors.As(err, &required) {
		h.mu.Lock()
		h.refused = required
		h.mu.Unlock()
	}
	return err
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
// Transport of its HTTP client. next makes the requests. It
//
//   - sends no token anywhere but to the connection's endpoint, byte for byte, so
//     that no redirect carries one away (C13);
//   - makes the 401 to a token that was refreshed a moment ago, because the app
//     had refused the one before, a *SignInRequired.
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
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := bearerOf(req)
	if sent != "" && req.URL.String() != t.endpoint {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, fmt.Errorf("send a request with a token: the address is not the endpoint %s that the token is for", t.conn.Endpoint)
	}
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
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
