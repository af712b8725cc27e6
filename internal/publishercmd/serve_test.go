package publishercmd

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
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/openbot-build/openbot-go/card"
)

const echoConfig = `origin: https://apps.example.com
apps:
  - slug: hello
    name: com.example/hello
    title: Hello
    version: 1.0.0
    description: Say hello.
    builtin: echo
    allowed_origins: ["https://host.example.com"]
`

// logBuffer collects what a running command prints.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// wait waits for a line and gives the first group of the expression.
func (l *logBuffer) wait(t *testing.T, expr string) string {
	t.Helper()
	re := regexp.MustCompile(expr)
	for range 1500 {
		if m := re.FindStringSubmatch(l.String()); m != nil {
			return m[len(m)-1]
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("no %q in:\n%s", expr, l)
	return ""
}

// start runs the command until the test stops it. stop gives the exit code.
func start(t *testing.T, args ...string) (log *logBuffer, stop func() int) {
	t.Helper()
	return startIn(t, &Env{}, args...)
}

// startIn is start with more of an environment.
func startIn(t *testing.T, env *Env, args ...string) (log *logBuffer, stop func() int) {
	t.Helper()
	log = &logBuffer{}
	env.Stdout, env.Stderr = log, log
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() { done <- Run(ctx, args, env) }()
	stopped := false
	stop = func() int {
		if stopped {
			return 0
		}
		stopped = true
		cancel()
		return <-done
	}
	t.Cleanup(func() { stop() })
	return log, stop
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// certificate writes a self-signed certificate for host, which is its own
// authority.
func certificate(t *testing.T, host string) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert = write(t, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	key = write(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})))
	pool = x509.NewCertPool()
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(parsed)
	return cert, key, pool
}

// clientTo reaches apps.example.com at addr.
func clientTo(t *testing.T, addr string, pool *x509.CertPool) *http.Client {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		},
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func get(t *testing.T, c *http.Client, url string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func TestServeTLS(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	cert, key, pool := certificate(t, "apps.example.com")
	log, stop := start(t, "serve", "--config", write(t, "c.yaml", echoConfig), "--listen", "127.0.0.1:0",
		"--tls-cert", cert, "--tls-key", key, "--metrics", ":0", "--log-format", "json")
	addr := log.wait(t, `"msg":"serving","addr":"([^"]+)"`)
	metrics := log.wait(t, `"msg":"metrics","addr":"([^"]+)"`)
	client := clientTo(t, addr, pool)

	if status, body := get(t, client, "https://apps.example.com/mcp/hello/server-card?token=secret-token", "Authorization: Bearer secret-token"); status != 200 {
		t.Errorf("card: status %d: %s", status, body)
	} else if _, err := card.Parse([]byte(body)); err != nil {
		t.Error(err)
	}

	// The endpoint works under its public name, though the listener is on loopback.
	mcpClient := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	session, err := mcpClient.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: "https://apps.example.com/mcp/hello", HTTPClient: client, DisableStandaloneSSE: true, MaxRetries: -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: "2026-07-28"})
	if err != nil {
		t.Fatal(err)
	}
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "secret words"}})
	if err != nil || res.Content[0].(*mcp.TextContent).Text != "secret words" {
		t.Errorf("call: %+v, %v", res, err)
	}
	session.Close()

	_, text := get(t, http.DefaultClient, "http://"+metrics+"/metrics")
	for _, want := range []string{`publisher_requests_total{kind="card",status="200"} 1`, `kind="mcp"`, "publisher_request_duration_seconds_bucket", "go_goroutines"} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	client.CloseIdleConnections()
	if code := stop(); code != 0 {
		t.Errorf("exit %d:\n%s", code, log)
	}
	out := log.String()
	if strings.Contains(out, "secret") {
		t.Errorf("the log holds secrets:\n%s", out)
	}
	for _, want := range []string{`"path":"/mcp/hello/server-card","status":200`, `"client":"127.0.0.1"`, `"msg":"stopped"`} {
		if !strings.Contains(out, want) {
			t.Errorf("the log lacks %s:\n%s", want, out)
		}
	}
}

