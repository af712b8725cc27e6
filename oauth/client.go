package oauth

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publicnet"
)

// Conditions of signing in that a host acts on, found with errors.Is. The errors
// of a Store and *SignInRequired are the others.
var (
	ErrUnavailable = errors.New("out of order for now, try again later")    // nobody is signed out by it
	ErrDenied      = errors.New("access was refused")                       // by the user, the app or its authorization server
	ErrNoClient    = errors.New("the host has no client that it could use") // the operator has to register one
	ErrNotRevoked  = errors.New("the issuer did not revoke the tokens")     // of Revoke, which has ended the connection all the same
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
type Client struct {
	o  func() *ClientOptions // a function, so that fmt does not print its secrets
	mu sync.Mutex

	begins    map[string]*pending      // by beginKey
	refreshes map[string]*refreshing   // by connection
	doubted   map[string][32]byte      // by connection: hash of the access token that followed a refused one
	registers map[string]chan struct{} // by issuer: holds one element while nobody registers there
}

// NewClient checks the options; it does no I/O. The error names every option at
// fault.
func NewClient(o *ClientOptions) (*Client, error) {
	if o == nil {
		o = &ClientOptions{}
	}
	kept := *o
	kept.Registered = slices.Clone(o.Registered)
	if o.Dynamic != nil {
		d := *o.Dynamic
		kept.Dynamic = &d
	}
	if kept.Log == nil {
		kept.Log = slog.New(slog.DiscardHandler)
	}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if o.Network == nil {
		fault("Network is not set")
	}
	if o.Store == nil {
		fault("Store is not set")
	}
	if o.ClientID != "" {
		if u, err := weburl.Parse(o.ClientID); err != nil {
			fault("ClientID: %w", err)
		} else if u.Target() == "/" || strings.Contains(o.ClientID, "#") {
			fault("ClientID %q has no path, or a fragment: it is the address of the host's client document", o.ClientID)
		}
	}
	if _, err := redirectKind(o.RedirectURI); err != nil {
		fault("RedirectURI: %w", err)
	}
	for i, r := range o.Registered {
		if r.Issuer == "" || r.ClientID == "" {
			fault("Registered[%d]: Issuer and ClientID are needed", i)
		}
		if !slices.Contains([]string{"", "none", "client_secret_basic", "client_secret_post"}, r.AuthMethod) {
			fault("Registered[%d]: AuthMethod %q is none that is known", i, r.AuthMethod)
		}
		if r.Secret == "" && strings.HasPrefix(r.AuthMethod, "client_secret") {
			fault("Registered[%d]: AuthMethod %q needs a Secret", i, r.AuthMethod)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("check the options of a sign-in client: %w", err)
	}
	return &Client{
		o:      func() *ClientOptions { return &kept },
		begins: map[string]*pending{}, refreshes: map[string]*refreshing{}, doubted: map[string][32]byte{}, registers: map[string]chan struct{}{},
	}, nil
}

// redirectKind judges a redirect URI (C15) and gives the application_type of a
// client that uses it: "native" on loopback, else "web".
func redirectKind(uri string) (string, error) {
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return "", err
	case strings.Contains(uri, "#") || u.Host == "" || u.User != nil:
		return "", fmt.Errorf("%q is no absolute address, or has a fragment or user-info", uri)
	case u.Scheme == "https":
		return "web", nil
	case u.Scheme == "http" && isLoopback(u.Hostname()):
		return "native", nil
	}
	return "", fmt.Errorf("%q is neither https nor http on loopback", uri)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// SignInRequired is the error of a call that needs its user: show it, and when
// the user agrees, Begin with its Challenge. It is found with errors.As in what
// the SDK's calls return when their transport has Client.Handler and
// Client.Transport.
type SignInRequired struct {
	Connection Connection
	Challenge  Challenge // zero when no answer of the app is at hand
	StepUp     bool      // signed in, but the operation needs more

	// Asked is a StepUp for what was asked for already, and the app still wants
	// it: say that the operation needs more access than the user got, and do not
	// send the user round again unasked (D20).
	Asked bool

	cause error // the refusal of a refresh, or nil
}

// Unwrap gives what the authorization server said when it refused a refresh; nil
// when that is not the cause.
func (e *SignInRequired) Unwrap() error { return e.cause }

func (e *SignInRequired) Error() string {
	app := shown(e.Connection.Endpoint)
	switch {
	case e.Asked:
		return "the operation needs more access to " + app + " than was granted; asking again helps only if the user decides otherwise"
	case e.StepUp:
		return "the operation needs more access to " + app + ": ask the user to agree, then begin a sign-in with the challenge"
	}
	text := "sign-in to " + app + " is needed: ask the user, then begin a sign-in"
	if e.cause != nil {
		text += "; " + e.cause.Error()
	}
	return text
}

// shown is what errors and logs tell of an address: a query may hold a key of
// the user's (oauth.md section 11).
func shown(address string) string {
	if before, _, ok := strings.Cut(address, "?"); ok {
		return before + "?[query]"
	}
	return address
}

// check is the judgement on every address that is contacted or opened (C17).
func (c *Client) check(address string) error { return c.o().Network.CheckURL(address) }

// oneHop gives a client that follows no redirects, for requests that carry codes
// and tokens (G11). done closes its connections.
func (c *Client) oneHop() (client *http.Client, done func()) {
	client = c.o().Network.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client, client.CloseIdleConnections
}

// randomText is 256 bits in letters that need no escape in an address.
func randomText() string { return rand.Text() + rand.Text() }

// checkConnection judges what a host says of a connection.
func (c *Client) checkConnection(conn Connection) error {
	if conn.ID == "" || conn.User == "" {
		return errors.New("the connection has no ID or no User")
	}
	if strings.Contains(conn.Endpoint, "#") {
		return fmt.Errorf("the endpoint %q has a fragment", shown(conn.Endpoint))
	}
	if err := c.check(conn.Endpoint); err != nil {
		return fmt.Errorf("the endpoint of the connection: %w", err)
	}
	return nil
}
