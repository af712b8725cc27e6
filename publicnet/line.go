package publicnet

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"
)

// A request without a body, which is what reading documents takes, goes over a
// line: an HTTP/1.1 connection that the goroutine of the request itself writes
// to and reads from. http.Transport keeps two goroutines for each connection and
// makes one for each dial; their stacks and switches cost a crawler a third of
// what it spends on HTTP. Requests with a body may be answered while they are
// being sent and go through http.Transport.

const (
	maxHeader = 64 << 10 // octets of an answer's headers, informational answers included
	maxInform = 5        // informational answers (1xx) to one request
	idleTime  = 90 * time.Second
	quietTime = 5 * time.Millisecond // in which a kept line would show what has come on it
)

// errHeaders ends an answer with too large headers.
var errHeaders = fmt.Errorf("%w: its headers are over %d bytes", ErrTooLarge, maxHeader)

// line is one connection. It is used by one request at a time.
type line struct {
	conn   *tls.Conn
	below  *placedConn
	state  tls.ConnectionState
	in     *bufio.Reader
	header int64 // octets that may still be read; negative: no limit
	began  bool  // something of the present answer has come
	idle   *time.Timer
}

// Read is for in: it keeps the limit of headers.
func (l *line) Read(p []byte) (int, error) {
	if l.header == 0 {
		return 0, errHeaders
	}
	if l.header > 0 && int64(len(p)) > l.header {
		p = p[:l.header]
	}
	n, err := l.conn.Read(p)
	if n > 0 {
		l.began = true
	}
	if l.header > 0 {
		l.header -= int64(n)
	}
	return n, err
}

// quiet reports whether a kept line can carry a request. What has come on it
// since the last answer was not asked for: the end of the connection, a 408
// before it, or an answer that the next request would take for its own.
func (l *line) quiet() bool {
	wait := quietTime
	if _, ok := l.below.Conn.(syscall.Conn); !ok {
		wait = 1 // no socket: what has come is in memory
	}
	_ = l.conn.SetDeadline(time.Now().Add(wait))
	_, err := l.conn.Read(make([]byte, 1))
	_ = l.conn.SetDeadline(time.Time{})
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// close ends a line at once, in the middle of an answer for instance.
func (l *line) close() { _ = l.below.Close() }

// end takes leave of the other side (RFC 8446 section 6.1).
func (l *line) end() { _ = l.conn.Close() }

// lines are the connections of a client that wait for a request, one for each
// authority.
type lines struct {
	mu   sync.Mutex
	idle map[string]*line
}

func (s *lines) take(authority string) *line {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.idle[authority]
	if l != nil {
		delete(s.idle, authority)
		l.idle.Stop()
	}
	return l
}

func (s *lines) put(authority string, l *line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle[authority] != nil {
		l.end()
		return
	}
	if s.idle == nil {
		s.idle = make(map[string]*line)
	}
	s.idle[authority] = l
	l.idle = time.AfterFunc(idleTime, func() {
		s.mu.Lock()
		mine := s.idle[authority] == l
		if mine {
			delete(s.idle, authority)
		}
		s.mu.Unlock()
		if mine {
			l.end()
		}
	})
}

func (s *lines) closeIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for authority, l := range s.idle {
		l.idle.Stop()
		l.end()
		delete(s.idle, authority)
	}
}

var requestBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// ask makes a request without a body. A kept connection that the server had
// closed meanwhile is replaced by a new one, once.
func (t *transport) ask(c *call, req *http.Request) (*http.Response, error) {
	if err := context.Cause(c.ctx); err != nil {
		return nil, err
	}
	text := requestBuffers.Get().(*bytes.Buffer)
	defer requestBuffers.Put(text)
	text.Reset()
	if err := req.Write(text); err != nil {
		return nil, err
	}
	authority := req.URL.Host
	if l := t.lines.take(authority); l != nil {
		if err := c.again(t.network, l); err != nil {
			l.close()
			return nil, err
		}
		if l.quiet() {
			resp, err := t.exchange(c, l, req, text.Bytes())
			if err == nil || l.began || c.ctx.Err() != nil {
				return resp, err
			}
		} else {
			l.close()
		}
		c.leave()
	}
	conn, below, err := t.network.connect(c, req.URL.Hostname(), req.URL.Port())
	if err != nil {
		return nil, err
	}
	l := &line{conn: conn, below: below, state: conn.ConnectionState()}
	l.in = bufio.NewReader(l)
	c.hold(below.hold(nil))
	return t.exchange(c, l, req, text.Bytes())
}

// exchange sends a request and reads the head of its answer. On an error the
// line is closed.
func (t *transport) exchange(c *call, l *line, req *http.Request, text []byte) (*http.Response, error) {
	l.began, l.header = false, maxHeader
	stop := context.AfterFunc(c.ctx, l.close)
	resp, err := l.answer(req, text)
	if err != nil {
		stop()
		l.close()
		return nil, err
	}
	l.header, resp.TLS = -1, &l.state
	b := &lineBody{from: resp.Body, line: l, stop: stop}
	if !req.Close && !resp.Close && resp.StatusCode != http.StatusSwitchingProtocols {
		b.lines, b.authority = &t.lines, req.URL.Host
	}
	if resp.Body == http.NoBody {
		b.end(true)
	} else {
		resp.Body = b
	}
	return resp, nil
}

func (l *line) answer(req *http.Request, text []byte) (*http.Response, error) {
	if _, err := l.conn.Write(text); err != nil {
		return nil, err
	}
	if _, err := l.in.Peek(1); err != nil {
		if errors.Is(err, errCut) {
			err = io.EOF
		}
		return nil, err // ReadResponse would not tell no answer from half of one
	}
	for range maxInform + 1 {
		resp, err := http.ReadResponse(l.in, req)
		if err != nil {
			return nil, err
		}
		switch {
		case resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols:
			return resp, nil
		case resp.StatusCode < 100: // what follows is its body and no other answer
			return nil, fmt.Errorf("%w: status %d", ErrBadAnswer, resp.StatusCode)
		}
	}
	return nil, fmt.Errorf("%w: more than %d informational answers", ErrBadAnswer, maxInform)
}

// lineBody is the body of an answer on a line. Read to its end it leaves the
// line for the next request; closed before, it closes it.
type lineBody struct {
	from      io.ReadCloser
	line      *line
	stop      func() bool // lets the end of the call no longer close the line
	lines     *lines      // nil: the line is not used again
	authority string

	once sync.Once
}

func (b *lineBody) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if err != nil {
		b.end(errors.Is(err, io.EOF))
	}
	return n, err
}

func (b *lineBody) Close() error {
	b.end(false)
	return nil
}

func (b *lineBody) end(whole bool) {
	b.once.Do(func() {
		if !b.stop() { // the call has ended before the answer
			return
		}
		if whole && b.lines != nil && b.line.in.Buffered() == 0 {
			b.lines.put(b.authority, b.line)
			return
		}
		if whole {
			b.line.end()
			return
		}
		b.line.close()
	})
}
