//go:build !unix

package main

import "time"

var began = time.Now()

// cpuTime is wall time where the system does not count CPU time for us: run
// with nothing else on the machine.
func cpuTime() time.Duration { return time.Since(began) }
