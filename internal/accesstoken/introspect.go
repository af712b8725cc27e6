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

// Limits of introspection, of one issuer. Everybody can make up tokens to ask
// about, and so the queue is bounded, and a part of the places is kept for tokens
// that were good before.
const (
	maxAnswer  = 64 << 10
	askTimeout = 5 * time.Second

	maxQuestions = 32 // at a time
	reserved     = 8  // of them for tokens that were good before
	maxWaiting   = 256
	moreWaiting  = 64 // besides, for tokens that were good before
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
	places       chan struct{} // for every token
	reserved     chan struct{} // for tokens that were good before

	mu      sync.Mutex
	flights map[tokenID]*question
	waiting int // flights without a place
}

// question is a flight: it waits for a place, and then asks.
type question struct {
	id    tokenID
	token string
	good  bool // it was good before

	cancel context.CancelFunc
	done   chan struct{} // closed when c and err are there
	c      *claims
	err    error

	// Under introspector.mu.
	callers int
	asking  bool
}

func newIntrospector(issuer string, o *Introspection, d *discovery, client *http.Client, log *slog.Logger) *introspector {
	own := *client
	// A redirect would carry token and secret to somebody else (G11).
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &introspector{
		issuer: issuer, endpoint: o.Endpoint, authenticate: o.Authenticate, discovery: d, client: &own, log: log,
		places: make(chan struct{}, maxQuestions-reserved), reserved: make(chan struct{}, reserved), flights: map[tokenID]*question{},
	}
}

// ask gives what the issuer says about a token that lives. good is a token that
// was good before.
func (in *introspector) ask(ctx context.Context, token string, id tokenID, good bool) (*claims, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q, err := in.join(ctx, token, id, good)
	if err != nil {
		return nil, err
	}
	select {
	case <-q.done:
		return q.c, q.err
	case <-ctx.Done():
		in.leave(q)
		return nil, ctx.Err()
	}
}

var errFull = fmt.Errorf("%w: too many tokens are being asked about", ErrUnavailable)

func (in *introspector) join(ctx context.Context, token string, id tokenID, good bool) (*question, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	q := in.flights[id]
	if q == nil {
		most := maxWaiting
		if good {
			most += moreWaiting
		}
		if in.waiting >= most {
			return nil, errFull
		}
		flight, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
		q = &question{id: id, token: token, good: good, cancel: cancel, done: make(chan struct{})}
		in.flights[id] = q
		in.waiting++
		go in.fly(flight, q)
	}
	q.callers++
	return q, nil
}

// leave ends a flight that nobody waits for any more, unless it is asking: then
// the issuer has the work already.
func (in *introspector) leave(q *question) {
	in.mu.Lock()
	defer in.mu.Unlock()
	q.callers--
	if q.callers == 0 && !q.asking {
		delete(in.flights, q.id)
		in.waiting--
		q.cancel()
	}
}

// begin ends the wait for a place. It is false when everybody has left.
func (in *introspector) begin(q *question) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if q.callers == 0 {
		return false
	}
	in.waiting--
	q.asking = true
	return true
}

func (in *introspector) fly(ctx context.Context, q *question) {
	defer q.cancel()
	var more chan struct{} // nil gives no place
	if q.good {
		more = in.reserved
	}
	var place chan struct{}
	select {
	case in.places <- struct{}{}:
		place = in.places
	case more <- struct{}{}:
		place = more
	case <-ctx.Done():
	}
	if place != nil {
		defer func() { <-place }()
	}
	if !in.begin(q) {
		return
	}
	err := error(errFull)
	if place != nil {
		if q.c, err = in.exchange(ctx, q.token); err != nil && !errors.Is(err, ErrInvalid) {
			in.log.WarnContext(ctx, "introspect a token", "issuer", in.issuer, "error", err)
			err = fmt.Errorf("%w: introspection at %s failed", ErrUnavailable, in.issuer)
		}
	}
	q.err = err
	in.mu.Lock()
	delete(in.flights, q.id)
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
		var err error
		if endpoint, err = in.discovery.address(ctx, "introspection_endpoint", func(e Endpoints) string { return e.Introspection }); err != nil {
			return nil, err
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
	c, err := readAnswer(body)
	if err == nil && c.issuer != "" && c.issuer != in.issuer {
		return nil, errOtherIssuer
	}
	return c, err
}

// readAnswer reads what an issuer says about a token that lives. Only an answer
// that can be read says something about the token; a broken one is the issuer's
// fault, and no ErrInvalid.
func readAnswer(body []byte) (*claims, error) {
	doc, err := strictjson.Parse(body)
	if err != nil {
		return nil, errors.New("the answer is not JSON") // its text may hold the token
	}
	root := doc.Root()
	if _, twice := root.Duplicate(); twice || root.Kind() != strictjson.Object {
		return nil, errors.New("the answer is not an object, or has a member twice")
	}
	active := false
	for name, v := range root.Members() {
		if string(name) == "active" {
			active = v.True() // only the boolean counts (S13)
		}
	}
	if !active {
		return nil, errInactive // whatever else it says
	}
	c, err := readClaims(root, true)
	if err != nil {
		return nil, errors.New("the answer has a member that is malformed")
	}
	return c, nil
}
