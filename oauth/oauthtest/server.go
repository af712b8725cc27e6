// Package oauthtest is a real authorization server inside the process, for
// tests, demonstrations and apps under development. It is NOT FOR PRODUCTION:
// it keeps everything in memory and lets anybody in under any name.
//
// It keeps to the rules that an authorization server for MCP has to keep (oauth
// A1 to A5, M1 to M9), so that what works with it works elsewhere: the
// authorization code grant with PKCE S256 only, Client ID Metadata Documents,
// resource indicators, iss in every response, access tokens of five minutes,
// rotated refresh tokens whose replay ends the whole sign-in, revocation and
// introspection.
package oauthtest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/luikyv/go-oidc/pkg/goidc"
	"github.com/luikyv/go-oidc/pkg/provider"

	"github.com/openbot-build/openbot-go/oauth"
	"github.com/openbot-build/openbot-go/oauth/cimd"
	"github.com/openbot-build/openbot-go/publicnet"
)

// Options configure a Server. Issuer, Resources and Network are required.
type Options struct {
	Issuer    string             // https, without a last slash: where the handler is served
	Resources []string           // for which tokens are given (RFC 8707), byte for byte
	Scopes    []string           // that may be asked for
	Network   *publicnet.Network // reaches client documents

	Opaque         bool          // access tokens to be introspected instead of JWTs
	AccessLifetime time.Duration // in whole seconds; 0 is 5 minutes
	Registration   bool          // offer dynamic registration too
}

// Server is an authorization server: OAuth 2.1 with PKCE, client documents,
// resource indicators, iss in responses, refresh rotation, revocation and
// introspection. It is safe for concurrent use, runs no goroutine of its own and
// needs no closing.
type Server struct {
	opts     Options
	origin   string // of the issuer
	path     string // of the issuer, "" for none
	resolver *cimd.Resolver
	memory   *memory
	provider *provider.Provider
	inner    http.Handler

	secret   string // of the resource server's access to introspection
	cookies  []byte // key of the consent page's tokens
	metadata []byte

	// exchange makes the endpoints that use a code or token up take turns: a
	// code or a refresh token must not be good twice.
	exchange sync.Mutex

	mu       sync.Mutex
	keys     []goidc.JSONWebKey // the signing key first, then the one before it
	faults   map[string]http.Handler
	requests map[string]int
}

// Lifetimes of what a Server gives; ours.
const (
	accessLifetime  = 5 * time.Minute // oauth A4
	refreshLifetime = 24 * time.Hour
	codeLifetime    = time.Minute
	consentLifetime = 10 * time.Minute
)

// resourceServer is the client that may introspect.
const resourceServer = "resource-server"

// New makes a Server; it listens nowhere by itself and does no I/O. The handler
// belongs on the issuer's whole host: the metadata of an issuer with a path is
// outside of that path (RFC 8414 section 3.1).
func New(o *Options) (*Server, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("make authorization server: %w", err)
	}
	s := &Server{
		opts:     *o,
		resolver: cimd.NewResolver(o.Network),
		memory:   newMemory(),
		secret:   rand.Text(),
		cookies:  []byte(rand.Text()),
		faults:   map[string]http.Handler{},
		requests: map[string]int{},
	}
	s.opts.Resources, s.opts.Scopes = slices.Clone(o.Resources), slices.Clone(o.Scopes)
	if s.opts.AccessLifetime == 0 {
		s.opts.AccessLifetime = accessLifetime
	}
	u, _ := url.Parse(o.Issuer)
	s.path = u.EscapedPath()
	s.origin = strings.TrimSuffix(o.Issuer, s.path)
	s.metadata = s.describe()
	s.RotateKey()
	if err := s.build(); err != nil {
		return nil, fmt.Errorf("make authorization server: %w", err)
	}
	return s, nil
}

func (o *Options) check() error {
	var faults []error
	u, err := url.Parse(o.Issuer)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || strings.ContainsAny(o.Issuer, "?#") || strings.HasSuffix(o.Issuer, "/") {
		faults = append(faults, fmt.Errorf("the issuer %q is not https without a last slash, query and fragment", o.Issuer))
	}
	if len(o.Resources) == 0 {
		faults = append(faults, errors.New("no resource is given"))
	}
	for _, r := range o.Resources {
		if u, err := url.Parse(r); err != nil || !u.IsAbs() || strings.Contains(r, "#") {
			faults = append(faults, fmt.Errorf("the resource %q is no absolute address without a fragment", r))
		}
	}
	for _, scope := range o.Scopes {
		if scope == "" || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' }) {
			faults = append(faults, fmt.Errorf("%q is no scope", scope))
		}
	}
	if o.Network == nil {
		faults = append(faults, errors.New("no network is given"))
	}
	if o.AccessLifetime != 0 && o.AccessLifetime < time.Second {
		faults = append(faults, fmt.Errorf("the access lifetime %v is below a second", o.AccessLifetime))
	}
	return errors.Join(faults...)
}

