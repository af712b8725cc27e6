package publishercmd

import (
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/openbot-build/openbot-go/publicnet"
)

// acmeServer is a real ACME server, for which every name is this machine, and
// which asks the given ports. directory is its address, signed for by roots;
// issued is what it signs certificates with.
func acmeServer(t *testing.T, httpPort, tlsPort int) (directory string, roots, issued *x509.CertPool) {
	t.Helper()
	t.Setenv("PEBBLE_VA_NOSLEEP", "1")
	t.Setenv("PEBBLE_WFE_NONCEREJECT", "0")
	quiet := log.New(io.Discard, "", 0)
	store := db.NewMemoryStore()
	authority := ca.New(quiet, store, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {Description: "default"}})
	validation := va.New(quiet, httpPort, tlsPort, true, nameServer(t), store)
	front := wfe.New(quiet, store, validation, authority, []string{"pebble.example"}, true, false, 1, 1)
	server := httptest.NewTLSServer(front.Handler())
	t.Cleanup(server.Close)
	roots = x509.NewCertPool()
	roots.AddCert(server.Certificate())
	issued = x509.NewCertPool()
	issued.AppendCertsFromPEM(authority.GetRootCert(0).PEM())
	return server.URL + wfe.DirectoryPath, roots, issued
}

// nameServer answers that every name is on loopback.
func nameServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{})
	s := &dns.Server{Listener: l, NotifyStartedFunc: func() { close(started) }, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		a := new(dns.Msg)
		a.SetReply(q)
		if len(q.Question) == 1 && q.Question[0].Qtype == dns.TypeA {
			a.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}, A: net.IPv4(127, 0, 0, 1)}}
		}
		_ = w.WriteMsg(a)
	})}
	go func() { _ = s.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { _ = s.Shutdown() })
	return l.Addr().String()
}

// freePort is a port that nobody listens on now.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// The certificate comes from an ACME server, by either proof, is kept in the
// storage folder, and is taken from there by the next start.
func TestServeACME(t *testing.T) {
	for _, proof := range []string{"tls-alpn-01", "http-01"} {
		t.Run(proof, func(t *testing.T) {
			httpPort, tlsPort := freePort(t), freePort(t)
			asked := tlsPort
			block := "tls:\n  acme:\n    email: admin@apps.example.com\n    storage: acme\n    agree: true\n"
			if proof == "http-01" {
				asked = freePort(t) // TLS-ALPN-01 gets nowhere
				block += "    http: 127.0.0.1:" + strconv.Itoa(httpPort) + "\n"
			}
			directory, roots, issued := acmeServer(t, httpPort, asked)
			file := write(t, "c.yaml", echoConfig+block+"    directory: "+directory+"\n")
			listen := "127.0.0.1:" + strconv.Itoa(tlsPort)
			before := goleak.IgnoreCurrent()
			serve := func() (*logBuffer, func() int) {
				return startIn(t, &Env{Below: publicnet.Below{Roots: roots}}, "serve", "--config", file, "--listen", listen)
			}
			out, stop := serve()
			out.wait(t, `msg=serving`)
			client := clientTo(t, listen, issued)
			first := certificateOf(t, client, out)
			if err := first.VerifyHostname("apps.example.com"); err != nil || len(first.DNSNames) != 1 {
				t.Errorf("certificate for %v", first.DNSNames)
			}
			if status, _ := get(t, client, "https://apps.example.com/mcp/hello/server-card"); status != http.StatusOK {
				t.Errorf("card: %d", status)
			}
			if proof == "http-01" {
				lookAtPlain(t, "127.0.0.1:"+strconv.Itoa(httpPort))
			}
			client.CloseIdleConnections()
			if code := stop(); code != 0 {
				t.Errorf("exit %d\n%s", code, out)
			}
			if strings.Contains(out.String(), "no such file") { // a first start has no account yet: no fault
				t.Errorf("a first start is told as a fault:\n%s", out)
			}
			checkSecrets(t, filepath.Join(filepath.Dir(file), "acme"), out.String())

			out, stop = serve() // from the folder
			out.wait(t, `msg=serving`)
			if again := certificateOf(t, client, out); !again.Equal(first) {
				t.Error("the second start has another certificate")
			}
			client.CloseIdleConnections()
			stop()
			// Connections to the ACME server stay open as long as it keeps them;
			// certmagic's rate limit lives as long as the program, and what keeps its
			// lock files fresh ends at its next look at them.
			goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
				goleak.IgnoreAnyFunction("github.com/caddyserver/certmagic.keepLockfileFresh"), goleak.IgnoreAnyFunction("github.com/caddyserver/certmagic.(*RingBufferRateLimiter).loop"),
				goleak.IgnoreAnyFunction("net/http.(*conn).serve"), goleak.IgnoreAnyFunction("net/http.(*http2serverConn).serve"))
		})
	}
}

// certificateOf waits until the server has one.
func certificateOf(t *testing.T, client *http.Client, out *logBuffer) *x509.Certificate {
	t.Helper()
	for range 300 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://apps.example.com/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if res, err := client.Do(r); err == nil {
			res.Body.Close()
			return res.TLS.PeerCertificates[0]
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("no certificate came:\n%s", out)
	return nil
}

// lookAtPlain holds the second listener to what it may do: send readers to https.
func lookAtPlain(t *testing.T, addr string) {
	t.Helper()
	client := clientTo(t, addr, nil)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, tt := range []struct {
		method, path string
		status       int
		location     string
	}{
		{"GET", "/apps/hello?x=1", http.StatusPermanentRedirect, "https://apps.example.com/apps/hello?x=1"},
		{"GET", "//evil.example/", http.StatusPermanentRedirect, "https://apps.example.com//evil.example/"},
		{"GET", "/.well-known/acme-challenge/none", http.StatusPermanentRedirect, "https://apps.example.com/.well-known/acme-challenge/none"},
		{"POST", "/mcp/hello", http.StatusForbidden, ""},
	} {
		r, err := http.NewRequestWithContext(t.Context(), tt.method, "http://apps.example.com"+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != tt.status || res.Header.Get("Location") != tt.location {
			t.Errorf("%s %s: %d to %q", tt.method, tt.path, res.StatusCode, res.Header.Get("Location"))
		}
	}
}

// checkSecrets looks for keys that others can read, and for keys in the log.
func checkSecrets(t *testing.T, dir, out string) {
	t.Helper()
	keys := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		block, _ := pem.Decode(data)
		if block == nil || !strings.Contains(block.Type, "PRIVATE KEY") {
			return nil
		}
		keys++
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s can be read by others: %v", path, info.Mode())
		}
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "-----") && strings.Contains(out, line) {
				t.Errorf("the log holds the key of %s", path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if keys < 2 {
		t.Errorf("%d keys are kept; the account and the certificate have one each", keys)
	}
}
