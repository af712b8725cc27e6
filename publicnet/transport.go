package publicnet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"syscall"

	"github.com/openbot-build/openbot-go/internal/weburl"
)

// transport is the client's way to the network: it checks and completes each
// request, keeps its time, and hands its answer out behind the limits.
type transport struct {
	network *Network
	lines   lines

	used sync.Mutex
	base *http.Transport // for requests with a body; made when first needed
}

// CloseIdleConnections is found by http.Client.
func (t *transport) CloseIdleConnections() {
	t.lines.closeIdle()
	t.used.Lock()
	defer t.used.Unlock()
	if t.base != nil {
		t.base.CloseIdleConnections()
	}
}

// full is the transport for requests with a body.
func (t *transport) full() *http.Transport {
	t.used.Lock()
	defer t.used.Unlock()
	if t.base == nil {
		t.base = t.network.newTransport()
	}
	return t.base
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	authority, err := t.network.checkTarget(req.URL)
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	call := t.network.newCall(req)
	out := req.Clone(call.ctx)
	out.URL.Host = authority
	out.Host = authority
	t.network.setHeaders(out.Header)

	var resp *http.Response
	if (req.Method == "" || req.Method == http.MethodGet || req.Method == http.MethodHead) && (req.Body == nil || req.Body == http.NoBody) {
		resp, err = t.ask(call, out)
	} else {
		resp, err = t.full().RoundTrip(call.traced(t.network, out))
	}
	if err != nil {
		err = call.explain(err)
		call.end()
		return nil, err
	}
	if err := call.receive(out, resp); err != nil {
		call.end() // before Close, which would read on in the hope of reuse
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// checkTarget checks the parts of a URL that decide where a request goes and
// gives the authority in checked form: what is dialled is what was judged.
func (n *Network) checkTarget(u *url.URL) (authority string, err error) {
	if u == nil || u.Host == "" {
		return "", &weburl.Error{Reason: weburl.BadInput, Message: "the request has no host"}
	}
	if u.User != nil {
		return "", &weburl.Error{Input: u.Redacted(), Reason: weburl.BadInput, Message: "an address must not hold a user name or password"}
	}
	if len(u.Host)+len(u.Path)+len(u.RawQuery)+len(u.Opaque) > weburl.MaxLen {
		return "", &weburl.Error{Input: u.Host, Reason: weburl.BadInput, Message: fmt.Sprintf("the address at %.100q is longer than %d octets", u.Host, weburl.MaxLen)}
	}
	checked, err := weburl.Parse(u.Scheme + "://" + u.Host)
	if err != nil {
		return "", err
	}
	return checked.Authority(), n.checkHost(checked)
}

// setHeaders says who asks, offers what can be decoded, and takes out what
// would tell strangers about other sites.
func (n *Network) setHeaders(h http.Header) {
	h.Set("User-Agent", n.opts.UserAgent)
	if n.opts.From != "" {
		h.Set("From", n.opts.From)
	}
	if h.Get("Accept-Encoding") == "" {
		h.Set("Accept-Encoding", "gzip")
	}
	h.Del("Referer")
	h.Del("Cookie")
}

// checkRedirect is the plain client's. Each hop goes through the same rules as
// a first request, and takes along nothing that was meant for another resource.
func (n *Network) checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > n.opts.MaxRedirects {
		return fmt.Errorf("%w: more than %d, the last one to %s", ErrTooManyRedirects, n.opts.MaxRedirects, req.URL.Redacted())
	}
	if _, err := n.checkTarget(req.URL); err != nil {
		return fmt.Errorf("follow redirect %d: %w", len(via), err)
	}
	for _, name := range []string{
		"Authorization", "Proxy-Authorization", "Cookie", "Referer", "Range",
		"If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since", "If-Range",
	} {
		req.Header.Del(name)
	}
	return nil
}

// call is one request under way.
type call struct {
	ctx       context.Context // of the request; the transport hands dials a context without its end
	cancel    context.CancelCauseFunc
	allowance *allowance
	limits    Limits // with the network's where the allowance has none
	lap       *lap

	mu    sync.Mutex
	place *place
	done  bool
}

type callKey struct{}

func callFrom(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// errExpired is the cause that ends a call whose time is up.
var errExpired = errors.New("the time limit was reached before the answer was complete")

func (n *Network) newCall(req *http.Request) *call {
	c := &call{allowance: allowanceFrom(req.Context())}
	if c.allowance == nil && req.Response != nil && req.Response.Request != nil {
		// A redirect that http.Client follows goes on with the first hop's time.
		if first := callFrom(req.Response.Request.Context()); first != nil {
			c.allowance = first.allowance
		}
	}
	if c.allowance == nil {
		c.allowance = &allowance{clock: &clock{}}
	}
	c.limits = c.allowance.limits
	if c.limits.MaxBytes <= 0 {
		c.limits.MaxBytes = n.opts.MaxBytes
	}
	if c.limits.Timeout <= 0 {
		c.limits.Timeout = n.opts.Timeout
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	c.cancel = cancel
	ctx = context.WithValue(ctx, callKey{}, c)
	c.ctx = ctx
	c.lap = c.allowance.clock.start(c.limits.Timeout, func() { cancel(errExpired) })
	return c
}

// traced makes http.Transport tell which connection it uses.
func (c *call) traced(n *Network, req *http.Request) *http.Request {
	if n.opts.Acquire == nil {
		return req
	}
	return req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { c.gotConn(n, info) },
	}))
}

