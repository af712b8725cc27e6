package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/openbot-build/openbot-go/oauth"
)

// States of a connection.
const (
	live   = 0
	dead   = 1 // its tokens wait to be revoked and erased
	erased = 2 // the id alone is left
)

type connection struct {
	oauth.Connection
	state   int
	version int64 // the last that its tokens had
}

// find gives what is known of a connection; nil for nothing.
func (t *tx) find(id string) (*connection, error) {
	c := connection{Connection: oauth.Connection{ID: id}}
	err := t.QueryRowContext(t.ctx, `SELECT state, user, card_url, endpoint, version FROM connection WHERE id = ?`, id).
		Scan(&c.state, &c.User, &c.CardURL, &c.Endpoint, &c.version)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &c, err
}

// errOtherUser is a question about another user's connection, which is no reason to
// remove anything of it.
var errOtherUser = fmt.Errorf("it is another user's: %w", oauth.ErrReview)

// live gives a connection that is there and still what c says.
func (t *tx) live(c oauth.Connection) (*connection, error) {
	switch have, err := t.find(c.ID); {
	case err != nil:
		return nil, err
	case have == nil || have.state != live:
		return nil, oauth.ErrGone
	case have.User != c.User:
		return nil, errOtherUser
	case have.Connection != c:
		return nil, oauth.ErrReview
	default:
		return have, nil
	}
}

// Add implements oauth.Store.
func (s *Store) Add(ctx context.Context, c oauth.Connection) error {
	if c.ID == "" {
		return errors.New("add connection: it has no id")
	}
	return s.writing(ctx, "add connection", func(t *tx) error {
		have, err := t.find(c.ID)
		switch {
		case err != nil:
			return err
		case have == nil:
			return t.addConnection(c, live)
		case have.state != live:
			return oauth.ErrGone
		}
		return nil
	})
}

func (t *tx) addConnection(c oauth.Connection, state int) error {
	var died int64
	if state == dead {
		died = micro(time.Now())
	}
	return t.exec(`INSERT INTO connection (id, state, user, card_url, endpoint, died) VALUES (?, ?, ?, ?, ?, ?)`,
		c.ID, state, c.User, c.CardURL, c.Endpoint, died)
}

// Kill implements oauth.Store. A connection that was never added is dead from
// then on. Killing again gives the tokens again, until Erase. Only the user of a
// connection can end it; a card or endpoint that changed meanwhile is no obstacle.
func (s *Store) Kill(ctx context.Context, c oauth.Connection) (left *oauth.Tokens, err error) {
	if c.ID == "" {
		return nil, errors.New("kill connection: it has no id")
	}
	var why error // whatever it is, the connection is dead
	err = s.writing(ctx, "kill connection", func(t *tx) error {
		have, err := t.find(c.ID)
		switch {
		case err != nil:
			return err
		case have == nil:
			return t.addConnection(c, dead)
		case have.state == erased:
			return nil
		case have.User != c.User:
			return oauth.ErrReview
		}
		if err := t.exec(`UPDATE connection SET state = 1, died = ? WHERE id = ?`, micro(time.Now()), c.ID); err != nil {
			return err
		}
		if err := t.exec(`DELETE FROM secret WHERE connection = ?1 AND name IN (SELECT name FROM secret WHERE connection = ?1 AND kind = 'verifier')
			AND kind IN ('verifier', 'client_secret')`, c.ID); err != nil {
			return err
		}
		left, why = t.tokens(have)
		switch {
		case spoiled(why):
			s.log.Warn("tokens that do not open are dropped without being revoked", "connection", c.ID)
			why = nil
			return t.removeTokens(c.ID)
		case errors.Is(why, oauth.ErrNotFound):
			why = nil
		}
		return nil
	})
	if err == nil && why != nil {
		err = fmt.Errorf("kill connection: it is dead, but its tokens cannot be read to be revoked: %w", why)
	}
	if err != nil {
		return nil, err
	}
	return left, nil
}

