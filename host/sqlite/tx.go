package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/openbot-build/openbot-go/oauth"
)

// tx is one transaction.
type tx struct {
	*sql.Tx
	ctx   context.Context // of the call that the transaction lives in
	store *Store

	// removed asks for the log to be emptied after the commit: it would keep
	// what was deleted, sealed, until SQLite writes over it.
	removed bool
}

// writing runs fn in a transaction that keeps all other writers out from its
// beginning. It is committed when fn gives no error. what names the call in
// errors.
func (s *Store) writing(ctx context.Context, what string, fn func(*tx) error) error {
	removed := false
	err := s.transact(ctx, s.write, what, func(t *tx) error {
		err := fn(t)
		removed = t.removed
		return err
	})
	switch {
	case err == nil && removed:
		s.emptyLog(ctx, emptyWait)
	case err == nil && s.logged.Load():
		s.emptyLog(ctx, 0)
	}
	return err
}

// reading runs fn on one state of the database.
func (s *Store) reading(ctx context.Context, what string, fn func(*tx) error) error {
	return s.transact(ctx, s.read, what, fn)
}

func (s *Store) transact(ctx context.Context, db *sql.DB, what string, fn func(*tx) error) error {
	t, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", what, explain(err))
	}
	// After a full disk SQLite has rolled back by itself; a second time is no harm.
	defer func() { _ = t.Rollback() }()
	if err := fn(&tx{Tx: t, ctx: ctx, store: s}); err != nil {
		if errors.Is(err, sql.ErrTxDone) && ctx.Err() != nil {
			err = ctx.Err() // database/sql has rolled back meanwhile
		}
		return fmt.Errorf("%s: %w", what, explain(err))
	}
	if err := t.Commit(); err != nil {
		if errors.Is(err, sql.ErrTxDone) && ctx.Err() != nil {
			err = ctx.Err()
		}
		return fmt.Errorf("%s: commit: %w", what, explain(err))
	}
	return nil
}

func (t *tx) exec(query string, args ...any) error {
	_, err := t.ExecContext(t.ctx, query, args...)
	return err
}

func micro(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicro(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

// list keeps nil apart from an empty list.
func list(texts []string) string {
	b, err := json.Marshal(texts)
	if err != nil {
		panic(err) // strings always can be marshaled
	}
	return string(b)
}

func fromList(text string) (texts []string, err error) {
	err = json.Unmarshal([]byte(text), &texts)
	return texts, err
}

// looking is reading for what secrets are opened in. When another process
// rotates keys just then, the master key that was read may be older or newer than
// what the database says: with other writers kept out they agree.
func (s *Store) looking(ctx context.Context, what string, fn func(*tx) error) error {
	err := s.reading(ctx, what, fn)
	if errors.Is(err, ErrMasterKey) {
		return s.writing(ctx, what, fn)
	}
	return err
}

// guarded is looking where rows that do not open, or are bound to another
// target, are removed (D22).
func (s *Store) guarded(ctx context.Context, what string, read, remove func(*tx) error) error {
	err := s.looking(ctx, what, read)
	if !spoiled(err) {
		return err
	}
	var why error
	err = s.writing(ctx, what, func(t *tx) error { // look again: it may have been replaced meanwhile
		if why = read(t); !spoiled(why) {
			return why
		}
		t.removed = true
		return remove(t)
	})
	switch {
	case !spoiled(why):
		return err
	case err != nil:
		return fmt.Errorf("%s: %w (it could not be removed: %w)", what, why, err)
	}
	return fmt.Errorf("%s: %w", what, why)
}

func spoiled(err error) bool {
	_, damaged := errors.AsType[*DamagedError](err)
	return damaged || errors.Is(err, oauth.ErrReview) && !errors.Is(err, errOtherUser)
}
