package fakenet

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// dial connects to the Net's server if the address belongs to one of its hosts.
func (n *Net) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	refused := &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	dest, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	n.mu.Lock()
	n.dials = append(n.dials, dest)
	state := "refused"
	if h := n.byAddr[dest.Addr()]; h != nil && !n.closed {
		state = "ok"
		if s, ok := h.connect.take(); ok {
			state = s
		}
		if n.server == nil {
			n.serve()
		}
	}
	n.mu.Unlock()
	switch state {
	case "refused":
		return nil, refused
	case "timeout":
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-n.done:
			return nil, refused
		}
	}
	client, server := pipe()
	select {
	case n.conns <- &serverConn{Conn: server, addr: dest.Addr()}:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-n.done:
		return nil, refused
	}
}

// serve starts the server; it needs the lock. It runs from the first dial on,
// so that its goroutines belong to the bubble that dials.
func (n *Net) serve() {
	config := &tls.Config{GetConfigForClient: n.configFor}
	n.server = &http.Server{
		Handler:      http.HandlerFunc(n.answer),
		TLSNextProto: make(map[string]func(*http.Server, *tls.Conn, http.Handler)), // HTTP/1 only
		ErrorLog:     log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if secure, ok := c.(*tls.Conn); ok {
				c = secure.NetConn()
			}
			return context.WithValue(ctx, connKey{}, c)
		},
		ConnState: func(c net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				n.running.Add(1)
			case http.StateClosed, http.StateHijacked:
				n.running.Done()
			}
		},
	}
	server := n.server
	n.running.Go(func() { server.Serve(tls.NewListener(listener{n}, config)) })
}

// listener hands dialled connections to the server.
type listener struct{ net *Net }

func (l listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.net.conns:
		return c, nil
	case <-l.net.done:
		return nil, net.ErrClosed
	}
}

func (l listener) Close() error   { return nil }
func (l listener) Addr() net.Addr { return &net.TCPAddr{} }

// serverConn is the server's end of a connection to addr.
type serverConn struct {
	net.Conn
	addr netip.Addr
}

type connKey struct{}

// configFor is the server's half of SetTLS.
func (n *Net) configFor(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	n.mu.Lock()
	h := n.hosts[hello.ServerName]
	state := "ok"
	if h != nil {
		if s, ok := h.tls.take(); ok {
			state = s
		}
	}
	n.mu.Unlock()
	if h == nil {
		return nil, fmt.Errorf("no host %q", hello.ServerName)
	}
	config := &tls.Config{
		NextProtos:       []string{"http/1.1"},
		CurvePreferences: []tls.CurveID{tls.X25519}, // the cheapest handshake
	}
	name := hello.ServerName
	switch state {
	case "wrongname":
		name = "other." + name
	case "tls11":
		config.MinVersion, config.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	}
	cert, err := leaf(name, state)
	if err != nil {
		return nil, err
	}
	config.Certificates = []tls.Certificate{*cert}
	return config, nil
}

// answer is the server's handler.
func (n *Net) answer(w http.ResponseWriter, r *http.Request) {
	url := "https://" + r.Host + r.RequestURI
	if !strings.HasPrefix(r.RequestURI, "/") {
		url = r.RequestURI // absolute form
	}
	req := Request{Time: time.Now(), Method: r.Method, URL: url, Header: r.Header.Clone()}
	if c, ok := r.Context().Value(connKey{}).(*serverConn); ok {
		req.Addr = c.addr
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	n.mu.Lock()
	n.requests = append(n.requests, req)
	a, ok := n.answers[method+" "+url].take()
	handler := n.handlers[r.Host]
	n.mu.Unlock()
	switch {
	case ok:
		n.write(w, r, a)
	case handler != nil:
		handler.ServeHTTP(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (n *Net) write(w http.ResponseWriter, r *http.Request, a Answer) {
	if a.Wait > 0 && !n.sleep(r, a.Wait) {
		return
	}
	switch a.Fault {
	case Timeout:
		n.sleep(r, 1<<62)
		panic(http.ErrAbortHandler)
	case Reset:
		panic(http.ErrAbortHandler)
	}
	if a.Status == 0 {
		a.Status = http.StatusOK
	}
	header := w.Header()
	maps.Copy(header, a.Header.Clone())
	if a.Status == http.StatusOK && notModified(r, a.Header) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	switch types, given := a.Header["Content-Type"]; {
	case given && (len(types) == 0 || types[0] == ""):
		header["Content-Type"] = nil
	case !given && a.Body != "":
		header.Set("Content-Type", contentType(r.URL.Path, a.Body))
	case !given:
		header["Content-Type"] = nil
	}
	if bodyAllowed(a.Status) && header.Get("Content-Length") == "" && header.Get("Transfer-Encoding") == "" {
		header.Set("Content-Length", strconv.Itoa(len(a.Body)))
	}
	w.WriteHeader(a.Status)
	if r.Method == http.MethodHead || !bodyAllowed(a.Status) {
		return
	}
	switch a.Fault {
	case Cut:
		io.WriteString(w, a.Body[:len(a.Body)/2])
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case Slow:
		for i := range len(a.Body) {
			io.WriteString(w, a.Body[i:i+1])
			if err := http.NewResponseController(w).Flush(); err != nil || !n.sleep(r, time.Second) {
				return
			}
		}
	default:
		io.WriteString(w, a.Body)
	}
}

// sleep reports whether the time passed before the client or the Net was gone.
func (n *Net) sleep(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
	case <-n.done:
	}
	return false
}

func bodyAllowed(status int) bool { return status >= 200 && status != 204 && status != 304 }

// notModified compares validators as a server does: tags weakly, and dates for
// equality.
func notModified(r *http.Request, h http.Header) bool {
	if asked := r.Header.Get("If-None-Match"); asked != "" {
		tag := h.Get("ETag")
		if tag == "" {
			return false
		}
		for one := range strings.SplitSeq(asked, ",") {
			one = strings.TrimSpace(one)
			if one == "*" || strings.TrimPrefix(one, "W/") == strings.TrimPrefix(tag, "W/") {
				return true
			}
		}
		return false
	}
	asked := r.Header.Get("If-Modified-Since")
	return asked != "" && asked == h.Get("Last-Modified")
}

// contentType is the type that a sensible server gives to a body.
func contentType(path, body string) string {
	text := strings.TrimSpace(strings.TrimPrefix(body, "\uFEFF"))
	switch {
	case path == "/robots.txt":
		return "text/plain; charset=utf-8"
	case strings.HasPrefix(text, "{") && strings.Contains(text, `"entries"`):
		return "application/ai-catalog+json"
	case strings.HasPrefix(text, "{") && strings.Contains(text, `"$schema"`):
		return "application/mcp-server-card+json"
	case strings.HasPrefix(text, "{"), strings.HasPrefix(text, "["):
		return "application/json"
	case strings.HasPrefix(text, "<"):
		return "text/html; charset=utf-8"
	}
	return "text/plain; charset=utf-8"
}
