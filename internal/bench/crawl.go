package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openbot-build/openbot-go/crawl"
	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/sqlite"
	"github.com/openbot-build/openbot-go/publicnet"
)

// trip is one crawl of the sites of serveSites.
type trip struct {
	Sites   int
	Workers int           // visits at a time
	Gap     time.Duration // between two requests to one site
	Server  string        // where all sites are served
	Roots   []byte        // PEM
}

// report is what a trip cost.
type report struct {
	Fetches int
	CPU     time.Duration
	Wall    time.Duration
	RSS     int64 // most memory resident; 0 where it is not known
}

// profileVar names a file for a CPU profile of our side of the crawl.
const profileVar = "OPENBOT_BENCH_PROFILE"

const (
	workers     = crawl.DefaultWorkers
	siteFetches = 3 // robots.txt, catalog, card
)

// crawls compares the crawler with a loop that fetches the same three
// documents of each site with the same gaps, and with a crawling framework.
func crawls(ctx context.Context, size *size) ([]comparison, func(), error) {
	server, err := start(ctx, roleSites, nil)
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "openbot-bench")
	if err != nil {
		return nil, nil, errors.Join(err, server.stop())
	}
	done := func() { _ = server.stop(); _ = os.RemoveAll(dir) }
	t := &trip{Sites: size.sites, Workers: workers, Gap: time.Second}
	if err := server.read(t); err != nil {
		done()
		return nil, nil, err
	}
	c := comparison{
		name: fmt.Sprintf("%d sites, %d at a time", t.Sites, t.Workers), unit: "fetches/s", rounds: size.crawlRounds, memory: 150 << 20,
		ours: t.side(func(ctx context.Context) (*child, error) { return start(ctx, roleCrawl, t) }),
		bases: []base{{
			what:  "a loop that fetches the same URLs with the same gaps",
			side:  t.side(func(ctx context.Context) (*child, error) { return start(ctx, rolePlain, t) }),
			ratio: 1 / 0.7, extra: 500 * time.Microsecond,
		}},
	}
	peer := filepath.Join(dir, "peer")
	build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join("internal", "bench", "peer"), "-o", peer, ".")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "bench: no comparison with colly, which cannot be built here: %v\n%s", err, out)
	} else {
		c.bases = append(c.bases, base{
			what:  "colly with robots.txt and a delay",
			side:  t.side(func(ctx context.Context) (*child, error) { return launch(exec.CommandContext(ctx, peer), t) }), // #nosec G204 -- built above
			ratio: 1,
		})
	}
	return []comparison{c}, done, nil
}

// side runs a child that makes the trip.
func (t *trip) side(launch func(context.Context) (*child, error)) side {
	return func(ctx context.Context) (sample, error) {
		c, err := launch(ctx)
		if err != nil {
			return sample{}, err
		}
		var r report
		if err := errors.Join(c.read(&r), c.stop()); err != nil {
			return sample{}, err
		}
		if want := t.Sites * siteFetches; r.Fetches != want {
			return sample{}, fmt.Errorf("%d fetches, want %d", r.Fetches, want)
		}
		n := time.Duration(r.Fetches)
		return sample{cpu: r.CPU / n, wall: r.Wall / n, rss: r.RSS}, nil
	}
}

// make is the child's part.
func (t *trip) make(ctx context.Context, role string) error {
	roots, err := t.roots()
	if err != nil {
		return err
	}
	crawl := t.plain
	if role == roleCrawl {
		crawl = t.crawl
	}
	r, err := crawl(ctx, &publicnet.Below{Resolver: resolver{}, Dial: t.dial, Roots: roots})
	if err != nil {
		return err
	}
	r.RSS = peakMemory()
	return tell(r)
}

// resolver gives each site an address of its own, of the public Internet.
type resolver struct{}

func (resolver) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n, err := siteNumber(host)
	if err != nil {
		return nil, err
	}
	return []netip.Addr{netip.AddrFrom4([4]byte{93, byte(n >> 16), byte(n >> 8), byte(n)})}, nil
}

// dial connects to the server, whatever the address.
func (t *trip) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", t.Server)
}

// crawl is the product: frontier, guard, robots.txt, gaps, judgement, index.
func (t *trip) crawl(ctx context.Context, below *publicnet.Below) (*report, error) {
	dir, err := os.MkdirTemp("", "openbot-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(ctx, filepath.Join(dir, "index.db"), nil)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	docs := make([]index.NewDoc, t.Sites)
	for i := range docs {
		docs[i] = index.NewDoc{URL: siteOrigin(i) + catalogPath, Kind: index.CatalogDoc, Class: index.ClassUser}
	}
	if _, err := store.AddSource(ctx, time.Now(), docs...); err != nil {
		return nil, err
	}
	c, err := crawl.New(&crawl.Config{
		Store: store, About: "https://crawler.example.org/about", Contact: "crawler@example.org",
		Workers: t.Workers, Network: &publicnet.Options{Below: *below},
	})
	if err != nil {
		return nil, err
	}
	if name := os.Getenv(profileVar); name != "" {
		f, err := os.Create(name) // #nosec G304 G703 -- of whoever runs the bench
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return nil, err
		}
	}
	// As crawler run keeps its memory.
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(64 << 20)
	began, before := time.Now(), cpuTime()
	if err := c.Settle(ctx, 10*time.Second); err != nil {
		return nil, err
	}
	r := &report{CPU: cpuTime() - before, Wall: time.Since(began)}
	pprof.StopCPUProfile()
	stats, err := store.Stats(ctx, time.Now())
	if err != nil {
		return nil, err
	}
	// An entry is listed only when all three documents were read.
	r.Fetches = int(stats.Entries[index.Listed]) * siteFetches
	return r, nil
}

// plain is the base: the same requests and nothing else.
func (t *trip) plain(ctx context.Context, below *publicnet.Below) (*report, error) {
	began, before := time.Now(), cpuTime()
	var fetches atomic.Int64
	var group sync.WaitGroup
	sites, errs := make(chan int), make(chan error, t.Workers)
	for range t.Workers {
		group.Go(func() {
			for i := range sites {
				if err := t.plainSite(ctx, below, siteOrigin(i), &fetches); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	for i := range t.Sites {
		select {
		case sites <- i:
		case err := <-errs:
			return nil, err
		}
	}
	close(sites)
	group.Wait()
	select {
	case err := <-errs:
		return nil, err
	default:
		return &report{Fetches: int(fetches.Load()), CPU: cpuTime() - before, Wall: time.Since(began)}, nil
	}
}

func (t *trip) plainSite(ctx context.Context, below *publicnet.Below, origin string, fetches *atomic.Int64) error {
	client := &http.Client{Transport: &http.Transport{DialContext: below.Dial, TLSClientConfig: &tls.Config{RootCAs: below.Roots}}}
	defer client.CloseIdleConnections()
	for i, path := range []string{"/robots.txt", catalogPath, cardPath} {
		if i > 0 {
			time.Sleep(t.Gap)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, origin+path, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		_, err = io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s%s: %s", origin, path, resp.Status)
		}
		fetches.Add(1)
	}
	return nil
}
