package main

import (
	"bytes"
	"context"
	_ "embed" // the TypeScript server
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

const (
	connections = 16
	callsARound = 100 // on each connection
	warmGo      = 3_200
	warmNode    = 20_000 // before this, Node looks several times slower than it is
)

// where is a server process of its own: what takes calls, and what tells its
// CPU time.
type where struct{ Addr, Used string }

// callServer is one server that calls are sent to.
type callServer struct {
	where
	child *child
}

// calls compares tools/call of one typed tool, as one request costs the server
// process, and what a gateway adds to it.
func calls(ctx context.Context, _ *size) ([]comparison, func(), error) {
	var running []*callServer
	done := func() {
		for _, s := range slices.Backward(running) { // a gateway before its upstream
			_ = s.child.stop()
		}
	}
	up := func(warm int, launch func() (*child, error)) (*callServer, error) {
		c, err := launch()
		if err != nil {
			return nil, err
		}
		s := &callServer{child: c}
		running = append(running, s)
		if err := c.read(&s.where); err != nil {
			return nil, err
		}
		return s, s.load(ctx, warm/connections)
	}
	role := func(name string, input any) func() (*child, error) {
		return func() (*child, error) { return start(ctx, name, input) }
	}
	servers := map[string]*callServer{}
	for _, name := range []string{roleCallOurs, roleCallMixed, roleCallBare, roleCallSDK} {
		s, err := up(warmGo, role(name, nil))
		if err != nil {
			done()
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		servers[name] = s
	}
	ours, mixed, bare, sdk := servers[roleCallOurs], servers[roleCallMixed], servers[roleCallBare], servers[roleCallSDK]
	typed := comparison{
		name: fmt.Sprintf("typed echo, %d connections", connections), unit: "calls/s", ours: cost(ours, ours),
		bases: []base{
			{what: "a handler that decodes to a map and encodes the answer", side: cost(bare, bare), ratio: 2.5},
			{what: "the same tool on plain go-sdk", side: cost(sdk, sdk), ratio: 0.5},
		},
	}
	if node, err := up(warmNode, func() (*child, error) { return startNode(ctx) }); err != nil {
		fmt.Fprintln(os.Stderr, "bench: no comparison with the TypeScript SDK:", err)
	} else {
		typed.bases = append(typed.bases, base{what: "the same tool on the TypeScript SDK, warmed", side: cost(node, node), ratio: 0.5})
	}
	list := []comparison{typed, {
		name: "the same by mcp.AddTool", unit: "calls/s", ours: cost(mixed, mixed),
		bases: []base{{what: "added by publisher.AddTool", side: cost(ours, ours)}},
	}}
	if through, err := up(warmGo, role(roleCallGateway, "http://"+ours.Addr+callPath)); err != nil {
		fmt.Fprintln(os.Stderr, "bench: no gateway to measure:", err)
	} else {
		list = append(list, comparison{
			name: "through a gateway", unit: "calls/s", ours: cost(through, through, ours),
			bases: []base{{what: "its upstream called directly; ours is both processes together", side: cost(ours, ours)}},
		})
	}
	return list, done, nil
}

// cost is a side that calls s and counts the CPU time of the processes given.
func cost(s *callServer, counted ...*callServer) side {
	const n = connections * callsARound
	used := func(ctx context.Context) (sum time.Duration, err error) {
		for _, c := range counted {
			t, err := c.used(ctx)
			if err != nil {
				return 0, err
			}
			sum += t
		}
		return sum, nil
	}
	return func(ctx context.Context) (sample, error) {
		before, err := used(ctx)
		if err != nil {
			return sample{}, err
		}
		began := time.Now()
		if err := s.load(ctx, callsARound); err != nil {
			return sample{}, err
		}
		wall := time.Since(began)
		after, err := used(ctx)
		return sample{cpu: (after - before) / n, wall: wall / n}, err
	}
}

// used is the CPU time of the server's process so far.
func (s *callServer) used(ctx context.Context) (time.Duration, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Used, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	text, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return 0, err
	}
	return time.ParseDuration(string(text))
}

// load calls the tool so many times on each of the connections, and believes
// only the right answer.
func (s *callServer) load(ctx context.Context, each int) error {
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections}}
	defer client.CloseIdleConnections()
	var wait sync.WaitGroup
	errs := make([]error, connections)
	for i := range connections {
		wait.Go(func() {
			for range each {
				if errs[i] = call(ctx, client, "http://"+s.Addr+callPath); errs[i] != nil {
					return
				}
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

const (
	callPath = "/mcp/app"
	callText = "The quick brown fox jumps over the lazy dog."
	callBody = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + callText + `"},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
)

// echoed is what each side must answer with.
var echoed = []byte(`"structuredContent":{"text":"` + callText + `"}`)

func call(ctx context.Context, client *http.Client, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(callBody)))
	if err != nil {
		return err
	}
	r.Header = http.Header{
		"Content-Type":         {"application/json"},
		"Accept":               {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2026-07-28"},
		"Mcp-Method":           {"tools/call"},
		"Mcp-Name":             {"echo"},
	}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK || !bytes.Contains(body, echoed) {
		return fmt.Errorf("status %d: %s", resp.StatusCode, body)
	}
	return nil
}

//go:embed echo.mjs
var echoScript string

// startNode runs the TypeScript server on the Node and the packages of the
// tests of conformance.
func startNode(ctx context.Context) (*child, error) {
	find := exec.CommandContext(ctx, "go", "run", "./internal/conformance", "node")
	var stderr bytes.Buffer
	find.Stderr = &stderr
	out, err := find.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	var box struct{ Dir, Node string }
	if err := json.Unmarshal(out, &box); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, box.Node, "--input-type=module", "-e", echoScript, callPath) // #nosec G204 -- installed by the lock file
	cmd.Dir = box.Dir                                                                            // where its packages are looked for
	return launch(cmd, nil)
}