// build puts the protocol together. Everything that goes in or comes out passes
// through this package's own handler first.
func (s *Server) build() (err error) {
	scopes := make([]goidc.Scope, len(s.opts.Scopes))
	for i, name := range s.opts.Scopes {
		scopes[i] = goidc.NewScope(name)
	}
	token := goidc.NewJWTTokenOptions(goidc.ES256, seconds(s.opts.AccessLifetime))
	if s.opts.Opaque {
		token = goidc.NewOpaqueTokenOptions(seconds(s.opts.AccessLifetime))
	}
	isResourceServer := func(c *goidc.Client) bool { return c.ID == resourceServer }
	s.provider, err = provider.New(s.opts.Issuer, s.memory, s.jwks,
		provider.WithAuthCodeGrant(s.memory),
		provider.WithAuthSessionLifetime(seconds(consentLifetime)),
		provider.WithAuthCodeLifetime(seconds(codeLifetime)),
		provider.WithPKCERequired(goidc.CodeChallengeMethodSHA256),
		provider.WithIssuerResponseParameter(),
		provider.WithResourceIndicatorsRequired(s.opts.Resources[0], s.opts.Resources[1:]...),
		provider.WithScopes(scopes...),
		provider.WithRefreshTokenGrant(s.memory),
		provider.WithRefreshTokenRotation(),
		provider.WithRefreshTokenLifetime(seconds(refreshLifetime)),
		provider.WithOpaqueTokens(s.memory),
		provider.WithTokenOptions(func(context.Context, *goidc.Grant, *goidc.Client) goidc.TokenOptions { return token }),
		provider.WithIDTokenSignatureAlgs(goidc.ES256),
		provider.WithNoneAuthn(), provider.WithSecretBasicAuthn(), provider.WithSecretPostAuthn(),
		provider.WithPrivateKeyJWTAuthn(clientAlgorithms[0], clientAlgorithms[1:]...),
		provider.WithDefaultAuthn(goidc.AuthnMethodSecretBasic), // RFC 7591 section 2
		provider.WithDCR(clients{s}),
		provider.WithDCRClientHandler(s.admit),
		provider.WithLocalhostRedirectURIs(),
		provider.WithJTIConsumer(s.memory.consumeJTI),
		provider.WithTokenIntrospection(func(_ context.Context, c *goidc.Client, _ goidc.TokenInfo) bool { return isResourceServer(c) }),
		provider.WithTokenRevocation(func(_ context.Context, c *goidc.Client) bool { return !isResourceServer(c) }),
		provider.WithTokenRevocationRevokeGrantOnAccessToken(),
		provider.WithStaticClients(&goidc.Client{ID: resourceServer, Secret: s.secret, ClientMeta: goidc.ClientMeta{TokenAuthnMethod: goidc.AuthnMethodSecretBasic}}),
		provider.WithPolicies(goidc.NewPolicy("consent", func(*http.Request, *goidc.AuthnSession, *goidc.Client) bool { return true }, s.consent)),
		provider.WithErrorRenderer(renderFault),
	)
	if err != nil {
		return err
	}
	s.inner = s.provider.Handler()
	return nil
}

func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// RotateKey makes a new signing key (ES256, P-256). The one before stays in the
// key set, so that its tokens are good until the next rotation.
func (s *Server) RotateKey() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // the system has no randomness
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := []goidc.JSONWebKey{{Key: key, KeyID: rand.Text()[:8], Algorithm: string(goidc.ES256), Use: string(goidc.KeyUsageSignature)}}
	if len(s.keys) > 0 {
		keys = append(keys, s.keys[0])
	}
	s.keys = keys
}

func (s *Server) jwks(context.Context) (goidc.JSONWebKeySet, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return goidc.JSONWebKeySet{Keys: s.keys}, nil // a rotation makes a new slice
}

// Introspection gives a resource server's access to introspection.
func (s *Server) Introspection() *oauth.Introspection {
	return &oauth.Introspection{ClientID: resourceServer, ClientSecret: oauth.Secret(s.secret)}
}

// mintClient is the client of Token's tokens.
const mintClient = "https://host.invalid/client.json"

// Token gives an access token as if user had signed in with some client. The
// resource and the scopes must be those of the options.
func (s *Server) Token(user, resource string, scopes ...string) (string, error) {
	if !slices.Contains(s.opts.Resources, resource) {
		return "", fmt.Errorf("mint token: %q is no resource of this server", resource)
	}
	for _, scope := range scopes {
		if !slices.Contains(s.opts.Scopes, scope) {
			return "", fmt.Errorf("mint token: %q is no scope of this server", scope)
		}
	}
	if err := checkUser(user); err != nil {
		return "", fmt.Errorf("mint token: %w", err)
	}
	token, err := s.provider.MakeToken(context.Background(), &goidc.Grant{
		Subject: user, Username: user, ClientID: mintClient,
		Scopes: strings.Join(scopes, " "), Resources: goidc.Resources{resource},
	})
	if err != nil {
		return "", fmt.Errorf("mint token: %w", err)
	}
	return token, nil
}

// Fault makes h answer in place of an endpoint, named by its path below the
// issuer: "/token", "/jwks", "/.well-known/oauth-authorization-server". nil puts
// the endpoint back, and h may do so itself and hand the request on.
func (s *Server) Fault(path string, h http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h == nil {
		delete(s.faults, path)
	} else {
		s.faults[path] = h
	}
}

// Requests gives how often each endpoint was asked, named as in Fault.
func (s *Server) Requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.requests)
}
