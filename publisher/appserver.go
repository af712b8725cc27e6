package publisher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/card"
)

// uiExtension names MCP Apps among a server's extensions.
const uiExtension = "io.modelcontextprotocol/ui"

// NewServer makes the server of an app that is written in Go: [mcp.NewServer]
// with the card's name, title and version, so that both tell hosts the same,
// and with what a published app wants:
//
//   - the card's description as instructions, unless opts has some, so that it
//     is known behind a gateway too;
//   - no logging capability unless opts asks for it; it is deprecated;
//   - the MCP Apps extension, for views;
//   - answers to a request with an access token are marked as private, whatever
//     opts.SetCacheable says: they may differ by user (mcp P14);
//   - a panic in a handler is logged to opts.Logger and answered as an internal
//     error. Without a logger nobody would see it, so it ends the program.
//
// opts may be nil and is copied. Errors name the option at fault. A server made
// by mcp.NewServer can be published as well.
func NewServer(c *card.Card, opts *mcp.ServerOptions) (*mcp.Server, error) {
	if c == nil || c.Name == "" || c.Version == "" {
		return nil, errors.New("new server: the card needs a name and a version")
	}
	var o mcp.ServerOptions
	if opts != nil {
		o = *opts
	}
	switch {
	case o.PageSize < 0:
		return nil, fmt.Errorf("new server: PageSize %d is negative", o.PageSize)
	case (o.SubscribeHandler == nil) != (o.UnsubscribeHandler == nil):
		return nil, errors.New("new server: SubscribeHandler and UnsubscribeHandler need each other")
	}
	for _, v := range o.SupportedProtocolVersions {
		if !slices.Contains(mcp.SupportedProtocolVersions(), v) {
			return nil, fmt.Errorf("new server: SupportedProtocolVersions: %q is not spoken", v)
		}
	}
	caps := mcp.ServerCapabilities{}
	if o.Capabilities != nil {
		caps = *o.Capabilities
	}
	caps.Extensions = maps.Clone(caps.Extensions)
	if _, given := caps.Extensions[uiExtension]; !given {
		caps.AddExtension(uiExtension, nil)
	}
	o.Capabilities = &caps
	if o.Instructions == "" {
		o.Instructions = c.Description
	}
	next := o.SetCacheable
	o.SetCacheable = func(ctx context.Context, r mcp.Request, c *mcp.Cacheable) {
		if next != nil {
			next(ctx, r, c)
		}
		if hasToken(r) {
			c.CacheScope = "private"
		}
	}
	// No more than that: it is in the _meta of every result.
	s := mcp.NewServer(&mcp.Implementation{Name: c.Name, Title: c.Title, Version: c.Version}, &o)
	if o.Logger != nil {
		s.AddReceivingMiddleware(logPanics(o.Logger))
	}
	return s, nil
}

// logPanics keeps one handler's panic from ending the program with all apps.
func logPanics(log *slog.Logger) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (res mcp.Result, err error) {
			defer func() {
				if p := recover(); p != nil {
					log.LogAttrs(ctx, slog.LevelError, "handler panicked",
						slog.String("method", method), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
					res, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
				}
			}()
			return next(ctx, method, r)
		}
	}
}

// hasToken reports whether a request came with an access token.
func hasToken(r mcp.Request) bool {
	extra := r.GetExtra()
	return extra != nil && extra.TokenInfo != nil
}

// User gives whom a request is for: the UserID of its access token, "" for
// anybody. A tool that writes asks this first (OB-54).
func User(r mcp.Request) string {
	if !hasToken(r) {
		return ""
	}
	return r.GetExtra().TokenInfo.UserID
}
