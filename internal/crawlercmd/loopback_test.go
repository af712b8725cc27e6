package crawlercmd_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/internal/crawlercmd"
	"github.com/openbot-build/openbot-go/publicnet"
)

// loopback is an Internet for crawlers that are processes of their own: many
// sites behind one listener of the test's process. What is below the guard in
// a child (resolver, dialer, roots) is made by loopbackCrawler from the files
// in dir.
type loopback struct {
	dir   string
	pages map[string]page   // by host and path; fixed once the first child runs
	cards map[string]string // catalog that proves it, by card URL
	// handlers answer for whole hosts instead.
	handlers map[string]http.HandlerFunc

	mu       sync.Mutex
	last     map[string]time.Time // newest request of each host
	requests map[string]int       // by host and path
	tooSoon  []string             // requests that broke the gap of their host
	arrived  chan struct{}        // a hint after each request
}

type page struct {
	body []byte
	link string // Link header
}

const (
	addrFile  = "addr"
	rootsFile = "roots.pem"
)

// newLoopback serves until the test ends.
func newLoopback(t *testing.T) *loopback {
	t.Helper()
	l := &loopback{
		dir: t.TempDir(), pages: make(map[string]page), cards: make(map[string]string), handlers: make(map[string]http.HandlerFunc),
		last: make(map[string]time.Time), requests: make(map[string]int), arrived: make(chan struct{}, 1),
	}
	cert, roots := loopbackCert(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.write(t, addrFile, []byte(listener.Addr().String()))
	l.write(t, rootsFile, roots)
	server := &http.Server{
		Handler: l, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute,
		TLSNextProto: make(map[string]func(*http.Server, *tls.Conn, http.Handler)), // HTTP/1 only
	}
	done := make(chan error, 1)
	go func() {
		done <- server.Serve(tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{cert}}))
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return l
}

func (l *loopback) write(t *testing.T, name string, data []byte) string {
	t.Helper()
	file := filepath.Join(l.dir, name)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// loopbackCert is one certificate for every site, and its authority in PEM.
func loopbackCert(t *testing.T) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "loopback"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"*.example.com", "*.example.net", "*.example.org"},
		IsCA:     true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// ServeHTTP answers for all sites. What is not there is 404, robots.txt too.
func (l *loopback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now, key := time.Now(), r.Host+r.URL.Path
	l.mu.Lock()
	// The crawler counts its gap from the end of an answer, so arrivals are
	// never nearer to each other.
	if before := l.last[r.Host]; !before.IsZero() && now.Sub(before) < time.Second {
		l.tooSoon = append(l.tooSoon, fmt.Sprintf("%s after %s", key, now.Sub(before)))
	}
	l.last[r.Host] = now
	l.requests[key]++
	l.mu.Unlock()
	select {
	case l.arrived <- struct{}{}:
	default:
	}
	if h := l.handlers[r.Host]; h != nil {
		h(w, r)
		return
	}
	p, ok := l.pages[key]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if p.link != "" {
		w.Header().Set("Link", p.link)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(p.body)
}

// total is how many requests came.
func (l *loopback) total() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.requests {
		n += k
	}
	return n
}

// wantGaps fails the test if a site was asked too soon after another request.
func (l *loopback) wantGaps(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.tooSoon {
		t.Errorf("a gap was not kept: %s", s)
	}
}

// publish makes n sites and gives the file of seeds. Most have a catalog and
// one card; some have two cards, a robots.txt, or a card that lies on another
// host and names its catalog in a Link header. Sizes differ, so that rows need
// different numbers of pages.
func (l *loopback) publish(t *testing.T, n int) (seeds string) {
	t.Helper()
	var hosts strings.Builder
	for i := range n {
		host := fmt.Sprintf("s%04d.example.%s", i, []string{"com", "org"}[i%2])
		fmt.Fprintln(&hosts, host)
		cards := []string{host + "/card"}
		switch i % 10 {
		case 3:
			cards = append(cards, host+"/second")
		case 5:
			l.pages[host+"/robots.txt"] = page{body: []byte("User-agent: *\nDisallow: /private\n")}
		case 7:
			cards = []string{fmt.Sprintf("c%04d.example.net/card", i)}
		}
		catalog := "https://" + host + "/.well-known/ai-catalog.json"
		var entries []string
		for k, c := range cards {
			name := fmt.Sprintf("com.example/app%d-%d", i, k)
			entries = append(entries, fmt.Sprintf(`{"identifier": %q, "type": "application/mcp-server-card+json", "url": %q, "description": %q}`,
				name, "https://"+c, "App "+name))
			p := page{body: loopbackCard(name, i*i%17*3000)}
			if i%10 == 7 {
				p.link = "<" + catalog + `>; rel="ai-catalog"`
			}
			l.pages[c], l.cards["https://"+c] = p, catalog
		}
		l.pages[host+"/.well-known/ai-catalog.json"] = page{body: []byte(`{"specVersion": "1.0", "entries": [` + strings.Join(entries, ", ") + `]}`)}
	}
	return l.write(t, "seeds", []byte(hosts.String()))
}

