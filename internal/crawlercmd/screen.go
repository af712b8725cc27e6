package crawlercmd

import (
	"fmt"
	"io"
	"os"
	"sync"
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
	if f, ok := env.Stderr.(*os.File); ok && env.Getenv("TERM") != "dumb" {
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
	if s.line == "" {
		return s.w.Write(p)
	}
	if _, err := fmt.Fprintf(s.w, "%s%s%s", clearLine, p, s.line); err != nil {
		return 0, err
	}
	return len(p), nil
}

// status replaces the line of progress.
func (s *screen) status(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line = line
	fmt.Fprint(s.w, clearLine, line)
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
