// Package mcpgate owns the transport rules of MCP 2026-07-28 that stand around
// the SDK's HTTP handlers: who may call from a browser, which methods and
// versions are served, how large a request may be, and which of the SDK's
// handlers answers. It knows nothing of tools, tokens or documents.
//
// A Gate serves both eras on one URL unless told otherwise (D30): requests of
// revision 2026-07-28 go to a stateless handler, requests of older revisions to
// a stateful one over the same server.
package mcpgate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/internal/strictjson"
)

// Modern is the revision that a Gate serves by itself; later text calls
// everything older legacy.
const Modern = "2026-07-28"

// legacyVersions are the older revisions that the SDK speaks, newest first.
var legacyVersions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// Limits of a Gate that sets none.
const (
	DefaultMaxBody        = 1 << 20
	DefaultSessionTimeout = 10 * time.Minute
	DefaultMaxSessions    = 1000
)

// Options configure a Gate. The zero value serves both eras to callers that are
// no browser.
type Options struct {
	// Origins are the browser origins that may call: scheme, host and port,
	// for instance "https://host.example.com". A request that carries any other
	// Origin, "null" included, is refused before anything else is looked at. A
	// request without the header is no browser's and passes.
	Origins []string

	// Hosts are host names under which the endpoint is reached although the
	// listener is on loopback: behind a proxy on the same machine, for
	// instance. On loopback every other name that is not itself loopback is
	// refused, so that DNS rebinding gets nowhere. A port in the request's Host
	// is not looked at.
	Hosts []string

	// Modern answers requests of revision 2026-07-28 that passed the gate, in
	// place of the server. RequestFrom gives it what the gate has read; the
	// request's body can be read again. nil is the server.
	Modern http.Handler

	ModernOnly     bool          // refuse revisions older than 2026-07-28
	MaxBody        int64         // bytes of one request; 0 is DefaultMaxBody
	SessionTimeout time.Duration // idle time of a legacy session; 0 is DefaultSessionTimeout
	MaxSessions    int           // legacy sessions at one time; 0 is DefaultMaxSessions
	Log            *slog.Logger  // nil logs nothing
}

// Gate is the HTTP handler of one MCP endpoint. It is safe for concurrent use.
type Gate struct {
	opts     Options
	server   *mcp.Server
	json     http.Handler // modern, one JSON object an answer
	stream   http.Handler // modern, an event stream an answer
	legacy   http.Handler // nil when ModernOnly
	versions []string     // what is served, newest first
}

// New gives the gate of one server. It does no I/O and starts nothing.
// Errors name the option at fault.
func New(server *mcp.Server, opts *Options) (*Gate, error) {
	if server == nil {
		return nil, errors.New("gate needs a server")
	}
	g := &Gate{server: server, versions: []string{Modern}}
	if opts != nil {
		g.opts = *opts
	}
	g.opts.Origins = slices.Clone(g.opts.Origins)
	g.opts.Hosts = slices.Clone(g.opts.Hosts)
	if g.opts.MaxBody == 0 {
		g.opts.MaxBody = DefaultMaxBody
	}
	if g.opts.SessionTimeout == 0 {
		g.opts.SessionTimeout = DefaultSessionTimeout
	}
	if g.opts.MaxSessions == 0 {
		g.opts.MaxSessions = DefaultMaxSessions
	}
	for _, o := range g.opts.Origins {
		if err := checkOrigin(o); err != nil {
			return nil, err
		}
	}
	same := func(*http.Request) *mcp.Server { return server }
	modern := mcp.StreamableHTTPOptions{
		Stateless:                    true,
		PropagateRequestCancellation: true,
		MaxRequestBodyBytes:          g.opts.MaxBody,
		DisableLocalhostProtection:   true, // checkHost does it, and knows Options.Hosts
		Logger:                       g.opts.Log,
	}
	g.stream = mcp.NewStreamableHTTPHandler(same, &modern)
	modern.JSONResponse = true
	g.json = mcp.NewStreamableHTTPHandler(same, &modern)
	if !g.opts.ModernOnly {
		g.versions = append(g.versions, legacyVersions...)
		g.legacy = mcp.NewStreamableHTTPHandler(same, &mcp.StreamableHTTPOptions{
			SessionTimeout:             g.opts.SessionTimeout,
			MaxRequestBodyBytes:        g.opts.MaxBody,
			DisableLocalhostProtection: true,
			Logger:                     g.opts.Log,
		})
	}
	return g, nil
}

