package oauthtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/luikyv/go-oidc/pkg/goidc"

	"github.com/openbot-build/openbot-go/oauth/cimd"
	"github.com/openbot-build/openbot-go/publicnet"
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
	return c.s.client(ctx, id)
}

// client reads a client. Its answer is the caller's own.
func (s *Server) client(ctx context.Context, id string) (*goidc.Client, error) {
	if !strings.HasPrefix(id, "https://") {
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
		keys := []byte(d.JWKS)
		if d.JWKSURI != "" {
			if keys, err = s.fetchKeys(ctx, d.JWKSURI); err != nil {
				return nil, fmt.Errorf("read the client's keys: %w", err)
			}
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

// fetchKeys reads a client's jwks_uri, with the limits of a client document.
func (s *Server) fetchKeys(ctx context.Context, address string) ([]byte, error) {
	ctx, _ = publicnet.WithLimits(ctx, publicnet.Limits{MaxBytes: 64 << 10, Timeout: 5 * time.Second})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	client := s.opts.Network.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers with status %d", address, resp.StatusCode)
	}
	return io.ReadAll(resp.Body)
}

// clientOf gives who a back-channel request says it is from.
func clientOf(r *http.Request) (string, bool) {
	if id := r.PostForm.Get("client_id"); id != "" {
		return id, true
	}
	id, _, ok := r.BasicAuth()
	return id, ok
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
	if len(meta.RedirectURIs) > 20 || len(meta.Name) > 200 {
		return errors.New("the registration is too large")
	}
	if meta.JWKSURI != "" || meta.SignedJWKSURI != "" {
		return errors.New("jwks_uri is not read for registered clients")
	}
	if meta.ScopeIDs == "" {
		meta.ScopeIDs = strings.Join(s.opts.Scopes, " ")
	}
	return nil
}

// loopbackOnly: see cimd.Document.
func loopbackOnly(c *goidc.Client) bool {
	return (&cimd.Document{RedirectURIs: c.RedirectURIs}).LoopbackOnly()
}
