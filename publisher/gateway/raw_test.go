package gateway

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// scripted is an HTTP upstream of 2026-07-28 whose calls are answered by hand.
type scripted struct {
	call  func(w http.ResponseWriter, r *http.Request, m *message)
	calls atomic.Int32

	capabilities string // "" is tools and resources

	mu   sync.Mutex
	last http.Header
	body string
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m message
	_ = json.Unmarshal(body, &m)
	answer := func(result string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}
	switch m.Method {
	case methodDiscover:
		answer(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":` + cmp.Or(s.declared(), `{"tools":{},"resources":{}}`) + `,"ttlMs":0,"cacheScope":"public"}`)
	case "tools/list":
		answer(`{"resultType":"complete","ttlMs":5,"cacheScope":"public","tools":[{"name":"t","description":"T.","inputSchema":{"type":"object"}},` +
			`{"name":"日","description":"D.","inputSchema":{"type":"object"}},` +
			`{"name":"h","description":"H.","inputSchema":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"R"}}}}]}`)
	case "resources/list":
		answer(`{"resultType":"complete","ttlMs":5,"cacheScope":"public","resources":[{"uri":"test://日","name":"d"}]}`)
	case "resources/templates/list":
		answer(`{"resultType":"complete","ttlMs":5,"cacheScope":"public","resourceTemplates":[]}`)
	case methodListen:
		w.WriteHeader(http.StatusNotFound)
	default:
		s.calls.Add(1)
		s.mu.Lock()
		s.last, s.body = r.Header.Clone(), string(body)
		s.mu.Unlock()
		s.call(w, r, &m)
	}
}

func (s *scripted) declared() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.capabilities
}

func (s *scripted) seen() (http.Header, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, s.body
}

func (s *scripted) options(t *testing.T) *Options { return serveHTTP(t, s) }

func sse(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		_, _ = io.WriteString(w, e)
	}
	_ = http.NewResponseController(w).Flush()
}

// unusual is a result that no set of types would keep as it is.
const unusual = `{ "content":[{"type":"future","z":1.50,"a":"<&>"}], "n":12345678901234567890, "resultType" : "complete" }`

// A modern upstream's result is copied byte for byte; names and headers are
// made anew.
func TestForward(t *testing.T) {
	noLeaks(t)
	up := &scripted{call: func(w http.ResponseWriter, _ *http.Request, m *message) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, unusual)
	}}
	g := open(t, up.options(t))
	url := front(t, g)
	if r := post(t, url, methodCall, callTool("t"), nil); r.raw != unusual {
		t.Errorf("result %s", r.raw)
	}
	head, body := up.seen()
	if head.Get("Mcp-Method") != methodCall || head.Get("Mcp-Name") != "t" || head.Get("Mcp-Protocol-Version") != modernVersion {
		t.Errorf("headers %v", head)
	}
	if !strings.Contains(body, `"id":"q<1>"`) {
		t.Errorf("body %s", body)
	}
	post(t, url, methodCall, callTool(g.Corrections()[0].To), nil)
	if head, body = up.seen(); head.Get("Mcp-Name") != "=?base64?5pel?=" || !strings.Contains(body, `"name":"日"`) {
		t.Errorf("corrected: %v %s", head, body)
	}
	post(t, url, methodRead, `{"uri":"test://%E6%97%A5"}`, nil)
	if head, body = up.seen(); head.Get("Mcp-Name") != headerValue("test://日") || !strings.Contains(body, `"uri":"test://日"`) {
		t.Errorf("corrected: %v %s", head, body)
	}
	post(t, url, methodCall, `{"name":"h","arguments":{"r":"eu"}}`, nil, "Mcp-Param-R", "eu", "Mcp-Param-X", "not declared")
	if head, _ = up.seen(); head.Get("Mcp-Param-R") != "eu" || head.Get("Mcp-Param-X") != "" {
		t.Errorf("parameters: %v", head)
	}
	before := up.calls.Load()
	for _, value := range []string{"", "us"} {
		var h []string
		if value != "" {
			h = []string{"Mcp-Param-R", value}
		}
		if r := post(t, url, methodCall, `{"name":"h","arguments":{"r":"eu"}}`, nil, h...); r.status != 400 || r.err.Code != -32020 {
			t.Errorf("parameter %q: %d %+v", value, r.status, r.err)
		}
	}
	if up.calls.Load() != before {
		t.Error("a refused call reached the upstream")
	}
	// Methods of extensions pass too.
	if r := post(t, url, "com.example/own", `{"x":1}`, nil); r.raw != unusual {
		t.Errorf("extension %s %+v", r.raw, r.err)
	}
	if r := post(t, url, "tools/list", `{}`, nil); string(r.result["ttlMs"]) != "5" || r.result.text("cacheScope") != "public" {
		t.Errorf("list %s", r.raw)
	}
	if r := post(t, url, "tools/list", `{"cursor":"9"}`, nil); r.err == nil || r.err.Code != -32602 || r.status != 400 {
		t.Errorf("bad cursor: %d %+v", r.status, r.err)
	}
}

