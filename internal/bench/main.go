// Command bench measures what the project promises and compares it, in the
// same run, with a peer or with the least that the machine could do:
//
//	go run ./internal/bench [-rounds 7] [-full] [-only name]
//
// Each line is a name, our cost of one operation, the base's, and the ratio;
// then what was promised, if something was, and what the base is. Both sides
// alternate within a run and medians are taken, since clocks and neighbors are
// noisy; the cost is CPU time of the process that does the work, as the
// operating system counts it. Rates are of that run and count everything that
// the machine did meanwhile.
//
// -full runs the crawl at its full size, 5,000 sites a round.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

// sample is what one round of one side gave.
type sample struct {
	cpu  time.Duration // of one operation
	wall time.Duration // of one operation, as if they came one after the other
	rss  int64         // most memory resident, octets; 0: not measured
}

// side does the work of one round.
type side func(ctx context.Context) (sample, error)

// comparison is our way to do some work, and others.
type comparison struct {
	name   string
	unit   string // of a rate to print, such as "docs/s"; "" prints none
	rounds int    // at most so many; 0: any number
	slices int    // of a round, each side's in turn, for small differences; 0: 1
	ours   side
	bases  []base        // none: our side is printed alone
	most   time.Duration // promised cost of an operation; 0: none
	memory int64         // promised most memory; 0: none
	rate   float64       // promised operations a second; 0: none

	allocs, mostAllocs float64 // of an operation, more than the base's, and promised; mostAllocs 0: not measured
}

// base is another way to do the same work.
type base struct {
	what  string // in a few words
	side  side
	ratio float64       // promised: ours over this is at most so much; 0: no promise
	plus  time.Duration // with ratio: and so much more
	extra time.Duration // promised: ours costs at most so much more; 0: no promise
}

// group sets up some comparisons. What it needs is set up when it is run, not
// before, and is gone afterwards.
type group struct {
	name  string // comparisons of the group begin with it
	setup func(ctx context.Context, size *size) (list []comparison, done func(), err error)
}

// size is how much is done.
type size struct {
	sites       int // of the crawl
	crawlRounds int
	hosts       int // of the frontier
}

