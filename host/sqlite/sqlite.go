// Package sqlite keeps what a host must not lose in one SQLite file: the
// connections of its users, their tokens, sign-ins that are under way, clients
// registered at authorization servers, and secret settings. It implements
// oauth.Store.
//
// Every secret is sealed with AES-256-GCM under a key of its own, which is
// derived from a data key, which is wrapped by a master key that lies outside the
// file (see MasterKey). What a secret belongs to is sealed with it: a row that
// was moved, copied or edited does not open, and counts as signed out. So a
// stolen file gives no secret away, and one that was tampered with sends no
// token to another place.
//
// None of this is any help against somebody who can read the memory or the master
// key of the host. Nor is all of it noticed that somebody can do who writes to the
// file. Tokens open only as a whole set, and as the set that their connection's row
// names; but that row, with state and version, is not sealed itself. So a whole
// file of an earlier day opens, and so do a connection's row and all its tokens of
// an earlier day, put back together; a connection that was killed but not erased
// can be made live again. A setting, a registered client or a sign-in can be
// removed, and an earlier value of it put back. What is erased can only come back
// from a copy.
//
// What is deleted is overwritten in the file, and its log is emptied; see Erase.
// What is replaced, as tokens are by newer ones, stays in the log, sealed, until
// that is emptied the next time. Of disks that keep what was overwritten, and of
// copies, this says nothing.
//
// Several processes may use one file at the same time, on one machine; it must
// not lie on a network file system. Beside it lie SQLite's own -wal and -shm.
//
// Sources: oauth.md section 11, D22.
package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // registers the driver "sqlite"

	"github.com/openbot-build/openbot-go/oauth"
)

// Options configure a Store.
type Options struct {
	// MasterKey seals the data keys; nil: DefaultMasterKey of the database's
	// path with ".key" appended. Better is a place that is not copied together
	// with the database.
	MasterKey *MasterKey
	// Readers is how many reads may run at once; 0: 4.
	Readers int
	// BusyTimeout is how long a write waits for another process's; 0: 10 s.
	// After it the error is ErrLocked.
	BusyTimeout time.Duration
	// Log gets what an operator should know but no caller can act on; nil logs
	// nothing.
	Log *slog.Logger

	migrations fs.FS // of tests; nil: ours
}

// Store is an oauth.Store in one file. It is safe for concurrent use.
type Store struct {
	path   string
	id     string
	master source
	log    *slog.Logger
	write  *sql.DB // one connection; its transactions begin IMMEDIATE
	read   *sql.DB // query_only
	keys   keys
	busy   time.Duration
	logged atomic.Bool // the log may hold what was deleted

	// step is told where Rotate is; tests stop it there. nil is nobody.
	step func(string)

	stop context.CancelFunc // of what runs beside the calls
	done sync.WaitGroup
}

var _ oauth.Store = (*Store)(nil)

// String names the file. A Store prints as that, in every way: nothing that it
// holds is for a log.
func (s *Store) String() string { return "host store " + s.path }

