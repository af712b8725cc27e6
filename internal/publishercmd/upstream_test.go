package publishercmd

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

// testUpstream is an MCP server over standard input and output.
func testUpstream() {
	s := mcp.NewServer(&mcp.Implementation{Name: "demo server", Title: "Demo", Version: "2.1.0"}, &mcp.ServerOptions{
		Instructions: "Talks about the weather. Ask it.",
	})
	type in struct {
		Text string `json:"text,omitempty"`
	}
	tool := func(name, description string, answer func(string) string) {
		mcp.AddTool(s, &mcp.Tool{Name: name, Description: description}, func(_ context.Context, _ *mcp.CallToolRequest, i in) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: answer(i.Text)}}}, nil, nil
		})
	}
	tool("say", "Say it back.", func(s string) string { return s })
	tool("pid", "Number of the process.", func(string) string { return strconv.Itoa(os.Getpid()) })
	tool("key", "Length of the key.", func(string) string { return strconv.Itoa(len(os.Getenv("API_KEY"))) })
	tool("quiet", "", func(string) string { return "" })
	tool("slow", "Answer after a second and a half.", func(string) string { time.Sleep(1500 * time.Millisecond); return "done" })
	tool("die", "End the program.", func(string) string { os.Exit(3); return "" })
	_ = s.Run(context.Background(), &mcp.StdioTransport{})
}

const upstreamConfigText = `origin: https://apps.example.com
apps:
  - slug: demo
    upstream:
      command: [test-upstream]
      env: {API_KEY: "${DEMO_KEY}"}
`

func demoEnv() *Env {
	return &Env{Getenv: func(name string) string {
		return map[string]string{"DEMO_KEY": "secret-key-of-demo"}[name]
	}}
}

// callTool calls a tool of the demo app as a host does.
func callTool(t *testing.T, addr, name string) (string, error) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: "http://" + addr + "/mcp/demo", HTTPClient: client, DisableStandaloneSSE: true, MaxRetries: -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: "2026-07-28"})
	if err != nil {
		return "", err
	}
	defer session.Close()
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: map[string]any{"text": "hi"}})
	if err != nil {
		return "", err
	}
	text := ""
	if len(res.Content) > 0 {
		if c, ok := res.Content[0].(*mcp.TextContent); ok {
			text = c.Text
		}
	}
	if res.IsError {
		return "", fmt.Errorf("tool error: %s", text)
	}
	return text, nil
}

func mustCall(t *testing.T, addr, name string) string {
	t.Helper()
	out, err := callTool(t, addr, name)
	if err != nil {
		t.Fatalf("call %s: %v", name, err)
	}
	return out
}

func running(pid string) bool {
	n, err := strconv.Atoi(pid)
	return err == nil && syscall.Kill(n, 0) == nil
}

