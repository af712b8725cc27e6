package mcpgate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serveLive serves h on loopback.
func serveLive(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv
}

// post sends a modern request and gives the answer as it comes.
func post(ctx context.Context, t *testing.T, srv *httptest.Server, method, name, body string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = request1(method, name, body).Header
	res, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// lines reads an event stream line by line.
func lines(res *http.Response) <-chan string {
	c := make(chan string, 100)
	go func() {
		defer close(c)
		in := bufio.NewReader(res.Body)
		for {
			line, err := in.ReadString('\n')
			if line != "" {
				c <- strings.TrimSuffix(line, "\n")
			}
			if err != nil {
				return
			}
		}
	}()
	return c
}

// nextMessage skips comments and gives the next message, nil at the end.
func nextMessage(t *testing.T, c <-chan string) map[string]any {
	t.Helper()
	timeout := time.After(10 * time.Second)
	for {
		select {
		case line, open := <-c:
			if !open {
				return nil
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				var m map[string]any
				if err := json.Unmarshal([]byte(data), &m); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				return m
			}
		case <-timeout:
			t.Fatal("no message came")
		}
	}
}

// FO-20, mcp P9: comments at the start and in silence, and never inside an event.
func TestRule_FO20_StreamsAreKeptAlive(t *testing.T) {
	release := make(chan struct{})
	s := toolServer(func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		select {
		case <-release:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return done(ctx, r)
	})
	for name, opts := range map[string]*Options{
		"direct": {}, "through the SDK": {sdkOnly: true},
		"other": {Modern: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			<-release
			_, _ = io.WriteString(w, "event: message\nda")
			time.Sleep(60 * time.Millisecond) // a pause inside an event is no place for a comment
			_, _ = io.WriteString(w, `ta: {"jsonrpc":"2.0","id":7,"result":{}}`+"\n\n")
		})},
	} {
		opts.KeepAlive, opts.grace = 20*time.Millisecond, 10*time.Millisecond
		srv := serveLive(t, gateOf(t, s, opts))
		res := post(t.Context(), t, srv, "tools/call", "one", withMeta(callOne(""), `"progressToken":1,`))
		if res.Header.Get("Content-Type") != "text/event-stream" || res.Header.Get("X-Accel-Buffering") != "no" ||
			!strings.Contains(res.Header.Get("Cache-Control"), "no-transform") || res.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: headers %v", name, res.Header)
		}
		c := lines(res)
		for comments := 0; comments < 4; {
			switch line := within(t, "a comment", c); {
			case strings.HasPrefix(line, ":"):
				comments++
			case line != "":
				t.Errorf("%s: %q in silence", name, line)
			}
		}
		release <- struct{}{}
		if m := nextMessage(t, c); m["id"] != 7.0 || m["result"] == nil {
			t.Errorf("%s: %v", name, m)
		}
	}
}

// A stream that is open can no longer have a status: errors are events, whatever
// they were.
func TestStreamFramesWhatComesLate(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"JSON in pieces": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(400)
			_, _ = io.WriteString(w, "{\"jsonrpc\":\"2.0\",\n\"id\":7,")
			_, _ = io.WriteString(w, `"error":{"code":-32602,"message":"late"}}`)
		}, `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"late"}}`},
		"text": {
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "it is broken", 500) },
			`{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"it is broken"}}`,
		},
	} {
		slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(30 * time.Millisecond)
			c.answer(w, r)
		})
		g := gateOf(t, toolServer(done), &Options{Modern: slow, grace: time.Millisecond})
		res := post(t.Context(), t, serveLive(t, g), "tools/call", "one", withMeta(callOne(""), `"progressToken":1,`))
		body, _ := io.ReadAll(res.Body)
		if want := ": \n\nevent: message\ndata: " + c.want + "\n\n"; res.StatusCode != 200 || string(body) != want {
			t.Errorf("%s: status %d\n got %q\nwant %q", name, res.StatusCode, body, want)
		}
		// In time it has its own status.
		g = gateOf(t, toolServer(done), &Options{Modern: c.answer})
		if e := exchangeWith(t, g, "tools/call", "one", withMeta(callOne(""), `"progressToken":1,`)); e.Status < 400 {
			t.Errorf("%s, in time: status %d", name, e.Status)
		}
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come", what)
		}
	}
}

