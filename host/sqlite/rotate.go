package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// resealBatch is how many rows are sealed anew in one transaction, so that
// others can write in between.
const (
	resealBatch    = 100
	resealPause    = 20 * time.Millisecond
	maxResealPause = 120 * time.Millisecond
)

// Rotate replaces the data key, and the master key where the store itself keeps it
// (Keyring, KeyFile). All data keys are wrapped by the new master key first; then every
// row is sealed anew, some at a time, while the store is in use. It returns when
// that is done: run it beside other work when there are many rows.
//
// A Rotate that was cut short, at any point, loses nothing: the next Open or
// Rotate finishes it. With Environment and KeyFunc, give the new key first and the
// old one after it, call Rotate, and then take the old one away: there the new
// master key is the operator's to supply, and without one only the data key is
// replaced.
//
// A copy of the file from before needs the old master key.
func (s *Store) Rotate(ctx context.Context) error {
	var master key
	err := s.writing(ctx, "rotate keys", func(t *tx) (err error) {
		master, err = t.rewrap()
		return err
	})
	if err != nil {
		return err
	}
	s.at("rewrapped")
	if err := s.promote(ctx, master); err != nil {
		return err
	}
	s.at("promoted")
	return s.reseal(ctx)
}

// pause lets writers of other processes in: SQLite's lock knows no queue, and
// goes to whoever asks at the right moment. A writer that waits asks each 100 ms
// at the latest, so after long work the lock is left alone for longer than that.
func pause(ctx context.Context, after time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(min(max(after, resealPause), maxResealPause)):
		return nil
	}
}

func (s *Store) at(step string) {
	if s.step != nil {
		s.step(step)
	}
}

// rewrap seals all data keys, and a new current one, with the next master key.
// That one is in a safe place before any of it is committed, and the old one is
// still there afterwards.
func (t *tx) rewrap() (next key, err error) {
	s := t.store
	all, err := t.wrapped()
	if err != nil {
		return key{}, err
	}
	master, byID, err := s.unwrap(t.ctx, all)
	if err != nil {
		return key{}, err
	}
	// An earlier rotation may have died before it did this. The write lock
	// keeps other rotations out.
	if err := s.master.promote(t.ctx, s.id, master); err != nil {
		return key{}, masterKeyError(s.master, err)
	}
	if next, err = s.master.next(t.ctx, s.id, master); err != nil {
		return key{}, masterKeyError(s.master, err)
	}
	s.at("next key made")
	for _, w := range all {
		sealed, err := next.wrap(s.id, w.id, byID[w.id])
		if err != nil {
			return key{}, err
		}
		if err := t.exec(`UPDATE data_key SET master = ?, source = ?, wrapped = ? WHERE id = ?`,
			next.fingerprint(), s.master.String(), sealed, w.id); err != nil {
			return key{}, err
		}
	}
	if err := t.addKey(next); err != nil {
		return key{}, err
	}
	s.at("rewrap not committed")
	return next, nil
}

// promote makes the master key that the database is sealed with the only one in
// its source.
func (s *Store) promote(ctx context.Context, master key) error {
	return s.writing(ctx, "put the new master key in its place", func(t *tx) error {
		var sealed bool // by that one still
		err := t.QueryRowContext(t.ctx, `SELECT EXISTS (SELECT 1 FROM data_key WHERE master = ?)`, master.fingerprint()).Scan(&sealed)
		if err != nil || !sealed {
			return err
		}
		if err := s.master.promote(t.ctx, s.id, master); err != nil {
			return masterKeyError(s.master, err)
		}
		return nil
	})
}

// reseal seals every row with the current data key that is sealed with another
// one, and then drops the others.
func (s *Store) reseal(ctx context.Context) error {
	var took time.Duration // by the last batch
	for last, done := int64(0), false; !done; {
		if err := pause(ctx, took); err != nil {
			return fmt.Errorf("seal rows with the new key: %w", err)
		}
		began := time.Now()
		err := s.writing(ctx, "seal rows with the new key", func(t *tx) error {
			id, data, err := t.current()
			if err != nil {
				return err
			}
			rows, err := t.rows(`SELECT `+rowColumns+` FROM secret WHERE id > ? AND key_id <> ? ORDER BY id LIMIT ?`, last, id, resealBatch)
			if err != nil {
				return err
			}
			for _, r := range rows {
				last = r.id
				if err := t.resealRow(r, id, data); err != nil {
					return err
				}
			}
			if done = len(rows) < resealBatch; done {
				s.keys.forgetOthers(id)
				t.removed = true // what was sealed with the old key leaves the log
				return t.exec(`DELETE FROM data_key WHERE current = 0 AND NOT EXISTS (SELECT 1 FROM secret WHERE key_id = data_key.id)`)
			}
			return nil
		})
		if err != nil {
			return err
		}
		took = time.Since(began)
		s.at("batch sealed")
	}
	return nil
}

func (t *tx) resealRow(r *row, id string, data key) error {
	text, err := t.open(r)
	if damaged, ok := errors.AsType[*DamagedError](err); ok {
		t.store.log.Warn("removed a secret that does not open", "connection", damaged.Connection, "kind", damaged.Kind)
		return t.exec(`DELETE FROM secret WHERE id = ?`, r.id)
	}
	if err != nil {
		return err
	}
	if err := r.seal(id, data, text); err != nil {
		return err
	}
	return t.exec(`UPDATE secret SET key_id = ?, salt = ?, nonce = ?, ciphertext = ? WHERE id = ?`, r.keyID, r.salt, r.nonce, r.ciphertext, r.id)
}
