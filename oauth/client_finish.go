package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/internal/strictjson"
)

const (
	maxQuery        = 8 << 10
	maxConflict     = 5                // attempts to store tokens against other writers
	exchangeTimeout = 12 * time.Second // of a token request, waiting for a connection included
)

// Finish takes the query of the redirect, as the browser sent it. user is who is
// signed in at the host in the browser that came back: it must be the one who
// began.
//
// In this order: the attempt is found by state and used up, the issuer is checked
// (C11, RFC 9207), then the error, then the code is exchanged and the tokens are
// stored. Errors are ErrNotFound when no such attempt waits (used, 10 minutes
// over, or the connection was deleted), ErrDenied when the user or the server
// refused, ErrUnavailable, or tell what was wrong; after each of them the user
// has to begin anew.
//
// Tokens of another issuer or client that the new ones replace are revoked, as
// far as that works within 5 s. Replaced tokens of the same client are not: many
// servers would end the whole grant, the new tokens with it. They end there in
// their time.
func (c *Client) Finish(ctx context.Context, user, query string) (*Connection, error) {
	conn, err := c.finish(ctx, user, query)
	if err != nil {
		return nil, fmt.Errorf("finish a sign-in: %w", err)
	}
	return conn, nil
}

func (c *Client) finish(ctx context.Context, user, query string) (*Connection, error) {
	q, state, err := parseCallback(query)
	if err != nil {
		return nil, err
	}
	a, err := c.o().Store.TakeAttempt(ctx, state)
	if err != nil {
		if errors.Is(err, ErrNotFound) {
			err = fmt.Errorf("no sign-in waits for this answer, because it was used, took longer than 10 minutes, or its app was removed; begin anew: %w", err)
		}
		return nil, err
	}
	c.mu.Lock()
	c.dropPending(func(p *pending) bool { return p.signIn != nil && p.signIn.State == state })
	c.mu.Unlock()
	if !sameText(a.Connection.User, user) {
		return nil, fmt.Errorf("the sign-in was begun by another user of the host; begin anew: %w", ErrDenied)
	}
	code, err := judgeCallback(q, a.Client.Issuer, a.IssAdvertised)
	if err != nil {
		return nil, err
	}
	client, ok, err := c.current(ctx, a.Client)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%w: the one that began the sign-in is not configured any more; begin anew", ErrNoClient)
	}
	// The code is used up from here on: what it brings is stored even when the
	// user's browser does not wait.
	ctx = context.WithoutCancel(ctx)
	exchange, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	got, err := c.requestToken(exchange, a.TokenEndpoint, client, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {a.RedirectURI},
		"code_verifier": {a.Verifier.Reveal()}, "resource": {a.resource()},
	})
	if err != nil {
		if refusedWith(err, "invalid_client") {
			c.forgetRegistration(ctx, client)
		}
		return nil, fmt.Errorf("exchange the code at the authorization server %s: %w", strictjson.Quote(a.Client.Issuer), err)
	}
	t := &Tokens{
		Connection: a.Connection, Client: client, Access: got.access, Expires: got.expires, Refresh: got.refresh, Scopes: got.scopes,
		Requested: slices.Clone(a.Scopes), Resource: a.resource(), TokenEndpoint: a.TokenEndpoint, RevocationEndpoint: a.RevocationEndpoint,
	}
	if t.Scopes == nil { // RFC 6749 section 5.1: what was asked for
		t.Scopes = slices.Clone(a.Scopes)
	}
	old, err := c.replaceTokens(ctx, t)
	if err != nil { // deleted meanwhile, or lost: nobody else knows them
		c.revokeLate(ctx, t)
		return nil, fmt.Errorf("store the tokens: %w", err)
	}
	c.o().Log.Info("signed in", "connection", a.Connection.ID, "issuer", a.Client.Issuer)
	if old != nil && (old.Client.Issuer != client.Issuer || old.Client.ClientID != client.ClientID) {
		c.revokeLate(ctx, old)
	}
	return &a.Connection, nil
}

