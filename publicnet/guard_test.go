package publicnet

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"code.dny.dev/ssrf"

	"github.com/openbot-build/openbot-go/internal/webtest"
	"github.com/openbot-build/openbot-go/internal/weburl"
)

func newNetwork(t testing.TB, change func(*Options)) *Network {
	t.Helper()
	opts := &Options{UserAgent: "Test/1"}
	if change != nil {
		change(opts)
	}
	n, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

type addressVectors struct {
	Addresses []struct {
		ID, IP, Network, Dial, Verdict, Why string
	} `json:"address_vectors"`
	URLs []struct {
		ID, URL, Verdict, Why, Canonical string
	} `json:"url_vectors"`
}

func TestAddressVectors(t *testing.T) {
	n := newNetwork(t, nil)
	cases := 0
	for _, file := range webtest.Vectors[addressVectors](t, "ssrf-vectors.json") {
		for _, v := range file.Addresses {
			cases++
			err := n.control(v.Network, v.Dial, nil)
			if (err == nil) != (v.Verdict == "allow") {
				t.Errorf("%s %s (%s): %v; want %s", v.ID, v.Dial, v.Why, err, v.Verdict)
			}
			if err != nil && !errors.Is(err, ErrNotPublic) {
				t.Errorf("%s %s: %v is not ErrNotPublic", v.ID, v.Dial, err)
			}
			addr, parseErr := netip.ParseAddr(v.IP)
			if parseErr != nil || !strings.HasPrefix(v.Network, "tcp") || !strings.HasSuffix(v.Dial, ":443") {
				continue // a case about network or port
			}
			if IsPublic(addr) != (v.Verdict == "allow") {
				t.Errorf("%s: IsPublic(%s) is %v; want %s", v.ID, addr, IsPublic(addr), v.Verdict)
			}
		}
	}
	if cases == 0 {
		t.Error("no cases")
	}
}

func TestURLVectors(t *testing.T) {
	n := newNetwork(t, nil)
	cases := 0
	for _, file := range webtest.Vectors[addressVectors](t, "ssrf-vectors.json") {
		for _, v := range file.URLs {
			cases++
			if v.ID == "url-019" && v.Canonical == "" {
				// The fragment is dropped, and with it what looks like another host (G1).
				v.Verdict, v.Canonical = "allow", "https://apps.example.com/"
			}
			err := n.CheckURL(v.URL)
			if v.Verdict != "either" && (err == nil) != (v.Verdict == "allow") {
				t.Errorf("%s %q (%s): %v; want %s", v.ID, v.URL, v.Why, err, v.Verdict)
			}
			if v.Canonical != "" {
				if u, err := weburl.Parse(v.URL); err != nil || u.String() != v.Canonical {
					t.Errorf("%s %q: normal form %q, %v; want %q", v.ID, v.URL, u, err, v.Canonical)
				}
			}
		}
	}
	if cases == 0 {
		t.Error("no cases")
	}
}

// Crawler G2, OB-152: names that no public host has are refused without a
// lookup, in every spelling.
func TestRule_CrawlerG2_HostNames(t *testing.T) { testHostNames(t) }
func TestRule_OB152_HostNames(t *testing.T)     { testHostNames(t) }

func testHostNames(t *testing.T) {
	n := newNetwork(t, nil)
	for _, host := range []string{
		"localhost", "LOCALHOST", "a.localhost", "printer.local", "db.internal", "metadata.google.internal.", "x.home.arpa", "home.arpa",
		"x.onion", "x.alt", "x.test", "x.invalid", "x.example", "intranet", "com", "co.uk", "github.io", "kubernetes.default.svc", "a.corp",
		"ⓛⓞⓒⓐⓛⓗⓞⓢⓣ", "a.ｌocal",
	} {
		err := n.CheckURL("https://" + host + "/")
		addr, ok := errors.AsType[*AddrError](err)
		if !errors.Is(err, ErrNotPublic) || !ok || addr.Reason == "" || addr.Addr.IsValid() {
			t.Errorf("%s: %v", host, err)
		}
	}
	for _, literal := range []string{"127.1", "2130706433", "0x7f.1", "0177.0.0.1", "[::1]", "１２７.0.0.1", "[fe80::1%25eth0]", "93.184.216.34"} {
		if _, ok := errors.AsType[*weburl.Error](n.CheckURL("https://" + literal + "/")); !ok {
			t.Errorf("%s: %v", literal, n.CheckURL("https://"+literal+"/"))
		}
	}
	for _, host := range []string{"example.com", "notlocalhost.com", "local.example.com", "example.co.uk", "a.github.io", "bücher.example.com", "xn--p1ai.example.org", "test.de"} {
		if err := n.CheckURL("https://" + host + "/"); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// Crawler G1: https and port 443, more ports only by option.
func TestRule_CrawlerG1_SchemeAndPort(t *testing.T) {
	n := newNetwork(t, nil)
	err := n.CheckURL("http://apps.example.com/")
	if e, ok := errors.AsType[*weburl.Error](err); !ok || e.Reason != weburl.NotHTTPS {
		t.Errorf("http: %v", err)
	}
	err = n.CheckURL("https://apps.example.com:8443/")
	if !errors.Is(err, ErrNotPublic) || !strings.Contains(err.Error(), "8443") || !strings.Contains(err.Error(), "443") {
		t.Errorf("port 8443: %v", err)
	}
	more := newNetwork(t, func(o *Options) { o.Ports = []int{8443} })
	for _, url := range []string{"https://apps.example.com:8443/", "https://apps.example.com/", "https://apps.example.com/" + strings.Repeat("a", 8000)} {
		if err := more.CheckURL(url); err != nil {
			t.Errorf("%.40s: %v", url, err)
		}
	}
	if err := n.CheckURL("https://apps.example.com/" + strings.Repeat("a", 8192)); err == nil {
		t.Error("an address over 8 KiB passed")
	}
}

// Crawler G5, OB-152: the guardian and what is added to it.
func TestRule_CrawlerG5_Guardian(t *testing.T)       { testGuardian(t) }
func TestRule_D36_Guardian(t *testing.T)             { testGuardian(t) }
func TestRule_OB152_ForbiddenAddresses(t *testing.T) { testGuardian(t) }

func testGuardian(t *testing.T) {
	for addr, want := range map[string]bool{
		"93.184.216.34": true, "2a00:1450:4001:81b::200e": true, "168.63.129.15": true, "168.63.129.17": true,
		"168.63.129.16": false, "127.0.0.1": false, "10.0.0.1": false, "169.254.169.254": false, "100.64.0.1": false, "192.0.2.1": false,
		"::1": false, "::ffff:93.184.216.34": false, "::7f00:1": false, "64:ff9b::5db8:d822": false, "2002:7f00:1::": false,
		"2001:0:7f00:1::": false, "fec0::1": false, "fe80::1%eth0": false, "2a00::1%eth0": false, "2001:db8::1": false, "fd00::1": false,
	} {
		if got := IsPublic(netip.MustParseAddr(addr)); got != want {
			t.Errorf("IsPublic(%s) is %v", addr, got)
		}
	}
	if IsPublic(netip.Addr{}) {
		t.Error("the zero address is public")
	}

	own := newNetwork(t, func(o *Options) {
		o.Deny = []netip.Prefix{netip.MustParsePrefix("93.184.0.0/16"), netip.MustParsePrefix("2a00:1450::/32")}
	})
	for _, dial := range []string{"93.184.216.34:443", "[2a00:1450::1]:443", "168.63.129.16:443"} {
		network := "tcp4"
		if dial[0] == '[' {
			network = "tcp6"
		}
		err := own.control(network, dial, nil)
		addr, ok := errors.AsType[*AddrError](err)
		if !ok || !errors.Is(err, ErrNotPublic) || !errors.Is(err, ssrf.ErrProhibitedIP) || !strings.Contains(dial, addr.Addr.String()) {
			t.Errorf("%s: %v", dial, err)
		}
	}
	if err := own.control("tcp4", "8.8.8.8:443", nil); err != nil {
		t.Errorf("8.8.8.8: %v", err)
	}
	for _, bad := range []string{"localhost:443", "8.8.8.8:80", "8.8.8.8:0", ""} {
		if err := own.control("tcp4", bad, nil); !errors.Is(err, ErrNotPublic) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// OB-152: NAT64 only if the operator declares it, and then the address inside
// is judged.
func TestRule_OB152_NAT64(t *testing.T) {
	n := newNetwork(t, func(o *Options) { o.NAT64 = []netip.Prefix{netip.MustParsePrefix("64:ff9b::/96")} })
	if err := n.control("tcp6", "[64:ff9b::5db8:d822]:443", nil); err != nil {
		t.Errorf("93.184.216.34 behind NAT64: %v", err)
	}
	for _, dial := range []string{"[64:ff9b::7f00:1]:443", "[64:ff9b::a9fe:a9fe]:443", "[64:ff9b::a83f:8110]:443", "[64:ff9b:1::101:101]:443", "[64:ff9b::5db8:d822]:80"} {
		if err := n.control("tcp6", dial, nil); !errors.Is(err, ErrNotPublic) {
			t.Errorf("%s: %v", dial, err)
		}
	}
	for _, prefix := range []string{"64:ff9b::/64", "10.0.0.0/8", "::ffff:0:0/96"} {
		if _, err := New(&Options{UserAgent: "Test/1", NAT64: []netip.Prefix{netip.MustParsePrefix(prefix)}}); err == nil {
			t.Errorf("NAT64 prefix %s was accepted", prefix)
		}
	}
}

// Crawler G3, G4: the real network has Go's own resolver and checks once more
// at the socket.
func TestRule_CrawlerG3_GoResolver(t *testing.T) {
	n := newNetwork(t, nil)
	if r, ok := n.opts.Below.Resolver.(*net.Resolver); !ok || !r.PreferGo {
		t.Errorf("resolver is %#v", n.opts.Below.Resolver)
	}
}

func TestRule_CrawlerG4_SecondCheckAtTheSocket(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Skip("no loopback to listen on:", err)
	}
	defer l.Close()
	n := newNetwork(t, func(o *Options) { o.Ports = []int{l.Addr().(*net.TCPAddr).Port} })
	if conn, err := n.dial(t.Context(), "tcp4", l.Addr().String()); !errors.Is(err, ErrNotPublic) {
		t.Errorf("dial of %s: %v, %v", l.Addr(), conn, err)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, opts := range map[string]*Options{
		"nil":            nil,
		"no user agent":  {},
		"blank":          {UserAgent: " "},
		"line break":     {UserAgent: "a\r\nX: y"},
		"from":           {UserAgent: "a", From: "a\n"},
		"port 0":         {UserAgent: "a", Ports: []int{0}},
		"port 65536":     {UserAgent: "a", Ports: []int{65536}},
		"bytes":          {UserAgent: "a", MaxBytes: -1},
		"timeout":        {UserAgent: "a", Timeout: -1},
		"redirects":      {UserAgent: "a", MaxRedirects: -1},
		"invalid prefix": {UserAgent: "a", Deny: []netip.Prefix{{}}},
	} {
		if _, err := New(opts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestOptionsAreCopied(t *testing.T) {
	opts := &Options{UserAgent: "a", Ports: []int{8443}, Deny: []netip.Prefix{netip.MustParsePrefix("93.184.0.0/16")}}
	n, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	opts.Ports[0], opts.Deny[0] = 22, netip.MustParsePrefix("1.0.0.0/8")
	if n.control("tcp4", "93.184.216.34:443", nil) == nil || n.CheckURL("https://example.com:8443/") != nil {
		t.Error("a change of the caller's options changed the network")
	}
}

func TestRegistrableDomain(t *testing.T) {
	for host, want := range map[string]string{
		"apps.example.com": "example.com", "a.b.example.co.uk": "example.co.uk", "x.a.github.io": "a.github.io", "a.github.io": "a.github.io",
		"github.io": "github.io", "co.uk": "co.uk", "example.com": "example.com", "localhost": "localhost",
	} {
		if got := RegistrableDomain(host); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
}

func TestAddrErrorReads(t *testing.T) {
	n := newNetwork(t, nil)
	for addr, want := range map[string]string{
		"127.0.0.1": "the machine itself", "10.0.0.7": "private network", "169.254.169.254": "metadata", "224.0.0.1": "multicast",
		"192.0.2.1": "special purposes", "::ffff:1.1.1.1": "inside IPv6", "fe80::1%eth0": "local network interface",
	} {
		a := netip.MustParseAddr(addr)
		network := "tcp4"
		if a.Is6() {
			network = "tcp6"
		}
		err := n.checkAddr("apps.example.com", network, netip.AddrPortFrom(a, 443))
		if err == nil || !strings.HasPrefix(err.Error(), "apps.example.com points to "+addr) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

// A connection without TLS is never made, whatever a transport asks for.
func TestPlainDialRefused(t *testing.T) {
	if _, err := refusePlain(t.Context(), "tcp", "example.com:80"); !errors.Is(err, ErrNotPublic) {
		t.Error(err)
	}
	n := newNetwork(t, nil)
	if _, err := n.dialTLS(t.Context(), "tcp", "example.com:443"); err == nil {
		t.Error("a dial without a request went through")
	}
}

func BenchmarkClient(b *testing.B) {
	n := newNetwork(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		if n.Client() == nil {
			b.Fatal()
		}
	}
}
