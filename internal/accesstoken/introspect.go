package accesstoken

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/openbot-build/openbot-go/internal/strictjson"
)

// Limits of introspection.
const (
	maxAnswer    = 64 << 10
	askTimeout   = 5 * time.Second
	maxQuestions = 32 // at a time, of one issuer
)

// Introspection is how to ask an issuer about tokens (RFC 7662).
type Introspection struct {
	Endpoint string // "" asks Discover

	// Authenticate makes a request the resource server's own (RFC 7662 section
	// 2.1). It is a func so that no secret is kept here.
	Authenticate func(*http.Request)

	Always bool // ask about JWTs too
}

// introspector asks one issuer: about one token once at a time, and about so
// many tokens at a time at most.
type introspector struct {
	issuer       string
	endpoint     string
	authenticate func(*http.Request)
	discovery    *discovery
	client       *http.Client
	log          *slog.Logger
	places       chan struct{}

	mu      sync.Mutex
	flights map[tokenID]*question
}

type question struct {
	done chan struct{}
	c    *claims
	err  error
}

func newIntrospector(issuer string, o *Introspection, d *discovery, client *http.Client, log *slog.Logger) *introspector {
	own := *client
	// A redirect would carry token and secret to somebody else (G11).
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &introspector{
		issuer: issuer, endpoint: o.Endpoint, authenticate: o.Authenticate, discovery: d, client: &own, log: log,
		places: make(chan struct{}, maxQuestions), flights: map[tokenID]*question{},
	}
}

// ask gives what the issuer says about a token that lives.
func (in *introspector) ask(ctx context.Context, token string, id tokenID) (*claims, error) {
	in.mu.Lock()
	q := in.flights[id]
	if q == nil {
		q = &question{done: make(chan struct{})}
		in.flights[id] = q
		go in.fly(context.WithoutCancel(ctx), q, token, id)
	}
	in.mu.Unlock()
	select {
	case <-q.done:
		return q.c, q.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (in *introspector) fly(ctx context.Context, q *question, token string, id tokenID) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var err error
	select {
	case in.places <- struct{}{}:
		q.c, err = in.exchange(ctx, token)
		<-in.places
	case <-ctx.Done():
		err = errors.New("too many tokens are being asked about")
	}
	if err != nil && !errors.Is(err, ErrInvalid) {
		in.log.WarnContext(ctx, "introspect a token", "issuer", in.issuer, "error", err)
		err = fmt.Errorf("%w: introspection at %s failed", ErrUnavailable, in.issuer)
	}
	q.err = err
	in.mu.Lock()
	delete(in.flights, id)
	in.mu.Unlock()
	close(q.done)
}

var (
	errInactive    = invalid("its issuer says that it does not live")
	errOtherIssuer = invalid("its issuer is another one than was asked")
)

func (in *introspector) exchange(ctx context.Context, token string) (*claims, error) {
	endpoint := in.endpoint
	if endpoint == "" {
		e, err := in.discovery.endpoints(ctx)
		if err != nil {
			return nil, err
		}
		if endpoint = e.Introspection; endpoint == "" {
			return nil, errors.New("the issuer's metadata has no introspection_endpoint")
		}
	}
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	if in.authenticate != nil {
		in.authenticate(r)
	}
	body, err := exchange(in.client, r, maxAnswer)
	if err != nil {
		return nil, err
	}
	doc, err := strictjson.Parse(body)
	if err != nil {
		return nil, errors.New("the answer is not JSON") // its text may hold the token
	}
	if _, twice := doc.Root().Duplicate(); twice || doc.Root().Kind() != strictjson.Object {
		return nil, errors.New("the answer is not an object, or has a member twice")
	}
	c, err := readClaims(doc.Root())
	switch {
	case err != nil:
		return nil, err
	case !c.active: // only the boolean counts (S13)
		return nil, errInactive
	case c.issuer != "" && c.issuer != in.issuer:
		return nil, errOtherIssuer
	}
	return c, nil
}
