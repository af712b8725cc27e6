package mcpgate

import (
	"context"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// callConn is the connection under the session of one call that the gate serves
// itself. Nothing is read from it: the gate hands the call to the server's
// handler. What the handler sends besides its result goes into the call's event
// stream, if it has one. It is its own transport.
type callConn struct {
	stream   *stream  // nil for an answer in one piece
	versions []string // what server/discover tells; nil is all
	done     chan struct{}
	once     sync.Once
}

// callKey marks the contexts of a call, with its connection.
type callKey struct{}

func (c *callConn) Connect(context.Context) (mcp.Connection, error) { return c, nil }

// SupportsProtocolVersion implements [mcp.ProtocolVersionSupporter].
func (c *callConn) SupportsProtocolVersion(version string) bool {
	if c.versions == nil {
		return true
	}
	for _, v := range c.versions {
		if v == version {
			return true
		}
	}
	return false
}

// rejected has the code by which the SDK knows that a message was not taken
// while the connection is good.
func rejected(msg string) error {
	return &jsonrpc.Error{Code: -32005, Message: "rejected by transport: " + msg}
}

// Write takes what a handler sends: notifications of its own call. Requests to
// the client do not exist in this revision (P1).
func (c *callConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	if r, ok := msg.(*jsonrpc.Request); !ok || r.IsCall() {
		return rejected("stateless servers cannot make requests")
	}
	if c.stream == nil || ctx.Value(callKey{}) != c {
		return rejected("undelivered message: this call has no event stream")
	}
	text, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	if err := c.stream.event(text); err != nil {
		return rejected("undelivered message: " + err.Error())
	}
	return nil
}

func (c *callConn) Read(context.Context) (jsonrpc.Message, error) {
	<-c.done
	return nil, io.EOF
}

func (c *callConn) Close() error {
	c.once.Do(func() { close(c.done) })
	return nil
}

func (c *callConn) SessionID() string { return "" }

// connect gives the server a session for one call. The caller closes it.
func (g *Gate) connect(ctx context.Context, s *stream, client *mcp.InitializeParams, logLevel string) (*mcp.ServerSession, context.Context, error) {
	conn := &callConn{stream: s, versions: g.versions, done: make(chan struct{})}
	ctx = context.WithValue(ctx, callKey{}, conn)
	session, err := g.server.Connect(ctx, conn, &mcp.ServerSessionOptions{State: &mcp.ServerSessionState{
		InitializeParams: client,
		LogLevel:         mcp.LoggingLevel(logLevel),
	}})
	return session, ctx, err
}

// handlerOf gives the server's outermost method handler, middleware included
// that was added since: a middleware that changes nothing is told it.
func handlerOf(server *mcp.Server) mcp.MethodHandler {
	var outermost mcp.MethodHandler
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		outermost = next
		return next
	})
	return outermost
}
