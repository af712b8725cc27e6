package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/openbot-build/openbot-go/oauth"
)

// Zeros are no key: what they seal everybody could open.
func TestZerosAreNoKey(t *testing.T) {
	r := of(conn("c1", "ann"), access)
	wantErr(t, r.seal("id", key{}, "text"), errNoKey)
	if r.ciphertext != nil {
		t.Error("it was sealed")
	}
	for _, pair := range [][2]key{{{}, {1}}, {{1}, {}}} {
		b, err := pair[0].wrap("store", "id", pair[1])
		if b != nil || !errors.Is(err, errNoKey) {
			t.Errorf("%x, %v", b, err)
		}
	}
	if err := r.seal("id", key{1}, "text"); err != nil {
		t.Fatal(err)
	}
	_, err := r.unseal(key{})
	wantErr(t, err, errSealed)
}

// A reader that still looks at the database of before a rotation does not make
// the process forget the key that a writer has just learned.
func TestOlderReaderForgetsNoKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.db")
	rotates, s := openAt(t, path, nil), openAt(t, path, nil)
	x := signedIn(t, s, conn("c1", "ann"))
	err := s.reading(t.Context(), "read", func(old *tx) error {
		list, err := old.wrapped() // the snapshot begins here
		if err != nil {
			return err
		}
		if err := rotates.Rotate(t.Context()); err != nil {
			return err
		}
		return s.writing(t.Context(), "write", func(now *tx) error {
			id, data, err := now.current()
			if err != nil {
				return err
			}
			if _, _, err := s.unwrap(t.Context(), list); err != nil { // the reader, meanwhile
				return err
			}
			if again, ok := s.keys.get(id); !ok || again != data {
				t.Error("the current key is forgotten")
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	readAll(t, s, []*oauth.Tokens{x})
}

// Readers and writers in one process learn new keys all at once, while another
// process rotates: what they write is sealed with real keys.
func TestKeysUnderRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.db")
	rotates, s := openAt(t, path, nil), openAt(t, path, nil)
	all := fill(t, s, 4)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := advance(t.Context(), s, all[i].Connection); err != nil {
					t.Error(err)
					return
				}
				for range 5 {
					if _, err := s.Tokens(t.Context(), all[(i+1)%len(all)].Connection); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for range 5 {
		if err := rotates.Rotate(t.Context()); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
	for _, x := range all {
		if got, err := rotates.Tokens(t.Context(), x.Connection); err != nil {
			t.Error(err)
		} else if got.Version > 1 && whole(got) != nil {
			t.Error(whole(got))
		}
	}
}

// withMigration adds one to ours.
func withMigration(t *testing.T, text string) fs.FS {
	t.Helper()
	all := fstest.MapFS{"migrations/0099_test.sql": {Data: []byte("-- +goose Up\n" + text)}}
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		b, err := migrations.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = &fstest.MapFile{Data: b}
	}
	return all
}

// However many open the file at a time, each migration runs once. This one does
// something else the second time.
func TestMigrationsRunOnce(t *testing.T) {
	more := withMigration(t, "CREATE TABLE IF NOT EXISTS ran (n INTEGER);\nINSERT INTO ran VALUES (1);\n")
	for _, before := range []bool{false, true} { // an older schema is there, or nothing
		t.Run(fmt.Sprint(before), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "host.db")
			if before {
				if err := openAt(t, path, nil).Add(t.Context(), conn("c1", "ann")); err != nil {
					t.Fatal(err)
				}
			}
			var wg sync.WaitGroup
			start, stores := make(chan struct{}), make(chan *Store, 8)
			for range cap(stores) {
				wg.Go(func() {
					<-start
					s, err := Open(t.Context(), path, &Options{MasterKey: fixed(testKey), migrations: more})
					if err != nil {
						t.Error(err)
						return
					}
					stores <- s
				})
			}
			close(start)
			wg.Wait()
			close(stores)
			for s := range stores {
				if n := count(t, s, `SELECT count(*) FROM ran`); n != 1 {
					t.Errorf("it ran %d times", n)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			s := openAt(t, path, &Options{MasterKey: fixed(testKey), migrations: more})
			if n := count(t, s, `SELECT count(*) FROM goose_db_version WHERE version_id = 99`); n != 1 {
				t.Errorf("it is written down %d times", n)
			}
		})
	}
}

// A migration that fails on its way leaves the file as it was, and usable.
func TestMigrationThatFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.db")
	s := openAt(t, path, nil)
	all := fill(t, s, 1)
	bad := withMigration(t, "DELETE FROM secret;\nCREATE TABLE half (x);\nDROP TABLE nowhere;\n")
	_, err := Open(t.Context(), path, &Options{MasterKey: fixed(testKey), migrations: bad, BusyTimeout: 1})
	if err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Fatal(err)
	}
	if n := count(t, s, `SELECT count(*) FROM sqlite_schema WHERE name = 'half'`); n != 0 {
		t.Error("half of it stays")
	}
	readAll(t, s, all)
	readAll(t, openAt(t, path, nil), all)
}
