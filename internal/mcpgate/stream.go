package mcpgate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// stream is the response writer that stands before a handler. Once the answer
// is an event stream it keeps it alive, tells proxies not to hold it back, and
// frames what comes too late to be an answer of its own (FO-20; mcp S5, S7).
// A handler may use it as any http.ResponseWriter; event is for the gate's own
// answers. It is safe for concurrent use, except for Header.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	id      json.RawMessage    // of the request, for errors; nil for none
	opts    *Options           // KeepAlive, WriteTimeout
	cancel  context.CancelFunc // ends the handler when nobody reads any more
	header  http.Header        // what the handler sets
	session func(id string)    // told of a legacy session before the client is; nil tells nobody

	mu       sync.Mutex
	state    streamState
	deadline bool         // a write deadline is set
	sent     int          // octets
	boundary bool         // the last octets ended an event
	late     bytes.Buffer // an answer that came when the stream was already open
	err      error        // of the first failed write
	last     time.Time    // of the last write
	timer    *time.Timer
}

type streamState int

const (
	silent streamState = iota // nothing was sent
	plain                     // an answer in one piece
	events                    // an event stream
	ended                     // nothing may follow
)

var (
	errEnded = errors.New("the answer has ended")
	comment  = []byte(": \n\n")
)

// writePiece is how much may go out under one write deadline, and lateLimit how
// long a late answer may be.
const (
	writePiece = 64 << 10
	lateLimit  = 16 << 20
)

// newStream gives the writer for one answer. The server's own deadlines for a
// request end here: it has been read in full, and a tool or a stream may take
// longer. Not every writer has deadlines; then there is nothing to lift.
func newStream(w http.ResponseWriter, id json.RawMessage, opts *Options, cancel context.CancelFunc) *stream {
	s := &stream{w: w, control: http.NewResponseController(w), id: id, opts: opts, cancel: cancel, header: http.Header{}, boundary: true}
	_ = s.control.SetReadDeadline(time.Time{})
	_ = s.control.SetWriteDeadline(time.Time{})
	return s
}

// openAfter makes the answer an event stream if there is none after d. Until
// then an error can still be answered with its own status.
func (s *stream) openAfter(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(d, s.tick)
}

// tick writes a comment when nothing else was written for a while.
func (s *stream) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.state {
	case silent:
		s.open()
		return
	case events:
	default:
		return
	}
	rest := s.opts.KeepAlive - time.Since(s.last)
	if rest <= 0 {
		if s.boundary {
			_ = s.send(comment)
		}
		rest = s.opts.KeepAlive
	}
	if s.err == nil {
		s.timer.Reset(rest)
	}
}

// open begins the event stream, with a comment so that proxies pass on the
// headers. s.mu is held.
func (s *stream) open() {
	s.state = events
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	h.Del("Content-Length")
	h.Del("Content-Encoding")
	s.w.WriteHeader(http.StatusOK)
	_ = s.send(comment)
	if s.opts.KeepAlive > 0 && s.err == nil {
		if s.timer == nil {
			s.timer = time.AfterFunc(s.opts.KeepAlive, s.tick)
		} else {
			s.timer.Reset(s.opts.KeepAlive)
		}
	}
}

// send writes and flushes p. The deadline moves with each piece that gets
// through, so a slow reader is served and a stalled one is not (S14). s.mu is
// held.
func (s *stream) send(p []byte) error {
	if s.err != nil {
		return s.err
	}
	for piece := range pieces(p) {
		if s.opts.WriteTimeout > 0 {
			s.deadline = true
			_ = s.control.SetWriteDeadline(time.Now().Add(s.opts.WriteTimeout)) // not every writer has one
		}
		n, err := s.w.Write(piece)
		s.sent += n
		if err != nil {
			s.err = fmt.Errorf("write answer: %w", err)
		} else if s.state == events {
			if err := s.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
				s.err = fmt.Errorf("write answer: %w", err)
			}
		}
		if s.err != nil {
			s.cancel()
			return s.err
		}
	}
	s.last = time.Now()
	return nil
}

