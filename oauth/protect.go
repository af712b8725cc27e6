package oauth

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/openbot-build/openbot-go/publicnet"
)

// Protection says whose tokens open a resource, and what each operation needs.
type Protection struct {
	// Resource is the endpoint exactly as the card writes it: https, without a
	// query or fragment. Tokens must name it as their audience, byte for byte
	// (D19).
	Resource string

	// Issuers are the authorization servers whose tokens are taken; at least one.
	Issuers []Issuer

	Scopes Scopes

	Name          string // resource_name of the metadata; "" for none
	Documentation string // resource_documentation, an https address; "" for none

	// Network reaches the issuers: their metadata, keys and introspection. nil is
	// a network of its own.
	Network *publicnet.Network

	// MaxBody bounds the requests of older revisions that are read to find their
	// operation, in bytes; larger ones are refused, and so are encoded ones (gzip)
	// of every revision. It matters only where operations differ in scopes. 0 is
	// 1 MiB.
	MaxBody int64

	Leeway time.Duration // between the issuer's clock and ours, at most 5 minutes; 0 is 30 s
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

// Introspection is how to ask about opaque tokens (RFC 7662). The question is
// authenticated with client_secret_basic.
type Introspection struct {
	Endpoint     string // "" is the introspection_endpoint of the issuer's metadata
	ClientID     string
	ClientSecret Secret

	// Always asks about JWTs too, so that a revoked one ends within 30 s. The
	// answer can end a token, set its scopes and shorten its time; who it is for
	// stays as it was signed, and an answer that names another one refuses it.
	Always bool
}

// Scopes are what operations need. Scopes are case-sensitive.
type Scopes struct {
	// Basic are needed by every operation, and at least one is: the 401
	// challenge asks for them and scopes_supported lists them (oauth O3, S3).
	// offline_access is a fault (S8).
	Basic []string

	Methods map[string][]string // by MCP method, besides Basic
	Tools   map[string][]string // by name of the tool called, besides Basic and those of tools/call

	// Implies says which scopes a scope holds (S7): "notes.write" may imply
	// "notes.read". It is followed over several steps.
	Implies map[string][]string
}

// Protect gives a handler that serves the metadata at its path and next behind
// the protection everywhere else. Of next see [Guard.Protect].
func Protect(next http.Handler, p *Protection) (http.Handler, error) {
	g, err := NewGuard(p)
	if err != nil {
		return nil, err
	}
	path, metadata, guarded := g.MetadataPath(), g.Metadata(), g.Protect(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() == path {
			metadata.ServeHTTP(w, r)
			return
		}
		guarded.ServeHTTP(w, r)
	}), nil
}

// Identity is who calls.
type Identity struct {
	Issuer   string
	Subject  string // unique at the issuer only; ClientID, when Itself
	ClientID string // "" when the token does not say

	// Itself is a client without a user, as an introspection tells it. A user may
	// have the same name: keep data by UserID, or look here before Subject.
	Itself bool

	Scopes  []string
	Expires time.Time // zero when an introspection did not say
}

// identityKey is the member of TokenInfo.Extra that holds an Identity.
const identityKey = "openbot.identity"

// IdentityFrom gives the caller that a Guard found. The UserID of the same info
// is issuer and subject in one, or issuer and client of a client itself, and so
// unique. The info is shared by all
// requests with that token: neither it nor the scopes must be changed.
func IdentityFrom(info *auth.TokenInfo) (Identity, bool) {
	if info == nil {
		return Identity{}, false
	}
	id, ok := info.Extra[identityKey].(Identity)
	return id, ok
}
