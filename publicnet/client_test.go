package publicnet_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/tools/txtar"

	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publicnet"
)

// inNet runs f in a bubble, with a client on an Internet in memory.
func inNet(t *testing.T, story string, opts publicnet.Options, f func(t *testing.T, n *fakenet.Net, c *http.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := fakenet.New()
		defer n.Close()
		if _, err := n.Load(txtar.Parse([]byte(story))); err != nil {
			t.Fatal(err)
		}
		opts.UserAgent = "OpenBot/1 (+https://bot.example.com/)"
		opts.Below = n.Below()
		network, err := publicnet.New(&opts)
		if err != nil {
			t.Fatal(err)
		}
		c := network.Client()
		defer c.CloseIdleConnections()
		f(t, n, c)
	})
}

// get reads one URL to its end.
func get(t *testing.T, c *http.Client, url string) (resp *http.Response, body string, err error) {
	t.Helper()
	resp, err = c.Get(url)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp, string(data), err
}

const appURL = "https://apps.example.com/"

func TestRequestHeaders(t *testing.T) {
	inNet(t, "-- GET "+appURL+" --\nhello\n", publicnet.Options{From: "bot@example.com"}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "https://Apps.Example.com.:443/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Referer": {"https://a.example.com/?q"}, "Cookie": {"a=b"}, "User-Agent": {"other"}, "X-Own": {"1"}}
		req.Host = "other.example.com"
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		want := http.Header{
			"Accept-Encoding": {"gzip"}, "From": {"bot@example.com"}, "User-Agent": {"OpenBot/1 (+https://bot.example.com/)"}, "X-Own": {"1"},
		}
		got := n.Requests()[0]
		if diff := cmp.Diff(want, got.Header); diff != "" || got.URL != appURL {
			t.Errorf("%s, headers (-want +got):\n%s", got.URL, diff)
		}
		if diff := cmp.Diff([]string{"apps.example.com."}, n.Lookups()); diff != "" {
			t.Errorf("lookups (-want +got):\n%s", diff)
		}
		if req.Header.Get("Cookie") == "" {
			t.Error("the caller's request was changed")
		}
	})
}

// OB-150, OB-153, FO-07: https only, on the first request and on each redirect.
func TestRule_OB150_HTTPSOnly(t *testing.T)        { testHTTPSOnly(t) }
func TestRule_OB153_RedirectsToHTTPS(t *testing.T) { testHTTPSOnly(t) }
func TestRule_FO07_DowngradeRefused(t *testing.T)  { testHTTPSOnly(t) }
func TestRule_OBT13_PlainHop(t *testing.T)         { testHTTPSOnly(t) }

func testHTTPSOnly(t *testing.T) {
	inNet(t, `
-- GET https://apps.example.com/ --
302 http://www.example.com/
-- GET https://apps.example.com/user --
302 https://user:secret@www.example.com/
-- GET https://www.example.com/ --
ok
`, publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
		for _, url := range []string{appURL, "http://www.example.com/"} {
			_, _, err := get(t, c, url)
			if e, ok := errors.AsType[*weburl.Error](err); !ok || e.Reason != weburl.NotHTTPS {
				t.Errorf("%s: %v", url, err)
			}
		}
		for _, url := range []string{appURL + "user", "https://user@www.example.com/", "https:///x", "https:opaque", appURL + strings.Repeat("a", 8192)} {
			if _, _, err := get(t, c, url); err == nil {
				t.Errorf("%s was fetched", url)
			}
		}
		if got := n.Requests(); len(got) != 2 {
			t.Errorf("requests %v", got)
		}
		// A body that is never sent is closed all the same.
		sent := &closing{Reader: strings.NewReader("x")}
		if _, err := c.Post("http://www.example.com/", "text/plain", sent); err == nil || !sent.closed {
			t.Errorf("post: %v, closed %v", err, sent.closed)
		}
	})
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

// OB-153, crawler G9: redirects take nothing along that was meant for another
// resource, and end after five.
func TestRule_OB153_NothingCrossesARedirect(t *testing.T) { testPlainRedirects(t) }
func TestRule_CrawlerG9_PlainClient(t *testing.T)         { testPlainRedirects(t) }
func TestRule_OBT13_SixthRedirect(t *testing.T)           { testPlainRedirects(t) }

