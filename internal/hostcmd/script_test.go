package hostcmd

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/openbot-build/openbot-go/oauth/cimd"
	"github.com/openbot-build/openbot-go/publicnet"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"host": func() {
			env := &Env{Stdout: os.Stdout, Stderr: os.Stderr}
			if addr := os.Getenv("ADDR"); addr != "" {
				env.Below = publicnet.Below{
					Resolver: names{}, Roots: x509.NewCertPool(),
					Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
						return new(net.Dialer).DialContext(ctx, "tcp", addr)
					},
				}
				ca, err := os.ReadFile(os.Getenv("CA"))
				if err != nil || !env.Below.Roots.AppendCertsFromPEM(ca) {
					panic("no certificate")
				}
			}
			os.Exit(Run(context.Background(), os.Args[1:], env))
		},
	})
}

// names knows example.com and its private neighbour.
type names struct{}

func (names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	switch host {
	case "example.com.":
		return []netip.Addr{netip.MustParseAddr("1.1.1.1")}, nil
	case "inside.example.com.":
		return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
	}
	return nil, &net.DNSError{Name: host, IsNotFound: true, Err: "no such host"}
}

// The command as a person and a script meet it. The documents of example.com
// are served at $ADDR with the certificate $CA.
func TestScripts(t *testing.T) {
	mux := http.NewServeMux()
	serve := func(id string, d *cimd.Document) {
		h, err := d.Handler()
		if err != nil {
			t.Fatal(err)
		}
		mux.Handle(strings.TrimPrefix(id, "https://example.com"), h)
	}
	const id = "https://example.com/client.json"
	good, err := cimd.New(id, "My Host", defaultRedirects...)
	if err != nil {
		t.Fatal(err)
	}
	serve(id, good)
	serve("https://example.com/moved.json", good)
	poor, err := cimd.New("https://example.com:8443/poor.json?v=1", "Poor", "http://localhost/cb")
	if err != nil {
		t.Fatal(err)
	}
	poor.GrantTypes, poor.ApplicationType, poor.TokenEndpointAuthMethod = nil, "", ""
	serve("https://example.com/poor.json", poor)
	mux.Handle("/redirect", http.RedirectHandler("/client.json", http.StatusFound))
	mux.HandleFunc("/secret", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"client_id":"https://example.com/secret","client_secret":"x","redirect_uris":["https://example.com/cb"]}`))
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(bytes.Repeat([]byte(" "), 6<<10))
	})
	srv := httptest.NewTLSServer(mux) // with a certificate for example.com
	t.Cleanup(srv.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{Dir: "testdata", RequireExplicitExec: true, Setup: func(env *testscript.Env) error {
		env.Setenv("ADDR", srv.Listener.Addr().String())
		env.Setenv("CA", ca)
		return nil
	}})
}

func TestRunStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	env := &Env{Stdout: &out, Stderr: &errs, Below: publicnet.Below{Resolver: names{}}}
	if code := Run(ctx, []string{"client-document", "--id", "https://example.com/client.json", "--check"}, env); code != exitStopped || out.Len() > 0 {
		t.Errorf("exit %d: %s%s", code, &out, &errs)
	}
}

// A value that can be no good is a fault of the command line; a published
// document that is none is the finding that the command is for.
func TestExitStatusOfBadValues(t *testing.T) {
	const id = "https://none.example.com/client.json"
	for name, c := range map[string]struct {
		args []string
		want int
	}{
		"id":             {[]string{"--id", "http://h.example/c", "--name", "H"}, exitBadCall},
		"root id":        {[]string{"--id", "https://h.example/", "--name", "H"}, exitBadCall},
		"id port":        {[]string{"--id", "https://h.example:0/c", "--name", "H"}, exitBadCall},
		"redirect":       {[]string{"--id", id, "--name", "H", "--redirect", "http://h.example/"}, exitBadCall},
		"redirect host":  {[]string{"--id", id, "--name", "H", "--redirect", "https://h;evil/cb"}, exitBadCall},
		"name":           {[]string{"--id", id, "--name", "H\u202e"}, exitBadCall},
		"long name":      {[]string{"--id", id, "--name", strings.Repeat("H", 3000)}, exitBadCall},
		"checked id":     {[]string{"--id", "http://h.example/c", "--check"}, exitBadCall},
		"checked host":   {[]string{"--id", "https://*.example/c", "--check"}, exitBadCall},
		"good":           {[]string{"--id", id, "--name", "H"}, exitOK},
		"not to be read": {[]string{"--id", id, "--check"}, exitFailed},
	} {
		var out, errs bytes.Buffer
		code := Run(t.Context(), append([]string{"client-document"}, c.args...), &Env{Stdout: &out, Stderr: &errs, Below: publicnet.Below{Resolver: names{}}})
		if code != c.want || code == exitBadCall && (out.Len() > 0 || errs.Len() == 0) {
			t.Errorf("%s: exit %d, want %d: %s%s", name, code, c.want, &out, &errs)
		}
		for line := range strings.Lines(errs.String()) {
			if !strings.HasPrefix(line, "host: ") {
				t.Errorf("%s: the line %q", name, line)
			}
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestOutputThatFails(t *testing.T) {
	for _, args := range [][]string{
		{"client-document", "--id", "https://example.com/client.json", "--name", "H"},
		{"client-document", "--id", "https://none.example.com/client.json", "--check"},
	} {
		var errs bytes.Buffer
		if code := Run(t.Context(), args, &Env{Stdout: full{}, Stderr: &errs, Below: publicnet.Below{Resolver: names{}}}); code != exitFailed || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("%q: exit %d: %s", args, code, &errs)
		}
	}
}
