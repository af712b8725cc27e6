package cimd

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
)

// CheckRedirect judges a redirect URI that a client wants to register: https, or
// http on loopback (MCP), the scheme in small letters, no fragment, no user-info.
// Its query may hold anything but the parameters of an authorization response,
// which would then stand there twice (RFC 6749 section 3.1). A redirect URI is
// never rewritten: the answer's parameters are put after its text.
func CheckRedirect(uri string) error {
	if strings.ContainsFunc(uri, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '\\' }) {
		return errors.New("holds a character that an address cannot have")
	}
	u, err := url.Parse(uri)
	if err != nil || u.Scheme == "" {
		return errors.New("is no absolute address")
	}
	if strings.Contains(uri, "#") {
		return errors.New("has a fragment")
	}
	rest, ok := strings.CutPrefix(uri, u.Scheme+"://")
	if u.Scheme != "https" && u.Scheme != "http" || !ok {
		return errNoRedirect
	}
	authority := rest
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority = rest[:i]
	}
	if strings.Contains(authority, "@") {
		return errors.New("has user-info")
	}
	if err := checkAuthority(authority); err != nil {
		return err
	}
	if u.Scheme == "http" && !isLoopback(uri) {
		return errNoRedirect
	}
	for parameter := range strings.SplitSeq(u.RawQuery, "&") {
		name, _, _ := strings.Cut(parameter, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		switch name {
		case "code", "state", "iss", "error", "error_description", "error_uri":
			return errors.New("has the parameter " + name + ", which belongs to the answer")
		}
	}
	return nil
}

var errNoRedirect = errors.New("is neither https nor http on loopback (127.0.0.1, [::1], localhost), written in small letters")

// IsLocal reports whether a redirect URI leads to the user's own computer, over
// http or https: an address of loopback, localhost or a name below it. Nothing
// then proves which program there receives the code, and a consent page says so
// (oauth A3). It is a wider term than the loopback of MatchRedirect.
func IsLocal(uri string) bool {
	u, err := url.Parse(uri)
	if err != nil {
		return false
	}
	if a, err := netip.ParseAddr(u.Hostname()); err == nil {
		a = a.Unmap()
		return a.IsLoopback() || a.IsUnspecified()
	}
	return isLocalhost(u.Hostname())
}

func isLocalhost(host string) bool {
	host = "." + strings.ToLower(strings.TrimSuffix(host, "."))
	return strings.HasSuffix(host, ".localhost")
}

// MatchRedirect reports whether a redirect URI is one of those registered: byte
// for byte, any port on loopback (RFC 8252 section 7.3). Loopback is http on
// 127.0.0.1, [::1] or localhost; these three are different hosts, and all that
// follows the port must be equal (oauth A3, M6).
func MatchRedirect(registered []string, uri string) bool {
	host, rest, loopback := splitLoopback(uri)
	for _, r := range registered {
		if r == uri {
			return true
		}
		if !loopback {
			continue
		}
		if h, tail, ok := splitLoopback(r); ok && h == host && tail == rest {
			return true
		}
	}
	return false
}

func isLoopback(uri string) bool {
	_, _, ok := splitLoopback(uri)
	return ok
}

// splitLoopback takes a loopback redirect URI apart, port left out. It works on
// the text: an URL library would forgive what an attacker writes.
func splitLoopback(uri string) (host, rest string, ok bool) {
	after, ok := strings.CutPrefix(uri, "http://")
	if !ok {
		return "", "", false
	}
	end := len(after)
	if i := strings.IndexAny(after, "/?#"); i >= 0 {
		end = i
	}
	authority, rest := after[:end], after[end:]
	for _, host := range [...]string{"127.0.0.1", "[::1]", "localhost"} {
		port, ok := strings.CutPrefix(authority, host)
		if ok && (port == "" || port[0] == ':' && isPort(port[1:])) {
			return host, rest, true
		}
	}
	return "", "", false
}

func isPort(s string) bool {
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' || n > 65535 {
			return false
		}
		n = 10*n + int(c-'0')
	}
	return n > 0 && n <= 65535
}