func main() {
	if role := os.Getenv(roleVar); role != "" {
		exit(play(role))
	}
	rounds := flag.Int("rounds", 7, "rounds of each side; medians are printed")
	only := flag.String("only", "", "run comparisons whose name begins with this")
	full := flag.Bool("full", false, "crawl 5,000 sites a round, in every round; takes about half an hour")
	flag.Parse()
	s := &size{sites: 1000, crawlRounds: 3, hosts: 100_000}
	if *full {
		s.sites, s.crawlRounds = 5000, *rounds
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	exit(run(ctx, *rounds, *only, s))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(ctx context.Context, rounds int, only string, s *size) error {
	fmt.Printf("%-38s %11s %11s %7s  %s\n", "name", "ours", "base", "ratio", "promise; base")
	for _, g := range []group{
		{"card GET, handler", handlers},
		{"card GET, server", servers},
		{"tools/call", calls},
		{"documents", reading},
		{"robots", robotsFiles},
		{"sign-in", signIns},
		{"frontier", frontiers},
		{"crawl", crawls},
	} {
		if !strings.HasPrefix(g.name, only) && !strings.HasPrefix(only, g.name) {
			continue
		}
		if err := g.run(ctx, rounds, only, s); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
	}
	return nil
}

func (g *group) run(ctx context.Context, rounds int, only string, s *size) error {
	list, done, err := g.setup(ctx, s)
	if err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	defer done()
	for i := range list {
		c := &list[i]
		c.name = g.name + ", " + c.name
		if !strings.HasPrefix(c.name, only) {
			continue
		}
		if err := c.run(ctx, rounds); err != nil {
			return err
		}
	}
	return nil
}

// run measures one comparison and prints it.
func (c *comparison) run(ctx context.Context, rounds int) error {
	if c.rounds > 0 {
		rounds = min(rounds, c.rounds)
	}
	rounds *= max(c.slices, 1)
	ours, theirs := make([]sample, rounds), make([][]sample, len(c.bases))
	for r := range rounds {
		var err error
		if ours[r], err = c.ours(ctx); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		for i := range c.bases {
			s, err := c.bases[i].side(ctx)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", c.name, c.bases[i].what, err)
			}
			theirs[i] = append(theirs[i], s)
		}
	}
	c.print(ours, theirs)
	return nil
}

func (c *comparison) print(ours []sample, theirs [][]sample) {
	cpu := func(s sample) time.Duration { return s.cpu }
	a := median(ours, cpu)
	notes := promise(c.most > 0, "at most "+show(c.most), a <= c.most)
	if rss := slices.MaxFunc(ours, func(a, b sample) int { return int(a.rss - b.rss) }).rss; rss > 0 {
		notes = append(notes, fmt.Sprintf("%d MiB resident", rss>>20))
		notes = append(notes, promise(c.memory > 0, fmt.Sprintf("at most %d MiB", c.memory>>20), rss <= c.memory)...)
	}
	notes = append(notes, promise(c.mostAllocs > 0, fmt.Sprintf("%.0f allocations more, at most %.0f", c.allocs, c.mostAllocs), c.allocs <= c.mostAllocs)...)
	if c.unit != "" {
		wall := median(ours, func(s sample) time.Duration { return s.wall })
		notes = append(notes, rate(wall, c.unit))
		notes = append(notes, promise(c.rate > 0, fmt.Sprintf("at least %.0f", c.rate), wall.Seconds()*c.rate <= 1)...)
	}
	if len(c.bases) == 0 {
		line(c.name, show(a), "-", "-", notes)
	}
	for i := range c.bases {
		b := median(theirs[i], cpu)
		ratio := float64(a) / float64(b)
		text, limit := fmt.Sprintf("ratio at most %.2f", c.bases[i].ratio), time.Duration(c.bases[i].ratio*float64(b))+c.bases[i].plus
		if c.bases[i].plus > 0 {
			text += " and " + show(c.bases[i].plus)
		}
		more := slices.Concat(notes, promise(c.bases[i].ratio > 0, text, a <= limit),
			promise(c.bases[i].extra > 0, fmt.Sprintf("%s more, at most %s", show(a-b), show(c.bases[i].extra)), a-b <= c.bases[i].extra),
			[]string{"base: " + c.bases[i].what})
		if c.unit != "" {
			more = append(more, rate(median(theirs[i], func(s sample) time.Duration { return s.wall }), c.unit))
		}
		line(c.name, show(a), show(b), fmt.Sprintf("%.2f", ratio), more)
		notes = nil // said once
	}
}

func line(name, ours, base, ratio string, notes []string) {
	fmt.Printf("%-38s %11s %11s %7s  %s\n", name, ours, base, ratio, strings.Join(notes, ", "))
}

// promise is what was promised, if anything was, and whether it was missed.
func promise(made bool, text string, kept bool) []string {
	switch {
	case !made:
		return nil
	case !kept:
		return []string{text + " MISSED"}
	}
	return []string{text}
}

func rate(one time.Duration, unit string) string {
	return fmt.Sprintf("%.0f %s", float64(time.Second)/float64(one), unit)
}

// repeat makes a side of n operations in this process.
func repeat(n int, work func() error) side {
	return batch(n, func(context.Context) error {
		for range n {
			if err := work(); err != nil {
				return err
			}
		}
		return nil
	})
}

// batch makes a side of work in this process that counts as n operations.
func batch(n int, work func(ctx context.Context) error) side {
	return func(ctx context.Context) (sample, error) {
		began, before := time.Now(), cpuTime()
		if err := work(ctx); err != nil {
			return sample{}, err
		}
		return sample{cpu: (cpuTime() - before) / time.Duration(n), wall: time.Since(began) / time.Duration(n)}, nil
	}
}

func median(list []sample, of func(sample) time.Duration) time.Duration {
	values := make([]time.Duration, len(list))
	for i, s := range list {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func show(d time.Duration) string {
	if d < 100*time.Microsecond {
		return fmt.Sprintf("%.2f us", float64(d)/float64(time.Microsecond))
	}
	return fmt.Sprintf("%.3f ms", float64(d)/float64(time.Millisecond))
}