// Erase implements oauth.Store: tokens, settings and sign-ins of a connection
// that was killed are gone. Only the id stays, so that it never comes back. On a
// connection that was not killed it does nothing.
//
// The file has nothing of them any more when Erase returns. While somebody else
// reads the database its log still has them, sealed: it is emptied with one of the
// next writes, or when the store is closed or opened.
func (s *Store) Erase(ctx context.Context, c oauth.Connection) error {
	return s.writing(ctx, "erase connection", func(t *tx) error {
		have, err := t.find(c.ID)
		if err != nil || have == nil || have.state == live {
			return err
		}
		if have.state == dead && have.User != c.User {
			return oauth.ErrReview
		}
		return t.erase(c.ID)
	})
}

func (t *tx) erase(id string) error {
	t.removed = true
	for _, query := range []string{
		`DELETE FROM secret WHERE connection = ?`,
		`DELETE FROM lease WHERE connection = ?`,
		`UPDATE connection SET state = 2, user = '', card_url = '', endpoint = '', version = 0, died = 0 WHERE id = ?`,
	} {
		if err := t.exec(query, id); err != nil {
			return err
		}
	}
	return nil
}

// burial is how long a dead connection keeps its tokens: revoking takes seconds,
// so that a host which has not erased them by then has died.
const burial = 10 * time.Minute

// bury erases what was killed, but never erased.
func (t *tx) bury() error {
	rows, err := t.QueryContext(t.ctx, `SELECT id FROM connection WHERE state = 1 AND died <= ?`, micro(time.Now().Add(-burial)))
	if err != nil {
		return err
	}
	defer rows.Close()
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return err
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, id := range ids {
		t.store.log.Warn("erased a connection whose deletion was cut short; its tokens may not be revoked", "connection", id)
		if err := t.erase(id); err != nil {
			return err
		}
	}
	return nil
}

// clockSlack is by how much a clock may be set back without ending a lease.
const clockSlack = time.Second

// Lease implements oauth.Store. Who holds it already gets it for longer. When the
// clock is set back a lease that began later than now is over: else it would last
// until the clock is there again.
func (s *Store) Lease(ctx context.Context, c oauth.Connection, holder string, d time.Duration) (ok bool, err error) {
	if holder == "" {
		return false, errors.New("lease connection: the holder has no name")
	}
	err = s.writing(ctx, "lease connection", func(t *tx) error {
		if _, err := t.live(c); err != nil {
			return err
		}
		now := time.Now()
		r, err := t.ExecContext(t.ctx, `INSERT INTO lease (connection, holder, since, until) VALUES (?, ?, ?, ?)
			ON CONFLICT (connection) DO UPDATE SET holder = excluded.holder, since = excluded.since, until = excluded.until
			WHERE lease.holder = excluded.holder OR lease.until <= excluded.since OR lease.since > ?`,
			c.ID, holder, micro(now), micro(now.Add(d)), micro(now.Add(clockSlack)))
		if err != nil {
			return err
		}
		n, err := r.RowsAffected()
		ok = n == 1
		return err
	})
	return ok && err == nil, err
}

// Release implements oauth.Store. What another one holds stays.
func (s *Store) Release(ctx context.Context, c oauth.Connection, holder string) error {
	return s.writing(ctx, "release connection", func(t *tx) error {
		return t.exec(`DELETE FROM lease WHERE connection = ? AND holder = ?`, c.ID, holder)
	})
}

// of gives a row what every secret of a connection is bound to.
func of(c oauth.Connection, kind Kind) *row {
	return &row{
		connection: c.ID, user: c.User, kind: string(kind), cardURL: c.CardURL, endpoint: c.Endpoint,
		scopes: "null", requested: "null",
	}
}

// belongs is ErrReview for a row of another user, card or endpoint.
func (r *row) belongs(c oauth.Connection) error {
	if r.connection != c.ID || r.user != c.User || r.cardURL != c.CardURL || r.endpoint != c.Endpoint {
		return fmt.Errorf("a stored %s belongs elsewhere: %w", r.kind, oauth.ErrReview)
	}
	return nil
}
