package oauthtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/luikyv/go-oidc/pkg/goidc"

	"github.com/openbot-build/openbot-go/oauth/cimd"
)

// clientAlgorithms are those of private_key_jwt.
var clientAlgorithms = []goidc.SignatureAlgorithm{goidc.ES256, goidc.RS256, goidc.PS256}

// Keys of what this package puts into a request's context.
type (
	clientKey struct{} // *goidc.Client, already read
	pathKey   struct{} // the endpoint
)

// clients finds clients for the protocol: by their documents, or as they were
// registered (oauth A5).
type clients struct{ s *Server }

func (c clients) SaveClient(_ context.Context, client *goidc.Client) error {
	return c.s.memory.saveClient(client)
}

func (c clients) DeleteClient(context.Context, string) error {
	return errors.New("clients are not deleted")
}

func (c clients) Client(ctx context.Context, id string) (*goidc.Client, error) {
	if known, ok := ctx.Value(clientKey{}).(*goidc.Client); ok && known.ID == id {
		return known, nil
	}
	if _, back := ctx.Value(pathKey{}).(string); back && isDocument(id) {
		// The exchange lock is held, perhaps, and no stranger's server may hold
		// it with us: who the request is from was read before.
		return nil, fmt.Errorf("the request does not say at its beginning that it is from %q: %w", id, goidc.ErrNotFound)
	}
	return c.s.client(ctx, id)
}

// isDocument reports whether a client is known by its document.
func isDocument(id string) bool { return strings.HasPrefix(id, "https://") }

// client reads a client. Its answer is the caller's own.
func (s *Server) client(ctx context.Context, id string) (*goidc.Client, error) {
	if !isDocument(id) {
		c, ok := s.memory.client(id)
		if !ok {
			return nil, fmt.Errorf("there is no client %q: %w", id, goidc.ErrNotFound)
		}
		return c, nil
	}
	d, err := s.resolver.Resolve(ctx, id)
	if err != nil {
		return nil, err
	}
	c := &goidc.Client{ID: id, ClientMeta: goidc.ClientMeta{
		Name:             d.ClientName,
		ApplicationType:  goidc.ApplicationType(d.ApplicationType),
		LogoURI:          d.LogoURI,
		RedirectURIs:     slices.Clone(d.RedirectURIs),
		GrantTypes:       []goidc.GrantType{goidc.GrantAuthorizationCode},
		ResponseTypes:    []goidc.ResponseType{goidc.ResponseTypeCode},
		ScopeIDs:         strings.Join(s.opts.Scopes, " "),
		TokenAuthnMethod: goidc.AuthnMethodNone,
	}}
	if slices.Contains(d.GrantTypes, string(goidc.GrantRefreshToken)) {
		c.GrantTypes = append(c.GrantTypes, goidc.GrantRefreshToken)
	}
	switch d.TokenEndpointAuthMethod {
	case "", "none":
	case "private_key_jwt": // the document has keys, so they must be used (oauth M3)
		c.TokenAuthnMethod = goidc.AuthnMethodPrivateKeyJWT
		keys, err := s.resolver.Keys(ctx, d)
		if err != nil {
			return nil, err
		}
		c.JWKS = new(goidc.JSONWebKeySet)
		if err := json.Unmarshal(keys, c.JWKS); err != nil {
			return nil, fmt.Errorf("read the client's keys: %w", err)
		}
	default:
		return nil, fmt.Errorf("the client wants to authenticate with %q, which this server cannot do", d.TokenEndpointAuthMethod)
	}
	return c, nil
}

// clientOf gives who a back-channel request says it is from: what the protocol
// library takes for the client, or an id that it does not find then.
func clientOf(r *http.Request) (string, bool) {
	if id := r.PostForm.Get("client_id"); id != "" {
		return id, true
	}
	if id, _, ok := r.BasicAuth(); ok && id != "" {
		return id, true
	}
	assertion, err := jwt.ParseSigned(r.PostForm.Get("client_assertion"), clientAlgorithms)
	if err != nil {
		return "", false
	}
	var claims jwt.Claims
	if err := assertion.UnsafeClaimsWithoutVerification(&claims); err != nil { // verified later, with the keys of this client
		return "", false
	}
	return claims.Issuer, claims.Issuer != ""
}

// redirectTo is the client with a redirect URI that we found to be registered:
// the protocol library frees the port on IP loopback only, and compares what an
// URL library makes of the text.
func redirectTo(c *goidc.Client, uri string) *goidc.Client {
	one := *c
	one.ApplicationType = goidc.ApplicationTypeWeb
	one.RedirectURIs = []string{uri}
	if u, err := url.Parse(uri); err == nil {
		one.RedirectURIs = append(one.RedirectURIs, u.String())
	}
	return &one
}

// admit judges a dynamic registration.
func (s *Server) admit(_ context.Context, _ string, meta *goidc.ClientMeta) error {
	if len(meta.RedirectURIs) == 0 {
		return errors.New("redirect_uris is missing")
	}
	for _, uri := range meta.RedirectURIs {
		if err := cimd.CheckRedirect(uri); err != nil {
			return fmt.Errorf("the redirect URI %q %w", uri, err)
		}
	}
	if len(meta.RedirectURIs) > 20 || len(meta.Name) > 200 {
		return errors.New("the registration is too large")
	}
	if meta.JWKSURI != "" || meta.SignedJWKSURI != "" {
		return errors.New("jwks_uri is not read for registered clients")
	}
	if meta.ScopeIDs == "" {
		meta.ScopeIDs = strings.Join(s.opts.Scopes, " ")
	}
	meta.JARMSigAlg = "" // answers are not signed
	return nil
}
