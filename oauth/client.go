package oauth

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/openbot-build/openbot-go/publicnet"
)

// ClientOptions configure a Client. Network, Store and RedirectURI are required.
type ClientOptions struct {
	Network *publicnet.Network
	Store   Store

	// ClientID is the address of the host's Client ID Metadata Document; "" is
	// none, and then only pre-registered clients can sign in.
	ClientID string

	// RedirectURI is where the authorization server sends the user back to:
	// https, or http on loopback.
	RedirectURI string

	// Registered are clients that were registered by hand, one an issuer. They
	// come before ClientID (D21).
	Registered []Registration

	// Dynamic registers the host at servers that offer nothing else (RFC 7591);
	// nil never does (D21).
	Dynamic *DynamicRegistration

	Log *slog.Logger // nil logs nothing
}

// DynamicRegistration is what a host says of itself when it registers.
type DynamicRegistration struct {
	ClientName string
	ClientURI  string
}

// Client signs the users of a host in. It is safe for concurrent use, and by
// several processes over one Store.
type Client struct{}

// NewClient checks the options; it does no I/O.
func NewClient(o *ClientOptions) (*Client, error) { panic("not built yet") }

// SignIn is a sign-in that waits for its user.
type SignIn struct {
	URL      string // to open in the user's browser: https, or http on loopback
	State    string
	Issuer   string
	Resource string
	Scopes   []string
	Expires  time.Time
}

// BeginOptions tell Begin what the app answered. nil asks the app's metadata alone.
type BeginOptions struct {
	Challenge *Challenge // of the 401 or 403
	Issuer    string     // which of several authorization servers; "" is the first that is usable
}

// Begin finds the app's authorization server and stores an attempt. It opens
// nothing.
func (c *Client) Begin(ctx context.Context, conn Connection, o *BeginOptions) (*SignIn, error) {
	panic("not built yet")
}

// Finish takes the query of the redirect. user is who is signed in at the host
// in the browser that came back: it must be the one who began.
func (c *Client) Finish(ctx context.Context, user, query string) (*Connection, error) {
	panic("not built yet")
}

// Token gives an access token that is good for some seconds more, refreshed if
// need be. The error is a *SignInRequired when the user has to act.
func (c *Client) Token(ctx context.Context, conn Connection) (Secret, error) { panic("not built yet") }

// Refresh replaces the tokens now.
func (c *Client) Refresh(ctx context.Context, conn Connection) error { panic("not built yet") }

// Revoke ends a connection (D22): no more calls, tokens revoked at the issuer as
// far as that works within 5 s, and erased whatever it said. The error tells
// what the issuer answered; the tokens are gone all the same, unless it is the
// store's.
func (c *Client) Revoke(ctx context.Context, conn Connection) error { panic("not built yet") }

// Handler gives what the SDK's client transport asks for tokens. It never opens
// a browser: where the user has to act its error is a *SignInRequired.
func (c *Client) Handler(conn Connection) auth.OAuthHandler { panic("not built yet") }

// SignInRequired is the error of a call that needs its user.
type SignInRequired struct {
	Connection Connection
	Challenge  Challenge
	StepUp     bool // signed in, but the operation needs more
}

func (e *SignInRequired) Error() string { panic("not built yet") }

// Challenge is what a Bearer challenge says (RFC 9110 section 11, RFC 6750
// section 3). The zero value is an answer without one.
type Challenge struct {
	Present          bool
	Status           int // of the answer; 0 when not known
	Error            string
	Scope            []string // nil when not given
	ResourceMetadata string
}

// ParseChallenge reads the WWW-Authenticate headers of an answer. It never
// fails: what is malformed is left out.
func ParseChallenge(h http.Header) Challenge { panic("not built yet") }

// NewMemoryStore gives a Store that forgets everything with the process.
func NewMemoryStore() Store { panic("not built yet") }
