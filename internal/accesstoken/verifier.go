package accesstoken

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/openbot-build/openbot-go/internal/strictjson"
)

// Limits (oauth section 10).
const (
	MaxToken      = 8 << 10 // octets of a token
	DefaultLeeway = 30 * time.Second

	keepJWT           = 5 * time.Minute // a good answer is used again for so long at most
	keepIntrospection = 30 * time.Second
	maxKept           = 10_000
	maxRefused        = 1024 // tokens whose key is not there, and as many that an issuer refused
)

// Errors of Verify, found with errors.Is. Texts are for the log
// of whoever runs the app: of the token they show at most issuer and audience,
// quoted and short, which no caller needs to be told.
var (
	// ErrInvalid is a token that opens nothing.
	ErrInvalid = errors.New("the access token is not valid")
	// ErrUnavailable is a token that could not be judged: keys or introspection
	// cannot be had. It says nothing about the token.
	ErrUnavailable = errors.New("the access token cannot be checked now")
)

func invalid(reason string) error { return fmt.Errorf("%w: %s", ErrInvalid, reason) }

// Result is what a good token says. It is shared by all requests with that
// token and must not be changed.
type Result struct {
	Issuer   string
	Subject  string // never empty; ClientID, when Itself
	ClientID string // "" when not said
	Itself   bool   // an introspection named no subject: the client acts for itself
	Scopes   []string
	Expires  time.Time // zero when an introspection does not say
	Bound    any       // what Options.Bind made of it
}

// Options configure a Verifier. Audience, Issuers and Client are required.
type Options struct {
	// Audience must be among the token's, byte for byte.
	Audience string

	Issuers []Issuer

	// Client reaches the issuers; it is one of publicnet.
	Client *http.Client

	Leeway time.Duration    // between the issuer's clock and ours; 0 is DefaultLeeway
	Now    func() time.Time // nil is time.Now

	// Bind makes what a caller needs with each request of a token, once for each
	// time that the token is judged. nil makes nothing.
	Bind func(*Result) any

	Log *slog.Logger // nil logs nothing
}

// Issuer is one authorization server.
type Issuer struct {
	URL        string   // compared byte for byte
	Algorithms []string // nil is Algorithms()

	// JWKS is the address of the keys; "" asks Discover.
	JWKS string

	// Discover gives the addresses of the issuer's metadata. It may be nil when
	// the configuration has all that are needed.
	Discover func(ctx context.Context) (Endpoints, error)

	Introspection *Introspection // nil takes JWTs only
}

// Endpoints are addresses of an issuer's metadata; "" is none.
type Endpoints struct{ JWKS, Introspection string }

// Algorithms are those that are taken when an issuer names none: all that sign
// with a key pair.
func Algorithms() []string {
	return []string{"ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA"}
}

// CheckAlgorithm reports an algorithm that cannot be taken: "none", shared-secret
// ones, and unknown ones.
func CheckAlgorithm(name string) error {
	if !slices.Contains(Algorithms(), name) {
		return fmt.Errorf("algorithm %q is none of %s", name, strings.Join(Algorithms(), ", "))
	}
	return nil
}

// Verifier judges the tokens of one resource. It is safe for concurrent use. It
// holds no goroutine but while it asks an issuer.
type Verifier struct {
	audience string
	leeway   time.Duration
	now      func() time.Time
	bind     func(*Result) any
	log      *slog.Logger
	issuers  []*issuer

	algorithms []jose.SignatureAlgorithm // of all issuers
	headers    headers

	kept    *cache // good tokens
	refused *cache // tokens whose key is not there, for the cool-down
}

type issuer struct {
	url        string
	algorithms []jose.SignatureAlgorithm
	keys       *source
	changes    atomic.Uint64 // of its keys
	ask        *introspector // nil takes JWTs only
	always     bool
	refused    *cache // tokens that it was asked about in vain; Bound is the error
}

func (is *issuer) epoch() epoch { return epoch{&is.changes, is.changes.Load()} }

