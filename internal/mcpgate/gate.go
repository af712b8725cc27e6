// Package mcpgate owns the transport rules of MCP 2026-07-28 around a server of
// the SDK: who may call from a browser, which methods and versions are served,
// how large a request may be, how an answer travels, and how it all ends. It
// knows nothing of tools, tokens or documents.
//
// A Gate serves both eras on one URL unless told otherwise (D30). A call of
// revision 2026-07-28 is judged in full and then handed to the server's method
// handler, all its middleware included, without a second decoding of the body;
// what is rare (notifications, streams of subscriptions/listen, custom methods)
// goes through the SDK's own HTTP handler. Requests of older revisions go to a
// stateful handler of the SDK over the same server.
package mcpgate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Modern is the revision that a Gate serves by itself; later text calls
// everything older legacy.
const Modern = "2026-07-28"

// legacyVersion is the newest legacy revision.
const legacyVersion = "2025-11-25"

// Gate is the HTTP handler of one MCP endpoint. It is safe for concurrent use.
type Gate struct {
	opts       Options
	server     *mcp.Server
	base       mcp.MethodHandler // of every server, without middleware
	json       http.Handler      // the SDK's, one JSON object an answer
	stream     http.Handler      // the SDK's, an event stream an answer
	legacy     http.Handler      // nil when ModernOnly
	guarded    http.Handler      // serve, behind Options.Protect
	versions   []string          // what is served, newest first
	serverInfo json.RawMessage   // the server's name and version
	serverMeta json.RawMessage   // _meta with only that

	buffers   sync.Pool // of *answer
	tools     lists[mcp.Tool]
	prompts   lists[mcp.Prompt]
	resources lists[mcp.Resource]
	templates lists[mcp.ResourceTemplate]
	texts     *texts

	mu       sync.Mutex
	bound    map[*mcp.Tool][]binding
	listens  map[*stream]struct{}
	sessions map[string]struct{} // legacy ones that were opened here, by id
	closed   bool
	ending   sync.WaitGroup // listens
}

// New gives the gate of one server. It asks the server for its name and versions
// in memory, and starts nothing. Errors name the option at fault.
func New(server *mcp.Server, opts *Options) (*Gate, error) {
	if server == nil {
		return nil, errors.New("gate needs a server")
	}
	g := &Gate{
		server:  server,
		base:    handlerOf(mcp.NewServer(&mcp.Implementation{}, nil)),
		buffers: sync.Pool{New: newAnswer},
		texts:   newTexts(),
		bound:   map[*mcp.Tool][]binding{},
		listens: map[*stream]struct{}{},

		sessions: map[string]struct{}{},
	}
	if opts != nil {
		g.opts = *opts
	}
	g.opts.setDefaults()
	for _, o := range g.opts.Origins {
		if err := checkOrigin(o); err != nil {
			return nil, err
		}
	}
	g.guarded = http.HandlerFunc(g.serve)
	if g.opts.Protect != nil {
		g.guarded = g.opts.Protect(g.guarded)
	}
	if err := g.learn(); err != nil {
		return nil, err
	}
	if !slices.Contains(g.versions, Modern) {
		return nil, fmt.Errorf("the server does not speak %s", Modern)
	}
	if g.opts.ModernOnly {
		g.versions = []string{Modern}
	}
	same := func(*http.Request) *mcp.Server { return server }
	sdk := mcp.StreamableHTTPOptions{
		Stateless:                    true,
		PropagateRequestCancellation: true,
		MaxRequestBodyBytes:          g.opts.MaxBody,
		DisableLocalhostProtection:   true, // checkHost does it, and knows Options.Hosts
		Logger:                       g.opts.Log,
	}
	g.stream = mcp.NewStreamableHTTPHandler(same, &sdk)
	sdk.JSONResponse = true
	g.json = mcp.NewStreamableHTTPHandler(same, &sdk)
	if len(g.versions) > 1 {
		g.legacy = mcp.NewStreamableHTTPHandler(same, &mcp.StreamableHTTPOptions{
			SessionTimeout:             g.opts.SessionTimeout,
			MaxRequestBodyBytes:        g.opts.MaxBody,
			DisableLocalhostProtection: true,
			Logger:                     g.opts.Log,
		})
	}
	return g, nil
}