// An older upstream's result keeps what this package does not know.
func TestUnknownMembersPass(t *testing.T) {
	noLeaks(t)
	url := front(t, open(t, command(t, "plain")))
	r := post(t, url, methodCall, callTool("t"), nil)
	for _, part := range []string{`{"type":"future","z":1.50,"a":"<&>"}`, `"x-new":{"k":[1]}`, `"b":12345678901234567890`} {
		if !strings.Contains(r.raw, part) {
			t.Errorf("%s is not in %s", part, r.raw)
		}
	}
	if r := post(t, url, methodRead, `{"uri":"x:y"}`, nil); r.err == nil || r.err.Code != -32602 { // -32002 there (mcp P10)
		t.Errorf("unknown resource: %+v", r.err)
	}
}

func TestPrivate(t *testing.T) {
	noLeaks(t)
	up := &scripted{call: func(w http.ResponseWriter, _ *http.Request, m *message) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"contents":[],"resultType":"complete","ttlMs":1,"cacheScope":"public"}}`, m.ID)
	}}
	opts := up.options(t)
	opts.Private = true
	url := front(t, open(t, opts))
	for method, params := range map[string]string{"tools/list": `{}`, methodRead: `{"uri":"a:b"}`, methodDiscover: `{}`} {
		if r := post(t, url, method, params, nil); r.result.text("cacheScope") != "private" {
			t.Errorf("%s: %s", method, r.raw)
		}
	}
}

// Each event goes out when it comes, and messages that have no place in this
// revision stay behind.
func TestRule_FO20_EventsPassAtOnce(t *testing.T) {
	noLeaks(t)
	next := make(chan struct{})
	up := &scripted{call: func(w http.ResponseWriter, r *http.Request, m *message) {
		sse(w, ": hello\n\n", `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1,"own":[2]}}`+"\n\n")
		select {
		case <-next:
		case <-r.Context().Done():
			return
		}
		sse(w, `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`+"\n\n",
			`data: {"jsonrpc":"2.0","id":5,"method":"elicitation/create","params":{}}`+"\n\n",
			"id: 3\nevent: message\n", fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":%s,\"result\":%s}\n\n", m.ID, unusual))
	}}
	url := front(t, open(t, up.options(t)))
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":1,%q:%q,%q:{}}}}`,
		metaVersion, modernVersion, metaCapabilities)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": modernVersion, "Mcp-Method": methodCall, "Mcp-Name": "t",
	} {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("X-Accel-Buffering") != "no" {
		t.Errorf("headers %v", resp.Header)
	}
	var got []string
	s := stream{max: 1 << 20}
	_ = s.read(resp.Body, func(data []byte) error {
		got = append(got, string(data))
		if len(got) == 1 {
			close(next) // the rest comes only when the first is here
		}
		return nil
	})
	if len(got) != 2 || !strings.Contains(got[0], `"own":[2]`) || !strings.Contains(got[1], `"n":12345678901234567890`) {
		t.Errorf("events %q", got)
	}
	r := post(t, url, methodCall, callTool("t"), map[string]any{metaLogLevel: "info"})
	if len(r.notes) != 2 {
		t.Errorf("with a log level: %+v", r.notes)
	}
}

