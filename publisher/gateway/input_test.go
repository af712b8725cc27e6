package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/internal/mcpgate"
)

// olderUpstreams are those that send requests to their clients.
func olderUpstreams(t *testing.T, change func(*Options), test func(t *testing.T, era string, g *Gateway, url string)) {
	for _, era := range []string{"command", "legacy", "sse"} {
		t.Run(era, func(t *testing.T) {
			noLeaks(t)
			opts := upstreams[era](t)
			if change != nil {
				change(opts)
			}
			g := open(t, opts)
			test(t, era, g, front(t, g))
		})
	}
}

func declare(caps string) map[string]any {
	return map[string]any{metaCapabilities: json.RawMessage(caps)}
}

// A question of an older upstream becomes an input request for a modern client
// that declared it (mcp P15).
func TestRule_McpP15_QuestionBecomesInputRequest(t *testing.T) {
	olderUpstreams(t, nil, func(t *testing.T, _ string, g *Gateway, url string) {
		first := post(t, url, methodCall, callTool("ask"), declare(`{"elicitation":{"form":{}}}`))
		if first.result.text("resultType") != typeInputRequired {
			t.Fatalf("result %s %+v", first.raw, first.err)
		}
		ask := first.result.object("inputRequests").object("input")
		if ask.text("method") != methodElicit || ask.object("params").text("message") != "Who?" || ask.object("params")["requestedSchema"] == nil {
			t.Errorf("input request %s", first.raw)
		}
		state := first.result.text("requestState")
		with := func(params string) string {
			return fmt.Sprintf(`{"requestState":%q,"inputResponses":{"input":{"action":"accept","content":{"name":"Eve"}}},%s`, state, params[1:])
		}
		// The state is this request's: another tool, or other arguments, get nothing.
		for _, other := range []string{`{"name":"ask","arguments":{"x":1}}`, `{"name":"echo","arguments":{}}`} {
			if r := post(t, url, methodCall, with(other), nil); r.err == nil || r.err.Code != -32602 {
				t.Errorf("%s: %s", other, r.raw)
			}
		}
		// An answer is missing: asked again, with a new state.
		again := post(t, url, methodCall, fmt.Sprintf(`{"requestState":%q,"name":"ask","arguments":{}}`, state), nil)
		if again.result.text("resultType") != typeInputRequired || again.result.text("requestState") == state {
			t.Fatalf("asked again: %s", again.raw)
		}
		used := state
		state = again.result.text("requestState")
		if r := post(t, url, methodCall, with(callTool("ask")), nil); r.text(t) != "accept Eve" {
			t.Errorf("answer %s", r.raw)
		}
		for _, state = range []string{used, state, "guess"} { // once
			if r := post(t, url, methodCall, with(callTool("ask")), nil); r.err == nil || r.err.Code != -32602 {
				t.Errorf("state %q again: %s", state, r.raw)
			}
		}
		if n := len(g.slots); n != 0 {
			t.Errorf("%d calls under way", n)
		}
	})
}

func TestSampling(t *testing.T) {
	olderUpstreams(t, nil, func(t *testing.T, _ string, _ *Gateway, url string) {
		first := post(t, url, methodCall, callTool("sample"), declare(`{"sampling":{}}`))
		state := first.result.text("requestState")
		r := post(t, url, methodCall, fmt.Sprintf(`{"name":"sample","arguments":{},"requestState":%q,"inputResponses":{"input":`+
			`{"role":"assistant","model":"m1","content":{"type":"text","text":"hello"}}}}`, state), nil)
		if r.text(t) != "m1: hello" {
			t.Errorf("result %s", r.raw)
		}
	})
}

// A client that has not declared what is asked gets no question, and the
// upstream a clear error.
func TestUndeclared(t *testing.T) {
	olderUpstreams(t, nil, func(t *testing.T, _ string, _ *Gateway, url string) {
		for caps, tool := range map[string]string{`{}`: "ask", `{"elicitation":{"url":{}}}`: "ask", `{"roots":{}}`: "roots"} {
			r := post(t, url, methodCall, callTool(tool), declare(caps))
			if r.err == nil || r.err.Code != -31999 || !strings.Contains(r.err.Message, "not") {
				t.Errorf("%s with %s: %s %+v", tool, caps, r.raw, r.err)
			}
		}
	})
}

