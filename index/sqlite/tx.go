package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/openbot-build/openbot-go/index"
)

// tx is one writing transaction.
type tx struct {
	// Of the call that the transaction lives in, without its end: with an end,
	// the driver starts a goroutine for each statement. alive tells the end.
	ctx   context.Context
	alive func() error
	sql   *sql.Tx
	store *Store
	stmts map[*sql.Stmt]*sql.Stmt
	told  []string // URLs that got an outcome
	left  *allowance
	added map[string]bool // URLs of documents that add has added
}

// writing runs fn in one transaction, which is committed when fn gives no
// error. what names the call in errors.
func (s *Store) writing(ctx context.Context, what string, fn func(*tx) error) error {
	return s.transact(ctx, what, "FULL", fn)
}

// transact is writing with a choice of what the commit waits for. With
// "NORMAL" it is not synced: a power cut may lose it, together with nothing that
// was committed before it and everything after it until the next one that is
// synced.
func (s *Store) transact(ctx context.Context, what, synchronous string, fn func(*tx) error) error {
	conn, err := s.write.Conn(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", what, explain(err))
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "PRAGMA synchronous = "+synchronous); err != nil {
		return fmt.Errorf("%s: %w", what, explain(err))
	}
	t, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", what, explain(err))
	}
	// After a full disk SQLite has rolled back by itself; a second time is no harm.
	defer func() { _ = t.Rollback() }()
	if err := fn(&tx{ctx: context.WithoutCancel(ctx), alive: ctx.Err, sql: t, store: s, stmts: make(map[*sql.Stmt]*sql.Stmt)}); err != nil {
		if errors.Is(err, sql.ErrTxDone) && ctx.Err() != nil {
			err = ctx.Err() // database/sql has rolled back meanwhile
		}
		return fmt.Errorf("%s: %w", what, explain(err))
	}
	if err := t.Commit(); err != nil {
		return fmt.Errorf("%s: commit: %w", what, explain(err))
	}
	return nil
}

// on gives a prepared statement inside the transaction.
func (t *tx) on(s *sql.Stmt) *sql.Stmt {
	in, ok := t.stmts[s]
	if !ok {
		in = t.sql.StmtContext(t.ctx, s)
		t.stmts[s] = in
	}
	return in
}

func (t *tx) exec(s *sql.Stmt, args ...any) (rows int64, err error) {
	r, err := t.on(s).ExecContext(t.ctx, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// each runs a query and gives every row to scan.
func (t *tx) each(s *sql.Stmt, scan func(*sql.Rows) error, args ...any) error {
	rows, err := t.on(s).QueryContext(t.ctx, args...)
	if err != nil {
		return err
	}
	return eachRow(rows, scan)
}

func eachRow(rows *sql.Rows, scan func(*sql.Rows) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// settle brings next_at and class of hosts up to date with their documents.
func (t *tx) settle(hosts map[string]bool, now int64) error {
	if len(hosts) == 0 {
		return nil
	}
	names := make([]string, 0, len(hosts))
	for name := range hosts {
		names = append(names, name)
	}
	_, err := t.exec(t.store.stmts.settle, jsonList(names), now)
	return err
}

// outcomes writes outcomes; trim is due before the commit.
func (t *tx) outcomes(list []index.Outcome) error {
	for i := range list {
		o := &list[i]
		steps, err := encodeSteps(o.Steps)
		if err != nil {
			return fmt.Errorf("write steps of %s: %w: %w", o.URL, errEncode, err)
		}
		_, err = t.exec(t.store.stmts.addOutcome, o.URL, micro(o.At), string(o.Code), micro(o.NextAt), o.Sentence, steps, o.URL)
		if err != nil {
			return err
		}
		t.told = append(t.told, o.URL)
	}
	return nil
}

// trim keeps the newest outcomes of each document that got one.
func (t *tx) trim() error {
	if len(t.told) == 0 {
		return nil
	}
	_, err := t.exec(t.store.stmts.trimOutcomes, jsonList(t.told), index.KeepOutcomes)
	return err
}
