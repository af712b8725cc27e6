package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"
)

// applicationID stands in the header of our files; see migration 1.
const applicationID = 1329752175

//go:embed migrations/*.sql
var migrations embed.FS

// migrate makes the file ours and its schema the newest. Another process may
// be doing the same; whoever comes second finds it done and tries again.
func migrate(ctx context.Context, db *sql.DB, from fs.FS, busy time.Duration) error {
	give := time.Now().Add(busy)
	for {
		err := migrateOnce(ctx, db, from)
		if err == nil || errors.Is(err, ErrSchema) || errors.Is(err, ErrCorrupt) ||
			errors.Is(err, ErrFull) || ctx.Err() != nil || time.Now().After(give) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func migrateOnce(ctx context.Context, db *sql.DB, from fs.FS) error {
	if err := ours(ctx, db); err != nil {
		return err
	}
	var mode string
	if err := db.QueryRowContext(ctx, `PRAGMA journal_mode = WAL`).Scan(&mode); err != nil {
		return explain(err)
	}
	if mode != "wal" {
		return fmt.Errorf("SQLite cannot use write-ahead mode there (%s); move the file to a local disk", mode)
	}
	dir, err := fs.Sub(from, "migrations")
	if err != nil {
		return err
	}
	// goose looks at the version before it begins to write, so that two
	// processes would run one migration twice. Therefore it gets a connection on
	// which the write lock is held already (db has only one), and begins no
	// transaction of its own: that is what isolating DDL comes to.
	p, err := goose.NewProvider(goose.DialectSQLite3, db, dir, goose.WithDisableGlobalRegistry(true), goose.WithIsolateDDL(true))
	if err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, `BEGIN IMMEDIATE`); err != nil {
		return explain(err)
	}
	end := `ROLLBACK`
	if err = upgrade(ctx, db, p); err == nil {
		end = `COMMIT`
	}
	if _, errEnd := db.ExecContext(context.WithoutCancel(ctx), end); err == nil {
		err = explain(errEnd)
	}
	return err
}

func upgrade(ctx context.Context, db *sql.DB, p *goose.Provider) error {
	if err := ours(ctx, db); err != nil {
		return err
	}
	have, want, err := p.GetVersions(ctx)
	if err != nil {
		return explain(err)
	}
	if have > want {
		return fmt.Errorf("%w: its schema has version %d and this program knows versions up to %d; use a newer program",
			ErrSchema, have, want)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("bring the schema up to date: %w", explain(err))
	}
	return nil
}

// ours is nil for a database of ours, or an empty one.
func ours(ctx context.Context, db *sql.DB) error {
	var app, tables int64
	err := db.QueryRowContext(ctx, `SELECT (SELECT application_id FROM pragma_application_id),
		(SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE 'goose%' AND name NOT LIKE 'sqlite%')`).Scan(&app, &tables)
	if err != nil {
		return explain(err)
	}
	if app != applicationID && (app != 0 || tables > 0) {
		return fmt.Errorf("%w: it is the database of another program; give another file name", ErrSchema)
	}
	return nil
}
