package publishercmd

import (
	"context"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/openbot-build/openbot-go/publicnet"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"test-upstream": testUpstream,
		"publisher": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			os.Exit(Run(ctx, os.Args[1:], &Env{
				Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
				Below: publicnet.Below{Resolver: noNames{}}, // a test asks no name server
			}))
		},
	})
}

// noNames is a resolver that knows nobody.
type noNames struct{}

func (noNames) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// servedConfig is the publication that scripts find at $ADDR: hello is as its
// card says, the others are at the wrong endpoint.
const servedConfig = echoConfig + `  - slug: renamed
    name: com.example/renamed
    version: 2.0.0
    description: Its endpoint is that of hello.
    endpoint: https://apps.example.com/mcp/hello
    card_url: https://apps.example.com/mcp/renamed/server-card
  - slug: lost
    name: com.example/lost
    version: 1.0.0
    description: Its endpoint is a page.
    endpoint: https://apps.example.com/apps/hello
    card_url: https://apps.example.com/mcp/lost/server-card
`

// lockedConfig is the publication that scripts find at $LOCKED: its app wants a
// sign-in.
const lockedConfig = echoConfig + `    auth: {issuers: [{url: "https://signin.example.com"}], scopes: {basic: [notes.read]}}
`

// The command as a person and a script meet it. A publication is served at $ADDR
// for apps.example.com, and one with a sign-in at $LOCKED, both with the
// certificate $CA; $UPSTREAM is an MCP server over plain HTTP.
func TestScripts(t *testing.T) {
	cert, key, _ := certificate(t, "apps.example.com")
	log, _ := start(t, "serve", "--config", write(t, "c.yaml", servedConfig), "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key)
	addr := log.wait(t, `msg=serving addr=(\S+)`)
	lockedLog, _ := start(t, "serve", "--config", write(t, "c.yaml", lockedConfig), "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key)
	lockedAddr := lockedLog.wait(t, `msg=serving addr=(\S+)`)
	plainLog, _ := start(t, "serve", "--config", write(t, "c.yaml", echoConfig), "--listen", "127.0.0.1:0")
	plainAddr := plainLog.wait(t, `msg=serving addr=(\S+)`)
	testscript.Run(t, testscript.Params{Dir: "testdata", RequireExplicitExec: true, Setup: func(env *testscript.Env) error {
		env.Setenv("ADDR", addr)
		env.Setenv("LOCKED", lockedAddr)
		env.Setenv("UPSTREAM", "http://"+plainAddr+"/mcp/hello")
		env.Setenv("CA", cert)
		return nil
	}})
}
