package crawlercmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/sqlite"
)

// openStore opens the database. Commands that only look do not make a new one:
// a misspelt name would be an empty index. The error is one sentence that names
// the file and says what to do.
func openStore(ctx context.Context, file string, create bool, log *slog.Logger) (*sqlite.Store, error) {
	if err := lookAt(file, create); err != nil {
		return nil, err
	}
	s, err := sqlite.Open(ctx, file, &sqlite.Options{Log: log})
	if err == nil {
		return s, nil
	}
	return nil, dbFault(file, err)
}

// closed closes a store at the end of work that came to err. What fails because
// the work has failed, on a full disk for instance, is not told twice.
func closed(store io.Closer, err error) error {
	if e := store.Close(); err == nil {
		return e
	}
	return err
}

// sqliteMagic begins every database file (SQLite file format, section 1.3.1).
var sqliteMagic = []byte("SQLite format 3\x00")

// lookAt refuses, without touching it, what cannot be an index.
func lookAt(file string, create bool) error {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && create:
		dir := filepath.Dir(file)
		if at, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("there is no directory %s; make it, or give another file with --db", dir)
		} else if err == nil && !at.IsDir() {
			return fmt.Errorf("%s is no directory; give another file with --db", dir)
		}
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no database %s; crawler run and crawler add make one", file)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("this user cannot look at %s; run crawler as the user that owns it, or give another file with --db", file)
	case err != nil:
		return fmt.Errorf("look at %s: %w", file, err)
	case info.IsDir():
		return fmt.Errorf("%s is a directory; --db wants a file", file)
	case info.Size() == 0 && create:
		return nil
	case info.Size() == 0:
		return fmt.Errorf("%s is empty and no index; crawler run and crawler add make one", file)
	}
	f, err := os.Open(file)
	if err != nil {
		return dbFault(file, err)
	}
	defer f.Close()
	begin := make([]byte, len(sqliteMagic))
	// A file whose first page is still zeros was left by a process that was
	// killed while it made it; SQLite repairs that from its journal.
	if _, err := io.ReadFull(f, begin); err != nil || !bytes.Equal(begin, sqliteMagic) && !bytes.Equal(begin, make([]byte, len(begin))) {
		return fmt.Errorf("%s is no SQLite database; give another file with --db", file)
	}
	return nil
}

// faultText is an error in words of its own.
type faultText struct {
	text string
	err  error
}

func (f *faultText) Error() string { return f.text }
func (f *faultText) Unwrap() error { return f.err }

// dbFault says why a database cannot be opened, and what to do.
func dbFault(file string, err error) error {
	f := &faultText{err: err}
	switch {
	case errors.Is(err, index.ErrSchema):
		text := strings.TrimSuffix(err.Error(), ": "+index.ErrSchema.Error())
		f.text = file + ": " + strings.TrimPrefix(text, "open index "+file+": ")
	case errors.Is(err, fs.ErrPermission):
		what := file
		if _, missing := os.Stat(file); errors.Is(missing, fs.ErrNotExist) {
			what = "the directory " + filepath.Dir(file)
		}
		f.text = "this user cannot write " + what + ", which every command needs to; run crawler as the user that owns it, or give another file with --db"
	case errors.Is(err, index.ErrLocked), errors.Is(err, index.ErrFull), errors.Is(err, index.ErrCorrupt):
		f.text = file + ": " + storeFault(err)
	default:
		return err
	}
	return f
}

// storeFault is the sentence on a store that failed, with what to do; "" for
// other errors.
func storeFault(err error) string {
	for _, c := range []struct {
		condition error
		advice    string
	}{
		{index.ErrLocked, "stop the other process, or give another file with --db"},
		{index.ErrFull, "make room and start again: nothing that was stored is lost"},
		{index.ErrCorrupt, "restore a backup of the file, or give another one with --db"},
	} {
		if errors.Is(err, c.condition) {
			return c.condition.Error() + "; " + c.advice
		}
	}
	return ""
}

// shellWord writes an argument so that a POSIX shell reads it as one word.
func shellWord(s string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+=,", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !safe(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
