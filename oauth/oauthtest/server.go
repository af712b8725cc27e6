// Package oauthtest is a real authorization server inside the process, for
// tests, demonstrations and apps under development. It is NOT FOR PRODUCTION:
// it keeps everything in memory and lets anybody in under any name.
package oauthtest

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/oauth"
	"github.com/openbot-build/openbot-go/publicnet"
)

// Options configure a Server. Issuer, Resources and Network are required.
type Options struct {
	Issuer    string             // https, without a last slash: where the handler is served
	Resources []string           // for which tokens are given (RFC 8707)
	Scopes    []string           // that may be asked for
	Network   *publicnet.Network // reaches client documents

	Opaque         bool          // access tokens to be introspected instead of JWTs
	AccessLifetime time.Duration // 0 is 5 minutes
	Registration   bool          // offer dynamic registration too
}

// Server is an authorization server: OAuth 2.1 with PKCE, client documents,
// resource indicators, iss in responses, refresh rotation, revocation and
// introspection.
type Server struct{}

// New makes a Server; it listens nowhere by itself.
func New(o *Options) (*Server, error) { panic("not built yet") }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { panic("not built yet") }

// Introspection gives a resource server's access to introspection.
func (s *Server) Introspection() *oauth.Introspection { panic("not built yet") }

// Token gives an access token as if user had signed in with some client.
func (s *Server) Token(user, resource string, scopes ...string) (string, error) {
	panic("not built yet")
}

// Approve plays the user: it opens an authorization URL with client, signs in as
// user, agrees, and gives the redirect back to the host, which it does not follow.
func (s *Server) Approve(ctx context.Context, client *http.Client, url, user string) (redirect string, err error) {
	panic("not built yet")
}

// ExerciseStore is the contract of oauth.Store as a test suite. open gives an
// empty store, and further handles on the same one when asked again.
func ExerciseStore(t *testing.T, open func(t *testing.T) (again func() oauth.Store)) {
	panic("not built yet")
}
