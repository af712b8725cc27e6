package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	_ "embed" // the authorization server
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/oauth"
	"github.com/openbot-build/openbot-go/oauth/oauthtest"
	"github.com/openbot-build/openbot-go/publicnet"
)

const (
	issuer    = "https://as.example.com"
	notesApp  = "https://apps.example.com/mcp/notes"
	mailApp   = "https://apps.example.com/mcp/mail"
	otherApp  = "https://apps.example.com/mcp/other" // the authorization server does not know it
	hostsFile = "https://host.example.com/oauth/client.json"
)

var (
	apps   = []string{notesApp, mailApp}
	scopes = []string{"notes.read", "notes.write"}
)

// authority is a running authorization server at issuer.
type authority struct {
	introspection *oauth.Introspection // for its resource servers

	// approve opens an authorization URL as alice, who agrees, and gives the
	// redirect to the host. An answer that ends elsewhere is an error.
	approve func(ctx context.Context, address string) (redirect string, err error)
}

// One flow, with the two halves of package oauth, against two authorization
// servers that have no code in common: the one of oauthtest, on go-oidc, and
// oidc-provider on Node.
func TestAuthorizationServers(t *testing.T) {
	for _, server := range []struct {
		name  string
		start func(t *testing.T, n *loopback, network *publicnet.Network, opaque bool) *authority
	}{{"go-oidc", startInProcess}, {"oidc-provider", startOIDCProvider}} {
		for _, opaque := range []bool{false, true} {
			t.Run(server.name+map[bool]string{false: " JWT", true: " opaque"}[opaque], func(t *testing.T) {
				n := newLoopback(t)
				network := n.network(t)
				a := server.start(t, n, network, opaque)
				f := &flow{T: t, authority: a, net: n, network: network, opaque: opaque, http: network.Client()}
				t.Cleanup(f.http.CloseIdleConnections)
				f.run()
			})
		}
	}
}

func startInProcess(t *testing.T, n *loopback, network *publicnet.Network, opaque bool) *authority {
	s, err := oauthtest.New(&oauthtest.Options{Issuer: issuer, Resources: apps, Scopes: scopes, Network: network, Opaque: opaque})
	if err != nil {
		t.Fatal(err)
	}
	n.serve("as.example.com", s)
	browser := n.browser(t)
	return &authority{introspection: s.Introspection(), approve: func(ctx context.Context, address string) (string, error) {
		return s.Approve(ctx, browser, address, "alice")
	}}
}

//go:embed node/oidc.mjs
var oidcScript string

func startOIDCProvider(t *testing.T, n *loopback, _ *publicnet.Network, opaque bool) *authority {
	b := packages(t)
	cert, key, ca := n.pems(t, "as.example.com")
	a := &authority{introspection: &oauth.Introspection{ClientID: "resource-server", ClientSecret: oauth.Secret(rand.Text())}}
	config, err := json.Marshal(map[string]any{
		"issuer": issuer, "key": key, "cert": cert, "ca": ca, "hosts": map[string]any{"host.example.com": n.own.Port()},
		"resources": apps, "scopes": scopes, "opaque": opaque, "secret": a.introspection.ClientSecret.Reveal(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	cmd := b.command(ctx, t.TempDir(), "--input-type=module", "-e", oidcScript)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // it ends with its input
		if err := cmd.Wait(); err != nil {
			t.Errorf("oidc-provider: %v", err)
		}
		cancel()
		if t.Failed() {
			t.Logf("oidc-provider says:\n%s", &complaints)
		}
	})
	if _, err := fmt.Fprintf(in, "%s\n", config); err != nil {
		t.Fatal(err)
	}
	var port uint16
	for lines := bufio.NewScanner(out); port == 0 && lines.Scan(); {
		_, _ = fmt.Sscan(lines.Text(), &port)
	}
	if port == 0 {
		t.Fatal("oidc-provider does not start")
	}
	n.place("as.example.com", port)

	browser := n.browser(t)
	a.approve = func(ctx context.Context, address string) (string, error) {
		for range 10 {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
			if err != nil {
				return "", err
			}
			answer, err := browser.Do(r)
			if err != nil {
				return "", err
			}
			_ = answer.Body.Close()
			next, err := answer.Location()
			if err != nil {
				return "", fmt.Errorf("%s without a redirect", answer.Status)
			}
			if address = next.String(); !strings.HasPrefix(address, issuer+"/") {
				return address, nil
			}
		}
		return "", errors.New("too many redirects")
	}
	return a
}
