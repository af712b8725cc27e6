package oauthtest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/luikyv/go-oidc/pkg/goidc"
)

// maxKept bounds each kind of thing that a Server remembers; the oldest goes.
const maxKept = 10_000

// memory is all that a Server knows. What goes in and out is copied, so that no
// request sees another one's half-done work.
type memory struct {
	mu       sync.Mutex
	sessions bounded[*goidc.AuthnSession]
	clients  bounded[*goidc.Client]
	grants   bounded[*goidc.Grant]
	tokens   bounded[*goidc.Token]
	codes    bounded[string] // code to grant
	refresh  bounded[string] // refresh token, good or spent, to grant
	jtis     bounded[time.Time]
}

func newMemory() *memory {
	return &memory{}
}

// bounded is a map that forgets its oldest entry.
type bounded[V any] struct {
	entries map[string]V
	order   []string
}

func (b *bounded[V]) put(key string, v V) {
	if b.entries == nil {
		b.entries = map[string]V{}
	}
	if _, ok := b.entries[key]; !ok {
		b.order = append(b.order, key)
		for len(b.order) > maxKept {
			delete(b.entries, b.order[0])
			b.order = b.order[1:]
		}
	}
	b.entries[key] = v
}

// SaveSession keeps a session that waits for its user. One that has ended stays
// so: nil is the mark of it, whatever a request that came in before still saves.
func (m *memory) SaveSession(_ context.Context, as *goidc.AuthnSession) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, ok := m.sessions.entries[as.ID]; ok && old == nil {
		return nil
	}
	if as.Status != goidc.StatusPending {
		m.sessions.put(as.ID, nil)
		return nil
	}
	c := *as
	m.sessions.put(as.ID, &c)
	return nil
}

func (m *memory) Session(_ context.Context, id string) (*goidc.AuthnSession, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	as := m.sessions.entries[id]
	if as == nil {
		return nil, goidc.ErrNotFound
	}
	c := *as
	return &c, nil
}

// takeSession ends a session: of two answers to one page only one counts.
func (m *memory) takeSession(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sessions.entries[id] == nil {
		return false
	}
	m.sessions.put(id, nil)
	return true
}

func (m *memory) saveClient(client *goidc.Client) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := *client
	m.clients.put(c.ID, &c)
	return nil
}

func (m *memory) client(id string) (*goidc.Client, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	client, ok := m.clients.entries[id]
	if !ok {
		return nil, false
	}
	c := *client
	return &c, true
}

func (m *memory) SaveGrant(_ context.Context, grant *goidc.Grant) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := *grant
	m.grants.put(c.ID, &c)
	if c.AuthCode != "" {
		m.codes.put(c.AuthCode, c.ID)
	}
	if c.RefreshToken != "" {
		m.refresh.put(c.RefreshToken, c.ID)
	}
	return nil
}

func (m *memory) Grant(_ context.Context, id string) (*goidc.Grant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.grant(id)
}

func (m *memory) grant(id string) (*goidc.Grant, error) {
	g, ok := m.grants.entries[id]
	if !ok {
		return nil, goidc.ErrNotFound
	}
	c := *g
	return &c, nil
}

// GrantByAuthCode leaves out what was revoked: the answer is then invalid_grant.
func (m *memory) GrantByAuthCode(_ context.Context, code string) (*goidc.Grant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g, err := m.grant(m.codes.entries[code])
	if err == nil && g.RevokedAt != 0 {
		return nil, goidc.ErrNotFound
	}
	return g, err
}

// GrantByRefreshToken gives the sign-in of a refresh token. One that was replaced
// already is a replay: somebody else has a copy, and the sign-in ends with all
// its tokens (oauth A4; RFC 9700 section 4.14.2). Introspection knows access
// tokens only, so that no resource server takes a refresh token for one.
func (m *memory) GrantByRefreshToken(ctx context.Context, token string) (*goidc.Grant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	path, _ := ctx.Value(pathKey{}).(string)
	if token == "" || path == "/introspect" {
		return nil, goidc.ErrNotFound
	}
	g, err := m.grant(m.refresh.entries[token])
	if err != nil || g.RefreshToken == token || path != "/token" {
		return g, err
	}
	g.RevokedAt = int(time.Now().Unix())
	m.grants.entries[g.ID] = g
	return nil, goidc.ErrNotFound
}

func (m *memory) SaveToken(_ context.Context, token *goidc.Token) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := *token
	m.tokens.put(c.ID, &c)
	return nil
}

func (m *memory) Token(_ context.Context, id string) (*goidc.Token, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	token, ok := m.tokens.entries[id]
	if !ok {
		return nil, goidc.ErrNotFound
	}
	c := *token
	return &c, nil
}

// consumeJTI refuses a client assertion that was used before.
func (m *memory) consumeJTI(_ context.Context, jti string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.jtis.entries[jti]; ok {
		return errors.New("the assertion was used before")
	}
	m.jtis.put(jti, time.Now())
	return nil
}
