package publishercmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// siteOf serves a configuration in memory.
func siteOf(t *testing.T, config string) (*site, *logBuffer) {
	t.Helper()
	m, err := newMetrics()
	if err != nil {
		t.Fatal(err)
	}
	log := &logBuffer{}
	s := &site{log: slog.New(slog.NewTextHandler(log, nil)), metrics: m, plain: true}
	if err := m.watch(s); err != nil {
		t.Fatal(err)
	}
	file, err := parseConfig("c.yaml", t.TempDir(), []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	r := &reloader{getenv: func(string) string { return "" }, log: s.log, site: s}
	if err := r.first(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	return s, log
}

const discoverBody = `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`

// discoverFrom asks server/discover from a client's address.
func discoverFrom(s http.Handler, peer string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "https://apps.example.com/mcp/hello", strings.NewReader(discoverBody))
	r.RemoteAddr = peer
	for _, h := range append([]string{"Content-Type: application/json", "Accept: application/json, text/event-stream", "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: server/discover"}, header...) {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// A client that calls faster than it may gets 429 with Retry-After, and others
// do not. An IPv6 client is its /64.
func TestLimitPerClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := siteOf(t, echoConfig+"limits:\n  client: {rate: 2, burst: 3}\n")
		var got []int
		for range 5 {
			got = append(got, discoverFrom(s, "192.0.2.1:5").Code)
		}
		if fmt.Sprint(got) != "[200 200 200 429 429]" {
			t.Errorf("got %v", got)
		}
		w := discoverFrom(s, "192.0.2.1:5", "Origin: https://host.example.com")
		if w.Header().Get("Retry-After") != "1" || w.Header().Get("Access-Control-Allow-Origin") != "https://host.example.com" || !strings.Contains(w.Header().Get("Access-Control-Expose-Headers"), "Retry-After") {
			t.Errorf("headers %v", w.Header())
		}
		var body struct{ Error struct{ Message string } }
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || !strings.Contains(body.Error.Message, "slow down") {
			t.Errorf("body %s", w.Body)
		}
		if w := discoverFrom(s, "192.0.2.2:5"); w.Code != http.StatusOK {
			t.Errorf("another client: %d", w.Code)
		}
		for i := range 4 {
			want := map[bool]int{true: 200, false: 429}[i < 3]
			if w := discoverFrom(s, fmt.Sprintf("[2001:db8:1:2::%d]:5", i)); w.Code != want {
				t.Errorf("call %d from one /64: %d", i, w.Code)
			}
		}
		if w := discoverFrom(s, "[2001:db8:1:3::1]:5"); w.Code != http.StatusOK {
			t.Errorf("another /64: %d", w.Code)
		}
		time.Sleep(time.Second)
		if w := discoverFrom(s, "192.0.2.1:5"); w.Code != http.StatusOK {
			t.Errorf("a second later: %d", w.Code)
		}
	})
}

// FO-19: a foreign page is refused before anything else counts, and does not use
// up what its address may call.
func TestRule_FO19_ForeignOriginsComeBeforeLimits(t *testing.T) {
	s, _ := siteOf(t, echoConfig+"limits:\n  client: {rate: 0.001, burst: 1}\n")
	for range 3 {
		if w := discoverFrom(s, "192.0.2.1:5", "Origin: https://host.example.com.evil.example"); w.Code != http.StatusForbidden {
			t.Errorf("foreign origin: %d", w.Code)
		}
	}
	if w := discoverFrom(s, "192.0.2.1:5"); w.Code != http.StatusOK {
		t.Errorf("then the client itself: %d", w.Code)
	}
}