// awaitGone waits until a process has ended.
func awaitGone(t *testing.T, pid string) {
	t.Helper()
	for range 500 {
		if !running(pid) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %s still runs", pid)
}

// A command becomes an app whose card says what the command says of itself. Its
// secrets are in no log; a crash is said by readyz while the documents stay; it
// ends with the publisher.
func TestServeUpstream(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	log, stop := startIn(t, demoEnv(), "serve", "--config", write(t, "c.yaml", upstreamConfigText), "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
	private := log.wait(t, `msg=metrics addr=(\S+)`)
	addr := log.wait(t, `msg=serving addr=(\S+)`)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	_, card := get(t, client, "http://"+addr+"/mcp/demo/server-card")
	for _, want := range []string{`"name": "com.example/demo-server"`, `"title": "Demo"`, `"version": "2.1.0"`, `"description": "Talks about the weather."`} {
		if !strings.Contains(card, want) {
			t.Errorf("the card lacks %s:\n%s", want, card)
		}
	}
	if got := mustCall(t, addr, "say"); got != "hi" {
		t.Errorf("say: %q", got)
	}
	if got := mustCall(t, addr, "key"); got != "18" {
		t.Errorf("the command got %s characters of its key", got)
	}
	log.wait(t, `msg="corrected for hosts" app=demo kind=tool from=quiet`)
	if status, body := get(t, client, "http://"+private+"/readyz"); status != http.StatusOK {
		t.Errorf("readyz: %d %s", status, body)
	}
	pid := mustCall(t, addr, "pid")

	if out, err := callTool(t, addr, "die"); err == nil {
		t.Errorf("a call that killed the server gave %q", out)
	}
	seen := ""
	for range 300 { // it restarts after a pause
		if status, body := get(t, client, "http://"+private+"/readyz"); status == http.StatusServiceUnavailable {
			seen = body
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if !strings.HasPrefix(seen, "app demo: the upstream is down: ") {
		t.Errorf("readyz said %q", seen)
	}
	if status, _ := get(t, client, "http://"+addr+"/mcp/demo/server-card"); status != http.StatusOK {
		t.Errorf("card while the upstream is down: %d", status)
	}
	if status, _ := get(t, client, "http://"+private+"/healthz"); status != http.StatusOK {
		t.Errorf("healthz while the upstream is down: %d", status)
	}
	for range 500 {
		if status, _ := get(t, client, "http://"+private+"/readyz"); status == http.StatusOK {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	again := mustCall(t, addr, "pid")
	if again == pid {
		t.Error("the same process answers")
	}
	if _, text := get(t, client, "http://"+private+"/metrics"); !strings.Contains(text, `publisher_upstream_up{app="demo"} 1`) {
		t.Errorf("metrics lack the state of the upstream")
	}
	if code := stop(); code != 0 {
		t.Errorf("exit %d\n%s", code, log)
	}
	awaitGone(t, again)
	if strings.Contains(log.String(), "secret-key") {
		t.Errorf("the log holds the key:\n%s", log)
	}
}

// A reload keeps an upstream that did not change; one that did is replaced, and
// a call under way ends on the old one first.
func TestReloadUpstreams(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	file := write(t, "c.yaml", upstreamConfigText)
	log, stop := startIn(t, demoEnv(), "serve", "--config", file, "--listen", "127.0.0.1:0")
	addr := log.wait(t, `msg=serving addr=(\S+)`)
	pid := mustCall(t, addr, "pid")

	rewrite(t, file, upstreamConfigText+"    title: Other\n")
	hangUp(t)
	log.wait(t, `msg="the configuration was read again"`)
	if got := mustCall(t, addr, "pid"); got != pid {
		t.Errorf("the upstream was restarted for a title: %s, then %s", pid, got)
	}

	slow := make(chan string, 1)
	go func() {
		out, err := callTool(t, addr, "slow")
		slow <- fmt.Sprint(out, err)
	}()
	time.Sleep(300 * time.Millisecond) // it is under way
	rewrite(t, file, strings.Replace(upstreamConfigText, `"${DEMO_KEY}"`, "short", 1))
	hangUp(t)
	log.wait(t, `(?s)read again.*read again`)
	if got := mustCall(t, addr, "key"); got != "5" {
		t.Errorf("the new upstream has a key of %s characters", got)
	}
	if !running(pid) {
		t.Error("the old upstream ended before its call")
	}
	if got := <-slow; got != "done<nil>" {
		t.Errorf("the call under way gave %s", got)
	}
	awaitGone(t, pid)

	// An upstream that does not start makes the file a faulty one.
	now := mustCall(t, addr, "pid")
	rewrite(t, file, strings.Replace(upstreamConfigText, "[test-upstream]", `["false"]`, 1)+"      start_timeout: 1s\n")
	hangUp(t)
	log.wait(t, `fault of the new configuration" fault=".*c.yaml:5: apps\[0\].upstream: the upstream does not start: `)
	rewrite(t, file, strings.Replace(upstreamConfigText, "DEMO_KEY", "NO_SUCH_KEY", 1))
	hangUp(t)
	log.wait(t, `the variable NO_SUCH_KEY is not set`)
	if got := mustCall(t, addr, "pid"); got != now {
		t.Errorf("the upstream was restarted by a faulty file")
	}
	if code := stop(); code != 0 {
		t.Errorf("exit %d\n%s", code, log)
	}
	awaitGone(t, now)
}

// A stop lets a call of an upstream end before the upstream is stopped.
func TestStopDrainsUpstreams(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	log, stop := startIn(t, demoEnv(), "serve", "--config", write(t, "c.yaml", upstreamConfigText), "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
	private := log.wait(t, `msg=metrics addr=(\S+)`)
	addr := log.wait(t, `msg=serving addr=(\S+)`)
	pid := mustCall(t, addr, "pid")
	slow := make(chan string, 1)
	go func() {
		out, err := callTool(t, addr, "slow")
		slow <- fmt.Sprint(out, err)
	}()
	time.Sleep(300 * time.Millisecond) // it is under way
	code := make(chan int, 1)
	go func() { code <- stop() }()
	log.wait(t, "msg=stopping")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if status, body := get(t, client, "http://"+private+"/readyz"); status != http.StatusServiceUnavailable || body != "stopping\n" {
		t.Errorf("readyz: %d %q", status, body)
	}
	if got := <-slow; got != "done<nil>" {
		t.Errorf("the call under way gave %s", got)
	}
	if got := <-code; got != exitOK {
		t.Errorf("exit %d\n%s", got, log)
	}
	awaitGone(t, pid)
}

// An upstream that is down at the start does not keep the documents from being
// served, and is tried again.
func TestUpstreamDownAtStart(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "c.yaml")
	rewrite(t, file, `origin: https://apps.example.com
apps:
  - slug: demo
    name: com.example/demo
    version: 1.0.0
    description: A demo.
    allowed_origins: ["https://host.example.com"]
    upstream: {command: [./server], start_timeout: 2s}
`)
	log, _ := start(t, "serve", "--config", file, "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
	private := log.wait(t, `msg=metrics addr=(\S+)`)
	addr := log.wait(t, `msg=serving addr=(\S+)`)
	log.wait(t, `msg="the upstream is down; its documents are served, and it is tried again" app=demo`)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if status, body := get(t, client, "http://"+addr+"/mcp/demo/server-card"); status != http.StatusOK || !strings.Contains(body, "https://apps.example.com/mcp/demo") {
		t.Errorf("card: %d %s", status, body)
	}
	for origin, want := range map[string]int{"": 503, "https://host.example.com": 503, "https://evil.example": 403} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/mcp/demo", strings.NewReader(discoverBody))
		if err != nil {
			t.Fatal(err)
		}
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want || want == 503 && (res.Header.Get("Retry-After") == "" || res.Header.Get("Access-Control-Allow-Origin") != origin) {
			t.Errorf("origin %q: %d %v", origin, res.StatusCode, res.Header)
		}
	}
	if status, body := get(t, client, "http://"+private+"/readyz"); status != http.StatusServiceUnavailable || !strings.HasPrefix(body, "app demo: the upstream is down: ") {
		t.Errorf("readyz: %d %q", status, body)
	}
	script := "#!/bin/sh\nexec test-upstream\n"
	if err := os.WriteFile(filepath.Join(dir, "server"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 100 { // longer than retryLeast
		if strings.Contains(log.String(), `msg="the upstream is up" app=demo`) {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if got := mustCall(t, addr, "say"); got != "hi" {
		t.Errorf("say: %q", got)
	}

	// Without a card of its own there is nothing to serve.
	rewrite(t, file, "origin: https://apps.example.com\napps: [{slug: demo, upstream: {command: [./none], start_timeout: 1s}}]\n")
	var out logBuffer
	if code := Run(t.Context(), []string{"serve", "--config", file, "--listen", "127.0.0.1:0"}, &Env{Stdout: &out, Stderr: &out}); code != exitFailed ||
		!strings.Contains(out.String(), "name, version and description stand in this file: ") {
		t.Errorf("exit %d\n%s", code, &out)
	}
}

// What stands in for variables is put in once, and never shown.
func TestExpansion(t *testing.T) {
	ex := &expansion{getenv: func(name string) string { return map[string]string{"A": "alpha beta", "B": "${A}", "C": "x"}[name] }}
	for in, want := range map[string]string{
		"${A}": "alpha beta", "x${A}${C}y": "xalpha betaxy", "${B}": "${A}", "$${A}": "${A}", "$A": "$A", "${}": "${}", "${A-B}": "${A-B}", "${NONE}": "${NONE}",
	} {
		if got := ex.text(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if fmt.Sprint(ex.missing) != "[NONE]" {
		t.Errorf("missing %v", ex.missing)
	}
	if got := mask("dial https://x/?k=alpha+beta: alpha beta x", ex.secrets); got != "dial https://x/?k=[secret]: [secret] x" {
		t.Errorf("masked %q", got)
	}
}

func TestSplitWords(t *testing.T) {
	for in, want := range map[string]string{
		"npx -y  @scope/name":        `["npx" "-y" "@scope/name"]`,
		`'a b' "c 'd'" e\ f`:         `["a b" "c 'd'" "e f"]`,
		`a'b'"c" ''`:                 `["abc" ""]`,
		"":                           "name a command",
		"a 'b":                       "not closed",
		"a | b":                      "means something to a shell",
		"a && b":                     "means something to a shell",
		`sh -c 'a | b'`:              `["sh" "-c" "a | b"]`,
		`x --header "A: ${TOKEN}" y`: `["x" "--header" "A: ${TOKEN}" "y"]`,
	} {
		words, err := splitWords(in)
		if got := fmt.Sprintf("%q %v", words, err); !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func FuzzSplitWords(f *testing.F) {
	f.Add(`npx -y 'a b' "c" d\ e`)
	f.Fuzz(func(t *testing.T, s string) {
		if words, err := splitWords(s); err == nil && len(words) == 0 {
			t.Errorf("%q gave nothing", s)
		}
	})
}
