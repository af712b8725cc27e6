package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/openbot-build/openbot-go/internal/mcpgate"
)

// noLeaks checks at the end of a test that its goroutines are gone.
func noLeaks(t *testing.T) {
	t.Helper()
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		goleak.VerifyNone(t, ignore)
	})
}

// command gives the options of the test binary as an upstream.
func command(t *testing.T, mode string) *Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &Options{
		Command: []string{self}, Env: map[string]string{upstreamVar: mode},
		pause: 20 * time.Millisecond, grace: 300 * time.Millisecond,
	}
}

func open(t *testing.T, opts *Options) *Gateway {
	t.Helper()
	g, err := New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

// front serves a gateway as a publisher would.
func front(t *testing.T, g *Gateway) string {
	t.Helper()
	gate, err := mcpgate.New(g.Server(), &mcpgate.Options{Modern: g.Modern()})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(gate)
	t.Cleanup(func() {
		_ = gate.Close()
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL
}

// reply is what a modern client gets.
type reply struct {
	status int
	notes  []message // in front of the answer
	result object
	raw    string // of result
	err    *struct {
		Code    int64
		Message string
		Data    object
	}
}

// post makes one request of 2026-07-28. meta and headers are added to what each
// needs; caps are the client's capabilities, "" for none.
func post(t *testing.T, url, method, params string, meta map[string]any, headers ...string) *reply {
	t.Helper()
	r, err := tryPost(t.Context(), url, method, params, meta, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tryPost(ctx context.Context, url, method, params string, meta map[string]any, headers ...string) (*reply, error) {
	var p map[string]any
	dec := json.NewDecoder(strings.NewReader(params))
	dec.UseNumber()
	if err := dec.Decode(&p); err != nil {
		return nil, err
	}
	m := map[string]any{metaVersion: modernVersion, metaCapabilities: map[string]any{}}
	if own, ok := p["_meta"].(map[string]any); ok {
		for k, v := range own {
			m[k] = v
		}
	}
	for k, v := range meta {
		m[k] = v
	}
	p["_meta"] = m
	body := encode(map[string]any{"jsonrpc": "2.0", "id": "q<1>", "method": method, "params": p})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("MCP-Protocol-Version", modernVersion)
	req.Header.Set("Mcp-Method", method)
	for _, key := range []string{"name", "uri"} {
		if name, ok := p[key].(string); ok {
			req.Header.Set("Mcp-Name", headerValue(name))
		}
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out := &reply{status: resp.StatusCode}
	take := func(data []byte) error {
		var m message
		if err := json.Unmarshal(data, &m); err != nil {
			return fmt.Errorf("%w: %.200q", err, data)
		}
		switch {
		case m.Method != "":
			out.notes = append(out.notes, m)
			return nil
		case string(m.ID) != `"q<1>"` && string(m.ID) != `"q\u003c1\u003e"`:
			return fmt.Errorf("id %s in %.300q", m.ID, data)
		}
		out.raw = string(m.Result)
		_ = json.Unmarshal(m.Result, &out.result)
		if m.Error != nil {
			return json.Unmarshal(encode(m.Error), &out.err)
		}
		return nil
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		s := stream{max: 100 << 20}
		if err := s.read(resp.Body, take); err != io.EOF {
			return nil, err
		}
		return out, nil
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	return out, take(data)
}

func (r *reply) text(t *testing.T) string {
	t.Helper()
	var content []object
	if err := json.Unmarshal(r.result["content"], &content); err != nil || len(content) == 0 {
		t.Fatalf("no content in %s, error %+v", r.raw, r.err)
	}
	return content[0].text("text")
}

func callTool(name string) string { return `{"name":"` + name + `","arguments":{}}` }

// legacy connects a client of 2025-11-25 through the gate.
func legacy(t *testing.T, url string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	if opts == nil {
		opts = &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}}
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "old", Version: "1"}, opts)
	s, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url}, &mcp.ClientSessionOptions{ProtocolVersion: newestLegacy})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// listener is an open subscriptions/listen stream.
type listener struct {
	notes chan message
}

func listen(t *testing.T, url, notifications string) *listener {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":%s,"_meta":{%q:%q,%q:{}}}}`,
		notifications, metaVersion, modernVersion, metaCapabilities)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("MCP-Protocol-Version", modernVersion)
	req.Header.Set("Mcp-Method", methodListen)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{notes: make(chan message, 100)}
	go func() {
		defer resp.Body.Close()
		s := stream{max: 1 << 20}
		_ = s.read(bufio.NewReader(resp.Body), func(data []byte) error {
			var m message
			if err := json.Unmarshal(data, &m); err != nil {
				return err
			}
			l.notes <- m
			return nil
		})
	}()
	if m := l.next(t); m.Method != "notifications/subscriptions/acknowledged" {
		t.Fatalf("first message %+v", m)
	}
	return l
}

func (l *listener) next(t *testing.T) message {
	t.Helper()
	select {
	case m := <-l.notes:
		return m
	case <-time.After(10 * time.Second):
		t.Fatal("no notification came")
		return message{}
	}
}

// lockedBuffer collects what several goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (b *lockedBuffer) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// eventually waits for something that happens in another process.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("did not happen: %s", what)
}