// New gives a Verifier. It does no I/O.
func New(o *Options) (*Verifier, error) {
	if o.Audience == "" || o.Client == nil || len(o.Issuers) == 0 {
		return nil, errors.New("a verifier needs an audience, a client and an issuer")
	}
	v := &Verifier{
		audience: o.Audience, leeway: o.Leeway, now: o.Now, bind: o.Bind, log: o.Log,
		kept: newCache(maxKept), refused: newCache(maxRefused),
	}
	if v.leeway == 0 {
		v.leeway = DefaultLeeway
	}
	if v.now == nil {
		v.now = time.Now
	}
	if v.log == nil {
		v.log = slog.New(slog.DiscardHandler)
	}
	for i := range o.Issuers {
		in := &o.Issuers[i]
		algorithms := in.Algorithms
		if algorithms == nil {
			algorithms = Algorithms()
		}
		is := &issuer{url: in.URL, refused: newCache(maxRefused)}
		for _, name := range algorithms {
			if err := CheckAlgorithm(name); err != nil {
				return nil, fmt.Errorf("issuer %s: %w", in.URL, err)
			}
			is.algorithms = append(is.algorithms, jose.SignatureAlgorithm(name))
			if !slices.Contains(v.algorithms, jose.SignatureAlgorithm(name)) {
				v.algorithms = append(v.algorithms, jose.SignatureAlgorithm(name))
			}
		}
		d := &discovery{ask: in.Discover, now: v.now}
		is.keys = &source{
			issuer: in.URL, url: in.JWKS, discovery: d, client: o.Client, algorithms: algorithms, now: v.now, log: v.log,
			changed: func() { is.changes.Add(1) },
		}
		if in.Introspection != nil {
			is.ask = newIntrospector(in.URL, in.Introspection, d, o.Client, v.log)
			is.always = in.Introspection.Always
		}
		v.issuers = append(v.issuers, is)
	}
	return v, nil
}

// Verify judges a token. Errors are ErrInvalid, ErrUnavailable, or the context's.
func (v *Verifier) Verify(ctx context.Context, token string) (*Result, error) {
	if len(token) > MaxToken {
		return nil, errTooLong
	}
	id := sha256.Sum256([]byte(token))
	now := v.now()
	if r := v.kept.get(id, now); r != nil {
		return r, nil
	}
	if v.refused.get(id, now) != nil {
		return nil, errUnknownKey
	}
	a, err := v.judge(ctx, token, id, now)
	switch {
	case err == nil:
		v.kept.put(id, a.result, a.until, a.epoch)
	case errors.Is(err, errUnknownKey) && !a.until.IsZero():
		v.refused.put(id, &Result{}, a.until, a.epoch)
	}
	return a.result, err
}

// judgment is an answer and how long it may be used again.
type judgment struct {
	result *Result // nil when the token was refused
	until  time.Time
	epoch  epoch
}

var (
	errTooLong    = invalid("it is longer than 8 KiB")
	errUnknownKey = invalid("its key is not among the issuer's")
)

// judge does the work for a token that is not kept. For errUnknownKey the
// judgment lasts for the cool-down.
func (v *Verifier) judge(ctx context.Context, token string, id tokenID, now time.Time) (judgment, error) {
	no := judgment{}
	j, err := v.parseJWT(token)
	if errors.Is(err, errOpaque) {
		return v.judgeOpaque(ctx, token, id, now)
	}
	if err != nil {
		return no, err
	}
	if j.fault != nil {
		return no, j.fault
	}
	c, err := parseClaims(j.payload)
	if err != nil {
		return no, err
	}
	at := slices.IndexFunc(v.issuers, func(is *issuer) bool { return is.url == c.issuer })
	if at < 0 {
		return no, fmt.Errorf("%w: %s", errIssuer, strictjson.Quote(c.issuer))
	}
	is := v.issuers[at]
	if err := v.check(c, now, true); err != nil {
		return no, err
	}
	epoch := is.epoch() // before: keys that change meanwhile end it
	if again, err := is.verify(ctx, j); err != nil {
		return judgment{until: again, epoch: is.epoch()}, err
	}
	if j.head != "" {
		v.headers.put(j.head, j.header)
	}
	until := now.Add(keepJWT)
	if is.always {
		// The issuer has the last word on whether it lives, and what it may do.
		narrow := func(answer *claims) error { return v.narrow(c, answer, now) }
		if _, err = v.question(ctx, is, token, id, now, narrow); err != nil {
			return no, err
		}
		until = now.Add(keepIntrospection)
	}
	return judgment{v.result(is, c), v.lasting(until, c), epoch}, nil
}

// judgeOpaque asks the issuers with introspection in turn. One that is down is
// no answer: only if no other knows the token is the outage reported.
func (v *Verifier) judgeOpaque(ctx context.Context, token string, id tokenID, now time.Time) (judgment, error) {
	err := errOpaque
	for _, is := range v.issuers {
		if is.ask == nil {
			continue
		}
		c, fault := v.question(ctx, is, token, id, now, func(c *claims) error { return v.check(c, now, false) })
		if fault == nil {
			return judgment{result: v.result(is, c), until: v.lasting(now.Add(keepIntrospection), c)}, nil
		}
		if !errors.Is(err, ErrUnavailable) {
			err = fault
		}
	}
	return judgment{}, err
}

