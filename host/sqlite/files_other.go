//go:build !unix

package sqlite

import "os"

// Elsewhere who may open a file is not in its mode; a user's own folders are
// closed to others by default.

func forOwnerOnly(string, os.FileInfo) error { return nil }

func forOwnersOnly(string) error { return nil }

func openNoFollow(name string) (*os.File, error) { return os.Open(name) }

func writable(string) error { return nil }

func syncDir(string) error { return nil }
