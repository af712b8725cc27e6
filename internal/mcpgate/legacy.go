package mcpgate

import (
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// serveLegacy serves a message of an older revision. Sessions are bounded: each
// one is memory that a stranger makes the server keep.
func (g *Gate) serveLegacy(w http.ResponseWriter, r *http.Request, m *message) *fault {
	if r.Header.Get(headerSession) == "" && g.countSessions() >= g.opts.MaxSessions {
		w.Header().Set("Retry-After", "60")
		return refused(http.StatusServiceUnavailable, jsonrpc.CodeInternalError, "too many sessions are open")
	}
	g.through(g.legacy, w, r, m)
	return nil
}

// countSessions counts the server's sessions, whichever gate they came through,
// and forgets those of this one that have ended. A modern request has a session
// of its own, without an id, which ends with it.
func (g *Gate) countSessions() int {
	open := map[string]struct{}{}
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for s := range g.server.Sessions() {
		id := s.ID()
		if id == "" {
			continue
		}
		n++
		if _, own := g.sessions[id]; own {
			open[id] = struct{}{}
		}
	}
	g.sessions = open
	return n
}

// open notes a session that is being opened.
func (g *Gate) open(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sessions[id] = struct{}{}
}

// opened reports whether a session was opened through this gate.
func (g *Gate) opened(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, own := g.sessions[id]
	return own
}
