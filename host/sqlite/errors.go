package sqlite

import (
	"errors"
	"fmt"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/openbot-build/openbot-go/oauth"
)

// Conditions of a Store, found with errors.Is. The text of an error says what to
// do.
var (
	ErrMasterKey  = errors.New("no usable master key")
	ErrPermission = errors.New("permission denied")
	ErrCorrupt    = errors.New("the database is damaged")
	ErrSchema     = errors.New("not a schema that this program knows")
	ErrLocked     = errors.New("another process keeps the database locked")
	ErrFull       = errors.New("the disk is full")
)

// DamagedError is a secret that does not open where it lies: its row was moved,
// copied or edited. The row is removed and its connection counts as signed out, so
// the error is an oauth.ErrNotFound too.
type DamagedError struct {
	Connection string // its id; "" for a client registered at an issuer
	Kind       Kind   // access, refresh, client_secret, verifier, header or variable
	Name       string // of a header or variable, or the issuer of a client; else ""
}

// Error says what to do. It has no secret in it.
func (e *DamagedError) Error() string {
	switch e.Kind {
	case Header, Variable:
		return fmt.Sprintf("the stored %s %q of connection %s does not open: its row was moved, copied or edited, and is removed; enter it again",
			e.Kind, e.Name, e.Connection)
	}
	if e.Connection == "" {
		return fmt.Sprintf("the stored client of issuer %s does not open: its row was moved, copied or edited, and is removed; register again", e.Name)
	}
	return fmt.Sprintf("the stored %s of connection %s does not open: its row was moved, copied or edited, and is removed; sign in again",
		e.Kind, e.Connection)
}

// Unwrap gives oauth.ErrNotFound.
func (e *DamagedError) Unwrap() error { return oauth.ErrNotFound }

// explain turns what SQLite reports into the conditions that a caller acts on.
// Other errors pass.
func explain(err error) error {
	e, ok := errors.AsType[*driver.Error](err)
	if !ok {
		return err
	}
	condition, advice := error(nil), ""
	switch e.Code() & 0xff {
	case lib.SQLITE_FULL:
		condition, advice = ErrFull, "free some space and try again; nothing was written"
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		condition, advice = ErrLocked, "wait until that process is done, or stop it"
	case lib.SQLITE_NOTADB:
		condition, advice = ErrCorrupt, "the file is no SQLite database; give another file name"
	case lib.SQLITE_CORRUPT:
		condition, advice = ErrCorrupt, "restore a backup, or move the file away and sign in anew everywhere"
	case lib.SQLITE_READONLY, lib.SQLITE_PERM, lib.SQLITE_CANTOPEN:
		condition, advice = ErrPermission, "this user must be able to write the file and its directory"
	case lib.SQLITE_IOERR:
		if e.Code() == lib.SQLITE_IOERR_SHMSIZE {
			condition, advice = ErrFull, "free some space and try again; nothing was written"
			break
		}
		return fmt.Errorf("the disk refused: look for a quota, a limit on the size of files or a failing disk; nothing was written (%w)", err)
	default:
		return err
	}
	return fmt.Errorf("%w: %s (%w)", condition, advice, err)
}
