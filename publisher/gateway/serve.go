package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// appsExtension is declared for an upstream whose tools have views.
const appsExtension = "io.modelcontextprotocol/ui"

// newServer makes the server that clients meet. The SDK does the transport, the
// handshakes and the listen streams; what the upstream answers goes around its
// types, as raw JSON.
func (g *Gateway) newServer(l *link, found *lists) *mcp.Server {
	caps := l.caps
	if caps.Tools != nil { // lists are watched, so changes are told
		caps.Tools = &mcp.ToolCapabilities{ListChanged: true}
	}
	if caps.Prompts != nil {
		caps.Prompts = &mcp.PromptCapabilities{ListChanged: true}
	}
	opts := &mcp.ServerOptions{Instructions: l.guide, Capabilities: &caps}
	if caps.Resources != nil {
		caps.Resources = &mcp.ResourceCapabilities{ListChanged: true, Subscribe: caps.Resources.Subscribe}
		if caps.Resources.Subscribe {
			opts.SubscribeHandler, opts.UnsubscribeHandler = g.subscribe, g.unsubscribe
		}
	}
	if _, declared := caps.Extensions[appsExtension]; !declared {
		for _, page := range found.pages["tools/list"] {
			if strings.Contains(string(page), `"resourceUri"`) {
				extensions := map[string]any{appsExtension: map[string]any{}}
				for k, v := range caps.Extensions {
					extensions[k] = v
				}
				caps.Extensions = extensions
				break
			}
		}
	}
	opts.SetCacheable = func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) {
		c.TTLMs, c.CacheScope = 60_000, "private" // the publisher knows whether the app is public
	}
	info := l.info
	if info.Name == "" {
		info.Name = "upstream"
	}
	server := mcp.NewServer(&info, opts)
	server.AddReceivingMiddleware(g.middleware)
	return server
}

// middleware answers what the upstream is asked for; the rest is the SDK's. A
// panic costs the one request: for an older client the SDK would let it end the
// process.
func (g *Gateway) middleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (res mcp.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				text := string(g.secrets.all(fmt.Append(nil, p)))
				g.opts.Log.ErrorContext(ctx, "panic in the gateway", "method", method, "panic", text, "stack", string(debug.Stack()))
				res, err = nil, unknown("the publisher failed at this request")
			}
		}()
		session, ok := req.GetSession().(*mcp.ServerSession)
		if !ok {
			return next(ctx, method, req)
		}
		switch method {
		case "tools/list", "prompts/list", "resources/list", "resources/templates/list":
			cursor := ""
			if p := req.GetParams(); p != nil {
				var o object
				if err := json.Unmarshal(encode(p), &o); err == nil { // null when the request has none
					cursor = o.text("cursor")
				}
			}
			body, err := g.lists.Load().page(method, cursor)
			if err != nil {
				return nil, err
			}
			return &result{body: body}, nil
		case methodCall, methodRead, methodPrompt, methodComplete:
			return g.serve(ctx, method, req, session)
		case "logging/setLevel":
			if p, ok := req.GetParams().(*mcp.SetLoggingLevelParams); ok {
				g.levels.set(session, string(p.Level), g.server)
				if l := g.link.Load(); l != nil {
					l.wants(string(p.Level))
				}
			}
		}
		return next(ctx, method, req)
	}
}

// client is whom one request came from.
type client struct {
	session   *mcp.ServerSession
	modern    bool
	caps      *mcp.ClientCapabilities // never nil
	token     any                     // of progress; nil for none
	principal string
}

// serve takes one request to the upstream and brings back the answer.
func (g *Gateway) serve(ctx context.Context, method string, req mcp.Request, session *mcp.ServerSession) (mcp.Result, error) {
	var params object
	if err := json.Unmarshal(encode(req.GetParams()), &params); err != nil || params == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params must be an object"}
	}
	meta := params.object("_meta")
	c := &client{session: session, caps: &mcp.ClientCapabilities{}, modern: isModern(meta.text(metaVersion))}
	if init := session.InitializeParams(); init != nil && init.Capabilities != nil {
		c.caps = init.Capabilities
	}
	if raw, ok := meta[progressToken]; ok {
		c.token = raw
	}
	token := auth.TokenInfoFromContext(ctx)
	if extra := req.GetExtra(); extra != nil {
		if token == nil {
			token = extra.TokenInfo
		}
		if c.modern && method == methodCall && extra.Header != nil {
			offer := g.lists.Load().tools[params.text("name")]
			if err := offer.params.check(extra.Header, params["arguments"]); err != nil {
				return nil, err
			}
		}
	}
	if token != nil {
		c.principal = token.UserID
	}
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }()
	default:
		return nil, notSent("the app is busy: %d calls are under way", cap(g.slots))
	}
	l := g.link.Load()
	if l == nil {
		return nil, notSent("the app's server is not running at the moment")
	}
	level := meta.text(metaLogLevel)
	if level != "" {
		l.wants(level)
	}
	body, err := g.round(ctx, l, method, params, meta, c)
	if err != nil {
		return nil, g.callerError(err, c.modern)
	}
	return g.newResult(method, g.answerFor(method, params.text("uri"), body), c.modern)
}

// answerFor takes credentials out of an answer, and names a corrected resource
// as the client did.
func (g *Gateway) answerFor(method, uri string, body json.RawMessage) json.RawMessage {
	body = g.secrets.result(body)
	from, corrected := g.lists.Load().asked[uri]
	if method != methodRead || !corrected && !g.opts.Private {
		return body
	}
	var o object
	var contents []object
	if json.Unmarshal(body, &o) != nil || json.Unmarshal(o["contents"], &contents) != nil {
		return body // not what the method gives: the client's to judge
	}
	if g.opts.Private {
		o.set("cacheScope", "private")
	}
	for _, item := range contents {
		if item.text("uri") == from {
			item.set("uri", uri)
		}
	}
	o.set("contents", contents)
	return encode(o)
}