// replaceTokens stores the tokens of a new sign-in, and gives those that they
// replace. A store that fails for a moment is asked again: the code is used up.
func (c *Client) replaceTokens(ctx context.Context, t *Tokens) (old *Tokens, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err = insist(ctx, func() error {
		for range maxConflict {
			t.Version = 0
			switch old, err = c.o().Store.Tokens(ctx, t.Connection); {
			case err == nil:
				t.Version = old.Version
			case !errors.Is(err, ErrNotFound):
				return err
			}
			if _, err = c.o().Store.PutTokens(ctx, t); !errors.Is(err, ErrConflict) {
				return err
			}
		}
		return ErrConflict
	})
	return old, err
}

// insist does what a store may fail at for a moment, some times within ctx. Its
// own errors are no failures.
func insist(ctx context.Context, do func() error) error {
	for wait := leaseWait; ; wait *= 4 {
		err := do()
		if err == nil || errors.Is(err, ErrConflict) || errors.Is(err, ErrGone) || errors.Is(err, ErrNotFound) {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
		if wait > 16*leaseWait {
			return err
		}
	}
}

// forgetRegistration lets a dynamically registered client that its server does
// not know any more expire, so that the next sign-in registers anew.
func (c *Client) forgetRegistration(ctx context.Context, r Registration) {
	stored, err := c.o().Store.Registration(ctx, r.Issuer)
	if err != nil || stored.ClientID != r.ClientID {
		return
	}
	stored.Expires = time.Now()
	if err := c.o().Store.PutRegistration(ctx, stored); err != nil {
		c.o().Log.Warn("cannot forget a client that its server refuses", "issuer", r.Issuer, "error", err)
	}
}

// parseCallback reads the query of a redirect. A parameter that stands there
// twice is a reject, decided by judgeCallback; state has to be found here.
func parseCallback(query string) (q url.Values, state string, err error) {
	query = strings.TrimPrefix(query, "?")
	if len(query) > maxQuery {
		return nil, "", fmt.Errorf("the query is longer than %d octets", maxQuery)
	}
	q, err = url.ParseQuery(query)
	if err != nil {
		return nil, "", errors.New("the query is malformed") // the cause might quote the code
	}
	if len(q["state"]) != 1 || q.Get("state") == "" {
		return nil, "", errors.New("the query does not have exactly one state")
	}
	return q, q.Get("state"), nil
}

// judgeCallback gives the code of an authorization response, or tells why there
// is none (RFC 9207 section 2.4, RFC 6749 section 4.1.2). Until the issuer is
// known to be the right one nothing of the response is acted on or shown. The
// error of a response that counts is a *callbackError.
func judgeCallback(q url.Values, issuer string, advertised bool) (code string, err error) {
	for name, values := range q {
		if len(values) > 1 {
			return "", fmt.Errorf("the answer has the parameter %s more than once, and is not used; begin anew", strictjson.Quote(name))
		}
	}
	switch iss, there := q["iss"]; {
	case there && iss[0] != issuer:
		return "", fmt.Errorf("the answer came from the authorization server %s and not from %s, and is not used; begin anew", strictjson.Quote(iss[0]), strictjson.Quote(issuer))
	case !there && advertised:
		return "", fmt.Errorf("the answer does not say that it came from %s (iss), which that server promises, and is not used; begin anew", strictjson.Quote(issuer))
	}
	if q.Has("error") {
		return "", &callbackError{code: q.Get("error"), description: q.Get("error_description")}
	}
	if code = q.Get("code"); code == "" {
		return "", errors.New("the answer has neither a code nor an error; begin anew")
	}
	return code, nil
}

// callbackError is an authorization server's own error (RFC 6749 section
// 4.1.2.1). Its texts are data.
type callbackError struct{ code, description string }

func (e *callbackError) Error() string {
	text := "the authorization server answered with the error " + strictjson.Quote(e.code)
	if e.description != "" {
		text += ", saying " + strictjson.Quote(e.description)
	}
	return text
}

// Is makes a refusal an ErrDenied and an outage an ErrUnavailable.
func (e *callbackError) Is(target error) bool {
	switch e.code {
	case "server_error", "temporarily_unavailable":
		return target == ErrUnavailable
	}
	return target == ErrDenied
}