// Close ends the sessions of legacy clients. Requests that come later are
// still served.
func (g *Gate) Close() error {
	var errs []error
	for _, s := range slices.Collect(g.server.Sessions()) {
		if s.ID() != "" { // a modern request has a session of its own, without an id, which ends with it
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// ServeHTTP serves one request. The order of its checks is part of the
// contract (FO-10, FO-19): Origin, Host, preflight, method; a sign-in check
// belongs after the preflight and before the body is read.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !g.checkOrigin(w, r) || !g.checkHost(w, r) {
		return
	}
	switch r.Method {
	case http.MethodOptions:
		g.preflight(w, r)
	case http.MethodPost:
		g.post(w, r)
	case http.MethodGet, http.MethodDelete:
		if g.legacy != nil && r.Header.Get(headerSession) != "" {
			liftDeadlines(w)
			w.Header().Set("X-Accel-Buffering", "no")
			g.legacy.ServeHTTP(w, r)
			return
		}
		fallthrough
	default:
		w.Header().Set("Allow", "POST, OPTIONS")
		http.Error(w, "this is an MCP endpoint: it takes POST", http.StatusMethodNotAllowed)
	}
}

// post reads the message once and hands it to the handler of its era.
func (g *Gate) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, g.opts.MaxBody))
	if err != nil {
		if errors.As(err, new(*http.MaxBytesError)) {
			refuse(w, http.StatusRequestEntityTooLarge, nil, codeInvalidRequest,
				fmt.Sprintf("the request is larger than %d bytes", g.opts.MaxBody), nil)
			return
		}
		refuse(w, http.StatusBadRequest, nil, codeInvalidRequest, "the request could not be read in full", nil)
		return
	}
	m, err := peek(body)
	if err != nil {
		code, msg := int64(codeInvalidRequest), err.Error()
		if fault := (*strictjson.Error)(nil); errors.As(err, &fault) && fault.NotJSON {
			code, msg = codeParse, "the request is not JSON: "+msg
		}
		refuse(w, http.StatusBadRequest, nil, code, msg, nil)
		return
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))

	version := r.Header.Get(headerVersion)
	switch {
	case version != "" && !slices.Contains(g.versions, version):
		g.unsupported(w, m, version)
	case m.batch && (g.legacy == nil || version == Modern):
		refuse(w, http.StatusBadRequest, nil, codeInvalidRequest, "batches are not served: send one message a request", nil)
	case version == Modern || m.metaVersion != "":
		g.serveModern(w, r, m)
	case g.legacy != nil:
		g.serveLegacy(w, r, m)
	case m.method == "initialize":
		g.unsupported(w, m, m.initVersion)
	default:
		refuse(w, http.StatusBadRequest, m.id, codeHeaderMismatch, "the header MCP-Protocol-Version is missing", nil)
	}
}

// serveModern serves a message of revision 2026-07-28.
func (g *Gate) serveModern(w http.ResponseWriter, r *http.Request, m *message) {
	r.Header.Del(headerSession)
	r.Header.Del("Last-Event-ID")
	if name := r.Header.Get(headerName); name != "" {
		plain, err := decodeHeader(name)
		if err != nil {
			refuse(w, http.StatusBadRequest, m.id, codeHeaderMismatch, "the header Mcp-Name is not valid Base64", nil)
			return
		}
		r.Header.Set(headerName, plain)
	}
	liftDeadlines(w)
	if !m.streams {
		g.json.ServeHTTP(w, r)
		return
	}
	w.Header().Set("X-Accel-Buffering", "no")
	g.stream.ServeHTTP(w, r)
}

// serveLegacy serves a message of an older revision. Sessions are bounded: each
// one is memory that a stranger makes the server keep.
func (g *Gate) serveLegacy(w http.ResponseWriter, r *http.Request, m *message) {
	if r.Header.Get(headerSession) == "" {
		n := 0
		for s := range g.server.Sessions() {
			if s.ID() != "" {
				n++
			}
		}
		if n >= g.opts.MaxSessions {
			w.Header().Set("Retry-After", "60")
			refuse(w, http.StatusServiceUnavailable, m.id, codeInternal, "too many sessions are open", nil)
			return
		}
	}
	liftDeadlines(w)
	w.Header().Set("X-Accel-Buffering", "no")
	g.legacy.ServeHTTP(w, r)
}

func (g *Gate) unsupported(w http.ResponseWriter, m *message, asked string) {
	refuse(w, http.StatusBadRequest, m.id, mcp.CodeUnsupportedProtocolVersion,
		fmt.Sprintf("protocol version %q is not served", asked),
		map[string]any{"supported": g.versions, "requested": asked})
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

// liftDeadlines lets a tool and an event stream take longer than the server's
// time for one request, once the request is here in full. Not every writer has
// deadlines; then there is nothing to lift.
func liftDeadlines(w http.ResponseWriter) {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Time{})
	_ = c.SetWriteDeadline(time.Time{})
}
