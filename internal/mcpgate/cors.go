package mcpgate

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/openbot-build/openbot-go/internal/weburl"
)

// checkOrigin refuses an Origin that is not listed, exactly as written, and
// gives every answer to a listed one the headers that let a browser read it,
// errors included (FO-10, FO-19; OB-5).
func (g *Gate) checkOrigin(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	h.Add("Vary", "Origin")
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	if len(origins) > 1 || !slices.Contains(g.opts.Origins, origins[0]) {
		http.Error(w, "this origin may not call this endpoint", http.StatusForbidden)
		return false
	}
	h.Set("Access-Control-Allow-Origin", origins[0])
	expose := "WWW-Authenticate"
	if g.legacy != nil {
		expose += ", " + headerSession
	}
	h.Set("Access-Control-Expose-Headers", expose)
	return true
}

// corsHeaders are the request headers that a browser may send.
const corsHeaders = "Authorization, Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, Mcp-Name"

// preflight answers OPTIONS. It comes before any sign-in: a browser sends no
// token with it.
func (g *Gate) preflight(w http.ResponseWriter, r *http.Request) {
	methods, headers := "POST", corsHeaders
	if g.legacy != nil {
		methods += ", GET, DELETE"
		headers += ", " + headerSession + ", Last-Event-ID"
	}
	// Which Mcp-Param-* a tool declares is the server's business and may change
	// while it runs, so the names asked for are allowed by their form.
	for name := range strings.SplitSeq(r.Header.Get("Access-Control-Request-Headers"), ",") {
		name = strings.TrimSpace(name)
		if len(name) > len(paramPrefix) && strings.EqualFold(name[:len(paramPrefix)], paramPrefix) && isToken(name) {
			headers += ", " + name
		}
	}
	h := w.Header()
	h.Add("Vary", "Access-Control-Request-Headers")
	h.Set("Allow", "POST, OPTIONS")
	if h.Get("Access-Control-Allow-Origin") != "" {
		h.Set("Access-Control-Allow-Methods", methods)
		h.Set("Access-Control-Allow-Headers", headers)
		h.Set("Access-Control-Max-Age", "600")
	}
	w.WriteHeader(http.StatusNoContent)
}

// isToken reports whether s is a header name (RFC 9110 section 5.1).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

// checkOrigin reports a configured origin that no browser would ever send.
func checkOrigin(o string) error {
	u, err := url.Parse(o)
	switch {
	case o == "null":
		return fmt.Errorf(`origin "null" stands for every sandboxed page and cannot be allowed`)
	case o == "*":
		return fmt.Errorf(`origin "*" cannot be allowed: list each origin`)
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil:
		return fmt.Errorf("origin %q: write scheme and host, for instance https://host.example.com", o)
	case strings.ContainsFunc(u.Host, func(r rune) bool { return r >= utf8.RuneSelf }):
		host, ok := weburl.Domain(u.Hostname())
		if !ok {
			return fmt.Errorf("origin %q: browsers send the host in ASCII", o)
		}
		if u.Port() != "" {
			host += ":" + u.Port()
		}
		return fmt.Errorf("origin %q: browsers send the host in ASCII, write %s://%s", o, u.Scheme, host)
	case u.Path != "" || u.RawQuery != "" || u.ForceQuery || strings.Contains(o, "#"):
		return fmt.Errorf("origin %q: write scheme and host only, without a path or a slash at the end", o)
	case o != strings.ToLower(o):
		return fmt.Errorf("origin %q: browsers send it in lower case", o)
	case strings.HasSuffix(o, ":"):
		return fmt.Errorf("origin %q: the port is missing after the colon", o)
	case u.Scheme == "https" && u.Port() == "443", u.Scheme == "http" && u.Port() == "80":
		return fmt.Errorf("origin %q: browsers leave the default port out", o)
	}
	return nil
}

// checkHost refuses names that do not belong to a loopback listener (FO-19).
func (g *Gate) checkHost(w http.ResponseWriter, r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !isLoopback(hostOnly(local.String())) {
		return true
	}
	host := hostOnly(r.Host)
	if isLoopback(host) || slices.ContainsFunc(g.opts.Hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
		return true
	}
	http.Error(w, "this name does not belong to this server", http.StatusForbidden)
	return false
}

func hostOnly(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.Trim(hostport, "[]")
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
