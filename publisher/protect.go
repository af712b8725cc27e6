package publisher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/internal/mcpgate"
	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/oauth"
)

// protection is an app's Guard, and the way of requests through it.
type protection struct {
	guard    *oauth.Guard
	metadata string // address of the resource metadata
}

// protect makes the Guard of an app that has a Protection. It comes after
// completeCard: the resource is the endpoint as the card's remote writes it.
func (b *builder) protect(a *app) {
	if a.Protection == nil {
		return
	}
	field := a.field + ".Protection"
	p := *a.Protection
	endpoint := a.endpoint()
	switch {
	case endpoint == "":
		return // the card has faults, or no endpoint, and that is told
	case p.Resource == "":
		p.Resource = endpoint
	case p.Resource != endpoint:
		b.fault(field+".Resource", "%q is not the endpoint of the card, %q: tokens are for that one, byte for byte; leave Resource out", p.Resource, endpoint)
		return
	}
	if p.Name == "" {
		p.Name = displayName(&a.card)
	}
	if p.MaxBody == 0 {
		p.MaxBody = a.MaxBody
	}
	if p.Log == nil {
		p.Log = b.cfg.Log
	}
	guard, err := oauth.NewGuard(&p)
	if err != nil {
		b.guardFault(field, err)
		return
	}
	if u, err := weburl.Parse(endpoint); err != nil || u.Origin() != b.origin.Origin() {
		return // whoever serves the endpoint serves its metadata
	}
	a.protected = &protection{guard: guard, metadata: b.origin.Origin() + guard.MetadataPath()}
	b.claim(field, guard.MetadataPath())
}

// endpoint is the address of the app's endpoint as the card writes it, "" when
// there is none to be found.
func (a *app) endpoint() string {
	for _, r := range a.card.Remotes {
		if u, err := weburl.Parse(r.URL); err == nil && !a.mcpURL.IsZero() && u == a.mcpURL {
			return r.URL
		}
	}
	if a.mcpURL.IsZero() {
		if usable, _, err := a.card.Usable(); err == nil && usable != nil {
			return usable.URL
		}
	}
	return ""
}

// guardFault adds the faults of a Protection. Those that begin with the name of
// a field of it are told under that field.
func (b *builder) guardFault(field string, err error) {
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range list.Unwrap() {
			b.guardFault(field, e)
		}
		return
	}
	if at, message, ok := strings.Cut(err.Error(), ": "); ok && at != "" && 'A' <= at[0] && at[0] <= 'Z' && !strings.Contains(at, " ") {
		b.fault(field+"."+at, "%s", message)
		return
	}
	b.faultErr(field, err)
}

// checkScopes refuses scopes of tools that the server does not have: such a
// line protects nothing, and what it was meant for stands open.
func (b *builder) checkScopes(a *app, found *look) {
	if a.Protection == nil || !found.allTools {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(a.Protection.Scopes.Tools)) {
		if !slices.Contains(found.tools, name) {
			b.fault(a.field+".Protection.Scopes.Tools", "the server has no tool %q: its tools are %s", name, named(found.tools))
		}
	}
}

// named lists some names for a sentence.
func named(names []string) string {
	const most = 10
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > most:
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

type protectionKey struct{}

// gate lets requests with a good token through to next, and says to the
// server's middleware by which protection.
func (p *protection) gate(next http.Handler) http.Handler {
	inner := p.guard.Protect(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), protectionKey{}, p)))
	})
}

