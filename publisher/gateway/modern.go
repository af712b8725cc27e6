package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/internal/mcpgate"
)

// forwarder answers requests of 2026-07-28 from an upstream of that revision:
// calls go there and back byte for byte. Discover, lists and listen streams are
// served by the gateway's own server, which has them ready.
type forwarder struct {
	g      *Gateway
	json   http.Handler
	stream http.Handler
}

func (g *Gateway) newForwarder(*web) http.Handler {
	same := func(*http.Request) *mcp.Server { return g.server }
	opts := mcp.StreamableHTTPOptions{
		Stateless: true, PropagateRequestCancellation: true, DisableLocalhostProtection: true,
		MaxRequestBodyBytes: -1, // the gate has read it, under its own limit
	}
	f := &forwarder{g: g, stream: mcp.NewStreamableHTTPHandler(same, &opts)}
	opts.JSONResponse = true
	f.json = mcp.NewStreamableHTTPHandler(same, &opts)
	return f
}

func (f *forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req, ok := mcpgate.RequestFrom(r.Context())
	l := f.g.link.Load()
	if !ok || l == nil {
		f.json.ServeHTTP(w, r)
		return
	}
	h, isWeb := l.ch.(*web)
	switch {
	case req.Method == methodListen:
		w.Header().Set("X-Accel-Buffering", "no")
		f.stream.ServeHTTP(w, r)
	case req.Method == methodDiscover || req.ID == nil:
		f.json.ServeHTTP(w, r)
	case f.g.lists.Load().pages[req.Method] != nil:
		var params object
		_ = json.Unmarshal(req.Params, &params) // the gate has looked
		body, err := f.g.lists.Load().page(req.Method, params.text("cursor"))
		f.write(w, req, body, err)
	case !isWeb || !l.modern: // the upstream has become an older one
		f.stream.ServeHTTP(w, r)
	default:
		if err := f.forward(w, r, req, l, h); err != nil && r.Context().Err() == nil {
			f.write(w, req, nil, err)
		}
	}
}

// write answers in one piece.
func (f *forwarder) write(w http.ResponseWriter, req *mcpgate.Request, res json.RawMessage, err error) {
	m := &message{Version: "2.0", ID: req.ID, Result: res}
	status := http.StatusOK
	if err != nil {
		var ok bool
		if m.Error, ok = errors.AsType[*jsonrpc.Error](f.g.callerError(err, false)); !ok { // no code of the upstream's
			m.Error = unknown("the call was cancelled")
		}
		switch m.Error.Code { // mcp P10
		case mcp.CodeHeaderMismatch, mcp.CodeMissingRequiredClientCapabilities, jsonrpc.CodeInvalidParams:
			status = http.StatusBadRequest
		case jsonrpc.CodeMethodNotFound:
			status = http.StatusNotFound
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encode(m)) // the client may be gone
}

// forward sends one request and copies its answer. An error means that nothing
// has been written yet.
func (f *forwarder) forward(w http.ResponseWriter, r *http.Request, req *mcpgate.Request, l *link, h *web) error {
	g := f.g
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }()
	default:
		return notSent("the app is busy: %d calls are under way", cap(g.slots))
	}
	body, name, values, err := f.request(r, req)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(r.Context()) // a client that leaves ends the upstream's call
	defer cancel(nil)
	silence := time.AfterFunc(g.opts.CallTimeout, func() {
		cancel(unknown("the app's server gave no sign of life for %v, and the call was cancelled", g.opts.CallTimeout))
	})
	defer silence.Stop()

	up, err := h.request(ctx, http.MethodPost, body)
	if err != nil {
		return err
	}
	modernHeaders(up.Header, req.Method, name, values)
	c := &call{id: string(req.ID)}
	resp, err := h.doNamed(up, c, name)
	if err == nil {
		defer resp.Body.Close()
		err = f.answer(ctx, w, resp, req, h, func() { silence.Reset(g.opts.CallTimeout) })
	}
	if err == nil {
		return nil
	}
	if late, ok := errors.AsType[*jsonrpc.Error](context.Cause(ctx)); ok {
		return late
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.explain(c, err)
}

// request gives the body and header values for the upstream: what the client
// sent, unless a corrected name is in it.
func (f *forwarder) request(r *http.Request, req *mcpgate.Request) (body []byte, name string, values map[string]string, err error) {
	body, name = req.Body, req.Name
	var params object
	s := f.g.lists.Load()
	tool, known := s.tools[req.Name]
	from := req.Name
	switch req.Method {
	case methodCall:
		if known {
			from = tool.from
		}
	case methodRead:
		from = s.uri(req.Name)
	case methodComplete:
		name, from = "", ""
	}
	if tool.params == nil && from == name && req.Method != methodComplete {
		return body, name, nil, nil
	}
	if err := json.Unmarshal(req.Params, &params); err != nil {
		return nil, "", nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params must be an object"}
	}
	if req.Method == methodCall {
		if err := tool.params.check(r.Header, params["arguments"]); err != nil {
			return nil, "", nil, err
		}
		values = tool.params.values(params["arguments"])
	}
	out, _ := f.g.translate(req.Method, params)
	if maps.EqualFunc(out, params, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		return body, from, values, nil
	}
	return encode(&message{Version: "2.0", ID: req.ID, Method: req.Method, Params: encode(out)}), from, values, nil
}

