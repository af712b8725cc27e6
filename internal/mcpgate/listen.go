package mcpgate

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// listen serves a subscriptions/listen stream through h. Streams are counted and
// capped, and a gate that closes ends each with a final result (P13, S13).
func (g *Gate) listen(h http.Handler, w http.ResponseWriter, r *http.Request, m *message) *fault {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	s := newStream(w, m.ID, &g.opts, cancel)
	if f := g.enter(s); f != nil {
		w.Header().Set("Retry-After", "60")
		return f
	}
	defer g.leave(s)
	defer s.finish()
	s.openAfter(g.opts.grace)
	h.ServeHTTP(s, again(ctx, r, m))
	return nil
}

func (g *Gate) enter(s *stream) *fault {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return refused(http.StatusServiceUnavailable, jsonrpc.CodeInternalError, "the server is shutting down")
	case len(g.listens) >= g.opts.MaxListens:
		return refused(http.StatusServiceUnavailable, jsonrpc.CodeInternalError, "too many streams are open")
	}
	g.listens[s] = struct{}{}
	g.ending.Add(1)
	return nil
}

func (g *Gate) leave(s *stream) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.listens, s)
	g.ending.Done()
}

// listenResult is the last message of a stream.
func (g *Gate) listenResult(id json.RawMessage) []byte {
	text, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  every           `json:"result"`
	}{"2.0", id, g.every(mcp.Meta{mcp.MetaKeySubscriptionID: id}, complete)})
	if err != nil { // all parts are JSON already
		return nil
	}
	return text
}
