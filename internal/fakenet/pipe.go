package fakenet

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipe gives the two ends of a connection with a buffer each way, as sockets
// have. net.Pipe has none, and TLS deadlocks on it when one side sends an alert
// while the other still writes.
func pipe() (client, server net.Conn) {
	up, down := newStream(), newStream()
	return &pipeConn{in: down, out: up}, &pipeConn{in: up, out: down}
}

const streamBuffer = 64 << 10

// stream is one direction.
type stream struct {
	mu      sync.Mutex
	changed sync.Cond
	buf     []byte
	closed  bool // by either side: no more is written, what is there can be read
	gone    bool // the reader has closed
	read    deadline
	write   deadline
}

func newStream() *stream {
	s := new(stream)
	s.changed.L = &s.mu
	return s
}

// deadline wakes the waiters of a stream when its time has come.
type deadline struct {
	timer  *time.Timer
	passed bool
}

// set needs no lock held.
func (s *stream) set(d *deadline, t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.passed = false
	if !t.IsZero() {
		wait := time.Until(t)
		if wait <= 0 {
			d.passed = true
		} else {
			var timer *time.Timer
			timer = time.AfterFunc(wait, func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				if d.timer == timer {
					d.passed = true
					s.changed.Broadcast()
				}
			})
			d.timer = timer
		}
	}
	s.changed.Broadcast()
}

func (s *stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.gone:
			return 0, net.ErrClosed
		case s.read.passed:
			return 0, os.ErrDeadlineExceeded
		case len(s.buf) > 0:
			n := copy(p, s.buf)
			s.buf = s.buf[:copy(s.buf, s.buf[n:])]
			s.changed.Broadcast()
			return n, nil
		case s.closed:
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		s.changed.Wait()
	}
}

func (s *stream) Write(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(p) > 0 {
		switch room := streamBuffer - len(s.buf); {
		case s.closed:
			return n, io.ErrClosedPipe
		case s.write.passed:
			return n, os.ErrDeadlineExceeded
		case room > 0:
			k := min(room, len(p))
			s.buf = append(s.buf, p[:k]...)
			n, p = n+k, p[k:]
			s.changed.Broadcast()
		default:
			s.changed.Wait()
		}
	}
	return n, nil
}

// close ends the stream; by the reader, what is in it is lost.
func (s *stream) close(reader bool) {
	s.set(&s.read, time.Time{})
	s.set(&s.write, time.Time{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.gone = s.gone || reader
	s.changed.Broadcast()
}

type pipeConn struct{ in, out *stream }

func (c *pipeConn) Read(p []byte) (int, error)  { return c.in.Read(p) }
func (c *pipeConn) Write(p []byte) (int, error) { return c.out.Write(p) }

func (c *pipeConn) Close() error {
	c.in.close(true)
	c.out.close(false)
	return nil
}

func (c *pipeConn) LocalAddr() net.Addr  { return &net.TCPAddr{} }
func (c *pipeConn) RemoteAddr() net.Addr { return &net.TCPAddr{} }

func (c *pipeConn) SetDeadline(t time.Time) error {
	c.in.set(&c.in.read, t)
	c.out.set(&c.out.write, t)
	return nil
}

func (c *pipeConn) SetReadDeadline(t time.Time) error {
	c.in.set(&c.in.read, t)
	return nil
}

func (c *pipeConn) SetWriteDeadline(t time.Time) error {
	c.out.set(&c.out.write, t)
	return nil
}
