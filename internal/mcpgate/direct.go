package mcpgate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// This file serves the calls that servers get most by handing them straight to
// the server's method handler. The SDK's HTTP handler would decode the body of a
// call about sixteen times, with a fresh buffer of 32 KiB for each (mcp S15).

// newRequest makes the SDK's request of a message. Methods that are not here go
// through the SDK's HTTP handler.
var newRequest = map[string]func(*mcp.ServerSession, *message, *mcp.RequestExtra) (mcp.Request, error){
	methodCall:                 request[mcp.CallToolParamsRaw],
	methodRead:                 request[mcp.ReadResourceParams],
	methodPrompt:               request[mcp.GetPromptParams],
	methodDiscover:             request[mcp.DiscoverParams],
	"tools/list":               request[mcp.ListToolsParams],
	"prompts/list":             request[mcp.ListPromptsParams],
	"resources/list":           request[mcp.ListResourcesParams],
	"resources/templates/list": request[mcp.ListResourceTemplatesParams],
}

func request[T any, P interface {
	*T
	mcp.Params
}](session *mcp.ServerSession, m *message, extra *mcp.RequestExtra) (mcp.Request, error) {
	params := P(new(T))
	if err := m.params.Decode(params); err != nil {
		return nil, err
	}
	return &mcp.ServerRequest[P]{Session: session, Params: params, Extra: extra}, nil
}

// serveDirect serves a call of a method in newRequest.
func (g *Gate) serveDirect(w http.ResponseWriter, r *http.Request, m *message, client *mcp.InitializeParams) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	s := newStream(w, m.ID, &g.opts, cancel)
	defer s.finish()
	sink := s
	if !m.streams() {
		sink = nil
	} else {
		s.openAfter(g.opts.grace)
	}
	session, ctx, err := g.connect(ctx, sink, client, m.LogLevel)
	if err != nil {
		g.opts.Log.ErrorContext(r.Context(), "connect session", "error", err)
		s.refuse(refused(http.StatusInternalServerError, jsonrpc.CodeInternalError, "the server does not take calls"))
		return
	}
	defer func() { _ = session.Close() }() // nothing to lose: it has no connection
	extra := &mcp.RequestExtra{
		TokenInfo:      auth.TokenInfoFromContext(ctx),
		Header:         r.Header,
		CloseSSEStream: func(mcp.CloseSSEStreamArgs) {}, // gone in this revision
	}
	if m.Method == methodCall {
		bindings, err := g.bindings(ctx, session, extra, m.Name)
		if err != nil {
			s.refuse(failure(m, err))
			return
		}
		if f := checkParams(r.Header, m, bindings); f != nil {
			s.refuse(f)
			return
		}
	}
	req, err := newRequest[m.Method](session, m, extra)
	if err != nil {
		s.refuse(invalidParams("params%v", err))
		return
	}
	result, err := g.run(ctx, m, req)
	if err != nil {
		s.refuse(failure(m, err))
		return
	}
	out := g.buffers.Get().(*answer)
	defer g.release(out)
	if err := out.encode(g, m, result, client.Capabilities); err != nil {
		s.refuse(failure(m, err))
		return
	}
	if sink != nil {
		_ = s.event(out.Bytes()) // the client may be gone
		return
	}
	h := s.Header()
	h["Content-Type"] = jsonType
	h["Cache-Control"] = noCache
	h.Set("Content-Length", strconv.Itoa(out.Len()))
	_, _ = s.Write(out.Bytes())
}

var (
	jsonType = []string{"application/json"}
	noCache  = []string{"no-cache, no-transform"}
)

// run calls the server's handler. A panic in it costs this call and not the
// process.
func (g *Gate) run(ctx context.Context, m *message, req mcp.Request) (result mcp.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
			g.opts.Log.ErrorContext(ctx, "panic in a handler", "method", m.Method, "name", m.Name, "panic", p, "stack", string(debug.Stack()))
			result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the server failed at this request"}
		}
	}()
	return handlerOf(g.server)(ctx, m.Method, req)
}

// failure is what the SDK makes of a handler's error: the code of a JSON-RPC
// error in its chain, and the status that belongs to it (P10).
func failure(m *message, err error) *fault {
	out := &jsonrpc.Error{Message: err.Error()}
	if inner := (*jsonrpc.Error)(nil); errors.As(err, &inner) {
		out.Code = inner.Code
		if error(inner) == err { //nolint:errorlint // one that is wrapped keeps its data to itself, as in the SDK
			out.Data = inner.Data
		}
	}
	f := &fault{http.StatusOK, out}
	switch out.Code {
	case jsonrpc.CodeMethodNotFound:
		f.status = http.StatusNotFound
		out.Message = fmt.Sprintf("method not found: %q", m.Method)
		out.Data = nil
	case jsonrpc.CodeInvalidParams, mcp.CodeHeaderMismatch, mcp.CodeUnsupportedProtocolVersion, mcp.CodeMissingRequiredClientCapabilities:
		f.status = http.StatusBadRequest
	}
	return f
}

// learn asks the server who it is and what it speaks. Its middleware is not
// asked: the handler of a new server, which has none, serves the session of any
// server.
func (g *Gate) learn() error {
	session, ctx, err := g.connect(context.Background(), nil, nil, "")
	if err != nil {
		return fmt.Errorf("connect to the server: %w", err)
	}
	defer func() { _ = session.Close() }() // nothing to lose: it has no connection
	initialized, err := g.base(ctx, "initialize", &mcp.ServerRequest[*mcp.InitializeParams]{
		Session: session, Params: &mcp.InitializeParams{ProtocolVersion: legacyVersion},
	})
	if err != nil {
		return fmt.Errorf("initialize the server: %w", err)
	}
	discovered, err := g.base(ctx, methodDiscover, &mcp.ServerRequest[*mcp.DiscoverParams]{
		Session: session, Params: &mcp.DiscoverParams{}, Extra: &mcp.RequestExtra{Header: http.Header{}},
	})
	if err != nil {
		return fmt.Errorf("discover the server: %w", err)
	}
	g.versions = discovered.(*mcp.DiscoverResult).SupportedVersions
	if g.serverInfo, err = json.Marshal(initialized.(*mcp.InitializeResult).ServerInfo); err != nil {
		return fmt.Errorf("encode the server's name: %w", err)
	}
	g.serverMeta, err = json.Marshal(mcp.Meta{mcp.MetaKeyServerInfo: g.serverInfo})
	return err
}