// Close ends the streams of subscriptions/listen, each with a final result, and
// the sessions of legacy clients, of those that came through this gate: the
// server may have another one. It returns when the streams are gone; a client
// that does not read holds it up for the write timeout at most. Later requests
// are still served, but for new streams.
func (g *Gate) Close() error {
	g.mu.Lock()
	g.closed = true
	for s := range g.listens {
		go s.end(g.listenResult(s.id))
	}
	g.mu.Unlock()
	var errs []error
	for _, s := range slices.Collect(g.server.Sessions()) {
		if g.opened(s.ID()) {
			errs = append(errs, s.Close())
		}
	}
	g.ending.Wait()
	return errors.Join(errs...)
}

// ServeHTTP serves one request. The order of its checks is part of the
// contract (FO-10, FO-19): Origin, Host, preflight, Options.Protect, method, and
// only then the body.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !g.checkOrigin(w, r) || !g.checkHost(w, r) {
		return
	}
	if r.Method == http.MethodOptions {
		g.preflight(w, r)
		return
	}
	g.guarded.ServeHTTP(w, r)
}

func (g *Gate) serve(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodPost:
		g.post(w, r)
	case (r.Method == http.MethodGet || r.Method == http.MethodDelete) && g.legacy != nil && r.Header.Get(headerSession) != "":
		g.through(g.legacy, w, r, &message{})
	default:
		w.Header().Set("Allow", "POST, OPTIONS")
		http.Error(w, "this is an MCP endpoint: it takes POST", http.StatusMethodNotAllowed)
	}
}

// post reads the message once and hands it to the handler of its era.
func (g *Gate) post(w http.ResponseWriter, r *http.Request) {
	body, err := g.read(w, r)
	if err != nil {
		f := refused(http.StatusBadRequest, jsonrpc.CodeInvalidRequest, "the request could not be read in full")
		if errors.As(err, new(*http.MaxBytesError)) {
			f = refused(http.StatusRequestEntityTooLarge, jsonrpc.CodeInvalidRequest, fmt.Sprintf("the request is larger than %d bytes", g.opts.MaxBody))
		}
		refuse(w, nil, f)
		return
	}
	m, f := parse(body)
	if f == nil {
		f = g.route(w, r, m)
	}
	if f != nil {
		refuse(w, m.ID, f)
	}
}

func (g *Gate) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	var body bytes.Buffer
	if n := r.ContentLength; 0 < n && n <= g.opts.MaxBody {
		body.Grow(int(n) + bytes.MinRead) // so that the end is seen without growing
	}
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, g.opts.MaxBody))
	return body.Bytes(), err
}

// route finds the era of a message and serves it.
func (g *Gate) route(w http.ResponseWriter, r *http.Request, m *message) *fault {
	if len(r.Header[headerVersion]) > 1 {
		return mismatch("the header MCP-Protocol-Version occurs more than once")
	}
	version := r.Header.Get(headerVersion)
	switch {
	case version != "" && !slices.Contains(g.versions, version):
		return g.unsupported(version)
	case m.kind == batchKind && (g.legacy == nil || version == Modern):
		return refused(http.StatusBadRequest, jsonrpc.CodeInvalidRequest, "batches are not served: send one message a request")
	case version == Modern || m.metaVersion >= Modern || version == "" && m.metaVersion != "":
		return g.serveModern(w, r, m)
	case g.legacy != nil && (m.Method == "initialize" || r.Header.Get(headerSession) != ""):
		return g.serveLegacy(w, r, m) // the first revision with sessions had no header for the version
	case m.Method == "initialize":
		return g.unsupported(m.initVersion)
	case version != "":
		return refused(http.StatusBadRequest, jsonrpc.CodeInvalidRequest, fmt.Sprintf("revision %s begins with initialize, and then sends the Mcp-Session-Id that it got", version))
	}
	return g.unversioned()
}