// All callers of an app share its quota; documents are not counted.
func TestLimitPerApp(t *testing.T) {
	s, _ := siteOf(t, echoConfig+"limits:\n  app: {rate: 0.001, burst: 2}\n")
	for i, want := range []int{200, 200, 429} {
		if w := discoverFrom(s, fmt.Sprintf("192.0.2.%d:5", i)); w.Code != want {
			t.Errorf("call %d: %d, want %d", i, w.Code, want)
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://apps.example.com/mcp/hello/server-card", nil))
	if w.Code != http.StatusOK {
		t.Errorf("card: %d", w.Code)
	}
	if text := metricsOf(t, s); !strings.Contains(text, `publisher_limited_total{app="hello",limit="app"} 1`) ||
		!strings.Contains(text, `publisher_calls_total{app="hello",method="server/discover",status="200"} 2`) {
		t.Errorf("metrics:\n%s", text)
	}
}

func metricsOf(t *testing.T, s *site) string {
	t.Helper()
	stop, addr, err := servePrivate(t.Context(), "127.0.0.1:0", s)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	defer http.DefaultClient.CloseIdleConnections()
	_, text := get(t, http.DefaultClient, "http://"+addr+"/metrics")
	return text
}

// The limit of a client counts for who a trusted proxy names, and for nobody
// whom a stranger names.
func TestLimitBehindProxy(t *testing.T) {
	s, log := siteOf(t, echoConfig+"limits:\n  client: {rate: 0.001, burst: 1}\nproxy:\n  trusted: [10.0.0.0/8]\n")
	for _, tt := range []struct {
		forwarded string
		want      int
	}{{"203.0.113.1", 200}, {"203.0.113.1", 429}, {"203.0.113.2", 200}, {"203.0.113.9, 203.0.113.2", 429}} {
		if w := discoverFrom(s, "10.0.0.1:5", "X-Forwarded-For: "+tt.forwarded); w.Code != tt.want {
			t.Errorf("%s: %d, want %d", tt.forwarded, w.Code, tt.want)
		}
	}
	if w := discoverFrom(s, "192.0.2.1:5", "X-Forwarded-For: 203.0.113.3"); w.Code != http.StatusForbidden {
		t.Errorf("not the proxy: %d", w.Code)
	}
	if out := log.String(); !strings.Contains(out, "client=203.0.113.1") || !strings.Contains(out, "client=192.0.2.1") || strings.Contains(out, "203.0.113.3") {
		t.Errorf("log:\n%s", out)
	}
}

// A request over limits.body is refused by the endpoint, in its own words.
func TestLimitBody(t *testing.T) {
	s, _ := siteOf(t, echoConfig+"limits:\n  body: 100\n")
	if w := discoverFrom(s, "192.0.2.1:5"); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	// It may also be more than an endpoint reads by itself.
	s, _ = siteOf(t, echoConfig+"limits:\n  body: 2MiB\n")
	for size, want := range map[int]int{3 << 19: http.StatusOK, 2<<20 + 1: http.StatusRequestEntityTooLarge} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp/hello", strings.NewReader(strings.Repeat(" ", size-len(discoverBody))+discoverBody))
		r.Header = http.Header{
			"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
			"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"server/discover"},
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%d bytes: status %d, want %d: %.200s", size, w.Code, want, w.Body)
		}
	}
}

// An app's own limits stand in place of the general ones, one by one.
func TestLimitsOfOneApp(t *testing.T) {
	const second = `  - slug: second
    name: com.example/second
    version: 1.0.0
    description: Say hello too.
    builtin: echo
    limits: {client: {rate: 0.001, burst: 1}, body: 3KiB, streams: 7}
limits:
  client: {rate: 0.001, burst: 2}
  app: {rate: 0.001, burst: 4}
  body: 2KiB
  streams: 9
`
	s, _ := siteOf(t, echoConfig+second)
	other := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/mcp/second"
		s.ServeHTTP(w, r)
	})
	for i, tt := range []struct {
		h    http.Handler
		peer string
		want int
	}{
		{other, "192.0.2.1:5", 200}, {other, "192.0.2.1:5", 429}, // its own: 1
		{s, "192.0.2.1:5", 200}, {s, "192.0.2.1:5", 200}, {s, "192.0.2.1:5", 429}, // the general one: 2, of which nothing was used
		{other, "192.0.2.2:5", 200}, {other, "192.0.2.3:5", 200}, {other, "192.0.2.4:5", 200}, {other, "192.0.2.5:5", 429}, // of the app: 4
	} {
		if w := discoverFrom(tt.h, tt.peer); w.Code != tt.want {
			t.Errorf("call %d: status %d, want %d", i, w.Code, tt.want)
		}
	}
	apps := s.current.Load().config.Apps
	if apps[0].MaxBody != 2<<10 || apps[1].MaxBody != 3<<10 || apps[0].MaxListens != 9 || apps[1].MaxListens != 7 {
		t.Errorf("bodies %d and %d, streams %d and %d", apps[0].MaxBody, apps[1].MaxBody, apps[0].MaxListens, apps[1].MaxListens)
	}
	for config, want := range map[string]string{
		strings.Replace(echoConfig, "builtin: echo", "endpoint: https://mcp.example.net/x", 1) + "    limits: {streams: 1}\n": "apps[0].limits: have no effect",
		echoConfig + "    limits: {streams: -1}\n":               "apps[0].limits.streams: write a number above 0",
		echoConfig + "    limits: {client: {burst: 1}}\n":        "apps[0].limits.client.burst: ",
		echoConfig + "    limits: {body: many}\n":                "apps[0].limits.body: ",
		echoConfig + "    limits: {app: {rate: 1, bursts: 2}}\n": "unknown field",
	} {
		file, err := parseConfig("c.yaml", t.TempDir(), []byte(config))
		if err != nil {
			t.Fatal(err)
		}
		if got := file.faults.Error(); !strings.Contains(got, want) {
			t.Errorf("no %q in %q of:\n%s", want, got, config)
		}
	}
}

