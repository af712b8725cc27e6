package crawlercmd

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/openbot-build/openbot-go/crawl"
)

// screen is standard error: log lines, and on a terminal one line of progress
// below them that is written anew.
type screen struct {
	terminal bool

	mu   sync.Mutex
	w    io.Writer
	line string
}

func newScreen(env *Env) *screen {
	s := &screen{w: env.Stderr}
	if p, ok := s.w.(plainWriter); ok {
		s.w = p.w // the screen's own controls pass
	}
	if f, ok := s.w.(*os.File); ok && env.Getenv("TERM") != "dumb" {
		info, err := f.Stat()
		s.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return s
}

const clearLine = "\r\x1b[K"

// Write writes whole log lines above the progress.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := plainLines(p)
	if s.line != "" {
		text = clearLine + text + s.line
	}
	if _, err := io.WriteString(s.w, text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// status replaces the line of progress.
func (s *screen) status(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line = line
	fmt.Fprint(s.w, clearLine, crawl.Plain(line))
}

// done leaves the last progress standing.
func (s *screen) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line != "" {
		fmt.Fprintln(s.w)
	}
	s.line = ""
}

// plainWriter lets through only what cannot steer a terminal. Each Write is
// whole characters.
type plainWriter struct{ w io.Writer }

func (p plainWriter) Write(b []byte) (int, error) {
	if _, err := io.WriteString(p.w, plainLines(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// plainLines is crawl.Plain for text of several lines.
func plainLines(b []byte) string {
	lines := strings.Split(string(b), "\n")
	for i, l := range lines {
		lines[i] = crawl.Plain(l)
	}
	return strings.Join(lines, "\n")
}
