package oauth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/openbot-build/openbot-go/internal/strictjson"
)

const (
	earlyExpiry    = 10 * time.Second // a token is not used in its last seconds
	leaseTime      = 30 * time.Second // longer than a token request may take
	refreshTimeout = 45 * time.Second
	leaseWait      = 100 * time.Millisecond // between two looks at another process's lease
)

// refreshing is a refresh that runs; others of the process wait for it.
type refreshing struct {
	done   chan struct{}
	tokens *Tokens
	err    error
}

// Token gives an access token that is good for 10 seconds more, refreshed if need
// be: one refresh at a time, over all processes of the Store.
//
// The error is a *SignInRequired when the user has to act, ErrUnavailable when
// the server is out of order and nobody is signed out, ErrGone or ErrReview when
// the connection is not there any more.
func (c *Client) Token(ctx context.Context, conn Connection) (Secret, error) {
	t, err := c.stored(ctx, conn)
	if err != nil {
		return "", err
	}
	if t.fresh() {
		return t.Access, nil
	}
	if t, err = c.refresh(ctx, conn, t); err != nil {
		return "", err
	}
	return t.Access, nil
}

// Refresh replaces the tokens now, whatever time they have left. Errors are those
// of Token.
func (c *Client) Refresh(ctx context.Context, conn Connection) error {
	t, err := c.stored(ctx, conn)
	if err != nil {
		return err
	}
	_, err = c.refresh(ctx, conn, t)
	return err
}

// stored gives the tokens of a connection if their key still fits (D22): user,
// card and endpoint are the Store's to compare, issuer and client are compared
// here.
func (c *Client) stored(ctx context.Context, conn Connection) (*Tokens, error) {
	t, err := c.o().Store.Tokens(ctx, conn)
	if errors.Is(err, ErrNotFound) {
		return nil, &SignInRequired{Connection: conn}
	}
	if err != nil {
		return nil, fmt.Errorf("find the tokens for %s: %w", conn.Endpoint, err)
	}
	if t.Connection != conn { // a store that does not keep its promise
		return nil, fmt.Errorf("find the tokens for %s: %w", conn.Endpoint, ErrReview)
	}
	now, ok, err := c.current(ctx, t.Client)
	if err != nil {
		return nil, fmt.Errorf("find the client of the tokens for %s: %w", conn.Endpoint, err)
	}
	if !ok {
		if err := c.o().Store.RemoveTokens(ctx, conn, t.Version); err != nil && !errors.Is(err, ErrConflict) {
			return nil, fmt.Errorf("remove the tokens of another client: %w", err)
		}
		return nil, &SignInRequired{Connection: conn}
	}
	t.Client = now
	return t, nil
}

func (t *Tokens) fresh() bool {
	return t.Expires.IsZero() || time.Now().Add(earlyExpiry).Before(t.Expires)
}

func (t *Tokens) resource() string {
	if t.Resource != "" {
		return t.Resource
	}
	return t.Connection.Endpoint
}

// refresh replaces the tokens old, or gives newer ones that somebody else got
// meanwhile. It goes on when ctx ends: a refresh token that was sent may be used
// up, and what comes back must be stored.
func (c *Client) refresh(ctx context.Context, conn Connection, old *Tokens) (*Tokens, error) {
	key := conn.ID
	c.mu.Lock()
	r := c.refreshes[key]
	if r == nil {
		r = &refreshing{done: make(chan struct{})}
		c.refreshes[key] = r
		go func() {
			work, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshTimeout)
			defer cancel()
			r.tokens, r.err = c.refreshOnce(work, conn, old)
			c.mu.Lock()
			delete(c.refreshes, key)
			c.mu.Unlock()
			close(r.done)
		}()
	}
	c.mu.Unlock()
	select {
	case <-r.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if r.err != nil {
		return nil, r.err
	}
	if r.tokens.Connection != conn {
		return nil, fmt.Errorf("refresh the tokens for %s: %w", conn.Endpoint, ErrReview)
	}
	return r.tokens.clone(), nil
}

// refreshOnce holds the Store's lease while it asks, so that of several processes
// one sends the refresh token: a server that rotates takes a second one for theft.
func (c *Client) refreshOnce(ctx context.Context, conn Connection, old *Tokens) (*Tokens, error) {
	holder := randomText()
	for {
		ok, err := c.o().Store.Lease(ctx, conn, holder, leaseTime)
		if err != nil {
			return nil, fmt.Errorf("refresh the tokens for %s: %w", conn.Endpoint, err)
		}
		if ok {
			break
		}
		if t, err := c.stored(ctx, conn); err != nil || t.Version != old.Version {
			return t, err
		}
		select {
		case <-time.After(leaseWait):
		case <-ctx.Done():
			return nil, fmt.Errorf("refresh the tokens for %s: %w: another process does not finish", conn.Endpoint, ErrUnavailable)
		}
	}
	defer func() {
		if err := c.o().Store.Release(context.WithoutCancel(ctx), conn, holder); err != nil {
			c.o().Log.Warn("cannot release the right to refresh", "connection", conn.ID, "error", err)
		}
	}()
	t, err := c.stored(ctx, conn) // again: another process may have been here
	if err != nil || t.Version != old.Version {
		return t, err
	}
	if t.Refresh == "" {
		return nil, &SignInRequired{Connection: conn}
	}
	got, err := c.requestToken(ctx, t.TokenEndpoint, t.Client, url.Values{
		"grant_type": {"refresh_token"}, "refresh_token": {t.Refresh.Reveal()}, "resource": {t.resource()},
	})
	switch {
	case refusedWith(err, "invalid_grant"):
		return c.refused(ctx, conn, t)
	case err != nil:
		if refusedWith(err, "invalid_client") {
			c.forgetRegistration(ctx, t.Client)
		}
		return nil, fmt.Errorf("refresh the tokens for %s at the authorization server %s: %w", conn.Endpoint, strictjson.Quote(t.Client.Issuer), err)
	}
	fresh := t.clone()
	fresh.Access, fresh.Expires = got.access, got.expires
	if got.refresh != "" { // RFC 6749 section 6: else the old one stays (C19)
		fresh.Refresh = got.refresh
	}
	if got.scopes != nil {
		fresh.Scopes = got.scopes
	}
	return c.keep(ctx, fresh)
}

