package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/oauth"
)

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	o := &Options{MasterKey: fixed(testKey), BusyTimeout: 50 * time.Millisecond}
	write := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	refuse := func(path string, want error, text string) {
		t.Helper()
		s, err := Open(t.Context(), path, o)
		if err == nil {
			_ = s.Close()
			t.Fatalf("%s was opened", path)
		}
		if want != nil {
			wantErr(t, err, want)
		}
		if !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	refuse(dir, nil, "give the name of a file")
	refuse(filepath.Join(dir, "missing", "host.db"), fs.ErrNotExist, "create it first")
	refuse(write("text", strings.Repeat("no database ", 500)), ErrCorrupt, "another file name")

	other := write("other.db", "")
	db := raw(t, other)
	edit(t, db, `CREATE TABLE theirs (x)`)
	refuse(other, ErrSchema, "another program")

	newer := filepath.Join(dir, "newer.db")
	if s, err := Open(t.Context(), newer, o); err != nil {
		t.Fatal(err)
	} else if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	edit(t, raw(t, newer), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)`)
	refuse(newer, ErrSchema, "use a newer program")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, filepath.Join(dir, "x.db"), o); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Where somebody else could put another file in the place of the database, or of its
// key, it is not opened; nor through a link, that its files would lie beside.
func TestOpenRefusesWhatOthersCanReplace(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no modes of directories")
	}
	path, all := made(t, inFile)
	dir, other := filepath.Dir(path), t.TempDir()
	for mode, ok := range map[os.FileMode]bool{0o777: false, 0o733: false, 0o777 | os.ModeSticky: true, 0o775: true, 0o700: true} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		apart := filepath.Join(other, mode.String())
		for _, path := range []string{path, apart} { // the database and its key, and the key alone
			s, err := Open(t.Context(), path, &Options{MasterKey: KeyFile(filepath.Join(dir, filepath.Base(path)+".key"))})
			if err == nil {
				err = s.Close()
			} else if !strings.Contains(err.Error(), "chmod o-w "+dir) || !errors.Is(err, ErrPermission) && !errors.Is(err, ErrMasterKey) {
				t.Errorf("%v: %v", mode, err)
			}
			if (err == nil) != ok {
				t.Errorf("%v, %s: %v", mode, path, err)
			}
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil { // the last of the modes above is any of them
		t.Fatal(err)
	}
	readAll(t, openAt(t, path, inFile(path)), all)

	link, dangling := filepath.Join(other, "link"), filepath.Join(other, "dangling")
	if err := errors.Join(os.Symlink(path, link), os.Symlink(path+".nowhere", dangling)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{link, dangling} {
		_, err := Open(t.Context(), name, inFile(path))
		if err == nil || !strings.Contains(err.Error(), "symbolic link") || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Lstat(path + ".nowhere"); err == nil {
		t.Error("a file was made through a link")
	}
}

// Data keys that are gone, swapped or edited are damage, and nothing is made in
// their place.
func TestDamagedDataKeys(t *testing.T) {
	given := func(string) *Options { return &Options{MasterKey: fixed(testKey)} }
	for _, change := range []string{
		`UPDATE data_key SET wrapped = zeroblob(60)`,
		`UPDATE data_key SET wrapped = x''`,
		`UPDATE data_key SET id = 'x'`,
		`UPDATE store SET id = 'x'`,
		`DELETE FROM data_key`,
	} {
		path, _ := made(t, given)
		edit(t, raw(t, path), change)
		refused(t, path, given(path), ErrCorrupt, "backup")
	}
	path, _ := made(t, given)
	edit(t, raw(t, path), `UPDATE data_key SET current = 0`)
	s := openAt(t, path, nil)
	if _, err := s.PutTokens(t.Context(), tokensOf(conn("c0", "ann"))); err == nil {
		t.Error("it was sealed without a key")
	}
}

func TestReadOnlyFile(t *testing.T) {
	path, all := made(t, inFile)
	if os.Geteuid() != 0 && runtime.GOOS != "windows" {
		if err := os.Chmod(path, 0o400); err != nil {
			t.Fatal(err)
		}
		refused(t, path, inFile(path), ErrPermission, "must be able to write")
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// What SQLite itself reports, which an administrator meets as well.
	s := openAt(t, path, inFile(path))
	_, err := s.read.ExecContext(t.Context(), `DELETE FROM secret`)
	wantErr(t, explain(err), ErrPermission)
	readAll(t, s, all)
}

// When the disk is full nothing of a set of tokens is written, and the store goes
// on once there is space again.
func TestDiskFull(t *testing.T) {
	s, c := newStore(t), conn("c1", "ann")
	x := signedIn(t, s, c)
	edit(t, s.write, `PRAGMA max_page_count = 1`) // which is: as many as there are
	next := tokensOf(c)
	next.Version, next.Refresh = x.Version, oauth.Secret(strings.Repeat("r", 100_000))
	_, err := s.PutTokens(t.Context(), next)
	wantErr(t, err, ErrFull)
	if got, err := s.Tokens(t.Context(), c); err != nil {
		t.Error(err)
	} else {
		same(t, got, x)
	}
	wantErr(t, s.PutSetting(t.Context(), c, Header, "X-Key", next.Refresh), ErrFull)
	edit(t, s.write, `PRAGMA max_page_count = 1000000`)
	if _, err := s.PutTokens(t.Context(), next); err != nil {
		t.Error(err)
	}
}

func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.db")
	s := openAt(t, path, &Options{MasterKey: fixed(testKey), BusyTimeout: 20 * time.Millisecond})
	x := signedIn(t, s, conn("c1", "ann"))
	db := raw(t, path)
	edit(t, db, `BEGIN IMMEDIATE`)
	_, err := s.PutTokens(t.Context(), x)
	wantErr(t, err, ErrLocked)
	readAll(t, s, []*oauth.Tokens{x}) // readers do not wait
	edit(t, db, `ROLLBACK`)
	if _, err := s.PutTokens(t.Context(), x); err != nil {
		t.Error(err)
	}
}

func TestExplain(t *testing.T) {
	plain := errors.New("x")
	if err := explain(plain); err != plain {
		t.Error(err)
	}
	s := newStore(t)
	_, err := s.write.ExecContext(t.Context(), `SELECT * FROM nothing`)
	if got := explain(err); got != err {
		t.Errorf("another error became %v", got)
	}
}

func TestCallsAfterClose(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "host.db"), &Options{MasterKey: fixed(testKey)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Add(t.Context(), conn("c1", "ann")); err == nil {
		t.Error("a closed store was written")
	}
	if err := s.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
}

// With the context of a call its transaction ends, and nothing of it is kept.
func TestCanceled(t *testing.T) {
	s := newStore(t)
	x := signedIn(t, s, conn("c1", "ann"))
	ctx, cancel := context.WithCancel(t.Context())
	err := s.writing(ctx, "test", func(x *tx) error {
		if err := x.removeTokens("c1"); err != nil {
			return err
		}
		cancel()
		time.Sleep(10 * time.Millisecond)
		return nil
	})
	wantErr(t, err, context.Canceled)
	readAll(t, s, []*oauth.Tokens{x})
}
