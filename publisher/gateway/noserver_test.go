package gateway

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// What is no MCP server is said to be none, and at once where that can be seen.
func TestNoServer(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<p>Hello")
	})
	status := func(code int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
	}
	refused := httptest.NewServer(page)
	refused.Close()
	tlsOnly := httptest.NewTLSServer(page)
	defer tlsOnly.Close()
	tlsOnly.Config.ErrorLog = log.New(io.Discard, "", 0)
	for _, tt := range []struct {
		name string
		opts *Options
		want string
	}{
		{"an echo", &Options{Command: []string{"cat"}}, "this is no MCP server: it sends back what it gets"},
		{"other output", &Options{Command: []string{"sh", "-c", "echo Welcome; sleep 60"}, StartTimeout: 500 * time.Millisecond}, `it is no MCP server, or does not keep its output to messages; it wrote "Welcome"`},
		{"a page", &Options{URL: serveHTTP(t, page).URL, FailFast: true}, "this is no MCP server: it answers with something else than MCP messages"},
		{"a path that is not there", &Options{URL: serveHTTP(t, status(404)).URL, FailFast: true}, "status 404"},
		{"a credential", &Options{URL: serveHTTP(t, status(401)).URL, FailFast: true}, "status 401"},
		{"nobody", &Options{URL: refused.URL, FailFast: true}, "connection refused"},
		{"a certificate", &Options{URL: tlsOnly.URL, FailFast: true}, "certificate"},
		{"a fault that may end", &Options{URL: serveHTTP(t, status(503)).URL, FailFast: true, StartTimeout: 300 * time.Millisecond}, "did not answer within 300ms"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.opts.StartTimeout == 0 {
				tt.opts.StartTimeout = time.Minute
			}
			begin := time.Now()
			_, err := New(t.Context(), tt.opts)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v", err)
			}
			if time.Since(begin) > 30*time.Second {
				t.Error("it was tried until the time was over")
			}
		})
	}
}

// Lists follow an upstream that comes back as another one; what cannot follow is
// said in the log.
func TestUpstreamComesBackChanged(t *testing.T) {
	noLeaks(t)
	var log lockedBuffer
	up := &scripted{call: func(http.ResponseWriter, *http.Request, *message) {}}
	opts := up.options(t)
	opts.Log, opts.check, opts.pause = log.log(), 20*time.Millisecond, time.Millisecond
	g := open(t, opts)
	reconnect := func() {
		t.Helper()
		was := g.link.Load()
		was.fail(errors.New("for the test"))
		eventually(t, "it is connected again", func() bool { l := g.link.Load(); return l != nil && l != was && g.Ready() == nil })
	}
	reconnect()
	if strings.Contains(log.String(), "something else of itself") {
		t.Errorf("nothing has changed: %s", &log)
	}
	up.mu.Lock()
	up.capabilities = `{"tools":{},"logging":{}}`
	up.mu.Unlock()
	reconnect()
	if out := log.String(); !strings.Contains(out, "something else of itself") || !strings.Contains(out, "changed=capabilities") {
		t.Errorf("log %s", out)
	}
}