// refused signs out what the server refused, and only that: tokens that somebody
// stored meanwhile stay and are used.
func (c *Client) refused(ctx context.Context, conn Connection, tried *Tokens) (*Tokens, error) {
	switch err := c.o().Store.RemoveTokens(ctx, conn, tried.Version); {
	case errors.Is(err, ErrConflict):
		return c.stored(ctx, conn)
	case err != nil:
		return nil, fmt.Errorf("sign out of %s: %w", conn.Endpoint, err)
	}
	c.o().Log.Info("signed out, the server refused the refresh token", "connection", conn.ID, "issuer", tried.Client.Issuer)
	return nil, &SignInRequired{Connection: conn}
}

// keep stores refreshed tokens before anybody uses them. A store that fails for a
// moment is asked again: the old refresh token may be used up.
func (c *Client) keep(ctx context.Context, fresh *Tokens) (*Tokens, error) {
	for wait := leaseWait; ; wait *= 4 {
		version, err := c.o().Store.PutTokens(ctx, fresh)
		switch {
		case err == nil:
			fresh.Version = version
			return fresh, nil
		case errors.Is(err, ErrConflict):
			// A new sign-in, which wins. These are not revoked: with some servers
			// that would end all tokens of this user and client.
			return c.stored(ctx, fresh.Connection)
		case errors.Is(err, ErrGone): // deleted meanwhile: a late refresh brings nothing back
			c.revokeLate(ctx, fresh)
			return nil, fmt.Errorf("refresh the tokens for %s: %w", fresh.Connection.Endpoint, err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		if wait > 16*leaseWait || ctx.Err() != nil {
			return nil, fmt.Errorf("store the refreshed tokens for %s: %w", fresh.Connection.Endpoint, err)
		}
	}
}

// after401 says what follows an answer 401 to a request with the token sent: nil
// to try once more with another token, else a *SignInRequired or why no refresh
// came about.
func (c *Client) after401(ctx context.Context, conn Connection, sent Secret, ch Challenge) error {
	required := &SignInRequired{Connection: conn, Challenge: ch}
	if sent == "" {
		return required
	}
	t, err := c.stored(ctx, conn)
	if err == nil && !sameText(t.Access.Reveal(), sent.Reveal()) {
		return nil // refreshed since it was sent
	}
	if err == nil {
		if c.isDoubted(conn, sent) || t.Refresh == "" {
			return required
		}
		t, err = c.refresh(ctx, conn, t)
	}
	if e := (*SignInRequired)(nil); errors.As(err, &e) {
		return required
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.doubted[conn.ID] = sha256.Sum256([]byte(t.Access.Reveal()))
	c.mu.Unlock()
	return nil
}

// isDoubted reports a token that replaced one that the app refused: if the app
// refuses this one too, refreshing does not help.
func (c *Client) isDoubted(conn Connection, sent Secret) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doubted[conn.ID] == sha256.Sum256([]byte(sent.Reveal()))
}

// trust ends the doubt: the app has taken the token.
func (c *Client) trust(conn Connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.doubted, conn.ID)
}

// after403 says what follows an answer 403 (D20).
func (c *Client) after403(ctx context.Context, conn Connection, ch Challenge) error {
	asked := false
	t, err := c.stored(ctx, conn)
	if e := (*SignInRequired)(nil); err != nil && !errors.As(err, &e) {
		return err
	}
	if t != nil && len(ch.Scope) > 0 {
		asked = !slices.ContainsFunc(ch.Scope, func(s string) bool { return !slices.Contains(t.Requested, s) })
	}
	if !ch.asksForMore() {
		if ch.Error != "" {
			return fmt.Errorf("the app %s refused the operation with 403, error %s: %w", conn.Endpoint, strictjson.Quote(ch.Error), ErrDenied)
		}
		return fmt.Errorf("the app %s refused the operation with 403: %w", conn.Endpoint, ErrDenied)
	}
	return &SignInRequired{Connection: conn, Challenge: ch, StepUp: t != nil, Asked: asked}
}

// sameText compares without telling by its time how much is equal.
func sameText(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
