package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/internal/mcpgate"
)

const (
	modernVersion = mcpgate.Modern
	newestLegacy  = "2025-11-25"
)

// run keeps a connection to the upstream until ctx ends. The first success, or
// a fault that no later try can cure, goes to ready.
func (g *Gateway) run(ctx context.Context, ready chan<- error) {
	defer close(g.ended)
	client := newClient(g.opts.Client)
	defer func() {
		if g.opts.Client == nil {
			client.CloseIdleConnections()
		}
	}()
	pause := g.opts.pause
	for ctx.Err() == nil {
		up := time.Now()
		err := g.session(ctx, client, func() { ready <- nil })
		_, never := errors.AsType[*startError](err)
		_, died := errors.AsType[*endedError](err)
		final := never || died || isFinal(err) && (g.opts.FailFast || errors.Is(err, errNoServer) && len(g.opts.Command) > 0)
		if final && g.server == nil {
			ready <- err
			return
		}
		if ctx.Err() != nil {
			return // Close: no fault
		}
		g.setFault(err)
		if time.Since(up) > time.Minute {
			pause = g.opts.pause
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, time.Minute)
	}
}

// session is one connection from its start to its end; the error says why it
// ended.
func (g *Gateway) session(ctx context.Context, client *http.Client, first func()) error {
	life, cancel := context.WithCancel(ctx)
	starting, started := context.WithTimeout(life, g.opts.StartTimeout)
	defer started()
	l, s, err := g.connect(starting, life, client)
	if l == nil {
		cancel()
		return err
	}
	defer func() {
		g.link.CompareAndSwap(l, nil)
		l.fail(errors.New("the connection was closed"))
		cancel()
		s.wait()
		l.ch.close()
	}()
	var found *lists
	if err == nil {
		g.hear("")
		if found, err = g.load(starting, l); err != nil {
			err = fmt.Errorf("read the upstream's lists: %w", err)
		}
	}
	if ended, ok := errors.AsType[*endedError](l.failed()); ok && err != nil {
		return ended // it says more than what came of it
	}
	if err != nil {
		return err
	}
	if g.server == nil {
		g.info, g.guide, g.caps = l.info, l.guide, encode(l.caps)
		g.lists.Store(found)
		g.server = g.newServer(l, found)
		if w, ok := l.ch.(*web); ok && l.modern {
			g.modern = g.newForwarder(w)
		}
		g.link.Store(l)
		first()
	} else {
		g.warnOfChange(l)
		g.publish(found)
		g.link.Store(l)
	}
	g.setFault(nil)
	g.opts.Log.Info("upstream connected", "name", l.info.Name, "version", l.info.Version, "revision", l.version)
	return g.watch(life, l, s)
}

// warnOfChange says what a new connection tells otherwise than the first one did.
// Lists are taken over; what clients are told at their handshake, and the card,
// is made once.
func (g *Gateway) warnOfChange(l *link) {
	var what []string
	if !bytes.Equal(encode(l.caps), g.caps) {
		what = append(what, "capabilities")
	}
	if l.guide != g.guide {
		what = append(what, "instructions")
	}
	if l.info.Name != g.info.Name || l.info.Version != g.info.Version {
		what = append(what, "name or version")
	}
	if len(what) > 0 {
		g.opts.Log.Warn("the upstream says something else of itself than when it was first connected; clients are told the first until the publisher is started again",
			"changed", strings.Join(what, ", "), "name", l.info.Name, "version", l.info.Version)
	}
}

// connect opens a channel and agrees on a revision. A link that is not nil must
// be closed, also with an error.
func (g *Gateway) connect(ctx, life context.Context, client *http.Client) (*link, *signals, error) {
	l, s := newLink(nil), newSignals()
	l.debug = func(msg string, args ...any) {
		for i := range args {
			if err, ok := args[i].(error); ok {
				args[i] = string(g.secrets.all([]byte(err.Error())))
			}
		}
		g.opts.Log.Debug(msg, args...) //nolint:sloglint // constants of link.go
	}
	l.notify = func(m *message) { s.notify(m, g.opts.Log) }
	l.noise = g.hear
	if len(g.opts.Command) > 0 {
		if _, err := startProcess(&g.opts, l, g.secrets); err != nil {
			return nil, nil, err
		}
		// Nearly all commands speak older revisions, and some take a request
		// before initialize badly: what every era understands goes first.
		err := g.initialize(ctx, l)
		if rpc, ok := errors.AsType[*jsonrpc.Error](err); ok && l.failed() == nil {
			if err = g.discover(ctx, l); err != nil {
				err = fmt.Errorf("%w; and initialize gave %q", err, rpc.Message)
			}
		}
		return l, s, g.clean(err)
	}
	w := newWeb(&g.opts, client, l)
	err := g.discover(ctx, l)
	if err == nil || !isOlder(err) {
		return l, s, g.clean(err)
	}
	if err = g.initialize(ctx, l); err == nil {
		w.follow(life)
		return l, s, nil
	}
	if refused, ok := errors.AsType[*statusError](err); !ok || refused.status < 400 || refused.status >= 500 || isDenied(refused.status) {
		return l, s, g.clean(err)
	}
	e, failed := openEvents(ctx, life, w)
	if failed != nil {
		l.ch = w
		return l, s, g.clean(err) // of the newer transport, which tells more
	}
	l.ch = e
	return l, s, g.clean(g.initialize(ctx, l))
}

