package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/openbot-build/openbot-go/internal/strictjson"
)

const (
	attemptLifetime = 10 * time.Minute
	beginTimeout    = 45 * time.Second // of all that Begin asks
	pendingReuse    = 5 * time.Second  // a second Begin within it gives the same sign-in, even if another process has finished it
)

// SignIn is a sign-in that waits for its user.
type SignIn struct {
	URL      string // to open in the user's browser, never through a shell: https
	State    string
	Issuer   string
	Resource string // what tokens are asked for: the endpoint, or its origin (C1)
	Scopes   []string
	Expires  time.Time

	// FormerIssuer is the authorization server whose tokens the connection has,
	// when Issuer is another one: show both, a new provider needs a new review
	// (O4). Every Begin tells it until one has finished; then the tokens of the
	// former are revoked. They are not used any more as soon as the app does not
	// name it. "" otherwise, and when the connection was signed out.
	FormerIssuer string
}

// BeginOptions tell Begin what the app answered. nil asks the app's metadata alone.
type BeginOptions struct {
	Challenge *Challenge // of the 401 or 403

	// Issuer is which of several authorization servers; "" is the one whose tokens
	// the connection has, else the first that is usable.
	Issuer string

	// ForeignMetadata says that the user has reviewed that the challenge names
	// metadata on another origin than the endpoint's (C1).
	ForeignMetadata bool
}

// pending is a Begin that runs or has just run: several calls that were refused
// at the same time lead to one sign-in (G12).
type pending struct {
	conn    string        // ID of the connection
	done    chan struct{} // closed when the rest is set
	signIn  *SignIn
	err     error
	version int64 // of the tokens when it began
	until   time.Time
}

