package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/publisher"
	"github.com/openbot-build/openbot-go/publisher/gateway"
)

// packages are the npm packages. Where they cannot be had the test is skipped;
// in continuous integration that is a failure.
func packages(t *testing.T) *box {
	t.Helper()
	b, err := install(t.Context())
	if errors.Is(err, errNoNode) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func serve(t *testing.T, app publisher.App) string {
	t.Helper()
	e, err := publish(t.Context(), app)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.close(); err != nil {
			t.Error(err)
		}
	})
	return e.url
}

func suiteServer(t *testing.T) *mcp.Server {
	t.Helper()
	s, err := newServer()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// conforms runs the suite against an app and wants every required scenario.
func conforms(t *testing.T, b *box, app publisher.App, revisions ...string) {
	t.Helper()
	url := serve(t, app)
	for _, s := range servers {
		if slices.Contains(revisions, s.revision) {
			t.Run(s.revision, func(t *testing.T) { passes(t, b, s, url) })
		}
	}
}

// passes wants every required scenario of one set.
func passes(t *testing.T, b *box, s set, target string) {
	t.Helper()
	v, err := b.judge(t.Context(), s, target)
	if v != nil {
		t.Log(v)
		err = errors.Join(err, v.check())
	}
	if err != nil {
		t.Error(err)
	}
}

const legacy = "2025-11-25"

// Every required server scenario of both revisions passes on one URL.
func TestConformance(t *testing.T) {
	conforms(t, packages(t), publisher.App{Server: suiteServer(t)}, modern, legacy)
}

// The publisher answers most requests of 2026-07-28 by itself. The SDK, behind
// the same gate, is judged alike.
func TestConformanceOfTheSDK(t *testing.T) {
	s := suiteServer(t)
	conforms(t, packages(t), publisher.App{Server: s, Modern: mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return s },
		&mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true},
	)}, modern)
}

// The same through a gateway, for the revision that its upstream speaks. Of
// another revision some scenarios cannot pass: an older upstream's questions
// get keys that the suite does not know, and a tool that asks in the middle of
// its call cannot do so at 2026-07-28.
func TestConformanceThroughGateway(t *testing.T) {
	b := packages(t)
	t.Run("upstream", func(t *testing.T) {
		conforms(t, b, behindGateway(t, serve(t, publisher.App{Server: suiteServer(t)})), modern)
	})
	t.Run("older upstream", func(t *testing.T) {
		s := suiteServer(t)
		older := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
		t.Cleanup(func() { _ = older.Config.Close() }) // Close would wait for its sessions, whose streams end by nothing else
		app := behindGateway(t, older.URL)
		if app.Modern != nil {
			t.Fatal("the upstream is not older")
		}
		conforms(t, b, app, legacy)
	})
}

func behindGateway(t *testing.T, url string) publisher.App {
	t.Helper()
	g, err := gateway.New(t.Context(), &gateway.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return publisher.App{Server: g.Server(), Modern: g.Modern()}
}

// The count can fail: on a server that lacks what a scenario needs, and when
// the suite changes what it requires.
func TestCheckCatches(t *testing.T) {
	text := []byte("Required for R:\n\nServer scenarios (test against a server):\n  - one\n  - two\n  - three\n  - four\n\nClient scenarios:\n  - five\n")
	list := scenarios(text, "server")
	if strings.Join(list, " ") != "one two three four" {
		t.Fatalf("scenarios %q", list)
	}
	if list := scenarios(text, "client"); strings.Join(list, " ") != "five" {
		t.Fatalf("scenarios %q", list)
	}
	v := &verdict{set: set{"server", "R", 4, []string{"six", "seven"}}, required: list}
	v.count([]byte("✓ four: 1 passed, 0 failed\n=== SUMMARY ===\n✓ one: 2 passed, 0 failed\n✗ two: 1 passed, 1 failed\n✓ three: 0 passed, 0 failed\n✓ six: 1 passed, 0 failed\n"))
	if got := v.String(); got != "conformance server R: 1/4 required scenarios passed" {
		t.Error(got)
	}
	err := v.check()
	for _, want := range []string{"R: ✗ two: 1 passed, 1 failed", "R: ✓ three: 0 passed", "R: four: was not run", "R: seven: was not run"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "one") || strings.Contains(err.Error(), "six") {
		t.Error(err)
	}
	v.also = nil
	v.count([]byte("=== SUITE SUMMARY ===\n✓ one: 2 passed, 0 failed\n✓ two: 1 passed, 0 failed\n✓ three: 1 passed, 0 failed\n✓ four: 1 passed, 0 failed\n"))
	if err := v.check(); err != nil {
		t.Error(err)
	}
	v.count([]byte("=== SUITE SUMMARY ===\n✓ one: 2 passed, 0 failed\n✓ two: 1 passed, 0 failed\n✓ three: 1 passed, 0 failed\n✗ four: 1 passed, 0 failed, 1 warnings\n"))
	if v.check() == nil {
		t.Error("a warning was accepted")
	}
	v.scenarios = 5
	if v.check() == nil {
		t.Error("a scenario too few was accepted")
	}
}

// A client that ends with an error where it should not, and one that goes on
// where it should end, do not pass, whatever the suite says.
func TestCheckCatchesClients(t *testing.T) {
	v := &verdict{set: set{side: "client", revision: "R", scenarios: 2}, required: []string{"tools_call", refused[0]}}
	v.count([]byte("=== SUITE SUMMARY ===\n✓ tools_call: 1 passed, 0 failed\n✓ " + refused[0] + ": 1 passed, 0 failed\n"))
	v.errors = map[string]string{refused[0]: "no"}
	if err := v.check(); err != nil {
		t.Error(err)
	}
	v.errors["tools_call"] = "gave up"
	if err := v.check(); err == nil || !strings.Contains(err.Error(), "gave up") {
		t.Error(err)
	}
	v.errors = nil
	if err := v.check(); err == nil || !strings.Contains(err.Error(), "did not refuse") {
		t.Error(err)
	}
}

// A server without the suite's tools does not pass, so the suite is what
// judges.
func TestConformanceCatches(t *testing.T) {
	b := packages(t)
	s := suiteServer(t)
	s.RemoveTools("test_simple_text")
	v, err := b.judge(t.Context(), servers[1], serve(t, publisher.App{Server: s}))
	if err != nil {
		t.Fatal(err)
	}
	if got := v.missing(v.required); len(got) != 1 || got[0] != "tools-call-simple-text" {
		t.Errorf("missing %q", got)
	}
}

// The lock file has a digest for each package and names no place to fetch it
// from: that is the user's to choose.
func TestLockFile(t *testing.T) {
	lock, err := manifests.ReadFile("node/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	packages, digests := strings.Count(string(lock), `    "node_modules/`), strings.Count(string(lock), `"integrity": "sha512-`)
	if packages < 100 || digests != packages {
		t.Errorf("%d packages, %d digests", packages, digests)
	}
	if strings.Contains(string(lock), `"resolved"`) {
		t.Error("packages are bound to one place")
	}
}
