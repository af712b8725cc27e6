package publicnet_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/publicnet"
)

// Crawler G3: one lookup, of an absolute name.
func TestRule_CrawlerG3_AbsoluteLookup(t *testing.T) {
	inNet(t, "-- GET "+appURL+" --\nhello\n", publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
		if _, _, err := get(t, c, appURL); err != nil {
			t.Fatal(err)
		}
		if got := n.Lookups(); len(got) != 1 || got[0] != "apps.example.com." {
			t.Errorf("lookups %q", got)
		}
	})
}

// Crawler G4, OB-151, FO-34, OB-T13, D12: every address of a name is checked,
// each time, before any is dialled.
func TestRule_CrawlerG4_WholeAnswerChecked(t *testing.T)     { testDialChecks(t) }
func TestRule_OB151_CheckedAtDial(t *testing.T)              { testDialChecks(t) }
func TestRule_FO34_PrivateNetwork(t *testing.T)              { testDialChecks(t) }
func TestRule_OBT13_PrivateAddress(t *testing.T)             { testDialChecks(t) }
func TestRule_OB150_PrivateNeverVisited(t *testing.T)        { testDialChecks(t) }
func TestRule_D12_ForbiddenAddressIsNotDialled(t *testing.T) { testDialChecks(t) }

func testDialChecks(t *testing.T) {
	inNet(t, `
-- GET https://rebind.example.com/ --
200
Connection: close

ok
-- DNS rebind.example.com --
93.184.216.34
-- DNS rebind.example.com --
127.0.0.1
-- DNS mixed.example.com --
93.184.216.34 10.0.0.1
-- DNS mixed6.example.com --
2a00:1450::1 ::ffff:10.0.0.1
-- DNS meta.example.com --
169.254.169.254
-- GET https://redirect.example.com/ --
302 https://meta.example.com/
-- GET https://literal.example.com/ --
302 https://[::ffff:169.254.169.254]/
`, publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
		if _, body, err := get(t, c, "https://rebind.example.com/"); err != nil || body != "ok\n" {
			t.Errorf("first: %q, %v", body, err)
		}
		for _, host := range []string{"rebind", "mixed", "mixed6", "meta", "redirect"} {
			_, _, err := get(t, c, "https://"+host+".example.com/")
			addr, ok := errors.AsType[*publicnet.AddrError](err)
			if !errors.Is(err, publicnet.ErrNotPublic) || !ok || !addr.Addr.IsValid() || publicnet.IsPublic(addr.Addr) {
				t.Errorf("%s: %v", host, err)
			}
		}
		if _, _, err := get(t, c, "https://literal.example.com/"); err == nil {
			t.Error("a redirect to an IP literal was followed")
		}
		for _, d := range n.Dials() {
			if !publicnet.IsPublic(d.Addr()) {
				t.Errorf("dialled %s", d)
			}
		}
	})
}

// OB-151: a retry on a new connection is checked anew.
func TestRule_OB151_RetryIsChecked(t *testing.T) {
	inNet(t, `
-- GET https://apps.example.com/ --
ok
-- GET https://apps.example.com/second --
reset
-- DNS apps.example.com --
93.184.216.34
-- DNS apps.example.com --
10.0.0.1
`, publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
		if _, _, err := get(t, c, appURL); err != nil {
			t.Fatal(err)
		}
		// The kept connection closes under the second request, which net/http
		// then sends again on a new one.
		if _, _, err := get(t, c, appURL+"second"); !errors.Is(err, publicnet.ErrNotPublic) {
			t.Errorf("retry: %v", err)
		}
		if d := n.Dials(); len(d) != 1 {
			t.Errorf("dials %v", d)
		}
	})
}

// Crawler G4: at most four addresses, both families, each with its share of the
// time.
func TestRule_CrawlerG4_FourAddresses(t *testing.T) {
	inNet(t, `
-- DNS apps.example.com --
2a00::1 2a00::2 2a00::3 2a00::4 2a00::5 2a00::1 ::ffff:93.184.1.1
-- CONNECT apps.example.com --
refused
`, publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
		_, _, err := get(t, c, appURL)
		if !errors.Is(err, publicnet.ErrConnect) {
			t.Errorf("error %v", err)
		}
		var got []string
		for _, d := range n.Dials() {
			got = append(got, d.String())
		}
		want := []string{"[2a00::1]:443", "93.184.1.1:443", "[2a00::2]:443", "[2a00::3]:443"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("dials (-want +got):\n%s", diff)
		}
	})
	inNet(t, `
-- GET https://apps.example.com/ --
ok
-- DNS apps.example.com --
93.184.1.1 93.184.1.2
-- CONNECT apps.example.com --
timeout
-- CONNECT apps.example.com --
ok
`, publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
		if _, _, err := get(t, c, appURL); err != nil {
			t.Errorf("a silent first address: %v", err)
		}
	})
}

