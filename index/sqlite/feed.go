package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

func scanHead(row scanner, h *index.Head, dropped *int64) error {
	return row.Scan(&h.Epoch, &h.Seq, moment{&h.UpdatedAt}, dropped)
}

// Head implements index.Store.
func (s *Store) Head(ctx context.Context) (index.Head, error) {
	var h index.Head
	var dropped int64
	if err := scanHead(s.stmts.head.QueryRowContext(ctx), &h, &dropped); err != nil {
		return index.Head{}, fmt.Errorf("read head: %w", explain(err))
	}
	return h, nil
}

// reading runs fn in one read transaction: all it reads is of one moment.
func (s *Store) reading(ctx context.Context, what string, fn func(t *sql.Tx, h index.Head, dropped int64) error) error {
	t, err := s.read.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", what, explain(err))
	}
	defer func() { _ = t.Rollback() }()
	var h index.Head
	var dropped int64
	if err := scanHead(t.StmtContext(ctx, s.stmts.head).QueryRowContext(ctx), &h, &dropped); err != nil {
		return fmt.Errorf("%s: %w", what, explain(err))
	}
	if err := fn(t, h, dropped); err != nil {
		return fmt.Errorf("%s: %w", what, explain(err))
	}
	return nil
}

// Changes implements index.Store.
func (s *Store) Changes(ctx context.Context, after int64, n int) ([]index.Change, error) {
	var changes []index.Change
	err := s.reading(ctx, "read changes", func(t *sql.Tx, _ index.Head, dropped int64) error {
		if after != 0 && after < dropped {
			return index.ErrCompact
		}
		rows, err := t.StmtContext(ctx, s.stmts.changes).QueryContext(ctx, after, n)
		if err != nil {
			return err
		}
		return eachRow(rows, func(rows *sql.Rows) error {
			e := new(index.Entry)
			err := scanEntry(rows, e, &e.Document)
			changes = append(changes, e.Change())
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return changes, nil
}

// Snapshot implements index.Store. While it runs, the write-ahead log cannot
// be emptied, so fn should not dawdle. fn occupies one of Options.Readers; what
// it reads from the store itself is of the present, not of the snapshot.
func (s *Store) Snapshot(ctx context.Context, fn func(*index.Entry) error) (index.Head, error) {
	var head index.Head
	err := s.reading(ctx, "snapshot", func(t *sql.Tx, h index.Head, _ int64) error {
		head = h
		rows, err := t.StmtContext(ctx, s.stmts.snapshot).QueryContext(ctx)
		if err != nil {
			return err
		}
		return eachRow(rows, func(rows *sql.Rows) error {
			e := new(index.Entry)
			if err := scanEntry(rows, e, &e.Document); err != nil {
				return err
			}
			return fn(e)
		})
	})
	if err != nil {
		return index.Head{}, err
	}
	return head, nil
}

// Compact implements index.Store. It also forgets the counts of days that are
// over.
func (s *Store) Compact(ctx context.Context, before time.Time) (dropped int64, err error) {
	at := micro(before)
	err = s.writing(ctx, "compact", func(t *tx) error {
		_, err := t.sql.ExecContext(ctx, `UPDATE feed SET dropped = max(dropped, coalesce(
			(SELECT max(seq) FROM entry WHERE state = 'removed' AND updated_at < ?), 0)) WHERE id = 1`, at)
		if err != nil {
			return err
		}
		r, err := t.sql.ExecContext(ctx, `DELETE FROM entry WHERE state = 'removed' AND updated_at < ?`, at)
		if err != nil {
			return err
		}
		if dropped, err = r.RowsAffected(); err != nil {
			return err
		}
		if _, err := t.sql.ExecContext(ctx, `DELETE FROM lead WHERE at <= ?`, at); err != nil {
			return err
		}
		_, err = t.sql.ExecContext(ctx, `DELETE FROM added WHERE hour <= ?`, hour(before))
		return err
	})
	if err != nil {
		return 0, err
	}
	err = s.forget(ctx, at, `SELECT DISTINCT o.url FROM outcome o
			WHERE o.url > ?1 AND o.at < ?2 AND NOT EXISTS (SELECT 1 FROM doc WHERE doc.url = o.url)
			ORDER BY o.url LIMIT ?3`,
		`DELETE FROM outcome WHERE url IN (SELECT value FROM json_each(?1)) AND at < ?2
			AND NOT EXISTS (SELECT 1 FROM doc WHERE doc.url = outcome.url)`)
	if err != nil {
		return dropped, err
	}
	// A host that was visited, pinged, or asked to be left alone since stays: its
	// lease number is what fences late visits.
	const idle = `max(first_seen, lease_until, robots_tried_at, pinged_at, not_before) < ?2
			AND NOT EXISTS (SELECT 1 FROM doc WHERE doc.host = host.id)`
	return dropped, s.forget(ctx, at, `SELECT name FROM host WHERE name > ?1 AND `+idle+` ORDER BY name LIMIT ?3`,
		`DELETE FROM host WHERE name IN (SELECT value FROM json_each(?1)) AND `+idle)
}

// forget looks for rows while others write, and takes the writer's place only
// for short deletions. find gives keys after ?1 that are older than ?2, at most
// ?3, in order; drop deletes the rows of those in ?1 that are still older than ?2.
func (s *Store) forget(ctx context.Context, before int64, find, drop string) error {
	const step = 1000
	after := ""
	for {
		var keys []string
		rows, err := s.read.QueryContext(ctx, find, after, before, step)
		if err == nil {
			err = eachRow(rows, func(rows *sql.Rows) error {
				var key string
				err := rows.Scan(&key)
				keys = append(keys, key)
				return err
			})
		}
		if err != nil {
			return fmt.Errorf("compact: %w", explain(err))
		}
		if len(keys) == 0 {
			return nil
		}
		after = keys[len(keys)-1]
		err = s.writing(ctx, "compact", func(t *tx) error {
			_, err := t.sql.ExecContext(ctx, drop, jsonList(keys), before)
			return err
		})
		if err != nil {
			return err
		}
	}
}

// NewEpoch gives the feed a new epoch, so that its followers start from a
// snapshot. It must be called after a backup was restored: followers may have
// seen changes that the backup lacks, and their numbers will be used again
// (IX-16).
func (s *Store) NewEpoch(ctx context.Context) (epoch string, err error) {
	err = s.writing(ctx, "new epoch", func(t *tx) error {
		return t.sql.QueryRowContext(ctx,
			`UPDATE feed SET epoch = lower(hex(randomblob(8))) WHERE id = 1 RETURNING epoch`).Scan(&epoch)
	})
	if err != nil {
		return "", err
	}
	s.watch.notify()
	return epoch, nil
}

// Secret gives 32 random octets that were made with the database and are the
// same for all who open it. They sign cursors (IX-43), so that any API node
// can read the cursor of another.
func (s *Store) Secret(ctx context.Context) ([]byte, error) {
	var secret []byte
	if err := s.read.QueryRowContext(ctx, `SELECT secret FROM feed WHERE id = 1`).Scan(&secret); err != nil {
		return nil, fmt.Errorf("read secret: %w", explain(err))
	}
	return secret, nil
}