// What can go wrong with the answer of an HTTP upstream; nothing is sent twice.
func TestRule_FO23_BrokenAnswers(t *testing.T) {
	abort := func(http.ResponseWriter, *http.Request, *message) { panic(http.ErrAbortHandler) }
	for name, c := range map[string]struct {
		call    func(http.ResponseWriter, *http.Request, *message)
		outcome string
		says    string
	}{
		"connection closed": {abort, "unknown", "ended before it answered"},
		"closed mid-answer": {func(w http.ResponseWriter, r *http.Request, m *message) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0",`)
			abort(w, r, m)
		}, "unknown", "ended before it answered"},
		"stream ends early": {func(w http.ResponseWriter, _ *http.Request, _ *message) {
			sse(w, `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`+"\n\n")
		}, "unknown", "ended before it answered"},
		"garbage": {func(w http.ResponseWriter, _ *http.Request, _ *message) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`)
		}, "unknown", "no MCP message"},
		"garbage event": {func(w http.ResponseWriter, _ *http.Request, _ *message) {
			sse(w, "data: <html>\n\n")
		}, "unknown", "no MCP message"},
		"a page": {func(w http.ResponseWriter, _ *http.Request, _ *message) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, `<html>`)
		}, "unknown", "no MCP message"},
		"another id": {func(w http.ResponseWriter, _ *http.Request, _ *message) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":"other","result":{}}`)
		}, "unknown", "something else"},
		"bad gateway": {func(w http.ResponseWriter, _ *http.Request, _ *message) {
			http.Error(w, "internal-host-17 is down", http.StatusBadGateway)
		}, "unknown", "HTTP status 502"},
		"forbidden": {func(w http.ResponseWriter, _ *http.Request, _ *message) {
			http.Error(w, "no", http.StatusForbidden)
		}, "not_sent", "refuses its publisher"},
		"too many": {func(w http.ResponseWriter, _ *http.Request, _ *message) {
			http.Error(w, "no", http.StatusTooManyRequests)
		}, "not_sent", "HTTP status 429"},
		"large": {func(w http.ResponseWriter, _ *http.Request, m *message) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}`, m.ID, strings.Repeat("x", 2<<20))
		}, "unknown", "larger than 1048576 bytes"},
		"large event": {func(w http.ResponseWriter, _ *http.Request, m *message) {
			sse(w, fmt.Sprintf(`data: {"jsonrpc":"2.0","id":%s,"result":{"text":"%s"}}`+"\n\n", m.ID, strings.Repeat("x", 2<<20)))
		}, "unknown", "larger than 1048576 bytes"},
		"silence": {func(w http.ResponseWriter, r *http.Request, _ *message) {
			sse(w, ": here\n\n")
			<-r.Context().Done()
		}, "unknown", "no sign of life for 300ms"},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			up := &scripted{call: c.call}
			opts := up.options(t)
			opts.MaxResult, opts.CallTimeout = 1<<20, 300*time.Millisecond
			url := front(t, open(t, opts))
			for i, meta := range []map[string]any{nil, {progressToken: 1}} {
				r := post(t, url, methodCall, callTool("t"), meta)
				if r.err == nil || r.err.Data.text("outcome") != c.outcome || !strings.Contains(r.err.Message, c.says) {
					t.Errorf("%s %+v", r.raw, r.err)
				}
				if r.err != nil && strings.Contains(r.err.Message, "internal-host") {
					t.Errorf("internals: %q", r.err.Message)
				}
				if n := int(up.calls.Load()); n != i+1 {
					t.Errorf("%d calls reached the upstream", n)
				}
			}
			// The generic way, which older clients go.
			old := legacy(t, url, nil)
			_, err := old.CallTool(t.Context(), &toolParams{Name: "t"})
			if err == nil || !strings.Contains(err.Error(), c.says) || up.calls.Load() != 3 {
				t.Errorf("older client: %v, %d calls", err, up.calls.Load())
			}
		})
	}
}

// A result of 50 MB over HTTP costs no more memory than its limit.
func TestLargeAnswerIsBounded(t *testing.T) {
	noLeaks(t)
	chunk := strings.Repeat("x", 1<<20)
	up := &scripted{call: func(w http.ResponseWriter, _ *http.Request, m *message) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"t":"`, m.ID)
		for range 50 {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, `"}}`)
	}}
	opts := up.options(t)
	opts.MaxResult = 1 << 20
	url := front(t, open(t, opts))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if r := post(t, url, methodCall, callTool("t"), nil); r.err == nil {
		t.Error("it passed")
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 12<<20 {
		t.Errorf("%d bytes were allocated", grown)
	}
}

// Comments are signs of life.
func TestCommentsKeepACallAlive(t *testing.T) {
	noLeaks(t)
	up := &scripted{call: func(w http.ResponseWriter, _ *http.Request, m *message) {
		for range 8 {
			sse(w, ": working\n\n")
			time.Sleep(100 * time.Millisecond)
		}
		sse(w, fmt.Sprintf(`data: {"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[]}}`+"\n\n", m.ID))
	}}
	opts := up.options(t)
	opts.CallTimeout = 400 * time.Millisecond
	url := front(t, open(t, opts))
	if r := post(t, url, methodCall, callTool("t"), nil); r.err != nil {
		t.Errorf("modern client: %+v", r.err)
	}
	if _, err := legacy(t, url, nil).CallTool(t.Context(), &toolParams{Name: "t"}); err != nil {
		t.Errorf("older client: %v", err)
	}
}

// An HTTP upstream that goes away and comes back.
func TestHTTPUpstreamDown(t *testing.T) {
	noLeaks(t)
	up := &scripted{call: func(w http.ResponseWriter, _ *http.Request, m *message) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, unusual)
	}}
	srv := httptest.NewServer(up)
	addr := srv.Listener.Addr().String()
	g := open(t, &Options{URL: srv.URL, check: 50 * time.Millisecond})
	url := front(t, g)
	srv.CloseClientConnections()
	srv.Close()
	r := post(t, url, methodCall, callTool("t"), nil)
	if r.err == nil || r.err.Data.text("outcome") != "not_sent" || strings.Contains(r.err.Message, addr) {
		t.Errorf("down: %s %+v", r.raw, r.err)
	}
	eventually(t, "readiness says so", func() bool { return g.Ready() != nil })
	if r := post(t, url, "tools/list", `{}`, nil); r.result == nil {
		t.Errorf("list while down: %+v", r.err)
	}
	var back *httptest.Server
	eventually(t, "it listens again", func() bool {
		var lc net.ListenConfig
		l, err := lc.Listen(t.Context(), "tcp", addr)
		if err != nil {
			return false
		}
		back = httptest.NewUnstartedServer(up)
		_ = back.Listener.Close()
		back.Listener = l
		back.Start()
		return true
	})
	defer back.Close()
	defer back.CloseClientConnections()
	eventually(t, "readiness says so", func() bool { return g.Ready() == nil })
	if r := post(t, url, methodCall, callTool("t"), nil); r.raw != unusual {
		t.Errorf("back: %+v", r.err)
	}
}