// Begin finds the app's authorization server and stores an attempt, good for 10
// minutes and one Finish. It opens nothing: the host shows the user where the
// sign-in leads and opens URL when the user agrees. The connection must have been
// added to the Store.
//
// Scopes are those of the challenge, else the metadata's, else none (C4), sorted;
// after a 403 all that was asked for before at the same issuer is among them (C5),
// and with a 403 that names no scopes all that the metadata lists; offline_access
// is added where the server lists it.
//
// Several Begins for one cause within seconds give one sign-in.
//
// Errors are ErrGone and ErrReview of the connection, ErrUnavailable,
// ErrNoClient, or tell what is wrong with the app's metadata or its server's:
// then the app has to be repaired, and nothing is guessed instead (D19).
func (c *Client) Begin(ctx context.Context, conn Connection, o *BeginOptions) (*SignIn, error) {
	opts := BeginOptions{}
	if o != nil {
		opts = *o
	}
	ch := Challenge{}
	if opts.Challenge != nil { // a copy: the work may outlive this call
		ch = *opts.Challenge
		ch.Scope = slices.Clone(ch.Scope)
	}
	opts.Challenge = &ch
	if err := c.checkConnection(conn); err != nil {
		return nil, fmt.Errorf("begin a sign-in: %w", err)
	}
	old, err := c.o().Store.Tokens(ctx, conn)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("begin a sign-in to %s: %w", shown(conn.Endpoint), err)
	}
	var version int64
	if old != nil {
		version = old.Version
	}
	key := beginKey(conn, &opts)
	c.mu.Lock()
	if p := c.begins[key]; p != nil && (p.until.IsZero() || p.version == version && time.Now().Before(p.until)) {
		c.mu.Unlock()
		select {
		case <-p.done:
			return copySignIn(p.signIn), p.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	p := &pending{conn: conn.ID, done: make(chan struct{}), version: version}
	c.begins[key] = p
	c.mu.Unlock()

	// Others wait for the outcome: that one caller goes away must not cost them.
	go func() {
		work, cancel := context.WithTimeout(context.WithoutCancel(ctx), beginTimeout)
		defer cancel()
		signIn, version, err := c.begin(work, conn, &opts, old)
		if err != nil {
			err = fmt.Errorf("begin a sign-in to %s: %w", shown(conn.Endpoint), err)
		}
		c.mu.Lock()
		p.signIn, p.err, p.version, p.until = signIn, err, version, time.Now().Add(pendingReuse)
		if err != nil && c.begins[key] == p {
			delete(c.begins, key)
		}
		c.dropPending(func(q *pending) bool { return !q.until.IsZero() && time.Now().After(q.until) })
		c.mu.Unlock()
		close(p.done)
	}()
	select {
	case <-p.done:
		return copySignIn(p.signIn), p.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// dropPending forgets what is finished; c.mu is held.
func (c *Client) dropPending(which func(*pending) bool) {
	for key, p := range c.begins {
		if which(p) {
			delete(c.begins, key)
		}
	}
}

func beginKey(conn Connection, o *BeginOptions) string {
	return fmt.Sprintf("%q %q %d %q %t", conn, []string{o.Issuer, o.Challenge.Error, o.Challenge.ResourceMetadata}, o.Challenge.Status, o.Challenge.Scope, o.ForeignMetadata)
}

func copySignIn(s *SignIn) *SignIn {
	if s == nil {
		return nil
	}
	c := *s
	c.Scopes = slices.Clone(s.Scopes)
	return &c
}

// begin does the work of Begin. old are the tokens that are there, or nil;
// version is that of those that it leaves.
func (c *Client) begin(ctx context.Context, conn Connection, o *BeginOptions, old *Tokens) (s *SignIn, version int64, err error) {
	client := c.o().Network.Client()
	defer client.CloseIdleConnections()
	resource, err := c.readResource(ctx, client, conn.Endpoint, o)
	if err != nil {
		return nil, 0, err
	}
	issuers, former := slices.Clone(resource.AuthorizationServers), ""
	if old != nil {
		former, version = old.Client.Issuer, old.Version
		if o.Issuer == "" && slices.Contains(issuers, former) {
			// Whatever else the app names, and in which order: without the user's
			// word a connection stays with its provider (O4).
			issuers = slices.Insert(slices.DeleteFunc(issuers, func(i string) bool { return i == former }), 0, former)
		}
	}
	server, registration, err := c.chooseServer(ctx, client, issuers, o.Issuer, former)
	if err != nil {
		return nil, 0, err
	}
	if server.Issuer == former {
		former = ""
	} else {
		old = nil // what was asked for at another issuer says nothing about this one (C8)
	}
	a := &Attempt{
		State: randomText(), Connection: conn, Client: *registration, RedirectURI: c.o().RedirectURI, Verifier: Secret(oauth2.GenerateVerifier()),
		Scopes: scopesToAsk(o.Challenge, resource, server, old), Resource: resource.Resource, IssAdvertised: server.IssAdvertised,
		TokenEndpoint: server.TokenEndpoint, RevocationEndpoint: server.RevocationEndpoint, Expires: time.Now().Add(attemptLifetime),
	}
	address := authorizationURL(a, server.AuthorizationEndpoint)
	if err := c.check(address); err != nil { // what a browser opens is https and nothing else (C18)
		return nil, 0, fmt.Errorf("the address of the authorization request: %w", err)
	}
	if former != "" && !slices.Contains(resource.AuthorizationServers, former) {
		if version, err = c.retire(ctx, conn, resource.AuthorizationServers); err != nil {
			return nil, 0, err
		}
	}
	if err := c.o().Store.AddAttempt(ctx, a); err != nil {
		return nil, 0, err
	}
	c.o().Log.Info("sign-in begins", "connection", conn.ID, "endpoint", shown(conn.Endpoint), "issuer", server.Issuer)
	return &SignIn{
		URL: address, State: a.State, Issuer: server.Issuer, Resource: a.Resource, Scopes: a.Scopes, Expires: a.Expires, FormerIssuer: former,
	}, version, nil
}

// retire marks tokens of an issuer that the app does not name any more: nobody
// uses them from now on (O4, D22), and the next sign-in revokes them. The row
// stays, because a user who begins again has to be told of the former issuer
// again.
func (c *Client) retire(ctx context.Context, conn Connection, named []string) (version int64, err error) {
	for range maxConflict {
		t, err := c.o().Store.Tokens(ctx, conn)
		switch {
		case errors.Is(err, ErrNotFound):
			return 0, nil
		case err != nil:
			return 0, err
		case t.retired() || slices.Contains(named, t.Client.Issuer):
			return t.Version, nil
		}
		t.TokenEndpoint = ""
		if version, err = c.o().Store.PutTokens(ctx, t); !errors.Is(err, ErrConflict) {
			return version, err
		}
	}
	return 0, ErrConflict
}

func (t *Tokens) retired() bool { return t.TokenEndpoint == "" }

// authorizationURL is the authorization request of an attempt. The endpoint may
// have a query, which usable has judged.
func authorizationURL(a *Attempt, endpoint string) string {
	cfg := &oauth2.Config{ClientID: a.Client.ClientID, RedirectURL: a.RedirectURI, Scopes: a.Scopes, Endpoint: oauth2.Endpoint{AuthURL: endpoint}}
	params := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(a.Verifier.Reveal()), oauth2.SetAuthURLParam("resource", a.resource())}
	if slices.Contains(a.Scopes, "offline_access") {
		// OpenID Connect Core 1.0 section 11: without it the scope is ignored.
		params = append(params, oauth2.SetAuthURLParam("prompt", "consent"))
	}
	return cfg.AuthCodeURL(a.State, params...)
}

func (a *Attempt) resource() string {
	if a.Resource != "" {
		return a.Resource
	}
	return a.Connection.Endpoint
}

// readResource finds the metadata of the app's endpoint (C1).
func (c *Client) readResource(ctx context.Context, client *http.Client, endpoint string, o *BeginOptions) (*resourceMetadata, error) {
	probes, err := resourceProbes(endpoint, o.Challenge.ResourceMetadata, o.ForeignMetadata)
	if err != nil {
		return nil, err
	}
	var m *resourceMetadata
	err = ask(ctx, client, probes, func(p probe, body []byte) error {
		m = &resourceMetadata{}
		if err := strictjson.Unmarshal(body, m); err != nil {
			return err
		}
		return acceptResource(m, p.Expect, c.check)
	})
	if err != nil {
		return nil, fmt.Errorf("find the app's Protected Resource Metadata (RFC 9728): %w", err)
	}
	return m, nil
}

// chooseServer reads the authorization servers of an app until one is found that
// the host has a client for without registering: the first with S256 and a
// hand-registered client or a client document (oauth.md section 12). Only when
// there is none, the first that takes a registration serves. An outage of the
// server that a connection has tokens of is no reason to take another one.
func (c *Client) chooseServer(ctx context.Context, client *http.Client, issuers []string, wanted, current string) (*serverMetadata, *Registration, error) {
	if wanted != "" {
		if !slices.Contains(issuers, wanted) {
			return nil, nil, fmt.Errorf("the app does not name the authorization server %s; it names %s", strictjson.Quote(wanted), quoteList(issuers))
		}
		issuers = []string{wanted}
	}
	issuers = issuers[:min(len(issuers), maxListed)]
	var faults []error
	var later []*serverMetadata
	for _, issuer := range issuers {
		m, err := readServer(ctx, client, issuer, c.check)
		if err == nil {
			err = m.usable()
			if err != nil {
				err = fmt.Errorf("the authorization server %s cannot be used: %w", strictjson.Quote(issuer), err)
			}
		}
		if err != nil {
			if issuer == current && errors.Is(err, ErrUnavailable) {
				return nil, nil, err
			}
			faults = append(faults, err)
			continue
		}
		if r := c.knownClient(m); r != nil {
			return m, r, nil
		}
		if issuer != current {
			later = append(later, m)
		} else if r, err := c.register(ctx, m); err == nil { // as it was done for the tokens that are there
			return m, r, nil
		} else {
			faults = append(faults, err)
		}
	}
	for _, m := range later {
		r, err := c.register(ctx, m)
		if err == nil {
			return m, r, nil
		}
		faults = append(faults, err)
	}
	return nil, nil, errors.Join(faults...)
}

// scopesToAsk are the scopes of C4 and C5, sorted.
func scopesToAsk(ch *Challenge, resource *resourceMetadata, server *serverMetadata, old *Tokens) []string {
	scopes := slices.Clone(ch.Scope)
	if ch.Scope == nil {
		scopes = scopesOf(strings.Join(resource.ScopesSupported, " "))
	}
	if old != nil && ch.asksForMore() {
		scopes = stepUpScopes(old.Requested, scopes)
	}
	if len(scopes) > 0 && slices.Contains(server.ScopesSupported, "offline_access") {
		scopes = append(scopes, "offline_access")
	}
	slices.Sort(scopes)
	return slices.Compact(scopes)
}

// stepUpScopes are all that was asked for before and what is challenged (C5).
func stepUpScopes(before, challenged []string) []string {
	scopes := slices.Concat(before, challenged)
	slices.Sort(scopes)
	return slices.Compact(scopes)
}

func quoteList(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = strictjson.Quote(s)
	}
	return strings.Join(quoted, ", ")
}
