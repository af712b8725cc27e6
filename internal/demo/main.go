// Command demo runs the whole job on this machine: it publishes two example
// apps over HTTPS on loopback, crawls them as hosts of the public Internet,
// and serves the index that results.
//
//	go run ./internal/demo          look around until Ctrl-C
//	go run ./internal/demo -check   assert the answers, then exit 0 or 1
//
// Users of the second app sign in, at an authorization server that is part of the
// demo and nothing for production.
//
// The apps answer under names of example.com with a certificate authority made
// for this run. A resolver and a dialer lead there; they lie below the address
// guard, which is the same as on the Internet. Nothing is left behind.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/openbot-build/openbot-go/internal/crawlercmd"
	"github.com/openbot-build/openbot-go/oauth/oauthtest"
	"github.com/openbot-build/openbot-go/publicnet"
	"github.com/openbot-build/openbot-go/publisher"
)

func main() {
	check := flag.Bool("check", false, "assert the answers and exit")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "demo: unexpected argument %q; -h shows how\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *check, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

// indexTimeout is how long the first crawl may take. A gap of a second between
// two requests to one site makes it some seconds.
const indexTimeout = 90 * time.Second

// run is the demo: sites, crawler, index. It returns when ctx ends or, with
// check, when the answers were seen.
func run(ctx context.Context, check bool, out io.Writer) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir, err := os.MkdirTemp("", "openbot-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	d := &demo{dir: dir, out: out}
	fmt.Fprintln(out, "Publishing two apps over HTTPS on loopback ...")
	if err := d.publish(); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	defer d.close()

	fmt.Fprintln(out, "Crawling them: robots.txt, catalog, card, evidence, a second between requests ...")
	if err := d.startCrawler(ctx); err != nil {
		return fmt.Errorf("start crawler: %w", err)
	}
	defer d.stopCrawler()
	if err := d.waitUntilIndexed(ctx); err != nil {
		return fmt.Errorf("crawl: %w", err)
	}
	if check {
		return d.check(ctx)
	}
	d.explain()
	select {
	case <-ctx.Done():
		fmt.Fprintln(out, "\nStopping.")
		return nil
	case <-d.crawlerDone:
		return errors.New("the crawler stopped: " + d.crawlerSaid())
	}
}

// demo is what runs.
type demo struct {
	dir  string
	out  io.Writer
	net  *network
	apps []*http.Server
	pubs []*publisher.Publisher

	hosts  []string          // of the apps
	issuer *oauthtest.Server // where users of the notes app sign in

	index       string   // origin of the index, http on loopback
	pages       []string // the apps' own pages, http on loopback
	crawlerLog  lockedBuffer
	crawlerDone chan struct{}
	crawlerStop context.CancelFunc
}

// publish starts one HTTPS server a site.
func (d *demo) publish() error {
	n, err := newNetwork()
	if err != nil {
		return err
	}
	d.net = n
	if err := os.WriteFile(d.caFile(), n.rootPEM(), 0o600); err != nil {
		return err
	}
	reach, err := d.network()
	if err != nil {
		return err
	}
	for _, s := range sites(reach) {
		p, err := publisher.New(s.config)
		if err != nil {
			return err
		}
		d.pubs = append(d.pubs, p)
		d.hosts = append(d.hosts, s.host)
		if err := d.serve(s.host, p); err != nil {
			return err
		}
		// A second listener without TLS lets any browser open the app's page.
		plain, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // binds at once
		if err != nil {
			return err
		}
		d.pages = append(d.pages, "http://"+plain.Addr().String()+"/apps/"+s.config.Apps[0].Slug)
		d.answer(plain, p)
	}
	return d.publishSignIn(reach)
}

// serve answers for host, over TLS.
func (d *demo) serve(host string, h http.Handler) error {
	l, err := d.net.listen(host)
	if err != nil {
		return err
	}
	d.answer(l, h)
	return nil
}

// answer serves a listener until close.
func (d *demo) answer(l net.Listener, h http.Handler) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	d.apps = append(d.apps, server)
	go func() { _ = server.Serve(l) }() // ends with close
}

// network is the demo's way to its own sites, with the guard of the real one.
func (d *demo) network() (*publicnet.Network, error) {
	return publicnet.New(&publicnet.Options{UserAgent: "openbot-demo", Below: d.net.below()})
}

func (d *demo) close() {
	for _, p := range d.pubs {
		_ = p.Close()
	}
	for _, s := range d.apps {
		_ = s.Close()
	}
}

func (d *demo) caFile() string { return filepath.Join(d.dir, "ca.pem") }

// startCrawler runs the crawler command as an operator would, with the demo's
// network below its guard.
func (d *demo) startCrawler(ctx context.Context) error {
	seeds := filepath.Join(d.dir, "seeds.txt")
	if err := os.WriteFile(seeds, []byte(strings.Join(d.hosts, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	addr, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	d.index = "http://" + addr
	ctx, d.crawlerStop = context.WithCancel(ctx)
	d.crawlerDone = make(chan struct{})
	go func() {
		defer close(d.crawlerDone)
		crawlercmd.Run(ctx, []string{
			"run", "--db", filepath.Join(d.dir, "index.db"), "--listen", addr, "--seeds", seeds,
			"--about", "https://crawler.example.com/about", "--contact", "crawler@example.com",
		}, &crawlercmd.Env{Stdout: &d.crawlerLog, Stderr: &d.crawlerLog, Below: d.net.below()})
	}()
	return nil
}

func (d *demo) stopCrawler() {
	d.crawlerStop()
	<-d.crawlerDone
}

// crawlerSaid is the end of the crawler's output.
func (d *demo) crawlerSaid() string {
	lines := strings.Split(strings.TrimSpace(d.crawlerLog.String()), "\n")
	return lines[max(0, len(lines)-1)]
}

// freeAddr is a loopback address that nothing listened on a moment ago.
func freeAddr(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}

// waitUntilIndexed waits for both apps in the index's listing.
func (d *demo) waitUntilIndexed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, indexTimeout)
	defer cancel()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	want := len(d.hosts)
	for {
		if page, err := d.search(ctx, ""); err == nil && len(page.Items) == want {
			return nil
		}
		select {
		case <-tick.C:
		case <-d.crawlerDone:
			return errors.New("the crawler stopped: " + d.crawlerSaid())
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return fmt.Errorf("not both apps were in the index after %v; the crawler said last: %s", indexTimeout, d.crawlerSaid())
		}
	}
}

// lockedBuffer is a strings.Builder that two goroutines may use.
type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
