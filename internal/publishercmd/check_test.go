package publishercmd

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/publicnet"
	"github.com/openbot-build/openbot-go/publisher"
)

func published(t *testing.T) *publisher.Publisher {
	t.Helper()
	p, err := publisher.New(&publisher.Config{Origin: "https://apps.example.com", Apps: []publisher.App{
		{Slug: "calendar", MCPURL: "https://mcp.example.net/c", Card: card.Card{Name: "com.example/calendar", Title: "Calendar", Version: "1.0.0", Description: "Plan."}},
		{Slug: "notes", MCPURL: "https://mcp.example.net/n", Card: card.Card{Name: "com.example/notes", Title: "笔记", Version: "1.0.0", Description: "记录。"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// publish puts the published apps and their endpoints on net.
func publish(t *testing.T, net *fakenet.Net) {
	t.Helper()
	net.Handle("apps.example.com", published(t))
	endpoints := http.NewServeMux()
	for path, name := range map[string]string{"/c": "com.example/calendar", "/n": "com.example/notes"} {
		server := echoServer(name, "1.0.0")
		inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
		endpoints.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Origin") != "" {
				http.Error(w, "no", http.StatusForbidden)
				return
			}
			inner.ServeHTTP(w, r)
		})
	}
	net.Handle("mcp.example.net", endpoints)
}

// runCheck runs `publisher check` with a network of its own.
func runCheck(t *testing.T, below publicnet.Below, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = Run(t.Context(), append([]string{"check"}, args...), &Env{Stdout: &out, Stderr: &errOut, Below: below})
	return code, out.String(), errOut.String()
}

// What publisher serves passes publisher check, from each of the four inputs.
func TestCheckAddress(t *testing.T) {
	net := fakenet.New()
	defer net.Close()
	publish(t, net)
	for target, apps := range map[string]int{
		"apps.example.com":                                     2,
		"https://apps.example.com/apps/calendar":               1,
		"https://apps.example.com/apps/notes/catalog.json":     1,
		"https://apps.example.com/mcp/calendar/server-card":    1,
		"https://apps.example.com/.well-known/ai-catalog.json": 2,
	} {
		code, out, errOut := runCheck(t, net.Below(), target)
		if code != 0 || !strings.Contains(out, "\nno faults\n") {
			t.Errorf("%s: exit %d\n%s%s", target, code, out, errOut)
		}
		if got := strings.Count(out, "\napp "); got != apps {
			t.Errorf("%s: %d apps, want %d:\n%s", target, got, apps, out)
		}
		if strings.Count(out, "server/discover answers") != apps || strings.Count(out, "name as in the card") != apps {
			t.Errorf("%s: not every endpoint was compared:\n%s", target, out)
		}
		if !strings.Contains(out, "publisher confirmed") || !strings.Contains(out, "304 on a conditional request") {
			t.Errorf("%s:\n%s", target, out)
		}
	}
	for _, r := range net.Requests() {
		method := r.Header.Get("Mcp-Method")
		if strings.Contains(r.URL, "mcp.example.net") != (r.Method == http.MethodPost && (method == "server/discover" || method == "tools/list")) {
			t.Errorf("a check asked %s", r)
		}
	}
}

// An address that leads nowhere is a fault in words, and its JSON has members
// for scripts.
func TestCheckUnusableAddress(t *testing.T) {
	net := fakenet.New()
	defer net.Close()
	net.Set("https://shop.example.com/.well-known/ai-catalog.json", fakenet.Answer{
		Header: http.Header{"Content-Type": {"application/json"}}, Body: "<!doctype html><title>Shop</title>",
	})
	net.Set("https://old.example.com/card", fakenet.Answer{
		Header: http.Header{"Content-Type": {card.MediaType}}, Body: `{"serverInfo":{"name":"notes"},"transport":{"endpoint":"https://old.example.com/mcp"}}`,
	})
	for target, want := range map[string]string{
		"shop.example.com":             "web page",
		"https://old.example.com/card": "/$schema",
		"https://192.168.1.1/":         "192.168.1.1",
		"none.example.com":             "none.example.com",
	} {
		code, out, errOut := runCheck(t, net.Below(), "--json", target)
		var rep struct {
			Target string
			Faults int
		}
		if err := json.Unmarshal([]byte(out), &rep); err != nil {
			t.Fatalf("%s: %v\n%s%s", target, err, out, errOut)
		}
		if code != 1 || rep.Faults == 0 || rep.Target != target || !strings.Contains(out, want) {
			t.Errorf("%s: exit %d, no %q in\n%s", target, code, want, out)
		}
	}
}

// --connect-to reaches the one name before it is deployed, and its authority
// counts for nothing else.
func TestCheckConnectTo(t *testing.T) {
	cert, key, _ := certificate(t, "apps.example.com")
	log, _ := start(t, "serve", "--config", write(t, "c.yaml", echoConfig), "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key)
	addr := log.wait(t, `msg=serving addr=(\S+)`)
	net := fakenet.New()
	defer net.Close()
	net.Set("https://other.example.com/go", fakenet.Answer{Status: 302, Header: http.Header{"Location": {"https://apps.example.com/mcp/hello/server-card"}}})

	code, out, errOut := runCheck(t, net.Below(), "apps.example.com", "--connect-to", "apps.example.com:443:"+addr, "--ca", cert)
	if code != 0 || !strings.Contains(out, "no faults") || !strings.Contains(out, "app Hello") ||
		!strings.Contains(out, `name as in the card: "com.example/hello"`) {
		t.Errorf("exit %d\n%s%s", code, out, errOut)
	}
	code, out, errOut = runCheck(t, net.Below(), "https://other.example.com/go", "--connect-to", "apps.example.com:443:"+addr, "--ca", cert)
	if !strings.Contains(out, "redirected (302) to https://apps.example.com/mcp/hello/server-card") {
		t.Errorf("exit %d\n%s%s", code, out, errOut)
	}
	// Without the authority the certificate is nobody's.
	code, out, _ = runCheck(t, net.Below(), "apps.example.com", "--connect-to", "apps.example.com:443:"+addr)
	if code != 1 || !strings.Contains(strings.ToLower(out), "certificate") {
		t.Errorf("exit %d\n%s", code, out)
	}
	// Another name is not reached there, nor trusted.
	code, out, _ = runCheck(t, net.Below(), "evil.example.com", "--connect-to", "apps.example.com:443:"+addr, "--ca", cert)
	if code != 1 {
		t.Errorf("exit %d\n%s", code, out)
	}
	if !publicnet.IsPublic(standIn) {
		t.Error("the stand-in address would not pass the guard")
	}
}

func FuzzConnectTo(f *testing.F) {
	for _, s := range []string{"apps.example.com:443:127.0.0.1:8443", "a.example:1:[::1]:2", "::::", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := parseConnectTo(s); err == nil && (n.host == "" || n.port == 0 || n.target == "") {
			t.Errorf("%q gave %+v", s, n)
		}
	})
}

// Why an address cannot be checked is said in a clause, with what to do.
func TestCheckSaysWhy(t *testing.T) {
	cert, key, _ := certificate(t, "apps.example.com")
	log, _ := start(t, "serve", "--config", write(t, "c.yaml", echoConfig), "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key)
	addr := log.wait(t, `msg=serving addr=(\S+)`)
	plainLog, _ := start(t, "serve", "--config", write(t, "c.yaml", echoConfig), "--listen", "127.0.0.1:0")
	plainAddr := plainLog.wait(t, `msg=serving addr=(\S+)`)
	closed, err := net.Listen("tcp", "127.0.0.1:0") // closed at once
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	world := fakenet.New()
	defer world.Close()
	for _, tt := range []struct {
		name, target, at, ca, want string
	}{
		{"refused", "https://apps.example.com/apps/hello", closed.Addr().String(), cert, "connection refused at 127.0.0.1:"},
		{"no TLS", "https://apps.example.com/apps/hello", plainAddr, cert, "the server there does not speak TLS"},
		{"no authority", "https://apps.example.com/apps/hello", addr, "", "--ca FILE"},
		{"another host", "https://other.example.com/", addr, cert, "--connect-to names apps.example.com, and nothing was asked there"},
		{"an endpoint", "https://apps.example.com/mcp/hello", addr, cert, "looks like an MCP endpoint: give the domain"},
		{"loopback", "http://127.0.0.1:8080/apps/hello", addr, cert, "publisher check --config FILE"},
		{"localhost", "localhost:8080", addr, cert, "--connect-to HOST:443:ADDR:PORT"},
	} {
		args := []string{tt.target, "--connect-to", "apps.example.com:443:" + tt.at}
		if tt.ca != "" {
			args = append(args, "--ca", tt.ca)
		}
		if code, out, errOut := runCheck(t, world.Below(), args...); code != exitFailed || !strings.Contains(out, tt.want) {
			t.Errorf("%s: exit %d, no %q in\n%s%s", tt.name, code, tt.want, out, errOut)
		}
	}
}

// A check that is stopped says so and is no success.
func TestCheckStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, target := range []string{"apps.example.com", "-"} {
		var out bytes.Buffer
		pipe, w := io.Pipe() // standard input that nobody types on
		code := Run(ctx, []string{"check", target}, &Env{Stdin: pipe, Stdout: &out, Stderr: &out, Below: fakenet.New().Below()})
		w.Close()
		if code != exitStopped || out.String() != "publisher: stopped\n" {
			t.Errorf("%s: exit %d, %q", target, code, out.String())
		}
	}
}
