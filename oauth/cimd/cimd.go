// Package cimd owns the Client ID Metadata Document: a host makes and serves
// one, an authorization server checks and reads it
// (draft-ietf-oauth-client-id-metadata-document; MCP 2026-07-28).
//
// The rules are those of draft -00, which MCP cites, with three of draft -01:
// redirects are never followed, special-use addresses are never contacted, and
// the size is limited. A development setup keeps to them too: see
// [publicnet.Below] for the network under a test.
package cimd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Limits of a document.
const (
	MaxBytes   = 5 << 10 // of a document that is read (draft -00, section on limits)
	maxEncoded = 2 << 10 // of one that is published (oauth M10)
	maxID      = 2 << 10 // of a client_id; ours
)

// The values that this package writes and knows.
const (
	authNone       = "none"
	authPrivateKey = "private_key_jwt"
	appNative      = "native"
	appWeb         = "web"
)

// Document is a Client ID Metadata Document. ClientID, ClientName and
// RedirectURIs are required by MCP.
type Document struct {
	ClientID                string          `json:"client_id"` // the document's own address
	ClientName              string          `json:"client_name"`
	ClientURI               string          `json:"client_uri,omitempty"`
	LogoURI                 string          `json:"logo_uri,omitempty"`
	TOSURI                  string          `json:"tos_uri,omitempty"`
	PolicyURI               string          `json:"policy_uri,omitempty"`
	RedirectURIs            []string        `json:"redirect_uris"` // https, or http on loopback
	GrantTypes              []string        `json:"grant_types,omitempty"`
	ResponseTypes           []string        `json:"response_types,omitempty"`
	TokenEndpointAuthMethod string          `json:"token_endpoint_auth_method,omitempty"` // "" is a public client, as "none"; never "" with keys
	ApplicationType         string          `json:"application_type,omitempty"`           // "native" or "web"; "" is read as "web" by some servers
	JWKSURI                 string          `json:"jwks_uri,omitempty"`
	JWKS                    json.RawMessage `json:"jwks,omitempty"`
}

// New gives the document of a host: a public client with refresh tokens. id is
// the https address where it will be served, redirectURIs are https or http on
// loopback, and stand in the document as they are given. Write loopback ones
// without a port: the host may use any free one, and a port that is written
// means nothing but to servers that know no free ports. The error names
// everything that an authorization server would refuse (oauth M10).
func New(id, name string, redirectURIs ...string) (*Document, error) {
	d := &Document{
		ClientID:                id,
		ClientName:              name,
		RedirectURIs:            slices.Clone(redirectURIs),
		GrantTypes:              []string{"authorization_code", "refresh_token"},
		ResponseTypes:           []string{"code"},
		TokenEndpointAuthMethod: authNone,
		ApplicationType:         appWeb,
	}
	if slices.ContainsFunc(redirectURIs, isLoopback) {
		d.ApplicationType = appNative // else servers insist on the registered port
	}
	if err := d.publishable(); err != nil {
		return nil, fmt.Errorf("make client document: %w", err)
	}
	return d, nil
}

// LoopbackOnly reports whether every redirect URI leads to the user's own
// computer: see IsLocal. A document without any is not such a one. The consent
// page of a sign-in asks IsLocal about that sign-in's redirect URI instead.
func (d *Document) LoopbackOnly() bool {
	return len(d.RedirectURIs) > 0 && !slices.ContainsFunc(d.RedirectURIs, func(uri string) bool { return !IsLocal(uri) })
}

// Encode gives the document as it is published: indented JSON under 2 KiB. The
// error names everything that an authorization server would refuse.
func (d *Document) Encode() ([]byte, error) {
	if err := d.publishable(); err != nil {
		return nil, fmt.Errorf("encode client document: %w", err)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(d); err != nil {
		return nil, fmt.Errorf("encode client document: %w", err)
	}
	if b.Len() > maxEncoded {
		return nil, fmt.Errorf("encode client document: %d octets, more than the %d that are published", b.Len(), maxEncoded)
	}
	return b.Bytes(), nil
}

// Handler serves the document: GET and HEAD with ETag, CORS for everybody. The
// document is encoded once, now.
func (d *Document) Handler() (http.Handler, error) {
	body, err := d.Encode()
	if err != nil {
		return nil, err
	}
	tag := etag(body)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		switch r.Method {
		case http.MethodGet, http.MethodHead:
		case http.MethodOptions:
			h.Set("Access-Control-Allow-Methods", "GET, HEAD, OPTIONS")
			h.Set("Access-Control-Allow-Headers", "*")
			w.WriteHeader(http.StatusNoContent)
			return
		default:
			h.Set("Allow", "GET, HEAD, OPTIONS")
			http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
			return
		}
		h.Set("ETag", tag)
		h.Set("Cache-Control", "public, max-age=3600")
		h.Set("X-Content-Type-Options", "nosniff")
		if slices.ContainsFunc(strings.Split(strings.Join(r.Header.Values("If-None-Match"), ","), ","), func(t string) bool {
			t = strings.TrimSpace(t)
			return t == "*" || strings.TrimPrefix(t, "W/") == tag
		}) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Type", "application/json")
		h.Set("Content-Length", strconv.Itoa(len(body)))
		if r.Method == http.MethodGet {
			_, _ = w.Write(body)
		}
	}), nil
}

// publishable is what a server refuses and, beyond that, what is legal but
// unwise in a document of one's own.
func (d *Document) publishable() error {
	faults := []error{d.check()}
	if rest, ok := strings.CutPrefix(d.ClientID, "https://"); ok && strings.IndexByte(rest, '/') == len(rest)-1 && rest != "" {
		faults = append(faults, fmt.Errorf("client_id %q is the root of its host: give the document a path of its own", d.ClientID))
	}
	if strings.ContainsFunc(d.ClientName, func(r rune) bool { return !unicode.IsPrint(r) }) {
		faults = append(faults, errors.New("client_name has characters that do not print"))
	}
	for name, link := range d.shown() {
		if err := checkAddress(*link); err != nil {
			faults = append(faults, fmt.Errorf("%s %w", name, err))
		}
	}
	return errors.Join(faults...)
}
