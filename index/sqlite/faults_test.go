package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/sqlite"
)

// raw opens the file without our rules.
func raw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func run(t *testing.T, db *sql.DB, text string) {
	t.Helper()
	if _, err := db.Exec(text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// made gives the path of an index with one entry.
func made(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "index.db")
	s, err := sqlite.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := applyOne(t.Context(), s, dawn); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// What cannot be opened is told apart, in a sentence that says what to do.
func TestOpenFaults(t *testing.T) {
	write := func(t *testing.T, data string) string {
		path := filepath.Join(t.TempDir(), "index.db")
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		name string
		path func(*testing.T) string
		want error
		text string
	}{
		{
			"no database", func(t *testing.T) string { return write(t, strings.Repeat("seeds: https://a.example.com/\n", 100)) },
			index.ErrCorrupt, "no SQLite database",
		},
		{"cut short", func(t *testing.T) string {
			path := made(t)
			if err := os.Truncate(path, 3*4096+100); err != nil {
				t.Fatal(err)
			}
			return path
		}, index.ErrCorrupt, "restore a backup"},
		{"overwritten", func(t *testing.T) string {
			path := made(t)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for i := 100; i < len(data); i++ {
				data[i] = 0xa5
			}
			return write(t, string(data))
		}, index.ErrCorrupt, "restore a backup"},
		{"of a newer version", func(t *testing.T) string {
			path := made(t)
			run(t, raw(t, path), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)`)
			return path
		}, index.ErrSchema, "version 999"},
		{"of another program", func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "index.db")
			run(t, raw(t, path), `CREATE TABLE bookmarks (url TEXT)`)
			return path
		}, index.ErrSchema, "another program"},
		{"of another program with an id", func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "index.db")
			run(t, raw(t, path), `PRAGMA application_id = 42`)
			return path
		}, index.ErrSchema, "another program"},
		{
			"no directory", func(t *testing.T) string { return filepath.Join(t.TempDir(), "none", "index.db") },
			fs.ErrNotExist, "create it first",
		},
		{"a directory", func(t *testing.T) string { return t.TempDir() }, nil, "is a directory"},
		{"read-only", func(t *testing.T) string {
			if os.Geteuid() == 0 {
				t.Skip("root may write everything")
			}
			path := made(t)
			if err := os.Chmod(path, 0o400); err != nil {
				t.Fatal(err)
			}
			return path
		}, fs.ErrPermission, "may not be written"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := c.path(t)
			s, err := sqlite.Open(t.Context(), path, nil)
			if err == nil {
				_ = s.Close()
				t.Fatal("it was opened")
			}
			if c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), path) {
				t.Errorf("error is %v", err)
			}
		})
	}
}

// A file whose pages are damaged behind a good head is found out when they are
// read, and no call panics.
func TestDamagedPages(t *testing.T) {
	path := made(t)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 20 * 4096; i < len(data); i++ {
		data[i] = 0
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(t.Context(), path, nil)
	if err == nil {
		defer s.Close()
		_, err = s.Snapshot(t.Context(), func(*index.Entry) error { return nil })
		if err == nil {
			_, err = applyOne(t.Context(), s, dawn.Add(time.Hour))
		}
	}
	if !errors.Is(err, index.ErrCorrupt) {
		t.Errorf("error is %v", err)
	}
}

// Another process that keeps the file to itself is waited for, but not for ever.
func TestLocked(t *testing.T) {
	path := made(t)
	s := openFile(t, path, &sqlite.Options{BusyTimeout: 100 * time.Millisecond})
	db := raw(t, path)
	run(t, db, `BEGIN IMMEDIATE`)
	if _, err := applyOne(t.Context(), s, dawn.Add(time.Hour)); !errors.Is(err, index.ErrLocked) {
		t.Errorf("write: %v", err)
	}
	if _, err := s.Lease(t.Context(), index.LeaseRequest{Owner: "w", Now: dawn, Hosts: 1}); !errors.Is(err, index.ErrLocked) {
		t.Errorf("lease: %v", err)
	}
	if _, err := s.Head(t.Context()); err != nil {
		t.Errorf("a read was held up: %v", err)
	}
	run(t, db, `COMMIT`)
	if _, err := applyOne(t.Context(), s, dawn.Add(time.Hour)); err != nil {
		t.Errorf("after the lock: %v", err)
	}

	// A caller's own patience counts too.
	run(t, db, `BEGIN IMMEDIATE`)
	patient := openFile(t, path, &sqlite.Options{BusyTimeout: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := patient.AddSource(ctx, dawn, index.NewDoc{URL: "https://a.example.com/"}); err == nil {
		t.Error("written in spite of the lock")
	} else if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
	run(t, db, `ROLLBACK`)

	exclusive := made(t)
	db = raw(t, exclusive)
	run(t, db, `PRAGMA journal_mode = DELETE`)
	run(t, db, `BEGIN EXCLUSIVE`)
	if _, err := sqlite.Open(t.Context(), exclusive, &sqlite.Options{BusyTimeout: 50 * time.Millisecond}); !errors.Is(err, index.ErrLocked) {
		t.Errorf("open: %v", err)
	}
}

// A restored backup gets a new epoch, so that its numbers are not taken for
// those of the lost commits.
func TestRule_IX16_NewEpoch(t *testing.T) {
	path := made(t)
	s := openFile(t, path, nil)
	before, err := s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	secret, err := s.Secret(t.Context())
	if err != nil || len(secret) != 32 {
		t.Fatalf("secret of %d octets, %v", len(secret), err)
	}
	epoch, err := s.NewEpoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	after, err := s.Head(t.Context())
	if err != nil || after.Epoch != epoch || after.Epoch == before.Epoch || after.Seq != before.Seq {
		t.Errorf("head %+v after %+v, %v", after, before, err)
	}
	// Reopening keeps epoch and secret.
	other := openFile(t, path, nil)
	if h, err := other.Head(t.Context()); err != nil || h != after {
		t.Errorf("head %+v, %v", h, err)
	}
	if again, err := other.Secret(t.Context()); err != nil || string(again) != string(secret) {
		t.Errorf("the secret changed: %v", err)
	}
}

// Close leaves one file that holds everything, and no goroutine.
func TestClose(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	path := made(t)
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the log is still there: %v", err)
	}
	s, err := sqlite.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ch := s.Watch(ctx)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Head(t.Context()); err == nil {
		t.Error("a closed store answers")
	}
	cancel()
	for range ch {
	}
}