// again waits for a place at the address of a kept connection.
func (c *call) again(n *Network, l *line) error {
	p, err := n.acquire(c.ctx, c, l.below.addr)
	if err != nil {
		return err
	}
	c.hold(l.below.hold(p))
	return nil
}

// hold takes over the place of the connection that the call uses.
func (c *call) hold(p *place) {
	c.mu.Lock()
	c.place = p
	done := c.done
	c.mu.Unlock()
	if done {
		p.free()
	}
}

// leave gives the place of a connection back that was of no use.
func (c *call) leave() {
	c.mu.Lock()
	held := c.place
	c.place = nil
	c.mu.Unlock()
	held.free()
}

// gotConn takes over the place of a new connection, or waits for one at the
// address of a kept connection.
func (c *call) gotConn(n *Network, info httptrace.GotConnInfo) {
	secure, ok := info.Conn.(*tls.Conn)
	if !ok {
		return
	}
	conn, ok := secure.NetConn().(*placedConn)
	if !ok {
		return
	}
	held := conn.hold(nil)
	if info.Reused {
		p, err := n.acquire(c.ctx, c, conn.addr)
		if err != nil {
			c.cancel(err)
			return
		}
		held = conn.hold(p)
	}
	c.hold(held)
}

// end gives back what the call holds. It may be called more than once.
func (c *call) end() {
	c.lap.end()
	c.mu.Lock()
	held := c.place
	c.done = true
	c.mu.Unlock()
	held.free()
	c.cancel(nil)
}

// explain puts the sentinel in front of an error of the transport or a body.
func (c *call) explain(err error) error {
	switch cause := context.Cause(c.ctx); {
	case cause == nil:
	case errors.Is(cause, errExpired):
		return fmt.Errorf("%w: no complete answer within %s", ErrTimeout, c.limits.Timeout)
	case errors.Is(cause, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", ErrTimeout, cause)
	default: // the caller's own end, or an error of Acquire
		return cause
	}
	for _, known := range []error{ErrNotPublic, ErrTooLarge, ErrBadAnswer, ErrDNS, ErrConnect, ErrTLS} {
		if errors.Is(err, known) {
			return err
		}
	}
	var network *net.OpError
	switch {
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrClosedPipe), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("%w: the connection broke: %w", ErrConnect, err)
	case strings.Contains(err.Error(), "headers exceeded"): // http.Transport has no value for it
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	default:
		return fmt.Errorf("%w: %w", ErrBadAnswer, err)
	}
}
