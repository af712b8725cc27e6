package crawlercmd

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// On a terminal the progress is one line below the log.
func TestScreen(t *testing.T) {
	var b bytes.Buffer
	s := &screen{terminal: true, w: &b}
	io.WriteString(s, "first\n")
	s.status("1 visit")
	io.WriteString(s, "second\n")
	s.status("2 visits")
	s.done()
	if got, want := strings.ReplaceAll(b.String(), clearLine, "<"), "first\n<1 visit<second\n1 visit<2 visits\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if s := newScreen(&Env{Stderr: &b, Getenv: func(string) string { return "" }}); s.terminal {
		t.Error("a buffer was taken for a terminal")
	}
}