// errNoServer is something else than an MCP server.
var errNoServer = errors.New("this is no MCP server")

// isFinal tells whether a fault is there to stay until somebody mends it.
func isFinal(err error) bool {
	if refused, ok := errors.AsType[*statusError](err); ok {
		return refused.status < 500 && refused.status != http.StatusTooManyRequests
	}
	if rpc, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return rpc.Code == mcp.CodeUnsupportedProtocolVersion
	}
	name, isName := errors.AsType[*net.DNSError](err)
	_, isCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, isPlain := errors.AsType[tls.RecordHeaderError](err)
	return errors.Is(err, errNoServer) || errors.Is(err, syscall.ECONNREFUSED) || isName && name.IsNotFound || isCertificate || isPlain
}

// clean takes the credentials out of an error for the operator.
func (g *Gateway) clean(err error) error {
	if err == nil {
		return nil
	}
	if text := string(g.secrets.all([]byte(err.Error()))); text != err.Error() {
		return errors.New(text)
	}
	return err
}

// isOlder tells whether an answer to server/discover is that of an older server
// (mcp H2): neither a fault of the connection, nor a refusal of credentials, nor
// an error that only servers of 2026-07-28 know.
func isOlder(err error) bool {
	if refused, ok := errors.AsType[*statusError](err); ok {
		return refused.status >= 400 && refused.status < 500 && !isDenied(refused.status)
	}
	if rpc, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return rpc.Code != mcp.CodeHeaderMismatch && rpc.Code != mcp.CodeMissingRequiredClientCapabilities
	}
	return errors.Is(err, errNotModern)
}

func isDenied(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

var errNotModern = errors.New("the upstream does not serve " + modernVersion)

// hello is what both handshakes give.
type hello struct {
	SupportedVersions []string               `json:"supportedVersions"`
	ProtocolVersion   string                 `json:"protocolVersion"`
	Capabilities      mcp.ServerCapabilities `json:"capabilities"`
	ServerInfo        mcp.Implementation     `json:"serverInfo"`
	Instructions      string                 `json:"instructions"`
	Meta              struct {
		ServerInfo mcp.Implementation `json:"io.modelcontextprotocol/serverInfo"`
	} `json:"_meta"`
}

// discover makes the handshake of 2026-07-28.
func (g *Gateway) discover(ctx context.Context, l *link) error {
	l.modern, l.version = true, modernVersion
	h, err := askDiscover(ctx, l)
	if err == nil && !slices.Contains(h.SupportedVersions, modernVersion) {
		err = errNotModern
	}
	if err != nil {
		l.modern, l.version = false, ""
		return fmt.Errorf("ask the upstream what it serves: %w", err)
	}
	l.caps, l.info, l.guide = h.Capabilities, h.Meta.ServerInfo, h.Instructions
	return nil
}

func askDiscover(ctx context.Context, l *link) (h hello, err error) {
	body, err := l.ask(ctx, methodDiscover, nil)
	if err == nil {
		err = json.Unmarshal(body, &h)
	}
	return h, err
}

// initialize makes the handshake of older revisions.
func (g *Gateway) initialize(ctx context.Context, l *link) error {
	caps := object{
		"elicitation": json.RawMessage(`{"form":{},"url":{}}`),
		"sampling":    json.RawMessage(`{"tools":{}}`),
	}
	if g.opts.Roots {
		caps["roots"] = json.RawMessage("{}")
	}
	body, err := l.ask(ctx, "initialize", object{
		"protocolVersion": encode(newestLegacy), "capabilities": encode(caps), "clientInfo": encode(clientInfo),
	})
	if rpc, ok := errors.AsType[*jsonrpc.Error](err); ok && rpc == errForeign {
		err = fmt.Errorf("%w: it answers with something else than MCP messages", errNoServer)
	}
	if err != nil {
		return fmt.Errorf("initialize the upstream: %w", err)
	}
	var h hello
	if err := json.Unmarshal(body, &h); err != nil {
		return fmt.Errorf("initialize the upstream: %w", err)
	}
	if isModern(h.ProtocolVersion) || !slices.Contains(mcp.SupportedProtocolVersions(), h.ProtocolVersion) {
		return fmt.Errorf("initialize the upstream: it speaks revision %q only", h.ProtocolVersion)
	}
	l.version, l.caps, l.info, l.guide = h.ProtocolVersion, h.Capabilities, h.ServerInfo, h.Instructions
	return l.ch.send(ctx, &message{Version: "2.0", Method: "notifications/initialized"}, nil)
}
