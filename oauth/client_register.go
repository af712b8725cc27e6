package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/internal/strictjson"
)

// knownClient gives the client that the host has at a server without asking:
// one registered by hand, else its client document where the server takes them
// (C9, D21). nil is none.
func (c *Client) knownClient(m *serverMetadata) *Registration {
	for _, r := range c.o().Registered {
		if r.Issuer == m.Issuer { // byte for byte: credentials of one issuer never go to another (C8)
			r.AuthMethod = authMethod(r.AuthMethod, r.Secret, m.TokenAuthMethods)
			return &r
		}
	}
	if c.o().ClientID != "" && m.ClientDocuments {
		return &Registration{Issuer: m.Issuer, ClientID: c.o().ClientID, AuthMethod: "none"}
	}
	return nil
}

// authMethod is how a client shows its secret: as it was registered, else as the
// server offers it; client_secret_basic is what RFC 8414 means by silence.
func authMethod(registered string, secret Secret, offered []string) string {
	switch {
	case registered != "":
		return registered
	case secret == "":
		return "none"
	case !slices.Contains(offered, "client_secret_basic") && slices.Contains(offered, "client_secret_post"):
		return "client_secret_post"
	}
	return "client_secret_basic"
}

// register gives the client that was registered dynamically at a server, or
// registers one (RFC 7591) if the options allow it (D21).
func (c *Client) register(ctx context.Context, m *serverMetadata) (*Registration, error) {
	if c.o().Dynamic == nil || m.RegistrationEndpoint == "" {
		return nil, c.noClient(m)
	}
	// One at a time: of two clients registered at once, one would be lost, and
	// the sign-ins that it began with it.
	turn := c.registerTurn(m.Issuer)
	select {
	case <-turn:
		defer func() { turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if stored, err := c.registration(ctx, m.Issuer); stored != nil || err != nil {
		return stored, err
	}
	kind, err := redirectKind(c.o().RedirectURI)
	if err != nil {
		return nil, err
	}
	method := "none"
	if len(m.TokenAuthMethods) > 0 && !slices.Contains(m.TokenAuthMethods, "none") {
		method = authMethod("", "some", m.TokenAuthMethods)
	}
	// Members of RFC 7591 section 2; application_type is OpenID Connect's and a
	// must of MCP (C10): its default "web" refuses loopback redirects.
	request, err := json.Marshal(struct {
		RedirectURIs    []string `json:"redirect_uris"`
		AuthMethod      string   `json:"token_endpoint_auth_method"`
		GrantTypes      []string `json:"grant_types"`
		ResponseTypes   []string `json:"response_types"`
		ApplicationType string   `json:"application_type"`
		ClientName      string   `json:"client_name,omitempty"`
		ClientURI       string   `json:"client_uri,omitempty"`
	}{[]string{c.o().RedirectURI}, method, []string{"authorization_code", "refresh_token"}, []string{"code"}, kind, c.o().Dynamic.ClientName, c.o().Dynamic.ClientURI})
	if err != nil {
		return nil, err
	}
	r, err := c.sendRegistration(ctx, m, request)
	if err != nil {
		return nil, fmt.Errorf("register at the authorization server %s: %w", strictjson.Quote(m.Issuer), err)
	}
	if stored, err := c.registration(ctx, m.Issuer); stored != nil || err != nil {
		return stored, err // another process was faster
	}
	if err := c.o().Store.PutRegistration(ctx, r); err != nil {
		return nil, err
	}
	return r, nil
}

// registration gives the client that was registered at an issuer, nil when there
// is none or its secret has ended.
func (c *Client) registration(ctx context.Context, issuer string) (*Registration, error) {
	r, err := c.o().Store.Registration(ctx, issuer)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("find the client registered at %s: %w", strictjson.Quote(issuer), err)
	case r.ended():
		return nil, nil
	}
	return r, nil
}

func (r *Registration) ended() bool { return !r.Expires.IsZero() && !time.Now().Before(r.Expires) }

func (c *Client) registerTurn(issuer string) chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	turn := c.registers[issuer]
	if turn == nil {
		turn = make(chan struct{}, 1)
		turn <- struct{}{}
		c.registers[issuer] = turn
	}
	return turn
}

