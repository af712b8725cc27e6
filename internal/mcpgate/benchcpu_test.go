package mcpgate

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// benchServers are the servers whose CPU time is compared.
var benchServers = map[string]func() http.Handler{
	"bare": func() http.Handler { return bare },
	"sdk":  func() http.Handler { return plainSDK(true) },
	"gate": func() http.Handler {
		g, err := New(echoServer(), nil)
		if err != nil {
			panic(err)
		}
		return g
	},
}

// benchServer is the main of a child process: it serves until its standard input
// ends.
func benchServer(name string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() { _ = http.Serve(l, benchServers[name]()) }()
	fmt.Println("http://" + l.Addr().String())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// BenchmarkCPU measures CPU time per request of a server in a process of its
// own, at 16 connections. Compare the metric of one run, not the wall time.
func BenchmarkCPU(b *testing.B) {
	for _, c := range []struct{ name, server, method, tool, body string }{
		{"call/bare", "bare", "tools/call", "echo", echoCall("echo")},
		{"call/gate-typed", "gate", "tools/call", "echo", echoCall("echo")},
		{"call/gate-raw", "gate", "tools/call", "raw", echoCall("raw")},
		{"call/sdk-typed", "sdk", "tools/call", "echo", echoCall("echo")},
		{"discover/gate", "gate", "server/discover", "", simple("server/discover", "")},
		{"list/gate", "gate", "tools/list", "", simple("tools/list", "")},
	} {
		b.Run(c.name, func(b *testing.B) { benchCPU(b, c.server, c.method, c.tool, c.body) })
	}
}

func benchCPU(b *testing.B, server, method, tool, body string) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "MCPGATE_BENCH_SERVER="+server)
	stdin, _ := cmd.StdinPipe()
	stdout, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	out := bufio.NewReader(stdout)
	url, err := out.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	url = strings.TrimSpace(url)
	const connections = 16
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	proto := request1(method, tool, body)
	run := func(n int) {
		var wait sync.WaitGroup
		for i := range connections {
			wait.Go(func() {
				for range (n + i) / connections {
					r, _ := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
					r.Header = proto.Header
					res, err := client.Do(r)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, res.Body)
					res.Body.Close()
					if res.StatusCode != 200 {
						b.Errorf("status %d", res.StatusCode)
						return
					}
				}
			})
		}
		wait.Wait()
	}
	b.ResetTimer()
	run(b.N)
	b.StopTimer()
	client.CloseIdleConnections()
	stdin.Close()
	_ = cmd.Wait()
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() // its start too: have many requests
	b.ReportMetric(float64(cpu.Microseconds())/float64(b.N), "cpu-µs/op")
}
