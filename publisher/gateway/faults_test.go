package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Killed in the middle of a call: the caller learns that the outcome is
// unknown, nothing is sent again, and the command runs again soon.
func TestRule_FO23_KilledMidCall(t *testing.T) {
	noLeaks(t)
	var log lockedBuffer
	opts := command(t, "sdk")
	opts.Log = log.log()
	opts.pause = 200 * time.Millisecond
	g := open(t, opts)
	url := front(t, g)
	before := post(t, url, methodCall, callTool("pid"), nil).text(t)
	r := post(t, url, methodCall, callTool("die"), nil)
	if r.err == nil || r.err.Data.text("outcome") != "unknown" || !strings.Contains(r.err.Message, "look before you repeat") {
		t.Fatalf("killed mid-call: %s %+v", r.raw, r.err)
	}
	eventually(t, "readiness says so", func() bool { return g.Ready() != nil })
	if err := g.Ready(); !strings.Contains(err.Error(), "killed") {
		t.Errorf("ready: %v", err)
	}
	if r := post(t, url, methodCall, callTool("pid"), nil); r.err == nil || r.err.Data.text("outcome") != "not_sent" {
		t.Errorf("while down: %s %+v", r.raw, r.err)
	}
	// The lists last seen stay.
	if r := post(t, url, "tools/list", `{}`, nil); !strings.Contains(r.raw, `"echo"`) {
		t.Errorf("list while down: %s", r.raw)
	}
	eventually(t, "it runs again", func() bool { return g.Ready() == nil })
	if after := post(t, url, methodCall, callTool("pid"), nil).text(t); after == before {
		t.Errorf("pid %s is the same", after)
	}
	if n := strings.Count(log.String(), "upstream started"); n != 2 {
		t.Errorf("%d starts", n)
	}
}

// Restarts of a command that does not stay take longer and longer pauses.
func TestRestartBackoff(t *testing.T) {
	noLeaks(t)
	var log lockedBuffer
	opts := command(t, "sdk")
	file := t.TempDir() + "/f"
	opts.Command = []string{"/bin/sh", "-c", `[ -e "$1" ] && { echo no such table >&2; exit 3; }; : >"$1"; exec "$0"`, opts.Command[0], file}
	opts.Log, opts.pause = log.log(), 100*time.Millisecond
	g := open(t, opts)
	pid, _ := strconv.Atoi(post(t, front(t, g), methodCall, callTool("pid"), nil).text(t))
	_ = syscall.Kill(pid, syscall.SIGKILL)
	begin := time.Now()
	eventually(t, "it is tried three times more", func() bool { return strings.Count(log.String(), "upstream ended") >= 4 })
	if d := time.Since(begin); d < 700*time.Millisecond { // after 100, 200 and 400 ms
		t.Errorf("three tries within %v", d)
	}
	eventually(t, "readiness says why", func() bool {
		err := g.Ready()
		return err != nil && strings.Contains(err.Error(), "exit status 3") && strings.Contains(err.Error(), "no such table")
	})
	if !strings.Contains(log.String(), `line="no such table"`) {
		t.Error("stderr is not in the log")
	}
}

// A command that ends before it has answered will not answer later: New says
// so at once, with its last words, and without its secrets.
func TestCommandEndsAtOnce(t *testing.T) {
	noLeaks(t)
	begin := time.Now()
	_, err := New(t.Context(), &Options{
		Command: []string{"/bin/sh", "-c", "for i in 1 2 3 4 5; do echo line $i >&2; done; echo bad key $API_KEY >&2; exit 3"},
		Env:     map[string]string{"API_KEY": envSecret},
	})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.HasSuffix(err.Error(), "line 4 / line 5 / bad key "+removed) {
		t.Errorf("error %v", err)
	}
	if d := time.Since(begin); d > DefaultStartTimeout/2 {
		t.Errorf("it took %v", d)
	}
}

// Stopping is no fault.
func TestCloseIsNoFault(t *testing.T) {
	each(t, func(t *testing.T, era string, _ *Gateway, _ string) {
		var log lockedBuffer
		opts := upstreams[era](t)
		opts.Log = log.log()
		if err := open(t, opts).Close(); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(log.String(), "level=WARN") {
			t.Errorf("log %s", log.String())
		}
	})
}

func TestCommandCannotStart(t *testing.T) {
	noLeaks(t)
	begin := time.Now()
	_, err := New(t.Context(), &Options{Command: []string{"/no/such/program"}})
	if err == nil || !errors.Is(err, os.ErrNotExist) || time.Since(begin) > 5*time.Second {
		t.Errorf("error %v after %v", err, time.Since(begin))
	}
}

