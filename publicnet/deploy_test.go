package publicnet_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/openbot-build/openbot-go/publicnet"
)

// The second wall, the network's own rules in deploy, refuses nothing that the
// guard lets through, and holds the ranges that matter most.
func TestRule_CrawlerG10_SecondWall(t *testing.T) {
	prefixForm := regexp.MustCompile(`[0-9a-f.:]*[.:][0-9a-f.:]*/[0-9]+`)
	for _, name := range []string{"egress.nft", "egress-networkpolicy.yaml"} {
		data, err := os.ReadFile(filepath.Join("..", "deploy", name))
		if err != nil {
			t.Fatal(err)
		}
		var walls []netip.Prefix
		for _, text := range prefixForm.FindAllString(string(data), -1) {
			p, err := netip.ParsePrefix(text)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if text == "0.0.0.0/0" || text == "2000::/3" {
				continue // what the exceptions are taken from
			}
			walls = append(walls, p)
			last := lastAddr(p)
			if publicnet.IsPublic(p.Addr()) || publicnet.IsPublic(last) {
				t.Errorf("%s refuses %s, but the guard lets part of it through", name, p)
			}
		}
		for _, must := range []string{
			"10.1.2.3", "127.0.0.1", "169.254.169.254", "172.31.255.255", "192.168.0.1", "100.64.0.1", "168.63.129.16", "0.0.0.0", "2002:7f00:1::",
		} {
			addr, found := netip.MustParseAddr(must), false
			for _, p := range walls {
				found = found || p.Contains(addr)
			}
			if !found {
				t.Errorf("%s does not refuse %s", name, must)
			}
		}
	}
}

// lastAddr is the last address of a prefix.
func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(b)*8; bit++ {
		b[bit/8] |= 1 << (7 - bit%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
