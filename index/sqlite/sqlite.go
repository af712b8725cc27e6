// Package sqlite is the embedded index store: one file, no service to install.
// It implements the contract of package index on SQLite in write-ahead mode
// with one writing connection and a few reading ones.
//
// Durability: commits but those of leases are synced (PRAGMA synchronous = FULL). A killed process
// would lose nothing without that, but after a power cut the newest commits
// could be missing while followers of the change feed have already seen their
// numbers, and the next commits would give the same numbers to other changes.
// Visits are applied many at a time, so one sync is shared by all of them.
//
// Several processes may use one file at the same time, on one machine; it must
// not lie on a network file system. Beside the file lie SQLite's own -wal and
// -shm, and -owners, an empty file that those who lease hold a lock on: it may be
// removed while nobody uses the index.
//
// Sources: D35, D37, crawler.md section 7, index.md sections 2 and 3.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // registers the driver "sqlite"

	"github.com/openbot-build/openbot-go/index"
)

// applicationID stands in the header of our files; see migration 1.
const applicationID = 1329752440

//go:embed migrations/*.sql
var migrations embed.FS

// Options configure a Store.
type Options struct {
	// Limits bound what strangers can add; zero numbers are the defaults.
	Limits index.Limits
	// Readers is how many reads may run at once; 0: 4.
	Readers int
	// BusyTimeout is how long a write waits for another process's; 0: 10 s.
	// After it the error is index.ErrLocked.
	BusyTimeout time.Duration
	// Log gets what an operator should know but no caller can act on; nil logs
	// nothing.
	Log *slog.Logger
}

// Store is an index.Store in one file.
type Store struct {
	path   string
	limits index.Limits
	log    *slog.Logger
	write  *sql.DB // one connection; its transactions begin IMMEDIATE
	read   *sql.DB // query_only
	stmts  statements

	turnsMu sync.Mutex
	turns   index.Turns

	leased leased
	owners owners

	watch watchers
}

var _ index.Store = (*Store)(nil)

// Open opens the index in the file at path. It creates the file if there is
// none, for this user alone, but not its directory, and brings an older schema
// up to date.
//
// Errors wrap index.ErrCorrupt when the file is damaged or no database,
// index.ErrSchema when a newer version or another program made it,
// index.ErrLocked, index.ErrFull, fs.ErrNotExist or fs.ErrPermission; the text
// says what to do.
func Open(ctx context.Context, path string, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Readers <= 0 {
		o.Readers = 4
	}
	if o.BusyTimeout <= 0 {
		o.BusyTimeout = 10 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{path: path, limits: o.Limits.OrDefault(), log: o.Log, leased: leased{seed: maphash.MakeSeed()}}
	if err := s.open(ctx, &o); err != nil {
		_ = s.shut()
		return nil, fmt.Errorf("open index %s: %w", path, err)
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, o *Options) error {
	path, err := filepath.Abs(s.path)
	if err != nil {
		return err
	}
	if err := probe(path); err != nil {
		return err
	}
	s.owners.path = path + "-owners"
	if s.write, err = sql.Open("sqlite", dsn(path, o.BusyTimeout, "_txlock=immediate",
		"_pragma=synchronous(FULL)", "_pragma=foreign_keys(1)", "_pragma=cache_size(-16384)",
		"_pragma=wal_autocheckpoint(4000)", "_pragma=journal_size_limit(67108864)")); err != nil {
		return err
	}
	s.write.SetMaxOpenConns(1)
	if err := migrate(ctx, s.write, o.BusyTimeout); err != nil {
		return err
	}
	if s.read, err = sql.Open("sqlite", dsn(path, o.BusyTimeout,
		"_pragma=query_only(1)", "_pragma=cache_size(-4096)")); err != nil {
		return err
	}
	s.read.SetMaxOpenConns(o.Readers)
	s.read.SetMaxIdleConns(o.Readers)
	return s.stmts.prepare(ctx, s.write, s.read)
}

// probe creates the file if there is none, and gives the errors of the file
// system for one that cannot be written; SQLite would report most of them as
// "unable to open". A file that is there is not opened: closing it would end
// the locks that this process has on it through another Store.
func probe(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return errors.New("it is a directory; give the name of a file")
	}
	err := writable(path)
	if errors.Is(err, fs.ErrNotExist) {
		var f *os.File
		if f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			return f.Close()
		}
		if errors.Is(err, fs.ErrExist) { // made by another process just now
			err = writable(path)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the directory does not exist, create it first: %w", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the file or its directory may not be written by this user: %w", err)
	}
	return err
}

func dsn(path string, busy time.Duration, more ...string) string {
	if runtime.GOOS == "windows" {
		path = "/" + filepath.ToSlash(path)
	}
	u := url.URL{Scheme: "file", Path: path}
	text := u.String() + "?_pragma=busy_timeout(" + strconv.FormatInt(busy.Milliseconds(), 10) + ")" +
		"&_pragma=temp_store(MEMORY)"
	for _, m := range more {
		text += "&" + m
	}
	return text
}

// migrate makes the file ours and its schema the newest. Another process may
// be doing the same; whoever comes second finds it done and tries again.
func migrate(ctx context.Context, db *sql.DB, busy time.Duration) error {
	give := time.Now().Add(busy)
	for {
		err := migrateOnce(ctx, db)
		if err == nil || errors.Is(err, index.ErrSchema) || errors.Is(err, index.ErrCorrupt) ||
			errors.Is(err, index.ErrFull) || ctx.Err() != nil || time.Now().After(give) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func migrateOnce(ctx context.Context, db *sql.DB) error {
	var app, tables int64
	var mode string
	err := db.QueryRowContext(ctx, `SELECT (SELECT application_id FROM pragma_application_id),
		(SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE 'goose%' AND name NOT LIKE 'sqlite%')`).Scan(&app, &tables)
	if err != nil {
		return explain(err)
	}
	if app != applicationID && (app != 0 || tables > 0) {
		return fmt.Errorf("it is the database of another program; give another file name: %w", index.ErrSchema)
	}
	if err := db.QueryRowContext(ctx, `PRAGMA journal_mode = WAL`).Scan(&mode); err != nil {
		return explain(err)
	}
	if mode != "wal" {
		return fmt.Errorf("SQLite cannot use write-ahead mode there (%s); move the file to a local disk", mode)
	}
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, dir, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	if app == applicationID {
		have, want, err := p.GetVersions(ctx)
		if err != nil {
			return explain(err)
		}
		if have > want {
			return fmt.Errorf("its schema has version %d and this program knows versions up to %d; use a newer program: %w",
				have, want, index.ErrSchema)
		}
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("bring the schema up to date: %w", explain(err))
	}
	return nil
}

// Close ends the store. It writes the log of the last commits into the file,
// so that the file alone is the whole index if no other process uses it.
// Calls that are under way fail.
func (s *Store) Close() error {
	s.watch.close()
	// A reader elsewhere may be in the way; then the log stays and is read at
	// the next opening, so nothing is lost.
	var busy, logged, moved int64
	err := s.write.QueryRowContext(context.Background(), `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &logged, &moved)
	if err != nil || busy != 0 {
		s.log.Info("index closed without a checkpoint", "path", s.path, "error", err)
	}
	if err := s.shut(); err != nil {
		return fmt.Errorf("close index %s: %w", s.path, explain(err))
	}
	return nil
}

func (s *Store) shut() error {
	var errs []error
	for _, db := range []*sql.DB{s.read, s.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(append(errs, s.owners.close())...)
}
