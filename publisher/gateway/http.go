package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxHeader bounds the headers of an answer.
const maxHeader = 64 << 10

// web is the channel of a Streamable HTTP endpoint.
type web struct {
	url    string
	client *http.Client
	header http.Header
	max    int64
	link   *link

	work sync.WaitGroup // streams that end with the context they were given

	mu      sync.Mutex
	session string // Mcp-Session-Id of older revisions
}

// checkHTTP refuses an address or a header that cannot work.
func checkHTTP(o *Options) error {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("the upstream's URL must be absolute, http or https") // without the URL: it may hold a secret
	}
	for name := range o.Header {
		switch name := http.CanonicalHeaderKey(name); {
		case strings.HasPrefix(name, "Mcp-"):
			return fmt.Errorf("the upstream's header %s belongs to the transport", name)
		default:
			switch name {
			case "Accept", "Content-Type", "Content-Length", "Host", "Last-Event-Id", "Connection", "Transfer-Encoding",
				"Idempotency-Key", "X-Idempotency-Key": // with the last two net/http repeats a POST by itself (D23)
				return fmt.Errorf("the upstream's header %s belongs to the transport", name)
			}
		}
	}
	return nil
}

// newClient gives Options.Client, or one of our own. Redirects stay on the
// origin that the credentials are for.
func newClient(given *http.Client) *http.Client {
	c := http.Client{}
	if given != nil {
		c = *given
	} else {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxResponseHeaderBytes = maxHeader
		t.MaxIdleConnsPerHost = 16
		t.DialContext = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext
		c.Transport = t
	}
	if c.CheckRedirect == nil {
		c.CheckRedirect = func(req *http.Request, via []*http.Request) error {
			first := via[0]
			if len(via) > 5 || req.URL.Scheme != first.URL.Scheme || req.URL.Host != first.URL.Host || req.Method != first.Method {
				return http.ErrUseLastResponse
			}
			return nil
		}
	}
	return &c
}

func newWeb(o *Options, client *http.Client, l *link) *web {
	h := &web{url: o.URL, client: client, header: o.Header, max: o.MaxResult, link: l}
	l.ch = h
	return h
}

func (h *web) perCall() bool { return true }

// close ends an older revision's session, and waits for the streams, whose
// context has ended by now.
func (h *web) close() {
	if id := h.sessionID(); id != "" {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if req, err := h.request(ctx, http.MethodDelete, nil); err == nil {
			if resp, err := h.client.Do(req); err == nil {
				_ = resp.Body.Close() // many servers refuse this; the session ends in time
			}
		}
	}
	h.work.Wait()
}

func (h *web) sessionID() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.session
}

// request prepares a request with the upstream's credentials and nothing of a
// client's.
func (h *web) request(ctx context.Context, method string, body []byte) (*http.Request, error) {
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, h.url, r)
	if err != nil {
		return nil, errors.New("the upstream's address cannot be used")
	}
	for name, values := range h.header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
	} else {
		req.Header.Set("Accept", "text/event-stream")
	}
	if h.link.version != "" {
		req.Header.Set("MCP-Protocol-Version", h.link.version)
	}
	if id := h.sessionID(); id != "" && !h.link.modern {
		req.Header.Set("Mcp-Session-Id", id)
	}
	return req, nil
}

// do sends a request. The error has no address in it.
func (h *web) do(req *http.Request, c *call) (*http.Response, error) {
	if c != nil {
		trace := &httptrace.ClientTrace{WroteHeaders: func() { h.link.markSent(c) }}
		req = req.WithContext(httptrace.WithClientTrace(req.Context(), trace))
	}
	resp, err := h.client.Do(req)
	if fault, ok := errors.AsType[*url.Error](err); ok {
		err = fault.Err
	}
	return resp, err
}

// modernHeaders sets the headers of revision 2026-07-28 (mcp P7, P8).
func modernHeaders(header http.Header, method, name string, params map[string]string) {
	header.Set("Mcp-Method", method)
	if name != "" {
		header.Set("Mcp-Name", headerValue(name))
	}
	for k, v := range params {
		header.Set("Mcp-Param-"+k, headerValue(v))
	}
}

func (h *web) send(ctx context.Context, msg *message, c *call) error {
	req, err := h.request(ctx, http.MethodPost, encode(msg))
	if err != nil {
		return err
	}
	name := ""
	if h.link.modern && msg.Method != "" {
		var p struct {
			Name, URI string
			Arguments json.RawMessage
		}
		_ = json.Unmarshal(msg.Params, &p) // ours
		var params map[string]string
		if c != nil {
			params = c.params.values(p.Arguments)
		}
		switch msg.Method {
		case methodRead:
			name = p.URI
		case methodCall, methodPrompt:
			name = p.Name
		}
		modernHeaders(req.Header, msg.Method, name, params)
	}
	resp, err := h.doNamed(req, c, name)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound && h.sessionID() != "" {
		if c != nil {
			h.link.finish(c, nil, &statusError{resp.StatusCode}) // refused: this call has not run
		}
		h.link.fail(errors.New("the upstream has ended the session"))
		return &statusError{resp.StatusCode}
	}
	if c == nil {
		_, _ = io.CopyN(io.Discard, resp.Body, maxHeader) // so that the connection can be used again
		if resp.StatusCode >= 300 {
			return &statusError{resp.StatusCode}
		}
		return nil
	}
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" && msg.Method == "initialize" {
		h.mu.Lock()
		h.session = id
		h.mu.Unlock()
	}
	switch kind := mediaType(resp); {
	case kind == "application/json" && resp.StatusCode != http.StatusAccepted:
		return h.readJSON(resp, c)
	case kind == "text/event-stream" && resp.StatusCode == http.StatusOK:
		return h.readCall(ctx, resp.Body, c)
	case resp.StatusCode >= 300:
		return &statusError{resp.StatusCode}
	}
	return errForeign
}

