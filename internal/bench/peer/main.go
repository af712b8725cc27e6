// Command peer crawls the sites of the bench with colly, a widely used crawling
// framework, as its manual shows: robots.txt on, a delay for each request.
//
// It reads where to go from standard input and writes what it cost to standard
// output, both as JSON; see trip and report in the bench.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gocolly/colly/v2"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

func run() error {
	var t struct {
		Sites, Workers int
		Gap            time.Duration
		Server         string
		Roots          []byte
	}
	if err := json.NewDecoder(os.Stdin).Decode(&t); err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(t.Roots) {
		return errors.New("no certificate")
	}
	var d net.Dialer
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "tcp", t.Server) }

	began, before := time.Now(), cpuTime()
	// One request at a time is made by each of the workers, and the delay keeps
	// its place for as long: sites are never asked faster.
	c := colly.NewCollector(colly.UserAgent("bench"))
	c.IgnoreRobotsTxt = false
	c.WithTransport(&http.Transport{DialContext: dial, TLSClientConfig: &tls.Config{RootCAs: roots}, IdleConnTimeout: 5 * time.Second})
	if err := c.Limit(&colly.LimitRule{DomainGlob: "*", Parallelism: t.Workers, Delay: t.Gap}); err != nil {
		return err
	}
	var fetches atomic.Int64
	c.OnResponse(func(*colly.Response) { fetches.Add(1) })
	sites := make(chan int)
	var group sync.WaitGroup
	var failed atomic.Value
	for range t.Workers {
		group.Go(func() {
			for i := range sites {
				for _, path := range []string{"/.well-known/ai-catalog.json", "/mcp/calendar/server-card"} {
					if err := c.Visit(fmt.Sprintf("https://site%d.example.com%s", i, path)); err != nil {
						failed.Store(err)
					}
				}
				fetches.Add(1) // robots.txt, before the first
			}
		})
	}
	for i := range t.Sites {
		sites <- i
	}
	close(sites)
	group.Wait()
	if err, ok := failed.Load().(error); ok {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]int64{
		"Fetches": fetches.Load(), "CPU": int64(cpuTime() - before), "Wall": int64(time.Since(began)),
	})
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // only a bad argument fails
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
