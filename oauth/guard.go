package oauth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/openbot-build/openbot-go/internal/accesstoken"
	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publicnet"
)

const (
	defaultMaxBody = 1 << 20
	maxLeeway      = 5 * time.Minute
	offlineAccess  = "offline_access"
)

// Guard protects one resource. It is safe for concurrent use.
type Guard struct {
	verifier *accesstoken.Verifier
	scopes   *scopeTable
	maxBody  int64
	log      *slog.Logger

	metadata     *document
	metadataURL  string // as challenges name it
	metadataPath string

	nobody, badRequest, badToken *refusal
}

// NewGuard checks p and gives its Guard, without any network. The error names
// every field at fault.
func NewGuard(p *Protection) (*Guard, error) { return newGuard(p, nil) }

// newGuard is NewGuard with a clock; nil is the real one.
func newGuard(p *Protection, now func() time.Time) (*Guard, error) {
	if p == nil {
		return nil, errors.New("a guard needs a protection")
	}
	network, err := p.Network, error(nil)
	if network == nil {
		if network, err = publicnet.New(&publicnet.Options{UserAgent: "openbot-go"}); err != nil {
			return nil, fmt.Errorf("make network: %w", err)
		}
	}
	if err := p.check(network); err != nil {
		return nil, err
	}
	g := &Guard{scopes: newScopeTable(&p.Scopes), maxBody: p.MaxBody, log: p.Log}
	if g.maxBody == 0 {
		g.maxBody = defaultMaxBody
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	g.metadataURL, g.metadataPath = metadataPlace(p.Resource)
	if g.metadata, err = newMetadata(p); err != nil {
		return nil, err
	}
	g.prepare()

	client := network.Client()
	o := &accesstoken.Options{Audience: p.Resource, Client: client, Leeway: p.Leeway, Now: now, Bind: bind, Log: g.log}
	for i := range p.Issuers {
		o.Issuers = append(o.Issuers, p.Issuers[i].options(client))
	}
	if g.verifier, err = accesstoken.New(o); err != nil {
		return nil, err
	}
	return g, nil
}

func (i *Issuer) options(client *http.Client) accesstoken.Issuer {
	issuer := i.URL
	o := accesstoken.Issuer{
		URL: issuer, Algorithms: i.Algorithms, JWKS: i.JWKS,
		Discover: func(ctx context.Context) (accesstoken.Endpoints, error) {
			m, err := discoverServer(ctx, client, issuer)
			if err != nil {
				return accesstoken.Endpoints{}, err
			}
			return accesstoken.Endpoints{JWKS: m.JWKSURI, Introspection: m.IntrospectionEndpoint}, nil
		},
	}
	if in := i.Introspection; in != nil {
		// RFC 6749 section 2.3.1 wants both encoded as in a form.
		id, secret := url.QueryEscape(in.ClientID), Secret(url.QueryEscape(in.ClientSecret.Reveal()))
		o.Introspection = &accesstoken.Introspection{
			Endpoint: in.Endpoint, Always: in.Always,
			Authenticate: func(r *http.Request) { r.SetBasicAuth(id, secret.Reveal()) },
		}
	}
	return o
}

// check reports every fault. Each begins with the field's name and a colon. An
// issuer that network would never contact is one: all tokens would wait for it.
func (p *Protection) check(network *publicnet.Network) error {
	var faults []error
	fault := func(field, format string, args ...any) {
		faults = append(faults, fmt.Errorf("%s: %w", field, fmt.Errorf(format, args...)))
	}
	if err := checkAddress(p.Resource, false); err != nil {
		fault("Resource", "%w", err)
	}
	if p.Documentation != "" {
		if err := checkAddress(p.Documentation, true); err != nil {
			fault("Documentation", "%w", err)
		}
	}
	if len(p.Issuers) == 0 {
		fault("Issuers", "name at least one authorization server")
	}
	asked := func(field, address string, query bool) (ok bool) {
		err := checkAddress(address, query)
		if err == nil {
			err = network.CheckURL(address)
		}
		if err != nil {
			fault(field, "%w", err)
		}
		return err == nil
	}
	seen := map[string]bool{}
	for i := range p.Issuers {
		is, field := &p.Issuers[i], fmt.Sprintf("Issuers[%d].", i)
		if asked(field+"URL", is.URL, false) && seen[is.URL] {
			fault(field+"URL", "%s is there twice", is.URL)
		}
		seen[is.URL] = true
		if is.Algorithms != nil && len(is.Algorithms) == 0 {
			fault(field+"Algorithms", "name one, or leave it out")
		}
		for _, name := range is.Algorithms {
			if err := accesstoken.CheckAlgorithm(name); err != nil {
				fault(field+"Algorithms", "%w", err)
			}
		}
		if is.JWKS != "" {
			asked(field+"JWKS", is.JWKS, true)
		}
		if in := is.Introspection; in != nil {
			if in.Endpoint != "" {
				asked(field+"Introspection.Endpoint", in.Endpoint, true)
			}
			if in.ClientID == "" {
				fault(field+"Introspection.ClientID", "is missing: the client id with which this app asks the issuer (RFC 7662 section 2.1)")
			}
			if in.ClientSecret == "" {
				fault(field+"Introspection.ClientSecret", "is missing: the secret with which this app asks the issuer (RFC 7662 section 2.1)")
			}
		}
	}
	p.Scopes.check(fault)
	if p.Leeway < 0 || p.Leeway > maxLeeway {
		fault("Leeway", "%v is not between 0 and %v", p.Leeway, maxLeeway)
	}
	if p.MaxBody < 0 {
		fault("MaxBody", "%d is less than 0", p.MaxBody)
	}
	return errors.Join(faults...)
}

// checkAddress judges an address without changing it: it will be compared byte
// for byte (D19).
func checkAddress(s string, query bool) error {
	if s == "" {
		return errors.New("is missing")
	}
	if _, err := weburl.Parse(s); err != nil {
		return err
	}
	if !strings.HasPrefix(s, "https://") {
		return fmt.Errorf("%q: write https:// in lower case", s)
	}
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>\\^`{|}", c) >= 0 {
			return fmt.Errorf("%q: percent-encode what is no URL character", s)
		}
	}
	if strings.Contains(s, "#") {
		return fmt.Errorf("%q: must have no fragment", s)
	}
	if !query && strings.Contains(s, "?") {
		return fmt.Errorf("%q: must have no query", s)
	}
	return nil
}

// caller is what each request of a token needs, made once.
type caller struct {
	info auth.TokenInfo
	// ctx holds info under the SDK's own key, and nothing else.
	ctx context.Context
}

// bind makes the caller of a token that has been judged. The SDK's key for it is
// reached only through its middleware, which is therefore asked once, with a
// verifier that has done its work already (oauth section 7).
func bind(r *accesstoken.Result) any {
	c := &caller{info: auth.TokenInfo{
		Scopes:     r.Scopes,
		Expiration: r.Expires,
		UserID:     r.Issuer + " " + r.Subject, // an issuer has no spaces
		Extra: map[string]any{identityKey: Identity{
			Issuer: r.Issuer, Subject: r.Subject, ClientID: r.ClientID, Itself: r.Itself, Scopes: r.Scopes, Expires: r.Expires,
		}},
	}}
	if r.Itself {
		// A user may have the name of a client. No issuer has a fragment.
		c.info.UserID = r.Issuer + "#client " + r.ClientID
	}
	verified := func(context.Context, string, *http.Request) (*auth.TokenInfo, error) { return &c.info, nil }
	keep := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { c.ctx = r.Context() })
	through := auth.RequireBearerToken(verified, &auth.RequireBearerTokenOptions{
		AllowMissingExpiration: true,
		ClockSkew:              math.MaxInt64 / 2, // the expiry was judged, by the injected clock
	})
	through(keep).ServeHTTP(nil, &http.Request{Header: verifiedHeader}) // writes only when it refuses, and that it cannot
	return c
}

// verifiedHeader stands for a token that the SDK need not see.
var verifiedHeader = http.Header{"Authorization": {"bearer verified"}}

// callerContext is a request's context with its caller in it.
type callerContext struct {
	context.Context
	caller context.Context
}

func (c *callerContext) Value(key any) any {
	if v := c.caller.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}
