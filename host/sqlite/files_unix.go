//go:build unix

package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// forOwnerOnly is nil for a file that nobody but this user (and the system's
// administrator) can open.
func forOwnerOnly(name string, info os.FileInfo) error {
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("%s may be used by other users (mode %#o); change that with: chmod 600 %s", name, mode, name)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user (id %d); make this user its owner", name, st.Uid)
	}
	return nil
}

// forOwnersOnly is nil for a directory where not everybody may replace the files of
// others, or that is not there.
func forOwnersOnly(dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if mode := info.Mode(); mode.Perm()&0o002 != 0 && mode&os.ModeSticky == 0 {
		return fmt.Errorf("in the directory %s every user may replace files (mode %#o); change that with: chmod o-w %s", dir, mode.Perm(), dir)
	}
	return nil
}

// openNoFollow opens a file to read, never through a symbolic link.
func openNoFollow(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
}

// writable is nil for a file that this user may read and write.
func writable(name string) error {
	const readAndWrite = 4 | 2
	if err := syscall.Access(name, readAndWrite); err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	return nil
}

// syncDir makes a new name in a directory last.
func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}