// Calls under way and open streams are bounded, and what ended makes room.
func TestLimitConcurrent(t *testing.T) {
	c := newClients(&quota{Concurrent: 1})
	a := netip.MustParseAddr("192.0.2.1")
	leave, wait := c.enter(a, time.Now())
	if wait != 0 {
		t.Fatal("the first call was refused")
	}
	if _, wait := c.enter(a, time.Now()); wait == 0 {
		t.Error("a second call at the same time passed")
	}
	leave()
	if _, wait := c.enter(a, time.Now()); wait != 0 {
		t.Error("a call after the first was refused")
	}
}

// The table of clients is bounded, whoever calls.
func TestLimitTableIsBounded(t *testing.T) {
	c := newClients(&quota{Rate: 1})
	now := time.Now()
	for i := range maxClients + 100 {
		leave, _ := c.enter(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), now)
		leave()
	}
	if len(c.table) != maxClients || c.order.Len() != maxClients {
		t.Errorf("%d and %d clients are kept", len(c.table), c.order.Len())
	}
	if _, kept := c.table[clientKey(netip.MustParseAddr("10.0.0.1"))]; kept {
		t.Error("the oldest client is still there")
	}
}

// Streams of one app are bounded; one that ends makes room.
func TestLimitStreams(t *testing.T) {
	s, _ := siteOf(t, echoConfig+"limits:\n  streams: 1\n")
	srv := httptest.NewServer(s)
	defer srv.Close()
	listen := func(ctx context.Context) *http.Response {
		t.Helper()
		body := strings.Replace(discoverBody, "server/discover", "subscriptions/listen", 1)
		body = strings.Replace(body, `"params":{`, `"params":{"notifications":{"toolsListChanged":true},`, 1)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+"/mcp/hello", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"} {
			r.Header.Set(name, value)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return res
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := listen(ctx)
	if first.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(first.Body)
		t.Fatalf("first: %d %s", first.StatusCode, b)
	}
	if text := metricsOf(t, s); !strings.Contains(text, `publisher_streams_open{app="hello"} 1`) {
		t.Errorf("metrics:\n%s", text)
	}
	if second := listen(t.Context()); second.StatusCode != http.StatusTooManyRequests || second.Header.Get("Retry-After") == "" {
		t.Errorf("second: %d", second.StatusCode)
	}
	cancel()
	first.Body.Close()
	for range 200 {
		if s.current.Load().streams.Load() == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	again, stop := context.WithCancel(t.Context())
	if third := listen(again); third.StatusCode != http.StatusOK {
		t.Errorf("after the first ended: %d", third.StatusCode)
	}
	stop()
}

// A limit by client that sees one client only is said at the start, also of one
// app.
func TestLimitBehindUnnamedProxyIsTold(t *testing.T) {
	for _, more := range []string{"limits: {client: {rate: 5}}\n", "    limits: {client: {rate: 5}}\n"} {
		log, stop := start(t, "serve", "--config", write(t, "c.yaml", echoConfig+more), "--listen", "127.0.0.1:0")
		log.wait(t, `level=WARN msg="limits.client counts all callers`)
		stop()
	}
}