func testPlainRedirects(t *testing.T) {
	inNet(t, `
-- GET https://apps.example.com/0 --
302 /1
Set-Cookie: a=b
-- GET https://apps.example.com/1 --
302 /2
-- GET https://apps.example.com/2 --
302 /3
-- GET https://apps.example.com/3 --
302 /4
-- GET https://apps.example.com/4 --
302 https://www.example.com/5?secret
-- GET https://www.example.com/5?secret --
five
-- GET https://apps.example.com/six --
302 /0
`, publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
		req, err := http.NewRequestWithContext(t.Context(), "GET", appURL+"0", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Authorization": {"Bearer x"}, "If-None-Match": {`"1"`}, "If-Modified-Since": {"x"}, "Range": {"bytes=0-"}, "Accept": {"a/b"}}
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		got := n.Requests()
		if len(got) != 6 || got[0].Header.Get("Authorization") == "" {
			t.Fatalf("requests %v", got)
		}
		for _, r := range got[1:] {
			want := http.Header{"Accept": {"a/b"}, "Accept-Encoding": {"gzip"}, "User-Agent": {"OpenBot/1 (+https://bot.example.com/)"}}
			if diff := cmp.Diff(want, r.Header); diff != "" {
				t.Errorf("%s: headers (-want +got):\n%s", r, diff)
			}
		}
		if _, _, err := get(t, c, appURL+"six"); !errors.Is(err, publicnet.ErrTooManyRedirects) {
			t.Errorf("sixth: %v", err)
		}
	})
}

// OB-151, crawler G9: what answers try to start is not started.
func TestRule_OB151_AltSvcIgnored(t *testing.T) { testIgnored(t) }
func TestRule_OB153_NoCookies(t *testing.T)     { testIgnored(t) }

func testIgnored(t *testing.T) {
	inNet(t, `
-- GET https://apps.example.com/ --
200
Alt-Svc: h2="other.example.com:443"; ma=3600
Refresh: 0; url=https://other.example.com/
Set-Cookie: id=1; Domain=example.com
Link: <https://other.example.com/>; rel=preload

ok
-- GET https://other.example.com/ --
other
`, publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
		for range 2 {
			if _, _, err := get(t, c, appURL); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range n.Requests() {
			if r.URL != appURL || r.Header.Get("Cookie") != "" {
				t.Errorf("request %v %v", r, r.Header)
			}
		}
		if d := n.Dials(); len(d) != 1 {
			t.Errorf("dials %v: one connection carries a visit", d)
		}
	})
}

func ExampleNew() {
	network, err := publicnet.New(&publicnet.Options{UserAgent: "Example/1.0 (+https://example.com/bot)"})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := network.Client()
	defer client.CloseIdleConnections()
	_, err = client.Get("https://169.254.169.254/latest/meta-data/")
	fmt.Println(err)
	fmt.Println(network.CheckURL("https://metadata.google.internal/"))
	fmt.Println(publicnet.IsPublic(netip.MustParseAddr("169.254.169.254")))
	// Output:
	// Get "https://169.254.169.254/latest/meta-data/": the address "https://169.254.169.254" has an IP address as its host; a domain name is needed
	// metadata.google.internal is under .internal, which never names a public host; use a public domain name
	// false
}

// Crawler G6: HTTP/1.1 without proxy, 64 KiB of headers, one connection for a
// visit.
func TestRule_CrawlerG6_Transport(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	inNet(t, "", publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
		header := 0
		n.Handle("apps.example.com", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Proto != "HTTP/1.1" || r.TLS.NegotiatedProtocol != "http/1.1" || r.TLS.Version < 0x0303 {
				t.Errorf("%s over %q, TLS %x", r.Proto, r.TLS.NegotiatedProtocol, r.TLS.Version)
			}
			w.Header().Set("X-Big", strings.Repeat("x", header))
		}))
		for size, want := range map[int]error{60 << 10: nil, 65 << 10: publicnet.ErrTooLarge} {
			header = size
			if _, _, err := get(t, c, appURL); !errors.Is(err, want) {
				t.Errorf("%d octets of headers: %v", size, err)
			}
		}
		if c.Jar != nil {
			t.Error("there is a cookie jar")
		}
	})
	inNet(t, "-- GET "+appURL+" --\nok\n-- GET "+appURL+"robots.txt --\nok\n", publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
		for _, path := range []string{"robots.txt", "", "gone"} {
			if _, _, err := get(t, c, appURL+path); err != nil {
				t.Error(err)
			}
		}
		c.CloseIdleConnections()
		if _, _, err := get(t, c, appURL); err != nil {
			t.Error(err)
		}
		if d := n.Dials(); len(d) != 2 {
			t.Errorf("dials %v, want one for the visit and one after it", d)
		}
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
