// Command bench measures what the project promises and compares it, in the
// same run, with a peer or with the least that the machine could do:
//
//	go run ./internal/bench [-rounds 7] [-only name]
//
// Each line is a name, our cost of one operation, the base's, and the ratio.
// Both sides alternate within a run and medians are taken, since clocks and
// neighbours are noisy; the cost is CPU time of the process as the operating
// system counts it.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// comparison is one line: two ways to do the same work.
type comparison struct {
	name string
	base string // what the base is, in a few words
	n    int    // operations a round
	ours func(n int) error
	them func(n int) error // nil: nothing to compare with, ours is printed alone
}

func main() {
	rounds := flag.Int("rounds", 7, "rounds of each side; medians are printed")
	only := flag.String("only", "", "run comparisons whose name holds this")
	flag.Parse()
	if err := run(*rounds, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(rounds int, only string) error {
	list, err := comparisons()
	if err != nil {
		return err
	}
	fmt.Printf("%-28s %12s %12s %7s  %s\n", "name", "ours", "base", "ratio", "base is")
	for _, c := range list {
		if !strings.Contains(c.name, only) {
			continue
		}
		var ours, them []time.Duration
		for range rounds {
			d, err := cost(c.n, c.ours)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			ours = append(ours, d)
			if c.them == nil {
				continue
			}
			if d, err = cost(c.n, c.them); err != nil {
				return fmt.Errorf("%s, base: %w", c.name, err)
			}
			them = append(them, d)
		}
		if c.them == nil {
			fmt.Printf("%-28s %12s %12s %7s  %s\n", c.name, show(median(ours)), "-", "-", c.base)
			continue
		}
		a, b := median(ours), median(them)
		fmt.Printf("%-28s %12s %12s %7.2f  %s\n", c.name, show(a), show(b), float64(a)/float64(b), c.base)
	}
	return nil
}

// cost is the CPU time of one of n operations.
func cost(n int, work func(int) error) (time.Duration, error) {
	before := cpuTime()
	if err := work(n); err != nil {
		return 0, err
	}
	return (cpuTime() - before) / time.Duration(n), nil
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func show(d time.Duration) string {
	if d < 100*time.Microsecond {
		return fmt.Sprintf("%.2f us", float64(d)/float64(time.Microsecond))
	}
	return fmt.Sprintf("%.3f ms", float64(d)/float64(time.Millisecond))
}