// unversioned is the answer to a request that tells in no way which revision it
// is of.
func (g *Gate) unversioned() *fault {
	also := ""
	if g.legacy != nil {
		also = ", or begin with initialize"
	}
	f := mismatch("the header MCP-Protocol-Version is missing: send it with %s, together with the body's _meta%s; served are %s", Modern, also, strings.Join(g.versions, ", "))
	f.err.Data, _ = json.Marshal(mcp.UnsupportedProtocolVersionData{Supported: g.versions}) // strings only
	return f
}

// serveModern serves a message of revision 2026-07-28.
func (g *Gate) serveModern(w http.ResponseWriter, r *http.Request, m *message) *fault {
	if f := checkMedia(r.Header); f != nil {
		return f
	}
	if m.kind == responseKind {
		return refused(http.StatusBadRequest, jsonrpc.CodeInvalidRequest, "responses are not taken: this revision has no requests to clients")
	}
	r = r.WithContext(context.WithValue(r.Context(), requestKey{}, &m.Request))
	if r.Header[headerSession] != nil || r.Header[headerEventID] != nil || strings.HasPrefix(r.Header.Get(headerName), "=?") {
		r.Header = r.Header.Clone()
		r.Header.Del(headerSession)
		r.Header.Del(headerEventID)
	}
	if f := checkHeaders(r.Header, m); f != nil {
		return f
	}
	var client *mcp.InitializeParams
	if m.kind == callKind {
		var f *fault
		if client, f = checkMeta(m); f != nil {
			return f
		}
	}
	switch _, direct := newRequest[m.Method]; {
	case g.opts.Modern != nil:
		return g.serveOther(w, r, m, client)
	case m.listens() && m.kind == callKind:
		return g.listen(g.stream, w, r, m)
	case direct && !g.opts.sdkOnly:
		g.serveDirect(w, r, m, client)
	case m.streams():
		g.through(g.stream, w, r, m)
	default:
		g.through(g.json, w, r, m)
	}
	return nil
}

// serveOther serves a message through Options.Modern.
func (g *Gate) serveOther(w http.ResponseWriter, r *http.Request, m *message, client *mcp.InitializeParams) *fault {
	if m.listens() && m.kind == callKind {
		return g.listen(g.opts.Modern, w, r, m)
	}
	if m.Method == methodCall {
		session, ctx, err := g.connect(r.Context(), nil, client, "")
		if err != nil {
			return refused(http.StatusInternalServerError, jsonrpc.CodeInternalError, "the server does not take calls")
		}
		bindings, err := g.bindings(ctx, session, &mcp.RequestExtra{Header: r.Header}, m.Name)
		_ = session.Close() // nothing to lose: it has no connection
		if err != nil {
			return failure(m, err)
		}
		if f := checkParams(r.Header, m, bindings); f != nil {
			return f
		}
	}
	g.through(g.opts.Modern, w, r, m)
	return nil
}

// unsupported is the answer to a revision that is not served.
func (g *Gate) unsupported(asked string) *fault {
	f := refused(http.StatusBadRequest, mcp.CodeUnsupportedProtocolVersion, fmt.Sprintf("protocol version %q is not served", asked))
	f.err.Data, _ = json.Marshal(mcp.UnsupportedProtocolVersionData{Supported: g.versions, Requested: asked}) // strings only
	return f
}

// through serves r by another handler, with the gate's writer before it.
func (g *Gate) through(h http.Handler, w http.ResponseWriter, r *http.Request, m *message) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	s := newStream(w, m.ID, &g.opts, cancel)
	defer s.finish()
	s.session = g.open
	if m.kind == callKind && m.metaVersion >= Modern && m.streams() {
		s.openAfter(g.opts.grace)
	}
	h.ServeHTTP(s, again(ctx, r, m))
}

// again is r with its body to be read once more.
func again(ctx context.Context, r *http.Request, m *message) *http.Request {
	r = r.WithContext(ctx)
	if m.Body != nil {
		r.Body = io.NopCloser(bytes.NewReader(m.Body))
		r.ContentLength = int64(len(m.Body))
	}
	return r
}
