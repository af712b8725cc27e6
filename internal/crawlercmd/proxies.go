package crawlercmd

import (
	"fmt"
	"net/netip"
	"strings"
)

// proxies are the networks of reverse proxies, as a flag gives them: addresses
// and prefixes with commas between them.
type proxies []netip.Prefix

// UnmarshalText reads the flag. An address alone is a network of one.
func (p *proxies) UnmarshalText(text []byte) error {
	*p = nil
	for one := range strings.SplitSeq(string(text), ",") {
		one = strings.TrimSpace(one)
		if a, err := netip.ParseAddr(one); err == nil && a.Zone() == "" {
			*p = append(*p, netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()))
			continue
		}
		prefix, err := netip.ParsePrefix(one)
		if err != nil {
			return fmt.Errorf("%q is neither an address nor a prefix such as 10.0.0.0/8", one)
		}
		*p = append(*p, prefix.Masked())
	}
	return nil
}
