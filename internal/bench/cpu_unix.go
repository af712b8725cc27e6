//go:build unix

package main

import (
	"syscall"
	"time"
)

// cpuTime is what the process has used so far, user and system.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // only a bad argument fails
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