func (c *Client) sendRegistration(ctx context.Context, m *serverMetadata, request []byte) (*Registration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.RegistrationEndpoint, bytes.NewReader(request))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	a, err := c.send(req)
	if err != nil {
		return nil, err
	}
	if a.status != http.StatusOK && a.status != http.StatusCreated {
		err := a.fault()
		if !passing(a.status) {
			err = fmt.Errorf("%w: %w; ask its operator to register the host by hand", ErrNoClient, err)
		}
		return nil, err
	}
	var got struct {
		ClientID      string  `json:"client_id"`
		ClientSecret  string  `json:"client_secret"`
		AuthMethod    string  `json:"token_endpoint_auth_method"`
		SecretExpires float64 `json:"client_secret_expires_at"`
	}
	if err := a.decode(&got); err != nil {
		return nil, err
	}
	// It is judged before it is kept: one that no request can carry would stay.
	if got.ClientID == "" || len(got.ClientID) > maxClientID || len(got.ClientSecret) > maxToken {
		return nil, errors.New("its answer has no client_id, or one that is too long")
	}
	for name, text := range map[string]string{"client_id": got.ClientID, "client_secret": got.ClientSecret} {
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) { // RFC 6749 appendix A.1
			return nil, fmt.Errorf("its %s holds characters that none has", name)
		}
	}
	r := &Registration{Issuer: m.Issuer, ClientID: got.ClientID, Secret: Secret(got.ClientSecret), AuthMethod: authMethod(got.AuthMethod, Secret(got.ClientSecret), m.TokenAuthMethods)}
	switch r.AuthMethod {
	case "none":
	case "client_secret_basic", "client_secret_post":
		if r.Secret == "" {
			return nil, fmt.Errorf("its answer names the method %s and has no client_secret", r.AuthMethod)
		}
	default:
		return nil, fmt.Errorf("its answer asks for the method %s, which the host does not have", strictjson.Quote(r.AuthMethod))
	}
	if got.SecretExpires > 0 && r.Secret != "" {
		r.Expires = time.Unix(int64(min(got.SecretExpires, 1<<40)), 0)
	}
	return r, nil
}

// noClient tells what can be done where no way of D21 is open.
func (c *Client) noClient(m *serverMetadata) error {
	var ways []string
	switch {
	case m.ClientDocuments:
		ways = append(ways, "set ClientID to the address of the host's client document")
	case c.o().ClientID != "":
		ways = append(ways, "it does not take client documents (client_id_metadata_document_supported), which apps of this protocol need: tell the app's publisher")
	}
	ways = append(ways, "register the host there by hand and configure the client")
	if m.RegistrationEndpoint != "" {
		ways = append(ways, "or allow dynamic registration, which it offers")
	}
	for _, r := range c.o().Registered {
		// A near miss is the likeliest mistake of all.
		if strings.TrimSuffix(r.Issuer, "/") == strings.TrimSuffix(m.Issuer, "/") {
			ways = append(ways, fmt.Sprintf("the client that is configured for %s does not fit, because issuers are compared byte for byte", strictjson.Quote(r.Issuer)))
		}
	}
	return fmt.Errorf("%w at the authorization server %s: %s", ErrNoClient, strictjson.Quote(m.Issuer), strings.Join(ways, "; "))
}

// current gives a stored client as it is now: its secret may have been replaced
// by configuration. ok is false when the host does not use that client any more
// (D22).
func (c *Client) current(ctx context.Context, stored Registration) (r Registration, ok bool, err error) {
	for _, r := range c.o().Registered {
		if r.Issuer == stored.Issuer && r.ClientID == stored.ClientID {
			if r.AuthMethod == "" && (r.Secret == "") == (stored.Secret == "") {
				r.AuthMethod = stored.AuthMethod
			}
			r.AuthMethod = authMethod(r.AuthMethod, r.Secret, nil)
			return r, true, nil
		}
	}
	if stored.ClientID == c.o().ClientID && c.o().ClientID != "" {
		return stored, true, nil
	}
	switch r, err := c.o().Store.Registration(ctx, stored.Issuer); {
	case err == nil:
		return *r, r.ClientID == stored.ClientID, nil
	case errors.Is(err, ErrNotFound):
		return stored, false, nil
	default:
		return stored, false, err
	}
}
