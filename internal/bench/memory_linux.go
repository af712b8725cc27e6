package main

import (
	"bytes"
	"fmt"
	"os"
)

// peakMemory is the most memory that this process had resident. The count of
// getrusage would begin with that of the process that started it.
func peakMemory() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(status, []byte("VmHWM:"))
	var kib int64
	if _, err := fmt.Sscan(string(rest), &kib); err != nil {
		return 0
	}
	return kib << 10
}