func TestRoots(t *testing.T) {
	olderUpstreams(t, func(o *Options) { o.Roots = true }, func(t *testing.T, _ string, _ *Gateway, url string) {
		first := post(t, url, methodCall, callTool("roots"), declare(`{"roots":{}}`))
		state := first.result.text("requestState")
		r := post(t, url, methodCall, fmt.Sprintf(`{"name":"roots","arguments":{},"requestState":%q,"inputResponses":{"input":`+
			`{"roots":[{"uri":"file:///a"}]}}}`, state), nil)
		if r.text(t) != "1 roots" {
			t.Errorf("result %s", r.raw)
		}
	})
}

// Older clients are asked as they are used to.
func TestOlderClientIsAsked(t *testing.T) {
	olderUpstreams(t, nil, func(t *testing.T, _ string, _ *Gateway, url string) {
		c := legacy(t, url, &mcp.ClientOptions{
			Capabilities: &mcp.ClientCapabilities{},
			ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Old " + r.Params.Message}}, nil
			},
			CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
				return &mcp.CreateMessageResult{Model: "m2", Role: "assistant", Content: &mcp.TextContent{Text: "yes"}}, nil
			},
		})
		for tool, want := range map[string]string{"ask": "accept Old Who?", "sample": "m2: yes"} {
			res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: map[string]any{}})
			if err != nil {
				t.Fatal(err)
			}
			if got := res.Content[0].(*mcp.TextContent).Text; got != want {
				t.Errorf("%s: %q", tool, got)
			}
		}
		silent := legacy(t, url, nil)
		if _, err := silent.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask", Arguments: map[string]any{}}); err == nil {
			t.Error("a client without elicitation was asked")
		}
	})
}

// What cannot be tied to one call is given to none (a wrong guess would show
// one user's question to another).
func TestAmbiguousQuestionIsRefused(t *testing.T) {
	noLeaks(t)
	g := open(t, command(t, "sdk"))
	url := front(t, g)
	file := t.TempDir() + "/f"
	ctx, cancel := context.WithCancel(t.Context())
	var slow sync.WaitGroup
	slow.Go(func() {
		_, _ = tryPost(ctx, url, methodCall, fmt.Sprintf(`{"name":"slow","arguments":{"file":%q}}`, file), nil)
	})
	eventually(t, "the slow call starts", func() bool { return exists(file + ".started") })
	r := post(t, url, methodCall, callTool("ask"), declare(`{"elicitation":{}}`))
	if r.err == nil || !strings.Contains(r.err.Message, "tied to one call") {
		t.Errorf("result %s %+v", r.raw, r.err)
	}
	cancel()
	slow.Wait()
	// A call that waits for a client's answer counts: the question may be its own.
	eventually(t, "the slow call ends", func() bool { return exists(file) })
	var first *reply
	eventually(t, "the upstream has answered the cancelled call", func() bool {
		first = post(t, url, methodCall, callTool("ask"), declare(`{"elicitation":{}}`))
		return first.err == nil
	})
	if r := post(t, url, methodCall, callTool("ask"), declare(`{"elicitation":{}}`)); r.err == nil || !strings.Contains(r.err.Message, "tied to one call") {
		t.Errorf("beside a parked call: %s", r.raw)
	}
	answer := fmt.Sprintf(`{"name":"ask","arguments":{},"requestState":%q,"inputResponses":{"input":{"action":"accept","content":{"name":"One"}}}}`,
		first.result.text("requestState"))
	if got := post(t, url, methodCall, answer, nil); got.text(t) != "accept One" {
		t.Errorf("the parked call: %s", got.raw)
	}
	if r := post(t, url, methodCall, callTool("ask"), declare(`{"elicitation":{}}`)); r.err != nil {
		t.Errorf("when it has ended: %+v", r.err)
	}
}