// answer copies a response, and checks that it is one to this request.
func (f *forwarder) answer(ctx context.Context, w http.ResponseWriter, resp *http.Response, req *mcpgate.Request, h *web, alive func()) error {
	switch kind := mediaType(resp); {
	case resp.StatusCode >= 300 && resp.StatusCode < 400, isDenied(resp.StatusCode):
		return &statusError{resp.StatusCode} // between the gateway and the upstream: the client is not to follow, or to sign in
	case kind == "application/json":
		body, err := io.ReadAll(io.LimitReader(resp.Body, h.max+1))
		switch {
		case int64(len(body)) > h.max:
			return tooLarge(h.max)
		case err != nil:
			return err
		}
		batch, err := parseMessages(body)
		if err != nil || len(batch) != 1 || batch[0].Method != "" {
			if resp.StatusCode >= 300 {
				return &statusError{resp.StatusCode}
			}
			return errForeign
		}
		body, err = f.message(body, batch[0], req)
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(resp.StatusCode)
		_, _ = w.Write(body) // the client may be gone
		return nil
	case kind == "text/event-stream" && resp.StatusCode == http.StatusOK:
		return f.copyEvents(ctx, w, resp.Body, req, h, alive)
	case resp.StatusCode >= 300:
		return &statusError{resp.StatusCode}
	}
	return errForeign
}

// message gives the bytes that the client gets of one message: the upstream's,
// but for credentials, corrected addresses and codes of older revisions.
func (f *forwarder) message(data []byte, m *message, req *mcpgate.Request) ([]byte, error) {
	if m.Method != "" {
		return f.g.secrets.result(data), nil
	}
	if m.Error != nil {
		rpc, _ := errors.AsType[*jsonrpc.Error](f.g.callerError(m.Error, true))
		return encode(&message{Version: "2.0", ID: req.ID, Error: rpc}), nil
	}
	if !bytes.Equal(m.ID, req.ID) {
		return nil, unknown("the app's server answered something else than what it was asked")
	}
	if _, corrected := f.g.lists.Load().asked[req.Name]; req.Method == methodRead && (corrected || f.g.opts.Private) {
		m.Result = f.g.answerFor(req.Method, req.Name, m.Result)
		return encode(m), nil
	}
	return f.g.secrets.result(data), nil
}

// copyEvents copies an event stream up to its answer, each event at once.
func (f *forwarder) copyEvents(ctx context.Context, w http.ResponseWriter, body io.Reader, req *mcpgate.Request, h *web, alive func()) error {
	out := &streamed{w: w, id: req.ID}
	s := stream{max: h.max, alive: alive}
	err := s.read(body, func(data []byte) error {
		batch, err := parseMessages(data)
		if err != nil || len(batch) != 1 {
			return errForeign
		}
		m := batch[0]
		if m.Method != "" && m.ID != nil || m.Method == noteLog && req.LogLevel == "" {
			return nil // neither has a place in this revision (mcp P1, P2)
		}
		if data, err = f.message(data, m, req); err != nil {
			return err
		}
		if err := out.event(data); err != nil {
			return err
		}
		if m.Method == "" {
			return errAnswered
		}
		return nil
	})
	if errors.Is(err, errAnswered) {
		return nil
	}
	if !out.begun {
		return err
	}
	rpc, ok := errors.AsType[*jsonrpc.Error](cmp.Or(context.Cause(ctx), err))
	if !ok {
		rpc = unknown("the connection to the app's server ended before it answered")
	}
	return out.fail(rpc)
}

// streamed writes events to a client.
type streamed struct {
	w     http.ResponseWriter
	id    json.RawMessage
	begun bool
}

func (s *streamed) event(data []byte) error {
	if !s.begun {
		s.begun = true
		header := s.w.Header()
		header.Set("Content-Type", "text/event-stream")
		header.Set("Cache-Control", "no-cache, no-transform")
		header.Set("X-Accel-Buffering", "no")
		s.w.WriteHeader(http.StatusOK)
	}
	var b bytes.Buffer
	b.WriteString("event: message\n")
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		b.WriteString("data: ")
		b.Write(line)
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	if _, err := s.w.Write(b.Bytes()); err != nil {
		return err
	}
	return http.NewResponseController(s.w).Flush()
}

// fail ends a stream that has begun with an error.
func (s *streamed) fail(rpc *jsonrpc.Error) error {
	return s.event(encode(&message{Version: "2.0", ID: s.id, Error: rpc}))
}
