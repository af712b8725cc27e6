package crawlercmd_test

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/internal/crawlercmd"
	"github.com/openbot-build/openbot-go/internal/fakenet"
)

// checked runs crawler check on an Internet in memory that has no site at all,
// but for what extra flags reach.
func checked(ctx context.Context, t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	internet := fakenet.New()
	defer internet.Close()
	var out, errs bytes.Buffer
	code = crawlercmd.Run(ctx, append([]string{"check", "--about", "https://crawler.example.com/", "--contact", "crawler@example.com"}, args...),
		&crawlercmd.Env{Stdout: &out, Stderr: &errs, Below: internet.Below()})
	return code, out.String(), errs.String()
}

// A publisher sees what a crawl will make of an app before its name leads to it.
func TestCheckConnectTo(t *testing.T) {
	t.Parallel()
	l := newLoopback(t)
	l.publish(t, 1)
	addr, err := os.ReadFile(filepath.Join(l.dir, addrFile))
	if err != nil {
		t.Fatal(err)
	}
	const host = "s0000.example.com"
	to, ca := host+":443:"+string(addr), filepath.Join(l.dir, rootsFile)

	code, out, errs := checked(t.Context(), t, host, "--connect-to", to, "--ca", ca)
	if code != 0 || !strings.Contains(out, "apps that would be listed: 1\n") {
		t.Errorf("exit status %d:\n%s%s", code, out, errs)
	}
	// Without the authority the certificate is not trusted.
	code, out, errs = checked(t.Context(), t, host, "--connect-to", to)
	if code != 1 || !strings.Contains(out, "\nNo secure connection to "+host+" could be made: ") {
		t.Errorf("exit status %d:\n%s%s", code, out, errs)
	}
	// Other names are reached as usual, here not at all.
	code, out, errs = checked(t.Context(), t, "s0001.example.org", "--connect-to", to, "--ca", ca)
	if code != 1 || !strings.Contains(out, "\nThe name s0001.example.org cannot be looked up.\n") {
		t.Errorf("exit status %d:\n%s%s", code, out, errs)
	}
	// Another port is open for that name only.
	code, out, errs = checked(t.Context(), t, "https://"+host+":8443/card", "--connect-to", host+":8443:"+string(addr), "--ca", ca)
	if code != 1 || !strings.Contains(errs, "visited https://"+host+":8443/card: gone") {
		t.Errorf("exit status %d:\n%s%s", code, out, errs)
	}
	code, _, errs = checked(t.Context(), t, "https://"+host+":9443/card", "--connect-to", to, "--ca", ca)
	if code != 2 || !strings.Contains(errs, "only these ports are contacted: 443") {
		t.Errorf("exit status %d: %s", code, errs)
	}
}

// A dry run that is stopped says so, and is no success.
func TestCheckStopped(t *testing.T) {
	t.Parallel()
	l := newLoopback(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	l.handlers["s0000.example.com"] = func(_ http.ResponseWriter, r *http.Request) {
		stop()
		select {
		case <-r.Context().Done():
		case <-time.After(10 * time.Second):
		}
	}
	addr, err := os.ReadFile(filepath.Join(l.dir, addrFile))
	if err != nil {
		t.Fatal(err)
	}
	code, out, errs := checked(ctx, t, "s0000.example.com", "--connect-to", "s0000.example.com:443:"+string(addr), "--ca", filepath.Join(l.dir, rootsFile))
	if code != 130 || out != "" || errs != "crawler: stopped\n" {
		t.Errorf("exit status %d: %q, %q", code, out, errs)
	}
}
