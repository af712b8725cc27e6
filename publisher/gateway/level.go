package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// wants lowers the level of the upstream's log to what a client asks for. It is
// never raised: clients that want less are filtered on their own hop.
func (l *link) wants(level string) {
	if level == "" || l.modern || l.caps.Logging == nil {
		return
	}
	l.mu.Lock()
	lower := levels[level] > 0 && (l.level == "" || levels[level] < levels[l.level])
	if lower {
		l.level = level
	}
	l.mu.Unlock()
	if !lower {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := l.ask(ctx, "logging/setLevel", object{"level": encode(level)}); err != nil {
		l.debug("the upstream refused a log level", "error", err)
	}
}

var levels = map[string]int{
	"debug": 1, "info": 2, "notice": 3, "warning": 4, "error": 5, "critical": 6, "alert": 7, "emergency": 8,
}

// sessionLevels are the levels of the log that older clients have asked for.
type sessionLevels struct {
	mu sync.Mutex
	by map[*mcp.ServerSession]string
}

// set notes a level, and forgets the sessions of server that have ended.
func (s *sessionLevels) set(session *mcp.ServerSession, level string, server *mcp.Server) {
	open := map[*mcp.ServerSession]string{session: level}
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := range server.Sessions() {
		if level, ok := s.by[other]; ok && other != session {
			open[other] = level
		}
	}
	s.by = open
}

func (s *sessionLevels) of(session *mcp.ServerSession) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by[session]
}