// loopbackCard is a usable card with padding of about n octets.
func loopbackCard(name string, n int) []byte {
	return fmt.Appendf(nil, `{"$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json", "name": %q, "version": "1.0.0", "description": "An app.", `+
		`"remotes": [{"type": "streamable-http", "url": "https://apps.example.com/mcp", "supportedProtocolVersions": ["2026-07-28"]}], "padding": %q}`,
		name, strings.Repeat(name, n/len(name)))
}

const loopbackEnv = "LOOPBACK_NET"

// loopbackCrawler is the crawler command on the Internet whose files are in the
// directory that LOOPBACK_NET names.
func loopbackCrawler() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir := os.Getenv(loopbackEnv)
	addr, err := os.ReadFile(filepath.Join(dir, addrFile))
	roots, err2 := os.ReadFile(filepath.Join(dir, rootsFile))
	if err := errors.Join(err, err2); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(99)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(roots)
	os.Exit(crawlercmd.Run(ctx, os.Args[1:], &crawlercmd.Env{
		Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Below: publicnet.Below{
			Resolver: loopbackNames{}, Roots: pool,
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", string(addr))
			},
		},
	}))
}

// loopbackNames gives each of our names an address of its own that looks
// public and is never dialled.
type loopbackNames struct{}

func (loopbackNames) LookupNetIP(_ context.Context, _, name string) ([]netip.Addr, error) {
	var kind rune
	var n int
	if _, err := fmt.Sscanf(name, "%c%04d.example.", &kind, &n); err != nil {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return []netip.Addr{netip.AddrFrom4([4]byte{93, byte(kind), byte(n >> 8), byte(n)})}, nil
}

// process is a crawler in a process of its own.
type process struct {
	*exec.Cmd
	log  *logFile
	done chan struct{} // closed once it has ended
	err  error         // what Wait gave; to be read after done
}

// logFile is what a process writes to standard error.
type logFile struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (f *logFile) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text.Write(p)
}

func (f *logFile) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text.String()
}

// start runs the crawler with args. before, if any, is a command line that runs
// it: a shell that sets a limit, for instance.
func (l *loopback) start(t *testing.T, before []string, args ...string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// testscript.Main tells commands by their names.
	program := filepath.Join(l.dir, "loopback-crawler")
	if err := os.Symlink(exe, program); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	line := append(append([]string(nil), before...), program)
	line = append(line, args...)
	p := &process{Cmd: exec.Command(line[0], line[1:]...), log: new(logFile), done: make(chan struct{})}
	p.Env = append(os.Environ(), loopbackEnv+"="+l.dir)
	p.Stderr = p.log
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.done
	})
	return p
}

// run starts crawler run on a database, with the flags that every run needs.
func (l *loopback) run(t *testing.T, before []string, db string, args ...string) *process {
	t.Helper()
	return l.start(t, before, append([]string{
		"run", "--db", db, "--listen", "127.0.0.1:0", "--about", "https://crawler.example.com/", "--contact", "crawler@example.com",
	}, args...)...)
}

// exit waits for the process to end by itself and gives its exit status.
func (p *process) exit(t *testing.T, within time.Duration) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(within):
		t.Fatalf("the process has not ended after %s; it wrote:\n%s", within, p.log)
	}
	return p.ProcessState.ExitCode()
}

// stop asks the process to end, as an operator does, and wants it to do so.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("%v; it wrote:\n%s", err, p.log)
	}
	if code := p.exit(t, 30*time.Second); code != 0 {
		t.Fatalf("exit status %d after SIGTERM; it wrote:\n%s", code, p.log)
	}
}
