package oauth_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"

	"github.com/openbot-build/openbot-go/publicnet"
)

// testNetwork is an Internet of the given hosts, all of them names below
// example.com, for which the certificate of httptest is good.
func testNetwork(hosts map[string]http.Handler) (*publicnet.Network, *httptest.Server, error) {
	listener := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hosts[r.Host].ServeHTTP(w, r)
	}))
	roots := x509.NewCertPool()
	roots.AddCert(listener.Certificate())
	network, err := publicnet.New(&publicnet.Options{UserAgent: "test", Below: publicnet.Below{
		Resolver: everywhere{},
		Roots:    roots,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, listener.Listener.Addr().String())
		},
	}})
	return network, listener, err
}

type everywhere struct{}

// LookupNetIP gives an address that the guard takes for public. It is not dialled.
func (everywhere) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
}

const discover = `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":` +
	`{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`

// A protected app is called with a token, against an authorization server on
// loopback.
func Example_test() {
	if err := callWithToken(); err != nil {
		fmt.Println(err)
	}
	// Output: 200
}

func callWithToken() error {
	hosts := map[string]http.Handler{}
	network, listener, err := testNetwork(hosts)
	if err != nil {
		return err
	}
	defer listener.Close()
	authority, err := developmentServer(network)
	if err != nil {
		return err
	}
	hosts["signin.example.com"] = authority
	app, err := protectedNotes(network)
	if err != nil {
		return err
	}
	defer app.Close()
	token, err := authority.Token("alice", "https://apps.example.com/mcp/notes", "notes.read")
	if err != nil {
		return err
	}
	r := httptest.NewRequest(http.MethodPost, "/mcp/notes", strings.NewReader(discover))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("MCP-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", "server/discover")
	answer := httptest.NewRecorder()
	app.ServeHTTP(answer, r) // 200; 401 without the token
	fmt.Println(answer.Code)
	return nil
}