// Whose question a message may be, on a transport that does not say.
func TestOwner(t *testing.T) {
	for _, tt := range []struct {
		name  string
		calls []*call
		left  []string // principals
		want  string
	}{
		{name: "none"},
		{name: "one", calls: []*call{{id: "1"}}, want: "1"},
		{name: "one and the gateway's own", calls: []*call{{id: "1"}, {id: "2", own: true}}, want: "1"},
		{name: "two", calls: []*call{{id: "1"}, {id: "2"}}},
		{name: "two of one user", calls: []*call{{id: "1", who: "eve"}, {id: "2", who: "eve"}}},
		{name: "a parked one", calls: []*call{{id: "1", parked: true}}, want: "1"},
		{name: "two parked ones", calls: []*call{{id: "1", parked: true}, {id: "2", parked: true}}},
		{name: "beside a parked one of anybody", calls: []*call{{id: "1"}, {id: "2", parked: true}}},
		{name: "beside a parked one of another", calls: []*call{{id: "1", who: "eve"}, {id: "2", who: "bob", parked: true}}},
		{name: "anybody beside a parked one", calls: []*call{{id: "1"}, {id: "2", who: "bob", parked: true}}},
		{name: "beside own parked ones", calls: []*call{{id: "1", who: "eve"}, {id: "2", who: "eve", parked: true}, {id: "3", who: "eve", parked: true}}, want: "1"},
		{name: "after a cancelled one of anybody", calls: []*call{{id: "1"}}, left: []string{""}},
		{name: "after a cancelled one of another", calls: []*call{{id: "1", who: "eve"}}, left: []string{"bob"}},
		{name: "after an own cancelled one", calls: []*call{{id: "1", who: "eve"}}, left: []string{"eve"}, want: "1"},
	} {
		l := newLink(nil)
		for _, c := range tt.calls {
			l.calls[c.id] = c
		}
		for i, who := range tt.left {
			l.left[fmt.Sprint("left", i)] = departed{who, time.Now()}
		}
		got := ""
		if c := l.owner(&message{Method: methodElicit}, nil); c != nil {
			got = c.id
		}
		if got != tt.want {
			t.Errorf("%s: call %q, want %q", tt.name, got, tt.want)
		}
	}
	l := newLink(nil)
	l.calls["1"], l.left["2"] = &call{id: "1"}, departed{at: time.Now().Add(-2 * afterlife)}
	if l.owner(&message{Method: methodElicit}, nil) == nil || len(l.left) != 0 {
		t.Errorf("a cancelled call counts for ever: %v", l.left)
	}
}

// frontOf serves a gateway to users, whose tokens are their names.
func frontOf(t *testing.T, g *Gateway) (url string) {
	t.Helper()
	gate, err := mcpgate.New(g.Server(), &mcpgate.Options{Modern: g.Modern()})
	if err != nil {
		t.Fatal(err)
	}
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
	}
	srv := httptest.NewServer(auth.RequireBearerToken(verify, nil)(gate))
	t.Cleanup(srv.Close)
	return srv.URL
}

// A requestState is bound to whom the publisher's sign-in names.
func TestStateIsBoundToPrincipal(t *testing.T) {
	noLeaks(t)
	url := frontOf(t, open(t, command(t, "sdk")))
	first := post(t, url, methodCall, callTool("ask"), declare(`{"elicitation":{}}`), "Authorization", "Bearer eve")
	params := fmt.Sprintf(`{"name":"ask","arguments":{},"requestState":%q,"inputResponses":{"input":{"action":"decline"}}}`,
		first.result.text("requestState"))
	if r := post(t, url, methodCall, params, nil, "Authorization", "Bearer mallory"); r.err == nil || r.err.Code != -32602 {
		t.Errorf("another's state: %s", r.raw)
	}
	if r := post(t, url, methodCall, params, nil, "Authorization", "Bearer eve"); !strings.HasPrefix(r.text(t), "decline") {
		t.Errorf("own state: %s", r.raw)
	}
}

// Nobody comes back: the upstream is told, and the place is free again.
func TestInputExpires(t *testing.T) {
	noLeaks(t)
	opts := command(t, "sdk")
	opts.CallTimeout = 200 * time.Millisecond
	g := open(t, opts)
	url := front(t, g)
	first := post(t, url, methodCall, callTool("ask"), declare(`{"elicitation":{}}`))
	eventually(t, "the call is given up", func() bool {
		l := g.link.Load()
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.calls) == 0
	})
	r := post(t, url, methodCall, fmt.Sprintf(`{"name":"ask","arguments":{},"requestState":%q,"inputResponses":{"input":{"action":"accept"}}}`,
		first.result.text("requestState")), nil)
	if r.err == nil || r.err.Code != -32602 {
		t.Errorf("expired state: %s", r.raw)
	}
}

