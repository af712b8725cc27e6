package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type toolParams = mcp.CallToolParams

// older is an HTTP upstream of 2025-11-25 by hand, with sessions that can be
// ended and streams that can be resumed.
type older struct {
	session  atomic.Int32
	calls    atomic.Int32
	resumed  atomic.Int32
	breakOff atomic.Bool  // end the stream of the next call early
	broken   atomic.Value // the id of that call
}

func (o *older) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := fmt.Sprintf("s%d", o.session.Load())
	if r.Method == http.MethodGet {
		if r.Header.Get("Last-Event-ID") != "e1" {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		o.resumed.Add(1)
		sse(w, `data: {"jsonrpc":"2.0","id":`+o.broken.Load().(string)+`,"result":{"content":[],"resumed":true}}`+"\n\n")
		return
	}
	body, _ := io.ReadAll(r.Body)
	var m message
	if json.Unmarshal(body, &m) != nil || m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if m.Method != "initialize" && r.Header.Get("Mcp-Session-Id") != id {
		status := http.StatusNotFound
		if r.Header.Get("Mcp-Session-Id") == "" {
			status = http.StatusBadRequest
		}
		http.Error(w, "no session", status)
		return
	}
	answer := func(result string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}
	switch m.Method {
	case "initialize":
		w.Header().Set("Mcp-Session-Id", fmt.Sprintf("s%d", o.session.Add(1)))
		answer(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}`)
	case "tools/list":
		answer(`{"tools":[{"name":"t","description":"T.","inputSchema":{"type":"object"}}]}`)
	case "tools/call":
		o.calls.Add(1)
		if o.breakOff.Load() {
			o.broken.Store(string(m.ID))
			sse(w, "id: e1\nretry: 10\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progress\":"+string(m.ID)+"}}\n\n")
			return
		}
		answer(`{"content":[],"version":"` + r.Header.Get("MCP-Protocol-Version") + `"}`)
	default:
		answer(`{}`)
	}
}

// A session that the upstream has ended: the call was refused, not run, and a
// new session follows.
func TestSessionLost(t *testing.T) {
	noLeaks(t)
	up := &older{}
	opts := serveHTTP(t, up)
	opts.pause = 20 * time.Millisecond
	g := open(t, opts)
	url := front(t, g)
	if r := post(t, url, methodCall, callTool("t"), nil); r.result.text("version") != newestLegacy {
		t.Errorf("result %s %+v", r.raw, r.err)
	}
	up.session.Add(1)
	r := post(t, url, methodCall, callTool("t"), nil)
	if r.err == nil || r.err.Data.text("outcome") != "not_sent" || up.calls.Load() != 1 {
		t.Errorf("lost session: %s %+v", r.raw, r.err)
	}
	eventually(t, "a new session", func() bool { return post(t, url, methodCall, callTool("t"), nil).err == nil })
}

// An older server may end a call's stream and be asked for the rest: the call
// is not sent again.
func TestResume(t *testing.T) {
	noLeaks(t)
	up := &older{}
	url := front(t, open(t, serveHTTP(t, up)))
	up.breakOff.Store(true)
	r := post(t, url, methodCall, callTool("t"), nil)
	if string(r.result["resumed"]) != "true" || up.calls.Load() != 1 || up.resumed.Load() != 1 {
		t.Errorf("%d calls, %d resumed: %s %+v", up.calls.Load(), up.resumed.Load(), r.raw, r.err)
	}
}

// The stream of an HTTP+SSE server cannot lead the credentials elsewhere.
func TestEndpointOnAnotherOrigin(t *testing.T) {
	noLeaks(t)
	opts := serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			http.Error(w, "no", http.StatusMethodNotAllowed)
			return
		}
		sse(w, "event: endpoint\ndata: http://203.0.113.7/messages\n\n")
		<-r.Context().Done()
	}))
	opts.StartTimeout = 300 * time.Millisecond
	opts.pause = 100 * time.Millisecond
	if _, err := New(t.Context(), opts); err == nil {
		t.Error("it was accepted")
	}
}

// Who refuses the credentials is not asked again as an older server.
func TestDeniedIsNotOlder(t *testing.T) {
	noLeaks(t)
	var methods atomic.Int32
	opts := serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), methodDiscover) {
			methods.Add(1)
		}
		http.Error(w, "no", http.StatusUnauthorized)
	}))
	opts.StartTimeout, opts.pause = 200*time.Millisecond, 50*time.Millisecond
	_, err := New(t.Context(), opts)
	if err == nil || !strings.Contains(err.Error(), "HTTP status 401") || methods.Load() != 0 {
		t.Errorf("%d other methods, %v", methods.Load(), err)
	}
}

// An upstream that comes up while New waits is taken.
func TestLateUpstream(t *testing.T) {
	noLeaks(t)
	var tries atomic.Int32
	inner := mcp.NewStreamableHTTPHandler(same(testServer()), &mcp.StreamableHTTPOptions{Stateless: true})
	opts := serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tries.Add(1) < 3 {
			http.Error(w, "starting", http.StatusServiceUnavailable)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	opts.pause = 20 * time.Millisecond
	g := open(t, opts)
	if info, _ := g.Info(); info.Name != "com.example/everything" {
		t.Errorf("info %+v", info)
	}
}

func TestNewEndsWithItsContext(t *testing.T) {
	noLeaks(t)
	opts := serveHTTP(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not see its client leave
		<-r.Context().Done()
	}))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := New(ctx, opts); err == nil || !strings.Contains(err.Error(), "deadline") {
		t.Errorf("error %v", err)
	}
}
