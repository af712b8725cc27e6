package oauth

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Errors of a Store, found with errors.Is.
var (
	ErrNotFound = errors.New("not found")
	ErrGone     = errors.New("the connection is gone")            // it was deleted, or never added
	ErrConflict = errors.New("the tokens were changed meanwhile") // compare-and-swap failed

	// ErrReview is a connection whose user, card or endpoint is another one than
	// the one that was added: somebody has to review it and add it anew (O4). It
	// is an ErrGone too, so that a store may give either where it refuses to write.
	ErrReview = fmt.Errorf("the connection was added for another user, card or endpoint: review it and add it anew; %w", ErrGone)
)

// Connection is one app that one user added to a host (D22).
type Connection struct {
	ID       string // made by the host, never used again after deletion
	User     string
	CardURL  string
	Endpoint string // the resource: as the card writes it, byte for byte
}

// Registration is a client of a host at one issuer.
type Registration struct {
	Issuer   string
	ClientID string
	Secret   Secret
	// AuthMethod is "none", "client_secret_basic" or "client_secret_post".
	AuthMethod string
	Expires    time.Time // of the secret; zero is never
}

// Attempt is a sign-in between Begin and Finish. It is used once.
type Attempt struct {
	State       string
	Connection  Connection
	Client      Registration
	RedirectURI string
	Verifier    Secret
	Scopes      []string // asked for: everything, with what was asked before

	// Resource is sent in every request for tokens: Connection.Endpoint, or its
	// origin where only the root form of the metadata exists (C1). "" is
	// Connection.Endpoint.
	Resource string

	IssAdvertised      bool
	TokenEndpoint      string
	RevocationEndpoint string // "" for none
	Expires            time.Time
}

// Tokens are the tokens of a connection and all they are bound to.
type Tokens struct {
	Connection Connection
	Client     Registration

	Access Secret

	// Expires is the end of Access; zero when the server did not say. It is up to
	// 10 seconds late for lifetimes under 20 seconds, of which half are used.
	Expires time.Time

	Refresh   Secret   // "" for none
	Scopes    []string // granted
	Requested []string // asked for so far
	Resource  string   // see Attempt.Resource

	// TokenEndpoint is "" for tokens of an authorization server that the app does
	// not name any more: they are never used, and are kept until the next sign-in,
	// which tells of their issuer and revokes them (O4).
	TokenEndpoint      string
	RevocationEndpoint string

	Version int64 // counts changes; 0 is not stored yet
}

// Store keeps what must outlive a request. Secrets are sealed at rest by those
// that write to disk. oauthtest.ExerciseStore is its contract as tests.
type Store interface {
	// Add begins a connection. One that exists is left as it is; one that was
	// deleted is ErrGone.
	Add(ctx context.Context, c Connection) error

	// Put writes are refused with ErrGone when the connection is not there, or
	// when its user, card or endpoint is another one than given.
	AddAttempt(ctx context.Context, a *Attempt) error

	// TakeAttempt gives an attempt and removes it in one step. One that expired
	// is ErrNotFound, and so is one whose connection is gone.
	TakeAttempt(ctx context.Context, state string) (*Attempt, error)

	// Tokens gives the tokens of a connection, ErrNotFound when it is signed
	// out, ErrGone when it is deleted or was never added. For another user, card or
	// endpoint than the connection's it gives nothing but ErrReview. Rows bound to
	// another card or endpoint are removed then (D22); those of another user are
	// his, and stay.
	Tokens(ctx context.Context, c Connection) (*Tokens, error)

	// PutTokens writes t if the stored version is still t.Version, and gives the
	// new version; else ErrConflict.
	PutTokens(ctx context.Context, t *Tokens) (version int64, err error)

	// RemoveTokens signs a connection out if its tokens still have that version.
	RemoveTokens(ctx context.Context, c Connection, version int64) error

	// Lease takes the right to refresh a connection's tokens, across processes,
	// until it is released or d has passed. ok is false while another holds it.
	Lease(ctx context.Context, c Connection, holder string, d time.Duration) (ok bool, err error)
	Release(ctx context.Context, c Connection, holder string) error

	// Kill marks a connection as deleted, drops its attempts, and gives the
	// tokens that are left to be revoked (nil for none). From then on Tokens
	// gives ErrGone, and nothing can be written. Erase removes the tokens.
	Kill(ctx context.Context, c Connection) (*Tokens, error)
	Erase(ctx context.Context, c Connection) error

	// Registration gives the client that was registered dynamically at an
	// issuer, or ErrNotFound.
	Registration(ctx context.Context, issuer string) (*Registration, error)
	PutRegistration(ctx context.Context, r *Registration) error
}
