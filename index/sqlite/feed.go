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

// Compact implements index.Store. It also forgets what else has lost its
// meaning: counts of a day that is over, and outcomes older than before of
// documents that are known no more.
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
		_, err = t.sql.ExecContext(ctx, `DELETE FROM lead WHERE at <= ?`, at)
		return err
	})
	if err != nil {
		return 0, err
	}
	return dropped, s.forgetOutcomes(ctx, at)
}

// forgetOutcomes looks for outcomes without a document while others write, and
// takes the writer's place only for short deletions.
func (s *Store) forgetOutcomes(ctx context.Context, before int64) error {
	const step = 1000
	after := ""
	for {
		var urls []string
		rows, err := s.read.QueryContext(ctx, `SELECT DISTINCT o.url FROM outcome o
			WHERE o.url > ? AND o.at < ? AND NOT EXISTS (SELECT 1 FROM doc WHERE doc.url = o.url)
			ORDER BY o.url LIMIT ?`, after, before, step)
		if err == nil {
			err = eachRow(rows, func(rows *sql.Rows) error {
				var url string
				err := rows.Scan(&url)
				urls = append(urls, url)
				return err
			})
		}
		if err != nil {
			return fmt.Errorf("compact outcomes: %w", explain(err))
		}
		if len(urls) == 0 {
			return nil
		}
		after = urls[len(urls)-1]
		err = s.writing(ctx, "compact outcomes", func(t *tx) error {
			_, err := t.sql.ExecContext(ctx, `DELETE FROM outcome WHERE at < ?1
				AND url IN (SELECT value FROM json_each(?2))
				AND NOT EXISTS (SELECT 1 FROM doc WHERE doc.url = outcome.url)`, before, jsonList(urls))
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
