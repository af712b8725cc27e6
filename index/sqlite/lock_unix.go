//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite

import (
	"errors"
	"os"
	"syscall"
)

// lockAlone locks a file that nobody else has locked.
func lockAlone(f *os.File) (ok bool, err error) { return lock(f, syscall.LOCK_EX) }

// lockShared locks a file that nobody has locked alone; a lock that f has
// becomes a shared one.
func lockShared(f *os.File) (ok bool, err error) { return lock(f, syscall.LOCK_SH) }

func lock(f *os.File, how int) (ok bool, err error) {
	for {
		switch err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		default:
			return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
	}
}

// writable is nil for a file that this user may read and write.
func writable(path string) error {
	const readAndWrite = 4 | 2
	if err := syscall.Access(path, readAndWrite); err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	return nil
}