// A cancel reaches the upstream's tool within a second (FO-25).
func TestRule_FO25_CancelReachesUpstream(t *testing.T) {
	each(t, func(t *testing.T, era string, g *Gateway, url string) {
		file := t.TempDir() + "/f"
		ctx, cancel := context.WithCancel(t.Context())
		var call sync.WaitGroup
		call.Go(func() {
			_, _ = tryPost(ctx, url, methodCall, fmt.Sprintf(`{"name":"slow","arguments":{"file":%q}}`, file), map[string]any{progressToken: 1})
		})
		eventually(t, "the call starts", func() bool { return exists(file + ".started") })
		begin := time.Now()
		cancel()
		eventually(t, "the tool sees it", func() bool { return exists(file) })
		if d := time.Since(begin); d > 2*time.Second {
			t.Errorf("it took %v", d)
		}
		call.Wait()
		eventually(t, "the slot is free", func() bool { return len(g.slots) == 0 })
	})
}

// A hung upstream costs one time limit, and is given up after it.
func TestHung(t *testing.T) {
	noLeaks(t)
	opts := command(t, "hung")
	opts.CallTimeout, opts.check = 300*time.Millisecond, 250*time.Millisecond // the call ends well before the look that ends the link
	var log lockedBuffer
	opts.Log = log.log()
	g := open(t, opts)
	url := front(t, g)
	begin := time.Now()
	r := post(t, url, methodCall, callTool("t"), nil)
	if r.err == nil || r.err.Data.text("outcome") != "unknown" || !strings.Contains(r.err.Message, "no sign of life for 300ms") {
		t.Errorf("hung: %s %+v", r.raw, r.err)
	}
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("it took %v", d)
	}
	eventually(t, "it is started again", func() bool { return strings.Count(log.String(), "upstream started") >= 2 })
}

// Close stops a command that ignores everything but SIGKILL, and what it has
// started.
func TestStubbornCommand(t *testing.T) {
	noLeaks(t)
	opts := command(t, "stubborn")
	g := open(t, opts)
	l := g.link.Load()
	pid := l.ch.(*process).cmd.Process.Pid
	begin := time.Now()
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(begin); d < 2*opts.grace || d > 10*time.Second {
		t.Errorf("stopped after %v", d)
	}
	if err := syscall.Kill(-pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the group is still there: %v", err)
	}
}