// errForeign is not changed by anybody.
var errForeign = unknown("the app's server answered with something that is no MCP message")

func mediaType(resp *http.Response) string {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind
}

// readJSON reads the one answer of a call, of a bounded size (C3).
func (h *web) readJSON(resp *http.Response, c *call) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, h.max+1))
	switch {
	case int64(len(body)) > h.max:
		return tooLarge(h.max)
	case err != nil:
		return err
	}
	batch, err := parseMessages(body)
	if err != nil {
		if resp.StatusCode >= 300 {
			return &statusError{resp.StatusCode}
		}
		return errForeign
	}
	h.deliver(batch, c)
	if !c.ended() {
		return unknown("the app's server answered something else than what it was asked")
	}
	return nil
}

// deliver hands over messages that came as part of a call. An error about the
// request as a whole has no id.
func (h *web) deliver(batch []*message, c *call) {
	for _, m := range batch {
		if m.Method == "" && m.Error != nil && (len(m.ID) == 0 || string(m.ID) == "null") {
			m.ID = json.RawMessage(c.id)
		}
		if m.Method == "" && string(m.ID) != c.id {
			continue // another call's answer does not come here
		}
		h.link.receive(m, c)
	}
}

// readCall reads the event stream of one call to its answer. An older server
// may end the stream before that and be asked for the rest, which repeats
// nothing.
func (h *web) readCall(ctx context.Context, body io.Reader, c *call) error {
	s := stream{max: h.max, alive: c.touch}
	for tries := 0; ; tries++ {
		before := s.lastID
		err := s.read(body, func(data []byte) error {
			batch, err := parseMessages(data)
			if err != nil {
				return errForeign
			}
			h.deliver(batch, c)
			if c.ended() {
				return errAnswered
			}
			return nil
		})
		if errors.Is(err, errAnswered) {
			drain(ctx, body, c.cancel)
			return nil
		}
		if s.lastID != before {
			tries = 0
		}
		if rpc, ok := errors.AsType[*jsonrpc.Error](err); ok || s.lastID == "" || h.link.modern || tries == 5 {
			if ok {
				return rpc
			}
			return errors.Join(io.ErrUnexpectedEOF, err)
		}
		resp, err := h.resume(ctx, &s)
		if err != nil {
			return err
		}
		defer resp.Body.Close() //nolint:gocritic // a few at most, and they are short
		body = resp.Body
	}
}

var errAnswered = errors.New("answered")

// drain reads the end of a stream that holds no more, so that its connection
// can be used again.
func drain(ctx context.Context, body io.Reader, cancel context.CancelFunc) {
	late := time.AfterFunc(200*time.Millisecond, cancel)
	defer late.Stop()
	if ctx.Err() == nil {
		_, _ = io.CopyN(io.Discard, body, 4<<10)
	}
}

// resume asks for what follows the last event that has come.
func (h *web) resume(ctx context.Context, s *stream) (*http.Response, error) {
	select {
	case <-time.After(s.pause()):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	req, err := h.request(ctx, http.MethodGet, nil)
	if err != nil {
		return nil, err
	}
	if s.lastID != "" {
		req.Header.Set("Last-Event-ID", s.lastID)
	}
	resp, err := h.do(req, nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK || mediaType(resp) != "text/event-stream" {
		_ = resp.Body.Close()
		return nil, &statusError{resp.StatusCode}
	}
	return resp, nil
}

// follow keeps the stream of an older server's own messages open.
func (h *web) follow(ctx context.Context) {
	h.work.Go(func() {
		s := stream{max: h.max, retry: time.Millisecond}
		for ctx.Err() == nil {
			resp, err := h.resume(ctx, &s)
			if refused, ok := errors.AsType[*statusError](err); ok && refused.status < 500 {
				if refused.status == http.StatusNotFound && h.sessionID() != "" {
					h.link.fail(errors.New("the upstream has ended the session"))
				}
				return // it has none
			}
			if err == nil {
				_ = s.read(resp.Body, func(data []byte) error { // the end of a stream is no fault
					batch, err := parseMessages(data)
					for _, m := range batch {
						h.link.receive(m, nil)
					}
					return err
				})
				_ = resp.Body.Close()
			}
			s.retry = max(s.retry, time.Second)
		}
	})
}

// statusError is an HTTP answer that is no MCP message.
type statusError struct{ status int }

func (e *statusError) Error() string {
	return fmt.Sprintf("the upstream answered with HTTP status %d", e.status)
}

// explain tells a caller. What a server refuses with these statuses it has not
// run (D23, mcp H4).
func (e *statusError) explain() *jsonrpc.Error {
	switch {
	case e.status == http.StatusUnauthorized || e.status == http.StatusForbidden:
		return notSent("the app's server refuses its publisher, who has to renew the access")
	case e.status >= 300 && e.status < 500:
		return notSent("the app's server refused the request (HTTP status %d)", e.status)
	}
	return unknown("the app's server failed (HTTP status %d)", e.status)
}