// modern puts the check of scopes before a handler that answers in place of the
// server, whose middleware is then not asked.
func (p *protection) modern(next http.Handler) http.Handler {
	if p == nil || next == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req, ok := mcpgate.RequestFrom(r.Context())
		if !ok {
			http.Error(w, "this is an MCP endpoint: it takes POST", http.StatusMethodNotAllowed)
			return
		}
		name := ""
		if req.Method == "tools/call" {
			name = req.Name
		}
		if err := p.guard.Check(auth.TokenInfoFromContext(r.Context()), req.Method, name); err != nil {
			p.refuse(w, req.ID, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuse answers a call that needs more than its caller's token gives. The
// guard has judged the same by the headers before, and so the challenge of a
// request that tells the truth is the guard's.
func (p *protection) refuse(w http.ResponseWriter, id json.RawMessage, err error) {
	challenge := "Bearer "
	if need, ok := errors.AsType[*oauth.ScopeError](err); ok {
		challenge += `error="insufficient_scope", scope="` + strings.Join(need.Need, " ") + `", `
	}
	challenge += `resource_metadata="` + p.metadata + `"`
	body, encodeErr := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": id,
		"error": map[string]any{"code": jsonrpc.CodeInvalidRequest, "message": "this call needs more access"},
	})
	if encodeErr != nil {
		body = nil // cannot happen: the id was parsed
	}
	h := w.Header()
	h.Set("WWW-Authenticate", challenge)
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusForbidden)
	_, _ = w.Write(body) // who asked may be gone
}

// guarded is the middleware that every protected server gets, once. Which Guard
// is asked says the request, by the endpoint that it came through: a server may
// be published again with other scopes while calls of before are under way.
//
// What comes by any other way than a protected endpoint is refused, but for New's
// own look at the server.
func guarded(next mcp.MethodHandler) mcp.MethodHandler {
	type checked struct {
		by      *protection
		handler mcp.MethodHandler
	}
	var last atomic.Pointer[checked] // most calls come through the same endpoint
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		if l, ok := ctx.Value(lookKey{}).(*look); ok {
			l.guarded = true
			return next(ctx, method, r)
		}
		p, ok := ctx.Value(protectionKey{}).(*protection)
		if !ok {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "this server needs sign-in, and this way to it has none"}
		}
		c := last.Load()
		if c == nil || c.by != p {
			c = &checked{p, p.guard.Middleware()(next)}
			last.Store(c)
		}
		return c.handler(ctx, method, r)
	}
}

// addMetadata serves the resource metadata. It is a document like the others,
// but for its handler, which knows what browsers ask of it (oauth S14).
func (b *builder) addMetadata(a *app) {
	path, h := a.protected.guard.MetadataPath(), a.protected.guard.Metadata()
	b.pub.routes[path] = h
	get, preflight := b.answer(h, http.MethodGet, path), b.answer(h, http.MethodOptions, path)
	for _, name := range []string{"Access-Control-Allow-Methods", "Access-Control-Allow-Headers"} {
		get.header[name] = preflight.header[name] // a static host answers preflights with the same
	}
	b.pub.files = append(b.pub.files, File{Path: path, Header: get.header, Body: get.body})
}

// answer is what h says to a request without more.
func (b *builder) answer(h http.Handler, method, path string) *captured {
	c := &captured{header: http.Header{}}
	r, err := http.NewRequest(method, b.origin.Origin()+path, nil) //nolint:noctx // answered in memory
	if err != nil {
		b.faultErr("Origin", err) // cannot happen: both were parsed
		return c
	}
	h.ServeHTTP(c, r)
	return c
}

// captured is an answer that stays in memory.
type captured struct {
	header http.Header
	body   []byte
}

func (c *captured) Header() http.Header { return c.header }

func (c *captured) WriteHeader(int) {}

func (c *captured) Write(p []byte) (int, error) {
	c.body = append(c.body, p...)
	return len(p), nil
}

// closeServers puts the middleware on the servers of protected apps. A server
// that has it keeps the one.
func (b *builder) closeServers(apps []*app) {
	done := map[*mcp.Server]bool{}
	for _, a := range apps {
		if a.protected != nil && a.open && !done[a.Server] {
			done[a.Server] = true
			a.Server.AddReceivingMiddleware(guarded)
		}
	}
}

// checkShared refuses a server that one app protects and another one does not.
func (b *builder) checkShared(apps []*app) {
	behind := map[*mcp.Server]string{}
	for _, a := range apps {
		if a.Server != nil && a.Protection != nil {
			behind[a.Server] = a.field
		}
	}
	for _, a := range apps {
		if first := behind[a.Server]; a.Server != nil && a.Protection == nil && first != "" {
			b.fault(a.field+".Server", "is that of %s, which needs sign-in: protect both, or make a server for each", first)
		}
	}
}
