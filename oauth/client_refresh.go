package oauth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/internal/strictjson"
)

const (
	earlyExpiry = 10 * time.Second       // a token is not used in its last seconds
	leaseWait   = 100 * time.Millisecond // between two looks at another process's lease
	turnTimeout = 45 * time.Second       // of waiting for the lease

	// leaseTime is longer than all that is done under one lease: leaseUse, then
	// exchangeTimeout, then storeTimeout. Another process that had the lease
	// before the new tokens are stored would send the old refresh token again.
	leaseTime = 30 * time.Second
	leaseUse  = 5 * time.Second // after which the lease is taken anew before a request

	releaseTimeout = 5 * time.Second
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
// The error is a *SignInRequired when the user has to act, also because the
// server refused to refresh, ErrUnavailable when the server is out of order and
// nobody is signed out, ErrGone or ErrReview when the connection is not there any
// more.
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
		return nil, fmt.Errorf("find the tokens for %s: %w", shown(conn.Endpoint), err)
	}
	if t.Connection != conn { // a store that does not keep its promise
		return nil, fmt.Errorf("find the tokens for %s: %w", shown(conn.Endpoint), ErrReview)
	}
	if t.retired() {
		return nil, &SignInRequired{Connection: conn}
	}
	if c.o().Dynamic != nil && t.fresh() && t.Client.ended() {
		// The secret of a client that was registered dynamically has ended, and
		// somebody may have registered anew for his own sign-in. The access token
		// is good for its time all the same; only a refresh needs the client.
		return t, nil
	}
	now, ok, err := c.current(ctx, t.Client)
	if err != nil {
		return nil, fmt.Errorf("find the client of the tokens for %s: %w", shown(conn.Endpoint), err)
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
			r.tokens, r.err = c.refreshOnce(context.WithoutCancel(ctx), conn, old)
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
		return nil, fmt.Errorf("refresh the tokens for %s: %w", shown(conn.Endpoint), ErrReview)
	}
	return r.tokens.clone(), nil
}

// refreshOnce holds the Store's lease while it asks, so that of several processes
// one sends the refresh token: a server that rotates takes a second one for theft.
// Each step has a time of its own; what was waited for one is not taken from the
// next.
func (c *Client) refreshOnce(ctx context.Context, conn Connection, old *Tokens) (*Tokens, error) {
	holder := randomText()
	t, err := c.turn(ctx, conn, holder, old)
	defer func() {
		ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
		defer cancel()
		if err := c.o().Store.Release(ctx, conn, holder); err != nil {
			c.o().Log.Warn("cannot release the right to refresh", "connection", conn.ID, "error", err)
		}
	}()
	if err != nil || t.Version != old.Version {
		return t, err
	}
	if t.Refresh == "" {
		return nil, &SignInRequired{Connection: conn}
	}
	exchange, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	got, err := c.requestToken(exchange, t.TokenEndpoint, t.Client, url.Values{
		"grant_type": {"refresh_token"}, "refresh_token": {t.Refresh.Reveal()}, "resource": {t.resource()},
	})
	storing, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err != nil {
		return c.notRefreshed(storing, conn, t, err)
	}
	fresh := t.clone()
	fresh.Access, fresh.Expires = got.access, got.expires
	if got.refresh != "" { // RFC 6749 section 6: else the old one stays (C19)
		fresh.Refresh = got.refresh
	}
	if got.scopes != nil {
		fresh.Scopes = got.scopes
	}
	return c.keep(storing, fresh)
}

// turn waits for the lease. It gives the tokens as they are then: newer than old
// when another process was faster, and then possibly without the lease.
func (c *Client) turn(ctx context.Context, conn Connection, holder string, old *Tokens) (*Tokens, error) {
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	for {
		asked := time.Now()
		ok, err := c.o().Store.Lease(ctx, conn, holder, leaseTime)
		if err != nil {
			return nil, fmt.Errorf("refresh the tokens for %s: %w", shown(conn.Endpoint), err)
		}
		t, err := c.stored(ctx, conn)
		if err != nil || t.Version != old.Version {
			return t, err
		}
		if ok && time.Since(asked) < leaseUse {
			return t, nil
		}
		select {
		case <-time.After(leaseWait):
		case <-ctx.Done():
			return nil, fmt.Errorf("refresh the tokens for %s: %w: another process does not finish", shown(conn.Endpoint), ErrUnavailable)
		}
	}
}

// notRefreshed judges why a token request brought nothing. Only a refusal needs
// the user, and only invalid_grant says that the tokens are of no use any more:
// after any other refusal they stay, for what a host's operator can mend.
func (c *Client) notRefreshed(ctx context.Context, conn Connection, t *Tokens, err error) (*Tokens, error) {
	if refusedWith(err, "invalid_grant") {
		return c.refused(ctx, conn, t)
	}
	if refusedWith(err, "invalid_client") {
		c.forgetRegistration(ctx, t.Client)
	}
	err = fmt.Errorf("refresh the tokens for %s at the authorization server %s: %w", shown(conn.Endpoint), strictjson.Quote(t.Client.Issuer), err)
	switch {
	case definite(err):
		return nil, &SignInRequired{Connection: conn, cause: err}
	case errors.Is(err, ErrUnavailable):
		return nil, err
	}
	return nil, fmt.Errorf("%w: %w", ErrUnavailable, err) // an answer that makes no sense
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
	var version int64
	err := insist(ctx, func() (err error) {
		version, err = c.o().Store.PutTokens(ctx, fresh)
		return err
	})
	switch {
	case err == nil:
		fresh.Version = version
		return fresh, nil
	case errors.Is(err, ErrConflict):
		// A new sign-in, which wins. These are not revoked: with some servers that
		// would end all tokens of this user and client.
		return c.stored(ctx, fresh.Connection)
	case errors.Is(err, ErrGone): // deleted meanwhile: a late refresh brings nothing back
		c.revokeLate(ctx, fresh)
	}
	return nil, fmt.Errorf("store the refreshed tokens for %s: %w", shown(fresh.Connection.Endpoint), err)
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
		required.cause = e.cause
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
	t, err := c.stored(ctx, conn)
	if e := (*SignInRequired)(nil); err != nil && !errors.As(err, &e) {
		return err
	}
	if !ch.asksForMore() {
		text := "403"
		switch {
		case ch.unreadable:
			text += " and an error that cannot be read"
		case ch.Error != "":
			text += ", error " + strictjson.Quote(ch.Error)
		}
		return fmt.Errorf("the app %s refused the operation with %s: %w", shown(conn.Endpoint), text, ErrDenied)
	}
	required := &SignInRequired{Connection: conn, Challenge: ch, StepUp: t != nil}
	if t == nil {
		return required
	}
	more := ch.Scope
	if more == nil {
		// What a sign-in would ask for then is in the metadata (C4). Where that is
		// not to be had now, Begin tells why.
		more, err = c.listedScopes(ctx, conn, ch)
	}
	required.Asked = err == nil && !slices.ContainsFunc(more, func(s string) bool { return !slices.Contains(t.Requested, s) })
	return required
}

func (c *Client) listedScopes(ctx context.Context, conn Connection, ch Challenge) ([]string, error) {
	client := c.o().Network.Client()
	defer client.CloseIdleConnections()
	m, err := c.readResource(ctx, client, conn.Endpoint, &BeginOptions{Challenge: &ch})
	if err != nil {
		return nil, err
	}
	return scopesOf(strings.Join(m.ScopesSupported, " ")), nil
}

// sameText compares without telling by its time how much is equal.
func sameText(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