// documents W8: nothing older than TLS 1.2.
func TestRule_DocumentsW8_TLS12OrLater(t *testing.T) {
	cert, key, pool := certificate(t, "apps.example.com")
	log, _ := start(t, "serve", "--config", write(t, "c.yaml", echoConfig), "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key)
	addr := log.wait(t, `msg=serving addr=(\S+)`)
	for version, want := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		d := tls.Dialer{Config: &tls.Config{RootCAs: pool, ServerName: "apps.example.com", MinVersion: tls.VersionTLS10, MaxVersion: version}} // to see it refused
		conn, err := d.DialContext(t.Context(), "tcp", addr)
		if err == nil {
			conn.Close()
		}
		if (err == nil) != want {
			t.Errorf("%s: error %v", tls.VersionName(version), err)
		}
	}
}

// A legacy client's open stream does not keep the server from stopping.
func TestServeStopsWithOpenStreams(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	log, stop := start(t, "serve", "--config", write(t, "c.yaml", echoConfig), "--listen", "127.0.0.1:0")
	addr := log.wait(t, `msg=serving addr=(\S+)`)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: "http://" + addr + "/mcp/hello", MaxRetries: -1},
		&mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	log.wait(t, `msg=request method=POST path=/mcp/hello status=202`) // initialized; the stream opens now
	time.Sleep(50 * time.Millisecond)
	begin := time.Now()
	if code := stop(); code != 0 {
		t.Errorf("exit %d:\n%s", code, log)
	}
	if took := time.Since(begin); took > stopTime {
		t.Errorf("stopping took %v", took)
	}
}

// Plain HTTP to others is for the proxy that the configuration names.
func TestServeBehindProxy(t *testing.T) {
	for trusted, want := range map[string]int{"127.0.0.0/8": 200, "10.0.0.1": 403} {
		t.Run(trusted, func(t *testing.T) {
			file := write(t, "c.yaml", echoConfig+"proxy:\n  trusted: [\""+trusted+"\"]\n")
			log, _ := start(t, "serve", "--config", file, "--listen", "0.0.0.0:0")
			addr := log.wait(t, `msg=serving addr=(\S+)`)
			_, port, err := net.SplitHostPort(strings.Trim(addr, `"`))
			if err != nil {
				t.Fatal(err)
			}
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			if status, _ := get(t, client, "http://127.0.0.1:"+port+"/apps/hello", "X-Forwarded-For: 203.0.113.9"); status != want {
				t.Errorf("status %d, want %d", status, want)
			}
			if want == 200 {
				log.wait(t, `client=203\.0\.113\.9`)
			}
		})
	}
}

func TestClientAddr(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, tt := range []struct{ peer, forwarded, want string }{
		{"192.0.2.1:5", "203.0.113.9", "192.0.2.1"},
		{"10.0.0.1:5", "203.0.113.9", "203.0.113.9"},
		{"10.0.0.1:5", "1.2.3.4, 203.0.113.9, 10.0.0.2", "203.0.113.9"},
		{"10.0.0.1:5", "", "10.0.0.1"},
		{"10.0.0.1:5", "nonsense", "10.0.0.1"},
		{"[::ffff:10.0.0.1]:5", "203.0.113.9", "203.0.113.9"},
		{"pipe", "203.0.113.9", ""},
	} {
		r := &http.Request{RemoteAddr: tt.peer, Header: http.Header{}}
		if tt.forwarded != "" {
			r.Header.Set("X-Forwarded-For", tt.forwarded)
		}
		got := ""
		if a := clientAddr(r, trusted); a.IsValid() {
			got = a.String()
		}
		if got != tt.want {
			t.Errorf("%+v: got %q", tt, got)
		}
	}
}

func TestLookAt(t *testing.T) {
	for _, tt := range []struct{ addr, trusted, want string }{
		{"127.0.0.1:8080", "", "http://127.0.0.1:8080/"},
		{"[::1]:8080", "", "http://[::1]:8080/"},
		{"127.0.0.1:8080", "127.0.0.1/32", "http://127.0.0.1:8080/"},
		{"[::]:8080", "127.0.0.0/8", "http://127.0.0.1:8080/"},
		{"[::]:8080", "10.0.0.0/8", ""},
		{"10.1.2.3:8080", "10.0.0.0/8", "http://10.1.2.3:8080/"},
		{"192.0.2.1:8080", "10.0.0.0/8", ""},
	} {
		var trusted []netip.Prefix
		if tt.trusted != "" {
			trusted = append(trusted, netip.MustParsePrefix(tt.trusted))
		}
		if got := lookAt(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(tt.addr)), trusted); got != tt.want {
			t.Errorf("%s, proxy %q: %q", tt.addr, tt.trusted, got)
		}
	}
}

// serveOn serves a handler on loopback until the test ends.
func serveOn(t *testing.T, h http.Handler) (addr string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}
