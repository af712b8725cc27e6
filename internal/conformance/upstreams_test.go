package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed" // the client
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/openbot-build/openbot-go/internal/publishercmd"
)

// upstream is a public MCP server from npm and what clients ask of it.
type upstream struct {
	name     string
	pkg      string
	args     []string // FOLDER stands for the folder of the test
	env      map[string]string
	address  bool      // it is reached over HTTP
	requests []request // one after the other
}

// request is what a client asks.
type request struct {
	Method   string         `json:"method"`
	Params   map[string]any `json:"params,omitempty"`
	Progress bool           `json:"progress,omitempty"` // ask for progress; three steps of it must come
	inspect  bool           // by the Inspector as well
}

func tool(name string, arguments map[string]any) request {
	return request{Method: "tools/call", Params: map[string]any{"name": name, "arguments": arguments}}
}

func (r request) inspected() request {
	r.inspect = true
	return r
}

type object = map[string]any

var everything = []request{
	{Method: "tools/list"},
	{Method: "resources/list"},
	{Method: "resources/templates/list"},
	{Method: "prompts/list"},
	tool("echo", object{"message": "two words, ünïcode"}),
	tool("get-sum", object{"a": 2, "b": 40}).inspected(),
	tool("get-sum", object{"a": "no number"}),
	tool("get-structured-content", object{"location": "Chicago"}),
	tool("get-tiny-image", object{}),
	tool("get-annotated-message", object{"messageType": "error", "includeImage": true}),
	tool("get-resource-links", object{"count": 3}),
	tool("get-resource-reference", object{"resourceType": "Text", "resourceId": 1}),
	{Method: "tools/call", Params: object{"name": "trigger-long-running-operation", "arguments": object{"duration": 0.3, "steps": 3}}, Progress: true},
	tool("trigger-elicitation-request", object{}), // both ask the client, by a request or in rounds
	tool("trigger-sampling-request", object{"prompt": "Say something.", "maxTokens": 10}),
	{Method: "resources/read", Params: object{"uri": "demo://resource/static/document/features.md"}},
	{Method: "resources/read", Params: object{"uri": "demo://resource/dynamic/text/7"}},
	{Method: "prompts/get", Params: object{"name": "args-prompt", "arguments": object{"city": "Lisbon"}}},
	{Method: "completion/complete", Params: object{"ref": object{"type": "ref/prompt", "name": "completable-prompt"}, "argument": object{"name": "department", "value": "E"}}},
}

var debug = []request{
	{Method: "tools/list"},
	{Method: "resources/list"},
	tool("debug-tool", object{"contentType": "mixed", "includeMeta": true}),
	tool("debug-tool", object{"contentType": "resourceLink", "multipleBlocks": true}),
	tool("debug-tool", object{"contentType": "text", "simulateError": true}),
	tool("debug-refresh", object{}).inspected(),
	{Method: "resources/read", Params: object{"uri": "ui://debug-tool/mcp-app.html"}}, // the view
}

var upstreams = []upstream{
	{name: "everything", pkg: "@modelcontextprotocol/server-everything", requests: everything},
	{name: "everything over HTTP", pkg: "@modelcontextprotocol/server-everything", args: []string{"streamableHttp"}, address: true, requests: everything},
	{name: "filesystem", pkg: "@modelcontextprotocol/server-filesystem", args: []string{"FOLDER"}, requests: []request{
		{Method: "tools/list"},
		tool("list_allowed_directories", object{}).inspected(),
		tool("write_file", object{"path": "FOLDER/new.txt", "content": "written\n"}),
		tool("read_text_file", object{"path": "FOLDER/new.txt"}).inspected(),
		tool("list_directory", object{"path": "FOLDER"}),
		tool("edit_file", object{"path": "FOLDER/new.txt", "edits": []object{{"oldText": "written", "newText": "changed"}}, "dryRun": true}),
		tool("read_text_file", object{"path": "/not/allowed"}),
	}},
	{name: "memory", pkg: "@modelcontextprotocol/server-memory", env: map[string]string{"MEMORY_FILE_PATH": "FOLDER/memory.jsonl"}, requests: []request{
		{Method: "tools/list"},
		tool("create_entities", object{"entities": []object{{"name": "Ada", "entityType": "person", "observations": []string{"wrote the first program"}}}}),
		tool("create_relations", object{"relations": []object{{"from": "Ada", "to": "Ada", "relationType": "knows"}}}),
		tool("search_nodes", object{"query": "program"}),
		tool("read_graph", object{}).inspected(),
		{Method: "resources/read", Params: object{"uri": "memory://knowledge-graph"}},
	}},
	{name: "debug", pkg: "@modelcontextprotocol/server-debug", args: []string{"--stdio"}, requests: debug},
	{name: "debug over HTTP", pkg: "@modelcontextprotocol/server-debug", address: true, requests: debug},
}