// A child that keeps the pipes open does not keep the gateway.
func TestChildHoldsPipes(t *testing.T) {
	noLeaks(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	opts := command(t, "sdk")
	opts.Command = []string{"/bin/sh", "-c", "sleep 100 & exec " + self}
	g := open(t, opts)
	pid, _ := strconv.Atoi(post(t, front(t, g), methodCall, callTool("pid"), nil).text(t))
	_ = syscall.Kill(pid, syscall.SIGKILL)
	eventually(t, "the end is noticed", func() bool { return g.Ready() != nil || len(g.link.Load().calls) == 0 })
	eventually(t, "it runs again", func() bool { return g.Ready() == nil && g.link.Load() != nil })
}

func TestGarbage(t *testing.T) {
	noLeaks(t)
	var log lockedBuffer
	opts := command(t, "garbage")
	opts.Log = log.log()
	url := front(t, open(t, opts))
	if r := post(t, url, methodCall, callTool("t"), nil); r.result == nil {
		t.Errorf("after noise: %+v", r.err)
	}
	if !strings.Contains(log.String(), "Welcome to the server!") {
		t.Error("the noise is not in the log")
	}
	url = front(t, open(t, command(t, "notobject")))
	if r := post(t, url, methodCall, callTool("t"), nil); r.err == nil || r.err.Data.text("outcome") != "unknown" {
		t.Errorf("not an object: %s %+v", r.raw, r.err)
	}
}

// A message over the limit costs its own call only, and no memory to speak of.
func TestRule_FO21_TooLargeIsUnknown(t *testing.T) {
	noLeaks(t)
	opts := command(t, "big")
	opts.MaxResult = 1 << 20
	url := front(t, open(t, opts))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := post(t, url, methodCall, callTool("t"), nil)
	runtime.ReadMemStats(&after)
	if r.err == nil || r.err.Data.text("outcome") != "unknown" || !strings.Contains(r.err.Message, "larger than 1048576 bytes") {
		t.Errorf("50 MB: %.200s %+v", r.raw, r.err)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 10<<20 {
		t.Errorf("%d bytes were allocated", grown)
	}
	if r := post(t, url, "tools/list", `{}`, nil); r.result == nil {
		t.Errorf("afterwards: %+v", r.err)
	}
	url = front(t, open(t, command(t, "200k")))
	if r := post(t, url, methodCall, callTool("t"), nil); len(r.text(t)) != 200<<10 {
		t.Errorf("200 KB: %d bytes", len(r.raw))
	}
}

// A flood on stderr is cut and thinned, and holds nothing up.
func TestFlood(t *testing.T) {
	noLeaks(t)
	var log, stderr lockedBuffer
	opts := command(t, "flood")
	opts.Log, opts.Stderr = log.log(), &stderr
	g := open(t, opts)
	if r := post(t, front(t, g), methodCall, callTool("t"), nil); r.result == nil {
		t.Errorf("%+v", r.err)
	}
	_ = g.Close()
	lines := strings.Split(strings.TrimSuffix(stderr.String(), "\n"), "\n")
	if n := len(lines); n < linesAtOnce || n > linesAtOnce+linesASecond*10 {
		t.Errorf("%d lines were kept of 2000", n)
	}
	if n := len(lines[0]); n > maxLogLine+8 {
		t.Errorf("a line has %d bytes", n)
	}
	if !strings.Contains(log.String(), "dropped_lines") {
		t.Error("the log does not say that lines were dropped")
	}
}

// A list without an end is read to a cap (FO-22).
func TestRule_FO22_EndlessList(t *testing.T) {
	noLeaks(t)
	var log lockedBuffer
	opts := command(t, "endless")
	opts.Log = log.log()
	url := front(t, open(t, opts))
	r := post(t, url, "tools/list", `{}`, nil)
	if n := strings.Count(r.raw, `"inputSchema"`); n != 3 {
		t.Errorf("%d tools in %s", n, r.raw)
	}
	if _, more := r.result["nextCursor"]; more {
		t.Error("our list goes on")
	}
	if !strings.Contains(log.String(), "has no end") {
		t.Error("the log does not say so")
	}
}

func TestCallsAreCapped(t *testing.T) {
	noLeaks(t)
	opts := command(t, "sdk")
	opts.MaxCalls = 1
	g := open(t, opts)
	url := front(t, g)
	file := t.TempDir() + "/f"
	ctx, cancel := context.WithCancel(t.Context())
	var slow sync.WaitGroup
	slow.Go(func() {
		_, _ = tryPost(ctx, url, methodCall, fmt.Sprintf(`{"name":"slow","arguments":{"file":%q}}`, file), nil)
	})
	eventually(t, "the slow call starts", func() bool { return exists(file + ".started") })
	if r := post(t, url, methodCall, callTool("pid"), nil); r.err == nil || r.err.Data.text("outcome") != "not_sent" {
		t.Errorf("one too many: %s %+v", r.raw, r.err)
	}
	cancel()
	slow.Wait()
	eventually(t, "there is room again", func() bool {
		return post(t, url, methodCall, callTool("pid"), nil).err == nil
	})
}

// A slow client costs notifications, not memory, and does not hold up others.
func TestSlowReader(t *testing.T) {
	noLeaks(t)
	g := open(t, command(t, "sdk"))
	l := g.link.Load()
	c := l.start(t.Context(), &call{token: true}, methodCall, object{"name": encode("progress")})
	for range 10 * maxEvents {
		l.receive(&message{Method: noteProgress, Params: encode(map[string]any{"progressToken": 1})}, c)
	}
	if n := len(c.events); n > maxEvents {
		t.Errorf("%d events are kept", n)
	}
	if r := post(t, front(t, g), methodCall, callTool("pid"), nil); r.err != nil {
		t.Errorf("another call: %+v", r.err)
	}
	<-c.done
}

func TestUpstreamOfUnknownRevision(t *testing.T) {
	noLeaks(t)
	g := open(t, command(t, "modern"))
	url := front(t, g)
	info, _ := g.Info()
	if info.Version != "2" || g.link.Load().version != modernVersion {
		t.Errorf("info %+v", info)
	}
	r := post(t, url, methodCall, callTool("t"), map[string]any{metaLogLevel: "info", metaClient: map[string]any{"name": "me", "version": "1"}})
	meta := r.result.object("structuredContent")
	if meta.text(metaVersion) != modernVersion || meta.text(metaLogLevel) != "info" || meta.object(metaClient).text("name") != "me" {
		t.Errorf("a command of 2026-07-28 got %s", r.raw)
	}
	old := legacy(t, url, nil)
	res, err := old.CallTool(t.Context(), &mcp.CallToolParams{Name: "t"})
	if err != nil || res.StructuredContent.(map[string]any)[metaVersion] != modernVersion {
		t.Errorf("for an older client it got %+v, %v", res, err)
	}
}