// question asks an issuer about a token. A refusal, by the issuer or by check, is
// remembered like a good answer: no token is asked about twice in 30 seconds.
func (v *Verifier) question(ctx context.Context, is *issuer, token string, id tokenID, now time.Time, check func(*claims) error) (*claims, error) {
	if r := is.refused.get(id, now); r != nil {
		return nil, r.Bound.(error)
	}
	c, err := is.ask.ask(ctx, token, id, v.kept.had(id))
	if err == nil {
		err = check(c)
	}
	if errors.Is(err, ErrInvalid) {
		is.refused.put(id, &Result{Bound: err}, now.Add(keepIntrospection), epoch{})
	}
	return c, err
}

// narrow brings what an issuer says about a JWT of its own into the claims of
// it. Who it is for stays as it was signed: an answer can end it, say what it may
// do, and shorten its time, and nothing else.
func (v *Verifier) narrow(c, answer *claims, now time.Time) error {
	if !c.sameCaller(answer) {
		return errOtherCaller
	}
	if answer.audience != nil {
		c.audience = answer.audience
	}
	if answer.scopes != nil {
		c.scopes = answer.scopes
	}
	if !answer.expires.IsZero() {
		c.expires = earlier(c.expires, answer.expires)
	}
	for _, start := range []time.Time{answer.notBefore, answer.issued} {
		if c.notBefore.Before(start) {
			c.notBefore = start
		}
	}
	return v.check(c, now, true)
}

// sameCaller reports whether an answer that names a subject or a client names
// those of the token.
func (c *claims) sameCaller(answer *claims) bool {
	return (answer.subject == "" || answer.subject == c.subject) &&
		(answer.client == "" || c.client == "" || answer.client == c.client)
}

// lasting ends an answer with its token: not before the leeway has passed, so
// that a token in it is not judged with each request.
func (v *Verifier) lasting(until time.Time, c *claims) time.Time {
	if !c.expires.IsZero() {
		until = earlier(until, c.expires.Add(v.leeway))
	}
	return until
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

var (
	errIssuer      = invalid("its issuer is not one of ours")
	errOpaque      = invalid("it is no JWT, and no issuer is asked about others")
	errAudience    = invalid("it is not for this resource")
	errExpired     = invalid("it has expired")
	errNoExpiry    = invalid("it has no exp")
	errTooNew      = invalid("it is not valid yet")
	errSubject     = invalid("it names no subject")
	errOtherCaller = invalid("its issuer says that it is another user's or another client's")
)

// check judges claims but for the issuer. A JWT must have exp (J1); what an
// issuer says to an introspection need not, since it says that the token lives.
func (v *Verifier) check(c *claims, now time.Time, jwt bool) error {
	switch {
	case !slices.Contains(c.audience, v.audience):
		return fmt.Errorf("%w: it is for %s, and this is %s", errAudience, quoteAll(c.audience), strictjson.Quote(v.audience))
	case jwt && c.expires.IsZero():
		return errNoExpiry
	case !c.expires.IsZero() && !now.Before(c.expires.Add(v.leeway)):
		return errExpired
	case now.Add(v.leeway).Before(c.notBefore), now.Add(v.leeway).Before(c.issued):
		return errTooNew
	case c.subject == "" && (jwt || c.client == ""):
		return errSubject
	}
	return nil
}

// quoteAll shows some texts of a token to whoever reads the log: data, and short.
func quoteAll(list []string) string {
	const most = 3
	var b strings.Builder
	for i, s := range list {
		switch {
		case i == most:
			return b.String() + ", ..."
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(strictjson.Quote(s))
	}
	if b.Len() == 0 {
		return "nobody"
	}
	return b.String()
}

func (v *Verifier) result(is *issuer, c *claims) *Result {
	r := &Result{Issuer: is.url, Subject: c.subject, ClientID: c.client, Scopes: slices.Clip(c.scopes), Expires: c.expires}
	if r.Subject == "" {
		r.Subject, r.Itself = c.client, true
	}
	if v.bind != nil {
		r.Bound = v.bind(r)
	}
	return r
}

// numericDate reads a NumericDate (RFC 7519 section 2): seconds, perhaps with a
// fraction.
func numericDate(seconds float64) (time.Time, bool) {
	const latest = 253402300799 // the end of the year 9999
	if math.IsNaN(seconds) || seconds < 0 || seconds > latest {
		return time.Time{}, false
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)), true
}
