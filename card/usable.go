package card

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/openbot-build/openbot-go/internal/strictjson"
	"github.com/openbot-build/openbot-go/internal/weburl"
)

const streamableHTTP = "streamable-http"

// Usable reports whether c is a usable app (D10): at least one streamable-http
// remote with an https URL, host not variable, that declares 2026-07-28.
// remote is the first such; it points into c.Remotes. The error is Errors and
// lists everything that is missing, for each remote. probe is the first remote
// that only lacks a declaration of versions and so may be asked by
// server/discover; nil if there is none.
//
// Source: OB-10, documents V1, D10.
func (c *Card) Usable() (remote, probe *Remote, err error) {
	var r reader
	r.fault("/remotes", "no https endpoint that declares %s; list a remote of type %q with an https url and %q in its supportedProtocolVersions",
		ProtocolVersion, streamableHTTP, ProtocolVersion)
	for i := range c.Remotes {
		re, at := &c.Remotes[i], fmt.Sprintf("/remotes/%d", i)
		before := len(r.faults) + r.more
		if re.Type != streamableHTTP {
			r.fault(at+"/type", "is %s; only %q endpoints are used", strictjson.Quote(re.Type), streamableHTTP)
		}
		if _, err := re.Origin(); err != nil {
			r.fault(at+"/url", "%v", err)
		}
		reachable := len(r.faults)+r.more == before
		switch {
		case len(re.Versions) == 0:
			r.fault(at+"/supportedProtocolVersions", "declares no versions; add %q if the endpoint speaks it", ProtocolVersion)
			if reachable && probe == nil {
				probe = re
			}
		case !slices.Contains(re.Versions, ProtocolVersion):
			r.fault(at+"/supportedProtocolVersions", "does not hold %q; add it if the endpoint speaks it", ProtocolVersion)
		case reachable && remote == nil:
			remote = re
		}
	}
	if remote != nil {
		return remote, probe, nil
	}
	return nil, probe, r.err()
}

// Origin is the https origin that every expansion of the remote's URL has:
// "https://" and the host, with ":port" only when the port is not 443. The
// error is a sentence for the publisher when there is none: the scheme is not
// https, scheme or host hold a variable, or the host is no domain name.
// Variables in path and query are fine.
func (r *Remote) Origin() (string, error) {
	rest, https := strings.CutPrefix(r.URL, "https://")
	switch {
	case r.URL == "":
		return "", errors.New("is empty; write the endpoint's https address")
	case strings.HasPrefix(r.URL, "{"):
		return "", fmt.Errorf("is %s, whose scheme and host are variable; write https:// and the host plainly", strictjson.Quote(r.URL))
	case !https:
		return "", fmt.Errorf("is %s; only https:// endpoints are used", strictjson.Quote(r.URL))
	}
	if authority := rest[:len(rest)-len(strings.TrimLeftFunc(rest, inAuthority))]; strings.ContainsAny(authority, "{}") {
		return "", fmt.Errorf("is %s, whose host is variable; move the variable into the path or query", strictjson.Quote(r.URL))
	}
	u, err := weburl.Parse(r.URL)
	if err != nil {
		return "", fmt.Errorf("cannot be used: %w", err)
	}
	return u.Origin(), nil
}

func inAuthority(c rune) bool { return c != '/' && c != '?' && c != '#' && c != '\\' }

// placeholders gives the names of the {variables} in s, each once, in order.
func placeholders(s string) []string {
	var names []string
	seen := map[string]bool{}
	for {
		_, after, ok := strings.Cut(s, "{")
		end := strings.IndexAny(after, "{}")
		if !ok || end < 0 {
			return names
		}
		if name := after[:end]; after[end] == '}' && isVariableName(name) && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
		s = after[end:]
	}
}

// Forbidden reports whether the header is one that a card may never set:
// Accept, Authorization, Content-Type, Host and all that begin with Mcp-, in
// any case. A host leaves such a header out and says so; the card stays
// usable.
//
// Source: OB-11, documents V6.
func (h *Header) Forbidden() bool {
	switch name := strings.ToLower(strings.TrimSpace(h.Name)); name {
	case "accept", "authorization", "content-type", "host":
		return true
	default:
		return strings.HasPrefix(name, "mcp-")
	}
}

// Check says why hosts would leave the header out: it is one that a card may
// not set, or its name is no header name (RFC 9110, section 5.6.2). nil when
// they would send it. A card with such a header is read all the same.
//
// Source: OB-11, documents V6.
func (h *Header) Check() error {
	switch {
	case h.Forbidden():
		return fmt.Errorf("is %s, a header that a card may not set; hosts leave it out", strictjson.Quote(h.Name))
	case h.Name == "" || !only(h.Name, "!#$%&'*+-.^_`|~"):
		return fmt.Errorf("is %s, which is no HTTP header name; hosts leave it out", strictjson.Quote(h.Name))
	}
	return nil
}
