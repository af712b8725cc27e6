package crawlercmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/openbot-build/openbot-go/index"
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

// A store that failed comes with what to do about it, once.
func TestStoreFault(t *testing.T) {
	for _, condition := range []error{index.ErrLocked, index.ErrFull, index.ErrCorrupt} {
		var b bytes.Buffer
		code := end(t.Context(), &runCommand{}, fmt.Errorf("write visits: %w: what the store advises", condition), &b)
		if want := "crawler: " + condition.Error() + "; "; code != exitFailed || !strings.HasPrefix(b.String(), want) || strings.Count(b.String(), "\n") != 1 || strings.Contains(b.String(), "the store advises") {
			t.Errorf("%d, %q, want %q", code, &b, want)
		}
	}
	if storeFault(errors.New("something else")) != "" {
		t.Error("advice for nothing")
	}
}

type closer struct{ err error }

func (c closer) Close() error { return c.err }

// The disk that failed fails again at the end; that is told once.
func TestClosed(t *testing.T) {
	first, second := errors.New("the disk refused"), errors.New("the disk refused again")
	if got := closed(closer{second}, first); !errors.Is(got, first) || errors.Is(got, second) {
		t.Errorf("%v", got)
	}
	if got := closed(closer{second}, nil); !errors.Is(got, second) {
		t.Errorf("%v", got)
	}
	if got := closed(closer{}, nil); got != nil {
		t.Errorf("%v", got)
	}
}

// A stop is no failure of what works until it is stopped, and no success of
// what has an answer to give.
func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := fmt.Errorf("open index: %w", context.Canceled)
	for _, tt := range []struct {
		cmd  command
		code int
		text string
	}{
		{&runCommand{}, exitOK, ""},
		{&serveCommand{}, exitOK, ""},
		{&checkCommand{}, exitStopped, "crawler: stopped\n"},
		{&whyCommand{}, exitStopped, "crawler: stopped\n"},
		{&addCommand{}, exitStopped, "crawler: stopped\n"},
	} {
		var b bytes.Buffer
		if code := end(ctx, tt.cmd, err, &b); code != tt.code || b.String() != tt.text {
			t.Errorf("%T: %d, %q", tt.cmd, code, &b)
		}
	}
}

// Nothing that strangers wrote steers a terminal, on whatever way it is printed.
func TestPlainWriter(t *testing.T) {
	const hostile = "a\x1b[2J\x9b\u009b31m\x7f\u202e\r b\n"
	for name, write := range map[string]func(w io.Writer){
		"output":   func(w io.Writer) { fmt.Fprintf(plainWriter{w}, "%s", hostile) },
		"screen":   func(w io.Writer) { (&screen{w: w}).Write([]byte(hostile)) },
		"progress": func(w io.Writer) { (&screen{w: w}).status(strings.TrimSpace(hostile)) },
		"text log": func(w io.Writer) { newLogger(&screen{w: w}, "text", false).Info(hostile, "why", hostile) },
		"json log": func(w io.Writer) { newLogger(&screen{w: w}, "json", false).Info(hostile, "why", hostile) },
	} {
		var b bytes.Buffer
		write(&b)
		got := strings.ReplaceAll(b.String(), clearLine, "")
		if strings.ContainsAny(got, "\x1b\u009b\x7f\u202e\r") || !strings.Contains(got, "b") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Of many failed visits only some are logged, and how many were not.
func TestFailures(t *testing.T) {
	var b bytes.Buffer
	f := newFailures(newLogger(&b, "text", false), false)
	v := &index.Visit{Outcomes: []index.Outcome{{URL: "https://a.example/", Code: index.OutcomeListed}}}
	for range 100 {
		v.Outcomes = append(v.Outcomes, index.Outcome{URL: "https://b.example/", Code: index.OutcomeGone, Sentence: "It cannot be used now: gone."})
	}
	f.note(v)
	if n := strings.Count(b.String(), "\n"); n < 10 || n > 40 || strings.Contains(b.String(), "a.example") || !strings.Contains(b.String(), "outcome=gone") {
		t.Errorf("%d lines: %s", n, &b)
	}
	b.Reset()
	newFailures(newLogger(&b, "text", true), true).note(v)
	if b.Len() > 0 {
		t.Errorf("logged twice: %s", &b)
	}
}

func TestShellWord(t *testing.T) {
	for in, want := range map[string]string{"index.db": "index.db", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "https://x/?a&b": "'https://x/?a&b'"} {
		if got := shellWord(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func TestWebAddr(t *testing.T) {
	for in, want := range map[string]string{
		"127.0.0.1:8090": "http://127.0.0.1:8090/ this machine", "[::]:8090": "http://127.0.0.1:8090/ all interfaces",
		"0.0.0.0:80": "http://127.0.0.1:80/ all interfaces", "[::1]:1": "http://[::1]:1/ this machine", "192.0.2.7:80": "http://192.0.2.7:80/ 192.0.2.7",
	} {
		addr := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(in))
		if got := webAddr(addr) + " " + openTo(addr); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// The message for each way in which an address cannot be used.
func TestListenFaults(t *testing.T) {
	for errno, want := range map[error]string{
		syscall.EADDRINUSE: "another program uses this port; give another one", syscall.EACCES: "this user may not use the port; give one above 1023",
		syscall.EADDRNOTAVAIL: "this machine does not have that address", syscall.EINVAL: syscall.EINVAL.Error(),
	} {
		err := listenFault("--listen", "127.0.0.1:80", &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", errno)})
		if got := err.Error(); !strings.HasPrefix(got, "--listen 127.0.0.1:80: ") || !strings.Contains(got, want) || strings.Contains(got, "listen tcp") {
			t.Errorf("%v: %s", errno, got)
		}
	}
}
