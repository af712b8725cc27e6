package oauth

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/publicnet"
)

// Protection says whose tokens open a resource, and what each operation needs.
type Protection struct {
	// Resource is the endpoint exactly as the card writes it. Tokens must name it
	// as their audience, byte for byte (D19).
	Resource string

	// Issuers are the authorization servers whose tokens are taken; at least one.
	Issuers []Issuer

	Scopes Scopes

	Name          string // resource_name of the metadata; "" for none
	Documentation string // resource_documentation; "" for none

	// Network reaches the issuers: their metadata, keys and introspection. nil is
	// a network of its own.
	Network *publicnet.Network

	Leeway time.Duration // between the issuer's clock and ours; 0 is 30 s
	Log    *slog.Logger  // nil logs nothing
}

// Issuer is one authorization server.
type Issuer struct {
	// URL is its issuer identifier, compared byte for byte.
	URL string

	// Algorithms of its signatures; nil is ES256, ES384, ES512, RS256, RS384,
	// RS512, PS256, PS384, PS512 and EdDSA. "none" and HS* are refused.
	Algorithms []string

	// JWKS is the address of its keys; "" is the jwks_uri of its metadata.
	JWKS string

	// Introspection asks the issuer about each token that is no JWT; nil takes
	// JWTs only.
	Introspection *Introspection
}

// Introspection is how to ask about opaque tokens (RFC 7662).
type Introspection struct {
	Endpoint     string // "" is the introspection_endpoint of the issuer's metadata
	ClientID     string
	ClientSecret Secret

	// Always asks about JWTs too, so that a revoked one ends at once.
	Always bool
}

// Scopes are what operations need. Scopes are case-sensitive.
type Scopes struct {
	// Basic are needed by every operation; the 401 challenge asks for them and
	// scopes_supported lists them. offline_access is a fault (S8).
	Basic []string

	Methods map[string][]string // by MCP method, besides Basic
	Tools   map[string][]string // by name of the tool called, besides Basic

	// Implies says which scopes a scope holds (S7): "notes.write" may imply
	// "notes.read". It is followed over several steps.
	Implies map[string][]string
}

// Guard protects one resource. It is safe for concurrent use.
type Guard struct{}

// NewGuard checks p and gives its Guard, without any network. The error names
// every field at fault.
func NewGuard(p *Protection) (*Guard, error) { panic("not built yet") }

// Protect lets requests with a good token through to next: the identity is in
// their context (auth.TokenInfoFromContext, and so RequestExtra.TokenInfo of the
// tools). Preflights pass without one.
func (g *Guard) Protect(next http.Handler) http.Handler { panic("not built yet") }

// Metadata serves the Protected Resource Metadata (RFC 9728): GET, HEAD and
// OPTIONS, with ETag and CORS.
func (g *Guard) Metadata() http.Handler { panic("not built yet") }

// MetadataPath is where Metadata belongs on the resource's origin, escaped.
func (g *Guard) MetadataPath() string { panic("not built yet") }

// Check judges an operation by a caller's token: nil, or a *ScopeError. name is
// the tool of tools/call and "" for other methods. info nil is nobody.
func (g *Guard) Check(info *auth.TokenInfo, method, name string) error { panic("not built yet") }

// Middleware checks each operation once more inside the server, where no header
// can have lied about it.
func (g *Guard) Middleware() mcp.Middleware { panic("not built yet") }

// ScopeError is an operation that needs more than the token gives.
type ScopeError struct {
	Need []string // all that the operation needs, sorted
	Have []string
}

func (e *ScopeError) Error() string { panic("not built yet") }

// Protect gives a handler that serves the metadata at its path and next behind
// the protection everywhere else.
func Protect(next http.Handler, p *Protection) (http.Handler, error) { panic("not built yet") }

// Identity is who calls.
type Identity struct {
	Issuer   string
	Subject  string // unique at the issuer only
	ClientID string // "" when the token does not say
	Scopes   []string
	Expires  time.Time
}

// IdentityFrom gives the caller that a Guard found. The UserID of the same info
// is issuer and subject in one, and so unique.
func IdentityFrom(info *auth.TokenInfo) (Identity, bool) { panic("not built yet") }
