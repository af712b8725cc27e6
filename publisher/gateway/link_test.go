package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What waits for a slow client is bounded in bytes, and one large message still
// comes.
func TestQueueIsBoundedInBytes(t *testing.T) {
	c := &call{events: make(chan *message, maxEvents)}
	note := func(size int) *message {
		return &message{Method: noteLog, Params: json.RawMessage(strings.Repeat("x", size))}
	}
	if !c.queue(note(16 << 20)) {
		t.Error("a large message was dropped though none waited")
	}
	if c.queue(note(1)) {
		t.Error("a second one was taken")
	}
	c.took(<-c.events)
	taken := 0
	for c.queue(note(100 << 10)) {
		taken++
	}
	if taken != maxQueued/(100<<10) {
		t.Errorf("%d of 100 KiB are kept", taken)
	}
	for len(c.events) > 0 {
		c.took(<-c.events)
	}
	if n := c.queued.Load(); n != 0 {
		t.Errorf("%d bytes are left of nothing", n)
	}
	for taken = 0; c.queue(note(1)); {
		taken++
	}
	if taken != maxEvents || c.queued.Load() != maxEvents {
		t.Errorf("%d small ones, %d bytes", taken, c.queued.Load())
	}
}

// silentChannel takes everything and answers nothing.
type silentChannel struct{}

func (silentChannel) send(context.Context, *message, *call) error { return nil }
func (silentChannel) perCall() bool                               { return false }
func (silentChannel) close()                                      {}

// A command that says nothing is given up, but not before the newest call had
// its time, and not never because calls keep coming.
func TestSilentCommandAndItsNewestCall(t *testing.T) {
	g := &Gateway{opts: Options{Command: []string{"x"}, CallTimeout: time.Minute, check: 10 * time.Millisecond, Log: slog.New(slog.DiscardHandler)}}
	ping := func(silent, age time.Duration) error {
		l := newLink(silentChannel{})
		l.debug = func(string, ...any) {}
		c := l.start(t.Context(), &call{}, methodCall, nil)
		defer l.fail(errors.New("over"))
		c.seen.Store(time.Now().Add(-age).UnixNano())
		l.mu.Lock()
		l.seen = time.Now().Add(-silent)
		l.mu.Unlock()
		return g.ping(t.Context(), l)
	}
	for _, tt := range []struct {
		silent, age time.Duration
		ends        bool
	}{
		{50 * time.Second, 50 * time.Second, false},
		{70 * time.Second, 40 * time.Second, false}, // the newest call has 20 s left
		{70 * time.Second, 61 * time.Second, true},
		{125 * time.Second, 5 * time.Second, true},
	} {
		if err := ping(tt.silent, tt.age); (err != nil) != tt.ends {
			t.Errorf("silent for %v, newest call %v: %v", tt.silent, tt.age, err)
		}
	}
}

// A panic costs one request of an older client, and is logged without secrets.
func TestPanicInGateway(t *testing.T) {
	var log lockedBuffer
	g := &Gateway{opts: Options{Log: log.log()}, secrets: newScrubber(&Options{Env: map[string]string{"API_KEY": "sk-secret-1"}})}
	h := g.middleware(func(context.Context, string, mcp.Request) (mcp.Result, error) { panic("boom sk-secret-1") })
	_, err := h(t.Context(), "x", &mcp.ServerRequest[*mcp.PingParams]{Session: &mcp.ServerSession{}})
	if rpc, ok := errors.AsType[*jsonrpc.Error](err); !ok || rpc.Code != jsonrpc.CodeInternalError {
		t.Errorf("error %v", err)
	}
	if out := log.String(); !strings.Contains(out, "panic in the gateway") || !strings.Contains(out, "boom") || strings.Contains(out, "sk-secret") {
		t.Errorf("log %s", out)
	}
}

// Secrets of an address and of a command's arguments are in no error and no log.
func TestSecretsOfAddressAndArguments(t *testing.T) {
	s := newScrubber(&Options{
		URL: "https://eve:pass-word-1@mcp.example/x?key=query-secret-1&b=with%20space-2",
		Command: []string{
			"server", "--port", "8080800", "--api-key", "arg-secret-3", "--token=arg-secret-4", "DB_PASSWORD=arg-secret-5", "--verbose-token", "--plain-flag",
			"postgres://u:arg-secret-6@db/x", "--url=https://h.example/?t=arg-secret-7",
		},
	})
	for _, secret := range []string{
		"pass-word-1", "query-secret-1", "with%20space-2", "with space-2", "arg-secret-3", "arg-secret-4", "arg-secret-5", "arg-secret-6", "arg-secret-7",
	} {
		if got := string(s.all([]byte("it says " + secret + "!"))); got != "it says "+removed+"!" {
			t.Errorf("%s: %s", secret, got)
		}
		if got := string(s.result([]byte(`"` + secret + `"`))); got == removed {
			t.Errorf("%s is cut out of results", secret)
		}
	}
	for _, plain := range []string{"8080800", "--plain-flag", "--verbose-token", "mcp.example", "server"} {
		if got := string(s.all([]byte(plain))); got != plain {
			t.Errorf("%s: %s", plain, got)
		}
	}
}
