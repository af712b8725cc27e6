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
	case lib.SQLITE_NOTADB:
		return join(index.ErrCorrupt, "the file is no SQLite database; give another file name", err)
	case lib.SQLITE_CORRUPT:
		return join(index.ErrCorrupt, "restore a backup, or move the file away and crawl anew", err)
	case lib.SQLITE_READONLY, lib.SQLITE_PERM, lib.SQLITE_CANTOPEN:
		return join(fs.ErrPermission, "this user must be able to write the file and its directory", err)
	}
	return err
}

func join(condition error, advice string, cause error) error {
	return fmt.Errorf("%w: %s (%w)", condition, advice, cause)
}
