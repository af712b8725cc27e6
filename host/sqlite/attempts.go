package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/openbot-build/openbot-go/oauth"
)

// stateName is what is kept of a state: who reads the file cannot finish a
// sign-in.
func stateName(state string) string {
	sum := sha256.Sum256([]byte(state))
	return hex.EncodeToString(sum[:])
}

const (
	// maxAttempts is how many sign-ins of one connection may be under way: who
	// begins one more gives the oldest up.
	maxAttempts = 10
	// maxAttempt is the life of a sign-in (D22: 10 min), and some slack.
	maxAttempt = 15 * time.Minute
)

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// AddAttempt implements oauth.Store. Attempts that expired are removed. No
// attempt lives for more than 15 minutes, and of more than 10 that one connection
// has the oldest are removed.
func (s *Store) AddAttempt(ctx context.Context, a *oauth.Attempt) error {
	if a.State == "" {
		return errors.New("write attempt: it has no state")
	}
	name := stateName(a.State)
	return s.writing(ctx, "write attempt", func(t *tx) error {
		if _, err := t.live(a.Connection); err != nil {
			return err
		}
		if err := t.sweep(); err != nil {
			return err
		}
		var used bool
		err := t.QueryRowContext(t.ctx, `SELECT EXISTS (SELECT 1 FROM secret WHERE kind = 'verifier' AND name = ?)`, name).Scan(&used)
		if err != nil {
			return err
		}
		if used {
			return errors.New("its state is used already")
		}
		r := of(a.Connection, verifier)
		r.ofClient(&a.Client)
		r.name, r.resource, r.redirectURI = name, a.Resource, a.RedirectURI
		r.tokenEndpoint, r.revocationEndpoint = a.TokenEndpoint, a.RevocationEndpoint
		r.scopes, r.expires = list(a.Scopes), micro(earlier(a.Expires, time.Now().Add(maxAttempt)))
		if a.IssAdvertised {
			r.issAdvertised = 1
		}
		if err := t.putSet(r, verifier, map[Kind]oauth.Secret{verifier: a.Verifier, clientSecret: a.Client.Secret}); err != nil {
			return err
		}
		return t.exec(`DELETE FROM secret WHERE connection = ?1 AND kind IN ('verifier', 'client_secret') AND name IN
			(SELECT name FROM secret WHERE connection = ?1 AND kind = 'verifier' ORDER BY id DESC LIMIT -1 OFFSET ?2)`,
			a.Connection.ID, maxAttempts)
	})
}

// TakeAttempt implements oauth.Store. An attempt whose rows do not open is a
// *DamagedError, which is an oauth.ErrNotFound too.
func (s *Store) TakeAttempt(ctx context.Context, state string) (*oauth.Attempt, error) {
	name := stateName(state)
	var taken *oauth.Attempt
	var why error // the removal is committed all the same
	err := s.writing(ctx, "take attempt", func(t *tx) error {
		rows, err := t.rows(`SELECT `+rowColumns+` FROM secret WHERE name = ?1 AND kind IN ('verifier', 'client_secret')
			AND connection = (SELECT connection FROM secret WHERE kind = 'verifier' AND name = ?1) ORDER BY kind DESC`, name)
		if err != nil {
			return err
		}
		taken, why = nil, oauth.ErrNotFound
		if len(rows) == 0 {
			return nil
		}
		for _, r := range rows {
			if err := t.exec(`DELETE FROM secret WHERE id = ?`, r.id); err != nil {
				return err
			}
		}
		t.removed = true
		taken, why = t.attempt(rows)
		if _, damaged := errors.AsType[*DamagedError](why); damaged || errors.Is(why, oauth.ErrNotFound) {
			return nil
		}
		return why
	})
	if err == nil {
		err = why
	}
	if err != nil {
		return nil, err
	}
	taken.State = state
	return taken, nil
}

// attempt reads the rows of an attempt, the verifier first. oauth.ErrNotFound is
// one that nobody may finish any more.
func (t *tx) attempt(rows []*row) (*oauth.Attempt, error) {
	first := rows[0]
	texts, err := t.set(rows, verifier)
	if err != nil {
		return nil, err
	}
	if !time.Now().Before(fromMicro(first.expires)) {
		return nil, oauth.ErrNotFound
	}
	c := oauth.Connection{ID: first.connection, User: first.user, CardURL: first.cardURL, Endpoint: first.endpoint}
	if _, err := t.live(c); errors.Is(err, oauth.ErrGone) {
		return nil, oauth.ErrNotFound
	} else if err != nil {
		return nil, err
	}
	scopes, err := fromList(first.scopes)
	if err != nil {
		return nil, &DamagedError{Connection: c.ID, Kind: verifier}
	}
	return &oauth.Attempt{
		Connection: c,
		Client: oauth.Registration{
			Issuer: first.issuer, ClientID: first.clientID, Secret: texts[clientSecret],
			AuthMethod: first.authMethod, Expires: fromMicro(first.clientExpires),
		},
		RedirectURI: first.redirectURI, Verifier: texts[verifier], Scopes: scopes, Resource: first.resource,
		IssAdvertised: first.issAdvertised == 1, TokenEndpoint: first.tokenEndpoint, RevocationEndpoint: first.revocationEndpoint,
		Expires: fromMicro(first.expires),
	}, nil
}

// sweep removes the attempts that nobody came back for, and what is left of
// connections whose deletion was cut short.
func (t *tx) sweep() error {
	if err := t.bury(); err != nil {
		return err
	}
	return t.exec(`DELETE FROM secret WHERE kind IN ('verifier', 'client_secret') AND (connection, name) IN
		(SELECT connection, name FROM secret WHERE kind = 'verifier' AND expires <= ?)`, micro(time.Now()))
}

// Registration implements oauth.Store.
func (s *Store) Registration(ctx context.Context, issuer string) (found *oauth.Registration, err error) {
	err = s.guarded(ctx, "read client", func(t *tx) error {
		rows, err := t.rows(`SELECT `+rowColumns+` FROM secret WHERE connection = '' AND kind = 'client_secret' AND name = ?`, issuer)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return oauth.ErrNotFound
		}
		r := rows[0]
		text, err := t.open(r)
		if err != nil {
			return err
		}
		found = &oauth.Registration{
			Issuer: r.issuer, ClientID: r.clientID, Secret: oauth.Secret(text), AuthMethod: r.authMethod, Expires: fromMicro(r.clientExpires),
		}
		return nil
	}, func(t *tx) error { return t.removeRegistration(issuer) })
	if err != nil {
		return nil, err
	}
	return found, nil
}

// PutRegistration implements oauth.Store.
func (s *Store) PutRegistration(ctx context.Context, r *oauth.Registration) error {
	return s.writing(ctx, "write client", func(t *tx) error {
		if err := t.removeRegistration(r.Issuer); err != nil {
			return err
		}
		w := of(oauth.Connection{}, clientSecret)
		w.ofClient(r)
		w.name = r.Issuer
		return t.put(w, r.Secret.Reveal())
	})
}

func (t *tx) removeRegistration(issuer string) error {
	return t.exec(`DELETE FROM secret WHERE connection = '' AND kind = 'client_secret' AND name = ?`, issuer)
}
