package oauth

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// memoryStore is a Store for one process. Its maps hold pointers, which fmt
// prints as addresses: what lies behind unexported fields cannot hide itself.
type memoryStore struct {
	mu            sync.Mutex
	connections   map[string]*memoryConnection
	attempts      map[string]*Attempt
	registrations map[string]*Registration
}

type memoryConnection struct {
	Connection
	dead    bool // the mark stays, so that nothing brings the connection back
	tokens  *Tokens
	version int64 // the last that was given, so that none is given twice
	holder  string
	until   time.Time // of the holder's lease
}

// NewMemoryStore gives a Store that forgets everything with the process. It is
// for tests and tools: a host that restarts would sign its users out.
func NewMemoryStore() Store {
	return &memoryStore{connections: map[string]*memoryConnection{}, attempts: map[string]*Attempt{}, registrations: map[string]*Registration{}}
}

// live gives the connection if it is there and still what c says.
func (m *memoryStore) live(c Connection) (*memoryConnection, error) {
	switch row := m.connections[c.ID]; {
	case row == nil || row.dead:
		return nil, ErrGone
	case row.Connection != c:
		return row, ErrReview
	default:
		return row, nil
	}
}

func (m *memoryStore) Add(_ context.Context, c Connection) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	row := m.connections[c.ID]
	if row == nil {
		m.connections[c.ID] = &memoryConnection{Connection: c}
		return nil
	}
	if row.dead {
		return ErrGone
	}
	return nil
}

func (m *memoryStore) AddAttempt(_ context.Context, a *Attempt) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.live(a.Connection); err != nil {
		return err
	}
	now := time.Now()
	for state, old := range m.attempts { // what nobody came back for
		if !now.Before(old.Expires) {
			delete(m.attempts, state)
		}
	}
	if _, ok := m.attempts[a.State]; ok {
		return errors.New("add an attempt: its state is used already")
	}
	kept := *a
	kept.Scopes = slices.Clone(a.Scopes)
	m.attempts[a.State] = &kept
	return nil
}

func (m *memoryStore) TakeAttempt(_ context.Context, state string) (*Attempt, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, ok := m.attempts[state]
	delete(m.attempts, state)
	if !ok || !time.Now().Before(a.Expires) {
		return nil, ErrNotFound
	}
	if _, err := m.live(a.Connection); err != nil {
		return nil, ErrNotFound
	}
	return a, nil
}

func (m *memoryStore) Tokens(_ context.Context, c Connection) (*Tokens, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	row, err := m.live(c)
	if err != nil {
		if row != nil && row.User == c.User { // what another user asks for is no reason to sign this one out
			row.tokens = nil
		}
		return nil, err
	}
	if row.tokens == nil {
		return nil, ErrNotFound
	}
	return row.tokens.clone(), nil
}

func (m *memoryStore) PutTokens(_ context.Context, t *Tokens) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	row, err := m.live(t.Connection)
	if err != nil {
		return 0, err
	}
	if row.stored() != t.Version {
		return 0, ErrConflict
	}
	row.version++
	row.tokens = t.clone()
	row.tokens.Version = row.version
	return row.version, nil
}

func (m *memoryStore) RemoveTokens(_ context.Context, c Connection, version int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	row, err := m.live(c)
	if err != nil {
		return err
	}
	if row.tokens == nil {
		return nil
	}
	if row.tokens.Version != version {
		return ErrConflict
	}
	row.tokens = nil
	return nil
}

func (m *memoryStore) Lease(_ context.Context, c Connection, holder string, d time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	row, err := m.live(c)
	if err != nil {
		return false, err
	}
	now := time.Now()
	if row.holder != "" && row.holder != holder && now.Before(row.until) {
		return false, nil
	}
	row.holder, row.until = holder, now.Add(d)
	return true, nil
}

func (m *memoryStore) Release(_ context.Context, c Connection, holder string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if row := m.connections[c.ID]; row != nil && row.holder == holder {
		row.holder = ""
	}
	return nil
}

func (m *memoryStore) Kill(_ context.Context, c Connection) (*Tokens, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	row := m.connections[c.ID]
	if row == nil {
		row = &memoryConnection{Connection: c}
		m.connections[c.ID] = row
	}
	if row.User != c.User { // deleting wins over any other difference
		return nil, ErrReview
	}
	row.dead = true
	for state, a := range m.attempts {
		if a.Connection.ID == c.ID {
			delete(m.attempts, state)
		}
	}
	if row.tokens == nil {
		return nil, nil
	}
	return row.tokens.clone(), nil
}

func (m *memoryStore) Erase(_ context.Context, c Connection) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if row := m.connections[c.ID]; row != nil && row.dead {
		row.tokens = nil
	}
	return nil
}

func (m *memoryStore) Registration(_ context.Context, issuer string) (*Registration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.registrations[issuer]
	if !ok {
		return nil, ErrNotFound
	}
	c := *r
	return &c, nil
}

func (m *memoryStore) PutRegistration(_ context.Context, r *Registration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := *r
	m.registrations[r.Issuer] = &c
	return nil
}

// stored is the version of the tokens that are there; 0 when none are.
func (row *memoryConnection) stored() int64 {
	if row.tokens == nil {
		return 0
	}
	return row.tokens.Version
}

func (t *Tokens) clone() *Tokens {
	c := *t
	c.Scopes, c.Requested = slices.Clone(t.Scopes), slices.Clone(t.Requested)
	return &c
}