// Public servers, published by the command as anybody would, answer two clients
// that are not ours as they do without a publisher.
func TestUpstreams(t *testing.T) {
	b := packages(t)
	t.Setenv("OPENBOT_TEST_SECRET", "of the publisher alone")
	for _, u := range upstreams {
		t.Run(u.name, func(t *testing.T) {
			t.Parallel()
			plain := u.in(t.TempDir())
			want := b.ask(t, "any", plain.env, plain.target(t, b), plain.requests)

			behind := u.in(t.TempDir())
			url := publishedUpstream(t, behind.target(t, b), behind.env)
			got := b.ask(t, modern, nil, []string{url}, behind.requests)
			if got.Version != modern {
				t.Errorf("spoke %s", got.Version)
			}
			if got.Server.Name != want.Server.Name || got.Server.Version != want.Server.Version {
				t.Errorf("is %+v, the upstream %+v", got.Server, want.Server)
			}
			for i, r := range u.requests {
				at := fmt.Sprint(r.Method, " ", r.Params["name"], r.Params["uri"])
				if diff := gocmp.Diff(callable(t, plain, want.Answers[i]), tidy(t, behind, got.Answers[i])); diff != "" {
					t.Errorf("%s, -direct +published:\n%s", at, diff)
				}
				if steps := `"steps":[{"progress":1,"total":3},{"progress":2,"total":3},{"progress":3,"total":3}]`; r.Progress && !bytes.Contains(got.Answers[i], []byte(steps)) {
					t.Errorf("%s: not all progress came: %s", at, got.Answers[i])
				}
				if r.inspect {
					answer := fmt.Sprintf(`{"result":%s}`, b.inspect(t, url, behind.requests[i]))
					if diff := gocmp.Diff(callable(t, plain, want.Answers[i]), tidy(t, behind, json.RawMessage(answer))); diff != "" {
						t.Errorf("%s by the Inspector, -direct +published:\n%s", at, diff)
					}
				}
			}
		})
	}
}

// The environment of the publisher is no upstream's business.
func TestUpstreamEnvironment(t *testing.T) {
	b := packages(t)
	t.Setenv("OPENBOT_TEST_SECRET", "of the publisher alone")
	url := publishedUpstream(t, []string{b.Node, b.module("@modelcontextprotocol/server-everything", "dist/index.js")}, map[string]string{"GIVEN": "by the configuration"})
	answer := string(b.ask(t, modern, nil, []string{url}, []request{tool("get-env", object{})}).Answers[0])
	if !strings.Contains(answer, "by the configuration") || strings.Contains(answer, "of the publisher alone") {
		t.Error(answer)
	}
}

// in is the upstream with its folder.
func (u upstream) in(folder string) *placed {
	p := &placed{upstream: u, folder: folder}
	put := func(s string) string { return strings.ReplaceAll(s, "FOLDER", folder) }
	p.args = nil
	for _, a := range u.args {
		p.args = append(p.args, put(a))
	}
	p.env = map[string]string{}
	for name, value := range u.env {
		p.env[name] = put(value)
	}
	text, err := json.Marshal(u.requests)
	if err == nil {
		p.requests = nil
		err = json.Unmarshal([]byte(put(string(text))), &p.requests)
	}
	if err != nil {
		panic(err) // the table above
	}
	return p
}

type placed struct {
	upstream
	folder string
}

// target is the command line of the server, or its address once it runs.
func (p *placed) target(t *testing.T, b *box) []string {
	t.Helper()
	line := append([]string{b.Node, b.module(p.pkg, "dist/index.js")}, p.args...)
	if !p.address {
		return line
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // these servers cannot choose a port by themselves
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(addr)
	cmd := b.command(t.Context(), p.folder, line[1:]...)
	cmd.Env = append(cmd.Env, "PORT="+port, "HOST=127.0.0.1")
	var out lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			return []string{"http://" + addr + "/mcp"}
		}
	}
	t.Fatalf("%s does not listen:\n%s", p.name, out.String())
	return nil
}