func pieces(p []byte) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(p) > writePiece {
			if !yield(p[:writePiece]) {
				return
			}
			p = p[writePiece:]
		}
		yield(p)
	}
}

// Header is what the handler sets; it is sent with the first octet of its
// answer.
func (s *stream) Header() http.Header { return s.header }

func (s *stream) WriteHeader(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(status)
}

// begin sends the handler's headers if nothing was sent. s.mu is held.
func (s *stream) begin(status int) {
	if s.state != silent || status < 200 {
		return
	}
	if id := s.header.Get(headerSession); id != "" && s.session != nil {
		s.session(id)
	}
	h := s.w.Header()
	for name, values := range s.header {
		switch {
		case name == "Vary": // on Origin it does already
			h[name] = append(h[name], values...)
		case !strings.HasPrefix(name, "Access-Control-"): // who may read is for the gate to say
			h[name] = values
		}
	}
	if status == http.StatusOK && isEvents(s.header) {
		s.open()
		return
	}
	s.state = plain
	s.w.WriteHeader(status)
}

func isEvents(h http.Header) bool {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && media == "text/event-stream"
}

func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(http.StatusOK)
	switch s.state {
	case ended:
		return 0, errEnded
	case events:
		if !isEvents(s.header) {
			if s.late.Len()+len(p) > lateLimit {
				return 0, fmt.Errorf("write answer: more than %d bytes after the stream began", lateLimit)
			}
			return s.late.Write(p)
		}
		s.boundary = bytes.HasSuffix(p, []byte("\n\n"))
	}
	if err := s.send(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush sends what was written, and the headers at least.
func (s *stream) Flush() { _ = s.FlushError() }

// FlushError is Flush with its error.
func (s *stream) FlushError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(http.StatusOK)
	if s.state != plain {
		return s.err // events are flushed as they are written
	}
	return s.control.Flush()
}

// Unwrap is for http.ResponseController.
func (s *stream) Unwrap() http.ResponseWriter { return s.w }

// event sends one message, which must be a JSON text, as an event.
func (s *stream) event(message []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sendEvent(message)
}

func (s *stream) sendEvent(message []byte) error {
	switch s.state {
	case silent:
		s.open()
	case events:
	default:
		return errEnded
	}
	if bytes.ContainsAny(message, "\r\n") { // between its tokens only: in a string they are escaped
		var line bytes.Buffer
		if err := json.Compact(&line, message); err != nil {
			return fmt.Errorf("write event: %w", err)
		}
		message = line.Bytes()
	}
	const head, tail = "event: message\ndata: ", "\n\n"
	text := make([]byte, 0, len(head)+len(message)+len(tail))
	text = append(append(append(text, head...), message...), tail...)
	return s.send(text)
}

// refuse answers with an error: with its own status while nothing was sent, as
// an event where it has none, or later.
func (s *stream) refuse(f *fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if streams := s.timer != nil; s.state == silent && !(streams && f.status == http.StatusOK) {
		s.state = plain
		refuse(s.w, s.id, f)
		return
	}
	_ = s.sendEvent(errorText(s.id, f.err)) // the client may be gone
}

// end sends a last message, if the stream takes one, and ends the handler.
func (s *stream) end(message []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == silent || s.state == events {
		_ = s.sendEvent(message) // the client may be gone
		s.state = ended
	}
	s.cancel()
}

// finish is called when the handler has returned. Nothing is written later.
func (s *stream) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.late.Len() > 0 && s.state == events {
		message := s.late.Bytes()
		if !strings.HasPrefix(s.header.Get("Content-Type"), "application/json") || !json.Valid(message) {
			message = errorText(s.id, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: strings.TrimSpace(string(message))})
		}
		_ = s.sendEvent(message) // the client may be gone
	}
	if s.state == plain && s.sent > 2<<10 {
		_ = s.control.Flush() // while the deadline holds
	}
	s.state = ended
	if s.deadline && s.err == nil {
		_ = s.control.SetWriteDeadline(time.Time{}) // the connection serves on
	}
}
