package publishercmd

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// hangUp asks the command, which runs in this process, to read its file again.
func hangUp(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

func rewrite(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A changed file is taken up on SIGHUP and by itself; a faulty one is refused
// with its reasons, and what was served stays.
func TestReload(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	file := write(t, "c.yaml", echoConfig)
	log, stop := start(t, "serve", "--config", file, "--listen", "127.0.0.1:0", "--metrics", ":0")
	addr := log.wait(t, `msg=serving addr=(\S+)`)
	metrics := log.wait(t, `msg=metrics addr=(\S+)`)
	title := func() string {
		t.Helper()
		_, body := get(t, http.DefaultClient, "http://"+addr+"/mcp/hello/server-card")
		_, rest, _ := strings.Cut(body, `"title": "`)
		title, _, _ := strings.Cut(rest, `"`)
		return title
	}
	if got := title(); got != "Hello" {
		t.Fatalf("title %q", got)
	}

	rewrite(t, file, strings.Replace(echoConfig, "title: Hello", "title: By signal", 1))
	hangUp(t)
	log.wait(t, `msg="the configuration was read again" apps=1`)
	if got := title(); got != "By signal" {
		t.Errorf("after SIGHUP: title %q", got)
	}

	faulty := strings.Replace(echoConfig, "version: 1.0.0", "version: ^1", 1)
	rewrite(t, file, strings.Replace(faulty, "lug: hello", "lug: Bad Slug", 1))
	hangUp(t)
	log.wait(t, `msg="fault of the new configuration" fault=".*c.yaml:3: apps\[0\].slug: `)
	log.wait(t, `msg="fault of the new configuration" fault=".*c.yaml:6: apps\[0\].version: `)
	if got := title(); got != "By signal" {
		t.Errorf("after a faulty file: title %q", got)
	}

	rewrite(t, file, strings.Replace(echoConfig, "title: Hello", "title: By itself", 1)+"lang: de\n")
	log.wait(t, `(?s)fault of the new.*msg="the configuration was read again"`)
	if got := title(); got != "By itself" {
		t.Errorf("after a change: title %q", got)
	}

	rewrite(t, file, echoConfig+"telemetry: {otlp: \"http://127.0.0.1:4318\"}\n")
	hangUp(t)
	log.wait(t, `telemetry has changed: that takes a restart`)

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	hangUp(t)
	log.wait(t, `there is no such file`)
	if got := title(); got != "By itself" {
		t.Errorf("after the file was removed: title %q", got)
	}
	_, text := get(t, http.DefaultClient, "http://"+metrics+"/metrics")
	for _, want := range []string{`publisher_reloads_total{result="taken"} 2`, `publisher_reloads_total{result="refused"}`} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if code := stop(); code != 0 {
		t.Errorf("exit %d\n%s", code, log)
	}
}

// A card file that changes is taken up too.
func TestReloadCardFile(t *testing.T) {
	dir := t.TempDir()
	card := `{"$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json", "name": "com.example/x", "title": "One", "version": "1.0.0", "description": "X.",
		"remotes": [{"type": "streamable-http", "url": "https://mcp.example.net/x", "supportedProtocolVersions": ["2026-07-28"]}]}`
	cardFile, file := filepath.Join(dir, "x.json"), filepath.Join(dir, "c.yaml")
	rewrite(t, cardFile, card)
	rewrite(t, file, "origin: https://apps.example.com\napps:\n  - slug: x\n    card: x.json\n    endpoint: https://mcp.example.net/x\n")
	log, _ := start(t, "serve", "--config", file, "--listen", "127.0.0.1:0")
	addr := log.wait(t, `msg=serving addr=(\S+)`)
	rewrite(t, cardFile, strings.Replace(card, "One", "Number two", 1))
	log.wait(t, `msg="the configuration was read again"`)
	if _, body := get(t, http.DefaultClient, "http://"+addr+"/mcp/x/server-card"); !strings.Contains(body, "Number two") {
		t.Errorf("card %s", body)
	}
	http.DefaultClient.CloseIdleConnections()
}

// The private listener tells apart that the program runs and that all is well.
func TestHealth(t *testing.T) {
	log, _ := start(t, "serve", "--config", write(t, "c.yaml", echoConfig), "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
	private := log.wait(t, `msg=metrics addr=(\S+)`)
	public := log.wait(t, `msg=serving addr=(\S+)`)
	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ready\n"} {
		if status, body := get(t, http.DefaultClient, "http://"+private+path); status != http.StatusOK || body != want {
			t.Errorf("%s: %d %q", path, status, body)
		}
		if status, _ := get(t, http.DefaultClient, "http://"+public+path); status != http.StatusNotFound {
			t.Errorf("%s is public: %d", path, status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// Traces reach a collector, with the caller's trace as parent and without
// query, headers and bodies.
func TestTraces(t *testing.T) {
	got := make(chan string, 10)
	collector := http.NewServeMux()
	collector.HandleFunc("POST /v1/traces", func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
	})
	addr := serveOn(t, collector)
	log, stop := startIn(t, &Env{Getenv: func(name string) string {
		return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + addr}[name]
	}}, "serve", "--config", write(t, "c.yaml", echoConfig), "--listen", "127.0.0.1:0")
	public := log.wait(t, `msg=serving addr=(\S+)`)
	get(t, http.DefaultClient, "http://"+public+"/mcp/hello/server-card?token=secret-token", "Authorization: Bearer secret-token", "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	http.DefaultClient.CloseIdleConnections()
	if code := stop(); code != 0 {
		t.Errorf("exit %d\n%s", code, log)
	}
	select {
	case body := <-got:
		for _, want := range []string{"openbot-publisher", "/mcp/hello/server-card", "GET card", "\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c"} {
			if !strings.Contains(body, want) {
				t.Errorf("no %q in the trace", want)
			}
		}
		if strings.Contains(body, "secret") {
			t.Error("the trace holds a secret")
		}
	default:
		t.Error("no trace came")
	}
}

// A collector that is away is said in the log, once, and costs nothing else.
func TestTracesWithoutCollector(t *testing.T) {
	log, stop := start(t, "serve", "--config", write(t, "c.yaml", echoConfig+"telemetry: {otlp: \"http://127.0.0.1:1\", sample: 1}\n"), "--listen", "127.0.0.1:0")
	public := log.wait(t, `msg=serving addr=(\S+)`)
	if status, _ := get(t, http.DefaultClient, "http://"+public+"/apps/hello"); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	http.DefaultClient.CloseIdleConnections()
	if code := stop(); code != 0 {
		t.Errorf("exit %d\n%s", code, log)
	}
}
