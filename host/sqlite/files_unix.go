//go:build unix

package sqlite

import (
	"fmt"
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