// Format implements fmt.Formatter for every verb; it gives String.
func (s *Store) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue implements slog.LogValuer; it gives String.
func (s *Store) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText implements encoding.TextMarshaler; it gives String.
func (s *Store) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Open opens the store in the file at path. It creates the file if there is
// none, for this user alone, but not its directory, and brings an older schema
// up to date. A rotation that was cut short is finished beside the calls.
//
// Errors wrap ErrMasterKey when the file is sealed with another master key, or
// there is none to be had; ErrPermission when the file may not be written by this
// user, or may be read or replaced by others; ErrCorrupt, ErrSchema, ErrLocked, ErrFull or
// fs.ErrNotExist. The text says what to do. Nothing that is there is ever
// overwritten by Open.
func Open(ctx context.Context, path string, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.MasterKey == nil {
		o.MasterKey = DefaultMasterKey(path + ".key")
	}
	if o.Readers <= 0 {
		o.Readers = 4
	}
	if o.BusyTimeout <= 0 {
		o.BusyTimeout = 10 * time.Second
	}
	if o.migrations == nil {
		o.migrations = migrations
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	background, stop := context.WithCancel(context.Background())
	s := &Store{path: path, master: o.MasterKey.source, log: o.Log, busy: o.BusyTimeout, stop: stop}
	unfinished, err := s.open(ctx, &o)
	if err != nil {
		stop()
		_ = s.shut()
		return nil, fmt.Errorf("open host store %s: %w", path, err)
	}
	if unfinished {
		s.done.Go(func() {
			if err := s.reseal(background); err != nil && background.Err() == nil {
				s.log.Warn("a rotation of keys is not finished; it goes on with the next opening", "path", path, "error", err)
			}
		})
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, o *Options) (unfinished bool, err error) {
	path, err := filepath.Abs(s.path)
	if err != nil {
		return false, err
	}
	if err := probe(path); err != nil {
		return false, err
	}
	if s.write, err = sql.Open("sqlite", dsn(path, o.BusyTimeout, "_txlock=immediate",
		"_pragma=synchronous(FULL)", "_pragma=foreign_keys(1)", "_pragma=secure_delete(1)",
		"_pragma=journal_size_limit(1048576)")); err != nil {
		return false, err
	}
	s.write.SetMaxOpenConns(1)
	if err := migrate(ctx, s.write, o.migrations, o.BusyTimeout); err != nil {
		return false, err
	}
	if s.read, err = sql.Open("sqlite", dsn(path, o.BusyTimeout, "_pragma=query_only(1)")); err != nil {
		return false, err
	}
	s.read.SetMaxOpenConns(o.Readers)
	s.read.SetMaxIdleConns(o.Readers)
	if err := s.read.QueryRowContext(ctx, `SELECT id FROM store`).Scan(&s.id); err != nil {
		return false, explain(err)
	}
	if err := s.unlock(ctx); err != nil {
		return false, err
	}
	s.logged.Store(true) // by a process that ended before it was empty
	err = s.writing(ctx, "drop what expired", func(t *tx) error {
		if err := t.sweep(); err != nil {
			return err
		}
		return t.QueryRowContext(t.ctx, `SELECT count(*) > 1 FROM data_key`).Scan(&unfinished)
	})
	return unfinished, err
}

// probe creates the file if there is none, and gives the errors of the file
// system for one that cannot be used; SQLite would report most of them as
// "unable to open". A file that is there is not opened: closing it would end
// the locks that this process has on it through another Store.
func probe(path string) error {
	if err := forOwnersOnly(filepath.Dir(path)); err != nil {
		return fmt.Errorf("%w: %w", ErrPermission, err)
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		var f *os.File
		if f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			return f.Close()
		}
		if errors.Is(err, fs.ErrExist) { // made by another process just now
			info, err = os.Lstat(path)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("its directory does not exist, create it first: %w", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: the directory may not be used by this user (%w)", ErrPermission, err)
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return errors.New("it is a symbolic link; give the name of the file itself")
	case !info.Mode().IsRegular():
		return errors.New("it is not a regular file; give the name of a file")
	}
	if err := forOwnerOnly(path, info); err != nil {
		return fmt.Errorf("%w: %w", ErrPermission, err)
	}
	if err := writable(path); err != nil {
		return fmt.Errorf("%w: this user must be able to write the file and its directory (%w)", ErrPermission, err)
	}
	return nil
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

// Close ends the store. It does not wait for others that use the file. Calls that are under way fail, and a rotation goes on
// with the next opening.
func (s *Store) Close() error {
	s.stop()
	s.done.Wait()
	s.emptyLog(context.Background(), emptyWait)
	if err := s.shut(); err != nil {
		return fmt.Errorf("close host store %s: %w", s.path, explain(err))
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
	return errors.Join(errs...)
}

// emptyWait is how long to wait for those who still read what the log has.
const emptyWait = 100 * time.Millisecond

// emptyLog writes the log into the file and cuts it off, so that neither keeps
// what was deleted. When a reader is in the way the next write tries again.
func (s *Store) emptyLog(ctx context.Context, wait time.Duration) {
	before := s.logged.Swap(true)
	err := s.truncate(ctx, wait)
	if err == nil {
		s.logged.Store(false)
	} else if !before {
		s.log.Info("the log of the host store could not be emptied yet", "path", s.path, "error", err)
	}
}

func (s *Store) truncate(ctx context.Context, wait time.Duration) error {
	ctx = context.WithoutCancel(ctx) // what it belongs to is committed
	conn, err := s.write.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	timeout := func(d time.Duration) error {
		_, err := conn.ExecContext(ctx, "PRAGMA busy_timeout = "+strconv.FormatInt(d.Milliseconds(), 10))
		return err
	}
	defer func() {
		if timeout(s.busy) != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // another one is opened in its place
		}
	}()
	if err := timeout(wait); err != nil {
		return err
	}
	var busy, logged, moved int64
	if err := conn.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &logged, &moved); err != nil {
		return explain(err)
	}
	if busy != 0 {
		return errors.New("another process uses it")
	}
	return nil
}
