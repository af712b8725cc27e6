package check

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/openbot-build/openbot-go/publicnet"
)

// singleRequest lets one request pass and notes what came of it. All that the
// SDK would send after it stays here: the fallback to initialize, notes of
// cancellation, reconnections, the end of a session. More requests pass only as
// far as allow says.
type singleRequest struct {
	next http.RoundTripper // nil: that of net/http

	mu     sync.Mutex
	sent   bool
	left   int // requests that pass after the first
	status int
	header http.Header
	err    error
}

var errOneRequest = errors.New("a check sends one request")

// RoundTrip implements http.RoundTripper.
func (s *singleRequest) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	first := !s.sent
	s.sent = true
	pass := first || s.left > 0
	if !first && pass {
		s.left--
	}
	s.mu.Unlock()
	if !pass {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, errOneRequest
	}
	ctx, _ := publicnet.WithLimits(r.Context(), publicnet.Limits{MaxBytes: endpointBytes, Timeout: endpointTime})
	next := s.next
	if next == nil {
		next = http.DefaultTransport
	}
	resp, err := next.RoundTrip(r.WithContext(ctx))
	if !first {
		return resp, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err = err; err != nil {
		return nil, err
	}
	s.status, s.header = resp.StatusCode, resp.Header
	resp.Body = &notedBody{ReadCloser: resp.Body, note: s}
	return resp, nil
}

// maxRequests is what the four lists may take.
const maxRequests = 4 * maxPages

// allow lets n requests more pass.
func (s *singleRequest) allow(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = n
}

func (s *singleRequest) seen() (status int, header http.Header, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status, s.header, s.err
}

// notedBody keeps why a body ended early; the SDK keeps its text only.
type notedBody struct {
	io.ReadCloser
	note *singleRequest
}

func (b *notedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF { // io.Reader's contract is the bare value
		b.note.mu.Lock()
		b.note.err = err
		b.note.mu.Unlock()
	}
	return n, err
}
