package crawlercmd

import (
	"context"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"slices"
	"time"
)

// How the memory of a crawl is kept. Little of what it makes lives long, so
// garbage is collected seldom (gcPercent) until the process holds leastMemory;
// from there on as often as it takes. SQLite's own memory, some 30 MiB, is not
// counted, nor the program itself, some 20. Together this is well under 150 MiB,
// whatever 256 sites answer at once (T3).
//
// The entries that search holds in memory come on top: the limit rises with what
// lives for long, so that a large index does not make the collector run all the
// time.
const (
	gcPercent   = 400
	leastMemory = 56 << 20
	usualLive   = 40 << 20 // what may live without a large index; of more, as much again may be garbage
	livesLong   = 15       // seconds
)

// memoryLimit is the limit for a process of which so much lived all the time.
func memoryLimit(lived []int64) int64 {
	return leastMemory + 2*max(0, slices.Min(lived)-usualLive)
}

// keepMemory sets the collector until ctx ends. GOGC and GOMEMLIMIT win.
func keepMemory(ctx context.Context, getenv func(string) string) {
	if getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	}
	if getenv("GOMEMLIMIT") != "" {
		<-ctx.Done()
		return
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(leastMemory))
	held := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	lived := make([]int64, livesLong)
	for i := 0; ; i = (i + 1) % len(lived) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		runtimemetrics.Read(held)
		if held[0].Value.Kind() == runtimemetrics.KindUint64 {
			lived[i] = int64(held[0].Value.Uint64())
			debug.SetMemoryLimit(memoryLimit(lived))
		}
	}
}
