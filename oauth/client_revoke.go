package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/openbot-build/openbot-go/internal/strictjson"
)

const (
	revokeTimeout = 5 * time.Second
	revokeFirst   = 3 * time.Second // of the refresh token, so that the access token has its turn
	storeTimeout  = 10 * time.Second

	accessToken = "access_token"
)

// Revoke ends a connection (D22): no more calls, tokens revoked at the issuer as
// far as that works within 5 s, and erased whatever it said. It goes on when ctx
// ends: deleting wins.
//
// ErrNotRevoked tells that all is done at the host and the issuer did not do its
// part; the tokens end there when their time is over. They do that too at an
// issuer that has no way to revoke tokens, which is no error. Any other error is
// the Store's: call Revoke again.
func (c *Client) Revoke(ctx context.Context, conn Connection) error {
	ctx = context.WithoutCancel(ctx)
	storing, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	t, err := c.o().Store.Kill(storing, conn)
	if err != nil {
		return fmt.Errorf("end the connection to %s: %w", shown(conn.Endpoint), err)
	}
	c.mu.Lock()
	delete(c.doubted, conn.ID)
	c.dropPending(func(p *pending) bool { return p.signIn != nil && p.conn == conn.ID })
	c.mu.Unlock()
	var told error
	if t != nil {
		if told = c.revoke(ctx, t); told != nil {
			told = fmt.Errorf("%w: %w", ErrNotRevoked, told)
		}
	}
	erasing, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := c.o().Store.Erase(erasing, conn); err != nil {
		return fmt.Errorf("erase the tokens for %s: %w", shown(conn.Endpoint), err)
	}
	revoked := "yes"
	switch {
	case t == nil:
		revoked = "no tokens"
	case t.RevocationEndpoint == "":
		revoked = "no, the issuer has no way"
	case told != nil:
		revoked = "no"
	}
	c.o().Log.Info("connection ended", "connection", conn.ID, "endpoint", shown(conn.Endpoint), "revoked", revoked)
	return told
}

// revoke asks the issuer to forget tokens: the refresh token, then the access
// token (C19, RFC 7009).
func (c *Client) revoke(ctx context.Context, t *Tokens) error {
	if t.RevocationEndpoint == "" {
		return nil // the server has no way
	}
	ctx, cancel := context.WithTimeout(ctx, revokeTimeout)
	defer cancel()
	client := t.Client
	if now, ok, err := c.current(ctx, t.Client); err == nil && ok {
		client = now
	}
	var faults []error
	one := func(ctx context.Context, kind string, token Secret) {
		if token == "" {
			return
		}
		a, err := c.post(ctx, t.RevocationEndpoint, client, url.Values{"token": {token.Reveal()}, "token_type_hint": {kind}})
		if err == nil && a.status != http.StatusOK && a.status != http.StatusNoContent {
			err = a.fault()
		}
		if said := (*serverError)(nil); kind == accessToken && errors.As(err, &said) && said.code == "unsupported_token_type" {
			return // a JWT that nobody can take back ends by itself (RFC 7009 section 2.2.1)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("revoke the %s at the authorization server %s: %w", kind, strictjson.Quote(t.Client.Issuer), err))
		}
	}
	first, cancelFirst := context.WithTimeout(ctx, revokeFirst)
	one(first, "refresh_token", t.Refresh)
	cancelFirst()
	one(ctx, accessToken, t.Access)
	return errors.Join(faults...)
}

// revokeLate revokes tokens that are not kept: they came too late, or another
// issuer's took their place.
func (c *Client) revokeLate(ctx context.Context, t *Tokens) {
	if err := c.revoke(context.WithoutCancel(ctx), t); err != nil {
		c.o().Log.Warn("cannot revoke tokens that are not kept", "connection", t.Connection.ID, "error", err)
	}
}