// translate names what is asked for as the upstream does. The params are not
// changed.
func (g *Gateway) translate(method string, params object) (object, headerParams) {
	out := object{}
	for k, v := range params {
		out[k] = v
	}
	s := g.lists.Load()
	switch method {
	case methodCall:
		tool, ok := s.tools[params.text("name")]
		if ok {
			out.set("name", tool.from)
		}
		return out, tool.params
	case methodRead:
		out.set("uri", s.uri(params.text("uri")))
	case methodComplete:
		ref := params.object("ref")
		if uri := ref.text("uri"); uri != "" && s.uri(uri) != uri {
			ref.set("uri", s.uri(uri))
			out.set("ref", ref)
		}
	}
	return out, nil
}

// begin starts the upstream's call of one request.
func (g *Gateway) begin(ctx context.Context, l *link, method string, params, meta object, c *client) *call {
	out, headers := g.translate(method, params)
	hop := hopMeta(meta)
	if l.modern {
		for k, v := range ownMeta() {
			hop[k] = v
		}
		hop[metaCapabilities] = capabilities(c.caps)
		if level := g.levels.of(c.session); level != "" && !c.modern && l.caps.Logging != nil {
			hop.set(metaLogLevel, level) // each call says it in this revision
		}
		for _, key := range []string{metaCapabilities, metaClient, metaLogLevel} {
			if v, ok := meta[key]; ok {
				hop[key] = v
			}
		}
	} else {
		delete(out, "inputResponses")
		delete(out, "requestState")
	}
	delete(out, "_meta")
	if len(hop) > 0 {
		out.set("_meta", hop)
	}
	// The call has a life of its own: it may outlast this request (input.go).
	return l.start(context.WithoutCancel(ctx), &call{token: c.token != nil, who: c.principal, params: headers}, method, out)
}

// capabilities encodes what an older client has declared.
func capabilities(caps *mcp.ClientCapabilities) json.RawMessage {
	var o object
	if json.Unmarshal(encode(caps), &o) != nil {
		return json.RawMessage("{}")
	}
	delete(o, "roots") // the SDK writes it in any case
	if caps.RootsV2 != nil {
		o.set("roots", caps.RootsV2)
	}
	return encode(o)
}

// wait brings what the call says to the client, until it ends or asks. It ends
// with the client's context, and then the call does too (FO-25).
func (g *Gateway) wait(ctx context.Context, l *link, call *call, c *client) (question *message, err error) {
	silence := time.NewTimer(g.opts.CallTimeout)
	defer silence.Stop()
	for {
		select {
		case m := <-call.events:
			if call.took(m).ID != nil {
				return m, nil
			}
			c.tell(ctx, m)
			continue
		default:
		}
		select {
		case m := <-call.events:
			if call.took(m).ID != nil {
				return m, nil
			}
			c.tell(ctx, m)
		case <-call.done:
			for { // what came before the answer goes before it
				select {
				case m := <-call.events:
					if call.took(m).ID == nil {
						c.tell(ctx, m)
					}
					continue
				default:
				}
				return nil, call.err
			}
		case <-silence.C:
			left := g.opts.CallTimeout - time.Since(time.Unix(0, call.seen.Load()))
			if left > 0 {
				silence.Reset(left)
				continue
			}
			l.abandon(call, "no sign of life")
			return nil, unknown("the app's server gave no sign of life for %v, and the call was cancelled", g.opts.CallTimeout)
		case <-ctx.Done():
			l.abandon(call, "the client has gone")
			return nil, ctx.Err()
		}
	}
}

// tell passes a progress or log notification on.
func (c *client) tell(ctx context.Context, m *message) {
	switch m.Method {
	case noteProgress:
		var p mcp.ProgressNotificationParams
		if json.Unmarshal(m.Params, &p) == nil && c.token != nil {
			p.ProgressToken = c.token
			_ = c.session.NotifyProgress(ctx, &p) // a client that is gone ends ctx
		}
	case noteLog:
		var p struct {
			mcp.LoggingMessageParams
			Data json.RawMessage `json:"data"`
		}
		if json.Unmarshal(m.Params, &p) == nil {
			p.LoggingMessageParams.Data = p.Data
			_ = c.session.Log(ctx, &p.LoggingMessageParams) // the SDK knows the client's level
		}
	}
}

// callerError is the error that a client sees: the upstream's own without
// credentials, or a plain sentence.
func (g *Gateway) callerError(err error, modern bool) error {
	rpc, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		g.opts.Log.Warn("a call failed", "error", g.clean(err))
		return unknown("the app's server failed")
	}
	out := *rpc
	out.Message = string(g.secrets.all([]byte(rpc.Message)))
	if rpc.Data != nil {
		out.Data = g.secrets.data(rpc.Data)
	}
	if modern {
		out.Code = modernCode(rpc.Code)
	}
	return &out
}

// modernCode replaces codes that clients of 2026-07-28 never see (mcp P10).
func modernCode(code int64) int64 {
	switch code {
	case -32002: // resource not found
		return jsonrpc.CodeInvalidParams
	case mcp.CodeURLElicitationRequired, mcp.CodeHeaderMismatch, mcp.CodeUnsupportedProtocolVersion:
		// The last two are between the gateway and the upstream: the client's
		// own headers are right, or it would not have come this far.
		return jsonrpc.CodeInternalError
	}
	return code
}
