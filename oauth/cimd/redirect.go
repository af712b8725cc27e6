package cimd

import "strings"

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