// OB-154, crawler G11: TLS is verified and addresses are checked also over a
// resolver, dialer and roots from a test.
func TestRule_OB154_TLSVerified(t *testing.T)      { testTLS(t) }
func TestRule_CrawlerG11_BelowChecks(t *testing.T) { testTLS(t) }

func testTLS(t *testing.T) {
	inNet(t, `
-- TLS expired.example.com --
expired
-- TLS selfsigned.example.com --
selfsigned
-- TLS wrongname.example.com --
wrongname
-- TLS tls11.example.com --
tls11
-- DNS private.example.com --
10.0.0.1
`, publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
		for _, host := range []string{"expired", "selfsigned", "wrongname", "tls11"} {
			if _, _, err := get(t, c, "https://"+host+".example.com/"); !errors.Is(err, publicnet.ErrTLS) {
				t.Errorf("%s: %v", host, err)
			}
		}
		if _, _, err := get(t, c, "https://private.example.com/"); !errors.Is(err, publicnet.ErrNotPublic) {
			t.Errorf("private: %v", err)
		}
		if got := n.Requests(); len(got) != 0 {
			t.Errorf("requests %v", got)
		}
		// Authorities that the process does not know are no authorities.
		below := n.Below()
		below.Roots = nil
		other, err := publicnet.New(&publicnet.Options{UserAgent: "Test/1", Below: below})
		if err != nil {
			t.Fatal(err)
		}
		n.Host("apps.example.com")
		if _, _, err := get(t, other.Client(), appURL); !errors.Is(err, publicnet.ErrTLS) {
			t.Errorf("unknown authority: %v", err)
		}
	})
}

// Acquire holds a place from before the dial to the end of the request.
func TestAcquire(t *testing.T) {
	var held, most, asked int
	wait := time.Duration(0)
	fail := error(nil)
	opts := publicnet.Options{Acquire: func(ctx context.Context, addr netip.Addr) (func(), error) {
		asked++
		if !publicnet.IsPublic(addr) {
			t.Errorf("asked for %s", addr)
		}
		time.Sleep(wait)
		if fail != nil {
			return nil, fail
		}
		held++
		most = max(most, held)
		return func() { held-- }, nil
	}}
	inNet(t, `
-- GET https://apps.example.com/ --
200
wait 9s

ok
-- GET https://apps.example.com/empty --
204
-- GET https://apps.example.com/reset --
reset
-- GET https://cut.example.com/ --
200
cut

0123456789
-- GET https://private.example.com/ --
ok
-- DNS private.example.com --
10.0.0.1
-- DNS refused.example.com --
93.184.1.1 93.184.1.2
-- CONNECT refused.example.com --
refused
-- TLS expired.example.com --
expired
`, opts, func(t *testing.T, n *fakenet.Net, c *http.Client) {
		free := func(where string, want int) {
			t.Helper()
			synctest.Wait()
			if held != 0 || most > 1 || asked != want {
				t.Errorf("%s: %d held, at most %d, asked %d times; want %d", where, held, most, asked, want)
			}
			asked = 0
		}
		wait = time.Minute // does not count against the time limit
		for range 2 {      // a new connection, then a kept one
			resp, err := c.Get(appURL)
			if err != nil {
				t.Fatal(err)
			}
			if held != 1 {
				t.Errorf("%d places held while the body is open", held)
			}
			if _, err := io.ReadAll(resp.Body); err != nil {
				t.Fatal(err)
			}
			free("read to the end", 1)
			resp.Body.Close()
		}
		if d := n.Dials(); len(d) != 1 {
			t.Errorf("dials %v", d)
		}
		wait = 0
		if _, _, err := get(t, c, appURL+"empty"); err != nil {
			t.Error(err)
		}
		free("no body", 1)
		if resp, err := c.Get(appURL); err != nil {
			t.Error(err)
		} else {
			resp.Body.Close()
			resp.Body.Close()
		}
		free("closed unread", 1)
		get(t, c, appURL+"reset")
		asked = 0
		free("reset", 0)
		get(t, c, "https://cut.example.com/")
		free("cut", 1)
		get(t, c, "https://private.example.com/")
		free("private", 0)
		get(t, c, "https://refused.example.com/")
		free("refused twice", 2)
		get(t, c, "https://expired.example.com/")
		free("expired", 1)

		if _, _, err := get(t, c, appURL); err != nil {
			t.Error(err)
		}
		fail = errors.New("no place")
		for _, url := range []string{appURL, "https://cut.example.com/"} { // kept and new
			if _, _, err := get(t, c, url); !errors.Is(err, fail) {
				t.Errorf("%s: %v", url, err)
			}
		}
		free("no place", 3)
	})
}

func TestDNSFaults(t *testing.T) {
	inNet(t, "-- DNS fail.example.com --\nservfail\n-- DNS none.example.com --\n", publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
		for _, host := range []string{"fail", "none", "unknown"} {
			if _, _, err := get(t, c, "https://"+host+".example.com/"); !errors.Is(err, publicnet.ErrDNS) || !strings.Contains(err.Error(), host+".example.com") {
				t.Errorf("%s: %v", host, err)
			}
		}
	})
}
