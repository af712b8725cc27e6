package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// KeyFile is a file outside the database, which the store makes for this user
// alone (mode 0600) if it is missing. A file that others may read, that belongs to
// another user, that is a symbolic link, or in whose directory everybody may replace
// files is refused. A rotation keeps the new
// key in path + ".next" until it takes the old one's place.
func KeyFile(path string) *MasterKey { return &MasterKey{kept{fileSlots{path}}} }

// maxKeyFile is more than a record needs.
const maxKeyFile = 4096

type fileSlots struct{ path string }

func (f fileSlots) String() string { return "the file " + f.path }

func (f fileSlots) name(s slot) string {
	if s == pending {
		return f.path + ".next"
	}
	return f.path
}

func (f fileSlots) read(ctx context.Context, s slot) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("read key: %w", err)
	}
	name := f.name(s)
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read key: %w", err)
	}
	if err := forOwnersOnly(filepath.Dir(name)); err != nil {
		return "", fmt.Errorf("read key: %w", err)
	}
	// Opening a pipe would wait for ever.
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("read key: %s is no regular file, or a symbolic link; give the file itself", name)
	}
	file, err := openNoFollow(name)
	if err != nil {
		return "", fmt.Errorf("read key: %w", err)
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil {
		return "", fmt.Errorf("read key: %w", err)
	}
	if err := forOwnerOnly(name, info); err != nil {
		return "", fmt.Errorf("read key: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(file, maxKeyFile))
	if err != nil {
		return "", fmt.Errorf("read key: %w", err)
	}
	if len(b) == 0 {
		return "", fmt.Errorf("read key: %s is empty; give the key back from a backup, or remove the file if the database is new", name)
	}
	return string(b), nil
}

// write makes the file whole or not at all, and never replaces one.
func (f fileSlots) write(ctx context.Context, s slot, text string) (err error) {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("make key: %w", err)
	}
	name := f.name(s)
	if err := forOwnersOnly(filepath.Dir(name)); err != nil {
		return fmt.Errorf("make key: %w", err)
	}
	temporary := name + ".tmp"
	_ = os.Remove(temporary) // of a process that was killed here
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make key: %w", err)
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(temporary)
	}()
	if _, err := file.WriteString(text + "\n"); err != nil {
		return fmt.Errorf("make key: %w", err)
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("make key: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("make key: %w", err)
	}
	err = os.Link(temporary, name)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		// A file system without hard links. Others are kept out by the lock on
		// the database.
		if _, gone := os.Lstat(name); errors.Is(gone, fs.ErrNotExist) {
			err = os.Rename(temporary, name)
		}
	}
	if err != nil {
		return fmt.Errorf("make key: %w", err)
	}
	return syncDir(filepath.Dir(name))
}

func (f fileSlots) move(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("replace key: %w", err)
	}
	for _, s := range []slot{inUse, pending} {
		_ = os.Remove(f.name(s) + ".tmp") // a second name of a key, of a process that was killed in write
	}
	if err := os.Rename(f.name(pending), f.name(inUse)); err != nil {
		return fmt.Errorf("replace key: %w", err)
	}
	return syncDir(filepath.Dir(f.path))
}
