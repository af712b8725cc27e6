package sqlite

import (
	"errors"
	"fmt"
	"io/fs"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/openbot-build/openbot-go/index"
)

// explain turns what SQLite reports into the conditions that a caller acts on,
// with a sentence that says what to do. Other errors pass.
func explain(err error) error {
	var e *driver.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code() {
	case lib.SQLITE_FULL, lib.SQLITE_IOERR_SHMSIZE:
		return join(index.ErrFull, "free some space and try again; nothing was written", err)
	}
	switch e.Code() & 0xff {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return join(index.ErrLocked, "wait until that process is done, or stop it", err)
	case lib.SQLITE_IOERR:
		return fmt.Errorf("the disk refused: look for a quota, a limit on the size of files (ulimit -f) or a failing disk; nothing was written (%w)", err)
	case lib.SQLITE_NOTADB:
		return join(index.ErrCorrupt, "the file is no SQLite database; give another file name", err)
	case lib.SQLITE_CORRUPT:
		return join(index.ErrCorrupt, "restore a backup, or move the file away and crawl anew", err)
	case lib.SQLITE_READONLY, lib.SQLITE_PERM, lib.SQLITE_CANTOPEN:
		return join(fs.ErrPermission, "this user must be able to write the file and its directory", err)
	}
	return err
}

// errEncode is a value that cannot be stored.
var errEncode = errors.New("a value cannot be stored")

// refused reports whether an error is about the data that was to be written and
// not about the database.
func refused(err error) bool {
	e, ok := errors.AsType[*driver.Error](err)
	if !ok {
		return errors.Is(err, errEncode)
	}
	switch e.Code() & 0xff {
	case lib.SQLITE_CONSTRAINT, lib.SQLITE_MISMATCH, lib.SQLITE_TOOBIG:
		return true
	}
	return false
}

func join(condition error, advice string, cause error) error {
	return fmt.Errorf("%w: %s (%w)", condition, advice, cause)
}