// publishedUpstream writes a configuration for an upstream with the command, has it
// checked, serves it, and gives the address of the endpoint.
func publishedUpstream(t *testing.T, target []string, env map[string]string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "publisher.yaml")
	args := []string{"init", "--origin", publicOrigin, "--out", file, "--slug", "app", "--from", strings.Join(target, " ")}
	for name, value := range env {
		args = append(args, "--env", name+"="+value)
	}
	run := func(args ...string) {
		t.Helper()
		var out bytes.Buffer
		if code := publishercmd.Run(t.Context(), args, &publishercmd.Env{Getenv: os.Getenv, Stdout: &out, Stderr: &out}); code != 0 {
			config, _ := os.ReadFile(file)
			t.Fatalf("publisher %s: %d\n%s\n%s", args[0], code, out.String(), config)
		}
	}
	run(args...)
	run("check", "--config", file)

	ctx, stop := context.WithCancel(context.Background())
	var log lockedBuffer
	ended := make(chan int, 1)
	go func() {
		ended <- publishercmd.Run(ctx, []string{"serve", "--config", file, "--listen", "127.0.0.1:0", "--log-format", "json"}, &publishercmd.Env{Getenv: os.Getenv, Stdout: &log, Stderr: &log})
	}()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != 0 {
			t.Errorf("publisher serve: %d\n%s", code, log.String())
		}
	})
	listening := regexp.MustCompile(`"msg":"serving","addr":"([^"]+)"`)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if m := listening.FindStringSubmatch(log.String()); m != nil {
			return "http://" + m[1] + "/mcp/app"
		}
	}
	t.Fatalf("publisher serve does not listen:\n%s", log.String())
	return ""
}

//go:embed node/client.mjs
var clientScript string

// conversation is what the npm client prints.
type conversation struct {
	Version string
	Server  struct{ Name, Version string }
	Answers []json.RawMessage
}

// ask makes the requests with the npm client.
func (b *box) ask(t *testing.T, version string, env map[string]string, target []string, requests []request) *conversation {
	t.Helper()
	text, err := json.Marshal(requests)
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--input-type=module", "-e", clientScript, version}, target...)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := b.command(ctx, t.TempDir(), append(args, string(text))...)
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var c conversation
	if err := json.Unmarshal(output(t, cmd), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Answers) != len(requests) {
		t.Fatalf("%d answers to %d requests", len(c.Answers), len(requests))
	}
	return &c
}

// inspect makes a tool call with the command line of the MCP Inspector.
func (b *box) inspect(t *testing.T, url string, r request) []byte {
	t.Helper()
	args := []string{b.module("@modelcontextprotocol/inspector", "clients/launcher/build/index.js"), "--cli", url, "--transport", "http", "--method", r.Method, "--tool-name", r.Params["name"].(string)}
	if arguments, _ := r.Params["arguments"].(map[string]any); len(arguments) > 0 {
		args = append(args, "--tool-arg")
		for name, value := range arguments {
			args = append(args, fmt.Sprintf("%s=%v", name, value))
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	return output(t, b.command(ctx, t.TempDir(), args...))
}

func output(t *testing.T, cmd *exec.Cmd) []byte {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", filepath.Base(cmd.Args[1]), err, out, stderr.Bytes())
	}
	return out
}

var (
	clockForm = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z|\d{1,2}:\d\d:\d\d( [AP]M)?`)
	countForm = regexp.MustCompile(`"(processedAt|counter)":\s*\d+`)
)

// callable is tidy for an answer of the upstream itself, without the tools that
// run as tasks only: revision 2026-07-28 cannot call them, so they are not
// published.
func callable(t *testing.T, p *placed, answer json.RawMessage) any {
	t.Helper()
	var v object
	if err := json.Unmarshal(answer, &v); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	result, _ := v["result"].(object)
	if tools, ok := result["tools"].([]any); ok {
		result["tools"] = slices.DeleteFunc(tools, func(tool any) bool {
			o, _ := tool.(object)
			execution, _ := o["execution"].(object)
			return execution["taskSupport"] == "required"
		})
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return tidy(t, p, text)
}

// tidy takes out of an answer what differs from run to run and what belongs to
// one connection: the time, the folder, and the members that only revision
// 2026-07-28 has. Lists are put in the order of their names.
func tidy(t *testing.T, p *placed, answer json.RawMessage) any {
	t.Helper()
	text := strings.ReplaceAll(string(answer), p.folder, "FOLDER")
	text = clockForm.ReplaceAllString(text, "TIME")
	text = countForm.ReplaceAllString(text, `"$1":0`)
	var v object
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	delete(v, "steps") // the direct client may miss the last one, which comes with the result
	result, _ := v["result"].(object)
	for _, member := range []string{"resultType", "ttlMs", "cacheScope"} {
		delete(result, member)
	}
	if meta, ok := result["_meta"].(object); ok {
		if delete(meta, "io.modelcontextprotocol/serverInfo"); len(meta) == 0 {
			delete(result, "_meta")
		}
	}
	for _, list := range []string{"tools", "prompts", "resources", "resourceTemplates"} {
		items, _ := result[list].([]any)
		for _, item := range items {
			if o, ok := item.(object); ok {
				delete(o, "execution") // tasks, which that revision does not have
			}
		}
		slices.SortFunc(items, func(a, b any) int { return cmp.Compare(key(a), key(b)) })
	}
	return v
}

func key(item any) string {
	o, _ := item.(object)
	return fmt.Sprint(o["uri"], o["uriTemplate"], o["name"])
}

// lockedBuffer is written to by a server and read by its test.
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