// What waits is bounded, and one user cannot take all places.
func TestWaitingCallsAreCapped(t *testing.T) {
	var w waiting
	defer w.clear()
	n := 0
	put := func(who string) bool {
		n++
		return w.put(fmt.Sprint(n), &parked{who: who}, time.Hour)
	}
	for i := range maxOfOne + 1 {
		if got := put("eve"); got != (i < maxOfOne) {
			t.Fatalf("call %d of one user: %v", i, got)
		}
	}
	for i := range maxWaiting - maxOfOne + 1 { // nobody knows whose these are
		if got := put(""); got != (i < maxWaiting-maxOfOne) {
			t.Fatalf("call %d of anybody: %v", i, got)
		}
	}
	w.take("1", [32]byte{})
	if put("eve"); len(w.calls) != maxWaiting {
		t.Errorf("a place that is free again is not given: %d", len(w.calls))
	}
}

// The call over the bound is told so.
func TestWaitingCallsOfOneUserAreCapped(t *testing.T) {
	noLeaks(t)
	url := frontOf(t, open(t, command(t, "sdk")))
	ask := func(who string) *reply {
		return post(t, url, methodCall, callTool("ask"), declare(`{"elicitation":{}}`), "Authorization", "Bearer "+who)
	}
	for i := range maxOfOne + 1 {
		r := ask("eve")
		if full := r.err != nil; full != (i == maxOfOne) || full && !strings.Contains(r.err.Message, "waiting for input") {
			t.Fatalf("call %d: %s %+v", i, r.raw, r.err)
		}
	}
	if r := ask("bob"); r.err == nil || !strings.Contains(r.err.Message, "tied to one call") { // it may be one of eve's
		t.Errorf("another user: %s %+v", r.raw, r.err)
	}
}

// Pages that 2025-11-25 wants opened first are input requests too; the code
// -32042 never reaches a modern client (mcp P10).
func TestPagesToOpen(t *testing.T) {
	noLeaks(t)
	url := front(t, open(t, command(t, "pages")))
	first := post(t, url, methodCall, callTool("t"), declare(`{"elicitation":{"url":{}}}`))
	ask := first.result.object("inputRequests").object("page-1")
	if ask.text("method") != methodElicit || ask.object("params").text("url") != "https://example.com/in" {
		t.Fatalf("result %s %+v", first.raw, first.err)
	}
	// The next round is a new call; this upstream refuses it again.
	r := post(t, url, methodCall, fmt.Sprintf(`{"name":"t","arguments":{},"requestState":%q,"inputResponses":{"page-1":{"action":"accept"}}}`,
		first.result.text("requestState")), declare(`{"elicitation":{"url":{}}}`))
	if r.result.text("resultType") != typeInputRequired {
		t.Errorf("next round: %s %+v", r.raw, r.err)
	}
	if r := post(t, url, methodCall, callTool("t"), nil); r.err == nil || r.err.Code != -32603 {
		t.Errorf("undeclared: %+v", r.err)
	}
}

// An older client of a modern upstream is asked through its session.
func TestInputRequestBecomesQuestion(t *testing.T) {
	noLeaks(t)
	s := mcp.NewServer(&mcp.Implementation{Name: "new", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "ask", Description: "Asks.", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if r.Params.RequestState != "s1" {
				return &mcp.CallToolResult{RequestState: "s1", InputRequests: mcp.InputRequestMap{"k": &mcp.ElicitParams{Message: "Who?"}}}, nil
			}
			res := r.Params.InputResponses["k"].(*mcp.ElicitResult)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint(res.Content["name"])}}}, nil
		})
	url := front(t, open(t, serveHTTP(t, mcp.NewStreamableHTTPHandler(same(s), &mcp.StreamableHTTPOptions{Stateless: true}))))
	c := legacy(t, url, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Old"}}, nil
		},
	})
	res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask", Arguments: map[string]any{}})
	if err != nil || res.Content[0].(*mcp.TextContent).Text != "Old" {
		t.Errorf("result %+v, %v", res, err)
	}
	// A modern client gets the upstream's own request and state.
	r := post(t, url, methodCall, callTool("ask"), declare(`{"elicitation":{}}`))
	if r.result.text("requestState") != "s1" || r.result.object("inputRequests")["k"] == nil {
		t.Errorf("modern client: %s %+v", r.raw, r.err)
	}
	r = post(t, url, methodCall, `{"name":"ask","arguments":{},"requestState":"s1","inputResponses":{"k":{"action":"accept","content":{"name":"New"}}}}`, nil)
	if r.text(t) != "New" {
		t.Errorf("modern client: %s", r.raw)
	}
}
