// Package cimd owns the Client ID Metadata Document: a host makes and serves
// one, an authorization server checks and reads it
// (draft-ietf-oauth-client-id-metadata-document; MCP 2026-07-28).
package cimd

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/openbot-build/openbot-go/publicnet"
)

// Document is a Client ID Metadata Document.
type Document struct {
	ClientID                string          `json:"client_id"`
	ClientName              string          `json:"client_name"`
	ClientURI               string          `json:"client_uri,omitempty"`
	LogoURI                 string          `json:"logo_uri,omitempty"`
	RedirectURIs            []string        `json:"redirect_uris"`
	GrantTypes              []string        `json:"grant_types,omitempty"`
	ResponseTypes           []string        `json:"response_types,omitempty"`
	TokenEndpointAuthMethod string          `json:"token_endpoint_auth_method,omitempty"`
	ApplicationType         string          `json:"application_type,omitempty"`
	JWKSURI                 string          `json:"jwks_uri,omitempty"`
	JWKS                    json.RawMessage `json:"jwks,omitempty"`
}

// New gives the document of a host: a public client with refresh tokens. The
// error names everything that an authorization server would refuse.
func New(id, name string, redirectURIs ...string) (*Document, error) { panic("not built yet") }

// Encode gives the document as it is published, under 2 KiB.
func (d *Document) Encode() ([]byte, error) { panic("not built yet") }

// Handler serves the document: GET and HEAD with ETag, CORS for everybody.
func (d *Document) Handler() (http.Handler, error) { panic("not built yet") }

// CheckID judges a client_id that should be the address of a document.
func CheckID(id string) error { panic("not built yet") }

// Parse judges the answer to a GET of id.
func Parse(id string, status int, contentType string, body []byte) (*Document, error) {
	panic("not built yet")
}

// MatchRedirect reports whether a redirect URI is one of those registered: byte
// for byte, any port on loopback (RFC 8252 section 7.3).
func MatchRedirect(registered []string, uri string) bool { panic("not built yet") }

// Resolver reads documents of strangers and keeps good ones for a while.
type Resolver struct{}

// NewResolver gives a Resolver that reads through network.
func NewResolver(network *publicnet.Network) *Resolver { panic("not built yet") }

// Resolve gives the document at id.
func (r *Resolver) Resolve(ctx context.Context, id string) (*Document, error) {
	panic("not built yet")
}
