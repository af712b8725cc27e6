package publishercmd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/internal/fakenet"
)

// Secrets that are sent, and found nowhere afterwards.
const (
	badToken     = "SENTINEL-TOKEN-SENTINEL-TOKEN"
	secretHeader = "SENTINEL-HEADER"
	issuerSecret = "SENTINEL-CLIENT-SECRET"
)

// lockedApp is echo behind a sign-in, with traces to a collector and a user's
// secret setting.
func lockedApp(collector, client string) string {
	return echoConfig + `    settings: [{header: X-Api-Key, description: Key of the user's account., secret: true}]
    auth:
      issuers:
        - url: ` + authIssuer + `
          introspection: {client_id: ` + client + `, client_secret: "${INTROSPECTION_SECRET}"}
      scopes: {basic: [say]}
telemetry: {otlp: "` + collector + `", sample: 1}
`
}

// sendSecrets calls the app at address in every way that carries a secret. It
// gives all that was answered.
func sendSecrets(t *testing.T, address string, tokens ...string) string {
	t.Helper()
	var said strings.Builder
	send := func(method, query, auth, body string) {
		r, err := http.NewRequestWithContext(t.Context(), method, address+"/mcp/hello"+query, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"Authorization": auth, "X-Api-Key": secretHeader, "Cookie": "session=" + secretHeader, "Content-Type": "application/json",
			"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo",
		} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		fmt.Fprintln(&said, res.Status, res.Header, string(answer))
	}
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"good morning"},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	for _, token := range tokens {
		send(http.MethodPost, "", "Bearer "+token, call)
		send(http.MethodPost, "", "Bearer "+token, `{"jsonrpc":`)
		send(http.MethodPost, "?access_token="+token, "", call)
		send(http.MethodPost, "?access_token="+token, "Bearer "+token, call)
		send(http.MethodPost, "", "Basic "+token, call)
		send(http.MethodGet, "", "Bearer "+token, "")
		send(http.MethodPost, "", "Bearer "+token+" "+token, call)
	}
	return said.String()
}

func wantNone(t *testing.T, where, text string, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		if i := strings.Index(text, secret); i >= 0 {
			t.Errorf("a secret is in %s: %.200q", where, text[max(0, i-100):])
		}
	}
}

// No log line, trace, metric, health report or answer has a secret in it.
func TestSentinelsOfARunningPublisher(t *testing.T) {
	var mu sync.Mutex
	var traces bytes.Buffer
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(&traces, r.Header)
		_, _ = io.Copy(&traces, r.Body)
	}))
	defer collector.Close()
	net := fakenet.New()
	issuer := signInServer(t, net, false)
	good := mint(t, issuer, "say")
	asks := issuer.Introspection()
	getenv := func(name string) string {
		return map[string]string{"INTROSPECTION_SECRET": asks.ClientSecret.Reveal()}[name]
	}
	log, stop := startIn(t, &Env{Getenv: getenv, Below: net.Below()},
		"serve", "--config", write(t, "c.yaml", lockedApp(collector.URL, asks.ClientID)), "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
	address := "http://" + log.wait(t, `msg=serving addr=(\S+)`)
	private := "http://" + log.wait(t, `metrics\S* .*addr=(\S+)`)

	answers := sendSecrets(t, address, good, badToken, badToken+"."+badToken+"."+badToken)
	if !strings.Contains(answers, "good morning") || !strings.Contains(answers, "invalid_token") {
		t.Fatalf("the good token opens nothing, or the bad one is not refused:\n%s", answers)
	}
	var reports strings.Builder
	for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
		_, report := get(t, http.DefaultClient, private+path)
		reports.WriteString(report)
	}
	stop()
	mu.Lock()
	defer mu.Unlock()
	if !bytes.Contains(traces.Bytes(), []byte("tools/call")) {
		t.Error("no trace of the calls came")
	}
	parts := strings.Split(good, ".")
	secrets := []string{badToken, secretHeader, asks.ClientSecret.Reveal(), parts[1], parts[2]}
	wantNone(t, "the log", log.String(), secrets...)
	wantNone(t, "the traces", traces.String(), secrets...)
	wantNone(t, "the reports", reports.String(), secrets...)
	wantNone(t, "the answers", answers, secrets...)
}

// What a publisher prints when it is made to crash, the stack of each goroutine,
// has no secret in it.
func TestSentinelsOfACrash(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no SIGQUIT")
	}
	itself, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "publisher") // TestMain runs the command under this name
	if err := os.Symlink(itself, program); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	log := &logBuffer{}
	child := exec.CommandContext(ctx, program, "serve", "--config", write(t, "c.yaml", lockedApp("http://127.0.0.1:1", "hello")), "--listen", "127.0.0.1:0")
	child.Env = append(os.Environ(), "INTROSPECTION_SECRET="+issuerSecret, "GOTRACEBACK=all")
	child.Stdout, child.Stderr = log, log
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	address := "http://" + log.wait(t, `msg=serving addr=(\S+)`)
	answers := sendSecrets(t, address, badToken, badToken+"."+badToken+"."+badToken)
	if err := child.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it crashed
	if !strings.Contains(log.String(), "SIGQUIT") || !strings.Contains(log.String(), "goroutine ") {
		t.Fatalf("it did not crash:\n%s", log)
	}
	wantNone(t, "the crash", log.String(), badToken, secretHeader, issuerSecret)
	wantNone(t, "the answers", answers, badToken, secretHeader, issuerSecret)
}