// stalled opens a call on a connection that is never read.
func stalled(t *testing.T, srv *httptest.Server, method, name, body string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	r := request1(method, name, body)
	r.Header.Set("Content-Length", fmt.Sprint(len(body)))
	var head strings.Builder
	_ = r.Header.Write(&head)
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\n%s\r\n%s", head.String(), body)
	return conn
}

// mcp S14: a client that does not read is dropped after the write timeout; it
// holds up nobody for longer.
func TestRule_McpS14_StalledReader(t *testing.T) {
	s := listenServer()
	big := strings.Repeat("x", 8<<20)
	ended := make(chan error, 2)
	rawTool(s, "flood", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for ctx.Err() == nil {
			_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: 1, Message: big[:100<<10]})
		}
		ended <- context.Cause(ctx)
		return nil, ctx.Err()
	})
	var returned atomic.Int32
	rawTool(s, "big", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: big}}}, nil
	})
	g := gateOf(t, s, &Options{WriteTimeout: 200 * time.Millisecond})
	srv := serveLive(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.ServeHTTP(w, r)
		returned.Add(1)
	}))
	stalled(t, srv, "tools/call", "flood", withMeta(simple("tools/call", `"name":"flood",`), `"progressToken":1,`))
	if err := within(t, "the end of a call that nobody reads", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("ended by %v", err)
	}
	stalled(t, srv, "tools/call", "big", simple("tools/call", `"name":"big",`))
	eventually(t, "the end of an answer that nobody reads", func() bool { return returned.Load() == 2 })

	// Who reads slowly gets everything.
	res := post(t.Context(), t, srv, "tools/call", "big", simple("tools/call", `"name":"big",`))
	n := 0
	for buf := make([]byte, 1<<20); ; time.Sleep(40 * time.Millisecond) {
		k, err := io.ReadFull(res.Body, buf)
		n += k
		if err != nil {
			break
		}
	}
	if n < len(big) {
		t.Errorf("a slow reader got %d octets of %d", n, len(big))
	}
	// The connection serves on after the deadline of the last answer.
	time.Sleep(250 * time.Millisecond)
	if res := post(t.Context(), t, srv, "tools/call", "one", callOne("")); res.StatusCode != 200 {
		t.Errorf("the next call: status %d", res.StatusCode)
	}
}

// FO-25, mcp P9: a client that leaves cancels its call, with a stream or without,
// and nothing stays.
func TestRule_FO25_LeavingCancels(t *testing.T) {
	began, ended := make(chan struct{}, 1), make(chan error, 1)
	s := toolServer(func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: 1})
		began <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	})
	for name, opts := range map[string]*Options{"direct": {}, "through the SDK": {sdkOnly: true}} {
		srv := serveLive(t, gateOf(t, s, opts))
		for _, body := range []string{callOne(""), withMeta(callOne(""), `"progressToken":1,`)} {
			ctx, leave := context.WithCancel(t.Context())
			go func() {
				r, _ := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL, strings.NewReader(body))
				r.Header = request1("tools/call", "one", body).Header
				if res, err := srv.Client().Do(r); err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
			}()
			within(t, "the call", began)
			left := time.Now()
			leave()
			if err := within(t, "the end of the call", ended); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: ended by %v", name, err)
			}
			t.Logf("%s: cancelled after %v", name, time.Since(left))
		}
		eventually(t, "the end of the sessions", func() bool {
			n := 0
			for range s.Sessions() {
				n++
			}
			return n == 0
		})
	}
}
